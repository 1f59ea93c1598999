#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA conformance sets around code: images in all forms, launches in all ways, kernels in graphs, and kernels
that tell if a block ran twice or not at all. Under Fermata they note what they note natively. The driver is the fake
one; FERMATA_TEST_CUDA=real takes the machine's."""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, check, cuda_env, main, need_cuda_shim, program

SETS = ("cuda_guard", "cuda_code", "cuda_nodes")
ENV = cuda_env(dict(os.environ))


def run_native(name, *args):
    return subprocess.run([program(name), *args], env=ENV, capture_output=True, text=True, timeout=120)


first = run_native(SETS[0], "0", "steps")
if first.returncode:
    print("no CUDA device")
    sys.exit(77)
NATIVE = {name: run_native(name) for name in SETS}


def natively(stack):
    for name, run in NATIVE.items():
        check(run.returncode == 0 and run.stdout, f"{name} fails without Fermata:\n{run.stderr}")


def by_other_ways(stack):
    """Linked with the driver, and by one function from another; with default streams of threads."""
    for name in SETS[1:]:
        for way in ("--via", "link"), ("--via", "proc", "--ptds"):
            run = run_native(name, *way, "0")
            check(run.stdout == NATIVE[name].stdout, f"{name} differs {way}:\n{run.stderr}{run.stdout}")


def same(name, p, text):
    check(p.wait() == 0, f"{name} ended with status {p.p.returncode} {text}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    want = NATIVE[name].stdout.splitlines()
    differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
    check(got == want, f"{name} differs {text}:\n{differ}")


def world(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env(fermata.env)
    return fermata


def together(stack):
    fermata = world(stack)
    running = {name: fermata.program([program(name)]) for name in SETS}
    for name, p in running.items():
        same(name, p, "beside the others")


def suspended_at_random(stack):
    fermata = world(stack)
    running = {name: fermata.program([program(name)]) for name in SETS}
    suspensions = fermata.suspend_at_random(random.Random(7), list(running.values()), 0.01, 0.005)
    for name, p in running.items():
        same(name, p, "when suspended at random")
    check(suspensions > 0, "nobody was suspended")


if __name__ == "__main__":
    main(natively, by_other_ways, together, suspended_at_random)
