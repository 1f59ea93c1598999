#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA conformance sets (cuda_*.c) see under Fermata exactly what they see natively: however they get at
the driver, alone, at level 1, with others on the device, in local mode, and while they are suspended and
resumed at random. The driver is the fake one; FERMATA_TEST_CUDA=real takes the machine's."""
import os
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import (BUILD, LONG, SANITIZE, Fermata, Program, Worker, check, cuda_env, eventually, main, need_cuda_shim, program,
                     seldom_sanitized, unsanitized)

SETS = ("cuda_order", "cuda_memory", "cuda_graph", "cuda_launch", "cuda_devices", "cuda_answers")
WAYS = tuple((*via, *ptds) for via in (("--via", "link"), ("--via", "dlsym"), ("--via", "proc"))
             for ptds in ((), ("--ptds",)))
WAYS = WAYS[::5] if SANITIZE else WAYS  # the first and the last
SECONDS = os.environ.get("FERMATA_TEST_SECONDS", "0.5")
REAL = os.environ.get("FERMATA_TEST_CUDA") == "real"
DEVICES = {"FAKE_CUDA_DEVICES": "2"}
ENV = cuda_env({**os.environ, **DEVICES})


def run_native(name, cases, *way, seconds="0", env=ENV):
    return subprocess.run([program(name), *way, seconds, *cases], env=env, capture_output=True, text=True,
                          timeout=120)


def gpu():
    """Is there a driver with a device?"""
    return run_native("cuda_order", ["in order"]).returncode == 0


def native(name):
    """The cases of a set that this driver stands without Fermata, over and over, and what they note."""
    cases = subprocess.run([program(name), "--list"], env=ENV, check=True, capture_output=True, text=True)
    cases = cases.stdout.splitlines()
    run = run_native(name, cases, seconds="1")
    if run.returncode:
        stands = [c for c in cases if run_native(name, [c], seconds="0.2").returncode == 0]
        print(f"         left out, the driver itself fails at it: {name}: {', '.join(set(cases) - set(stands))}")
        print(run.stderr)
        check(REAL, "the fake driver must stand them all")
        cases = stands
        run = run_native(name, cases, seconds="1")
    check(cases and run.returncode == 0, f"{name} fails without Fermata:\n{run.stderr}")
    return cases, run.stdout


if not gpu():
    print("no CUDA device")
    sys.exit(77)
NATIVE = {name: native(name) for name in SETS}


def command(name, *way, seconds=SECONDS):
    return [program(name), *way, seconds, *NATIVE[name][0]]


def world(stack, **more):
    need_cuda_shim()
    fermata = Fermata(stack, **more)
    fermata.env = cuda_env({**fermata.env, **DEVICES})
    return fermata


