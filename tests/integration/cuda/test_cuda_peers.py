#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Managed memory that other devices reach, on the fake driver, which loses a device that touches what it was given no
access to: what was opened before the memory was there, and before it went out, stays open."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, check, cuda_env, main, need_cuda_shim, program

MIB = 1 << 20


class Managed(Program):
    def do(self, *commands):
        for command in commands:
            mark = self.mark()
            self.tell(command)
            self.line(command.split()[0], after=mark)

    def ends(self):
        self.p.stdin.close()
        check(self.wait() == 0, f"it ended with status {self.p.returncode}")


def start(stack, *commands):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, "FAKE_CUDA_DEVICES": "2"})
    p = fermata.program([program("cuda_managed")], "--memory", cls=Managed)
    p.line("ready")
    fermata.knows(p.pid)
    p.do("near 1", *commands)
    return fermata, p


def out_and_in(fermata, p):
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    there = fermata.group(p.pid)["memory"]
    check(sum(m["host_bytes"] for m in there) >= 4 * MIB, there)
    fermata.cli("resume", "--wait", str(p.pid))


def opened_before_and_behind(stack):
    """Access to a context's memory: of what is there, of what comes later, and after it was out."""
    fermata, p = start(stack, "alloc 4", "enable 0", "alloc 4", "fill 1", "reach 0", "reach 1")
    for _ in range(2):
        out_and_in(fermata, p)
        p.do("check 1", "reach 1", "reach 0")
    p.ends()


def opened_while_out(stack):
    """Access that is given while the memory is on the host holds when it is back; also for a pool, and for what the program maps."""
    for how, opens in (("alloc 4", "enable 0"), ("pool 4", "poolaccess 0"), ("vmm 46", "grant 0")):
        fermata, p = start(stack, how, "alloc 5", "fill 1")
        fermata.cli("suspend", "--out", "--wait", str(p.pid))
        check(sum(m["host_bytes"] for m in fermata.group(p.pid)["memory"]) >= 9 * MIB, fermata.group(p.pid)["memory"])
        mark = p.mark()
        p.tell(opens)
        p.tell("reach 0")
        fermata.cli("resume", "--wait", str(p.pid))
        p.line("reach", after=mark)
        p.do("check 1")
        out_and_in(fermata, p)
        p.do("reach 0", "check 1")
        p.ends()


def a_pool_that_is_opened_first(stack):
    """Before anything was taken of it, and before there is any managed memory."""
    fermata, p = start(stack, "poolaccess 0", "pool 4", "fill 1", "reach 0")
    out_and_in(fermata, p)
    p.do("check 1", "reach 0")
    p.ends()


def not_opened(stack):
    """Nor is more open than natively: the device is lost. Copies need no access."""
    fermata, p = start(stack, "alloc 4", "fill 1", "peers 0", "check 1")
    out_and_in(fermata, p)
    p.do("peers 0", "check 1")
    p.tell("reach 0")
    check(p.wait() != 0, "the other device reached it")


main(opened_before_and_behind, opened_while_out, a_pool_that_is_opened_first, not_opened)
