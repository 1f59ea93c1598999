#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks that schedule themselves, under the real daemon."""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, PATIENCE, Fermata, LibClient, check, eventually, main, program  # noqa: E402

BACKLOG = 64  # FM_GPU_BACKLOG


class Set(LibClient):
    """tests/integration/library/set_client.c, told what to do line by line."""

    def finished(self):
        return self.state()["done"]

    def stops(self):
        """Nothing runs any more, and jobs wait. Returns the state."""
        eventually("no chunk runs", lambda: not self.state()["running"])
        eventually("jobs wait", lambda: self.state()["released"] > self.state()["done"] + 3)
        return self.state()

    def more_wait(self, before, n):
        """n more jobs than before are released, or as many wait as can: on a busy machine that is soon so."""
        eventually("more jobs wait", lambda: self.state()["released"] >= min(before["released"] + n, before["done"] + BACKLOG))


def set_client(f, stack, group="-", device=None):
    s = Set([program("set_client"), group] + ([device] if device else []), env=f.env)
    stack.callback(s.close)
    check(s.line("ready") == "ready 0", "the client could not set itself up")
    f.knows(s.pid)
    return s


def queue(f, s):
    (q,) = f.group(s.pid)["queues"]
    return q


def suspended_it_stops_and_resumed_it_goes_on(stack):
    f = Fermata(stack)
    s = set_client(f, stack, "team")
    s.advances()
    s.do("release 3")
    eventually("the learner has learnt", lambda: s.state()["learnt"] == 3)
    f.cli("suspend", "team")
    before = s.stops()
    s.do("release 2")
    eventually("the daemon knows that jobs wait", lambda: queue(f, s)["submitted"] > queue(f, s)["done"])
    # The state is said again until more have been released than can be done: time has passed.
    s.more_wait(before, 20)
    after = s.state()
    check(after["done"] == before["done"] and after["learnt"] == 3, f"jobs were done: {before}, then {after}")
    f.cli("resume", "team")
    eventually("the learner goes on", lambda: s.state()["learnt"] == 5)
    s.advances(30)
    now = s.state()
    # Where the machine was so busy that jobs had piled up, their deadlines had passed before.
    behind = before["released"] - before["done"] > BACKLOG // 4
    check(now["missed_stopped"] >= 10 or behind, f"deadlines passed while it was stopped: {before}, then {now}")
    check(now["missed"] >= now["missed_stopped"], f"they are misses, too: {now}")
    s.quit()
    eventually("its queue is gone", lambda: not f.group(s.pid))


def people_see_its_tasks(stack):
    f = Fermata(stack)
    s = set_client(f, stack, "team")
    s.do("release 5")
    eventually("the learner has learnt", lambda: s.state()["learnt"] == 5)
    told = queue(f, s)["set"]
    check((told["policy"], told["slots"], told["more_tasks"]) == ("edf", 1, 0), f"the set is told as {told}")
    camera, learner = told["tasks"]
    check(camera["name"] == "camera" and camera["done"] > 0 and camera["released"] - camera["done"] == camera["pending"],
          f"the camera is told as {camera}")
    check((learner["name"], learner["released"], learner["done"], learner["pending"]) == ("learner", 5, 5, 0),
          f"the learner is told as {learner}")
    row = next(line for line in f.cli("ps", "--queues").stdout.splitlines() if " learner " in line)
    check(row.split()[1:6] == ["learner", "idle", "5", "5", "0"], f"ps shows {row!r}")
    why = f.cli("why", "team").stdout
    check("is a resident set of tasks, which decides itself, by edf" in why, f"why says {why}")
    eventually("why tells which task runs", lambda: re.search("by edf: (camera|learner) runs", f.cli("why", "team").stdout))
    f.cli("suspend", "team")
    s.stops()
    eventually("it is told as stopped", lambda: queue(f, s)["set"]["stopped"])
    check("by edf: it is stopped" in f.cli("why", "team").stdout, "why does not say that it is stopped")
    f.cli("resume", "team")
    eventually("misses of the stop are told apart", lambda: queue(f, s)["set"]["tasks"][0]["missed_stopped"])
    s.do("free")
    s.kill()


