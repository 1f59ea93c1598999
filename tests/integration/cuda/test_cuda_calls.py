#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a CUDA program's calls are counted. The driver is the fake one; FERMATA_TEST_CUDA=real takes the machine's."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Skip, check, cuda_env, eventually, main, need_cuda_shim, program, seldom_sanitized

REAL = os.environ.get("FERMATA_TEST_CUDA") == "real"


class World:
    def __init__(self, stack, *way, start=True, name="cuda_calls", **env):
        need_cuda_shim()
        self.fermata = Fermata(stack, start=start)
        self.fermata.env = {**cuda_env(self.fermata.env), **env}
        self.p = self.fermata.program([program(name), *way])
        self.p.line("ready")
        if start:
            self.fermata.knows(self.p.pid)

    def do(self, command, n=1, **expected):
        """What the command adds to the group's counters: those that are expected, when the daemon knows all its queues."""
        before = self.group()
        self.run(command, n)

        def added():
            now = self.group()
            got[:] = [{k: now[k] - before[k] for k in ("governed", "ungoverned", "undivided")}]
            return all(got[0][k] == v for k, v in expected.items())

        got = []
        try:
            eventually("that is counted", added)
        except AssertionError as e:
            raise AssertionError(f"{command}: {got[0]} is not {expected}") from e
        return got[0]

    def run(self, command, n):
        at = self.p.mark()
        self.p.tell(f"{command} {n}")
        self.p.line(command, after=at)

    def group(self):
        return self.fermata.group(self.p.pid)


def old_and_rare_launches(stack):
    """Those without a variant for per-thread default streams, and the one on several streams."""
    for via in ("link", "dlsym", "proc"):
        w = World(stack, "--via", via)
        for command, calls in (("kernels", 10), ("old", 10), ("several", 20)):  # a copy before each
            w.do(command, 10, governed=calls, ungoverned=0, undivided=0)


def another_context(stack):
    """However one becomes current, what goes to its default stream is not counted as the first one's: it would not stop
    with its own."""

    def launches(w, n):
        """By queue: what n more have added."""
        def queues():
            return {q["id"]: q["submitted"] for q in w.group()["queues"]}

        before = queues()
        w.do("default", n, governed=n, ungoverned=0)
        return {q: k - before.get(q, 0) for q, k in queues().items() if k != before.get(q, 0)}

    for how in (1, 4) if REAL else (1, 2, 3, 4):  # the others need two devices
        for via in ("link", "proc"):
            w = World(stack, "--via", via, FAKE_CUDA_DEVICES="2")
            first = launches(w, 11)
            check(list(first.values()) == [11], f"in the first: {first}")
            w.run("another", how)
            other = launches(w, 7)
            check(list(other.values()) == [7] and not set(other) & set(first), f"way {how}: {other} beside {first}")


def a_newer_driver(stack):
    """What the driver gives for a version that the shim does not know is handed on as it is."""
    if REAL:
        raise Skip("the driver is there as it is")
    w = World(stack, "--via", "proc", FAKE_CUDA_NEW="1")
    w.do("newer")
    w.do("kernels", 10, governed=10, ungoverned=0, undivided=0)  # the rest is governed


def streams_beyond_the_board(stack):
    """A board has 128 slots: what goes past is counted, and named."""
    w = World(stack)
    free = 128 - len(w.group()["queues"])
    w.do("streams", free, governed=3 * free, ungoverned=0, undivided=0)  # with room
    check(w.group()["calls"] == [], "nothing went past")
    w.do("streams", 10, governed=0, ungoverned=30, undivided=0)  # without
    named = {c["call"]: c["ungoverned"] for c in w.group()["calls"]}
    check(named == {"cuMemsetD32Async": 10, "cuLaunchKernel": 20}, f"named: {named}")
    table = [line.split() for line in w.fermata.cli("ps", "--calls").stdout.splitlines()]
    group = w.group()["name"]
    check(table == [["GROUP", "CALL", "UNGOVERNED", "UNDIVIDED"], [group, "cuMemsetD32Async", "10", "0"],
                    [group, "cuLaunchKernel", "20", "0"]], f"ps --calls: {table}")


