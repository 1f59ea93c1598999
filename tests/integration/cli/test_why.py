#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fermata why: what it says of programs under the real daemon, and that what it advises helps."""

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))
from harness import Fermata, check, eventually, lib_client, main, seldom_sanitized  # noqa: E402

KEEP = -(2**31)  # FM_SEGMENT_KEEP
CAUSES = {"policy", "nobody", "gang", "demoted", "draining", "resource"}


def why(f, target):
    return json.loads(f.cli("why", str(target), "--json").stdout)


def about(f, target):
    """The one group that is meant, and what it does on its one device."""
    groups = [g for g in why(f, target)["groups"] if g["devices"]]
    check(len(groups) == 1 and len(groups[0]["devices"]) == 1, f"{target}: {groups}")
    return groups[0], groups[0]["devices"][0]


def account(f, target):
    return about(f, target)[1]["account"]


def near(a, b, part=0.01):
    return abs(a - b) <= part * max(a, b) + 0.001


def adds_up(account):
    spent = account["ran_ms"] + account["waited_ms"] + account["suspended_ms"] + account["idle_ms"]
    check(near(spent, account["since_ms"]), f"{spent} ms of {account['since_ms']} ms: {account}")
    check(near(sum(w["ms"] for w in account["waited_for"]), account["waited_ms"]), f"by whom: {account}")
    check(near(sum(account["waited_why"].values()), account["waited_ms"]), f"by cause: {account}")
    check(set(account["waited_why"]) <= CAUSES, f"causes: {account}")
    check(len(account["waited_for"]) <= 9, f"rows: {account}")


def start(stack, *policy, config=None):
    f = Fermata(stack, config)
    f.cli("policy", *policy)
    return f


def two(stack, policy, job=(), rival=()):
    """A job and its rival, who never ends."""
    f = start(stack, *policy.split())
    r = lib_client(f, stack, "rival")
    j = lib_client(f, stack, "job")
    for name, hints in (("rival", rival), ("job", job)):
        if hints:
            f.cli("hint", name, *hints)
    for c in (r, j):
        c.do(f"segment {KEEP}")  # ready throughout, however late its thread comes with the next command
        c.do("feed")
    return f, j, r


def take(f, target, begins):
    """Follow the one advice that has a command, and say what it was. There may be another, or none, as long as most of
    what it has waited is the time in which who had the device came to rest."""

    def command():
        commands = [a["argv"] for a in about(f, target)[0]["advice"] if "argv" in a]
        return [" ".join(c).startswith(begins) for c in commands] == [True] and commands[0]

    argv = eventually(f"the advice is '{begins}'", command)
    f.cli(*argv)
    return argv


def ran(f, *targets):
    return [account(f, t)["ran_ms"] for t in targets]


def share_is(f, test, what):
    """Of what both run in a stretch of time, the job's part."""

    def measured():
        before = ran(f, "job", "rival")
        eventually("a fifth of a second of both", lambda: sum(ran(f, "job", "rival")) > sum(before) + 200)
        job, rival = (a - b for a, b in zip(ran(f, "job", "rival"), before))
        return test(job / (job + rival))

    eventually(what, measured)


def who_waits_is_told_for_whom(stack):
    f, j, _ = two(stack, "fixed-priority", rival=["priority=10"])
    eventually("the job waits", lambda: about(f, "job")[1]["account"]["waiting"])
    eventually("and has for a while", lambda: account(f, "job")["waited_ms"] > 300)
    group, device = about(f, "job")
    now = device["account"]["waiting"]
    check(group["name"] == "job" and device["state"] == "ready", f"state: {device}")
    check(now["group"] == "rival" and now["why"] == "policy" and now["ms"] > 0, f"now: {now}")
    check("rival has the device" in device["doing"] and "highest priority" in device["doing"], device["doing"])
    adds_up(device["account"])
    first = device["account"]["waited_for"][0]
    check(first["group"] == "rival" and first["user"] == os.getuid(), f"for whom: {first}")
    check(first["ms"] > 0.9 * device["account"]["waited_ms"], f"for whom: {device['account']}")
    ids = {g["name"]: g["id"] for g in f.ps()["groups"]}
    check(ids["rival"] == first["id"] == now["id"] and ids["job"] == group["id"], f"ids: {ids}, {first}")
    for target in (j.pid, group["queues"][0]["id"]):
        check(about(f, target)[0]["id"] == group["id"], f"target {target}")
    other = about(f, "rival")[1]
    adds_up(other["account"])
    check(other["doing"] == "has the device" and not other["account"]["waiting"], f"the rival: {other}")


