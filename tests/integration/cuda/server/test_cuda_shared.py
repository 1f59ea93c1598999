#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose kernels are on the device at one time (MPS): what they compute is what they compute natively, and what
comes for whom others stop finds the whole device, by a kernel in front of it (src/api/cuda/core/spread.c). The driver is the
fake one; FERMATA_TEST_CUDA=real takes the machine's, and an MPS daemon of our own."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../script/lib"))
from harness import PATIENCE, Fermata, Skip, check, cuda_env, eventually, main, need_cuda_shim, program, seldom_sanitized
from mps import installed, mps

SETS = ("cuda_order", "cuda_graph", "cuda_launch")
GUARDED = ("cuda_guard",)
SPREAD = "fermata_spread 1 0"
REQUESTS, KERNELS = 8, 3
SHARED = {"FAKE_CUDA_MPS": "1"}
REAL = os.environ.get("FERMATA_TEST_CUDA") == "real"


def need_the_fake():
    if REAL:
        raise Skip("what was launched the fake driver tells alone")


def shared(stack):
    if not REAL:
        return SHARED
    if not installed():
        raise Skip("MPS is not installed")
    env = stack.enter_context(mps(os.environ))
    return {name: env[name] for name in env if name.startswith("CUDA_MPS_")}


def world(stack, **knobs):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, **knobs, "FAKE_CUDA_LAUNCHES": os.path.join(fermata.dir, "launches")})
    return fermata


def launches(fermata, pid):
    with open(f"{fermata.dir}/launches.{pid}", encoding="utf-8") as f:
        return f.read().splitlines()


def serve(fermata, *options):
    """Requests of a few kernels, with pauses: what was launched for them."""
    argv = [program("cuda_bursts"), str(REQUESTS), str(KERNELS)]
    native = subprocess.run(argv, env={**fermata.env, "FAKE_CUDA_FAIL": ""}, input="\n", capture_output=True, text=True, timeout=PATIENCE)
    p = fermata.program(argv, *options)
    p.line("ready")
    eventually("the daemon has its queue", lambda: (fermata.group(p.pid) or {}).get("queues"))
    before = len(launches(fermata, p.pid))
    p.tell("")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")
    p.reader.join()
    check([line for line in p.lines if line][-1] == native.stdout.splitlines()[-1], "it computed something else")
    return launches(fermata, p.pid)[before:]


def spreads(lines):
    return [line for line in lines if line.startswith("fermata_spread")]


def finds_the_whole_device(stack):
    """In front of each request, once, and of nothing else: of one whose program is not held up in the middle of it."""
    need_the_fake()
    fermata = world(stack, **SHARED)
    low = fermata.cuda_worker("--priority", "low")

    def once():
        lines = serve(fermata, "--priority", "high")
        kernels = [i for i, line in enumerate(lines) if line != SPREAD][:REQUESTS * KERNELS]
        check(len(kernels) == REQUESTS * KERNELS and all(lines[i - 1] == SPREAD for i in kernels[::KERNELS]), f"{lines}")
        return len(spreads(lines[:kernels[-1]])) == REQUESTS

    eventually("there is one for each request", once)
    low.advances()
    check(spreads(launches(fermata, low.pid)) == [SPREAD], "for whom nobody stops it was tried, and no more")
    low.finish()


def only_where_others_stop(stack):
    """Not for one alone, nor where others are its equals, nor where each has a context of its own."""
    need_the_fake()
    fermata = world(stack, **SHARED)
    check(not spreads(serve(fermata)), "nobody else was there")
    equal = fermata.cuda_worker()
    check(not spreads(serve(fermata)), "among equals")
    equal.finish()
    fermata = world(stack)
    low = fermata.cuda_worker("--priority", "low")
    lines = serve(fermata, "--priority", "high")
    check(lines and not spreads(lines + launches(fermata, low.pid)), "each has a context of its own")
    low.finish()


def where_the_driver_refuses(stack):
    """Then there is none, and nothing else is different."""
    need_the_fake()
    for fail in ("cuModuleLoadData@2/0=2", "cuLaunchKernelEx@1/0=1"):
        fermata = world(stack, **SHARED, FAKE_CUDA_FAIL=fail)
        low = fermata.cuda_worker("--priority", "low")
        check(not spreads(serve(fermata, "--priority", "high")), f"there is one, after {fail}")
        low.advances()
        low.finish()


def as_natively(stack):
    fermata = world(stack, **shared(stack))
    low = fermata.cuda_worker("--priority", "low")
    for name in SETS + GUARDED:
        argv = [program(name), "0.2"]
        want = subprocess.run(argv, env=fermata.env, capture_output=True, text=True, timeout=PATIENCE)
        check(REAL or want.returncode == 0, f"{name} fails natively: {want.stderr}")
        if want.returncode:
            print(f"         left out, the driver itself fails at it: {name}: {want.stderr}")
            continue
        p = fermata.program(argv, "--priority", "high", *(["--guardian"] if name in GUARDED else []))
        check(p.wait() == 0, f"{name} ended with status {p.p.returncode}")
        p.reader.join()
        check([line for line in p.lines if line is not None] == want.stdout.splitlines(), f"{name} differs")
        check(REAL or name != "cuda_order" or SPREAD in launches(fermata, p.pid), f"{name} had the device as it came")
    low.finish()


if __name__ == "__main__":
    main(finds_the_whole_device, only_where_others_stop, where_the_driver_refuses, *seldom_sanitized(as_natively))
