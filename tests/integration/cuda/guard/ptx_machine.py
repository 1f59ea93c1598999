# SPDX-License-Identifier: Apache-2.0
"""A machine that runs kernels of PTX: so much of the language as the tests' kernels and what Fermata adds to them need.
Threads move instruction by instruction, in an order that is drawn; what is wrong raises."""
import itertools
import math
import random
import re
import struct

from harness import check

LANES = 4  # of a warp: few, so that small blocks have several; who runs a whole warp changes it


class Kernel:
    """The body of one, with registers by names that no other scope has."""
    def __init__(self, text, name):
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
        text = re.sub(r"\.loc[^\n]*|\.pragma[^;]*;", "", text)
        head = re.search(r"\.entry\s+" + re.escape(name) + r"\s*\(([^)]*)\)[^{]*\{", text)
        self.params = [(p.split()[-1], 8 if "64" in p else 4) for p in head.group(1).split(",")]
        self.program, self.labels, self.shared, self.shared_end = [], {}, {}, 16
        self.scopes, self.scope_count = [{}], 0
        self.calls = {}  # functions that are elsewhere, by name: of arguments of 64 bits, for one of 32
        self.parse(text[head.end():self.end_of(text, head.end())])

    @staticmethod
    def end_of(text, at):
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        return at - 1

    def parse(self, body):
        at = 0
        while True:
            at += len(body[at:]) - len(body[at:].lstrip())
            if at >= len(body):
                return
            label = re.match(r"([\w$]+)\s*:", body[at:])
            if body[at] == "{":
                self.scopes.append({})
                self.scope_count += 1
                at += 1
            elif body[at] == "}":
                self.scopes.pop()
                at += 1
            elif label:
                check(label.group(1) not in self.labels, "a label twice: " + label.group(1))
                self.labels[label.group(1)] = len(self.program)
                at += label.end()
            else:
                end = body.index(";", at)
                self.statement(body[at:end])
                at = end + 1

    def statement(self, text):
        if text.startswith(".param"):
            return  # of a call
        if text.startswith(".shared"):
            name, size = re.fullmatch(r"\.shared.*?([\w$]+)\[(\d+)\]", text.strip(), re.S).groups()
            self.shared[name], self.shared_end = self.shared_end, self.shared_end + (int(size) + 15 & ~15)
            return
        if text.startswith(".reg"):
            kind, names = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, re.S).groups()
            for name in (n.strip() for n in names.split(",")):
                family = re.fullmatch(r"([\w%$]+)<(\d+)>", name)
                for one in [family.group(1) + str(i) for i in range(int(family.group(2)))] if family else [name]:
                    check(one not in self.scopes[-1], "declared twice: " + one)
                    self.scopes[-1][one] = (one if len(self.scopes) == 1 else f"{one}@{self.scope_count}", kind)
            return
        guard, op, rest = re.fullmatch(r"(?:@(!?[\w%$]+)\s+)?([\w.:]+)\s*(.*)", text.strip(), re.S).groups()
        negated = bool(guard) and guard.startswith("!")
        name, *kinds = op.split(".")
        if name != "mov" and "v2" not in kinds:
            rest = re.sub(r"\{[^}]*\}", "", rest)
        operands = [self.operand(o.strip()) for o in re.findall(r"\{[^}]*\}|[^,{]+", rest) if o.strip()]
        self.program.append((self.operand(guard.lstrip("!")) if guard else None, negated, name, kinds, operands))

    def register(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name][0]
        return None

    def operand(self, text):
        """("r", register), ("!", register), ("a", register or symbol, offset), ("i", number), ("s", special or symbol),
        ("v", operands)"""
        if text.startswith("{"):
            return "v", [self.operand(o.strip()) for o in text.strip("{}").split(",")]
        text = text.partition("|")[0]  # a predicate beside it is not read by anyone
        address = re.fullmatch(r"\[\s*([\w%$]+)\s*(?:\+\s*(-?\d+))?\s*\]", text)
        if address:
            base = self.register(address.group(1))
            return "a", base or "=" + address.group(1), int(address.group(2) or 0)
        if text.startswith("!"):
            return "!", self.register(text[1:])
        if self.register(text):
            return "r", self.register(text)
        double = re.fullmatch(r"0([df])([0-9A-Fa-f]+)", text)
        if double:
            size = {"d": ">d", "f": ">f"}[double.group(1)]
            return "i", struct.unpack(size, bytes.fromhex(double.group(2)))[0]
        if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)", text):
            return "i", int(text, 0)
        return "s", text


