#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that binds its streams by <fermata/cuda.h> (cuda_server.c, cuda_server_binding.c, cuda_server_partition.c):
linked with the shim, with the shim preloaded, by `fermata run`; scheduled in its own process, by a daemon, or by nobody.
The driver is the fake one."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import BUILD, PATIENCE, Fermata, Program, Skip, check, cuda_env, eventually, main, need_cuda_shim, preload, program

SHIM = os.path.join(BUILD, "lib", "libfermata-cuda.so")
IMAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data", "guard", "all.fatbin")
SUSPENSIONS = ("suspends", "suspend-takes-its-time", "at-level-1", "graph-outlives-stream",
               "binding destroyed-while-suspended", "binding ends-while-suspended",
               "binding unbinds-when-nobody-is-told", "binding turns-while-told")
CASES = ("stops", "graphs", "suspended-is-not-in-the-way", "binding binds-what-is-idle", "binding errors",
         "binding comes-and-goes", "partition partition", "partition elastic", *SUSPENSIONS)
SCHEDULED = tuple(c for c in CASES if c != "binding errors")  # that one is done with groups


def server(case, *more, linked="", via=None):
    """A case, behind the name of its program after cuda_server_ where it has one."""
    *which, name = case.split()
    return [program("_".join(["cuda_server", *which]) + linked), *(["--via", via] if via else []), name, *more]


def linked_server(case, *more, via=None):
    return server(case, *more, linked="_linked", via=via)


def found(env):
    """Where who is linked with the shim finds it."""
    env = cuda_env(env)
    return {**env, "LD_LIBRARY_PATH": ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), os.path.join(BUILD, "lib")]))}


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    return {**found(env), "FERMATA_SOCKET": "/nonexistent", **more}


def run(argv, env, *, otherwise=None):
    """otherwise: where the machine's driver does not do what the case is about (77), what it does."""
    r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE)
    if r.returncode == 77 and otherwise and os.environ.get("FERMATA_TEST_CUDA") == "real":
        raise Skip(otherwise)
    check(r.returncode == 0, f"{' '.join(argv)} ended with status {r.returncode}: {r.stdout}{r.stderr}")


def linked(stack):
    """And scheduled in its own process; however it gets at the driver."""
    for case in CASES:
        run(linked_server(case, "fixed-priority"), environment())
    for via in ("link", "proc"):
        run(linked_server("stops", "fixed-priority", via=via), environment())


def guarded(stack):
    """With the program's images rewritten, because it says so before it loads them."""
    cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    argv = linked_server("stops", "fixed-priority", IMAGE)

    def kept():
        return any(files for _, _, files in os.walk(cache))

    run(linked_server("binding off", "fixed-priority", IMAGE), environment(XDG_CACHE_HOME=cache, FERMATA_DISABLE="1"))
    check(not kept(), "an image was rewritten for who switched it off")
    run(argv, environment(XDG_CACHE_HOME=cache))
    check(kept(), "no image was rewritten")
    for argv[1] in "suspends", "suspended-far-ahead", "hinted", "graph-elsewhere", "captured-at-level-2":
        run(argv, environment(XDG_CACHE_HOME=cache))
    for argv[1] in "stops", "suspends":  # with an agent that does not sleep
        run(argv, environment(XDG_CACHE_HOME=cache, FERMATA_SPIN_US="2000"))


def many_first_launches(stack):
    if os.environ.get("FERMATA_TEST_CUDA") == "real":
        raise Skip("a first launch waits for the device there, which waits for the program")
    run(linked_server("binding many-first-launches", "fixed-priority", IMAGE), environment())


def captures(stack):
    """While another thread's launch, the first of its kind, waits for the device."""
    run(linked_server("captures-beside-a-launch", "fixed-priority", IMAGE),
        environment(FAKE_CUDA_NARROW="1", FAKE_CUDA_FIRST="wait"),
        otherwise="launches do not wait for the device here")


