#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The less usual ways to the CUDA driver, and a driver that is newer than the shim."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import SANITIZE, Fermata, check, cuda_env, eventually, main, need_cuda_shim, program, shim_env

MODES = ("local",) if SANITIZE else ("local", "deepbind")  # the sanitizer ends a program that opens a library so


def run(argv, env):
    r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    check(r.returncode == 0 and r.stdout, f"{argv}: status {r.returncode}: {r.stderr}")
    return r.stdout


def both(stack, argv, governed=0, paths=True, **env):
    """What it prints natively and under Fermata; of its calls so many are governed, which shows before it ends."""
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env.update(env)
    fermata.env = cuda_env(fermata.env) if paths else shim_env(fermata.env)
    native = run(argv, fermata.env)
    before = fermata.stats()["governed"]
    p = fermata.program(argv)
    eventually(f"{governed} calls of {argv} are governed", lambda: fermata.stats()["governed"] >= before + governed)
    p.p.stdin.close()
    check(p.wait() == 0, f"{argv}: status {p.p.returncode}")
    p.reader.join()
    return native, "\n".join(p.lines[:-1]) + "\n"


def same(stack, argv, governed=100, **more):
    native, ours = both(stack, argv, governed, **more)
    check(native == ours, f"{argv} prints\n{ours}\nnatively\n{native}")


def driver_for_itself(stack):
    """Opened with names of its own coming first (RTLD_DEEPBIND): the program still asks us."""
    for mode in MODES:
        same(stack, [program("cuda_access"), "driver", mode])


def library(stack):
    """A library that is linked with the driver. Bound to itself first it finds the driver without us."""
    for mode in MODES:
        same(stack, [program("cuda_access"), "plugin", mode], governed=100 if mode == "local" else 0)


def run_path(stack):
    """No LD_LIBRARY_PATH: the program knows where its driver is."""
    for via in ("link", "dlsym", "proc"):
        same(stack, [program("cuda_runpath"), "--via", via, "1", "in order"], paths=False, FERMATA_CUDA="1")


def newer_driver(stack):
    """What we do not know passes as it is; what we know is ours."""
    ours = {"cuLaunchKernel 12000", "cuMemAlloc 14000", "cuMemcpyHtoD 14000"}
    native, governed = both(stack, [program("cuda_access"), "names"], FAKE_CUDA_NEW="1")
    check("another" not in native and "cuFermataNovelty 14000 0: 0 the driver's" in native, native)
    for n, g in zip(native.splitlines(), governed.splitlines(), strict=True):
        known = any(n.startswith(call) for call in ours)
        check(g == (n.replace("the driver's", "another") if known else n), f"{g}, natively {n}")


if __name__ == "__main__":
    main(driver_for_itself, library, run_path, newer_driver)
