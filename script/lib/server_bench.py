#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example server (examples/server) in its modes, asks it by `fermata-lab bench`; see script/server-bench."""

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from demo import Failed, Progress, start  # noqa: E402
from server_svg import draw  # noqa: E402

MODES = ("sequential", "streams", "priority-streams", "level2", "guardian", "partition")
# What is a mode here, and options there.
GIVEN = {"filled": ("guardian", "--beside", "--fill-sms", "{fill}"), "elastic": ("partition", "--elastic", "1000"),
         "pad": ("guardian", "--pad", "{pad}"), "versions": ("guardian", "--pad", "{pad}", "--versions")}
UNDER_FERMATA = ("level2", "guardian", "partition")
SHAPES = {"a": 1, "c": 4}  # best-effort models, as in DISB's mixes of these letters
LOAD = 0.5  # of what the real-time model can do alone
# Requests for one answer each, as in DISB: kernels of some 10 us on an H200. Heavy ones fill it: kernels of 0.3 to 2 ms, of
# many blocks of some 100 us.
RT = "resnet50"
BE = ("resnet50", "mlp", "vgg16", "resnet18")
HEAVY_BE = ("resnet50,batch=64,depth=512", "mlp,batch=16", "vgg16,batch=8,depth=512", "resnet18,batch=64,depth=512")
SMALL_RT = "resnet18,size=16,width=4"
SMALL_BE = ("resnet50,size=16,width=4", "mlp,size=8,width=8", "vgg16,size=16,width=4", "resnet18,size=16,width=4,batch=2")
START_S = 60
PICTURES = 2


class Interrupted(Exception):
    """Somebody has enough; what was measured is told all the same."""


