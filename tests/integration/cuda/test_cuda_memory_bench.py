#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""script/lib/memory_bench on the fake driver: each row comes to its end, and memory is what it was."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, LONG, PATIENCE, Fermata, Skip, check, cuda_env, main, need_cuda_shim, unsanitized

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
    if LONG:
        names += ["changed", "switch", "openings", "servers", "urgent", "large"]
    r = subprocess.run([sys.executable, BENCH, "--gib", "0.0625", BUILD, *names], env=env, capture_output=True, text=True,
                       timeout=4 * PATIENCE)
    print(r.stdout, end="")
    check(r.returncode == 0, f"status {r.returncode}: {r.stdout[-600:]}{r.stderr[-600:]}")
    for name in names:
        check(f"\n{name} " in f"\n{r.stdout}", f"{name}: {r.stdout}")
    moved = float(re.search(r"([\d.]+) GB moved", r.stdout).group(1))
    check(moved > 0, f"two that do not fit moved {moved} GB")


def bench(env, *argv, status=0):
    for seconds in ("0.5", "2", "8"):
        r = subprocess.run([sys.executable, BENCH, "--gib", "0.0625", "--runs", "1", "--seconds", seconds, *argv], env=env, capture_output=True,
                           text=True, timeout=4 * PATIENCE)
        print(r.stdout, end="")
        if "give it more --seconds" not in r.stdout:  # a busy machine
            break
    check(r.returncode == status, f"status {r.returncode}: {r.stdout[-600:]}{r.stderr[-600:]}")
    return r.stdout


def sets(stack):
    """Of memory_sets.py: four programs of science and decoders in one buffer, whose results are right; what was measured in-hbm is
    found again."""
    need_cuda_shim()
    dir_ = stack.enter_context(tempfile.TemporaryDirectory())
    env = {**cuda_env(os.environ), "FAKE_CUDA_DEVICE": os.path.join(dir_, "device"), "FAKE_CUDA_CAPACITY": "400M", "FAKE_CUDA_CONTEXT": "1M",
           "MEMORY_BENCH_NETS": os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets_stand_in.py"), "BUILD": BUILD}
    argv = ["--out", dir_, "--variants", "jit,whole,opt,lru,jit-copies" if LONG else "jit", BUILD]
    said = bench(env, *argv, *(["A150", "A300", "B150", "C150", "D150", "M150", "K150", "NA", "NB", "ND"] if LONG else ["A150"]))
    check(re.search(r"^A150   in-hbm        4 of .* steps/s", said, re.M), said)
    check(re.search(r"^A150   jit           [\d.]+ \([\d.]+ to [\d.]+\) %, predicted [\d.]+: [\d.]+;", said, re.M), said)
    with open(os.path.join(dir_, "results.jsonl"), encoding="ascii") as f:
        found = [json.loads(line) for line in f]
    jit = next(r for r in found if r["row"] == "A150" and r["variant"] == "jit" and r["limit_mib"])
    check(jit["in_bytes"] + jit["out_bytes"] > 0 and len(set(jit["digests"])) == 4, f"{jit}")
    with open(os.path.join(dir_, "results.jsonl"), "a", encoding="ascii") as f:
        f.write('{"row": "A150", "var')
    said = bench(env, "--timeout", "0.1", *argv, "A150", status=1)
    check("A150   in-hbm" in said and "A150   jit           failed: stopped after 0.1 s" in said, "what was measured in-hbm is measured again")


def predictions(_):
    said = bench(os.environ, "--gib", "16", "--predict", "--variants", "jit,whole", BUILD, "D150", "D300")
    found = dict(re.findall(r"^(D\d+   \w+) +predicted ([\d.]+) %", said, re.M))
    check(len(found) == 4 and float(found["D150   jit"]) > float(found["D150   whole"]), said)


def early_start_is_predicted_as_such(stack):
    """Its scenario alone begins early, and what is said of it is not what is said of `jit`."""
    out = stack.enter_context(tempfile.TemporaryDirectory())
    said = bench(os.environ, "--gib", "16", "--predict", "--variants", "jit,early", "--out", out, BUILD, "D150")
    found = dict(re.findall(r"^D150 +(\w+) +predicted ([\d.]+) %", said, re.M))
    check(len(found) == 2 and found["early"] != found["jit"], said)
    for variant, early in (("jit", False), ("early", True)):
        with open(os.path.join(out, f"D150-{variant}.ini"), encoding="ascii") as f:
            check(("early = yes\n" in f.read()) == early, variant)


def nothing_is_measured(stack):
    """Without what a row needs that is no success."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory())
    with open(os.path.join(dir_, "torchvision.py"), "w", encoding="ascii") as f:
        f.write("raise ImportError\n")
    env = {k: v for k, v in os.environ.items() if k != "MEMORY_BENCH_NETS"}
    said = bench({**env, "PYTHONPATH": dir_}, BUILD, "B150", status=77)
    check("B150   not measured: no PyTorch with torchvision" in said, said)
    with open(os.path.join(dir_, "torch.py"), "w", encoding="ascii") as f:
        f.write("raise ImportError\n")
    said = bench({**env, "PYTHONPATH": dir_}, BUILD, "cost", status=77)
    check("cost      not measured: no PyTorch" in said, said)


def bad_input(_):
    for argv in (["nonsense"], ["--gib", "0"], ["--runs", "0"], ["--variants", "jit,best", "A150"], ["--used", "101", "K150"], ["A175"]):
        r = subprocess.run([sys.executable, BENCH, BUILD, *argv], capture_output=True, text=True, timeout=PATIENCE)
        check(r.returncode == 2 and "memory_bench: error:" in r.stderr, f"{argv}: {r.stderr[-300:]}")


if __name__ == "__main__":
    main(*unsanitized(rows, rows_where_little_fits, sets, predictions, early_start_is_predicted_as_such), nothing_is_measured, bad_input)
