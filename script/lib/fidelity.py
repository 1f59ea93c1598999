#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the same programs live and in the simulator, with costs that are measured in runs of their own, and replays what was
recorded under each policy under all of them; how far the simulation is off, beside what live runs differ by."""

import argparse
import contextlib
import csv
import io
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from case_study import before_other_sessions  # noqa: E402
from demo import Failed, Progress  # noqa: E402
from fidelity_live import (  # noqa: E402
    GROUPS, PRIORITIES, WARM_UP_US, Bench, OpenCL, median, of_times, quantile, read_recording, run, since, warm)

SEEDS = 4  # of the simulation, for each live run
BOUNDS = {"p50": 10, "p99": 25, "share": 10, "throughput": 10}  # percent
POLICIES = ("none", "fixed-priority", "round-robin", "fair", "edf")


def hints(name):
    _, _, deadline = GROUPS[name]
    return {"priority": PRIORITIES[name], **({"deadline": f"{deadline}us"} if deadline else {})}


def as_meant(text, device, react_ns):
    """A recording, with the turns of the device as they are known; and with pauses as programs made them: the daemon hears of
    the end of one a little later, and here it will again."""
    lines, turns = [], {k: device[k] for k in ("slice", "tick", "turns") if "tick" in device}
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        words = value.split()
        if key == "job" and len(words) == 4:
            line = f"job = {' '.join(words[:3])} {max(0, int(words[3].removesuffix('ns')) - react_ns)}ns"
        if key not in turns:
            lines.append(line)
        if line.startswith("[device "):
            lines += [f"{k} = {v}" for k, v in turns.items()]
    return "\n".join(lines) + "\n"


class Others:
    """What else the machine did, in percent of one processor: others' programs, and what its host took for itself."""

    def __init__(self):
        self.began, self.busy, self.stolen, self.own = self.now()

    @staticmethod
    def now():
        with open("/proc/stat", encoding="ascii") as f:
            user, nice, system, _, _, irq, softirq, steal = (int(v) for v in f.readline().split()[1:9])
        ticks = os.sysconf("SC_CLK_TCK")
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return (time.monotonic(), (user + nice + system + irq + softirq) / ticks, steal / ticks,
                sum(u.ru_utime + u.ru_stime for u in used))

    def percent(self):
        now, busy, stolen, own = self.now()
        for_one = 100 / (now - self.began)
        return {"others": for_one * max(0.0, busy - self.busy - (own - self.own)), "stolen": for_one * (stolen - self.stolen)}


class Simulator:
    """Runs workloads; what it finds in traces, of its own and of live runs."""

    def __init__(self, fermata, lab, dir_):
        self.fermata, self.lab, self.dir = fermata, lab, dir_

    def responses(self, path, seeds, *options):
        """Response times of all jobs that ended, and device time of each group, of each seed."""
        trace = os.path.join(self.dir, "sim.trace")
        for seed in seeds:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(trace)
            summary = run([self.lab, "sim", "--json", "--seed", str(seed), "--trace", trace, *options, path])
            ended = {name: [] for name in GROUPS}
            for r in self.events(trace, "job_ended"):
                ended[r["group"]].append(r["response"] / 1e6)
            yield ended, {g["name"]: g["served_ns"] + g["overhead_ns"] for g in json.loads(summary)["groups"]}

    def events(self, trace, *kinds):
        wanted = [f'"event":"{k}"' for k in kinds]
        for line in run([self.fermata, "trace", "dump", "--json", trace]).splitlines():
            if any(w in line for w in wanted):
                yield json.loads(line)

    def edges(self, trace, from_ns):
        """Of a live run, as the daemon saw it: from each ready edge since then to the idle one."""
        begun, ended = {}, {name: [] for name in GROUPS}
        for r in self.events(trace, "ready", "idle"):
            name = r["group"].removeprefix("bench-")
            if r["event"] == "ready" and r["time_ns"] >= from_ns:
                begun[name] = r["time_ns"]
            elif name in begun:
                ended[name].append((r["time_ns"] - begun.pop(name)) / 1e6)
        return ended


