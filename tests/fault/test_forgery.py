#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Enemies at the daemon's sockets, beside a real client that must not notice: forged, truncated, oversized and
random messages, wrong descriptors, those who never read. (What each single lie is answered: test_fermatad.py.)"""
import array
import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import PATIENCE, Fermata, check, eventually, main, program

MAGIC, VERSION = 0x4D524546, 4
HELLO, WELCOME, REFUSED, GROUP, HINT, QUEUE, QUEUE_GONE, SEGMENT, BELL, WAKE, GATES, TRACE, MEMORY, MEMORY_BELL = range(
    1, 15)
BOARD_MAGIC, BOARD_VERSION, BOARD_SIZE, BOARD_SLOTS = 0x444F4246, 8, 50944, 128
LEDGER_MAGIC = 0x44454C46
LEDGER_VERSION, LEDGER_SIZE, LEDGER_ROWS, LEDGER_AT, LEDGER_ROW = map(
    int, subprocess.run([program("memory_client"), "--layout"], check=True, capture_output=True, text=True).stdout.split())
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def message(kind, body=b"", magic=MAGIC, version=VERSION):
    return struct.pack("=IHH", magic, version, kind) + body


def hello_body(version=BOARD_VERSION, size=BOARD_SIZE, api=b"forged"):
    return struct.pack("=II16s", version, size, api)


def queue_body(slot=0, group=0, levels=6, device=b"forged:0"):
    return struct.pack("=III96s", slot, group, levels, device)


def board(size=BOARD_SIZE, seals=SEALS, magic=BOARD_MAGIC):
    fd = os.memfd_create("board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, struct.pack("=IHHI", magic, BOARD_VERSION, BOARD_SLOTS, BOARD_SIZE), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def ledger(size=LEDGER_SIZE, seals=SEALS, magic=LEDGER_MAGIC, version=LEDGER_VERSION):
    """With one row, of a device that has 80 GiB."""
    fd = os.memfd_create("ledger", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, struct.pack("=IHHI", magic, version, LEDGER_ROWS, LEDGER_SIZE), 0)
    os.pwrite(fd, struct.pack("=96s16sQ", b"forged:0", b"", 80 << 30), LEDGER_AT)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def client(fermata):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(PATIENCE)
    s.connect(os.path.join(fermata.dir, "client.sock"))
    return s


def send(s, data, fds=()):
    """An enemy who has been thrown out already is content. False: a kernel that lets no descriptor through where none belongs
    has let through the rest."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        try:
            s.sendmsg([data], rights)
        except PermissionError:
            s.sendmsg([data])
            return False
    return True


def thrown_out(s):
    """The daemon ends the session: after REFUSED, or without a word."""
    with contextlib.suppress(ConnectionResetError):
        while True:
            data = s.recv(4096)
            if not data:
                break
            check(struct.unpack_from("=IHH", data)[2] != WELCOME, "the daemon says welcome to an enemy")


def joined(fermata):
    s = client(fermata)
    fd = board()
    send(s, message(HELLO, hello_body()), [fd])
    check(struct.unpack_from("=IHH", s.recv(4096))[2] == WELCOME, "an honest HELLO is refused")
    return s, fd


class Beside:
    """A daemon and a real client, which must have got on when the enemies are done."""

    def __init__(self, stack):
        self.fermata = Fermata(stack)
        self.worker = self.fermata.worker()

    def unharmed(self):
        check(self.fermata.answers(), "the daemon does not answer")
        eventually("the enemies are gone", lambda: len(self.fermata.ps()["groups"]) == 1)
        self.worker.advances()
        self.fermata.cli("suspend", str(self.worker.pid))
        self.fermata.cli("resume", str(self.worker.pid))
        self.worker.advances()
        self.worker.finish()


def first_messages(stack):
    b = Beside(stack)
    good = message(HELLO, hello_body())
    lies = [b"", b"x", good[:7], good[:-1], good + b"x", good * 100, message(HELLO, hello_body(), magic=1),
            message(HELLO, hello_body(), version=9), message(HELLO, hello_body(version=9)),
            message(HELLO, hello_body(size=4096)), message(HELLO, hello_body(api=b"x" * 16)),
            message(HELLO, hello_body(api=b"\xff\x01")), message(0), message(99), message(0xFFFF),
            message(WELCOME, struct.pack("=I", 1)), message(QUEUE, queue_body()), message(BELL), message(WAKE),
            b"\0" * 60000]
    for lie in lies:
        fd = board()
        with client(b.fermata) as s:
            send(s, lie, [fd])
            s.shutdown(socket.SHUT_WR)
            thrown_out(s)
        os.close(fd)
    b.unharmed()


