#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `fermata-lab sim` leaves besides its summary: a trace that says the same as the summary does, and that `fermata trace`
reads; metrics with the names of `fermata metrics`. The same bytes whatever the threads."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA_LAB, check, command, main, need  # noqa: E402

SIM = os.path.join(os.environ["SOURCE"], "examples", "sim")
PATIENCE = 120

# Gangs, some who come and go, two machines; no warm-up, so that all is counted.
WORLD = """[workload]
policy = fair
duration = 2s
machines = 2
[device gpu]
count = 2
level = 3
switch = 20us
[device npu]
level = 2
gate = 5us
[group busy]
count = 3
commands = 5 x 700us, pause 100us
weight = 200
[group gang]
devices = gpu
together = yes
arrive = every 50ms
commands = 3 x 1ms
deadline = 8ms
[group guest]
devices = npu
start = 300ms
stop = 1500ms
arrive = poisson 10ms
commands = 4 x exp 500us
queue = 3
"""


def fermata(*argv, status=0):
    r = subprocess.run(command(*argv), text=True, capture_output=True, timeout=PATIENCE, check=False)
    check(r.returncode == status, f"{argv}: {r.returncode} {r.stderr}")
    return r


class Run:
    """One simulation with all that it can leave."""

    def __init__(self, stack, workload, *options):
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        self.trace, self.metrics = os.path.join(self.dir, "trace"), os.path.join(self.dir, "prom")
        self.summary = json.loads(fermata("sim", workload, "--json", "--trace", self.trace, "--metrics", self.metrics,
                                          *options).stdout)
        with open(self.metrics, encoding="ascii") as f:
            self.text = f.read()

    def records(self):
        return [json.loads(line) for line in fermata("trace", "dump", "--json", self.trace).stdout.splitlines()]

    def value(self, name, **labels):
        """The sum of what has these labels."""
        sum_ = 0
        for of, number in re.findall(r"^" + name + r"(?:\{(.*)\})? ([0-9.]+)$", self.text, re.M):
            have = dict(re.findall(r'(\w+)="([^"]*)"', of))
            if all(have.get(k) == v for k, v in labels.items()):
                sum_ += float(number)
        return sum_


def world(stack, *options):
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path = os.path.join(dir_, "world.ini")
    with open(path, "w", encoding="ascii") as f:
        f.write(WORLD)
    return Run(stack, path, *options)


def section(name):
    """Of "1/busy.2"."""
    return name.split("/")[-1].split(".")[0]