def workload(policy, c, device, seconds):
    """By the table of groups and what was measured."""
    yield f"[workload]\npolicy = {'fifo' if policy == 'none' else policy}\nduration = {seconds:g}s"
    yield f"react = {c['react_us']:.3f}us\nlate = {c.get('late_us', 0):.3f}us"
    yield "[device it]"
    # Without Fermata there is nobody who has to hear of a gate.
    yield from (f"{k} = {v}" for k, v in device.items() if policy != "none" or k != "open")
    parts = c.get("parts", 1)
    for name, (kernels, period, _) in GROUPS.items():
        pause_us = c["around_us"] if period and "around_us" in c else c["pause_us"]
        steps = [f"pause {c.get('pause') or f'{pause_us:.3f}us'}"] if pause_us >= 0.1 else []
        input_us = c.get("input_us", 0)
        steps += [f"{c['job_us'] - input_us:.3f}us"] if c["job_us"] - input_us >= 0.1 else []
        extra_us, extra = c.get("extra", {}).get(name, (0, None))
        steps += [f"{kernels * parts} x {(c['kernel_us'] - extra_us / kernels) / parts:.3f}us"]
        yield f"[group {name}]"
        yield f"arrive = every {period}us" if period else "arrive = always"
        yield f"commands = {', '.join(steps)}"
        if input_us:
            yield f"input = {input_us:.3f}us"
        if extra:
            yield f"extra = {extra}"
        yield from (f"{k} = {v}" for k, v in hints(name).items())


class Study:
    def __init__(self, args, dir_):
        self.args, self.dir = args, dir_
        self.fermata = os.path.join(args.build, "bin", "fermata")
        self.lab = os.path.join(args.build, "bin", "fermata-lab")
        self.sim = Simulator(self.fermata, self.lab, dir_)
        self.live = OpenCL(args, dir_) if args.driver == "opencl" else Bench(args, dir_, args.driver)

    def prepare(self):
        self.measured, before = [], None
        self.costs = self.device = None
        if self.args.costs:
            with open(self.args.costs, encoding="utf-8") as f:
                before = json.load(f)
            self.costs, self.device = before["costs"], before["device"]
        self.live.prepare(before)

    def calibrate(self):
        """Each time anew, for machines change their pace; all together make the costs."""
        if not self.costs:
            self.measured.append(self.live.calibrate())

    def done(self, policy, costs, device):
        """Kernels in as long a run as costs are measured by."""
        path = os.path.join(self.dir, "costs.sim.ini")
        with open(path, "w", encoding="ascii") as f:
            f.write("\n".join(workload(policy, costs, device, self.args.measured)) + "\n")
        groups = json.loads(run([self.lab, "sim", "--json", path]))["groups"]
        return sum(g["jobs"] * GROUPS[g["name"]][0] for g in groups)

    def simulated(self, policy):
        path = os.path.join(self.dir, f"{policy}.ini")
        with open(path, "w", encoding="ascii") as f:
            f.write("\n".join(workload(policy, self.costs, self.device, self.args.seconds)) + "\n")
        seeds = SEEDS * self.args.times
        return [{name: {**of_times(name, times[warm(name):]), "work": len(times) * GROUPS[name][0]}
                 for name, times in ended.items()} for ended, _ in self.sim.responses(path, range(1, seeds + 1))]

    def trace(self, policy, n):
        return os.path.join(self.dir, f"{policy}.{n}.fmt")

    def record(self, policy, n):
        """A live run, as a workload; and what each group had of the device in it."""
        path = os.path.join(self.dir, f"{policy}.{n}.recorded.ini")
        run([self.fermata, "record", "-q", "--force", "--from", self.trace(policy, n), "-o", path])
        with open(path, encoding="ascii") as f:
            text = f.read().replace("[group bench-", "[group ")
        text = text.replace("[workload]\n", f"[workload]\nreact = {self.costs['react_us']:.3f}us\n")
        text = as_meant(text, self.device, round(self.costs["react_us"] * 1000))
        text = since(text, self.counted(policy, n) - self.live.begin(self.trace(policy, n)))
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path, {name: sum(us for us, _, _ in jobs) for name, jobs in read_recording(text)[1].items()}

    def counted(self, policy, n):
        """Since then."""
        return self.from_ns[policy][n] + WARM_UP_US * 1000

    def replays(self, policies):
        """What was recorded under each policy replayed under the same, and under the first policy under each: beside the live
        runs there, as the daemon saw both."""
        seen, recording = {}, {}
        seeds = range(1, SEEDS + 1)
        for p in policies:
            for n in range(self.args.times):
                path, work = self.record(p, n)
                recording.setdefault(p, []).append(path)
                edges = self.sim.edges(self.trace(p, n), self.counted(p, n))
                seen.setdefault(p, []).append({name: {**of_times(name, edges[name]), "work": work[name]} for name in GROUPS})
        pairs = [(p, p) for p in policies] + [(policies[0], p) for p in policies[1:]]
        for recorded, policy in pairs:
            there = [{name: {**of_times(name, ended[name]), "work": work[name]} for name in GROUPS}
                     for path in recording[recorded]
                     for ended, work in self.sim.responses(path, seeds, "--policy", policy)]
            yield f"{recorded} > {policy}", compare(seen[policy], there, None)

    def run(self):
        policies = self.args.policy or [p for p in POLICIES if p != "none" or self.args.driver == "opencl"]
        progress = Progress(1 + (1 + len(policies)) * self.args.times)
        live, self.from_ns = {p: [] for p in policies}, {p: [] for p in policies}
        others = Others()
        try:
            self.prepare()
            for n in range(self.args.times):
                progress.step("measuring costs")
                self.calibrate()
                for p in policies:
                    progress.step(f"{p} ({self.args.seconds:g} s)")
                    trace = None if p == "none" else self.trace(p, n)
                    groups, seen = self.live.run(p, self.args.seconds, trace)
                    live[p].append(groups)
                    self.from_ns[p].append(seen["from_ns"])
            meanwhile = others.percent()
            progress.step("simulating")
            if not self.costs:
                self.costs, self.device = self.live.costs(self.measured, self.done)
            result = {p: compare(live[p], self.simulated(p), self.args.seconds) for p in policies}
            replays = dict(self.replays([p for p in policies if p != "none"]))
        finally:
            progress.end()
        return {"driver": self.args.driver, "device_name": self.live.name(), "seconds": self.args.seconds,
                "times": self.args.times, "plain": self.args.plain, "meanwhile": meanwhile,
                **self.live.kept(), "costs": self.costs, "device": self.device, "policies": result, "replays": replays}


