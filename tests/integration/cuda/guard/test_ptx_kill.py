#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of PTX that are killed and run again: the text that Fermata makes is run instruction by instruction, with stops at any
time, threads looking whenever they come to it, and must leave in memory what the program's own text leaves there. What the host
does between two stops is done here in short."""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
import ptx_machine as machine
from harness import LONG, SANITIZE, Skip, check, main, program

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data", "kill", "kill.ptx")
STOP = BLOCK = 0x1000  # the stop word stands in the control block
COUNT, FIRST, LEFT, MAP = 4, 8, 48, 64
X, Y = 0x20000000, 0x30000000
EACH, AGAIN = range(2)  # modes
KILL = 1 << 61          # of a launch's number
TRIALS = 12 if LONG and not SANITIZE else 3
STEPS = 80  # instructions between two looks, of which there are thousands in truth


def rewritten(path, names):
    made = subprocess.run([program("ptx_loops"), path, "", "90", ":".join(names)], capture_output=True, text=True, check=True)
    return made.stdout, {n: (int(sites), int(bases, 16), why) for n, sites, bases, why in
                         (line.split(" ", 3) for line in made.stderr.splitlines())}


def all_names(path):
    with open(path, encoding="ascii") as file:
        return re.findall(r"\.entry (\w+)", file.read())


class Case:
    """A kernel as it is and as it is made, and how to launch it."""
    def __init__(self, name, params, block=(5, 1, 1), grid=(4, 1, 1), path=FILE):
        with open(path, encoding="ascii") as file:
            self.own = machine.Kernel(file.read(), name)
        text, kernels = rewritten(path, [name])
        self.sites, self.bases, why = kernels[name]
        check(self.sites and self.bases == 3, f"{name}: {kernels[name]}")
        text, n = re.subn(r"(mov\.u32 %fm_left), (?:2048|8192)\b", rf"\1, {STEPS}", text)
        check(n == self.sites + 1, f"{n} budgets")
        self.made, self.name, self.params, self.block, self.grid = machine.Kernel(text, name), name, params, block, grid
        self.blocks = grid[0] * grid[1] * grid[2]
        self.threads = self.blocks * block[0] * block[1] * block[2]

    def memory(self):
        rng, memory = random.Random(self.name), machine.Memory()
        for i in range(self.threads + 256):
            memory[Y + 4 * i] = rng.getrandbits(32)
        return memory

    def arguments(self, kernel, *ours):
        return {name: value for (name, _), value in zip(kernel.params, [*self.params, *ours])}

    def native(self):
        memory = self.memory()
        machine.run(self.own, self.grid, self.block, self.arguments(self.own), memory, random.Random(1))
        return values(memory)

    def guarded(self, memory, number, mode, rng, stop_after=None, event=None, resident=3):
        def stops(steps, blocks):
            if steps == stop_after:
                memory.store(STOP, 1, 4)
            if event:
                event(blocks)

        return machine.run(self.made, self.grid, self.block, self.arguments(self.made, STOP, BLOCK, number << 2 | mode),
                           memory, rng, event=stops, resident=resident)


CASES = (("alone", [X, Y, 40], {}), ("strides", [X, Y, 90], {"grid": (2, 1, 1)}), ("sums", [X, Y, 9], {}),
         ("places", [X, Y, 9], {"block": (4, 1, 1)}), ("some", [X, Y, 9, 3], {}), ("tiles", [X, Y, 6], {}),
         ("shuffled", [X, Y, 20], {"block": (machine.LANES, 1, 1)}))


def cases():
    return [Case(name, params, **how) for name, params, how in CASES]


def values(memory):
    return {at: v for at, v in memory.items() if at >= X and v}


def left_bits(memory):
    return sorted((at - BLOCK - MAP) * 8 + b for at, v in memory.items() if BLOCK + MAP <= at < X for b in range(32)
                  if v >> b & 1)


def some_time(rng, whole):
    return rng.choice((0, rng.randint(0, whole), rng.randint(0, whole), rng.randint(0, 40)))


def trial(case, seed, whole, want):
    """How many blocks were killed in their middle."""
    rng, memory = random.Random(seed), case.memory()
    number, count, inside, begun = 1 | KILL, 0, 0, set(range(case.blocks))
    for stops in range(60):
        case.guarded(memory, number, AGAIN if stops else EACH, rng, some_time(rng, whole) if stops < 8 else None)
        first, out = memory.load(BLOCK + FIRST, 8), memory.load(BLOCK + COUNT, 4) - count
        bits, killed = set(left_bits(memory)), memory.load(BLOCK + LEFT, 8) - inside
        check(out == len(bits), f"{out} blocks were left out, {len(bits)} bits are set")
        check(bits <= begun, "a block that had run to its end is to run again")
        check(killed <= out, "more blocks were killed than were left out")
        inside += killed
        if not first:
            break
        check(first == number, f"{first:#x} was the first to leave blocks out, not {number:#x}")
        begun, count = bits, count + out
        memory.store(STOP, 0, 4)
        memory.store(BLOCK + FIRST, 0, 8)
        number += 2
    check(not left_bits(memory), "it never ends")
    check(values(memory) == want, f"{case.name}, {seed}: other values than natively")
    return inside


def killed_at_any_time(_):
    for case in cases():
        want, fresh = case.native(), case.memory()
        check(want != values(case.memory()), "natively nothing is written")
        whole = case.guarded(fresh, 1 | KILL, EACH, random.Random(1))
        check(values(fresh) == want, f"{case.name}: other values without a stop")
        inside = sum(trial(case, seed, whole, want) for seed in range(TRIALS))
        print(f"{case.name}: {inside} blocks killed")
        check(inside > TRIALS, f"{case.name} was hardly ever killed")


def never_killed(_):
    """A launch that nobody has said may be killed runs to its end, though its kernel could be."""
    for case in cases():
        want = case.native()
        for number in (1, 1 | KILL):
            memory, begun = case.memory(), []
            rounds = case.made.labels["$FERMATA_%d_LOOK1" % all_names(FILE).index(case.name)]

            def event(blocks, memory=memory, begun=begun, rounds=rounds):
                threads = [t for b in blocks for t in b.threads]
                if not begun and len(blocks) == case.blocks and all(t.at > 60 or t.state != "runs" for t in threads):
                    begun.append(sum(t.state == "runs" and t.at < rounds for t in threads))
                    memory.store(STOP, 1, 4)

            case.guarded(memory, number, EACH, random.Random(2), event=event, resident=case.blocks)
            check(sum(begun), f"{case.name} was not stopped, or too late")
            killed = memory.load(BLOCK + LEFT, 8)
            if number & KILL:
                check(killed, f"{case.name} is not killed either where it may be")
                continue
            check(not killed and not left_bits(memory), "a block was killed")
            check(values(memory) == want, f"{case.name}: other values than natively")


def behind_another(_):
    """A launch in front has left out blocks: this one, which cannot have begun, is not the one that is killed."""
    for case in cases():
        memory = case.memory()
        memory.store(BLOCK + FIRST, 77, 8)
        memory.store(STOP, 1, 4)
        case.guarded(memory, 1 | KILL, EACH, random.Random(3))
        check(not memory.load(BLOCK + LEFT, 8) and not left_bits(memory), "it left something")
        check(memory.load(BLOCK + FIRST, 8) == 77, "another number")


def a_control(_):
    """Where both pointers are the same, it reads what it writes, and is not as before when it has been killed: that the others are
    says something. Who knows of the pointers does not let it be killed."""
    case = Case("strides", [X, X, 90], grid=(2, 1, 1))
    case.memory = lambda: machine.Memory({X + 4 * i: i + 1 for i in range(200)})
    want, whole, differs = case.native(), case.guarded(case.memory(), 1 | KILL, EACH, random.Random(1)), 0
    for seed in range(TRIALS):
        try:
            trial(case, seed, whole, want)
        except AssertionError as e:
            check("other values" in str(e), str(e))
            differs += 1
    check(differs, "a kernel that reads what it writes can be killed as well as the others")


def refused(_):
    names = all_names(FILE)
    whys = {n: k[2] for n, k in rewritten(FILE, names)[1].items()}
    check(whys == {**{n: "able" for n, _, _ in CASES}, "no_loop": "no loop", "gathers": "addresses from memory", "adds": "atomics",
                   "fenced": "fences", "counted": "barriers of some threads", "uneven_barrier": "barriers of some threads",
                   "uneven": "threads part in its loops", "awaited": "threads part in its loops", "compares": "unknown addresses", "timed": "not the same each time"},
          f"{whys}")
    whys = {n: k[2] for n, k in rewritten(FILE, ["sums"])[1].items()}
    check([n for n, w in whys.items() if w != "not asked for"] == ["sums"], f"{whys}")


def assembled(_):
    """All that is made is PTX for the compiler, too."""
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.path.exists(ptxas):
        raise Skip("ptxas is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "made.ptx")
        with open(path, "w", encoding="ascii") as file:
            file.write(rewritten(FILE, all_names(FILE))[0])
        for sm in (80, 90):
            subprocess.run([ptxas, f"-arch=sm_{sm}", "-o", os.devnull, path], check=True)


if __name__ == "__main__":
    main(killed_at_any_time, never_killed, behind_another, a_control, refused, assembled)
