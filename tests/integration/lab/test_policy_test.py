#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab policy-test`: every policy keeps what it promises; policies by users are tried like those that are built in, and a
bad one is told apart from a good one."""
import json
import os
import subprocess
import tempfile
import unittest

FERMATA_LAB = os.path.join(os.environ["BUILD"], "bin", "fermata-lab")
SOURCE = os.environ["SOURCE"]

# Turns, but for what a macro breaks.
TURNS = """
#include <fermata/policy.h>
#include <unistd.h>
#define MAX 2048
struct state { struct fm_policy_group *ready[MAX]; unsigned n; uint64_t until; };
static void ready(void *p, struct fm_policy_group *g, uint64_t now)
{
	struct state *s = p;
	s->ready[s->n++] = g;
}
static void idle(void *p, struct fm_policy_group *g, uint64_t now)
{
	struct state *s = p;
	unsigned i = 0;
	while (s->ready[i] != g)
		i++;
	if (!i)
		s->until = 0;
	for (s->n--; i < s->n; i++)
		s->ready[i] = s->ready[i + 1];
}
static void decide(void *p, uint64_t now, struct fm_policy_answer *a)
{
	struct state *s = p;
	struct fm_policy_group *first = s->ready[0];
#ifdef CRASHES
	if (now > 1000000000)
		_exit(3);
#endif
	if (!s->n)
		return;
#ifndef STICKS
	if (now >= s->until) {
		if (s->until) {
			idle(s, first, now);
			ready(s, first, now);
		}
		s->until = now + 5000000;
	}
#endif
	a->run[a->n++] = s->ready[0];
	a->reason = "its turn";
	a->next = s->until;
#ifdef STICKS
	a->next = FM_POLICY_NEVER;
#endif
#ifdef CROWDS
	if (s->n > 1)
		a->run[a->n++] = s->ready[1];
#endif
}
const struct fm_policy fm_policy = { .abi = FM_POLICY_ABI, .size = sizeof(struct fm_policy), .summary = "turns",
	.state_size = sizeof(struct state), .ready = ready, .idle = idle, .decide = decide };
"""


class PolicyTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def call(self, *args, status=0):
        # Half a minute of the processor's for all policies with TSan, and a busy machine gives it a tenth of one.
        p = subprocess.run([FERMATA_LAB, "policy-test", *args], timeout=900, capture_output=True, text=True, check=False,
                           cwd=self.dir.name)
        self.assertEqual(p.returncode, status, p.stdout + p.stderr)
        return p

    def compile(self, name, *flags):
        source = os.path.join(self.dir.name, name + ".c")
        with open(source, "w", encoding="ascii") as f:
            f.write(TURNS)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", *flags, "-I", os.path.join(SOURCE, "include"), source, "-o",
                        os.path.join(self.dir.name, name + ".so")], check=True)
        return f"./{name}.so"

    def test_all_that_are_built_in(self):
        lines = self.call().stdout.splitlines()
        for name in ("fifo", "fixed-priority aging=2", "heterogeneous-priority", "k-edf k=1", "mlfq"):
            self.assertTrue(any(line.startswith(name + ": ") and line.endswith(" 0 broken") for line in lines), name)
        self.assertEqual(self.call().stdout.splitlines(), lines)

    def test_one_that_is_built_in(self):
        out = self.call("bandwidth").stdout
        self.assertIn("reservations", out)
        self.assertRegex(out, r"bandwidth: \d+ properties in \d+ scenarios, 0 broken\n$")
        trials = json.loads(self.call("k-edf", "--json").stdout)
        self.assertEqual([t["policy"] for t in trials], ["k-edf k=1", "k-edf"])
        self.assertTrue(all(f["kept"] for t in trials for f in t["findings"]))

    def test_the_example_of_the_manual_page(self):
        with open(os.path.join(SOURCE, "man", "fermata-lab-policy-test.1"), encoding="ascii") as f:
            line = next(line for line in f if line.startswith("fermata\\-lab policy\\-test fair "))
        self.assertIn(" 0 broken", self.call(*line.replace("\\-", "-").split()[2:]).stdout)

    def test_promises_that_it_does_not_make(self):
        self.assertIn("BROKEN", self.call("round-robin", "--promise", "priority", status=3).stdout)
        trials = json.loads(self.call("fifo", "--promise", "alone", "--json", status=3).stdout)
        self.assertTrue(trials[0]["broken"])

    def test_ones_own(self):
        turns = self.compile("turns")
        promise = ("--promise", "conserves,alone,calm,equal,serves")
        self.call(turns, *promise)
        for fault, prop in (("STICKS", "equal"), ("CROWDS", "alone")):
            out = self.call(self.compile(fault.lower(), "-D" + fault), *promise, "--json", status=3).stdout
            broken = {f["property"] for f in json.loads(out)[0]["findings"] if not f["kept"]}
            self.assertIn(prop, broken)
        p = self.call(self.compile("crashes", "-DCRASHES"), status=1)
        self.assertIn("policy crashes: ", p.stderr)

    def test_mistakes(self):
        for args, status, reason in ((("fiar",), 2, "did you mean 'fair'?"), (("./none.so",), 1, "none.so"),
                                     (("./Upper.so",), 2, "lower-case letters"),
                                     (("fair", "slcie=5"), 2, "did you mean 'slice'?"), (("fair", "slice"), 2, "NAME=VALUE"),
                                     (("fair", "--promise", "equl"), 2, "did you mean 'equal'?"),
                                     (("fair", "--at-once", "9"), 2, "out of range"),
                                     (("fair", "--promise", ""), 2, "nothing is promised"),
                                     (("fair", "--promise", ", ,"), 2, "nothing is promised"),
                                     (("fair", "--promise", 60 * "calm," + "equl"), 2, "did you mean 'equal'?"),
                                     (("--promise", "serves"), 2, "no policy named"), (("--at-once", "2"), 2, "no policy named")):
            self.assertIn(reason, self.call(*args, status=status).stderr)
        self.assertIn("serves", self.call("--list").stdout)


if __name__ == "__main__":
    unittest.main()
