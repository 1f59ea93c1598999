#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One program whose threads do everything at once (cuda_storm.c), with and without a guardian, on a driver whose streams
share few channels, too: it computes what it computes natively, while it is suspended and resumed at random."""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import PATIENCE, Fermata, check, cuda_env, long, main, need_cuda_shim, program, seldom_sanitized

THREADS, STEPS = "4", "150"
NARROW = {"FAKE_CUDA_NARROW": "1", "FAKE_CUDA_FIRST": "wait,order"}


def storm(stack, seed, *options, **env):
    need_cuda_shim()
    argv = [program("cuda_storm"), str(seed), THREADS, STEPS]
    native = subprocess.run(argv, env=cuda_env({**os.environ, **env}), input="\n", capture_output=True, text=True,
                            timeout=PATIENCE)
    check(native.returncode == 0, f"{argv} fails natively: {native.stderr}")
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, **env})
    other = fermata.cuda_worker()  # else nothing is ever to be stopped in its middle
    p = fermata.program(argv, *options)
    p.line("ready")
    p.tell("")
    fermata.suspend_at_random(random.Random(seed), [p], 0.004, 0.004)
    check(p.wait() == 0, f"{argv} ended with status {p.p.returncode}")
    p.reader.join()
    other.finish()
    got = [line for line in p.lines if line is not None]
    check(got == native.stdout.splitlines(), f"{argv} says\n\t{got}\nnatively\n\t{native.stdout.splitlines()}")


def at_gates(stack):
    storm(stack, 1)


def at_level_1(stack):
    storm(stack, 2, "--level", "1")


def inside_kernels(stack):
    storm(stack, 3, "--guardian")


@long
def in_few_channels(stack):
    storm(stack, 4, "--guardian", **NARROW)


if __name__ == "__main__":
    main(at_gates, *seldom_sanitized(at_level_1), inside_kernels, *seldom_sanitized(in_few_channels))
