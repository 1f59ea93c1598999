#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab sim` with memory: what policies of memory do to decoders that do not fit, what is said of it in each form, what
the options and mistakes do, and that a workload without memory is as it was."""
import csv
import json
import os
import subprocess
import tempfile
import unittest

FERMATA_LAB = os.path.join(os.environ["BUILD"], "bin", "fermata-lab")
SOURCE = os.environ["SOURCE"]
EXAMPLES = os.path.join(SOURCE, "examples", "sim")
POLICIES = ["jit", "opt", "lru", "whole", "none"]

DECODERS = """[workload]
policy = round-robin slice={turn}
duration = 20s
warmup = 5s
[memory]
overtime = {overtime}
reserve = {reserve}
[device gpu]
memory = 16G
link-in = 55GB
link-out = 55GB
link-both = 78GB
host = {host}
[group decoder]
count = {count}
memory = 8.5GB
gap = 3ms
dirty = {dirty}
commands = 1 x 3ms
"""


NETS = """[workload]
policy = round-robin slice=125ms
duration = 40s
warmup = 10s
[memory]
policy = jit
overtime = no
[device gpu]
memory = 16G
link-in = 53GB
link-out = 53GB
link-both = 84GB
flip = 900us
switch = 160us
"""


class SimulateMemory(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def write(self, text):
        path = os.path.join(self.dir.name, "work.ini")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def call(self, *args, status=0):
        p = subprocess.run([FERMATA_LAB, "sim", *args], timeout=300, capture_output=True, text=True, check=False)
        self.assertEqual(p.returncode, status, p.stderr)
        return p

    def decoders(self, policies=None, **values):
        """Of each policy: throughput to that of all in memory, and the whole result."""
        values = {"turn": 272, "count": 3, "dirty": 100, "overtime": "no", "reserve": "0", "host": "1T", **values}
        path = self.write(DECODERS.format(**values))
        out = json.loads(self.call("--json", "--memory-policy", ",".join(policies or POLICIES), path).stdout)
        results = {r["memory_policy"]: r for r in out.get("memory_policies", [out])}
        self.assertEqual(list(results), policies or POLICIES)
        return {p: r["devices"][0]["memory"]["to_memory_ppm"] / 1e6 for p, r in results.items()}, results

    def test_devices_behind_one_bridge(self):
        """They share its rate. A bridge that carries all is as if there were none."""
        jobs = {}
        for name, keys in (("own", ""), ("wide", "bridge = 3\nbridge-rate = 500GB\n"), ("one", "bridge = 3\n")):
            text = DECODERS.format(turn=272, count=6, dirty=100, overtime="no", reserve="0", host="1T")
            path = self.write(text.replace("[device gpu]\n", "[device gpu]\ncount = 2\n" + keys))
            result = json.loads(self.call("--json", path).stdout)
            jobs[name] = result["groups"][0]["jobs"]
        self.assertEqual(jobs["own"], jobs["wide"])
        self.assertLess(jobs["one"], 0.95 * jobs["own"])
        self.assertGreater(jobs["one"], 0.4 * jobs["own"])

    def test_decoders(self):
        """Ahead of time is best, the best victims are better than others, and each figure is near the closed form."""
        for count, turn in ((3, 272), (4, 170), (6, 102)):
            to, results = self.decoders(count=count, turn=turn)
            self.assertGreater(to["jit"], 1.25 * to["opt"])
            self.assertGreater(to["opt"], 1.1 * to["whole"])
            self.assertGreater(to["jit"], 1.25 * to["none"])
            size, capacity, rate = 8.5e9, 16 * 2**30, 39e9
            switch = (count * size - capacity) / (count - 1) / rate
            expected = turn / (turn + switch * 1e3)
            self.assertLess(abs(to["opt"] / expected - 1), 0.04, (count, to))
            for name in ("opt", "lru", "whole"):
                device = results[name]["devices"][0]["memory"]
                self.assertEqual(device["hidden_ns"], 0)
                self.assertEqual(device["residue_bytes"], device["in_bytes"])

    def test_kept_copies(self):
        written, _ = self.decoders(["jit"], count=6, turn=102)
        kept, results = self.decoders(["jit"], count=6, turn=102, dirty=0)
        self.assertGreater(kept["jit"], 1.25 * written["jit"])
        device = results["jit"]["devices"][0]["memory"]
        self.assertEqual(device["out_bytes"], 0)
        self.assertGreater(device["kept_bytes"], 100e9)
        # Without room on the host for copies they are dropped.
        small, results = self.decoders(["jit"], count=6, turn=102, dirty=0, host="36G")
        self.assertGreater(results["jit"]["devices"][0]["memory"]["out_bytes"], 100e9)
        self.assertLess(small["jit"], kept["jit"])

    def test_overtime(self):
        """The device never stands still, and somebody waits longer for that."""
        fixed, one = self.decoders(["jit"], count=4, turn=102)
        over, two = self.decoders(["jit"], count=4, turn=102, overtime="yes")
        self.assertGreater(over["jit"], 1.2 * fixed["jit"])
        self.assertGreater(two["jit"]["groups"][0]["memory"]["longest_wait_ns"],
                           one["jit"]["groups"][0]["memory"]["longest_wait_ns"])

    def test_early(self):
        """By the option or by the file, and as little is held under policies that move nothing ahead as before."""
        text = ("[workload]\npolicy = fixed-priority\nduration = 20s\n[memory]\n{early}\n[device gpu]\nmemory = 2G\nhost = 1T\n"
                "link-in = 10GB\nlink-out = 10GB\nlink-both = 20GB\n"
                "[group urgent]\nmemory = 1G\ngap = 80ms\narrive = poisson 1s\ncommands = 1 x 10ms\npriority = high\n"
                "[group training]\nmemory = 1664M\ngap = 10ms\ncommands = 10 x 1ms\n")
        plain, asked = self.write(text.format(early="")), os.path.join(self.dir.name, "early.ini")
        with open(asked, "w", encoding="ascii") as f:
            f.write(text.format(early="early = yes"))
        held = json.loads(self.call("--json", plain).stdout)
        early = json.loads(self.call("--json", "--memory-early", plain).stdout)
        self.assertEqual(early, json.loads(self.call("--json", asked).stdout))
        self.assertTrue(early["memory_early"])
        self.assertNotIn("memory_early", held)
        p99 = [r["groups"][0]["response"]["p99_ns"] for r in (held, early)]
        self.assertLess(p99[1], p99[0] / 2)
        self.assertLess(early["groups"][0]["memory"]["held_ns"], held["groups"][0]["memory"]["held_ns"] / 4)
        self.assertIn("memory: jit, early start", self.call("--memory-early", plain).stdout)
        opt = [json.loads(self.call("--json", "--memory-policy", "opt", f).stdout)["groups"] for f in (plain, asked)]
        self.assertEqual(opt[0], opt[1])

    def test_forms_agree(self):
        path = os.path.join(EXAMPLES, "memory.ini")
        args = (path, "--duration", "5s")
        both = ("--memory-policy", "jit,opt")
        told = json.loads(self.call(*args, "--json").stdout)
        compared = json.loads(self.call(*args, *both, "--json").stdout)["memory_policies"]
        self.assertEqual(told["memory_policy"], "jit")
        self.assertEqual(told, compared[0])
        opt = json.loads(self.call(*args, "--json", "--memory-policy", "opt").stdout)
        self.assertEqual(opt, compared[1])
        device = told["devices"][0]["memory"]
        self.assertLessEqual(device["peak_bytes"], 16 * 2**30)
        self.assertEqual(device["in_bytes"], told["groups"][0]["memory"]["in_bytes"])
        rows = list(csv.reader(self.call(*args, "--csv").stdout.splitlines()))
        row = rows[[r[:2] for r in rows].index(["device", "in_bytes"]) + 1]
        self.assertEqual(row, ["gpu", *(str(device[k]) for k in ("in_bytes", "out_bytes", "kept_bytes", "exposed_ns", "hidden_ns",
                                                                  "residue_bytes", "to_memory_ppm"))])
        rows = list(csv.reader(self.call(*args, *both, "--csv").stdout.splitlines()))
        self.assertEqual([r[:2] for r in rows[1:3]], [["jit", "decoder"], ["opt", "decoder"]])
        self.assertEqual(rows[5][:2] + rows[5][-1:], ["jit", "gpu", str(device["to_memory_ppm"])])
        text = self.call(*args).stdout
        self.assertIn("memory: jit", text)
        self.assertIn(f"{device['to_memory_ppm'] / 1e4:.1f}%", text)
        text = self.call(*args, *both).stdout
        self.assertIn("all fits", text)
        self.assertEqual(text.count("opt"), 2)

    def test_threads_do_not_matter(self):
        path = os.path.join(EXAMPLES, "memory.ini")
        args = (path, "--duration", "3s", "--machines", "6", "--csv")
        self.assertEqual(self.call(*args, "-j", "1").stdout, self.call(*args, "-j", "3").stdout)

    def test_urgent(self):
        """A request of its own keeps an urgent service from waiting for memory."""
        path = os.path.join(EXAMPLES, "memory-urgent.ini")
        out = json.loads(self.call(path, "--json", "--memory-policy", "jit,whole").stdout)["memory_policies"]
        (urgent, training), (swapped, starved) = (r["groups"] for r in out)
        self.assertEqual(urgent["memory"]["held_ns"], 0)
        self.assertLess(urgent["response"]["p99_ns"], 11e6)
        self.assertGreater(swapped["response"]["p99_ns"], 2 * urgent["response"]["p99_ns"])
        self.assertGreater(training["memory"]["to_memory_ppm"], 5 * starved["memory"]["to_memory_ppm"])

    def test_a_pause_ends_no_turn(self):
        """Programs that wait for the device after each step keep it for the rest of their turn: otherwise their turns would be
        too short for the link."""
        text = NETS
        for step in (100, 40, 49, 122):
            text += f"[group net-{step}]\nmemory = 6G\ngap = {step}ms\ndirty = 85\ncommands = {step} x 1ms, pause 500us\n"
        to = {}
        for linger in ("auto", "0"):
            path = self.write(text.replace("duration", f"linger = {linger}\nduration", 1))
            to[linger] = json.loads(self.call("--json", path).stdout)["devices"][0]["memory"]["to_memory_ppm"] / 1e6
        self.assertGreater(to["auto"], 0.8)
        self.assertLess(to["0"], 0.65)

    def test_without_memory_nothing_is_said(self):
        path = os.path.join(EXAMPLES, "inference.ini")
        for form in ("--json", "--csv"):
            text = self.call(path, "--duration", "2s", form).stdout
            self.assertNotIn("memory", text)

    def test_many_groups(self):
        """What moves is counted to the group whose memory it is, also behind 65,536 others."""
        path = self.write("[workload]\npolicy = round-robin slice=20\nduration = 200ms\n[device gpu]\nmemory = 8G\n"
                          "[group small]\ncount = 65536\nstart = 10s\ncommands = 1 x 1ms\n"
                          "[group big]\ncount = 2\nmemory = 5G\ncommands = 1 x 1ms\n")
        out = json.loads(self.call("--json", path).stdout)
        moved = {g["name"]: g["memory"]["in_bytes"] for g in out["groups"]}
        self.assertGreater(moved["big"], 0)
        self.assertEqual(moved, {"small": 0, "big": out["devices"][0]["memory"]["in_bytes"]})

    def test_mistakes(self):
        memory, plain = os.path.join(EXAMPLES, "memory.ini"), os.path.join(EXAMPLES, "inference.ini")
        for args, reason, hint in (
                ((plain, "--memory-early"), "no device with memory", "give it one"),
                ((memory, "--memory-policy", "jot"), "no policy 'jot' of memory", "did you mean 'jit'?"),
                ((memory, "--memory-policy", "jit,jit"), "'jit' stands there twice", ""),
                ((memory, "--memory-policy", ","), "no policy of memory named", ""),
                ((plain, "--memory-policy", "jit"), "has no device with memory", "memory = 16G"),
                ((memory, "--memory-policy", "jit,opt", "--svg", "x.svg"), "a comparison only", "give one policy")):
            p = self.call(*args, status=2)
            self.assertIn(reason, p.stderr)
            self.assertIn(hint, p.stderr)
            self.assertEqual(p.stdout, "")
        self.assertFalse(os.path.exists("x.svg"))

    def test_trace_and_picture(self):
        """Of one policy they are as of any workload."""
        svg, trace = os.path.join(self.dir.name, "line.svg"), os.path.join(self.dir.name, "trace.fmt")
        self.call(os.path.join(EXAMPLES, "memory.ini"), "--duration", "3s", "--svg", svg, "--trace", trace)
        self.assertGreater(os.path.getsize(svg), 1000)
        self.assertGreater(os.path.getsize(trace), 1000)


if __name__ == "__main__":
    unittest.main(verbosity=1)
