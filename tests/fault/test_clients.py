#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that die, stop, fork and exec at the worst moment: the others do not notice."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import SANITIZE, Fermata, Skip, check, eventually, halt, lib_client, main, seldom_sanitized


def gone(fermata, pid):
    eventually(f"the group of {pid} leaves", lambda: fermata.group(pid) is None)


def state(fermata, pid):
    """Of its group on the device: idle, ready, running, suspended."""
    group = fermata.group(pid)
    return group["devices"][0]["state"] if group and group["devices"] else None


def rests(fermata, worker):
    """It has stalled: all its groups' gates are closed and nothing more comes out of it."""

    def still():
        before = worker.position()
        queues = fermata.group(worker.pid)["queues"]
        closed = all(q["gate"] == "closed" for q in queues)
        return closed and worker.position() == before and state(fermata, worker.pid) == "suspended"

    eventually(f"{worker.pid} rests", still)


def killed_while_suspended(stack):
    fermata = Fermata(stack)
    victim, other = fermata.worker(), fermata.worker()
    fermata.cli("suspend", str(victim.pid))
    rests(fermata, victim)
    other.advances()
    victim.kill()
    gone(fermata, victim.pid)
    fermata.says(rf"worker \(pid {victim.pid}, user \d+\) left with work under way, which was stopped")
    other.advances()
    other.finish()
    gone(fermata, other.pid)


def killed_while_holding_the_device(stack):
    """The holder shuts everyone else out by its priority until it dies."""
    fermata = Fermata(stack)
    other = fermata.worker("--priority", "low")
    victim = fermata.worker("--priority", "high")
    eventually("the victim holds the device", lambda: state(fermata, victim.pid) == "running")
    victim.kill()
    gone(fermata, victim.pid)
    other.advances()
    other.finish()


def killed_by_the_dozen(stack):
    """Each at another moment of its life. (LLVM, in PoCL, swallows the first SIGSEGV or SIGABRT.)"""
    fermata = Fermata(stack)
    other = fermata.worker()
    for n in range(12):
        victim = fermata.worker("--priority", "high" if n % 2 else "normal")
        if n % 3:
            victim.advances(4 * n)
        victim.kill((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[n % 3])
        victim.wait()
    eventually("one group is left", lambda: len(fermata.ps()["groups"]) == 1)
    other.advances()
    other.finish()


def stopped_while_holding_the_device(stack):
    """A holder under SIGSTOP neither works nor stalls. Who is more urgent is served all the same; equals
    get their turns; the stopped one goes on where it was."""
    fermata = Fermata(stack)
    victim = fermata.worker("--priority", "normal")
    halt(victim.p)
    urgent = fermata.worker("--priority", "high")
    urgent.advances()
    urgent.finish()
    equal = fermata.worker("--priority", "normal")
    equal.advances()
    victim.kill(signal.SIGCONT)
    victim.advances()
    equal.advances()
    equal.finish()
    victim.finish()


def stopped_among_equals(stack):
    """One of three under SIGSTOP does not come to rest. The device is not its own for that: the turns of the others
    are theirs, and end."""
    fermata = Fermata(stack, '[daemon]\npolicy = round-robin\n')
    victim = fermata.worker()
    halt(victim.p)
    others = [fermata.worker(), fermata.worker()]
    for other in others:
        eventually("its turns count", lambda: fermata.group(other.pid)["devices"][0]["charged_ms"] > 0)
        other.advances()
    victim.kill(signal.SIGCONT)
    for w in (victim, *others):
        w.advances()
        w.finish()


def most_urgent_is_stopped(stack):
    """Nobody takes the device from the most urgent program by itself, also if it sleeps in the middle of
    a job; an operator can: suspend it, or lower its priority."""
    fermata = Fermata(stack)
    other = fermata.worker("--priority", "low")
    victim = fermata.worker("--priority", "high")
    halt(victim.p)
    fermata.cli("suspend", str(victim.pid))
    other.advances()
    fermata.cli("resume", str(victim.pid))
    fermata.cli("hint", str(victim.pid), "priority=-100")
    other.advances()
    victim.kill(signal.SIGCONT)
    other.finish()
    victim.finish()


def forks(stack):
    """A child that exits, or stays with all that it inherited, is not the client."""
    fermata = Fermata(stack)
    parent, other = fermata.worker(), fermata.worker()
    mark = parent.mark()
    parent.tell("fork-exit")
    parent.line("forked", mark)
    parent.advances()
    check(fermata.group(parent.pid), "the parent's group is gone with a child")
    mark = parent.mark()
    parent.tell("fork-hold")
    child = int(parent.line("child ", mark).split()[1])
    stack.callback(os.kill, child, signal.SIGKILL)
    parent.advances()
    check(len(fermata.ps()["groups"]) == 2, "the child has become a client")
    parent.kill()
    gone(fermata, parent.pid)  # although the child still has its socket, if it inherited one
    other.advances()
    other.finish()


def killed_with_a_child(stack):
    """The suspended parent dies and leaves a child: nobody waits for its board."""
    fermata = Fermata(stack)
    parent, other = fermata.worker(), fermata.worker()
    mark = parent.mark()
    parent.tell("fork-hold")
    child = int(parent.line("child ", mark).split()[1])
    stack.callback(os.kill, child, signal.SIGKILL)
    fermata.cli("suspend", str(parent.pid))
    rests(fermata, parent)
    parent.kill()
    gone(fermata, parent.pid)
    other.advances()
    other.finish()


def spawns(stack):
    """A child that uses the device itself is a client of its own, with the hints of its environment."""
    fermata = Fermata(stack)
    parent = fermata.worker("--priority", "high")
    mark = parent.mark()
    parent.tell("spawn")
    child = int(parent.line("child ", mark).split()[1])
    group = eventually("the child joins", lambda: fermata.group(child))
    check(group["hints"]["priority"] == 64, f"the child has priority {group['hints']['priority']}")
    parent.tell("stop")  # which the child reads
    check(parent.line("child ended", mark) == "child ended 0", "the child's results are wrong")
    gone(fermata, child)
    parent.advances()
    parent.finish()


def execs(stack):
    """What a program becomes by exec has no queues: its group goes, the process goes on."""
    fermata = Fermata(stack)
    other, victim = fermata.worker("--priority", "low"), fermata.worker("--priority", "high")
    victim.tell("exec")
    gone(fermata, victim.pid)
    mark = victim.mark()
    victim.tell("still here")
    victim.line("still here", mark)
    other.advances()
    other.finish()


def close_what_is_not_theirs(stack):
    """A program that closes one of the descriptors that Fermata has in it, whichever, runs on, right and to its end."""
    if SANITIZE == "thread":
        raise Skip("that is a race, as it says")
    fermata = Fermata(stack)
    first = lib_client(fermata, stack)
    first.do("burst 5")
    ours = [int(fd) for fd in os.listdir(f"/proc/{first.pid}/fd") if int(fd) > 2]
    check(len(ours) >= 3, f"there are {ours} alone")
    first.quit()
    for fd in ours:
        c = lib_client(fermata, stack)
        c.do("burst 5")
        c.do(f"close {fd}")
        for _ in range(10):
            c.do("burst 5")
        c.quit()


if __name__ == "__main__":
    main(killed_while_suspended, killed_while_holding_the_device, killed_by_the_dozen,
         stopped_while_holding_the_device, *seldom_sanitized(stopped_among_equals, most_urgent_is_stopped), forks, killed_with_a_child, spawns, execs,
         close_what_is_not_theirs)
