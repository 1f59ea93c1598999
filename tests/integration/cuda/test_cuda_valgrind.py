#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is loaded into a CUDA program uses no memory that is not its own, and nothing that was never written: conformance
sets under valgrind, with and without the guardian, suspended and resumed at random. No sanitizer sees that, since each
has to be in a program before what is preloaded."""
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import SANITIZE, Fermata, Skip, check, cuda_env, long, main, need_cuda_shim, program

ERRORS = 99
PLAIN = ("cuda_order", "cuda_graph")
GUARDED = ("cuda_guard_ends", "cuda_guard_graphs", "cuda_code")


def clean(stack, sets, env):
    need_cuda_shim()
    if SANITIZE:
        raise Skip("valgrind runs no program that has a sanitizer")
    if not shutil.which("valgrind"):
        raise Skip("no valgrind")
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, **env})
    running, logs = {}, {}
    for name in sets:
        logs[name] = os.path.join(fermata.dir, name + ".valgrind")
        running[name] = fermata.program(["valgrind", "-q", "--leak-check=no", "--fair-sched=yes", f"--error-exitcode={ERRORS}",
                                         f"--log-file={logs[name]}", program(name)])
    fermata.suspend_at_random(random.Random(3), list(running.values()), 0.02, 0.2)
    for name, p in running.items():
        status = p.wait()
        with open(logs[name], encoding="utf-8", errors="replace") as f:
            check(status == 0, f"{name} ended with status {status}:\n{f.read()}")


def shim(stack):
    clean(stack, PLAIN, {})


@long
def guardian(stack):
    clean(stack, GUARDED, {"FERMATA_GUARDIAN": "1"})


if subprocess.run([program("cuda_order")], env=cuda_env(dict(os.environ)), capture_output=True, timeout=120).returncode:
    print("no CUDA device")
    sys.exit(77)
if __name__ == "__main__":
    main(shim, guardian)
