#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of managed programs that is passed to other processes by cuIpcGetMemHandle, on the fake driver: both see the
same bytes, neither moves them, and nobody else gets them."""
import contextlib
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import check, halt, main, program
from managed import MIB, Managed, start


def world(stack, **env):
    handle = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "handle")
    os.chmod(os.path.dirname(handle), 0o755)
    return managed.world(stack, CUDA_HANDLE=handle, **env)


def kinds(fermata, p):
    return fermata.group(p.pid)["memory"][0]["kinds"]


def both_see_the_same(stack):
    """Small ones that share a chunk with others, and large ones of several; by programs that are managed, and not."""
    fermata = world(stack)
    for mib, memory in ((20, "--memory"), (0, None), (140, None)):
        one, two = start(fermata), start(fermata, memory=memory)
        one.do(f"alloc {mib}", "alloc 3", "fill 1", "give 0", "own 0")
        two.do(f"take {mib}", "check 1", "fill 2")
        if mib:
            two.do("alloc 2", "fill 2")
            check(kinds(fermata, two).get("imported", 0) >= mib * MIB, kinds(fermata, two))
        check(kinds(fermata, one).get("shared", 0) >= (mib or 2) * MIB, kinds(fermata, one))
        one.do("free 1", "check 2", "fill 3")
        two.do("drop 0", f"take {mib}")
        two.ends()
        one.do("check 3", "free 0", "alloc 1")
        one.ends()


def neither_moves_it(stack):
    """What else they have goes out; the other goes on with what it was given."""
    fermata = world(stack)
    one, two = start(fermata), start(fermata)
    one.do("alloc 20", "alloc 30", "fill 2", "give 0")
    two.do("take 20", "alloc 30", "fill 2")
    for a, b in ((one, two), (two, one)):
        fermata.cli("suspend", "--out", "--wait", str(a.pid))
        there = fermata.group(a.pid)["memory"][0]
        check(there["host_bytes"] >= 30 * MIB and there["resident_bytes"] >= 20 * MIB, there)
        b.do("check 2")
        fermata.cli("resume", "--wait", str(a.pid))
        a.do("check 2")
    one.ends()
    two.do("check 2", "drop 0")  # as long as it has it
    two.refuses("take 20")
    two.ends()


def who_gets_none(stack):
    """Memory that is freed; a process without the library; another user; a handle that is not right."""
    fermata = world(stack)
    one, two = start(fermata), start(fermata)
    one.do("alloc 20", "fill 1", "give 0")
    alone = Managed([program("cuda_managed")], env=fermata.env)
    stack.callback(alone.close)
    alone.line("ready")
    alone.refuses("take 20")
    other = start(fermata, **fermata.somebody())
    other.refuses("take 20")
    with open(fermata.env["CUDA_HANDLE"], "r+b") as f:
        right = f.read()
        for at in (8, 16, 31):
            f.seek(0)
            f.write(right[:at] + bytes([right[at] ^ 1]) + right[at + 1:])
            f.flush()
            two.refuses("take 20")
        f.seek(0)
        f.write(right)
    two.do("take 20", "check 1", "drop 0")
    one.do("free 0", "alloc 20", "fill 4")
    two.refuses("take 20")
    one.do("pool 4")
    one.refuses("give 1")  # nor has the driver any of a pool's
    for p in (one, two, alone, other):
        p.ends()


def three_processes(stack):
    """One owns it, two have it; what else they have goes out and comes back. The owner is out when the second opens it,
    and is killed before the others are done."""
    fermata = world(stack)
    one, two, three = start(fermata), start(fermata), start(fermata, memory=None)
    one.do("alloc 20", "alloc 30", "fill 1", "give 0")
    two.do("take 20", "alloc 6")
    fermata.cli("suspend", "--out", "--wait", str(one.pid))
    check(fermata.group(one.pid)["memory"][0]["host_bytes"] >= 30 * MIB, fermata.group(one.pid)["memory"])
    three.do("take 20", "check 1")
    two.do("fill 2")
    three.do("check 2")
    fermata.cli("resume", "--wait", str(one.pid))
    three.do("fill 3")
    fermata.cli("suspend", "--out", "--wait", str(two.pid))
    one.p.kill()
    one.p.wait()
    fermata.cli("resume", "--wait", str(two.pid))
    three.do("check 3", "fill 4")
    two.do("drop 0")
    two.refuses("take 20")
    three.do("check 4", "drop 0")
    check(not kinds(fermata, three).get("imported"), kinds(fermata, three))
    for p in (two, three):
        p.ends()


def descriptors_of_three(stack):
    """The same by descriptors of memory that the program maps, each exported twice."""
    fermata = world(stack)
    one, two, three = start(fermata), start(fermata), start(fermata, memory=None)
    one.do("vmm 46", "alloc 30", "fill 1", "export 0")
    check(kinds(fermata, one).get("shared") == 46 * MIB, kinds(fermata, one))
    fermata.cli("suspend", "--out", "--wait", str(one.pid))
    for p in (two, three):
        p.do("import 0", "check 1")
    check(kinds(fermata, two).get("imported") == 46 * MIB, kinds(fermata, two))
    two.do("fill 2")
    fermata.cli("resume", "--wait", str(one.pid))
    three.do("check 2", "fill 3", "export 0")  # on to the next
    fermata.cli("suspend", "--out", "--wait", str(two.pid))
    one.p.kill()
    one.p.wait()
    fermata.cli("resume", "--wait", str(two.pid))
    two.do("check 3", "free 0", "import 0", "check 3", "free 0")
    three.do("check 3", "free 0")
    for p in (two, three):
        check(not kinds(fermata, p).get("imported"), kinds(fermata, p))
        p.ends()


def descriptors_of_its_own(stack):
    """A process that imports what it has exported has the same memory twice, and what it was first may end."""
    fermata = world(stack)
    for how in ("--memory", None):
        p = start(fermata, memory=how)
        p.do("vmm 46", "fill 1", "export 0", "import 0", "free 0", "check 1", "alloc 30", "fill 2")
        check(kinds(fermata, p).get("imported") == 46 * MIB and "shared" not in kinds(fermata, p), kinds(fermata, p))
        if how:
            fermata.cli("suspend", "--out", "--wait", str(p.pid))
            check(fermata.group(p.pid)["memory"][0]["host_bytes"] >= 30 * MIB, fermata.group(p.pid)["memory"])
            fermata.cli("resume", "--wait", str(p.pid))
        p.do("check 2", "import 0", "fill 3", "free 0", "free 1")
        p.ends()


def freed_while_another_has_it(stack):
    """What the owner allocates next is not what the other one still has, also where all that it has stays on the device."""
    fermata = world(stack)
    for how in (("--memory",), ("--memory", "--memory-pin")):
        one, two = start(fermata, *how, memory=None), start(fermata)
        one.do("alloc 20", "fill 1", "give 0")
        two.do("take 20", "check 1")
        one.do("free 0", "alloc 20", "fill 3")
        two.do("check 1", "fill 2")
        one.do("check 3")
        two.do("check 2", "drop 0")
        for p in (one, two):
            p.ends()
    # Beside others of its slab, which stays.
    one, two = start(fermata), start(fermata, memory=None)
    one.do(*["alloc 2"] * 12, "fill 1", "give 8")
    two.do(*["alloc 2"] * 8, "take 2", "fill 1")
    one.do("check 1", "free 8", *["alloc 2"] * 30, "fill 3")
    two.do("check 1", "fill 2")
    one.do("check 3")
    two.do("check 2", "drop 8")
    for p in (one, two):
        p.ends()


def owners_that_are_not_there(stack):
    """One that is stopped answers nobody, and goes on as if nobody had asked; one whose context has ended, or that is dead,
    has nothing to give. Who has its memory already keeps it."""
    fermata = world(stack)
    one, two, three = start(fermata), start(fermata), start(fermata, memory=None)
    one.do("alloc 20", "fill 1", "give 0")
    two.do("take 20", "check 1")
    halt(one.p)
    three.refuses("take 20")
    two.do("fill 2", "check 2")
    one.p.send_signal(signal.SIGCONT)
    three.do("take 20", "check 2", "drop 0")
    one.do("check 2", "end 0")
    three.refuses("take 20")
    two.do("check 2")
    one.do("alloc 6", "fill 3", "give 0")
    three.do("take 6", "check 3", "drop 0")
    one.kill()
    one.p.wait()
    three.refuses("take 6")
    two.do("check 2", "fill 4", "check 4", "drop 0")
    check(not kinds(fermata, two).get("imported"), kinds(fermata, two))
    for p in (two, three):
        p.ends()


def passed_on_while_out(stack):
    """A handle of memory that is on the host, and descriptors: it comes in first, and stays."""
    fermata = world(stack)
    for how, say, take in (("alloc 20", "give 0", "take 20"), ("vmm 46", "export 0", "import 0")):
        one, two = start(fermata), start(fermata)
        one.do(how, "alloc 30", "fill 1")
        fermata.cli("suspend", "--out", "--wait", str(one.pid))
        check(fermata.group(one.pid)["memory"][0]["host_bytes"] >= 50 * MIB, fermata.group(one.pid)["memory"])
        mark = one.mark()
        one.tell(say)
        fermata.cli("resume", "--wait", str(one.pid))
        one.line(say.split()[0], after=mark)
        check("refused" not in one.lines[mark:], f"{say}: {one.lines[mark:]}")
        check(kinds(fermata, one).get("shared", 0) >= 20 * MIB, kinds(fermata, one))
        fermata.cli("suspend", "--out", "--wait", str(one.pid))
        two.do(take, "check 1", "fill 2")
        fermata.cli("resume", "--wait", str(one.pid))
        one.do("free 1", "check 2")
        for p in (one, two):
            p.ends()


def taken_while_out(stack):
    """A program whose memory is on the host opens another one's: what it has of its own comes back as it was."""
    fermata = world(stack)
    for how, say, take, drop in (("alloc 20", "give 0", "take 20", "drop 1"), ("vmm 46", "export 0", "import 0", "free 1")):
        one, two = start(fermata), start(fermata)
        one.do(how, "fill 1", say)
        two.do("alloc 30", "fill 2")
        fermata.cli("suspend", "--out", "--wait", str(two.pid))
        check(fermata.group(two.pid)["memory"][0]["host_bytes"] >= 30 * MIB, fermata.group(two.pid)["memory"])
        mark = two.mark()
        two.tell(take)
        fermata.cli("resume", "--wait", str(two.pid))
        two.line(take.split()[0], after=mark)
        check("refused" not in two.lines[mark:], two.lines[mark:])
        two.do("fill 3", drop, "check 3")
        for p in (one, two):
            p.ends()


