#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fermata record: real programs become a workload that `fermata sim` runs; what exactly becomes of a trace, by traces that
are made here; and fermata compare, of recorded and simulated runs."""

import csv
import io
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, FERMATA, Fermata, check, eventually, lib_client, main, program  # noqa: E402

SOURCE = os.environ.get("SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
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


class Workload:
    """What is in a workload file: sections, each with its keys, in lists for those that come several times."""

    def __init__(self, text):
        self.text, self.sections = text, {}
        for line in text.splitlines():
            if line.startswith("["):
                section = self.sections.setdefault(line.strip("[]"), {})
            elif line and not line.startswith("#"):
                key, value = (w.strip() for w in line.split("=", 1))
                section.setdefault(key, []).append(value)

    def group(self, name):
        return self.sections["group " + name]

    def one(self, section, key):
        values = self.sections[section].get(key, [])
        check(len(values) == 1, f"[{section}] {key}: {values}")
        return values[0]

    def jobs(self, name):
        """Times, lengths, commands and pauses; a pause of the first is None."""
        jobs = []
        for line in self.group(name).get("job", []):
            at, length, commands, *pause = line.split()
            jobs.append((ns(at), ns(length), int(commands), ns(pause[0]) if pause else None))
        return jobs


def ns(text):
    check(text.endswith("ns"), f"no time in ns: {text}")
    return int(text[:-2])


def read(path):
    with open(path, encoding="ascii") as f:
        return Workload(f.read())


def fermata(*argv, status=0, **popen):
    r = subprocess.run([FERMATA, *argv], text=True, capture_output=True, timeout=120, check=False, **popen)
    check(r.returncode == status, f"fermata {' '.join(argv)}: status {r.returncode}: {r.stderr}")
    return r


def simulated(path, *options):
    """What all of a workload comes to: however late its last job is, its end is within."""
    return json.loads(fermata("sim", path, "--duration", "1000s", "--json", *options).stdout)


def all_of_it_is_simulated(path, *options):
    """Each job of the workload, and its device time to the nanosecond."""
    w, r = read(path), simulated(path, *options)
    check(len(r["groups"]) == sum(s.startswith("group ") for s in w.sections), f"{r['groups']}")
    for g in r["groups"]:
        jobs = w.jobs(g["name"])
        check((g["jobs"], g["left"], g["dropped"]) == (len(jobs), 0, 0), f"of {len(jobs)} jobs: {g}")
        check(g["served_ns"] == sum(j[1] for j in jobs), f"another device time: {g}")
    return w, r


class Recording:
    def __init__(self, stack, f, *argv, path=None, **popen):
        self.f, self.path = f, path or os.path.join(f.dir, "run.ini")
        self.p = subprocess.Popen([FERMATA, "record", "-o", self.path, *argv], env=f.env, text=True,
                                  stderr=subprocess.PIPE, **popen)
        stack.callback(self.close)
        line = self.p.stderr.readline()
        check(line.startswith("fermata: recording into "), line)

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        self.p.stderr.close()

    def end(self, sig=signal.SIGINT, status=0):
        if sig:
            self.p.send_signal(sig)
        self.said = self.p.communicate(timeout=60)[1]
        check(self.p.returncode == status, f"it ended with status {self.p.returncode}: {self.said}")
        return self


def works(f, pid):
    g = f.group(pid)
    return g and any(d["state"] in ("ready", "running") for d in g["devices"])


def rounds(f, client, n):
    """The daemon has seen so many jobs of it, whatever else the machine does; there may be more."""
    for _ in range(n):
        client.do("feed")
        eventually("it has work", lambda: works(f, client.pid))
        client.do("enough")
        eventually("it has none", lambda: not works(f, client.pid))


def leave(f, *clients):
    for c in clients:
        c.quit()
        eventually("it has left", lambda: not f.group(c.pid))


def a_run_on_the_simulated_device(stack):
    """Alone on its device at first: its jobs are told all the same."""
    f = Fermata(stack)
    batch = lib_client(f, stack, "-", "--group", "batch", "--priority", "low")
    r = Recording(stack, f)
    rounds(f, batch, 4)
    urgent = lib_client(f, stack, "-", "--group", "urgent", "--priority", "high", "--deadline", "20ms")
    f.cli("hint", "urgent", "weight=7")
    rounds(f, urgent, 3)
    f.cli("hint", "urgent", "weight=8")
    leave(f, urgent, batch)
    r.end()
    w, sim = all_of_it_is_simulated(r.path)
    check(len(w.jobs("batch")) >= 4 and len(w.jobs("urgent")) >= 3, w.text)
    check(w.one("workload", "policy") == "fixed-priority", w.text)
    check(w.one("device shared_0", "level") in "23", w.text)
    for name, priority in (("batch", "-64"), ("urgent", "64")):
        check(w.one("group " + name, "priority") == priority, w.text)
        check(w.one("group " + name, "devices") == "shared_0", w.text)
        check(ns(w.one("group " + name, "stop")) <= ns(w.one("workload", "duration")), w.text)
    check(w.one("group urgent", "deadline") == "20000000ns" and ns(w.one("group urgent", "start")) > 0, w.text)
    check("start" not in w.group("batch"), "it was there before")
    check([c.split()[1] for c in w.group("urgent")["change"]][-2:] == ["weight=7", "weight=8"], w.text)
    check("LOST" not in w.text and " 0 lost" in r.said, r.said)
    check([g["name"] for g in sim["groups"]] == ["batch", "urgent"], f"{sim['groups']}")
    # What if: the same jobs, another policy.
    fifo = simulated(r.path, "--policy", "fifo")
    check([g["jobs"] for g in fifo["groups"]] == [g["jobs"] for g in sim["groups"]], f"{fifo}")


def a_trace_has_the_same_in_it(stack):
    """Of each job what was charged from its ready edge to the next, to the nanosecond."""
    f = Fermata(stack, "[daemon]\npolicy = round-robin\n[policy round-robin]\nslice = 7\n")
    c = lib_client(f, stack, "-", "--group", "one")
    other = lib_client(f, stack, "-", "--group", "other")
    trace, to = os.path.join(f.dir, "trace"), os.path.join(f.dir, "run.ini")
    p = subprocess.Popen([FERMATA, "trace", "record", "--exact", "-o", trace], env=f.env, stderr=subprocess.DEVNULL)
    stack.callback(p.kill)
    eventually("it records", lambda: os.path.exists(trace) and os.path.getsize(trace) > 56)
    rounds(f, c, 3)
    rounds(f, other, 2)
    rounds(f, c, 2)
    leave(f, c, other)
    p.send_signal(signal.SIGINT)
    check(p.wait(60) == 0, "the recorder failed")
    r = fermata("record", "--from", trace, "-o", to)
    w, _ = all_of_it_is_simulated(to)
    check(w.one("workload", "policy") == "round-robin slice=7000000ns", w.text)
    check(re.search(r"fermata: \d+ jobs of 2 groups on 1 devices", r.stderr), r.stderr)
    records = [json.loads(line) for line in fermata("trace", "dump", "--json", trace).stdout.splitlines()]
    exact = 0
    for name in "one", "other":
        served = [e["served"] for e in records if e["event"] == "ready" and e.get("group") == name]
        jobs = w.jobs(name)
        # At a ready edge that the daemon hears of late there may be nothing to do any more: no job.
        check(2 <= len(jobs) <= len(served), f"{len(jobs)} jobs, {len(served)} ready edges of {name}")
        charged = {after - before for before, after in zip(served, served[1:])}
        exact += sum(j[1] in charged for j in jobs)
    check(exact >= 1, "no job is as long as it was charged")
    # Live and simulated, side by side, by the same names.
    run = os.path.join(f.dir, "run.json")
    with open(run, "w", encoding="ascii") as out:
        out.write(fermata("sim", to, "--json").stdout)
    both = json.loads(fermata("compare", trace, run, "--json").stdout)
    check(sorted(g["name"] for g in both["groups"]) == ["one", "other"], f"{both}")
    check((both["a"]["kind"], both["b"]["kind"], both["only_a"], both["only_b"]) == ("recorded", "simulated", [], []),
          f"{both}")


def a_command_is_recorded(stack):
    """By `fermata run', with the standard input of `fermata record'."""
    f = Fermata(stack)
    r = Recording(stack, f, "-g", "mine", "--", program("lib_client"), "mine", stdin=subprocess.PIPE,
                  stdout=subprocess.PIPE)
    for line in "feed", "state":
        r.p.stdin.write(line + "\n")
        r.p.stdin.flush()
    eventually("it works", lambda: any(g["name"] == "mine" and works(f, q["pid"])
                                           for g in f.ps()["groups"] for q in g["queues"]))
    r.p.stdin.write("enough\nquit\n")
    r.p.stdin.flush()
    r.end(sig=None)
    w, _ = all_of_it_is_simulated(r.path)
    check(len(w.jobs("mine")) >= 1, w.text)
    # How the command ended is told, and what it did is there.
    p = subprocess.run([FERMATA, "record", "-q", "--force", "-o", r.path, "--", "sh", "-c", "exit 3"], env=f.env,
                       text=True, capture_output=True, timeout=60, check=False)
    check(p.returncode == 1 and "ended with status 3" in p.stderr and "nothing is written" in p.stderr, f"{p}")
    check(read(r.path).text == w.text, "the file of before is not as it was")


