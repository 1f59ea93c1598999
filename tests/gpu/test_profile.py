#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab profile' on a device: it sees exactly what kernels touch of which that is known; what hashes say was written it
has seen; and a decoder in PyTorch is profiled in a minute. Its numbers of the Compute Sanitizer's interface are those of the
toolkit's headers."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Skip, check, command, main

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("SOURCE", os.path.join(HERE, "..", ".."))
KERNELS = int(os.environ.get("KERNELS", "200"))
FINEST = 512  # bytes between two accesses that may go unseen


def profile(stack, program, *options, seconds=300):
    """Its JSON; what it said; how long it took."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-profile-"))
    begin = time.monotonic()
    r = subprocess.run(command("profile", "--json", *options, "-o", os.path.join(folder, "result"), "--", *program),
                       capture_output=True, text=True, timeout=seconds, check=False)
    took = time.monotonic() - begin
    check(r.returncode == 0, f"status {r.returncode}: {r.stderr[-1500:]} {r.stdout[-300:]}")
    at = r.stdout.index("{\n") if "{\n" in r.stdout else r.stdout.index("{")
    return json.loads(r.stdout[at:]), r.stdout[:at], r.stderr, took


def header(name):
    folders = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"))]
    for folder in filter(None, folders):
        path = os.path.join(folder, "compute-sanitizer", "include", name)
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                return f.read()
    raise Skip(f"no toolkit with {name} here")


def numbers(_):
    """Ours, and those of the toolkit that is here."""
    text = header("sanitizer_patching.h") + header("sanitizer_callbacks.h")
    theirs = {k: int(v, 0) for k, v in re.findall(r"\b(SANITIZER_\w+)\s*=\s*(0x[0-9a-fA-F]+|\d+)", text)}
    want = {"SANITIZER_INSTRUCTION_BLOCK_ENTER": 1, "SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS": 3,
            "SANITIZER_INSTRUCTION_MEMCPY_ASYNC": 14, "SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED": 30,
            "SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL": 35, "SANITIZER_INSTRUCTION_BULK_REDUCTION_SHARED_TO_GLOBAL": 37,
            "SANITIZER_CB_DOMAIN_RESOURCE": 3, "SANITIZER_CBID_RESOURCE_MODULE_LOADED": 9,
            "SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING": 4, "SANITIZER_MEMORY_DEVICE_FLAG_PREFETCH": 8}
    with open(os.path.join(SOURCE, "src", "api", "cuda", "profile", "sanitizer.h"), encoding="ascii") as f:
        ours = sorted(int(v) for v in re.findall(r"= (\d+),", f.read()))
    check(ours == sorted(v for k, v in want.items() if "PREFETCH" not in k), f"sanitizer.h has other numbers: {ours}")
    wrong = {k: theirs.get(k) for k, v in want.items() if theirs.get(k) != v}
    check(not wrong, f"the toolkit's header says {wrong}, and we {({k: want[k] for k in wrong})}")
    print(f"         {len(want)} numbers are the toolkit's")


def joined(ranges, hole):
    out = []
    for a, b in ranges:
        if out and a - out[-1][1] < hole:
            out[-1][1] = max(b, out[-1][1])
        else:
            out.append([a, b])
    return out


def compare(seen, expected):
    """What is wrong with the spans of one pointer; None: nothing. Holes smaller than a granule may be filled, and all of them
    where there are too many."""
    if not expected:
        return "touched nothing" if seen else None
    if not seen or seen[0][0] != expected[0][0] or seen[-1][1] != expected[-1][1]:
        return "ends differ"
    coarse = joined(expected, 4 * FINEST)
    if len(coarse) <= 64:
        # Granules grow with the block.
        for hole in (FINEST, 4 * FINEST, 16 * FINEST, 64 * FINEST):
            if all(any(a >= x and b <= y for x, y in joined(expected, 2 * hole)) for a, b in seen):
                break
        else:
            return "too much"
    missing = [r for r in expected if not any(x <= r[0] and r[1] <= y for x, y in seen)]
    return f"{len(missing)} ranges are missing" if missing else None


def against(result, path, writes_alone=False):
    kernels = {k["name"]: k for k in result["kernels"]}
    wrong, pointers = [], 0
    with open(path, encoding="ascii") as f:
        expected = [json.loads(line) for line in f]
    for e in expected:
        k = kernels.get(e["name"])
        if not k:
            wrong.append(f"{e['name']} was not seen")
            continue
        seen = {p["at"]: p["spans"] for p in k["pointers"]}
        for i, (at, ranges) in enumerate(e["pointers"].items()):
            if writes_alone and e["ops"][i] == "load":
                continue
            pointers += 1
            why = compare(seen.get(int(at), []), ranges)
            if why:
                wrong.append(f"{e['name']} {at} n={e['n']} {e['ops'][i]}: {why}: {seen.get(int(at))} not {ranges[:4]}...")
    return expected, pointers, wrong


def work(stack, *what):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-profile-"))
    path = os.path.join(folder, "expected")
    return path, [sys.executable, os.path.join(HERE, "profile_work.py"), path, *what]


def needs_sanitizer(result, said):
    if result["sanitizer"]:
        raise Skip(f"no Compute Sanitizer here: {result['why'] or said[-300:]}")


def known(stack):
    path, argv = work(stack, "known")
    result, _, said, took = profile(stack, argv, "--check")
    for line in said.splitlines():
        print(f"         known: {line}")
    needs_sanitizer(result, said)
    _, pointers, wrong = against(result, path)
    check(not wrong, "; ".join(wrong[:5]))
    missed = sum(p["missed"] for k in result["kernels"] for p in k["pointers"])
    check(missed == 0, f"{missed} bytes were written and not seen")
    print(f"         {len(result['kernels'])} kernels, {pointers} pointers exactly; {took:.1f} s; {result['modules']} modules, "
          f"{result['patched']} instrumented, error {result['patch_error']}")


def drawn(stack):
    path, argv = work(stack, "random", str(KERNELS), "7")
    result, _, said, took = profile(stack, argv, "--check")
    needs_sanitizer(result, said)
    expected, pointers, wrong = against(result, path)
    missed = [k["name"] for k in result["kernels"] if any(p["missed"] for p in k["pointers"])]
    print(f"         {len(expected)} kernels, {pointers} pointers: {len(wrong)} wrong; hashes missed something of {len(missed)}; "
          f"{result['seen']} launches looked at, {took:.1f} s, of it {result['seconds']:.1f} s looking")
    check(not wrong, "; ".join(wrong[:5]))
    check(not missed, f"what hashes saw and the Sanitizer did not: {missed[:5]}")
    check(all(k["checked"] for k in result["kernels"]), "not all were checked")


def by_hashes(stack):
    path, argv = work(stack, "known")
    result, _, _, took = profile(stack, argv, "--by", "hash")
    check(all(set(k["by"]) == {"hash"} for k in result["kernels"]), f"{result['kernels']}")
    # What was written is there; how finely depends on how much there was.
    seen = {k["name"]: {p["at"]: p["spans"] for p in k["pointers"]} for k in result["kernels"]}
    check(seen["copy_words"][8] and not seen["copy_words"][0], f"{seen['copy_words']}")
    check(seen["from_the_middle"][0] and seen["from_the_middle"][0][0][0] in (0, 4096), f"{seen['from_the_middle']}")
    print(f"         {len(seen)} kernels, {took:.1f} s")


def marks(stack):
    path, argv = work(stack, "known")
    result, _, said, took = profile(stack, argv, "--by", "marks", "--check")
    _, pointers, wrong = against(result, path)
    check(not wrong, "; ".join(wrong[:5]))
    path, argv = work(stack, "random", str(KERNELS), "11")
    result, _, said, took = profile(stack, argv, "--by", "marks", "--check")
    expected, pointers, wrong = against(result, path)
    missed = [k["name"] for k in result["kernels"] if any(p["missed"] for p in k["pointers"])]
    print(f"         {len(expected)} kernels, {pointers} pointers: {len(wrong)} wrong; hashes missed something of {len(missed)}; {took:.1f} s")
    check(not wrong, "; ".join(wrong[:5]))
    check(not missed, f"what hashes saw and marks did not: {missed[:5]} {said[-300:]}")


def decode(stack):
    argv = [sys.executable, os.path.join(HERE, "profile_decode.py"), os.environ.get("LAYERS", "16")]
    begin = time.monotonic()
    r = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    if r.returncode:
        raise Skip(f"PyTorch does not work here: {r.stderr[-300:]}")
    native = time.monotonic() - begin
    result, out, said, took = profile(stack, argv, seconds=400)
    for line in said.splitlines():
        print(f"         {line}")
    check(out.splitlines()[-1] == r.stdout.splitlines()[-1], f"it computes something else: {out[-200:]}, natively {r.stdout[-200:]}")
    steps = [line for line in out.splitlines() if line.startswith(("prompt", "step"))]
    by = {}
    for k in result["kernels"]:
        for s, n in k["by"].items():
            by[s] = by.get(s, 0) + n
    outside = sum(k["outside"] for k in result["kernels"])
    forms = result.get("forms", {})
    print(f"         decode: {took:.1f} s, natively {native:.1f}; {' '.join(steps)}; {len(result['kernels'])} kernels, "
          f"{result['seen']} of {result['launches']} launches {by}, {outside} touched what is not named; forms {forms}")
    for k in sorted(result["kernels"], key=lambda k: -sum(p["bytes"] for p in k["pointers"]))[:8]:
        each = ", ".join(f"{p['at']}: {p['bytes'] // max(1, k['launches'])} of {p['behind'] // max(1, k['launches'])}"
                         for p in k["pointers"])
        print(f"         {k['name'][:60]} x{k['launches']}: {each}"[:230])
    needs_sanitizer(result, said)
    check(took <= native + 60, f"profiling a decode step takes {took:.0f} s, natively {native:.0f}")


if __name__ == "__main__":
    main(numbers, known, by_hashes, drawn, marks, decode)