class Memory(dict):
    """Of words of 32 bits."""
    def load(self, at, size):
        check(at % size == 0, f"a load of {size} bytes at {at:#x}")
        if size < 4:
            return self.get(at & ~3, 0) >> 8 * (at & 3) & (1 << 8 * size) - 1
        return sum(self.get(at + 4 * i, 0) << 32 * i for i in range(size // 4))

    def store(self, at, value, size):
        check(at % size == 0, f"a store of {size} bytes at {at:#x}")
        if size < 4:
            shift, mask = 8 * (at & 3), (1 << 8 * size) - 1
            self[at & ~3] = self.get(at & ~3, 0) & ~(mask << shift) | (value & mask) << shift
        for i in range(size // 4):
            self[at + 4 * i] = value >> 32 * i & 0xFFFFFFFF


def bits(kinds):
    """Of the last type among the parts of an operation, and what kind of type it is."""
    for k in reversed(kinds):
        if re.fullmatch(r"[busf]\d+", k):
            return int(k[1:]), k[0]
    return 1, "p"


def signed(v, n):
    v &= (1 << n) - 1
    return v - (1 << n) if v >> n - 1 else v


def rounded(v, n):
    if n == 64:
        return v
    try:
        return struct.unpack("f", struct.pack("f", v))[0]
    except OverflowError:
        return math.copysign(math.inf, v)


COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
           "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
PLAIN = {"mov": lambda a: a, "cvta": lambda a: a, "not": lambda a: ~a, "neg": lambda a: -a, "add": lambda a, b: a + b,
         "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "mad": lambda a, b, c: a * b + c,
         "fma": lambda a, b, c: a * b + c, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
         "min": min, "max": max, "div": lambda a, b: a // b, "rem": lambda a, b: a % b}
ATOMIC = {"or": lambda old, a: old | a, "and": lambda old, a: old & a, "add": lambda old, a: old + a,
          "exch": lambda old, a: a, "cas": lambda old, a, b: b if old == a else old}


class Thread:
    def __init__(self, kernel, special, params, memory, lane, shared):
        self.kernel, self.special, self.params, self.memory, self.shared = kernel, special, params, memory, shared
        self.passed = {}  # to a function, and by it
        self.at, self.registers, self.state, self.warp, self.lane = 0, {}, "runs", lane // LANES, lane % LANES
        self.rng = random.Random(lane)
        self.special["%lanemask_lt"] = (1 << self.lane) - 1

    def value(self, operand, n=64, kind="b"):
        form, what = operand[:2]
        if form == "i":
            return float(what) if kind == "f" else what & (1 << n) - 1 if kind != "s" else what
        if form == "s" and what in self.kernel.shared:
            return self.kernel.shared[what]
        if form == "s":
            check(what in self.special, "not known: " + what)
            return self.special[what]
        if what not in self.registers and what.startswith("%fm_stop"):
            return self.rng.getrandbits(32)  # the first thread alone has loaded it; others must not depend on it
        check(what in self.registers, f"{what} is read, and was never written")
        v = self.registers[what]
        if form == "!":
            return not v
        return signed(v, n) if kind == "s" else v

    def set(self, operand, value, n, kind):
        if isinstance(value, float):
            value = rounded(value, n)
        elif kind != "p":
            value = int(value) & (1 << n) - 1
        self.registers[operand[1]] = value

    def address(self, operand):
        name = operand[1].lstrip("=")
        return (self.kernel.shared[name] if name in self.kernel.shared else self.registers[operand[1]]) + operand[2]

    def space(self, kinds):
        return self.shared if "shared" in kinds else self.memory

    def step(self):
        if self.at >= len(self.kernel.program):
            self.state = "ended"
            return
        guard, negated, name, kinds, operands = self.kernel.program[self.at]
        self.at += 1
        if guard and bool(self.value(guard)) == negated:
            return
        getattr(self, "do_" + name, self.compute)(name, kinds, operands)

    def compute(self, name, kinds, operands):
        n, kind = bits(kinds)
        if name == "mul" and "hi" in kinds:
            self.set(operands[0], self.value(operands[1], n, kind) * self.value(operands[2], n, kind) >> n, n, kind)
            return
        wide = 2 * n if "wide" in kinds else n
        values = [self.value(o, n if i < 2 else wide, kind) for i, o in enumerate(operands[1:])]
        self.set(operands[0], PLAIN[name](*values), wide, "p" if kinds[-1] == "pred" else kind)

    def do_not(self, name, kinds, operands):
        if kinds == ["pred"]:
            self.registers[operands[0][1]] = not self.value(operands[1])
        else:
            self.compute(name, kinds, operands)

    def do_mov(self, name, kinds, operands):
        """Also of one of 64 bits to two of 32, and back."""
        to, of = operands
        if to[0] == "v":
            v = self.value(of)
            for i, one in enumerate(to[1]):
                self.set(one, v >> 32 * i, 32, "b")
        elif of[0] == "v":
            self.set(to, sum((self.value(one) & 0xFFFFFFFF) << 32 * i for i, one in enumerate(of[1])), 64, "b")
        else:
            self.compute(name, kinds, operands)

    def do_clz(self, name, kinds, operands):
        n, _ = bits(kinds)
        self.set(operands[0], n - self.value(operands[1]).bit_length(), 32, "b")

    def do_fence(self, name, kinds, operands):
        """One thread moves at a time."""

    do_prefetch = do_fence

    def do_shl(self, name, kinds, operands):
        n, _ = bits(kinds)
        self.set(operands[0], self.value(operands[1]) << min(self.value(operands[2]), n), n, "b")

    def do_shr(self, name, kinds, operands):
        n, kind = bits(kinds)
        self.set(operands[0], self.value(operands[1], n, kind) >> min(self.value(operands[2]), n), n, "b")

    def do_shf(self, name, kinds, operands):
        low, high, by = (self.value(o) for o in operands[1:])
        check(kinds == ["l", "wrap", "b32"], "shf." + ".".join(kinds))
        self.set(operands[0], ((high << 32 | low) << (by & 31)) >> 32, 32, "b")

    def do_cvt(self, name, kinds, operands):
        (to, to_kind), (n, kind) = bits(kinds[:-1]), bits(kinds[-1:])
        v = self.value(operands[1], n, kind)
        if kind != "f":
            v &= (1 << n) - 1
            v = signed(v, n) if kind == "s" else v
        if to_kind == "f":
            v = float(v)
        elif kind == "f":
            low, high = (-(1 << to - 1), (1 << to - 1) - 1) if to_kind == "s" else (0, (1 << to) - 1)
            v = 0 if math.isnan(v) else low if v < low else high if v > high else math.trunc(v)
        self.set(operands[0], v, to, to_kind)

    def do_setp(self, name, kinds, operands):
        n, kind = bits(kinds)
        is_so = COMPARE[kinds[0]](*(self.value(o, n, kind) for o in operands[1:3]))
        if len(operands) > 3:
            other = bool(self.value(operands[3]))
            is_so = is_so and other if kinds[1] == "and" else is_so or other
        self.registers[operands[0][1]] = is_so

    def do_selp(self, name, kinds, operands):
        n, kind = bits(kinds)
        self.set(operands[0], self.value(operands[1 if self.value(operands[3]) else 2], n, kind), n, kind)

    def do_ld(self, name, kinds, operands):
        n, kind = bits(kinds)
        if operands[0][0] == "v":
            for i, one in enumerate(operands[0][1]):
                self.set(one, self.space(kinds).load(self.address(operands[1]) + i * n // 8, n // 8), n, kind)
            return
        if kinds[0] == "param":
            v = self.passed.get(operands[1][1], self.params.get(operands[1][1].lstrip("="), 0)) & (1 << n) - 1
        else:
            v = self.space(kinds).load(self.address(operands[1]), n // 8)
        if kind == "f":
            v = struct.unpack("d" if n == 64 else "f", v.to_bytes(n // 8, "little"))[0]
        # Who loads bits loads a number, if the register is one for such.
        elif kind == "b" and operands[0][1] in self.floats():
            v = struct.unpack("d" if n == 64 else "f", v.to_bytes(n // 8, "little"))[0]
        self.registers[operands[0][1]] = v

    def floats(self):
        return {name: True for name, kind in self.kernel.scopes[0].values() if kind in ("f32", "f64")}

    def do_call(self, name, kinds, operands):
        to, function, *given = ("=" + what.strip("() \n") for _, what in operands)
        self.passed[to] = self.kernel.calls[function[1:]](*(self.passed[one] for one in given))

    def do_st(self, name, kinds, operands):
        n, _ = bits(kinds)
        if operands[1][0] == "v":
            for i, one in enumerate(operands[1][1]):
                self.space(kinds).store(self.address(operands[0]) + i * n // 8, self.value(one, n), n // 8)
            return
        v = self.value(operands[1], n)
        if kinds[0] == "param":
            self.passed[operands[0][1]] = v
            return
        if isinstance(v, float):
            v = int.from_bytes(struct.pack("d" if n == 64 else "f", v), "little")
        self.space(kinds).store(self.address(operands[0]), v, n // 8)

    def do_atom(self, name, kinds, operands):
        n, _ = bits(kinds)
        at, way = self.address(operands[1]), next(k for k in kinds if k in ATOMIC)
        old = self.memory.load(at, n // 8)
        self.memory.store(at, ATOMIC[way](old, *(self.value(o, n) for o in operands[2:])), n // 8)
        self.set(operands[0], old, n, "b")

    def do_red(self, name, kinds, operands):
        n, _ = bits(kinds)
        at, way = self.address(operands[0]), next(k for k in kinds if k in ATOMIC)
        self.memory.store(at, ATOMIC[way](self.memory.load(at, n // 8), self.value(operands[1], n)), n // 8)

    def do_bra(self, name, kinds, operands):
        self.at = self.kernel.labels[operands[0][1]]

    def do_exit(self, name, kinds, operands):
        self.state = "ended"

    do_ret = do_exit

    def do_shfl(self, name, kinds, operands):
        check(kinds[0] == "sync" and kinds[2] == "b32" and self.value(operands[4], 32) == 0xFFFFFFFF, "shfl")
        self.state, self.into, self.brought = "syncs", operands[0], self.value(operands[1], 32)
        by = self.value(operands[2], 32)
        self.source = {"bfly": self.lane ^ by, "idx": by}[kinds[1]]

    def do_bfi(self, name, kinds, operands):
        n, _ = bits(kinds)
        of, into, at, size = (self.value(o, n) for o in operands[1:])
        mask = ((1 << size) - 1) << at
        self.set(operands[0], (into & ~mask) | (of << at & mask), n, "b")

    def do_redux(self, name, kinds, operands):
        n, _ = bits(kinds[-1:])
        check(kinds[0] == "sync" and n == 32 and self.value(operands[2], 32) == 0xFFFFFFFF, "redux")
        self.state, self.into, self.brought = "syncs", operands[0], self.value(operands[1], 32) & 0xFFFFFFFF
        self.source = {"add": lambda all_of: sum(all_of) & 0xFFFFFFFF, "min": min}[kinds[1]]

    def do_vote(self, name, kinds, operands):
        check(kinds == ["sync", "any", "pred"] and self.value(operands[2], 32) == 0xFFFFFFFF, "vote")
        self.state, self.into, self.brought, self.source = "syncs", operands[0], bool(self.value(operands[1])), any

    def do_bar(self, name, kinds, operands):
        if kinds == ["warp", "sync"]:
            self.state, self.into = "syncs", None
            return
        if kinds == ["sync"]:
            check(operands == [("i", 0)], "a barrier of some threads")
            self.state, self.into, self.answer = "waits", None, False
            return
        check(kinds == ["red", "or", "pred"], "bar." + ".".join(kinds))
        self.state, self.into, self.answer = "waits", operands[0], bool(self.value(operands[2]))

    def do_activemask(self, name, kinds, operands):
        self.state, self.into = "meets", operands[0]


def places(extent):
    return [p[::-1] for p in itertools.product(*(range(n) for n in extent[::-1]))]


class Block:
    def __init__(self, kernel, grid, block, place, params, memory):
        shared = Memory()
        names = {"%ctaid": place, "%nctaid": grid, "%ntid": block}
        self.threads = [Thread(kernel, {f"{n}.{d}": v[i] for n, v in {**names, "%tid": t}.items()
                                        for i, d in enumerate("xyz")}, params, memory, lane, shared)
                        for lane, t in enumerate(places(block))]

    def ended(self):
        return all(t.state == "ended" for t in self.threads)

    def sync(self):
        """All threads of the block are of one warp that meets."""
        check(len(self.threads) == LANES and all(t.state == "syncs" and t.at == self.threads[0].at for t in self.threads),
              "lanes meet at different places, or not all do")
        for t in self.threads:
            if t.into:
                t.registers[t.into[1]] = t.source([o.brought for o in self.threads]) if callable(t.source) else self.threads[t.source].brought
            t.state = "runs"

    def advance(self, rng):
        running = [t for t in self.threads if t.state == "runs"]
        meeting = [t for t in self.threads if t.state == "meets"]
        if running and (not meeting or rng.random() < 0.9):
            thread = rng.choice(running)
            for _ in range(rng.randint(1, 20)):
                if thread.state == "runs":
                    thread.step()
        elif meeting:
            # Those of a warp that happen to be at the same place at the same time.
            first = rng.choice(meeting)
            group = [t for t in meeting if t is first or (t.warp == first.warp and t.at == first.at and rng.random() < .7)]
            mask = sum(1 << t.lane for t in group)
            for t in group:
                t.registers[t.into[1]], t.state = mask, "runs"
        elif any(t.state == "syncs" for t in self.threads):
            self.sync()
        else:
            waiting = [t for t in self.threads if t.state == "waits"]
            check(len({t.at for t in waiting}) == 1, "threads wait at different barriers")
            answer = any(t.answer for t in waiting)
            for t in waiting:
                t.state = "runs"
                if t.into:
                    t.registers[t.into[1]] = answer


def run(kernel, grid, block, params, memory, rng, resident=3, event=None):
    """A launch. event(steps, blocks) is called before each step; how many there were."""
    waiting, live, steps = places(grid), [], 0
    rng.shuffle(waiting)
    while waiting or live:
        while waiting and len(live) < resident:
            live.append(Block(kernel, grid, block, waiting.pop(), params, memory))
        if event:
            event(steps, live)
        steps += 1
        one = rng.choice(live)
        one.advance(rng)
        if one.ended():
            live.remove(one)
    return steps