def descriptors(stack):
    b = Beside(stack)
    good = message(HELLO, hello_body())
    pipe = os.pipe()
    plain = stack.enter_context(tempfile.TemporaryFile())
    plain.truncate(BOARD_SIZE)
    pair = socket.socketpair()
    some = [pipe[0], plain.fileno(), pair[0].fileno(), board(size=BOARD_SIZE - 1), board(size=BOARD_SIZE + 4096),
            board(size=4096), board(seals=0), board(seals=fcntl.F_SEAL_GROW), board(magic=7),
            os.open("/dev/null", os.O_RDWR), os.open("/", os.O_RDONLY)]
    before = len(os.listdir(f"/proc/{b.fermata.daemon.pid}/fd"))
    for fds in [[]] + [[fd] for fd in some] + [some, [board()] * 2, [board()] * 200]:
        with client(b.fermata) as s:
            send(s, good, fds)
            s.shutdown(socket.SHUT_WR)
            thrown_out(s)
    b.unharmed()
    eventually("the daemon closes what it was sent",
               lambda: len(os.listdir(f"/proc/{b.fermata.daemon.pid}/fd")) <= before)


def reluctant():
    """A descriptor whose last close waits for a reader who never reads: of a full connection that lingers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        s = socket.create_connection(listening.getsockname())
        peer, _ = listening.accept()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 2 * PATIENCE))
    s.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            s.send(b"x" * 65536)
    return s.detach(), peer


def lend(stack, s, words):
    for word in words:
        fd, peer = reluctant()
        stack.enter_context(peer)
        if not send(s, word, [fd]):
            with socket.socket(fileno=os.dup(fd)) as mine:  # this process would be the last to close it
                mine.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        os.close(fd)


def answers_at_once(fermata):
    with control(fermata) as s:
        s.sendall(b'{"cmd": "version"}\n')
        check(s.recv(65536), "the daemon does not answer")


def descriptors_that_wait(stack):
    """In a first message, in a later one, in one that is never read; in a request."""
    b = Beside(stack)
    for words in ([message(HELLO, hello_body())], [message(GATES)], [message(GATES), message(HELLO, hello_body())],
                  [b"x" * 60000], [b"x"]):
        b.fermata.daemon.send_signal(signal.SIGSTOP)  # else the last to close it may be this process
        with client(b.fermata) as s:
            lend(stack, s, words)
        b.fermata.daemon.send_signal(signal.SIGCONT)
        answers_at_once(b.fermata)
    for words in ([b"{"], [b'{"cmd": "version"}\n'] * 3, [b'{"cmd": "trace"}\n', b"x"]):
        b.fermata.daemon.send_signal(signal.SIGSTOP)
        with control(b.fermata) as s:
            lend(stack, s, words)
        b.fermata.daemon.send_signal(signal.SIGCONT)
        answers_at_once(b.fermata)
    b.unharmed()


def ledgers(stack):
    """MEMORY without a ledger, with none that is valid, with two, too late; and one that is as it must be."""
    b = Beside(stack)
    hello = message(HELLO, hello_body())
    pipe = os.pipe()
    bad = [pipe[0], board(), ledger(size=LEDGER_SIZE - 1), ledger(size=LEDGER_SIZE + 4096), ledger(seals=0),
           ledger(seals=fcntl.F_SEAL_SHRINK), ledger(magic=7), ledger(version=9), os.open("/dev/zero", os.O_RDWR)]
    before = len(os.listdir(f"/proc/{b.fermata.daemon.pid}/fd"))
    for fds in [[]] + [[fd] for fd in bad] + [[ledger(), ledger()]]:
        with client(b.fermata) as s:
            send(s, message(MEMORY), fds)
            send(s, hello, [board()])
            s.shutdown(socket.SHUT_WR)
            thrown_out(s)
    with client(b.fermata) as s:  # two of them
        send(s, message(MEMORY), [ledger()])
        send(s, message(MEMORY), [ledger()])
        send(s, hello, [board()])
        s.shutdown(socket.SHUT_WR)
        thrown_out(s)
    for late in (message(MEMORY), message(MEMORY, b"x"), message(MEMORY_BELL, b"x")):
        s, fd = joined(b.fermata)
        send(s, late, [ledger()] if late == message(MEMORY) else [])
        s.shutdown(socket.SHUT_WR)
        thrown_out(s)
        os.close(fd)
    s, fd = joined(b.fermata)  # without a ledger it may ring, too
    send(s, message(MEMORY_BELL))
    check(b.fermata.answers(), "the daemon does not answer")
    s.close()
    with client(b.fermata) as s:
        send(s, message(MEMORY), [ledger()])
        send(s, hello, [board()])
        check(struct.unpack_from("=IHH", s.recv(4096))[2] == WELCOME, "an honest ledger is refused")
        send(s, message(MEMORY_BELL))
        eventually("the ledger counts", lambda: any("memory" in g for g in b.fermata.ps()["groups"]))
    b.unharmed()
    eventually("the daemon closes what it was sent",
               lambda: len(os.listdir(f"/proc/{b.fermata.daemon.pid}/fd")) <= before)


def lies_about_the_host(stack):
    """One says that it has all of the host's memory, or none of it, and writes what it may have itself. Another one gets what it
    asks for, and together they are granted no more than there is."""
    fermata = Fermata(stack, config="[memory]\nhost = 1G\n")
    at = dict(line.split() for line in subprocess.run([program("memory_client"), "--words"], check=True, capture_output=True,
                                                       text=True).stdout.splitlines())
    rng = random.Random(4)

    def put(fd, word, value, size="Q"):
        os.pwrite(fd, struct.pack("=" + size, value), LEDGER_AT + int(at[word]))

    def get(fd, word, size="Q"):
        return struct.unpack("=" + size, os.pread(fd, struct.calcsize("=" + size), LEDGER_AT + int(at[word])))[0]

    def join():
        s, fd = client(fermata), ledger()
        os.pwrite(fd, struct.pack("=I", 1), 12)  # managed
        put(fd, "claimed", 64 << 30)
        put(fd, "kind[FM_MEM_MOVABLE]", 64 << 30)
        send(s, message(MEMORY), [fd])
        send(s, message(HELLO, hello_body()), [board()])
        check(struct.unpack_from("=IHH", s.recv(4096))[2] == WELCOME, "an honest HELLO is refused")
        send(s, message(MEMORY_BELL))
        stack.callback(s.close)
        stack.callback(os.close, fd)
        return s, fd

    def ask(s, fd, most):
        number = get(fd, "host_asks", "I") + 1
        put(fd, "host_wants", most)
        put(fd, "host_asks", number, "I")
        send(s, message(MEMORY_BELL))
        eventually("it is answered", lambda: get(fd, "host_told", "I") == number)
        return get(fd, "host_may") >= most

    liar, honest = join(), join()
    for word in ("host_has", "host", "mapped", "host_may"):
        put(liar[1], word, 2**64 - 1)
    check(ask(*honest, 900 << 20), "what another one says of itself takes its room")
    put(honest[1], "host_has", 900 << 20)
    put(honest[1], "host", 900 << 20)
    put(liar[1], "host_may", 0)
    check(not ask(*liar, 512 << 20), "it is granted more than there is")
    check(ask(*liar, 64 << 20), "it is not granted what there is")
    for _ in range(40):
        put(liar[1], rng.choice(("host_has", "host_wants", "host", "mapped", "host_may", "host_told")),
            rng.choice((0, 1 << 20, 1 << 40, 2**63, 2**64 - 1)))
        ask(*liar, rng.choice((0, 1 << 20, 64 << 20, 1 << 40, 2**64 - 1)))
        check(get(honest[1], "host_may") >= 900 << 20, "what is out of another's memory is taken")
    check(fermata.cli("ps", "--memory").returncode == 0 and fermata.answers(), "ps fails")


def lying_ledgers(stack):
    """Two of one group, which write all over their ledgers: the daemon answers, and what it says stays within bounds."""
    b = Beside(stack)
    rng = random.Random(9)
    enemies = []
    for _ in range(2):
        s = client(b.fermata)
        fd = ledger()
        send(s, message(MEMORY), [fd])
        send(s, message(HELLO, hello_body()), [board()])
        check(struct.unpack_from("=IHH", s.recv(4096))[2] == WELCOME, "an honest HELLO is refused")
        send(s, message(GROUP, struct.pack("=I64s", 0, b"liars")))
        send(s, message(HINT, struct.pack("=IIq", 0, 12, 10 << 30)))
        send(s, message(MEMORY_BELL))
        enemies.append((s, fd))
    for n in range(600):
        s, fd = rng.choice(enemies)
        word = struct.pack("=Q", rng.choice((0, 1, 1 << 30, 2**63, 2**64 - 1, rng.randrange(2**64))))
        os.pwrite(fd, word, LEDGER_AT + (rng.randrange(16) if n % 4 == 0 else 0) * LEDGER_ROW + rng.randrange(LEDGER_ROW // 8) * 8)
        send(s, message(MEMORY_BELL))
        if n % 100 == 0:
            for g in b.fermata.ps()["groups"]:
                for m in g.get("memory", []):
                    kinds = sum(m["kinds"].values())
                    check(0 <= kinds <= m["committed_bytes"] <= 16 * 2 * 2**50, f"{m}")
                    check(m["resident_bytes"] + m["host_bytes"] <= m["committed_bytes"], f"{m}")
    check(b.fermata.cli("ps", "--memory").returncode == 0, "ps fails")
    for s, fd in enemies:
        s.close()
        os.close(fd)
    b.unharmed()


def lies_of_members(stack):
    """Who has been let in, and lies then."""
    b = Beside(stack)
    fd = board()
    for lie in (message(HELLO, hello_body()), message(QUEUE, queue_body(slot=BOARD_SLOTS)),
                message(QUEUE, queue_body(slot=0xFFFFFFFF)), message(QUEUE, queue_body(group=16)),
                message(QUEUE, queue_body(levels=0xFFFFFFFF)), message(QUEUE, queue_body(device=b"x" * 96)),
                message(QUEUE, queue_body(device=b"\x1b[31m")), message(QUEUE_GONE, struct.pack("=I", 5)),
                message(HINT, struct.pack("=IIq", 0, 99, 0)), message(HINT, struct.pack("=IIq", 0, 0, 1 << 60)),
                message(HINT, struct.pack("=IIq", 77, 0, 0)), message(GROUP, struct.pack("=I64s", 0, b"x" * 64)),
                message(GROUP, struct.pack("=I64s", 16, b"name")), message(GROUP, struct.pack("=I64s", 0, b"a b")),
                message(SEGMENT, struct.pack("=IIi", 0, 0, 0)), message(SEGMENT, struct.pack("=IIi", 99, 1, 0)),
                message(SEGMENT, struct.pack("=IIi", 0, 7, 0)), message(WELCOME, struct.pack("=I", 1)), b"", b"?"):
        s, own = joined(b.fermata)
        send(s, message(QUEUE, queue_body(device=b"forged:1")))
        send(s, lie, [fd])
        send(s, message(BELL))
        s.close()
        os.close(own)
    b.unharmed()


def lying_boards(stack):
    """Members of the same device whose counters run backwards, jump, and never rest."""
    b = Beside(stack)
    rng = random.Random(3)
    device = b.fermata.group(b.worker.pid)["queues"][0]["device"].encode()
    enemies = []
    for slot in range(3):
        s, fd = joined(b.fermata)
        send(s, message(QUEUE, queue_body(slot=slot, device=device)))
        enemies.append((s, fd))
    for _ in range(300):
        s, fd = rng.choice(enemies)
        junk = bytes(rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256))) for _ in range(64))
        os.pwrite(fd, junk, rng.randrange(BOARD_SIZE // 64) * 64)
        send(s, message(BELL))
    for _ in range(300):  # and within their own slots, where it counts
        s, fd = rng.choice(enemies)
        os.pwrite(fd, struct.pack("=Q", rng.choice((0, 1, 2**63, 2**64 - 1, rng.randrange(2**64)))),
                  256 + rng.randrange(3) * 320 + rng.randrange(40) * 8)
        send(s, message(BELL))
    check(b.fermata.answers(), "the daemon does not answer")
    for s, fd in enemies:
        s.close()
        os.close(fd)
    b.unharmed()


SETS_AT, SETS, TASKS_AT, TASKS = 256 + 320 * 128 + 64 * 16, 8, 256 + 320 * 128 + 64 * 16 + 64 * 8, 64


def lying_sets(stack):
    """Tasks that nobody can have, with names that no terminal should see, of sets that are none; all of that at random."""
    b = Beside(stack)
    s, fd = joined(b.fermata)
    send(s, message(QUEUE, queue_body()))
    eventually("the queue is there", lambda: b.fermata.ps()["groups"][1:])
    most = 2**64 - 1
    # A set in slot 0, which says that it has more tasks than there are rows.
    os.pwrite(fd, struct.pack("=IIIIIIQ", 1, 99, 2**32 - 1, 2**32 - 1, 2**32 - 1, 7, most), SETS_AT)
    # A second one in the same slot, and one in a slot that there is not.
    os.pwrite(fd, struct.pack("=I", 1), SETS_AT + 64)
    os.pwrite(fd, struct.pack("=I", 2**32 - 1), SETS_AT + 128)
    for i, name in enumerate((b"\x1b[31mred", b"", b"x" * 64, b"a b", b"\xff\xfe", b"fine")):
        os.pwrite(fd, struct.pack("=II6QI", 1, i, 3, most, most, most, most, most, 9).ljust(64, b"\0") + name.ljust(64, b"\0"),
                  TASKS_AT + 128 * i)
    os.pwrite(fd, struct.pack("=I", 77), TASKS_AT + 128 * 6)  # of no set
    (told,) = [q["set"] for g in b.fermata.ps()["groups"] for q in g["queues"] if "set" in q]
    names = [t["name"] for t in told["tasks"]]
    check(names == ["task0", "task1", "x" * 63, "task3", "task4", "fine"], f"tasks are told as {names}")
    check(told["policy"] == "?" and told["stopped"], f"the set is told as {told}")
    check(all(t["pending"] == 0 and 0 <= t["missed"] < 2**63 for t in told["tasks"]), f"numbers are told as {told}")
    check("\x1b" not in b.fermata.cli("ps", "--queues").stdout, "ps shows what a terminal obeys")
    rng = random.Random(4)
    for _ in range(100):
        at = SETS_AT + 4 * rng.randrange((64 * SETS + 128 * TASKS) // 4)
        os.pwrite(fd, struct.pack("=I", rng.choice((0, 1, 2, 2**31, 2**32 - 1, rng.randrange(2**32)))), at)
    check(b.fermata.ps()["ok"], "the daemon does not answer")
    s.close()
    os.close(fd)
    b.unharmed()


def random_messages(stack):
    b = Beside(stack)
    rng = random.Random(4)
    for _ in range(60):
        s, fd = joined(b.fermata)
        for _ in range(10):
            body = bytes(rng.randrange(256) for _ in range(rng.choice((0, 4, 8, 12, 16, 68, 108, 300))))
            kind = rng.randrange(16)
            send(s, message(kind, body), [fd] if rng.random() < 0.2 else [])
        s.close()
        os.close(fd)
    b.unharmed()


def silent_ones(stack):
    """Who connects and never speaks, and who speaks and never reads."""
    b = Beside(stack)
    silent = [client(b.fermata) for _ in range(100)]
    deaf = [joined(b.fermata) for _ in range(5)]
    for s, _ in deaf:
        s.setblocking(False)
        send(s, message(QUEUE, queue_body(device=b"forged:2")))
        with contextlib.suppress(BlockingIOError):
            for n in range(20000):
                send(s, message(HINT, struct.pack("=IIq", 0, 0, n % 100)))
    check(b.fermata.answers(), "the daemon does not answer")
    b.worker.advances()
    for s in silent:
        s.close()
    for s, fd in deaf:
        s.close()
        os.close(fd)
    b.unharmed()


def honest_words(device):
    """What a client says, in order, after HELLO."""
    return [message(GROUP, struct.pack("=I64s", 0, b"honest")), message(HINT, struct.pack("=IIq", 0, 0, 5)),
            message(QUEUE, queue_body(device=device)), message(BELL), message(SEGMENT, struct.pack("=IIi", 0, 1, 9)),
            message(BELL), message(SEGMENT, struct.pack("=IIi", 0, 0, 0)), message(QUEUE_GONE, struct.pack("=I", 0))]


def replayed_and_out_of_order(stack):
    """An honest session, said twice, by two, backwards, shuffled, with parts left out; with the first one's board."""
    b = Beside(stack)
    rng = random.Random(6)
    device = b.fermata.group(b.worker.pid)["queues"][0]["device"].encode()
    words = honest_words(device)
    orders = [words * 2, words[::-1], words[3:] + words[:3], words[:3] * 2, words[-1:] * 3 + words]
    orders += [rng.sample(words, rng.randrange(1, len(words) + 1)) for _ in range(60)]
    for order in orders:
        (s, fd), (replay, other_fd) = joined(b.fermata), joined(b.fermata)
        hello = message(HELLO, hello_body())
        for word in order:
            send(s, word)
            send(replay, word, [fd] if rng.random() < 0.1 else [])
        send(replay, hello, [fd])
        with client(b.fermata) as late:  # the same board again, in a session of its own
            send(late, hello, [fd])
            for word in order:
                send(late, word)
        for sock in (s, replay):
            sock.close()
        os.close(fd)
        os.close(other_fd)
    b.unharmed()