def opencl_programs(stack):
    """Two that take turns: what they had of the device they have in the simulation, too."""
    f = Fermata(stack, "[daemon]\npolicy = round-robin\n")
    workers = [f.worker("--group", name) for name in ("left", "right")]
    r = Recording(stack, f)
    for w in workers:
        w.advances(40)
    r.end()
    w, sim = all_of_it_is_simulated(r.path)
    duration = ns(w.one("workload", "duration"))
    replayed = json.loads(fermata("sim", r.path, "--json").stdout)["groups"]
    for g, again in zip(sim["groups"], replayed):
        share = again["served_ns"] / sum(j[1] for j in w.jobs(g["name"]))
        # How much less depends on how the machine let them come beside each other.
        check(again["name"] == g["name"] and 0 < share <= 1, f"in the same time it got {share} of what it had")
        check(g["name"] in ("left", "right"), f"{g}")
        recorded = sum(j[1] for j in w.jobs(g["name"]))
        check(0 < recorded <= duration, f"{g['name']}: {recorded} of {duration} ns")
        check(sum(j[2] for j in w.jobs(g["name"])) > 1, "a job of one command cannot be stopped")
    for worker in workers:
        worker.tell("stop")
        worker.wait()


def the_daemon_ends(stack):
    """What there is is written, and the status says that it is not all."""
    f = Fermata(stack)
    c = lib_client(f, stack, "-", "--group", "batch")
    r = Recording(stack, f)
    rounds(f, c, 2)
    f.kill()
    r.end(sig=None, status=1)
    check("the daemon ended the recording, or ended" in r.said, r.said)
    check(len(all_of_it_is_simulated(r.path)[0].jobs("batch")) >= 2, r.said)


