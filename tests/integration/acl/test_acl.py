#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""AscendCL programs under Fermata, over the fake library: they see what they see without it, whichever way they get at
its functions; urgent ones go before others; contexts, streams that end by force, captures, threads, forks and exits."""
import os
import random
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, SANITIZE, Fermata, Worker, check, eventually, halt, main, need_cuda_shim, preload, program, unsanitized
from acl_sets import CASES, ENDS, WAYS, acl_env

SHIMS = [os.path.join(BUILD, "lib", f"libfermata-{api}.so") for api in ("cuda", "hip", "acl")]
OLD = {"FAKE_ACL_OLD": "1"}


def world(stack, start=True, **more):
    need_cuda_shim()  # the same conditions
    fermata = Fermata(stack, start=start)
    # A child leaves alone what is its parent's; a process that exits leaves what it has.
    leaves = f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"
    fermata.env = acl_env({**fermata.env, "ASAN_OPTIONS": leaves, **more})
    return fermata


def native(argv, **more):
    env = acl_env({**os.environ, "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0", **more})
    run = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    check(run.returncode == 0, f"{argv} without Fermata: {run.stderr}")
    return run.stdout.splitlines()


def same(p, want, text):
    check(p.wait() == 0, f"{text}: status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
    check(got == want, f"differs, {text}:\n{differ}")


def sets(*way, seconds="0"):
    return [[program(name), *way, seconds, *cases] for name, cases in CASES.items()]


NATIVE = {name: native([program(name), "0", *cases]) for name, cases in CASES.items()}
ANSWERS = native([program("acl_runtime")])


def run_sets(fermata, text, *options, way=(), seconds="0"):
    for argv in sets(*way, seconds=seconds):
        same(fermata.program(argv, *options), NATIVE[os.path.basename(argv[0])], f"{argv[0]} {way} {text}")


def right(p, text):
    check(p.wait() == 0, f"{text}: status {p.p.returncode}")
    p.reader.join()
    check("right" in p.lines, f"{text}: {p.lines}")


def as_cudas(stack):
    """The sets note the same over the fake CUDA driver: it is the order of commands that both have."""
    for name, cases in CASES.items():
        cuda = {**os.environ, "LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "fakes")}
        run = subprocess.run([program(name.replace("acl_", "cuda_")), "0", *cases], env=cuda, capture_output=True,
                             text=True, timeout=120)
        check(run.stdout.splitlines() == NATIVE[name], f"{name}: CUDA's are {run.stdout}{run.stderr}")


def by_each_way(stack):
    """The same answers; what was launched was governed, and nothing went past."""
    fermata = world(stack)
    governed = 0
    for way in WAYS:
        same(fermata.program([program("acl_runtime"), *way]), ANSWERS, f"acl_runtime {way}")
        run_sets(fermata, "", way=way)
        governed = eventually(f"{way}: governed", lambda: (n := fermata.stats()["governed"]) > governed + 2000 and n)
    check(fermata.stats()["ungoverned"] == 0, "some went past the shim")


def of_an_old_library(stack):
    """Without default streams by name, flags of streams, and captures."""
    fermata = world(stack, **OLD)
    cases = CASES["acl_order"]
    want = native([program("acl_order"), "0", *cases], **OLD)
    same(fermata.program([program("acl_order"), "0", *cases]), want, "an old library")
    eventually("governed", lambda: fermata.stats()["governed"] > 500)
    right(fermata.program([program("acl_ends"), "errors"]), "errors of an old library")


def level(stack):
    """Streams, and threads that make calls without one, have level 1."""
    fermata = world(stack)
    w = fermata.program([program("acl_worker"), "500"], cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    check({q["level"] for q in fermata.group(w.pid)["queues"]} == {1}, fermata.group(w.pid))
    check("Fake Ascend 0000:81:00.0" in str(fermata.ps()), fermata.ps())
    w.advances()
    w.finish()


def urgent_first(stack):
    fermata = world(stack)
    low = fermata.program([program("acl_worker"), "500"], "--priority", "0", cls=Worker)
    low.line("ready")
    low.advances()
    urgent = fermata.program([program("acl_worker"), "500"], "--priority", "5", cls=Worker)
    urgent.line("ready")
    urgent.advances()
    low.stands()
    urgent.advances()
    urgent.finish()
    low.advances()
    low.finish()


def suspended(stack):
    """Whenever they are suspended, and however often."""
    for env in ({}, {"FAKE_CUDA_NARROW": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "2"}):
        fermata = world(stack, **env)
        programs = [fermata.program(argv) for argv in sets(seconds="1")]
        programs += [fermata.program([program("acl_runtime"), *way]) for way in WAYS]
        n = fermata.suspend_at_random(random.Random(7), programs)
        check(n > 0, "nobody was suspended")
        for p, want in zip(programs, [*NATIVE.values(), ANSWERS, ANSWERS]):
            same(p, want, f"{p.argv} {env} suspended {n} times")


def ends(stack):
    fermata = world(stack)
    for how in ENDS:
        p = fermata.program([program("acl_ends"), how], cls=Worker)
        if how == "cancel":
            p.line("ready")
            p.tell("")
        right(p, how)
    eventually("all have left", lambda: not fermata.stats()["clients"])


def cancelled_while_held(stack):
    """Threads that are held back can be cancelled."""
    fermata = world(stack)
    p = fermata.program([program("acl_ends"), "cancel"], cls=Worker)
    p.line("ready")
    fermata.knows(p.pid)
    fermata.cli("suspend", str(p.pid))
    p.tell("")
    fermata.cli("resume", str(p.pid))
    right(p, "cancelled while held")


def running(fermata):
    w = fermata.program([program("acl_worker"), "500"], cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def daemon_dies(stack):
    """Killed while the program is stopped: it goes on, and is known to the next daemon."""
    fermata = world(stack)
    w = running(fermata)
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.kill()
    w.advances()
    fermata.start()
    fermata.knows(w.pid)
    w.advances()
    w.finish()


def daemon_hangs(stack):
    """It stands, and the program goes on as it was told last; one that comes meanwhile does not wait for it."""
    fermata = world(stack)
    w = running(fermata)
    halt(fermata.daemon)
    try:
        w.advances()
        run_sets(fermata, "beside a daemon that hangs")
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)
    w.advances()
    w.finish()


def without(stack):
    """No daemon; switched off; in local mode."""
    fermata = world(stack, start=False)
    for more in ({}, {"FERMATA_DISABLE": "1"}):
        run = subprocess.run([program("acl_runtime")], env={**fermata.env, **more, "LD_PRELOAD": preload(SHIMS[-1])},
                             capture_output=True, text=True, timeout=120)
        check(run.stdout.splitlines() == ANSWERS and not run.returncode, f"{more}: {run.stdout} {run.stderr}")
        check(SANITIZE or not run.stderr, run.stderr)
    run_sets(fermata, "in local mode", "--local", "fixed-priority")


def look_ups(stack):
    """What is found, and what is not, is the same. For the calls of its table it is the shim's; of an operator that two
    libraries have it is the shim's for the one that was asked for first."""
    for name in ("acl_lookups", "acl_lookups_linked"):
        want = native([program(name)])
        for shims in (SHIMS[2:], SHIMS, SHIMS[::-1]):
            run = subprocess.run([program(name)], env={**acl_env(os.environ), "LD_PRELOAD": preload(*shims)},
                                 capture_output=True, text=True, timeout=120)
            check(run.stdout.splitlines() == want, f"{name} {shims}:\n{run.stdout}{run.stderr}")
            for line in run.stderr.splitlines():
                *way, fn, whose = line.rsplit(maxsplit=2)
                second = way == ["libcust_opapi.so"] and fn == "aclnnInplaceZero"
                ours = fn != "aclrtGetSocName" and not fn.endswith("GetWorkspaceSize") and not second
                check(whose == ("ours" if ours else "own"), f"{name} {shims}: {line}")


