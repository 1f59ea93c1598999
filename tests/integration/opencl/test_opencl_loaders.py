#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that close OpenCL's loader and open it again, and that have several: at each level they end as natively."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, PATIENCE, SANITIZE, Fermata, Skip, check, eventually, long, main, program, seldom_sanitized

USUAL = "libOpenCL.so.1"
LEVELS = ("1", "2", "3")


def loader():
    """Where the dynamic linker finds the loader of this machine."""
    ask = ("import ctypes; c = ctypes.CDLL('libOpenCL.so.1');"
           "print(next(line.split()[-1] for line in open('/proc/self/maps') if 'libOpenCL' in line))")
    r = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    if r.returncode:
        raise Skip("there is no libOpenCL.so.1")
    return os.path.realpath(r.stdout.strip())


def copies(stack, n):
    """So many loaders of different files."""
    place = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    return [USUAL] + [shutil.copy(loader(), os.path.join(place, f"libOther{i}.so")) for i in range(1, n)]


def leaky(env):
    """The program leaves things behind, and so does a loader that is closed."""
    return {**env, "ASAN_OPTIONS": f"{env.get('ASAN_OPTIONS', '')}:detect_leaks=0"}


def right(fermata, level, how, *loaders, governed=True):
    before = fermata.stats()["governed"]
    r = subprocess.run(fermata.run_argv([program("opencl_loaders"), how, *loaders], "--level", level), env=leaky(fermata.env),
                       capture_output=True, text=True, timeout=PATIENCE * 2)
    check(r.returncode == 0 and r.stdout == "right\n",
          f"{how} at level {level} ended with status {r.returncode}: {r.stdout}{r.stderr}")
    if governed:
        eventually("what it did was governed", lambda: fermata.stats()["governed"] > before)


def at_each(stack, *more, loaders=()):
    """At each level; and at the exit while kernels are under way. Beside another program, so that there are gates, and
    kernels are guarded."""
    fermata = Fermata(stack)
    fermata.worker("--priority", "low")
    for level in LEVELS:
        for how in more:
            right(fermata, level, how, *loaders)


@long
def lives(stack):
    """Opened, used, closed, five times."""
    at_each(stack, "lives", "lives-")


def leaks(stack):
    """Closed while its queues live, and work."""
    at_each(stack, "leak", "leak-")


@long
def two_loaders(stack):
    """Of different files, one after the other and both at once."""
    two = copies(stack, 2)
    at_each(stack, "leak-", "many-", loaders=two)
    at_each(stack, "both", loaders=two[::-1])


def more_than_we_know(stack):
    """More loaders than there are places for: what further ones do is not governed, and right."""
    right(Fermata(stack), "3", "both", *copies(stack, 6))


def look_ups(stack):
    """Each loader says of extensions what it says natively."""
    fermata = Fermata(stack)
    argv = [program("opencl_loaders"), "ask", *copies(stack, 3)]
    native = subprocess.run(argv, env=leaky(os.environ), capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    ours = subprocess.run(fermata.run_argv(argv), env=leaky(fermata.env), capture_output=True, text=True, timeout=PATIENCE,
                          check=True).stdout
    check("1" in native and native == ours, f"instead of {native}: {ours}")


def layer(how):
    argv = [program("opencl_layer_init"), os.path.join(BUILD, "lib", "libfermata-opencl.so"), how]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 0 and r.stdout == "right\n", f"{r}")


def in_constructors(stack):
    """Who calls a loader while the dynamic linker has its lock does not wait for who opens another."""
    layer("threads")


def places(stack):
    """A loader is known by its functions, not by where its table is."""
    layer("places")


def namespaces(stack):
    """With libraries of its own each time."""
    if SANITIZE:
        raise Skip("a sanitizer's library is one for all name spaces")
    at_each(stack, "space-")


def off(stack):
    """FERMATA_DISABLE: it only passes on."""
    fermata = Fermata(stack)
    fermata.env["FERMATA_DISABLE"] = "1"
    right(fermata, "3", "leak", *copies(stack, 2), governed=False)


if __name__ == "__main__":
    main(lives, leaks, *seldom_sanitized(two_loaders), more_than_we_know, look_ups, in_constructors, places, namespaces, off)
