#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who counts what a CUDA program has not given back, as compute-sanitizer does, finds nothing of Fermata's: when a context ends
and when the process does. The fake driver counts."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, PATIENCE, SANITIZE, Fermata, Skip, check, cuda_env, main, need_cuda_shim, preload, program

TOOL = os.path.join(BUILD, "tests", "fakes", "libsanitizer-collection.so")
ENDED = (("cuda_order", "0"), ("cuda_memory", "0"), ("cuda_graph", "0"), ("cuda_guard", "0", "steps", "chains"),
         ("cuda_guard_graphs", "0", "one kernel", "graphs in graphs"),
         ("cuda_guard_green", "0", "in a partition"), ("cuda_loops", "0", "one wave"), ("cuda_devices", "0"))
if SANITIZE:
    ENDED = ENDED[::3]
LEFT = ("cuda_lookups_linked", "none")  # it ends with what it has
LOOPS = {"FERMATA_GUARDIAN_LOOPS": "gr*d"}


def leaks(argv, env):
    with tempfile.TemporaryDirectory(prefix="fermata-test-") as where:
        path = os.path.join(where, "leaks")
        r = subprocess.run(argv, env={**env, "FAKE_CUDA_LEAKS": path}, capture_output=True, text=True, errors="replace",
                           timeout=300, check=False)
        check(r.returncode == 0, f"{argv}: status {r.returncode}: {r.stderr}")
        with open(path, encoding="ascii") as f:
            return sorted(f.read().splitlines())


def same(stack, *programs, config=None, **more):
    need_cuda_shim()
    fermata = Fermata(stack, config=config)
    env = {**cuda_env(fermata.env), **more}
    for name, *args in programs:
        argv = [program(name), *args]
        native = leaks(argv, env)
        for options in ((), ("--guardian",)):
            ours = leaks(fermata.run_argv(argv, *options), {**env, "FERMATA_GIVE_BACK": "1"})
            check(ours == native, f"{name} {options} leaves {ours}, natively {native}")


def contexts_that_end(stack):
    same(stack, *ENDED)
    same(stack, ("cuda_loops", "0", "one wave"), **LOOPS)


def process_that_ends(stack):
    same(stack, LEFT)


def strict(stack):
    """With gates on a page of their own."""
    same(stack, LEFT, ENDED[0], config="[security]\nstrict = yes\n")


def under_a_tool(stack):
    """It is seen; where there is none, or by wish, all of it is left to the driver."""
    need_cuda_shim()
    fermata = Fermata(stack)
    env = cuda_env(fermata.env)
    argv = [program(LEFT[0]), *LEFT[1:]]
    native = leaks(argv, env)
    tool = {**env, "LD_PRELOAD": preload(TOOL)}
    check(leaks(fermata.run_argv(argv), tool) == native, "a tool is not seen")
    for other in (env, {**tool, "FERMATA_GIVE_BACK": "0"}):
        ours = leaks(fermata.run_argv(argv), other)
        check(len(ours) > len(native), f"without a tool {ours}, natively {native}")


def no_tool(stack):
    """Then nothing is done at the exit: not even looked for one, which waits for a thread that is stopped while it does."""
    if SANITIZE:
        raise Skip("a sanitizer looks for leaks at the exit, and waits for that thread itself")
    need_cuda_shim()
    fermata = Fermata(stack)
    env = cuda_env(fermata.env)
    for argv in [program("cuda_held_exit")], fermata.run_argv([program("cuda_held_exit")]):
        r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        check((r.returncode, r.stdout) == (0, "right\n"), f"{argv}: {r}")


if __name__ == "__main__":
    main(contexts_that_end, process_that_ends, strict, under_a_tool, no_tool)
