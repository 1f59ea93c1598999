#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fermata trace: recordings of real programs, what becomes of them when programs, the daemon or the recorder end,
what an enemy can do with a ring, and whether a timeline shows who stopped whom and why."""

import csv
import glob
import io
import json
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, PATIENCE, Fermata, LibClient, Skip, check, eventually, halt, lib_client, main, program  # noqa: E402

RECORD, LANES, LANE, RING_HEAD = 64, 4, 8192, 4096


class Recording:
    """fermata trace record, as a person would run it."""

    def __init__(self, stack, f, *options, name="trace"):
        self.f, self.path = f, os.path.join(f.dir, name)
        self.p = subprocess.Popen([FERMATA, "trace", "record", "-o", self.path, *options], env=f.env, text=True,
                                  stderr=subprocess.PIPE)
        stack.callback(self.close)
        self.error = None
        eventually("it records", self.records_now)

    def records_now(self):
        if self.p.poll() is not None:
            raise AssertionError(f"it ended with status {self.p.returncode}: {self.p.stderr.read()}")
        return os.path.exists(self.path) and os.path.getsize(self.path) > 56

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        self.p.stderr.close()

    def end(self, sig=signal.SIGINT, status=0):
        if self.p.poll() is None:
            self.p.send_signal(sig)
        self.error = self.p.communicate(timeout=60)[1]
        check(self.p.returncode == status, f"it ended with status {self.p.returncode}: {self.error}")
        return self

    def records(self):
        r = self.f.cli("trace", "dump", "--json", self.path)
        return [json.loads(line) for line in r.stdout.splitlines()]

    def hears(self, c):
        """Wait until there are records of its own. A client that works is sent its ring, and takes it, at some time
        after the recording has begun."""
        eventually(f"{c.pid} is recorded", lambda: seen(self.records(), "segment_done", pid=c.pid))

    def timeline(self):
        to = self.path + ".json"
        self.f.cli("trace", "export", self.path, "-o", to)
        with open(to, encoding="utf-8") as f:
            return json.load(f)["traceEvents"]


def seen(records, event, **members):
    return [r for r in records if r["event"] == event and all(r.get(k) == v for k, v in members.items())]


def group(f, stack, name, *options):
    return lib_client(f, stack, "-", "--group", name, *options)


def preempted(stack, *options):
    """A recording in which `urgent` stops `batch`, and lets it go on."""
    f = Fermata(stack)
    batch = group(f, stack, "batch")
    batch.do("feed")
    batch.advances()
    r = Recording(stack, f, *options)
    r.hears(batch)
    urgent = group(f, stack, "urgent", "--priority", "high")

    def stopped():
        """A short job may end before the daemon looks, and batch may be at rest just then."""
        before = f.preemptions()
        urgent.do("burst 30")
        batch.advances()
        return f.preemptions() > before

    for _ in range(3):
        eventually("batch is stopped", stopped)
    urgent.quit()
    batch.quit()
    return r.end()


def who_was_stopped_for_whom_and_why(stack):
    records = preempted(stack).records()
    check([r["time_ns"] for r in records] == sorted(r["time_ns"] for r in records), "records are not by time")
    closed = seen(records, "gate_closed", group="batch", cause="urgent", reason="highest priority")
    check(len(closed) >= 3, f"batch was not stopped for urgent: {closed}")
    check(seen(records, "ready", group="urgent", device="shared:0"), "urgent was never ready")
    check(seen(records, "decided", group="urgent", reason="highest priority"), "nobody decided for urgent")
    stalls = seen(records, "stalled", group="batch", cause="urgent")
    check(len(stalls) >= 3 and all(s["took"] >= 0 for s in stalls), f"batch never came to rest: {stalls}")
    check(seen(records, "idle", group="urgent"), "urgent was never idle")
    check(seen(records, "hint", group="urgent", hint="priority", value=64), "the hint is missing")
    for event in "segment_sealed", "segment_done", "gate_placed", "gates_passed":
        check(seen(records, event, group="batch", queue="q1"), f"batch has no record of {event}")
    check(seen(records, "left", group="urgent"), "urgent did not leave")


def nanoseconds(e):
    """As Perfetto's trace processor reads times (CoerceToTs): a double, a thousand times, and cut off."""
    e["at"], e["end"] = int(e["ts"] * 1000.0), int(e["ts"] * 1000.0) + int(e.get("dur", 0) * 1000.0)
    return e