def graphs_without_gates(stack):
    """A graph of 2 ms that holds no gates is counted, once it is known to be long. One with gates is not, whatever was
    made of it."""
    def are_divided(via):
        w = World(stack, "--via", via)
        undivided = w.do("composed", 40, governed=40, ungoverned=0)["undivided"]
        check(0 < undivided < 40, f"composed via {via}: {undivided} undivided of 40")
        check(w.group()["calls"] == [{"call": "cuGraphLaunch", "ungoverned": 0, "undivided": undivided}], "and named")
        w.run("learn", 4)
        gates = sum(q["gates"] for q in w.group()["queues"])
        if any(w.do(command, 40, governed=40, ungoverned=0)["undivided"] for command in ("captured", "clone", "child")):
            return False
        check(sum(q["gates"] for q in w.group()["queues"]) > gates, "gates were captured")
        check(w.fermata.stats()["undivided"] == undivided, "stats")
        return True

    for via in ("link", "dlsym", "proc"):
        check(at_last(lambda: are_divided(via)), f"not divided via {via}")


def at_last(once):
    """What is known of kernels when they are captured may be too little yet, as it is learnt behind them. And a graph counts as
    undivided whose kernels took longer once than they had then."""
    return any(once() for _ in range(10))


def captured_while_nobody_schedules(stack):
    """What was captured when somebody did is updated by it."""
    def once():
        w = World(stack)
        w.run("learn", 4)
        gates = sum(q["gates"] for q in w.group()["queues"])
        w.run("updates", 1)
        captured = sum(q["gates"] for q in w.group()["queues"]) > gates
        w.fermata.kill()
        w.run("updates", 60)
        w.fermata.start()
        w.run("updates", 60)
        return captured

    check(at_last(once), "gates were captured")


def captured_in_other_sizes(stack):
    """Of the same kernels, with other grids: each updates the first, though what is known of them would have gates elsewhere."""
    for env in ({}, {"FERMATA_GUARDIAN": "1"}):
        def once(env=env):
            w = World(stack, **env)
            w.run("learn", 4)
            gates = sum(q["gates"] for q in w.group()["queues"])
            w.run("sizes", 6)
            return sum(q["gates"] for q in w.group()["queues"]) > gates + 6

        check(at_last(once), "gates were captured")


def launches_captured(stack):
    """Nor is one that was made by capturing a launch of it."""
    if REAL:
        raise Skip("for a driver that allows it")
    def are_divided(via):
        w = World(stack, "--via", via, FAKE_CUDA_NESTED="1")
        w.run("learn", 4)
        gates = sum(q["gates"] for q in w.group()["queues"])
        if w.do("nested", 40, governed=40, ungoverned=0)["undivided"]:
            return False
        check(sum(q["gates"] for q in w.group()["queues"]) > gates, "gates were captured")
        return True

    for via in ("link", "dlsym", "proc"):
        check(at_last(lambda: are_divided(via)), f"not divided via {via}")


def parts_take_no_gates(stack):
    """What is captured into a graph that the shim has not seen made may be the body of a conditional node, where the
    driver allows no gates."""
    def once():
        w = World(stack)
        w.run("learn", 4)
        w.run("inside", 1)
        check(w.p.line("a part: ") == "a part: 20", "a part has what was captured")
        return int(w.p.line("its own: ").split()[-1]) > 20

    check(at_last(once), "another graph has gates besides")


def where_the_driver_wants_no_gates(stack):
    """They are taken out again: of what the device itself could launch, of what becomes a part of what may be the body of a
    conditional node, and of what is to update a graph that was made without any."""
    for env in ({}, {"FERMATA_GUARDIAN": "1"}):
        for via in ("link", "dlsym", "proc"):
            w = World(stack, "--via", via, **env)
            w.run("learn", 4)
            for command, n, said in (("device", 1, "for the device: 20"), ("device", 2, "for the device: 20"),
                                     ("bodies", 1, "in a body: 20 of 2[1-9]"), ("frees", 1, "frees: 0 edges more")):
                gates = sum(q["gates"] for q in w.group()["queues"])
                at = w.p.mark()
                w.run(command, n)
                check(re.fullmatch(said, w.p.lines[at]), f"{command} with {env}: {w.p.lines[at:]}")
                check(sum(q["gates"] for q in w.group()["queues"]) > gates, f"{command} with {env}: gates were captured")
            w.run("captured", 4)  # as ever
            w = World(stack, "--via", via, start=False, **env)
            w.run("later", 1)
            w.fermata.start()
            w.run("learn", 4)
            eventually("it joins", w.group)
            w.run("learn", 4)
            at = w.p.mark()
            w.run("later", 4)
            before, after = map(int, re.findall(r"\d+", w.p.lines[at]))
            check(before == after > 21, f"the program's own graph, with gates, is another: {w.p.lines[at:]}")


