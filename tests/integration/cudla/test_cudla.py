#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuDLA programs under Fermata, on a library of our own (tests/fakes/cudla): in hybrid mode tasks are commands of the CUDA stream, in
standalone mode those of a program that may not run are held back; and what goes wrong."""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, SANITIZE, Fermata, Skip, Worker, check, cuda_env, eventually, halt, main, need_cuda_shim, preload, program

LIBRARY = os.path.join(BUILD, "tests", "fakes", "cudla")
SHIM = os.path.join(BUILD, "lib", "libfermata-cudla.so")
CUDA = os.path.join(BUILD, "lib", "libfermata-cuda.so")
MODES = "hybrid", "standalone"


def cudla_env(env):
    env = cuda_env({"FERMATA_CUDLA": "1", "FERMATA_CUDA": "1", **env, "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"})
    return {**env, "LD_LIBRARY_PATH": f"{LIBRARY}:{env['LD_LIBRARY_PATH']}"}


def world(stack, start=True, **more):
    need_cuda_shim()
    if not os.path.exists(SHIM) or not os.path.exists(program("cudla_worker")):
        raise Skip("the shim for cuDLA, or its tests, are not built")
    fermata = Fermata(stack, start=start)
    fermata.env = cudla_env({**fermata.env, **more})
    return fermata


def native(argv):
    run = subprocess.run(argv, env=cudla_env(os.environ), input="", capture_output=True, text=True, timeout=120)
    check(run.returncode == 0, f"{argv} without Fermata: {run.stderr}")
    return run.stdout.splitlines()


def same(p, want, text):
    check(p.wait() == 0, f"{text}: status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    check(got == want, f"{text}: {got}, natively {want}")


def worker(fermata, mode, *options):
    fermata.env["FAKE_CUDLA_US"] = "300"
    w = fermata.program([program("cudla_worker"), mode], *options, cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def submitted(fermata, p):
    return sum(q["submitted"] for q in fermata.group(p.pid)["queues"])


def conforms(stack):
    """The same answers by each way to the functions, and each task is counted once: what the library itself does with CUDA, and events
    that are submitted without a task, are not."""
    fermata = world(stack)
    for mode in MODES:
        for way in ([], ["--dlsym"]):
            argv = [program("cudla_worker"), mode, *way, "100"]
            want = native(argv)
            check(want[0] == "done 100 wrong 0" and want[1].startswith("refused 1,"), want)
            p = fermata.program(argv)
            p.line("refused")
            fermata.knows(p.pid)
            # The call that is refused is, in hybrid mode, one for the default stream; in standalone mode there is no context.
            eventually(f"{mode} {way}: each is counted once", lambda: submitted(fermata, p) == 100 + (mode == "hybrid"))
            p.tell("")
            same(p, want, f"{mode} {way}")
    check(not fermata.stats()["ungoverned"], fermata.cli("ps", "--calls").stdout)


def queues(stack):
    """In hybrid mode the queue is CUDA's, of its level; in standalone mode the device's own."""
    fermata = world(stack)
    for mode, device, level in (("hybrid", "GPU", 2), ("standalone", "NVIDIA DLA 1", 1)):
        w = worker(fermata, mode)
        found = fermata.group(w.pid)["queues"]
        check(len(found) == 1 and device in found[0]["device"] and found[0]["level"] == level, found)
        w.advances()
        w.finish()


def urgent_first(stack):
    for mode in MODES:
        fermata = world(stack)
        low = worker(fermata, mode, "--priority", "0")
        low.advances()
        fermata.cli("suspend", str(low.pid))
        low.stands()
        urgent = worker(fermata, mode, "--priority", "5")
        urgent.advances()
        urgent.finish()
        fermata.cli("resume", str(low.pid))
        low.advances()
        low.finish()


def daemon_dies(stack):
    """Killed while the program is stopped: it goes on, and is known to the next daemon."""
    for mode in MODES:
        fermata = world(stack)
        w = worker(fermata, mode)
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
    for mode in MODES:
        fermata = world(stack)
        w = worker(fermata, mode)
        argv = [program("cudla_worker"), mode, "40"]
        halt(fermata.daemon)
        try:
            w.advances()
            run = subprocess.run(fermata.run_argv(argv), env=fermata.env, input="", capture_output=True, text=True, timeout=120)
            check(run.stdout.splitlines() == native(argv) and not run.returncode, f"beside a daemon that hangs: {run.stdout} {run.stderr}")
        finally:
            fermata.daemon.send_signal(signal.SIGCONT)
        w.advances()
        w.finish()


def without(stack):
    """No daemon; switched off; in local mode; in hybrid mode also without the shim for CUDA: such tasks are counted as not scheduled."""
    fermata = world(stack)
    for mode in MODES:
        argv = [program("cudla_worker"), mode, "40"]
        want = native(argv)
        for more in ({"FERMATA_SOCKET": "/nonexistent"}, {"FERMATA_DISABLE": "1"}, {"FERMATA_LOCAL": "fixed-priority"}):
            for shims in ((SHIM, CUDA), (CUDA, SHIM), (SHIM,)):
                env = {**fermata.env, **more, "LD_PRELOAD": preload(*shims)}
                run = subprocess.run(argv, env=env, input="", capture_output=True, text=True, timeout=120)
                check(run.stdout.splitlines() == want and not run.returncode, f"{mode} {more} {shims}: {run.stdout} {run.stderr}")
    fermata.env["FERMATA_CUDA"] = "0"
    argv = [program("cudla_worker"), "hybrid", "40"]
    p = fermata.program(argv)
    p.line("refused")
    eventually("they are counted", lambda: fermata.stats()["ungoverned"] == 41)
    p.tell("")
    same(p, native(argv), "alone")


def ends(stack, how, **more):
    fermata = world(stack, **more)
    p = fermata.program([program("cudla_ends"), how])
    p.line("ready")
    fermata.knows(p.pid)
    return fermata, p


def destroyed_in_a_call(stack):
    """A program that destroys a handle while another thread is in a call for it has made a mistake, which is not ours to make worse:
    the handle's queue stays until the call has come back."""
    fermata, p = ends(stack, "destroys")
    eventually("both are there", lambda: len(fermata.group(p.pid)["queues"]) == 2)
    p.tell("")
    p.line("right")
    eventually("it is gone", lambda: len(fermata.group(p.pid)["queues"]) == 1)
    p.tell("")
    check(p.wait() == 0, f"status {p.p.returncode}")