def in_words(stack):
    f, _, r = two(stack, "fixed-priority", rival=["priority=10"])
    eventually("the job waits", lambda: account(f, "job")["waiting"])
    text = f.cli("why", "job").stdout
    for part in ("job of ", "rival has the device (policy fixed-priority: highest priority)", "  for rival",
                 "the policy chose others", "  fermata hint job priority=11\n    would go before rival (priority 10)\n"):
        check(part in text, f"'{part}' is not in:\n{text}")
    f.cli("suspend", "rival")
    eventually("the job has waited", lambda: account(f, "job")["waiting"] is None)
    waits = about(f, "job")[1]["waits"]
    check(waits["count"] >= 1 and 0 < waits["p50_us"] <= waits["p99_us"] <= waits["max_us"], f"waits: {waits}")
    check(" waits have ended" in f.cli("why", "job").stdout, "no wait is told")
    text = f.cli("why", "rival").stdout
    for part in ("is suspended by hand\n", "suspended by hand  ", "  fermata resume rival\n"):
        check(part in text, f"'{part}' is not in:\n{text}")
    f.cli("resume", "rival")
    r.do("enough")


def alone(stack):
    """Of one alone the daemon hears nothing, and every command tells what its board shows."""
    f = Fermata(stack)
    job = lib_client(f, stack, "job")
    check(account(f, "job")["ran_ms"] == 0, f"it has run: {account(f, 'job')}")
    job.do("feed")

    def works():
        """It has commands under way, but may have none for a moment."""
        device = next(g for g in f.ps()["groups"] if g["name"] == "job")["devices"][0]
        adds_up(device["account"])
        check(device["state"] in ("running", "idle"), f"state: {device}")
        return device["state"] == "running" and device["account"]["ran_ms"] > 100

    eventually("it runs, and has for a while", works)
    device = device_of(f)
    later = device_of(f)  # a command may end while a reply is made: the two are not of one moment
    check(later["account"]["ran_ms"] >= device["device_ms"] - 0.001 > 90, f"ran, and device time: {device}, then {later}")
    check(device["charged_ms"] < device["device_ms"] / 2, f"what it is charged: {device}")
    eventually("why says so", lambda: about(f, "job")[1]["doing"] == "has the device")
    eventually("so do its tables", lambda: " running " in f.cli("ps").stdout)

    def in_top():
        top = json.loads(f.cli("top", "--once", "--json", "-d", "0.2").stdout)["groups"]
        return [g["share"] > 0 and g["device_ms"] > 90 for g in top if g["name"] == "job"] == [True]

    eventually("so does top", in_top)
    job.do("enough")
    job.ask("burst 1")  # which it waits for: the board knows of the end
    eventually("it is idle", lambda: device_of(f)["state"] == "idle")
    before = device_of(f)["account"]
    eventually("that is counted", lambda: device_of(f)["account"]["idle_ms"] > before["idle_ms"] + 50)
    check(device_of(f)["account"]["ran_ms"] == before["ran_ms"], f"ran: {before}, then {device_of(f)['account']}")
    rival = lib_client(f, stack, "rival")
    check(account(f, "job")["ran_ms"] == before["ran_ms"], f"ran: {before}, then {account(f, 'job')}")
    adds_up(account(f, "job"))
    rival.do("feed")
    rival.advances()
    check(account(f, "job")["ran_ms"] == before["ran_ms"], f"ran: {before}, then {account(f, 'job')}")


def device_of(f):
    return about(f, "job")[1]


def all_commands_count_the_same_waiting(stack):
    """Also while it is chosen already, and the one before it comes to rest."""
    f, j, r = two(stack, "round-robin slice=1ms")
    eventually("both have waited for the other to come to rest", lambda: all(
        account(f, t)["waited_why"].get("draining", 0) > 1 for t in ("job", "rival")))
    for c in (j, r):
        c.do("end")
        c.do("enough")
        c.ask("burst 1")
    eventually("nobody waits", lambda: not any(account(f, t)["waiting"] for t in ("job", "rival")))
    top = json.loads(f.cli("top", "--once", "--json", "-d", "0.2").stdout)["groups"]
    for t in ("job", "rival"):
        device = about(f, t)[1]
        check(near(device["wait_ms"], device["account"]["waited_ms"], 0), f"ps: {device}")
        told = [g["wait_ms"] for g in top if g["name"] == t]
        check(near(told[0], device["account"]["waited_ms"], 0), f"top: {told}, why: {device['account']}")


