#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A device that has less than Fermata knows of, for a program that it does not know has the rest: a group whose turn it is gets its
memory from those that may go, and where nobody can go its program runs from the host. On the fake driver."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import check, eventually, main, program
from managed import MIB, Managed, memory, start

LOW, HIGH = ("--priority", "low"), ("--priority", "high")
FOREVER = {"FERMATA_MEMORY_WAIT": "forever"}  # a program that has no room never runs from the host
NOW = {"FERMATA_MEMORY_WAIT": "0"}


def world(stack, capacity="100M", **more):
    return managed.world(stack, capacity, **more)


def ballast(fermata, *commands):
    """A program that Fermata does not know, on the same device."""
    p = Managed([program("cuda_managed")], env=fermata.env)
    fermata.stack.callback(p.close)
    p.line("ready")
    p.do(*commands)
    check("no memory" not in p.lines, f"the ballast: {p.lines}")
    return p


def run_on(p):
    """It has work until it is killed."""
    p.tell("spin 1000000000")


def is_out(fermata, p):
    out = fermata.group(p.pid).get("out")
    return bool(out) and not out["moving"]


def no_refusal(*programs):
    for p in programs:
        check("no memory" not in p.lines, f"an allocation failed: {p.lines}")


def urgent_and_low(fermata, has=30, takes=50):
    """The first is out in part, for the second, which runs, and is less urgent."""
    urgent = start(fermata, *HIGH)
    urgent.do(f"alloc {has // 2}", f"alloc {has - has // 2}", "fill 1", "check 1")
    low = start(fermata, *LOW)
    low.do(f"alloc {takes}", "fill 2")
    no_refusal(urgent, low)
    check(memory(fermata, urgent)["host_bytes"], memory(fermata, urgent))
    run_on(low)
    return urgent, low


def the_rest_goes_out(stack):
    """Of the group that runs, and comes later: it is asked to, though by what is known there is room."""
    fermata = world(stack, **FOREVER)
    ballast(fermata, "alloc 28")
    urgent, low = urgent_and_low(fermata)
    for turn in range(3):
        urgent.do(f"check {turn or 1}", f"fill {turn + 1}", f"check {turn + 1}")
        check(not memory(fermata, urgent)["mapped_bytes"], memory(fermata, urgent))
    check(memory(fermata, low)["moved_out_bytes"], memory(fermata, low))



def grows_and_shrinks(stack):
    """Whatever the ballast has meanwhile, both go on, and compute what they would compute alone."""
    fermata = world(stack)
    rest = ballast(fermata, "alloc 20")
    urgent, low = start(fermata, *HIGH), start(fermata, *LOW)
    urgent.do("alloc 12", "alloc 12", "fill 1")
    low.do("alloc 12", "alloc 12", "fill 2")
    no_refusal(urgent, low)
    for turn, command in enumerate(("alloc 10", "alloc 16", "free 0", "alloc 24", "free 1", "alloc 6", "free 2")):
        for p in urgent, low:
            p.tell(f"check {turn + 1 if p is urgent else turn + 2}")
            p.tell(f"fill {turn + 2 if p is urgent else turn + 3}")
        rest.do(command)
        for p in low, urgent:
            p.do("spin 10", f"check {turn + 2 if p is urgent else turn + 3}")
    no_refusal(urgent, low)
    for p in urgent, low, rest:
        p.ends()


def full_of_ballast(fermata, *commands, **env):
    """Two groups whose memory is out, and a device that the ballast has."""
    out = []
    for i in range(2):
        p = start(fermata, "--idle-out", "100ms")
        p.do("alloc 10", "alloc 10", f"fill {i}")
        no_refusal(p)
        out.append(p)
    for p in out:
        eventually("it is out", lambda: is_out(fermata, p))  # noqa: B023
    rest = ballast(fermata)
    while "no memory" not in rest.lines:
        rest.do("alloc 8")
    return out, rest


def nobody_can_go(stack):
    """The program runs from the host, also where two wait. Where the ballast ends their memory comes to the device."""
    fermata = world(stack, FERMATA_MEMORY_WAIT="1s")
    programs, rest = full_of_ballast(fermata)
    for i, p in enumerate(programs):
        fermata.cli("hint", str(p.pid), "idle-out=0")
        p.tell(f"check {i}")
    for i, p in enumerate(programs):
        p.do(f"check {i}", f"fill {i + 2}", f"check {i + 2}")
    check(any(memory(fermata, p)["mapped_bytes"] for p in programs), [memory(fermata, p) for p in programs])
    rest.ends()

    def is_home():
        for i, p in enumerate(programs):
            p.do(f"check {i + 2}")
        return all(memory(fermata, p)["resident_bytes"] >= 20 * MIB for p in programs)

    eventually("their memory comes to the device", is_home)
    for i, p in enumerate(programs):
        p.do(f"check {i + 2}")
        p.ends()


def one_that_is_pinned(stack):
    """Where all that could go stays, and runs, the one that comes before it runs from the host."""
    fermata = world(stack, FERMATA_MEMORY_WAIT="1s")
    urgent = start(fermata, *HIGH, "--idle-out", "100ms")
    urgent.do("alloc 15", "alloc 15", "fill 1")
    eventually("it is out", lambda: is_out(fermata, urgent))
    low = start(fermata, *LOW, "--memory-pin")
    low.do("alloc 50", "fill 2")
    no_refusal(urgent, low)
    rest = ballast(fermata)
    while "no memory" not in rest.lines:
        rest.do("alloc 8")
    run_on(low)
    fermata.cli("hint", str(urgent.pid), "idle-out=0")
    urgent.do("check 1", "fill 3", "check 3")
    check(memory(fermata, urgent)["mapped_bytes"], memory(fermata, urgent))
    check(not memory(fermata, low)["moved_out_bytes"], memory(fermata, low))


def resumed_by_hand(stack):
    """It gets the room of one that is idle."""
    fermata = world(stack, **FOREVER)
    p = start(fermata)
    p.do("alloc 30", "fill 1")
    managed.out(fermata, p)
    idle = start(fermata)
    idle.do("alloc 50", "fill 2")
    no_refusal(p, idle)
    ballast(fermata, "alloc 30")
    managed.back(fermata, p)
    p.do("check 1")
    check(memory(fermata, idle)["moved_out_bytes"], memory(fermata, idle))
    idle.do("check 2")
    p.ends()
    idle.ends()


main(
    the_rest_goes_out,
    grows_and_shrinks,
    nobody_can_go,
    one_that_is_pinned,
    resumed_by_hand,
)
