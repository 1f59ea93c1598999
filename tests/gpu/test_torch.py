#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch under Fermata, suspended and resumed at random: its results are those of a native run, bit for bit."""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, Skip, check, main

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_work.py")
ROUNDS = os.environ.get("ROUNDS", "4")


def native():
    r = subprocess.run([sys.executable, WORK, ROUNDS], capture_output=True, text=True, timeout=300)
    if r.returncode:
        raise Skip(f"PyTorch does not work here: {r.stderr[-300:]}")
    return r.stdout.splitlines()


def compare(expected, p):
    check(p.wait(300) == 0, f"ended with status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    wrong = [f"{a} instead of {b}" for a, b in zip(got, expected) if a != b]
    check(not wrong and len(got) == len(expected), f"other results: {wrong[:5]}, {len(got)} of {len(expected)}")


def governed(fermata):
    s = fermata.stats()
    print(f"         {s['governed']} calls governed, {s['ungoverned']} not")
    check(s["governed"] > 1000, "nothing was governed")


def alone(stack):
    fermata = Fermata(stack)
    compare(EXPECTED, fermata.program([sys.executable, WORK, ROUNDS]))
    governed(fermata)


def suspended_at_random(stack):
    fermata = Fermata(stack)
    p = fermata.program([sys.executable, WORK, ROUNDS])
    n = fermata.suspend_at_random(random.Random(1), [p])
    print(f"         {n} suspensions")
    compare(EXPECTED, p)
    check(n > 1000, "too few suspensions to tell")
    governed(fermata)


def two_at_once(stack):
    fermata = Fermata(stack)
    low = fermata.program([sys.executable, WORK, ROUNDS], "--priority", "low")
    high = fermata.program([sys.executable, WORK, ROUNDS], "--priority", "high")
    compare(EXPECTED, high)
    compare(EXPECTED, low)
    print(f"         {fermata.preemptions()} preemptions")
    check(fermata.preemptions() > 0, "nothing was preempted")


if __name__ == "__main__":
    try:
        EXPECTED = native()
        check(EXPECTED == native(), "PyTorch does not repeat itself natively")
    except Skip as e:
        print(f"skipped: {e}")
        sys.exit(77)
    main(alone, suspended_at_random, two_at_once)
