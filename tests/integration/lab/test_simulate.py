#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab sim`: the same bytes for a seed, whatever the threads; what the examples say; and mistakes in workloads, each
with file, line, reason and what may have been meant."""
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

FERMATA_LAB = os.path.join(os.environ["BUILD"], "bin", "fermata-lab")
SOURCE = os.environ["SOURCE"]
EXAMPLES = os.path.join(SOURCE, "examples", "sim")

BASE = """[workload]
duration = 2s
[device gpu]
[group a]
commands = 3 x 1ms
"""

# A decoder, a token after the other, beside a program that trains; as seen on an H100, 160 us of each change are its own.
DECODE = """[workload]
policy = {policy}
duration = 10s
react = 20us
linger = {linger}
[device gpu]
switch = 160us
"""
DECODER = """[group decode]
priority = 10
commands = 1300us, pause {pause}
"""
TRAINER = """[group train]
commands = 100 x 500us
"""
TOKENS = "measured 0:150us 80:250us 92:500us 99:1ms 100:2ms"

# Lines behind BASE, which has five: the line of the mistake, and what is said.
BAD = [
    ("nonsense\n", 6, "neither [section]"),
    ("[wrkload]\n", 6, "did you mean [workload]?"),
    ("[device]\n", 6, "sections are"),
    ("[group]\n", 6, "sections are"),
    ("[group b/c]\ncommands = 1ms\n", 6, "is no name"),
    ("[group a]\n", 6, "two groups 'a'"),
    ("[device gpu]\n", 6, "two devices 'gpu'"),
    ("[group " + 60 * "x" + "]\n", 6, "too long"),
    ("comands = 1ms\n", 6, "did you mean 'commands'?"),
    ("lvel = 1\n", 6, "unknown key 'lvel' in [group NAME]"),
    ("spacing = 1ms\n", 6, "'spacing' belongs into [device NAME]"),
    ("count = 0\n", 6, "count: '0' is out of range"),
    ("count = 1\ncommands = 1ms\ncount = 1\n", 8, "'count' stands in [group a] already, in line 6"),
    ("count = many\n", 6, "count: 'many' is not a whole number"),
    ("commands = 5 x\n", 6, "commands: there is no time"),
    ("commands = 5 x expp 3ms\n", 6, "did you mean 'exp'?"),
    ("commands = uniform 3ms\n", 6, "write uniform LEAST MOST"),
    ("commands = uniform 3ms 1ms\n", 6, "the most is less than the least"),
    ("commands = pareto 3ms 0.5\n", 6, "above 1"),
    ("commands = 1ms 2ms\n", 6, "wrong number of words"),
    ("commands = 400d\n", 6, "'400d' is not a time"),
    ("[device b]\nslice = uniform 1ms\n", 7, "slice: 'uniform' has the wrong number of words"),
    ("[device b]\ntick = 4ms\n", 0, "a tick without fair turns"),
    ("[device b]\ntick = 4ms\nturns = fair\n", 0, "a tick without fair turns"),
    ("[workload]\nlinger = autom\n", 7, "give a time as 100us, or auto"),
    ("commands = measured 0:1us 100:x\n", 6, "'x' is not a time"),
    ("commands = measured 0:1us 50:3us 100:2us\n", 6, "'100:2us' does not ascend"),
    ("commands = measured 0:1us 50:3us 50:4us 100:4us\n", 6, "'50:4us' does not ascend"),
    ("commands = measured 1:1us 100:3us\n", 6, "percentiles go from 0 to 100"),
    ("commands = measured 0:1us 99.9:3us\n", 6, "percentiles go from 0 to 100"),
    ("commands = measured 0:1us 101:3us\n", 6, "'101:3us' is no percentile and its time"),
    ("commands = measured" + "".join(f" {n}:{n}us" for n in range(17)) + "\n", 6, "more than 16 percentiles"),
    ("[device b]\nturns = fairly\n", 7, "give in-order or fair"),
    ("[device b]\nopen = soon\n", 7, "open: 'soon' is not a time"),
    ("[device b]\nslots = 2\nturns = fair\n", 0, "fair turns of more than one slot"),
    ("commands = 999999999s\n", 6, "longer than a year"),
    ("commands = " + ",".join(["1ms"] * 32) + "\n", 6, "a job of more than 32 steps"),
    ("commands = " + "1ms," * 100 + "\n", 6, "line too long"),
    ("arrive = evry 5ms\n", 6, "did you mean 'every'?"),
    ("arrive = every\n", 6, "there is no time"),
    ("arrive = poisson\n", 6, "poisson takes one time"),
    ("arrive = poisson 0\n", 6, "no time between"),
    ("arrive = burst 5 1ms\n", 6, "write burst COUNT every TIME"),
    ("arrive = after\n", 6, "'after' of what?"),
    ("arrive = after b\n", 6, "there is no group 'b'"),
    ("arrive = after a\n", 6, "follows itself"),
    ("arrive = trace nowhere.trace\n", 6, "No such file"),
    ("arrive = trace /dev/zero\n", 6, "not a regular file"),
    ("arrive = trace\njob = 1ms\n[group b]\narrive = trace\njob = 1ms\n", 8, "has no commands"),
    ("arrive = trace\njob = soon\n", 7, "job: 'soon' is not a time"),
    ("arrive = trace\njob = \n", 7, "job: there is no value"),
    ("arrive = trace\njob = 2ms 1ms 0\n", 7, "job: '0' is out of range"),
    ("arrive = trace\njob = 2ms\njob = 1ms\n", 8, "job: it is before the arrival"),
    ("job = 2ms\n", 6, "write arrive = trace"),
    ("arrive = trace a.trace\njob = 2ms\n", 7, "without a file"),
    ("arrive = closed trace\njob = 2ms 1ms 1\njob = 4ms 1ms 1\n", 4, "job 2 does not say how long it came after"),
    ("change = 1ms\n", 6, "write TIME HINT=VALUE"),
    ("change = 1ms prority=3\n", 6, "unknown hint 'prority'"),
    ("change = 1ms priority=999\n", 6, "change: "),
    ("change = 2ms weight=3\nchange = 1ms weight=4\n", 7, "before the change in front"),
    ("arrive = always 5ms\n", 6, "stands alone"),
    ("[group b]\narrive = after c\ncommands = 1ms\n[group c]\narrive = after b\ncommands = 1ms\n", 7,
     "follows itself, by others"),
    ("devices = gup\n", 6, "did you mean 'gpu'?"),
    ("devices = gpu gpu\n", 6, "stands there twice"),
    ("devices =\n", 6, "there is no value"),
    ("priority = 300\n", 6, "priority: "),
    ("priority = urgent\n", 6, "priority: "),
    ("cpu = 0\ncommands = cpu\n", 7, "commands: there is no time"),
    ("cpu = 1024\n", 6, "cpu: '1024' is out of range"),
    ("cpu-priority = -1\n", 6, "cpu-priority: '-1' is out of range"),
    ("user = 0\n", 6, "user: '0' is out of range"),
    ("commands = cpu 1ms\n", 4, "group 'a' computes, and has no cpu"),
    ("spins = yes\n", 4, "group 'a' spins, and has no cpu"),
    ("deadline = soon\n", 6, "'soon' is not a time"),
    ("start = 5s\nstop = 4s\n", 4, "stops before it starts"),
    ("[group b]\n", 6, "has no commands"),
    ("[group b]\ncommands = pause 1ms\n", 6, "has no commands"),
    ("[policy fair]\nslcie = 5\n", 7, "did you mean 'slice'?"),
    ("[policy fiar]\nslice = 5\n", 7, "no policy 'fiar'"),
    ("[workload]\npolicy = fiar\n", 7, "did you mean 'fair'?"),
    ("[workload]\npolicy = fair slice=0\n", 7, "out of range"),
    ("[workload]\nduration = 0\n", 7, "must not be 0"),
    ("[workload]\nwarmup = 3s\n", 0, "warm-up is as long"),
    ("memory = 4Q\n", 6, "memory: '4Q' is no size"),
    ("memory = -1\n", 6, "memory: '-1' is no size"),
    ("memory = 1.G\n", 6, "memory: '1.G' is no size"),
    ("memory = 0\n", 6, "must not be less than 1"),
    ("memory = 2000T\n", 6, "more than 1024T"),
    ("memory = 99999999999999999999999999\n", 6, "more than 1024T"),
    ("memory = 4G\n", 4, "has memory, and no device of it has"),
    ("working-set = 4G\n", 4, "has no memory to which that could apply"),
    ("dirty = 101\n", 6, "dirty: '101' is out of range"),
    ("memry = 4G\n", 6, "did you mean 'memory'?"),
    ("[memory]\nreserve = 1G\n", 6, "[memory] without a device that has memory"),
    ("[memory]\npolicy = jot\n", 7, "did you mean 'jit'?"),
    ("[memory]\npolicy = best of all\n", 7, "policies of memory are jit, opt, lru, whole, none"),
    ("[memory]\nreserve = little\n", 7, "reserve: 'little' is no size"),
    ("[memory]\noverteim = no\n", 7, "did you mean 'overtime'?"),
    ("[memry]\n", 6, "did you mean [memory]?"),
    ("[device m]\nlink-in = 40\n", 7, "bytes a second: 55GB"),
    ("[device m]\nmemory = 8G\n[group b]\ndevices = m\ncommands = 1ms\nmemory = 4G\nworking-set = 5G\n", 8,
     "the working set of group 'b' is larger than its memory"),
    ("[device m]\nmemory = 8G\n[group b]\ndevices = m\ncommands = 1ms\nmemory = 9G\n", 8,
     "more memory than its limit, or the device"),
    ("[device m]\nmemory = 8G\n[group b]\ndevices = m\ncommands = 1ms\nmemory = 4G\nlimit = 3G\n", 8,
     "more memory than its limit"),
    ("[device m]\nmemory = 8G\nhost = 3G\n[group b]\ncount = 3\ndevices = m\ncommands = 1ms\nmemory = 4G\n", 9,
     "does not fit into device and host together"),
    ("[device m]\nmemory = 8G\ncontext = 1G\n[group b]\ncount = 8\ndevices = m\ncommands = 1ms\nmemory = 1G\n", 9,
     "contexts and the reserve leave no memory"),
    ("[device m]\nmemory = 8G\n[group b]\ncount = 2\ndevices = m\ncommands = 1ms\nmemory = 4G\nrequest = 4G\n", 8,
     "requests more than device 'm' has for it"),
    ("[device m]\nmemory = 8G\n[group b]\ncount = 1000\ndevices = m\ncommands = 1ms\nmemory = 1M\n", 8,
     "more than 512 groups with memory"),
    ("count = 1000000\n[device big]\ncount = 100\n[group b]\ntogether = yes\ncount = 100000\ncommands = 1ms\n", 0,
     "machines = N"),
]


# Beside a device "gpu" in a JSON workload: the path of the mistake, and what is said.
BAD_JSON = [
    ("grup", "unknown section 'grup'", {"grup": {}}),
    ("group", "this is no object", {"group": 5}),
    ("group.a.spacing", "'spacing' belongs into [device NAME]", {"group": {"a": {"spacing": 1}}}),
    ("group.a.comands", "did you mean 'commands'?", {"group": {"a": {"comands": "1ms"}}}),
    ("group.a.commands[1]", "there is no time", {"group": {"a": {"commands": ["1ms", "5 x"]}}}),
    ("group.a.commands[0]", "this is no value", {"group": {"a": {"commands": [None]}}}),
    ("group.a.queue", "is not a whole number", {"group": {"a": {"queue": 1.5}}}),
    ("group.a.together", "neither yes nor no", {"group": {"a": {"together": 2}}}),
    ("group.a.arrive", "there is no group 'b'", {"group": {"a": {"commands": 1, "arrive": "after b"}}}),
    ("group.a.devices", "did you mean 'gpu'?", {"group": {"a": {"commands": 1, "devices": ["gup"]}}}),
    ("group.a", "has no commands", {"group": {"a": {}}}),
    ("group.a", "this is no object", {"group": {"a": []}}),
    ("group.a b", "is no name", {"group": {"a b": {}}}),
    ("device." + "x" * 60, "too long", {"device": {"x" * 100: {}}}),
    ("policy.fair.slcie", "did you mean 'slice'?", {"policy": {"fair": {"slcie": 5}}}),
    ("workload.policy", "did you mean 'fair'?",
     {"workload": {"policy": "fiar"}, "group": {"a": {"commands": 1}}}),
]


def as_json(path):
    """An INI workload's sections and keys."""
    out, at = {}, None
    with open(path, encoding="ascii") as f:
        lines = [line.split("#")[0].strip() for line in f]
    for line in filter(None, lines):
        if line[0] == "[":
            kind, _, name = line[1:-1].partition(" ")
            at = out.setdefault(kind, {}).setdefault(name, {}) if name else out.setdefault(kind, {})
            continue
        key, _, value = (part.strip() for part in line.partition("="))
        value = int(value) if value.isdigit() else value == "yes" if value in ("yes", "no") else value
        if key == "commands":
            at.setdefault(key, []).extend(step.strip() for step in str(value).split(","))
        else:
            at[key] = value.split() if key == "devices" else value
    return out