def closed_by_the_program(stack):
    """A program that closes what it does not know has new handles that are good; who has the memory keeps it."""
    fermata = world(stack)
    one, two = start(fermata), start(fermata)
    one.do("alloc 20", "fill 1", "give 0")
    two.do("take 20", "check 1", "drop 0")
    one.do("deaf 0", "give 0")
    for n in range(3):  # a thread that was waiting when the socket was closed answers once more
        two.do("take 20", f"check {n + 1}", f"fill {n + 2}", "drop 0")
    one.do("check 4")
    for p in (one, two):
        p.ends()


TOKEN = struct.Struct("=5Q")  # magic, socket, secret, secret, size
ANSWER = struct.Struct("=QQI4x")  # size, offset, messages
PART = struct.Struct("=Q")


class Liar(threading.Thread):
    """Another owner of the handle in the file: `says` is given its connection."""

    def __init__(self, stack, fermata, says):
        super().__init__(daemon=True)
        with open(fermata.env["CUDA_HANDLE"], "rb") as f:
            whole = f.read()
        self.says, self.asked = says, 0
        self.token = list(TOKEN.unpack_from(whole))
        self.token[1] = random.getrandbits(64)
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.bind(f"\0fermata-ipc-{self.token[1]:016x}")
        self.s.listen()
        with open(fermata.env["CUDA_HANDLE"], "wb") as f:
            f.write(TOKEN.pack(*self.token).ljust(len(whole), b"\0"))
        stack.callback(self.s.shutdown, socket.SHUT_RDWR)
        self.start()

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            with c, contextlib.suppress(OSError):
                if c.recv(4096) == TOKEN.pack(*self.token):
                    self.asked += 1
                    self.says(c)


