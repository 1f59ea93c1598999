#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What script/bench and script/gpu-bench run to measure still runs, and says something; how much it says is not looked at."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, PATIENCE, check, main

FERMATAD = os.path.join(BUILD, "bin", "fermatad")


def runs(name, *args):
    r = subprocess.run([os.path.join(BUILD, "bench", name), *args], capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 0, f"{name} ended with status {r.returncode}:\n{r.stderr}")
    check(any(c.isdigit() for c in r.stdout), f"{name} says nothing")
    return r.stdout


def wake(stack):
    """Of the daemon, by two groups and by a thousand."""
    said = runs("bench_core_wake", FERMATAD, "20")
    for what in ("wake_p50", "wake_react_p50", "wake_1000_groups_daemon_rss"):
        check(what in said, f"{what} is not in\n{said}")


def core(stack):
    runs("bench_core_sched", "--groups", "20", "--seconds", "0.01")


def library(stack):
    runs("bench_lib_submit")


def wrong_arguments(stack):
    for name, args in (("bench_core_wake", (FERMATAD, "none")), ("bench_core_sched", ("--groups", "0"))):
        r = subprocess.run([os.path.join(BUILD, "bench", name), *args], capture_output=True, text=True, timeout=PATIENCE)
        check(r.returncode == 2 and "usage" in r.stderr, f"{name} {args}: {r.returncode}, {r.stderr}")


if __name__ == "__main__":
    if not os.path.exists(os.path.join(BUILD, "bench", "bench_core_wake")):
        print("built without them (FERMATA_BENCH)")
        sys.exit(77)
    main(wake, core, library, wrong_arguments)
