#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab idempotence' through the front door: a trace that Oclgrind has recorded says from where a chain of kernels may
run again, and on PoCL it ends as it does when nobody interrupts it, wherever it is cut off and whichever groups had
run. From elsewhere it does not always. And what cannot be read or recorded is told."""
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, PATIENCE, SANITIZE, Skip, check, command, main

PYTHON = "/usr/bin/python3"  # Debian's, whose packages these are
CHAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyopencl_chain.py")
LONG = bool(os.environ.get("FERMATA_TEST_LONG"))


def run(*argv, status=0, **more):
    r = subprocess.run(argv, capture_output=True, text=True, timeout=4 * PATIENCE, check=False, **more)
    check(r.returncode == status, f"{argv[-3:]}: status {r.returncode}, not {status}: {r.stdout[-500:]} {r.stderr[-1500:]}")
    return r


def lab(*argv, status=0):
    return run(*command("idempotence", *argv), status=status)


def need_recorder():
    if not shutil.which("oclgrind"):
        raise Skip("oclgrind is not installed")
    if not os.path.exists(os.path.join(BUILD, "lib", "libfermata-oclgrind.so")):
        raise Skip("built without liboclgrind-dev")


def need_pyopencl():
    if subprocess.run([PYTHON, "-c", "import pyopencl"], capture_output=True, check=False).returncode:
        raise Skip("python3-pyopencl is not installed")


def json_behind(text):
    """What a command printed behind the output of its program."""
    return json.loads(text[text.index("{\n"):])


def starts_of(folder, seed):
    """Of each operation of the chain: its start, as one of these, or None; and whether it is a kernel that may run again by
    itself. All algorithms say the same."""
    trace = os.path.join(folder, f"{seed}.jsonl")
    r = lab("record", "-o", trace, "--", PYTHON, CHAIN, str(seed))
    with open(trace, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    said = lab("check", "--json", trace).stdout
    for algorithm in ("greedy", "brute"):
        check(lab("check", "--json", "--algorithm", algorithm, trace).stdout == said, f"{algorithm} says something else")
    place = {op["op"]: i for i, op in enumerate(line for line in lines if line.get("kind") in ("kernel", "memset", "d2d"))}
    ops = [o for o in json.loads(said)["ops"] if o["op"] in place]
    return r.stdout.strip(), [None if o["start"] is None else place[o["start"]] for o in ops]


def cuts(seed, plan):
    env = {**os.environ, "PYOPENCL_CTX": "0"}
    text = "".join(f"{cut} {start} {groups}\n" for cut, start, groups in plan)
    return run(PYTHON, CHAIN, str(seed), "cuts", input=text, env=env).stdout.split()


def cut_off_anywhere(stack):
    need_recorder()
    need_pyopencl()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    seeds, differ, back, never = range(40) if LONG else range(2), 0, 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        whole, starts = starts_of(folder, seed)
        check(len(starts) == 24, f"{len(starts)} operations of the chain were seen")
        good = [(k, s, rng.randrange(1 << 30)) for k, s in enumerate(starts) if s is not None for _ in range(3)]
        bad = [(k, k, rng.randrange(1 << 30)) for k, s in enumerate(starts) if s != k for _ in range(3)]
        native, *ends = cuts(seed, good + bad)
        check(native == whole, f"seed {seed}: Oclgrind and the device differ by themselves")
        for (cut, start, groups), end in zip(good, ends):
            check(end == native, f"seed {seed}: cut at {cut} ({groups}), from {start}: memory differs")
        differ += sum(end != native for end in ends[len(good):])
        back += sum(s is not None and s < k for k, s in enumerate(starts))
        never += sum(s is None for s in starts)
    check(back and never and differ, f"{back} groups, {never} without one, {differ} differ from a wrong start")
    print(f"         {back} groups, {never} without one; {differ} runs from a wrong start end otherwise")


PROGRAM = """
import numpy as np, pyopencl as cl
c = cl.create_some_context(interactive=False)
q = cl.CommandQueue(c)
p = cl.Program(c, '''
kernel void plain(global uint *a, global uint *b) { b[get_global_id(0)] = a[get_global_id(0)]; }
kernel void gather(global uint *a, global uint *b) { b[get_global_id(0)] = a[a[get_global_id(0)] & 15]; }
kernel void branch(global uint *a, global uint *b) { if (a[get_global_id(0)] > 3) b[get_global_id(0)] = 1; }
kernel void staged(global uint *a, global uint *b, local uint *l) {
    l[get_local_id(0)] = a[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE); b[l[0] & 15] = 1; }
kernel void loop(global uint *a, global uint *b, uint n) {
    uint s = 0; for (uint i = 0; i < n; i++) s += a[i]; b[get_global_id(0)] = s; }
kernel void across(global uint *b) { b[get_global_id(0)] = 1; b[16 + get_global_id(0)] = b[(get_global_id(0) + 4) % 16]; }
typedef struct { uint v[8]; } some;
kernel void moved(global some *a, global uint *b) { some x = a[0], y; y = x; b[y.v[get_global_id(0) & 7] & 15] = 1; }
kernel void given(constant uint *a, global uint *b) { b[get_global_id(0)] = a[get_global_id(0)]; }
kernel void wide(global uint *a, global uint *b) { vstore4(vload4(get_global_id(0) & 3, a), get_global_id(0) & 3, b + 16); }
uint one_of(global uint *a, uint i) { return a[i & 15]; }
kernel void through(global uint *a, global uint *b) { b[one_of(a, get_global_id(0)) & 15] = 2; }
kernel void brought(global uint *a, global uint *b, local uint *l) {
    event_t e = async_work_group_copy(l, a + 4 * get_group_id(0), 4, 0); wait_group_events(1, &e);
    b[get_global_id(0)] = l[get_local_id(0)]; }
kernel void last(global uint *b) { atomic_xchg(&b[0], (uint)get_global_id(0)); }
kernel void numbered(global uint *a, global uint *b) { b[get_global_id(0)] = atomic_inc(a); }
''').build()
a, b = (cl.Buffer(c, cl.mem_flags.READ_WRITE, 128) for _ in 'ab')
cl.enqueue_fill_buffer(q, a, np.uint32(5), 0, 128)
p.plain(q, (16,), (4,), a, b)
p.plain(q, (16,), (4,), b, a)
p.gather(q, (16,), (4,), a, b)
p.branch(q, (16,), (4,), a, b)
p.staged(q, (16,), (4,), a, b, cl.LocalMemory(16))
p.loop(q, (16,), (4,), a, b, np.uint32(8))
p.across(q, (16,), (4,), b)
p.moved(q, (16,), (4,), a, b)
p.given(q, (16,), (4,), a, b)
p.wide(q, (16,), (4,), a, b)
p.through(q, (16,), (4,), a, b)
p.brought(q, (16,), (4,), a, b, cl.LocalMemory(16))
p.last(q, (16,), (4,), b)
cl.enqueue_fill_buffer(q, a, np.uint32(5), 0, 128)
p.numbered(q, (16,), (4,), a, b)
# Oclgrind does not get to its end.
p = cl.Program(c, 'kernel void anywhere(global uint *a, global uint *b) { uint *p = a; b[p[get_global_id(0)] & 15] = 1; }')
p.build(['-cl-std=CL2.0']).anywhere(q, (16,), (4,), a, b)
import sys
for value in '12':  # of the same text, but not the same code
    with open(sys.argv[1] + '/value.h', 'w') as f:
        f.write(value)
    p = cl.Program(c, 'kernel void brings(global uint *a) { a[get_global_id(0)] =\\n#include "value.h"\\n; }')
    p.build(['-I' + sys.argv[1]], cache_dir=False).brings(q, (16,), (4,), a)
