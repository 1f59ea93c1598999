#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that runs from the host, mapped for the device, on the fake driver: sets larger than the device, programs
whose memory finds no room when they must go on, and what they are told."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import check, eventually, main
from managed import MIB, memory, start


def world(stack, capacity="40M", **more):
    return managed.world(stack, capacity, **more)


def refused(p):
    return "no memory" in p.lines


def one_and_a_half_times_the_device(stack):
    """With --memory=SIZE it runs, slowly, and sees what it would see on a larger device."""
    fermata = world(stack)
    p = start(fermata, memory="--memory=1G")
    p.do("alloc 24", "alloc 24", "alloc 12", "alloc 0")
    check(not refused(p), p.lines)
    p.do("batch 5", "fill 1", "check 1", "nodes 7", "fill 2", "check 2", "ask 0", "spin 5")
    m = memory(fermata, p)
    check(24 * MIB <= m["mapped_bytes"] <= 40 * MIB and not m["host_bytes"], m)
    check(m["resident_bytes"] < 40 * MIB, m)
    check(" MAPPED " in fermata.cli("ps", "--memory").stdout, "ps --memory does not show it")
    why = fermata.cli("why", str(p.pid)).stdout
    check("of memory runs from the host" in why and "let the program use less" in why, why)
    # All of it goes out and comes in but what runs from the host, which stays there.
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    there = memory(fermata, p)
    check(there["mapped_bytes"] == m["mapped_bytes"] and there["host_bytes"] >= 20 * MIB, there)
    fermata.cli("resume", "--wait", str(p.pid))
    p.do("check 2", "free 1", "free 0", "fill 3", "check 3", "free 0", "free 0")
    m = memory(fermata, p)
    check(not m["mapped_bytes"], m)
    p.ends()


def by_default_it_is_refused(stack):
    fermata = world(stack)
    for option in ("--memory", "--memory=39M"):
        p = start(fermata, memory=option)
        p.do("alloc 24", "alloc 24")
        check(refused(p), f"{option}: there was memory")
        p.do("fill 1", "check 1")
        check(not memory(fermata, p)["mapped_bytes"], memory(fermata, p))
        p.ends()


def others_make_room_first(stack):
    fermata = world(stack)
    other = start(fermata)
    other.do("alloc 24", "fill 1")
    p = start(fermata, memory="--memory=1G")
    p.do("alloc 30", "fill 2", "check 2")
    check(not memory(fermata, p)["mapped_bytes"], memory(fermata, p))
    p.do("alloc 30", "fill 2", "check 2")
    check(memory(fermata, p)["mapped_bytes"] >= 30 * MIB, memory(fermata, p))
    p.ends()
    other.do("check 1")
    other.ends()


def the_host_has_an_end(stack):
    """What the host may have bounds it, too; and without chunks of the host it is refused as on a full device."""
    for env in ({"FERMATA_MEMORY_HOST": "16M"}, {"FAKE_CUDA_NO_HOST_CHUNKS": "1"}):
        fermata = world(stack, **env)
        p = start(fermata, memory="--memory=1G")
        p.do("alloc 24", "alloc 24")
        check(refused(p), f"{env}: there was memory")
        p.do("fill 1", "check 1")
        p.ends()


def a_device_that_counts_as_smaller(stack):
    """What is beyond [memory] device_limit runs from the host, although the device has more."""
    fermata = world(stack, capacity="1G", config="[memory]\ndevice_limit = 40M\n")
    p = start(fermata, memory="--memory=1G")
    p.do("alloc 24", "alloc 24", "alloc 12", "fill 1", "check 1", "ask 0")
    m = memory(fermata, p)
    check(not refused(p) and m["resident_bytes"] <= 40 * MIB and m["mapped_bytes"] >= 20 * MIB, m)
    p.do("free 0", "free 0", "alloc 12", "fill 2", "check 2")
    m = memory(fermata, p)
    check(not refused(p) and m["resident_bytes"] <= 40 * MIB, m)
    p.ends()
    p = start(fermata)
    p.do("alloc 24", "alloc 24")
    check(refused(p), "without a limit above it there was memory")
    p.ends()


def is_full(fermata, mib=24):
    """Another program has the device, and keeps it."""
    other = start(fermata, "--memory-pin")
    other.do(f"alloc {mib}", "fill 9")
    check(not refused(other), other.lines)
    return other


