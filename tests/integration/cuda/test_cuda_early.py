#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that go on before all of their memory is on the device (FERMATA_MEMORY_EARLY), on the fake driver: what is
out runs from the host, comes home in the order in which it is needed, and results are what they are without it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import check, eventually, main
from managed import MIB, memory, out, start


def world(stack, capacity="40M", early="1", **more):
    return managed.world(stack, capacity, FERMATA_MEMORY_EARLY=early, FERMATA_INTERVAL_US="10", **more)


def layers(fermata, n, mib=8, option="--memory"):
    p = start(fermata, memory=option, name="cuda_early")
    p.do(*[f"alloc {mib}"] * n, "pass 0", "check 0")
    return p


def comes_home(fermata, p):
    """But for what nothing has named lately."""
    eventually("it is on the device", lambda: memory(fermata, p)["mapped_bytes"] < 8 * MIB)


def what_is_out_is_mapped(stack):
    fermata = world(stack)
    p = layers(fermata, 4)
    for _ in range(2):
        out(fermata, p)
        m = memory(fermata, p)
        check(m["mapped_bytes"] >= 32 * MIB and not m["host_bytes"], m)
        fermata.cli("resume", "--wait", str(p.pid))
        p.do("pass 0", "check 0")
        comes_home(fermata, p)
    p.do("check 0")
    p.ends()


def the_daemon_says_so(stack):
    """[memory] early_start, for what `fermata run` starts; the program's environment is above it."""
    for early, mapped in (("", True), ("0", False)):
        env = {"FERMATA_MEMORY_EARLY": early} if early else {}
        fermata = managed.world(stack, "40M", config="[memory]\nearly_start = yes\nmanage = all\n", **env)
        p = layers(fermata, 2, option=None)
        out(fermata, p)
        m = memory(fermata, p)
        check(bool(m["mapped_bytes"]) == mapped and bool(m["host_bytes"]) != mapped, m)
        check(("early start" in fermata.cli("why", str(p.pid)).stdout) == mapped, "why does not say so")
        fermata.cli("resume", str(p.pid))
        p.do("check 0")
        p.ends()


def the_first_result_comes_before_the_last_layer(stack):
    """Another program has the room of the last layers, and keeps it."""
    fermata = world(stack)
    p = layers(fermata, 4)
    out(fermata, p)
    p.tell("pass 1")
    other = start(fermata, "--memory-pin")
    other.do("alloc 20", "fill 9")
    check("first" not in p.lines, "it has run")
    fermata.cli("resume", str(p.pid))
    p.line("first")
    m = memory(fermata, p)
    check(m["mapped_bytes"] >= 16 * MIB and not m["host_bytes"], m)
    p.tell("go")
    p.line("pass")
    p.do("check 0", "pass 0")
    other.do("check 9")
    other.ends()
    p.do("pass 0", "check 0")
    comes_home(fermata, p)
    p.do("check 0")
    p.ends()


def a_kernel_that_was_not_foretold(stack):
    """It is given the first layer, and writes to the last while that comes home."""
    fermata = world(stack)
    p = layers(fermata, 4)
    for _ in range(3):
        out(fermata, p)
        mark = p.mark()
        for command in ("stray 3", "pass 0", "stray 2", "stray 3", "check 0"):
            p.tell(command)
        fermata.cli("resume", str(p.pid))
        p.line("check", after=mark)
    comes_home(fermata, p)
    p.do("check 0")
    p.ends()


def half_as_much_again_as_the_device(stack):
    fermata = world(stack)
    p = layers(fermata, 8, option="--memory=1G")
    out(fermata, p)
    p.tell("pass 0")
    fermata.cli("resume", str(p.pid))
    p.do("pass 0", "check 0", "pass 0", "stray 7", "check 0")
    m = memory(fermata, p)
    check(m["mapped_bytes"] >= 20 * MIB and not m["host_bytes"], m)
    p.ends()


def two_take_turns(stack):
    """Each goes on before its memory is there, which comes in the place of the other's."""
    fermata = world(stack)
    p, q = layers(fermata, 3), layers(fermata, 3)
    for _ in range(3):
        for each in (p, q):
            each.do("pass 0", "stray 1", "pass 0", "check 0")
    for each in (p, q):
        m = memory(fermata, each)
        check(not m["host_bytes"], m)
        each.ends()


def the_daemon_dies(stack):
    """Before anything is home, and while it comes."""
    for look in (False, True):
        fermata = world(stack)
        p = layers(fermata, 4)
        out(fermata, p)
        p.tell("pass 1")
        if look:
            fermata.cli("resume", str(p.pid))
            p.line("first")
        fermata.kill()
        if os.environ.get("FERMATA_TEST_STRICT"):  # there it stays stopped until another daemon runs
            fermata.start()
        p.line("first")
        p.tell("go")
        p.line("pass")
        p.do("check 0", "pass 0", "check 0")
        p.ends()


def the_device_is_full_and_nobody_says_so(stack):
    """Without a daemon its share is all there is, and the driver has no room: it runs from the host, and does not stand still
    for that on and on."""
    if os.environ.get("FERMATA_TEST_STRICT"):
        return
    fermata = world(stack)
    p = layers(fermata, 4)
    out(fermata, p)
    other = start(fermata, "--memory-pin")
    other.do("alloc 30", "fill 9")
    p.do("tries 0")
    fermata.kill()
    p.do(*["pass 0"] * 20, "check 0", "tried 200")
    other.do("check 9")
    other.ends()
    p.do("pass 0", "check 0")
    p.ends()


def it_exits(stack):
    fermata = world(stack)
    p = layers(fermata, 4)
    out(fermata, p)
    p.tell("pass 1")
    fermata.cli("resume", str(p.pid))
    p.line("first")
    p.p.stdin.write("go\n")
    p.ends()


main(
    what_is_out_is_mapped,
    the_daemon_says_so,
    the_first_result_comes_before_the_last_layer,
    a_kernel_that_was_not_foretold,
    half_as_much_again_as_the_device,
    two_take_turns,
    the_daemon_dies,
    the_device_is_full_and_nobody_says_so,
    it_exits,
)
