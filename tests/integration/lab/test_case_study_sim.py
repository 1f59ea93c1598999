#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The case study in virtual time: every response time is below its bound, under the driver's turns and under Fermata; the
same seed gives the same bytes; and a bound that is too small is found, with its name."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
LIB = os.path.join(SOURCE, "script", "lib")
URGENT = ["histogram", "mmul_gpu_1", "mmul_cpu", "projection", "dxtc"]
BOUNDED = {"rr-suspend": 5, "rr-busy": 4, "lock": 0, "fermata": 5, "fermata-busy": 5, "fermata-level-2": 5}


def study(*more, machines=4, change="", status=0):
    """change: done to the module before it runs."""
    code = f"import sys; sys.path.insert(0, {LIB!r}); import case_study_sim as m\n{change}\nm.main()"
    argv = [sys.executable, "-c", code, "--build", BUILD, "--machines", str(machines), *more]
    r = subprocess.run(argv, text=True, capture_output=True, timeout=240, check=False)
    check(r.returncode == status, f"{r.returncode}: {r.stderr}{r.stdout}")
    return r


def every_response_is_below_its_bound(stack):
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    kept, out = os.path.join(dir_, "kept"), os.path.join(dir_, "out")
    printed = study("--json", "--workloads", kept, "--out", out).stdout
    r = json.loads(printed)
    check(sorted(r["approaches"]) == sorted(BOUNDED), r["approaches"])
    for a, row in r["approaches"].items():
        argv = [FERMATA, "analyze", "--json", "--method", row["method"], os.path.join(kept, f"{a}.json")]
        known = json.loads(subprocess.run(argv, text=True, capture_output=True, timeout=60, check=False).stdout)
        check({t["name"]: t["wcrt"] for t in known["tasks"]} == {n: t["bound_ns"] for n, t in row["tasks"].items()}, a)
        have = [n for n, t in row["tasks"].items() if t["bound_ns"] is not None]
        check(have == URGENT[:BOUNDED[a]], f"{a}: {have}")
        for n, t in row["tasks"].items():
            check(len(t["mort_ns"]) == 4 and t["jobs"] > 4 * 3 * 50, f"{a}, {n}: {t}")
            check(all(0 < most <= (t["bound_ns"] or most) for most in t["mort_ns"].values()), f"{a}, {n}: {t}")
    # The most urgent: 11 ms of its own, and the device taken from whoever has it.
    check(r["approaches"]["fermata"]["tasks"]["histogram"]["mort_ns"]["together"] == 12000000, "histogram")
    check(all(r["approaches"][a]["tasks"][n]["late"] == 0 for a in BOUNDED for n in URGENT), "a deadline was missed")
    with open(os.path.join(out, "virtual.json"), encoding="utf-8") as f:
        check(f.read() == printed, "what is kept is not what is printed")
    with open(os.path.join(out, "virtual.txt"), encoding="utf-8") as f:
        check("bounds       none exceeded" in f.read(), "the table does not say so")


def same_seed_same_bytes(_):
    one, two, three = (study("--json", "--seed", s, machines=1).stdout for s in ("5", "5", "6"))
    check(one == two and one != three, "a seed does not say what happens")


def a_bound_too_small_is_found(_):
    less = ("old = m.Task.declared\n"
            "def declared(self, kind):\n    t = old(self, kind)\n    t['cpu_time'] -= t['cpu_time'] // 3\n    return t\n"
            "m.Task.declared = declared")
    r = study(machines=1, change=less, status=1)
    check("mmul_cpu under fermata, together: " in r.stdout and " !" in r.stdout, r.stdout)
    check("bounds were exceeded" in r.stderr, r.stderr)


def an_epsilon_too_small_is_told(_):
    r = study(machines=1, change="m.KINDS['level 3']['epsilon'] -= 1", status=1)
    check("more than epsilon allows" in r.stderr, r.stderr)


if __name__ == "__main__":
    main(every_response_is_below_its_bound, same_seed_same_bytes, a_bound_too_small_is_found, an_epsilon_too_small_is_told)
