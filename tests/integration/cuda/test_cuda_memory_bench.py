#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""script/lib/memory_bench on the fake driver: each row comes to its end, and memory is what it was."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, PATIENCE, Fermata, Skip, check, cuda_env, main, need_cuda_shim, unsanitized

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "script", "lib", "memory_bench")


def rows(stack):
    need_cuda_shim()
    if "--out" not in Fermata(stack, start=False).cli("suspend", "--help").stdout:
        raise Skip("nothing goes out by hand in this build")
    r = subprocess.run([sys.executable, BENCH, "--gib", "0.0625", "--runs", "1", "--rounds", "4", BUILD, "out", "exchange", "rounds"],
                       env=cuda_env(os.environ), capture_output=True, text=True, timeout=4 * PATIENCE)
    check(r.returncode == 0, f"status {r.returncode}: {r.stdout[-600:]}{r.stderr[-600:]}")
    print(r.stdout, end="")
    for row, n in (("out", 1), ("exchange", 4), ("rounds", 1)):
        lines = [line for line in r.stdout.splitlines() if line.startswith(row)]
        check(len(lines) == n and all(re.search(r"\d GB/s|\) GB/s", line) for line in lines), f"{row}: {lines}")


def rows_where_little_fits(stack):
    """Those of memory_rows.py; programs of PyTorch's are stood in for. A device of 400 MiB, made as small as 64 by a ballast."""
    need_cuda_shim()
    if "--out" not in Fermata(stack, start=False).cli("suspend", "--help").stdout:
        raise Skip("nothing goes out by hand in this build")
    device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
    env = {**cuda_env(os.environ), "FAKE_CUDA_DEVICE": device, "FAKE_CUDA_CAPACITY": "400M", "FAKE_CUDA_CONTEXT": "1M", "MEMORY_BENCH_CONTEXT_MIB": "8",
           "MEMORY_BENCH_SECONDS": "0.5", "MEMORY_BENCH_TORCH": os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_stand_in.py")}
    names = ["demand", "train"]
    if os.environ.get("FERMATA_TEST_LONG"):
        names += ["changed", "switch", "openings", "servers", "urgent"]
    r = subprocess.run([sys.executable, BENCH, "--gib", "0.0625", BUILD, *names], env=env, capture_output=True, text=True,
                       timeout=4 * PATIENCE)
    print(r.stdout, end="")
    check(r.returncode == 0, f"status {r.returncode}: {r.stdout[-600:]}{r.stderr[-600:]}")
    for name in names:
        check(f"\n{name} " in f"\n{r.stdout}", f"{name}: {r.stdout}")
    moved = float(re.search(r"([\d.]+) GB moved", r.stdout).group(1))
    check(moved > 0.03, f"two that do not fit moved {moved} GB")


def bad_input(_):
    for argv in (["nonsense"], ["--gib", "0"], ["--runs", "0"]):
        r = subprocess.run([sys.executable, BENCH, BUILD, *argv], capture_output=True, text=True, timeout=PATIENCE)
        check(r.returncode == 2 and "memory_bench: error:" in r.stderr, f"{argv}: {r.stderr[-300:]}")


if __name__ == "__main__":
    main(*unsanitized(rows, rows_where_little_fits), bad_input)