def each_level_in_its_own_words(stack):
    """How a program is stopped depends on the level; each has its events."""
    for level, events in ((1, ("hold_begin", "hold_end")), (2, ("rested", "went_on")), (3, ("interrupted", "restored"))):
        f = Fermata(stack)
        f.env["FERMATA_LEVEL"] = str(level)
        batch = group(f, stack, "batch")
        batch.do("feed")
        r = Recording(stack, f)
        r.hears(batch)

        def all_seen():
            """It may have nothing under way just when it is stopped."""
            f.cli("suspend", "batch")
            batch.stands_still()
            f.cli("resume", "batch")
            batch.advances()
            records = r.records()
            return all(seen(records, event, group="batch", queue="q1") for event in events)  # noqa: B023

        eventually(f"level {level}: records of {events}", all_seen)
        batch.quit()
        check_timeline(r.end().timeline())


def what_people_and_programs_ask_for(stack):
    f = Fermata(stack, "[admission]\nepsilon_us = 200\n")
    c = group(f, stack, "task")
    c.do("burst 2")
    r = Recording(stack, f)
    c.do("segment 9")
    c.do("end")
    f.cli("hint", "task", "weight=7")
    f.cli("suspend", "task")
    f.cli("resume", "task")
    check(c.ask("admit 1000 1000").split()[1] == "0", "the task is not admitted")

    def noticed():
        c.do("burst 50")  # ten times what it declared; the daemon may look too late
        (t,) = json.loads(f.cli("ps", "--tasks", "--json").stdout)["tasks"]
        return t["overruns"] and t["violations"]

    eventually("that is noticed", noticed)
    c.do("leave")
    f.cli("policy", "fair")
    c.quit()
    eventually("it has left", lambda: not f.group(c.pid))
    records = r.end().records()
    for event, members in (("declared_begin", {"priority": 9}), ("declared_end", {}),
                           ("hint", {"hint": "weight", "value": 7}), ("suspended", {}), ("resumed", {}),
                           ("overrun", {"declared": 1000000}), ("job_late", {"deadline": 10**9}),
                           ("queue_gone", {"pid": c.pid}), ("left", {"pid": c.pid})):
        check(seen(records, event, group="task", **members), f"no record of {event} with {members}")
    check(seen(records, "policy", reason="fair"), "no record of the policy")
    names = {e["name"] for e in r.timeline() if e["ph"] == "i"}
    check({"hint task", "suspended task", "overrun task", "policy"} <= names, f"the timeline has {names}")



def misses_its_deadline(f, c):
    """Jobs of ten milliseconds and more, as far as the daemon hears of their beginning in time."""
    c.do("burst 100")
    return f.group(c.pid)["deadline_misses"] > 0


def who_misses_a_wish(stack):
    """The hint `deadline`, of a program that has the device to itself, and hears of no admission."""
    f = Fermata(stack)
    c = group(f, stack, "late", "--deadline", "1ms")
    r = Recording(stack, f)
    eventually("a job takes longer than its deadline", lambda: misses_its_deadline(f, c))
    g = f.group(c.pid)
    check(g["deadline_jobs"] >= g["deadline_misses"] >= 1, f"{g}")
    top = json.loads(f.cli("top", "--once", "--json").stdout)["groups"][0]
    check(top["name"] == "late" and top["deadline_misses"] >= g["deadline_misses"], f"{top}")
    metrics = f.cli("metrics").stdout
    for name, least in (("deadline_misses_total", g["deadline_misses"]), ("deadline_jobs_total", g["deadline_jobs"]),
                        ("deadline_seconds", 0.001)):
        found = re.search(r'^fermata_group_%s\{group="late",.*\} (\S+)$' % name, metrics, re.M)
        check(found and float(found[1]) >= least, f"{name}: {metrics}")
    other = group(f, stack, "other")
    check("deadline_misses" not in f.group(other.pid), "who has no deadline misses none")
    c.quit()
    records = seen(r.end().records(), "deadline_missed", group="late", deadline=1000000)
    check(records and all(x["response"] > 1000000 for x in records), f"{records}")


