#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What script/gpu-bench says of PyTorch programs is what they do: their client over a model of a device and of time, where
that is known; and all of its tables, over the same model in real time, as far as they come to their end."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "fakes")]
import torch_model
from harness import BUILD, SANITIZE, Skip, check, main

LIB = os.path.join(HERE, "..", "..", "script", "lib")
# What a step takes a program to launch, and the device; ms. The one or the other decides.
STEPS = ((0.05, 0.54), (3.34, 1.5), (4.28, 1.5), (4.4, 4.4), (15.5, 18), (18, 18), (21, 18), (40, 18), (0.1, 90))
SLICES = 0.06, 0.3, 1.5


def model():
    clock = torch_model.VirtualTime()
    device = torch_model.Device(clock)
    return clock, device, torch_model.client(device)


def an_iteration_takes_what_it_takes(stack):
    """However few of them a turn holds."""
    for launch, takes in STEPS:
        for seconds in SLICES:
            clock, device, client = model()
            begin = clock.ns + 5_000_000
            said = client.loop(lambda: device.step(launch / 1e3, takes / 1e3), begin, begin + round(1e9 * seconds))
            ms = 1e3 / said["per_s"]
            check(abs(ms / max(launch, takes) - 1) < 0.001, f"{launch} ms, {takes} ms in {seconds} s: {ms} ms an iteration")
            check(clock.ns >= begin + 1e9 * seconds and clock.ns >= device.free, "it ended before its time, or its work")
            check(max(device.behind) < 4e6 * takes, f"the device was {max(device.behind) / 1e6} ms behind")
            check(launch >= takes or min(device.behind[1:]) > 0, "the device was left without work")


def turns_are_taken_late(stack):
    """One that hears of its turn when that is over takes a short one."""
    clock, device, client = model()
    check(abs(client.loop(lambda: device.step(0.001, 0.002), clock.ns - 2_000_000_000, clock.ns - 1_000_000_000)["per_s"] - 500) < 1,
          "another rate")


def a_request_takes_what_it_takes(stack):
    """One each period, but for those that come too late."""
    for launch, takes, period, n in ((2, 3, 25, 40), (2, 3, 0, 200), (20, 10, 25, 33)):
        clock, device, client = model()
        begin = clock.ns + 100_000_000
        us = client.serve(lambda: device.step(launch / 1e3, takes / 1e3), period * 1000, begin, begin + 1_000_000_000)["us"]
        check(abs(len(us) - n) <= 1, f"{len(us)} requests every {period} ms")
        check(max(us) - min(us) < 1 and abs(us[0] / 1e3 - launch - takes) < 0.01, f"they took {min(us)} to {max(us)} us")


def bench(name, **settings):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(LIB, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    for key, value in settings.items():
        check(hasattr(module, key), f"{name} has no {key}")
        setattr(module, key, value)
    return module


def table(stack, module, build, *names):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for name in names:
            module.TABLES[name](module.Bench(stack, build))
    return said.getvalue()


def all_tables_come_to_their_end(stack):
    if SANITIZE:
        raise Skip("the programs are not built for a sanitizer's library")
    processors = os.sched_getaffinity(0)
    module = bench("torch_bench", CLIENT=torch_model.__file__, ALONE=("resnet50-b1", "gpt2-graph"), ROUNDS=2, STARTS=1, TURNS=1,
                   TURN=0.1, SLICE=0.01)
    said = table(stack, module, BUILD, "unsuspended", "one", "starts", "four")
    for name in module.ALONE:
        row = re.search(rf"^{name} +[\d.]+ \([\d.]+-[\d.]+\)((  +[\d.]+x \([\d.]+-[\d.]+\)){{3}})$", said, re.M)
        check(row, f"no row of {name} in\n{said}")
    for n in 1, 4:
        check(f"times, beside {n} that train" in said, f"no table of {n} that train in\n{said}")
    rows = re.findall(r"^(native, alone|native|Fermata, others sleep|Fermata) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+x( +[\d.]+ %)?", said, re.M)
    check([bool(kept) for _, kept in rows] == [False, True, False, True] * 2, f"rows {rows} in\n{said}")
    check("start of a program" in said, said)
    check(os.sched_getaffinity(0) == processors, "it moved to other processors for good")


main(an_iteration_takes_what_it_takes, turns_are_taken_late, a_request_takes_what_it_takes, all_tables_come_to_their_end)
