#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs of each API do besides, by one program with an adapter for each (any_apis.c): threads are cancelled, it becomes another by
exec, Fermata is switched off, it has more queues than there are slots, its queues end while it is stopped."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from any_apis import Apis, queues_of, start, there, world
from harness import check, eventually, main, program, seldom_sanitized

SLOTS = 128  # of a client: FM_BOARD_SLOTS
# What each calls for a command.
CALLS = {"opencl": "clEnqueueFillBuffer", "cuda": "cuMemsetD32Async", "hip": "hipMemsetAsync", "vulkan": "vkQueueSubmit",
         "ze": "zeCommandQueueExecuteCommandLists", "vpi": "vpiSubmitBoxFilter", "acl": "aclrtMemsetAsync", "cudla": "cudlaSubmitTask"}


# A queue may end there with commands in it, which the driver then completes; at level 2 they are in the driver. HIP waits for them.
MAY_END_BUSY = ("opencl", "cuda", "hip")


def gates_closed(f, p):
    eventually("its gates are closed", lambda: {q["gate"] for g in f.ps()["groups"] for q in g["queues"] if q["pid"] == p.pid} == {"closed"})


def survives_natively(stack, f, api):
    """A driver may itself have points where a thread is cancelled, and keep its locks then."""
    p = Apis([program("any_apis"), api], env=f.env)
    stack.callback(p.close)
    p.line("ready")
    p.tell(f"cancel {api}")
    return p.line("did ") == "did 0"


def threads_cancelled(stack):
    """A thread that has been cancelled already comes through its calls, also where its program is stopped, at either level."""
    f = world(stack)
    apis = [api for api in there() if survives_natively(stack, f, api)]
    check(len(apis) > 1, f"only {apis} survive that natively")
    print(f"         {', '.join(apis)}", flush=True)
    for level in "2", "1":
        p = start(f, *apis, options=("--level", level))
        for api in apis:
            p.must(f"cancel {api}")
            p.tell(f"cancel {api} held")
            p.line("held")
            f.cli("suspend", str(p.pid))
            gates_closed(f, p)
            after = p.mark()
            p.tell("go")
            try:
                p.line("did ", after, seconds=0.2)
            except AssertionError:
                pass
            check(not any(x.startswith("did") for x in p.lines[after:]), f"{api}, level {level}: went on while it was suspended")
            f.cli("resume", str(p.pid))
            check(p.line("did ", after) == "did 0", f"{api}, level {level}: a thread was cancelled in a call")
        p.advances()
        p.finish()


def ends_while_stopped(stack):
    """A queue ends while its gates are closed, and takes nothing of ours along that is still used: another one comes in its place. Where the
    API allows it there is a command behind the gates."""
    f = world(stack)
    p = start(f, *there(), options=("--level", "2"))
    for api in there():
        for how in ("idle", "busy") if api in MAY_END_BUSY else ("idle",):
            after = p.mark()
            p.tell(f"end {api} {how}")
            p.line("held", after)
            f.cli("suspend", str(p.pid))
            gates_closed(f, p)
            p.tell("go")
            if (api, how) != ("hip", "busy"):
                p.line("ended", after)
            f.cli("resume", str(p.pid))
            p.line("ended", after)
            p.tell("go")
            check(p.line("did ", after) == "did 0", f"{api} {how}")
            p.advances(2)
    p.finish()


def execs(stack):
    """The program that comes has queues of its own, and those of the one that was are gone."""
    f = world(stack)
    apis = there()
    p = start(f, *apis)
    for _ in range(2):
        after = p.mark()
        p.tell("exec")
        p.line("ready", after)
        own = [(api, f"any_apis-{p.pid}") for api in sorted(apis)]
        eventually("it has queues of its own alone", lambda: queues_of(f, p) == own)
    f.cli("suspend", str(p.pid))
    p.stands()
    f.cli("resume", str(p.pid))
    p.advances()
    p.finish()


def switched_off(stack):
    f = world(stack)
    f.env["FERMATA_DISABLE"] = "1"
    p = start(f, *there(), queues=0)
    p.advances()
    check(f.stats()["governed"] == f.stats()["ungoverned"] == 0 and not queues_of(f, p), f"{f.stats()}")
    p.finish()


def more_than_slots(stack):
    """What is beyond is not scheduled, but counted by name, and shown."""
    f = world(stack)
    for api in there():
        p = start(f, api)
        p.must(f"more {api} {SLOTS + 2}")
        p.advances(1)
        eventually(f"{api}: it has {len(queues_of(f, p))} queues", lambda: len(queues_of(f, p)) == SLOTS)
        shown = eventually("calls are shown", lambda: re.search(rf"{CALLS[api]}\b.* (\d+) +\d+$", f.cli("ps", "--calls").stdout, re.M))
        check(int(shown[1]) >= 3, f"{api}: {shown[0]}")
        f.cli("suspend", str(p.pid))
        p.stands()
        f.cli("resume", str(p.pid))
        p.advances(1)
        p.finish()
        eventually("it is gone", lambda: not f.ps()["groups"])


main(threads_cancelled, ends_while_stopped, execs, switched_off, *seldom_sanitized(more_than_slots))
