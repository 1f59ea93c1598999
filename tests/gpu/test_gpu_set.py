#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a device: sets of tasks that decide there (<fermata/gpu_sched.h>, engines "gates" and "graphs"), by the cases of
tests/integration/cuda/cuda_gpu_set.c, cuda_gpu_resident.c, cuda_gpu_graphs.c and cuda_gpu_stops.c that a device can show, and what a set costs, by its kind and number
of tasks (cuda_gpu_rows.c), and under load (cuda_gpu_load.c). It fails if a case does. How good the numbers are is for people to say. Exit status 77: no device.

  test_gpu_set.py [--rows]      --rows: the numbers alone"""
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, Fermata, cuda_env, program

GRAPHS, STOPS = "cuda_gpu_graphs", "cuda_gpu_stops"  # where there is a device runtime
GUARDIAN = {"FERMATA_GUARDIAN": "1"}
CASES = {"cuda_gpu_set": ("refusals", "order", "enqueues", "waits", "contexts", "forks", "exits", "free", "worker 300"),
         "cuda_gpu_resident": ("periods", "halves", "words", "waits", "ends", "exits", "worker 300"),
         GRAPHS: ("order", "own", "refusals", "enqueues", "waits", "contexts", "forks", "exits", "free", "again", "worker 300",
                  "resident", "resident-ends", "slots", "slots-own", "slots-at-once"),
         STOPS: ("random 300 1", "random 300 2")}
TASKS = 1, 2, 5, 16, 25  # of 32 channels some are kept
HEAD = "tasks", "us a chunk", "decision us", "max", "release us P50", "P99"
BLOCKS_US, BLOCKS = (20, 100), 10560  # of a victim's kernels; of 264 at once on an H100
KINDS = "without a resident", "with a resident"
PERIODS = (1000, 4000), (10000, 500)  # us, jobs
BESIDE = ("alone", None), ("beside an idle set without a resident", 0), ("beside an idle set with a resident and a word", 1), \
    ("beside one that is suspended, with jobs", 2)
OVERHEAD = (1, 2, 3, 4, 5), 2000, 60  # tasks, us of a chunk, jobs of each: as the paper's Table I
THROUGHPUT = (32, 25), 100, 60  # 32 tasks, or so many as there are channels for
RANDOM = 200, 120, 1  # sets, ms of each, seed
PERIOD, JOB, SECONDS = 10000, 1000, 4  # us, us, s
OF_SETS = ("released by the host", 0), ("with a period", 1), ("no set", 2)


def run(env, of, *words):
    argv = [program(of), *words]
    r = subprocess.run(argv, env=env, input="go\n", capture_output=True, text=True, timeout=240, check=False)
    if r.returncode == 77 and of == GRAPHS:
        return None
    if r.returncode in (77, 127) or "cannot open shared object" in r.stderr:
        sys.exit(77)
    if r.returncode:
        sys.exit(f"{' '.join(argv)} ended with status {r.returncode}: {r.stdout}{r.stderr}")
    return r.stdout


def cases(env):
    for of, names in CASES.items():
        for case in names:
            out = run({**env, **(GUARDIAN if of == STOPS else {})}, of, *case.split())
            if out is None:
                print("skipped ", of, "there is no device runtime")
                return
            if case.startswith("worker") and out.split()[-1] != "0":
                sys.exit(f"{of} {case}: {out}")
            print("ok      ", of, case)


def row(name, *values):
    print(f"{name:<66}" + "".join(f"{value:>12}" for value in values), flush=True)


def numbers(env, *words):
    return run(env, "cuda_gpu_rows", *(str(word) for word in words)).split()[2:]


def by_kind(env, *engine):
    row("us", "P50", "P99")
    for n in TASKS:
        for kind, name in enumerate(KINDS):
            row(f"last kernel of a job to the first of the next, {n} tasks, {name}",
                *numbers(env, *engine, "decisions", kind, n)[:2])
    for kind, name in enumerate(KINDS):
        row(f"release by the host to its first kernel, {name}", *numbers(env, *engine, "release", kind))
    row("store to a word to its first kernel", *numbers(env, *engine, "word"))
    for us, jobs in PERIODS:
        late = numbers(env, *engine, "period", us, jobs)
        row(f"period of {us} us: lateness", *late[:2])
        row(f"period of {us} us: response", "", late[2])


def inside(env):
    for us in BLOCKS_US:
        p50, p99, stops, of = numbers(env, "graphs", "inside", us, BLOCKS)
        row(f"release to its first kernel inside kernels of blocks of {us} us ({stops} stops of {of})", p50, p99)


def beside(env):
    row("kernels of 20 us of another program, us", "P50", "P99", "a second")
    for name, kind in BESIDE:
        holds = kind is not None and subprocess.Popen([program("cuda_gpu_rows"), "hold", str(kind)], env=env, text=True,
                                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if holds and holds.stdout.readline() != "ready\n":
            sys.exit(f"no set {name}")
        row(name, *numbers(env, "other", 3))
        if holds:
            holds.communicate(timeout=120)
            if holds.returncode:
                sys.exit(f"{name}: status {holds.returncode}")


def load(env, *words, may_fail=False):
    argv = [program("cuda_gpu_load"), *(str(word) for word in words)]
    r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=240, check=False)
    if r.returncode and may_fail:
        return None
    if r.returncode:
        sys.exit(f"{' '.join(argv)} ended with status {r.returncode}: {r.stdout}{r.stderr}")
    return r.stdout.split()[2:]


def under_load(env, *engine):
    tasks, us, jobs = OVERHEAD
    row("under load", "one stream ms", "a set ms", "% more")
    for n in tasks:
        for kind, name in enumerate(KINDS):
            row(f"a decision each {us} us, {n} tasks, {name}", *load(env, *engine, "overhead", kind, n, us, jobs))
    tasks, us, jobs = THROUGHPUT
    for kind, name in enumerate(KINDS):
        for n in tasks:
            took = load(env, *engine, "overhead", kind, n, us, jobs, may_fail=n == tasks[0])
            if took:
                row(f"chunks of {us} us, {n} tasks, {name}", *took)
                break
    row("four tasks with periods", "processor %", "P99 us", "max us", "missed")
    for stops, name in enumerate(("as it is", "its process stopped for 100 ms of each 400")):
        row(name, *load(env, *engine, "processor", 5, stops))
    sets, ms, seed = RANDOM
    row("random sets of 8 tasks", "admitted", "missed there", "missed: edf", "fixed", "jobs")
    row(f"{sets} sets, {ms} ms each", *load(env, *engine, "random", sets, ms, seed))


def beside_under_the_daemon(env):
    """Jobs with a period and kernels of another program, of a lower priority, as groups of the daemon."""
    with contextlib.ExitStack() as stack:
        fermata = Fermata(stack)
        fermata.env = {**env, **fermata.env}
        fermata.env.pop("LD_PRELOAD")

        def beside(which):
            p = stack.enter_context(contextlib.closing(fermata.program([program("cuda_gpu_rows"), "other", str(SECONDS + 1)]))) \
                if which else None
            return p and (lambda: p.line("row other").split()[2:])

        row(f"a job of {JOB} us each {PERIOD} us, priority 10, us", "P50", "P99", "max", "the other P99", "a second")
        for other in False, True:
            for name, kind in OF_SETS:
                of_other = beside(other)
                p = fermata.program([program("cuda_gpu_load"), "jobs", str(kind), str(PERIOD), str(JOB), str(SECONDS)], "--priority=10")
                jobs = p.line("row jobs").split()[2:]
                p.wait()
                row(f"{name}, {'beside kernels of 20 us, priority 0' if other else 'alone'}", *jobs, *(of_other()[1:] if other else ()))
        of_other = beside(True)
        row("those kernels alone", "", "", "", *of_other()[1:])


def main():
    env = cuda_env({**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32",
                    "LD_PRELOAD": os.path.join(BUILD, "lib", "libfermata-cuda.so")})
    if "--rows" not in sys.argv[1:]:
        cases(env)
    print("".join(f"{h:>16}" for h in HEAD))
    for n in TASKS:
        print("".join(f"{w:>16}" for w in run(env, "cuda_gpu_set", "measure", str(n)).split()[1:]))
    by_kind(env)
    beside(env)
    under_load(env)
    beside_under_the_daemon(env)
    print('engine "graphs", as above', flush=True)
    for n in TASKS:
        graphs = run(env, GRAPHS, "measure", str(n))
        if graphs is None:
            print("there is no device runtime")
            return
        print("".join(f"{w:>16}" for w in graphs.split()[1:]))
    by_kind(env, "graphs")
    under_load(env, "graphs")
    inside({**env, **GUARDIAN})


if __name__ == "__main__":
    main()
