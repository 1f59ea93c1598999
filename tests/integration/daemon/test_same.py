#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""[device NAME] same: what several APIs name each in its own way is one device, with one order over all that comes to it."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Worker, check, cuda_env, eventually, main, need_cuda_shim, program

SAME = "[device card]\nsame = GPU-* cpu* pthread*\n"
APART = "[daemon]\nlinger_us = 0\n"


def world(stack, config):
    need_cuda_shim()
    f = Fermata(stack, config=APART + config)
    # The linker that OpenCL's driver starts has the sanitizer before it, too, and does not free all that it has.
    f.env = cuda_env({**f.env, "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"})
    return f


def start(f, api, priority):
    p = f.program([program("any_apis"), api], "--priority", str(priority), "--group", f"{api}-{priority}", cls=Worker)
    p.line("ready")
    f.knows(p.pid)
    return p


def devices(f):
    return {q["device"] for g in f.ps()["groups"] for q in g["queues"]}


def holds(p, api):
    """It has work from here on that does not end, until it is told to go."""
    mark = p.mark()
    p.tell(f"hold {api}")
    p.line("held", mark)


def goes(p):
    mark = p.mark()
    p.tell("go")
    p.line("did 0", mark)


def others_wait(stack):
    f = world(stack, SAME)
    for urgent, other in ("opencl", "cuda"), ("cuda", "opencl"):
        high, low = start(f, urgent, 9), start(f, other, 1)
        check(devices(f) == {"card"}, f"devices: {devices(f)}")
        holds(high, urgent)
        low.stands()
        told = json.loads(f.cli("why", f"{other}-1", "--json").stdout)
        check(f"{urgent}-9" in json.dumps(told), f"why: {told}")
        goes(high)
        low.advances()
        high.finish()
        low.finish()
        eventually("they are gone", lambda: not f.ps()["groups"])
    check([d["key"] if "key" in d else d["device"] for d in f.ps()["devices"]] == ["card"], f"devices: {f.ps()['devices']}")


def a_group_has_the_turn_on_both(stack):
    """One group that comes by two APIs is no gang of two devices: its queues run and stop together."""
    f = world(stack, SAME)
    p = f.program([program("any_apis"), "opencl", "cuda"], cls=Worker)
    p.line("ready")
    eventually("both are known", lambda: len((f.group(p.pid) or {"queues": []})["queues"]) == 2)
    check(len(f.group(p.pid)["devices"]) == 1, f"{f.group(p.pid)}")
    f.cli("suspend", str(p.pid))
    p.stands()
    f.cli("resume", str(p.pid))
    p.advances()
    p.finish()


def apart_without_it(stack):
    """And settings that come later hold for queues that come later; groups that are there go on as they were."""
    f = world(stack, "")
    high, low = start(f, "opencl", 9), start(f, "cuda", 1)
    check(len(devices(f)) == 2, f"devices: {devices(f)}")
    holds(high, "opencl")
    low.advances()
    with open(os.path.join(f.dir, "fermatad.conf"), "a", encoding="ascii") as conf:
        conf.write(SAME)
    f.cli("reload")
    low.advances()
    check(len(devices(f)) == 2, f"devices: {devices(f)}")
    later = start(f, "cuda", 2)
    check(len(devices(f)) == 3 and "card" in devices(f), f"devices: {devices(f)}")
    later.finish()
    goes(high)
    high.advances()
    high.finish()
    low.advances()
    low.finish()


def a_daemon_that_comes_back(stack):
    f = world(stack, SAME)
    high, low = start(f, "opencl", 9), start(f, "cuda", 1)
    f.kill()
    low.advances()
    f.start()
    eventually("both are on it", lambda: f.stats()["queues"] == 2 and devices(f) == {"card"})
    holds(high, "opencl")
    low.stands()
    goes(high)
    low.advances()
    high.finish()
    low.finish()


main(others_wait, a_group_has_the_turn_on_both, apart_without_it, a_daemon_that_comes_back)
