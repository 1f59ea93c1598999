#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of managed programs that is registered with network cards, and for the processor (gdrcopy), on the fake driver,
which ends a program that unmaps what a card reads: it stays as long as it is registered, and no longer."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, check, cuda_env, main, need_cuda_shim, program

MIB = 1 << 20


class Managed(Program):
    def do(self, *commands):
        for command in commands:
            mark = self.mark()
            self.tell(command)
            self.line(command.split()[0], after=mark)
            check("refused" not in self.lines[mark:], f"{command} was refused")

    def refuses(self, command):
        mark = self.mark()
        self.tell(command)
        self.line(command.split()[0], after=mark)
        check("refused" in self.lines[mark:], f"{command} was not refused")

    def ends(self):
        self.p.stdin.close()
        check(self.wait() == 0, f"it ended with status {self.p.returncode}")


def world(stack, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    handle = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "handle")
    fermata.env = cuda_env({**fermata.env, "CUDA_HANDLE": handle, **env})
    return fermata


def start(fermata, *commands):
    p = fermata.program([program("cuda_managed")], "--memory", cls=Managed)
    p.line("ready")
    fermata.knows(p.pid)
    p.do(*commands)
    return p


def memory(fermata, p):
    return fermata.group(p.pid)["memory"][0]


def shared(fermata, p):
    return memory(fermata, p)["kinds"].get("shared", 0)


def pins(fermata, p):
    groups = json.loads(fermata.cli("ps", "--memory", "--json").stdout)["groups"]
    return [(pin["kind"], pin["what"], pin["by"]) for pin in next(g for g in groups if str(p.pid) in g["name"]).get("pins", [])]


def out_and_in(fermata, p):
    """How much of it went out."""
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    there = memory(fermata, p)
    fermata.cli("resume", "--wait", str(p.pid))
    p.do("check 1")
    return there["host_bytes"]


def stays_as_long_as_it_is_registered(stack):
    fermata = world(stack)
    p = start(fermata, "alloc 10", "alloc 20", "vmm 4", "fill 1")
    everything = out_and_in(fermata, p)
    check(everything >= 34 * MIB, everything)
    for what, call in (("card", "ibv_reg_mr"), ("window", "gdr_pin_buffer")):
        p.do(f"{what} 0", f"{what} 1")
        check(shared(fermata, p) >= 30 * MIB and ("shared", call, "the program") in pins(fermata, p), pins(fermata, p))
        check(4 * MIB <= out_and_in(fermata, p) <= everything - 30 * MIB, "registered memory went out")
        p.do(f"no{what} 0", f"{what} 1", f"no{what} 1")  # that is registered twice
        check(shared(fermata, p) >= 20 * MIB, memory(fermata, p))
    p.do("window 0", "nowindow -1")  # closed with all that it has
    check(20 * MIB <= shared(fermata, p) < 30 * MIB, memory(fermata, p))  # which the card has
    p.ends()


def pieces_of_the_program(stack):
    """What the program maps itself, and blocks of several pieces, for which the card is given a descriptor."""
    fermata = world(stack)
    p = start(fermata, "vmm 4", "alloc 130", "fill 1")
    for n, size in ((0, 4), (1, 130)):
        p.do(f"card {n}")
        check(size * MIB <= shared(fermata, p) <= (size + 2) * MIB, memory(fermata, p))
        out_and_in(fermata, p)
        p.do(f"nocard {n}")
        check(not shared(fermata, p), memory(fermata, p))
    check(out_and_in(fermata, p) >= 134 * MIB, "it did not go out")
    p.refuses("window 1")  # of two pieces, and there is no descriptor for that
    check(not shared(fermata, p), memory(fermata, p))
    p.ends()


def registered_while_it_is_out(stack):
    """It comes in first."""
    fermata = world(stack)
    p = start(fermata, "alloc 10", "fill 1")
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    mark = p.mark()
    p.tell("card 0")
    fermata.cli("resume", str(p.pid))
    p.line("card", after=mark)
    check("refused" not in p.lines[mark:], "it was refused")
    check(shared(fermata, p) >= 10 * MIB, memory(fermata, p))
    p.do("check 1", "nocard 0")
    p.ends()


def registered_anew(stack):
    """Another place takes the first one's; and what is pinned for another reason meanwhile stays."""
    fermata = world(stack)
    p = start(fermata, "vmm 4", "vmm 6", "fill 1", "card 0", "card -1")
    check(shared(fermata, p) == 6 * MIB, memory(fermata, p))
    out_and_in(fermata, p)
    p.do("pass 1", "nocard 0")
    check(shared(fermata, p) == 6 * MIB, memory(fermata, p))
    out_and_in(fermata, p)
    p.do("alloc 130", "fill 1", "card 2", "give 2", "nocard 2")
    check(shared(fermata, p) >= 136 * MIB, memory(fermata, p))
    p.ends()


main(
    stays_as_long_as_it_is_registered,
    pieces_of_the_program,
    registered_while_it_is_out,
    registered_anew,
)
