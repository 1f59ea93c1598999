# SPDX-License-Identifier: Apache-2.0
"""Rows of memory_bench: sets of programs that take turns and do not fit together.
  A150 A200 A300  four programs of science (bench/bench_cuda_science.c), all memory is 150, 200, 300 % of the device
  B150 B200 B300  four networks: ResNet-152, VGG-19, Inception-V3, DenseNet-201 (PT: by PyTorch, bench/torch_nets.py)
  C150 C200 C300  these and a decoder (PT)
  D150 D200 D300  3, 4 and 6 decoders, in blocks of 128 MiB
  M150 M200 M300  the same, all of each in one buffer
  K150 K300       the same, but of the buffer a token reads only --used percent: the rest is room for keys and values
  NA NB ND        each program of a set alone, where nothing is short: natively and under `fermata run --memory`
A row's programs take the same turns with all memory on the device (in-hbm), and then where it is as small as --gib, once for
each of --variants; beside each is what `fermata-lab sim` says of the same. A line each, at once; details into --out."""
import contextlib
import glob
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

GIB, MIB = 1 << 30, 1 << 20
TURN = {150: 272, 200: 170, 300: 102}  # ms, of decoders;
# of others: those in which a policy that moves at the switch (`opt`) keeps by simulation what it keeps in the paper, 68, 58, 47 %.
TURN_OF_SETS = {150: 125, 200: 170, 300: 210}
DECODERS = {150: 3, 200: 4, 300: 6}
ASKED = {"D": {150: (80, 86), 200: (71, 78), 300: (52, 56)}, "M": {150: (80, 86), 200: (71, 78), 300: (52, 56)},
         "ABC": {150: (80, 80), 200: (72, 72), 300: (52, 52)}}
SCIENCE = (("stencil", 50), ("wavelet", 67), ("cells", 17), ("nearest", 34))  # and percent of the memory that is written
NETS = ("resnet152", "vgg19", "inception", "densenet201")
NETS_DIRTY = 85
CONTEXT = 35 * MIB  # of a program, for each GiB of the device, where nothing was measured
PYTHON = os.environ.get("MEMORY_BENCH_NETS")  # another program in the place of torch_nets.py: for tests

# A variant: [memory] policy, other settings, the programs' environment, lines for the simulator's [memory] and [device], and what the
# libraries must have in them for the switch to be there.
VARIANTS = {
    "jit": ("jit", {}, {}, {}, {}, None),
    "jit-copies": ("jit", {}, {"FERMATA_MEMORY_KEEP": "0"}, {"keep": "no"}, {}, None),
    "whole": ("whole", {}, {}, {}, {}, None),
    "whole-copies": ("whole", {}, {"FERMATA_MEMORY_KEEP": "0"}, {"keep": "no"}, {}, None),
    "opt": ("opt", {}, {}, {}, {}, None),
    "lru": ("lru", {}, {}, {}, {}, None),
    "overtime": ("jit", {"overtime": "yes"}, {}, {"overtime": "yes"}, {}, None),
    "one-way": ("jit", {"duplex": "no"}, {"FERMATA_MEMORY_KEEP": "0"}, {"keep": "no"}, {"link-both": None}, None),
    "allocation": ("jit", {}, {"FERMATA_MEMORY_TEMPLATES": "0"}, {}, {}, "FERMATA_MEMORY_TEMPLATES"),
    "early": ("jit", {}, {"FERMATA_MEMORY_EARLY": "1"}, {"early": "yes"}, {}, "FERMATA_MEMORY_EARLY"),
}


class Program:
    def __init__(self, name, argv, mib, dirty, used=100, waits=False):
        self.name, self.argv, self.mib, self.dirty, self.used, self.waits = name, argv, mib, dirty, used, waits


