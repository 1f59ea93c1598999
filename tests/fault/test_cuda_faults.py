#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA drivers that lack something, refuse something, or lose their device; programs that fork, exec, close what
is not theirs, end contexts at work. Programs see what they would see without Fermata, and others go on."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, Fermata, Program, Worker, check, cuda_env, eventually, foreign, main, need_cuda_shim, program, seldom_sanitized

HERE = os.path.dirname(os.path.abspath(__file__))
# A driver of before 11.7 lacks what came then, by name.
OLD = {"LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "fakes", "old")}
WITHOUT_GATES = ({"FAKE_CUDA_NO_MEMOPS": "1"}, OLD, {"FAKE_CUDA_FAIL_REGISTER": "2"},
                 {"FAKE_CUDA_FAIL_REGISTER": "800"}, {"FAKE_CUDA_FAIL_REGISTER": "801"})


def world(stack, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = {**cuda_env(fermata.env), **env}
    return fermata


class Faulty(Program):
    """cuda_faults.c: it waits at its points."""

    def to_point(self):
        mark = getattr(self, "at", 0)
        self.line("point", mark)
        with self.changed:
            self.at = self.lines.index("point", mark) + 1

    def go(self):
        self.tell("")

    def finish(self):
        """The rest, up to its end, and all that it said; of a number that is a process's, nothing."""
        self.line("end")
        check(self.wait() == 0, f"{self.argv} ended with status {self.p.returncode}")
        self.reader.join()
        return [re.sub(r"^child \d+", "child", line) for line in self.lines if line is not None]


def sanitizer(option):
    """In addition to what the sanitizer is told for all tests."""
    return {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), option]))}


def native(stack, *case, points=1, **env):
    """What it says without Fermata."""
    need_cuda_shim()
    p = Faulty([program("cuda_faults"), *map(str, case)], env=cuda_env({**os.environ, **env}))
    stack.callback(p.close)
    for _ in range(points):
        p.to_point()
        p.go()
    return p.finish()


def faulty(fermata, *case, options=()):
    return fermata.program([program("cuda_faults"), *map(str, case)], *options, cls=Faulty)


def same(p, want):
    got = p.finish()
    check(got == want, f"{p.argv} says\n\t{got}\nnatively\n\t{want}")


def gone(fermata, p):
    eventually(f"the group of {p.pid} leaves", lambda: fermata.group(p.pid) is None)


def queues(fermata, p):
    return fermata.group(p.pid)["queues"]


def levels(fermata, p):
    return {q["level"] for q in queues(fermata, p)}


def without_gates(stack):
    """A driver that takes no gates: level 1, from the first launch on, and what that promises."""
    for env in WITHOUT_GATES:
        fermata = world(stack, **env)
        worker = fermata.cuda_worker()
        check(levels(fermata, worker) == {1}, f"{env}: {queues(fermata, worker)}")
        check(all(q["levels"] == [1] for q in queues(fermata, worker)), f"{env}: {queues(fermata, worker)}")
        fermata.cli("suspend", str(worker.pid))
        worker.stands()
        other = fermata.cuda_worker()
        other.advances()
        fermata.cli("resume", str(worker.pid))
        worker.advances()
        other.finish()
        worker.finish()
        fermata.stop()


def with_gates(stack):
    """The level is there before the first gate."""
    fermata = world(stack)
    p = faulty(fermata, "streams without context")
    p.to_point()
    fermata.knows(p.pid)
    check(levels(fermata, p) == {2}, f"{queues(fermata, p)}")
    p.go()
    p.finish()


def refused_launches(stack):
    want = native(stack, "refused launches")
    fermata = world(stack)
    low = fermata.cuda_worker("--priority", "low")
    p = faulty(fermata, "refused launches", options=("--priority", "high"))
    p.to_point()
    low.advances()  # what never was is not under way
    fermata.knows(p.pid)
    check(all(q["submitted"] == q["done"] for q in queues(fermata, p)), f"{queues(fermata, p)}")
    p.go()
    same(p, want)
    low.advances()
    low.finish()


def out_of_memory(stack):
    want = native(stack, "out of memory")
    fermata = world(stack)
    other = fermata.cuda_worker()
    p = faulty(fermata, "out of memory")
    p.to_point()
    other.advances()
    p.go()
    same(p, want)
    other.finish()


def device_lost(stack):
    """By any error: it is the program's, and its alone. While it has not ended it is in nobody's way."""
    for error in (719, 999, 214):
        want = native(stack, "device lost", error, points=3)
        fermata = world(stack)
        p = faulty(fermata, "device lost", error, options=("--priority", "high"))
        p.to_point()
        low = fermata.cuda_worker_behind("--priority", "low")
        p.go()
        p.to_point()
        low.line("ready")
        low.advances()
        p.go()
        p.to_point()
        low.advances()
        p.go()
        same(p, want)
        gone(fermata, p)
        low.advances()
        low.finish()
        fermata.stop()


