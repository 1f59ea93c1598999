#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits of cgroups, by the settings and by the kernel's dmem.max, on the fake driver and a folder that stands for the
kernel's: programs of one cgroup together, of those below it, that move, and whose limit changes."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import Fermata, check, cuda_env, eventually, main, need_cuda_shim, program

MIB = 1 << 20
VRAM = "drm/0000:3b:00.0/vram0"


class Limited(managed.Managed):
    def refused(self, command):
        mark = self.mark()
        self.do(command)
        return "no memory" in self.lines[mark:]


class Tree:
    """Of the kernel's, as the daemon sees it."""

    def __init__(self, path):
        self.path = path

    def put(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def dmem(self, cgroup, text):
        self.put(f"sys/fs/cgroup/{cgroup}/dmem.max", text)

    def enter(self, p, cgroup):
        self.put(f"proc/{p.pid}/cgroup", f"0::/{cgroup}\n")


def world(stack, settings, **env):
    need_cuda_shim()
    fermata = Fermata(stack, start=False, config="[memory]\n" + settings)
    tree = Tree(os.path.join(fermata.dir, "tree"))
    fermata.env["FERMATA_TEST_CGROUPS"] = tree.path
    fermata.start()
    device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
    fermata.env = cuda_env({**fermata.env, "FAKE_CUDA_CAPACITY": "1G", "FAKE_CUDA_CONTEXT": "1M",
                            "FAKE_CUDA_DEVICE": device, **env})
    return fermata, tree


def start(fermata, *options, memory="--memory"):
    p = fermata.program([program("cuda_managed")], *filter(None, [memory]), *options, cls=Limited)
    p.line("ready")
    fermata.knows(p.pid)
    return p


def memory(fermata, p):
    return fermata.group(p.pid)["memory"][0]


def limited(fermata, p, limit):
    eventually("its limit is that of its cgroup", lambda: memory(fermata, p)["limit_bytes"] == limit)


def programs_of_one_tree_share_its_limit(stack):
    fermata, tree = world(stack, "cgroup = yes\n")
    tree.dmem("box", f"{VRAM} {80 * MIB}\n")
    tree.dmem("box/inner", f"{VRAM} max\n")
    a, b, other = (start(fermata, memory=m) for m in ("--memory", None, "--memory"))
    for p, cgroup in ((a, "box"), (b, "box/inner"), (other, "elsewhere")):
        tree.enter(p, cgroup)
        p.do("alloc 1")
    for p in (a, b):
        limited(fermata, p, 80 * MIB)
    check(not a.refused("alloc 30"), "one of them has not what there is")
    check(b.refused("alloc 60"), "together they have more than their cgroup may have")
    check(not b.refused("alloc 20"), "it does not get what is left")
    check(not other.refused("alloc 100"), "another cgroup is limited, too")
    b.do("free 1")
    check(not a.refused("alloc 20"), "what was freed is not given to the other")
    for p in (a, b, other):
        p.do("fill 1", "check 1")
        p.ends()


def a_program_moves(stack):
    """Out of its cgroup; and its cgroup is removed, or its limit cannot be understood."""
    fermata, tree = world(stack, "cgroup = yes\n")
    tree.dmem("box", f"{VRAM} {20 * MIB}\n")
    p = start(fermata)
    tree.enter(p, "box")
    p.do("alloc 10")
    limited(fermata, p, 20 * MIB)
    check(p.refused("alloc 20"), p.lines)
    tree.dmem("box", "what is this\n")
    fermata.says("dmem.max: not understood")
    check(p.refused("alloc 20"), "a limit that cannot be read is none")
    tree.dmem("box", f"{VRAM} 99999999999999999999999\n")
    check(p.refused("alloc 20"), "a limit that cannot be read is none")
    tree.put(f"proc/{p.pid}/cgroup", "0::/box (deleted)\n")
    os.unlink(os.path.join(tree.path, "sys/fs/cgroup/box/dmem.max"))
    eventually("its cgroup is gone", lambda: memory(fermata, p)["limit_bytes"] != 20 * MIB)
    check(not p.refused("alloc 20"), p.lines)
    tree.dmem("other", f"{VRAM} {40 * MIB}\n")
    tree.enter(p, "other")
    limited(fermata, p, 40 * MIB)
    check(p.refused("alloc 20"), p.lines)
    p.ends()


def by_the_settings(stack):
    fermata, tree = world(stack, "cgroup_limits = /user.slice/*:24M /user.slice/big:64M\n")
    p, q = start(fermata), start(fermata)
    tree.enter(p, "user.slice/small/app")
    tree.enter(q, "user.slice/big")
    tree.dmem("user.slice/small", f"{VRAM} 5\n")  # nobody has asked for that
    for each in (p, q):
        each.do("alloc 1")
        limited(fermata, each, 24 * MIB)
        check(not each.refused("alloc 10") and each.refused("alloc 20"), (each.lines, memory(fermata, each)))
        each.ends()


def a_limit_sinks(stack):
    """What exceeds it leaves the device, the programs go on with what they had, and it comes back."""
    fermata, tree = world(stack, "cgroup = yes\n")
    tree.dmem("box", f"{VRAM} {120 * MIB}\n")
    a, b = start(fermata), start(fermata)
    other = start(fermata)
    for p, cgroup in ((a, "box"), (b, "box/inner"), (other, "elsewhere")):
        tree.enter(p, cgroup)
        p.do("alloc 1")
    for p in (a, b):
        limited(fermata, p, 120 * MIB)
    for p in (a, b, other):
        p.do("alloc 16", "alloc 8", "alloc 8", "fill 1")

    def here():
        return sum(memory(fermata, p)["resident_bytes"] for p in (a, b))

    check(here() > 60 * MIB, here())
    tree.dmem("box", f"{VRAM} {44 * MIB}\n")
    eventually("what exceeds it is gone", lambda: here() <= 44 * MIB)
    for p in (a, b):
        m = memory(fermata, p)
        check(m["mapped_bytes"] and m["resident_bytes"] > 4 * MIB, m)
        p.do("check 1", "fill 2", "spin 5", "check 2")
    check(not memory(fermata, other)["mapped_bytes"], "another cgroup has lost something")
    check(a.refused("alloc 8"), "there is room where there is none")
    fermata.cli("suspend", "--out", "--wait", str(a.pid))
    fermata.cli("resume", "--wait", str(a.pid))
    check(here() <= 44 * MIB, here())
    a.do("check 2")
    tree.dmem("box", f"{VRAM} max\n")

    eventually("it is back", lambda: not any(memory(fermata, p)["mapped_bytes"] for p in (a, b)))
    for p in (a, b, other):
        p.do("check 2" if p is not other else "check 1", "fill 3", "check 3")
        p.ends()


main(
    programs_of_one_tree_share_its_limit,
    a_program_moves,
    by_the_settings,
    a_limit_sinks,
)
