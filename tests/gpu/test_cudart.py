#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs into which nvcc has linked CUDA's runtime: it asks the driver for its functions as libraries do, and they are
governed like these. They are built here, where nvcc is."""
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, check, main

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = "200"


def built(folder, name, *options):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        print("skipped: there is no nvcc")
        sys.exit(77)
    path = os.path.join(folder, name)
    subprocess.run([nvcc, "-O2", "-arch=native", "-cudart=static", *options, "-o", path, os.path.join(HERE, f"{name}.cu")], check=True)
    needed = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    check("libcudart" not in needed and "libcuda.so" not in needed, f"the runtime is not in it: {needed}")
    return path


def suspended_at_random(stack, path, governed):
    native = subprocess.run([path, ROUNDS], check=True, capture_output=True, text=True, timeout=60).stdout.split()
    for options in (), ("--level", "1"), ("--guardian",):
        fermata = Fermata(stack)
        p = fermata.program([path, ROUNDS], *options)
        fermata.knows(p.pid)
        n = fermata.suspend_at_random(random.Random(3), [p])
        check(p.wait() == 0, f"{options}: status {p.p.returncode}")
        p.reader.join()
        check(p.lines[:1] == native, f"{options}: {p.lines}, natively {native}")
        s = fermata.stats()
        print(f"         {n} suspensions, {s['governed']} calls governed, {s['ungoverned']} not")
        check(s["governed"] > governed and not s["ungoverned"], f"{options}: {s}")
        fermata.stop()


def suspended(stack):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-cudart-"))
    suspended_at_random(stack, built(folder, "cudart"), 5000)


def launched_by_the_device(stack):
    """A graph that was captured with gates, of which the driver takes none there."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-cudart-"))
    suspended_at_random(stack, built(folder, "device_graph", "-rdc=true", "-lcudadevrt"), 2 * int(ROUNDS))


if __name__ == "__main__":
    main(suspended, launched_by_the_device)
