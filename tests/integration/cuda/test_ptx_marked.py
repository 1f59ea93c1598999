#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of PTX with marks that tell reads from writes, run instruction by instruction in an order that is drawn: they leave in
memory what the program's own text leaves there, and the table says of each byte what its accesses come to, or errs to the safe
side."""
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard"))
import ptx_machine as machine
from harness import SANITIZE, check, main, program

PTX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "again", "again.ptx")
MARK, TABLE = "fermata_accessed_mark", "fermata_accessed_table"
WORD, AT, OUT, IN, KEPT = 0x1000, 0x10000, 0x20000, 0x30000, 0x40000  # KEPT: of the module, in no region
CELLS, SIZE, THREADS, BLOCKS, N = AT + 8 + 256 * 24, 128, 4, 3, 10
KERNELS = ("plain", "in_place", "twice", "sum", "gather", "across", "numbered", "halves", "keeps")
EXACT = ("plain", "in_place", "twice", "halves")  # each byte is one thread's, and no cell is of two blocks
TRIALS, SHIFTS = (1, (0, 3)) if SANITIZE else (1, (0, 1, 3))


class Code(machine.Kernel):
    """A kernel, or a function that kernels call."""
    def statement(self, text):
        if not text.startswith(".param"):
            super().statement(text)


class Thread(machine.Thread):
    """One that calls a function, whose registers are its own, and notes what its kernel does to memory."""
    symbols = {TABLE: WORD, "kept": KEPT}
    function, log = None, None

    def __init__(self, *args):
        super().__init__(*args)
        self.frames, self.arguments = [], []

    def address(self, operand):
        name = operand[1].lstrip("=")
        return self.symbols[name] + operand[2] if operand[1].startswith("=") else super().address(operand)

    def value(self, operand, n=64, kind="b"):
        return self.symbols[operand[1]] if operand[0] == "s" and operand[1] in self.symbols else super().value(operand, n, kind)

    def note(self, what, operand, kinds):
        if not self.frames and "param" not in kinds:
            self.log.append((self, what, self.address(operand), machine.bits(kinds)[0] // 8))

    def do_call(self, name, kinds, operands):
        check(operands[0][1] == MARK and len(self.arguments) == 3, f"a call of {operands}")
        self.frames.append((self.kernel, self.at, self.registers, self.params))
        names = [p for p, _ in self.function.params]
        self.kernel, self.at, self.registers, self.params = self.function, 0, {}, dict(zip(names, self.arguments))
        self.arguments = []

    def do_ret(self, name, kinds, operands):
        if self.frames:
            self.kernel, self.at, self.registers, self.params = self.frames.pop()
        else:
            self.state = "ended"

    def do_ld(self, name, kinds, operands):
        self.note("r", operands[1], kinds)
        super().do_ld(name, kinds, operands)

    def do_st(self, name, kinds, operands):
        if kinds[0] == "param":
            self.arguments.append(self.value(operands[1]))
            return
        self.note("w", operands[0], kinds)
        super().do_st(name, kinds, operands)

    def do_atom(self, name, kinds, operands):
        self.note("a", operands[1], kinds)
        super().do_atom(name, kinds, operands)

    def do_isspacep(self, name, kinds, operands):
        self.registers[operands[0][1]] = True

    def do_rem(self, name, kinds, operands):
        self.set(operands[0], self.value(operands[1], 32) % self.value(operands[2], 32), 32, "b")


machine.Thread = Thread
MADE = subprocess.run([program("ptx_marked"), PTX], capture_output=True, text=True, check=True).stdout
with open(PTX, encoding="ascii") as file:
    OWN = file.read()
Thread.function = Code(re.sub(r"\.func " + MARK, ".visible .entry " + MARK, MADE), MARK)


def launch(text, name, memory, seed):
    """What its kernel has done: (thread, what, address, bytes)."""
    kernel = Code(text, "again_" + name)
    Thread.log = []
    params = dict(zip((p for p, _ in kernel.params), (OUT, IN, N)))
    machine.run(kernel, (BLOCKS, 1, 1), (THREADS, 1, 1), params, memory, random.Random(seed))
    return Thread.log


def inputs(seed):
    rng, memory = random.Random(seed), machine.Memory()
    for at in range(0, SIZE, 4):
        memory[OUT + at], memory[IN + at] = rng.getrandbits(32), rng.getrandbits(32)
    return memory


def sets_of(log):
    """R, W, K, A and B of bytes by the definition."""
    reads, writes, atomics, own, blocks = set(), set(), set(), {}, {}
    for thread, what, at, size in log:
        for byte in range(at, at + size):
            blocks.setdefault(byte, set()).add(thread.special["%ctaid.x"])
            if what != "w" and (what == "a" or thread not in own.get(byte, ())):
                reads.add(byte)
            if what != "r":
                writes.add(byte)
            if what == "w":
                own.setdefault(byte, set()).add(thread)
            if what == "a":
                atomics.add(byte)
    return reads, writes, writes - reads, atomics, {b for b in writes if len(blocks[b]) > 1}


def table(memory, shift):
    memory.store(WORD, AT, 8)
    memory.store(AT, 2, 4)
    memory.store(AT + 4, 0, 4)
    for i, at in enumerate((OUT, IN)):
        place, first = AT + 8 + 24 * i, i * ((SIZE - 1 >> shift + 2) + 1)
        for where, value, size in ((0, at, 8), (8, SIZE, 8), (16, shift, 4), (20, first, 4)):
            memory.store(place + where, value, size)


def marked(memory, shift):
    """The same from the table."""
    sets = [set() for _ in range(5)]
    for i, base in enumerate((OUT, IN)):
        first = i * ((SIZE - 1 >> shift + 2) + 1)
        for byte in range(SIZE):
            q = byte >> shift
            cell = memory.load(CELLS + 8 * (first + (q >> 2)), 8)
            r, w, whole, a = (cell >> at + (q & 3) & 1 for at in (0, 4, 8, 16))
            for which, yes in zip(sets, (r, w, whole and not r, a, w and cell >> 20 & 1)):
                if yes:
                    which.add(base + byte)
    return sets


def what_accesses_come_to(stack):
    for name in KERNELS:
        for seed in range(TRIALS):
            for shift in SHIFTS:
                memory, own = inputs(seed), inputs(seed)
                launch(OWN, name, own, seed)
                table(memory, shift)
                log = launch(MADE, name, memory, seed + shift)
                if name != "numbered" and name != "across":  # what comes last is drawn
                    check(all(memory.get(at, 0) == own.get(at, 0) for base in (OUT, IN) for at in range(base, base + SIZE, 4)),
                          f"{name}: it computes something else")
                inside = [entry for entry in log if not KEPT <= entry[2] < KEPT + SIZE]
                check((memory.load(AT + 4, 4) == 1) == (len(inside) < len(log)) == (name == "keeps"), f"{name}: outside")
                want, got = sets_of(inside), marked(memory, shift)
                for which, (exact, seen) in enumerate(zip(want, got)):
                    where = f"{name}, quarters of {1 << shift}: {'RWKAB'[which]} is {sorted(seen)}, not {sorted(exact)}"
                    check(seen <= exact if which == 2 else seen >= exact, where)
                    if not shift and (name in EXACT or which in (1, 3)):
                        check(seen == exact, where)


def without_a_table(stack):
    """The word is zero: nothing is marked, and no memory but the program's changes."""
    for name in KERNELS:
        memory, own = inputs(1), inputs(1)
        memory.store(WORD, 0, 8)
        own.store(WORD, 0, 8)
        launch(MADE, name, memory, 1)
        launch(OWN, name, own, 1)
        check(set(memory) == set(own), f"{name}: {set(memory) ^ set(own)}")


main(what_accesses_come_to, without_a_table)
