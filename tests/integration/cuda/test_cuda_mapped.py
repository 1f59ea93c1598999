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


main(
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
