#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the real daemon lets a group that pauses keep the device: what is learnt, what is set, and what is told of it."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))
from harness import Fermata, check, eventually, lib_client, main  # noqa: E402

LONG = 0.01  # s; more than any hand-over counts as


def linger(f, name="urgent"):
    """Of a group on its one device."""
    groups = [g for g in f.ps()["groups"] if g["name"] == name]
    check(len(groups) == 1 and len(groups[0]["devices"]) == 1, f"{name}: {groups}")
    return groups[0]["devices"][0]["linger"]


def column(f, name="urgent"):
    lines = f.cli("ps", "--queues").stdout.splitlines()
    at, end = lines[0].index("LINGER"), lines[0].index("PAD")
    return next(line for line in lines if f" {name} " in line)[at:end].strip()


def two(stack, config=None):
    """One that is urgent and pauses, and one that always has work."""
    f = Fermata(stack, config)
    urgent, other = lib_client(f, stack, "urgent"), lib_client(f, stack, "other")
    f.cli("hint", "urgent", "priority=high")
    other.do("feed")
    return f, urgent, other


def reload(f, setting):
    with open(os.path.join(f.dir, "fermatad.conf"), "r+", encoding="ascii") as conf:
        rest = [line for line in conf if not line.startswith("linger_us")]
        conf.seek(0)
        conf.truncate()
        conf.write("".join(rest).replace("[daemon]\n", "[daemon]\n" + setting))
    f.cli("reload")


def requests(client, n, pause=LONG):
    for _ in range(n):
        client.do("burst 3")
        time.sleep(pause)


def long_pauses_are_learnt(stack):
    f, urgent, other = two(stack)
    first = linger(f)
    check(first["learnt"] and not first["pauses"] and first["keeps_us"] == first["handover_us"], f"nothing is known: {first}")
    check("when it pauses" not in f.cli("why", "urgent").stdout, "what is not known is told")

    def learnt():
        requests(urgent, 10)
        return linger(f)["pauses"] >= 10 and linger(f)["keeps_us"] == 0

    eventually("it gives the device away at once", learnt)
    text = f.cli("why", "urgent").stdout
    check("it gives the device away at once: its pauses are mostly longer than a hand-over" in text, text)
    check(column(f) == "0 us", column(f))
    now = linger(f)
    check(now["within"] == 0 and now["handover_us"] > 0, f"{now}")
    told = json.loads(f.cli("why", "urgent", "--json").stdout)["groups"][0]["devices"][0]["linger"]
    check(told["learnt"] and told["keeps_us"] == 0, f"{told}")
    other.advances()


def short_pauses_are_learnt(stack):
    """One command after the other: however busy the machine is, now and then it lets a program do so."""
    f, urgent, other = two(stack)
    requests(urgent, 10)
    gave = f.group(other.pid)["devices"][0]["preemptions"]

    def keeps():
        before = f.group(other.pid)["devices"][0]["preemptions"]
        urgent.do("steps 100")
        now = linger(f)
        return now["keeps_us"] > 0 and now["within"] > 0.5 and f.group(other.pid)["devices"][0]["preemptions"] - before < 50

    check(gave > 0, "it had to fetch the device")
    eventually("it keeps the device", keeps)
    text = f.cli("why", "urgent").stdout
    check("when it pauses it keeps the device for up to" in text and "a hand-over there and back counts as" in text, text)
    check(column(f) != "0 us", column(f))
    other.advances()


def a_setting_is_kept_to(stack):
    f, urgent, other = two(stack, "[daemon]\nlinger_us = 7\n")
    now = linger(f)
    check(not now["learnt"] and now["keeps_us"] == 7, f"as set: {now}")
    check(column(f) == "7 us", column(f))
    text = f.cli("why", "urgent").stdout
    check("it keeps the device for up to 7 us, as linger_us says" in text, text)
    eventually("longer pauses end it", lambda: requests(urgent, 5) or linger(f)["keeps_us"] == 0)
    check("gives the device away at once: linger_us says so, or" in f.cli("why", "urgent").stdout, "why not")
    for setting in ("linger_us = auto\n", ""):
        reload(f, "linger_us = 9\n")
        check(not linger(f)["learnt"], f"set again: {linger(f)}")
        reload(f, setting)
        check(linger(f)["learnt"] and linger(f)["keeps_us"] == 0, f"'{setting}': {linger(f)}")
    other.advances()


def a_task_keeps_its_bound(stack):
    """Whom the analysis let in keeps the device for no longer than it reckons with."""
    f, urgent, _ = two(stack, "[admission]\nepsilon_us = 1000\n")
    check(urgent.ask("admit 1000 1000").split()[1] == "0", "it is not admitted")
    check(linger(f)["keeps_us"] <= 100, f"{linger(f)}")
    urgent.do("leave")
    eventually("it is as before", lambda: linger(f)["keeps_us"] > 100)


if __name__ == "__main__":
    main(long_pauses_are_learnt, short_pauses_are_learnt, a_setting_is_kept_to, a_task_keeps_its_bound)
