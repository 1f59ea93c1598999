#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public library under the real daemon: several processes whose queues name one device."""

import os
import signal
import string
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, LibClient, check, eventually, halt, lib_client as client, main, program  # noqa: E402


level = 0  # of preemption, that the case at hand is for: set by at_level()


def fermata(stack):
    f = Fermata(stack)
    f.env["FERMATA_LEVEL"] = str(level)
    return f


def in_turns(stack):
    f = fermata(stack)
    f.cli("policy", "round-robin", "slice=2")
    return f


def shows_what_it_is(stack):
    f = fermata(stack)
    c = client(f, stack)
    c.do("burst 5")
    eventually("its queue is listed", lambda: f.group(c.pid))
    (q,) = f.group(c.pid)["queues"]
    check(q["api"] == "lib" and q["device"] == "shared:0" and q["level"] == level, f"ps shows {q}")
    c.quit()
    eventually("it has left", lambda: not f.group(c.pid))


def a_segment_of_high_priority_has_the_device(stack):
    f = fermata(stack)
    batch, task = client(f, stack), client(f, stack)
    batch.do("feed")
    for _ in range(3):
        batch.advances()
        task.do("segment 128")
        still = batch.stands_still()
        task.do("burst 100")
        batch.stood(still)
        task.do("end")
        batch.advances()
    check(f.preemptions() >= 1, "no preemption is counted")
    batch.quit()
    task.quit()


def counts_what_has_left_once(stack):
    """Also if the daemon finds a program gone before it has read that its queues went."""
    f = fermata(stack)
    c = client(f, stack)
    c.do("burst 5")
    halt(f.daemon)
    c.do("anew 40")  # 20 commands in each of 40 more queues: more messages than the daemon reads at a time
    c.quit()
    f.daemon.send_signal(signal.SIGCONT)
    eventually("it has left", lambda: not f.stats()["clients"])
    check(f.stats()["governed"] == 805, f"805 commands are counted as {f.stats()['governed']}")


def priorities_of_the_command_line(stack):
    f = fermata(stack)
    low = client(f, stack, "-", "--priority", "low")
    high = client(f, stack, "-", "--priority", "high")
    low.do("feed")
    low.advances()
    high.do("feed")
    with high.segment():
        still = low.stands_still()
        high.advances(200)
        low.stood(still)
    f.cli("hint", str(low.pid), "priority=200")
    with low.segment():
        low.advances()
        high.stands_still()
    low.do("enough")
    high.advances()
    low.quit()
    high.quit()


def the_operator_suspends_and_resumes(stack):
    f = in_turns(stack)
    one, other = client(f, stack), client(f, stack)
    for c in (one, other):
        c.do("feed")
    one.advances()
    f.cli("suspend", str(one.pid))
    still = one.stands_still()
    other.advances(200)
    one.stood(still)
    f.cli("resume", str(one.pid))
    one.advances()
    one.quit()
    other.quit()


def one_name_is_one_group(stack):
    f = in_turns(stack)
    a, b, c = client(f, stack, "team"), client(f, stack, "team"), client(f, stack)
    for p in (a, b, c):
        p.do("feed")
    a.advances()
    b.advances()
    f.cli("suspend", "team")
    still = [p.stands_still() for p in (a, b)]
    c.advances(200)
    for p, before in zip((a, b), still):
        p.stood(before)
    f.cli("resume", "team")
    a.advances()
    b.advances()
    for p in (a, b, c):
        p.quit()


def names_of_groups(stack):
    """A name that the daemon would not take is refused to the program: it is scheduled all the same."""
    f = fermata(stack)
    for character in string.punctuation + " ":
        p = LibClient([program("lib_client"), f"a{character}b"], env=f.env)
        stack.callback(p.close)
        if p.line("ready") == "ready 0":
            f.knows(p.pid)
            p.quit()
        else:
            check(character in " /\"'`", f"a name with {character} is refused")
    check(not any("refused" in line for line in f.log()), "the daemon is told names that it does not take")


def segments_within_segments(stack):
    """More than the daemon counts: each ends with its own end, the outermost last."""
    f = fermata(stack)
    c = client(f, stack)

    def state():
        return f.group(c.pid)["devices"][0]["state"]

    def has_priority(p):
        return f.group(c.pid)["effective_priority"] == p

    for depth in (1, 32, 33, 100):
        for _ in range(depth):
            c.do(f"segment {-(2**31)}")
        for _ in range(depth - 1):
            c.do("end")
        c.do("segment 5")  # when that is heard of, so is all that was said before
        eventually("it has said so much", lambda: has_priority(5))
        c.do("end")
        eventually("it has ended that", lambda: has_priority(0))
        check(state() == "running", f"inside the first of {depth} segments it is {state()}")
        c.do("end")
        eventually("it is inside none", lambda: state() == "idle")
    c.quit()


