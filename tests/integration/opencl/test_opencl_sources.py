#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that are made of binaries, as PyOpenCL's are from its second run on: they have level 3 where Fermata saw them being
built, and say why they do not elsewhere. What is kept is believed only if the user alone can have written it."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, Skip, check, eventually, foreign, main, need, need_level_3

PYTHON = "/usr/bin/python3"  # the one that the distribution's PyOpenCL belongs to
WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyopencl_cached.py")
CALL = "clEnqueueNDRangeKernel (from binary)"


class Runs:
    """One user's, with caches of their own."""

    def __init__(self, stack):
        need(PYTHON)
        if subprocess.run([PYTHON, "-c", "import pyopencl"], capture_output=True, check=False).returncode:
            raise Skip("python3-pyopencl is not installed")
        self.fermata = Fermata(stack)
        self.cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        self.sources = os.path.join(self.cache, "fermata", "sources")
        self.fermata.env.update(XDG_CACHE_HOME=self.cache, FERMATA_GUARD_US="0", PYTHONWARNINGS="ignore")
        self.fermata.env.pop("PYOPENCL_NO_CACHE", None)

    def run(self, **env):
        """One run: is it guarded, and what is counted of its calls."""
        before = dict(self.fermata.env)
        self.fermata.env.update(env)
        p = self.fermata.program(foreign([PYTHON, WORK]), cls=Program)
        self.fermata.env = before
        p.line("ready")
        eventually("the daemon knows it", lambda: self.fermata.group(p.pid))
        for _ in range(3):
            after = p.mark()
            p.tell("launch")
            check(p.line("right|wrong", after) == "right", "a wrong result")
        group = self.fermata.group(p.pid)
        q = group["queues"][0]
        need_level_3(3 in q["levels"])
        p.p.stdin.close()
        check(p.wait() == 0, "it did not end well")
        return q["level"] == 3, {c["call"]: c["undivided"] for c in group["calls"]}

    def guarded(self, what, **env):
        level_3, calls = self.run(**env)
        check(level_3 and not calls, f"{what}: level 3 is {level_3}, calls {calls}")

    def not_guarded(self, what):
        level_3, calls = self.run()
        check(not level_3 and list(calls) == [CALL] and calls[CALL] > 0, f"{what}: level 3 is {level_3}, calls {calls}")

    def files(self):
        return [os.path.join(self.sources, n) for n in os.listdir(self.sources) if not n.startswith(".")]


def second_run(stack):
    """PyOpenCL has built it, then it has it from its cache; and what happens without what Fermata has kept."""
    runs = Runs(stack)
    runs.guarded("built")
    check(len(runs.files()) == 1, f"kept: {runs.files()}")
    runs.guarded("from PyOpenCL's cache")
    runs.guarded("once more")
    shutil.rmtree(runs.sources)
    runs.not_guarded("Fermata has not seen it being built")
    runs.guarded("the remedy", PYOPENCL_NO_CACHE="1")


def first_run_without_us(stack):
    """It was built natively before."""
    runs = Runs(stack)
    r = subprocess.run([PYTHON, WORK], env=runs.fermata.env, input="launch\n", capture_output=True, text=True, check=True,
                       timeout=240)
    check("right" in r.stdout, f"{r}")
    check(not os.path.exists(runs.sources), "something was kept")
    runs.not_guarded("built natively")


def not_believed(stack):
    """A file that is cut, changed, or not the user's alone; a folder in which others may write."""
    runs = Runs(stack)
    runs.guarded("built")
    path, = runs.files()
    with open(path, "rb") as f:
        good = f.read()

    def put(data, mode=0o600):
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, mode)

    at = good.index(b"MULTIPLIER=")
    for what, data in (("cut", good[:-7]), ("empty", b""), ("no head", good[:20]), ("longer", good + b"x"),
                       ("changed", good[:at] + b"N" + good[at + 1:])):
        put(data)
        runs.not_guarded(what)
        check(not os.path.exists(path), f"{what}: it is still there")
    put(good, 0o666)
    runs.not_guarded("others may write it")
    put(good)
    runs.guarded("as it was")
    os.chmod(runs.sources, 0o777)
    runs.not_guarded("others may write there")
    check(os.path.exists(path), "it was removed from a folder that is not the user's")


if __name__ == "__main__":
    main(second_run, first_run_without_us, not_believed)