class Simulate(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def write(self, name, text):
        path = os.path.join(self.dir.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def call(self, *args, status=0):
        p = subprocess.run([FERMATA_LAB, "sim", *args], timeout=120, capture_output=True, text=True, check=False)
        self.assertEqual(p.returncode, status, p.stderr)
        return p

    def json(self, *args):
        return json.loads(self.call(*args, "--json").stdout)

    def test_mistakes_are_told(self):
        for text, line, reason in BAD:
            path = self.write("bad.ini", BASE + text)
            p = self.call(path, status=2)
            where = f"fermata-lab: {path}:{line}: " if line else f"fermata-lab: {path}: "
            self.assertTrue(p.stderr.startswith(where), (text, p.stderr))
            self.assertIn(reason, p.stderr, text)
            self.assertEqual(p.stdout, "")

    def test_json_is_as_good(self):
        for name in ("inference", "pipeline", "tenants", "fleet", "memory"):
            ini = os.path.join(EXAMPLES, name + ".ini")
            path = self.write("workload", json.dumps(as_json(ini), indent=1))
            args = ("--duration", "3s", "--machines", "1", "--json")
            self.assertEqual(self.call(path, *args).stdout, self.call(ini, *args).stdout, name)

    def test_mistakes_in_json_are_told(self):
        for where, reason, parts in BAD_JSON:
            path = self.write("bad.json", json.dumps({"device": {"gpu": {}}, **parts}))
            p = self.call(path, status=2)
            self.assertTrue(p.stderr.startswith(f"fermata-lab: {path}: {where}: "), (where, p.stderr))
            self.assertIn(reason, p.stderr)
            self.assertEqual(p.stderr.count("queue"), where.count("queue"))
        for text, line, reason in (("{\n\"device\": {,}}", 2, "string or '}' expected"), ("{\n}\n5", 3, "end of file"),
                                   ('{"a": {},\n"a": {}}', 2, "duplicate")):
            p = self.call(self.write("bad", text), status=2)
            self.assertTrue(p.stderr.startswith(f"fermata-lab: {self.dir.name}/bad:{line}: "), p.stderr)
            self.assertIn(reason, p.stderr)
        self.assertIn("there is no device", self.call(self.write("bad", "{}"), status=2).stderr)
        self.assertIn("invalid token", self.call(self.write("bad.json", "[group a]"), status=2).stderr)
        self.assertIn("this is no object", self.call(self.write("bad.json", "[]"), status=2).stderr)

    def test_what_is_not_text(self):
        """A line without an end is not read to its end, and what a file says does not reach the terminal's state."""
        with subprocess.Popen([FERMATA_LAB, "sim", "/dev/stdin"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            try:
                p.stdin.write(b"#" * 100000) # and it goes on
                p.stdin.flush()
            except BrokenPipeError:
                pass
            self.assertEqual(p.wait(120), 2)
            self.assertIn(b"/dev/stdin:1: line too long", p.stderr.read())
        for text in (BASE + "commands = \x1b[31m\n",
                     json.dumps({"device": {"gpu": {}}, "group": {"a": {"commands": "\x1b[31m\n\u009b"}}})):
            p = self.call(self.write("bad", text), status=2)
            self.assertIn("?[31m", p.stderr)
            self.assertRegex(p.stderr, r"^fermata-lab: [ -~]+\n  hint: [ -~]+\n$")

    def test_blanks_and_ends_of_lines(self):
        for text in (BASE.replace("\n", "\r\n"), "\ufeff  \t" + BASE, BASE.replace("\n", "\n \t"), BASE + "  ", BASE.rstrip()):
            path = os.path.join(self.dir.name, "blanks.ini")
            with open(path, "w", encoding="utf-8", newline="") as f:
                f.write(text)
            self.assertEqual(self.json(path)["groups"][0]["jobs"], 666, text)

    def test_nothing_is_told_too(self):
        for text, reason in (("", "there is no device"), ("[device gpu]\n", "there is no group"),
                             ("count = 5\n", "stands before the first section")):
            self.assertIn(reason, self.call(self.write("bad.ini", text), status=2).stderr)
        self.assertIn("No such file", self.call(os.path.join(self.dir.name, "none.ini"), status=1).stderr)
        self.assertIn("cannot be read: Is a directory", self.call(self.dir.name, status=1).stderr)
        self.assertIn("no file given", self.call(status=2).stderr)

    def test_threads_do_not_matter(self):
        path = os.path.join(EXAMPLES, "fleet.ini")
        args = (path, "--machines", "12", "--duration", "10s", "--csv")
        one, three = self.call(*args, "-j", "1"), self.call(*args, "-j", "3")
        self.assertEqual(one.stdout, three.stdout)
        self.assertNotEqual(one.stdout, self.call(*args, "--seed", "2").stdout)

    def test_same_bytes_everywhere(self):
        """What this machine says is what another has said: tests/data/sim. After a change of a policy or of the core
        that is meant, run this file with --write."""
        for name in ("inference", "pipeline", "tenants", "memory"):
            known = os.path.join(SOURCE, "tests", "data", "sim", name)
            svg, trace = os.path.join(self.dir.name, "line.svg"), os.path.join(self.dir.name, "trace.fmt")
            out = self.call(os.path.join(EXAMPLES, name + ".ini"), "--duration", "5s", "--json", "--force", "--svg", svg,
                            "--until", "1.2s", "--trace", trace).stdout
            with open(svg, "rb") as f:
                out += hashlib.sha256(f.read()).hexdigest() + "\n"
            if sys.byteorder == "little": # as the machine that wrote what is known
                with open(trace, "rb") as f:
                    out += hashlib.sha256(f.read()).hexdigest() + "\n"
            if "--write" in sys.argv:
                with open(known, "w", encoding="utf-8") as f:
                    f.write(out)
            with open(known, encoding="utf-8") as f:
                text = f.read()
            self.assertEqual(text if sys.byteorder == "little" else text[:-65], out, name)

    def test_forecasts(self):
        """They say what they came to, in each form, and nothing else changes."""
        path = os.path.join(EXAMPLES, "tenants.ini")
        args = (path, "--duration", "5s", "--policy", "round-robin")
        plain, told = self.json(*args), self.json(*args, "--forecast")
        told_of = [d.pop("forecast") for d in told["devices"]]
        self.assertEqual(plain, told)
        self.assertEqual(set(told_of[0]), {"turns", "right", "wrong", "mean_off_ns"})
        self.assertGreater(told_of[0]["right"], 1000)
        self.assertEqual(told_of[0]["wrong"], 0)
        self.assertGreater(told_of[0]["turns"], told_of[0]["right"])
        row = self.call(*args, "--forecast").stdout.splitlines()[-1].split()
        self.assertEqual([row[0], *map(int, row[1:4])],
                         ["gpu", told_of[0]["turns"], told_of[0]["right"], told_of[0]["wrong"]])
        row = self.call(*args, "--forecast", "--csv").stdout.splitlines()[-1].split(",")
        self.assertEqual([row[0], *map(int, row[1:4])],
                         ["gpu", told_of[0]["turns"], told_of[0]["right"], told_of[0]["wrong"]])
        e = self.call(path, "--forecast", "--policy", "heterogeneous-priority", status=2).stderr
        self.assertIn("heterogeneous-priority has no forecast", e)
        self.assertIn("hint:", e)

    def decode(self, *groups, policy="fixed-priority", linger="auto", pause=TOKENS):
        """Of each group the device time of its commands, to all there was, and the 99th percentile of its jobs, ns."""
        path = self.write("decode.ini", (DECODE + "".join(groups)).format(policy=policy, linger=linger, pause=pause))
        return {g["name"]: (g["served_ns"] / 10e9, g["response"]["p99_ns"]) for g in self.json(path)["groups"]}

    def test_short_pauses_keep_the_device(self):
        """What a decoder pauses between its tokens is shorter than a hand-over, mostly."""
        alone = {**self.decode(DECODER), **self.decode(TRAINER)}
        both = self.decode(DECODER, TRAINER)
        self.assertGreater(both["decode"][0], 0.97 * alone["decode"][0])
        self.assertLess(both["decode"][1], 1.15 * alone["decode"][1])
        self.assertLess(self.decode(DECODER, TRAINER, linger="100us")["decode"][0], 0.7 * alone["decode"][0])
        for policy in ("fair slice=20", "round-robin slice=20"):
            both = self.decode(DECODER, TRAINER, policy=policy)
            to = [both[name][0] / alone[name][0] for name in ("decode", "train")]
            self.assertGreater(sum(to), 0.93, policy)
            if policy.startswith("fair"):
                self.assertLess(abs(to[0] - to[1]), 0.03, to)
            else:
                stopped = self.decode(DECODER, TRAINER, policy=policy, linger="100us")
                self.assertGreater(both["decode"][0], 3 * stopped["decode"][0], "turns ended in pauses")

    def test_long_pauses_do_not(self):
        """Of an urgent program that pauses for 5 ms the other has as much as if nothing had ever been kept."""
        learnt, never = (self.decode(DECODER, TRAINER, pause="uniform 4ms 6ms", linger=linger) for linger in ("auto", "0"))
        self.assertGreater(learnt["train"][0], 0.995 * never["train"][0])
        self.assertGreater(learnt["train"][0], 0.7)

    def test_the_policy_matters(self):
        path = os.path.join(EXAMPLES, "inference.ini")
        late = {p: self.json(path, "--policy", p)["groups"][0]["late"] for p in ("fixed-priority", "fifo", "fair slice=20")}
        self.assertLess(late["fixed-priority"], 30)
        self.assertGreater(late["fifo"], 20 * late["fixed-priority"])
        self.assertGreater(late["fair slice=20"], 5 * late["fixed-priority"])

    def test_users_come_first(self):
        """As many groups as one likes, and half of the device."""
        text = ("[workload]\nduration = 5s\n[device gpu]\n[group crowd]\ncount = 200\n{}commands = 2ms\n"
                "[group one]\n{}commands = 2ms\n")
        for policy in ("fair", "bandwidth", "round-robin"):
            for users in (True, False):
                path = self.write("users.ini", text.format(*("user = 1\n", "user = 2\n") if users else ("", "")))
                crowd, one = self.json(path, "--policy", policy)["groups"]
                part = one["served_ns"] / (crowd["served_ns"] + one["served_ns"])
                low, high = (0.48, 0.52) if users and policy != "round-robin" else (0.003, 0.007)
                self.assertTrue(low <= part <= high, f"{policy}, users {users}: {part}")

    def test_numbers_agree(self):
        path = os.path.join(EXAMPLES, "tenants.ini")
        r = self.json(path)
        served = sum(g["served_ns"] for g in r["groups"])
        self.assertEqual(served, sum(d["served_ns"] for d in r["devices"]))
        gold = r["groups"][0]
        self.assertEqual(gold["name"], "gold")
        self.assertGreater(gold["share_least_ppm"], 490000)
        rows = list(csv.reader(self.call(path, "--csv").stdout.splitlines()))
        self.assertEqual([int(row[4]) for row in rows[1:6]], [g["jobs"] for g in r["groups"]])
        self.assertIn("everywhere", self.call(path).stdout)

    def test_speed_is_told(self):
        self.assertRegex(self.call(os.path.join(EXAMPLES, "inference.ini")).stderr,
                         r"^fermata-lab: \d+ events in [0-9.]+ s, [0-9.]+ million for each second of processor, \d+ MiB\n$")

    def test_time_line(self):
        svg = os.path.join(self.dir.name, "line.svg")
        self.call(os.path.join(EXAMPLES, "pipeline.ini"), "--svg", svg, "--from", "600ms", "--until", "700ms")
        doc = xml.dom.minidom.parse(svg)
        texts = [t.firstChild.data for t in doc.getElementsByTagName("text")]
        self.assertIn("edf", texts)
        self.assertIn("detect gpu", texts)
        self.assertIn("background.1 npu", texts)
        self.assertGreater(len(doc.getElementsByTagName("rect")), 20)
        # A picture has limits, and says so.
        self.call(os.path.join(EXAMPLES, "fleet.ini"), "--machines", "1", "--duration", "20s", "--force", "--svg", svg,
                  "--until", "20s")
        self.assertLess(os.path.getsize(svg), 4 << 20)
        self.assertIn("not all of it", xml.dom.minidom.parse(svg).toxml())
        p = self.call(os.path.join(EXAMPLES, "pipeline.ini"), "--force", "--svg", svg, "--from", "2s", "--until", "1s", status=2)
        self.assertIn("after it begins", p.stderr)
        self.assertNotIn("events", p.stderr) # nothing was simulated for nothing

    def test_nothing_is_a_time(self):
        """Of --duration, --from and --until 0 is not the default."""
        path, svg = self.write("base.ini", BASE + "[workload]\nwarmup = 1s\n"), os.path.join(self.dir.name, "line.svg")
        self.assertIn("a duration of 0", self.call(path, "--duration", "0", status=2).stderr)
        self.assertIn("after it begins", self.call(path, "--svg", svg, "--until", "0", status=2).stderr)
        for args, first in (((), "1.00 s"), (("--from", "0"), "0 us")):
            self.call(path, "--force", "--svg", svg, *args)
            texts = [t.firstChild.data for t in xml.dom.minidom.parse(svg).getElementsByTagName("text")]
            self.assertEqual(texts[1], first)

    def test_sums_of_times_fit(self):
        """What all devices, or groups, of a section did adds up to a number that there is, or nothing is simulated."""
        def text(seconds, groups=1):
            return self.write("long.ini", f"[workload]\nduration = {seconds}s\n[device gpu]\ncount = 100000\n"
                              f"[group a]\ncount = {groups}\narrive = every 2s\ncommands = 1ms\nstop = 3s\n")

        for path, args in ((text(93000), ()), (text(1), ("--duration", "93000s")), (text(3600), ("--machines", "26")),
                           (text(9300, 1000000), ())):
            p = self.call(path, *args, status=2)
            self.assertIn("more than 292 years together", p.stderr)
        self.assertEqual(self.json(text(90000))["devices"][0]["time_ns"], 9 * 10**18)

    def test_a_picture_that_cannot_be_drawn(self):
        p = self.call(self.write("base.ini", BASE), "--svg", "/dev/full", status=1)
        self.assertIn("/dev/full: cannot write: No space left", p.stderr)
        self.assertIn("GROUP", p.stdout) # the summary is not lost with it

    def test_recorded_arrivals(self):
        self.write("a.trace", "# when, how long\n1ms\n1ms 5ms # both\n\n20ms\n")
        path = self.write("trace.ini", BASE + "arrive = trace a.trace\n")
        g = self.json(path)["groups"][0]
        self.assertEqual((g["jobs"], g["served_ns"]), (3, 11000000))
        for text, line, reason in (("1ms\nsoon\n", 2, "not a time"), ("1ms\n2ms\0 soon\n", 2, "this is not text"),
                                   ("2ms\n1ms\n", 2, "before the arrival"),
                                   ("1ms 2ms 3ms\n", 1, "'3ms' is not a whole number"),
                                   ("1ms 2ms 3 4ms 5ms\n", 1, "more than a time, a length, commands and a pause")):
            self.write("a.trace", text)
            p = self.call(path, status=2)
            self.assertIn(f"a.trace:{line}: ", p.stderr)
            self.assertIn(reason, p.stderr)

    def test_recorded_jobs(self):
        """They come when they came, or so long after the end of the one before; of several commands each, so that they
        can be stopped; and hints change on the way."""
        path = self.write("jobs.ini", """[workload]
            duration = 1s
            [device gpu]
            [group fast]
            arrive = closed trace
            job = 100ms 10ms 10
            job = 150ms 3333333ns 7 40ms
            job = 190ms 2ms 1 30ms
            [group slow]
            arrive = trace
            job = 0 500ms 500
            change = 120ms priority=high
            """)
        fast, slow = self.json(path)["groups"]
        self.assertEqual((fast["jobs"], fast["served_ns"]), (3, 15333333))
        self.assertEqual((slow["jobs"], slow["served_ns"]), (1, 500000000))
        # From 120 ms on `fast' has to wait for the end of `slow': so it is with its second job, and not with the third.
        self.assertGreater(fast["response"]["max_ns"], 300000000)
        self.assertLess(fast["response"]["min_ns"], 3000000)
        open_ = self.json(path, "--arrivals", "open")["groups"][0]
        self.assertEqual((open_["jobs"], open_["served_ns"]), (3, 15333333))
        self.assertGreater(open_["response"]["p50_ns"], 300000000)
        self.assertIn("open or closed", self.call(path, "--arrivals", "ajar", status=2).stderr)
        self.assertIn("job 2 does not say how long", self.call(self.write("j.ini", """[device gpu]
            [group a]
            arrive = trace
            job = 1ms 1ms
            job = 2ms 1ms"""), "--arrivals", "closed", status=2).stderr)

    def test_a_policy_of_ones_own(self):
        so = os.path.join(self.dir.name, "first.so")
        source = self.write("first.c", """
            #include <fermata/policy.h>
            static struct fm_policy_group *all[64];
            static unsigned n;
            static int join(void *s, struct fm_policy_group *g, uint64_t now) { all[n++ % 64] = g; return 0; }
            static void decide(void *s, uint64_t now, struct fm_policy_answer *a) {
                for (unsigned i = 0; i < n && !a->n; i++)
                    if (all[i]->ready)
                        a->run[a->n++] = all[i];
            }
            const struct fm_policy fm_policy = { .abi = FM_POLICY_ABI, .size = sizeof(struct fm_policy),
                .summary = "whoever came first", .join = join, .decide = decide };
            """)
        subprocess.run(["cc", "-shared", "-fPIC", "-I", os.path.join(SOURCE, "include"), source, "-o", so], check=True)
        path = os.path.join(EXAMPLES, "inference.ini")
        args = (path, "--duration", "3s", "--policy", so, "--json")
        self.assertEqual(self.call(*args).stdout, self.call(*args).stdout)
        self.assertEqual(json.loads(self.call(*args).stdout)["policy"], "first")
        p = self.call(path, "--policy", os.path.join(self.dir.name, "none.so"), status=1)
        self.assertIn("none.so", p.stderr)


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if a != "--write"])