def what_is_lost_is_told(stack):
    f = Fermata(stack)
    f.env["FERMATA_INTERVAL_US"] = "10"
    c = lib_client(f, stack, "-", "--group", "busy")
    r = Recording(stack, f)
    c.do("feed")
    c.advances()
    r.p.send_signal(signal.SIGSTOP)
    c.advances(16384 // 3 + 100)  # three records and more for each command
    r.p.send_signal(signal.SIGCONT)
    leave(f, c)
    r.end()
    told = re.search(r"# LOST: (\d+) records", read(r.path).text)
    check(told and int(told[1]) > 0, read(r.path).text)
    check(f"{told[1]} records were lost: jobs are missing" in r.said, r.said)
    all_of_it_is_simulated(r.path)


def mistakes(stack):
    f = Fermata(stack)
    there, plain = os.path.join(f.dir, "there"), os.path.join(f.dir, "plain")
    for path in there, plain:
        with open(path, "wb") as out:
            out.write(b"FMTRACE\0" + b"\1" * 200)
    for argv, status, text in (
            ((), 2, "where to? give -o FILE"),
            (("-o", "x", "-d", "soon"), 2, "'soon' is no number of seconds"),
            (("-o", "x", "--arrivals", "never"), 2, "auto, open or closed"),
            (("-o", "x", "--from", "y", "-d", "1"), 2, "--from takes neither"),
            (("-o", there), 1, "--force replaces it"),
            (("-o", f.dir, "--force"), 1, "is not a regular file"),
            (("-o", os.path.join(f.dir, "no", "where")), 1, "No such file or directory"),
            (("-o", os.path.join(f.dir, "new"), "--from", plain), 1, "a trace of version"),
            (("-o", os.path.join(f.dir, "new"), "--from", "/dev/null"), 1, "this is no trace of Fermata"),
            (("-o", os.path.join(f.dir, "new"), "-d", "0.1"), 1, "no program used a device meanwhile")):
        r = f.cli("record", *argv, check_status=False)
        check(r.returncode == status and text in r.stderr, f"{argv}: status {r.returncode}: {r.stderr}")
    # A disk that is full, as far as this process knows.
    c = lib_client(f, stack, "-", "--group", "batch")
    c.do("feed")
    eventually("it has work", lambda: works(f, c.pid))

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

    r = subprocess.run([FERMATA, "record", "-o", os.path.join(f.dir, "new"), "-d", "30"], env=f.env, text=True,
                       capture_output=True, timeout=60, preexec_fn=small, check=False)
    check(r.returncode == 1 and "new: cannot write: File too large" in r.stderr, f"{r}")
    left = [name for name in os.listdir(f.dir) if name.startswith(("new", "there."))]
    check(not left, f"files are left: {left}")
    leave(f, c)
    f.kill()
    r = f.cli("record", "-o", os.path.join(f.dir, "new"), check_status=False)
    check(r.returncode == 3 and "no daemon runs" in r.stderr, f"{r}")


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
    t.name(t.DEVICE, 2, "cuda:0\x1b")
    for number, name in ((2, "A b[1]\n"), (3, "A_b_1_"), (4, "idle")):
        t.name(t.GROUP, number, name)
    t.add(1000, "setting", 3 * MS, reason=2)
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
    check(w.one("workload", "policy") == "fair slice=3000000ns" and "changed 1 times" in w.text, w.text)
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
    check("64 devices" in workload_of(t, status=1).stderr, "more devices than a workload can have")
    t = one_group(f)
    t.add(10**18, "queue_added", 1, 1, 4, group=1, device=1)
    check("more than a year apart" in workload_of(t, status=1).stderr, "a recording of years")
    t = Trace(os.path.join(f.dir, "made"))
    check("no record of the daemon" in workload_of(t, status=1).stderr, "an empty trace")


def how_late_the_core_looks(stack):
    """Where it waits for the end of a linger: what was simulated is what is recorded of it."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path, trace, again = (os.path.join(dir_, name) for name in ("in.ini", "t.fmt", "out.ini"))
    for late in ("37000ns", None):
        with open(path, "w", encoding="ascii") as out:
            out.write("[workload]\npolicy = round-robin\nduration = 2s\n" + (f"late = {late}\n" if late else "") +
                      "[device d]\nlevel = 3\n[group a]\ncommands = 2ms, pause 200us\n[group b]\ncommands = 3ms, pause 300us\n")
        fermata("sim", "--trace", trace, path)
        fermata("record", "-q", "--force", "--from", trace, "-o", again)
        with open(again, encoding="ascii") as f:
            found = re.search(r"^late = (.*)$", f.read(), re.MULTILINE)
        check((found and found[1]) == late, f"{late}: {found}")
        os.unlink(trace)


def two_runs_side_by_side(stack):
    f = Fermata(stack, start=False)
    example = os.path.join(SOURCE, "examples", "sim", "inference.ini")

    def run(name, *options):
        path = os.path.join(f.dir, name)
        with open(path, "w", encoding="ascii") as out:
            out.write(fermata("sim", example, "--json", *options).stdout)
        return path

    one, two, fifo = run("one"), run("two", "--seed", "2"), run("fifo", "--policy", "fifo")
    same = json.loads(fermata("compare", one, two, "--json", "--fail-if-worse").stdout)
    check((same["slower"], same["faster"]) == (0, 0), f"two seeds: {same}")
    check([g["p50"]["verdict"] for g in same["groups"]] == ["same", "same"], f"{same}")
    worse = json.loads(fermata("compare", one, fifo, "--json", "--fail-if-worse", status=1).stdout)
    g = worse["groups"][0]
    check(g["name"] == "requests" and g["p50"]["verdict"] == g["p99"]["verdict"] == "slower", f"{g}")
    check(0 < g["p50"]["low_ns"] <= g["p50"]["b_ns"] - g["p50"]["a_ns"] <= g["p50"]["high_ns"] and g["p50"]["p"] < 0.05,
          f"{g}")
    with open(one, encoding="ascii") as a, open(fifo, encoding="ascii") as b:
        a, b = json.load(a), json.load(b)
    for key, member in (("late", "late"), ("preemptions", "preemptions")):
        check([x[key] for x in worse["groups"]] == [[p[member], q[member]] for p, q in zip(a["groups"], b["groups"])], key)
    share = 100 * a["groups"][0]["served_ns"] / sum(d["time_ns"] for d in a["devices"])
    check(abs(g["share_percent"][0] - share) < 1e-6, f"{g}, {share}")
    better = json.loads(fermata("compare", fifo, one, "--json").stdout)
    check(better["faster"] == worse["slower"] > 0 and better["slower"] == 0, f"{better}")
    check(fermata("compare", one, fifo).stdout == fermata("compare", one, fifo).stdout, "not the same twice")
    check("seed 7" in fermata("compare", one, fifo, "--seed", "7").stdout, "another seed")
    rows = list(csv.DictReader(io.StringIO(fermata("compare", one, fifo, "--csv").stdout)))
    check(len(rows) == 12 and rows[0]["verdict"] == "slower" and rows[2]["what"] == "jobs_per_second", f"{rows}")
    text = fermata("compare", one, fifo).stdout
    check(re.search(r"requests +P50 +[0-9.]+ ms +[0-9.]+ ms +\+[0-9.]+% .* slower", text), text)
    check("simulated under fifo" in text and "with too few jobs (5%" in text, text)


def runs_that_are_none(stack):
    f = Fermata(stack, start=False)
    path, run = os.path.join(f.dir, "run"), os.path.join(f.dir, "sim")
    with open(run, "w", encoding="ascii") as out:
        out.write(fermata("sim", os.path.join(SOURCE, "examples", "sim", "pipeline.ini"), "--json").stdout)
    good = json.loads(open(run, encoding="ascii").read())

    def refused(text, what):
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        r = fermata("compare", run, path, status=1)
        check(r.stderr.startswith(f"fermata: {path}") and what in r.stderr, r.stderr)

    refused("", "expected near end of file")
    refused("[workload]\n", "compare what `fermata sim --json' makes of it")
    refused("[]", "no answer of `fermata sim --json'")
    refused("FMTRACE\0" + "\1" * 200, "a trace of version")
    for change in ({"duration_ns": 0}, {"machines": 0}, {"policy": 5}, {"devices": [{}]}, {"groups": 7}):
        refused(json.dumps(dict(good, **change)), "no answer of")
    for change in ({"jobs": -1}, {"name": None}, {"late": 0.5}, {"response_histogram": {"5": 1}},
                   {"response_histogram": {"x": good["groups"][0]["jobs"]}}):
        refused(json.dumps(dict(good, groups=[dict(good["groups"][0], **change)])), "a group that is not as")
    refused(json.dumps(dict(good, groups=good["groups"][:1] * 2)), "two groups of one name")
    one = json.dumps(dict(good, groups=[dict(good["groups"][0], name="other")]))
    with open(path, "w", encoding="ascii") as out:
        out.write(one)
    check("no group in common" in fermata("compare", run, path, status=1).stderr, "nothing in common")
    check("which two runs?" in fermata("compare", run, status=2).stderr, "one alone")
    check("No such file" in fermata("compare", run, path + "x", status=1).stderr, "none")
    # Without the histogram there are numbers, but no verdict.
    for g in good["groups"]:
        del g["response_histogram"]
    with open(path, "w", encoding="ascii") as out:
        json.dump(good, out)
    both = json.loads(fermata("compare", run, path, "--json").stdout)
    check({g["p50"]["verdict"] for g in both["groups"]} == {"too-few"}, f"{both}")


if __name__ == "__main__":
    check(os.path.isdir(BUILD), "no build")
    main(a_run_on_the_simulated_device, a_trace_has_the_same_in_it, a_command_is_recorded, opencl_programs,
         the_daemon_ends, what_is_lost_is_told, mistakes, how_long_jobs_are, devices_with_turns, who_comes_goes_and_changes,
         by_a_clock_or_one_after_the_other, too_much, how_late_the_core_looks, two_runs_side_by_side, runs_that_are_none)