def check_timeline(events):
    """The rules of the format, and of Perfetto's importer: events by time and then by their order in the file, slices
    of one track nest or follow each other, an arrow's ends are bound to the innermost slice that is open there."""
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    check(len({tid for _, tid in threads}) == len(threads), f"threads of one number: {threads}")
    flows, stacks = {}, {}
    for e in sorted((nanoseconds(e) for e in events if e["ph"] != "M"), key=lambda e: e["at"]):
        where = e["pid"], e["tid"]
        check(where in threads and e["pid"] in processes, f"an event on a track without a name: {e}")
        check(e["ph"] in "XisfC" and e["at"] > 0 and e["name"], f"no event: {e}")
        stack = stacks.setdefault(where, [])
        while stack and stack[-1]["end"] <= e["at"]:
            stack.pop()
        if e["ph"] == "X":
            check(e["end"] > e["at"], f"a slice without a length: {e}")
            check(not stack or e["end"] <= stack[-1]["end"], f"slices overlap: {stack[-1:]} and {e}")
            stack.append(e)
        if e["ph"] in "sf":
            check(stack, f"an arrow that begins or ends at nothing: {e}")
            flows.setdefault(e["id"], {})[e["ph"]] = dict(e, slice=stack[-1], track=threads[where])
        if e["ph"] == "C":
            check(all(isinstance(v, (int, float)) for v in e["args"].values()), f"a counter without a value: {e}")
    check(all(set(f) == {"s", "f"} and f["s"]["at"] <= f["f"]["at"] for f in flows.values()), f"a torn arrow: {flows}")
    return threads, processes, flows


def the_timeline_shows_it(stack):
    events = preempted(stack).timeline()
    threads, processes, flows = check_timeline(events)
    check("shared:0" in processes.values() and "fermatad" in processes.values(), f"processes: {processes}")
    names = " ".join(threads.values())
    for track in "device: ", "group batch", "group urgent", "queue q1 ", "queue q2 ":
        check(track in names, f"there is no track {track}: {names}")
    arrows = [f for f in flows.values() if f["s"]["track"] == "group urgent" and f["f"]["track"] == "group batch"]
    check(len(arrows) >= 3, f"no arrow from urgent to batch: {flows}")
    slices = [dict(e, track=threads[e["pid"], e["tid"]]) for e in events if e["ph"] == "X"]
    for a in arrows:
        check(a["s"]["args"]["reason"] == "highest priority", f"without a reason: {a}")
        check(a["s"]["slice"]["name"] == "ready", f"it does not begin at a ready edge: {a['s']}")
        check(a["f"]["slice"]["name"] == "waits for urgent", f"it does not end at who was stopped: {a['f']}")
        stops = [s for s in slices if s["track"] == "group batch" and s["name"] == "stopping for urgent"
                 and s["end"] == a["f"]["at"]]
        if not stops:  # it rested already
            stops = [a["f"]["slice"]]
            check(stops[0]["at"] == a["f"]["at"], f"it does not end where batch came to rest: {a['f']}")
        check(stops[0]["args"]["cause"] == "urgent", f"for somebody else: {a['f']}")
        check(stops[0]["args"]["reason"] == "highest priority", f"without a reason: {stops}")
    for track, name in (("group batch", "waits for urgent"), ("group batch", "runs"), ("group urgent", "runs")):
        check(any(s["track"] == track and s["name"] == name for s in slices), f"no slice '{name}' on {track}")
    counters = {e["name"] for e in events if e["ph"] == "C"}
    for name in "share of the device: batch", "commands under way: urgent", "queue depth: q1 lib_client":
        check(name in counters, f"no counter '{name}': {counters}")


def in_perfettos_words(stack):
    """The same, asked of Perfetto's own reader, where it is installed."""
    reader = shutil.which(os.environ.get("TRACE_PROCESSOR", "trace_processor_shell"))
    if not reader:
        raise Skip("there is no trace_processor_shell of Perfetto's; TRACE_PROCESSOR may name one")
    r = preempted(stack)
    r.timeline()

    def ask(question):
        query = r.path + ".sql"
        with open(query, "w", encoding="ascii") as f:
            f.write(question)
        answer = subprocess.run([reader, "-q", query, r.path + ".json"], text=True, capture_output=True, check=True)
        return list(csv.reader(io.StringIO(answer.stdout)))[1:]

    wrong = ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    check(not wrong, f"it did not understand: {wrong}")
    who = ask("""
        select cause.name, causes.name, effect.name, effects.name, extract_arg(effect.arg_set_id, 'args.reason')
        from flow
        join slice cause on flow.slice_out = cause.id join thread_track ct on cause.track_id = ct.id
        join slice effect on flow.slice_in = effect.id join thread_track et on effect.track_id = et.id
        join thread causes on ct.utid = causes.utid join thread effects on et.utid = effects.utid""")
    arrow = ["ready", "group urgent", "waits for urgent", "group batch", "highest priority"]
    check(who.count(arrow) >= 3, f"who stopped whom, and why: {who}")
    shares = ask("""
        select t.name, max(c.value) from counter c join counter_track t on c.track_id = t.id group by 1""")
    share = [float(row[1]) for row in shares if row[0].startswith("share of the device: batch")]
    check(len(share) == 1 and 0 < share[0] <= 100.1, f"counters: {shares}")


