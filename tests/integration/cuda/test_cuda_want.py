#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs say of their memory (<fermata/memory.h>), on the fake driver: what it does, and what it may not."""
import errno
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, check, cuda_env, eventually, main, need_cuda_shim, program

MIB = 1 << 20


class Says(Program):
    def do(self, *commands):
        """Each is answered before the next is sent. Returns what the last one printed."""
        for command in commands:
            mark = self.mark()
            self.tell(command)
            self.line(command.split()[0] + "$", after=mark)
        return [line for line in self.lines[mark:] if line][:-1]

    def says(self, command):
        (line,) = self.do(command)
        return int(line.removeprefix("rc "))

    def stat(self, n):
        (line,) = self.do(f"stat {n}")
        return dict(zip(("device", "host", "mapped", "empty", "unmanaged", "pinned"),
                        map(int, line.split()[1:])))

    def ends(self):
        self.p.stdin.close()
        check(self.wait() == 0, f"it ended with status {self.p.returncode}")


def world(stack, capacity="80M", config=None, start=True, **env):
    need_cuda_shim()
    fermata = Fermata(stack, config=config, start=start)
    device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
    fermata.env = cuda_env({**fermata.env, "FAKE_CUDA_CAPACITY": capacity, "FAKE_CUDA_CONTEXT": "1M",
                            "FAKE_CUDA_DEVICE": device, **env})
    return fermata


def start(fermata, *options, memory="--memory", **user):
    p = fermata.program([program("cuda_want")], *filter(None, [memory]), *options, cls=Says, **user)
    p.line("ready")
    if fermata.daemon:
        fermata.knows(p.pid)
    return p


def kinds(fermata, p):
    return fermata.group(p.pid)["memory"][0]["kinds"]


def out(fermata, p):
    return fermata.cli("suspend", "--out", "--wait", str(p.pid), check_status=False)


def is_told_where_its_memory_is(stack):
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 20", "vmm 24", "fill 1", "odd 0")
    check(p.stat(0)["device"] == 20 and p.stat(1)["device"] == 24, p.lines)
    out(fermata, p)
    for n, size in ((0, 20), (1, 24)):
        s = p.stat(n)
        check(not s["device"] and s["host"] + s["empty"] == size and s["host"] and s["empty"], s)
    fermata.cli("resume", "--wait", str(p.pid))
    check(p.stat(0)["device"] == 20 and p.stat(1)["device"] == 24, p.lines)
    p.do("check 1")
    p.ends()


def what_is_kept_stays(stack):
    """It is pinned for the reason "program", once however often that is said, until it is undone or freed."""
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 24", "vmm 20", "alloc 20", "fill 1")
    check([p.says("pin 0"), p.says("pin 0"), p.says("half 1"), p.says("soon 0")] == [0, 0, 0, 0], p.lines)
    check(kinds(fermata, p).get("program") == 44 * MIB, kinds(fermata, p))
    check("program (fm_memory_want" in fermata.cli("ps", "--memory").stdout, "ps does not name it")
    out(fermata, p)
    check(p.stat(0)["pinned"] == p.stat(0)["device"] == 24 and p.stat(1)["device"] == 20, p.lines)
    check(not p.stat(2)["device"], p.lines)
    # What is out can neither be kept nor brought in by that alone.
    check(p.says("pin 2") == -errno.EBUSY and p.says("unpin 0") == 0, p.lines)
    check(p.stat(0)["device"] == 24, "it goes while memory moves")
    fermata.cli("resume", "--wait", str(p.pid))
    eventually("what it keeps is less", lambda: kinds(fermata, p).get("program") == 20 * MIB)
    p.do("check 1", "free 1")
    check(not kinds(fermata, p).get("program"), kinds(fermata, p))
    out(fermata, p)
    check(not p.stat(0)["device"] and not p.stat(2)["device"], p.lines)
    fermata.cli("resume", "--wait", str(p.pid))
    p.do("check 1")
    p.ends()


def what_is_cold_goes_first(stack):
    """Another needs half of what there is: what goes is what the program has said, not what was made last."""
    fermata = world(stack, capacity="100M", config="[memory]\npolicy = jit\n")
    p = start(fermata)
    p.do("alloc 24", "alloc 24", "alloc 24", "fill 1")
    check([p.says("cold 0"), p.says("cold 2"), p.says("soon 2")] == [0, 0, 0], p.lines)
    other = start(fermata)
    other.do("alloc 40", "fill 2")
    eventually("some of it is out", lambda: not p.stat(0)["device"])
    check(p.stat(2)["device"] == 24 or not p.stat(1)["device"], (p.stat(1), p.stat(2)))
    p.do("check 1")
    other.do("check 2")
    p.ends()
    other.ends()


def what_is_soon_comes_in(stack):
    """A program that has been put out, because another needed the room, has its memory before it waits for it."""
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 40", "fill 1")
    other = start(fermata)
    other.do("alloc 60", "fill 2")
    eventually("it is out", lambda: not p.stat(0)["device"])
    check(p.says("soon 0") == 0, p.lines)
    eventually("it is in", lambda: p.stat(0)["device"] == 40)
    p.do("check 1")
    p.ends()
    other.do("check 2")
    other.ends()


def cannot_keep_what_others_were_promised(stack):
    fermata = world(stack, config="[limits]\nmemory-pin_max = 1\n")
    p = start(fermata)
    p.do("alloc 24", "alloc 24")
    other = start(fermata, "--memory-request", "40M")
    other.do("alloc 8")
    check(p.says("pin 0") == 0 and p.says("pin 1") == -errno.ENOSPC, p.lines)
    check(other.says("pin 0") == 0, other.lines)
    other.ends()
    eventually("it may have more", lambda: p.says("pin 1") == 0)
    check(kinds(fermata, p).get("program") == 48 * MIB, kinds(fermata, p))
    p.do("many 200")
    check(kinds(fermata, p).get("program") == 24 * MIB, kinds(fermata, p))
    p.ends()


def may_be_forbidden(stack):
    fermata = world(stack, config="[limits]\nmemory-pin_max = 0\n", FAKE_CUDA_DEVICE="")
    p = start(fermata, **fermata.somebody())
    p.do("alloc 8", "fill 1")
    check(p.says("pin 0") == -errno.ENOSPC and p.says("unpin 0") == 0, p.lines)
    check(not kinds(fermata, p).get("program"), kinds(fermata, p))
    p.do("check 1")
    p.ends()


def says_it_to_nobody(stack):
    """Without Fermata it is told so; without a daemon it has its say; where memory is not managed there is none."""
    fermata = world(stack, start=False)
    p = Says([program("cuda_want")], env=fermata.env)
    p.line("ready")
    p.do("alloc 8")
    check(p.says("cold 0") == -errno.ENOSYS and p.says("pin 0") == -errno.ENOSYS, p.lines)
    p.ends()
    p = start(fermata)
    p.do("alloc 8", "odd 0")
    check(p.says("pin 0") == 0 and p.stat(0)["pinned"] == 8 and p.says("unpin 0") == 0, p.lines)
    p.ends()
    p = start(fermata, memory=None)
    p.do("alloc 8")
    check(p.says("pin 0") == -errno.ENOENT and p.stat(0)["unmanaged"] == 8, p.lines)
    p.ends()


main(
    is_told_where_its_memory_is,
    what_is_kept_stays,
    what_is_cold_goes_first,
    what_is_soon_comes_in,
    cannot_keep_what_others_were_promised,
    may_be_forbidden,
    says_it_to_nobody,
)