def killed_mid_handshake(stack):
    """After each word that it says, from the connection on; and real ones at any moment of their start."""
    b = Beside(stack)
    device = b.fermata.group(b.worker.pid)["queues"][0]["device"].encode()
    words = honest_words(device)
    for n in range(-2, len(words)):
        pid = os.fork()
        if not pid:
            with contextlib.suppress(Exception):
                s = client(b.fermata)
                if n >= -1:
                    send(s, message(HELLO, hello_body()), [board()])
                for word in words[:max(0, n)]:
                    send(s, word)
            os.kill(os.getpid(), signal.SIGKILL)
        check(os.waitpid(pid, 0)[1] == signal.SIGKILL, "it was not killed")
    rng = random.Random(8)
    for _ in range(150):
        p = subprocess.Popen([program("lib_client"), "-"], env=b.fermata.env, stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, 0.006))
        p.kill()
        p.stdin.close()
        p.wait()
    b.unharmed()


def control(fermata):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(PATIENCE)
    s.connect(os.path.join(fermata.dir, "control.sock"))
    return s


def control_requests(stack):
    b = Beside(stack)
    rng = random.Random(5)
    requests = [b"", b"\n", b"{", b"}\n", b"null\n", b"[]\n", b"17\n", b'"ps"\n', b'{"cmd": "ps"\n', b'{"cmd": 5}\n',
                b'{"cmd": "no such"}\n', b'{"cmd": "hint"}\n', b'{"cmd": "hint", "target": "q1", "hints": 5}\n',
                b'{"cmd": "suspend", "target": {}}\n', b'{"cmd": "suspend", "target": "' + b"x" * 5000 + b'"}\n',
                b'{"cmd": "policy", "name": "\\u0000"}\n', b'{"cmd": "ps"}' + b" " * 100000 + b"\n",
                b"[" * 100000 + b"\n", b"x" * 3000000, b"\xff\xfe\x00\n", b'{"cmd": "ps"}\n' * 3]
    requests += [bytes(rng.randrange(256) for _ in range(200)) + b"\n" for _ in range(50)]
    for request in requests:
        with control(b.fermata) as s, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
    b.unharmed()


def control_never_reads(stack):
    b = Beside(stack)
    deaf = [control(b.fermata) for _ in range(5)]
    for s in deaf:
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            for _ in range(20000):
                s.send(b'{"cmd": "ps"}\n')
    with control(b.fermata) as s:
        s.sendall(b'{"cmd": "version"}\n')
        check(json.loads(s.makefile().readline())["ok"], "the daemon does not answer others")
    for s in deaf:
        s.close()
    b.unharmed()


if __name__ == "__main__":
    main(first_messages, descriptors, descriptors_that_wait, lies_of_members, ledgers, lies_about_the_host, lying_ledgers, lying_boards, lying_sets, random_messages, replayed_and_out_of_order, killed_mid_handshake,
         silent_ones, control_requests, control_never_reads)
