#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that fork just when a thread of theirs, of Fermata's, or of a fake driver, holds a lock: each lock there is, once (forks.h). Their
children get through whatever they do."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, PATIENCE, SANITIZE, Fermata, Skip, check, cuda_env, main, need_cuda_shim, program

PARK = os.path.join(BUILD, "tests", "fakes", "libfake_park.so")


def with_lines(text):
    """The text, and behind each place in a library or program, such as `lib.so(+0x1234)`, what stands there in the source."""
    def line(m):
        at = int(m.group(2), 16) - 1  # a return address
        r = subprocess.run(["addr2line", "-fpie", m.group(1), hex(at)], capture_output=True, text=True)
        return f"{m.group(0)} {r.stdout.strip()}"

    return re.sub(r"^(\S+)\(\+(0x[0-9a-f]+)\).*", line, text, flags=re.MULTILINE) if shutil.which("addr2line") else text


def forks(stack, *argv, least, cuda=False, **env):
    """By a daemon, beside another program that has the device now and then. At so many locks at least."""
    if SANITIZE:
        raise Skip("its runtimes are not made for threads after fork()")
    fermata = Fermata(stack)
    env = {**(cuda_env(fermata.env) if cuda else fermata.env), **env, "LD_PRELOAD": PARK}
    r = subprocess.run(fermata.run_argv([program(argv[0]), *argv[1:]], "--guardian"), env=env,
                       capture_output=True, text=True, timeout=PATIENCE * 4)
    check(r.returncode == 0, f"{' '.join(argv)} ended with status {r.returncode}: {with_lines(r.stdout)}{r.stderr}")
    locks = int(re.search(r"(\d+) locks", r.stdout).group(1))
    check(locks >= least, f"only {locks} locks were taken")


def cuda(stack):
    """The shim's, the agent's, those of the tables of images and graphs."""
    need_cuda_shim()
    forks(stack, "cuda_forks", least=50, cuda=True)


def opencl(stack):
    forks(stack, "opencl_forks", least=25)


def library(stack):
    forks(stack, "lib_forks", "locks", least=25)


def library_first(stack):
    """What is made before anything is scheduled is no child's either."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    r = subprocess.run([program("lib_forks"), "first"], env=env, capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 0, f"it ended with status {r.returncode}: {r.stdout}{r.stderr}")


if __name__ == "__main__":
    main(cuda, opencl, library, library_first)
