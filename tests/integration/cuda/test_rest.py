#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory could move are put to rest at random moments (tests/fakes/mover: the shim with such a thread), and
see exactly what they see natively. While one rests the fake device ends the program if a command runs. Programs whose
streams wait for each other by events come to rest each time that they are asked. Daemons are killed meanwhile, whatever
the state of the rest."""
import collections
import contextlib
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import (BUILD, LONG, PATIENCE, Fermata, Program, check, cuda_env, main, need_cuda_shim, preload, program,
                     seldom_sanitized, unsanitized)

SETS = ("cuda_order", "cuda_memory", "cuda_graph", "cuda_launch", "cuda_devices", "cuda_answers", "cuda_rests")
# What one thread is told in the middle of another's call depends on which of the two the driver hears first. A process
# that has a call which nobody knows is not put to rest (test_cuda_managed.py, unknown_calls_pin).
LEFT_OUT = {"cuda_answers": ("asked before", "unknown call")}
SECONDS = os.environ.get("FERMATA_TEST_SECONDS", "0.5")
DEVICES = {"FAKE_CUDA_DEVICES": "2"}
ENV = cuda_env({**os.environ, **DEVICES})
SHIM = os.path.join(BUILD, "tests", "librests_cuda.so")


def cases(name):
    listed = subprocess.run([program(name), "--list"], env=ENV, check=True, capture_output=True, text=True).stdout
    return [c for c in listed.splitlines() if c not in LEFT_OUT.get(name, ())]


def native(name, only):
    run = subprocess.run([program(name), "0", *only], env=ENV, capture_output=True, text=True, timeout=120)
    check(run.returncode == 0, f"{name} fails natively: {run.stderr}")
    return run.stdout


class Restless:
    """A program with the thread that puts it to rest."""

    def __init__(self, stack, fermata, name, only=None, seconds=SECONDS, **more):
        self.name, self.only, self.seconds = name, only or cases(name), float(seconds)
        self.said = os.path.join(fermata.dir, f"said-{name}-{random.random()}")
        env = cuda_env({**fermata.env, **DEVICES, "FERMATA_MEMORY": "1", "REST_SAID": self.said,
                        **{k: str(v) for k, v in more.items()}})
        self.program = Program([program(name), str(seconds), *self.only], env={**env, "LD_PRELOAD": preload(SHIM)})
        stack.callback(self.program.close)

    def ends(self):
        """As natively; how often it rested, how often it could not in time, and why."""
        p = self.program
        check(p.wait(PATIENCE + self.seconds) == 0, f"{self.name} ended with status {p.p.returncode}")
        p.reader.join()
        got = [line for line in p.lines if line is not None]
        want = native(self.name, self.only).splitlines()
        differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
        check(got == want, f"{self.name} differs:\n{differ}")
        with open(self.said, encoding="utf-8") as f:
            moved, refused, stuck, why = (f.read().rstrip("\n") + " ").split(" ", 3)
        return int(moved), int(refused), int(stuck), why


def world(stack, **more):
    need_cuda_shim()
    return Fermata(stack, **more)


def all_sets(stack, fermata, text, meanwhile=None, but=(), **more):
    running = [Restless(stack, fermata, name, [c for c in cases(name) if c not in but], REST_MOST_MS=200, **more) for name in SETS]
    if meanwhile:
        meanwhile([r.program for r in running])
    sums = [r.ends() for r in running]
    for r, (moved, refused, stuck, why) in zip(running, sums):
        print(f"         {r.name} {text}: {moved} rests, {refused} not in time, {stuck} with a call inside {why}")
    check(sum(s[0] for s in sums) > 50, f"hardly any rests {text}")


def alone(stack):
    all_sets(stack, world(stack), "alone")


def local(stack):
    fermata = world(stack, start=False)
    fermata.env["FERMATA_LOCAL"] = "fixed-priority"
    all_sets(stack, fermata, "in local mode")


def without_a_daemon(stack):
    all_sets(stack, world(stack, start=False), "without a daemon")


def suspended_at_random(stack):
    fermata = world(stack)
    all_sets(stack, fermata, "when suspended at random",
             lambda running: fermata.suspend_at_random(random.Random(31), running, 0.01, 0.01))


def strict(stack):
    fermata = world(stack, config="[security]\nstrict = yes\n")
    all_sets(stack, fermata, "in strict mode",
             lambda running: fermata.suspend_at_random(random.Random(32), running, 0.01, 0.01))


def come_to_rest(stack):
    """With the daemon's gates open, and closed now and then: each time that it is asked, well within the time."""
    fermata = world(stack)
    for only in cases("cuda_rests"):
        r = Restless(stack, fermata, "cuda_rests", [only], seconds=2)
        moved, refused, stuck, why = r.ends()
        check(moved > 5 and not refused and not stuck, f"{only}: {moved} rests, {refused} not in time, {stuck} stuck: {why}")
        print(f"         {only}: {moved} rests")