def a_trace_has_its_tasks(stack):
    f = Fermata(stack)
    path = os.path.join(f.dir, "trace")
    s = set_client(f, stack, "team")
    recorder = subprocess.Popen([FERMATA, "trace", "record", "-o", path], env=f.env, stderr=subprocess.DEVNULL)
    stack.callback(recorder.kill)

    def events():
        return [json.loads(line) for line in f.cli("trace", "dump", "--json", path).stdout.splitlines()]

    eventually("it records", lambda: os.path.exists(path) and os.path.getsize(path) > 56)
    eventually("the set is recorded", lambda: any(e.get("event") == "task_completed" for e in events()))
    s.do("release 5")
    eventually("the learner has learnt", lambda: s.state()["learnt"] == 5)
    f.cli("suspend", "team")
    s.stops()
    f.cli("resume", "team")
    eventually("deadlines have passed", lambda: s.state()["missed_stopped"])
    s.advances(3)
    recorder.terminate()
    check(recorder.wait(PATIENCE) == 0, "the recorder failed")
    records = events()
    learner = [e for e in records if e.get("event", "").startswith("task_") and e["task"] == 1]
    kinds = [e["event"] for e in learner]
    check(kinds[0] == "task_released" and kinds.count("task_completed") == 5, f"the learner's are {kinds}")
    check(sum(e["jobs"] for e in learner if e["event"] == "task_released") == 5, f"released: {learner}")
    running = False
    for e in learner:
        check(e["event"] != "task_began" or not running, f"it begins while it runs: {kinds}")
        running = e["event"] == "task_began" or (running and e["event"] == "task_released")
    missed = [e for e in records if e.get("event") == "task_missed"]
    check(missed and any(e["stopped"] for e in missed) and all(e["late"] > 0 for e in missed), f"misses: {missed}")
    f.cli("trace", "export", path, "-o", path + ".json")
    with open(path + ".json", encoding="utf-8") as file:
        drawn = json.load(file)["traceEvents"]
    names = {e["args"]["name"]: e["tid"] for e in drawn if e["name"] == "thread_name"}
    row = next(tid for name, tid in names.items() if name.endswith(": task 1"))
    slices = [e for e in drawn if e.get("tid") == row and e["ph"] == "X"]
    check({e["name"] for e in slices} <= {"runs", "waits"} and any(e["name"] == "runs" for e in slices), f"drawn: {slices}")
    check(any(e["name"] == "missed its deadline" for e in drawn), "misses are drawn")
    s.quit()


def its_own_suspension_frees_the_device(stack):
    f = Fermata(stack)
    s = set_client(f, stack)
    s.advances()
    s.do("suspend")
    before = s.stops()
    f.cli("suspend", str(s.pid))
    s.do("resume")  # its group may not run
    s.more_wait(before, 10)
    check(s.state()["done"] == before["done"], "a set went on that the operator has suspended")
    f.cli("resume", str(s.pid))
    s.advances()
    s.do("free")
    eventually("its queue is gone", lambda: not f.group(s.pid))


def the_more_urgent_group_has_the_device(stack):
    f = Fermata(stack)
    f.cli("policy", "fixed-priority")
    low, high = set_client(f, stack, "low", "shared:0"), set_client(f, stack, "high", "shared:0")
    low.advances()
    f.cli("hint", "high", "priority=5")
    high.do("suspend")
    high.stops()
    low.advances()
    high.do("resume")
    high.advances()

    def preempts():
        low.do("release 10")
        return f.preemptions()

    eventually("a preemption is counted", preempts)
    low.quit()
    high.quit()


def without_the_daemon_it_goes_on(stack):
    """Also where its group was suspended when the daemon died; in strict mode when there is another."""
    f = Fermata(stack)
    s = set_client(f, stack, "team")
    s.advances()
    f.cli("suspend", "team")
    s.stops()
    f.kill()
    if not os.environ.get("FERMATA_TEST_STRICT"):
        s.advances()
    f.start()
    s.advances()
    eventually("it has a daemon again", lambda: s.state()["daemon"])
    f.knows(s.pid)
    f.cli("suspend", "team")
    s.stops()
    f.cli("resume", "team")
    s.advances()
    s.quit()


sys.exit(main(
    suspended_it_stops_and_resumed_it_goes_on,
    people_see_its_tasks,
    a_trace_has_its_tasks,
    its_own_suspension_frees_the_device,
    the_more_urgent_group_has_the_device,
    without_the_daemon_it_goes_on,
))
