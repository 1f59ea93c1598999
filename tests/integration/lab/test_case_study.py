#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The case study, short: every job of every task is done, with right results, under each approach; bounds are those of
analyze and of the daemon; the report is whole in each of its forms. No time is looked at."""

import contextlib
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, SANITIZE, Fermata, Program, Skip, check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
RT_TASK = os.path.join(BUILD, "bench", "rt_task")
TASKS = ["histogram", "mmul_cpu", "simpleTexture3D"]
SECONDS, SCALE = 0.5, 0.5
PERIODS = {"histogram": 50, "mmul_cpu": 100, "simpleTexture3D": 33.5}


def study(stack, platform, *more):
    if SANITIZE or not os.path.exists(RT_TASK):
        raise Skip("bench/rt_task is not built, or slow")
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path, out = os.path.join(dir_, "p.json"), os.path.join(dir_, "out")
    with open(path, "w", encoding="ascii") as f:
        json.dump({"fermata_platform": 1, **platform}, f)
    argv = [sys.executable, os.path.join(SOURCE, "script", "lib", "case_study.py"), "--build", BUILD, "--json", "--plain",
            "--seconds", str(SECONDS), "--scale", str(SCALE), "--measured", "3", "--platform", path, "--out", out, *more]
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    r = subprocess.run(argv + [f"--task={t}" for t in TASKS], env=env, text=True, capture_output=True, timeout=240)
    check(r.returncode == 0, f"{r.returncode}: {r.stderr}")
    return json.loads(r.stdout), out, path


def all_jobs(result, approaches):
    for a in approaches:
        rows = result["approaches"][a]["tasks"]
        check(sorted(rows) == sorted(TASKS), f"{a}: {rows}")
        for name, t in rows.items():
            asked = max(2, int(SECONDS * 1000 / PERIODS[name]))
            check(t["asked"] == asked and t["wrong"] == 0, f"{a}, {name}: {t}")
            check(t["jobs"] == asked or name == "simpleTexture3D" and 0 < t["jobs"] < asked, f"{a}, {name}: {t}")
            check(0 < t["min_us"] <= t["p50_us"] <= t["p99_us"] <= t["max_us"], f"{name}: {t}")
            check(abs(t["max_us"] - t["mort_ms"] * 1000) < 0.01, f"{name}: {t}")
            check(t["missed"] <= t["jobs"], f"{name}: {t}")


def report_is_whole(stack):
    """Costs of nothing: there is a bound for all that have a deadline, and who could be admitted is."""
    costs = {"epsilon_ns": 1000, "slice_ns": 1000, "theta_ns": 0}
    result, out, path = study(stack, costs)
    rows = result["approaches"]
    check(sorted(rows) == ["admission", "edf", "fixed-priority", "native"], list(rows))
    all_jobs(result, rows)
    for name in ("histogram", "mmul_cpu"):  # either has a bound, or a reason
        row = rows["admission"]
        check((row["tasks"][name]["bound_ms"] is None) == (name in row["refused"]), row)
    for a, method in (("native", "rr-suspend"), ("fixed-priority", "gcaps-suspend")):
        r = subprocess.run([FERMATA, "analyze", "--json", "--method", method, "--platform", path,
                            os.path.join(out, "set.json")], text=True, capture_output=True, timeout=60)
        for t in json.loads(r.stdout)["tasks"]:
            row = rows[a]["tasks"][t["name"]]
            check(row["bound_ms"] == (None if t["wcrt"] is None else t["wcrt"] / 1000), f"{a}: {row}, {t}")
            check(row["held"] == (None if t["wcrt"] is None else row["mort_ms"] <= row["bound_ms"]), f"{a}: {row}")
    check(all(t["bound_ms"] is None for t in rows["edf"]["tasks"].values()), "a bound under edf")
    with open(os.path.join(out, "case-study.json"), encoding="utf-8") as f:
        check(json.load(f) == result, "what is kept is not what is printed")
    with open(os.path.join(out, "case-study.csv"), encoding="utf-8") as f:
        lines = list(csv.DictReader(f))
    check([(row["approach"], row["task"]) for row in lines] == [(a, t) for a in rows for t in rows[a]["tasks"]], lines)
    with open(os.path.join(out, "case-study.txt"), encoding="utf-8") as f:
        text = f.read()
    check(all(re.search(f"^{t} ", text, re.M) for t in TASKS) and "MORT" in text and "bounds " in text, text)
    check("epsilon 0.00, slice 0.00, theta 0.00" in text, text)


def nobody_is_admitted_whose_deadline_cannot_be_kept(stack):
    result, out, _ = study(stack, {"epsilon_ns": 10 ** 9}, "--approach", "admission")
    row = result["approaches"]["admission"]
    check(sorted(row["refused"]) == ["histogram", "mmul_cpu"], row)
    check("not admitted" in row["refused"]["histogram"] and row["tasks"]["histogram"]["bound_ms"] is None, row)
    all_jobs(result, ["admission"])
    with open(os.path.join(out, "case-study.txt"), encoding="utf-8") as f:
        check("admission    without histogram: fermata: not admitted" in f.read(), "the table does not say so")


def nobody_looks_for_callbacks_of_a_processor(stack):
    """On one CPU a driver that is a processor seems late with its callbacks. Who looks for them takes the device's
    time: under Fermata there is one thread more, which waits for the daemon, and no other."""
    if SANITIZE or not os.path.exists(RT_TASK):
        raise Skip("bench/rt_task is not built, or there are threads of the sanitizer's")
    cpu = str(min(os.sched_getaffinity(0)))
    argv = [RT_TASK, "run", "mmul", "10", "20", "10", f"cpu={cpu}", f"device-cpu={cpu}"]
    fermata = Fermata(stack)
    threads = []
    for words, env in ((argv, dict(os.environ)), (fermata.run_argv(argv), fermata.env)):
        p = stack.enter_context(contextlib.closing(Program(words, env)))
        p.line("ready")
        threads.append(len(os.listdir(f"/proc/{p.pid}/task")))
    check(threads[1] == threads[0] + 1, f"threads without and with Fermata: {threads}")


def a_task_that_makes_no_sense(stack):
    if not os.path.exists(RT_TASK):
        raise Skip("bench/rt_task is not built")
    for argv in ([], ["run"], ["run", "none", "0", "0"], ["run", "none", "0", "0", "-1"], ["size", "cpu", "x"],
                 ["run", "none", "0", "0", "1", "cpus=1"]):
        r = subprocess.run([RT_TASK, *argv], stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=60)
        check(r.returncode == 1 and r.stderr, f"{argv}: {r}")


if __name__ == "__main__":
    main(nobody_looks_for_callbacks_of_a_processor, report_is_whole, nobody_is_admitted_whose_deadline_cannot_be_kept, a_task_that_makes_no_sense)
