#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One daemon after another: restarts under load, upgrades to another protocol, several at once. And what is configured
while it is suspended by hand."""
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import FERMATAD, Fermata, Steering, check, eventually, lib_client, main, program, seldom_sanitized

NEXT = program("fermatad_next")


def crew(stack, fermata):
    """Programs of both kinds at work, one of them suspended by hand."""
    workers = [fermata.worker(), fermata.worker()]
    clients = [lib_client(fermata, stack), lib_client(fermata, stack)]
    for c in clients:
        c.do("feed")
    fermata.cli("suspend", str(workers[0].pid))
    workers[0].stands()
    return workers, clients


def all_go_on(workers, clients):
    for w in workers + clients:
        w.advances()


def all_end(workers, clients):
    for w in workers:
        w.finish()
    for c in clients:
        c.quit()


def restarts_under_load(stack):
    """Killed and told to end, at any moment, and at once again; with orders on the way."""
    fermata = Fermata(stack)
    rng = random.Random(11)
    fermata.cli("policy", "round-robin", "slice=2")
    workers, clients = crew(stack, fermata)
    for n in range(12):
        time.sleep(rng.uniform(0, 0.1))
        if n % 3 == 2:
            fermata.stop()
        else:
            fermata.kill()
        if n % 4 == 3:
            all_go_on(workers, clients)  # without any
        fermata.start()
        if n % 2:
            for w in workers + clients:
                eventually("all join again", lambda w=w: fermata.group(w.pid))
            fermata.cli("suspend", str(rng.choice(workers + clients).pid))
    fermata.kill()
    all_go_on(workers, clients)
    fermata.start()
    all_go_on(workers, clients)
    all_end(workers, clients)
    eventually("nobody is left", lambda: not fermata.ps()["groups"])


def upgrade(stack):
    """The next daemon speaks another version of the protocol: it refuses who is there, in one line each second at most,
    and they run. When one comes that they understand they are scheduled again."""
    fermata = Fermata(stack)
    workers, clients = crew(stack, fermata)
    for _ in range(2):
        fermata.stop()
        fermata.start(program=NEXT)
        all_go_on(workers, clients)
        fermata.says("refused: protocol version 4; this side speaks 5")
        check(not fermata.ps()["groups"], "it has let in whom it does not understand")
        fresh = fermata.worker(scheduled=False)  # one that knew no other
        fresh.finish()
        fermata.stop()
        fermata.start()
        for w in workers + clients:
            eventually("all join again", lambda w=w: fermata.group(w.pid))
        fermata.cli("suspend", str(clients[1].pid))
        clients[1].stands_still()
        fermata.cli("resume", str(clients[1].pid))
    all_go_on(workers, clients)
    all_end(workers, clients)


def refused_by_the_next_once_a_while(stack):
    """Who is refused asks again ever more seldom."""
    fermata = Fermata(stack, start=False)
    fermata.start(program=NEXT)
    begin = time.monotonic()
    c = lib_client_unscheduled(stack, fermata)
    fermata.says("refused", times=5)
    refusals = sum("refused" in line for line in fermata.log())
    # Before the next attempt it waits for 50 ms, 100 ms, and so on, and no machine makes that less.
    least = 0.05 * (2 ** (refusals - 1) - 1)
    check(time.monotonic() - begin >= least, f"{refusals} refusals within less than {least} s")
    c.tell("quit")
    check(c.wait() == 0, f"status {c.p.returncode}")


def lib_client_unscheduled(stack, fermata):
    c = fermata.program([program("lib_client"), "-"])
    check(c.line("ready") == "ready 0", f"{c.lines}")
    return c


def at_one_moment(stack):
    """Many are started for one directory at the same time: one is it, and the others say who is."""
    fermata = Fermata(stack)
    w = fermata.worker()
    for _ in range(5):
        fermata.kill()
        crowd = [subprocess.Popen([FERMATAD, "--dir", fermata.dir], env=fermata.env, stderr=subprocess.PIPE, text=True)
                 for _ in range(6)]
        eventually("one is left", lambda crowd=crowd: sum(p.poll() is None for p in crowd) == 1)
        fermata.daemon = next(p for p in crowd if p.poll() is None)
        stack.callback(fermata.daemon.stderr.close)
        for p in crowd:
            if p is not fermata.daemon:
                said = p.communicate()[1]
                check(p.returncode == 1 and "another fermatad" in said, f"status {p.returncode}: {said}")
        eventually("the worker joins", lambda: fermata.answers() and fermata.group(w.pid))
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.finish()


def two_daemons(stack):
    """Each in a directory of its own, for the same device: each has its own programs, and one's end is none to the
    other's."""
    one, two = Fermata(stack), Fermata(stack)
    a, b = one.worker(), two.worker()
    check(one.group(a.pid) and not one.group(b.pid), "one schedules another's program")
    check(two.group(b.pid) and not two.group(a.pid), "one schedules another's program")
    two.cli("suspend", str(b.pid))
    b.stands()
    a.advances()
    one.kill()
    a.advances()
    check(two.group(b.pid)["suspended"], "the end of one daemon has resumed a program of the other")
    b.stands()
    two.cli("resume", str(b.pid))
    a.finish()
    b.finish()


POLICIES = ("fifo", "fair slice=3", "edf", "round-robin slice=2", "mlfq", "bandwidth", "least-laxity", "srtf", "k-edf",
            "foreground", "heterogeneous-priority", "fixed-priority")


def configured_while_suspended(stack):
    """A queue suspended by hand, and then all that can be set is set, by operators, by the program, by the settings: it
    stays where it is until it is resumed, and goes on then."""
    fermata = Fermata(stack, config="[daemon]\npolicy = round-robin\n")
    other = fermata.worker()
    w, c = fermata.worker(), lib_client(fermata, stack)
    c.do("feed")
    steer = Steering(stack, fermata)
    for p in (w, c):
        fermata.cli("suspend", str(p.pid))
    w.stands()
    c.stands_still()
    seen = w.position(), c.finished()
    for policy in POLICIES:
        fermata.cli("policy", *policy.split())
        for p in (w, c):
            fermata.cli("hint", str(p.pid), "priority=high", "weight=5", "share=30", "deadline=20ms", "period=30ms",
                        "slice=4ms", "runtime=5ms", "foreground=1", "latency-nice=-5")
            fermata.cli("hint", str(p.pid), "priority=-20", "deadline=0", "share=0", "foreground=0")
            steer("suspend", p.pid)
        other.advances(4)
    fermata.daemon.send_signal(signal.SIGHUP)
    fermata.says("settings read again")
    with c.segment(100):  # declared by the program that stands
        other.advances()
    # What had ended may be told of late: one report.
    check(w.position() <= seen[0] + 4, f"it ran although it was suspended: {w.position()}, {seen}")
    c.stood(seen[1])
    for p in (w, c):
        fermata.cli("resume", str(p.pid))
        p.advances()
    c.do("suspend")  # its own queue, by the program itself; then the group, by hand
    fermata.cli("hint", str(c.pid), "priority=high")
    fermata.cli("suspend", str(c.pid))
    fermata.cli("policy", "fixed-priority")
    c.do("resume")  # of its own queue
    check(not c.state()["scheduled"], "the program has undone what the operator did")
    fermata.cli("resume", str(c.pid))
    c.advances()
    c.quit()
    w.finish()
    other.finish()


if __name__ == "__main__":
    main(restarts_under_load, *seldom_sanitized(upgrade), refused_by_the_next_once_a_while, at_one_moment, two_daemons,
         configured_while_suspended)
