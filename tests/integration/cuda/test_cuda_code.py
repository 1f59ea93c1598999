#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA conformance sets around code: images in all forms, launches in all ways, kernels in graphs, and kernels
that tell if a block ran twice or not at all. Under Fermata they note what they note natively. The driver is the fake
one; FERMATA_TEST_CUDA=real takes the machine's."""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, check, cuda_env, main, need_cuda_shim, program

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


def at_the_gate(start, *between):
    """A kernel whose blocks are let through bit by bit, each once."""
    p = start([program("cuda_gate"), "40"])
    p.line("ready")
    p.tell("go")
    p.line("came 1 done 0")
    for n, do in enumerate(between, 1):
        do(p)
        p.tell(f"let {7 * n}")
        p.line(f"came {7 * n + 1} done {7 * n}")
    p.tell("open")
    p.line("right")
    check(p.wait() == 0, f"the program ended with status {p.p.returncode}")
    p.close()


def gates(stack):
    """Natively, and under Fermata; there suspended inside the kernel, which at level 2 goes on to its end."""
    at_the_gate(lambda argv: Program(argv, env=ENV), lambda p: None, lambda p: None)
    fermata = world(stack)

    def suspended(p):
        fermata.knows(p.p.pid)
        fermata.cli("suspend", str(p.p.pid))

    at_the_gate(fermata.program, suspended, lambda p: fermata.cli("resume", str(p.p.pid)))


if __name__ == "__main__":
    fake_only = () if os.environ.get("FERMATA_TEST_CUDA") == "real" else (gates,)
    main(natively, by_other_ways, together, suspended_at_random, *fake_only)