def come_to_rest_at_closed_gates(stack):
    """What waits by events for what stands at a gate rests, too: while its gates are closed, and it launches ahead."""
    fermata = world(stack)
    for only in ("loader", "token by token"):
        r = Restless(stack, fermata, "cuda_rests", [only], seconds=2, REST_MOST_MS=60000)
        fermata.suspend_at_random(random.Random(33), [r.program], 0.05, 0.02)
        moved, refused, stuck, why = r.ends()
        check(moved > 5 and not refused and not stuck, f"{only}: {moved} rests, {refused} not in time, {stuck} stuck: {why}")
        print(f"         {only}: {moved} rests")


class Boards:
    """The states in which the processes are, as their boards say (src/board/board.h, `rest`)."""

    STATES = "OPEN", "CLOSED", "MOVING", "MAPPING"
    MAGIC, REST = b"FBOD", 68

    def __init__(self, running):
        self.running, self.paths, self.seen = running, {}, collections.Counter()

    def path(self, pid):
        for name in os.listdir(f"/proc/{pid}/map_files"):
            path = f"/proc/{pid}/map_files/{name}"
            if "fermata-board" in os.readlink(path):
                return path
        return None

    def look(self):
        """Only root may."""
        for pid in [p.pid for p in self.running]:
            with contextlib.suppress(OSError):
                if not self.paths.get(pid):
                    self.paths[pid] = self.path(pid)
                with open(self.paths[pid] or "/", "rb") as board:
                    head = board.read(self.REST + 4)
                check(head[:4] == self.MAGIC, "that is no board")
                self.seen[self.STATES[struct.unpack_from("=I", head, self.REST)[0] & 3]] += 1


def kill_daemons(fermata, kills, running):
    rng = random.Random(34)
    boards = Boards(running)
    n = 0
    while n < kills and any(p.p.poll() is None for p in running):
        time.sleep(rng.uniform(0, 0.02))
        fermata.kill()
        boards.look()
        time.sleep(rng.uniform(0, 0.01))
        fermata.start()
        n += 1
    print(f"         {n} daemons killed, when processes were {dict(boards.seen)}")
    if LONG and boards.seen:
        check(min(boards.seen[s] for s in Boards.STATES) > 20, "a state is missing")


def daemons_are_killed(stack):
    """With several programs in all states of a rest. Graphs of which one is captured before there is a daemon, and one
    after, differ in their gates: an update says so."""
    fermata = world(stack)
    kills = 10000 if LONG else 200
    all_sets(stack, fermata, "while daemons are killed", lambda running: kill_daemons(fermata, kills, running),
             but=("captured anew",), seconds=1200 if LONG else 7, REST_FOR_US=20000, REST_MAPS_US=5000,
             **({"FAKE_CUDA_LATE_WORD_US": "20000"} if LONG else {}))


def exits_at_rest(stack):
    """A program that ends while it rests waits for its memory."""
    fermata = world(stack)
    for _ in range(20 if LONG else 4):
        r = Restless(stack, fermata, "cuda_launch", seconds=0, REST_EVERY_US=0, REST_FOR_US=30000)
        r.ends()


if __name__ == "__main__":
    main(alone, *unsanitized(local, without_a_daemon), suspended_at_random, *seldom_sanitized(strict), come_to_rest, *seldom_sanitized(come_to_rest_at_closed_gates),
         daemons_are_killed, exits_at_rest)
