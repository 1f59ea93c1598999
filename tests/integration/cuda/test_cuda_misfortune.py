#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that may move, on the fake driver: what programs do that they should not, and what befalls them while it moves."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import SANITIZE, Skip, check, eventually, halt, main, program, seldom_sanitized
from managed import MIB, Managed, back, memory, out, start, world


def odd_sizes_and_ends(stack):
    """Refused as natively, also while nothing of the program is managed; what is left goes out and comes back."""
    native = subprocess.run([program("cuda_managed")], input="alloc 4\nodd 0\nalloc 3\nfill 1\ncheck 1\n", text=True,
                            env=world(stack, start=False).env, capture_output=True, check=False)
    check(native.returncode == 0, f"natively: {native.stderr}")
    for option in (None, "--memory"):
        fermata = world(stack)
        p = start(fermata, memory=option)
        p.do("alloc 4", "alloc 130", "fill 1", "odd 0", "alloc 3", "fill 2", "check 2")
        if option:
            check(memory(fermata, p)["movable_bytes"] >= 133 * MIB, memory(fermata, p))
            out(fermata, p)
            back(fermata, p)
        p.do("check 2")
        p.ends()


ODD = ("oddmaps 0", "oddpools 0", "oddnames 0", "oddlaunch 0", "oddadvice 0", "oddadvice 1", "oddadvice 2")
HAS = ("alloc 5", "pool 4", "unified 4", "fill 1")


def answers(lines):
    return [line for line in lines if line and line.startswith("answer ")]


def odd_calls(stack):
    """What cannot be is refused with the driver's own errors, before memory was out and behind that; nothing else changes."""
    native = subprocess.run([program("cuda_managed")], input="\n".join(HAS + ODD + ("check 1", "")), text=True,
                            env=world(stack, start=False).env, capture_output=True, check=False)
    check(native.returncode == 0 and len(answers(native.stdout.splitlines())) > 60, f"natively: {native.stderr}")
    for option in (None, "--memory"):
        fermata = world(stack)
        p = start(fermata, memory=option)
        p.do(*HAS)
        for n in range(2 if option else 1):
            mark = p.mark()
            p.do(*ODD, "check 1")
            check(answers(p.lines[mark:]) == answers(native.stdout.splitlines()), f"{option}: {answers(p.lines[mark:])}")
            if option and not n:
                out(fermata, p)
                back(fermata, p)
        p.ends()


def advised_while_it_is_out(stack):
    """Advice and prefetches are for unified memory; that of a program that is out is no other than when it is in."""
    fermata = world(stack)
    p = start(fermata)
    p.do(*HAS, "oddadvice 0", "oddadvice 2")
    first = answers(p.lines)
    check(len(first) > 12 and first[0] == "answer advice: 1" and "answer advice: 0" in first, first)
    out(fermata, p)
    check(memory(fermata, p)["host_bytes"] >= 5 * MIB, memory(fermata, p))
    mark = p.mark()
    p.tell("oddadvice 0")
    p.tell("oddadvice 2")
    p.tell("check 1")
    back(fermata, p)
    p.line("check", after=mark)
    check(answers(p.lines[mark:]) == first, f"{answers(p.lines[mark:])}")
    p.ends()


def behind_a_gate(stack, call):
    """The call waits for the work in front of it outside of the driver, 100 ms if nothing stops it. On a machine at work the
    gate may close later, and then memory stays where it is."""
    fermata = world(stack, FAKE_CUDA_LOCK=1, FAKE_CUDA_NARROW=1, FAKE_CUDA_FIRST="wait")
    p = start(fermata)
    p.do("alloc 5", "alloc 20", "fill 1", "check 1")
    went_out = 0
    for _ in range(60):
        mark = p.mark()
        p.tell(f"{call} 0")
        p.line("launched", after=mark)
        r = out(fermata, p, "--timeout", "10", check_status=False)
        if not r.returncode:
            check(memory(fermata, p)["host_bytes"] >= 5 * MIB, memory(fermata, p))
            went_out += 1
        back(fermata, p)
        p.line(call, after=mark)
        p.do("check 1")
        if went_out == 3:
            break
    check(went_out == 3, f"it went out {went_out} times")
    p.ends()


def a_first_launch_behind_a_gate(stack):
    """The driver loads a function's code at its first launch, and waits for all that was launched, with its lock."""
    behind_a_gate(stack, "first")


def a_larger_stack_behind_a_gate(stack):
    """The driver makes room for stacks anew, and waits as well."""
    behind_a_gate(stack, "stack")


def freed_while_it_moves(stack):
    """The call waits until the memory is back, on the way out and on the way in; the rest is what it was."""
    fermata = world(stack, FAKE_CUDA_COPY="0.2:0.2:0.2")
    p = start(fermata)
    p.do("alloc 12", "alloc 13", "alloc 14", "alloc 15", "fill 1", "check 1")
    fermata.cli("suspend", "--out", str(p.pid))
    eventually("some of it is out", lambda: memory(fermata, p)["host_bytes"])
    mark = p.mark()
    p.tell("free 3")
    out(fermata, p)
    back(fermata, p)
    p.line("free", after=mark)
    p.do("check 1")
    out(fermata, p)
    fermata.cli("resume", str(p.pid))
    p.do("free 2", "check 1", "alloc 9", "fill 2", "check 2")
    p.ends()


