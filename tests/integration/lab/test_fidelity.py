#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The study of the simulator's fidelity, short: programs run with right results, the workloads that it keeps give what it
says of the simulation, errors are what live and simulated numbers make, and costs what recordings and counts make. How large
errors are is not looked at: this machine is not quiet."""

import csv
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA_LAB, SANITIZE, Skip, check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
sys.path.insert(0, os.path.join(SOURCE, "script", "lib"))
import fidelity  # noqa: E402
import fidelity_live  # noqa: E402

RT_TASK = os.path.join(BUILD, "bench", "rt_task")
COSTS = {"kernel_us": 400, "job_us": 300, "pause_us": 50, "react_us": 20}
DEVICE = {"level": "2", "spacing": "500us", "lead": "1", "open": "50us", "slice": "uniform 1ms 5ms", "turns": "fair"}


def study(stack, *more, costs=False):
    if SANITIZE or not os.path.exists(RT_TASK):
        raise Skip("bench/rt_task is not built, or slow")
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    out = os.path.join(dir_, "out")
    if costs:
        before = os.path.join(dir_, "costs.json")
        with open(before, "w", encoding="ascii") as f:
            json.dump({"costs": COSTS, "device": DEVICE, "rounds": 10}, f)
        more += ("--costs", before)
    argv = [os.path.join(SOURCE, "script", "fidelity"), "--build", BUILD, "--json", "--plain", "--out", out, *more]
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    r = subprocess.run(argv, env=env, text=True, capture_output=True, timeout=240, check=False)
    check(r.returncode == 0, f"{r.returncode}: {r.stderr}")
    return json.loads(r.stdout), out


def simulated(out, policy):
    """The shares of the workload that was kept, by the summary."""
    r = subprocess.run([FERMATA_LAB, "sim", os.path.join(out, policy + ".ini"), "--json", "--seed", "1"], text=True,
                       capture_output=True, check=True, timeout=60)
    summary = json.loads(r.stdout)
    kernels = {g["name"]: g["jobs"] * fidelity.GROUPS[g["name"]][0] for g in summary["groups"]}
    check(summary["policy"] == ("fifo" if policy == "none" else policy), summary["policy"])
    return {name: 100 * n / max(1, sum(kernels.values())) for name, n in kernels.items()}


def sound(r, policies, replays):
    check(list(r["policies"]) == policies and list(r["replays"]) == replays, r)
    for part in ("policies", "replays"):
        for row in r[part].values():
            check(set(row["groups"]) == set(fidelity.GROUPS), row)
            for name, g in row["groups"].items():
                check(("p50" in g) == ("p99" in g) == bool(fidelity.GROUPS[name][1]), g)
            check(("throughput" in row) == (part == "policies"), row)


def it_is_whole(stack):
    r, out = study(stack, "--policy", "edf", "--seconds", "1", "--times", "1", costs=True)
    check(r["costs"] == COSTS and r["device"] == DEVICE and r["rounds"] == 10, r)
    check(min(r["meanwhile"].values()) >= 0 and max(r["meanwhile"].values()) <= 100 * os.cpu_count(), r["meanwhile"])
    sound(r, ["edf"], ["edf > edf"])
    known = simulated(out, "edf")
    for name, g in r["policies"]["edf"]["groups"].items():
        check(abs(g["share"]["sim"] - known[name]) < 3, f"{name}: {g} {known}")  # the median of several seeds
    with open(os.path.join(out, "fidelity.csv"), encoding="ascii") as f:
        rows = list(csv.DictReader(f))
    check([row["part"] for row in rows] == ["policies"] * 9 + ["replays"] * 8, rows)
    with open(os.path.join(out, "fidelity.txt"), encoding="utf-8") as f:
        text = f.read()
    check("edf             batch-b" in text and "edf > edf" in text and "of 9 within the bounds" in text, text)
    with open(os.path.join(out, "edf.ini"), encoding="ascii") as f:
        text = f.read()
    check("deadline = 20000us" in text and "turns = fair" in text and "8 x 400.000us" in text, text)


def costs_are_measured(stack):
    r, out = study(stack, "--policy", "none", "--seconds", "1", "--times", "1", "--measured", "1")
    extra, pause = r["costs"].pop("extra"), r["costs"].pop("pause")
    check(pause.startswith("measured 0:"), pause)
    check(set(extra) == {"requests", "stream"} and all(us >= 0 for us, _ in extra.values()), extra)
    check(r["costs"].pop("late_us") >= 0 and r["costs"].pop("input_us") >= 0, r)
    check(set(r["costs"]) == set(COSTS) and min(r["costs"].values()) >= 0 and r["costs"]["kernel_us"] > 0, r["costs"])
    check(r["device"]["level"] == "2" and r["rounds"] > 0, r)
    sound(r, ["none"], [])
    simulated(out, "none")


def with_fermata_bench(stack):
    r, out = study(stack, "--driver", "sim", "--policy", "fair", "--seconds", "1", "--times", "1", "--measured", "1")
    check(r["driver"] == "sim" and r["costs"]["kernel_us"] > 0 and "switch" in r["device"], r)
    sound(r, ["fair"], ["fair > fair"])
    simulated(out, "fair")


def errors_are_errors(_):
    same = {name: {"p50": 10.0, "p99": 20.0, "work": 100} for name in fidelity.GROUPS}

    def found(live, sim):
        return [(name, of) for _, name, of, _ in fidelity.beyond({"fair": fidelity.compare(live, sim, 10)})]

    check(not found([same], [same]), "the same is the same")
    for what, value in (("p50", 11.5), ("p99", 14.0)):
        other = {name: dict(row) for name, row in same.items()}
        other["requests"][what] = value
        check(found([same], [other]) == [("requests", what)], what)
        check(not found([same], [other, same, same]), "medians, where there are no times")
        check(not found([same, other], [other]), "the live value is as unsure")
        other["requests"][what] = same["requests"][what] * 1.09
        check(not found([same], [other]), what)
    less = fidelity.compare([same], [{name: dict(row, work=80) for name, row in same.items()}], 10)
    check([(of, round(e)) for _, _, of, e in fidelity.beyond({"fair": less})] == [("throughput", -20)], less)
    check("8 of 9 within" in fidelity.verdict({"fair": less}), fidelity.verdict({"fair": less}))
    one = sum
    check(fidelity.pair([0], [5], one)["error"] == 100, "nothing")
    check(fidelity.pair([None], [5], fidelity.median)["error"] is None, "nothing")
    check(fidelity.pair([10], [11], one) == {"live": 10, "sim": 11, "error": 10, "spread": 0}, "a single run")
    # Of means of 9, 10 and 14: 2 * sqrt(variance / 3), which is 7.
    mean = fidelity.pair([9, 10, 14], [11], lambda v: sum(v) / len(v))
    check(mean["live"] == 11 and abs(mean["spread"] * 11 / 100 - 2 * (7 / 3) ** 0.5) < 1e-9, mean)
    check(fidelity.off({"error": None}, "p50") == "!", "what cannot be said is not within")
    runs = [{"requests": {"p99": 0, "times": times}} for times in ([5.0] * 99, [7.0], [1.0] * 100)]
    check(fidelity.Percentile("requests", "p99")(runs) == 5 and fidelity.Percentile("requests", "p50")(runs) == 1, "together")
    # A P99 of 100 jobs is as unsure as its one job: the second largest, and from the fourth on all of them.
    times = [{"requests": {"times": [float(v) for v in range(1, 101)]}}]
    p99 = fidelity.Percentile("requests", "p99")
    check(p99(times) == 99 and p99.ends(times) == (97, 100), p99.ends(times))
    more = [{"requests": {"times": [120.0] * 100}}]
    check(abs(fidelity.pair(times, more, p99)["spread"] - 100 / 99) < 1e-9, fidelity.pair(times, more, p99))
    check(fidelity.quantile([], 50) is None and fidelity.quantile([1, 2, 3, 4], 50) == 2, "quantiles")
    check(fidelity.quantile(list(range(1, 101)), 99) == 99 and fidelity.quantile([7], 99) == 7, "quantiles")


def counts_make_costs(_):
    """A device on which kernels of 300 us are 310 among others, and a change costs 150: what is counted gives them back."""
    alone = {name: 60 + n * 300 for name, (n, _, _) in fidelity.GROUPS.items()}

    def done(policy, costs, device):
        changes = 4000 if policy == fidelity_live.MANY_CHANGES else 400
        return (10e6 - changes * float(device["switch"][:-2])) / costs["kernel_us"]

    def a_run(policy):
        kernels = done(policy, {"kernel_us": 310}, {"switch": "150us"})
        return {name: {"work": kernels / 4} for name in fidelity.GROUPS}, {"alone_us": alone, "react_us": 7}

    runs = [a_run(policy) for policy in (fidelity_live.MANY_CHANGES, fidelity_live.FEW_CHANGES)]
    costs, device = fidelity_live.costs_of_counts([runs, runs], {"level": "2"}, done)
    check(abs(costs["kernel_us"] - 310) < 4 and abs(costs["around_us"] - 60) < 1e-6 and costs["react_us"] == 7, costs)
    check(costs["pause_us"] == 0, costs)
    text = "\n".join(fidelity.workload("edf", costs, device, 1))
    check(text.count("pause 60.000us") == 2 and text.count("pause") == 2, f"who always has work does not pause: {text}")
    check(costs["job_us"] == 0 and costs["parts"] in (15, 16) and device["level"] == "2", costs)
    check(130 < float(device["switch"][:-2]) < 180, device)


def recordings_make_costs(_):
    """Jobs of 8, 40 and 25 kernels of 400 us, with 200 us for input and output; those of the last are two in one."""
    groups = {name: [(n * 400 + 200, n + 2, 90)] * 100 if period else [(2 * (n * 400 + 200), 2 * (n + 2), 70)] * 200
              for name, (n, period, _) in fidelity.GROUPS.items()}
    costs = fidelity_live.costs_of_jobs(groups, [79, 79, 79], 9)
    check(abs(costs["kernel_us"] - 400) < 1e-6 and abs(costs["job_us"] - 200) < 1e-6, costs)
    check(costs["pause_us"] == 70 and costs["react_us"] == 9, costs)
    check(costs["extra"] == {"requests": (0.0, None), "stream": (0.0, None)}, costs)
    mean, text = fidelity_live.extra_of([1000 + i for i in range(100)], 1e6)
    check(45 < mean < 46 and text.startswith("measured 0:0us 5:0us 15:10us "), f"{mean} {text}")
    check(text.endswith(" 98:93us 100:94us"), text)
    check(costs["pause"].startswith("measured 0:70us 5:70us ") and costs["pause"].endswith(" 100:70us"), costs)
    mean, less = fidelity_live.extra_of([1000 + i for i in range(100)], mean / 2)
    check(22 < mean < 23 and " 15:5us " in less, "no more than that")


def recordings_make_one_device(_):
    devices = [{"level": "2", "open": f"{us}000ns", "slice": f"uniform {us}ns 9ns", "turns": turns}
               for us, turns in ((7, "fair"), (1, "in-order"), (3, "fair"))]
    check(fidelity_live.device_of_all(devices) == {"level": "2", "open": "3000ns", "slice": "uniform 3ns 9ns", "turns": "fair"},
          fidelity_live.device_of_all(devices))


def an_input_is_of_the_job(_):
    text = "\n".join(fidelity.workload("fair", {**COSTS, "input_us": 25}, DEVICE, 1))
    check(text.count("input = 25.000us") == 4 and text.count("pause 50.000us, 275.000us, ") == 4, text)
    text = "\n".join(fidelity.workload("fair", {**COSTS, "input_us": 300}, DEVICE, 1))
    check(text.count("input = 300.000us") == 4 and text.count("commands = pause 50.000us, 8 x 400.000us") == 1, text)


def what_is_missing_is_found(_):
    """A cost that is longer as long as the simulation does too much; and one that was seen is no shorter."""
    check(690 < fidelity_live.found(0, 2000, lambda us: 700 - us) <= 700, "by halves")
    check(fidelity_live.found(60, 2000, lambda us: -us) == 60, "it does less than was seen already")
    check(1990 < fidelity_live.found(60, 2000, lambda us: 1) < 2000, "it ends")
    check(fidelity_live.found(3000, 2000, lambda us: 1) == 3000, "longer than is looked for")


def recordings_are_as_meant(_):
    text = ("[workload]\nlinger = 9ns\n[device gpu]\nlevel = 2\nslice = uniform 1ns 2ns\nturns = fair\n[group g]\n"
            "job = 1ns 2ns 3\njob = 4ns 5ns 6 70ns\n")
    meant = fidelity.as_meant(text, {"slice": "5ns", "tick": "9ns", "turns": "fair", "open": "1ns"}, 20)
    check(meant == "[workload]\nlinger = 9ns\n[device gpu]\nslice = 5ns\ntick = 9ns\nturns = fair\nlevel = 2\n[group g]\n"
                   "job = 1ns 2ns 3\njob = 4ns 5ns 6 50ns\n", meant)
    check(fidelity.as_meant(text, {"slice": "5ns", "turns": "fair"}, 0) == text, "no turns that are known")


def recordings_are_read(_):
    text = ("[workload]\npolicy = fair\n[device gpu]\n# a = b\nopen = 60000ns\nslice = uniform 1ns 2ns\n[group bench-requests]\n"
            "start = 500ns\narrive = trace\njob = 100ns 3000ns 8\njob = 900ns 5000ns 9 40000ns\n[group stream]\n"
            "job = 700ns 1000ns 1\n")
    device, groups = fidelity_live.read_recording(text)
    check(device == {"open": "60000ns", "slice": "uniform 1ns 2ns"}, device)
    check(groups["requests"] == [(3, 8, None), (5, 9, 40)] and groups["stream"] == [(1, 1, None)], groups)
    later = fidelity.since(text, 700)
    check(fidelity_live.read_recording(later)[1]["requests"] == [(5, 9, 40)], "600 ns are before")
    check("job = 700ns" in later and later.count("\n") == text.count("\n") - 1, later)
    # A job of a loop that is half over counts for the rest: until 200 ns before the next, or the end.
    loop = "[workload]\nduration = 9200ns\n[group g]\nstart = 100ns\narrive = closed trace\n"
    jobs = "job = 0ns 400ns 40\njob = 1100ns 3000ns 8 200ns\n"
    check(fidelity.since(loop + jobs, 550) == loop + "job = 450ns 200ns 20\njob = 1100ns 3000ns 8 200ns\n", "under way")
    check(fidelity.since(loop + jobs, 1100) == loop + "job = 1100ns 3000ns 8 200ns\n", "between jobs")
    check(fidelity.since(loop + jobs, 5200) == loop + "job = 5100ns 1500ns 4\n", "the last")
    check(fidelity.since((loop + jobs).replace("closed ", ""), 5200) == loop.replace("closed ", ""), "of a clock")


if __name__ == "__main__":
    main(it_is_whole, costs_are_measured, with_fermata_bench, errors_are_errors, counts_make_costs, recordings_make_costs,
         recordings_make_one_device, an_input_is_of_the_job, what_is_missing_is_found, recordings_are_as_meant, recordings_are_read)
