#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What script/gpu-bench says of PyTorch programs is what they do: their client over a model of a device and of time, where
that is known; and all of its tables, over the same model in real time, as far as they come to their end."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
import unittest.mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "..", "fakes")]
import torch_model
from harness import BUILD, SANITIZE, Fermata, Skip, check, cuda_env, eventually, main, need_cuda_shim, program

LIB = os.path.join(HERE, "..", "..", "..", "script", "lib")
# What a step takes a program to launch, and the device; ms. The one or the other decides.
STEPS = ((0.05, 0.54), (3.34, 1.5), (4.28, 1.5), (4.4, 4.4), (15.5, 18), (18, 18), (21, 18), (40, 18), (0.1, 90))
SLICES = 0.06, 0.3, 1.5
N = r"-?[\d.]+"  # where less than nothing was left it is below 0


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


def what_a_shim_costs_is_what_it_costs(stack):
    """By the launches alone, where these are what takes time."""
    for launch, takes, factor in ((3.5, 0.01, 1.01), (3.5, 0.01, 1), (15, 0.01, 1.3), (0.05, 4, 1.5)):
        clock, device, client = model()
        shim = torch_model.Shim(factor)
        said = client.past(lambda: device.step(shim.takes() * launch / 1e3, takes / 1e3), shim, clock.ns, clock.ns + 2_000_000_000)
        expected = factor if launch > takes else 1
        check(abs(said["ratio"] - expected) < 0.01 * abs(factor - 1) + 1e-4 + 0.013 * (takes > launch),
              f"{launch} ms, {takes} ms, {factor} times: {said}")
        check(abs(said["us"] / 1e3 - max(launch, takes)) < 0.02 * takes + 0.05 and said["n"] > 10 and shim.is_through, f"{said}")


def it_goes_the_way_it_is_told(stack):
    """A client that answers requests, through the shim and past it; one without a shim does not pretend to go past."""
    for words, ways in (([None], ("past", "through", "past")), ([], ("through",)), ([], ("past",))):
        clock, device, client = model()
        shim = torch_model.Shim(4)
        shim.words = words
        client.Shim = lambda shim=shim: shim
        client.WORK = {"work": lambda device=device, shim=shim: lambda: device.step(shim.takes() * 0.002, 0.001)}
        lines = "".join(f"go {10**10 * (i + 1)} {10**10 * (i + 1) + 10**9} 20000 {way}\n" for i, way in enumerate(ways))
        said = io.StringIO()
        with unittest.mock.patch.object(sys, "stdin", io.StringIO(lines)), unittest.mock.patch.object(sys, "argv", ["", "serve", "work"]):
            with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
                client.main()
        took = [json.loads(line)["us"] for line in said.getvalue().splitlines()[1:]]
        expected = [3 if way == "past" else 9 for way in ways if words or way == "through"]
        check([round(us[0] / 1e3) for us in took] == expected and all(len(us) == 50 for us in took), f"{ways}: {took}")


def the_foregrounds_table_says_what_was_answered(stack):
    """The share of slow requests decides whether P99 is one of them; and all that is compared was there in the same rounds."""
    module = bench("torch_bench")
    asked = []

    def go(programs, seconds, after=0.05, period_us=0, way="through"):
        asked.append((len(programs), way))
        slow = {(1, "past"): 2000, (2, "past"): 6000, (1, "through"): 2100, (2, "through"): 2200}[len(programs), way]
        return [{"us": [1000] * 98 + [slow] * 2}, *({"per_s": 30 if way == "past" else 40} for _ in programs[1:])]

    module.go = go
    rows = {"native, alone": ("f", "past"), "native": ("ft", "past"), "Fermata, others sleep": ("f", "through"),
            "Fermata": ("ft", "through"), "train": ("t", "past")}
    us, rates = module.rounds(12, rows, 20000)
    check([asked.count(way) for way in ((1, "past"), (2, "past"), (1, "through"), (2, "through"))] == [16, 4, 4, 12], f"{asked}")
    check(rates["native"] == 30 and rates["Fermata"] == 40, f"{rates}")
    check([len(turns) for turns in us.values()] == [12, 4, 4, 12, 4], f"{us}")
    for name, ratio in (("native, alone", 1), ("native", 3), ("Fermata, others sleep", 1.05), ("Fermata", 1.1)):
        said = module.p99_to(us[name], us["native, alone"])
        check(abs(said[0] - ratio) < 1e-9 and said[1] < 1e-9, f"{name}: {said}")
    turns = {i: [1000] * 98 + [2000 if i % 2 else 3000] * 2 for i in range(40)}
    ratio, error = module.p99_to(turns, us["native, alone"] | {i: [1000] * 100 for i in range(12, 40)})
    check(ratio == 2 and 0 < error < 1, f"{ratio} {error}")


def past_the_shim(stack):
    """Tables of a program's that hold the driver's functions, as the shim has given them, are found: past it nothing is
    counted, through it all of it is."""
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env(fermata.env)
    p = fermata.program([sys.executable, os.path.join(HERE, "../cuda/past_shim_program.py"), program("libcuda_plugin.so"),
                         "/fakes/libcuda.so.1$"])
    p.line("ready")
    fermata.knows(p.pid)
    for way, counted in (("through", 5), ("past", 0), ("through", 5)):
        before = fermata.group(p.pid)["governed"]
        at = p.mark()
        p.tell(way)
        p.line("done", after=at)
        eventually("that is counted", lambda n=before + counted: fermata.group(p.pid)["governed"] == n)


