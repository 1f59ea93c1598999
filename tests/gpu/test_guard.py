#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with the guardian, through the front door: its results are those of a native run, bit for bit, with rewritten
kernels that nobody stops, and with two programs that share the device and are suspended at random, many times in the
middle of a kernel."""
import collections
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, Skip, Steering, check, main

WORK = os.environ.get("TORCH_WORK", os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_work.py"))
ROUNDS = os.environ.get("ROUNDS", "3")
SUSPENSIONS, INSIDE = 300, 10  # at least
LOOK_S = 0.1


def native():
    r = subprocess.run([sys.executable, WORK, ROUNDS], capture_output=True, text=True, timeout=120)
    if r.returncode:
        raise Skip(f"PyTorch does not work here: {r.stderr[-300:]}")
    return r.stdout.splitlines()


def world(stack):
    fermata = Fermata(stack)
    fermata.env = {**fermata.env, "XDG_CACHE_HOME": CACHE}  # the first run makes what the others find
    return fermata


def begin(fermata):
    return fermata.program([sys.executable, WORK, ROUNDS], "--guardian")


def compare(p):
    check(p.wait(120) == 0, f"ended with status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    wrong = [f"{a} instead of {b}" for a, b in zip(got, EXPECTED) if a != b]
    check(not wrong and len(got) == len(EXPECTED), f"other results: {wrong[:5]}, {len(got)} of {len(EXPECTED)}")


def images():
    found = [os.path.join(d, f) for d, _, files in os.walk(CACHE) for f in files]
    return len(found), sum(os.path.getsize(f) for f in found) / 1e6


class Watch(threading.Thread):
    """Looks at the programs' queues until it is told to end: how often each was stopped in the middle of a kernel, and
    the levels that they had. What a queue did after the last look is not seen."""

    def __init__(self, fermata, programs):
        super().__init__(daemon=True)
        self.fermata, self.pids = fermata, {p.pid for p in programs}
        self.inside, self.levels, self.over = collections.Counter(), set(), threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(LOOK_S):
            for q in [q for g in self.fermata.ps()["groups"] for q in g["queues"] if q["pid"] in self.pids]:
                self.inside[q["id"]] = max(self.inside[q["id"]], q["interrupts"])
                self.levels.add(q["level"])

    def end(self):
        self.over.set()
        self.join()
        return sum(self.inside.values())


def alone(stack):
    fermata = world(stack)
    compare(begin(fermata))
    n, mb = images()
    print(f"         {n} images rewritten and kept, {mb:.0f} MB")
    check(n > 0, "no image was rewritten")


def suspended_at_random(stack):
    fermata = world(stack)
    programs = [begin(fermata), begin(fermata)]
    watch = Watch(fermata, programs)
    n = fermata.suspend_at_random(random.Random(1), programs)
    inside = watch.end()
    print(f"         {n} suspensions, {inside} times in the middle of a kernel")
    for p in programs:
        compare(p)
    check(3 in watch.levels, f"no queue was at level 3: {watch.levels}")
    check(n > SUSPENSIONS, "too few suspensions to tell")
    check(inside > INSIDE, "too few of them in the middle of a kernel")


def soak(stack):
    """FERMATA_TEST_SOAK="PROGRAMS SECONDS": so many at the same time for so long, each of which is always one that may be
    suspended. What they have done until then is compared."""
    if "FERMATA_TEST_SOAK" not in os.environ:
        raise Skip("FERMATA_TEST_SOAK is not set")
    n, seconds = map(int, os.environ["FERMATA_TEST_SOAK"].split())
    fermata = world(stack)
    argv = [sys.executable, WORK, "100000"]
    begin_at = time.monotonic()
    programs = [fermata.program(argv, "--guardian") for _ in range(n)]
    watch = Watch(fermata, programs)
    stops, rng, steer = 0, random.Random(2), Steering(stack, fermata)
    while time.monotonic() < begin_at + seconds:
        p = rng.choice(programs)
        check(p.p.poll() is None, f"a program ended with status {p.p.returncode}")
        stops += steer("suspend", p.pid)
        time.sleep(rng.uniform(0, 0.002))
        steer("resume", p.pid)
        time.sleep(rng.uniform(0, 0.001))
    inside = watch.end()
    done = [[line for line in list(p.lines) if line] for p in programs]
    took = time.monotonic() - begin_at
    right = {line.split(" ", 1)[1] for line in EXPECTED}
    wrong = [line for lines in done for line in lines if line.split(" ", 1)[1] not in right]
    print(f"         {n} programs for {took:.0f} s ({n * took / 3600:.2f} hours in all): {stops} suspensions, {inside} times in "
          f"the middle of a kernel; {sum(map(len, done))} results, {len(wrong)} of them wrong")
    check(not wrong, f"other results: {wrong[:5]}")
    check(all(done), f"programs without a result: {[p.pid for p, d in zip(programs, done) if not d]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fermata-test-cache-") as CACHE:
        try:
            EXPECTED = native()
        except Skip as e:
            print(f"skipped: {e}")
            sys.exit(77)
        main(alone, suspended_at_random, soak)
