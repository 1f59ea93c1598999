#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose images are rewritten see what they see without: images loaded in every way (cuda_images.c), kernels
launched in every way (cuda_image_launches.c), and the conformance sets of test_cuda.py. The driver is the fake one, which
ends a program that launches a rewritten kernel without the parameters that it takes."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import BUILD, Fermata, check, cuda_env, eventually, main, need_cuda_shim, preload, program, seldom_sanitized

SHIM = os.path.join(BUILD, "lib", "libfermata-cuda.so")
SETS = ("cuda_images", "cuda_image_launches")
WAYS = tuple((*via, *ptds) for via in (("--via", "link"), ("--via", "dlsym"), ("--via", "proc"))
             for ptds in ((), ("--ptds",)))


def run(name, *way, guardian=None, cache="", **env):
    # What is freed is overwritten at once.
    env = {**cuda_env(os.environ), "XDG_CACHE_HOME": cache, "MALLOC_PERTURB_": "85", **env}
    if guardian is not None:
        env = {"FERMATA_SOCKET": "/nowhere", **env, "LD_PRELOAD": preload(SHIM), "FERMATA_GUARDIAN": guardian}
    p = subprocess.run([program(name), *way], env=env, capture_output=True, text=True, timeout=120)
    check(p.returncode == 0, f"{name} {' '.join(way)} {env.get('FERMATA_GUARDIAN')}: {p.returncode}: {p.stderr}")
    return p.stdout.splitlines()


def same(got, want, text):
    differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
    check(got == want, f"{text}: {len(got)} notes of {len(want)}:\n{differ}")


def files(cache):
    return [f for _, _, names in os.walk(cache) for f in names if not f.startswith(".")]


def in_every_way(stack):
    """Rewritten at first, then taken from the cache; not rewritten where nobody wants it."""
    need_cuda_shim()
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    native = {name: run(name) for name in SETS}
    for name in SETS:
        for way in WAYS:
            same(run(name, *way, guardian="1", cache=cache), native[name], f"{name} rewritten, {way}")
    check(len(files(cache)) >= 3, f"the cache has {files(cache)}")
    before = set(files(cache))
    for name in SETS:
        same(run(name, guardian="0", cache=cache), native[name], f"{name} not wanted")
        same(run(name, guardian="0", cache=cache, FERMATA_GUARDIAN="yes"), native[name], f"{name} not wanted so")
    check(set(files(cache)) == before, "and nothing more in the cache")
    for off, rewritten in (("1", False), ("yes", False), ("0", True)):
        fresh = stack.enter_context(tempfile.TemporaryDirectory())
        same(run(SETS[0], guardian="1", cache=fresh, FERMATA_DISABLE=off), native[SETS[0]], f"FERMATA_DISABLE={off}")
        check(bool(files(fresh)) == rewritten, f"with FERMATA_DISABLE={off} the cache has {files(fresh)}")


def without_a_cache(stack):
    """Nowhere to keep what is rewritten: it is rewritten each time."""
    need_cuda_shim()
    for name in SETS:
        same(run(name, guardian="1", cache="/proc/none"), run(name), f"{name}, no cache")


def early(stack):
    """Where guardians wait for what is in front of them, launches may begin before that has ended; not if nobody wants that, or
    the driver does not have it."""
    need_cuda_shim()
    env = {"FERMATA_SOCKET": Fermata(stack).env["FERMATA_SOCKET"]}
    native = run("cuda_image_launches")
    for wanted, more in (("1", {}), ("0", {"FERMATA_GUARDIAN_EARLY": "0"}), ("0", {"FAKE_CUDA_NO_EARLY": "1"})):
        got = run("cuda_image_launches", guardian="1", cache="/proc/none", CUDA_IMAGES_EARLY=wanted, **env, **more)
        same(got, native, f"launches that may begin early: {wanted} {more}")


def several_devices(stack):
    """Devices that are alike share a library."""
    need_cuda_shim()
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    for name in SETS:
        native = run(name, FAKE_CUDA_DEVICES="2")
        same(run(name, guardian="1", cache=cache, FAKE_CUDA_DEVICES="2"), native, f"{name}, two devices")


def other_sets(stack):
    """The programs of test_cuda.py and test_cuda_code.py, some of which end contexts and have two devices."""
    need_cuda_shim()
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    for name in ("cuda_graph", "cuda_launch", "cuda_devices", "cuda_code", "cuda_nodes"):
        native = run(name, FAKE_CUDA_DEVICES="2")
        got = run(name, "--via", "proc", "--ptds", guardian="1", cache=cache, FAKE_CUDA_DEVICES="2")
        same(got, native, name)


def an_old_driver(stack):
    """One that could not tell where a function is from gets images as they are."""
    need_cuda_shim()
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    old = {"LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "fakes", "old")}
    native = run("cuda_launch", "--via", "dlsym", **old)
    same(run("cuda_launch", "--via", "dlsym", guardian="1", cache=cache, **old), native, "an old driver")
    check(not files(cache), "nothing was rewritten")


def counted(stack):
    """Before the first launch, and after; what is left as it is, by its reason."""
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = {**cuda_env(fermata.env), "FERMATA_GUARDIAN": "1",
                   "XDG_CACHE_HOME": stack.enter_context(tempfile.TemporaryDirectory())}
    p = fermata.program([program("cuda_calls")])
    p.line("ready")
    p.tell("kernels 1")
    p.line("kernels")
    counts = {"images": 1, "images_left": 0, "kernels": 6, "kernels_left": 0}
    eventually("it is counted", lambda: (fermata.group(p.pid) or {}).items() >= counts.items())
    group = fermata.group(p.pid)
    check(not group["calls"], f"nothing was left: {group['calls']}")
    table = [line.split() for line in fermata.cli("ps", "--calls").stdout.splitlines()]
    check(group["images_ms"] > 0, f"it took no time: {group}")
    check(table[-2:] == [["GROUP", "IMAGES", "LEFT", "KERNELS", "LEFT", "MS"],
                         [group["name"], "1", "0", "6", "0", f"{group['images_ms']:.1f}"]], f"ps --calls: {table}")
    check(fermata.stats()["kernels"] == 6 and "kernels rewritten" in fermata.cli("stats").stdout, "stats")
    p.close()
    p = fermata.program([program("cuda_images"), "600", "ours refused"])
    eventually("there are some", lambda: (fermata.group(p.pid) or {}).get("calls"))
    group = fermata.group(p.pid)
    check([c["call"] for c in group["calls"]] == ["image (refused by the driver)"], f"named: {group['calls']}")
    check(group["images_left"] and group["calls"][0]["undivided"] and not group["undivided"], f"counted: {group}")
    p.close()
    p = fermata.program([program("cuda_images"), "600", "unseen", "linked"])
    reason = "kernel (no room for more parameters)"  # in PTX beyond 4 KB
    eventually("a kernel was left", lambda: reason in [c["call"] for c in (fermata.group(p.pid) or {}).get("calls", [])])


if __name__ == "__main__":
    main(*seldom_sanitized(in_every_way), without_a_cache, early, several_devices, other_sets, an_old_driver, counted)