def errors_are_told(stack):
    f = Fermata(stack)
    lib_client(f, stack, "job")
    for target, status, text in (("nosuch", 1, "no group, process or queue 'nosuch'"), ("\udcff", 2, "UTF-8")):
        r = f.cli("why", target, check_status=False)
        check(r.returncode == status and text in r.stderr, f"{target!r}: {r}")
    check("has no work" in f.cli("why", "job").stdout, "an idle group")
    check(about(f, "job")[0]["advice"] == [], "advice for who never waited")
    f.stop()
    r = f.cli("why", "job", check_status=False)
    check(r.returncode == 4 and "no daemon" in r.stderr, f"without a daemon: {r}")


def a_name_is_no_command(stack):
    """Advice is pasted into shells: names that would do something there, or mean another, are not in it."""
    f = start(stack, "fixed-priority")
    rival = lib_client(f, stack, "rival")
    f.cli("hint", "rival", "priority=10")
    rival.do("feed")
    for name in ("x;reboot", "$(reboot)", "-rf", "123", "q1"):
        c = lib_client(f, stack, name)
        c.do("feed")
        eventually("it waits", lambda: about(f, c.pid)[1]["account"]["waiting"])
        group = about(f, c.pid)[0]
        check(take(f, c.pid, "hint q")[1] == group["queues"][0]["id"], f"{name}: {group['advice']}")
        eventually("it goes first", lambda: about(f, c.pid)[1]["account"]["waiting"] is None)
        c.quit()


def resumed(stack):
    f, j, _ = two(stack, "fixed-priority", job=["priority=10"])
    f.cli("suspend", "job")
    j.stands_still()
    eventually("that is counted", lambda: account(f, "job")["suspended_ms"] > 50)
    adds_up(account(f, "job"))
    take(f, "job", "resume job")
    j.advances()


@contextlib.contextmanager
def pair(policy, job, rival):
    with contextlib.ExitStack() as stack:
        yield two(stack, policy, job, rival)


def goes_first(policy, advice, job=(), rival=()):
    """The job has nothing, or not all; after the advice the rival waits for it, and it for nobody."""
    with pair(policy, job, rival) as (f, j, _):
        check_goes_first(f, j, policy, advice)


def check_goes_first(f, j, policy, advice):
    eventually(f"{policy}: it waits for the rival", lambda: any(
        w["group"] == "rival" for w in account(f, "job")["waited_for"]))
    take(f, "job", advice)
    j.advances()
    eventually(f"{policy}: the rival waits for it", lambda: (
        account(f, "rival")["waiting"] or {}).get("group") == "job")
    share_is(f, lambda part: part > 0.95, f"{policy}: it goes first")
    for name in ("job", "rival"):
        adds_up(account(f, name))


def priority_helps(stack):
    for policy in ("fixed-priority", "heterogeneous-priority", "least-laxity"):
        goes_first(policy, "hint job priority=11", rival=["priority=10"])


def less_than_the_highest_helps(stack):
    goes_first("fixed-priority", "hint rival priority=-1", rival=["priority=255"])


def foreground_helps(stack):
    goes_first("foreground", "hint job foreground=1")
    goes_first("foreground", "hint rival foreground=0", job=["foreground=1"], rival=["foreground=1"])


def a_deadline_helps(stack):
    goes_first("edf", "hint job deadline=20ms")


def a_deadline_helps_at_one_of_many_places(stack):
    f, _, _ = two(stack, "k-edf k=1")
    eventually("it waits", lambda: any(w["group"] == "rival" for w in account(f, "job")["waited_for"]))
    take(f, "job", "hint job deadline=20ms")
    share_is(f, lambda part: part > 0.95, "it goes first")


def gets_more(policy, advice, job=(), rival=(), before=0.5, after=0.6):
    with pair(policy, job, rival) as (f, _, _):
        share_is(f, lambda part: abs(part - before) < 0.05, f"{policy}: {before} at first")
        take(f, "job", advice)
        share_is(f, lambda part: part > after, f"{policy}: more than {after} then")


