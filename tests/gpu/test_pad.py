#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a device: what padding costs the urgent stream and gives the batch (tests/integration/cuda/server/cuda_pad_probe.c), with
stream priorities and a plain split beside it, and once more (:high) with an urgent stream of the driver's highest priority. Prints a table; each number is of one run. It fails if a block of the batch ran
twice or not at all, or a row does not end. How good the numbers are is for people to say.

  test_pad.py [SECONDS]"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, cuda_env, program

IMAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "guard", "all.fatbin")
ROWS = ("alone", "priorities", "split", "stop", "8", "16", "32", "64", "auto", "16:high", "auto:high")
# Blocks of an urgent kernel, ns of a block of the batch, us between two urgent jobs.
SHAPES = ((64, 5000, 0), (64, 20000, 0), (64, 100000, 0), (264, 20000, 0), (64, 20000, 2000))


def row(name, seconds, shape, env):
    argv = [program("cuda_pad_probe"), name, str(seconds), IMAGE, *map(str, shape)]
    r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60 + 4 * seconds)
    if r.returncode:
        sys.exit(f"{' '.join(argv)} ended with status {r.returncode}: {r.stdout}{r.stderr}")
    return list(map(float, r.stdout.split()[1:]))


def main():
    seconds = float(sys.argv[1]) if sys.argv[1:] else 3.0
    env = cuda_env({**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32",
                    "LD_PRELOAD": os.path.join(BUILD, "lib", "libfermata-cuda.so")})
    for shape in SHAPES:
        print("urgent kernels of %d blocks, a batch of blocks of %d ns, a job each %d us (0: closed loop)" % shape)
        print(f"{'row':12}{'jobs':>8}{'mean us':>10}{'P50':>10}{'P99':>10}{'max':>10}{'x mean':>8}{'x P99':>8}{'batch/s':>10}")
        alone = None
        for name in ROWS:
            jobs, mean, p50, p99, most, batch = row(name, seconds, shape, env)
            alone = alone or (mean, p99)
            print(f"{name:12}{jobs:8.0f}{mean:10.1f}{p50:10.1f}{p99:10.1f}{most:10.1f}{mean / alone[0]:8.3f}"
                  f"{p99 / alone[1]:8.3f}{batch:10.0f}", flush=True)
        print()


if __name__ == "__main__":
    main()
