#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HIP programs under Fermata, on the fake runtime: they see what they see without it, whichever way they get at the
runtime's functions, at level 1 and 2; urgent ones go before others; captures, threads, forks and exits."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, SANITIZE, Fermata, Skip, Worker, check, eventually, halt, main, need_cuda_shim, preload, program, unsanitized
from hip_sets import ANSWERS, CASES, WAYS, hip_env

WAYS = WAYS[::5] if SANITIZE else WAYS
SHIMS = [os.path.join(BUILD, "lib", f"libfermata-{api}.so") for api in ("cuda", "hip")]
# Why a stream may be of level 1, and what its programs are started with.
LEVEL_1 = {
    "asked for": (["--level", "1"], {}),
    "no waits for values": ([], {"FAKE_HIP_NO_WAIT_VALUE": "1"}),
    "waits that do not hold": ([], {"FAKE_HIP_LEAKY_WAIT": "1"}),
    "one queue for all streams": ([], {"FAKE_CUDA_NARROW": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
    "calls that wait with a lock": ([], {"FAKE_HIP_OLD": "1"}),
}


def world(stack, start=True, **more):
    need_cuda_shim()  # the same conditions
    fermata = Fermata(stack, start=start)
    fermata.env = hip_env({**fermata.env, **more})
    return fermata


def native(argv, **more):
    run = subprocess.run(argv, env=hip_env({**os.environ, **more}), capture_output=True, text=True, timeout=120)
    check(run.returncode == 0, f"{argv} without Fermata: {run.stderr}")
    return run.stdout.splitlines()


def same(p, want, text):
    check(p.wait() == 0, f"{text}: status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
    check(got == want, f"differs, {text}:\n{differ}")


def as_conform(way):
    return [option.replace("--spt", "--ptds") for option in way]


def sets(*way, seconds="0"):
    return [[program(name), *as_conform(way), seconds, *cases] for name, cases in CASES.items()]


NATIVE = {name: native([program(name), "0", *cases]) for name, cases in CASES.items()}


def run_sets(fermata, text, *options, way=(), seconds="0"):
    for argv in sets(*way, seconds=seconds):
        same(fermata.program(argv, *options), NATIVE[os.path.basename(argv[0])], f"{argv[0]} {way} {text}")


def by_each_way(stack):
    """The same answers; what was launched was governed."""
    fermata = world(stack)
    governed = 0
    for way in WAYS:
        same(fermata.program([program("hip_runtime"), *way]), ANSWERS["--spt" in way], f"hip_runtime {way}")
        run_sets(fermata, "", way=way)
        governed = eventually(f"{way}: governed", lambda: (n := fermata.stats()["governed"]) > governed + 3000 and n)


def at_level_1(stack):
    run_sets(world(stack), "at level 1", "--level", "1")


def levels(stack):
    """A stream has level 2 where gates hold, else 1."""

    def level(options, env):
        fermata = world(stack, **env)
        w = fermata.program([program("hip_worker"), "500"], *options, cls=Worker)
        w.line("ready")
        fermata.knows(w.pid)
        found = {q["level"] for q in fermata.group(w.pid)["queues"]}
        w.advances()
        w.finish()
        return found

    check(level([], {}) == {2}, "no level 2")
    for why, (options, env) in LEVEL_1.items():
        check(level(options, env) == {1}, f"not level 1: {why}")


def urgent_first(stack, *options):
    fermata = world(stack)
    low = fermata.program([program("hip_worker"), "500"], "--priority", "0", *options, cls=Worker)
    low.line("ready")
    low.advances()
    urgent = fermata.program([program("hip_worker"), "500"], "--priority", "5", *options, cls=Worker)
    urgent.line("ready")
    urgent.advances()
    low.stands()
    urgent.advances()
    urgent.finish()
    low.advances()

    def preempted():
        """The low one may have had nothing under way just when the urgent one came: so until it had."""
        if not fermata.preemptions():
            another = fermata.program([program("hip_worker"), "500"], "--priority", "5", *options, cls=Worker)
            another.line("ready")
            another.finish()
        return fermata.preemptions()

    eventually("somebody is preempted", preempted)
    low.finish()


def urgent_first_at_level_2(stack):
    urgent_first(stack)


def urgent_first_at_level_1(stack):
    urgent_first(stack, "--level", "1")


def suspended(stack):
    """Whenever they are suspended, and however often; also with fewer queues than streams, where one stream that stands
    keeps back others, and where whoever waits for the device holds up other calls."""
    few = {"FAKE_CUDA_NARROW": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "2"}
    for options, env in (([], {}), (["--level", "1"], {}), ([], few), ([], {**few, "FAKE_HIP_OLD": "1"}),
                         ([], {"FAKE_CUDA_NARROW": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "4"})):
        fermata = world(stack, **env)
        programs = [fermata.program(argv, *options) for argv in sets(seconds="1")]
        n = fermata.suspend_at_random(random.Random(7), programs)
        check(n > 0, "nobody was suspended")
        for p, name in zip(programs, CASES):
            same(p, NATIVE[name], f"{name} {options} {env} suspended {n} times")


def full(stack):
    """A stream has room for so many commands; who puts more there behind a closed gate goes on when that opens."""
    fermata = world(stack, FAKE_CUDA_NARROW="1")
    for options in ([], ["--level", "1"]):
        p = fermata.program([program("hip_ends"), "deep"], *options, cls=Worker)
        p.line("ready")
        fermata.knows(p.pid)

        def submitted():
            return sum(q["submitted"] for q in fermata.group(p.pid)["queues"])

        fermata.cli("suspend", str(p.pid))
        before = submitted()
        p.tell("")
        last = eventually("it has begun", lambda: (n := submitted()) > before and n)
        time.sleep(0.3)
        while (n := submitted()) != last:
            last = n
            time.sleep(0.3)
        fermata.cli("resume", str(p.pid))
        check(p.wait() == 0, f"{options}: status {p.p.returncode}")


def long_graphs(stack):
    """A graph has no gates, so long ones are counted by name."""
    fermata = world(stack)
    p = fermata.program([program("hip_ends"), "graph"])
    check(p.wait() == 0, f"status {p.p.returncode}")
    stats = eventually("long graphs are counted", lambda: (s := fermata.stats())["undivided"] and s)
    check(stats["undivided"] <= 20, f"{stats['undivided']} of 20 were counted")


def shared(stack):
    """Beside another one, in turns."""
    fermata = world(stack)
    w = fermata.program([program("hip_worker"), "200"], cls=Worker)
    w.line("ready")
    run_sets(fermata, "beside another", seconds="0.5")
    w.finish()


def the_last_call(stack):
    """Of a runtime whose last error is what the last call returned: it is none of ours that was not ready."""
    cases = "context synchronize", "polling", "errors"
    fermata = world(stack, FAKE_HIP_LAST_CALL="1", FAKE_HIP_SLOW_EVENTS="1")
    w = fermata.program([program("hip_worker"), "200"], cls=Worker)
    w.line("ready")
    same(fermata.program([program("hip_order"), "2", *cases]), native([program("hip_order"), "0", *cases]), "the last call's")
    w.finish()


def ends(stack):
    # A child leaves alone what is its parent's.
    fermata = world(stack, ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0")
    for how in ("exit", "threads", "fork", "exec"):
        for options in ([], ["--level", "1"]):
            p = fermata.program([program("hip_ends"), how], *options)
            check(p.wait() == 0, f"{how} {options}: status {p.p.returncode}")
            p.reader.join()
            check("right" in p.lines, f"{how} {options}: {p.lines}")
    eventually("all have left", lambda: not fermata.stats()["clients"])


def reset_while_stopped(stack):
    """A reset of the device waits for the work that stands behind closed gates, and takes the words along that gates wait for; queues that
    come later have others."""
    fermata = world(stack, ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0")
    for options in ([], ["--level", "1"]):
        p = fermata.program([program("hip_ends"), "reset"], *options)
        p.line("ready")
        fermata.knows(p.pid)
        fermata.cli("suspend", str(p.pid))
        eventually("its gates are closed", lambda: {q["gate"] for q in fermata.group(p.pid)["queues"]} == {"closed"})

        def submitted():
            return sum(q["submitted"] for q in fermata.group(p.pid)["queues"])

        before = submitted()
        p.tell("")
        eventually("it has work behind them", lambda: submitted() > before)
        fermata.cli("resume", str(p.pid))
        p.line("right")
        check(p.wait() == 0, f"{options}: status {p.p.returncode}")


def look_ups(stack):
    """What is found, and what is not, is the same; whose it is is the shim's for the calls of its table."""
    for name in ("hip_lookups", "hip_lookups_linked"):
        want = native([program(name)])
        for shims in (SHIMS[1:], SHIMS, SHIMS[::-1]):
            preload = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), *shims]))
            run = subprocess.run([program(name)], env=hip_env({**os.environ, "LD_PRELOAD": preload}),
                                 capture_output=True, text=True, timeout=120)
            check(run.stdout.splitlines() == want, f"{name} {shims}:\n{run.stdout}")
            for line in run.stderr.splitlines():
                *way, fn, whose = line.replace("asked ", "asked for ").rsplit(maxsplit=2)
                governed = "hipStreamGetFlags" not in line and "version" not in line
                check(whose == ("ours" if governed else "own"), f"{name} {shims}: {line}")


def beside_cuda(stack):
    """With the shim for CUDA in front of it, or behind."""
    fermata = world(stack, FERMATA_CUDA="1")
    for way in WAYS:
        same(fermata.program([program("hip_runtime"), *way]), ANSWERS["--spt" in way], f"hip_runtime {way}")
    eventually("governed", lambda: fermata.stats()["governed"] > 100)


def running(fermata, *options):
    w = fermata.program([program("hip_worker"), "500"], *options, cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def daemon_dies(stack):
    """Killed while the program is stopped: it goes on, and is known to the next daemon."""
    for options in ([], ["--level", "1"]):
        fermata = world(stack)
        w = running(fermata, *options)
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
        same(fermata.program([program("hip_runtime")]), ANSWERS[False], "beside a daemon that hangs")
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)
    w.advances()
    w.finish()


def without(stack):
    """No daemon; switched off; in local mode."""
    fermata = world(stack, start=False)
    for more in ({}, {"FERMATA_DISABLE": "1"}):
        run = subprocess.run([program("hip_runtime")], env={**fermata.env, **more, "LD_PRELOAD": preload(SHIMS[1])},
                             capture_output=True, text=True, timeout=120)
        check(run.stdout.splitlines() == ANSWERS[False] and not run.returncode, f"{more}: {run.stdout} {run.stderr}")
        check(SANITIZE or not run.stderr, run.stderr)
    run_sets(fermata, "in local mode", "--local", "fixed-priority")


def on_request(stack):
    """Also where there is a HIP runtime, a program is given the shim only if FERMATA_HIP asks for it."""
    fermata = world(stack, start=False)
    for asked, there in (("", False), ("0", False), ("1", True)):
        env = {**fermata.env, "FERMATA_HIP": asked}
        env.pop("FM_TEST_SHIM", None)
        run = subprocess.run(fermata.run_argv(["env"]), env=env, capture_output=True, text=True, timeout=60)
        check(("libfermata-hip.so" in run.stdout) == (there and not SANITIZE), f"asked {asked}: {run.stdout}")


def preloads(stack):
    """A shim for each API, in front of what the user has preloaded; each can be left out, and none comes twice."""
    if SANITIZE:
        raise Skip("a sanitized build gives programs of others no shim")
    apis = {"FERMATA_CUDA": "cuda", "FERMATA_HIP": "hip", "FERMATA_LEVEL_ZERO": "ze"}
    users = os.path.join(BUILD, "tests", "fakes", "hip", "libamdhip64.so.6")
    fermata = world(stack, start=False)

    def given(argv, **env):
        run = subprocess.run(fermata.run_argv(argv), env={**fermata.env, **dict.fromkeys(apis, "1"), "LD_PRELOAD": users, **env},
                             capture_output=True, text=True, timeout=60)
        check(run.returncode == 0, run.stderr)
        *shims, last = next(line for line in run.stdout.splitlines() if line.startswith("LD_PRELOAD="))[11:].split(":")
        check(last == users, f"{argv} {env}: the user's own does not come last: {run.stdout}")
        return sorted(os.path.basename(shim) for shim in shims)

    def of(names):
        return sorted(f"libfermata-{name}.so" for name in names)

    check(given(["env"]) == of(apis.values()), "not each API has its shim")
    check(given(fermata.run_argv(["env"])) == of(apis.values()), "a run in a run")
    for out in apis:
        check(given(["env"], **{out: "0"}) == of(name for api, name in apis.items() if api != out), f"without {out}")


def doctor(stack):
    """A device is unproven, and its programs get level 1, until `doctor --prove` has let a gate stand there; or unless they ask for more."""
    fermata = world(stack)
    del fermata.env["FERMATA_LEVEL"]
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    fermata.env["XDG_CACHE_HOME"] = cache

    def found(*options, **more):
        env = {**fermata.env, **more}
        run = subprocess.run([FERMATA, "doctor", "--json", *options], env=env, capture_output=True, text=True, timeout=120, check=False)
        report = json.loads(run.stdout)
        check(any("FERMATA_HIP=1" in c["text"] for c in report["checks"]), report["checks"])
        return next(d for d in report["devices"] if d["name"].startswith("Fake HIP device"))

    def used():
        w = fermata.program([program("hip_worker"), "500"], cls=Worker)
        w.line("ready")
        fermata.knows(w.pid)
        levels = {q["level"] for q in fermata.group(w.pid)["queues"]}
        w.finish()
        return levels

    d = found()
    check(d["levels"] == [1] and d["unproven"] == [2] and "doctor --prove" in d["text"], d)
    check(used() == {1}, "level 2 unproven")
    d = found("--prove=1", **{"FAKE_HIP_LEAKY_WAIT": "1"})
    check(d["levels"] == [1] and "unproven" not in d and "held back" in d["text"], d)
    check(used() == {1}, "level 2 where gates do not hold")
    d = found("--prove=1", XDG_CACHE_HOME="/dev/null")
    check(d["levels"] == [1] and d["unproven"] == [2] and d["text"].endswith("unproven: Not a directory"), d)
    d = found("--prove=1")
    check(d["levels"] == [1, 2] and "unproven" not in d and "proven on this device" in d["text"], d)
    check(used() == {2}, "not level 2, though proven")
    check(found()["levels"] == [1, 2], "forgotten")
    shutil.rmtree(os.path.join(cache, "fermata"))
    check(used() == {1}, "level 2 after the proof has gone")
    fermata.env["FERMATA_LEVEL"] = "2"
    check(used() == {2}, "not level 2, though asked for")


main(by_each_way, at_level_1, levels, urgent_first_at_level_2, urgent_first_at_level_1, full, long_graphs, *unsanitized(suspended, shared),
     the_last_call, ends, reset_while_stopped, daemon_dies, daemon_hangs, without, look_ups, beside_cuda, on_request, preloads, doctor)
