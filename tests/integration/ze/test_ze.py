#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Level Zero programs under Fermata, on a driver of our own (tests/fakes/ze) behind Debian's loader: they see what they see without
it, whichever way they get at the loader's functions, at level 1 and 2; urgent ones go before others; and what goes wrong."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import (ALL_SANITIZED, BUILD, FERMATA, LONG, SANITIZE, Fermata, Skip, Worker, check, eventually, halt, main, preload, program,
                     runtime, shim_env, unsanitized)

DRIVER = os.path.join(BUILD, "tests", "fakes", "libfake_ze.so")
SHIM = os.path.join(BUILD, "lib", "libfermata-ze.so")
# What a driver may do, and CI has it do: it is late to tell, its queues are short, its calls slow.
HARD = {"FAKE_ZE_LATE_US": "3000", "FAKE_ZE_DEPTH": "64", "FAKE_ZE_SLOW_US": "30"}
KINDS = ("queue", "immediate", "sync", "syncqueue")


def ze_env(env):
    return shim_env({"FERMATA_LEVEL_ZERO": "1", "FERMATA_LEVEL": "2", **env, "ZE_ENABLE_ALT_DRIVERS": DRIVER})


def world(stack, start=True, **more):
    if not os.path.exists(SHIM) or not os.path.exists(program("ze_order")):
        raise Skip("the shim for Level Zero, or its tests, are not built (Debian: libze-dev)")
    if SANITIZE and not runtime():
        raise Skip("only the address sanitizer's library can come before what is preloaded")
    fermata = Fermata(stack, start=start)
    fermata.env = ze_env({**fermata.env, **more})
    return fermata


def native(argv, **more):
    run = subprocess.run(argv, env=ze_env({**os.environ, **more}), capture_output=True, text=True, timeout=120)
    check(run.returncode == 0, f"{argv} without Fermata: {run.stderr}")
    return run.stdout.splitlines()


def same(p, want, text):
    check(p.wait() == 0, f"{text}: status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    check(got == want, f"differs, {text}:\n" + "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w))


