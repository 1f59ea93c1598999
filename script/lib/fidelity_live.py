# SPDX-License-Identifier: Apache-2.0
"""The live side of script/fidelity: the programs, and what they cost, on OpenCL (bench/rt_task.c) and by `fermata-lab bench`."""

import contextlib
import ctypes
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from demo import Failed, answer, daemon, start

KERNEL_US = 400
LEAD_S = 0.5
WARM_UP_US = 200000  # of each run, in which all begin at once: no response of a job released then is counted
# Turns by which costs are measured, which none of the runs has that are compared: many changes, and few.
MANY_CHANGES, FEW_CHANGES = "round-robin slice=2ms", "round-robin slice=20ms"
PERCENTILES = (5, 15, 25, 35, 45, 55, 65, 75, 85, 92, 96, 98)  # by which a distribution is given
PART_US = 20  # where gates stand between parts of kernels, in commands
CHANGE_US = 2000  # at most

# Kernels of a job, period in us (0: the next at once), deadline in us.
GROUPS = {
    "requests": (8, 37000, 20000),
    "stream": (40, 101000, 80000),
    "batch-a": (25, 0, 0),
    "batch-b": (25, 0, 0),
}
PRIORITIES = {"requests": "high", "stream": "normal", "batch-a": "low", "batch-b": "low"}


def run(argv, env=None, **more):
    r = subprocess.run(argv, text=True, capture_output=True, env=env, timeout=300, check=False, **more)
    if r.returncode:
        raise Failed(f"{' '.join(argv[:3])}: {r.stderr.strip()}")
    return r.stdout


def since(text, ns):
    """Without the jobs before that: those by which the programs were got ready. Of one of a closed loop that is under way then
    the rest is left: who always has work may be busy from beginning to end."""
    lines, start, end, closed, before = [], 0, 0, False, None

    def rest(until):
        if not closed or before is None or until <= ns:
            return
        at, length, commands = before
        part = (until - ns) / (until - at)
        lines.append(f"job = {ns - start}ns {max(1, round(length * part))}ns {max(1, round(commands * part))}")

    for line in [*text.splitlines(), "["]:
        words = line.split()
        if line.startswith("["):
            rest(end)
            start, closed, before = 0, False, None
        elif line.startswith("duration = "):
            end = int(words[2].removesuffix("ns"))
        elif line.startswith("start = "):
            start = int(words[2].removesuffix("ns"))
        elif line.startswith("arrive = "):
            closed = words[2] == "closed"
        elif line.startswith("job = "):
            at = start + int(words[2].removesuffix("ns"))
            if at < ns:
                before = at, int(words[3].removesuffix("ns")), int(words[4])
                continue
            rest(at - int(words[5].removesuffix("ns")) if len(words) > 5 else at)
            before = None
        lines.append(line)
    return "\n".join(lines[:-1]) + "\n"


def end_recorder(p):
    p.send_signal(signal.SIGINT)
    text = p.stderr.read()
    p.stderr.close()
    if p.wait(30):
        raise Failed(f"the recording failed: {text.strip()}")