def for_scripts_and_for_people(stack):
    r = preempted(stack)
    rows = list(csv.DictReader(io.StringIO(r.f.cli("trace", "dump", "--csv", r.path).stdout)))
    records = r.records()
    check(len(rows) == len(records), f"{len(rows)} rows, {len(records)} records")
    for row, record in zip(rows, records):
        check(row["event"] == record["event"] and int(row["time_ns"]) == record["time_ns"], f"{row} is not {record}")
        check(row["group"] == record.get("group", "") and row["cause"] == record.get("cause", ""), f"{row}: {record}")
    stalled = next(row for row in rows if row["event"] == "stalled")
    check(stalled["arg1"] == "took" and int(stalled["value1"]) >= 0, f"{stalled}")
    text = r.f.cli("trace", "dump", r.path).stdout
    check(re.search(r"ms +gate_closed +batch on shared:0 for urgent \(highest priority\) pending=", text), text[:2000])


def a_killed_client_leaves_its_records(stack):
    f = Fermata(stack)
    r = Recording(stack, f)
    c = group(f, stack, "victim")
    c.do("feed")
    r.hears(c)
    c.advances(200)
    c.kill()
    eventually("it has left", lambda: not f.group(c.pid))
    r.end()
    done = seen(r.records(), "segment_done", group="victim")
    check(len(done) >= 20, f"{len(done)} of its segments")
    check(seen(r.records(), "left", group="victim"), "its end is missing")


def rings_of(pid):
    """The descriptors of a process that are rings which it may write."""
    rings = []
    for name in os.listdir(f"/proc/{pid}/map_files"):
        path = f"/proc/{pid}/map_files/{name}"
        try:
            if "fermata-trace" in os.readlink(path):
                rings.append(path)
        except OSError:
            pass
    return rings


def an_enemy_spoils_its_own_trace_alone(stack):
    """A client that scribbles over all of its ring, again and again, beside one that works."""
    if os.geteuid():
        raise Skip("only root may write another process's memory")
    f = Fermata(stack)
    r = Recording(stack, f)
    honest, enemy = group(f, stack, "honest"), group(f, stack, "enemy")
    enemy.do("feed")
    r.hears(enemy)

    def works():
        """Less in all than its ring holds, however late the recorder comes."""
        honest.do("burst 5")
        return seen(r.records(), "segment_done", group="honest")

    eventually("the honest one is recorded", works)
    path = eventually("it has a ring", lambda: rings_of(enemy.pid))
    with open(path[0], "r+b") as ring, mmap.mmap(ring.fileno(), RING_HEAD + LANES * LANE * RECORD) as m:
        for i in range(20):
            junk = os.urandom(1 << 16)
            for at in range(0, len(m), len(junk)):
                m[at:at + min(len(junk), len(m) - at)] = junk[:min(len(junk), len(m) - at)]
            for lane in range(LANES):
                m[64 + 64 * lane:72 + 64 * lane] = struct.pack("=Q", (1 << 40) * (i + 1))
            honest.do("burst 5")
    honest.quit()
    enemy.do("enough")
    r.end()
    check("records of lib_client (pid %d) were lost" % enemy.pid in r.error, f"the loss is not told: {r.error}")
    check("(pid %d) were lost" % honest.pid not in r.error, f"the honest one has lost something: {r.error}")
    records = [x for x in r.records() if x["pid"] == honest.pid]
    done = [x["segment"] for x in seen(records, "segment_done", group="honest") if x["segment"]]
    check(done == sorted(set(done)) and len(done) > 5, f"the segments of the honest one: {done}")
    check_timeline(r.timeline())


