#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The probes of what moving memory needs of a driver (tests/gpu/memory) on the fake one: it does what a device was seen
to do."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import PATIENCE, SANITIZE, Skip, check, cuda_env, long, main, program, seldom_sanitized


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
    """But driver 580 loses a batch of copies between chunks of the host and pageable memory."""
    return [line for line in lines if re.search(": (wrong|lost|hung|not run)|out of time", line)
            and not re.search("cuMemcpyBatchAsync .*pageable.*: (lost|wrong)", line)]


@long
def commands_behind_a_gate(_):
    lines, total = probe("p7")
    check(not failures(lines), f"{failures(lines)[:5]}")
    right = int(re.search(r"(\d+) right", total).group(1))
    check(right > 300, f"{right} cases are too few to tell")


def calls_that_wait(_):
    lines, total = probe("p9")
    check(not failures(lines) and re.search(r"; [04] wrong$", total), f"{failures(lines)[:5]}, {total}")


HOLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "memory", "holes.txt")
STATES = ("mapped", "hole", "half")
# Where the fake driver is not as a device was: call, states, why that is left so.
OTHER = [
    (r"cuPointerGetAttribute (5|21)$", "mapped half", "it does not know them"),
    (r"cuGraphExecMemcpyNodeSetParams device>T$", "mapped hole half", "a node's memory may not become another kind's"),
]


def table(lines):
    """Cells by call and state; of what is absent none. After an illegal address the device is lost; that a driver takes an
    address for the host's, and its process is killed, is no better."""
    cells = {}
    for line in lines:
        name, rest = line[:44].strip(), re.split(r"\s{2,}", line[44:].strip())
        if len(rest) == len(STATES):
            cells.update({(name, state): cell for state, cell in zip(STATES, rest)})
    return {key: "lost" if re.search("killed|SIGNAL|ILLEGAL_ADDRESS", cell) else cell
            for key, cell in cells.items() if cell != "absent"}


def calls_on_holes(_):
    """As on a device, but for what is listed above, all of which is so."""
    lines, _ = probe("p8")
    begin = next(i for i, line in enumerate(lines) if line.startswith("P8: code of the call"))
    fake = table(lines[begin + 1:])
    with open(HOLES, encoding="ascii") as f:
        device = table(line for line in f.read().splitlines() if not line.startswith("#"))
    both = fake.keys() & device.keys()
    check(len(both) > 300, f"{len(both)} answers are too few to tell")
    listed = {(call, state): i for i, (what, states, _) in enumerate(OTHER) for call, state in both
              if state in states.split() and re.match(what, call)}
    differ = {key for key in both if fake[key] != device[key]}
    unlisted = [f"{key}: {fake[key]}, a device {device[key]}" for key in sorted(differ - listed.keys())]
    check(not unlisted, f"{len(unlisted)} answers differ from a device's: {unlisted[:5]}")
    idle = [what for i, (what, _, _) in enumerate(OTHER) if i not in {listed[key] for key in differ & listed.keys()}]
    check(not idle, f"the fake is as a device by now: {idle}")
    check(not any(": hung" in line for line in lines), "a call hangs")
    print(f"         {len(both) - len(differ)} of {len(both)} answers are a device's")


def beside_calls_that_wait(_):
    lines, total = probe("p10", "90")
    check(not failures(lines), f"{failures(lines)[:5]}")
    check(int(re.search(r"P10 (\d+) of", total).group(1)) >= 5, f"hardly anything waits: {total}")


if __name__ == "__main__":
    main(commands_behind_a_gate, *seldom_sanitized(calls_that_wait), calls_on_holes, beside_calls_that_wait)
