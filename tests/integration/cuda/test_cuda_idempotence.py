#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab idempotence record' of CUDA programs, on the fake driver: the operations of each stream and what kernels do to
memory come out as they are, what cannot be seen counts as touching everything, and the program computes what it did."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import PATIENCE, check, command, cuda_env, main, need_cuda_shim, program

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data")
PTX = os.path.join(DATA, "again", "again.ptx")
MACHINE = os.path.join(DATA, "guard", "sm90.cubin")
ALLOCS = "alloc 1024\n" * 3


def run(argv, text=None, status=0, **env):
    given = {"input": text} if text is None or isinstance(text, str) else {"stdin": text}
    r = subprocess.run(argv, env=cuda_env({**os.environ, **env}), capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
                       **given)
    check(r.returncode == status, f"{argv[-3:]}: status {r.returncode}: {r.stdout[-800:]} {r.stderr[-1500:]}")
    return r


class Recorded:
    """A program's trace, and what follows from it."""
    def __init__(self, stack, text, *options):
        need_cuda_shim()
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        argv = [program("cuda_again"), PTX]
        self.path = os.path.join(folder, "trace")
        r = run([*command("idempotence", "record", *(options or ("--collector", "cuda")), "-o", self.path), "--", *argv], text,
                TMPDIR=folder)
        self.said = r.stderr
        check(r.stdout == run(argv, text).stdout, "the program computes something else")
        check(os.listdir(folder) == ["trace"], f"{os.listdir(folder)} was left")
        with open(self.path, encoding="ascii") as f:
            lines = [json.loads(line) for line in f]
        self.ops = [line for line in lines if "op" in line]
        results = {run(command("idempotence", "check", "--json", "--algorithm", a, self.path)).stdout
                   for a in ("forward", "greedy", "brute")}
        check(len(results) == 1, "algorithms differ")
        self.result = json.loads(results.pop())
        self.starts = {o["op"]: o["start"] for o in self.result["ops"]}
        self.kernels = {k["name"].removeprefix("again_"): k for k in self.result["kernels"]}

    def kinds(self):
        return [op["kind"] for op in self.ops]

    def kernel(self, name):
        return next(op for op in self.ops if op.get("name") == "again_" + name)

    def back(self, name):
        """How many operations back the start is; None: there is none."""
        op = self.kernel(name)["op"]
        return None if self.starts[op] is None else op - self.starts[op]


def spans(op, which):
    return sorted(s[1:] for s in op[which])


def what_kernels_do(stack):
    names = ("plain", "in_place", "twice", "sum", "gather", "across", "numbered", "halves", "keeps")
    r = Recorded(stack, ALLOCS + "up 1\n" + "".join(f"up 0\nrun again_{n} 0 1 128\n" for n in names))
    classes = {n: (k["class"], k["size"]) for n, k in r.kernels.items()}
    want = {n: ("never", 0) for n in names}
    want.update({n: ("idempotent", 1) for n in ("plain", "twice", "halves")})
    want["across"] = ("group", 1)
    check(classes == want, f"{classes}")
    ops = {n: r.kernel(n) for n in names}
    whole, first = [[0, 512]], [[0, 16]]
    for name, sets in {"plain": (whole, whole, whole), "in_place": (whole * 2, whole, []), "twice": (whole, whole, whole),
                       "sum": (first + whole, first, []), "across": (whole, whole, whole),
                       "halves": (whole, [[0, 256]], [[0, 256]])}.items():
        got = tuple(spans(ops[name], s) for s in "rwk")
        check(got == sets, f"{name}: {got}")
    check(spans(ops["sum"], "a") == first and not ops["plain"]["a"], f"{ops['sum']}")
    check(spans(ops["across"], "b") == whole and spans(ops["sum"], "b") == first and not ops["plain"]["b"], f"{ops['across']}")
    flags = {n: op["flags"] for n, op in ops.items() if op["flags"]}
    check(flags == {"gather": ["dynamic"], "numbered": ["approx"], "keeps": ["dynamic"]}, f"{flags}")
    check(ops["keeps"]["unseen"] == "outside" and "1 touch memory that no argument" in r.said, f"{ops['keeps']} {r.said}")
    check(ops["plain"]["scalars"].startswith("0;..80") and len(ops["plain"]["hash"]) == 32, f"{ops['plain']}")


