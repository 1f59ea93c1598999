#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fake HIP runtime keeps the rules that the real one documents, by each way to its functions; and it orders
commands as the fake CUDA driver does: the conformance sets note the same over both."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, check, cuda_env, main, program
from hip_sets import ANSWERS, CASES, WAYS, hip_env

ENV = hip_env(os.environ)


def run(argv, env=ENV):
    p = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    check(p.returncode == 0, f"{argv}: status {p.returncode}\n{p.stdout}{p.stderr}")
    return p.stdout


def rules(stack):
    for way in WAYS:
        got = run([program("hip_runtime"), *way]).splitlines()
        want = ANSWERS["--spt" in way]
        differ = "\n".join(f"\t{g}\n\tnot {w}" for g, w in zip(got, want) if g != w)
        check(got == want, f"{way}:\n{differ}")


def order(stack):
    for name, cases in CASES.items():
        cuda = run([program(name.replace("hip_", "cuda_")), "0", *cases], cuda_env(os.environ))
        for way in WAYS:
            ptds = [option.replace("--spt", "--ptds") for option in way]
            check(run([program(name), *ptds, "0", *cases]) == cuda, f"{name} {way} differs from CUDA's")


def no_waits(stack):
    """A device without operations on values says so, and refuses them."""
    got = run([program("hip_runtime")], {**ENV, "FAKE_HIP_NO_WAIT_VALUE": "1"})
    check("waits for values 0" in got and "a value in a capture 801" in got, got)


def versions(stack):
    """Each symbol has the version that it came with."""
    lib = os.path.join(BUILD, "tests", "fakes", "hip", "libamdhip64.so.6")
    symbols = subprocess.run(["nm", "-D", "--defined-only", lib], check=True, capture_output=True, text=True).stdout
    for symbol in ("hipLaunchKernel@@hip_4.2", "hipStreamWaitValue32@@hip_4.4", "hipMemcpyAsync_spt@@hip_5.2",
                   "hipLaunchHostFunc@@hip_5.3", "hipExtGetLastError@@hip_6.0", "hipGetProcAddress@@hip_6.1"):
        check(f" {symbol}\n" in symbols, f"there is no {symbol}")
    check(" cu" not in symbols, "functions of the engine are seen")


main(rules, order, no_waits, versions)