def twice_error(runs, of):
    """Of what several runs come to together: twice its standard error, by leaving out one run after the other."""
    n = len(runs)
    if n < 2:
        return 0.0
    without = [of(runs[:i] + runs[i + 1:]) for i in range(n)]
    mean = sum(without) / n
    return 2 * math.sqrt((n - 1) / n * sum((v - mean) ** 2 for v in without))


def pair(live, sim, of):
    """What of() makes of all live runs, and of all simulated ones; the error in percent; and how sure the live one is towards the
    simulated one, in percent of it. Where the device gave nothing, whatever the simulation gave is wrong."""
    a, b = of(live), of(sim)
    if a is None or b is None:
        return {"live": a, "sim": b, "error": None, "spread": None}
    least, most = of.ends(live) if hasattr(of, "ends") else (a, a)
    unsure = max(twice_error(live, of), most - a if b > a else a - least)
    return {"live": a, "sim": b, "error": 0.0 if a == b else 100 * (b - a) / a if a else 100.0,
            "spread": 100 * unsure / a if a else 0.0}


class Percentile:
    """Of the response times of all jobs; where a driver does not tell them, the median of its runs."""

    def __init__(self, name, q):
        self.name, self.q = name, q

    def times(self, runs):
        if any("times" not in r[self.name] for r in runs):
            return None
        return sorted(t for r in runs for t in r[self.name]["times"])

    def __call__(self, runs):
        times = self.times(runs)
        return median([r[self.name][self.q] for r in runs]) if times is None else quantile(times, int(self.q[1:]))

    def ends(self, runs):
        """Between which it is with 95 % if jobs are independent: by how many of n jobs are below it (binomial). That of a hundred
        is one job's."""
        times = self.times(runs)
        if not times:
            return self(runs), self(runs)
        n, part = len(times), int(self.q[1:]) / 100
        off_by = 2 * math.sqrt(n * part * (1 - part))
        return times[max(0, math.floor(n * part - off_by) - 1)], times[min(n - 1, math.ceil(n * part + off_by) - 1)]


def compare(live, sim, seconds):
    """Lists of runs, each taken together. Shares are of the work that all did, in percent; throughput is kernels a second."""
    def work(runs):
        return sum(g["work"] for r in runs for g in r.values())

    rows = {}
    for name, (_, period, _) in GROUPS.items():
        row = rows[name] = {"share": pair(
            live, sim, lambda runs, n=name: 100 * sum(r[n]["work"] for r in runs) / max(1, work(runs)))}
        if period:
            row.update({q: pair(live, sim, Percentile(name, q)) for q in ("p50", "p99")})
    if not seconds:
        return {"groups": rows}
    return {"groups": rows, "throughput": pair(live, sim, lambda runs: work(runs) / len(runs) / seconds)}


def off(v, what):
    """`!': beyond its bound; `~': but by no more than the live value is unsure."""
    if v["error"] is None or abs(v["error"]) <= BOUNDS[what]:
        return "!" if v["error"] is None else " "
    return "~" if abs(v["error"]) <= (v["spread"] or 0) else "!"


def rows_of(part):
    for p, row in part.items():
        for name, g in row["groups"].items():
            yield from ((p, name, what, v) for what, v in g.items())
        if "throughput" in row:
            yield p, "", "throughput", row["throughput"]


def beyond(part):
    """What is beyond its bound."""
    return [(p, name, what, v["error"]) for p, name, what, v in rows_of(part) if off(v, what) == "!"]