def beside_others(stack):
    """With the shims for CUDA and HIP in front of it, or behind."""
    fermata = world(stack, start=False)
    for order in (SHIMS, SHIMS[::-1]):
        env = {**fermata.env, "LD_PRELOAD": preload(*order), "FERMATA_LOCAL": "fixed-priority"}
        for way in WAYS:
            run = subprocess.run([program("acl_runtime"), *way], env=env, capture_output=True, text=True, timeout=120)
            check(run.stdout.splitlines() == ANSWERS, f"{order} {way}: {run.stdout} {run.stderr}")


def on_request(stack):
    """Also where there is AscendCL, a program is given the shim only if FERMATA_ACL asks for it."""
    fermata = world(stack, start=False)
    for asked, there in (("", False), ("0", False), ("1", True)):
        env = {**fermata.env, "FERMATA_ACL": asked}
        env.pop("FM_TEST_SHIM", None)
        run = subprocess.run(fermata.run_argv(["env"]), env=env, capture_output=True, text=True, timeout=60)
        check(("libfermata-acl.so" in run.stdout) == (there and not SANITIZE), f"asked {asked}: {run.stdout}")


def doctor(stack):
    fermata = world(stack)
    found = fermata.cli("doctor", check_status=False).stdout
    check("Fake Ascend 0000:81:00.0" in found and "FERMATA_ACL=1" in found, found)


main(as_cudas, by_each_way, of_an_old_library, level, urgent_first, *unsanitized(suspended), ends, cancelled_while_held,
     daemon_dies, daemon_hangs, without, look_ups, beside_others, on_request, doctor)
