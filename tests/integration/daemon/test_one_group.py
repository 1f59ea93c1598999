#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that uses several APIs is one group: whatever it works by, it is hinted, stopped, shown and counted as one."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))
from harness import Fermata, Worker, check, cuda_env, eventually, main, need_cuda_shim, program  # noqa: E402


def groups(f, p):
    """Those that have queues of it."""
    return [g for g in f.ps()["groups"] if any(q["pid"] == p.pid for q in g["queues"])]


def apis(f, p):
    return {g["name"]: {q["api"] for q in g["queues"]} for g in groups(f, p)}


def start(f, *args, options=(), clients=2):
    p = f.program([program("several_apis"), *args], *options, cls=Worker)
    p.line("ready")
    eventually("all of its clients are known", lambda: sum(len(g["queues"]) for g in groups(f, p)) >= clients)
    return p


def only(f, p):
    found = groups(f, p)
    check(len(found) == 1, f"it is in {[g['name'] for g in found]}")
    return found[0]


def steered_as_one(f, p):
    f.cli("suspend", str(p.pid))
    p.stands()
    check(only(f, p)["suspended"], "it is not suspended")
    f.cli("resume", str(p.pid))
    p.advances()


def opencl_and_the_library(stack):
    f = Fermata(stack)
    p = start(f, options=("--priority", "5"))
    group = only(f, p)
    check(group["name"] == f"several_apis-{p.pid}", f"its name: {group['name']}")
    check(group["clients"] == 2 and {q["api"] for q in group["queues"]} == {"opencl", "lib"}, f"clients: {group}")
    check(len(group["devices"]) == 2 and group["hints"]["priority"] == 5, f"devices, hints: {group}")
    check(f.cli("suspend", str(p.pid), "--json").stdout.count(group["name"]) == 1, "suspended once")
    f.cli("resume", str(p.pid))
    steered_as_one(f, p)
    p.tell("priority 7")
    eventually("the library's hint is the group's", lambda: only(f, p)["hints"]["priority"] == 7)
    stats = f.stats()
    check(stats["clients"] == 2 and stats["groups"] == 1, f"counts: {stats}")
    p.finish()
    eventually("it is gone", lambda: not f.ps()["groups"])


def a_hint_outlives_the_daemon(stack):
    """Each client tells the next daemon what it knows: whichever comes last, it is what was said last."""
    f = Fermata(stack)
    p = start(f, options=("--priority", "5"))
    p.tell("priority 7")
    eventually("it is the group's", lambda: only(f, p)["hints"]["priority"] == 7)
    for _ in range(3):
        f.kill()
        f.start()
        eventually("both are back", lambda: f.stats()["clients"] == 2 and f.stats()["queues"] == 2)
        check(only(f, p)["hints"]["priority"] == 7, f"after the daemon: {only(f, p)['hints']}")
    p.finish()


def a_hint_without_a_daemon_holds(stack):
    """One client alone knows it. The others come to the next daemon with the environment's, before that one or after it."""
    f = Fermata(stack)
    for value in range(7, 11):
        p = start(f, options=("--priority", "5"))
        f.kill()
        p.tell(f"priority {value}")
        f.start()
        eventually("both are back", lambda: f.stats()["clients"] == 2 and f.stats()["queues"] == 2)
        eventually("what was said last holds", lambda: only(f, p)["hints"]["priority"] == value)
        p.finish()


def a_name_is_for_what_it_names(stack):
    f = Fermata(stack)
    p = start(f)
    p.tell("become aside")
    eventually("each is where it belongs", lambda: apis(f, p) == {f"several_apis-{p.pid}": {"opencl"}, "aside": {"lib"}})
    p.finish()


def a_name_for_all_of_it(stack):
    f = Fermata(stack)
    p, other = (start(f, options=("--group", "team")) for _ in range(2))
    check(only(f, p)["name"] == "team" and only(f, p)["clients"] == 4, f"team: {only(f, p)}")
    p.finish()
    eventually("the other is alone in it", lambda: only(f, other)["clients"] == 2)
    other.finish()


def processes_are_apart(stack):
    f = Fermata(stack)
    p, other = start(f), start(f)
    check(only(f, p)["id"] != only(f, other)["id"], "they are one group")
    f.cli("suspend", str(p.pid))
    p.stands()
    other.advances()
    f.cli("resume", str(p.pid))
    p.finish()
    other.finish()


def cuda_as_well(stack):
    need_cuda_shim()
    f = Fermata(stack)
    # The linker that OpenCL's driver starts has the sanitizer before it, too, and does not free all that it has.
    f.env = cuda_env({**f.env, "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"})
    p = start(f, "cuda", clients=3)
    group = only(f, p)
    check(group["clients"] == 3 and {q["api"] for q in group["queues"]} == {"cuda", "opencl", "lib"}, f"{group}")
    steered_as_one(f, p)
    told = json.loads(f.cli("why", str(p.pid), "--json").stdout)
    check(len(told["groups"]) == 1, f"why: {told['groups']}")
    page = f.cli("metrics").stdout
    rows = [line for line in page.splitlines() if line.startswith("fermata_group_processes{")]
    check(len(rows) == 1 and f'pid="{p.pid}"' in rows[0] and rows[0].endswith(" 1"), f"metrics: {rows}")
    rows = [line for line in page.splitlines() if line.startswith("fermata_process_") and "device_seconds" in line]
    check(len(set(rows)) == len(rows) == 3, f"metrics of processes: {rows}")
    p.finish()


main(opencl_and_the_library, a_hint_outlives_the_daemon, a_hint_without_a_daemon_holds, a_name_is_for_what_it_names, a_name_for_all_of_it,
     processes_are_apart, cuda_as_well)