def comes_home_when_there_is_room(stack):
    fermata = world(stack)
    other = is_full(fermata)
    p = start(fermata, memory="--memory=1G")
    p.do("alloc 24", "fill 1")
    check(memory(fermata, p)["mapped_bytes"] >= 24 * MIB, memory(fermata, p))
    p.tell("spin 20000")  # it works meanwhile
    other.ends()
    eventually("it is on the device", lambda: not memory(fermata, p)["mapped_bytes"])
    check(memory(fermata, p)["resident_bytes"] >= 24 * MIB, memory(fermata, p))
    p.do("check 1", "ask 0", "fill 2", "check 2")
    p.ends()


def goes_on_without_room(stack):
    """When it has waited for long enough."""
    fermata = world(stack, FERMATA_MEMORY_WAIT="300ms")
    p = start(fermata)
    p.do("alloc 24", "fill 1")
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    other = is_full(fermata)
    fermata.cli("resume", str(p.pid))
    p.do("check 1", "ask 0", "batch 3", "fill 2", "check 2")
    m = memory(fermata, p)
    check(m["mapped_bytes"] >= 24 * MIB and not m["host_bytes"], m)
    why = fermata.cli("why", str(p.pid)).stdout
    check("of memory runs from the host" in why and "suspend --out" in why, why)
    p.ends()
    other.ends()


def waits_for_ever_if_told_so(stack):
    fermata = world(stack, FERMATA_MEMORY_WAIT="forever")
    p = start(fermata)
    p.do("alloc 24", "fill 1")
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    other = is_full(fermata)
    fermata.cli("resume", str(p.pid))
    p.tell("check 1")
    eventually("it says that the device is full", lambda: "no room" in memory(fermata, p).get("trouble", ""))
    other.do("check 9")
    check(not memory(fermata, p)["mapped_bytes"] and "check" not in p.lines, p.lines)
    other.ends()
    p.line("check")
    check(not memory(fermata, p)["mapped_bytes"], memory(fermata, p))
    p.ends()


def fails_open_without_a_daemon(stack):
    """Nobody makes others give their memory up any more."""
    fermata = world(stack, FERMATA_MEMORY_WAIT="200ms")
    p = start(fermata)
    p.do("alloc 24", "fill 1")
    other = start(fermata)
    other.do("alloc 24", "fill 2")
    check(memory(fermata, p)["host_bytes"] >= 24 * MIB, memory(fermata, p))
    fermata.kill()
    if os.environ.get("FERMATA_TEST_STRICT"):  # there it stays stopped until another daemon runs
        fermata.start()
    p.do("check 1")
    other.do("check 2")
    p.do("fill 3", "check 3")
    for each in (p, other):
        each.ends()


def exits_without_room(stack):
    """With its memory in place."""
    fermata = world(stack, FERMATA_MEMORY_WAIT="300ms")
    p = start(fermata)
    p.do("alloc 24", "fill 1", "late 1")
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    other = is_full(fermata)
    p.p.stdin.close()
    p.line("later")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")
    other.do("check 9")
    other.ends()


def layers(fermata, n=7, mib=8):
    """More than the device, and used in order: what was allocated last runs from the host."""
    p = start(fermata, memory="--memory=1G", name="cuda_early")
    p.do(*[f"alloc {mib}"] * n, "pass 0", "check 0")
    m = memory(fermata, p)
    check(m["mapped_bytes"] >= 2 * mib * MIB and not m["exchanged_bytes"], m)
    return p


def uses_most(fermata, p, n, mib):
    """Its last n layers, until so much of them has come to the device."""

    def used():
        p.do(f"most {n}", "check 0")
        return memory(fermata, p)["exchanged_bytes"] >= mib * MIB

    eventually(f"{mib} MiB of what is used most is on the device", used)