def worker(fermata, *options, how="queue", us=500):
    w = fermata.program([program("ze_worker"), str(us), how], *options, cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def level(fermata, w):
    return {q["level"] for q in fermata.group(w.pid)["queues"]}


WAYS = [(way, options) for way in ([], ["--dlsym"]) for options in ([], ["--level", "1"])]


def conforms(stack):
    """The same answers by each way to the functions, at each level, and on a driver that is hard."""
    fermata = world(stack)
    want, governed = native([program("ze_order")]), 0
    check(len(want) == 16, want)
    for more in ({}, HARD):
        fermata.env.update(more)
        for way, options in WAYS if LONG else WAYS[::3]:
            same(fermata.program([program("ze_order"), *way], *options), want, f"{way} {options} {more}")
            governed = eventually("governed", lambda: (n := fermata.stats()["governed"]) > governed + 1000 and n)
    check(not fermata.stats()["ungoverned"], fermata.cli("ps", "--calls").stdout)


def answers(stack):
    """They are the same where engines are shared, where there are no events for more gates or for any, and where a queue whose mode
    is left to the driver would be a synchronous one."""
    fermata = world(stack)
    want = native([program("ze_order")])
    for more in ({"FAKE_ZE_ENGINES": "2"}, {"FAKE_ZE_FEW_EVENTS": "20"}, {"FAKE_ZE_POOLS": "1"}, {"FAKE_ZE_SYNC": "1"}):
        if SANITIZE and not ALL_SANITIZED and "FAKE_ZE_FEW_EVENTS" not in more:
            continue  # each takes a sanitized process ten seconds
        fermata.env.update(more)
        same(fermata.program([program("ze_order")]), want, f"{more}")
        for name in more:
            del fermata.env[name]


def levels(stack):
    """A queue has level 2 where gates hold, else 1."""
    for how, options, more, want in (
            ("queue", [], {}, 2), ("immediate", [], {}, 2), ("sync", [], {}, 1), ("syncqueue", [], {}, 1), ("queue", ["--level", "1"], {}, 1),
            ("defaultqueue", [], {}, 2), ("defaultqueue", [], {"FAKE_ZE_SYNC": "1"}, 2), ("defaultqueue", [], {"FAKE_ZE_ONLY_SYNC": "1"}, 1),
            ("queue", [], {"FAKE_ZE_LEAKY": "1"}, 1), ("immediate", [], {"FAKE_ZE_LEAKY": "1"}, 1), ("queue", [], {"FAKE_ZE_POOLS": "1"}, 1),
            ("queue", [], {"FAKE_ZE_ENGINES": "1"}, 1), ("queue", [], HARD, 2)):
        fermata = world(stack, **more)
        w = worker(fermata, *options, how=how)
        check(level(fermata, w) == {want}, f"{how} {options} {more}: {level(fermata, w)}")
        w.advances()
        w.finish()


def device_names(stack):
    fermata = world(stack)
    # A GPU has the UUID that OpenCL and Vulkan give it. All NPUs have one UUID, and an old driver's is the device's number.
    whole, old = "8680d50b-0300-0000-0300-000000000000", "86800000-d50b-0000-0000-000000000000"
    for more, want in (({}, "GPU-" + whole), ({"FAKE_ZE_PART": "1"}, "GPU-" + whole), ({"FAKE_ZE_NPU": "1"}, "Fake Level Zero NPU 0000:03:00.0"),
                       ({"FAKE_ZE_OLD_UUID": "1"}, "Fake Level Zero GPU 0000:03:00.0"),
                       ({"FAKE_ZE_OLD_UUID": "1", "FAKE_ZE_NO_PCI": "1"}, "Fake Level Zero GPU " + old)):
        fermata.env.update(more)
        w = worker(fermata)
        name = {q["device"] for q in fermata.group(w.pid)["queues"]}
        check(name == {want}, f"{name}")
        w.finish()
        for setting in more:
            del fermata.env[setting]


def urgent_first(stack, *options, how="queue"):
    fermata = world(stack)
    low = worker(fermata, "--priority", "0", *options, how=how)
    low.advances()
    urgent = worker(fermata, "--priority", "5", *options, how=how)
    urgent.advances()
    low.stands()
    urgent.advances()
    fermata.preempts(urgent, low)
    urgent.finish()
    low.advances()
    low.finish()


def urgent_first_at_level_2(stack):
    urgent_first(stack)
    urgent_first(stack, how="immediate")


def urgent_first_at_level_1(stack):
    urgent_first(stack, "--level", "1")
    urgent_first(stack, how="sync")


def suspended(stack):
    """It stops, in each kind of queue, goes on, and ends right."""
    fermata = world(stack, **HARD)
    for how in KINDS:
        w = worker(fermata, how=how)
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.cli("resume", str(w.pid))
        w.advances()
        w.finish()


def at_random(stack):
    """Whenever they are suspended, and however often."""
    want = native([program("ze_order")])
    worlds = (([], HARD), (["--level", "1"], {}), ([], {}), ([], {"FAKE_ZE_ENGINES": "2"}))
    for options, more in worlds if LONG else worlds[:2]:
        fermata = world(stack, **more)
        programs = [fermata.program([program("ze_order"), "1"], *options) for _ in range(2)]
        n = fermata.suspend_at_random(random.Random(35), programs)
        check(n > 0, "nobody was suspended")
        for p in programs:
            same(p, want, f"{options} {more} suspended {n} times")


def held_back(stack, how, *options, **more):
    """A program of ze_ends that is told to go on while it is suspended."""
    fermata = world(stack, **more)
    p = fermata.program([program("ze_ends"), how], *options, cls=Worker)
    p.line("ready")
    fermata.knows(p.pid)
    fermata.cli("suspend", str(p.pid))
    p.tell("")
    return fermata, p


def right(p, text):
    check(p.wait() == 0, f"{text}: status {p.p.returncode}")
    p.reader.join()
    check("right" in p.lines, f"{text}: {p.lines}")


def lists_behind_gates(stack):
    """A list that stands behind a closed gate is destroyed, or reset, by a program that thinks it done: the call waits."""
    for how in ("destroy", "reset"):
        fermata, p = held_back(stack, how)
        eventually("the list was executed", lambda: [q for q in fermata.group(p.pid)["queues"] if q["submitted"] > q["done"]])
        try:
            p.line("right", seconds=0.5)
        except AssertionError:
            check(p.p.poll() is None, f"{how}: it ended with status {p.p.returncode}")
        else:
            raise AssertionError(f"{how}: its list has gone while it was held")
        fermata.cli("resume", str(p.pid))
        right(p, how)


def full(stack):
    """More than the queue has room for, behind a closed gate: it goes on when that opens."""
    for options in ([], ["--level", "1"]):
        fermata, p = held_back(stack, "deep", *options, FAKE_ZE_DEPTH="64")
        eventually("it has begun", lambda: any(q["submitted"] for q in fermata.group(p.pid)["queues"]))
        fermata.cli("resume", str(p.pid))
        right(p, f"deep {options}")


def timeouts(stack):
    """Waits with a timeout are over when that time has come, also while the program is stopped, and say so."""
    fermata, p = held_back(stack, "timeouts")
    p.line("the event is late")
    fermata.cli("resume", str(p.pid))
    right(p, "timeouts")
    check(int(next(line for line in p.lines if line.startswith("early")).split()[1]) > 0, p.lines)


def ends(stack):
    # A child leaves alone what is its parent's; a process that exits leaves what it has.
    fermata = world(stack, ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0")
    for how in ("exit", "fork", "exec", "late", "cancel"):
        for options in ([], ["--level", "1"]):
            right(fermata.program([program("ze_ends"), how], *options), f"{how} {options}")
    eventually("all have left", lambda: not fermata.stats()["clients"])


def contexts_end(stack):
    """Nothing of ours is used after the context that it was made in, although what is under way is heard of late."""
    fermata = world(stack, FAKE_ZE_LATE_US="30000", ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0")
    for options in ([], ["--level", "1"]):
        right(fermata.program([program("ze_ends"), "contexts"], *options), f"{options}")
    check(fermata.stats()["governed"], "nothing was scheduled")


def device_lost(stack):
    fermata = world(stack, FAKE_ZE_LOST="300", ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0")
    for options in ([], ["--level", "1"]):
        right(fermata.program([program("ze_ends"), "lost"], *options), f"lost {options}")


def daemon_dies(stack):
    """Killed while the program is stopped: it goes on, and is known to the next daemon."""
    fermata = world(stack)
    for how in KINDS[:3]:
        w = worker(fermata, how=how)
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
    w = worker(fermata)
    halt(fermata.daemon)
    try:
        w.advances()
        same(fermata.program([program("ze_order")]), native([program("ze_order")]), "beside a daemon that hangs")
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)
    w.advances()
    w.finish()


def without(stack):
    """No daemon; switched off; in local mode."""
    want = native([program("ze_order")])
    fermata = world(stack, start=False)
    for more in ({}, {"FERMATA_DISABLE": "1"}):
        env = {**fermata.env, **more, "LD_PRELOAD": preload(SHIM)}
        run = subprocess.run([program("ze_order")], env=env, capture_output=True, text=True, timeout=120)
        check(run.stdout.splitlines() == want and not run.returncode, f"{more}: {run.stdout} {run.stderr}")
        check(SANITIZE or not run.stderr, run.stderr)
    same(fermata.program([program("ze_order")], "--local", "fixed-priority"), want, "in local mode")


def beside_others(stack):
    """With the shims for CUDA and HIP, each of which answers dlsym: ours is in front of them, or behind."""
    fermata = world(stack, start=False)
    shims = [os.path.join(BUILD, "lib", f"libfermata-{api}.so") for api in ("cuda", "hip", "ze")]
    if not all(os.path.exists(shim) for shim in shims):
        raise Skip("the shims for CUDA and HIP are not built")
    want = native([program("ze_order")])
    for order in (shims, shims[::-1]):
        env = {**fermata.env, "LD_PRELOAD": preload(*order), "FERMATA_LOCAL": "fixed-priority"}
        for way in ([], ["--dlsym"]):
            run = subprocess.run([program("ze_order"), *way], env=env, capture_output=True, text=True, timeout=120)
            check(run.stdout.splitlines() == want and not run.returncode, f"{order} {way}: {run.stdout} {run.stderr}")


def on_request(stack):
    """A program is given the shim only if FERMATA_LEVEL_ZERO asks for it."""
    fermata = world(stack, start=False)
    for asked, there in (("", False), ("0", False), ("1", True)):
        env = {**fermata.env, "FERMATA_LEVEL_ZERO": asked}
        env.pop("FM_TEST_SHIM", None)
        run = subprocess.run(fermata.run_argv(["env"]), env=env, capture_output=True, text=True, timeout=60)
        check(("libfermata-ze.so" in run.stdout) == (there and not SANITIZE), f"asked {asked}: {run.stdout}")


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
        check(any("FERMATA_LEVEL_ZERO=1" in c["text"] for c in report["checks"]), report["checks"])
        return next(d for d in report["devices"] if d["name"].startswith("Fake Level Zero GPU"))

    def used():
        w = worker(fermata)
        levels = level(fermata, w)
        w.finish()
        return levels

    d = found()
    check(d["levels"] == [1] and d["unproven"] == [2] and "doctor --prove" in d["text"], d)
    check(used() == {1}, "level 2 unproven")
    d = found("--prove=1", **{"FAKE_ZE_LEAKY": "1"})
    check(d["levels"] == [1] and "unproven" not in d and "held back" in d["text"], d)
    check(used() == {1}, "level 2 where gates do not hold")
    d = found("--prove=1")
    check(d["levels"] == [1, 2] and "unproven" not in d and "proven on this device" in d["text"], d)
    check(used() == {2}, "not level 2, though proven")
    check(found()["levels"] == [1, 2], "forgotten")
    shutil.rmtree(os.path.join(cache, "fermata"))
    check(used() == {1}, "level 2 after the proof has gone")
    fermata.env["FERMATA_LEVEL"] = "2"
    check(used() == {2}, "not level 2, though asked for")


main(conforms, answers, levels, device_names, urgent_first_at_level_2, urgent_first_at_level_1, suspended,
     *unsanitized(at_random), lists_behind_gates, full, timeouts, ends, contexts_end, device_lost, daemon_dies, daemon_hangs, without, beside_others, on_request, doctor)
