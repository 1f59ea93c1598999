#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs of the distribution under `fermata run`: what they print is what they print natively."""
import hashlib
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import SANITIZE, Fermata, Skip, check, eventually, foreign, long, main, need

# PoCL compiles hashcat's kernels for most of a minute otherwise.
os.environ.setdefault("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # the one that the distribution's PyOpenCL belongs to
AVGBLUR = (
    "ffmpeg -nostdin -hide_banner -loglevel error -init_hw_device opencl=cl -filter_hw_device cl "
    "-f lavfi -i testsrc=duration={}:size=320x240:rate=10 "
    "-vf format=yuv420p,hwupload,avgblur_opencl=sizeX=5,hwdownload,format=yuv420p -f framemd5 -").format


def output(argv, env=None, limit=240):
    r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)
    check(r.returncode == 0, f"{argv}: status {r.returncode}: {r.stderr[-2000:]}")
    return r.stdout


def both(stack, argv, *options, works=True):
    """The outputs of a native run and of one under Fermata, which governs what it does."""
    fermata = Fermata(stack)
    governed = fermata.run_argv(foreign(argv), *options)
    native = output(argv)
    ours = output(governed, env=fermata.env)
    if works:
        eventually(f"{argv}: what it did was governed", lambda: fermata.stats()["governed"] > 0)
    return native, ours


def same(stack, argv, *options, works=True):
    native, ours = both(stack, argv, *options, works=works)
    check(native == ours, f"{argv} prints something else:\n{ours}\ninstead of:\n{native}")
    check(native.strip(), f"{argv} prints nothing")
    return native


def clinfo(stack):
    need("clinfo")
    same(stack, ["clinfo", "--raw"], works=False)  # it only asks


def clpeak(stack):
    """It prints times: the lines are the same, the numbers are not."""
    need("clpeak")
    native, ours = (re.sub(r"[\d.]+ us", "N us", text) for text in both(stack, ["clpeak", "--kernel-latency"]))
    check("N us" in native, f"clpeak measured nothing:\n{native}")
    check(native == ours, f"clpeak prints something else:\n{ours}")


def need_pyopencl():
    need(PYTHON)
    if subprocess.run([PYTHON, "-c", "import pyopencl"], capture_output=True, check=False).returncode:
        raise Skip("python3-pyopencl is not installed")


def pyopencl(stack):
    need_pyopencl()
    same(stack, [PYTHON, os.path.join(HERE, "pyopencl_work.py"), "3"])


@long
def ffmpeg(stack):
    need("ffmpeg")
    frames = same(stack, AVGBLUR(2).split())
    check(len(re.findall(r"^0,", frames, re.M)) == 20, "not 20 frames")


def clblast(stack):
    need("clblast_test_xaxpy")
    text = same(stack, ["clblast_test_xaxpy"])
    check("36 test(s) passed" in text, "no test passed")


def hashcat_argv(stack, word):
    """hashcat tests itself before it works; it shall leave nothing behind, and read no one's settings."""
    need("hashcat")
    home = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    place = [f"{k}={home}" for k in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")]
    md5 = hashlib.md5(word.encode()).hexdigest()
    mask = "?l" * len(word)
    return ["/usr/bin/env", *place, "hashcat", "-m", "0", "-a", "3", "-D", "1", "--force", "--quiet", "-O",
            "--potfile-disable", md5, mask], f"{md5}:{word}\n"


@long
def hashcat(stack):
    """It finds OpenCL by dlopen and dlsym."""
    if SANITIZE:
        raise Skip("its kernels take minutes to compile in a sanitized process")
    argv, found = hashcat_argv(stack, "zzkq")
    check(same(stack, argv) == found, "the password was not found")


def two_at_once(stack):
    """A latency-critical program beside a batch program: both right, and the second was preempted."""
    need("ffmpeg")
    need_pyopencl()
    batch = foreign([PYTHON, os.path.join(HERE, "pyopencl_work.py"), "40"])
    expected = {"ffmpeg": output(AVGBLUR(1).split()), "batch": output(batch)}
    fermata = Fermata(stack)

    def once():
        low = fermata.program(batch, "--priority", "low")
        for _ in range(3):
            high = output(fermata.run_argv(AVGBLUR(1).split(), "--priority", "high"), env=fermata.env)
            check(high == expected["ffmpeg"], "ffmpeg prints something else beside a batch program")
        check(low.wait(240) == 0, f"the batch program ended with status {low.p.returncode}")
        low.reader.join()
        lines = [line for line in low.lines if line is not None]
        check(lines == expected["batch"].splitlines(), "the batch program prints something else")
        return fermata.preemptions() > 0

    eventually("a preemption", once, seconds=200)
    print(f"         {fermata.preemptions()} preemptions")


if __name__ == "__main__":
    main(clinfo, clpeak, pyopencl, ffmpeg, clblast, hashcat, two_at_once)
