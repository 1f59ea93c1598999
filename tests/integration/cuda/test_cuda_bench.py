#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What script/gpu-bench says that launches cost, on a driver whose calls do nothing: the same program goes past the shim,
where nothing is counted, and through it."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, SANITIZE, Fermata, check, cuda_env, main, need_cuda_shim

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "script", "lib")
COSTS = ("launch_ns", "sync_p50_us", "sync_p99_us", "ping_pong_us", "stream_3_us", "stream_30_us", "stream_300_us")
THIN = {"FAKE_CUDA_THIN": "1"}


def launch(env, *prefix):
    program = os.path.join(BUILD, "bench", "bench_cuda")
    return json.loads(subprocess.check_output([*prefix, program, "launch"], env=env, text=True, timeout=120))


def one_program(stack):
    """Natively there is nothing to go past, and with the guardian it must not be."""
    fermata = Fermata(stack)
    env = {**cuda_env(fermata.env), **THIN}
    run = [os.path.join(BUILD, "bin", "fermata"), "run"]
    said = launch(env, *run, "--")
    check(list(said) == ["past", "through"] and all(tuple(said[way]) == COSTS for way in said), said)
    check(list(launch(env)) == ["past"] and list(launch(env, *run, "--guardian", "--")) == ["past"], "there was something to go past")


def table(stack):
    out = subprocess.run([sys.executable, os.path.join(LIB, "cuda_bench"), BUILD, "1", "costs"], env={**cuda_env(os.environ), **THIN},
                         capture_output=True, text=True, timeout=240)
    check(out.returncode == 0, out.stderr)
    for cost in COSTS:
        check(re.search(rf"^{cost}( +[\d.]+){{3}} +[+-][\d.]+ +[\d.]+$", out.stdout, re.M), f"no row of {cost} in\n{out.stdout}")


if __name__ == "__main__":
    if SANITIZE:
        raise SystemExit(77)
    need_cuda_shim()
    main(one_program, table)
