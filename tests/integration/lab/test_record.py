#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fermata record: real programs become a workload that `fermata-lab sim` runs, and that `fermata-lab compare` compares."""

import json
import os
import re
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, Fermata, check, eventually, halt, lib_client, main, program  # noqa: E402
from offline import all_of_it_is_simulated, fermata, ns, read, simulated  # noqa: E402


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
    halt(r.p)
    c.advances(16384 // 3 + 100)  # three records and more for each command
    r.p.send_signal(signal.SIGCONT)
    leave(f, c)
    r.end()
    told = re.search(r"# LOST: (\d+) records", read(r.path).text)
    check(told and int(told[1]) > 0, read(r.path).text)
    check(f"{told[1]} records were lost: some jobs are missing" in r.said, r.said)
    all_of_it_is_simulated(r.path)


def mistakes(stack):
    f = Fermata(stack)
    there, plain = os.path.join(f.dir, "there"), os.path.join(f.dir, "plain")
    for path in there, plain:
        with open(path, "wb") as out:
            out.write(b"FMTRACE\0" + b"\1" * 200)
    for argv, status, text in (
            ((), 2, "no output file: give -o FILE"),
            (("-o", "x", "-d", "soon"), 2, "'soon' is not a number of seconds"),
            (("-o", "x", "--arrivals", "never"), 2, "auto, open or closed"),
            (("-o", "x", "--from", "y", "-d", "1"), 2, "--from takes neither"),
            (("-o", there), 1, "--force replaces it"),
            (("-o", f.dir, "--force"), 2, "is not a regular file"),
            (("-o", os.path.join(f.dir, "no", "where")), 1, "No such file or directory"),
            (("-o", os.path.join(f.dir, "new"), "--from", plain), 2, "a trace of version"),
            (("-o", os.path.join(f.dir, "new"), "--from", "/dev/null"), 2, "this is not a trace of Fermata"),
            (("-o", os.path.join(f.dir, "new"), "-d", "0.1"), 1, "no program used a device during the recording")):
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
    # Another, which is full in the middle of what is written.
    trace = os.path.join(f.dir, "trace")
    f.cli("sim", os.path.join(os.environ["SOURCE"], "examples", "sim", "inference.ini"), "--trace", trace)
    with open("/dev/full", "w", encoding="ascii") as full:
        r = subprocess.run([FERMATA, "record", "-q", "--from", trace, "-o", "-"], env=f.env, text=True, stdout=full,
                           stderr=subprocess.PIPE, timeout=60, check=False)
    check(r.returncode == 1 and r.stderr.count("cannot write") == 1 and "No space left on device" in r.stderr, f"{r}")
    leave(f, c)
    f.kill()
    r = f.cli("record", "-o", os.path.join(f.dir, "new"), check_status=False)
    check(r.returncode == 4 and "no daemon runs" in r.stderr, f"{r}")


if __name__ == "__main__":
    main(a_run_on_the_simulated_device, a_trace_has_the_same_in_it, a_command_is_recorded, opencl_programs,
         the_daemon_ends, what_is_lost_is_told, mistakes)
