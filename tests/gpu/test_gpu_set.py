#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a device: sets of tasks that decide there (<fermata/gpu_sched.h>, engine "gates"), by the cases of
tests/integration/cuda/cuda_gpu_set.c that a device can show, and what a set costs, by number of tasks. It fails if a case
does. How good the numbers are is for people to say. Exit status 77: no device.

  test_gpu_set.py [--rows]      --rows: the numbers alone"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, cuda_env, program

CASES = "refusals", "order", "enqueues", "waits", "contexts", "forks", "exits", "free", "worker 300"
TASKS = 1, 2, 5, 16, 25  # of 32 channels some are kept
HEAD = "tasks", "us a chunk", "decision us", "max", "release us P50", "P99"


def run(env, *words):
    argv = [program("cuda_gpu_set"), *words]
    r = subprocess.run(argv, env=env, input="go\n", capture_output=True, text=True, timeout=120, check=False)
    if r.returncode in (77, 127) or "cannot open shared object" in r.stderr:
        sys.exit(77)
    if r.returncode:
        sys.exit(f"{' '.join(argv)} ended with status {r.returncode}: {r.stdout}{r.stderr}")
    return r.stdout


def main():
    env = cuda_env({**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32",
                    "LD_PRELOAD": os.path.join(BUILD, "lib", "libfermata-cuda.so")})
    if "--rows" not in sys.argv[1:]:
        for case in CASES:
            out = run(env, *case.split())
            if case.startswith("worker") and out.split()[-1] != "0":
                sys.exit(f"{case}: {out}")
            print("ok      ", case)
    print("".join(f"{h:>16}" for h in HEAD))
    for n in TASKS:
        print("".join(f"{w:>16}" for w in run(env, "measure", str(n)).split()[1:]))


if __name__ == "__main__":
    main()
