#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a CUDA program's calls are counted. The driver is the fake one."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, check, cuda_env, main, need_cuda_shim, program


class World:
    def __init__(self, stack, *way, **env):
        need_cuda_shim()
        self.fermata = Fermata(stack)
        self.fermata.env = {**cuda_env(self.fermata.env), **env}
        self.p = self.fermata.program([program("cuda_calls"), *way])
        self.p.line("ready")

    def do(self, command, n=1):
        """What the command has added to the group's counters."""
        before, at = self.group(), self.p.mark()
        self.p.tell(f"{command} {n}")
        self.p.line(command, after=at)
        return {k: self.group()[k] - before[k] for k in ("governed", "ungoverned")}

    def group(self):
        return self.fermata.group(self.p.pid)


def old_and_rare_launches(stack):
    """Those without a variant for per-thread default streams, and the one on several streams."""
    for via in ("link", "dlsym", "proc"):
        w = World(stack, "--via", via)
        for command, calls in (("kernels", 10), ("old", 10), ("several", 20)):  # a copy before each
            added = w.do(command, 10)
            check(added == {"governed": calls, "ungoverned": 0}, f"{command} via {via}: {added}")


def a_newer_driver(stack):
    """What the driver gives for a version that the shim does not know is handed on as it is."""
    w = World(stack, "--via", "proc", FAKE_CUDA_NEW="1")
    w.do("newer")
    check(w.do("kernels", 10) == {"governed": 10, "ungoverned": 0}, "and the rest is governed")


def streams_beyond_the_board(stack):
    """A board has 128 slots: what goes past is counted, and named."""
    w = World(stack)
    free = 128 - len(w.group()["queues"])
    added = w.do("streams", free)
    check(added == {"governed": 3 * free, "ungoverned": 0}, f"with room: {added}")
    check(w.group()["calls"] == [], "nothing went past")
    added = w.do("streams", 10)
    check(added == {"governed": 0, "ungoverned": 30}, f"without room: {added}")
    named = {c["call"]: c["ungoverned"] for c in w.group()["calls"]}
    check(named == {"cuMemsetD32Async": 10, "cuLaunchKernel": 20}, f"named: {named}")
    table = [line.split() for line in w.fermata.cli("ps", "--calls").stdout.splitlines()]
    group = w.group()["name"]
    check(table == [["GROUP", "CALL", "UNGOVERNED"], [group, "cuMemsetD32Async", "10"],
                    [group, "cuLaunchKernel", "20"]], f"ps --calls: {table}")


if __name__ == "__main__":
    main(old_and_rare_launches, a_newer_driver, streams_beyond_the_board)
