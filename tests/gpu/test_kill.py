#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a device: how soon kernels of one wave that may be killed leave it, with barriers and without, and whether they then leave what
they leave alone. Prints a table: the time from a stop until the group stands is the daemon's. It fails if a result differs, or
nothing was killed. How good the numbers are is for people to say.

  test_kill.py [SECONDS]"""
import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, check, command, cuda_env, program

PTX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "kill", "kill.ptx")
BLOCKS, THREADS = 528, 64
FEW = 3  # rounds of what is recorded: what is touched does not depend on them
ROWS = [(kernel, ms, how) for kernel in ("alone", "sums") for ms in (1, 10, 100) for how in ("--guardian", "--guardian-kill")]


def work(kernel, n, seconds):
    return [program("cuda_kill_work"), PTX, kernel, str(BLOCKS), str(THREADS), str(n), str(seconds)]


def native_ns(kernel, n):
    r = subprocess.run(work(kernel, n, 0), env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=120, check=True)
    return int(r.stdout)


def rounds(kernel, ms):
    """So many that a launch takes that long alone."""
    base, more = native_ns(kernel, 1000), native_ns(kernel, 101000)
    return max(1, int(ms * 1e6 * 100000 / max(more - base, 1)))


def listed(folder, kernel, n):
    """What the recorder says of a launch with few rounds, of one with so many."""
    trace, path = os.path.join(folder, "trace"), os.path.join(folder, "x.idem")
    env = cuda_env(dict(os.environ))
    for argv in ([*command("idempotence", "record", "--force", "--collector", "cuda", "-o", trace), "--", *work(kernel, FEW, 0)],
                 command("idempotence", "check", "--force", "-o", path, trace)):
        subprocess.run(argv, env=env, check=True, timeout=300, capture_output=True)
    with open(path, encoding="ascii") as f:
        text, changed = re.subn(rf" pp{FEW:x},; ", f" pp{n:x},; ", f.read())
    check(changed == 1, f"{kernel} may not be killed: {text}")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


def row(kernel, ms, how, n, path, seconds):
    with contextlib.ExitStack() as stack:
        fermata = Fermata(stack)
        fermata.env = cuda_env(fermata.env)
        fermata.cuda_worker()  # who is alone is not stopped in the middle of a kernel
        p = fermata.program(work(kernel, n, seconds), *([how, path] if how.endswith("kill") else [how]))
        p.line("ready")
        inside = 0
        stops = fermata.suspend_at_random(random.Random(ms), [p], 0.003, 0.02)
        group = fermata.group(p.pid)
        inside = sum(q["interrupts"] for q in group["queues"]) if group else None
        check(p.wait() == 0, f"{kernel} of {ms} ms, {how}: other results, or status {p.p.returncode}")
        devices = fermata.stats()["devices"]
        took = max((d["preempt_us"] for d in devices), key=lambda d: d["max"])
        print(f"{kernel:8}{ms:6}{how:18}{stops:7}{str(inside):>8}{took['p50']:10.1f}{took['p99']:10.1f}{took['max']:10.1f}", flush=True)


def main():
    seconds = int(sys.argv[1]) if sys.argv[1:] else 5
    print(f"{'kernel':8}{'ms':>6}{'how':18}{'stops':>7}{'inside':>8}{'P50 us':>10}{'P99':>10}{'max':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for kernel, ms, how in ROWS:
            n = rounds(kernel, ms)
            row(kernel, ms, how, n, listed(folder, kernel, n), seconds)


if __name__ == "__main__":
    main()