def interrupt(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Interrupted


class Server:
    """One server with all models, in one mode; and the ways to ask it."""

    def __init__(self, bench, stack, mode):
        self.bench, self.mode = bench, mode
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-server-"))
        self.socket = os.path.join(self.dir, "socket")
        mode, *options = (o.format(fill=bench.args.fill, pad=bench.args.pad) for o in GIVEN.get(mode, (mode,)))
        env = dict(bench.env)
        if mode in UNDER_FERMATA:
            env["LD_PRELOAD"] = os.path.join(bench.args.build, "lib", "libfermata-cuda.so")
        if mode == "partition":
            options += ["--reserve-sms", str(bench.args.reserve)]
        models = [o for name, kind in bench.models.items() for o in ("-r" if name == "rt" else "-b", f"{name}={kind}")]
        argv = [os.path.join(bench.args.build, "bin", "inference_server"), "--socket", self.socket, "--mode", mode, *models,
                *options, "--spin", str(bench.spin_us), *(("--image", bench.args.image) if bench.args.image else ())]
        self.said = stack.enter_context(open(os.path.join(self.dir, "stderr"), "w+", encoding="utf-8"))
        self.p = start(stack, argv, env, stdout=subprocess.PIPE, stderr=self.said)
        self.wait_ready()

    def wait_ready(self):
        there, _, _ = select.select([self.p.stdout], [], [], START_S)
        line = self.p.stdout.readline() if there else ""
        if not line.startswith("ready: "):
            self.said.seek(0)
            said = self.said.read().strip().splitlines() or ["it does not start"]
            raise Failed(said[-1].removeprefix("server: "))

    def ask(self, *lines):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
            s.settimeout(START_S)
            s.connect(self.socket)
            with s.makefile("rw") as f:
                answers = []
                for line in lines:
                    f.write(line + "\n")
                    f.flush()
                    answers.append(f.readline().strip())
        for answer in answers:
            if not answer.startswith("ok "):
                raise Failed(f"{answer or 'the server is gone'}")
        return answers

    def digests(self):
        """Of all models' answers, one after the other."""
        asked = [f"infer {m} {p}" for m in self.bench.models for p in range(PICTURES)]
        return [a.split("digest=")[1].split()[0] for a in self.ask(*asked)]

    def stats(self):
        return json.loads(self.ask("stats")[0][3:])

    def run(self, tasks, seconds, clients=1):
        """tasks: a load of each model; so many clients of each but the real-time one. Of each: its requests, (begin, end,
        time of the server) in ns."""
        workload, log = (os.path.join(self.dir, name) for name in ("workload", "log"))
        ids = {m: [f"{m}.{i}" for i in range(1 if m == "rt" else clients)] for m in tasks}
        with open(workload, "w", encoding="ascii") as f:
            json.dump({"time": seconds, "tasks": [{"id": id_, "load": load, "client": {"name": id_, "model_name": m}}
                                                  for m, load in tasks.items() for id_ in ids[m]]}, f)
        argv = [self.bench.lab, "bench", "--native", "--threads", "--driver", self.bench.driver, "--warm-up", "1",
                "--alone", "1", "--json", workload]
        env = dict(self.bench.env, INFERENCE_SOCKET=self.socket, INFERENCE_LOG=log,
                   INFERENCE_SPIN_US=str(self.bench.spin_us), INFERENCE_SPIN_MODEL="rt")
        try:
            r = subprocess.run(argv, env=env, text=True, capture_output=True, timeout=seconds + START_S)
        except subprocess.TimeoutExpired:
            raise Failed("requests hang") from None
        if not r.stdout.startswith("{"):
            raise Failed((r.stderr.strip().splitlines() or ["`fermata-lab bench' says nothing"])[-1])
        found = {t["id"]: t for t in json.loads(r.stdout)["runs"][0]["tasks"]}
        return {m: [r for id_ in ids[m] for r in self.requests(f"{log}.{id_}", found[id_])] for m in tasks}

    def requests(self, log, task):
        if task["failed"]:
            raise Failed(f"{task['id']}: {task['failed']}")
        with open(log, encoding="ascii") as f:
            requests = [tuple(map(int, line.split())) for line in f]
        os.unlink(log)
        return requests[len(requests) - task["finished"]:]


def percentile(values, p):
    """The least that so many are not above."""
    values = sorted(values)
    return values[min(len(values) - 1, max(0, -int(-p * len(values) // 1) - 1))] if values else None


def begun(requests, interval):
    """Nobody begins early: the one that was least late tells the schedule."""
    return min((b - k * interval for k, (b, _, _) in enumerate(requests)), default=0)


def done_by(requests, end):
    """How many, of who was under way the part that was done."""
    return sum(min(1, max(0, (end - b) / max(1, e - b))) for b, e, _ in requests)


def latencies(requests, interval, seconds):
    """Each from when it was due, in us. Who still waited at the end counts with the time until then."""
    begin = begun(requests, interval)
    due = range(len(requests), int(seconds * 1e9 / interval))
    return ([(end - begin - k * interval) / 1e3 for k, (_, end, _) in enumerate(requests)]
            + [(seconds * 1e9 - k * interval) / 1e3 for k in due])


def summary(us, requests):
    """Latencies from when they were due; besides, from when a client turned to a request, which leaves out how late its
    thread woke up, and how long it had waited for the one before."""
    served = [(end - begin) / 1e3 for begin, end, _ in requests]
    return {"p50_us": percentile(us, 0.5), "p99_us": percentile(us, 0.99), "max_us": max(us, default=None),
            "mean_us": sum(us) / len(us) if us else None, "service_p50_us": percentile(served, 0.5),
            "service_p99_us": percentile(served, 0.99),
            "server_p99_us": percentile([run / 1e3 for _, _, run in requests], 0.99)}


class Bench:
    def __init__(self, args):
        self.args = args
        self.lab = os.path.join(args.build, "bin", "fermata-lab")
        self.driver = os.path.join(args.build, "lib", "inference_bench.so")
        rt = args.rt or (SMALL_RT if args.small else RT)
        be = args.be or (SMALL_BE if args.small else HEAVY_BE if args.heavy else BE)
        self.models = {"rt": rt} | {f"be{i + 1}": kind for i, kind in enumerate(be)}
        self.shapes = {s: min(SHAPES[s], len(be)) for s in args.shapes}
        # Threads that spin need processors to do it on, beside those that compute nothing either.
        self.spin_us = 3000 if len(os.sched_getaffinity(0)) >= 8 else 0
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
        self.alone_us, self.alone_latencies, self.alone_requests = {}, [], []
        self.under = {}

    def progress_total(self):
        under = sum(GIVEN.get(name, (name,))[0] in UNDER_FERMATA for name in self.args.modes)
        return 3 + len(self.args.modes) * (1 + len(self.shapes)) + under

    def alone(self, server, progress):
        """What each can do with the device to itself, and the real-time model at the rate that it is asked."""
        progress.step("alone: each model, again and again")
        for m in self.models:
            seconds, n = self.args.seconds / 4, []
            while len(n) < 2:
                if seconds > START_S:
                    raise Failed(f"a request to {m} takes longer than {seconds / 4:.0f} s")
                n, seconds = server.run({m: {"type": "continuous"}}, seconds)[m], seconds * 4
            self.alone_us[m] = (n[-1][1] - n[0][0]) / len(n) / 1e3
        self.interval = round(self.alone_us["rt"] * 1e3 / LOAD)

    def periodic(self):
        # The command cuts nanoseconds off.
        return {"type": "periodic", "priority": 0, "frequency": 1e9 / (self.interval + 0.5)}

    def alone_at_rate(self, server, progress):
        progress.step("alone: the real-time model at the rate that it is asked")
        seconds = self.args.seconds
        requests = server.run({"rt": self.periodic()}, seconds)["rt"]
        self.alone_requests += requests
        self.alone_latencies += latencies(requests, self.interval, seconds)

    def shape(self, server, n, seconds):
        before = {m["name"]: m for m in server.stats()["models"]}
        best = [f"be{i + 1}" for i in range(n)]
        found = server.run({"rt": self.periodic()} | {m: {"type": "continuous"} for m in best}, seconds, self.args.clients)
        us = latencies(found["rt"], self.interval, seconds)
        end = begun(found["rt"], self.interval) + seconds * 1e9
        per_s = {m: done_by(r, end) / seconds for m, r in found.items()}
        after = {m["name"]: m for m in server.stats()["models"]}
        stops = {k: sum(after[m].get(k, 0) - before[m].get(k, 0) for m in best)
                 for k in ("preemptions", "interrupts", "guarded")}
        stops["filled"] = sum(after[m].get("filled", 0) - before[m].get("filled", 0) for m in best)
        stops["launched"] = sum((after[m]["served"] - before[m]["served"]) * after[m]["kernels"] for m in best)
        return summary(us, found["rt"]) | stops | {"fill_sms": server.stats()["fill_sms"],
            "per_s": per_s, "of_alone": sum(v * self.alone_us[m] / 1e6 for m, v in per_s.items()),
            "level": max((after[m].get("level", 0) for m in best), default=0)}

    def own_cost(self, server, name, progress):
        """What a mode costs the real-time model when the others have nothing to do; and what became of its kernels."""
        progress.step(f"{name}: the real-time model alone")
        seconds = self.args.seconds
        requests = server.run({"rt": self.periodic()}, seconds)["rt"]
        self.under[name] = summary(latencies(requests, self.interval, seconds), requests) | server.stats().get("rewritten", {})

    def mode(self, name, progress):
        """Of each shape; or why not."""
        with contextlib.ExitStack() as stack:
            progress.step(f"{name}: loading")
            server = Server(self, stack, name)
            if server.digests() != self.digests:
                raise Failed(f"answers differ from those in the mode {MODES[0]}")
            found = {}
            if GIVEN.get(name, (name,))[0] in UNDER_FERMATA:
                self.own_cost(server, name, progress)
            for s, n in self.shapes.items():
                progress.step(f"{name}: shape {s.upper()}")
                found[s] = self.shape(server, n, self.args.seconds)
            return found

    def run(self):
        progress, rows, wrong = Progress(self.progress_total()), {}, []
        try:
            with contextlib.ExitStack() as stack:
                server = Server(self, stack, MODES[0])
                self.device, self.digests = server.stats()["device"], server.digests()
                self.alone(server, progress)
                self.alone_at_rate(server, progress)
            for name in self.args.modes:
                try:
                    rows[name] = self.mode(name, progress)
                except Failed as e:
                    rows[name] = {"failed": str(e)}
            with contextlib.ExitStack() as stack:
                self.alone_at_rate(Server(self, stack, MODES[0]), progress)
        except Interrupted:
            if not self.alone_latencies:
                raise Failed("interrupted") from None
            rows |= {name: {"failed": "interrupted"} for name in self.args.modes if name not in rows}
        finally:
            progress.end()
        return self.result(rows)

    def result(self, rows):
        alone = summary(self.alone_latencies, self.alone_requests)
        for shapes in rows.values():
            for s, r in shapes.items():
                if s == "failed":
                    continue
                base = rows.get("sequential", {}).get(s)
                for k in ("p50", "p99", "service_p99"):
                    r[k + "_ratio"] = r[k + "_us"] / alone[k + "_us"] if r[k + "_us"] else None
                r["throughput_ratio"] = r["of_alone"] / base["of_alone"] if base else None
        for r in self.under.values():
            for k in ("p50", "p99"):
                r[k + "_ratio"] = r[k + "_us"] / alone[k + "_us"]
        return {"device": self.device, "seconds": self.args.seconds, "spin_us": self.spin_us, "reserve_sms": self.args.reserve,
                "clients": self.args.clients,
                "models": self.models, "alone_us": self.alone_us, "interval_us": self.interval / 1e3,
                "alone": alone | {"of_alone": self.alone_us["rt"] / self.interval * 1e3}, "shapes": self.shapes,
                "modes": rows, "under_fermata": self.under}


def table(r):
    yield f"Device       {r['device']}"
    yield f"Real-time    {r['models']['rt']}: {r['alone_us']['rt']:.0f} us, asked every {r['interval_us']:.0f} us"
    for m, kind in r["models"].items():
        if m != "rt":
            yield f"Best effort  {m}: {kind}: {r['alone_us'][m] / 1e3:.2f} ms"
    a = r["alone"]
    yield f"Alone        P50 {a['p50_us']:.0f}, P99 {a['p99_us']:.0f}, max {a['max_us']:.0f} us"
    for s, n in r["shapes"].items():
        yield ""
        yield (f"{s.upper()}: 1 + {n:<21}real-time latency, us (to alone)                  requests/s  of alone"
               "     throughput        stops")
        yield ("                              P50              P99   P99 from begin       max       rt      be     (sum)"
               "  to sequential  (in kernels)")
        for name, shapes in r["modes"].items():
            if s not in shapes:
                yield f"{name:<17} -    {shapes['failed']}"
                continue
            yield f"{name:<17}" + row(shapes[s])
    if r["under_fermata"]:
        yield ""
        yield "Under Fermata     real-time model alone, us (to alone)   kernels         launches of the others"
        yield "                              P50              P99     rewritten  left  that could stop inside"
    for name, v in r["under_fermata"].items():
        yield f"{name:<17}" + cost(v, r["modes"][name])


def cost(v, shapes):
    def us(key):
        return f"{v[key + '_us']:8.0f} ({v[key + '_ratio']:5.2f}x)" if v[key + "_us"] else f"{'-':>17}"

    launched, guarded = (sum(s.get(k, 0) for s in shapes.values() if isinstance(s, dict)) for k in ("launched", "guarded"))
    left = v.get("kernels_left", 0) + v.get("images_left", 0)
    part = f"{100 * guarded / launched:.0f} %" if launched else "-"
    return us("p50") + us("p99") + f"{v.get('kernels', 0):12}{left:6}{part:>17}"


def row(v):
    def us(key, ratio):
        return f"{v[key]:8.0f} ({v[ratio]:5.2f}x)" if v[key] else f"{'-':>17}"

    rt, be = v["per_s"]["rt"], sum(n for m, n in v["per_s"].items() if m != "rt")
    to = f"{v['throughput_ratio']:7.3f}x" if v["throughput_ratio"] else f"{'-':>8}"
    stops = f"{v['preemptions']} ({v['interrupts']})"
    return ("".join(us(f"{k}_us", f"{k}_ratio") for k in ("p50", "p99", "service_p99"))
            + (f"{v['max_us']:10.0f}" if v["max_us"] else f"{'-':>10}")
            + f"{rt:9.1f}{be:8.1f}{v['of_alone']:10.3f}{to:>15}{stops:>14}")


def words(text, all_, what, parser):
    found = text.split(",")
    for w in found:
        if w not in all_:
            parser.error(f"{what}: `{w}' is none of {', '.join(all_)}")
    return list(dict.fromkeys(found))


def arguments():
    p = argparse.ArgumentParser(prog="script/server-bench")
    p.add_argument("--build", required=True)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--modes", default=",".join((*MODES, "filled")))
    p.add_argument("--shapes", default=",".join(SHAPES))
    p.add_argument("--rt")
    p.add_argument("--be", action="append")
    p.add_argument("--reserve", type=int, default=32)
    p.add_argument("--fill", type=int, default=16)
    p.add_argument("--pad", default="auto")
    p.add_argument("--clients", type=int, default=2)
    p.add_argument("--heavy", action="store_true")
    p.add_argument("--image")
    p.add_argument("--json")
    p.add_argument("--svg")
    p.add_argument("--small", action="store_true")
    args = p.parse_args()
    if not 0.1 <= args.seconds <= 600:
        p.error("--seconds: from 0.1 to 600")
    if args.clients < 1 or args.fill < 1:
        p.error("--clients, --fill: at least 1")
    if args.be and len(args.be) > 4:
        p.error("--be: at most four")
    args.modes = words(args.modes, (*MODES, *GIVEN), "--modes", p)
    args.shapes = words(args.shapes, tuple(SHAPES), "--shapes", p)
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, interrupt)  # unwinds, so that children are stopped
    signal.signal(signal.SIGINT, interrupt)
    begin = time.monotonic()
    try:
        r = Bench(args).run()
    except Failed as e:
        print(f"server-bench: {e}", file=sys.stderr)
        sys.exit(77 if "there is no CUDA driver" in str(e) else 1)
    print("\n".join(table(r)))
    print(f"\n{time.monotonic() - begin:.0f} s in all")
    for path, write in ((args.json, lambda f: f.write(json.dumps(r, indent=2) + "\n")), (args.svg, lambda f: f.write(draw(r)))):
        if path:
            with open(path, "w", encoding="ascii") as f:
                write(f)
    sys.exit(any("failed" in shapes for shapes in r["modes"].values()))


if __name__ == "__main__":
    main()
