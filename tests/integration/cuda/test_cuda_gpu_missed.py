#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks that decide on the device (<fermata/gpu_sched.h>), on the fake driver: which deadlines passed while the set was stopped,
by the scheduler or by its program, as the program, other people and a trace see it."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, PATIENCE, Fermata, LibClient, check, cuda_env, eventually, main, need_cuda_shim, program

CHANNELS = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "FAKE_CUDA_NARROW": "1"}  # NARROW: streams share so many channels


class Late(LibClient):
    """cuda_gpu_missed.c: each job of its one task misses its deadline, a nanosecond behind the release."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.missed = self.stopped = 0

    def release(self, jobs, stopped):
        """The device has heard of them behind what it heard before."""
        released = self.state()["released"] + jobs
        self.do(f"release {jobs}")
        eventually("they are released", lambda: self.state()["released"] == released)
        self.missed += jobs
        self.stopped += jobs if stopped else 0

    def is_as_it_should_be(self, when):
        eventually(f"all jobs are done {when}", lambda: self.state()["done"] == self.missed)
        now = self.state()
        check((now["missed"], now["missed_stopped"]) == (self.missed, self.stopped), f"{when}: {now}, and not {self.stopped} in stops")


def world(stack, resident):
    need_cuda_shim()
    fermata = Fermata(stack, "[security]\nstrict = no\n" if resident else None)  # a strict daemon refuses these
    runtime = os.path.join(fermata.dir, "libcudadevrt.a")
    with open(runtime, "wb") as f:
        f.write(b"!<arch>\n")  # the fake's linker is content with any library
    fermata.env = cuda_env({**fermata.env, **CHANNELS, "FERMATA_CUDA_DEVRT": runtime})
    return fermata


def queue(fermata, s):
    return next(q for q in fermata.group(s.pid)["queues"] if "set" in q)


def gate(fermata, s, command, becomes):
    """A set that is idle hears of it with the next release, before that."""
    fermata.cli(command, str(s.pid))
    eventually(f"its gate is {becomes}", lambda: queue(fermata, s)["gate"] == becomes)


def record(fermata, stack):
    path = os.path.join(fermata.dir, "trace")
    recorder = subprocess.Popen([FERMATA, "trace", "record", "-o", path], env=fermata.env, stderr=subprocess.DEVNULL)
    stack.callback(recorder.kill)

    def misses():
        lines = fermata.cli("trace", "dump", "--json", path).stdout.splitlines()
        return [e["stopped"] for e in map(json.loads, lines) if e.get("event") == "task_missed"]
    eventually("it records", lambda: os.path.exists(path) and os.path.getsize(path) > 56)
    return recorder, misses


def what_a_stop_missed(stack, engine, *kind):
    fermata = world(stack, bool(kind))
    s = fermata.program([program("cuda_gpu_missed"), engine, *kind], cls=Late)
    s.line("ready")
    fermata.knows(s.pid)
    s.release(2, stopped=False)
    s.is_as_it_should_be("before any stop")
    recorder, misses = record(fermata, stack)

    def is_recorded():
        s.release(1, stopped=False)
        s.is_as_it_should_be("while it is recorded")
        return misses()
    eventually("the set is recorded", is_recorded)
    for n in 3, 4:
        gate(fermata, s, "suspend", "closed")
        s.release(n, stopped=True)
        gate(fermata, s, "resume", "open")
        s.is_as_it_should_be("after a stop by the scheduler")
        s.release(1, stopped=False)
        s.is_as_it_should_be("between stops")
    s.do("suspend")
    s.release(2, stopped=True)
    s.do("resume")
    s.is_as_it_should_be("after a stop by the program")
    s.do("aside 2")  # a call that waits for the device is no stop of anybody's
    s.missed += 2
    s.is_as_it_should_be("after a call that waits")
    eventually("the daemon is told", lambda: queue(fermata, s)["set"]["tasks"][0]["missed"] == s.missed)
    (task,) = queue(fermata, s)["set"]["tasks"]
    check(task["missed_stopped"] == s.stopped, f"the daemon is told {task}")
    lines = [line.split() for line in fermata.cli("ps", "--queues").stdout.splitlines()]
    head, row = next(line for line in lines if "MISSED" in line), next(line for line in lines if "late" in line)
    check(str(s.missed) in row and row[row.index(str(s.missed), row.index("late") + 4) + 1] == str(s.stopped), f"ps shows {head}, {row}")
    eventually("the trace has the misses of stops", lambda: sum(misses()) == s.stopped)
    check(0 in misses(), "each miss is one of a stop in the trace")
    recorder.terminate()
    check(recorder.wait(PATIENCE) == 0, "the recorder failed")
    s.quit()


def by_gates(stack):
    what_a_stop_missed(stack, "gates")


def by_a_resident(stack):
    what_a_stop_missed(stack, "gates", "resident")


def by_graphs(stack):
    what_a_stop_missed(stack, "graphs")


def by_graphs_that_stay(stack):
    what_a_stop_missed(stack, "graphs", "resident")


if __name__ == "__main__":
    main(by_gates, by_a_resident, by_graphs, by_graphs_that_stay)