def stopped_while_it_moves(stack):
    """By a signal, with a part of its memory out: a program that needs the room is refused, or gets what is free. Both go on."""
    fermata = world(stack, capacity="100M", FAKE_CUDA_COPY="0.1:0.1:0.1")
    p = start(fermata)
    p.do(*["alloc 12"] * 5, "fill 1")
    fermata.cli("suspend", "--out", str(p.pid))
    eventually("some of it is out", lambda: memory(fermata, p)["host_bytes"] > 0)
    halt(p.p)
    other = start(fermata)
    other.do("alloc 90")
    check("no memory" in other.lines, "it got more than there was")
    other.do("alloc 10")  # the fake device's engines stand, too, so nothing is copied
    p.p.send_signal(signal.SIGCONT)
    other.do("fill 2", "check 2")
    out(fermata, p)
    back(fermata, p)
    p.do("check 1")
    other.do("check 2")
    other.ends()
    p.ends()


def stopped_before_it_moves(stack):
    """It is said which process is stopped, and what helps; then its memory moves as it was told to."""
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 20", "fill 1")
    for moves, wish in ((out, ("suspend", "--out")), (back, ("resume",))):
        halt(p.p)
        r = fermata.cli(*wish, "--wait", "--timeout", "1", str(p.pid), check_status=False)
        check(r.returncode == 1, f"it moves: {r}")
        for said in (r.stderr, fermata.cli("why", str(p.pid)).stdout):
            check(f"process {p.pid} is stopped" in said and f"kill -CONT {p.pid}" in said, said)
        p.p.send_signal(signal.SIGCONT)
        moves(fermata, p)
        check("is stopped" not in fermata.cli("why", str(p.pid)).stdout, "it is said to be stopped")
    p.do("check 1")
    p.ends()


def stopped_while_it_comes_in(stack):
    """Others get what is free, and both go on behind that, also where they have no room together."""
    fermata = world(stack, capacity="100M", FAKE_CUDA_COPY="0.1:0.1:0.1")
    other, p = start(fermata), start(fermata)
    p.do(*["alloc 12"] * 5, "fill 1")
    out(fermata, p)
    was = memory(fermata, p)["host_bytes"]
    fermata.cli("resume", str(p.pid))
    eventually("some of it is in", lambda: memory(fermata, p)["host_bytes"] < was)
    halt(p.p)
    other.do("alloc 30")
    p.p.send_signal(signal.SIGCONT)
    other.do("fill 2", "check 2", "alloc 40", "fill 3")
    p.do("check 1", "fill 4")
    other.do("check 3")
    p.do("check 4")
    check("no memory" not in other.lines, "it was refused what there was")
    for each in (p, other):
        each.ends()


def a_kernel_that_does_not_end(stack):
    """Others need its room: `why` says that it did not go out, and for what reason."""
    fermata = world(stack, capacity="100M")
    p = start(fermata)
    p.do("alloc 60", "fill 1")
    p.tell("hang 600000")
    p.line("hangs")
    other = start(fermata)
    other.tell("alloc 60")
    eventually("it is said", lambda: "its work does not end" in fermata.cli("why", str(p.pid)).stdout)
    other.line("no memory")
    other.do("alloc 20", "fill 2", "check 2")
    p.kill()
    other.do("alloc 60", "fill 3", "check 3")
    other.ends()


def where_memory_is_not_managed(stack):
    """Under MPS programs run as always, and nothing of them goes out."""
    fermata = world(stack, FAKE_CUDA_MPS=1)
    p = start(fermata)
    p.do("alloc 5", "fill 1", "check 1")
    r = fermata.cli("suspend", "--out", str(p.pid), check_status=False)
    check(r.returncode == 1 and "(MPS)" in r.stderr and "end the MPS daemon" in r.stderr, r.stderr)
    check(not memory(fermata, p)["movable_bytes"], memory(fermata, p))
    p.do("fill 2", "check 2")
    p.ends()


def a_part_of_a_device(stack):
    """Memory of a part (MIG) goes out and comes back as that of a device does."""
    fermata = world(stack, FAKE_CUDA_MIG=1)
    p = start(fermata)
    p.do("alloc 5", "alloc 20", "fill 1")
    out(fermata, p)
    check(not memory(fermata, p)["resident_bytes"] and memory(fermata, p)["host_bytes"] >= 20 * MIB, memory(fermata, p))
    back(fermata, p)
    p.do("check 1")
    p.ends()


def few_addresses(stack):
    """A limit of addresses leaves none to reserve: the program has the driver's memory, and it is said what helps."""
    if SANITIZE:
        raise Skip("a sanitizer needs all addresses")
    fermata = world(stack)
    argv = ["sh", "-c", 'ulimit -v 15000000 && exec "$0"', program("cuda_managed")]
    p = fermata.program(argv, "--memory", cls=Managed)
    p.line("ready")
    p.do("alloc 5", "fill 1", "check 1")
    fermata.knows(p.pid)
    check(not memory(fermata, p)["movable_bytes"], memory(fermata, p))
    r = fermata.cli("suspend", "--out", str(p.pid), check_status=False)
    for said in (r.stderr, fermata.cli("why", str(p.pid)).stdout):
        check("too few addresses" in said and "ulimit -v unlimited" in said and "doctor" not in said, said)
    check(r.returncode == 1, "it was put out")
    p.do("alloc 7", "fill 2", "check 2")
    p.ends()


main(odd_sizes_and_ends, odd_calls, advised_while_it_is_out, a_first_launch_behind_a_gate, a_larger_stack_behind_a_gate, freed_while_it_moves, stopped_while_it_moves,
     stopped_before_it_moves, stopped_while_it_comes_in,      *seldom_sanitized(a_kernel_that_does_not_end), where_memory_is_not_managed, a_part_of_a_device, few_addresses)