def groups(stack):
    """An in-place addition runs again from the copy that made its input, a sum from the fill; a control without them does not."""
    r = Recorded(stack, ALLOCS + "up 1\ncopy 0 1\nrun again_in_place 0 1 128\n")
    check(r.back("in_place") == 1 and r.kernels["in_place"]["class"] == "group", f"{r.result}")
    r = Recorded(stack, ALLOCS + "up 1\nfill 0\nrun again_sum 0 1 128\n")
    check(r.back("sum") == 1 and r.kernels["sum"]["class"] == "group", f"{r.result}")
    r = Recorded(stack, ALLOCS + "up 1\nrun again_plain 0 1 256\nrun again_in_place 0 1 256\nrun again_in_place 0 1 256\n")
    check(r.kernels["in_place"]["size"] == 3 and r.back("in_place") == 1, f"{r.result}")
    for between in ("host", "record", "down 0", "write 2", "machine " + MACHINE + " 2 4", "graph 2 1 64"):
        r = Recorded(stack, ALLOCS + f"up 1\ncopy 0 1\n{'stream 1' if 'graph' in between else ''}\n".replace("\n\n", "\n") +
                     f"{between}\n{'stream 0' if 'graph' in between else 'stream 0'}\nrun again_in_place 0 1 128\n")
        check(r.back("in_place") is None, f"{between}: {r.result}")


def all_operations(stack):
    r = Recorded(stack, ALLOCS + "up 1\nfill 0\ncopy 2 0\nrun again_plain 0 1 64\nrecord\nstream 1\nwait\nrun again_plain 2 1 64\n"
                 "host\ndown 2\nfree 2\nwrite 0\n")
    own = r.ops[3:14]
    check([op["kind"] for op in own] == ["h2d", "memset", "d2d", "kernel", "event_record", "event_wait", "kernel", "host_fn", "d2h",
                                         "free", "host_fn"], f"{r.kinds()}")
    check([op["queue"] for op in own[:9]] == [0] * 5 + [1] * 4, f"{own}")
    check(spans(own[1], "w") == [[0, 1024]] and spans(own[2], "r") == [[0, 1024]] == spans(own[9], "w"), f"{own}")
    check(len(own[10]["w"]) == 2 == len(own[10]["r"]), f"a word is written, one does not know in which: {own[10]}")
    # What one stream writes and another one touches does not run again, whatever events lie between.
    r = Recorded(stack, ALLOCS + "up 1\nrun again_plain 0 1 64\nrecord\nstream 2\nwait\nrun again_plain 2 0 64\n")
    check([k["class"] for k in r.result["kernels"]] == ["never"] * len(r.result["kernels"]), f"{r.result}")


def what_is_not_seen(stack):
    r = Recorded(stack, ALLOCS + "up 1\nmachine " + MACHINE + " 0 8\nstream 1\ngraph 2 1 64\n")
    op = {op["name"]: op for op in r.ops if op["kind"] == "kernel"}
    for name, why in (("step", "machine"), ("(graph)", "graph")):
        check(op[name]["unseen"] == why and "dynamic" in op[name]["flags"], f"{op[name]}")
        check(spans(op[name], "r") == spans(op[name], "w") == [[0, 1024]] * 3, f"{op[name]}")
    check(r.result["summary"]["never"] == 2 and len(op) == 2, f"{r.result['summary']}")
    check("2 of 2 kernels count" in r.said and "1 have machine code alone" in r.said, r.said)


def what_ends_or_is_given_away(stack):
    """What is not certain counts against a kernel: no mark at all, memory that other processes have. A context that ends takes
    the recorder's tables along, and the program's memory; the next one has its own."""
    r = Recorded(stack, ALLOCS + "up 1\nidle again_plain 0 1\n")
    check(r.kernel("plain")["unseen"] == "failed" and r.kernels["plain"]["class"] == "never", f"{r.kernel('plain')}")
    again = ALLOCS + "up {1}\nrun again_plain {0} {1} 128\n"
    r = Recorded(stack, again.format(0, 1) + "reset\n" + again.format(3, 4))
    check(r.result["summary"]["idempotent"] == 2 and r.kinds().count("free") == 3, f"{r.result} {r.kinds()}")
    r = Recorded(stack, ALLOCS + "up 1\nexport 2\nrun again_plain 0 1 128\n")
    check(r.kernel("plain")["flags"] == ["visible"] and r.kernels["plain"]["class"] == "never", f"{r.result}")


