#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon in a pid namespace of its own: its clients outside have no pid for it, and are told apart all the same."""
import contextlib
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATAD, Fermata, LibClient, Skip, check, eventually, main, need, program


class Apart(Fermata):
    """It is the first process of a pid namespace, of which unshare(1) is the parent."""

    def start(self, *_, **__):
        need("unshare")
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        tried = subprocess.run([*argv, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            raise Skip(f"no pid namespace is to be had here: {tried.stderr.strip()}")
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.daemon = subprocess.Popen([*argv, FERMATAD, "--dir", self.dir, *self.args], env=self.env, stderr=log)
        eventually("the daemon answers", self.answers)

    def stop(self):
        if self.daemon and self.daemon.poll() is None:
            with open(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children", encoding="ascii") as f:
                os.kill(int(f.read()), signal.SIGTERM)
            check(self.daemon.wait(60) == 0, f"the daemon ended with status {self.daemon.returncode}")
        self.daemon = None

    def groups(self):
        return {g["name"]: g for g in self.ps()["groups"]}

    def client(self, group="-", **env):
        """Another one, and the name of its group if that is new."""
        before = set(self.groups())
        p = LibClient([program("lib_client"), group], env={**self.env, **env})
        self.stack.callback(p.close)
        check(p.line("ready") == "ready 0", "the client could not set itself up")
        eventually("it has the daemon", lambda: p.state()["daemon"])
        p.do("feed")
        eventually("its queue is there", lambda: sum(len(g["queues"]) for g in self.groups().values()) > self.queues)
        self.queues += 1
        new = set(self.groups()) - before
        return p, new.pop() if new else None

    queues = 0


def have_names_of_their_own(stack):
    f = Apart(stack)
    (a, name_a), (b, name_b) = f.client(), f.client(FERMATA_HINTS="weight=7")
    check(name_a != name_b and name_a.startswith(f"unknown-u{os.getuid()}-"), f"they are named {name_a} and {name_b}")
    check(f.groups()[name_a]["queues"][0]["pid"] == 0, "a pid is not known, and told")
    check(f.groups()[name_b]["hints"]["weight"] == 7, "whose hints are whose")
    for target in "0", str(a.pid):
        r = f.cli("suspend", target, check_status=False)
        check(r.returncode == 1 and f"no group, process or queue '{target}'" in r.stderr, f"suspend {target}: {r}")
    check(not any(g["suspended"] for g in f.groups().values()), "a pid that nobody has suspended somebody")
    f.cli("suspend", name_a)
    before = a.stands_still()
    b.advances()
    a.stood(before)
    f.cli("resume", f.groups()[name_a]["queues"][0]["id"])
    a.advances()
    f.says(f'audit: uid={os.getuid()} pid=unknown cmd=suspend target="{name_a}"')
    text = f.cli("ps", "--queues").stdout
    check(len([line for line in text.splitlines() if name_a in line and " - " in line]) == 1, text)
    b.kill()
    eventually("who died is gone", lambda: set(f.groups()) == {name_a})
    a.advances()
    a.quit()


def numbers_are_not_given_again(stack):
    """Nor does a program that comes again have what another had."""
    f = Apart(stack)
    seen = set()
    for _ in range(3):
        p, name = f.client()
        check(name not in seen, f"{name} is there again")
        seen.add(name)
        p.quit()
        eventually("it is gone", lambda: not f.groups())
        f.queues = 0


def metrics_name_each_once(stack):
    f = Apart(stack)
    a, _ = f.client("team")
    b, _ = f.client("team")
    lines = [line.rsplit(" ", 1)[0] for line in f.cli("metrics").stdout.splitlines() if not line.startswith("#")]
    check(len(lines) == len(set(lines)), f"twice: {[line for line in lines if lines.count(line) > 1]}")
    a.quit()
    b.quit()


def what_is_missing_is_said(stack):
    f = Apart(stack, "[admission]\nepsilon_us = 100\n")

    def pids():
        r = f.cli("doctor", "--json", check_status=False)
        return next(c for c in json.loads(r.stdout)["checks"] if c["check"] == "pids")

    told = pids()
    check(told["verdict"] == "warning" and "pid namespace" in told["text"] and "hostPID" in told["remedy"], told)
    with contextlib.suppress(FileNotFoundError):
        path = os.path.join(f.dir, "tasks.json")
        with open(path, "w", encoding="ascii") as out:
            json.dump({"unit": "ms", "tasks": [{"name": "t", "priority": 0, "cpu": 1, "period": 10, "deadline": 10, "cpu_time": 0,
                                                "segments": [{"total": 1, "misc": 0, "gpu": 1}]}]}, out)
        r = f.cli("admit", path, check_status=False)
        check(r.returncode == 1 and "pid namespace" in r.stderr, f"{r}")
    f.stop()
    f = Fermata(stack)
    check(pids()["verdict"] == "ok", "a daemon that is not apart")


if __name__ == "__main__":
    main(have_names_of_their_own, numbers_are_not_given_again, metrics_name_each_once, what_is_missing_is_said)
