#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the demo's programs (bench/demo_client.c) alone, natively and under Fermata; prints one table."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

REQUEST_US = 20000  # device time of a foreground request on a CPU; a GPU is that much faster
KERNEL_US = 700
PERIOD_FACTOR = 5  # the foreground asks for a fifth of the device
BATCHES = 3
READY_S = 60


class Failed(Exception):
    pass


class Progress:
    """One line that says what runs and how long it takes; a line each where there is no terminal."""

    def __init__(self, total):
        self.total, self.done, self.tty = total, 0, sys.stderr.isatty()

    def step(self, text):
        self.done += 1
        bar = "#" * self.done + "." * (self.total - self.done)
        line = f"[{bar}] {text}"
        sys.stderr.write(f"\r\033[K{line}" if self.tty else line + "\n")
        sys.stderr.flush()

    def end(self):
        if self.tty:
            sys.stderr.write("\r\033[K")


def start(stack, argv, env=None, **more):
    """A child that does not outlive the demo."""
    p = subprocess.Popen(argv, text=True, env=env, **more)

    def stop():
        if p.poll() is None:
            p.terminate()
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        for f in (p.stdin, p.stdout):
            if f:
                f.close()

    stack.callback(stop)
    return p


def answer(p, what):
    line = p.stdout.readline()
    if not line:
        raise Failed(f"{what} ended early (status {p.wait()})")
    return line.strip()


