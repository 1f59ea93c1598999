#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs that are guarded by a second executable graph (src/api/cuda/shim/graph/graph_early.c): whatever a program does with its own it
sees what it sees natively, also where the driver refuses any call that it takes. The driver is the fake one;
FERMATA_TEST_CUDA=real takes the machine's."""
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import BUILD, Fermata, check, cuda_env, eventually, long, main, need_cuda_shim, preload, program, seldom_sanitized

ENV = cuda_env(dict(os.environ))
EXECS = "cuda_guard_execs"
SHIM = os.path.join(BUILD, "lib", "libfermata-cuda.so")


REAL = os.environ.get("FERMATA_TEST_CUDA") == "real"
PATIENCE_S = 30 if REAL else 120


def run(*argv, **env):
    return subprocess.run([program(EXECS), *argv], env={**ENV, **env}, capture_output=True, text=True, timeout=PATIENCE_S)


def at_once(call, cases):
    """Of each, in order: on a device most of the time goes into contexts that begin."""
    with ThreadPoolExecutor(6 if REAL else 2) as pool:
        return list(pool.map(call, cases))


# To destroy an executable graph whose context is gone ends the program on an H200 (580.159.04), or never comes back.
CASES = [case for case in run("--list").stdout.splitlines() if not (REAL and "context ends" in case)]
NATIVE = dict(zip(CASES, at_once(lambda case: run("0", case), CASES)))
if NATIVE[CASES[0]].returncode:
    print("no CUDA device")
    sys.exit(77)


def world(stack, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, "FERMATA_GUARDIAN": "1", **env})
    return fermata


def same(case, p, text, want=None):
    want = want or NATIVE[case]
    check(want.returncode == 0, f"{case} fails natively: {want.stderr}")
    check(p.wait() == 0, f"{case} ended with status {p.p.returncode} {text}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    check(got == want.stdout.splitlines(), f"{case} differs {text}:\n\t{got}\n\tnatively {want.stdout.splitlines()}")


def beside_another(stack):
    """Where launches are guarded."""
    fermata = world(stack)
    other = fermata.cuda_worker()
    running = {case: fermata.program([program(EXECS), "0", case]) for case in CASES}
    for case, p in running.items():
        same(case, p, "beside another")
    other.finish()


def without_a_daemon(fermata, case, want=None):
    env = {**fermata.env, "FERMATA_SOCKET": "/nowhere", "LD_PRELOAD": preload(SHIM)}
    p = subprocess.run([program(EXECS), "0", case], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    check((p.returncode, p.stdout) == (0, (want or NATIVE[case]).stdout), f"{case}, ungoverned: {p.returncode} {p.stdout} {p.stderr}")


def ungoverned(stack):
    """With nobody to schedule it."""
    fermata = world(stack)
    at_once(lambda case: without_a_daemon(fermata, case), CASES)


def suspended_at_random(stack):
    fermata = world(stack)
    running = {case: fermata.program([program(EXECS), "0", case]) for case in CASES}
    fermata.suspend_at_random(random.Random(17), list(running.values()), 0.01, 0.005)
    for case, p in running.items():
        same(case, p, "when suspended at random")


def launches_captured(stack):
    """On a driver that makes a node of them."""
    nested = {"FAKE_CUDA_NESTED": "1"}
    fermata = world(stack, **nested)
    other = fermata.cuda_worker()
    for case in "captured elsewhere", "strayed, captured":
        want = run("0", case, **nested)
        check("captured 0, ended 0" in want.stdout, want.stdout)
        same(case, fermata.program([program(EXECS), "0", case]), "with launches captured", want)
        without_a_daemon(fermata, case, want)
    other.finish()


# Of what the shim makes for the program's graph: each call, the first of them, or one in the middle.
REFUSED = [f"{call}@{n}/{each}={error}" for error in (2, 999) for call, n, each in (
    ("cuGraphClone", 1, 1), ("cuGraphNodeFindInClone", 1, 1), ("cuGraphNodeFindInClone", 3, 5), ("cuGraphRemoveDependencies", 1, 1),
    ("cuGraphAddDependencies_v2", 1, 1), ("cuGraphInstantiateWithFlags", 2, 2))]
REFUSED += [f"cuGraphExecKernelNodeSetParams_v2@{n}/0=2" for n in (1, 3)]
LAUNCHES = [("refused once", f"cuGraphLaunch@{n}/0=2") for n in range(1, 6)] + [("refused often", "cuGraphLaunch@2/5=2")]


def refused(stack):
    """What it takes to have the other graph, and its launches: the program's own is launched."""
    fermata = world(stack)
    other = fermata.cuda_worker()
    for case, fault in [(case, fault) for fault in REFUSED for case in CASES[:2]] + LAUNCHES:
        fermata.env["FAKE_CUDA_FAIL"] = fault
        same(case, fermata.program([program(EXECS), "0", case]), f"with {fault}")
        without_a_daemon(fermata, case)
    other.finish()


@long
def many(stack):
    """One after the other, more than there may be at one time, each launched in a stream that goes before it does, or in one
    without a guardian."""
    fermata = world(stack)
    for where in "own", "thread":
        p = fermata.program([program("cuda_guard_many"), where])
        p.line("ready")
        fermata.knows(p.pid)
        calls = [c["call"] for c in fermata.group(p.pid)["calls"]]
        check("graph (too many)" not in calls, f"{where}: {calls}")
        p.tell("end")
        check(p.wait() == 0, f"{where}: it ended with status {p.p.returncode}")


def made_in_reverse(stack):
    """A chain is one however its nodes are listed."""
    fermata = world(stack)
    p = fermata.program([program("cuda_guard_many"), "reverse"])

    def counted():
        return {c["call"]: c["undivided"] for c in (fermata.group(p.pid) or {}).get("calls", ()) if c["call"].startswith("graph")}

    eventually("the last graph is counted", lambda: "graph (branches)" in counted())
    check(counted() == {"graph (branches)": 1}, f"{counted()}")
    p.tell("end")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")


def given_back_under_way(stack):
    """What is kept of a graph goes when its launch has ended, not before, also where no stream tells when that is. An H200
    does not make thousands of graphs while one of them is under way."""
    fermata = world(stack)
    p = fermata.program([program("cuda_guard_many"), "full"])

    def counted():
        return {c["call"]: c["undivided"] for c in (fermata.group(p.pid) or {}).get("calls", ())}

    p.line("ready")
    eventually("three are too many", lambda: counted().get("graph (too many)") == 3)
    p.tell("go on")
    eventually("the last graph is counted", lambda: "graph (branches)" in counted())
    check(counted().get("graph (too many)") == 5, f"two more are too many, there is room for one: {counted()}")
    p.tell("end")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")


if __name__ == "__main__":
    fake_only = () if REAL else (launches_captured, refused, given_back_under_way)
    main(beside_another, ungoverned, suspended_at_random, *seldom_sanitized(many), made_in_reverse, *fake_only)
