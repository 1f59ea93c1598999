# SPDX-License-Identifier: Apache-2.0
"""More rows of memory_bench: programs that do not fit together. The device is made as small as --gib says by a program of no
interest (`ballast`), which has the rest of it.
  changed   out, exchange and rounds where all memory has changed, so that all is copied both ways
  demand    two programs that read, each of 60 % of --gib: nobody asks for anything by hand
  switch    two that fit together, in turns of 100 ms: what a turn costs
  openings  a decoder beside one that reads, while the memory of a third goes out and in all the time: its tokens
  servers   three language models of --gib, of which two fit, asked by turns
  train     BERT beside ResNet-50, of which one fits: losses as natively, and time
  urgent    a language model, asked every 200 ms, beside one that takes the rest: the last of 100 answers
  large     one program of 1.5 times --gib: a decoder that reads all of it in turn, and then one that reads the last two fifths, of
            which most had no room: its tokens, to those where nothing changes its place (the rest runs from the host)"""
import contextlib
import json
import os
import subprocess
import sys
import threading
import time

GIB, MIB = 1 << 30, 1 << 20
CONTEXT = int(os.environ.get("MEMORY_BENCH_CONTEXT_MIB", "600")) * MIB  # of a program, beside its memory
TORCH_CONTEXT = 2 * CONTEXT
SECONDS = float(os.environ.get("MEMORY_BENCH_SECONDS", "10"))
# Another program in its place: for tests on machines without PyTorch.
TORCH = os.environ.get("MEMORY_BENCH_TORCH")
FREE = """
import ctypes
cu, dev, ctx = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
for rc in (cu.cuInit(0), cu.cuDeviceGet(ctypes.byref(dev), 0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), dev),
           cu.cuCtxSetCurrent(ctx), cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))):
    assert not rc, rc
print(free.value)
"""