def bench(name, **settings):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(LIB, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    for key, value in settings.items():
        check(hasattr(module, key), f"{name} has no {key}")
        setattr(module, key, value)
    return module


def table(stack, module, build, *names, **more):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for name in names:
            module.TABLES[name](module.Bench(stack, build, **more))
    return said.getvalue()


def compared(said, work, ways):
    check(re.search(rf"^{work} +{N} \({N}-{N}\)((  +{N}x \({N}-{N}\)){{{ways}}})$", said, re.M),
          f"no row of {work} in\n{said}")


def rows_of(said):
    return re.findall(rf"^(native, alone|native|Fermata, others sleep|Fermata) +\d+ +{N} +{N} +{N} +{N}x +{N}( +{N} %)?", said, re.M)


def what_is_below_nothing_is_read(stack):
    """On a machine that is busy requests take longer than the time to the next: what is left is less than nothing."""
    module = bench("torch_bench")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for name, kept in ("native, alone", None), ("native", -0.01), ("Fermata", 0.25):
            module.show(name, {0: [1000.0] * 100}, {0: [1000.0] * 100}, kept)
    check([kept.strip() for _, kept in rows_of(out.getvalue())] == ["", "-1.0 %", "25.0 %"], f"{rows_of(out.getvalue())} in {out.getvalue()}")


def all_tables_come_to_their_end(stack):
    if SANITIZE:
        raise Skip("the programs are not built for a sanitizer's library")
    processors = os.sched_getaffinity(0)
    settings = dict(CLIENT=torch_model.__file__, STANDS=("resnet50-b1", "gpt2-graph"), PAST=("resnet50-b1", "train"), PAST_S=0.1,
                    ROUNDS=2, STARTS=1, FOREGROUND=3, TURN=0.1, SLICE=0.01)
    module = bench("torch_bench", **settings)
    hints = []
    module.Bench.hint = lambda self, env, program, hint: hints.append(hint)  # the model's programs are no clients
    said = table(stack, module, BUILD, "unsuspended", "one", "starts", "four")
    check(hints.count("priority=low") == 5 * (3 + 1) and hints.count("priority=normal") == 5 * (3 + 1 + 1), f"{hints}")
    for name in module.PAST:
        check(re.search(rf"^{name}(  +{N} +{N}x {N}){{2}}$", said, re.M), f"no row of {name} in\n{said}")
    for name in module.STANDS:
        compared(said, name, 3)
    for n in 1, 4:
        check(f"beside {n} that train: 3 rounds" in said, f"no table of {n} that train in\n{said}")
    rows = rows_of(said)
    check([bool(kept) for _, kept in rows] == [False, True, False, True] * 2, f"rows {rows} in\n{said}")
    check("first use of a GPU" in said, said)
    module = bench("guard_bench")
    for key, value in settings.items():
        setattr(module.torch_bench, key, value)
    said = table(stack, module, BUILD, "unstopped", cache=stack.enter_context(tempfile.TemporaryDirectory()))
    for name in sum(module.WORKS, ()):
        compared(said, name, 2)
    check(os.sched_getaffinity(0) == processors, "it moved to other processors for good")


def the_decoders_table_comes_to_its_end(stack):
    """Each row is of its settings, and compared with the same program alone."""
    if SANITIZE:
        raise Skip("the programs are not built for a sanitizer's library")
    module = bench("decode_bench", CLIENT=os.path.join(HERE, "..", "..", "fakes", "decode_model.py"))
    hints, settings = [], []
    module.Bench.hint = lambda self, who, priority: hints.append((who, priority))  # the model's programs are no clients
    module.Bench.devices = lambda self: settings.append(self.ask("ps")["policy"]["name"]) or {
        who: {"charged_ms": len(settings), "linger": {"keeps_us": 300, "handover_us": 1640}} for who in ("decode", "train")}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        module.Bench(stack, BUILD, 1.0).tables()
    said = said.getvalue()
    rows = dict(re.findall(r"^(\S.*?) {2,}(.*)$", said, re.M))
    check(len(rows) == 5 + 5 + 1 + 2, f"{len(rows)} rows in\n{said}")
    for name, numbers in (("decode, alone, natively", "666.7 1.50 1.50 1.000"), ("train, alone, natively", "20.00 1.000"),
                          ("natively, both", "666.7 1.50 1.50 20.00 1.000 1.000 2.000"),
                          ("decode, pauses of 5 ms, alone, natively", "158.7 6.30 6.30 1.000"),
                          ("5 ms, high beside low, linger_us = 100", "158.7 6.30 6.30 20.00 1.000 1.000 2.000 50.0 : 50.0 %")):
        check(re.sub(" +", " ", rows[name]).startswith(numbers), f"{name}: {rows[name]}, not {numbers}")
    check(settings[::2] == ["fixed-priority"] * 3 + ["fair"] * 2 + ["fixed-priority"] * 2, f"{settings}")
    check(hints.count(("decode", "high")) == 5 and hints.count(("decode", "normal")) == 2, f"{hints}")


main(an_iteration_takes_what_it_takes, turns_are_taken_late, a_request_takes_what_it_takes,
     what_a_shim_costs_is_what_it_costs, it_goes_the_way_it_is_told, the_foregrounds_table_says_what_was_answered, past_the_shim,
     what_is_below_nothing_is_read, all_tables_come_to_their_end, the_decoders_table_comes_to_its_end)
