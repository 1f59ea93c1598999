#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strict mode, message by message: which gates a client may bring along, when they open, and that whoever writes to
them, or shows others, gets nowhere."""
import array
import contextlib
import ctypes
import errno as E
import fcntl
import mmap
import os
import signal
import socket
import struct
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import PATIENCE, Fermata, Skip, check, eventually, main, seldom_sanitized
from strict_daemon import BOARD_SIZE, BOARD_VERSION, SLOTS, SLOTS_AT, SLOT_SIZE, STRICT, Managed, kept

MAGIC, VERSION = 0x4D524546, 4
HELLO, WELCOME, REFUSED, QUEUE, QUEUE_GONE, BELL, GATES = 1, 2, 3, 6, 7, 9, 11
GATES_SIZE, GATES_AT, GATE_SIZE = 64 * (1 + SLOTS), 64, 64
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
LEFT, AWAITED = 1, 10  # seconds: gates of who leaves; of who does not come back
NOBODY = 65534

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mprotect.argtypes = LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def board():
    fd = os.memfd_create("board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, BOARD_SIZE)
    os.pwrite(fd, struct.pack("=IHHI", 0x444F4246, BOARD_VERSION, SLOTS, BOARD_SIZE), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


class Client:
    def __init__(self, directory, show=(), version=VERSION):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(os.path.join(directory, "client.sock"))
        self.version, self.page, self.refused = version, None, None
        for fd in show:
            self.say(GATES, fds=[fd])
        self.board = board()
        self.say(HELLO, struct.pack("=II16s", BOARD_VERSION, BOARD_SIZE, b"test"), [self.board])
        self.joined = False
        while not self.joined and self.refused is None:
            kind = self.hear()
            self.joined = kind == WELCOME
            if kind is None:
                break

    def say(self, kind, body=b"", fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendmsg([struct.pack("=IHH", MAGIC, self.version, kind) + body], rights)

    def hear(self):
        """What came, or None at the end."""
        try:
            packet, rights, _, _ = self.sock.recvmsg(4096, 256)
        except ConnectionResetError:
            return None
        if not packet:
            return None
        kind = struct.unpack_from("=IHH", packet)[2]
        if kind == GATES:
            self.page = array.array("i", rights[0][2])[0]
        if kind == REFUSED:
            self.refused = struct.unpack_from("=i128s", packet, 8)[1].rstrip(b"\0").decode()
        return kind

    def gate(self, slot):
        return struct.unpack("=I", os.pread(self.page, 4, GATES_AT + slot * GATE_SIZE))[0]

    def in_board(self, slot):
        return struct.unpack("=I", os.pread(self.board, 4, SLOTS_AT + slot * SLOT_SIZE))[0]

    def queue(self, slot, device=b"sim:test"):
        self.say(QUEUE, struct.pack("=III96s", slot, 0, 6, device))


def stopped_client(fermata, slot=3):
    """With one queue, whose gate is closed."""
    c = Client(fermata.dir)
    c.queue(slot)
    eventually("the queue is there", lambda: fermata.group(os.getpid()))
    check((c.gate(slot), c.in_board(slot)) == (0, 0), "its gate is closed from the start")
    fermata.cli("suspend", str(os.getpid()))
    eventually("its gate is closed", lambda: (c.gate(slot), c.in_board(slot)) == (1, 1))
    check(c.gate(slot + 1) == 0, "so is another one's")
    return c


def comes_back(stack):
    """With the gates that it had: they are the same, and as they were."""
    fermata = Managed(stack)
    c = stopped_client(fermata)
    inode, closed = os.fstat(c.page).st_ino, time.monotonic()
    c.sock.close()
    again = Client(fermata.dir, [c.page])
    check(os.fstat(again.page).st_ino == inode, "it was given others")
    check(again.gate(3) == 1 or time.monotonic() - closed >= LEFT, "to come back has opened its gate")
    again.queue(3)
    eventually("its gate is open: nobody else is there", lambda: again.gate(3) == 0)
    kept(fermata, 1)
    again.sock.close()
    kept(fermata, 0)


def leaves(stack):
    """Its gates stay closed for a while, and then open: it is not scheduled any more."""
    fermata = Managed(stack)
    c = stopped_client(fermata)
    closed = time.monotonic()
    c.sock.close()
    eventually("it is gone", lambda: not fermata.group(os.getpid()))
    check(c.gate(3) == 1 or time.monotonic() - closed >= LEFT, "to leave has opened its gate")
    eventually("its gate is open", lambda: c.gate(3) == 0)
    check(time.monotonic() - closed >= LEFT, "it was opened early")
    kept(fermata, 0)


def says_queue_is_gone(stack):
    """A lie does not open it at once, the truth before long."""
    fermata = Managed(stack)
    c = stopped_client(fermata)
    said = time.monotonic()
    c.say(QUEUE_GONE, struct.pack("=I", 3))
    eventually("it is believed", lambda: not fermata.group(os.getpid()))
    check(c.gate(3) == 1 or time.monotonic() - said >= LEFT, "to say so has opened its gate")
    eventually("its gate is open", lambda: c.gate(3) == 0)
    check(time.monotonic() - said >= LEFT, "it was opened early")


def does_not_come_back(stack):
    """A daemon that got its gates from systemd opens them in the end."""
    fermata = Managed(stack)
    c = stopped_client(fermata)
    kept(fermata, 1)
    fermata.kill()
    started = time.monotonic()
    fermata.start()
    check(c.gate(3) == 1 or time.monotonic() - started >= AWAITED, "they were opened at once")
    eventually("they are open", lambda: c.gate(3) == 0)
    check(time.monotonic() - started >= AWAITED, "they were opened early")
    kept(fermata, 0)


def other_versions(stack):
    """Who does not know of strict mode is refused: it runs unscheduled."""
    fermata = Fermata(stack, config=STRICT)
    check("version 1" in Client(fermata.dir, version=1).refused, "an older client is let in")


def in_child(fn, user=None):
    """In a process of its own, of another user if that is said; an ordinary one, which may look at itself."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
                LIBC.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
            fn()
            status = 0
        except BaseException:  # what it is shows in the status
            traceback.print_exc(file=sys.stdout)
        finally:
            sys.stdout.flush()
            os._exit(status)
    check(os.waitpid(pid, 0)[1] == 0, "it failed in a process of its own")


