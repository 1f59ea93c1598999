#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Fermata adds to a launch stays what it is: the functions that a program calls most often are disassembled and
compared with the text in tests/data/hot, and their instructions are counted there by callgrind. A change that alters
them on purpose says so by `--update`, and the review then sees each instruction that came or went.

usage: BUILD=build tests/integration/cuda/guard/test_hot_functions.py [--update]"""
import difflib
import json
import math
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import BUILD, SANITIZE, Fermata, Skip, check, cuda_env, main, program

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data", "hot")
COUNTS = os.path.join(DATA, "counts.json")
CUDA, OPENCL = (os.path.join(BUILD, "lib", f"libfermata-{api}.so") for api in ("cuda", "opencl"))
UPDATE = "--update" in sys.argv[1:]
MORE = 1.02  # so many instructions more than kept are within bounds
HOW = f"If this is on purpose: {sys.argv[0]} --update, and commit tests/data/hot with the change"

# The functions to keep, each with those of its callees that are a part of it.
HOT = {
    CUDA: {
        "cuLaunchKernel": ("find_plain",),
        "cuLaunchKernel_ptsz": (),
        "cuMemcpyAsync": ("enter", "end"),
        "cuMemcpyAsync_ptsz": (),
        "cuEventRecord": ("fm_cuda_find_default",),
        "cuEventRecord_ptsz": (),
    },
    OPENCL: {"shim_clEnqueueNDRangeKernel": ()},
    os.path.join(BUILD, "tests", "libhot_begin.so"): {"hot_begin": (), "hot_end": ()},
}

# The calls to count: the function that the program calls, and the program with its arguments.
CUDA_HOT = (program("cuda_hot"), "--via", "link")
COUNT = {
    "cuLaunchKernel": (CUDA, "cuLaunchKernel", (*CUDA_HOT, "launch")),
    "cuLaunchKernel, default stream": (CUDA, "cuLaunchKernel", (*CUDA_HOT, "default")),
    "cuLaunchKernel_ptsz": (CUDA, "cuLaunchKernel_ptsz", (program("cuda_hot"), "--via", "link", "--ptds", "launch")),
    "cuMemcpyAsync": (CUDA, "cuMemcpyAsync", (*CUDA_HOT, "copy")),
    "cuEventRecord": (CUDA, "cuEventRecord", (*CUDA_HOT, "record")),
    "clEnqueueNDRangeKernel": (OPENCL, "shim_clEnqueueNDRangeKernel",
                               (os.path.join(BUILD, "bench", "bench_opencl_shim"), OPENCL)),
}


def output(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout


def need_this_build():
    """The text is of one compiler and one kind of build: that of the preset `release`."""
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
        cache = dict(re.findall(r"^(\w+):\w+=(.*)$", f.read(), re.MULTILINE))
    if SANITIZE or cache.get("FERMATA_COVERAGE") == "ON" or cache.get("CMAKE_C_FLAGS"):
        raise Skip("the build has flags of its own")
    if cache.get("CMAKE_BUILD_TYPE") != "RelWithDebInfo":
        raise Skip("the build is not of the preset `release`")
    if os.uname().machine != "x86_64":
        raise Skip("the text is of x86-64")
    if not re.search(r"GCC: \(.*\) 12\.", output("readelf", "-p", ".comment", CUDA)):
        raise Skip("the compiler is not GCC 12")


class Object:
    """A shared object: its functions, symbols and what the dynamic linker puts where."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.sections = [(int(a, 16), int(o, 16), int(s, 16)) for a, o, s in re.findall(
            r"^ +\[ *\d+\] \S+ +\S+ +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", output("readelf", "-SW", path), re.MULTILINE)]
        self.thread_local = {int(at, 16): name for at, name in re.findall(
            r"^ +\d+: ([0-9a-f]+) +\d+ TLS +\S+ +\S+ +\S+ (\S+)$", output("readelf", "-sW", path), re.MULTILINE)}
        self.relocs = {int(at, 16): (kind, int(value, 16)) for at, kind, value in re.findall(
            r"^([0-9a-f]+) +[0-9a-f]+ (R_X86_64_\w+) .*?([0-9a-f]+)$", output("readelf", "-rW", path), re.MULTILINE)}
        self.objects = {name: (int(at, 16), int(size)) for at, size, name in re.findall(
            r"^ +\d+: ([0-9a-f]+) +(\d+) OBJECT +\S+ +\S+ +\S+ (\S+)$", output("readelf", "-sW", path), re.MULTILINE)}
        self.functions = {}  # address: (name, lines)
        for at, name, text in re.findall(r"^([0-9a-f]+) <(\S+)>:\n(.*?)\n(?:\n|\Z)",
                                         output("objdump", "-d", "--no-show-raw-insn", "-j", ".text", path),
                                         re.MULTILINE | re.DOTALL):
            self.functions[int(at, 16)] = (name, text.splitlines())

    def text_at(self, address):
        """The string there; "" where there is none."""
        for at, offset, size in self.sections:
            if at and at <= address < at + size:
                data = self.bytes[offset + address - at:offset + at + size]
                return data[:data.index(b"\0")].decode("ascii", "replace") if b"\0" in data else ""
        return ""

    def row(self, name):
        """Where the row of that call begins in the table of the driver's calls, None where there is none."""
        table, size = self.objects.get("fm_cuda_calls", (0, 0))
        for at in range(table, table + size, 8):
            if self.relocs.get(at, ("", 0))[0] == "R_X86_64_RELATIVE" and self.text_at(self.relocs[at][1]) == name:
                return at - table
        return None

    def find(self, name):
        at = [a for a, (n, _) in self.functions.items() if n == name]
        check(len(at) == 1, f"{len(at)} functions are called {name}")
        return at[0]


