#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that is there and does nothing: whom it has stopped goes on by itself, and is scheduled again when the
daemon goes on. (SIGSTOP stands for whatever keeps it from its sockets: a debugger, a loop, a swapped-out page.)"""
import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, check, eventually, lib_client, main, need_cuda_shim, cuda_env


@contextlib.contextmanager
def hung(fermata):
    fermata.daemon.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)


def scheduled_again(fermata, client):
    """The daemon knows it, and can stop it."""
    eventually("it joins again", lambda: fermata.group(client.pid))
    fermata.cli("suspend", str(client.pid))


def suspended(stack):
    """At every level: 1 holds the caller, 2 and 3 hold the device."""
    fermata = Fermata(stack)
    for level in "123":
        fermata.env["FERMATA_LEVEL"] = level
        c, other = lib_client(fermata, stack), lib_client(fermata, stack)
        for x in (c, other):
            x.do("feed")
            x.advances()
        fermata.cli("suspend", str(c.pid))
        c.stands_still()
        with hung(fermata):
            c.advances()
            other.advances()
        fermata.says("continued after a stop", int(level))
        scheduled_again(fermata, c)
        c.stands_still()
        other.advances()
        fermata.cli("resume", str(c.pid))
        c.advances()
        c.quit()
        other.quit()


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
    for _ in range(3):
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


def opencl(stack):
    fermata = Fermata(stack)
    w, other = fermata.worker(), fermata.worker()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    with hung(fermata):
        w.advances()
        other.advances()
    scheduled_again(fermata, w)
    w.stands()
    other.advances()
    fermata.cli("resume", str(w.pid))
    w.finish()
    other.finish()


def cuda(stack):
    """Where the device itself looks at the gate word."""
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env(fermata.env)
    w, other = fermata.cuda_worker(), fermata.cuda_worker()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    with hung(fermata):
        w.advances()
        other.advances()
    scheduled_again(fermata, w)
    w.stands()
    other.advances()
    fermata.cli("resume", str(w.pid))
    w.finish()
    other.finish()


if __name__ == "__main__":
    main(suspended, preempted, begins_meanwhile, idle_costs_nothing, again_and_again, opencl, cuda)
