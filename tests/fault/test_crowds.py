#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many at once: short programs without end, a thousand groups, orders in a storm. The others do not notice."""
import contextlib
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import LONG, SANITIZE, Fermata, Program, Steering, check, eventually, lib_client, main, program, seldom_sanitized

SECONDS = 30 if LONG and not SANITIZE else 5
GROUPS = 100 if SANITIZE else 1000


def daemon_fds(fermata):
    return len(os.listdir(f"/proc/{fermata.daemon.pid}/fd"))


def resident_kib(fermata):
    with open(f"/proc/{fermata.daemon.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def crowd(stack, fermata, *argv):
    p = Program([program("crowd"), *map(str, argv)], env=fermata.env)
    stack.callback(p.close)
    return p


def short_programs(stack):
    """200 a second, for half a minute: none fails, none leaves anything behind. The others use no processor."""
    fermata = Fermata(stack)
    fermata.cli("policy", "round-robin", "slice=1")
    others = [lib_client(fermata, stack) for _ in range(2)]
    for other in others:
        other.do("feed")
    crowd(stack, fermata, "short", 200, 1).line("short 200 wrong 0")  # what is kept for good is there now
    eventually("they have left", lambda: len(fermata.ps()["groups"]) == 2)
    fds, rss = daemon_fds(fermata), resident_kib(fermata)
    p = crowd(stack, fermata, "short", 200, SECONDS)
    for other in 3 * others:
        other.advances()
    check(p.line("short ", seconds=10 * SECONDS) == f"short {200 * SECONDS} wrong 0", p.lines)
    eventually("they have left", lambda: len(fermata.ps()["groups"]) == 2)
    eventually("no descriptor is left over", lambda: daemon_fds(fermata) <= fds)
    grown = resident_kib(fermata) - rss
    check(SANITIZE or grown < 2048, f"the daemon has grown by {grown} KiB")
    for other in others:
        other.quit()
    check(len(fermata.log()) == 2, f"it starts and is given a policy, and has no more to say: {fermata.log()[:9]}")


def thousand_groups(stack):
    """They join at one moment, are there, and each gets its turn."""
    fermata = Fermata(stack)
    fermata.cli("policy", "round-robin", "slice=1")
    w = fermata.worker()
    fds = daemon_fds(fermata)
    p = crowd(stack, fermata, "join", GROUPS)
    p.line("joined")
    eventually("all are known", lambda: fermata.stats()["groups"] == GROUPS + 1)
    w.advances()
    p.tell("go")
    check(p.line("done ", seconds=200) == "done wrong 0", p.lines)
    eventually("they have left", lambda: fermata.stats()["groups"] == 1)
    eventually("no descriptor is left over", lambda: daemon_fds(fermata) <= fds)
    w.finish()


def thousand_groups_leave(stack):
    """And all are killed at one moment."""
    fermata = Fermata(stack)
    w = fermata.worker()
    p = crowd(stack, fermata, "join", GROUPS)
    p.line("joined")
    eventually("all are known", lambda: fermata.stats()["groups"] == GROUPS + 1)
    p.kill()
    eventually("they have left", lambda: fermata.stats()["groups"] == 1)
    w.advances()
    w.finish()


def storm(fermata, targets, seed, orders, wrong):
    rng = random.Random(seed)
    try:
        with contextlib.ExitStack() as stack:
            steer = Steering(stack, fermata)
            for _ in range(orders):
                steer(rng.choice(("suspend", "resume")), rng.choice(targets))
    except Exception as e:  # pylint: disable=broad-except
        wrong.append(e)


def steered_by_many(stack):
    """Operators who contradict each other, as fast as they can; whoever is not meant works on."""
    fermata = Fermata(stack)
    fermata.cli("policy", "round-robin", "slice=1")
    free = fermata.worker()
    clients = [lib_client(fermata, stack) for _ in range(4)]
    w = fermata.worker()
    for c in clients:
        c.do("feed")
    targets = [c.pid for c in clients] + [w.pid]
    wrong = []
    threads = [threading.Thread(target=storm, args=(fermata, targets, seed, 1500, wrong)) for seed in range(6)]
    for t in threads:
        t.start()
    free.advances()
    for t in threads:
        t.join()
    check(not wrong, f"{wrong}")
    for pid in targets:
        fermata.cli("resume", str(pid))
    for c in clients:
        c.advances()
        c.quit()
    w.advances()
    w.finish()
    free.advances()
    free.finish()


if __name__ == "__main__":
    main(short_programs, thousand_groups, thousand_groups_leave, *seldom_sanitized(steered_by_many))