def what_is_lost_is_counted(stack):
    """A recorder that sleeps: its rings are overwritten."""
    f = Fermata(stack)
    f.env["FERMATA_INTERVAL_US"] = "10"
    c = group(f, stack, "busy")
    r = Recording(stack, f)
    c.do("feed")
    r.hears(c)
    halt(r.p)
    c.advances(LANES * LANE // 3 + 100)  # three records and more for each command
    r.p.send_signal(signal.SIGCONT)
    c.quit()
    eventually("it has left", lambda: not f.group(c.pid))
    r.end()
    told = re.search(r"(\d+) records of lib_client \(pid %d\) were lost" % c.pid, r.error)
    check(told and int(told[1]) > 0, f"the loss is not told: {r.error}")
    dump = f.cli("trace", "dump", r.path)
    check(told[0] in dump.stderr, f"dump does not tell: {dump.stderr}")
    check(any(e["ph"] == "i" and told[0] in e["name"] for e in r.timeline()), "the timeline does not tell")


def nobody_records_and_it_ends(stack):
    """With the recorder the rings go, however it ends; another recording begins afresh."""
    f = Fermata(stack)
    c = group(f, stack, "batch")
    c.do("feed")
    first = Recording(stack, f, name="first")
    first.hears(c)
    first.p.kill()
    first.end(status=-signal.SIGKILL)
    c.advances()
    dump = f.cli("trace", "dump", first.path)
    check("cut off" in dump.stderr or "did not end regularly" in dump.stderr, f"nothing is said: {dump.stderr}")
    second = Recording(stack, f, name="second")
    second.hears(c)
    second.end()
    short = Recording(stack, f, "--duration", "0.3", name="short")
    check(short.p.wait(60) == 0, "a recording of 0.3 s does not end")
    short.end()
    third = Recording(stack, f, name="third")
    f.kill()
    third.end(status=1)
    check("the daemon ended the recording, or ended itself\n  hint: " in third.error, third.error)
    c.advances()
    f.start()
    eventually("it is scheduled again", lambda: f.group(c.pid))
    c.quit()


def one_group_alone(stack):
    f = Fermata(stack)
    r = Recording(stack, f, "--group", "one")
    a, b = group(f, stack, "one"), group(f, stack, "other")

    def works():
        for c in (a, b):
            c.do("burst 20")
        return seen(r.records(), "segment_done", pid=a.pid)

    eventually("it is recorded", works)
    a.quit()
    b.quit()
    r.end()
    groups = {x.get("group") for x in r.records() if x["event"] != "decided"}
    check("one" in groups and "other" not in groups, f"recorded: {groups}")
    check(not [x for x in r.records() if x["pid"] == b.pid], "the other's process was recorded")


def a_program_of_any_name(stack):
    """What it is called is its own affair: no text, escapes of a terminal."""
    f = Fermata(stack)
    path = os.fsencode(f.dir) + b"/p\xff\x1b[31m\"x"
    os.symlink(program("lib_client"), path)
    c = LibClient([path, "-"], env=f.env)
    stack.callback(c.close)
    check(c.line("ready") == "ready 0", f"{c.lines}")
    f.knows(c.pid)
    r = Recording(stack, f)
    c.do("feed")
    r.hears(c)
    c.quit()
    r.end()
    names = {x["program"] for x in seen(r.records(), "segment_done", pid=c.pid)}
    check(names == {"p__[31m_x"}, f"it is called {names}")


def mistakes(stack):
    f = Fermata(stack)
    plain = os.path.join(f.dir, "plain")
    with open(plain, "wb") as out:
        out.write(b"FMTRACE\0" + b"\1" * 200)
    whole = os.path.join(f.dir, "whole")
    f.cli("trace", "record", "-o", whole, "-d", "0.1")
    for argv, status, text in (
            (("trace",), 2, "trace needs record or dump"),
            (("trace", "rewind"), 2, "trace does not know 'rewind'"),
            (("trace", "record"), 2, "no output file: give -o FILE"),
            (("trace", "record", "-o", "x", "-d", "soon"), 2, "'soon' is not a number of seconds"),
            (("trace", "record", "-o", os.path.join(f.dir, "no", "where")), 1, "No such file or directory"),
            (("trace", "record", "-o", os.path.join(f.dir, "short"), "-d", "50ms"), 0, ""),
            (("trace", "dump"), 2, "which file?"),
            (("trace", "dump", "/dev/null"), 2, "this is not a trace of Fermata"),
            (("trace", "dump", plain), 2, "a trace of version"),
            (("trace", "export", plain, "-o", "-"), 2, "a trace of version"),
            (("trace", "export", whole, "-o", whole), 2, "is the recording itself"),
            (("trace", "export", whole, "-o", "/dev/null"), 0, ""),
            (("trace", "dump", os.path.join(f.dir, "none")), 1, "No such file or directory")):
        r = f.cli(*argv, check_status=False)
        check(r.returncode == status and text in r.stderr, f"{argv}: status {r.returncode}: {r.stderr}")
    if os.path.exists("/dev/full"):
        r = f.cli("trace", "record", "-o", "/dev/full", "-d", "0.1", check_status=False)
        check(r.returncode == 1 and "/dev/full: cannot write: No space left on device" in r.stderr, f"{r}")
    f.kill()
    r = f.cli("trace", "record", "--force", "-o", plain, check_status=False)
    check(r.returncode == 4 and "no daemon runs" in r.stderr, f"{r}")


def only_so_many_recordings(stack):
    f = Fermata(stack)
    held = [Recording(stack, f, name=f"r{i}") for i in range(9 if not os.geteuid() else 8)]  # root has one more
    r = f.cli("trace", "record", "-o", os.path.join(f.dir, "more"), check_status=False)
    check(r.returncode == 1 and "too many recordings are under way" in r.stderr, f"{r}")
    for h in held:
        h.end()


def memory_is_there_before_it_is_used(stack):
    """What the daemon itself writes to: where memory is short its end would be a signal."""
    f = Fermata(stack)
    s = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    s.settimeout(PATIENCE)
    s.connect(os.path.join(f.dir, "control.sock"))
    s.sendall(b'{"cmd":"trace"}\n')
    fds = []
    while not fds:
        _, fds, _, _ = socket.recv_fds(s, 65536, 4)
    ring = os.fstat(fds[0])
    for fd in fds:
        os.close(fd)
    check(ring.st_blocks * 512 >= ring.st_size > 2**20, f"{ring.st_blocks} blocks for {ring.st_size} bytes")


def probes(stack):
    """At every trace point, where the build has <sys/sdt.h>: those of the daemon, of the library and of the layers."""
    found = {}
    shims = [os.path.relpath(p, BUILD) for p in glob.glob(os.path.join(BUILD, "lib", "libfermata*.so")) if not re.search("rta|profile|record|oclgrind", p)]
    check("lib/libfermata-opencl.so" in shims, f"{shims}")
    for where in "bin/fermatad", *shims:
        r = subprocess.run(["readelf", "-n", os.path.join(BUILD, where)], text=True, capture_output=True, check=True,
                           env=dict(os.environ, LC_ALL="C"))
        found[where] = set(re.findall(r"Provider: fermata\s+Name: (\w+)", r.stdout))
    if not any(found.values()):
        raise Skip("this build has no <sys/sdt.h>")
    source = os.path.join(os.environ["SOURCE"], "src", "trace", "event.h") if "SOURCE" in os.environ else None
    if source:
        with open(source, encoding="ascii") as f:
            of_all = set(re.findall(r"^\tX\((\w+),", f.read(), re.M))
            events = of_all - {"job_arrived", "job_dropped", "job_ended"}  # simulations write them
        check(set().union(*found.values()) == events, f"probes and events differ: {set().union(*found.values()) ^ events}")
    check({"ready", "decided", "gate_closed", "stalled", "policy_dropped"} <= found["bin/fermatad"], f"{found}")
    for where in shims:
        check({"segment_sealed", "gate_placed", "daemon_lost", "interrupted"} <= found[where], f"{where}: {found}")


if __name__ == "__main__":
    main(who_was_stopped_for_whom_and_why, the_timeline_shows_it, in_perfettos_words, for_scripts_and_for_people,
         each_level_in_its_own_words, what_people_and_programs_ask_for, who_misses_a_wish,
         a_killed_client_leaves_its_records, an_enemy_spoils_its_own_trace_alone, what_is_lost_is_counted,
         nobody_records_and_it_ends, one_group_alone, a_program_of_any_name, mistakes, only_so_many_recordings,
         memory_is_there_before_it_is_used, probes)
