#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which memory a program uses is seen by what its calls name, on the fake driver; and whatever is not seen, the program
computes what it is to compute."""
import os
import random
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import PATIENCE, Fermata, Skip, ask, check, cuda_env, eventually, main, need_cuda_shim, program

MIB = 1 << 20
BLOCK = 4 * MIB  # each is a chunk of its own
SMALL = 6 * MIB  # what small blocks and tables take at most
USED = "direct 0", "direct 1", "direct 2"
TURNS = 3  # after so many turns without being named memory is not in use


class Sets(managed.Managed):
    def ends(self):
        self.do("check 0")
        super().ends()


def start(fermata, blocks):
    p = fermata.program([program("cuda_sets")], "--memory", cls=Sets)
    p.line("ready")
    fermata.knows(p.pid)
    p.do(*["alloc 4"] * blocks)
    return p


def world(stack, blocks, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, **env})
    return fermata, start(fermata, blocks)


def memory(fermata, p):
    return next(g for g in ask(fermata.dir, "ps")["groups"] if str(p.pid) in g["name"])["memory"][0]


def mapped(stack):
    """A program of which three blocks are in use, and twelve run from the host, because another one needs the room."""
    device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
    # Its kernels take the time that the processor takes.
    fermata, p = world(stack, 15, FERMATA_MEMORY_LATE="never", FAKE_CUDA_CAPACITY="84M", FAKE_CUDA_CONTEXT="1M", FAKE_CUDA_DEVICE=device)
    use(fermata, p, *USED)
    other = start(fermata, 14)
    p.do(*USED)
    eventually("what is not in use is mapped", lambda: memory(fermata, p)["mapped_bytes"] >= 9 * BLOCK)
    check("no memory" not in other.lines, other.lines)
    return fermata, p, other


def what_is_not_in_use_stays_on_the_host(stack):
    """Two programs of 60 MiB on 84, which take turns: of the one no more moves than it uses, and of both nothing when each
    has had its turn. What they compute is right."""
    fermata, p, other = mapped(stack)
    others = [f"direct {n}" for n in range(14)]
    for _ in range(2):
        p.do(*USED)
        other.do(*others)
    before = [memory(fermata, each) for each in (p, other)]
    for _ in range(6):
        p.do(*USED)
        other.do(*others)
    after = [memory(fermata, each) for each in (p, other)]
    for way in ("moved_in_bytes", "moved_out_bytes"):
        moved = sum(a[way] - b[way] for a, b in zip(after, before))
        check(moved <= 3 * BLOCK, f"{way}: {moved / MIB} MiB in six rounds: {before} {after}")
    check(after[0]["mapped_bytes"] >= 9 * BLOCK and not after[0]["host_bytes"], after[0])
    check(after[0]["hot_bytes"] <= 3 * BLOCK + SMALL, after[0])
    p.ends()
    other.ends()


def is_noticed(fermata, p):
    """One chunk of 64 is looked at, at each rest, so that takes some ten turns. Chunks that something may have named meanwhile are
    not looked at: once that is so of all of them it is never noticed, and all begins anew."""
    for _ in range(100):
        p.do(*(f"{way} {n}" for n in range(3, 15) for way in ("hide", "hidden")))
        turn(fermata, p, *USED)
        if memory(fermata, p)["missed"]:
            return True
    return False


def what_nobody_named(stack):
    """Kernels write to memory that runs from the host, by pointers that are on the device alone: what they compute is right, it
    is noticed, and told, and what they used comes to the device."""
    for _ in range(5):
        fermata, p, other = mapped(stack)  # which stays: else all of the first one's memory may come to the device
        before = memory(fermata, p)
        check(not before["missed"], before)
        if is_noticed(fermata, p):
            break
        for each in p, other:
            each.ends()
    else:
        raise AssertionError("it is not noticed")
    other.ends()
    m = memory(fermata, p)
    check(m["missed_by"] == "content" and m["missed_cure"] in ("named", "all"), m)
    eventually("it comes to the device", lambda: memory(fermata, p)["mapped_bytes"] < before["mapped_bytes"], 4 * PATIENCE)
    why = fermata.cli("why", str(p.pid)).stdout
    check("missed memory" in why and "no call had named" in why, why)
    head, line = (r.split() for r in fermata.cli("ps", "--memory").stdout.splitlines()[:2])
    check(int(line[head.index("MISSED")]) >= 1, f"{line}")
    text = fermata.cli("metrics").stdout
    count = [line for line in text.splitlines() if line.startswith("fermata_memory_missed_total{")]
    check(count and float(count[0].split()[-1]) >= 1, count)
    p.ends()


def turn(fermata, p, *commands):
    """It does that, and its memory goes out and comes in."""
    def away():
        return ask(fermata.dir, "away", target=str(p.pid))["memory"][0]

    p.do(*commands)
    ask(fermata.dir, "suspend", target=str(p.pid), out=True)
    eventually("it is out", lambda: not away()["resident"])
    ask(fermata.dir, "resume", target=str(p.pid))
    eventually("it is in", lambda: away()["wish"] == "stay" and not away()["host"])


def hot(fermata, p):
    """As it was at the end of the turn before."""
    return next(g for g in ask(fermata.dir, "ps")["groups"] if str(p.pid) in g["name"])["memory"][0]["hot_bytes"]


def use(fermata, p, *commands):
    """What is in use if nothing but that is done for long enough."""
    for _ in range(TURNS):
        turn(fermata, p, *commands)
    return hot(fermata, p)


def two_sets(stack):
    fermata, p = world(stack, 4)
    turn(fermata, p)
    check(hot(fermata, p) >= 4 * BLOCK, "what is new is in use")
    one = use(fermata, p, "direct 0", "direct 1")
    check(2 * BLOCK <= one <= 2 * BLOCK + SMALL, f"{one / MIB} MiB are in use, not two blocks")
    turn(fermata, p, "direct 2", "copy 3")
    both = hot(fermata, p)
    check(both >= 4 * BLOCK, f"{both / MIB} MiB are in use, not all four blocks")
    other = use(fermata, p, "direct 2", "copy 3")
    check(2 * BLOCK <= other <= 2 * BLOCK + SMALL, f"{other / MIB} MiB are in use, not the other two blocks")
    head, line = (r.split() for r in fermata.cli("ps", "--memory").stdout.splitlines()[:2])
    check(line[head.index("HOT")].endswith("M"), f"{line}")
    p.do("texture 0")
    with_texture = use(fermata, p, "direct 2")
    check(2 * BLOCK <= with_texture <= 2 * BLOCK + SMALL, f"{with_texture / MIB} MiB are in use, not a block and a texture's")
    p.ends()


def all_ways(stack):
    """Each way to name a block is seen, and adds one block to what is in use."""
    fermata, p = world(stack, 8)
    now = use(fermata, p, "direct 0")
    check(BLOCK <= now <= BLOCK + SMALL, f"{now / MIB} MiB are in use, not one block")
    ways = {"struct": ["struct 1"], "extra": ["extra 2"], "table": ["table 3", "through 0"], "map": ["map 4"], "im2col": ["im2col 7"],
            "graph": ["graph 5", "play 0"], "graph that is changed": ["turn 6", "play 0"]}
    done = []
    for name, commands in ways.items():
        done += [c for c in commands if c.split()[0] not in ("graph", "turn")]
        turn(fermata, p, "direct 0", *commands, *done)
        before, now = now, hot(fermata, p)
        check(now is not None and before + BLOCK <= now, f"a {name} is not seen: {before / MIB} MiB in use, then {now / MIB}")
    now = use(fermata, p, "direct 0", "play 0")
    check(now <= 3 * BLOCK + SMALL, f"{now / MIB} MiB are in use, not one block and two of a graph")
    p.ends()


def hidden_pointers(stack):
    """Nobody sees them, and the results are right whatever moves when."""
    fermata, p = world(stack, 6)
    rng = random.Random(7)
    p.do("hide 5", "table 4", "graph 3")
    now = use(fermata, p, "direct 0", "hidden 0")
    check(now <= BLOCK + SMALL, f"{now / MIB} MiB are in use: what is hidden was seen")
    for _ in range(4):
        ways = rng.sample(["hidden 0", "through 0", "play 0", "struct 1", "map 2", "im2col 2", "extra 2", "copy 1", "hide 4"], 5)
        p.do(*ways)
        turn(fermata, p, *reversed(ways))
    p.ends()


def not_known(stack):
    """A driver that does not tell the sizes of parameters: all may be in use, and the program goes on."""
    fermata, p = world(stack, 2, FAKE_CUDA_FAIL="cuFuncGetParamInfo@1/1=801")
    turn(fermata, p, "direct 0")
    check(hot(fermata, p) is None, f"{hot(fermata, p)} bytes are in use")
    head, line = (r.split() for r in fermata.cli("ps", "--memory").stdout.splitlines()[:2])
    check(line[head.index("HOT")] == "all", f"{line}")
    p.ends()


def without_rests(stack):
    """A program that never rests has turns, too. It takes six seconds."""
    if os.environ.get("FERMATA_TEST_LONG") != "1":
        raise Skip("set FERMATA_TEST_LONG=1")
    fermata, p = world(stack, 3)

    def used():
        time.sleep(0.3)
        p.do("direct 1")
        h = hot(fermata, p)
        return h is not None and BLOCK <= h <= BLOCK + SMALL

    eventually("one block is in use", used, 4 * PATIENCE)
    p.ends()


if __name__ == "__main__":
    main(
        two_sets,
        all_ways,
        hidden_pointers,
        not_known,
        what_is_not_in_use_stays_on_the_host,
        what_nobody_named,
        without_rests,
    )
