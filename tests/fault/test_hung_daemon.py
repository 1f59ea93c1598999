#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that is there and does nothing: whom it has stopped goes on by itself, and is scheduled again when the
daemon goes on. (SIGSTOP stands for whatever keeps it from its sockets: a debugger, a loop, a swapped-out page.)"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, SANITIZE, Fermata, LibClient, Skip, check, cuda_env, eventually, hung, lib_client, main, seldom_sanitized


def scheduled_again(fermata, client):
    """The daemon knows it, and can stop it."""
    eventually("it joins again", lambda: fermata.group(client.pid))
    fermata.cli("suspend", str(client.pid))


def crew(stack, fermata):
    """Of each kind that waits in another way: at level 1 the caller, at 2 and 3 the device; where the driver calls back,
    and where the device itself looks at the gate word."""
    clients = []
    for level in "123":
        fermata.env["FERMATA_LEVEL"] = level
        clients.append(lib_client(fermata, stack, "-", device=f"dev:{level}"))
        clients[-1].do("feed")
        del fermata.env["FERMATA_LEVEL"]
    clients.append(fermata.worker())
    if not SANITIZE and os.path.exists(os.path.join(BUILD, "lib", "libfermata-cuda.so")):
        fermata.env = cuda_env(fermata.env)
        clients.append(fermata.cuda_worker())
    return clients


def stands(c):
    if isinstance(c, LibClient):
        c.stands_still()
    else:
        c.stands()


def suspended(stack):
    fermata = Fermata(stack)
    clients, other = crew(stack, fermata), fermata.worker()
    for c in clients:
        c.advances()
        fermata.cli("suspend", str(c.pid))
        stands(c)
    with hung(fermata):
        for c in clients + [other]:
            c.advances()
    fermata.says("continued after a stop")
    for c in clients:
        scheduled_again(fermata, c)
        stands(c)
    other.advances()
    other.finish()
    for c in clients:
        fermata.cli("resume", str(c.pid))
        c.advances()
        if isinstance(c, LibClient):
            c.quit()
        else:
            c.finish()


def preempted(stack):
    """Who waits for somebody more urgent does not wait for a daemon; afterwards it waits again."""
    fermata = Fermata(stack)
    low, high = lib_client(fermata, stack), lib_client(fermata, stack, "-", "--priority", "high")
    low.do("feed")
    high.do("feed")
    low.stands_still()
    with hung(fermata):
        low.advances()
        high.advances()
    eventually("both join again", lambda: fermata.group(low.pid) and fermata.group(high.pid))
    eventually("it has priority again", lambda: not low.state()["scheduled"])
    low.stands_still()
    high.advances()
    high.quit()
    low.advances()
    low.quit()


def begins_meanwhile(stack):
    """A program that was idle for long, whose agent sleeps, begins work at a gate that is closed."""
    fermata = Fermata(stack)
    c = lib_client(fermata, stack)
    c.do("burst 3")
    fermata.cli("suspend", str(c.pid))
    eventually("its agent sleeps", lambda: dozes(c.pid))
    with hung(fermata):
        c.do("burst 50")
    scheduled_again(fermata, c)
    c.quit()


def wakeups(pid):
    """How often its threads have gone to sleep by themselves."""
    n = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as f:
            n += sum(int(line.split()[1]) for line in f if line.startswith("voluntary"))
    return n


def dozes(pid, seconds=2.5):
    """Nobody in it wakes up for longer than the agent's looks are apart."""
    if SANITIZE == "thread":
        raise Skip("the sanitizer has a thread of its own that wakes up")
    before = wakeups(pid)
    time.sleep(seconds)
    return wakeups(pid) == before


def idle_costs_nothing(stack):
    """A program without work is not woken up to watch the daemon; one with work is watched again."""
    fermata = Fermata(stack)
    c = lib_client(fermata, stack)
    for _ in range(2):
        c.do("burst 10")
        eventually("nobody wakes up", lambda: dozes(c.pid))
    c.quit()


def again_and_again(stack):
    """A daemon that stops and goes on at any moment, with clients that wait and clients that run."""
    fermata = Fermata(stack)
    fermata.cli("policy", "round-robin", "slice=5")
    clients = [lib_client(fermata, stack) for _ in range(3)]
    for c in clients:
        c.do("feed")
    for _ in range(2):
        with hung(fermata):
            for c in clients:
                c.advances()
        for c in clients:
            eventually("all join again", lambda c=c: fermata.group(c.pid))
        for c in clients:
            c.advances()
    check(len(fermata.ps()["groups"]) == 3, "a session of before is left over")
    for c in clients:
        c.quit()
    eventually("all have left", lambda: not fermata.ps()["groups"])


if __name__ == "__main__":
    main(suspended, *seldom_sanitized(preempted), begins_meanwhile, *seldom_sanitized(idle_costs_nothing), again_and_again)
