#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device time that is told, beside what kernels note themselves, under every policy: on a driver where processes share a device in
turns, as on a real one. What programs measure by themselves is none of what they used there, or twice as much."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, SANITIZE, Fermata, check, cuda_env, main, need_cuda_shim

BENCH = os.path.join(BUILD, "bench", "bench_cuda_time")
SECONDS = 0.6
KERNEL_US = "20000"  # several turns of the device, and of the policies


class World:
    def __init__(self, stack):
        self.stack, self.fermata = stack, Fermata(stack)
        self.env = cuda_env(self.fermata.env)
        self.env["FAKE_CUDA_DEVICE"] = os.path.join(self.env["FERMATA_SOCKET"], "device")

    def call(self, *argv):
        return subprocess.check_output([FERMATA, *argv], env=self.env, text=True, timeout=120)

    def start(self):
        p = subprocess.Popen([FERMATA, "run", "--", BENCH, KERNEL_US], env=self.env, text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        self.stack.callback(p.wait)
        self.stack.callback(p.kill)
        check(p.stdout.readline() == "ready\n", "a program did not get ready")
        return p

    def told(self, programs):
        groups = json.loads(self.call("ps", "--json"))["groups"]
        by_pid = {q["pid"]: g["devices"][0] for g in groups for q in g["queues"]}
        return [by_pid[p.pid] for p in programs]

    def run(self, programs):
        """Of each, what its kernels had, and what the daemon says that it had meanwhile; and how much time there was."""
        before = self.told(programs)
        begin = time.monotonic_ns()
        for p in programs:
            p.stdin.write(f"go {begin} {begin + int(SECONDS * 1e9)}\n")
            p.stdin.flush()
        own = [json.loads(p.stdout.readline())["own_ms"] for p in programs]
        after = self.told(programs)
        return (own, [y["device_ms"] - x["device_ms"] for x, y in zip(before, after)],
                after[0]["account"]["since_ms"] - before[0]["account"]["since_ms"])


def check_run(name, own, told, elapsed):
    """All of it is somebody's, and nothing twice. Whose it was is less certain here, where it takes a processor to pass a gate."""
    said = f"{name}: {told} told of {own}, within {elapsed}"
    check(0.9 * sum(own) < sum(told) < 1.05 * elapsed, said)
    check(all(o / 3 < t < 3 * o for o, t in zip(own, told)), said)


def parts(device):
    a = device["account"]
    return sum(a[k] for k in ("ran_ms", "waited_ms", "idle_ms", "suspended_ms"))


def every_policy(stack):
    w = World(stack)
    programs = [w.start(), w.start()]
    for policy in json.loads(w.call("policy", "--json"))["available"]:
        name = policy["name"]
        w.call("policy", name)
        check_run(name, *w.run(programs))
        for d in w.told(programs):
            check(abs(parts(d) - d["account"]["since_ms"]) < 0.01 * d["account"]["since_ms"], f"{name}: {d['account']}")


def by_slices(stack):
    w = World(stack)
    programs = [w.start(), w.start()]
    for slice_ms in (1, 5, 20, 50):
        w.call("policy", "fair", f"slice={slice_ms}ms")
        check_run(f"{slice_ms} ms", *w.run(programs))


def one_alone(stack):
    w = World(stack)
    programs = [w.start()]
    check_run("alone", *w.run(programs))


if __name__ == "__main__":
    if SANITIZE or os.environ.get("FERMATA_TEST_CUDA") == "real":
        raise SystemExit(77)
    need_cuda_shim()
    main(every_policy, by_slices, one_alone)
