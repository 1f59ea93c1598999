#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The OpenCL conformance sets on a second driver, Rusticl on llvmpipe (Mesa 22.3): what they see under Fermata is what they see
natively. The driver is not installed, since every program would see it then: script/test unpacks it for this test."""
import ctypes
import glob
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import PATIENCE, SANITIZE, Fermata, Skip, check, eventually, main, program

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
UNPACKED = os.path.join(SOURCE, "build", "tests", "rusticl")
LONG = os.environ.get("FERMATA_TEST_LONG")
SETS = ("opencl_order", "opencl_memory", "opencl_life", "opencl_kernels")
# Cases that this driver does not stand natively, or whose notes are not the same each time.
EARLY = "the status of a command may say its end after that of a later one has been waited for"
LEFT_OUT = {
    ("opencl_order", "barriers"): EARLY,
    ("opencl_order", "profiling"): "its times are in no order",
    ("opencl_memory", "read and write"): EARLY,
    ("opencl_memory", "maps"): EARLY,
    ("opencl_life", "release memory"): "it does not tell the end of a buffer",
    ("opencl_life", "queue info"): "it has no queues without order",
    ("opencl_life", "event info"): "it never ends a command that has nothing to do",
    ("opencl_life", "sub-devices"): "it dies",
    ("opencl_kernels", "vectors"): "it has no vectors of double",
    ("opencl_kernels", "events"): EARLY,
}
SELDOM = {("opencl_order", "deep queue")}  # takes as long as all others: script/test --long


def driver():
    """The driver's library, and the environment in which it is the only one."""
    if SANITIZE:
        raise Skip("the driver itself has leaks (clc_spirv_get_kernels_info); the release build runs it")
    found = glob.glob(os.path.join(UNPACKED, "usr", "lib", "*", "libRusticlOpenCL.so.1"))
    if not found:
        raise Skip(f"Rusticl is not in {UNPACKED}: script/test unpacks it there")
    try:
        ctypes.CDLL(found[0])
    except OSError as e:
        raise Skip(f"Rusticl cannot be loaded: {e}") from e
    if not os.path.exists("/usr/lib/clc/spirv64-mesa3d-.spv"):
        raise Skip("libclc-15 is not installed")
    return {"OCL_ICD_VENDORS": found[0], "RUSTICL_ENABLE": "llvmpipe", "LP_NUM_THREADS": "2",
            "MESA_SHADER_CACHE_DIR": os.path.join(UNPACKED, "cache")}


def command(name):
    """One round of what this driver stands of a set."""
    cases = subprocess.run([program(name), "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    gone = {case for of, case in LEFT_OUT if of == name} - set(cases)
    check(not gone, f"{name} has no cases {gone}")
    return [program(name), "0", *(c for c in cases if (name, c) not in LEFT_OUT and (LONG or (name, c) not in SELDOM))]


NATIVE = {}


def native(name, env):
    """What a set notes without Fermata."""
    if name not in NATIVE:
        r = subprocess.run(command(name), env={**os.environ, **env}, capture_output=True, text=True, timeout=2 * PATIENCE)
        check(r.returncode == 0 and r.stdout, f"{name} fails without Fermata:\n{r.stderr}")
        NATIVE[name] = r.stdout.splitlines()
    return NATIVE[name]


def world(stack):
    env = driver()
    for name in SETS:
        native(name, env)
    f = Fermata(stack)
    f.env.update(env)
    return f


def same(name, p, text):
    check(p.wait(2 * PATIENCE) == 0, f"{name} ended with status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    check(got == NATIVE[name], f"{name} differs {text}:\n" + "\n".join(got))


def alone(stack):
    f = world(stack)
    for (name, case), why in LEFT_OUT.items():
        print(f"         left out: {name}: {case}: {why}")
    for name in SETS:
        same(name, f.program(command(name)), "alone")


def level_1(stack):
    f = world(stack)
    for name in SETS:
        same(name, f.program(command(name), "--level", "1"), "at level 1")


def suspended_at_random(stack):
    """All sets at the same time. On a busy machine they may have ended before anything was suspended: then once more."""
    f = world(stack)
    rng = random.Random(22)

    def once():
        running = {name: f.program(command(name)) for name in SETS}
        suspensions = f.suspend_at_random(rng, list(running.values()), hold=0.02, pause=0.02)
        for name, p in running.items():
            same(name, p, "when suspended at random")
        return suspensions

    print(f"         {eventually('a program is suspended', once)} suspensions")


def what_is_scheduled(stack):
    """It is this driver, at level 2; at level 1 where that is asked for."""
    f = world(stack)
    for options, level in (((), 2), (("--level", "1"), 1)):
        p = f.program([program("opencl_kernels"), "600", "counters"], *options)
        group = eventually("it has queues", lambda: f.group(p.pid))
        check(all(q["api"] == "opencl" and q["device"].startswith("llvmpipe") and q["level"] == level for q in group["queues"]), f"{options}: {group['queues']}")
        p.close()
        eventually("it is gone", lambda: not f.ps()["groups"])


if __name__ == "__main__":
    main(alone, level_1, suspended_at_random, what_is_scheduled)
