#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""script/reef-bench: the whole of it over a stub of PyTorch and the fake driver, as far as that has a table; what it makes of
numbers; and what it says where there is no device, or a mode that does not start."""
import io
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, *[".."] * 3))
from harness import BUILD, PATIENCE, Fermata, check, cuda_env, long, main, need_cuda_shim, preload
from torch_served import SOURCE, environment

sys.path.insert(0, os.path.join(SOURCE, "script", "lib"))
import reef_bench

REEF = [os.path.join(SOURCE, "script", "reef-bench"), "--build", BUILD]


def task(name, mean, p99, rate, waiting=0):
    return {"id": name, "latency_us": {"mean": mean, "p99": p99, "count": 7}, "throughput_hz": rate, "waiting": waiting}


def its_numbers_are_ratios(_):
    alone = {"vgg19": {"mean_us": 1000, "p99_us": 2000}, "gpt2": {"mean_us": 4000, "p99_us": 5000}}
    r = reef_bench.row([task("vgg19_rt", 1500, 3000, 500, 2), task("gpt2_rt", 4000, 15000, 25), task("gpt2_be", 1, 1, 125)], alone)
    check(abs(r["mean"] - 1.25) < 1e-9 and r["worst"] == 1.5 and r["p99"] == 3.0 and r["waiting"] == 2, f"{r}")
    check(abs(r["throughput"] - 1.1) < 1e-9 and r["best_effort"] == 0.5, f"{r}")
    w = {"tasks": [{"id": "gpt2_rt", "load": {"type": "poisson", "rate_fraction": 0.1}}, {"id": "gpt2_be", "load": {"type": "continuous"}}]}
    check([t["load"] for t in reef_bench.concrete(w, alone)["tasks"]] == [{"type": "poisson", "frequency": 25.0}, {"type": "continuous"}], "rates")
    out = io.StringIO()
    reef_bench.show("a", {"sequential": {**r, "throughput": 0.5}, "level2": r, "pad": {"failed": "why"}}, out)
    lines = out.getvalue().splitlines()
    check(" 2.20x " in lines[3] and lines[4].split() == ["pad", "why"], out.getvalue())


def pairs_are_summed_up(_):
    names = list(reef_bench.pairs())
    check(len(names) == 25 and "vgg19 beside gpt2" in names, f"{names}")
    one = {"mean": 1.0, "p99": 1.5, "throughput": 1.2, "best_effort": 0.2}
    runs = {name: {"sequential": {**one, "throughput": 0.8}, "pad": one} for name in names}
    runs[names[3]]["pad"] = {**one, "mean": 3.5, "p99": 9.0, "best_effort": 0.001, "throughput": 0.8}
    out = io.StringIO()
    reef_bench.show_pairs(runs, ("sequential", "pad", "orion"), out)
    lines = out.getvalue().splitlines()
    check(lines[3].split() == ["pad", "1.100x", "3.500x", "9.00x", "1.18", "0.80", "1.48x", "1"], out.getvalue())
    check(lines[4].split() == ["orion", "not", "run"], out.getvalue())
    runs[names[3]]["pad"] = {"failed": "why"}
    out = io.StringIO()
    reef_bench.show_pairs(runs, ("pad",), out)
    check(f"{names[3]}: why" in out.getvalue(), out.getvalue())


def all_of_it(stack):
    need_cuda_shim()
    f = Fermata(stack, start=False)
    env = environment(cuda_env(f.env), TORCH_STUB_KERNEL_NS=2000, LD_PRELOAD=preload())
    path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "reef.json")
    r = subprocess.run([*REEF, "--seconds", "0.3", "--modes", "streams,level2,pad", "--workloads", "a", "--json", path], env=env, text=True,
                       capture_output=True, timeout=2 * PATIENCE)
    with open(path, encoding="ascii") as f:
        got = json.load(f)
    check(list(got["runs"]["a"]) == ["streams", "level2", "pad"] and set(got["alone"]) == {"vgg19", "resnet152"}, f"{got} {r.stderr}")
    for mode in ("streams", "level2", "pad"):
        run = got["runs"]["a"][mode]
        check(run.get("mean", 0) > 0 and run["throughput"] > 0, f"{mode}: {run}")
        check(f"{mode} " in r.stdout, r.stdout)
    check(r.returncode == 0, f"{r.returncode}: {r.stdout} {r.stderr}")


@long
def each_network_is_stopped(stack):
    need_cuda_shim()
    f = Fermata(stack, start=False)
    env = environment(cuda_env(f.env), TORCH_STUB_KERNEL_NS=200000, LD_PRELOAD=preload())
    r = subprocess.run([*REEF, "--seconds", "0.5", "--modes", "guardian,streams", "--workloads", "stops", "--graphs"], env=env, text=True,
                       capture_output=True, timeout=4 * PATIENCE)
    lines = [line.split() for line in r.stdout.splitlines() if line.startswith("guardian ")]
    check(r.returncode == 0 and [line[1] for line in lines] == list(reef_bench.NETWORKS), f"{r.returncode}: {r.stdout} {r.stderr}")
    for _, network, count, *_, answers, other in lines:
        check(int(count) > 0 and int(answers) > 0 and other == "0", f"{network}: {r.stdout}")


def without_a_device(_):
    env = {k: v for k, v in environment().items() if k != "TORCH_STUB_PTX"}
    r = subprocess.run(REEF, env=env, text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode == 77 and "no PyTorch" in r.stderr, f"{r.returncode}: {r.stderr}")
    r = subprocess.run([*REEF, "--modes", "fast"], env=env, text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode == 2 and "each is one of sequential" in r.stderr, f"{r.returncode}: {r.stderr}")


if __name__ == "__main__":
    main(its_numbers_are_ratios, pairs_are_summed_up, all_of_it, each_network_is_stopped, without_a_device)
