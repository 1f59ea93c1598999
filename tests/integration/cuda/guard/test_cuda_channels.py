#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams share few channels of the device, of finite length, and copies share fewer (fakes/cuda/hwqueues.c): what
stands there for a stream that was stopped keeps others waiting, the agent's own among them; and the first launch of a
kernel waits for the device, or has it wait for the kernel. Nothing hangs for that, and results are as natively. The
driver is the fake one."""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import BUILD, PATIENCE, SANITIZE, Fermata, check, cuda_env, long, main, need_cuda_shim, program, seldom_sanitized, unsanitized

SET = program("cuda_channels")
# Fewer channels than a device has, as many as it has and as it can have, and some that are sooner full: with much less room than
# that the agent may come to stand behind what waits for it (docs/cuda-guardian.md, "What remains").
DEVICES = ({"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, {"CUDA_DEVICE_MAX_CONNECTIONS": "3"}, {},
           {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}, {"FAKE_CUDA_ROOM": "640"})
# What a first launch does: the one or the other, by the kernel; always the one.
FIRST = ({}, {"FAKE_CUDA_FIRST": "wait"}, {"FAKE_CUDA_FIRST": "order"})
if SANITIZE:  # each is a run of all cases
    DEVICES, FIRST = DEVICES[::2], FIRST[1:]
NEW = ["new kernels", "new kernels of threads"]


def native(**device):
    env = cuda_env({**os.environ, "FAKE_CUDA_NARROW": "1", **device})
    r = subprocess.run([SET], env=env, capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 0, f"natively it ends with status {r.returncode} on {device}: {r.stderr}")
    return r.stdout.splitlines()


WANT = native(FAKE_CUDA_NARROW="0")


def same(p, want, text):
    check(p.wait() == 0, f"it ended with status {p.p.returncode} {text}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
    check(got == want, f"it differs {text}:\n{differ}")


@long
def natively(stack):
    for device in DEVICES[:-1] + FIRST:
        check(native(**device) == WANT, f"it differs natively on {device}")


def world(stack, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, "FAKE_CUDA_NARROW": "1", **env})
    return fermata


def at_random(stack, devices=DEVICES, args=(), want=WANT, hold=0.01, **env):
    """Suspended at random while it does the cases, for as long as the arguments say."""
    fermata = world(stack, **env)
    plain, running = fermata.env, []
    for device in devices:
        fermata.env = {**plain, **device}
        running.append((device, fermata.program([SET, *args])))
    fermata.env = plain
    n = fermata.suspend_at_random(random.Random(11), [p for _, p in running], hold, 0.005)
    for device, p in running:
        same(p, want, f"when suspended at random on {device}")
    check(n, "nothing was suspended")


def first_launches(stack):
    """Nothing but such, again and again."""
    want = [line for line in WANT if line.split(":")[0] in NEW]
    for guardian in ("1", "0"):
        at_random(stack, FIRST, ["2", *NEW], want, FERMATA_GUARDIAN=guardian)


def new_contexts(stack):
    """What was launched in a context that has ended is launched for the first time in the next one."""
    want = [line for line in WANT if line.split(":")[0] == "new contexts"]
    at_random(stack, FIRST, ["0", "new contexts"], want, hold=0.08, FERMATA_GUARDIAN="1")


@long
def guarded(stack):
    """Stopped in the middle of kernels."""
    at_random(stack, FERMATA_GUARDIAN="1")


def gates(stack):
    """Stopped between them."""
    at_random(stack)


def set_at_random(stack, name):
    native_run = subprocess.run([program(name)], env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=PATIENCE)
    check(native_run.returncode == 0, f"natively it ends with status {native_run.returncode}")
    fermata = world(stack, FERMATA_GUARDIAN="1")
    plain, running = fermata.env, []
    for device in DEVICES[:-1] + FIRST:
        fermata.env = {**plain, **device}
        running.append((device, fermata.program([program(name)])))
    fermata.env = plain
    fermata.suspend_at_random(random.Random(5), [p for _, p in running], 0.01, 0.005)
    for device, p in running:
        same(p, native_run.stdout.splitlines(), f"{name} on {device}")


def green(stack):
    """Streams of green contexts, which share the channels with the others, and each of which needs one more."""
    set_at_random(stack, "cuda_guard_green")


@long
def graphs(stack):
    """Graphs that stand at covers."""
    for name in "cuda_guard_graphs", "cuda_guard_copies":
        set_at_random(stack, name)


def of_one_process(stack):
    """Streams that stop each other, in fewer channels than streams: scheduled in the process, and by a daemon."""
    lib = os.path.join(BUILD, "lib")
    env = cuda_env({**os.environ, "FERMATA_SOCKET": "/nonexistent", "FAKE_CUDA_NARROW": "1"})
    env["LD_LIBRARY_PATH"] = ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), lib]))
    image = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data", "guard", "all.fatbin")
    for case, n in (("in-one-channel", "1"), ("copies-of-many", "8")):
        for more in ([], [image]):
            argv = [program("cuda_server_linked"), case, "fixed-priority", *more]
            r = subprocess.run(argv, env={**env, "CUDA_DEVICE_MAX_CONNECTIONS": n}, capture_output=True, text=True,
                               timeout=PATIENCE)
            check(r.returncode == 0, f"{case} with {n} channels {more}: status {r.returncode}: {r.stdout}{r.stderr}")
    fermata = world(stack, CUDA_DEVICE_MAX_CONNECTIONS="1")
    p = fermata.program([program("cuda_server"), "in-one-channel"])
    check(p.wait() == 0, f"in-one-channel ended with status {p.p.returncode} under a daemon")


if __name__ == "__main__":
    main(*unsanitized(natively), first_launches, new_contexts, guarded, *unsanitized(gates), green, *seldom_sanitized(graphs), of_one_process)