def of_median(values):
    values = sorted(values)
    return values[len(values) // 2]


def spread(values):
    return f"{of_median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


class Set:
    """A row: its programs, their turn, and what is asked for."""

    def __init__(self, args, row, bench_dir):
        self.name, self.kind, self.pressure = row, row[0], int(row[1:])
        self.args, self.dir, self.env = args, bench_dir, {}
        self.programs = getattr(self, {"A": "science", "B": "nets", "C": "hybrid"}.get(self.kind, "decoders"))()
        self.turn = args.turn or (TURN_OF_SETS if self.kind in "ABC" else TURN)[self.pressure]

    def each(self, n):
        return int(self.args.gib * 1024 * self.pressure / 100 / n)

    def science(self):
        mib, tool = self.each(4), os.path.join(self.args.build, "bench", "bench_cuda_science")
        return [Program(kind, [tool, kind, str(mib)], mib, dirty) for kind, dirty in SCIENCE]

    def net(self, kind, mib):
        tool = [PYTHON] if PYTHON else [os.path.join(self.dir, "torch_nets.py")]
        return Program(kind, [sys.executable, *tool, kind, str(mib)], mib, 0 if kind == "decoder" else NETS_DIRTY, waits=True)

    def nets(self):
        return [self.net(kind, self.each(4)) for kind in NETS]

    def hybrid(self):
        return [self.net(kind, self.each(5)) for kind in (*NETS, "decoder")]

    def decoders(self):
        tool = os.path.join(self.args.build, "bench", "bench_cuda_memory")
        mib = int(self.args.gib / 16 * 8.5e9 / MIB)
        block = max(1, min(128, mib // 4))
        mib -= mib % block
        used = self.args.used if self.kind == "K" else 100
        more = {"D": [str(block)], "M": [str(mib), "100"], "K": [str(mib), str(used)]}[self.kind]
        return [Program("decoder", [tool, str(mib), *more], mib, 0, used) for _ in range(DECODERS[self.pressure])]

    def asked(self, variant):
        goals = next((g[self.pressure] for kinds, g in ASKED.items() if self.kind in kinds), None)
        return goals[variant == "jit"] if goals and variant in ("jit", "jit-copies") else None

    def lacks(self):
        """What is not on this machine; None: nothing that is needed."""
        if self.kind in "BC" and not PYTHON and subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True,
                                                                check=False).returncode:
            return "PyTorch with torchvision"
        return None


class Stopped(Exception):
    pass


@contextlib.contextmanager
def at_most(seconds):
    def stop(_signal, _frame):
        raise Stopped(f"stopped after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def settings(set_, variant, limit_mib):
    policy, more, _, _, _, _ = VARIANTS[variant]
    memory = {"policy": policy, "overtime": "no", "keep_percent": "0", "device_limit": f"{limit_mib}M" if limit_mib else "0", **more}
    return (f"policy = round-robin\n[policy round-robin]\nslice = {set_.turn}\n[memory]\n" +
            "".join(f"{k} = {v}\n" for k, v in memory.items()))


def has_switch(build, word):
    """Is this variable asked for in some library of the build?"""
    lib = os.path.join(build, "lib")
    for name in os.listdir(lib):
        if ".so" in name:
            with open(os.path.join(lib, name), "rb") as f:
                if word.encode() in f.read():
                    return True
    return False


def moved(m, bench):
    r = subprocess.run([bench.fermata, "stats", "--json"], capture_output=True, text=True, check=False, env=bench.env)
    memory = json.loads(r.stdout).get("memory", {}) if not r.returncode else {}
    return [memory.get("moved_in_bytes", 0), memory.get("moved_out_bytes", 0)]


class Started:
    """Programs that are ready; those of `prefix` None run natively."""

    def __init__(self, m, stack, programs, prefix, env):
        self.m, self.programs = m, programs
        start = [lambda of=of: m.start(stack, [*prefix, *of.argv], env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for of in programs]
        # Those that take long to start do that together, and wait for a line. Then one after the other takes its memory, so that
        # each finds the others at rest.
        waiting = {of: begin() for of, begin in zip(programs, start) if of.waits}
        self.p, self.digests = [], []
        for of, begin in zip(programs, start):
            p = waiting.get(of) or begin()
            if of.waits:
                self.tell(p, "take")
            words = m.answer(p, of.name).split()
            if words[0] != "ready":
                raise m.Failed(f"{of.name} said {' '.join(words)}")
            self.p.append(p)
            self.digests.append(words[1] if len(words) > 1 else "")

    @staticmethod
    def tell(p, line):
        p.stdin.write(line + "\n")
        p.stdin.flush()

    def decode(self, seconds):
        """Of each: steps, and the longest wait in ms."""
        begin = time.monotonic_ns() + 100_000_000
        for p in self.p:
            self.tell(p, f"decode {begin} {begin + int(seconds * 1e9)}")
        said = [self.m.answer(p, of.name).split() for p, of in zip(self.p, self.programs)]
        return [float(s[1]) for s in said], max(float(s[2]) for s in said)

    def check(self):
        for p, of in zip(self.p, self.programs):
            self.tell(p, "check")
            said = self.m.answer(p, of.name)
            if said != "right":
                raise self.m.Failed(f"{of.name}: what it has computed is not right: {said}")


def make_host_memory(bench, pids, seconds=20):
    """Each program's memory goes out once, for the host makes it at some 4 GB/s when it is first needed: that is no part of a turn."""
    deadline = time.monotonic() + seconds
    for pid in pids:
        bench.out(pid)
        while bench.control.state(pid)["resident"] and time.monotonic() < deadline:
            time.sleep(0.01)
    for pid in pids:
        bench.back(pid)


def measure(m, args, set_, variant, limit_mib):
    with contextlib.ExitStack() as stack:
        bench = m.Bench(stack, args.build, args, settings(set_, variant, limit_mib))
        began = time.monotonic()
        env = {**bench.env, **set_.env, **VARIANTS[variant][2]}
        programs = Started(m, stack, set_.programs, [bench.fermata, "run", "--memory", "--"], env)
        ready = time.monotonic() - began
        stuck = m.cannot_move(bench)
        if limit_mib:
            make_host_memory(bench, [p.pid for p in programs.p])
        programs.decode(max(args.seconds, 2) if limit_mib and args.seconds >= 1 else min(args.seconds, 1))  # does not count
        before = moved(m, bench)
        runs = [programs.decode(args.seconds) for _ in range(args.runs)]
        came, went = (b - a for a, b in zip(before, moved(m, bench)))
        programs.check()
        return {"row": set_.name, "variant": variant, "gib": args.gib, "turn_ms": set_.turn, "limit_mib": limit_mib, "stuck": stuck,
                "seconds": args.seconds, "mib": [p.mib for p in set_.programs], "names": [p.name for p in set_.programs],
                "steps": [r[0] for r in runs], "wait_ms": [r[1] for r in runs], "in_bytes": came, "out_bytes": went,
                "digests": programs.digests, "ready_s": round(ready, 1), "took_s": round(time.monotonic() - began, 1)}


# --- what the simulator says ---

SCENARIO = """[workload]
policy = round-robin slice={turn}ms
duration = 40s
warmup = 10s
[memory]
policy = {policy}
{memory}[device gpu]
memory = {limit}M
context = {context}
link-in = {in_}
link-out = {out}
{device}flip = {flip}us
copy-cost = {cost}
switch = 160us
"""
GROUP = """[group {name}-{i}]
memory = {mib}M
{set_}gap = {step}us
dirty = {dirty}
commands = 1 x {step}us
"""


def rates(args):
    """Bytes a second in and out, and µs to map and unmap a chunk, as `fermata doctor` tried them; else those of an H200."""
    found = {"in": 54.5e9, "out": 53.5e9, "flip": 100.0}
    try:
        r = subprocess.run([os.path.join(args.build, "bin", "fermata"), "doctor"], capture_output=True, text=True, check=False, timeout=60)
        for line in r.stdout.splitlines():
            words = line.replace(",", " ").split()
            if words[1:2] == ["copies"] and "GB/s" in words:
                k = words.index("GB/s")
                found["in"], found["out"] = float(words[k - 1]) * 1e9, float(words[words.index("GB/s", k + 1) - 1]) * 1e9
            elif words[1:2] == ["vmm"] and "ms" in words:
                found["flip"] = max(float(words[words.index("ms") - 1]) * 1000, 10)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        pass
    return found


def scenario(args, set_, variant, base, stuck, link):
    """base: what was measured in-hbm; None: nothing was. stuck: bytes that cannot move."""
    policy, _, _, memory, device, _ = VARIANTS[variant]
    device = {"link-both": args.link_both * 1e9, **device}
    device = {k: min(link["in"], link["out"]) if v is None else v for k, v in device.items()}  # one at a time
    memory = {"overtime": "no", **memory}
    n = len(set_.programs)
    limit = base["stuck"] if base else stuck
    text = SCENARIO.format(turn=set_.turn, policy=policy, memory="".join(f"{k} = {v}\n" for k, v in memory.items()),
                           limit=int(args.gib * 1024) + -(-limit // MIB), context=stuck // n, in_=int(link["in"]), out=int(link["out"]),
                           device="".join(f"{k} = {int(v)}\n" for k, v in device.items()), flip=int(link["flip"]),
                           cost=args.copy_cost)
    for i, p in enumerate(set_.programs):
        steps = of_median([s[i] for s in base["steps"]]) if base else 0
        step = base["seconds"] / n / steps * 1e6 if steps else p.mib * p.used / 100 * MIB / 3.6e6
        step = min(max(step, 50), set_.turn * 1000)
        used = "" if p.used == 100 or variant == "allocation" else f"working-set = {max(1, p.mib * p.used // 100)}M\n"
        text += GROUP.format(name=p.name, i=i, mib=p.mib, set_=used, step=int(step), dirty=p.dirty)
    return text


def predict(m, args, set_, variant, base=None, result=None):
    """Percent of in-hbm; the scenario stays in --out."""
    if not hasattr(args, "link"):
        args.link = rates(args)
    path = os.path.join(args.out or args.scratch, f"{set_.name}-{variant}.ini")
    with open(path, "w", encoding="ascii") as f:
        f.write(scenario(args, set_, variant, base, result["stuck"] if result else int(CONTEXT * args.gib) * len(set_.programs), args.link))
    r = subprocess.run([os.path.join(args.build, "bin", "fermata-lab"), "sim", "--json", path], capture_output=True, text=True,
                       check=False, timeout=120)
    if r.returncode:
        raise m.Failed(f"the simulation of {path} failed: {r.stderr.strip()[-200:]}")
    said = json.loads(r.stdout)
    said = said.get("memory_policies", [said])[0]
    return {"percent": said["devices"][0]["memory"]["to_memory_ppm"] / 1e4,
            "wait_ms": max(g["memory"]["longest_wait_ns"] for g in said["groups"]) / 1e6}


# --- rows ---

def learn(args, set_):
    """Templates of what the programs' kernels touch, where this build profiles. The name of what is lacking, or None."""
    env = dict(os.environ, XDG_DATA_HOME=os.path.join(args.scratch, set_.name))
    for argv in {tuple(p.argv) for p in set_.programs}:
        r = subprocess.run([os.path.join(args.build, "bin", "fermata-lab"), "profile", "--", *argv], stdin=subprocess.DEVNULL, env=env,
                           capture_output=True, text=True, check=False, timeout=args.timeout)
        if r.returncode:
            return (r.stderr.strip().splitlines() or ["no reason"])[0]
    set_.env = {"XDG_DATA_HOME": env["XDG_DATA_HOME"]}
    return None

def device():
    """Which one the programs have, as far as that can be told without it."""
    env = [os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "FAKE_CUDA_CAPACITY")]
    try:
        return [subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=60).stdout.strip(), *env]
    except (OSError, subprocess.TimeoutExpired):
        return ["", *env]


def build_of(args):
    """A digest of what is measured with."""
    digest = hashlib.sha256()
    for pattern in ("bin/fermatad", "bin/fermata", "lib/*.so*", "bench/bench_cuda_*"):
        for path in sorted(glob.glob(os.path.join(args.build, pattern))):
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    digest.update(f.read())
    return digest.hexdigest()


def key_of(args, set_):
    """Two results in-hbm with the same key are of the same."""
    if not hasattr(args, "same"):
        args.same = {"device": device(), "build": build_of(args)}
    return {"row": set_.name, "variant": "jit", "gib": args.gib, "turn_ms": set_.turn, "limit_mib": 0,
            "mib": [p.mib for p in set_.programs], "argv": [p.argv for p in set_.programs], "used": [p.used for p in set_.programs],
            "link": [args.link_both, args.copy_cost], **args.same}


def keep(args, result):
    args.measured = True
    if args.out:
        with open(os.path.join(args.out, "results.jsonl"), "a", encoding="ascii") as f:
            f.write(json.dumps(result) + "\n")


def lines_of(path):
    """The results in the file; a line that was cut is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            lines = f.readlines()
    except OSError:
        return
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def kept(args, set_):
    """What an earlier call with the same --out found for the row in-hbm."""
    if not args.out:
        return None
    key = key_of(args, set_)
    same = [r for r in lines_of(os.path.join(args.out, "results.jsonl")) if all(r.get(k) == v for k, v in key.items())]
    return same[-1] if same else None


def say(text):
    print(text, flush=True)


def not_measured(args, row, variant, why):
    say(f"{row:6} {variant:13} not measured: {why}" if variant else f"{row:6} not measured: {why}")
    args.lacking = True


def percents(set_, base, result):
    """Of each run: the mean of what the programs do to what they do in-hbm."""
    out = []
    for steps in result["steps"]:
        parts = [of_median([s[i] for s in base["steps"]]) / base["seconds"] for i in range(len(steps))]
        out.append(sum(s / result["seconds"] / part for s, part in zip(steps, parts)) / len(steps) * 100)
    return out


def in_hbm(m, args, set_):
    base = kept(args, set_)
    if not base:
        with at_most(args.timeout):
            base = {**measure(m, args, set_, "jit", 0), **key_of(args, set_)}
        keep(args, base)
    total = sum(of_median([s[i] for s in base["steps"]]) for i in range(len(set_.programs))) / base["seconds"]
    say(f"{set_.name:6} in-hbm        {len(set_.programs)} of {set_.programs[0].mib / 1024:.2f} GiB on {args.gib:g} and contexts of "
        f"{base['stuck'] / GIB:.2f}, turns of {set_.turn} ms: {total:.0f} steps/s, ready in {base['ready_s']} s, {base['took_s']} s in all")
    if not all(of_median([s[i] for s in base["steps"]]) for i in range(len(set_.programs))):
        raise m.Failed("a program has done no step where all fits: give it more --seconds")
    return base


def one_variant(m, args, set_, variant, base, moved_):
    """None: it has failed. moved_: by variant, bytes that came in for a step."""
    switch = VARIANTS[variant][5]
    if switch and not has_switch(args.build, switch):
        not_measured(args, set_.name, variant, f"this build has no {switch}")
        return 0
    limit = int(args.gib * 1024) + -(-base["stuck"] // MIB)
    try:
        with at_most(args.timeout):
            result = measure(m, args, set_, variant, limit)
        result["predicted"] = predict(m, args, set_, variant, base, result)
    except (m.Failed, Stopped, OSError, subprocess.TimeoutExpired) as e:
        say(f"{set_.name:6} {variant:13} failed: {e}")
        return None
    result["percents"] = percents(set_, base, result)
    if result["digests"] != base["digests"]:
        say(f"{set_.name:6} {variant:13} failed: results are others than in-hbm")
        return None
    keep(args, result)
    moved_[variant] = result["in_bytes"] / max(sum(map(sum, result["steps"])), 1e-9)
    percent, asked = of_median(result["percents"]), set_.asked(variant)
    predicted = result["predicted"]["percent"]
    say(f"{set_.name:6} {variant:13} {spread(result['percents'])} %, predicted {predicted:.1f}: {percent / max(predicted, 0.1):.2f}; longest wait "
        f"{max(result['wait_ms']):.0f} ms, {result['in_bytes'] / GIB / args.runs:.1f} GiB in, {result['out_bytes'] / GIB / args.runs:.1f} out"
        + (f"; asked for: {asked}" if asked else "") + f"; {result['took_s']} s")
    return percent


def run_set(m, args, row):
    set_ = Set(args, row, m.BENCH)
    if args.predict:
        args.measured = True
        for variant in args.variants:
            p = predict(m, args, set_, variant)
            asked = set_.asked(variant)
            say(f"{row:6} {variant:13} predicted {p['percent']:.1f} %, longest wait {p['wait_ms']:.0f} ms; {len(set_.programs)} of "
                f"{set_.programs[0].mib / 1024:.2f} GiB, turns of {set_.turn} ms" + (f"; asked for: {asked}" if asked else ""))
        return False
    if lacks := set_.lacks():
        not_measured(args, row, "", f"no {lacks}")
        return False
    if set_.kind == "K" and (lacks := learn(args, set_)):
        say(f"{row:6} no templates: {lacks}")
    base = in_hbm(m, args, set_)
    moved_ = {}
    got = {v: one_variant(m, args, set_, v, base, moved_) for v in args.variants}
    for ours, theirs in (("jit", "whole"), ("jit-copies", "whole-copies"), ("jit", "opt"), ("jit-copies", "one-way"), ("jit", "allocation")):
        if got.get(ours) and got.get(theirs):
            say(f"{row:6} {ours} to {theirs}: {got[ours] / got[theirs]:.2f}")
    if moved_.get("allocation") and moved_.get("jit") is not None:
        by = f"{moved_['allocation'] / moved_['jit']:.2f}" if moved_["jit"] else "by template nothing came in"
        say(f"{row:6} bytes that came in for a step, by allocation to by template: {by}")
    return None in got.values()


# --- N: what it costs where nothing is short ---

def one_cost(m, args, program):
    rates_ = {}
    for way in ("natively", "managed"):
        with contextlib.ExitStack() as stack:
            bench = m.Bench(stack, args.build, args, "")
            prefix = [] if way == "natively" else [bench.fermata, "run", "--memory", "--"]
            p = Started(m, stack, [program], prefix, bench.env)
            p.decode(0.5)
            rates_[way] = [p.decode(args.seconds)[0][0] / args.seconds for _ in range(args.runs)]
            p.check()
    return rates_


def run_cost(m, args, row):
    set_ = Set(args, row[1] + "150", m.BENCH)
    if lacks := set_.lacks():
        not_measured(args, row, "", f"no {lacks}")
        return False
    failed = False
    for program in {p.name: p for p in set_.programs}.values():
        try:
            with at_most(args.timeout):
                got = one_cost(m, args, program)
        except (m.Failed, Stopped, OSError, subprocess.TimeoutExpired) as e:
            failed = True
            say(f"{row:6} {program.name:13} failed: {e}")
            continue
        keep(args, {"row": row, "variant": program.name, "gib": args.gib, "turn_ms": 0, "limit_mib": 0, "mib": [program.mib], "rates": got})
        native, managed = (of_median(got[w]) for w in ("natively", "managed"))
        say(f"{row:6} {program.name:13} {(1 - managed / max(native, 1e-9)) * 100:+.2f} %: natively {spread(got['natively'])} steps/s, managed "
            f"{spread(got['managed'])}; asked for: 0.5 % at most")
    return failed


NAMES = ([f"{kind}{pressure}" for kind in "ABCDM" for pressure in TURN] + ["K150", "K300", "NA", "NB", "ND"])


def run(m, args, row):
    """True: something of the row failed."""
    return (run_cost if row[0] == "N" else run_set)(m, args, row)
