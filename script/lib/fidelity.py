#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the same programs live (bench/rt_task.c on OpenCL) and in the simulator, with the costs that were measured; how far
the simulation is off, by policy."""

import argparse
import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from case_study import before_other_sessions  # noqa: E402
from demo import Failed, Progress, answer, daemon, start  # noqa: E402

KERNEL_US = 400
ALONE_PERIOD_US = 50000
LEAD_S = 0.5
FEW, MANY = 8, 100  # kernels of jobs by which costs are measured
SPACING_US = 500  # between gates: FERMATA_INTERVAL_US
BOUNDS = {"p50": 10, "p99": 25, "share": 10, "throughput": 10}  # percent

# Kernels of a job, period in us (0: the next at once), priority, deadline in us.
GROUPS = {
    "requests": (8, 37000, "high", 20000),
    "stream": (40, 101000, "normal", 80000),
    "batch-a": (25, 0, "low", 0),
    "batch-b": (25, 0, "low", 0),
}
POLICIES = ("none", "fixed-priority", "round-robin", "fair", "edf")


def hints(policy, name):
    _, _, priority, deadline = GROUPS[name]
    if policy == "fixed-priority":
        return {"priority": priority}
    return {"deadline": f"{deadline}us"} if policy == "edf" and deadline else {}


def quantile(sorted_, q):
    return sorted_[min(len(sorted_) - 1, max(0, -(-len(sorted_) * q // 100) - 1))] if sorted_ else None


class Study:
    def __init__(self, args, dir_):
        self.args, self.dir = args, dir_
        self.fermata = os.path.join(args.build, "bin", "fermata")
        self.rt_task = os.path.join(args.build, "bench", "rt_task")
        cpus = sorted(os.sched_getaffinity(0))
        # A device that is a CPU has the last one to itself, if there are two.
        self.pins = [] if args.plain else [f"cpu={(cpus[:-1] or cpus)[0]}", f"device-cpu={cpus[-1]}"]
        self.device_cpu = cpus[-1]
        self.platform = args.platform or os.path.join(dir_, "platform.json")
        # PoCL: a device of one CPU.
        self.env = dict(os.environ, POCL_MAX_PTHREAD_COUNT="1", POCL_CPU_MAX_CU_COUNT="1")

    def output(self, argv, **more):
        r = subprocess.run(argv, text=True, capture_output=True, env=self.env, timeout=300, **more)
        if r.returncode:
            raise Failed(f"{' '.join(argv[:3])}: {r.stderr.strip()}")
        return r.stdout

    def be_device(self):
        """In the child: where, and as urgent as, the device's threads are in bench/rt_task.c."""
        if self.args.plain:
            return
        os.sched_setaffinity(0, [self.device_cpu])
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)

    def daemon(self, stack, policy):
        dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-study-"))
        return dict(daemon(stack, self.args.build, dir_, f"policy = {policy}\n"), **{
            k: self.env[k] for k in ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")})

    def task(self, kernels):
        return [self.rt_task, "run", "mmul", str(self.rounds), str(kernels), "0", *self.pins]

    def run_tasks(self, stack, commands, env, seconds):
        """By name: its command, and its period in us. Their reports."""
        running = {name: start(stack, argv, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for name, (argv, _) in commands.items()}
        for name, p in running.items():
            if answer(p, name) != "ready":
                raise Failed(f"{name} did not get ready")
        begin = time.monotonic_ns() + int(LEAD_S * 1e9)
        end = begin + int(seconds * 1e9)
        for name, p in running.items():
            period = commands[name][1]
            jobs = int(seconds * 1e6 / period) if period else 100000
            p.stdin.write(f"go {begin} {jobs} {period * 1000 or 1} {end}\n")
            p.stdin.flush()
        return {name: json.loads(answer(p, name)) for name, p in running.items()}

    def calibrate(self):
        """The machine, a kernel, and what a job costs besides its kernels."""
        if not self.args.platform and not self.args.costs:
            self.output([self.fermata, "calibrate", "--device", "opencl", "--seconds", "10", "--command", f"{KERNEL_US}us",
                         "-o", self.platform], preexec_fn=self.be_device)
        if self.args.costs:
            with open(self.args.costs, encoding="utf-8") as f:
                before = json.load(f)
            self.rounds, self.costs = before["rounds"], before["costs"]
            return
        self.rounds = json.loads(self.output([self.rt_task, "size", "mmul", str(KERNEL_US), *self.pins]))["rounds"]
        # What disturbs makes it longer: the least counts.
        times = range(self.args.times)
        kernel = min(self.kernel(None) for _ in times)
        beside = min(self.kernel("round-robin slice=100ms") for _ in times)
        job = max(0, min(self.alone() for _ in times) - FEW * kernel)
        with open(self.platform, encoding="utf-8") as f:
            samples = json.load(f)["samples"]
        p50 = {name: (samples.get(name) or {}).get("p50_ns", 0) / 1000 for name in ("begin", "react", "stop", "turn")}
        self.costs = {"kernel_us": kernel, "job_us": job, "react_us": p50["react"],
                      "gate_us": max(0, beside - kernel) * -(-SPACING_US // kernel),
                      # What is late beyond the way to the daemon and the other's rest is the change itself.
                      "switch_us": max(0, p50["begin"] - p50["react"] - p50["stop"]), "slice_us": p50["turn"]}

    def alone(self):
        """A job of a few kernels."""
        with contextlib.ExitStack() as stack:
            env = self.daemon(stack, "fixed-priority")
            argv = [self.fermata, "run", "--level", "2", "--", *self.task(FEW)]
            seconds = self.args.measured * ALONE_PERIOD_US / 1e6
            return self.run_tasks(stack, {"alone": (argv, ALONE_PERIOD_US)}, env, seconds)["alone"]["p50_us"]

    def kernel(self, policy):
        """Device time of one, in long jobs: by itself; or, with a policy, of two who share the device, where gates are
        closed. Longer where no job ends, on a machine that is very busy."""
        for longer in (1, 4, 16, 64):
            seconds = self.args.measured * ALONE_PERIOD_US / 1e6 * longer
            jobs = self.long_jobs(policy, seconds)
            if jobs:
                return seconds * 1e6 / (MANY * jobs)
        raise Failed("no job ends here")

    def long_jobs(self, policy, seconds):
        argv = self.task(MANY)
        with contextlib.ExitStack() as stack:
            env = self.daemon(stack, policy) if policy else self.env
            run = [self.fermata, "run", "--level", "2", "--"] if policy else []
            names = ("one", "other") if policy else ("one",)
            reports = self.run_tasks(stack, {name: (run + argv, 0) for name in names}, env, seconds)
        return sum(r["jobs"] for r in reports.values())

    def live(self, policy):
        with contextlib.ExitStack() as stack:
            env = self.env if policy == "none" else self.daemon(stack, policy)
            commands = {}
            for name, (kernels, period, _, _) in GROUPS.items():
                argv = self.task(kernels)
                if policy != "none":
                    words = [w for k, v in hints(policy, name).items() for w in (f"--{k}", v)]
                    argv = [self.fermata, "run", "--level", "2", "--group", name, *words, "--", *argv]
                commands[name] = (argv, period)
            reports = self.run_tasks(stack, commands, env, self.args.seconds)
        if any(r["wrong"] for r in reports.values()):
            raise Failed(f"wrong results under {policy}")
        return {name: {"p50": r["p50_us"] / 1000, "p99": r["p99_us"] / 1000, "kernels": r["jobs"] * GROUPS[name][0]}
                for name, r in reports.items()}

    def workload(self, policy):
        c = self.costs
        yield f"[workload]\npolicy = {'fifo' if policy == 'none' else policy}\nduration = {self.args.seconds:g}s"
        yield f"react = {c['react_us']:.3f}us"
        yield f"[device cpu]\nlevel = 2\nspacing = {SPACING_US}us\nlead = 1"
        yield f"switch = {c['switch_us']:.3f}us"
        if policy != "none":
            yield f"gate = {c['gate_us']:.3f}us"
        if policy == "none" and c["slice_us"]:
            yield f"slice = {c['slice_us']:.3f}us"
        for name, (kernels, period, _, _) in GROUPS.items():
            yield f"[group {name}]"
            yield f"arrive = every {period}us" if period else "arrive = always"
            yield f"commands = pause {c['job_us']:.3f}us, {kernels} x {c['kernel_us']:.3f}us"
            yield from (f"{k} = {v}" for k, v in hints(policy, name).items())

    def simulated(self, policy):
        """Exact percentiles, of the trace."""
        path, trace = (os.path.join(self.dir, f"{policy}.{end}") for end in ("ini", "trace"))
        with open(path, "w", encoding="ascii") as f:
            f.write("\n".join(self.workload(policy)) + "\n")
        self.output([self.fermata, "sim", path, "--trace", trace])
        ended = {name: [] for name in GROUPS}
        for line in self.output([self.fermata, "trace", "dump", "--json", trace]).splitlines():
            r = json.loads(line)
            if r["event"] == "job_ended":
                ended[r["group"]].append(r["response"] / 1e6)
        return {name: {"p50": quantile(sorted(v), 50), "p99": quantile(sorted(v), 99), "kernels": len(v) * GROUPS[name][0]}
                for name, v in ended.items()}

    def run(self):
        policies = self.args.policy or POLICIES
        progress = Progress(1 + len(policies))
        result = {}
        try:
            progress.step("measuring the machine")
            self.calibrate()
            for p in policies:
                progress.step(f"{p} ({self.args.seconds:g} s)")
                result[p] = compare(self.live(p), self.simulated(p), self.args.seconds)
        finally:
            progress.end()
        platform = {}
        if os.path.exists(self.platform):
            with open(self.platform, encoding="utf-8") as f:
                platform = json.load(f)
        return {"rounds": self.rounds, "seconds": self.args.seconds, "plain": self.args.plain, "load_average": os.getloadavg()[0],
                "costs": self.costs, "platform": platform, "policies": result}


def pair(live, sim):
    """The error in percent; where the device gave nothing, whatever the simulation gave is wrong."""
    if live is None or sim is None:
        return {"live": live, "sim": sim, "error": None}
    return {"live": live, "sim": sim, "error": 0.0 if live == sim else 100 * (sim - live) / live if live else 100.0}


def compare(live, sim, seconds):
    """Shares are of the work that all did, in percent; throughput is kernels a second."""
    sums = [sum(g["kernels"] for g in side.values()) for side in (live, sim)]
    rows = {}
    for name, (_, period, _, _) in GROUPS.items():
        row = rows[name] = {"share": pair(*(100 * side[name]["kernels"] / max(1, total)
                                            for side, total in zip((live, sim), sums)))}
        if period:  # who always has work responds as fast as it is served
            row.update({q: pair(live[name][q], sim[name][q]) for q in ("p50", "p99")})
    return {"groups": rows, "throughput": pair(*(s / seconds for s in sums))}


def beyond(r):
    """What is beyond its bound."""
    for p, row in r["policies"].items():
        found = [("", "throughput", row["throughput"])]
        found += [(name, what, v) for name, g in row["groups"].items() for what, v in g.items()]
        for name, what, v in found:
            if v["error"] is None or abs(v["error"]) > BOUNDS[what]:
                yield p, name, what, v["error"]


def cell(v, what):
    if v is None or v["error"] is None:
        return f"{'-':>27}"
    mark = "!" if abs(v["error"]) > BOUNDS[what] else " "
    return f"{v['live']:>9.2f}{v['sim']:>9.2f}{v['error']:>+7.1f}%{mark}"


def table(r):
    c, p = r["costs"], r["platform"]
    yield f"Device       {p.get('device', {}).get('name', '?')}; load average at the end {r['load_average']:.1f}"
    yield "Costs, us    " + ", ".join(f"{k[:-3]} {v:.0f}" for k, v in c.items())
    yield f"Ran          {r['seconds']:g} s each"
    yield ""
    yield f"{'':<26}{'P50, ms':>18}{'':9}{'P99, ms':>18}{'':9}{'SHARE, %':>18}"
    yield f"{'POLICY':<16}{'GROUP':<10}" + f"{'LIVE':>9}{'SIM':>9}{'ERROR':>8} " * 3
    for policy, row in r["policies"].items():
        for name, g in row["groups"].items():
            yield f"{policy:<16}{name:<10}" + "".join(cell(g.get(w), w) for w in ("p50", "p99", "share"))
        yield f"{policy:<16}{'kernels/s':<10}" + cell(row["throughput"], "throughput")
    yield ""
    bad = [f"{p} {(name + ' ') if name else ''}{what}" for p, name, what, _ in beyond(r)]
    yield f"bounds       {'beyond (!): ' + ', '.join(bad) if bad else 'all within'}"


def as_csv(r):
    out = io.StringIO()
    w = csv.writer(out, lineterminator="\n")
    w.writerow(["policy", "group", "what", "live", "sim", "error_percent"])
    for p, row in r["policies"].items():
        for name, g in row["groups"].items():
            for what, v in g.items():
                w.writerow([p, name, what, v["live"], v["sim"], v["error"]])
        w.writerow([p, "", "throughput", *row["throughput"].values()])
    return out.getvalue()


def keep(r, study, dir_):
    os.makedirs(dir_, exist_ok=True)
    files = {"fidelity.json": json.dumps(r, indent=1) + "\n", "fidelity.csv": as_csv(r),
             "fidelity.txt": "\n".join(table(r)) + "\n", "platform.json": json.dumps(r["platform"], indent=1) + "\n"}
    for policy in r["policies"]:
        files[f"{policy}.ini"] = "\n".join(study.workload(policy)) + "\n"
    for name, text in files.items():
        with open(os.path.join(dir_, name), "w", encoding="utf-8") as f:
            f.write(text)


def main():
    parser = argparse.ArgumentParser(prog="script/fidelity")
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--policy", action="append", choices=POLICIES)
    parser.add_argument("--measured", type=int, default=30, help="jobs by which costs are measured")
    parser.add_argument("--times", type=int, default=3, help="how often that is done")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--platform")
    parser.add_argument("--costs")
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not 1 <= args.seconds <= 3600:
        parser.error("--seconds: from 1 to 3600")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that children are stopped
    with tempfile.TemporaryDirectory(prefix="fermata-study-") as dir_:
        try:
            study = Study(args, dir_)
            with contextlib.nullcontext() if args.plain else before_other_sessions():
                r = study.run()
        except (Failed, subprocess.SubprocessError, OSError, ValueError) as e:
            sys.exit(f"fidelity: {e}")
        if args.out:
            keep(r, study, args.out)
    print(json.dumps(r, indent=1) if args.json else "\n".join(table(r)))


if __name__ == "__main__":
    main()