def what_is_used_most_has_the_device(stack):
    """Of a program that has more; and no more of it than before."""
    fermata = world(stack)
    p = layers(fermata)
    before = memory(fermata, p)
    uses_most(fermata, p, 2, 16)
    m = memory(fermata, p)
    check(all(m[k] == before[k] for k in ("mapped_bytes", "resident_bytes", "committed_bytes")), (before, m))
    check(m["moved_out_bytes"] == m["moved_in_bytes"] == m["exchanged_bytes"], m)
    check("what is used most has the device" in fermata.cli("why", str(p.pid)).stdout, "why does not say so")
    check("in the place of what is used less" in fermata.cli("ps", "--memory").stdout, "ps --memory does not say so")
    p.do("pass 0", "stray 0", "stray 6", "random 5", "check 0")
    fermata.cli("suspend", "--out", "--wait", str(p.pid))
    fermata.cli("resume", "--wait", str(p.pid))
    p.do("pass 0", "random 6", "check 0")
    p.ends()


def not_if_it_is_told_so(stack):
    """Beside one on a device of its own that is used alike, and exchanges."""
    off, on = world(stack, FERMATA_MEMORY_EXCHANGE="0"), world(stack)
    p, q = layers(off), layers(on)

    def both_have_used():
        for each in (p, q):
            each.do("most 2", "check 0")
        return memory(on, q)["exchanged_bytes"] >= 16 * MIB

    eventually("the other one has exchanged", both_have_used)
    check(not memory(off, p)["exchanged_bytes"], memory(off, p))
    for each in (p, q):
        each.ends()


def without_a_daemon_what_is_used_most_has_the_device(stack):
    """And goes on when there is one again."""
    fermata = world(stack)
    p = layers(fermata)
    fermata.kill()
    if not os.environ.get("FERMATA_TEST_STRICT"):  # there it stays stopped until another daemon runs
        p.do("most 2", "pass 0", "random 3", "check 0")
    fermata.start()
    fermata.knows(p.pid)
    uses_most(fermata, p, 2, 16)
    p.do("random 4", "check 0")
    p.ends()


def the_host_has_no_room_for_an_exchange(stack):
    """Then all stays where it is."""
    fermata = world(stack, FERMATA_MEMORY_HOST="25M")
    p = layers(fermata)
    p.do(*("most 2", "random 7", "check 0") * 8)
    check(memory(fermata, p)["mapped_bytes"] <= 25 * MIB, memory(fermata, p))
    p.ends()


def killed_in_an_exchange(stack):
    """What it had is another's."""
    fermata = world(stack, FAKE_CUDA_COPY="0.05:0.05:0.1")
    p = layers(fermata)
    for _ in range(400):
        p.tell("most 2")
    eventually("some of it has come", lambda: memory(fermata, p)["moved_out_bytes"] > 0)
    p.p.kill()
    p.wait()
    q = start(fermata)
    q.do("alloc 32", "fill 1", "check 1")
    check(not memory(fermata, q)["mapped_bytes"], memory(fermata, q))
    q.ends()


def larger_than_the_device_beside_another(stack):
    """That keeps its memory, and works all the time: what either computes is right."""
    fermata = world(stack)
    q = start(fermata, "--memory-pin")
    q.do("alloc 8", "fill 1")
    p = layers(fermata)
    for i in range(3):
        q.tell("spin 200")
        p.do("most 2", f"random {i}", "check 0")
    uses_most(fermata, p, 2, 16)
    q.do("check 1", "fill 2", "check 2")
    check(not memory(fermata, q)["mapped_bytes"], memory(fermata, q))
    for each in (q, p):
        each.ends()


def larger_than_the_device_in_turns_with_another(stack):
    """What is out of it comes in before what runs from the host, so both go on."""
    fermata = world(stack)
    q = start(fermata)
    p = layers(fermata)
    q.do("alloc 16", "fill 1")
    for i in range(6):
        mark = p.mark()
        for command in ("most 2", f"random {i}", "check 0"):
            p.tell(command)
        q.do("check 1", "spin 20", "fill 1")
        p.line("check", after=mark)
    for each in (q, p):
        each.ends()


main(
    what_is_used_most_has_the_device,
    not_if_it_is_told_so,
    without_a_daemon_what_is_used_most_has_the_device,
    the_host_has_no_room_for_an_exchange,
    killed_in_an_exchange,
    larger_than_the_device_beside_another,
    larger_than_the_device_in_turns_with_another,
    one_and_a_half_times_the_device,
    by_default_it_is_refused,
    others_make_room_first,
    the_host_has_an_end,
    a_device_that_counts_as_smaller,
    comes_home_when_there_is_room,
    goes_on_without_room,
    waits_for_ever_if_told_so,
    fails_open_without_a_daemon,
    exits_without_room,
)
