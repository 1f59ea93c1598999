#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What templates foretell of six programs on a device, by chunks of 2 MiB: `fermata-lab profile' learns from a run, and
`--against' compares another with that, of the same size and of one that was never seen. Prints a row for each program, and how
many kernels and launches have templates of which form."""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, Skip, check, command, main

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = int(os.environ.get("MIB", "2048"))
SECONDS = float(os.environ.get("STEPS_FOR", "2"))
MISSED, VAIN = 0.25, 2.0  # percent of chunks, on average over the programs


def science(kind):
    return lambda size: [os.path.join(BUILD, "bench", "bench_cuda_science"), kind, str(size)]


def buffer(size):
    return [os.path.join(BUILD, "bench", "bench_cuda_memory"), str(size), str(max(1, size // 16))]


def decoder(size):
    return [sys.executable, os.path.join(HERE, "profile_decode.py"), os.environ.get("LAYERS", "8"), str(4 if size == MIB else 9)]


PROGRAMS = {**{kind: science(kind) for kind in ("stencil", "wavelet", "cells", "nearest")}, "buffer": buffer, "decoder": decoder}


def percent(part, of):
    return 100.0 * part / of if of else 0.0


def run(argv, *options):
    """Its JSON. What is no program of steps does not read the line."""
    now = time.monotonic_ns() + 10**9
    r = subprocess.run([*command("profile", "--json", *options), "--", *argv], input=f"decode {now} {now + int(SECONDS * 1e9)}\n",
                       capture_output=True, text=True, timeout=240, check=False)
    check(r.returncode == 0, f"status {r.returncode}: {r.stderr[-600:]}")
    return json.loads(r.stdout[r.stdout.index("{\n"):])


def row(name, what, result):
    all_ = result["all"]
    missed, vain = percent(all_["missed"], all_["touched"]), percent(all_["vain"], all_["foretold"])
    print(f"         {name:9} {what:12} missed {missed:6.2f} % vain {vain:6.2f} %  touched {all_['touched']} foretold {all_['foretold']} "
          f"launches {all_['launches']} of {result['launches']}, not compared {result['not_compared']}")
    return missed, vain


def mix_row(mix, what):
    total = sum(m[what] for m in mix.values())
    print(f"         {what:9} " + ", ".join(f"{percent(m[what], total):.1f} % {form}" for form, m in mix.items() if m[what]))


def six_programs(stack):
    kernels = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-foretold-")), "kernels")
    sums, mix = [], {}
    for name, argv in PROGRAMS.items():
        try:
            learnt = run(argv(MIB), "-o", kernels, "--force")
        except (AssertionError, subprocess.TimeoutExpired) as e:
            check(name == "decoder", f"{name}: {e}")
            print(f"         {name}: not tried here: {str(e)[-200:]}")
            continue
        if learnt["sanitizer"]:
            raise Skip(f"no Compute Sanitizer here: {learnt['why']}")
        same = run(argv(MIB), "--against", kernels)
        sums.append(row(name, "the same", same))
        for form, m in same["mix"].items():
            to = mix.setdefault(form, {"kernels": 0, "launches": 0})
            for what in to:
                to[what] += m[what]
        row(name, "another size", run(argv(MIB * 3 // 2), "--against", kernels))
    mix_row(mix, "kernels")
    mix_row(mix, "launches")
    missed, vain = (sum(s[i] for s in sums) / len(sums) for i in (0, 1))
    print(f"         average of {len(sums)} programs: missed {missed:.2f} %, in vain {vain:.2f} %; wanted {MISSED} and {VAIN}")
    check(missed <= MISSED and vain <= VAIN, "more than is wanted")


if __name__ == "__main__":
    main(six_programs)
