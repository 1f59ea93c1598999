#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guardian of CUDA kernels (guardian.ptx), run instruction by instruction for all threads of a grid, in an order that
is drawn, with a stop at any time: each block runs once, in the order of the launches, and a grid as a whole or not at all,
be it that it decides, or that it does as the launch in front of it (fm_cu_guard_follows()). A row of launches that is made again
as it is, as a graph that the device launches, goes on where it was stopped, however often that is.
What the real host does between two stops is done here in short."""
import itertools
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import check, main

SOURCE = os.path.join(os.environ.get("SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")),
                      "src", "device", "guardian.ptx")
TRIALS = 40
STOP = BLOCK = 0x1000  # the stop word stands in the control block
LEFT_OUT, FIRST, DECIDED, FROM, MAP = 4, 8, 16, 24, 64
EACH, AGAIN, GRID, ROW = range(4)  # modes
RESIDENT = 4  # blocks that run at the same time


def parse(text):
    """Instructions, as (guard, operation, operands), and where labels stand."""
    program, labels = [], {}
    for line in re.sub(r"//[^\n]*", "", text).replace("{", "").replace("}", "").splitlines():
        line = line.strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(program)
        elif line and line != "AWAIT" and not line.startswith(".reg"):  # no launch begins early here
            guard, op, rest = re.fullmatch(r"(?:@(!?%\w+)\s+)?(\S+?)(?:\s+([^;]*))?;", line).groups()
            program.append((guard, op, [a.strip() for a in rest.split(",")] if rest else []))
    return program, labels


with open(SOURCE, encoding="ascii") as source:
    PROGRAM, LABELS = parse(source.read())


class Memory(dict):
    def load(self, at, bits):
        check(at % (bits // 8) == 0, f"a load of {bits} bits at {at:#x}")
        return sum(self.get(at + 4 * i, 0) << 32 * i for i in range(bits // 32))

    def store(self, at, value, bits):
        check(at % (bits // 8) == 0, f"a store of {bits} bits at {at:#x}")
        for i in range(bits // 32):
            self[at + 4 * i] = value >> 32 * i & 0xFFFFFFFF

    def left(self):
        """Blocks whose bits are set."""
        return sorted((at - BLOCK - MAP) * 8 + b for at, v in self.items() if at >= BLOCK + MAP for b in range(32)
                      if v >> b & 1)


def width(op):
    return int(re.search(r"\.[bu](\d+)", op).group(1))


COMPUTE = {
    "mov": lambda a: a, "cvt": lambda a: a, "not": lambda a: ~a, "add": lambda a, b: a + b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b, "mad": lambda a, b, c: a * b + c,
    "selp": lambda a, b, p: a if p else b}
COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b}
ATOMIC = {"or": lambda old, a: old | a, "and": lambda old, a: old & a, "cas": lambda old, a, b: b if old == a else old}


class Thread:
    def __init__(self, special, params, memory, rng):
        self.special, self.params, self.memory, self.rng = special, params, memory, rng
        self.at, self.registers, self.state = 0, {}, "runs"

    def value(self, operand):
        if operand in self.special:
            return self.special[operand]
        if operand == "%fm_stop" and operand not in self.registers:
            return self.rng.getrandbits(32)  # only the first thread has loaded it; others must not depend on it
        return self.registers[operand] if operand.startswith("%") else int(operand)

    def address(self, operand):
        register, offset = re.fullmatch(r"\[(%\w+)(?:\+(\d+))?\]", operand).groups()
        return self.registers[register] + int(offset or 0)

    def step(self):
        if self.at == len(PROGRAM):
            self.state = "went on"
            return
        guard, op, operands = PROGRAM[self.at]
        self.at += 1
        if guard and self.registers[guard.lstrip("!")] == guard.startswith("!"):
            return
        name, *kind = op.split(".")
        if name == "bra":
            self.at = LABELS[operands[0]]
        elif name == "exit":
            self.state = "ended"
        elif name == "bar":
            self.state, self.answer = operands[0], self.value(operands[2])
        elif name == "red":
            self.memory.store(self.address(operands[0]), self.memory.load(self.address(operands[0]), 32) + 1, 32)
        else:
            self.registers[operands[0]] = self.result(name, kind, op, operands[1:])

    def result(self, name, kind, op, operands):
        if name == "ld" and kind[0] == "param":
            return self.params[operands[0]] & (1 << width(op)) - 1
        if name == "ld":
            return self.memory.load(self.address(operands[0]), width(op))
        values = [self.value(o) for o in operands if not o.startswith("[")]
        if name == "atom":
            at = self.address(operands[0])
            old = self.memory.load(at, width(op))
            self.memory.store(at, ATOMIC[kind[1]](old, *values), width(op))
            return old
        if name == "setp":
            is_so = COMPARE[kind[0]](*values[:2])
            return {"and": is_so and values[-1], "or": is_so or values[-1]}.get(kind[1], is_so)
        return COMPUTE[name](*values) & (1 << (64 if kind[0] == "wide" else width(op))) - 1


class Launch:
    def __init__(self, rng, number, whole):
        self.grid, self.block = [rng.randint(1, n) for n in (7, 3, 2)], [rng.randint(1, n) for n in (3, 2, 2)]
        self.number, self.whole, self.ran = number, whole, []
        self.blocks = self.grid[0] * self.grid[1] * self.grid[2]

    def complete(self):
        return len(self.ran) == self.blocks


def places(extent):
    return [p[::-1] for p in itertools.product(*(range(n) for n in extent[::-1]))]


def threads(launch, block, mode, stop, memory, rng):
    params = {"[NAME_fermata_stop]": stop, "[NAME_fermata_block]": BLOCK,
              "[NAME_fermata_launch]": launch.number << 2 | mode}
    names = {"%ctaid": block, "%nctaid": launch.grid}
    return [Thread({f"{n}.{d}": v[i] for n, v in {**names, "%tid": t}.items() for i, d in enumerate("xyz")}, params,
                   memory, rng) for t in places(launch.block)]


def advance(block, rng):
    """By an instruction of one of its threads, or over the barrier. What became of it, once it has ended."""
    running = [t for t in block if t.state == "runs"]
    if running:
        rng.choice(running).step()
    elif any(t.state.startswith("%") for t in block):
        check(all(t.state == block[0].state for t in block), "a thread ended, and others wait for it")
        answer = any(t.answer for t in block)
        for t in block:
            t.registers[t.state], t.state = answer, "runs"
    else:
        check(all(t.state == block[0].state for t in block), "threads of a block do not agree")
        return block[0].state
    return None


def run(launch, mode, memory, rng, stop=STOP, stop_after=None):
    """On a device; the stop word is set after so many instructions. What ran."""
    waiting, live, ran, steps = list(enumerate(places(launch.grid))), [], [], 0
    rng.shuffle(waiting)
    while waiting or live:
        while waiting and len(live) < RESIDENT:
            number, place = waiting.pop()
            live.append((number, threads(launch, place, mode, stop, memory, rng)))
        steps += 1
        if steps == stop_after:
            memory.store(STOP, 1, 32)
        number, block = rng.choice(live)
        state = advance(block, rng)
        if state:
            live.remove((number, block))
            ran += [number] * (state == "went on")
    return ran


def guarded(launches, i, mode, memory, rng, stop_after, stop=STOP):
    one = launches[i]
    ran = run(one, mode, memory, rng, stop, stop_after)
    check(not set(ran) & set(one.ran), "a block ran twice")
    check(not ran or all(before.complete() for before in launches[:i]), "it ran in front of another")
    check(not one.whole or len(ran) in (0, one.blocks), "a part of a grid ran")
    one.ran += ran


def some_time(rng):
    return rng.choice((None, 1, rng.randint(1, 2500)))


def go_on(launches, number, memory, rng, may_stop):
    """As the host does: from the first that left something out, under other numbers, or with the decision forgotten."""
    first = memory.load(BLOCK + FIRST, 64)
    i = [one.number for one in launches].index(first)
    left = memory.left()
    check(sorted(left + launches[i].ran) == list(range(launches[i].blocks)) or launches[i].whole and not left,
          "the bits are not those of the blocks that did not run")
    memory.store(STOP, 0, 32)
    memory.store(BLOCK + FIRST, 0, 64)
    forget = rng.random() < 0.5
    if forget:
        memory.store(BLOCK + DECIDED, 0, 64)
    for k in range(i, len(launches)):
        if not forget:
            number += 2
            launches[k].number = number
        guarded(launches, k, GRID if launches[k].whole else AGAIN if k == i else EACH, memory, rng,
                some_time(rng) if may_stop else None)
    return number


def trial(seed):
    """How often it was stopped."""
    rng, memory = random.Random(seed), Memory()
    number, stops = rng.choice((1, 5, (1 << 32) - 3)), 0
    launches = [Launch(rng, number + 2 * i, rng.random() < 0.4) for i in range(rng.randint(1, 3))]
    number += 2 * len(launches)
    for i, one in enumerate(launches):
        follows = one.whole and i and not launches[i - 1].whole and rng.random() < 0.8
        guarded(launches, i, GRID if one.whole and not follows else EACH, memory, rng, some_time(rng),
                BLOCK + FIRST if follows else STOP)
    while memory.load(BLOCK + FIRST, 64):
        check(memory.load(BLOCK + LEFT_OUT, 32) > 0, "blocks were left out, and not counted")
        number = go_on(launches, number, memory, rng, stops < 5)
        stops += 1
    check(all(one.complete() for one in launches), "a block did not run")
    check(not memory.left(), "a bit is left")
    return stops


def stopped_at_any_time(_):
    check(sum(trial(seed) for seed in range(TRIALS)) > TRIALS / 2, "hardly any was stopped")


def blocks_decide_at_once(_):
    """All of a small grid look at the same time, while it is stopped."""
    for seed in range(4 * TRIALS):
        rng, memory = random.Random(seed), Memory()
        one = Launch(rng, 7, True)
        one.grid, one.block, one.blocks = [RESIDENT, 1, 1], [1, 1, 1], RESIDENT
        guarded([one], 0, GRID, memory, rng, rng.randint(1, 25 * RESIDENT))


def row(seed):
    """One graph, launched until no node of it has left out a block. How often it was stopped, and in how many nodes."""
    rng, memory, most = random.Random(seed), Memory(), random.Random(seed).randint(0, 6)
    launches = [Launch(rng, 1 + i, False) for i in range(rng.randint(1, 4))]
    stopped_in = []
    for stops in range(most + 1):
        left, stop_in = memory.left(), rng.randrange(len(launches)) if stops < most else None
        first = memory.load(BLOCK + FROM, 64)
        check(not left or sorted(left + launches[first - 1].ran) == list(range(launches[first - 1].blocks)),
              "the bits are not those of the blocks that did not run")
        for i in range(len(launches)):
            guarded(launches, i, ROW, memory, rng, rng.choice((1, rng.randint(1, 400), rng.randint(1, 2500))) if i == stop_in else None)
        first = memory.load(BLOCK + FIRST, 64)
        if not first:
            break
        check(memory.load(STOP, 32), "blocks were left out without a stop")
        stopped_in.append(first)
        for at, value, bits in ((BLOCK + FROM, first, 64), (BLOCK + FIRST, 0, 64), (STOP, 0, 32)):
            memory.store(at, value, bits)
    check(all(one.complete() for one in launches), "a block did not run")
    check(not memory.left(), "a bit is left")
    check(stopped_in == sorted(stopped_in), f"it went back: {stopped_in}")
    return stopped_in


def a_row_goes_on_where_it_was_stopped(_):
    stops = [row(seed) for seed in range(TRIALS)]
    check(sum(len(s) > 1 for s in stops) > TRIALS / 4, "hardly any was stopped twice")
    check(any(len(set(s)) < len(s) for s in stops), "none was stopped twice in one node")
    check(any(len(set(s)) > 1 for s in stops), "none was stopped in two nodes")


def not_guarded(_):
    """Without a stop word nothing is touched, whatever the others are."""
    rng = random.Random(1)
    for mode in (EACH, AGAIN, GRID, ROW):
        one, memory = Launch(rng, 7, False), Memory({STOP: 1})
        check(sorted(run(one, mode, memory, rng, stop=0)) == list(range(one.blocks)), "not all ran")
        check(memory == {STOP: 1}, "it wrote something")


if __name__ == "__main__":
    main(stopped_at_any_time, blocks_decide_at_once, a_row_goes_on_where_it_was_stopped, not_guarded)