def plain_name(name):
    """Without what the compiler has numbered."""
    return re.sub(r"\.(isra|constprop|part)\.\d+", r".\1", name)


class Operands:
    """Operands of a function with symbols in the place of addresses. Of the table of the driver's calls its own row is
    named, wherever that stands; so is the number of the row, where it can be told from others."""

    def __init__(self, so, row, row_size):
        self.so, self.row, self.table = so, row, None
        self.number = row // row_size if row is not None and row >= 16 * row_size else 0

    def in_row(self, offset):
        return f"ROW+{offset - self.row}" if self.row is not None and 0 <= offset - self.row < 64 else hex(offset)

    def symbol(self, at, name):
        kind, value = self.so.relocs.get(at, ("", 0))
        if kind == "R_X86_64_TPOFF64":
            return "thread-local " + self.so.thread_local.get(value, "?")
        if name.startswith("_GLOBAL_OFFSET_TABLE_"):
            return "GOT"
        base, _, offset = name.partition("+")
        if offset and not 0 <= int(offset, 16) < self.so.objects.get(base, (0, 0))[1]:
            return "constant"  # it has no name: what stands before it is named
        return f"{base}+{self.in_row(int(offset, 16))}" if base == "fm_cuda_calls" and offset else name

    def __call__(self, mnemonic, text):
        text, _, comment = (part.strip() for part in text.partition("#"))
        if comment:
            at, name = re.match(r"([0-9a-f]+) <(.*)>", comment).groups()
            text = re.sub(r"-?0x[0-9a-f]+\(%rip\)", f"[{self.symbol(int(at, 16), name)}]", text)
        if loads := re.match(r"\[fm_cuda_calls\],(%\w+)$", text):
            self.table = loads[1]
        elif self.table and (used := re.search(r"(?<![$\w])0x([0-9a-f]+)\(" + self.table + r"\)", text)):
            text = text.replace(used[0], f"{self.in_row(int(used[1], 16))}({self.table})")
            self.table = None
        if self.number and mnemonic == "mov":
            text = re.sub(rf"^\$0x{self.number:x},", "$ROW,", text)
        return text


def listing(so, at, parts, operands):
    """The function, and behind it those of its callees that are in `parts`."""
    name, lines = so.functions[at]
    code, targets, callees = [], {}, []
    for line in lines:
        where, rest = re.match(r" *([0-9a-f]+):\t(.*)", line).groups()
        rest = rest.replace("\t", " ")
        if re.match(r"(data16|cs|nop[wl]?|xchg +%ax,%ax)\b", rest):
            continue
        code.append((int(where, 16), rest))
        jump = re.match(r"j\w+ +([0-9a-f]+) ", rest)
        if jump and int(jump[1], 16) in range(at, int(lines[-1].split(":")[0], 16) + 1):
            targets[int(jump[1], 16)] = None
    for i, target in enumerate(sorted(targets)):
        targets[target] = f"L{i}"
    out = [plain_name(name) + ":"]
    for where, rest in code:
        if where in targets:
            out.append(f"{targets[where]}:")
        to = re.match(r"(call|j\w+) +([0-9a-f]+) <(.*)>$", rest)
        if not to:
            prefix, mnemonic, rest = re.match(r"((?:lock|rep) )?(\S+) *(.*)", rest).groups()
            out.append(f"\t{prefix or ''}{mnemonic} {operands(mnemonic, rest)}".rstrip())
            continue
        target, callee = int(to[2], 16), re.sub(r"\+0x[0-9a-f]+$", "", to[3])
        out.append(f"\t{to[1]} {targets.get(target) or plain_name(callee)}")
        if target in so.functions and plain_name(callee).split(".")[0] in parts:
            callees.append(target)
    for callee in dict.fromkeys(callees):
        out += [""] + listing(so, callee, (), Operands(so, None, 0))
    return out


