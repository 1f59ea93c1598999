#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Budgets of the host's memory, on the fake driver: what has no room there stays on its device, others wait for that and
are told because of whom, and copies that are only kept go first. And memory of the host on the device's NUMA node."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import check, eventually, main
from managed import MIB, back, memory, out, start

BUS = "0000:3b:00.0"


def world(stack, config, **more):
    return managed.world(stack, "100M", config=config, **more)


def configure(fermata, config):
    with open(fermata.args[1], "w", encoding="ascii") as f:
        f.write(config)
    fermata.cli("reload")


def taken(fermata, *programs):
    return sum(memory(fermata, p)["host_taken_bytes"] for p in programs)


def blocks(n):
    """Memory moves in pieces as large as its allocations."""
    return ["alloc 10"] * n


def copies_go_first(stack):
    """By turns: 60 MiB each, of which 30 have no room at a time. What both keep of that, and have for it, would be too much."""
    fermata = world(stack, f"[memory]\nhost = {72 * MIB}\n")
    a, b = start(fermata), start(fermata)
    for i, p in enumerate((a, b)):
        p.do(*blocks(6), f"fill {i}")
    for turn in range(3):
        for i, p in enumerate((a, b)):
            p.do(f"check {i}", "ask 0")
            check(taken(fermata, a, b) <= 72 * MIB, f"turn {turn}: {taken(fermata, a, b)} bytes of the host are taken")
    check(taken(fermata, a, b) > 0 and "no memory" not in a.lines + b.lines, (a.lines, b.lines))
    a.ends()
    b.ends()


def others_wait_and_are_told(stack):
    """What is out stays out while the host has no room for the other's memory. When it has, it comes in."""
    fermata = world(stack, "[memory]\nhost = 96M\n")
    a, b = start(fermata), start(fermata)
    a.do(*blocks(6), "fill 1")
    b.do(*blocks(6), "fill 2")
    check(memory(fermata, a)["host_bytes"] >= 20 * MIB, memory(fermata, a))
    configure(fermata, "[memory]\nhost = 1M\n")
    a.tell("check 1")
    eventually("it is said why it waits", lambda: "host budget: " in fermata.cli("why", str(a.pid)).stdout)
    why = fermata.cli("why", str(a.pid)).stdout
    check("hint: end programs, or have memory.host in fermatad.conf raised" in why and "the 1M of the host" in why, why)
    short = fermata.group(a.pid)["out"]["host_short"]
    check(short["by"] == "all" and short["limit_bytes"] == MIB and short["bytes"] >= 20 * MIB, short)
    check("check" not in a.lines, "it went on without its memory")
    b.do("check 2")
    configure(fermata, "[memory]\nhost = 96M\n")
    a.line("check", seconds=60)
    b.do("check 2")
    text = fermata.cli("metrics").stdout
    check("\nfermata_memory_host_taken_bytes{" in text, text)
    a.ends()
    b.ends()


def by_hand_it_says_so(stack):
    fermata = world(stack, "[memory]\nhost = 8M\n")
    p = start(fermata)
    p.do(*blocks(4), "fill 3")
    r = out(fermata, p, check_status=False)
    check(r.returncode and "no budget of the host's memory has room" in r.stderr, r.stderr)
    check(memory(fermata, p)["host_taken_bytes"] <= 8 * MIB, memory(fermata, p))
    configure(fermata, "[memory]\nhost = 0\n")
    eventually("the rest goes out, too", lambda: memory(fermata, p)["host_bytes"] >= 40 * MIB)
    back(fermata, p)
    p.do("check 3")
    p.ends()


def of_users(stack):
    """Each has its own, and nobody's is used up by another's."""
    fermata = world(stack, "[limits]\nmemory_host = 16M\n")
    somebody = fermata.somebody()
    os.chmod(os.path.dirname(fermata.env["FAKE_CUDA_DEVICE"]), 0o777)
    p = start(fermata, **somebody)
    p.do(*blocks(6), "fill 4")
    other = start(fermata)
    other.do("alloc 60")
    bound = "no memory" in other.lines
    check(bound, "memory went out for which its user has no room on the host")
    check(memory(fermata, p)["host_taken_bytes"] <= 16 * MIB, memory(fermata, p))
    configure(fermata, "[limits]\nmemory_host = 64M\n")
    other.do("alloc 60", "fill 5")
    check(other.lines.count("no memory") == 1, other.lines)
    p.do("check 4")
    p.ends()
    other.ends()


def nodes(stack):
    """Node 0 is there in any case. One that is not has no room: memory is elsewhere, and that is counted."""
    fermata = world(stack, "[memory]\nhost_nodes = 0:64M 700:24M\n")
    env = fermata.env
    for node, most in (0, 64), (700, 24):
        root = os.path.join(fermata.dir, f"sys{node}")
        where = os.path.join(root, "sys/bus/pci/devices", BUS)
        os.makedirs(where)
        with open(os.path.join(where, "numa_node"), "w", encoding="ascii") as f:
            f.write(f"{node}\n")
        fermata.stop()
        fermata.env = {**env, "FERMATA_TEST_SYSFS": root}
        fermata.start()
        p = start(fermata)
        p.do(*blocks(4), "fill 6")
        r = out(fermata, p, check_status=False)
        m = memory(fermata, p)
        check(m["numa_node"] == node and m["host_taken_bytes"] <= most * MIB, m)
        check((r.returncode == 0) == (most > 40), r)
        if os.path.exists("/sys/devices/system/node/node0") and not os.path.exists("/sys/devices/system/node/node1"):
            check(m["host_strayed_bytes"] == (m["host_taken_bytes"] if node else 0), m)
            check(("are not on the device's NUMA node 700" in fermata.cli("ps", "--memory").stdout) == bool(node), m)
        back(fermata, p)
        p.do("check 6")
        p.ends()


if __name__ == "__main__":
    main(copies_go_first, others_wait_and_are_told, by_hand_it_says_so, of_users, nodes)