def device_lost_at_a_gate(stack):
    """It stands at a closed gate, and will never leave it."""
    want = native(stack, "device lost", 719, points=3)
    fermata = world(stack)
    other = fermata.cuda_worker()
    p = faulty(fermata, "device lost", 719)
    p.to_point()
    fermata.knows(p.pid)
    fermata.cli("suspend", str(p.pid))
    other.advances()
    p.go()
    p.to_point()
    other.advances()
    fermata.cli("resume", str(p.pid))
    other.advances()
    p.go()
    p.to_point()
    p.go()
    same(p, want)
    gone(fermata, p)
    other.advances()
    other.finish()


def device_lost_in_a_worker(stack):
    """One that knows of nothing and ends by itself, with the driver's error."""
    fermata = world(stack)
    other = fermata.cuda_worker()
    fermata.env["FAKE_CUDA_LOST"] = "719@40"
    p = fermata.cuda_worker()
    check(p.wait() == 1, f"status {p.p.returncode}")
    gone(fermata, p)
    other.advances()
    other.finish()


def closed_descriptors(stack):
    """It fails open: behind a busy program, too, and also when a child holds copies of them."""
    for child in (0, 1):
        want = native(stack, "closed descriptors", child, points=2)
        fermata = world(stack)
        p = faulty(fermata, "closed descriptors", child, options=("--priority", "low"))
        p.to_point()
        busy = fermata.cuda_worker("--priority", "high")
        busy.advances()
        p.go()
        p.to_point()
        busy.advances()
        p.go()
        same(p, want)
        busy.advances()
        busy.finish()
        fermata.stop()


def closed_descriptors_and_then_stopped(stack):
    """A child holds copies, so that the daemon takes it to be there, and stops it: it fails open all the same."""
    want = native(stack, "closed descriptors", 1, points=2)
    fermata = world(stack)
    p = faulty(fermata, "closed descriptors", 1, options=("--priority", "low"))
    p.to_point()
    fermata.knows(p.pid)
    p.go()
    p.to_point()
    busy = fermata.cuda_worker("--priority", "high")
    busy.advances(40)
    p.go()
    same(p, want)
    busy.advances()
    busy.finish()


def streams_without_context(stack):
    want = native(stack, "streams without context")
    fermata = world(stack)
    other = fermata.cuda_worker()
    p = faulty(fermata, "streams without context")
    p.to_point()
    other.advances()
    p.go()
    same(p, want)
    other.finish()


def context_again(stack):
    """Gates are taken there as well."""
    want = native(stack, "context again")
    fermata = world(stack)
    other = fermata.cuda_worker()
    p = faulty(fermata, "context again")
    p.to_point()
    fermata.knows(p.pid)
    check(levels(fermata, p) == {2}, f"{queues(fermata, p)}")
    p.go()
    same(p, want)
    other.finish()


def capture_first(stack):
    """What is launched when it is over is governed."""
    want = native(stack, "capture first")
    fermata = world(stack)
    p = faulty(fermata, "capture first")
    p.to_point()
    fermata.knows(p.pid)
    check(fermata.group(p.pid)["ungoverned"] == 0, f"{fermata.group(p.pid)}")
    p.go()
    same(p, want)


def own_stream(stack):
    """It works on for long after its end was given up, stands still in the middle, and goes on."""
    want = native(stack, "own stream")
    fermata = world(stack)
    other = fermata.cuda_worker()
    p = faulty(fermata, "own stream")
    p.to_point()
    p.go()
    same(p, want)
    other.advances()
    other.finish()


def in_both_ways(stack, case, n, points, look=lambda fermata, p: None):
    """With and without the guardian, beside another program: as natively; there is a look at each point."""
    want = native(stack, case, n, points=points)
    for options in (), ("--guardian",):
        fermata = world(stack)
        other = fermata.cuda_worker()
        p = faulty(fermata, case, n, options=options)
        for _ in range(points):
            p.to_point()
            look(fermata, p)
            p.go()
        same(p, want)
        other.finish()
        fermata.stop()


def short_threads(stack):
    """Each of their streams has a place among the queues, and gives it back: after a while there were more of them than
    there are places."""

    def look(fermata, p):
        fermata.knows(p.pid)
        eventually("the threads' queues are gone", lambda: len(queues(fermata, p)) == 1)
        check(fermata.group(p.pid)["ungoverned"] == 0, f"{fermata.group(p.pid)}")

    in_both_ways(stack, "short threads", 50, 5, look)


def context_of_who_ends(stack):
    """What a thread that ends leaves under way is looked after in a call about its context, which then has not ended."""
    in_both_ways(stack, "context of who ends", 3, 3)