def cell(v, what):
    if v is None or v["error"] is None:
        return f"{'-':>33}"
    return f"{v['live']:>9.2f}{v['spread']:>5.0f}%{v['sim']:>9.2f}{v['error']:>+7.1f}%{off(v, what)}"


def part_of_table(part, title, width, whole):
    """Not whole: of those alone whose response means something."""
    yield f"{'':<{width + 10}}" + "".join(f"{w:>21}{'':12}" for w in ("P50, ms", "P99, ms", "SHARE, %")).rstrip()
    yield (f"{title:<{width}}{'GROUP':<10}" + f"{'LIVE':>9}{'+-':>6}{'SIM':>9}{'ERROR':>8} " * 3).rstrip()
    for policy, row in part.items():
        for name, g in row["groups"].items():
            if whole or "p50" in g:
                yield f"{policy:<{width}}{name:<10}" + "".join(cell(g.get(w), w) for w in ("p50", "p99", "share")).rstrip()
        if "throughput" in row:
            yield f"{policy:<{width}}{'kernels/s':<10}" + cell(row["throughput"], "throughput").rstrip()


def verdict(part):
    marks = [off(v, what) for _, _, what, v in rows_of(part)]
    return (f"{marks.count(' ')} of {len(marks)} within the bounds; of the others {marks.count('~')} (~) are off by no more than "
            f"the live value is unsure, {marks.count('!')} (!) by more")


def table(r):
    yield (f"Device       {r['device_name']} ({r['driver']}); meanwhile others used {r['meanwhile']['others']:.0f} % of a "
           f"processor, and the machine's host {r['meanwhile']['stolen']:.0f} %")
    yield "Costs        " + ", ".join(f"{k[:-3] if k.endswith('_us') else k} {v:.0f}{' us' if k.endswith('_us') else ''}"
                                    for k, v in r["costs"].items() if k not in ("extra", "pause"))
    yield "             " + ", ".join(f"{k} = {v}" for k, v in r["device"].items())
    yield f"Ran          {r['times']} times {r['seconds']:g} s each, taken together; +- is twice the standard error by run"
    yield ""
    yield from part_of_table(r["policies"], "POLICY", 16, True)
    yield verdict(r["policies"])
    if r["replays"]:
        yield ""
        yield "Recorded under one policy, simulated under another, beside that other live:"
        yield from part_of_table(r["replays"], "RECORDED > UNDER", 32, False)
        yield verdict(r["replays"])


def as_csv(r):
    out = io.StringIO()
    w = csv.writer(out, lineterminator="\n")
    w.writerow(["part", "policy", "group", "what", "live", "sim", "error_percent", "spread_percent"])
    for part in ("policies", "replays"):
        for p, name, what, v in rows_of(r[part]):
            w.writerow([part, p, name, what, v["live"], v["sim"], v["error"], v["spread"]])
    return out.getvalue()


def keep(r, dir_):
    os.makedirs(dir_, exist_ok=True)
    files = {"fidelity.json": json.dumps(r, indent=1) + "\n", "fidelity.csv": as_csv(r),
             "fidelity.txt": "\n".join(table(r)) + "\n"}
    for policy in r["policies"]:
        files[f"{policy}.ini"] = "\n".join(workload(policy, r["costs"], r["device"], r["seconds"])) + "\n"
    for name, text in files.items():
        with open(os.path.join(dir_, name), "w", encoding="utf-8") as f:
            f.write(text)


def options():
    parser = argparse.ArgumentParser(prog="script/fidelity")
    parser.add_argument("--build", required=True)
    parser.add_argument("--driver", default="opencl", choices=("opencl", "cuda", "sim"))
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--times", type=int, default=None)
    parser.add_argument("--measured", type=float, default=None)
    parser.add_argument("--policy", action="append", choices=POLICIES)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--costs")
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    few = args.driver != "opencl"
    args.seconds = args.seconds or (4 if few else 5)
    args.times = args.times or (3 if few else 6)
    args.measured = args.measured or (4 if few else 3)
    if not 1 <= args.seconds <= 3600 or not 1 <= args.measured <= 3600:
        parser.error("--seconds, --measured: from 1 to 3600")
    if not 1 <= args.times <= 100:
        parser.error("--times: from 1 to 100")
    return args


def main():
    args = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that children are stopped
    with tempfile.TemporaryDirectory(prefix="fermata-study-") as dir_:
        try:
            study = Study(args, dir_)
            with contextlib.nullcontext() if args.plain else before_other_sessions():
                r = study.run()
        except (Failed, OSError, ValueError) as e:
            sys.exit(f"fidelity: {e}")
        if args.out:
            keep(r, args.out)
    print(json.dumps(r, indent=1) if args.json else "\n".join(table(r)))


if __name__ == "__main__":
    main()