def asked_of(token):
    """What the owner itself says: its size, its offset, and its parts with their descriptors."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(60)
        s.connect(f"\0fermata-ipc-{token[1]:016x}")
        s.send(TOKEN.pack(*token))
        size, offset, n = ANSWER.unpack(s.recv(4096))
        parts = []
        for _ in range(n):
            text, fds, *_ = socket.recv_fds(s, 4096, 1)
            parts.append((PART.unpack(text)[0], *fds))
        return size, offset, parts


def owners_that_lie(stack):
    """Nothing that an owner says is believed: what it cannot have is refused, takes no descriptor of who asks and no more of
    its time than an owner may take. An owner that says the truth is believed."""
    fermata = world(stack)
    one, two = start(fermata), start(fermata)
    one.do("alloc 20", "fill 1", "give 0")
    with open(fermata.env["CUDA_HANDLE"], "rb") as f:
        right = f.read()
    size, offset, parts = asked_of(TOKEN.unpack_from(right))
    check(size == 20 * MIB and sum(bytes_ for bytes_, _ in parts) >= size, f"{size} of {parts}")
    (most, fd), *more = parts
    check(not more, f"{parts}")
    null, null_too = os.open("/dev/null", os.O_RDWR), os.open("/dev/zero", os.O_RDWR)
    for f in (null, null_too, fd):
        stack.callback(os.close, f)

    def says(*answer, parts=(), fds=()):
        def say(c):
            socket.send_fds(c, [ANSWER.pack(*answer)], fds)
            for bytes_, *with_it in parts:
                socket.send_fds(c, [PART.pack(bytes_)], with_it)
            c.recv(1)  # to its end
        return say

    def trickles(c):
        c.send(ANSWER.pack(size, 0, 250))
        for _ in range(250):
            time.sleep(1)
            socket.send_fds(c, [PART.pack(2 * MIB)], [null])

    lies = {
        "nothing": lambda c: None,
        "there is none": says(size, 0, 0),
        "10^9 parts": says(size, 0, 10**9, parts=[(2 * MIB, null)] * 4),
        "257 parts": says(size, 0, 257, parts=[(2 * MIB, null)] * 16),
        "no part of two comes": lambda c: c.send(ANSWER.pack(size, 0, 2)),
        "one part of two comes": lambda c: (c.send(ANSWER.pack(size, 0, 2)), socket.send_fds(c, [PART.pack(most)], [fd])),
        "too short": lambda c: c.send(b"abc"),
        "too long": lambda c: c.send(ANSWER.pack(size, 0, 1) + b"abc"),
        "a part without descriptor": says(size, 0, 1, parts=[(most,)]),
        "a part that is no memory": says(size, 0, 1, parts=[(most, null)]),
        "two descriptors for one": says(size, 0, 1, parts=[(most, null, null_too)]),
        "a descriptor with the answer": says(size, offset, 1, parts=[(most, fd)], fds=[null]),
        "a part of no bytes": says(size, 0, 1, parts=[(0, fd)]),
        "a part of odd bytes": says(size, 0, 1, parts=[(most + 1, fd)]),
        "a part of 2^63": says(size, 0, 1, parts=[(1 << 63, fd)]),
        "a part that is too large": says(size, 0, 1, parts=[(128 * MIB, fd)]),
        "a part that is too small": says(size, 0, 1, parts=[(2 * MIB, fd)]),
        "a part that is larger than itself": says(size, 0, 1, parts=[(most + 2 * MIB, fd)]),
        "it begins behind its end": says(size, most, 1, parts=[(most, fd)]),
        "it begins at 2^64 - 1": says(size, 2**64 - 1, 1, parts=[(most, fd)]),
        "it is larger": says(1 << 63, 0, 1, parts=[(most, fd)]),
        "it is smaller": says(4096, 0, 1, parts=[(most, fd)]),
        "it takes its time": trickles,
    }

    def descriptors():
        return sorted(os.readlink(f"/proc/{two.pid}/fd/{n}") for n in os.listdir(f"/proc/{two.pid}/fd"))

    had = descriptors()
    for what, lie in lies.items():
        liar = Liar(stack, fermata, lie)
        begin = time.monotonic()
        two.refuses("take 20")
        took = time.monotonic() - begin
        check(liar.asked == 1, f"{what}: it was asked {liar.asked} times")
        check(took < 60, f"{what}: {took} s")  # not as long as the trickle
        check(descriptors() == had, f"{what}: {descriptors()}, and not {had}")
        check(not kinds(fermata, two).get("imported"), f"{what}: {kinds(fermata, two)}")
        with open(fermata.env["CUDA_HANDLE"], "wb") as f:
            f.write(right)
    truth = Liar(stack, fermata, says(size, offset, 1, parts=[(most, fd)]))
    two.do("take 20", "check 1", "fill 2")
    check(truth.asked == 1, "it was not asked")
    one.do("check 2")
    for p in (one, two):
        p.ends()


def junk_for_the_owner(stack):
    """Who says nothing, too little, or nonsense gets no answer that is of use, and the next one does."""
    fermata = world(stack)
    one, two = start(fermata), start(fermata)
    one.do("alloc 20", "fill 1", "give 0")
    with open("/proc/net/unix", encoding="utf-8") as f:
        names = re.findall(r"@(fermata-ipc-[0-9a-f]{16})", f.read())
    with open(fermata.env["CUDA_HANDLE"], "rb") as f:
        mine = f"fermata-ipc-{int.from_bytes(f.read()[8:16], sys.byteorder):016x}"
    check(mine in names, f"{mine} is not in {names}")
    for junk in (b"", b"x", b"y" * 40, b"z" * 4000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect("\0" + mine)
            if junk:
                s.send(junk)
            s.settimeout(10)
            answer = s.recv(4096)
            check(not answer or not any(answer), f"it answered {answer}")
    two.do("take 20", "check 1")
    for p in (one, two):
        p.ends()


main(
    both_see_the_same,
    neither_moves_it,
    who_gets_none,
    three_processes,
    descriptors_of_three,
    descriptors_of_its_own,
    freed_while_another_has_it,
    owners_that_are_not_there,
    passed_on_while_out,
    taken_while_out,
    closed_by_the_program,
    owners_that_lie,
    junk_for_the_owner,
)
