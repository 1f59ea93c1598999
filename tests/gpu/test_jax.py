#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX under Fermata, suspended and resumed at random, also where the daemon comes when its graphs are there already: its
results are those of a native run, bit for bit."""
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import PATIENCE, Fermata, Skip, Steering, check, eventually, main

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax_work.py")
ROUNDS, SUSPENSIONS = 8, 500


def native():
    r = subprocess.run([sys.executable, WORK, "2"], capture_output=True, text=True, timeout=300)
    if r.returncode:
        raise Skip(f"JAX does not work here: {r.stderr[-300:]}")
    return digests(r.stdout.splitlines())


def digests(lines):
    """Of each case, in whatever round."""
    of = {}
    for _, case, digest in map(str.split, lines):
        of.setdefault(case, set()).add(digest)
    return of


def suspend(stack, fermata, p):
    """At random, so often, and until so many rounds are done; then the program is to end."""
    steer, rng, n, at = Steering(stack, fermata), random.Random(1), 0, p.mark()
    until = time.monotonic() + PATIENCE
    while n < SUSPENSIONS or p.mark() - at < ROUNDS * len(EXPECTED):
        check(p.p.poll() is None and time.monotonic() < until, f"suspended {n} times: status {p.p.poll()}, {p.lines[-3:]}")
        n += steer("suspend", p.pid)
        time.sleep(rng.uniform(0, 0.002))
        steer("resume", p.pid)
        time.sleep(rng.uniform(0, 0.002))
    p.p.stdin.close()
    check(p.wait() == 0, f"ended with status {p.p.returncode}")
    p.reader.join()
    got, s = [line for line in p.lines if line is not None], fermata.stats()
    print(f"         {n} suspensions, {got[-1].split()[0]} rounds, {s['governed']} calls governed, {s['ungoverned']} not")
    check(digests(got) == EXPECTED, f"other results: {digests(got)}, natively {EXPECTED}")
    check(s["governed"] > 1000, "nothing was governed")


def repeats_itself(stack):
    """Natively: nothing could be told else."""
    again = native()
    check(again == EXPECTED and all(len(d) == 1 for d in again.values()), f"{again}, and before {EXPECTED}")


def suspended_at_random(stack):
    fermata = Fermata(stack)
    suspend(stack, fermata, fermata.program([sys.executable, WORK]))


def the_daemon_comes_later(stack):
    """Its graphs are there already."""
    fermata = Fermata(stack, start=False)
    p = fermata.program([sys.executable, WORK])
    p.line("1 ")
    fermata.start()
    eventually("it joins", lambda: fermata.group(p.pid))
    suspend(stack, fermata, p)


if __name__ == "__main__":
    try:
        EXPECTED = native()
    except Skip as e:
        print(f"skipped: {e}")
        sys.exit(77)
    main(repeats_itself, suspended_at_random, the_daemon_comes_later)