q.finish()
"""
CLASSES = {"plain": "idempotent", "gather": "never", "branch": "never", "staged": "never", "loop": "idempotent",
           "across": "group", "last": "never", "moved": "never", "given": "idempotent", "wide": "group", "through": "never",
           "brought": "idempotent", "numbered": "never", "anywhere": "never", "brings": "idempotent"}


def what_code_says(stack):
    """Addresses and branches that follow from memory make a kernel that never runs again; a list of it all is shown."""
    need_recorder()
    need_pyopencl()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    trace, out = os.path.join(folder, "t"), os.path.join(folder, "l.idem")
    lab("record", "-o", trace, "--", PYTHON, "-c", PROGRAM, folder)
    result = json.loads(lab("check", "--json", trace, "-o", out).stdout)
    check({k["name"]: k["class"] for k in result["kernels"]} == CLASSES, f"{result['kernels']}")
    check(result["summary"]["kernels"] == 17 and result["summary"]["idempotent"] == 7, f"{result['summary']}")
    check(len({k["key"] for k in result["kernels"] if k["name"] == "brings"}) == 2, "other code has the same key")
    with open(trace, encoding="utf-8") as f:
        seen = {op["name"]: op for op in map(json.loads, f) if op.get("kind") == "kernel"}
    for name in ("given", "brought"):
        check([s[1:] for s in seen[name]["r"]] == [[0, 64]] == [s[1:] for s in seen[name]["k"]], f"{seen[name]}")
    check(seen["wide"]["b"] and not seen["given"]["b"], f"{seen['wide']}")  # all groups write the same
    shown = json.loads(lab("show", "--json", out).stdout)["kernels"]
    check({k["key"] for k in shown} == {k["key"] for k in result["kernels"]}, f"{shown}")
    check("plain" in lab("show", out).stdout, "the table lacks a kernel")
    os.chmod(out, 0o666)
    check("chmod go-w" in lab("show", out, status=1).stderr, "others can write to it")
    lab("check", trace, "-o", out, status=1)
    lab("record", "-o", trace, "--", "true", status=1)
    lab("record", "--force", "-o", trace, "--", "sh", "-c", "exit 7", status=7)
    check(json.loads(lab("check", "--json", trace).stdout) == result, "a trace was lost")


def lists_are_tried(stack):
    """A list is right; one that says too much of a kernel is not, and neither is one of another program."""
    need_recorder()
    need_pyopencl()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    trace, out = os.path.join(folder, "t"), os.path.join(folder, "l.idem")
    argv = ["--", PYTHON, CHAIN, "7"]
    lab("record", "-o", trace, *argv)
    classes = {k["key"]: k["class"] for k in json.loads(lab("check", "--json", trace, "-o", out).stdout)["kernels"]}
    result = json_behind(lab("try", "--json", out, *argv).stdout)
    tried = {k["key"]: k for k in result["kernels"]}
    check({k: t["class"] for k, t in tried.items()} == classes, f"{tried} {classes}")
    check(all((tried[k]["same"] > 0) == (c != "never") and not tried[k]["differ"] for k, c in classes.items()), f"{tried}")
    check({"group", "never", "idempotent"} <= set(classes.values()), f"{classes}")
    with open(out, encoding="ascii") as f:
        lines = [json.loads(line) for line in f]
    plain = next(line["why"] for line in lines[1:] if line["class"] == "idempotent")
    for line in lines[1:]:
        line.update({"class": "idempotent", "size": 1, "start": 0, "why": plain})
    with open(out, "w", encoding="ascii") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    result = json_behind(lab("try", "--json", out, *argv, status=3).stdout)
    wrong = {k["key"] for k in result["kernels"] if k["differ"]}
    check(wrong and all(classes[k] != "idempotent" for k in wrong), f"{result} {classes}")
    result = json_behind(lab("try", "--json", out, "--", PYTHON, "-c", PROGRAM, folder).stdout)
    check(all(k["class"] == "unknown" for k in result["kernels"]), f"{result}")
    lab("try", out, "--", "/nowhere/program", status=127)


def what_is_refused(stack):
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    path = os.path.join(folder, "t")
    head = '{"v":1,"alloc":[{"id":1,"base":"0x1000","size":8}]}\n'
    for text, says in ((head + '{"op":1,"kind":"kernel","r":[[1,0,4]', ":2: column"), ('{"v":9,"alloc":[]}\n', ":1: v: is version 9"),
                       (head + '{"op":1,"kind":"kernel","r":[[1,4,4]]}\n', ":2: r[0]: "), ("", "there is no head")):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        said = lab("check", path, status=2).stderr
        check(f"{path}:" in said and says in said and "hint" in said, said)
    lab("check", status=2)
    lab("check", "--algorithm", "clever", path, status=2)
    lab("dance", status=2)
    lab("record", "--", "true", status=2)
    with open(path, "w", encoding="ascii") as f:
        f.write(head + "".join(f'{{"op":{i},"kind":"kernel","name":"k","r":[[1,{i},{i + 1}]],"w":[[1,{i},{i + 1}]]}}\n' for i in range(4)))
    check("4 never" in lab("check", path).stdout, "their classes")


def a_million(stack):
    """Operations, in half a gigabyte."""
    if not LONG:
        raise Skip("FERMATA_TEST_LONG is not set")
    folder, rng = stack.enter_context(tempfile.TemporaryDirectory()), random.Random(1)
    path = os.path.join(folder, "t")
    with open(path, "w", encoding="ascii") as f:
        f.write(json.dumps({"v": 1, "alloc": [{"id": i, "base": (i + 1) << 24, "size": 1 << 20} for i in range(64)]}) + "\n")
        for op in range(1000000):
            a, b, c, at = rng.randrange(64), rng.randrange(64), rng.randrange(64), rng.randrange(1 << 19)
            w = [[c, at, at + 4096 * rng.randrange(1, 64)]]
            f.write(json.dumps({"op": op, "queue": 1, "kind": "kernel", "name": f"k{op % 50}", "grid": [64], "block": [128],
                                "r": [[a, at, at + 65536]] + ([[b, 0, 1 << 20]] if a != b else []), "w": w,
                                "k": w if c not in (a, b) else []}) + "\n")

    def limits():
        if not SANITIZE:
            resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))

    r = run(*command("idempotence", "check", path), preexec_fn=limits)
    check(r.stdout.splitlines()[-1].startswith("1000000 launches: "), r.stdout[-200:])


os.environ["PYOPENCL_NO_CACHE"] = "1"  # a program that is in its cache is loaded as a binary, which is another program
main(cut_off_anywhere, what_code_says, lists_are_tried, what_is_refused, a_million)