def cancels_threads(stack, *ways):
    env = sanitizer("use_sigaltstack=0")  # as such a thread ends it takes its own stack for poisoned
    want = native(stack, "threads cancelled", 10, points=10, **env)
    for options in ways:
        fermata = world(stack, **env)
        other = fermata.cuda_worker()
        p = faulty(fermata, "threads cancelled", 10, options=options)
        for _ in range(10):
            p.to_point()
            fermata.knows(p.pid)
            fermata.cli("suspend", str(p.pid))
            other.advances()
            p.go()
            fermata.cli("resume", str(p.pid))
        same(p, want)
        other.advances()
        other.finish()
        fermata.stop()


def threads_cancelled(stack):
    """They end where they would without us, and leave nothing behind for which others wait: beside others, alone, and
    while they are suspended."""
    cancels_threads(stack, (), ("--guardian",))


def threads_cancelled_at_level_1(stack):
    cancels_threads(stack, ("--level", "1"))


def forks(stack):
    """Children of a program at work, whose agent is in the middle of a call to the driver."""
    env = sanitizer("detect_leaks=0")  # a child leaves alone what is its parent's
    want = native(stack, "forks", 8, points=0, **env)
    fermata = world(stack, FAKE_CUDA_SLOW_MEMOPS="20000", **env)
    other = fermata.cuda_worker()
    same(faulty(fermata, "forks", 8), want)
    other.advances()
    other.finish()


def forks_first(stack):
    """Each child is a program of its own."""
    want = native(stack, "forks first", 2, points=2)
    fermata = world(stack)
    p = faulty(fermata, "forks first", 2)
    for _ in range(2):
        p.to_point()
        child = int([line for line in p.lines if line.startswith("child")][-1].split()[1])
        fermata.knows(child)
        check(levels(fermata, type("", (), {"pid": child})) == {2}, "the child is not governed")
        p.go()
    same(p, want)


def execs(stack):
    want = native(stack, "execs")
    fermata = world(stack)
    p = faulty(fermata, "execs")
    p.to_point()
    child = int(p.line("child").split()[1])
    fermata.knows(child)
    eventually("its parent is none any more", lambda: not fermata.group(p.pid))
    p.go()
    same(p, want)


def spawns(stack):
    """Python's multiprocessing, which starts interpreters afresh; they find the driver by ctypes."""
    argv = foreign([sys.executable, os.path.join(HERE, "cuda_spawn.py"), "3"])
    fermata = world(stack)
    native, ours = Program(argv, env=fermata.env), fermata.program(argv)
    stack.callback(native.close)
    for p in (native, ours):
        p.line("end")
    eventually("all is governed", lambda: fermata.stats()["governed"] >= 3 * 40)
    for p in (native, ours):
        p.p.stdin.close()
        check(p.wait() == 0, f"status {p.p.returncode}")
        p.reader.join()
    check(ours.lines == native.lines and len(ours.lines) == 5, f"{ours.lines}, natively {native.lines}")


def devices(stack):
    """Programs that number the devices otherwise mean the same ones; those of another are not in the way."""
    fermata = world(stack, FAKE_CUDA_DEVICES="3")

    def worker(visible, priority):
        fermata.env["CUDA_VISIBLE_DEVICES"] = visible
        return fermata.program([program("cuda_worker"), "1000"], "--priority", priority, cls=Worker)

    first = worker("0,2", "normal")
    high = worker("2,1", "high")
    first.line("ready")
    high.line("ready")
    for p in (first, high):
        fermata.knows(p.pid)
    key = {p: queues(fermata, p)[0]["device"] for p in (first, high)}
    low = worker(key[high], "low")
    other = worker("GPU-67", "low")
    eventually("the low one is there", lambda: fermata.group(low.pid))
    check(queues(fermata, low)[0]["device"] == key[high] != key[first], f"{key}")
    other.line("ready")
    fermata.knows(other.pid)
    check(queues(fermata, other)[0]["device"] not in key.values(), "two devices are taken for one")
    low.stands()
    first.advances()
    other.advances()
    high.finish()
    low.line("ready")
    low.advances()
    for p in (first, low, other):
        p.finish()


def parts(stack):
    """Of a part of a device (MIG) the part's name counts."""
    fermata = world(stack, FAKE_CUDA_MIG="1")
    worker = fermata.cuda_worker()
    check(queues(fermata, worker)[0]["device"].startswith("MIG-"), f"{queues(fermata, worker)}")
    worker.finish()


if __name__ == "__main__":
    main(*seldom_sanitized(without_gates), with_gates, refused_launches, out_of_memory, device_lost, device_lost_at_a_gate,
         device_lost_in_a_worker, closed_descriptors, closed_descriptors_and_then_stopped,
         streams_without_context, context_again, capture_first, own_stream, short_threads, context_of_who_ends,
         threads_cancelled, *seldom_sanitized(threads_cancelled_at_level_1), forks, forks_first, execs, spawns,
         devices, parts)