def guarded_too_late(stack):
    """Who has looked for the driver's functions already is told so, rather than left without."""
    cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    env = environment(XDG_CACHE_HOME=cache)
    for via in ("dlsym", "proc"):
        run(linked_server("binding too-late", via=via), env)
    run(linked_server("binding in-time", via="link"), env)
    run(linked_server("binding in-time", via="dlsym"), {**env, "FERMATA_GUARDIAN": "1"})


def preloaded(stack):
    """Built without any of it, as a server that may run without Fermata."""
    need_cuda_shim()
    for case in ("stops", "suspends", "binding binds-what-is-idle"):
        run(server(case, "fixed-priority"), environment(LD_PRELOAD=preload(SHIM)))
    run(server("stops"), environment(LD_PRELOAD=preload(SHIM), FERMATA_LOCAL="fixed-priority"))
    run(server("binding off"), environment(LD_PRELOAD=preload(SHIM), FERMATA_DISABLE="1"))


def as_who_runs_it_says(stack):
    """Which groups have a partition of their own, where the program leaves that open."""
    for said, case in ((None, "whole"), ("2:urg*", "apart"), ("8:other:urgent", "apart"), ("2:nobody", "together"),
                       ("2:*", "together"), ("urgent", "whole"), ("2", "whole"), ("0:urgent", "whole"),
                       ("9999:urgent", "whole"), ("1000:urgent", "whole")):
        run(linked_server(f"partition by-group-{case}", "fixed-priority"),
            environment(**({"FERMATA_PARTITION": said} if said else {})))


def as_fermata_run_says(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env(fermata.env)
    p = fermata.program(server("partition by-group-apart"), "--partition", "2:urgent")
    check(p.wait() == 0, "with a daemon and fermata run")


def no_partition(stack):
    """A driver from before green contexts."""
    need_cuda_shim()
    if os.environ.get("FERMATA_TEST_CUDA") == "real":
        raise Skip("the driver is there as it is")
    old = os.path.join(BUILD, "tests", "fakes", "old")
    run(server("partition no-partition"),
        environment(LD_PRELOAD=preload(SHIM), LD_LIBRARY_PATH=old, FERMATA_PARTITION="8:urgent"))


def absent(stack):
    run(server("binding absent"), environment())


def unscheduled(stack):
    """With nobody to schedule it a program suspends its streams all the same."""
    for case in SUSPENSIONS:
        run(linked_server(case), environment())


def world(stack, **more):
    need_cuda_shim()
    fermata = Fermata(stack, **more)
    fermata.env = cuda_env(fermata.env)
    return fermata


def by_run(stack):
    fermata = world(stack)
    for case in SCHEDULED:
        p = fermata.program(server(case))
        check(p.wait() == 0, f"{case} ended with status {p.p.returncode} under a daemon")


def strict(stack):
    fermata = world(stack, config="[security]\nstrict = yes\n")
    for case in ("stops", *SUSPENSIONS):
        p = fermata.program(server(case))
        check(p.wait() == 0, f"{case} ended with status {p.p.returncode} under a strict daemon")


def seen_from_outside(stack):
    """Two groups of one process, by their names; an operator's word counts for one of them alone."""
    fermata = world(stack)
    p = Program(linked_server("stays"), env=found(fermata.env))
    stack.callback(p.close)
    p.line("ready")

    def groups():
        return {g["name"]: g for g in fermata.ps()["groups"] if any(q["pid"] == p.pid for q in g["queues"])}

    eventually("the daemon knows both", lambda: groups().keys() == {"urgent", "batch"})
    eventually("it knows their priorities", lambda: [groups()[g]["hints"]["priority"] for g in ("urgent", "batch")] == [64, -64])
    check(all(len(g["queues"]) == 1 for g in groups().values()), f"{groups()}")
    fermata.cli("hint", "batch", "priority=3")
    eventually("one was changed", lambda: groups()["batch"]["hints"]["priority"] == 3)
    check(groups()["urgent"]["hints"]["priority"] == 64, "the other was changed, too")
    p.tell("end")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")


if __name__ == "__main__":
    main(linked, guarded, many_first_launches, captures, guarded_too_late, preloaded, as_who_runs_it_says, as_fermata_run_says,
         no_partition, absent, unscheduled, by_run, strict, seen_from_outside)
