#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab study`: the same numbers with any number of threads and after any interruption, and those of docs/studies."""
import os
import re
import resource
import signal
import subprocess
import tempfile
import unittest
import xml.dom.minidom

FERMATA_LAB = os.path.join(os.environ["BUILD"], "bin", "fermata-lab")
STUDIES = os.path.join(os.environ["SOURCE"], "docs", "studies")


class Study(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def call(self, *args, status=0, out="x"):
        p = subprocess.run([FERMATA_LAB, "study", *args, "--out", os.path.join(self.dir.name, out)], timeout=280,
                           capture_output=True, text=True, check=False)
        self.assertEqual(p.returncode, status, p.stderr)
        return p

    def path(self, name, out="x"):
        return os.path.join(self.dir.name, out, name)

    def read(self, name, out="x"):
        with open(self.path(name, out), encoding="utf-8") as f:
            return f.read()

    def test_list(self):
        p = self.call()
        self.assertEqual(re.findall(r"^(g\S+-\S+)", p.stdout, re.M),
                         [f"gcaps-{n}{c}" for n in (8, 9) for c in "abcdef"] + ["gedf-4", "gedf-8", "gpu-edf"])
        self.assertFalse(os.path.exists(self.path("")))

    def test_threads_do_not_matter(self):
        for threads, out in (("1", "one"), ("3", "three")):
            p = self.call("gcaps-8f", "--sets", "50", "-j", threads, out=out)
            self.assertEqual(p.stderr, "")
        self.assertEqual(self.read("gcaps-8f.csv", "one"), self.read("gcaps-8f.csv", "three"))
        self.assertEqual(self.read("gcaps-8f.svg", "one"), self.read("gcaps-8f.svg", "three"))
        self.assertEqual(sorted(os.listdir(self.path("", "three"))), ["gcaps-8f.csv", "gcaps-8f.svg"])

    def test_seed_matters(self):
        self.call("gcaps-9a", "--sets", "60", "--seed", "1", out="one")
        self.call("gcaps-9a", "--sets", "60", "--seed", "2", out="two")
        self.assertNotEqual(self.read("gcaps-9a.csv", "one").splitlines()[2:],
                            self.read("gcaps-9a.csv", "two").splitlines()[2:])

    def test_goes_on_where_it_was_ended(self):
        self.call("gedf-4", "--sets", "30", out="whole")
        whole = self.read("gedf-4.csv", "whole")
        lines = whole.splitlines(keepends=True)
        os.mkdir(self.path("", "half"))
        # Two points, one that says what cannot be, and one that was cut off.
        cut = "".join(lines[:2] + [lines[4], lines[7]]) + "3,30,31,0,0,0,0,0\n" + lines[9][:-2]
        with open(self.path("gedf-4.part", "half"), "w", encoding="utf-8") as f:
            f.write(cut)
        p = self.call("gedf-4", "--sets", "30", out="half")
        self.assertIn("2 of 16 points", p.stderr)
        self.assertEqual(self.read("gedf-4.csv", "half"), whole)
        self.assertFalse(os.path.exists(self.path("gedf-4.part", "half")))
        # What is there is believed: that it is not done again shows in a number that was changed.
        changed = re.sub(r"(?m)^1,30,30,", "1,30,7,", cut)
        with open(self.path("gedf-4.part", "half"), "w", encoding="utf-8") as f:
            f.write(changed + "\n1,30,7,7,7,7,7,7\n")
        self.call("gedf-4", "--sets", "30", "--force", out="half")
        self.assertIn("\n1,30,7,", self.read("gedf-4.csv", "half"))

    def test_of_another_seed_nothing_is_taken(self):
        self.call("gedf-4", "--sets", "20", out="one")
        os.rename(self.path("gedf-4.csv", "one"), self.path("gedf-4.part", "one"))
        p = self.call("gedf-4", "--sets", "20", "--seed", "5", "--force", out="one")
        self.assertEqual(p.stderr, "")
        self.call("gedf-4", "--sets", "20", "--seed", "5", out="two")
        self.assertEqual(self.read("gedf-4.csv", "one"), self.read("gedf-4.csv", "two"))

    def test_pictures_are_xml(self):
        self.call("gedf-4", "gcaps-9b", "--sets", "10")
        for name, curves in (("gedf-4", 6), ("gcaps-9b", 4)):
            svg = xml.dom.minidom.parseString(self.read(name + ".svg"))
            lines = svg.getElementsByTagName("polyline")
            self.assertEqual(len(lines), curves)
            for line in lines:
                for pair in line.getAttribute("points").split():
                    x, y = map(float, pair.split(","))
                    self.assertTrue(0 <= x <= 760 and 0 <= y <= 420)

    def test_gains_are_printed(self):
        p = self.call("gedf-4", "--sets", "200")
        self.assertRegex(p.stdout, r"on-GPU +2\.8\d+ +-")
        gain = float(re.search(r"on-CPU \(floor\) +\S+ +(\S+)%", p.stdout)[1])
        self.assertTrue(9 < gain < 15)

    def test_committed_results_are_those_of_this_command(self):
        for name in ("gcaps-9a", "gcaps-8b", "gpu-edf"):
            self.call(name)
            for ending in (".csv", ".svg"):
                with open(os.path.join(STUDIES, name + ending), encoding="utf-8") as f:
                    self.assertEqual(f.read(), self.read(name + ending))

    def test_the_cost_of_a_decision(self):
        self.call("gedf-4", "--sets", "40", "--decision", "165us", out="one")
        rows = [line.split(",") for line in self.read("gedf-4.csv", "one").splitlines()[2:]]
        self.assertIn("--decision 165000ns", self.read("gedf-4.csv", "one"))
        for r in rows:  # as the paper's
            self.assertEqual((r[6], r[7]), (r[3], r[4]))
        self.call("gedf-4", "--decision", "2s", status=2)

    def test_progress_on_a_terminal(self):
        ours, theirs = os.openpty()
        p = subprocess.run([FERMATA_LAB, "study", "gcaps-9a", "--sets", "20", "--out", self.path("")], stderr=theirs,
                           stdout=subprocess.DEVNULL, timeout=250, check=True)
        os.close(theirs)
        shown = b""
        while b"100%" not in shown:
            shown += os.read(ours, 4096)
        os.close(ours)
        self.assertEqual(p.returncode, 0)
        self.assertIn(b"gcaps-9a  [####", shown)
        self.assertIn(b" 10%", shown)

    def test_a_full_disk_is_told(self):
        """As far as the command knows; what it had written of the file is not left."""
        def small():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

        p = subprocess.run([FERMATA_LAB, "study", "gcaps-8f", "--sets", "10", "-o", self.dir.name], timeout=280,
                           capture_output=True, text=True, check=False, preexec_fn=small)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn("gcaps-8f: File too large", p.stderr)
        self.assertEqual(os.listdir(self.dir.name), [])

    def test_usage(self):
        for args in (("nothing",), ("gedf-4", "--sets", "0"), ("gedf-4", "-j", "0"), ("gedf-4", "--seed", "x")):
            self.call(*args, status=2)
        open(self.path("", "file").rstrip("/"), "w", encoding="ascii").close()
        p = self.call("gedf-4", "--sets", "1", status=1, out="file")
        self.assertIn("file", p.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
