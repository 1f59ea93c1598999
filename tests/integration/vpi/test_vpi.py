#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""VPI programs under Fermata, on a library of our own (tests/fakes/vpi): they see what they see without it, whichever way they get at
the library's functions; streams have level 1; urgent ones go before others; and what goes wrong."""
import os
import random
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, SANITIZE, Fermata, Skip, Worker, check, eventually, halt, main, preload, program, runtime, shim_env, unsanitized

LIBRARY = os.path.join(BUILD, "tests", "fakes", "vpi")
SHIM = os.path.join(BUILD, "lib", "libfermata-vpi.so")
# What a library may do: streams come late past events, and hold few commands.
HARD = {"FAKE_VPI_LATE_US": "3000", "FAKE_VPI_DEPTH": "8"}
LEAKS = {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"}


def vpi_env(env):
    return shim_env({"FERMATA_VPI": "1", **env, **LEAKS, "LD_LIBRARY_PATH": LIBRARY})


def world(stack, start=True, **more):
    if not os.path.exists(SHIM) or not os.path.exists(program("vpi_order")):
        raise Skip("the shim for VPI, or its tests, are not built")
    if SANITIZE and not runtime():
        raise Skip("only the address sanitizer's library can come before what is preloaded")
    fermata = Fermata(stack, start=start)
    fermata.env = vpi_env({**fermata.env, **more})
    return fermata


def native(argv):
    run = subprocess.run(argv, env=vpi_env(os.environ), capture_output=True, text=True, timeout=120)
    check(run.returncode == 0, f"{argv} without Fermata: {run.stderr}")
    return run.stdout.splitlines()


def same(p, want, text):
    check(p.wait() == 0, f"{text}: status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    check(got == want, f"differs, {text}:\n" + "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w))


def worker(fermata, *options):
    fermata.env["FAKE_VPI_US"] = "500"
    w = fermata.program([program("vpi_worker")], *options, cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def conforms(stack):
    """The same answers by each way to the functions, and from a library that is hard. What was submitted was governed."""
    fermata = world(stack)
    want, governed = native([program("vpi_order")]), 0
    check(len(want) == 18, want)
    for more in ({}, HARD):
        fermata.env.update(more)
        for way in ([], ["--dlsym"]):
            same(fermata.program([program("vpi_order"), *way]), want, f"{way} {more}")
            governed = eventually("governed", lambda: (n := fermata.stats()["governed"]) > governed + 1000 and n)
    # Those that were given no stream.
    check(fermata.stats()["ungoverned"] == 4, fermata.cli("ps", "--calls").stdout)


def level_and_device(stack):
    """A stream has level 1, and all have one device."""
    fermata = world(stack)
    w = worker(fermata)
    queues = fermata.group(w.pid)["queues"]
    check([(q["level"], q["device"]) for q in queues] == [(1, "NVIDIA VPI")], queues)
    w.advances()
    w.finish()


def urgent_first(stack):
    fermata = world(stack)
    low = worker(fermata, "--priority", "0")
    low.advances()
    urgent = worker(fermata, "--priority", "5")
    urgent.advances()
    low.stands()
    urgent.advances()
    fermata.preempts(urgent, low)
    urgent.finish()
    low.advances()
    low.finish()


def suspended(stack):
    fermata = world(stack, **HARD)
    w = worker(fermata)
    for _ in range(3):
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.cli("resume", str(w.pid))
        w.advances()
    w.finish()


def at_random(stack):
    """Whenever they are suspended, and however often."""
    want = native([program("vpi_order")])
    for more in ({}, HARD):
        fermata = world(stack, **more)
        programs = [fermata.program([program("vpi_order"), "1"]) for _ in range(2)]
        n = fermata.suspend_at_random(random.Random(35), programs)
        check(n > 0, "nobody was suspended")
        for p in programs:
            same(p, want, f"{more} suspended {n} times")


def ends(stack):
    """A child leaves alone what is its parent's; a process that exits leaves what it has."""
    fermata = world(stack)
    for how in ("exit", "fork", "exec", "late", "cancel"):
        p = fermata.program([program("vpi_ends"), how])
        check(p.wait() == 0, f"{how}: status {p.p.returncode}")
        p.reader.join()
        check("right" in p.lines, f"{how}: {p.lines}")
    eventually("all have left", lambda: not fermata.stats()["clients"])


def daemon_dies(stack):
    """Killed while the program is stopped: it goes on, and is known to the next daemon."""
    fermata = world(stack)
    w = worker(fermata)
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
        same(fermata.program([program("vpi_order")]), native([program("vpi_order")]), "beside a daemon that hangs")
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)
    w.advances()
    w.finish()


def without(stack):
    """No daemon; switched off; in local mode."""
    want = native([program("vpi_order")])
    fermata = world(stack, start=False)
    for more in ({}, {"FERMATA_DISABLE": "1"}):
        env = {**fermata.env, **more, "LD_PRELOAD": preload(SHIM)}
        run = subprocess.run([program("vpi_order")], env=env, capture_output=True, text=True, timeout=120)
        check(run.stdout.splitlines() == want and not run.returncode, f"{more}: {run.stdout} {run.stderr}")
        check(SANITIZE or not run.stderr, run.stderr)
    same(fermata.program([program("vpi_order")], "--local", "fixed-priority"), want, "in local mode")


def beside_others(stack):
    """With the shims for other APIs, each of which answers dlsym: ours is in front of them, or behind."""
    fermata = world(stack, start=False)
    shims = [os.path.join(BUILD, "lib", f"libfermata-{api}.so") for api in ("cuda", "hip", "ze", "vpi")]
    shims = [shim for shim in shims if os.path.exists(shim)]
    want = native([program("vpi_order")])
    for order in (shims, shims[::-1]):
        env = {**fermata.env, "LD_PRELOAD": preload(*order), "FERMATA_LOCAL": "fixed-priority"}
        for way in ([], ["--dlsym"]):
            run = subprocess.run([program("vpi_order"), *way], env=env, capture_output=True, text=True, timeout=120)
            check(run.stdout.splitlines() == want and not run.returncode, f"{order} {way}: {run.stdout} {run.stderr}")


def on_request(stack):
    """A program is given the shim only if FERMATA_VPI asks for it."""
    fermata = world(stack, start=False)
    for asked, there in (("", False), ("0", False), ("1", True)):
        env = {**fermata.env, "FERMATA_VPI": asked}
        env.pop("FM_TEST_SHIM", None)
        run = subprocess.run(fermata.run_argv(["env"]), env=env, capture_output=True, text=True, timeout=60)
        check(("libfermata-vpi.so" in run.stdout) == (there and not SANITIZE), f"asked {asked}: {run.stdout}")


def doctor(stack):
    fermata = world(stack)
    for more, want in (({}, "backends: CPU CUDA PVA VIC; launches are held back"), ({"FAKE_VPI_DEAF": "1"}, "no stream's end is heard of")):
        fermata.env.update(more)
        found = re.sub(r"\s+", " ", fermata.cli("doctor", check_status=False).stdout)
        check("NVIDIA VPI" in found and "FERMATA_VPI=1" in found and want in found, found)


main(conforms, level_and_device, urgent_first, suspended, *unsanitized(at_random), ends, daemon_dies, daemon_hangs, without, beside_others,
     on_request, doctor)
