#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of script/memory-sim: runs `fermata-lab sim` on the workloads of the table, and prints it."""
import json
import os
import subprocess
import sys
import tempfile

POLICIES = ("jit", "opt", "lru", "whole", "none")
TURNS = (272, 170, 102)  # ms, for the three numbers of decoders
ROWS = (("16G", (3, 4, 6)), ("24G", (4, 6, 8)))
# What is to be reached on a device, in percent: without and with kept copies.
GOALS = {("16G", 3): (80, 86), ("16G", 4): (71, 78), ("16G", 6): (52, 56), ("24G", 4): (93, 93), ("24G", 6): (88, 88),
         ("24G", 8): (60, 60)}

WORKLOAD = """[workload]
policy = round-robin slice={turn}
duration = 60s
warmup = 20s
[memory]
overtime = {overtime}
[device gpu]
memory = {memory}
context = {context}
link-in = 55GB
link-out = 55GB
link-both = 78GB
copy-cost = 8
[group decoder]
count = {count}
memory = 8.5GB
gap = 3ms
dirty = {dirty}
commands = 1 x 3ms
"""


def simulate(lab, name, text, policies=POLICIES):
    path = os.path.join(FOLDER, name + ".ini")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return simulate_file(lab, path, policies)


def simulate_file(lab, path, policies=POLICIES):
    p = subprocess.run([lab, "sim", "--json", "--memory-policy", ",".join(policies), path], capture_output=True, text=True,
                       check=True)
    return {r["memory_policy"]: r for r in json.loads(p.stdout)["memory_policies"]}


def decoders(lab, context, dirty, overtime, policies):
    for memory, counts in ROWS:
        for count, turn in zip(counts, TURNS):
            text = WORKLOAD.format(turn=turn, memory=memory, context=context, count=count, dirty=dirty, overtime=overtime)
            name = f"{count}-in-{memory}-context-{context}-dirty-{dirty}-overtime-{overtime}"
            yield memory, count, turn, simulate(lab, name, text, policies)


def percent(result):
    return result["devices"][0]["memory"]["to_memory_ppm"] / 1e4


def wait(result):
    return result["groups"][0]["memory"]["longest_wait_ns"] / 1e9


def moved(result):
    device = result["devices"][0]
    return device["memory"]["in_bytes"] / max(device["switches"], 1) / 1e9


def exposed(result):
    device = result["devices"][0]
    return device["memory"]["exposed_ns"] / max(device["switches"], 1) / 1e6


def print_decoders(lab, title, context, dirty, kept):
    print(f"{title}\n")
    print(f"{'device':>6} {'n':>2} {'turn':>6}  {'goal':>4} " + "".join(f"{p:>7}" for p in POLICIES) +
          "   jit: wait   GB in  stands   to whole")
    for memory, count, turn, r in decoders(lab, context, dirty, "no", POLICIES):
        jit = r["jit"]
        print(f"{memory:>6} {count:>2} {turn:>3} ms  {GOALS[memory, count][kept]:>4} " +
              "".join(f"{percent(r[p]):7.1f}" for p in POLICIES) +
              f"   {wait(jit):7.2f} s {moved(jit):7.2f} {exposed(jit):5.0f} ms {percent(jit) / percent(r['whole']):9.2f}")
    print()


def print_overtime(lab):
    print("Overtime: the group whose turn is over computes on while memory comes in (jit, contexts besides, no kept copies)\n")
    print(f"{'device':>6} {'n':>2} {'turn':>6}  {'jit':>6} {'wait':>9}")
    for memory, count, turn, r in decoders(lab, "0", 100, "yes", ("jit", "none")):
        print(f"{memory:>6} {count:>2} {turn:>3} ms  {percent(r['jit']):6.1f} {wait(r['jit']):7.2f} s")
    print()


def print_urgent(lab):
    r = simulate_file(lab, os.path.join("examples", "sim", "memory-urgent.ini"))
    print("An urgent service of 6 GB each 20 ms beside training of 12 GB, on 16 GiB (examples/sim/memory-urgent.ini)\n")
    print(f"{'':8} {'urgent P99':>10} {'training, to all in memory':>28}")
    for policy in POLICIES:
        urgent, training = r[policy]["groups"]
        print(f"{policy:8} {urgent['response']['p99_ns'] / 1e6:7.1f} ms {training['memory']['to_memory_ppm'] / 1e4:26.1f} %")
    print("\nAll in memory, beside training: P99 8.7 ms; the goal for jit is 1.15 times that, and a quarter of `whole'.")


def main(lab):
    print("Predictions by script/memory-sim: virtual time, no device.")
    print("Throughput in percent of the same turns with all memory on the device; 8.5 GB a decoder, 39 GB/s each way while both")
    print("copy and 55 alone, commands 8 % slower beside copies. goal: what is to be reached on a device. wait: the longest.")
    print("GB in, stands: of each switch, what comes in, and for how long the device stands still. Turns end when they end.\n")
    for context, where in (("0", "contexts besides the device's size"), ("0.5G", "contexts of 0.5 GiB within the device's size")):
        print_decoders(lab, f"No kept copies, {where}", context, 100, 0)
        print_decoders(lab, f"Kept copies (5 % is written in a turn), {where}", context, 5, 1)
    print_overtime(lab)
    print_urgent(lab)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        FOLDER = sys.argv[2] if len(sys.argv) > 2 else temporary
        os.makedirs(FOLDER, exist_ok=True)
        main(sys.argv[1])