def refused(what, errors, fn):
    try:
        got = fn()
    except OSError as e:
        check(e.errno in errors, f"{what}: {e}")
    else:
        raise AssertionError(f"{what} is let pass: {got}")


def c_call(fn, *args):
    rc = fn(*args)
    if rc in (-1, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "refused")
    return rc


def poke(address):
    """A process writes to its parent's twin, as debuggers do."""
    child = os.fork()
    if not child:
        LIBC.ptrace(0, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    try:
        return c_call(LIBC.ptrace, 5, child, address, 1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def forge(directory):
    c = Client(directory)
    c.queue(3)
    check(c.page is not None, "no page came")
    at = c_call(LIBC.mmap, None, GATES_SIZE, mmap.PROT_READ, mmap.MAP_SHARED, c.page, 0)
    proc, word = f"/proc/self/fd/{c.page}", at + GATES_AT
    source = ctypes.create_string_buffer(b"\1\1\1\1")
    here, there = (ctypes.c_size_t * 2)(ctypes.addressof(source), 4), (ctypes.c_size_t * 2)(word, 4)
    refused("a mapping to write", [E.EACCES], lambda: mmap.mmap(c.page, GATES_SIZE))
    refused("mprotect", [E.EACCES], lambda: c_call(LIBC.mprotect, at, GATES_SIZE, 3))
    refused("write", [E.EBADF], lambda: os.pwrite(c.page, b"\1" * 4, GATES_AT))
    refused("to open it anew", [E.EACCES], lambda: os.open(proc, os.O_RDWR))
    refused("to open it to write", [E.EACCES], lambda: os.open(proc, os.O_WRONLY))
    refused("truncate", [E.EINVAL, E.EBADF, E.EPERM], lambda: os.ftruncate(c.page, 0))
    refused("truncate by name", [E.EACCES], lambda: os.truncate(proc, 0))
    refused("fallocate", [E.EBADF], lambda: c_call(LIBC.fallocate, c.page, 3, 0, 4096))
    refused("chmod", [E.EPERM], lambda: os.fchmod(c.page, 0o777))
    refused("chown", [E.EPERM], lambda: os.fchown(c.page, os.getuid(), os.getgid()))
    refused("seals", [E.EPERM], lambda: fcntl.fcntl(c.page, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE))
    mem = os.open("/proc/self/mem", os.O_RDWR)
    check(os.pread(mem, 4, word) == b"\0" * 4 and os.pwrite(mem, b"\2", ctypes.addressof(source)) == 1,
          "it cannot use its own memory this way at all")
    refused("/proc/self/mem", [E.EIO, E.EFAULT], lambda: os.pwrite(mem, b"\1\0\0\0", word))
    refused("process_vm_writev", [E.EFAULT, E.EPERM],
            lambda: c_call(LIBC.process_vm_writev, os.getpid(), here, 1, there, 1, 0))
    refused("MADV_REMOVE", [E.EACCES, E.EINVAL, E.EPERM], lambda: c_call(LIBC.madvise, at, 4096, 9))
    check(poke(ctypes.addressof(source)) == 0, "ptrace does not work here at all")
    refused("ptrace", [E.EIO, E.EFAULT], lambda: poke(word))
    check(not any(c.gate(slot) for slot in range(SLOTS)), "something was written")


def forger(stack):
    """A client tries what there is to write to its page."""
    if os.geteuid():
        raise Skip("the daemon must be of another user than the client, and only root has two")
    fermata = Fermata(stack, config=STRICT)
    os.chmod(fermata.dir, 0o755)
    in_child(lambda: forge(fermata.dir), NOBODY)
    check(fermata.answers(), "the daemon does not answer")


def forged(magic, size, seals):
    fd = os.memfd_create("gates", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, struct.pack("=IHHIi", magic, 1, SLOTS, GATES_SIZE, os.getpid()), 0)
    os.fchmod(fd, 0o600)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd

def show_junk(directory):
    r, w = os.pipe()
    for fd in (r, w, os.open("/dev/null", os.O_RDWR), os.open("/", os.O_RDONLY), board(),
               forged(0x54414746, GATES_SIZE, SEALS), forged(0x54414746, 4096, SEALS), forged(0x54414746, GATES_SIZE, 0),
               forged(0, GATES_SIZE, SEALS)):
        c = Client(directory, [fd])
        check(c.joined and c.page is not None, f"{os.readlink(f'/proc/self/fd/{fd}')}: {c.refused}")
        check(os.fstat(c.page).st_ino != os.fstat(fd).st_ino and os.fstat(c.page).st_uid == 0, "it is believed")
        c.sock.close()
    check(not Client(directory, [r, r]).joined, "two pages are taken")


def shows_what_is_not_its_own(stack):
    """Another process's page; anything else. As another user: the daemon's own could make a page."""
    fermata = Managed(stack)
    os.chmod(fermata.dir, 0o755)
    c = stopped_client(fermata)

    def show():
        check("another client" in (Client(fermata.dir, [c.page]).refused or ""), "another client's page is given")

    in_child(show)
    check(c.gate(3) == 1, "its gate was opened")
    fermata.kill()
    fermata.start()
    in_child(show)
    fermata.stop()
    fermata.start()
    in_child(show)
    if os.geteuid():
        raise Skip("only root has two users")
    in_child(lambda: show_junk(fermata.dir), NOBODY)
    check(fermata.answers(), "the daemon does not answer")


if __name__ == "__main__":
    main(comes_back, leaves, says_queue_is_gone, *seldom_sanitized(does_not_come_back), other_versions, forger,
         shows_what_is_not_its_own)