def shares_help(stack):
    gets_more("round-robin", "hint job slice=10ms")
    gets_more("fair", "hint job weight=200")
    gets_more("fair", "hint rival weight=5000", job=["weight=10000"], rival=["weight=10000"])
    gets_more("bandwidth", "hint job share=75")
    gets_more("bandwidth", "hint rival share=40", rival=["share=80"], before=0.2, after=0.5)


def a_limit_is_a_cause(stack):
    f = start(stack, "bandwidth", "capped=1")
    j = lib_client(f, stack, "job")
    f.cli("hint", "job", "share=20")
    j.do("feed")
    eventually("nobody runs", lambda: account(f, "job")["waited_why"].get("nobody", 0) > 200)
    adds_up(account(f, "job"))

    def part():
        """Of half a second, in which the machine may have let it run on for longer than its turn, or not at all."""
        a = account(f, "job")
        eventually("half a second", lambda: account(f, "job")["since_ms"] > a["since_ms"] + 500)
        b = account(f, "job")
        return (b["ran_ms"] - a["ran_ms"]) / (b["since_ms"] - a["since_ms"])

    eventually("it has a fifth", lambda: 0 < part() < 0.3)
    take(f, "job", "hint job share=40")
    eventually("it has more than before", lambda: part() > 0.3)


def a_gang_waits_for_a_device(stack):
    f = start(stack, "fixed-priority")
    rival, near = lib_client(f, stack, "rival"), lib_client(f, stack, "job")
    far = lib_client(f, stack, "job", device="shared:1")
    f.cli("hint", "rival", "priority=10")
    for c in (rival, near, far):
        c.do(f"segment {KEEP}")
        c.do("feed")

    def on(device):
        return next(d for d in why(f, "job")["groups"][0]["devices"] if d["device"] == device)

    def advice():
        group = why(f, "job")["groups"][0]
        return sorted(a["argv"][2] for a in group["advice"])

    eventually("it waits", lambda: (on("shared:1")["account"]["waiting"] or {}).get("why") == "gang")
    check("its gang waits on device shared:0" in on("shared:1")["doing"], on("shared:1"))
    eventually("on the other by policy", lambda: (on("shared:0")["account"]["waiting"] or {}).get("why") == "policy")
    for device in ("shared:0", "shared:1"):
        adds_up(on(device)["account"])
    eventually("both are advised", lambda: advice() == ["gang=0", "priority=11"])
    still = near.stands_still()
    f.cli("hint", "job", "gang=0")
    far.advances()
    near.stood(still)
    check(on("shared:0")["account"]["waiting"], "the other device is the rival's")
    eventually("the other is advised", lambda: advice() == ["priority=11"])


def a_task_is_above_hints(stack):
    f = start(stack, "fixed-priority", config="[admission]\nepsilon_us = 500\n")
    t, j = lib_client(f, stack, "task"), lib_client(f, stack, "job")
    check(t.ask("admit 900000 1000").split()[1] == "0", "the task is not admitted")
    for c in (t, j):
        c.do("feed")
    eventually("the job waits for it", lambda: (account(f, "job")["waiting"] or {}).get("group") == "task")

    def told():
        advice = about(f, "job")[0]["advice"]
        return len(advice) == 1 and "argv" not in advice[0] and "real-time task" in advice[0]["text"]

    eventually("that is told", told)
    eventually("it is over its budget", lambda: account(f, "task")["waited_why"].get("demoted", 0) > 0)
    adds_up(account(f, "task"))


def who_reads_no_hint_gets_none(stack):
    f, _, _ = two(stack, "mlfq")
    for policy, text in (("mlfq", "mlfq reads no hints"), ("srtf", "`runtime'")):
        f.cli("policy", policy)
        eventually(f"{policy} says so", lambda: [
            a for a in about(f, "job")[0]["advice"] if text in a["text"] and "argv" not in a])  # noqa: B023
    f, _, _ = two(stack, "fifo")
    check(account(f, "job")["waited_ms"] == 0 and about(f, "job")[0]["advice"] == [], "under fifo nobody waits")


main(who_waits_is_told_for_whom, in_words, alone, all_commands_count_the_same_waiting, errors_are_told,
     a_name_is_no_command, resumed, priority_helps,
     less_than_the_highest_helps, foreground_helps, a_deadline_helps, *seldom_sanitized(a_deadline_helps_at_one_of_many_places),
     *seldom_sanitized(shares_help), a_limit_is_a_cause, *seldom_sanitized(a_gang_waits_for_a_device), a_task_is_above_hints, *seldom_sanitized(who_reads_no_hint_gets_none))
