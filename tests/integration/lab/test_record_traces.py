#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What exactly `fermata record --from' makes of a trace, by traces that are made here."""

import os
import random
import re
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, check, main  # noqa: E402
from offline import all_of_it_is_simulated, fermata, read  # noqa: E402

SOURCE = os.environ.get("SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
MS = 10**6


def events():
    """Numbers by names: the order in the table."""
    with open(os.path.join(SOURCE, "src", "trace", "event.h"), encoding="ascii") as f:
        table = f.read().split("#define FM_TRACE_EVENTS(X)")[1].split("enum fm_trace_event")[0]
    return {name: i + 1 for i, name in enumerate(re.findall(r"\bX\((\w+),", table))}


class Trace:
    """A trace file, as src/trace/file.h has it; times in ns."""

    RING, GROUP, DEVICE, REASON, QUEUE = range(1, 6)
    EVENTS = events()

    def __init__(self, path):
        self.path, self.records, self.names = path, {0: []}, []
        self.lost = 0
        self.name(self.RING, 0, "fermatad", pid=1)

    def name(self, kind, number, text, pid=0, slot=0, group=0, device=0, since=0):
        text = text.encode() + b"\0"
        text += b"\0" * (-len(text) % 8)
        self.names.append(struct.pack("=IIiIIIQ", kind, number, pid, slot, group, device, since) + text)

    def add(self, at, event, *args, group=0, device=0, reason=0, ring=0, slot=0xffff):
        args = [a % 2**64 for a in args] + [0] * (3 - len(args))
        records = self.records.setdefault(ring, [])
        records.append(struct.pack("=QQHHIIIIIQQQ", len(records), at, self.EVENTS[event], slot, group, device, 0, reason,
                                   0, *args))

    def write(self):
        with open(self.path, "wb") as f:
            f.write(struct.pack("=8sIIIIQQQQ", b"FMTRACE", 1, 56, 64, 0, 0, 0, 0, 0))
            for n in self.names:
                f.write(struct.pack("=II", 1, len(n)) + n)
            for ring, records in self.records.items():
                f.write(struct.pack("=IIIIQ", 2, 16 + 64 * len(records), ring, len(records), self.lost))
                f.write(b"".join(records))
            f.write(struct.pack("=IIII", 3, 8, 0, 0))
        return self.path


def workload_of(trace, *options, status=0):
    to = trace.path + ".ini"
    r = fermata("record", "--force", "--from", trace.write(), "-o", to, *options, status=status)
    return r if status else read(to)


def one_group(f, name="group"):
    t = Trace(os.path.join(f.dir, "made"))
    t.name(t.GROUP, 1, name)
    t.name(t.DEVICE, 1, "cuda:0")
    t.name(t.REASON, 1, "fair")
    t.add(1000, "policy", reason=1)
    return t


def how_long_jobs_are(stack):
    f = Fermata(stack, start=False)
    t = one_group(f)
    t.name(t.RING, 5, "program", pid=77)
    t.name(t.QUEUE, 9, "program", pid=77, slot=3, group=1, device=1)
    t.add(1000, "queue_added", 9, 77, 6, group=1, device=1)
    on = {"group": 1, "device": 1}
    t.add(1 * MS, "ready", 1, 0, **on)  # charged: 3 ms, whatever is told at its end
    t.add(5 * MS, "idle", 0, 4 * MS, **on)
    t.add(10 * MS, "ready", 1, 3 * MS, **on)  # hardly charged, but measured
    t.add(12 * MS, "segment_done", 1, 4, 2 * MS, ring=5, slot=3)
    t.add(12 * MS, "idle", 0, 3 * MS, **on)
    t.add(20 * MS, "ready", 1, 3 * MS, **on)  # neither: so long its gate was open
    t.add(21 * MS, "gate_closed", 1, 3 * MS, 1, **on)
    t.add(26 * MS, "gate_opened", 1, 3 * MS, 1, **on)
    t.add(27 * MS, "idle", 0, 3 * MS, **on)
    t.add(30 * MS, "ready", 1, 3 * MS, **on)  # cut off by the end
    t.add(34 * MS, "hint", 0, 0, group=1)
    jobs = workload_of(t).jobs("group")
    check([j[:2] for j in jobs] == [(1 * MS - 1000, 3 * MS), (10 * MS - 1000, 2 * MS), (20 * MS - 1000, 2 * MS),
                                    (30 * MS - 1000, 4 * MS)], f"{jobs}")
    check([j[2] for j in jobs] == [6, 4, 4, 8], f"commands as long as those that were measured: {jobs}")
    check([j[3] for j in jobs] == [None, 5 * MS, 8 * MS, 3 * MS], f"pauses: {jobs}")


def two_take_turns(f, turn, own_first=False, cycles=24, inputs=()):
    """A victim that always works and one who comes, each with segments of 1 ms. In each cycle the victim is stopped in the midst of
    one; the other has the device for turn(cycle) in between, and for three segments more. Its jobs begin with the inputs, one after
    the other."""
    t = one_group(f, "victim")
    t.name(t.GROUP, 2, "comer")
    for group in (1, 2):
        t.name(t.RING, group + 4, "program", pid=76 + group)
        t.name(t.QUEUE, group + 8, "program", pid=76 + group, slot=3, group=group, device=1)
        t.add(1000, "queue_added", group + 8, 76 + group, 6, group=group, device=1)
    victim, comer = ({"group": group, "device": 1} for group in (1, 2))

    def segment(ring, end, took=MS):
        t.add(end, "segment_done", 0, 1, took, ring=ring, slot=3)

    now = MS
    t.add(now, "ready", 1, 0, **victim)
    for k in range(cycles):
        for _ in range(3):
            now += MS
            segment(5, now)
        now += MS // 2
        t.add(now, "ready", 1, 0, **comer)
        t.add(now, "gate_closed", 1, 0, 1, **victim)
        if own_first:
            now += MS // 2
            segment(5, now)
        if inputs:
            segment(6, now + inputs[k % len(inputs)], inputs[k % len(inputs)])
        for n in range(1, turn(k) + 1):
            segment(6, now + n * MS)
        now += turn(k) * MS + (MS if own_first else MS // 2)
        segment(5, now, turn(k) * MS + MS)
        t.add(now, "stalled", 0, 0, **victim)
        now += MS
        segment(6, now, 2 * MS if own_first else 3 * MS // 2)
        for _ in range(2):
            now += MS
            segment(6, now)
        t.add(now, "idle", 0, 0, **comer)
        t.add(now, "gate_opened", 1, 0, 1, **victim)
        now += 50000
        t.add(now, "went_on", 0, 1, ring=5, slot=3)
    t.add(now, "idle", 0, 0, **victim)
    return workload_of(t)


def devices_with_turns(stack):
    """What is charged and measured while two share a device is not what it did for each: the workload knows."""
    f = Fermata(stack, start=False)
    for own_first in (False, True):
        w = two_take_turns(f, lambda k: 2 + k % 2 * 2, own_first)
        check(w.one("device cuda_0", "slice") == "uniform 1000000ns 5000000ns", w.text)
        check(w.one("device cuda_0", "turns") == ("in-order" if own_first else "fair"), w.text)
        check(w.one("device cuda_0", "open") == "50000ns", w.text)
        check([j[1:3] for j in w.jobs("comer")] == [(n * MS, n) for n in (5, 7) * 12], w.text)
        segments = 24 * (5 if own_first else 4)
        check([j[1:3] for j in w.jobs("victim")] == [(segments * MS, segments)], w.text)
        check("of 25 what the program" in w.text, w.text)
    # A short command that jobs begin with is by itself; where it took longer, others had the device.
    w = two_take_turns(f, lambda k: 2, inputs=(MS // 10, MS * 9 // 10))
    check(w.one("group comer", "input") == "100000ns" and "input" not in w.sections["group victim"], w.text)
    check([j[1:3] for j in w.jobs("comer")] == [(5 * MS + MS // 10, 6)] * 24, w.text)
    check("input" not in two_take_turns(f, lambda k: 2, inputs=(MS * 8 // 10,)).sections["group comer"], "as long as others")
    for few in (two_take_turns(f, lambda k: 0), two_take_turns(f, lambda k: 2, cycles=8)):
        check("slice" not in few.sections["device cuda_0"], "too few turns to tell")


def who_comes_goes_and_changes(stack):
    f = Fermata(stack, start=False)
    t = one_group(f, "A b[1]\n")
    t.name(t.REASON, 2, "slice")
    t.name(t.REASON, 3, "granularity")
    t.name(t.DEVICE, 2, "cuda:0\x1b")
    for number, name in ((2, "A b[1]\n"), (3, "A_b_1_"), (4, "idle")):
        t.name(t.GROUP, number, name)
    t.add(1000, "setting", 3 * MS, reason=2)
    t.add(1000, "setting", 4 * MS, reason=3)
    t.add(2 * MS, "hint", 0, 5, group=1)
    for number, group, at in ((1, 1, 2 * MS), (2, 3, 3 * MS), (3, 4, 3 * MS)):
        t.add(at, "queue_added", number, 1, 8, group=group, device=1)
    t.add(4 * MS, "ready", 1, 0, group=1, device=1)
    t.add(5 * MS, "hint", 0, 6, group=1)
    t.add(6 * MS, "queue_gone", 1, 1, group=1, device=1)  # in the midst of its job
    # The same name, as a new group, on the device and on another.
    t.add(10 * MS, "queue_added", 4, 2, 8, group=2, device=1)
    t.add(10 * MS, "queue_added", 5, 2, 2, group=2, device=2)
    t.add(11 * MS, "ready", 1, 0, group=2, device=1)
    t.add(12 * MS, "idle", 0, MS, group=2, device=1)
    t.add(13 * MS, "queue_gone", 5, 2, group=2, device=2)
    t.add(14 * MS, "policy", reason=1)
    r = fermata("record", "--force", "--from", t.write(), "-o", t.path + ".ini")
    w = read(t.path + ".ini")
    check(set(w.sections) == {"workload", "device cuda_0", "device cuda_0_", "group A_b_1__", "group A_b_1_",
                              "group idle", "group A_b_1__.2"}, f"{set(w.sections)}")
    check(w.one("workload", "policy") == "fair slice=3000000ns granularity=4000000ns", w.text)
    check("changed 1 times" in w.text, w.text)
    check((w.one("device cuda_0", "level"), w.one("device cuda_0_", "level")) == ("3", "1"), w.text)
    first = w.group("A_b_1__")
    check("stop" not in first and first["start"] == [f"{2 * MS - 1000}ns"] and first["priority"] == ["5"], f"{first}")
    check(first["change"] == [f"{3 * MS}ns priority=6", f"{8 * MS}ns priority=0"], f"{first}")
    check([j[:2] for j in w.jobs("A_b_1__")] == [(2 * MS, 2 * MS), (9 * MS, MS)], f"{w.jobs('A_b_1__')}")
    check("1 times it was not there" in w.text and "not a gang here" in w.text and "works on other devices" in r.stderr,
          w.text)
    check(w.group("A_b_1__.2")["stop"] == [f"{13 * MS - 1000}ns"] and "job" not in w.group("idle"), w.text)
    check(all(line.isprintable() for line in w.text.splitlines()), "what steers a terminal is in it")
    all_of_it_is_simulated(t.path + ".ini")


def arrivals(f, times, lengths):
    """Jobs at these times, so long each."""
    t, served = one_group(f), 0
    t.add(1000, "queue_added", 1, 1, 4, group=1, device=1)
    for at, length in zip(times, lengths):
        t.add(at, "ready", 1, served, group=1, device=1)
        t.add(at + length, "idle", 0, served + length, group=1, device=1)
        served += length
    return t


def by_a_clock_or_one_after_the_other(stack):
    f = Fermata(stack, start=False)
    rng = random.Random(1)
    lengths = [(1 + i * 7 % 5) * MS for i in range(100)]
    clock = [(1 + 10 * i) * MS for i in range(100)]
    loop, even = [MS], [MS]
    for i in range(99):
        loop.append(loop[-1] + lengths[i] + 2 * MS)
        even.append(even[-1] + 10 * MS + rng.randrange(100000))  # delays add up
    late = [at + rng.randrange(100000) for at in clock]  # and do not
    same = [2 * MS] * 100
    for what, times, took, how in (("clock", clock, lengths, "trace"), ("loop", loop, lengths, "closed trace"),
                                   ("few", clock[:10], lengths, "closed trace"),
                                   ("a clock that is late now and then", late, same, "trace"),
                                   ("a pause that varies", even, same, "closed trace")):
        w = workload_of(arrivals(f, times, took))
        check(w.one("group group", "arrive") == how, f"{what}: {w.one('group group', 'arrive')}")
        check(len(w.jobs("group")) == len(times), what)
    t = arrivals(f, loop, lengths)
    check(workload_of(t, "--arrivals", "open").one("group group", "arrive") == "trace", "not open")
    check(workload_of(t, "--arrivals", "closed").one("group group", "arrive") == "closed trace", "not closed")
    t.add(1000, "hint", 4, 10 * MS, group=1)
    check(workload_of(t).one("group group", "arrive") == "trace", "it has a period")
    all_of_it_is_simulated(t.path + ".ini", "--arrivals", "closed")


def too_much(stack):
    f = Fermata(stack, start=False)
    t = one_group(f)
    for number in range(2, 68):
        t.add(2000, "queue_added", number, 1, 4, group=1, device=number)
    check("64 devices" in workload_of(t, status=2).stderr, "more devices than a workload can have")
    t = one_group(f)
    t.add(10**18, "queue_added", 1, 1, 4, group=1, device=1)
    check("more than a year apart" in workload_of(t, status=2).stderr, "a recording of years")
    t = Trace(os.path.join(f.dir, "made"))
    check("no record of the daemon" in workload_of(t, status=2).stderr, "an empty trace")


def how_late_the_core_looks(stack):
    """Where it waits for the end of a linger: what was simulated is what is recorded of it."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path, trace, again = (os.path.join(dir_, name) for name in ("in.ini", "t.fmt", "out.ini"))
    often = "measured 0:40us 80:60us 81:2ms 100:4ms"
    for late, linger, pause in (("37000ns", "100us", "200us"), ("37000ns", "auto", often), (None, "100us", "200us"), (None, "auto", often)):
        with open(path, "w", encoding="ascii") as out:
            out.write(f"[workload]\npolicy = round-robin\nduration = 2s\nlinger = {linger}\n" + (f"late = {late}\n" if late else "") +
                      f"[device d]\nlevel = 3\n[group a]\ncommands = 2ms, pause {pause}\n[group b]\ncommands = 3ms, pause {pause}\n")
        fermata("sim", "--trace", trace, path)
        fermata("record", "-q", "--force", "--from", trace, "-o", again)
        with open(again, encoding="ascii") as f:
            text = f.read()
        found = re.search(r"^late = (.*)$", text, re.MULTILINE)
        check((found and found[1]) == late, f"{late}, linger {linger}: {found}")
        check(re.search(r"^linger = (.*)$", text, re.MULTILINE)[1] in (linger, "100000ns"), text)
        os.unlink(trace)


def what_a_simulation_was_of(stack):
    """Its trace tells of the policy's settings, the linger, and how deep each device can stop, as the daemon's does."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path, trace, again = (os.path.join(dir_, name) for name in ("in.ini", "t.fmt", "out.ini"))
    with open(path, "w", encoding="ascii") as out:
        out.write("[workload]\npolicy = mlfq levels=3 quantum=5\nlinger = 30us\nduration = 1s\n")
        for level in (1, 2, 3):
            out.write(f"[device d{level}]\nlevel = {level}\n"
                      f"[group g{level}]\ndevices = d{level}\narrive = every 10ms\ncommands = 2ms\n")
    fermata("sim", "--trace", trace, path)
    fermata("record", "-q", "--from", trace, "-o", again)
    w = read(again)
    check(w.one("workload", "policy") == "mlfq levels=3 quantum=5000000ns", w.text)
    check(w.one("workload", "linger") == "30000ns", w.text)
    for level in (1, 2, 3):
        check(w.one(f"device d{level}", "level") == str(level), w.text)


if __name__ == "__main__":
    main(how_long_jobs_are, devices_with_turns, who_comes_goes_and_changes, by_a_clock_or_one_after_the_other, too_much,
         how_late_the_core_looks, what_a_simulation_was_of)
