#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the policies are for, under the real daemon: programs on software devices, and who of them runs. Only
order and presence; how much and how soon is for tests/unit/policy/test_policy*.c, in virtual time."""

import contextlib
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, check, eventually, lib_client as client, main  # noqa: E402


def start(stack, *policy):
    f = Fermata(stack)
    f.cli("policy", *policy)
    return f


def reasons(f):
    return {d["reason"] for g in f.ps()["groups"] for d in g["devices"]}


def what_a_policy_reads_is_told(stack):
    """By one table: what the commands say is what the code looks at, and what the documents tell."""
    f = start(stack, "fifo")
    source = os.environ["SOURCE"]
    told = {p["name"]: set(p["reads"]) for p in json.loads(f.cli("policy", "--json").stdout)["available"]}
    for path in glob.glob(os.path.join(source, "src", "policy", "*.c")):
        with open(path, encoding="ascii") as file:
            text = file.read()
        name = re.search(r'^\t\.name = "([a-z-]+)"', text, re.M)
        looks = {h.lower().replace("_", "-") for h in re.findall(r"fm_ent_hint\([^)]*, FM_HINT_(\w+)\)", text)}
        check(bool(name) >= bool(looks) and (not name or told[name[1]] == looks), f"{path}: {looks}, {name and told[name[1]]}")
    with open(os.path.join(source, "docs", "policies.md"), encoding="utf-8") as file:
        table = re.findall(r"^\| `([a-z-]+)` \|[^|]*\|[^|]*\| ([^|]*) \| O\(", file.read(), re.M)
    written = {name: set(re.findall(r"`([a-z-]+)`", hints)) for name, hints in table}
    check(written == told, f"docs/policies.md: {written}, not {told}")


def a_hint_that_nobody_reads_is_told(stack):
    f = start(stack, "fixed-priority")
    client(f, stack, "job")
    lines = f.cli("hint", "job", "weight=300", "priority=high", "gang=0", "share=20").stderr.splitlines()
    check(lines == ["fermata: the policy in force, fixed-priority, does not read the hint weight; fair does",
                    "fermata: the policy in force, fixed-priority, does not read the hint share; fair and bandwidth do"], lines)
    check(f.cli("hint", "job", "priority=low").stderr == "", "that it reads")
    hints = next(g["hints"] for g in f.ps()["groups"] if g["name"] == "job")
    check(hints["weight"] == 300 and hints["share"] == 20, f"they are set all the same: {hints}")
    told = "fermata: the policy in force, {}, does not read the hint deadline; edf, k-edf and least-laxity do\n"
    run = ["run", "--deadline", "20ms", "--priority", "high", "--", "true"]
    check(f.cli(*run).stderr == told.format("fixed-priority"), "run, under a daemon")
    check(f.cli(*run[:1], "--local", "fair slice=2ms", *run[1:3], *run[5:]).stderr == told.format("fair"), "without one")
    f.cli("policy", "edf")
    check("deadline" not in f.cli(*run).stderr, "edf reads it")


def weight_and_share_are_shown_where_they_are_read(stack):
    f = start(stack, "fixed-priority")
    client(f, stack, "job")
    client(f, stack, "rival")
    f.cli("hint", "job", "weight=300", "share=20")
    for policy, titles, values in (("fixed-priority", [], []), ("fair", ["WEIGHT", "SHARE"], ["300", "20%"]),
                                   ("bandwidth", ["SHARE"], ["20%"])):
        f.cli("policy", policy)
        head, *rows = [line.split() for line in f.cli("ps").stdout.splitlines()]
        check(head[2:3 + len(titles)] == ["PRIO", *titles] and head[3 + len(titles)] == "STATE", f"{policy}: {head}")
        of = {row[0]: row[3:3 + len(titles)] for row in rows if row[0] in ("job", "rival")}
        check(of == {"job": values, "rival": ["-"] * len(titles)}, f"{policy}: {of}")


def feed(*clients):
    for c in clients:
        c.do("feed")


def quit_all(*clients):
    for c in clients:
        c.quit()


def holds_back(ahead, *behind):
    """Those ahead get on, while the others stand."""
    with contextlib.ExitStack() as segments:
        for c in ahead:
            segments.enter_context(c.segment())
        still = [c.stands_still() for c in behind]
        for c in ahead:
            c.advances(50)
        for c, before in zip(behind, still):
            c.stood(before)


def heterogeneous_priority_quiets_the_other_device(stack):
    f = start(stack, "fixed-priority")
    fg = client(f, stack, "-", "--priority", "high", device="npu:0")
    bg = client(f, stack, device="gpu:0")
    feed(bg, fg)
    bg.advances()
    fg.advances()
    bg.advances()  # each device for itself: nothing stops it
    f.cli("policy", "heterogeneous-priority")
    holds_back([fg], bg)
    fg.do("enough")
    bg.advances()
    for _ in range(3):
        fg.do("burst 20")
    bg.advances()
    f.cli("hint", str(bg.pid), "priority=high")
    feed(fg)
    bg.advances()
    fg.advances()
    bg.advances()  # equals run side by side
    quit_all(fg, bg)


def aging_is_wanted_or_not(stack):
    f = start(stack, "fixed-priority")
    high = client(f, stack, "-", "--priority", "10")
    low = client(f, stack)
    feed(high, low)
    holds_back([high], low)
    f.cli("policy", "fixed-priority", "aging=1ms")
    low.advances()
    high.advances()
    low.advances()
    eventually("a turn by age is told of", lambda: "waited long" in reasons(f))
    f.cli("policy", "heterogeneous-priority", "aging=1ms")
    low.advances()
    high.advances()
    quit_all(high, low)


def k_edf_runs_the_k_earliest(stack):
    f = start(stack, "k-edf", "k=2")
    c = [client(f, stack, "-", "--deadline", t) for t in ("3600s", "1800s", "60s")]
    feed(*c)
    holds_back(c[1:], c[0])
    eventually("the two earliest run at once", lambda: all(x.state()["scheduled"] for x in c[1:]))
    f.cli("policy", "k-edf", "k=1")
    holds_back(c[2:], *c[:2])
    f.cli("policy", "k-edf", "k=3")
    for x in c:
        x.advances()
    quit_all(*c)


def srtf_runs_the_shortest(stack):
    f = start(stack, "srtf")
    long = client(f, stack, "-", "--runtime", "3600s")
    short = client(f, stack, "-", "--runtime", "1800s")
    feed(long)
    long.advances()
    feed(short)
    holds_back([short], long)
    f.cli("hint", str(long.pid), "runtime=900s")
    holds_back([long], short)
    long.do("enough")
    short.advances()
    quit_all(long, short)


def least_laxity_keeps_the_background_inside_its_deadline(stack):
    f = start(stack, "fixed-priority")
    video = client(f, stack, "-", "--priority", "high")
    speech = client(f, stack, "-", "--priority", "low", "--deadline", "300ms")
    feed(video, speech)
    holds_back([video], speech)  # its text would be lost
    f.cli("policy", "least-laxity")
    speech.advances()
    video.advances()
    speech.do("enough")
    for _ in range(3):
        speech.do("burst 10")
    video.advances()
    f.cli("hint", str(speech.pid), "deadline=3600s")
    feed(speech)
    holds_back([video], speech)  # it may wait
    quit_all(video, speech)


def mlfq_serves_all_without_hints(stack):
    f = start(stack, "mlfq", "levels=2", "boost=60s")
    hog, other = client(f, stack), client(f, stack)
    feed(hog)
    hog.advances(200)
    for _ in range(5):
        other.do("burst 5")
    feed(other)
    for _ in range(3):
        hog.advances()
        other.advances()
    eventually("a turn of the lower level is told of", lambda: "highest level that is ready" in reasons(f))
    quit_all(hog, other)


def fair_takes_latency_nice(stack):
    f = start(stack, "fair")
    c = [client(f, stack, "-", f"--latency-nice={n}") for n in (-20, 0, 19)]
    feed(*c)
    for _ in range(3):
        for x in c:
            x.advances()
    check(sorted(g["hints"]["latency-nice"] for g in f.ps()["groups"]) == [-20, 0, 19], "ps shows other hints")
    quit_all(*c)


def queues_made_anew_win_nothing(stack):
    """What a policy knows of a program does not go with its queue: one that makes another for each job gets no more than
    who keeps his. (It had nine tenths, or more.)"""
    f = start(stack, "fair")
    keeps, makes = client(f, stack), client(f, stack, "-", "--share", "20")
    feed(keeps)
    for policy in (["fair"], ["mlfq"], ["bandwidth", "capped=1"]):
        f.cli("policy", *policy)

        def shares():
            keeps.advances()
            before = keeps.finished()
            makes.do("anew 60")
            return keeps.finished() - before

        # Once is chance: the machine may not let it run for a while. One that is kept out always has as little.
        got = []
        while not got or (got[-1] <= 1200 / 3 and len(got) < 5):
            got.append(shares())
        check(got[-1] > 1200 / 3, f"under {policy[0]} it had {got} commands beside 1200 each time")
    quit_all(keeps, makes)


def the_policy_changes_while_they_run(stack):
    f = start(stack, "fifo")
    c = [client(f, stack, "-", "--deadline", "100ms", "--runtime", "5ms"), client(f, stack, device="other:0"),
         client(f, stack, "-", "--foreground=1")]
    feed(*c)
    names = [p["name"] for p in json.loads(f.cli("policy", "--json").stdout)["available"]]
    check(len(names) >= 12, f"the policies are {names}")
    for name in names:
        f.cli("policy", name)
        check(f.ps()["policy"]["name"] == name, "ps shows another policy")
        goal = sum(x.finished() for x in c) + 50
        eventually(f"work goes on under {name}", lambda: sum(x.finished() for x in c) >= goal)
    f.cli("policy", "fifo")
    for x in c:
        x.advances()
    quit_all(*c)


if __name__ == "__main__":
    main(what_a_policy_reads_is_told, a_hint_that_nobody_reads_is_told, weight_and_share_are_shown_where_they_are_read,
         heterogeneous_priority_quiets_the_other_device, aging_is_wanted_or_not, k_edf_runs_the_k_earliest,
         srtf_runs_the_shortest, least_laxity_keeps_the_background_inside_its_deadline, mlfq_serves_all_without_hints,
         fair_takes_latency_nice, queues_made_anew_win_nothing, the_policy_changes_while_they_run)
