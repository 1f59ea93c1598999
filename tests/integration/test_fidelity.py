#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The study of the simulator's fidelity, short: programs run under each kind of policy with right results, the workloads
that it keeps give what it says of the simulation, and errors are what live and simulated numbers make. How large they
are is not looked at: this machine is not quiet."""

import csv
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, FERMATA, SANITIZE, Skip, check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
sys.path.insert(0, os.path.join(SOURCE, "script", "lib"))
import fidelity  # noqa: E402

RT_TASK = os.path.join(BUILD, "bench", "rt_task")
SAMPLES = {"begin": 900_000, "react": 20_000, "stop": 600_000, "turn": 3_000_000}


COSTS = {"kernel_us": 400, "job_us": 300, "react_us": 20, "gate_us": 10, "switch_us": 50, "slice_us": 3000}


def study(stack, *more, costs=None):
    if SANITIZE or not os.path.exists(RT_TASK):
        raise Skip("bench/rt_task is not built, or slow")
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path, out = os.path.join(dir_, "p.json"), os.path.join(dir_, "out")
    with open(path, "w", encoding="ascii") as f:
        json.dump({"fermata_platform": 1, "epsilon_ns": 1, "samples": {k: {"p50_ns": v} for k, v in SAMPLES.items()}}, f)
    if costs:
        before = os.path.join(dir_, "costs.json")
        with open(before, "w", encoding="ascii") as f:
            json.dump({"costs": costs, "rounds": 10}, f)
        more += ("--costs", before)
    argv = [sys.executable, os.path.join(SOURCE, "script", "lib", "fidelity.py"), "--build", BUILD, "--json", "--plain",
            "--seconds", "1", "--measured", "4", "--times", "1", "--platform", path, "--out", out, *more]
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    r = subprocess.run(argv, env=env, text=True, capture_output=True, timeout=240, check=False)
    check(r.returncode == 0, f"{r.returncode}: {r.stderr}")
    return json.loads(r.stdout), out


def shares(out, policy):
    """Of the workload that was kept, by the summary."""
    r = subprocess.run([FERMATA, "sim", os.path.join(out, policy + ".ini"), "--json"], text=True, capture_output=True,
                       check=True, timeout=60)
    summary = json.loads(r.stdout)
    kernels = {g["name"]: g["jobs"] * fidelity.GROUPS[g["name"]][0] for g in summary["groups"]}
    check(summary["policy"] == ("fifo" if policy == "none" else policy), summary["policy"])
    return {name: 100 * n / max(1, sum(kernels.values())) for name, n in kernels.items()}


def it_is_whole(stack):
    r, out = study(stack, "--policy", "edf", costs=COSTS)
    check(list(r["policies"]) == ["edf"] and r["costs"] == COSTS, r)
    for policy, row in r["policies"].items():
        check(set(row["groups"]) == set(fidelity.GROUPS), row)
        known = shares(out, policy)
        for name, g in row["groups"].items():
            check(abs(g["share"]["sim"] - known[name]) < 1e-6, f"{policy} {name}: {g} {known}")
            check(("p50" in g) == ("p99" in g) == bool(fidelity.GROUPS[name][1]), g)
        did = sum(g["share"]["live"] for g in row["groups"].values())
        check(abs(did - 100) < 1e-6 or row["throughput"]["live"] == did == 0, row)
    with open(os.path.join(out, "fidelity.csv"), encoding="ascii") as f:
        rows = list(csv.DictReader(f))
    check(len(rows) == 4 + 2 * 2 + 1, rows)
    with open(os.path.join(out, "fidelity.txt"), encoding="utf-8") as f:
        text = f.read()
    check("edf             batch-b" in text and "bounds  " in text, text)
    with open(os.path.join(out, "edf.ini"), encoding="ascii") as f:
        check("deadline = 20000us" in f.read(), "the hints are the same")


def costs_are_measured(stack):
    r, out = study(stack, "--policy", "none")
    check(r["costs"]["kernel_us"] > 0 and r["costs"]["react_us"] == 20 and r["costs"]["switch_us"] == 280, r["costs"])
    check(set(r["costs"]) == set(COSTS) and min(r["costs"].values()) >= 0 and r["rounds"] > 0, r["costs"])
    shares(out, "none")


def errors_are_errors(_):
    same = {name: {"p50": 10.0, "p99": 20.0, "kernels": 100} for name in fidelity.GROUPS}
    good = {"policies": {"fair": fidelity.compare(same, same, 10)}}
    check(not list(fidelity.beyond(good)), good)
    for what, value, off in (("p50", 11.5, ("requests", "p50")), ("p99", 14.0, ("requests", "p99"))):
        other = {name: dict(row) for name, row in same.items()}
        other["requests"][what] = value
        found = [(name, of) for _, name, of, _ in fidelity.beyond({"policies": {"fair": fidelity.compare(same, other, 10)}})]
        check(found == [off], f"{found}")
        other["requests"][what] = same["requests"][what] * 1.09
        check(not list(fidelity.beyond({"policies": {"fair": fidelity.compare(same, other, 10)}})), what)
    less = {name: dict(row, kernels=80) for name, row in same.items()}
    found = [(of, round(e)) for _, _, of, e in fidelity.beyond({"policies": {"fair": fidelity.compare(same, less, 10)}})]
    check(found == [("throughput", -20)], f"{found}")
    nothing = fidelity.pair(0, 5)
    check(nothing["error"] == 100 and fidelity.pair(None, 5)["error"] is None, nothing)
    check(fidelity.quantile([], 50) is None and fidelity.quantile([1, 2, 3, 4], 50) == 2, "quantiles")
    check(fidelity.quantile(list(range(1, 101)), 99) == 99 and fidelity.quantile([7], 99) == 7, "quantiles")


if __name__ == "__main__":
    main(it_is_whole, costs_are_measured, errors_are_errors)
