#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab idempotence record' on a device: small kernels of known natures, of which the marks are to say the same as on the
fake driver, and the program is to compute the same with them as without."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Skip, check, command, main, program

PTX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "again", "again.ptx")
ALLOCS = "alloc 1024\n" * 3
CLASSES = {"plain": "idempotent", "twice": "idempotent", "halves": "idempotent", "across": "group", "in_place": "never", "sum": "never",
           "gather": "never", "numbered": "never", "keeps": "never"}


def need_device():
    try:
        rc = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError as e:
        raise Skip(f"no driver of CUDA here: {e}") from e
    if rc:
        raise Skip(f"no device of CUDA here: cuInit gives {rc}")


def run(argv, text):
    r = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=300, check=False)
    check(r.returncode == 0, f"{argv[-3:]}: status {r.returncode}: {r.stdout[-800:]} {r.stderr[-1500:]}")
    return r


def recorded(stack, text):
    """Operations, and what `check' makes of them."""
    need_device()
    path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-record-")), "trace")
    argv = [program("cuda_again"), PTX]
    with_marks = run([*command("idempotence", "record", "--collector", "cuda", "-o", path), "--", *argv], text)
    check(with_marks.stdout == run(argv, text).stdout, "the program computes something else")
    with open(path, encoding="ascii") as f:
        ops = [op for op in map(json.loads, f) if "op" in op]
    return ops, json.loads(run(command("idempotence", "check", "--json", path), None).stdout)


def classes(result):
    return {k["name"].removeprefix("again_"): k["class"] for k in result["kernels"]}


def what_kernels_do(stack):
    ops, result = recorded(stack, ALLOCS + "up 1\n" + "".join(f"up 0\nrun again_{n} 0 1 128\n" for n in CLASSES))
    unseen = {op["name"]: op["unseen"] for op in ops if "unseen" in op}
    check(unseen == {"again_keeps": "outside"}, f"{unseen}")
    check(classes(result) == CLASSES, f"{classes(result)}")
    for op in ops:
        if op.get("name") == "again_plain":
            check([[s[1:] for s in op[which]] for which in "rwk"] == [[[0, 512]]] * 3 and not op["b"], f"{op}")


def groups_and_contexts(stack):
    _, result = recorded(stack, ALLOCS + "up 1\ncopy 0 1\nrun again_in_place 0 1 128\n")
    check(classes(result) == {"in_place": "group"}, f"{result}")
    again = ALLOCS + "up {1}\nrun again_plain {0} {1} 128\n"
    _, result = recorded(stack, again.format(0, 1) + "reset\n" + again.format(3, 4))
    check(result["summary"]["idempotent"] == 2, f"{result}")


def many_at_once(stack):
    """Large launches in two streams by turns: each has all of its marks."""
    text = "alloc 262144\n" * 4 + "up 1\nup 3\n"
    text += "".join(f"stream {i % 2}\nrun again_plain {i % 2 * 2} {i % 2 * 2 + 1} 65536\n" for i in range(100))
    ops, result = recorded(stack, text)
    kernels = [op for op in ops if op["kind"] == "kernel"]
    check(len(kernels) == 100 and all([s[1:] for s in op["w"]] == [[0, 262144]] for op in kernels), f"{result['summary']}")
    # The second stream's memory was filled by the first one.
    check((result["summary"]["idempotent"], result["summary"]["never"]) == (50, 50), f"{result['summary']}")


if __name__ == "__main__":
    main(what_kernels_do, groups_and_contexts, many_at_once)