def together(clients, seconds, before_end=lambda: None, before_begin=lambda: None):
    """Start the clients (name -> argv), let them work at the same time; their answers by name."""
    with contextlib.ExitStack() as stack:
        running = {
            name: start(stack, argv, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for name, (argv, env) in clients.items()
        }
        for name, p in running.items():
            if answer(p, name) != "ready":
                raise Failed(f"{name} did not get ready")
        before_begin()
        begin = time.monotonic_ns() + 300_000_000
        end = begin + int(seconds * 1e9)
        for p in running.values():
            p.stdin.write(f"go {begin} {end}\n")
            p.stdin.flush()
        time.sleep(max(0, (end - time.monotonic_ns()) / 1e9 - 0.3))
        extra = before_end()
        answers = {name: json.loads(answer(p, name)) for name, p in running.items()}
        for p in running.values():
            p.wait()
        return answers, extra


def daemon(stack, build, dir_, settings=""):
    """Start a daemon of our own; the environment in which its clients find it."""
    env = dict(os.environ, FERMATA_SOCKET=dir_)
    config = os.path.join(dir_, "fermatad.conf")
    with open(config, "w", encoding="ascii") as f:
        f.write("[daemon]\n" + settings)
    argv = [os.path.join(build, "bin", "fermatad"), "--dir", dir_, "--config", config]
    p = start(stack, argv, env, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while not os.path.exists(os.path.join(dir_, "control.sock")):
        if p.poll() is not None or time.monotonic() > deadline:
            raise Failed("the daemon did not start: see `fermatad --dir DIR`")
        time.sleep(0.01)
    return env


def runnable(path="/proc/loadavg"):
    """Tasks of the machine that run or wait for a processor at this moment, without the one that asks."""
    with open(path, encoding="ascii") as f:
        return max(0, int(f.read().split()[3].split("/")[0]) - 1)


def others_at_work(seconds=1.0, samples=20, read=runnable):
    """The mean of a while, and not the load of the last minute, in which this may have been built."""
    found = []
    for _ in range(samples):
        found.append(read())
        time.sleep(seconds / samples)
    return sum(found) / len(found)


def busy(others, cores):
    """What to say where others take much of the processors; None where they do not."""
    if others <= cores / 2:
        return None
    return f"{others:.1f} other tasks run or wait for {cores} processors: the numbers are theirs, too"


class Demo:
    def __init__(self, build, seconds):
        self.build, self.seconds = build, seconds
        self.cores, self.others = len(os.sched_getaffinity(0)), 0
        self.client = [os.path.join(build, "bench", "demo_client")]
        self.fermata = os.path.join(build, "bin", "fermata")

    def calibrate(self):
        argv = self.client + ["calibrate", str(REQUEST_US), str(KERNEL_US)]
        self.size = json.loads(subprocess.check_output(argv, text=True))
        self.period_us = int(self.size["request_us"] * PERIOD_FACTOR)

    def clients(self, foreground, background, env=None, prefix=lambda priority: []):
        serve = self.client + ["serve", str(self.size["height"]), str(self.period_us)]
        batch = self.client + ["batch", str(self.size["iters"])]
        all_ = {}
        if foreground:
            all_["foreground"] = (prefix("high") + serve, env)
        for i in range(BATCHES if background else 0):
            all_[f"background {i + 1}"] = (prefix("low") + batch, env)
        return all_

    def under_fermata(self):
        with contextlib.ExitStack() as stack:
            dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-demo-"))
            env = daemon(stack, self.build, dir_)

            def ps():
                return json.loads(subprocess.check_output([self.fermata, "ps", "--json"], text=True, env=env))

            def prefix(priority):
                return [self.fermata, "run", "--priority", priority, "--"]

            return together(self.clients(True, True, env, prefix), self.seconds, ps)

    def run(self):
        progress = Progress(6)
        progress.step("looking whether the machine is busy")
        self.others = others_at_work()
        if busy(self.others, self.cores):
            progress.end()
            sys.stderr.write(f"demo: the machine is busy: {busy(self.others, self.cores)}. Run it again when it is quiet.\n")
        progress.step("choosing a device and sizes")
        self.calibrate()
        try:
            progress.step(f"alone: the foreground program ({self.seconds:g} s)")
            alone, _ = together(self.clients(True, False), self.seconds)
            short = max(2, self.seconds / 2)
            progress.step(f"alone: {BATCHES} background programs ({short:g} s)")
            batch, _ = together(self.clients(False, True), short)
            progress.step(f"native: all at once, without Fermata ({self.seconds:g} s)")
            native, _ = together(self.clients(True, True), self.seconds)
            progress.step(f"Fermata: all at once, foreground first ({self.seconds:g} s)")
            ours, ps = self.under_fermata()
        finally:
            progress.end()
        return self.result({**alone, **batch}, native, ours, ps)

    def row(self, answers, alone):
        fg = answers["foreground"]
        per_s = sum(a["per_s"] for name, a in answers.items() if name != "foreground")
        row = {k: fg[k] for k in ("requests", "p50_us", "p99_us", "max_us", "service_us")}
        row["background_per_s"] = round(per_s, 1)
        row["wrong"] = sum(a["wrong"] for a in answers.values())
        base = alone or row
        row["p99_ratio"] = round(row["p99_us"] / base["p99_us"], 2)
        row["background_of_alone"] = round(per_s / base["background_per_s"], 3) if base["background_per_s"] else None
        return row

    def result(self, alone, native, ours, ps):
        rows = {"alone": self.row(alone, None)}
        rows["native"] = self.row(native, rows["alone"])
        rows["Fermata"] = self.row(ours, rows["alone"])
        return {
            "device": self.size["device"],
            "type": self.size["type"],
            "cores": self.cores,
            "others_at_work": round(self.others, 1),
            "busy": bool(busy(self.others, self.cores)),
            "request": {k: self.size[k] for k in ("request_us", "chain")} | {"period_us": self.period_us},
            "batch": {"programs": BATCHES, "kernel_us": self.size["kernel_us"]},
            "runs": rows,
            "preemption": preemption(ps),
        }


def preemption(ps):
    """The busiest device's: how often a program was told to stop, and how long it took to stall."""
    return max((d["preempt_us"] for d in ps["devices"]), key=lambda p: p["count"], default={"count": 0})


def table(r):
    q, b = r["request"], r["batch"]
    yield f"Device       {r['device']} ({r['type']}), {r['cores']} cores"
    if r["busy"]:
        yield f"Machine      BUSY: {busy(r['others_at_work'], r['cores'])}"
    yield (f"Foreground   every {q['period_us'] / 1e3:.0f} ms a network of {q['chain']} commands"
           f" ({q['request_us'] / 1e3:.1f} ms)")
    yield f"Background   {b['programs']} programs, kernels of {b['kernel_us'] / 1e3:.2f} ms, up to 64 queued each"
    yield ""
    yield "             foreground latency, ms           P99 to   background"
    yield "                 P50       P99       max      alone     kernels/s   to alone"
    for name, row in r["runs"].items():
        ms = "".join(f"{row[k] / 1e3:10.2f}" for k in ("p50_us", "p99_us", "max_us"))
        of = row["background_of_alone"]
        yield (f"{name:<10}{ms}{row['p99_ratio']:10.2f}x{row['background_per_s']:14.1f}"
               f"{'-' if of is None else f'{of:.2f}x':>11}")
    yield (f"             (the foreground asks for {q['request_us'] / q['period_us']:.0%} of the device; the background programs, alone,"
           " have all of it)")
    yield ""
    p = r["preemption"]
    if p["count"]:
        yield f"Preemption   {p['count']} times; request to stall P50 {p['p50']:.0f} us, P99 {p['p99']:.0f} us"
    wrong = sum(row["wrong"] for row in r["runs"].values())
    yield f"Results      {'all correct' if not wrong else f'{wrong} WRONG'}"


def main():
    parser = argparse.ArgumentParser(prog="script/demo")
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not 2 <= args.seconds <= 3600:
        parser.error("--seconds: from 2 to 3600")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that children are stopped
    try:
        r = Demo(args.build, args.seconds).run()
    except (Failed, subprocess.CalledProcessError) as e:
        sys.exit(f"demo: {e}")
    print(json.dumps(r, indent=2) if args.json else "\n".join(table(r)))
    if any(row["wrong"] for row in r["runs"].values()):
        sys.exit("demo: wrong results")
    if not r["preemption"]["count"]:
        sys.exit("demo: nobody was preempted")


if __name__ == "__main__":
    main()
