#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata run --by-stream-priority`: the streams of a program that knows nothing of groups (cuda_priorities.c) are in groups by
their priority, on the fake driver."""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, check, cuda_env, eventually, main, need_cuda_shim, program


class Told(Program):
    def do(self, line):
        mark = self.mark()
        self.tell(line)
        self.line("did ", after=mark)

    def ends(self):
        self.p.stdin.close()
        check(self.wait() == 0, f"it ended with status {self.p.returncode}")


def begin(stack, *options, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, **env})
    p = fermata.program([program("cuda_priorities")], *options, cls=Told)
    p.line("ready")
    return fermata, p


def groups(fermata, p):
    """How many queues of the program each group has."""
    return {g["name"]: n for g in fermata.ps()["groups"] if (n := sum(q["pid"] == p.pid for q in g["queues"]))}


def priorities(fermata):
    return {g["name"]: g["hints"].get("priority", 0) for g in fermata.ps()["groups"]}


def streams_are_where_their_priority_is(stack):
    fermata, p = begin(stack, "--by-stream-priority", "--group", "web", "--priority", "10")
    check(not groups(fermata, p), "streams without work have queues")
    p.do("work")
    eventually("the daemon knows", lambda: groups(fermata, p) == {"web:high": 2, "web": 3, "web:low": 2})
    check(priorities(fermata) == {"web:high": 74, "web": 10, "web:low": -54}, f"{priorities(fermata)}")
    while not fermata.preemptions():
        p.do("work")
    p.do("wait")
    p.do("fork")
    fermata.cli("hint", "web:low", "priority=3")
    p.do("many 200")
    check(priorities(fermata)["web:low"] == 3, f"what an operator says does not hold: {priorities(fermata)}")
    eventually("streams that have ended are gone", lambda: sum(groups(fermata, p).values()) <= 10)
    p.ends()


def the_group_has_a_name(stack):
    """Without --group, too; and priorities stay in their range."""
    fermata, p = begin(stack, "--by-stream-priority", "--priority", "250")
    p.do("work")
    own = f"cuda_priorities-{p.pid}"
    eventually("the daemon knows", lambda: groups(fermata, p) == {f"{own}:high": 2, own: 3, f"{own}:low": 2})
    check(priorities(fermata)[f"{own}:high"] == 255, f"{priorities(fermata)}")
    p.ends()


def without_the_option_all_are_one(stack):
    fermata, p = begin(stack, "--group", "web")
    for _ in range(3):
        p.do("work")
    check(groups(fermata, p) == {"web": 7}, f"{groups(fermata, p)}")
    check(not fermata.preemptions(), "streams of one group stopped each other")
    p.ends()


def by_itself_it_says_nothing(stack):
    """A variable without a group, or with another value."""
    for env in ({"FERMATA_BY_STREAM_PRIORITY": "1"}, {"FERMATA_BY_STREAM_PRIORITY": "yes", "FERMATA_GROUP": "a"},
                {"FERMATA_BY_STREAM_PRIORITY": "1", "FERMATA_GROUP": "x" * 60}):
        fermata, p = begin(stack, **env)
        p.do("work")
        check(collections.Counter(groups(fermata, p).values()) == {7: 1}, f"{env}: {groups(fermata, p)}")
        p.ends()


def beside_the_guardian(stack):
    """It keeps the most urgent of CUDA's priorities for itself; which group a stream is in is as before."""
    fermata, p = begin(stack, "--by-stream-priority", "--group", "web", "--guardian")
    for what in ("work", "wait", "many 50"):
        p.do(what)
    eventually("the daemon knows", lambda: {"web:high", "web", "web:low"} <= set(groups(fermata, p)))
    p.ends()


def without_a_daemon(stack):
    fermata, p = begin(stack, "--by-stream-priority", "--local", "fixed-priority")
    for what in ("work", "wait", "many 50", "fork"):
        p.do(what)
    check(not fermata.ps()["groups"], "the daemon has groups of a program without it")
    p.ends()


if __name__ == "__main__":
    main(streams_are_where_their_priority_is, the_group_has_a_name, without_the_option_all_are_one, by_itself_it_says_nothing,
         beside_the_guardian, without_a_daemon)
