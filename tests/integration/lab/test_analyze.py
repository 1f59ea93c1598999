#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata analyze`: published and independently computed values, by the command alone; what bounds must have in
common; files that make no sense."""
import csv
import io
import itertools
import json
import os
import random
import re
import subprocess
import tempfile
import unittest

FERMATA = os.path.join(os.environ["BUILD"], "bin", "fermata")
DATA = os.path.join(os.environ["SOURCE"], "tests", "data", "rta")
METHODS = [f"{m}-{w}" for m in ("gcaps", "rr", "fmlp", "mpcp") for w in ("suspend", "busy")]
MS = 1000000


def lines(name):
    with open(os.path.join(DATA, name), encoding="ascii") as f:
        return [json.loads(line) for line in f]


def spell(case):
    """A set of the compact form as the command takes it."""
    tasks = []
    for k, t in enumerate(case["tasks"]):
        tasks.append({"name": f"t{k + 1}", "priority": t[0], "cpu": t[1], "period": t[2], "deadline": t[3],
                      "cpu_time": t[4], "segments": [dict(zip(("total", "misc", "gpu"), s)) for s in t[5]]})
        if len(t) > 6:
            tasks[k]["gpu_total"] = t[6]
    return dict(zip(("epsilon", "slice", "theta"), case["costs"]), unit="ns", tasks=tasks)


def one(priority=1, period=100, cpu_time=10, segments=(), **more):
    return dict({"name": f"p{priority}", "priority": priority, "cpu": 0, "period": period, "deadline": period,
                 "cpu_time": cpu_time, "segments": [dict(zip(("total", "misc", "gpu"), s)) for s in segments]}, **more)


def a_set(*tasks, unit="ms", **more):
    return dict({"unit": unit, "epsilon": 1, "slice": 1, "theta": 0.2, "tasks": list(tasks)}, **more)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.count = itertools.count()

    def write(self, content):
        path = os.path.join(self.dir.name, f"{next(self.count)}.json")
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def call(self, *args, status=0):
        p = subprocess.run([FERMATA, "analyze", *args], capture_output=True, text=True, timeout=250, check=False)
        self.assertIn(p.returncode, (status,) if status else (0, 3), p.stderr)  # 3: not schedulable, which is an answer
        return p

    def ask(self, method, content, *more):
        files = [self.write(c) for c in content] if isinstance(content, list) else [self.write(content)]
        return json.loads(self.call("--json", "--method", method, *more, *files).stdout)

    def refused(self, content, *words, args=("--method", "gcaps-busy")):
        path = self.write(content)
        p = self.call("--json", *args, path, status=2)
        self.assertEqual(p.stdout, "")
        for word in (path, *words):
            self.assertIn(word, p.stderr)


class Values(Case):
    def test_table_2_of_gcaps(self):
        path = os.path.join(DATA, "gcaps_table2.json")
        expected = {
            ("gcaps-suspend",): [26, 58, 153, None], ("gcaps-busy",): [26, 64, 153, None],
            ("gcaps-suspend", "--gpu-priority"): [26, 75, 187, 143],
            ("gcaps-busy", "--gpu-priority"): [26, 64, 187, 120]}
        for (method, *more), wcrt in expected.items():
            reply = json.loads(self.call("--json", "--method", method, *more, path).stdout)
            self.assertEqual([t["wcrt"] for t in reply["tasks"]], wcrt)
            self.assertEqual(reply["schedulable"], bool(more))
            self.assertEqual([t["meets"] for t in reply["tasks"]], [True] * 3 + [bool(more)])
            self.assertEqual([t["deadline"] for t in reply["tasks"]], [80, 150, 190, 200])
            self.assertEqual("gpu_priority" in reply, bool(more))
            if more:
                self.assertEqual(reply["gpu_priority"],
                                 {"assigned": True, "levels": {"t1": 4, "t2": 3, "t3": 1, "t4": 2}})

    def test_fixed_priorities(self):
        cases = lines("fixed_priority.jsonl")
        sets = [spell(c) for c in cases]
        for method in cases[0]["bounds"]:
            name, _, gpu = method.partition("+")
            replies = self.ask(name, sets, *(["--gpu-priority"] if gpu else []))
            self.assertEqual(len(replies), len(cases))
            for n, (case, reply) in enumerate(zip(cases, replies)):
                with self.subTest(method=method, line=n + 1):
                    self.compare(case, case["bounds"][method], reply)

    def compare(self, case, expected, reply):
        wcrt = [t["wcrt"] for t in reply["tasks"]]
        if isinstance(expected, dict):
            self.assertEqual(reply["gpu_priority"]["assigned"], expected["assigned"])
            self.assertEqual(list(reply["gpu_priority"]["levels"].values()), expected["levels"])
            return
        real_time = sum(t[0] >= 0 for t in case["tasks"])
        self.assertEqual(wcrt, expected + [None] * (len(wcrt) - len(expected)))
        self.assertEqual(reply["schedulable"], len(expected) == real_time)
        meets = [True] * len(expected) + [False] * (len(expected) < real_time)
        self.assertEqual([t["meets"] for t in reply["tasks"]], meets + [None] * (len(wcrt) - len(meets)))

    def test_global_edf(self):
        cases = lines("gedf.jsonl")
        for cpus, charge in itertools.product((4, 8), ("none", "dedicated", "ceil", "floor")):
            some = [c for c in cases if c["cpus"] == cpus]
            sets = [{"unit": "us", "tasks": [{"name": str(k), "cpu_time": c, "period": t, "deadline": t}
                                             for k, (c, t) in enumerate(case["tasks"])]} for case in some]
            replies = self.ask("gedf", sets, "--cpus", str(cpus), "--charge", charge)
            for case, reply in zip(some, replies):
                passed = [t for t in ("BAK", "GFB", "RTA", "BAR") if reply["tests"][t]]
                self.assertEqual(" ".join(passed), case["passes"][charge])
                self.assertEqual(reply["schedulable"], bool(passed))
                self.assertEqual(reply["method"], "gedf")

    def test_mpcp_by_hand(self):
        """high: 2 of CPU and a segment of 3 (1 on the CPU) on CPU 0. low, on CPU 1: 1 and a segment of 4 (2 on
        the CPU), and beside it on CPU 0 background with a segment of 5 (1 on the CPU), best effort."""
        tasks = [one(2, 50, 2, [(3, 1, 2)], name="high"), one(1, 100, 1, [(4, 2, 2)], name="low", cpu=1),
                 one(-1, 100, 1, [(5, 1, 4)], name="background")]
        reply = self.ask("mpcp-suspend", a_set(*tasks))
        # high: 2 + 3, one wait for background's 5, boosted twice for 1.
        # low: 1 + 4, one wait for 5; high asks once in 50, with 3: by request, b = 5 + 3.
        self.assertEqual([t["wcrt"] for t in reply["tasks"]], [12, 13, None])
        reply = self.ask("mpcp-busy", a_set(*tasks))
        self.assertEqual([t["wcrt"] for t in reply["tasks"]], [20, 13, None])


class Sets(Case):
    """A set that schedules itself, with what a platform file says of its engine."""
    CAMERA = {"name": "camera", "period": 33, "gpu_time": 6, "chunks": 12}
    LIDAR = {"name": "lidar", "period": 100, "deadline": 50, "gpu_time": 8, "chunks": 4}
    LEARNER = {"name": "learner", "gpu_time": 40, "chunks": 40}

    def platform(self, engines=None, **more):
        rows = [{"tasks": 4, "decision_ns": 6000, "start_ns": 20000}, {"tasks": 9, "decision_ns": 10000, "start_ns": 0}]
        engines = engines or {"cpu": {"rows": rows}, "gates": {"skipped": "no such device"}}
        return self.write({"fermata_platform": 1, "gpu_sched": {"version": 1, "engines": engines}, **more})

    def gpu(self, platform, tasks, *more, status=0, **head):
        path = self.write({"unit": "ms", "tasks": tasks, **head})
        return self.call("--method", "gedf", "--gpu", "--platform", platform, *more, path, status=status)

    def test_charges(self):
        r = json.loads(self.gpu(self.platform(), [self.CAMERA, self.LIDAR, self.LEARNER], "--slots", "1", "--json").stdout)
        self.assertEqual((r["schedulable"], r["slots"], r["engine"]), (True, 1, "cpu"))
        self.assertEqual(r["charged"], {"decision": 0.006, "start": 0.02, "measured_tasks": 4})
        camera, lidar, learner = r["tasks"]
        # 24 decisions, of which one is the start: 0.02 + 23 x 0.006. The lidar's chunk of 2, and 0.026.
        self.assertEqual((camera["decisions"], camera["overhead"], camera["blocking"], camera["blocker"], camera["cost"]),
                         (24, 0.158, 2.026, "lidar", 6.158))
        self.assertEqual((lidar["decisions"], lidar["overhead"], lidar["blocking"], lidar["blocker"], lidar["cost"]),
                         (8, 0.062, 1.026, "learner", 8.062))
        self.assertAlmostEqual(camera["load"], (6.158 + 2.026) / 33, 5)
        self.assertAlmostEqual(lidar["load"], 6.158 / 33 + (8.062 + 1.026) / 50, 5)
        self.assertEqual((learner["meets"], learner["deadline"], camera["meets"]), (None, None, True))

    def test_who_would_miss_is_named(self):
        tasks = [self.CAMERA, dict(self.LIDAR, name="late", gpu_time=42, chunks=42)]
        text = self.gpu(self.platform(), tasks, "--slots", "1", status=3).stdout
        self.assertIn("NOT schedulable", text)
        self.assertIn("not shown to meet: late\n", text)
        self.assertRegex(text, r"camera +33 .* yes")
        self.assertIn("of 0.006, the first of a job a start, of 0.02", text)
        text = self.gpu(self.platform(), tasks * 1 + [dict(self.CAMERA, name="b", gpu_time=30)], status=3, slots=2).stdout
        self.assertIn("not shown to meet: camera, late, b (on several slots", text)

    def test_rows_and_engines(self):
        four = [dict(self.CAMERA, name=str(k), gpu_time=1) for k in range(5)]
        r = json.loads(self.gpu(self.platform(), four, "--slots", "1", "--json").stdout)
        self.assertEqual(r["charged"], {"decision": 0.01, "start": 0, "measured_tasks": 9})
        self.assertEqual(r["tasks"][0]["overhead"], 0.24)  # a start is a decision at least
        both = {"cpu": {"rows": [{"tasks": 9, "decision_ns": 1, "start_ns": 1}]}, "gates": {"rows": [{"tasks": 9, "decision_ns": 2, "start_ns": 3}]}}
        for argv, engine in (((), "gates"), (("--engine", "cpu"), "cpu")):
            self.assertEqual(json.loads(self.gpu(self.platform(both), four, "--slots", "1", "--json", *argv).stdout)["engine"], engine)
        rows = list(csv.DictReader(io.StringIO(self.gpu(self.platform(), four, "--slots", "1", "--csv").stdout)))
        self.assertEqual([r["task"] for r in rows], list("01234"))
        self.assertEqual((rows[0]["cost"], rows[0]["meets"]), ("1.24", "true"))

    def test_what_is_missing_is_told(self):
        old = self.write({"fermata_platform": 1, "epsilon_ns": 5})
        e = self.gpu(old, [self.CAMERA], "--slots", "1", status=2).stderr
        self.assertIn("no part gpu_sched", e)
        self.assertIn("`fermata calibrate --gpu-sched --update FILE'", e)
        e = self.gpu(self.platform(), [self.CAMERA], "--slots", "1", "--engine", "gates", status=2).stderr
        self.assertIn("gates was not measured: no such device", e)
        e = self.gpu(self.platform(), [dict(self.CAMERA, name=str(k)) for k in range(10)], "--slots", "1", status=2).stderr
        self.assertIn("--tasks 10 --update", e)
        self.assertIn("give --slots", self.gpu(self.platform(), [self.CAMERA], status=2).stderr)
        for argv, word in ((("--method", "gedf", "--gpu"), "calibrate --gpu-sched -o"), (("--method", "gedf", "--slots", "2"), "belong to --gpu"),
                           (("--method", "rr-busy", "--gpu"), "belongs to --method gedf"),
                           (("--method", "gedf", "--gpu", "--cpus", "2", "--platform", old), "are for CPUs"),
                           (("--method", "gedf", "--gpu", "--engine", "x"), "neither cpu")):
            self.assertIn(word, self.call(*argv, old, status=2).stderr)

    def test_files_that_make_no_sense(self):
        for change, words in (({"gpu_time": None}, "gpu_time"), ({"chunks": 0}, "chunks"), ({"deadline": 34}, "beyond the period"),
                              ({"period": 0}, "period"), ({"period": None, "deadline": 3}, "period: is missing"), ({"chunks": 5000}, "chunks")):
            e = self.gpu(self.platform(), [dict(self.CAMERA, **change)], "--slots", "1", status=2).stderr
            self.assertIn("tasks[0]." + words.split(":")[0].split(" ")[0] if " " not in words else words, e)
        good = {"tasks": 4, "decision_ns": 1, "start_ns": 1}
        for engines, word in (({"cpu": {}}, "engines.cpu: has neither"), ({"cpu": {"rows": []}}, "engines.cpu.rows"),
                              ({"cpu": {"rows": [good, good]}}, "rows[1].tasks"), ({"cpu": {"rows": [dict(good, tasks=1025)]}}, "rows[0].tasks"),
                              ({"cpu": {"rows": [dict(good, start_ns=None)]}}, "rows[0].start_ns"),
                              ({"cpu": {"rows": [dict(good, decision_ns=-1)]}}, "rows[0].decision_ns"),
                              ({"cpu": {"rows": [dict(good, tasks=k + 1) for k in range(33)]}}, "more than 32"),
                              ({"gates": {"skipped": 4}}, "engines.gates.skipped")):
            e = self.gpu(self.platform(engines), [self.CAMERA], "--slots", "1", status=2).stderr
            self.assertIn(word, e)
            self.assertIn("fermata-calibrate(1)", e)


class Units(Case):
    def test_units_say_the_same(self):
        case = spell(lines("fixed_priority.jsonl")[0])
        scaled = json.loads(json.dumps(case), parse_int=lambda s: int(s))
        keys = {"period", "deadline", "cpu_time", "total", "misc", "gpu", "gpu_total", "epsilon", "slice", "theta"}

        def divide(value, by):
            if isinstance(value, list):
                return [divide(v, by) for v in value]
            return {k: v / by if k in keys else divide(v, by) if isinstance(v, list) else v
                    for k, v in value.items()}
        for unit, by in (("us", 1000), ("ms", MS)):
            for method in METHODS:
                exact = self.ask(method, case)
                reply = self.ask(method, dict(divide(scaled, by), unit=unit))
                self.assertEqual([t["wcrt"] and t["wcrt"] / by for t in exact["tasks"]],
                                 [t["wcrt"] for t in reply["tasks"]])

    def test_decimals_are_exact(self):
        reply = self.call("--json", "--method", "fmlp-busy", self.write(a_set(one(cpu_time=0.000001)))).stdout
        self.assertIn('"wcrt": 0.000001,', reply)
        reply = self.call("--json", "--method", "fmlp-busy", self.write(a_set(one(cpu_time=28.5468)))).stdout
        self.assertIn('"wcrt": 28.5468,', reply)
        self.refused(a_set(one(cpu_time=0.0000001)), "tasks[0].cpu_time", "whole number of nanoseconds")
        self.refused(a_set(one(cpu_time=0.5), unit="ns", theta=1), "tasks[0].cpu_time", "whole number of nanoseconds")


class Properties(Case):
    def bounds(self, method, content):
        return [t["wcrt"] for t in self.ask(method, content)["tasks"]]

    def no_less(self, method, small, large):
        for a, b in zip(self.bounds(method, small), self.bounds(method, large)):
            self.assertTrue(b is None or (a is not None and a <= b), (method, a, b))

    def test_bounds_grow_with_what_they_are_made_of(self):
        draw = random.Random(7)
        for case in draw.sample([spell(c) for c in lines("fixed_priority.jsonl")], 8):
            for method in METHODS:
                for key in ("epsilon", "theta"):
                    self.no_less(method, case, dict(case, **{key: case[key] + 300000}))
                longer = json.loads(json.dumps(case))
                draw.choice(longer["tasks"])["cpu_time"] += 100000
                self.no_less(method, case, longer)

    def test_order_of_the_file_does_not_matter(self):
        draw = random.Random(8)
        for case in draw.sample([spell(c) for c in lines("fixed_priority.jsonl")], 8):
            mixed = dict(case, tasks=draw.sample(case["tasks"], len(case["tasks"])))
            for method in METHODS:
                a, b = self.ask(method, case), self.ask(method, mixed)
                self.assertEqual(a["schedulable"], b["schedulable"])
                self.assertEqual({t["name"]: t["wcrt"] for t in a["tasks"]}, {t["name"]: t["wcrt"] for t in b["tasks"]})
                self.assertEqual([t["name"] for t in b["tasks"]], [t["name"] for t in mixed["tasks"]])

    def test_terms_add_up(self):
        for case in lines("fixed_priority.jsonl")[:6]:
            path = self.write(spell(case))
            for method in METHODS:
                for t in json.loads(self.call("--json", "--method", method, path).stdout)["tasks"][::4]:
                    e = json.loads(self.call("explain", "--json", "--method", method, "--task", t["name"], path).stdout)
                    self.assertEqual((e["method"], e["task"], e["wcrt"], e["meets"]),
                                     (method, t["name"], t["wcrt"], t["meets"]))
                    if t["meets"] is None:
                        self.assertEqual(e["terms"], [])
                        continue
                    self.assertEqual(sum(x["total"] for x in e["terms"]), e["at_least"])
                    self.assertTrue(all(x["count"] * x["each"] == x["total"] for x in e["terms"]))
                    self.assertEqual(e["at_least"] <= t["deadline"], t["meets"])

    def test_terms_of_gpu_priorities(self):
        path = os.path.join(DATA, "gcaps_table2.json")
        e = json.loads(self.call("explain", "--json", "--method", "gcaps-busy", "--gpu-priority", "--task", "t3",
                                 path).stdout)
        self.assertEqual(e["method"], "gcaps-busy+gpu-priority")
        self.assertEqual(sum(x["total"] for x in e["terms"]), 187)
        self.assertIn({"kind": "gpu-of", "task": "t4", "count": 2, "each": 10, "total": 20}, e["terms"])


class Forms(Case):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(DATA, "gcaps_table2.json")

    def test_status_is_the_answer(self):
        good, bad = self.write(a_set(one())), self.write(a_set(one(deadline=5)))
        for status, *argv in ((0, "--method", "gcaps-busy", good), (3, "--method", "gcaps-busy", good, bad),
                              (3, "--method", "gcaps-busy", "--json", bad), (3, "--method", "gcaps-busy", "--csv", bad),
                              (0, "compare", bad), (0, "explain", "--method", "gcaps-busy", "--task", "p1", bad),
                              (2, "--method", "gcaps-busy", self.write("{")), (1, "--method", "gcaps-busy", good + ".none")):
            p = subprocess.run([FERMATA, "analyze", *argv], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(p.returncode, status, (argv, p.stdout, p.stderr))

    def test_one_file_is_an_object_several_are_an_array(self):
        one_reply = json.loads(self.call("--json", "--method", "rr-busy", self.path).stdout)
        two = json.loads(self.call("--json", "--method", "rr-busy", self.path, self.path).stdout)
        self.assertEqual(two, [one_reply, one_reply])

    def test_tables(self):
        out = self.call("--method", "gcaps-busy", self.path).stdout
        self.assertIn("NOT schedulable", out)
        self.assertRegex(out, r"t3 +2 +2 +190 +153 +37 +yes")
        self.assertRegex(out, r"t4 takes 2\d\d ms or more, which is beyond 200; .*GPU segments of t3 \(\d x 80\)")
        out = self.call("--method", "gcaps-busy", "--gpu-priority", self.path).stdout
        self.assertRegex(out, r"t4 .*120 +80 +yes +2")
        out = self.call("explain", "--method", "gcaps-busy", "-t", "t3", self.path).stdout
        self.assertIn("t3: at most 153 ms by gcaps-busy; the deadline is 190", out)
        self.assertRegex(out, r"its own GPU segments +1 +85 +85 +55\.6%")

    def test_compare(self):
        out = self.call("compare", self.path).stdout
        for method in METHODS:
            self.assertIn(method, out)
        self.assertIn("153 (+37)", out)
        self.assertRegex(out, r"gcaps-suspend: t4 takes")
        reply = json.loads(self.call("compare", "--json", self.path).stdout)
        self.assertEqual([m["method"] for m in reply["methods"]],
                         ["gcaps-suspend", "gcaps-suspend+gpu-priority", "gcaps-busy", "gcaps-busy+gpu-priority",
                          *METHODS[2:]])
        for m in reply["methods"]:
            self.assertEqual(m["schedulable"], m["why"] is None)
            name, _, gpu = m["method"].partition("+")
            single = json.loads(self.call("--json", "--method", name, *(["--gpu-priority"] if gpu else []),
                                          self.path).stdout)
            self.assertEqual([t["wcrt"] for t in m["tasks"]], [t["wcrt"] for t in single["tasks"]])
            for t in m["tasks"]:
                self.assertEqual(t["slack"], None if t["wcrt"] is None else t["deadline"] - t["wcrt"])
        rows = list(csv.DictReader(io.StringIO(self.call("compare", "--csv", self.path).stdout)))
        self.assertEqual(len(rows), 40)
        self.assertTrue(all(bool(r["why"]) == (r["meets"] == "false") for r in rows))

    def test_compare_says_what_is_not_known(self):
        path = self.write({"unit": "ms", "tasks": [one()]})
        reply = {m["method"]: m for m in json.loads(self.call("compare", "--json", path).stdout)["methods"]}
        self.assertIsNone(reply["gcaps-busy"]["schedulable"])
        self.assertIn("epsilon", reply["gcaps-busy"]["why"])
        self.assertIn("slice", reply["rr-busy"]["why"])
        self.assertTrue(reply["mpcp-busy"]["schedulable"])
        self.refused({"unit": "ms", "tasks": [one()]}, "epsilon")

    def test_csv(self):
        name = 'a "b", c'
        path = self.write(a_set(one(name=name)))
        rows = list(csv.DictReader(io.StringIO(self.call("--csv", "--method", "gcaps-busy", path).stdout)))
        self.assertEqual([(r["task"], r["wcrt"], r["slack"], r["meets"]) for r in rows], [(name, "11", "89", "true")])
        out = self.call("explain", "--csv", "--method", "gcaps-busy", "--task", name, path).stdout
        self.assertEqual([(r["kind"], r["total"]) for r in csv.DictReader(io.StringIO(out))],
                         [("own-cpu", "10"), ("own-updates", "1")])
        path = self.write({"unit": "ms", "cpus": 2, "tasks": [one()]})
        rows = list(csv.DictReader(io.StringIO(self.call("--csv", "--method", "gedf", path).stdout)))
        self.assertEqual([(r["test"], r["passes"]) for r in rows], [(t, "true") for t in ("BAK", "GFB", "RTA", "BAR")])

    def test_explain_what_there_is_none_of(self):
        path = self.write(a_set(one(2, 10, 20), one(1), one(-1)))
        for name, word in (("p1", "p2, before it"), ("p-1", "best effort")):
            p = self.call("explain", "--method", "fmlp-busy", "--task", name, path)
            self.assertIn(word, p.stderr)
        p = self.call("explain", "--method", "fmlp-busy", "--task", "nobody", path, status=2)
        self.assertIn("nobody", p.stderr)

    def test_names_do_not_steer_the_terminal(self):
        path = self.write(a_set(one(name="\x1b[2Jx", period=10, cpu_time=20)))
        for args in (("--method", "gcaps-busy"), ("compare",),
                     ("explain", "--method", "gcaps-busy", "--task", "\x1b[2Jx")):
            self.assertNotIn("\x1b", self.call(*args, path).stdout)

    def test_usage(self):
        for args in ((), (self.path,), ("--method", "x", self.path), ("--method", "gedf", "--gpu-priority", self.path),
                     ("--method", "rr-busy", "--gpu-priority", self.path), ("--method", "gcaps-busy"),
                     ("--method", "gcaps-busy", "--cpus", "2", self.path), ("compare",),
                     ("compare", "--method", "rr-busy", self.path), ("explain", "--method", "rr-busy", self.path),
                     ("--method", "gedf", "--cpus", "0", self.path), ("compare", self.path, self.path),
                     ("--method", "gedf", "--charge", "x", self.path),
                     ("--method", "gcaps-busy", "--csv", "--json", self.path)):
            self.assertEqual(self.call(*args, status=2).stdout, "")


class Document(Case):
    def test_its_example_runs(self):
        with open(os.path.join(os.environ["SOURCE"], "docs", "analysis.md"), encoding="utf-8") as f:
            text = f.read()
        with open(os.path.join(self.dir.name, "tasks.json"), "w", encoding="ascii") as f:
            f.write(re.search(r"```json\n(.*?)```", text, re.S)[1])
        shown = re.findall(r"```console\n\$ fermata (.*?)\n(.*?)```", text, re.S)
        self.assertEqual(len(shown), 2)
        for words, output in shown:
            p = subprocess.run([FERMATA, *words.split()], cwd=self.dir.name, capture_output=True, text=True,
                               timeout=60, check=True)
            self.assertEqual([line.rstrip() for line in p.stdout.splitlines()], output.splitlines())
        p = subprocess.run([FERMATA, "analyze", "compare", "tasks.json"], cwd=self.dir.name, capture_output=True,
                           text=True, timeout=60, check=True)
        self.assertIn("lidar takes 100.8 ms or more, which is beyond 100; 64.8 of it: turns of others", p.stdout)


class Nonsense(Case):
    def test_no_json(self):
        for content in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"unit":"ms"}', b'{"unit":"ms","tasks":{}}',
                        b'{"unit":"ms","tasks":[1]}', b'{"unit":"ms","unit":"ms","tasks":[]}', b"[" * 100000,
                        b'{"unit":"ms","tasks":[]} x', b'{"tasks":[]}', b'{"unit":"s","tasks":[]}'):
            self.refused(content)
        self.refused(b'{"unit":\n "ms",}', "line 2")
        p = self.call("--method", "gcaps-busy", "/nonexistent/file", status=1)
        self.assertIn("/nonexistent/file", p.stderr)
        p = self.call("--method", "gcaps-busy", self.dir.name, status=1)
        self.assertIn("cannot be read: Is a directory", p.stderr)

    def test_fields(self):
        good = one(1, 100, 10, [(5, 2, 3)])
        for key in ("name", "priority", "cpu", "period", "deadline", "cpu_time"):
            bad = dict(good)
            del bad[key]
            self.refused(a_set(one(2), bad), "tasks[1]", key, "missing")
        for key, value in (("period", "x"), ("period", 0), ("period", -1), ("deadline", 101), ("deadline", 0),
                           ("cpu_time", -1), ("cpu_time", True), ("priority", -2), ("priority", 1.5),
                           ("priority", 2), ("cpu", "0"), ("name", ""), ("name", 3), ("gpu_total", -5),
                           ("segments", {}), ("segments", 5), ("period", 1e300), ("cpu_time", 1e17)):
            self.refused(a_set(one(2), dict(good, **{key: value})), "tasks[1]", key)
        for segment in ((5, 6, 1), (5, 1, 6), (5, 3, 3), (-1, 0, 0), (5, -1, 3), (5, 1, -3)):
            self.refused(a_set(one(1, 100, 10, [(1, 1, 0), segment])), "tasks[0].segments[1]")
        self.refused(a_set(one(1, 100, 10, [(5, 2, 3)]), epsilon=-1), "epsilon")
        self.refused(a_set(one(), slice=0), "slice")
        self.refused(a_set(one(), one(2, name="p1")), "two are called")
        self.refused(a_set(one(gpu_total=4)), "gpu_total")
        self.refused(a_set(*({"name": str(k)} for k in range(10 ** 6))), "tasks: are 1000000, more than 20000")
        self.refused({"unit": "ms", "tasks": [one(deadline=50)]}, "deadline", args=("--method", "gedf", "--cpus", "2"))
        self.refused({"unit": "ms", "tasks": [one()]}, "CPUs", args=("--method", "gedf"))

    def test_second_file_is_named(self):
        good, bad = self.write(a_set(one())), self.write("{}")
        p = self.call("--json", "--method", "gcaps-busy", good, bad, status=2)
        self.assertIn(bad, p.stderr)
        self.assertEqual(p.stdout, "")

    def test_unknown_keys_are_named(self):
        p = self.call("--json", "--method", "gcaps-busy", self.write(a_set(one(), dict(one(2), cpu_tme=3))))
        self.assertIn("tasks[1].cpu_tme", p.stderr)
        self.assertTrue(json.loads(p.stdout)["schedulable"])


class Limits(Case):
    BIG = 2 ** 63 - 1

    def test_overflow_is_said(self):
        b = self.BIG
        self.refused(a_set(one(1, 2 ** 62 // MS, 1), one(2, b, 1)), "tasks[1].period", "overflow")
        self.refused(a_set(one(period=2 ** 70)), "integer")
        self.refused(a_set(one(1, b, b), unit="ns", theta=1), "overflow", "gcaps-busy")
        self.refused(a_set(one(1, b, 1, [(b, 0, b), (b, 0, b)]), unit="ns", theta=1), "overflow")
        self.refused(a_set(one(1, b, b - 2, [(b, b, 0)]), unit="ns", theta=1), "overflow")
        for method in METHODS:
            # Each fits alone: what is too much is their sum, or a count of them.
            two = a_set(one(2, b, b // 2 + 9), one(1, b, b // 2 + 9), unit="ns", epsilon=0, theta=0)
            self.refused(two, "overflow", args=("--method", method))
        self.refused({"unit": "ns", "tasks": [one(1, b, b)]}, "overflow", args=("--method", "gedf", "--cpus", "2"))
        for args in (("compare",), ("explain", "--method", "gcaps-busy", "--task", "p1")):
            self.refused(a_set(one(1, b, b), unit="ns", theta=1), "overflow", args=args)

    def test_large_numbers_that_fit(self):
        half = self.BIG // 2
        reply = self.ask("fmlp-busy", a_set(one(2, self.BIG, half), one(1, self.BIG, half), unit="ns", theta=1))
        self.assertEqual([t["wcrt"] for t in reply["tasks"]], [half, 2 * half])

    def test_what_does_not_converge_ends(self):
        """A task that takes all of its CPU, or as good as all, before one with a deadline of 30 years."""
        late = one(1, 10 ** 18, 1)
        for load in (10 ** 6, 10 ** 6 - 1):
            case = a_set(one(2, 10 ** 6, load), late, unit="ns", epsilon=0, theta=1)
            for method in METHODS:
                reply = self.ask(method, case)
                self.assertEqual(reply["tasks"][0]["wcrt"], load)
                if load == 10 ** 6:
                    self.assertFalse(reply["schedulable"])
                    self.assertIsNone(reply["tasks"][1]["wcrt"])
        # The same of the GPU, where mpcp iterates within its iteration.
        late = one(1, 10 ** 18, 1, [(2, 1, 1)])
        case = a_set(one(2, 10 ** 6, 1, [(10 ** 6 - 2, 1, 10 ** 6 - 3)]), late, unit="ns", epsilon=0, theta=1)
        for method in METHODS:
            self.ask(method, case)
        case = {"unit": "ns", "tasks": [one(k, 10 ** 15 + k, 10 ** 15 // 2) for k in range(1, 8)]}
        reply = self.ask("gedf", case, "--cpus", "4")
        self.assertFalse(reply["schedulable"])

    def test_many_tasks(self):
        """A thousand tasks on ten CPUs: no method needs more than a moment."""
        many = [one(k, 10000 + k, 3, [(2, 1, 1)] * (k % 3), cpu=k % 10) for k in range(1, 1001)]
        for method in METHODS:
            self.assertEqual(len(self.ask(method, a_set(*many))["tasks"]), 1000)
        reply = self.ask("gedf", {"unit": "ms", "tasks": [one(k, 10000 + k, 5) for k in range(1, 401)]}, "--cpus", "2")
        self.assertTrue(reply["schedulable"])

    def test_full_cpus_of_global_edf(self):
        full = {"unit": "ns", "tasks": [one(k, 10, 10) for k in range(1, 4)]}
        self.assertEqual(self.ask("gedf", full, "--cpus", "2")["tests"], dict.fromkeys(("BAK", "GFB", "RTA", "BAR"), False))
        self.assertTrue(self.ask("gedf", full, "--cpus", "3")["schedulable"])
        self.assertFalse(self.ask("gedf", full, "--cpus", "3", "--charge", "dedicated")["schedulable"])
        # One third three times is one, exactly.
        thirds = {"unit": "ns", "tasks": [one(k, 3, 1) for k in range(1, 4)]}
        self.assertTrue(self.ask("gedf", thirds, "--cpus", "1")["tests"]["GFB"])
        more = {"unit": "ns", "tasks": [one(1, 3 * 10 ** 17, 10 ** 17 + 1), one(2, 3, 1), one(3, 3, 1)]}
        self.assertFalse(self.ask("gedf", more, "--cpus", "1")["schedulable"])

    def test_nobody(self):
        self.assertTrue(self.ask("gcaps-busy", a_set())["schedulable"])
        self.assertEqual(self.ask("gcaps-busy", a_set())["tasks"], [])
        self.assertTrue(self.ask("gedf", a_set(), "--cpus", "1")["schedulable"])
        self.assertIn("schedulable", self.call("--method", "gcaps-busy", self.write(a_set())).stdout)
        self.assertIn("schedulable", self.call("compare", self.write(a_set())).stdout)


PLATFORM = {"fermata_platform": 1, "epsilon_ns": 500000, "slice_ns": 2000000, "theta_ns": 100000}


class Platform(Case):
    """--platform: what was measured; of two numbers for one thing the larger counts."""

    def bound(self, method, tasks, platform):
        return [t["wcrt"] for t in self.ask(method, tasks, "--platform", self.write(platform))["tasks"]]

    def test_fills_in_what_is_missing_and_what_is_less(self):
        tasks = [one(2, segments=[(6, 2, 4)]), one(1, cpu=1, segments=[(8, 1, 7)])]
        by_hand = {"epsilon": 0.5, "slice": 2, "theta": 0.1}
        for method in ("gcaps-suspend", "gcaps-busy", "rr-suspend", "rr-busy"):
            said = [t["wcrt"] for t in self.ask(method, {"unit": "ms", "tasks": tasks, **by_hand})["tasks"]]
            self.assertEqual(self.bound(method, {"unit": "ms", "tasks": tasks}, PLATFORM), said)
            other = {k: v * 3 for k, v in PLATFORM.items() if k != "fermata_platform"}
            self.assertNotEqual(self.bound(method, {"unit": "ms", "tasks": tasks}, {**PLATFORM, **other}), said)
            larger = self.bound(method, {"unit": "ms", "tasks": tasks}, {**PLATFORM, **other})
            self.assertEqual(self.bound(method, {"unit": "ms", "tasks": tasks, **by_hand}, {**PLATFORM, **other}), larger)
            smaller = {k: v // 2 for k, v in PLATFORM.items() if k != "fermata_platform"}
            self.assertEqual(self.bound(method, {"unit": "ms", "tasks": tasks, **by_hand}, {**PLATFORM, **smaller}), said)
        # One from here, one from there.
        self.assertEqual(self.bound("rr-suspend", {"unit": "ms", "tasks": tasks, "theta": 0.1},
                                    {"fermata_platform": 1, "slice_ns": 2000000}),
                         self.bound("rr-suspend", {"unit": "ms", "tasks": tasks}, PLATFORM))

    def test_of_two_numbers_both_are_named(self):
        tasks = self.write({"unit": "ms", "epsilon": 0.2, "tasks": [one()]})
        p = self.call("--method", "gcaps-busy", "--platform", self.write(PLATFORM), tasks)
        self.assertEqual(p.stderr, f"fermata: {tasks}: epsilon: 0.2 ms there, and 0.5 ms in the platform file: the larger one is used\n")
        tasks = self.write({"unit": "us", "epsilon": 500, "theta": 100, "tasks": [one()]})
        self.assertEqual(self.call("--method", "gcaps-busy", "--platform", self.write(PLATFORM), tasks).stderr, "")

    def test_what_neither_says(self):
        tasks, platform = self.write({"unit": "ms", "tasks": [one()]}), self.write({"fermata_platform": 1, "slice_ns": 1})
        for method, lacks in (("gcaps-busy", "epsilon"), ("rr-busy", "theta")):
            p = self.call("--method", method, "--platform", platform, tasks, status=2)
            self.assertRegex(p.stderr, f"{tasks}: {lacks}: is missing, in the platform file, too")
            p = self.call("--method", method, tasks, status=2)
            self.assertIn("calibrate", p.stderr)
        self.call("--method", "mpcp-busy", "--platform", platform, tasks)
        self.assertIn("gedf does not model a device", self.call(
            "--method", "gedf", "--cpus", "2", "--platform", platform, tasks, status=2).stderr)
        compared = json.loads(self.call("compare", "--json", "--platform", self.write(PLATFORM), tasks).stdout)
        self.assertNotIn("missing", json.dumps(compared))

    def test_files_that_make_no_sense(self):
        tasks = self.write({"unit": "ms", "tasks": [one()]})
        for content, word in [
                ("", "line 1"), ("{", "line 1"), ("[]", "not an object"), ("{}", "this is not a platform file"),
                ('{"fermata_platform":1,"fermata_platform":1}', "line 1"), (b"\xff{}", "line 1"),
                ({"fermata_platform": 2, "epsilon_ns": 1}, "is not 1"), ({"fermata_platform": "1"}, "is not a number"),
                ({"fermata_platform": 1}, "neither epsilon_ns"), ({"fermata_platform": 1, "epsilon_ns": None}, "neither"),
                *(({**PLATFORM, "epsilon_ns": v}, f"epsilon_ns: {w}") for v, w in (
                    (-1, "is negative"), (1.5, "is not a whole"), ("1", "is not a whole"), (True, "is not a whole"),
                    (3600 * 10 ** 9 + 1, "is more than an hour"))),
                ({**PLATFORM, "slice_ns": 0}, "slice_ns: is not above 0"), ({**PLATFORM, "theta_ns": -5}, "theta_ns: is neg"),
                ('{"fermata_platform":1,"epsilon_ns":' + "9" * 30 + "}", "line 1"), ("[" * 100000, "line 1"),
                (" " * (1024 * 1024 + 1), "too large")]:
            path = self.write(content)
            p = self.call("--method", "gcaps-busy", "--platform", path, tasks, status=1 if word == "too large" else 2)
            self.assertTrue(p.stderr.startswith(f"fermata: {path}: ") and word in p.stderr, (content, p.stderr))
            self.assertEqual(p.stdout, "")
        for path, word in ((self.dir.name, "not a plain file"), (self.dir.name + "/none", "No such file"),
                           ("/dev/zero", "not a plain file")):
            self.assertIn(word, self.call("--method", "gcaps-busy", "--platform", path, tasks, status=1 if word == "No such file" else 2).stderr)
        pipe = os.path.join(self.dir.name, "pipe")
        os.mkfifo(pipe)
        self.call("--method", "gcaps-busy", "--platform", pipe, tasks, status=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