def changed_parts(stack, command, *way, first=(), env):
    """What a program says whose part is made without gates, and exchanged three times for one with some."""
    w = World(stack, *way, start=False, name="cuda_parts", **env)
    for what in (*first, command):
        w.run(what, 1)
    w.fermata.start()
    w.run("learn", 4)
    eventually("it joins", w.group)
    w.run("learn", 4)
    gates, at = sum(q["gates"] for q in w.group()["queues"]), w.p.mark()
    w.run(command, 4)
    check(sum(q["gates"] for q in w.group()["queues"]) > gates, f"{command} with {env}: gates were captured")
    return w.p.lines[at:]


def parts_are_exchanged(stack):
    """Whichever has gates: the driver takes one whose nodes were added in the same order."""
    for env in ({}, {"FERMATA_GUARDIAN": "1"}):
        for via in ("link", "dlsym", "proc"):
            changed_parts(stack, "parts", "--via", via, env=env)


def parts_that_are_not_made_anew(stack):
    """Those that would lose what a graph keeps for the program, or might come to another context: the driver's answer stands."""
    if REAL:
        raise Skip("not tried on a device yet")
    for env in ({}, {"FERMATA_GUARDIAN": "1"}):
        for command, first in (("kept", ()), ("asked", ("another",)), ("asked", ("green",))):
            said = changed_parts(stack, command, first=first, env=env)[0]
            check(said == "refused", f"{command} behind {first} with {env}: {said}")


def parts_whose_gates_were_taken_out(stack):
    """Of the program's own graph: what comes then has as many nodes that are gone."""
    if REAL:
        raise Skip("not tried on a device yet")
    for env in ({}, {"FERMATA_GUARDIAN": "1"}):
        w = World(stack, name="cuda_parts", **env)
        w.run("learn", 4)
        gates = sum(q["gates"] for q in w.group()["queues"])
        w.run("device", 4)
        eventually(f"with {env}: gates were captured", lambda: sum(q["gates"] for q in w.group()["queues"]) > gates)


def launches_of_who_is_stopped(stack):
    """Each burst that begins while it is stopped stands behind a gate of its own, however often that was."""
    for env in ({}, {"FERMATA_GUARDIAN": "1"}):
        w = World(stack, **env)
        count = lambda what: sum(q[what] for q in w.group()["queues"])
        for burst in range(5):
            w.fermata.cli("suspend", str(w.p.pid))
            gates, launches, at = count("gates"), count("submitted"), w.p.mark()
            w.p.tell("kernels 1")
            eventually("it is launched", lambda: count("submitted") == launches + 1)
            eventually(f"burst {burst} is behind a gate with {env}", lambda: count("gates") == gates + 1)
            w.fermata.cli("resume", str(w.p.pid))
            w.p.line("kernels", after=at)


def captures_that_nobody_ends(stack):
    """They end with their context: what comes then is governed."""
    w = World(stack)
    w.run("unended", 2)
    eventually("its launches are governed again", w.group)
    w.do("kernels", 10, governed=10, ungoverned=0, undivided=0)
    check(w.group()["ungoverned"] == 0, f"ungoverned: {w.group()['calls']}")


def captures_that_end_with(stack, what):
    """Streams that are made then are governed."""
    for env in ({}, {"FERMATA_GUARDIAN": "1"}):
        w = World(stack, **env)
        w.run(what, 3)
        w.do("streams", 1, governed=3, ungoverned=0, undivided=0)


def captures_that_end_with_threads(stack):
    captures_that_end_with(stack, "threads")


def captures_that_end_with_green_contexts(stack):
    captures_that_end_with(stack, "green")


def nobody_to_divide_for(stack):
    """Captured while no daemon was there, a graph has no gates; without one nothing is counted."""
    w = World(stack, start=False)
    w.run("captured", 40)
    w.run("composed", 40)
    w.fermata.start()
    eventually("it joins", w.group)
    check(w.group()["undivided"] == 0, "nobody was there")


if __name__ == "__main__":
    main(old_and_rare_launches, another_context, a_newer_driver, streams_beyond_the_board, graphs_without_gates, captured_while_nobody_schedules,
         captured_in_other_sizes, launches_captured, parts_take_no_gates, *seldom_sanitized(where_the_driver_wants_no_gates), parts_are_exchanged,
         parts_that_are_not_made_anew, parts_whose_gates_were_taken_out, launches_of_who_is_stopped, captures_that_nobody_ends,
         captures_that_end_with_threads, captures_that_end_with_green_contexts, nobody_to_divide_for)
