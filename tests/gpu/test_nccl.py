#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose processes wait for each other on several GPUs (NCCL), as one group under Fermata: stopped and let
go as a whole, their results are those of a native run, bit for bit."""
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import PATIENCE, Fermata, Skip, Steering, check, eventually, main

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(HERE, "nccl_work.py")
ROUNDS = os.environ.get("ROUNDS", "4")
GROUP = "ranks"


def native():
    r = subprocess.run([sys.executable, WORK, ROUNDS], capture_output=True, text=True, timeout=300)
    if r.returncode:
        raise Skip(f"there are not several GPUs with NCCL here: {r.stderr[-300:]}")
    return sorted(r.stdout.splitlines())


def same(got):
    wrong = [f"{a} instead of {b}" for a, b in zip(got, EXPECTED) if a != b]
    check(not wrong and len(got) == len(EXPECTED), f"other results: {wrong[:5]}, {len(got)} of {len(EXPECTED)}")


def compare(p):
    check(p.wait(300) == 0, f"ended with status {p.p.returncode}")
    p.reader.join()
    same(sorted(line for line in p.lines if line is not None))


def repeats_itself(stack):
    """Natively: nothing could be told else."""
    same(native())


def start(fermata, *options):
    return fermata.program([sys.executable, WORK, ROUNDS], "--group", GROUP, *options)


def suspended_at_random(stack):
    """The group by its name: all ranks, on all devices."""
    fermata = Fermata(stack)
    p = start(fermata)
    steer, rng, n = Steering(stack, fermata), random.Random(3), 0
    while p.p.poll() is None:
        n += steer("suspend", GROUP)
        time.sleep(rng.uniform(0, 0.003))
        steer("resume", GROUP)
        time.sleep(rng.uniform(0, 0.003))
    print(f"         {n} suspensions, {fermata.stats()['governed']} calls governed")
    compare(p)
    check(n > 100, "too few suspensions to tell")


def preempted_on_one_device(stack):
    """An urgent program on one GPU stops the ranks on all; they go on together."""
    fermata = Fermata(stack)
    bench = os.path.join(os.environ["BUILD"], "bench", "bench_cuda")
    urgent = fermata.program([bench, "serve", "40", "500", "30000", "0"], "--priority", "high")
    urgent.line("ready", seconds=PATIENCE)
    p = start(fermata, "--priority", "low")
    eventually("the ranks are at work", lambda: len(devices(fermata)) > 1)
    now = time.monotonic_ns()
    urgent.tell(f"go {now} {now + 4_000_000_000}")
    together = apart = 0
    while urgent.p.poll() is None and p.p.poll() is None:
        gates = {d["gate"] for d in devices(fermata) if d["state"] != "idle"}
        together += len(gates) == 1
        apart += len(gates) > 1
    compare(p)
    print(f"         {fermata.preemptions()} preemptions; gates alike in {together} looks, not in {apart}")
    check(fermata.preemptions() > 0, "nothing was preempted")
    check(apart == 0, "the ranks were stopped on one device and not on the other")


def devices(fermata):
    groups = [g for g in fermata.ps()["groups"] if g["name"] == GROUP]
    return groups[0]["devices"] if groups else []


if __name__ == "__main__":
    try:
        EXPECTED = native()
    except Skip as e:
        print(f"skipped: {e}")
        sys.exit(77)
    main(repeats_itself, suspended_at_random, preempted_on_one_device)