def same(name, p, text, want=None):
    """The set has run to its end, within the harness's patience, and noted what it notes natively."""
    check(p.wait() == 0, f"{name} ended with status {p.p.returncode} {text}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    want = want or NATIVE[name][1].splitlines()
    differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
    check(got == want, f"{name} differs {text}:\n{differ}")


def run_all(fermata, text, *options):
    for name in SETS:
        same(name, fermata.program(command(name), *options), text)


def ways(stack):
    """Natively: linked with the driver or not, with either kind of default stream."""
    for name in SETS:
        for way in WAYS:
            run = run_native(name, NATIVE[name][0], *way)
            check(run.returncode == 0, f"{name} {way}: {run.stderr}")
            check(run.stdout == NATIVE[name][1], f"{name} differs {way}:\n{run.stdout}")


def governs(fermata, before, what):
    """How many calls were governed when the program before has left, which the daemon may hear of late."""

    def more():
        s = fermata.stats()
        return s["governed"] > before and not s["clients"] and s["governed"]

    return eventually(f"{what}: what it did was governed", more)


def ways_governed(stack):
    """Under Fermata; by each way it is governed."""
    fermata = world(stack)
    governed = 0
    for name in SETS:
        for way in WAYS:
            same(name, fermata.program(command(name, *way, seconds="0")), f"{way}")
            governed = governs(fermata, governed, f"{name} {way}")


def driver_path():
    if not REAL:
        return os.path.join(BUILD, "tests", "fakes", "libcuda.so.1")
    cache = subprocess.run(["ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    return re.search(r"libcuda\.so\.1 \(.*\) => (.*)", cache).group(1)


def stand_in(stack):
    """By the library that has the driver's name, and not preloaded: as by the shim. And by both."""
    fermata = world(stack)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    os.symlink(driver_path(), os.path.join(folder, "libcuda-driver.so.1"))
    fermata.env["LD_LIBRARY_PATH"] = f"{folder}:{os.path.join(BUILD, 'lib', 'fermata')}"
    governed = 0
    for name in SETS:
        for way in WAYS if LONG else WAYS[:1]:
            for start in (lambda argv: Program(argv, env=fermata.env), fermata.program):
                p = start(command(name, *way, seconds="0"))
                same(name, p, f"{way} behind the stand-in")
                governed = governs(fermata, governed, f"{name} {way}")
                p.close()
    worker = Worker([program("cuda_worker"), "100"], env=fermata.env)
    stack.callback(worker.close)
    worker.line("ready")
    fermata.knows(worker.pid)
    fermata.cli("suspend", str(worker.pid))
    fermata.cli("resume", str(worker.pid))
    worker.advances()
    worker.finish()
    missing = {**fermata.env, "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fermata")}
    run = subprocess.run(command(SETS[0], seconds="0"), env=missing, capture_output=True, text=True)
    check(run.returncode and "libcuda-driver.so.1" in run.stderr, "without a driver there is no stand-in, either")


def alone(stack):
    run_all(world(stack), "alone")


def level_1(stack):
    run_all(world(stack), "at level 1", "--level", "1")


def disabled(stack):
    """Loaded, and told to do nothing."""
    fermata = world(stack)
    fermata.env["FERMATA_DISABLE"] = "1"
    run_all(fermata, "when disabled")


def without(stack, knob, *spoiled):
    """A driver that lacks what gates need: results are the same, by whatever else there is."""
    fermata = world(stack)
    fermata.env[knob] = "1"
    for name in SETS:
        cases = [c for c in NATIVE[name][0] if c not in spoiled]
        run = run_native(name, cases, env={**ENV, knob: "1"})
        check(run.returncode == 0, f"{name} fails natively with {knob}: {run.stderr}")
        p = fermata.program([program(name), SECONDS, *cases])
        check(p.wait() == 0, f"{name} ended with status {p.p.returncode} with {knob}")
        p.reader.join()
        check([line for line in p.lines if line is not None] == run.stdout.splitlines(),
              f"{name} differs with {knob}:\n" + "\n".join(map(str, p.lines)))


def without_memory_operations(stack):
    without(stack, "FAKE_CUDA_NO_MEMOPS", "stalled streams", "words of memory", "batch of words", "all nodes",
            "default streams")


def without_registered_memory(stack):
    without(stack, "FAKE_CUDA_FAIL_REGISTER", "batch of words")


def contended(stack):
    """An equal takes turns with the set: its streams are stopped in the middle of everything."""
    fermata = world(stack)
    worker = fermata.cuda_worker()
    before = fermata.preemptions()
    run_all(fermata, "beside another program")
    worker.advances()
    check(fermata.preemptions() > before, "nobody was preempted")
    worker.finish()


def contended_at_level_1(stack):
    """Likewise by what is held back in front of the driver: the worker stands still while it is suspended."""
    fermata = world(stack)
    worker = fermata.cuda_worker("--level", "1")
    before = fermata.preemptions()
    same("cuda_order", fermata.program(command("cuda_order"), "--level", "1"), "beside another, at level 1")
    check(fermata.preemptions() > before, "nobody was preempted")
    fermata.cli("suspend", str(worker.pid))
    worker.stands()
    fermata.cli("resume", str(worker.pid))
    worker.advances()
    worker.finish()


def above_and_below(stack):
    """The set takes the device from a program of lower priority each time that it has work, and loses it to
    one of higher priority."""
    fermata = world(stack)
    low = fermata.cuda_worker("--priority", "low")
    before = fermata.preemptions()
    run_all(fermata, "above another program", "--priority", "high")
    check(fermata.preemptions() > before, "nobody was preempted")
    running = fermata.program(command("cuda_order"), "--priority", "normal")
    high = fermata.cuda_worker("--priority", "high")
    high.advances()
    high.finish()
    same("cuda_order", running, "below another program")
    low.advances()
    low.finish()


def fair(stack):
    fermata = world(stack)
    fermata.cli("policy", "fair")
    worker = fermata.cuda_worker("--weight", "3")
    run_all(fermata, "under the fair policy")
    worker.finish()


def local(stack):
    """Scheduled in its own process, without a daemon."""
    run_all(world(stack, start=False), "in local mode", "--local", "fixed-priority")


def at_random(fermata, rng, text):
    """The sets run at the same time; each is suspended and resumed until it ends. On a busy machine they may have ended
    before it began: then once more."""

    def once():
        running = {name: fermata.program(command(name)) for name in SETS}
        suspensions = fermata.suspend_at_random(rng, list(running.values()), 0.01, 0.005)
        for name, p in running.items():
            same(name, p, text)
        return suspensions

    print(f"         {eventually('somebody is suspended', once)} suspensions")


def suspended_at_random(stack):
    at_random(world(stack), random.Random(20), "when suspended at random")


OFTEN = {"cuda_order": ("ping pong", "cooperative", "clusters", "events"), "cuda_memory": ("allocated in order", "freed early", "boxes", "batches"),
         "cuda_graph": ("linear", "fork join", "by the device", "many streams")}


def suspended_often(stack):
    """The launches that are not like others, copies, graphs: for a moment, again and again; a thousand times, where a device
    does the work."""
    fermata, suspensions = world(stack), 0
    often = {name: [case for case in cases if case in NATIVE[name][0]] for name, cases in OFTEN.items()}

    def once():
        nonlocal suspensions
        running = {name: fermata.program([program(name), str(float(SECONDS) * (3 if REAL else 1)), *cases]) for name, cases in often.items()}
        suspensions += fermata.suspend_at_random(random.Random(22), list(running.values()), 0.001, 0.001)
        for name, p in running.items():
            said = [line for line in NATIVE[name][1].splitlines() if line.split(":")[0] in often[name]]
            same(name, p, "when suspended often", said)
        return suspensions > (1000 if REAL else 0)

    eventually("they are suspended often", once)
    print(f"         {suspensions} suspensions")


def strict(stack):
    """With gates that the sets cannot write, suspended at random; then their daemon goes and comes."""
    fermata = world(stack, config="[security]\nstrict = yes\n")
    at_random(fermata, random.Random(21), "in strict mode")
    killed_again(fermata, "in strict mode when the daemon goes and comes")


def daemon_goes_and_comes(stack):
    """The daemon is killed and started again while the sets run."""
    killed_again(world(stack), "when the daemon goes and comes")


def killed_again(fermata, text):
    worker = fermata.cuda_worker()
    running = {name: fermata.program(command(name)) for name in SETS}
    for _ in range(4):
        time.sleep(0.3)
        fermata.kill()
        time.sleep(0.1)
        fermata.start()
    for name, p in running.items():
        same(name, p, text)
    worker.finish()


if __name__ == "__main__":
    fake_only = () if REAL else (
        without_memory_operations, without_registered_memory)
    main(ways, *seldom_sanitized(ways_governed, stand_in), *unsanitized(alone, level_1, disabled), *fake_only, contended,
         *unsanitized(contended_at_level_1, above_and_below, fair), *seldom_sanitized(local), suspended_at_random, suspended_often, strict, daemon_goes_and_comes)