def of_many(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


class Rows:
    """m: the module memory_bench; bench: its Bench."""

    def __init__(self, m, bench):
        self.m, self.bench, self.began = m, bench, time.monotonic()

    def tell(self, what):
        """Progress, for people: a row may take minutes."""
        print(f"{time.monotonic() - self.began:6.1f} s: {what}", file=sys.stderr, flush=True)

    # --- programs ---

    def free(self):
        """What the driver has left for a program with a context."""
        r = subprocess.run([sys.executable, "-c", FREE], capture_output=True, text=True, check=False, env=self.bench.env, timeout=60)
        if r.returncode:
            raise self.m.Failed(f"the driver does not say what is free: {r.stderr[-200:]}")
        return int(r.stdout)

    def settled(self):
        """What is free when those that have ended have given their memory back, which takes the driver a while."""
        free, before = self.free(), None
        for _ in range(20):
            if free == before:
                break
            time.sleep(0.3)
            free, before = self.free(), free
        return free

    def ballast(self, stack, leave):
        """Takes all of the device but so much."""
        mib = (self.settled() - leave) // MIB
        if mib < 1:
            raise self.m.Failed(f"the device has less than {leave / GIB:.1f} GiB left")
        block = 64 if mib > 4096 else 2
        argv = [os.path.join(self.bench.build, "bench", "bench_cuda_memory"), str(mib // block * block), str(block)]
        p = self.m.start(stack, argv, self.bench.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.m.answer(p, "the ballast") != "ready":
            raise self.m.Failed("the ballast did not get ready")

    def torch(self, stack, args, options=None):
        """options: of `fermata run`; None: natively. The program, and what it says that it has."""
        argv = [sys.executable, TORCH or os.path.join(self.m.BENCH, "torch_memory.py"), *map(str, args)]
        if options is not None:
            argv = [self.bench.fermata, "run", *options, "--", *argv]
        p = self.m.start(stack, argv, self.bench.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = self.m.answer(p, "torch_memory.py").split()
        if said[0] != "ready":
            raise self.m.Failed(f"torch_memory.py said {said}")
        self.batch = int(said[2]) if len(said) > 2 else 0
        self.tell(f"{' '.join(map(str, args))} {'natively' if options is None else 'under Fermata'}: ready, {said[1]} MiB")
        return p, int(said[1]) * MIB

    @staticmethod
    def begin(p, line):
        p.stdin.write(line + "\n")
        p.stdin.flush()

    def ask(self, p, line):
        self.begin(p, line)
        return json.loads(self.m.answer(p, "torch_memory.py"))

    def reads(self, programs, seconds):
        """GB/s of each, at the same time."""
        for p in programs:
            self.bench.tell(p, "busy")
        time.sleep(seconds)
        for p in programs:  # all stop, and then all are waited for
            self.begin(p, "idle")
        return [float(self.m.answer(p, "bench_cuda_memory").split()[1]) * GIB / seconds / 1e9 for p in programs]

    def alone(self, mib, seconds):
        with contextlib.ExitStack() as stack:
            rate = self.reads([self.bench.program(stack, mib, self.block(mib))], seconds)[0]
        if not rate:
            raise self.m.Failed(f"one that is alone reads nothing in {seconds} s")
        return rate

    @staticmethod
    def block(mib):
        return 512 if mib >= 4096 else 128 if mib >= 1024 else 4

    def size(self, part):
        """That part of --gib in MiB, in whole blocks."""
        mib = int(self.bench.args.gib * 1024 * part)
        return max(4, mib // self.block(mib) * self.block(mib))

    def moved(self):
        r = subprocess.run([self.bench.fermata, "stats", "--json"], capture_output=True, text=True, check=False, env=self.bench.env)
        memory = json.loads(r.stdout).get("memory", {}) if not r.returncode else {}
        return memory.get("moved_out_bytes", 0) + memory.get("moved_in_bytes", 0)

    def policy(self, *words):
        r = subprocess.run([self.bench.fermata, "policy", *words], capture_output=True, text=True, check=False, env=self.bench.env)
        if r.returncode:
            raise self.m.Failed(f"policy {' '.join(words)}: {r.stderr.strip()}")

    # --- rows ---

    def changed(self):
        self.bench.env["FERMATA_MEMORY_KEEP"] = "0"
        print("changed   all is copied both ways, as where all of it has changed:")
        self.m.row_out(self.bench)
        self.m.row_exchange(self.bench)
        self.m.row_rounds(self.bench)

    def demand(self):
        gib = self.bench.args.gib
        mib = self.size(0.6)
        one = self.alone(mib, SECONDS / 3)
        with contextlib.ExitStack() as stack:
            self.ballast(stack, int(gib * GIB) + CONTEXT)
            a, b = (self.bench.program(stack, mib, self.block(mib)) for _ in range(2))
            both = self.reads([a, b], SECONDS)
            moved = self.moved() / 1e9
            self.bench.check(a, b)
        print(f"demand    two of {mib / 1024:.2f} GiB where {gib:.2f} are: they read {both[0]:.1f} and {both[1]:.1f} GB/s, one alone "
              f"{one:.1f}: {100 * sum(both) / one:.1f} %; {moved:.2f} GB moved")

    def decodes(self, p, seconds):
        """Tokens in a second, of a program that reads its memory once for each."""
        begin = time.monotonic_ns() + 50_000_000
        said = self.bench.tell(p, f"decode {begin} {begin + int(seconds * 1e9)}").split()
        return int(said[1]) / seconds

    def large(self):
        """The rates of either, for each setting; what moved in the second; all in one run."""
        gib, of = self.bench.args.gib, {}
        mib = self.size(1.5)
        limit = f"--memory={self.settled() // MIB + mib}M"  # more than the device has
        with contextlib.ExitStack() as stack:
            self.ballast(stack, int(gib * GIB) + CONTEXT)
            for exchange in ("0", "1") * min(self.bench.args.runs, 2):
                with contextlib.ExitStack() as one:
                    p = self.bench.program(one, mib, self.block(mib // 4), option=limit, FERMATA_MEMORY_EXCHANGE=exchange)
                    self.decodes(p, SECONDS / 4)
                    rates = [self.decodes(p, SECONDS / 4)]
                    before = self.moved()
                    self.bench.tell(p, "part 60 100")
                    self.decodes(p, SECONDS)  # it takes a while until that is known
                    rates.append(self.decodes(p, SECONDS / 4))
                    of.setdefault(exchange, []).append((*rates, (self.moved() - before) / 1e9))
                    self.bench.check(p)
                self.tell(f"FERMATA_MEMORY_EXCHANGE={exchange}: {of[exchange][-1]}")
        host, ours = ([max(r[k] for r in of[x]) for k in range(3)] for x in ("0", "1"))
        gain = [ours[k] / host[k] if host[k] else 0.0 for k in range(2)]
        print(f"large     one of {mib / 1024:.2f} GiB where {gib:.2f} are: all in turn {ours[0]:.1f} tokens/s, {host[0]:.1f} with the rest "
              f"from the host: {gain[0]:.2f}x; the last two fifths {ours[1]:.1f}, {host[1]:.1f}: {gain[1]:.2f}x, asked for 1.8x; "
              f"{ours[2]:.2f} GB moved")

    def switch(self):
        mib = self.size(0.4)
        one, slice_s = self.alone(mib, SECONDS / 3), 0.1
        self.policy("round-robin", "slice=100ms")
        with contextlib.ExitStack() as stack:
            a, b = (self.bench.program(stack, mib, self.block(mib)) for _ in range(2))
            both = self.reads([a, b], SECONDS)
            self.bench.check(a, b)
        lost = max(0.0, 1 - sum(both) / one) * slice_s
        print(f"switch    two of {mib / 1024:.2f} GiB that fit, turns of 100 ms: {both[0]:.1f} and {both[1]:.1f} GB/s, one alone {one:.1f}: "
              f"{lost * 1000:.2f} ms of a turn are lost on average; asked for: 2 (P99)")

    def tokens(self, p, seconds):
        """The times of a decoder's tokens, in ms (bench/torch_decode.py)."""
        begin = time.monotonic_ns() + 200_000_000
        self.begin(p, f"go {begin} {begin + int(seconds * 1e9)} 2000")
        return [t / 1000 for t in json.loads(self.m.answer(p, "torch_decode.py"))["took_us"]]

    def openings(self):
        bench, stop, moves = self.bench, threading.Event(), [0]
        mib = self.size(0.25)
        with contextlib.ExitStack() as stack:
            argv = [bench.fermata, "run", "--memory", "--priority", "high", "--", sys.executable,
                    TORCH or os.path.join(self.m.BENCH, "torch_decode.py"), "decode"]
            p = self.m.start(stack, argv, bench.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            if self.m.answer(p, "torch_decode.py") != "ready":
                raise self.m.Failed("the decoder did not get ready")
            busy, mover = (bench.program(stack, mib, self.block(mib)) for _ in range(2))
            bench.tell(busy, "busy")

            def move():
                control = self.m.Control(stack_of_move, bench.dir)
                while not stop.is_set():
                    control("suspend", mover.pid, out=True)
                    while not stop.is_set() and control.state(mover.pid)["resident"]:
                        time.sleep(0.002)
                    control("resume", mover.pid)
                    while not stop.is_set() and control.state(mover.pid)["host"]:
                        time.sleep(0.002)
                    moves[0] += 1

            without = self.tokens(p, SECONDS / 2)
            with contextlib.ExitStack() as stack_of_move:
                thread = threading.Thread(target=move)
                thread.start()
                beside = self.tokens(p, SECONDS / 2)
                stop.set()
                thread.join()
            bench.back(mover.pid)
            bench.is_in(mover.pid)
            bench.tell(busy, "idle")
            bench.check(busy, mover)
        p50, p99 = ([of_many(t, part) for t in (without, beside)] for part in (0.5, 0.99))
        print(f"openings  a decoder before one that reads: {p50[0]:.2f} ms, P99 {p99[0]:.2f} ({len(without)} tokens); while a third's "
              f"memory moves ({moves[0]} times out and in): {p50[1]:.2f}, P99 {p99[1]:.2f}: {p99[1] - p99[0]:+.2f} ms; asked for: +0.5")

    def servers(self):
        gib, rounds = self.bench.args.gib, 3
        alone = []
        for seed in range(3):
            with contextlib.ExitStack() as stack:
                p, had = self.torch(stack, ["serve", gib, seed])
                alone.append([self.ask(p, f"ask {k} 8") for k in range(rounds)])
        copy_ms = gib * GIB / 55e6
        with contextlib.ExitStack() as stack:
            self.ballast(stack, int(had * 8 / 3) + 3 * TORCH_CONTEXT)
            programs = [self.torch(stack, ["serve", gib, seed], ["--memory", "--group", f"server-{seed}"])[0] for seed in range(3)]
            said = [[None] * rounds for _ in programs]
            for k in range(rounds):
                for i, p in enumerate(programs):
                    said[i][k] = self.ask(p, f"ask {k} 8")
                    self.tell(f"server {i} has answered request {k}: first token after {said[i][k]['first_ms']:.0f} ms")
        wrong = sum(s["tokens"] != a["tokens"] for of, native in zip(said, alone) for s, a in zip(of, native))
        firsts = [s["first_ms"] for of in said for s in of]
        native = of_many([a["first_ms"] for of in alone for a in of], 0.5)
        print(f"servers   three of {had / GIB:.1f} GiB where 2.67 of them are, {rounds * 3} requests by turns: {wrong} with other tokens, none "
              f"failed; first token {of_many(firsts, 0.5):.0f} ms, at most {max(firsts):.0f}; alone {native:.0f}; a copy one way takes "
              f"{copy_ms:.0f}: {max(firsts) / copy_ms:.2f}x; asked for: 1.3x")

    def train(self):
        kinds, alone, need, steps, batch = ("bert", "resnet"), {}, {}, {}, {}
        for kind in kinds:
            with contextlib.ExitStack() as stack:
                p, need[kind] = self.torch(stack, ["train", kind, 0, 0.9 * self.bench.args.gib])
                batch[kind] = self.batch
                trial = self.ask(p, "steps 4")
                steps[kind] = max(8, int(SECONDS / 2 / (trial["s"] / 4)))
                alone[kind] = self.ask(p, f"steps {steps[kind]}")
        with contextlib.ExitStack() as stack:
            room = int(max(need.values()) * 1.1)
            self.ballast(stack, room + 2 * TORCH_CONTEXT)
            programs = {k: self.torch(stack, ["train", k, batch[k]], ["--memory", "--group", k])[0] for k in kinds}
            for kind, p in programs.items():
                self.ask(p, "steps 4")
            begin = time.monotonic()
            for kind, p in programs.items():
                self.begin(p, f"steps {steps[kind]}")
            said = {kind: json.loads(self.m.answer(p, kind)) for kind, p in programs.items()}
            wall = time.monotonic() - begin
        equal = all(said[k]["losses"] == alone[k]["losses"] for k in kinds)
        print(f"train     BERT ({need['bert'] / GIB:.1f} GiB, batches of {batch['bert']}) beside ResNet-50 ({need['resnet'] / GIB:.1f}, "
              f"{batch['resnet']}) where {room / GIB:.1f} are: "
              f"{100 * sum(alone[k]['s'] for k in kinds) / wall:.1f} % of what they do one after the other; losses "
              f"{'equal' if equal else 'DIFFER'}; asked for: 72 %, equal")
        if not equal:
            raise self.m.Failed("the losses are not those of a native run")

    def answers(self, p, n=100):
        took = []
        for k in range(n):
            begin = time.monotonic()
            self.ask(p, f"ask {k % 4} 4")
            took.append((time.monotonic() - begin) * 1000)
            time.sleep(max(0.0, 0.2 - took[-1] / 1000))
        return took

    def urgent(self):
        gib = self.bench.args.gib
        mib = self.size(0.95)
        one = self.alone(mib, SECONDS / 3)
        with contextlib.ExitStack() as stack:
            p, had = self.torch(stack, ["serve", gib / 8, 1], ["--memory", "--priority", "high"])
            alone = self.answers(p)
            self.tell("asked alone")
            self.ballast(stack, int(gib * GIB) - had + CONTEXT)
            other = self.bench.program(stack, mib, self.block(mib))
            self.bench.tell(other, "busy")
            self.tell("the other is busy")
            begin = time.monotonic()
            beside = self.answers(p)
            took = time.monotonic() - begin
            rate = float(self.bench.tell(other, "idle").split()[1]) * GIB / took / 1e9
            self.bench.check(other)
        p99 = [of_many(t, 0.99) for t in (alone, beside)]
        print(f"urgent    a model of {had / GIB:.1f} GiB, asked every 200 ms, beside one of {mib / 1024:.1f} where {gib:.1f} are: P99 {p99[1]:.1f} ms, "
              f"alone {p99[0]:.1f}: {p99[1] / p99[0]:.2f}x, asked for 1.15x; the other reads {rate:.0f} GB/s, alone {one:.0f}")


NAMES = ("changed", "demand", "switch", "openings", "servers", "train", "urgent", "large")
BY_TORCH = ("openings", "servers", "train", "urgent")


def has_torch():
    return TORCH or not subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode


def rows(m):
    """As memory_bench has its own: by name, each for a Bench."""

    def row(name):
        def run(bench):
            if name in BY_TORCH and not has_torch():
                raise m.NotMeasured("no PyTorch")
            getattr(Rows(m, bench), name)()

        return run

    return {name: row(name) for name in NAMES}