def devices_of(f, name):
    """What ps shows of a group: its devices, by their names."""
    (group,) = (g for g in f.ps()["groups"] if g["name"] == name)
    return {d["device"]: d for d in group["devices"]}


def a_group_on_two_devices_is_a_gang(stack):
    """Two processes, one group, a device each: urgent work on one stops both, and the other device is
    somebody else's meanwhile."""
    f = fermata(stack)
    a, b = (client(f, stack, "ranks", device=d) for d in ("shared:0", "shared:1"))
    task, other = client(f, stack), client(f, stack, "-", "--priority", "low", device="shared:1")
    for c in (a, b, other):
        c.do("feed")
    for _ in range(3):
        a.advances()
        b.advances()
        task.do("segment 128")
        still = [p.stands_still() for p in (a, b)]
        eventually("ps tells what it waits for", lambda: devices_of(f, "ranks")["shared:1"]["reason"]
                   == "held: its gang waits on device shared:0")
        check(devices_of(f, "ranks")["shared:1"]["state"] == "ready", "a held group is not shown as ready")
        task.do("burst 50")
        other.advances(200)
        for p, before in zip((a, b), still):
            p.stood(before)
        task.do("end")
    f.cli("hint", "ranks", "gang=0")
    task.do("segment 128")
    a.stands_still()
    b.advances(100)
    f.cli("hint", "ranks", "gang=1")
    b.stands_still()
    task.kill()  # with the device: the gang is let in again, on both
    a.advances()
    b.advances()
    for c in (a, b, other):
        c.quit()


def it_stops_itself(stack):
    f = in_turns(stack)
    a, b = client(f, stack), client(f, stack)
    for p in (a, b):
        p.do("feed")
    a.advances()
    a.do("suspend")
    check(a.state()["suspended"] and a.state()["stalled"], "it does not say that it is suspended")

    def rests():  # at first it may still be told of what had finished
        before = a.finished()
        b.advances(50)
        return a.finished() == before

    eventually("it does not run while it has stopped itself", rests)
    a.do("resume")
    a.advances()
    a.quit()
    b.quit()


def the_daemon_dies_and_comes_back(stack):
    f = fermata(stack)
    batch, task = client(f, stack), client(f, stack)
    batch.do("feed")
    batch.advances()
    task.do("segment 128")
    batch.stands_still()
    f.kill()
    batch.advances()  # nobody schedules: everybody runs
    task.do("burst 50")
    f.start()
    batch.stands_still()  # the new daemon has been told of the segment
    task.do("burst 50")
    task.do("end")
    batch.advances()
    batch.quit()
    task.quit()


def a_client_dies_with_the_device(stack):
    f = fermata(stack)
    batch, task = client(f, stack), client(f, stack)
    batch.do("feed")
    batch.advances()
    task.do("segment 128")
    batch.stands_still()
    task.kill()
    batch.advances()
    batch.quit()


def children_are_clients_of_their_own(stack):
    f = in_turns(stack)
    a, b = client(f, stack), client(f, stack)
    a.do("feed")
    b.do("feed")
    if not os.environ.get("SANITIZE"):  # whose runtimes are not made for threads after fork()
        for _ in range(3):
            a.do("fork")
    a.advances()
    b.advances()
    a.quit()
    b.quit()


CASES = (
    shows_what_it_is,
    counts_what_has_left_once,
    a_segment_of_high_priority_has_the_device,
    priorities_of_the_command_line,
    the_operator_suspends_and_resumes,
    one_name_is_one_group,
    names_of_groups,
    segments_within_segments,
    a_group_on_two_devices_is_a_gang,
    it_stops_itself,
    the_daemon_dies_and_comes_back,
    a_client_dies_with_the_device,
    children_are_clients_of_their_own,
)
LEVELS = (1, 2, 3)


def at_level(n, case):
    def run(stack):
        global level
        level = n
        case(stack)

    run.__name__ = f"{case.__name__}, level {n}"
    return run


if __name__ == "__main__":
    main(*(at_level(n, case) for n in LEVELS for case in CASES))