def disassembled(_):
    """Each function is, instruction by instruction, the one that is kept."""
    need_this_build()
    if not shutil.which("objdump"):
        raise Skip("no objdump")
    differs = []
    for path, functions in HOT.items():
        so = Object(path)
        rows = {name: so.row(name) for name in functions}
        known = [row for row in rows.values() if row is not None]
        row_size = math.gcd(*(row - known[0] for row in known))
        for name, parts in functions.items():
            text = "\n".join(listing(so, so.find(name), parts, Operands(so, rows[name], row_size))) + "\n"
            kept = os.path.join(DATA, name + ".txt")
            if UPDATE:
                with open(kept, "w", encoding="ascii") as f:
                    f.write(text)
            with open(kept, encoding="ascii") as f:
                differs += difflib.unified_diff(f.read().splitlines(), text.splitlines(), kept, path, lineterm="", n=3)
    check(not differs, "\n".join(differs) + f"\n\nThe instructions of hot functions have changed. {HOW}; the count of the "
          "next case may then rise by 2 % at most")


def asserts_nothing(stack):
    """The order of locks is checked in builds for tests alone (src/base/lockorder.h)."""
    need_this_build()
    for path in HOT:
        with open(path, "rb") as f:
            check(b"lock order: " not in f.read(), f"{path} checks the order of locks: FERMATA_LOCK_ORDER is for tests")


def spent(out, so):
    """Instructions within the object, of a file of callgrind's."""
    total, inside, inclusive = 0, False, False
    with open(out, encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("ob="):
                inside = line.rstrip().endswith(os.path.basename(so))
            elif line.startswith("calls="):
                inclusive = True
            elif re.match(r"[+*\-\d]", line):
                total += int(line.split()[1]) if inside and not inclusive else 0
                inclusive = False
    return total


def count(fermata, so, function, argv):
    """Instructions of one call in our code: what 2000 calls more take, so that what the first does drops out."""
    took = []
    for times in (1000, 3000):
        out = os.path.join(fermata.dir, f"callgrind.{times}")
        env = cuda_env({**fermata.env, "FAKE_CUDA_THIN": "1"})
        if so == CUDA:
            env["LD_PRELOAD"] = CUDA
        r = subprocess.run(["valgrind", "-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                            f"--callgrind-out-file={out}", f"--toggle-collect={function}", *argv, str(times)],
                           env=env, capture_output=True, text=True, timeout=300)
        check(r.returncode == 0, f"{argv}: {r.returncode}, {r.stderr}")
        took.append(spent(out, so))
    check(0 < took[0] < took[1], f"{function} was not called in {argv}: {took} instructions in 1000 calls and 3000")
    return (took[1] - took[0]) / 2000


def counted(stack):
    """Nobody schedules the program: what is left is what every launch pays."""
    need_this_build()
    if not shutil.which("valgrind"):
        raise Skip("no valgrind")
    fermata = Fermata(stack, start=False)
    now = {}
    for name, (so, function, argv) in COUNT.items():
        if os.path.exists(argv[0]):
            now[name] = count(fermata, so, function, argv)
    check(set(now) >= {name for name, (so, *_) in COUNT.items() if so == CUDA}, f"programs are missing: {sorted(now)}")
    kept = {}
    if os.path.exists(COUNTS):
        with open(COUNTS, encoding="ascii") as f:
            kept = json.load(f)
    if UPDATE:
        with open(COUNTS, "w", encoding="ascii") as f:
            json.dump({**kept, **now}, f, indent=4)
            f.write("\n")
    for name, n in now.items():
        print(f"{name}: {n:g} instructions, {kept.get(name, 0):g} kept")
    more = [f"{name}: {n:g} instructions, {kept.get(name, 0):g} kept" for name, n in now.items() if
            not UPDATE and n > kept.get(name, 0) * MORE]
    check(not more, f"more than 2 % above what is kept: {more}. {HOW}, with the reason why it is worth it")


if __name__ == "__main__":
    if not os.path.exists(CUDA):
        print("the CUDA shim is not built")
        sys.exit(77)
    sys.argv = [a for a in sys.argv if a != "--update"]
    main(asserts_nothing, disassembled, counted)
