#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The probes of what moving memory needs of a driver (tests/gpu/memory) on the fake one: it does what a device was seen
to do."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import PATIENCE, SANITIZE, Skip, check, cuda_env, main, program


def probe(name, *args):
    if "thread" in SANITIZE:
        raise Skip("a program that forks, and whose threads stand in the driver when it ends")
    r = subprocess.run([program("gpu_memory"), name, *args], env={**cuda_env(os.environ), "GPU_PATIENCE": "10"},
                       capture_output=True, text=True, timeout=10 * PATIENCE)
    check(r.returncode == 0, f"status {r.returncode}: {r.stdout[-400:]}{r.stderr[-400:]}")
    sums = [line for line in r.stdout.splitlines() if line.startswith("== ")]
    check(len(sums) == 1, f"not one sum, but {sums}")
    print(f"         {sums[0][3:]}")
    return r.stdout.splitlines(), sums[0]


def failures(lines):
    return [line for line in lines if re.search(": (wrong|lost|hung|not run)|out of time", line)]


def commands_behind_a_gate(_):
    lines, total = probe("p7")
    check(not failures(lines), f"{failures(lines)[:5]}")
    right = int(re.search(r"(\d+) right", total).group(1))
    check(right > 300, f"{right} cases are too few to tell")


def calls_that_wait(_):
    lines, total = probe("p9")
    check(not failures(lines) and total.endswith("; 0 wrong"), f"{failures(lines)[:5]}, {total}")


def calls_on_holes(_):
    """Refused, or harmless; only what runs on the device loses it."""
    lines, _ = probe("p8")
    lost = [line for line in lines if ": lost" in line]
    check(all("kernel" in line for line in lost), f"{[line for line in lost if 'kernel' not in line][:5]}")
    check(any("hole kernel: lost" in line for line in lost), "a kernel may write where nothing is mapped")
    check(not any(": hung" in line for line in lines), "a call hangs")


def beside_calls_that_wait(_):
    lines, total = probe("p10", "90")
    check(not failures(lines), f"{failures(lines)[:5]}")
    check(int(re.search(r"P10 (\d+) of", total).group(1)) >= 5, f"hardly anything waits: {total}")


if __name__ == "__main__":
    main(commands_behind_a_gate, calls_that_wait, calls_on_holes, beside_calls_that_wait)