def traces_that_are_cut(stack):
    """A program that ends in the middle of a line has all lines before it; one that could not write its trace is told so."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    path = os.path.join(folder, "t")
    head, op = '{"v":1,"alloc":[]}', '{"op":1,"kind":"kernel","name":"k","hash":"h"}'
    whole = f"{head}\n{op}\n"

    def record(text, status):
        script = 'printf "%s" "$1" >"$FERMATA_IDEMPOTENCE/1.cuda.trace"'
        return run([*command("idempotence", "record", "--force", "--collector", "cuda", "-o", path), "--", "sh", "-c", script, "sh",
                    text], status=status).stderr
    said = record(whole + op[:20], 0)
    with open(path, encoding="ascii") as f:
        check(f.read() == whole and "cut off" in said, said)
    check("cut off" not in record(whole, 0), "a whole trace is called cut")
    said = record("", 1)
    check("disk" in said and "4 GiB" in said, said)


def which_collector(stack):
    """The program decides, if nobody does."""
    text = ALLOCS + "up 1\nrun again_plain 0 1 64\n"
    argv = [program("cuda_again"), PTX]
    r = Recorded(stack, text, "--force")
    check(r.kernels["plain"]["class"] == "idempotent", f"{r.result}")
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    path = os.path.join(folder, "t")
    for options, what, status, word in ((("--collector", "cud"), argv, 2, "did you mean 'cuda'"),
                                        (("--collector", "cuda"), ["true"], 1, "neither CUDA nor OpenCL"),
                                        (("--collector", "cuda"), ["sh", "-c", "exit 7"], 7, "neither"),
                                        (("--collector", "cuda"), ["/nowhere/at/all"], 127, "cannot run")):
        r = run([*command("idempotence", "record", *options, "-o", path), "--", *what], text, status)
        check(word in r.stderr and not os.path.exists(path), f"{options}: {r.stderr}")


def tried(stack, text, lists, status=0, *options):
    """What `try' of that list finds in a program, by kernel."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    argv = [program("cuda_again"), PTX]
    with tempfile.TemporaryFile("w+", encoding="ascii") as given:  # both runs read it
        given.write(text)
        given.seek(0)
        r = run([*command("idempotence", "try", "--json", *(options or ("--collector", "cuda")), lists), "--", *argv], given, status,
                TMPDIR=folder)
    alone = run(argv, text).stdout
    check(r.stdout.count(alone) == 2 and not os.listdir(folder), f"another result: {r.stdout} {alone} {os.listdir(folder)}")
    result = json.loads(r.stdout[r.stdout.index("{"):])
    check(sum(k["differ"] for k in result["kernels"]) == result["differ"], f"{result}")
    return {k["name"].removeprefix("again_"): k for k in result["kernels"]}


def lists_are_tried(stack):
    """Kernels that may run again do so, groups from their start; one of which a list says too much does not."""
    names = ("plain", "in_place", "twice", "halves", "gather")
    text = (ALLOCS + "up 1\n" + "".join(f"copy 0 1\nrun again_{n} 0 1 250\n" for n in names) +
            "sync\nstream 1\nalloc 1024\nalloc 1024\nstream 0\nfill 2\nstream 1\nrun again_plain 3 4 200\nstream 0\n"
            "run again_sum 2 1 130\nrun again_plain 0 1 200\nrun again_in_place 0 1 256\n")
    texts, r = text, Recorded(stack, text)
    lists = os.path.join(os.path.dirname(r.path), "l.idem")
    run(command("idempotence", "check", "-o", lists, r.path))
    got = tried(stack, text, lists)
    check(got == tried(stack, text, lists, 0, "--json"), "another run finds something else")
    # Blocks of these may wait for each other, as their text says: they stop by all blocks or none.
    whole = ("twice", "sum")
    for n, k in got.items():
        want = (0, 0, 0) if k["class"] == "never" else (0, 0, 1) if n in whole else ({"plain": 3, "in_place": 2}.get(n, 1), 0, 0)
        check((k["same"], k["differ"], k["untried"]) == want, f"{k}")
    check({k["class"] for k in got.values()} == {"idempotent", "group", "never"}, f"{got}")
    # What belongs to a context that has ended is not used in the next one.
    text = ALLOCS + "up 1\nrun again_plain 0 1 250\nreset\n" + ALLOCS + "up 4\nrun again_plain 3 4 250\nexport 3\n"
    again = tried(stack, text, lists)
    check([(k["same"], k["untried"]) for k in again.values()] == [(2, 0)], f"{again}")
    text = texts
    # Everything is said to run again by itself: what reads what it writes is found out, what does not is not.
    with open(lists, encoding="ascii") as f:
        lines = [json.loads(line) for line in f]
    plain = next(line["why"] for line in lines[1:] if line["class"] == "idempotent")
    for line in lines[1:]:
        line.update({"class": "idempotent", "size": 1, "start": 0, "why": plain})
    with open(lists, "w", encoding="ascii") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    wrong = tried(stack, text, lists, 3)
    check({n for n, k in wrong.items() if k["differ"]} == {"in_place"}, f"{wrong}")
    check(all(k["same"] > 0 for n, k in wrong.items() if n in ("plain", "halves", "gather")), f"{wrong}")
    with open(lists, "w", encoding="ascii") as f:
        f.write("{}\n")
    check("l.idem:1" in run([*command("idempotence", "try", lists), "--", "true"], status=2).stderr, "a list that is none")
    for options, status, word in ((("--collector", "cud"), 2, "did you mean 'cuda'"), ((), 2, "no program given")):
        r = run(command("idempotence", "try", *options, lists), status=status)
        check(word in r.stderr, r.stderr)


if __name__ == "__main__":
    main(lists_are_tried, what_kernels_do, groups, all_operations, what_is_not_seen, what_ends_or_is_given_away, traces_that_are_cut, which_collector)
