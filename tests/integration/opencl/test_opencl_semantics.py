#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The OpenCL conformance sets (opencl_*.c) see under Fermata exactly what they see natively: alone, at
level 1, with others on the device, in local mode, and while they are suspended and resumed at random."""
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import SANITIZE, Fermata, Skip, check, eventually, long, main, need_level_3, program, seldom_sanitized

SETS = ("opencl_order", "opencl_memory", "opencl_life", "opencl_kernels")
SECONDS = os.environ.get("FERMATA_TEST_SECONDS", "0.5")


def run_native(name, cases, seconds="1"):
    return subprocess.run([program(name), seconds, *cases], capture_output=True, text=True, timeout=120)


def native(name):
    """The cases of a set that this driver stands without Fermata, over and over, and what they note. A driver
    may die of a case, or of its repetition: such a case tells nothing about Fermata."""
    cases = subprocess.run([program(name), "--list"], check=True, capture_output=True, text=True).stdout
    cases = cases.splitlines()
    run = run_native(name, cases)
    if run.returncode:
        stands = []
        for c in cases:
            if run_native(name, [*stands, c]).returncode == 0:
                stands.append(c)
        print(f"         left out, the driver itself fails at it: {name}: {', '.join(set(cases) - set(stands))}")
        cases = stands
        run = run_native(name, cases)
    check(cases and run.returncode == 0, f"{name} fails without Fermata:\n{run.stderr}")
    return cases, run.stdout


NATIVE = {name: native(name) for name in SETS}


def command(name):
    return [program(name), SECONDS, *NATIVE[name][0]]


def same(name, p, text):
    """The set has run to its end and noted what it notes natively."""
    check(p.wait(120) == 0, f"{name} ended with status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    check(got == NATIVE[name][1].splitlines(), f"{name} differs {text}:\n" + "\n".join(got))


def run_all(fermata, text, *options):
    for name in SETS:
        same(name, fermata.program(command(name), *options), text)


@long
def alone(stack):
    run_all(Fermata(stack), "alone")


def level_1(stack):
    if SANITIZE:
        raise Skip("contended_at_level_1 goes the same ways, and takes half a minute")
    run_all(Fermata(stack), "at level 1", "--level", "1")


@long
def contended(stack):
    """An equal takes turns with the set: its queues are stopped in the middle of everything."""
    fermata = Fermata(stack)
    worker = fermata.worker()
    before = fermata.preemptions()
    run_all(fermata, "beside another program")
    worker.advances()
    check(fermata.preemptions() > before, "nobody was preempted")
    worker.finish()


@long
def contended_at_level_1(stack):
    fermata = Fermata(stack)
    worker = fermata.worker("--level", "1")
    run_all(fermata, "beside another program, at level 1", "--level", "1")
    worker.advances()
    worker.finish()


@long
def fair(stack):
    if SANITIZE:
        raise Skip("which policy it is only the daemon knows")
    fermata = Fermata(stack)
    fermata.cli("policy", "fair")
    worker = fermata.worker("--weight", "3")
    run_all(fermata, "under the fair policy")
    worker.finish()


def queues_beyond_the_board(stack):
    """What goes past a board of 128 slots is counted, and named."""
    fermata = Fermata(stack)
    p = fermata.program([program("opencl_life"), "60", "many queues"])

    def past():
        group = fermata.group(p.pid)
        return group and group["ungoverned"] and group

    group = eventually("calls go past", past)
    check(group["calls"][0]["call"] == "clEnqueueNDRangeKernel", f"named: {group['calls']}")


def local(stack):
    """Scheduled in its own process, without a daemon."""
    run_all(Fermata(stack, start=False), "in local mode", "--local", "fixed-priority")


def at_random(fermata, text, steer):
    """All sets run at the same time, and steer(their programs) until they end, saying how often. On a busy machine they
    may have ended before it began: then once more."""

    def once():
        running = {name: fermata.program(command(name)) for name in SETS}
        suspensions = steer(list(running.values()))
        for name, p in running.items():
            same(name, p, text)
        return suspensions

    print(f"         {eventually('somebody is suspended', once)} suspensions")


def suspended_at_random(stack):
    """By the command line."""
    fermata = Fermata(stack)
    rng = random.Random(20)

    def steer(running):
        suspensions = 0
        while any(p.p.poll() is None for p in running):
            p = rng.choice(running)
            # The set may have ended in between: then there is nobody to suspend.
            suspended = fermata.cli("suspend", str(p.pid), check_status=False).returncode == 0
            time.sleep(rng.choice((0, 0.001, 0.01, 0.05)))
            fermata.cli("resume", str(p.pid), check_status=False)
            suspensions += suspended
            time.sleep(rng.choice((0, 0.002, 0.02)))
        return suspensions

    at_random(fermata, "when suspended at random", steer)


def stopped_in_the_middle(stack):
    """Each kernel of the sets that can be rewritten is, however short, and stopped at random (level 3)."""
    fermata = Fermata(stack)
    fermata.env["FERMATA_GUARD_US"] = "0"
    rng = random.Random(21)
    at_random(fermata, "when stopped in the middle",
              lambda running: fermata.suspend_at_random(rng, running, hold=0.02, pause=0.02))
    p = fermata.program([program("opencl_kernels"), "60", *NATIVE["opencl_kernels"][0]])
    queues = eventually("queues", lambda: fermata.group(p.pid))["queues"]
    need_level_3(any(3 in q["levels"] for q in queues))


@long
def daemon_goes_and_comes(stack):
    """The daemon is killed and started again while the sets run."""
    fermata = Fermata(stack)
    worker = fermata.worker()
    running = {name: fermata.program(command(name)) for name in SETS}
    for _ in range(4):
        time.sleep(0.3)
        fermata.kill()
        time.sleep(0.1)
        fermata.start()
    for name, p in running.items():
        same(name, p, "when the daemon goes and comes")
    worker.finish()


if __name__ == "__main__":
    main(alone, level_1, contended, *seldom_sanitized(contended_at_level_1), fair, queues_beyond_the_board, *seldom_sanitized(local), suspended_at_random,
         *seldom_sanitized(stopped_in_the_middle), daemon_goes_and_comes)