def not_destroyed(stack):
    """A handle that the library does not destroy is what it was, and its tasks are counted."""
    fermata, p = ends(stack, "keeps", FAKE_CUDLA_KEEPS="1")
    # The agent gives the first queue back when it comes to that.
    eventually("one queue", lambda: [q["device"] for q in fermata.group(p.pid)["queues"]] == ["NVIDIA DLA 1"])
    check(fermata.group(p.pid)["governed"] == 2, fermata.group(p.pid))
    check(not fermata.stats()["ungoverned"], fermata.cli("ps", "--calls").stdout)
    p.tell("")
    check(p.wait() == 0, f"status {p.p.returncode}")


def on_request(stack):
    """A program is given the shim only if FERMATA_CUDLA asks for it."""
    fermata = world(stack, start=False)
    for asked, there in (("", False), ("0", False), ("1", True)):
        env = {**fermata.env, "FERMATA_CUDLA": asked}
        env.pop("FM_TEST_SHIM", None)
        run = subprocess.run(fermata.run_argv(["env"]), env=env, capture_output=True, text=True, timeout=60)
        check(("libfermata-cudla.so" in run.stdout) == (there and not SANITIZE), f"asked {asked}: {run.stdout}")


def doctor(stack):
    fermata = world(stack)
    found = re.sub(r"\s+", " ", fermata.cli("doctor", check_status=False).stdout)
    check("NVIDIA DLA 1" in found and "FERMATA_CUDLA=1" in found, found)


main(conforms, queues, urgent_first, daemon_dies, daemon_hangs, without, destroyed_in_a_call, not_destroyed, on_request, doctor)
