#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Managed programs whose memory other devices and processes reach, put out and brought back while they work: peer copies
with access and without, NCCL's ranks, tensors that another process changes. Results are those of a native run, bit for bit."""
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Program, Skip, check, eventually, main
from test_memory import KINDS, MIB, Out, digests, named, same_results, world

HERE = os.path.dirname(os.path.abspath(__file__))
WORK, NCCL = os.path.join(HERE, "peers_work.py"), os.path.join(HERE, "nccl_work.py")
OUTS = int(os.environ.get("OUTS", "60"))
ROUNDS = os.environ.get("ROUNDS", "3")
GROUP = "ranks"


def native(*args):
    r = subprocess.run([sys.executable, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if r.returncode:
        raise Skip(f"it does not work natively: {r.stderr[-300:]}")
    return r.stdout.splitlines()


def several():
    if int(native(WORK, "devices")[0]) < 2:
        raise Skip("there is one GPU")


def sums(fermata, target, key):
    return sum(m.get(key, 0) for m in fermata.group(target)["memory"])


def there_is(fermata, target):
    return any(str(target) in g["name"] for g in fermata.ps()["groups"])


def at_random(fermata, steer, target, going, seconds=60):
    """Out and in until the work ends; how often, and how often all that moves was out."""
    rng, n, whole, end = random.Random(5), 0, 0, time.monotonic() + seconds
    while going() and n < OUTS and time.monotonic() < end:
        if not steer.out(target):
            break
        n += 1
        time.sleep(rng.uniform(0, 0.3))
        whole += there_is(fermata, target) and steer.is_out(target)
        steer("resume", target)
        time.sleep(rng.uniform(0, 0.3))
    return n, whole


def out_while_it_works(stack, case):
    expected = digests(native(WORK, case, KINDS))
    fermata = world(stack)
    p = fermata.program([sys.executable, WORK, case], "--memory", cls=Program)
    p.line("round 0 ", seconds=300)
    there = sums(fermata, p.pid, "movable_bytes")
    steer = Out(stack, fermata)
    n, whole = at_random(fermata, steer, p.pid, lambda: p.p.poll() is None)
    print(f"         pinned: {'; '.join(named(fermata, p.pid)) or 'nothing'}")
    rounds = same_results(p, expected)
    print(f"         {there >> 20} MiB move; {n} times out, {whole} times all of it; {rounds} rounds, all as natively")
    check(there > 100 * MIB and n > 5 and rounds > 2, "too little happened to tell")


def copies_without_access(stack):
    several()
    out_while_it_works(stack, "copies")


def copies_with_access(stack):
    several()
    out_while_it_works(stack, "access")


def passed_to_another_process(stack):
    """The tensor stays at both ends; what else the two have goes out."""
    out_while_it_works(stack, "passed")


def out_by_hand_on_both_devices(stack):
    several()
    expected = digests(native(WORK, "access", KINDS))
    fermata = world(stack)
    p = fermata.program([sys.executable, WORK, "access"], "--memory", cls=Program)
    p.line("round 1 ", seconds=300)
    steer = Out(stack, fermata)
    check(len([m for m in fermata.group(p.pid)["memory"] if m["movable_bytes"] > 90 * MIB]) == 2, "it moves on one device only")
    for _ in range(3):
        steer.out(p.pid)
        eventually("it is out of both", lambda: steer.is_out(p.pid), 60)
        steer("resume", p.pid)
        p.line("round", after=p.mark(), seconds=300)
    same_results(p, expected)


def ranks_of_nccl(stack):
    several()
    expected = sorted(native(NCCL, ROUNDS))
    fermata = world(stack)
    p = fermata.program([sys.executable, NCCL, ROUNDS], "--memory", "--group", GROUP)
    eventually("the ranks are at work", lambda: any(g["name"] == GROUP and len(g["devices"]) > 1 for g in fermata.ps()["groups"]), 200)
    steer = Out(stack, fermata)
    n, whole = at_random(fermata, steer, GROUP, lambda: p.p.poll() is None, 100)
    steer("resume", GROUP)
    check(p.wait(300) == 0, f"ended with status {p.p.returncode}")
    p.reader.join()
    got = sorted(line for line in p.lines if line is not None)
    wrong = [f"{a} instead of {b}" for a, b in zip(got, expected) if a != b]
    print(f"         {n} times out, {whole} times all of it")
    check(not wrong and len(got) == len(expected), f"other results: {wrong[:5]}, {len(got)} of {len(expected)}")
    check(n > 3, "too little happened to tell")


if __name__ == "__main__":
    try:
        native(WORK, "devices")
    except Skip as e:
        print(f"skipped: {e}")
        sys.exit(77)
    main(passed_to_another_process, copies_without_access, copies_with_access, out_by_hand_on_both_devices, ranks_of_nccl)
