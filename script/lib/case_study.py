#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the case study's tasks (bench/rt_task.c) natively and under Fermata; the longest response times that were seen
beside those that analysis allows."""

import argparse
import contextlib
import csv
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from demo import Failed, Progress, answer, daemon, start  # noqa: E402

# Wang, Liu, Wong, Kim: GCAPS, ECRTS 2024, Table 4: name, what it computes on the device, C, G, T = D in ms, CPU,
# priority (0: best effort).
TABLE = [
    ("histogram", "histogram", 1, 10, 100, 1, 70),
    ("mmul_gpu_1", "mmul", 2, 12, 150, 2, 69),
    ("mmul_cpu", "none", 67, 0, 200, 2, 68),
    ("projection", "projection", 12, 15, 300, 1, 67),
    ("dxtc", "dxtc", 2, 16, 400, 1, 66),
    ("mmul_gpu_2", "mmul", 4, 44, 200, 4, 0),
    ("simpleTexture3D", "texture3d", 4, 27, 67, 4, 0),
]
KERNEL_US = 500  # length of a kernel: a segment is as many as it takes
MEASURED_JOBS = 40
MARGIN = 1.2  # beyond the longest that was measured
LEAD_S = 0.5
PATIENCE_S = 120  # beyond the end, for jobs that are late

FIXED = "fixed-priority slice=20ms"  # turns of equals: the two of best effort

# Whose bound: the method of `fermata analyze`; None: there is none.
APPROACHES = {
    "native": "rr-suspend",
    "fixed-priority": "gcaps-suspend",
    "admission": "gcaps-suspend",
    "edf": None,
}


class Task:
    def __init__(self, row, scale, cpus):
        self.name, self.kernel, c, g, t, cpu, self.priority = row
        self.cpu_us, self.gpu_us, self.period_us = (int(v * 1000 * scale) for v in (c, g, t))
        self.cpu = cpus[sorted({r[5] for r in TABLE}).index(cpu) % len(cpus)]
        self.kernels = max(1, round(self.gpu_us / KERNEL_US)) if self.kernel != "none" else 0
        self.measured = {}

    def words(self, sizes, device_cpu, first):
        words = [self.kernel, sizes.get(self.kernel, 0), self.kernels, round(sizes["cpu"] * self.cpu_us / 1000)]
        if not first:
            return [str(w) for w in words]
        words += [f"cpu={self.cpu}", f"device-cpu={device_cpu}"]
        return [str(w) for w in words + ([f"fifo={self.priority}"] if self.priority else [])]

    def declared(self):
        """As files of tasks have it, in us: what was measured, with a margin."""
        up = {k: math.ceil(v * MARGIN) for k, v in self.measured.items() if k.endswith("_us")}
        task = {"name": self.name, "priority": self.priority or -1, "cpu": self.cpu, "period": self.period_us,
                "deadline": self.period_us, "cpu_time": up["cpu_us"]}
        if self.kernels:
            task["segments"] = [{"total": max(up["total_us"], up["gpu_us"] + up["misc_us"]), "misc": up["misc_us"],
                                 "gpu": up["gpu_us"]}]
        return task


class Study:
    def __init__(self, args, dir_):
        self.args, self.dir = args, dir_
        self.fermata = os.path.join(args.build, "bin", "fermata")
        self.rt_task = os.path.join(args.build, "bench", "rt_task")
        cpus = sorted(os.sched_getaffinity(0))
        # A device that is a CPU has the last one to itself, if there are two.
        self.device_cpu, self.cpus = cpus[-1], cpus[:-1] or cpus
        self.tasks = [Task(row, args.scale, self.cpus) for row in TABLE if not args.task or row[0] in args.task]
        self.first = os.geteuid() == 0 and not args.plain
        self.platform = args.platform or os.path.join(dir_, "platform.json")
        self.set = os.path.join(dir_, "set.json")
        # PoCL: a device of one CPU.
        self.env = dict(os.environ, POCL_MAX_PTHREAD_COUNT="1", POCL_CPU_MAX_CU_COUNT="1")

    def output(self, argv, env=None, status=(0,), **more):
        r = subprocess.run(argv, text=True, capture_output=True, env=env or self.env, timeout=600, **more)
        if r.returncode not in status:
            raise Failed(f"{' '.join(argv[:3])}: {r.stderr.strip()}")
        return r

    def calibrate(self):
        if self.args.platform:
            return
        argv = [self.fermata, "calibrate", "--device", "opencl", "--seconds", "10", "--command", f"{KERNEL_US}us",
                "--force", "-o", self.platform]
        self.output(argv + (["--realtime"] if self.first else []), preexec_fn=self.be_device)

    def be_device(self):
        """In the child: where, and as urgent as, the device's threads are in bench/rt_task.c."""
        if self.args.plain:
            return
        os.sched_setaffinity(0, [self.device_cpu])
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)

    def size(self):
        pins = [] if self.args.plain else [f"cpu={self.cpus[0]}", f"device-cpu={self.device_cpu}"]
        lengths = {t.kernel: KERNEL_US for t in self.tasks if t.kernels} | {"cpu": 1000}
        self.sizes = {name: json.loads(self.output([self.rt_task, "size", name, str(us), *pins]).stdout)["rounds"]
                      for name, us in lengths.items()}

    def measure(self, progress):
        """Each alone, under Fermata, whose calls cost something."""
        with contextlib.ExitStack() as stack:
            env, _ = self.daemon(stack, "fixed-priority")
            for t in self.tasks:
                progress.step(f"measuring {t.name} alone")
                words = t.words(self.sizes, self.device_cpu, not self.args.plain)
                argv = [self.rt_task, "measure", *words, str(self.args.measured)]
                t.measured = json.loads(self.output([self.fermata, "run", "--", *argv], env).stdout)
                if t.measured["wrong"]:
                    raise Failed(f"{t.name}: wrong results")
        with open(self.set, "w", encoding="ascii") as f:
            json.dump({"unit": "us", "tasks": [t.declared() for t in self.tasks]}, f, indent=1)

    def bounds(self, method):
        """In ms, by task; None: it has none, since it or one before it is not shown to meet its deadline."""
        argv = [self.fermata, "analyze", "--json", "--method", method, "--platform", self.platform, self.set]
        reply = json.loads(self.output(argv, status=(0, 3)).stdout)  # 3: not schedulable
        return {t["name"]: None if t["wcrt"] is None else t["wcrt"] / 1000 for t in reply["tasks"]}

    def daemon(self, stack, policy):
        dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-study-"))
        settings = f"policy = {policy}\n" + ("realtime = yes\n" if self.first else "")
        settings += f"[admission]\nplatform = {os.path.abspath(self.platform)}\n"
        return dict(daemon(stack, self.args.build, dir_, settings), **{
            k: self.env[k] for k in ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")}), dir_

    def command(self, approach, t):
        """How the program is started."""
        argv = [self.rt_task, "run", *t.words(self.sizes, self.device_cpu, not self.args.plain)]
        run = [self.fermata, "run", "--group", t.name]
        if approach == "native":
            return argv
        if approach == "edf" and t.priority:
            return run + ["--deadline", f"{t.period_us}us", "--period", f"{t.period_us}us", "--", *argv]
        if approach == "admission":  # who is admitted comes before all others, whatever they say
            return run + ["--priority", "low", "--", *argv]
        return run + ["--priority", str(100 + t.priority) if t.priority else "low", "--", *argv]

    def admit(self, stack, env):
        """The real-time tasks, the most urgent first, those without segments, too: they take their CPU from others. The
        bounds that the daemon gave, and why others were refused; both by name."""
        with open(self.set, encoding="ascii") as f:
            content = json.load(f)
        refused = {}
        for t in sorted(content["tasks"], key=lambda t: -t["priority"]):
            if t["priority"] < 0:
                continue
            path = os.path.join(self.dir, "admit.json")
            with open(path, "w", encoding="ascii") as f:
                json.dump(dict(content, tasks=[dict(t, group=t["name"])]), f)
            r = self.output([self.fermata, "admit", "--try", path], env, status=(0, 3))
            if r.returncode:
                refused[t["name"]] = r.stderr.strip().split("\n")[0]
                continue
            # Who takes longer than declared keeps its place, so that its response times are those of the schedule.
            p = start(stack, [self.fermata, "admit", "--overrun", "report", path], env, stdout=subprocess.PIPE)
            answer(p, "fermata admit")
        tasks = json.loads(self.output([self.fermata, "ps", "--tasks", "--json"], env).stdout)["tasks"]
        return {t["name"]: t["bound_ms"] for t in tasks}, refused

    def together(self, approach):
        with contextlib.ExitStack() as stack:
            env, bounds, refused = self.env, None, {}
            if approach != "native":
                env, _ = self.daemon(stack, "edf" if approach == "edf" else FIXED)
            running = {t.name: start(stack, self.command(approach, t), env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                       for t in self.tasks}
            for name, p in running.items():
                if answer(p, name) != "ready":
                    raise Failed(f"{name} did not get ready")
            if approach == "admission":  # now: what they did to get warm is not of their budgets
                bounds, refused = self.admit(stack, env)
            begin = time.monotonic_ns() + int(LEAD_S * 1e9)
            end = begin + int(self.args.seconds * 1e9)
            for t in self.tasks:
                jobs = max(2, int(self.args.seconds * 1e6 / t.period_us))
                until = end + (int(PATIENCE_S * 1e9) if t.priority else 0)
                running[t.name].stdin.write(f"go {begin} {jobs} {t.period_us * 1000} {until}\n")
                running[t.name].stdin.flush()
            rows = {name: json.loads(answer(p, name)) for name, p in running.items()}
            row = {"tasks": rows, "refused": refused}
            if approach != "native":
                row["preempt_us"] = json.loads(self.output([self.fermata, "ps", "--json"], env).stdout)["devices"]
            return self.judged(approach, row, bounds)

    def judged(self, approach, row, bounds):
        method = APPROACHES[approach]
        by_analysis = self.bounds(method) if method else {}
        for t in self.tasks:
            r = row["tasks"][t.name]
            r["bound_ms"] = (by_analysis if bounds is None else bounds).get(t.name)
            r["mort_ms"] = r["max_us"] / 1000
            r["held"] = None if r["bound_ms"] is None else r["mort_ms"] <= r["bound_ms"]
        row["method"] = method
        return row

    def run(self):
        approaches = self.args.approach or list(APPROACHES)
        progress = Progress(2 + len(self.tasks) + len(approaches))
        try:
            progress.step("measuring the machine")
            self.calibrate()
            progress.step("finding the length of kernels")
            self.size()
            self.measure(progress)
            results = {}
            for a in approaches:
                progress.step(f"{a}: all at once ({self.args.seconds:g} s)")
                results[a] = self.together(a)
        finally:
            progress.end()
        with open(self.platform, encoding="utf-8") as f:
            platform = json.load(f)
        with open(self.set, encoding="ascii") as f:
            set_ = json.load(f)
        return {"seconds": self.args.seconds, "scale": self.args.scale, "plain": self.args.plain,
                "load_average": os.getloadavg()[0],
                "cpus": self.cpus, "device_cpu": self.device_cpu, "platform": platform, "set": set_,
                "approaches": results}


@contextlib.contextmanager
def before_other_sessions():
    """Linux shares the processor among sessions first, and by nice within each: this one comes before the others, where
    that is allowed. Else the device, if it is a CPU, is slowed by whatever else is on the machine."""
    path, before = "/proc/self/autogroup", None
    with contextlib.suppress(OSError, IndexError):
        with open(path, encoding="ascii") as f:
            before = f.read().split()[-1]
        with open(path, "w", encoding="ascii") as f:
            f.write("-20")
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as f:
                f.write(before)


def ms(v):
    return "-" if v is None else f"{v:.1f}"


def table(r):
    """MORT and bound of each task and approach, as Table 5 of the paper."""
    tasks, p = r["set"]["tasks"], r["platform"]
    where = "nobody is pinned: bounds promise nothing" if r["plain"] else f"on CPU {r['device_cpu']}; tasks on CPUs {r['cpus']}"
    yield f"Device       {p.get('device', {}).get('name', '?')}, {where}"
    costs = ", ".join(f"{k} {p[k + '_ns'] / 1e6:.2f}" for k in ("epsilon", "slice", "theta") if p.get(k + "_ns") is not None)
    yield f"Costs, ms    {costs}"
    yield f"Ran          {r['seconds']:g} s each, times by {r['scale']:g}; load average at the end {r['load_average']:.1f}"
    for a, row in r["approaches"].items():
        for name, why in row["refused"].items():
            yield f"{a:<12} without {name}: {why}"
    ran = list(r["approaches"])
    yield ""
    yield f"{'ms':<27}" + "".join(f"{a:>22}" for a in ran)
    yield f"{'TASK':<16}{'PERIOD':>11}" + f"{'MORT':>11}{'BOUND':>11}" * len(ran)
    for t in tasks:
        line = f"{t['name']:<16}{t['period'] / 1000:>11.1f}"
        for a in ran:
            row = r["approaches"][a]["tasks"][t["name"]]
            line += f"{ms(row['mort_ms']):>11}{ms(row['bound_ms']) + ('' if row['held'] in (None, True) else ' !'):>11}"
        yield line
    yield ""
    yield "misses       " + "; ".join(
        f"{a}: " + (", ".join(f"{n} {row['missed']}/{row['jobs']}" for n, row in r["approaches"][a]["tasks"].items()
                              if row["missed"]) or "none") for a in ran)
    for a in ran:
        yield from (f"stops, ms    {a}: {line}" for line in stops(r, a))
    beyond = list(broken(r))
    yield "bounds       " + ("none exceeded" if not beyond else f"{len(beyond)} exceeded (!):")
    yield from (f"             {line}" for line in beyond)


def stops(r, approach):
    """From a closed gate to the stall; epsilon is to be no less than the longest."""
    for d in r["approaches"][approach].get("preempt_us", []):
        times = d.get("preempt_us") or {}
        if times.get("count"):
            worst, epsilon = times["max"] / 1000, r["platform"].get("epsilon_ns")
            beyond = " (!): beyond epsilon, so bounds promise nothing" if epsilon is not None and worst * 1e6 > epsilon else ""
            yield f"{times['count']}, p50 {times['p50'] / 1000:.1f}, p99 {times['p99'] / 1000:.1f}, longest {worst:.1f}{beyond}"


def broken(r):
    """Each observation beyond its bound."""
    for a, row in r["approaches"].items():
        for n, t in row["tasks"].items():
            if t["held"] is False:
                yield f"{n} under {a}: {ms(t['mort_ms'])} ms, bound {ms(t['bound_ms'])} ms by {row['method']}"


def as_csv(r):
    out = io.StringIO()
    w = csv.writer(out, lineterminator="\n")
    w.writerow(["approach", "task", "jobs", "mort_ms", "p50_ms", "p99_ms", "bound_ms", "missed", "wrong"])
    for a, row in r["approaches"].items():
        for n, t in row["tasks"].items():
            w.writerow([a, n, t["jobs"], t["mort_ms"], t["p50_us"] / 1000, t["p99_us"] / 1000,
                        "" if t["bound_ms"] is None else t["bound_ms"], t["missed"], t["wrong"]])
    return out.getvalue()


def keep(r, study, dir_):
    os.makedirs(dir_, exist_ok=True)
    for name, text in (("case-study.json", json.dumps(r, indent=1) + "\n"), ("case-study.csv", as_csv(r)),
                       ("case-study.txt", "\n".join(table(r)) + "\n")):
        with open(os.path.join(dir_, name), "w", encoding="utf-8") as f:
            f.write(text)
    for name, content in (("set.json", r["set"]), ("platform.json", r["platform"])):
        with open(os.path.join(dir_, name), "w", encoding="utf-8") as f:
            f.write(json.dumps(content, indent=1) + "\n")


def arguments():
    parser = argparse.ArgumentParser(prog="script/case-study")
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--scale", type=float, default=4)
    parser.add_argument("--measured", type=int, default=MEASURED_JOBS, help="jobs of each task that are measured alone")
    parser.add_argument("--approach", action="append", choices=list(APPROACHES))
    parser.add_argument("--task", action="append", choices=[row[0] for row in TABLE], help="these alone")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--platform")
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not 0.1 <= args.seconds <= 3600 or not 0.05 <= args.scale <= 100:
        parser.error("--seconds: from 0.1 to 3600; --scale: from 0.05 to 100")
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that children are stopped
    with tempfile.TemporaryDirectory(prefix="fermata-study-") as dir_:
        try:
            study = Study(args, dir_)
            with contextlib.nullcontext() if args.plain else before_other_sessions():
                r = study.run()
        except (Failed, subprocess.SubprocessError, OSError, ValueError) as e:
            sys.exit(f"case-study: {e}")
        if args.out:
            keep(r, study, args.out)
    print(json.dumps(r, indent=1) if args.json else "\n".join(table(r)))
    rows = [t for a in r["approaches"].values() for t in a["tasks"].values()]
    if any(t["wrong"] for t in rows):
        sys.exit("case-study: wrong results")
    if any(broken(r)) and not args.plain:  # which promises nothing
        sys.exit("case-study: bounds were exceeded")


if __name__ == "__main__":
    main()
