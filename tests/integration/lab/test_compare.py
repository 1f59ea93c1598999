#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fermata-lab compare, of simulated runs; test_record.py has one that was recorded."""

import csv
import io
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, check, main  # noqa: E402
from offline import fermata  # noqa: E402

SOURCE = os.environ.get("SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def two_runs_side_by_side(stack):
    f = Fermata(stack, start=False)
    example = os.path.join(SOURCE, "examples", "sim", "inference.ini")

    def run(name, *options):
        path = os.path.join(f.dir, name)
        with open(path, "w", encoding="ascii") as out:
            out.write(fermata("sim", example, "--json", *options).stdout)
        return path

    one, two, fifo = run("one"), run("two", "--seed", "2"), run("fifo", "--policy", "fifo")
    same = json.loads(fermata("compare", one, two, "--json", "--fail-if-worse").stdout)
    check((same["slower"], same["faster"]) == (0, 0), f"two seeds: {same}")
    check([g["p50"]["verdict"] for g in same["groups"]] == ["same", "same"], f"{same}")
    worse = json.loads(fermata("compare", one, fifo, "--json", "--fail-if-worse", status=3).stdout)
    g = worse["groups"][0]
    check(g["name"] == "requests" and g["p50"]["verdict"] == g["p99"]["verdict"] == "slower", f"{g}")
    check(0 < g["p50"]["low_ns"] <= g["p50"]["b_ns"] - g["p50"]["a_ns"] <= g["p50"]["high_ns"] and g["p50"]["p"] < 0.05,
          f"{g}")
    with open(one, encoding="ascii") as a, open(fifo, encoding="ascii") as b:
        a, b = json.load(a), json.load(b)
    for key, member in (("late", "late"), ("preemptions", "preemptions")):
        check([x[key] for x in worse["groups"]] == [[p[member], q[member]] for p, q in zip(a["groups"], b["groups"])], key)
    share = 100 * a["groups"][0]["served_ns"] / sum(d["time_ns"] for d in a["devices"])
    check(abs(g["share_percent"][0] - share) < 1e-6, f"{g}, {share}")
    better = json.loads(fermata("compare", fifo, one, "--json").stdout)
    check(better["faster"] == worse["slower"] > 0 and better["slower"] == 0, f"{better}")
    check(fermata("compare", one, fifo).stdout == fermata("compare", one, fifo).stdout, "not the same twice")
    check("seed 7" in fermata("compare", one, fifo, "--seed", "7").stdout, "another seed")
    rows = list(csv.DictReader(io.StringIO(fermata("compare", one, fifo, "--csv").stdout)))
    check(len(rows) == 12 and rows[0]["verdict"] == "slower" and rows[2]["what"] == "jobs_per_second", f"{rows}")
    text = fermata("compare", one, fifo).stdout
    check(re.search(r"requests +P50 +[0-9.]+ ms +[0-9.]+ ms +\+[0-9.]+% .* slower", text), text)
    check("simulated under fifo" in text and "with too few jobs, 0 starved (5%" in text, text)


def who_gets_nothing(stack):
    """No percentile tells of a group none of whose jobs end."""
    f = Fermata(stack, start=False)
    path = os.path.join(f.dir, "starved.ini")
    with open(path, "w", encoding="ascii") as out:
        out.write("[workload]\nduration = 10s\n[device gpu]\nlevel = 2\n"
                  "[group high]\narrive = always\ncommands = 10 x 100us\nweight = 90\npriority = high\n"
                  "[group low]\narrive = always\ncommands = 10 x 100us\nweight = 10\npriority = low\n")
    runs = []
    for policy in ("fair", "fixed-priority"):
        runs.append(os.path.join(f.dir, policy))
        with open(runs[-1], "w", encoding="ascii") as out:
            out.write(fermata("sim", path, "--json", "--policy", policy).stdout)
    worse = json.loads(fermata("compare", *runs, "--json", "--fail-if-worse", status=3).stdout)
    low = next(g for g in worse["groups"] if g["name"] == "low")
    check(worse["starved"] == 2, f"{worse}")
    check(low["p50"]["verdict"] == low["p99"]["verdict"] == "starved" and low["p50"]["b_ns"] is None, f"{low}")
    check("2 starved" in fermata("compare", *runs).stdout, "the table")
    check(",starved" in fermata("compare", *runs, "--csv").stdout, "the rows")
    better = json.loads(fermata("compare", *runs[::-1], "--json").stdout)
    check(better["starved"] == 0, f"{better}")


def runs_that_are_none(stack):
    f = Fermata(stack, start=False)
    path, run = os.path.join(f.dir, "run"), os.path.join(f.dir, "sim")
    with open(run, "w", encoding="ascii") as out:
        out.write(fermata("sim", os.path.join(SOURCE, "examples", "sim", "pipeline.ini"), "--json").stdout)
    good = json.loads(open(run, encoding="ascii").read())

    def refused(text, what):
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        r = fermata("compare", run, path, status=2)
        check(r.stderr.startswith(f"fermata-lab: {path}") and what in r.stderr, r.stderr)

    refused("", "expected near end of file")
    refused("[workload]\n", "compare what `fermata-lab sim --json' makes of it")
    refused("[]", "not the output of `fermata-lab sim --json'")
    refused("FMTRACE\0" + "\1" * 200, "a trace of version")
    for change in ({"duration_ns": 0}, {"machines": 0}, {"policy": 5}, {"devices": [{}]}, {"groups": 7}):
        refused(json.dumps(dict(good, **change)), "not the output of")
    for change in ({"jobs": -1}, {"name": None}, {"late": 0.5}, {"response_histogram": {"5": 1}},
                   {"response_histogram": {"x": good["groups"][0]["jobs"]}}):
        refused(json.dumps(dict(good, groups=[dict(good["groups"][0], **change)])), "a group that is not as")
    refused(json.dumps(dict(good, groups=good["groups"][:1] * 2)), "two groups of one name")
    one = json.dumps(dict(good, groups=[dict(good["groups"][0], name="other")]))
    with open(path, "w", encoding="ascii") as out:
        out.write(one)
    check("no group in common" in fermata("compare", run, path, status=2).stderr, "nothing in common")
    check("no runs given" in fermata("compare", run, status=2).stderr, "one alone")
    check("No such file" in fermata("compare", run, path + "x", status=1).stderr, "none")
    # Without the histogram there are numbers, but no verdict.
    for g in good["groups"]:
        del g["response_histogram"]
    with open(path, "w", encoding="ascii") as out:
        json.dump(good, out)
    both = json.loads(fermata("compare", run, path, "--json").stdout)
    check({g["p50"]["verdict"] for g in both["groups"]} == {"too-few"}, f"{both}")


def runs_without_jobs_or_an_end(stack):
    """No percentile is 0, nor 100 % less than another, where no job has ended; and a recording that was cut off is not one as
    long as it looks."""
    f = Fermata(stack, start=False)
    run, none, trace, cut = (os.path.join(f.dir, name) for name in ("run", "none", "trace", "cut"))
    example = os.path.join(SOURCE, "examples", "sim", "inference.ini")
    good = json.loads(fermata("sim", example, "--duration", "3s", "--json", "--trace", trace).stdout)
    with open(run, "w", encoding="ascii") as out:
        json.dump(good, out)
    with open(none, "w", encoding="ascii") as out:
        json.dump(dict(good, groups=[dict(g, jobs=0, response_histogram={}) for g in good["groups"]]), out)
    text = fermata("compare", run, none).stdout
    check(re.search(r"requests +P50 +[0-9.]+ ms +- +- +- +too few jobs", text), text)
    for g in json.loads(fermata("compare", run, none, "--json").stdout)["groups"]:
        check(g["p50"]["a_ns"] > 0 and g["p50"]["b_ns"] is None and g["p99"]["b_ns"] is None, f"{g}")
    row = list(csv.DictReader(io.StringIO(fermata("compare", none, run, "--csv").stdout)))[0]
    check((row["a"], row["verdict"]) == ("", "too few jobs") and float(row["b"]) > 0 and not row["p"], f"{row}")
    with open(trace, "rb") as whole, open(cut, "wb") as out:
        out.write(whole.read()[:-100])
    both = json.loads(fermata("compare", trace, cut, "--json").stdout)
    check((both["a"]["cut"], both["b"]["cut"]) == (False, True), f"{both}")
    lines = fermata("compare", trace, cut).stdout.splitlines()
    check("cut short" not in lines[0] and lines[1].endswith(", cut short"), f"{lines}")


if __name__ == "__main__":
    main(two_runs_side_by_side, who_gets_nothing, runs_that_are_none, runs_without_jobs_or_an_end)