def quantile(sorted_, q):
    return sorted_[min(len(sorted_) - 1, max(0, -(-len(sorted_) * q // 100) - 1))] if sorted_ else None


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def of_times(name, times):
    """P50 and P99 in ms, of those whose response means something: who always has work responds as fast as it is served. And
    the times, by which runs are put together."""
    if not GROUPS[name][1]:
        return {}
    times = sorted(times)
    return {"p50": quantile(times, 50), "p99": quantile(times, 99), "times": times}


def warm(name):
    """The first jobs of a run, that are not counted."""
    period = GROUPS[name][1]
    return -(-WARM_UP_US // period) if period else 0


class Live:
    """One driver. run() answers what each group did, {p50, p99 (ms), work (kernels)}, maybe with its times, and what was seen
    besides: from_ns, since when it was meant (the recording may have begun before), and react_us. calibrate() makes the runs by
    which costs are measured; costs() makes one of what several of them answered."""

    def __init__(self, args, dir_, env):
        self.args, self.dir, self.env = args, dir_, env
        self.fermata = os.path.join(args.build, "bin", "fermata")
        self.lab = os.path.join(args.build, "bin", "fermata-lab")

    def answers(self, env):
        r = subprocess.run([self.fermata, "stats", "--json"], env=env, capture_output=True, timeout=30, check=False)
        return r.returncode == 0

    def daemon(self, stack, policy):
        dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-study-"))
        realtime = "" if self.args.plain else "realtime = yes\n"
        ours = daemon(stack, self.args.build, dir_, f"policy = {policy}\n{realtime}")
        env = {**self.env, "FERMATA_SOCKET": ours["FERMATA_SOCKET"]}
        until = time.monotonic() + 10
        while not self.answers(env):  # its socket may be there a little earlier
            if time.monotonic() > until:
                raise Failed("the daemon does not answer")
            time.sleep(0.01)
        return env

    def recorder(self, stack, env, trace):
        """It records when this returns."""
        p = start(stack, [self.fermata, "trace", "record", "--exact", "--force", "-o", trace], env, stderr=subprocess.PIPE)
        said = p.stderr.readline()
        if "recording into" not in said:
            raise Failed(f"nothing is recorded: {said.strip()}")
        return p

    def begin(self, trace):
        """Of the recording: the daemon's first record."""
        for line in run([self.fermata, "trace", "dump", "--json", trace]).splitlines():
            if '"program":"fermatad"' in line:
                return json.loads(line)["time_ns"]
        raise Failed("a recording without a record of the daemon")

    def react_us(self, env):
        return (json.loads(run([self.fermata, "stats", "--json"], env)).get("react_us") or {}).get("p50", 0)


class OpenCL(Live):
    """Programs of bench/rt_task.c. A device that is a CPU has the last one to itself, if there are two."""

    def __init__(self, args, dir_):
        # PoCL: a device of one CPU.
        super().__init__(args, dir_, dict(os.environ, POCL_MAX_PTHREAD_COUNT="1", POCL_CPU_MAX_CU_COUNT="1"))
        cpus = sorted(os.sched_getaffinity(0))
        self.rt_task = os.path.join(args.build, "bench", "rt_task")
        self.pins = [] if args.plain else [f"cpu={(cpus[:-1] or cpus)[0]}", f"device-cpu={cpus[-1]}", "apart"]
        self.rounds = None
        # What a device does keeps no daemon waiting. So nothing of the study is on that CPU: all is started by this process.
        if not args.plain and len(cpus) > 1:
            os.sched_setaffinity(0, cpus[:-1])

    def prepare(self, before):
        self.rounds = before["rounds"] if before else json.loads(
            run([self.rt_task, "size", "mmul", str(KERNEL_US), *self.pins], self.env))["rounds"]

    def kept(self):
        return {"rounds": self.rounds}

    def name(self):
        with contextlib.suppress(Failed, ValueError, KeyError, IndexError):
            return json.loads(run([self.fermata, "doctor", "--json"], self.env))["opencl"]["devices"][0]["name"]
        return "OpenCL"

    def times(self, name):
        return os.path.join(self.dir, f"{name}.times")

    def command(self, policy, name):
        argv = [self.rt_task, "run", "mmul", str(self.rounds), str(GROUPS[name][0]), "0", *self.pins, f"times={self.times(name)}"]
        if policy == "none":
            return argv
        hints = ["--priority", PRIORITIES[name]]
        hints += ["--deadline", f"{GROUPS[name][2]}us"] if GROUPS[name][2] else []
        return [self.fermata, "run", "--level", "2", "--group", name, *hints, "--", *argv]

    def run(self, policy, seconds, trace):
        with contextlib.ExitStack() as stack:
            env = self.env if policy == "none" else self.daemon(stack, policy)
            running = {name: start(stack, self.command(policy, name), env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                       for name in GROUPS}
            for name, p in running.items():
                if answer(p, name) != "ready":
                    raise Failed(f"{name} did not get ready")
            recorder = self.recorder(stack, env, trace) if trace else None
            begin = time.monotonic_ns() + int(LEAD_S * 1e9)
            end = begin + int(seconds * 1e9)
            for name, p in running.items():
                period = GROUPS[name][1]
                jobs = int(seconds * 1e6 / period) if period else 100000
                p.stdin.write(f"go {begin} {jobs} {period * 1000 or 1} {end}\n")
                p.stdin.flush()
            reports = {name: json.loads(answer(p, name)) for name, p in running.items()}
            react = 0 if policy == "none" else self.react_us(env)
            if recorder:
                end_recorder(recorder)
        if any(r["wrong"] for r in reports.values()):
            raise Failed(f"wrong results under {policy}")
        return {name: {**of_times(name, self.responses(name)), "work": r["jobs"] * GROUPS[name][0]}
                for name, r in reports.items()}, {"react_us": react, "from_ns": begin}

    def responses(self, name):
        with open(self.times(name), encoding="ascii") as f:
            return [int(line.split()[1]) / 1e6 for line in f][warm(name):]

    def recorded(self, policy):
        """A run, and what `fermata record` says of it: of the device, and of the jobs."""
        trace, path = (os.path.join(self.dir, f"costs.{end}") for end in ("fmt", "ini"))
        groups, seen = self.run(policy, self.args.measured, trace)
        run([self.fermata, "record", "-q", "--force", "--arrivals", "closed", "--from", trace, "-o", path])
        with open(path, encoding="ascii") as f:
            text = f.read()
        device, jobs = read_recording(text)
        late = re.search(r"^late = (\d+ns)$", text, re.MULTILINE)
        inputs = re.findall(r"^input = (\d+ns)$", text, re.MULTILINE)
        return {"work": sum(g["work"] for g in groups.values()), "react_us": seen["react_us"], "device": device, "jobs": jobs,
                "late_us": us_of(late[1]) if late else 0.0, "inputs_us": [us_of(v) for v in inputs]}

    def calibrate(self):
        """By the same programs under other policies."""
        return {"many": self.recorded(MANY_CHANGES), "few": self.recorded(FEW_CHANGES)}

    def costs(self, measured, done):
        many, few = ([m[which] for m in measured] for which in ("many", "few"))
        jobs = {name: [job for r in many + few for job in r["jobs"][name]] for name in GROUPS}
        pauses = [p for r in many for name in GROUPS if not GROUPS[name][1] for _, _, p in r["jobs"][name] if p is not None]
        costs = costs_of_jobs(jobs, pauses, median([r["react_us"] for r in many + few]))
        costs["late_us"] = median([r["late_us"] for r in many])
        costs["input_us"] = median([us for r in many + few for us in r["inputs_us"]]) or 0.0
        device = device_of_all([r["device"] for r in many])
        if "slice" in device:
            device.update(linux_turns())
        work = sum(statistics.mean(r["work"] for r in runs) for runs in (many, few))
        kernel = found(0.7 * costs["kernel_us"], 1.5 * costs["kernel_us"], lambda us: sum(
            done(policy, {**costs, "kernel_us": us}, device) for policy in (MANY_CHANGES, FEW_CHANGES)) - work)
        return {**costs, "kernel_us": kernel}, device


def device_of_all(devices):
    """Several recordings of one device: the median of each number, word by word."""
    def together(values):
        words = list(zip(*(v.split() for v in values)))
        return " ".join(f"{round(median([int(w[:-2]) for w in word]))}ns" if all(re.fullmatch(r"\d+ns", w) for w in word)
                        else statistics.mode(word) for word in words)

    return {key: together([d[key] for d in devices if key in d]) for key in devices[0]}


def costs_of_jobs(groups, pauses, react_us):
    """Of recordings. A job is two commands more than its kernels: its input and its output. A pause is as long as the daemon saw
    it, who hears of its end a little later."""
    jobs = {name: sum(n for _, n, _ in groups[name]) / (kernels + 2) for name, (kernels, _, _) in GROUPS.items()}
    time_us = sum(us for g in groups.values() for us, _, _ in g)
    if not all(jobs.values()):
        raise Failed("not everybody had the device in the run by which costs are measured: --measured")
    few = GROUPS["requests"][0]
    one = statistics.median(us * (few + 2) / n for us, n, _ in groups["requests"])
    kernels = sum(jobs[name] * GROUPS[name][0] for name in GROUPS)
    # kernels * kernel + jobs * job = time, and few * kernel + job = one; but a job costs something, and so does a kernel.
    most = time_us / kernels
    kernel = (time_us - sum(jobs.values()) * one) / (kernels - sum(jobs.values()) * few)
    kernel = min(max(kernel, most / 2), most)
    pauses = [max(0.0, p - react_us) for p in pauses or [0.0]]
    return {"kernel_us": kernel, "job_us": max(0.0, (time_us - kernels * kernel) / sum(jobs.values())),
            "pause_us": statistics.median(pauses), "pause": percentiles_of(pauses), "react_us": react_us,
            "extra": {name: extra_of([us * (n + 2) / commands for us, commands, _ in groups[name]], n * kernel / 2)
                      for name, (n, period, _) in GROUPS.items() if period}}


def fitted(costs, device, kernel_range, change_range, work, done):
    """What the device did not do where there are few changes makes a kernel longer (by what else is on the machine, and gates),
    and where there are many, a change. work: kernels of the live runs, first of that with many; done() says how many there are,
    by simulation."""
    many, few = work
    change = change_range[0]
    for _ in range(2):
        kernel = found(*kernel_range, lambda us: done(FEW_CHANGES, costs(us), device(change)) - few)
        change = found(*change_range, lambda us: done(MANY_CHANGES, costs(kernel), device(us)) - many)
    return costs(kernel), device(change)


def percentiles_of(values, low=0.0, part=1.0):
    """As workloads have them; of so large a part of what values are above the low. Not the ends: a few jobs are cut in the wrong
    place."""
    values = sorted(values)
    points = [(0, quantile(values, 1)), *((q, quantile(values, q)) for q in PERCENTILES), (100, quantile(values, 99))]
    return "measured " + " ".join(f"{q}:{part * max(0.0, v - low):.0f}us" for q, v in points)


def extra_of(lengths, most):
    """What jobs are longer than the shortest twentieth: its mean, but not more than that, and the distribution."""
    lengths = sorted(lengths)
    low = quantile(lengths, 5)
    mean = statistics.mean(min(max(0.0, v - low), quantile(lengths, 99) - low) for v in lengths)
    if mean < 1:
        return 0.0, None
    part = min(1.0, most / mean)
    return part * mean, percentiles_of(lengths, low, part)


def found(low, high, more):
    """A cost: as long as the device then still does more() than it did, but from low to high."""
    if low >= high or more(low) <= 0:
        return low
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if more(middle) > 0 else (low, middle)
    return low


def us_of(text):
    """As recordings have times."""
    return int(text.removesuffix("ns")) / 1e3


def linux_turns():
    """How this machine's Linux shares a processor: who has it keeps it for a slice, and until a tick then. {} if it does not
    say so (before 6.12)."""
    attr = (ctypes.c_uint32 * 14)(56)  # struct sched_attr: its size first
    libc = ctypes.CDLL(None, use_errno=True)
    if os.uname().machine != "x86_64" or libc.syscall(315, 0, attr, 56, 0) or attr[1] != os.SCHED_OTHER:
        return {}
    slice_ns = attr[6] | attr[7] << 32  # sched_runtime
    tick_ns = round(time.clock_getres(6) * 1e9)  # CLOCK_MONOTONIC_COARSE
    return {"slice": f"{slice_ns}ns", "tick": f"{tick_ns}ns", "turns": "fair"} if slice_ns and tick_ns > 1000 else {}


def read_recording(text):
    """The keys of the device, without the comments; of each group its jobs: length in us, commands, pause in us."""
    device, groups, section = {}, {name: [] for name in GROUPS}, ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif " = " in line and not line.startswith("#"):
            key, value = line.split(" = ", 1)
            if section.startswith("device "):
                device[key] = value
            elif section.startswith("group ") and key == "job":
                _, length, commands, *pause = value.split()
                groups[section[6:].removeprefix("bench-")].append(
                    (int(length[:-2]) / 1e3, int(commands), int(pause[0][:-2]) / 1e3 if pause else None))
    return device, groups


class Bench(Live):
    """Programs of `fermata-lab bench`, with a driver whose device time nobody traces: costs follow from how much is done."""

    def __init__(self, args, dir_, driver):
        super().__init__(args, dir_, dict(os.environ, FERMATA_LEVEL="2"))
        self.driver, self.device = driver, "?"

    def prepare(self, before):
        tasks = [{"id": name, "client": {"name": name, "model_name": name},
                  "load": {"type": "periodic", "frequency": 1e6 / period} if period else {"type": "continuous"},
                  "hints": {"priority": PRIORITIES[name], **({"deadline": f"{deadline}us"} if deadline else {})}}
                 for name, (_, period, deadline) in GROUPS.items()]
        models = {name: {"kernels": [{"us": KERNEL_US, "count": kernels}]} for name, (kernels, _, _) in GROUPS.items()}
        self.workload = os.path.join(self.dir, "workload.json")
        with open(self.workload, "w", encoding="ascii") as f:
            json.dump({"time": 1, "models": models, "tasks": tasks}, f)

    def kept(self):
        return {}

    def name(self):
        return self.device

    def run(self, policy, seconds, trace):
        with contextlib.ExitStack() as stack:
            env = self.env if policy == "none" else self.daemon(stack, policy)
            where = ["--native"] if policy == "none" else ["--socket", env["FERMATA_SOCKET"]]
            argv = [self.lab, "bench", "--driver", self.driver, "--json", "--progress=100ms", "--time", f"{seconds:g}s",
                    "--warm-up", "2", "--alone", "10", *where, self.workload]
            recorder = self.recorder(stack, env, trace) if trace else None
            p = start(stack, argv, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            # It says at once when the run has begun. Nobody must wait for a reader.
            said, begun = [], []
            reader = threading.Thread(target=self.listen, args=(p.stderr, said, begun), daemon=True)
            reader.start()
            text = p.stdout.read()
            reader.join(30)
            react = 0 if policy == "none" else self.react_us(env)
            if recorder:
                end_recorder(recorder)
        groups, seen = self.report(policy, text, said)
        return groups, {**seen, "react_us": react, "from_ns": begun[0] if begun else 0}

    @staticmethod
    def listen(stream, said, begun):
        for line in stream:
            said.append(line.strip())
            if not begun and re.match(r"\d+ s of \d+: ", line):
                begun.append(time.monotonic_ns())
        stream.close()

    def report(self, policy, text, said):
        try:
            r = json.loads(text)
            tasks = {t["id"]: t for t in r["runs"][0]["tasks"]}
        except (ValueError, LookupError) as e:
            raise Failed(f"fermata-lab bench under {policy}: {' '.join(said[-2:])}") from e
        failed = [f"{name}: {t['failed']}" for name, t in tasks.items() if t["failed"]]
        if failed:
            raise Failed(f"under {policy}: {failed[0]}")
        device = r.get("device")
        self.device = device.get("name", "?") if isinstance(device, dict) else str(device)
        return {name: {**of_times(name, [int(upto) / 1e6 for upto, n in t["latency_histogram"].items() for _ in range(n)]),
                       "work": t["finished"] * GROUPS[name][0]} for name, t in tasks.items()}, \
            {"alone_us": {name: t["alone_us"] or 0 for name, t in tasks.items()}}

    def calibrate(self):
        return [self.run(policy, self.args.measured, None) for policy in (MANY_CHANGES, FEW_CHANGES)]

    def costs(self, measured, done):
        return costs_of_counts(measured, device_of(self.driver), done)


def costs_of_counts(measured, device, done):
    """Of pairs of runs, (groups, seen), with many changes and with few. A job alone is its kernels and what is around them. Who
    always has work launches the next before the scheduler has heard of the end, and does not pause."""
    seen = [s for runs in measured for _, s in runs]
    alone = {name: min(s["alone_us"][name] for s in seen) for name in GROUPS}
    work = [statistics.mean(sum(g["work"] for g in runs[i][0].values()) for runs in measured) for i in (0, 1)]
    small, large = GROUPS["requests"][0], GROUPS["stream"][0]
    least = max(1.0, (alone["stream"] - alone["requests"]) / (large - small))

    def costs(kernel):
        return {"kernel_us": kernel, "job_us": 0.0, "around_us": max(0.0, alone["requests"] - small * least), "pause_us": 0.0,
                "react_us": median([s["react_us"] for s in seen]), "parts": max(1, round(kernel / PART_US))}

    return fitted(costs, lambda us: {**device, "switch": f"{us:.3f}us"}, (least, 2 * least), (0.0, CHANGE_US), work, done)


def device_of(driver):
    """Where gates are is a matter of the driver: docs/design/decisions.md."""
    return {"level": "2", **({"spacing": "180us", "lead": "0"} if driver == "cuda" else {"spacing": "500us", "lead": "1"})}
