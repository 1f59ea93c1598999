#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of managed programs that is passed to other processes by cuIpcGetMemHandle, on the fake driver: both see the
same bytes, neither moves them, and nobody else gets them."""
import os
import re
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import check, main, program
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
    junk_for_the_owner,
)