def the_trace_says_what_the_summary_says(stack):
    run = world(stack)
    records = run.records()
    times = [r["time_ns"] for r in records]
    check(times == sorted(times) and times[-1] < 2 * 10**9, "time goes on")
    count, device_time, response = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for r in records:
        count[r["event"], section(r.get("group", ""))] += 1
        if r["event"] == "segment_done":
            device_time[section(r["group"])] += r["took"]
            check(r["queue"] and r["device"] and r["program"] == "devices", r)
        elif r["event"] == "job_ended":
            response[section(r["group"])].append(r["response"])
    for g in run.summary["groups"]:
        name = g["name"]
        check(count["job_ended", name] == g["jobs"] > 10, (name, count["job_ended", name], g))
        check(count["job_arrived", name] == g["arrivals"] - g["dropped"], (name, g))
        check(count["job_dropped", name] == g["dropped"], (name, g))
        check(count["deadline_missed", name] == g["late"], (name, g))
        check(sum(response[name]) // len(response[name]) == g["response"]["mean_ns"], (name, g))
        check(max(response[name]) == g["response"]["max_ns"], (name, g))
        closed = sum(r["event"] == "gate_closed" and r["pending"] and section(r["group"]) == name for r in records)
        check(closed == g["preemptions"], (name, closed, g))
        # What is on a device at the end is not told of any more.
        whole = g["served_ns"] + g["overhead_ns"]
        check(0.98 * whole <= device_time[name] <= whole, (name, device_time[name], whole))
        check(count["joined", name] == g["instances"], (name, g))
    check(run.summary["groups"][2]["dropped"] > 0 and run.summary["groups"][1]["late"] > 0, "the example shows that")
    check(count["left", "guest"] == count["queue_gone", "guest"] == 2, "guests have left")
    check(count["queue_added", "gang"] == 4, "a gang has a queue on each of its devices")


def it_says_why(stack):
    records = world(stack).records()
    hints = {(section(r["group"]), r["hint"], r["value"]) for r in records if r["event"] == "hint"}
    check(hints == {("busy", "weight", 200), ("gang", "deadline", 8000000)}, hints)
    closed = [r for r in records if r["event"] == "gate_closed" and r["pending"]]
    check(all(r["reason"] and r["cause"] != r["group"] for r in closed if "cause" in r), closed)
    check(any("cause" in r for r in closed), "nobody is the cause")
    rested = [r for r in records if r["event"] == "stalled"]
    check(rested and any(r["took"] > 0 for r in rested), "they come to rest")
    decided = [r for r in records if r["event"] == "decided" and r["chosen"]]
    check(all(r["group"] and r["reason"] for r in decided), "whom, and why")
    check(records[0]["event"] == "policy" and records[0]["reason"] == "fair", records[0])


def the_timeline_has_it(stack):
    run = world(stack)
    out = os.path.join(run.dir, "timeline.json")
    fermata("trace", "export", run.trace, "-o", out)
    with open(out, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    names = {e["args"].get("name") for e in events if e["ph"] == "M"}
    for name in ("0/gpu.0", "1/gpu.1", "0/npu", "group 1/gang", "group 0/busy.2"):
        check(name in names, f"{name} is not in {names}")
    slices = {e["name"] for e in events if e["ph"] in "XB"}
    check("runs" in slices and "3 commands" in slices and any(s.startswith("waits for ") for s in slices), slices)


def threads_do_not_matter(stack):
    fleet = os.path.join(SIM, "fleet.ini")
    files = []
    for threads in ("1", "3", "7"):
        run = Run(stack, fleet, "--machines", "5", "--duration", "2s", "-j", threads)
        with open(run.trace, "rb") as f:
            files.append((f.read(), run.text))
    check(len(files[0][0]) > 500000, f"{len(files[0][0])} bytes are few")
    check(files[0] == files[1] == files[2], "the bytes depend on threads")


def metrics_are_those_of_the_daemon(stack):
    run = world(stack)
    kinds = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", fermata("metrics", "--list").stdout, re.M))
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", run.text, re.M):
        check(kinds.get(name) == kind, f"{name} is no {kind}")
    s = run.summary
    near = lambda a, b: abs(a - b) <= 1e-6 * max(a, b)
    check(run.value("fermata_uptime_seconds") == 2, run.text)
    for name in ("preemptions", "gate_stores"):
        check(run.value(f"fermata_{name}_total") == s[name], f"{name}: {s[name]}")
    # The summary leaves out the first of each device, before anybody is there.
    check(0 <= run.value("fermata_decisions_total") - s["decisions"] <= 12, s["decisions"])
    for g in s["groups"][:2]: # the third has left
        used = sum(run.value("fermata_group_device_seconds_total", group=f"{m}/{g['name']}{i}")
                   for m in range(2) for i in ("", ".0", ".1", ".2"))
        check(near(used * 1e9, g["served_ns"] + g["overhead_ns"]), (g, used))
    for g in s["groups"]:
        check(run.value("fermata_task_jobs_total", task=g["name"]) == g["jobs"], g)
        check(run.value("fermata_task_response_seconds_count", task=g["name"]) == g["jobs"], g)
    check(run.value("fermata_task_deadline_misses_total", task="gang") == s["groups"][1]["late"] > 0, run.text)
    check(run.value("fermata_device_preemption_seconds_count") == sum(d["stop"]["count"] for d in s["devices"]), s)
    check(run.value("fermata_device_groups") == 10, "six, and two on two devices each")
    check('user="' not in run.text and "guest" not in re.sub(r"fermata_task.*", "", run.text), run.text)


def who_has_no_series_is_counted(stack):
    run = Run(stack, os.path.join(SIM, "fleet.ini"), "--machines", "20", "--duration", "1s")
    groups = sum(g["instances"] for g in run.summary["groups"])
    check(groups > 1500, groups)
    check(run.value("fermata_left_out", of="groups") == groups - 1000, run.text[:500])
    check(run.value("fermata_device_groups") == groups, "states are counted of all")
    shown = set(re.findall(r'^fermata_group_priority\{group="([^"]+)"', run.text, re.M))
    check(len(shown) == 1000, len(shown))


def prometheus_reads_it(stack):
    need("promtool")
    for run in (world(stack), Run(stack, os.path.join(SIM, "tenants.ini"), "--duration", "1s")):
        r = subprocess.run(["promtool", "check", "metrics"], input=run.text, text=True, capture_output=True,
                           timeout=PATIENCE, check=False)
        check(r.returncode == 0 and not r.stderr, r.stdout + r.stderr)


def mistakes(stack):
    example = os.path.join(SIM, "inference.ini")
    for option in ("--trace", "--metrics"):
        e = fermata("sim", example, option, "/nonexistent/x", status=1).stderr
        check("/nonexistent/x: cannot write: No such file" in e, e)
        e = fermata("sim", example, option, "/dev/full", status=1).stderr
        check("/dev/full: cannot write: " in e, e)
    e = fermata("sim", example, "--svg", "/dev/full", status=1).stderr
    check("/dev/full: cannot write: No space left on device" in e, e)
    with open("/dev/full", "w", encoding="ascii") as full:
        r = subprocess.run([FERMATA_LAB, "sim", example, "--metrics", "-"], stdout=full, stderr=subprocess.PIPE, text=True,
                           timeout=60, check=False)
    check(r.returncode == 1 and r.stderr.splitlines()[-1:] == ["fermata-lab: cannot write the answer: No space left on device"]
          and r.stderr.count("cannot") == 1, f"{r}")
    text = fermata("sim", example, "--duration", "3s", "--metrics", "-").stdout
    check(text.startswith("# HELP fermata_up") and "GROUP" not in text, text[:200])
    # What is cut off is told so.
    run = Run(stack, example, "--duration", "3s")
    cut = os.path.join(run.dir, "cut")
    shutil.copy(run.trace, cut)
    os.truncate(cut, os.path.getsize(cut) - 20)
    check("cut off" in fermata("trace", "dump", cut).stderr, "nobody says so")
    check(not fermata("trace", "dump", run.trace).stderr, "it is whole")


if __name__ == "__main__":
    main(the_trace_says_what_the_summary_says, it_says_why, the_timeline_has_it, threads_do_not_matter,
         metrics_are_those_of_the_daemon, who_has_no_series_is_counted, prometheus_reads_it, mistakes)
