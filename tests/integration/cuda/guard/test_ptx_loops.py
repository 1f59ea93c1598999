#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of PTX that are left in the middle of their loops and go on: the text that Fermata makes is run instruction by
instruction, with stops at any time, and must leave in memory what the program's own text leaves there. What the host does
between two stops is done here in short."""
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
import ptx_machine as machine
from harness import LONG, SANITIZE, Skip, check, long, main, program

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data")
STOP = BLOCK = 0x1000  # the stop word stands in the control block
COUNT, FIRST, DECIDED, AREA, ROOM, LEFT, MAP = 4, 8, 16, 32, 40, 48, 64
VALUES = 2097152  # behind the state of all threads
SAVE, X, Y = 0x10000000, 0x20000000, 0x30000000
EACH, AGAIN, GRID = range(3)  # modes
POLLED = 1
# What is ours is the text that is made: to run it more often tells a sanitizer nothing.
TRIALS, DRAWN_TRIALS, DRAWN = (6, 2, 60) if LONG and not SANITIZE else (2, 1, 15)
STEPS = 60  # instructions between two looks, of which there are 2048 in truth


def rewritten(path, sm=90):
    made = subprocess.run([program("ptx_loops"), path, "*", str(sm)], capture_output=True, text=True, check=True)
    kernels = {}
    for line in made.stderr.splitlines():
        name, why, loops, size, reason = line.split(" ", 4)
        kernels[name] = int(why), int(loops), int(size), reason
    return made.stdout, kernels


def drawn(seed):
    """A kernel whose blocks of instructions, and the branches between them, are drawn; those back are taken as often as the
    fuel lasts. All that it has computed ends in its word."""
    rng, registers, n = random.Random(seed), [f"%r{i}" for i in range(7)], rng_size(seed)
    lines = [".version 8.1", ".target sm_80", ".address_size 64", ".visible .entry k(.param .u64 k_x)", "{",
             ".reg .pred %p<4>; .reg .b32 %r<8>, %fuel; .reg .b64 %rd<3>; .reg .b16 %h<2>;", "ld.param.u64 %rd1, [k_x];",
             "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;",
             "mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; ld.global.u32 %r1, [%rd1];",
             "and.b32 %fuel, %r1, 63; cvt.u16.u32 %h0, %r1; cvt.u16.u32 %h1, %r0;"]
    lines += [f"mad.lo.u32 {r}, %r1, {i * 77 + 1}, %r0;" for i, r in enumerate(registers) if i > 1]
    lines += [f"setp.lt.u32 %p{i}, %r{i + 2}, {rng.getrandbits(31)};" for i in range(4)]

    def some():
        a, b, c, p = rng.choice(registers), rng.choice(registers), rng.choice(registers), f"%p{rng.randrange(4)}"
        guard = rng.choice(("", "", f"@{p} ", f"@!{p} "))
        return rng.choice((f"{guard}mad.lo.u32 {a}, {b}, {c}, {rng.getrandbits(8)};", f"{guard}xor.b32 {a}, {b}, {c};",
                           f"{guard}mov.u32 {a}, {b};", f"selp.b32 {a}, {b}, {c}, {p};", f"setp.lt.u32 {p}, {a}, {b};",
                           f"setp.ge.and.u32 {p}, {a}, {b}, !%p{rng.randrange(4)};", f"cvt.u16.u32 %h0, {a};",
                           "add.u16 %h1, %h0, %h1;", f"cvt.u32.u16 {a}, %h{rng.randrange(2)};"))

    for i in range(n):
        lines += [f"L{i}:"] + [some() for _ in range(rng.randint(0, 4))]
        target, p = rng.randrange(n + 1), f"%p{rng.randrange(4)}"
        if target > i:
            lines.append(rng.choice(("", f"@{p} ", f"@!{p} ")) + f"bra L{target};")
        else:
            lines += ["sub.u32 %fuel, %fuel, 1;", "setp.gt.s32 %p0, %fuel, 0;",
                      rng.choice((f"@%p0 bra L{target};", f"@!%p0 bra L{n};\nbra L{target};"))]
    lines += [f"L{n}:", "cvt.u32.u16 %r7, %h1;"] + [f"mad.lo.u32 %r7, %r7, 31, {r};" for r in rng.sample(registers, 4)]
    return "\n".join(lines + ["st.global.u32 [%rd1], %r7;", "ret;", "}", ""])


def rng_size(seed):
    return 2 + seed % 9


class Case:
    """A kernel as it is and as it is made, and how to launch it."""
    def __init__(self, name, path, params, block=(7, 1, 1), grid=(4, 1, 1)):
        with open(path, encoding="ascii") as file:
            self.own = machine.Kernel(file.read(), name)
        text, kernels = rewritten(path)
        check(kernels[name][0] == POLLED, f"{name} is left as it is: {kernels[name][3]}")
        text = re.sub(r"(mov\.u32 %fm_left), 2048", rf"\1, {STEPS}", text)
        self.made, self.bytes = machine.Kernel(text, name), kernels[name][2]
        self.number = list(kernels).index(name)
        self.name, self.params, self.block, self.grid = name, params, block, grid
        self.threads = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2]
        self.blocks = grid[0] * grid[1] * grid[2]

    def memory(self):
        rng, memory = random.Random(self.name), machine.Memory()
        for i in range(self.threads + 64):
            memory[X + 4 * i] = rng.getrandbits(32)
            memory[Y + 4 * i] = int.from_bytes(struct.pack("f", rng.uniform(-100, 100)), "little")
        return memory

    def arguments(self, kernel, *ours):
        return {name: value for (name, _), value in zip(kernel.params, [*self.params, *ours])}

    def native(self, memory, launches):
        for _ in range(launches):
            machine.run(self.own, self.grid, self.block, self.arguments(self.own), memory, random.Random(1))

    def guarded(self, memory, number, mode, rng, stop_after, stop=STOP):
        def event(steps, _):
            if steps == stop_after:
                memory.store(STOP, 1, 4)

        return machine.run(self.made, self.grid, self.block,
                           self.arguments(self.made, stop, BLOCK, number << 2 | mode), memory, rng, event=event)


def data(name):
    return os.path.join(DATA, name)


def cases():
    nvcc, hand = data("loops/loops.ptx"), data("loops/hand.ptx")
    return [Case("rounds", nvcc, [X]), Case("nested", nvcc, [X, Y, 23, 15], block=(3, 2, 1), grid=(2, 3, 1)),
            Case("stride", nvcc, [X, Y, 60], block=(5, 1, 1), grid=(2, 1, 1)), Case("shares", nvcc, [X, 19]),
            Case("collatz", nvcc, [X], block=(5, 1, 1)), Case("twice", nvcc, [X, 25]), Case("hand", hand, [X, 33])]


def values(memory):
    return {at: v for at, v in memory.items() if X <= at < Y and v}


def left_bits(memory):
    return sorted((at - BLOCK - MAP) * 8 + b for at, v in memory.items() if BLOCK + MAP <= at < SAVE for b in range(32)
                  if v >> b & 1)


def states(memory):
    return {at: v for at, v in memory.items() if SAVE <= at < SAVE + VALUES and v}


def some_time(rng, whole):
    return rng.choice((0, rng.randint(0, whole), rng.randint(0, whole), rng.randint(0, 40)))


def trial(case, seed, whole, want, launches=2):
    """How often the first of two launches was stopped with threads in its loops."""
    rng, memory = random.Random(seed), case.memory()
    memory.store(BLOCK + AREA, SAVE, 8)
    memory.store(BLOCK + ROOM, case.threads * case.bytes, 8)
    numbers, number, inside, count = list(range(1, launches + 1)), 100, 0, 0
    for i, n in enumerate(numbers):
        case.guarded(memory, n, EACH, rng, some_time(rng, whole) if i == 0 else None)
    for stops in range(40):
        first, left = memory.load(BLOCK + FIRST, 8), memory.load(BLOCK + LEFT, 8)
        if not first:
            break
        i = numbers.index(first)
        out = memory.load(BLOCK + COUNT, 4) - count  # launches behind the first leave nothing
        check(out == len(left_bits(memory)) > 0, f"{out} blocks were left out, {len(left_bits(memory))} bits are set")
        check(bool(states(memory)) <= bool(left), "a block was left in a loop, and not counted")
        inside += bool(states(memory))
        count = memory.load(BLOCK + COUNT, 4)
        memory.store(STOP, 0, 4)
        memory.store(BLOCK + FIRST, 0, 8)
        for k in range(i, launches):
            number += 1
            numbers[k] = number
            case.guarded(memory, number, AGAIN if k == i else EACH, rng,
                         some_time(rng, whole) if stops < 6 and k == i else None)
    check(not memory.load(BLOCK + FIRST, 8), "it never ends")
    check(not left_bits(memory) and not states(memory), "something is left")
    check(values(memory) == want, f"{case.name}, {seed}: other values than natively")
    return inside


def stopped_at_any_time(_):
    for case in cases():
        memory = case.memory()
        case.native(memory, 2)
        want, fresh = values(memory), case.memory()
        check(want != values(fresh), "natively nothing is written")
        whole = case.guarded(fresh, 1, EACH, random.Random(1), None, stop=0)
        inside = sum(trial(case, seed, whole, want) for seed in range(TRIALS))
        print(f"{case.name}: {case.bytes} bytes of {case.threads} threads, {inside} times left in a loop")
        check(inside > TRIALS, f"{case.name} was hardly ever left in a loop")


def drawn_kernels(_):
    """What lives where is told by whether the value that comes out is right."""
    inside = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(DRAWN):
            path = os.path.join(folder, f"{seed}.ptx")
            with open(path, "w", encoding="ascii") as file:
                file.write(drawn(seed))
            if rewritten(path)[1]["k"][3] == "no loop":
                continue
            case = Case("k", path, [X], block=(5, 1, 1), grid=(3, 1, 1))
            memory = case.memory()
            case.native(memory, 2)
            whole = case.guarded(case.memory(), 1, EACH, random.Random(1), None, stop=0)
            inside += sum(trial(case, 10 * seed + i, whole, values(memory)) for i in range(DRAWN_TRIALS))
            tried += 1
    print(f"{tried} kernels, {inside} times left in a loop")
    check(tried > DRAWN // 2 and inside > DRAWN, "hardly any was left in a loop")


@long
def never_left(_):
    """Not guarded, as a whole grid, and without an area or with too small a one: a stop changes nothing for what runs."""
    for case in cases():
        memory = case.memory()
        case.native(memory, 1)
        want = values(memory)
        for mode, stop, area, room in ((EACH, 0, SAVE, 1 << 20), (AGAIN, 0, SAVE, 1 << 20), (GRID, STOP, SAVE, 1 << 20),
                                       (EACH, STOP, 0, 1 << 20), (EACH, STOP, SAVE, case.threads * case.bytes - 1)):
            memory, begun = case.memory(), []
            memory.store(BLOCK + AREA, area, 8)
            memory.store(BLOCK + ROOM, room, 8)

            begins = case.made.labels["$FERMATA_%d_BEGIN" % case.number]

            def event(steps, blocks, memory=memory, begun=begun, begins=begins):
                threads = [t for b in blocks for t in b.threads]
                if not begun and len(blocks) == case.blocks and all(t.at > begins for t in threads):
                    begun.append(sum(t.state == "runs" for t in threads))
                    memory.store(STOP, 1, 4)

            machine.run(case.made, case.grid, case.block, case.arguments(case.made, stop, BLOCK, 4 | mode), memory,
                        random.Random(2), resident=case.blocks, event=event)
            check(sum(begun), "it was not stopped, or too late")
            check(not states(memory) and not memory.load(BLOCK + LEFT, 8), "a thread was left in a loop")
            check(values(memory) == want, f"{case.name}: other values than natively")


def assembled(_):
    """All that is made is PTX for the compiler, too."""
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.path.exists(ptxas):
        raise Skip("ptxas is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("loops/loops.ptx", "loops/hand.ptx", "guard/text.ptx", "images/kernels.ptx"):
            text, kernels = rewritten(data(name))
            path = os.path.join(folder, "made.ptx")
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            oldest = int(re.search(r"\.target\s+sm_(\d+)", text).group(1))
            for sm in (80, 90):
                if sm >= oldest:
                    subprocess.run([ptxas, f"-arch=sm_{sm}", "-o", os.devnull, path], check=True, stderr=subprocess.DEVNULL)
            print(name, sum(k[0] == POLLED for k in kernels.values()), "of", len(kernels))


if __name__ == "__main__":
    main(stopped_at_any_time, drawn_kernels, never_left, assembled)
