#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Launches kernels of which it is known what they touch, by CUDA's driver alone, and writes down what that is.

usage: profile_work.py EXPECTED (known | random N SEED [LAUNCHES])

EXPECTED gets a line of JSON for each kernel: its name and, for each pointer by its offset, the bytes that the last launch
touched, as ranges behind the pointer."""
import ctypes
import json
import random
import sys

BLOCK = 128
WIDTHS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    rc = getattr(cuda, name)(*args)
    if rc:
        sys.exit(f"{name}: error {rc}")


def pointer(v):
    return ctypes.c_uint64(v)


class Access:
    """Thread i touches `width` bytes at first + i * step + r * again, for each r below `times`."""

    def __init__(self, width, first, step, times, again, op):
        self.width, self.first, self.step, self.times, self.again, self.op = width, first, step, times, again, op

    def ranges(self, n):
        if not n:
            return []
        starts = sorted({self.first + i * self.step + r * self.again for i in range(n) for r in range(self.times)})
        out = []
        for at in starts:
            if out and at <= out[-1][1]:
                out[-1][1] = max(out[-1][1], at + self.width)
            else:
                out.append([at, at + self.width])
        return out

    def reach(self, n):
        return self.ranges(n)[-1][1] if n else 0

    def text(self, number, base):
        """PTX for one pointer, in registers of its own; the address of thread %rd0 is base + ..."""
        kind, w, p = WIDTHS[self.width], self.width, f"%q{number}"
        reg = f"%v{number}" if w == 8 else f"%w{number}"
        lines = [f"mul.lo.u64 {p}, %i, {self.step};", f"add.u64 {p}, {p}, {base};", f"add.u64 {p}, {p}, {self.first};"]
        for r in range(self.times):
            at = f"[{p}+{r * self.again}]"
            flip = f"xor.b64 {reg}, {reg}, 0x5a;" if w == 8 else f"xor.b32 {reg}, {reg}, 0x5a;"
            if self.op == "load":
                lines += [f"ld.global.{kind} {reg}, {at};", f"xor.b64 %sum, %sum, {reg};" if w == 8 else
                          f"cvt.u64.u32 %t, {reg}; xor.b64 %sum, %sum, %t;"]
            elif self.op == "store":
                lines += [f"st.global.{kind} {at}, {'0x5a5a'};" if w == 8 else f"st.global.{kind} {at}, %seven;"]
            elif self.op == "change":
                lines += [f"ld.global.{kind} {reg}, {at};", flip, f"st.global.{kind} {at}, {reg};"]
            elif self.op == "generic":
                lines += [f"ld.{kind} {reg}, {at};", flip, f"st.{kind} {at}, {reg};"]
            else:  # atomic, of four or eight bytes
                lines += [f"red.global.add.{kind} {at}, {7 if w == 8 else '%seven'};"]
        return lines


def kernel(name, accesses):
    """Of so many pointers, and the number of threads that do something."""
    params = [f".param .u64 p{i}" for i in range(len(accesses))] + [".param .u32 n"]
    body = [".reg .pred %stop, %never;", ".reg .b32 %x, %y, %z, %n, %seven;", ".reg .b64 %i, %sum, %t;",
            *(f".reg .b64 %b{i}, %q{i}, %v{i};" for i in range(len(accesses))),
            *(f".reg .b32 %w{i};" for i in range(len(accesses))),
            "mov.u32 %seven, 7;", "mov.u64 %sum, 0;", "mov.u32 %x, %ctaid.x;", "mov.u32 %y, %ntid.x;", "mov.u32 %z, %tid.x;",
            "mad.lo.u32 %x, %x, %y, %z;", "ld.param.u32 %n, [n];", "setp.ge.u32 %stop, %x, %n;", "@%stop bra END;",
            "cvt.u64.u32 %i, %x;"]
    for i, a in enumerate(accesses):
        body += [f"ld.param.u64 %b{i}, [p{i}];", f"cvta.to.global.u64 %b{i}, %b{i};", *a.text(i, f"%b{i}")]
    # The sum is needed, for all that the compiler knows.
    body += ["setp.eq.u64 %never, %sum, 0x123456789abcdef1;", "@%never st.global.u64 [%b0], %sum;", "END:", "ret;"]
    return f".visible .entry {name}({', '.join(params)})\n{{\n" + "\n".join(body) + "\n}\n"


def drawn(rng):
    """Strides and offsets of all kinds; one in three kernels has rows that are far apart."""
    out = []
    for _ in range(rng.randint(1, 3)):
        op = rng.choice(["load", "store", "change", "change", "generic", "atomic"])
        width = rng.choice([4, 8] if op == "atomic" else [1, 2, 4, 8])
        step = width * rng.choice([1, 1, 1, 2, 3, 16, 257])
        times = rng.randint(1, 4)
        again = width * rng.choice([1, 64, 4096, 30000, 300000]) if times > 1 else 0
        out.append(Access(width, width * rng.choice([0, 0, 1, 16, 1000]), step, times, again, op))
    return out


KNOWN = {
    "copy_words": [Access(4, 0, 4, 1, 0, "load"), Access(4, 0, 4, 1, 0, "store")],
    "from_the_middle": [Access(8, 4096, 8, 1, 0, "change")],
    "rows": [Access(4, 0, 4, 8, 2 << 20, "load"), Access(4, 0, 4, 1, 0, "atomic")],
    "behind_a_hole": [Access(4, 0, 4, 2, 1 << 20, "generic")],
    "bytes": [Access(1, 3, 1, 1, 0, "change")],
}


class Device:
    def __init__(self):
        device, self.ctx = ctypes.c_int(), ctypes.c_void_p()
        call("cuInit", 0)
        call("cuDeviceGet", ctypes.byref(device), 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.ctx), device)
        call("cuCtxSetCurrent", self.ctx)
        major, minor = ctypes.c_int(), ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.head = f".version 7.0\n.target sm_{70 if major.value >= 7 else major.value * 10 + minor.value}\n.address_size 64\n"

    def load(self, text):
        module = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p((self.head + text).encode()))
        return module

    def alloc(self, size):
        at = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        call("cuMemsetD8_v2", at, ctypes.c_ubyte(1), ctypes.c_size_t(size))
        return at.value


def run(device, module, name, accesses, n, rng):
    """Each pointer is to a block of its own, or all are in one."""
    f = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(f), module, name.encode())
    reach = [(a.reach(n) + 255) // 256 * 256 + 256 for a in accesses]
    if rng.random() < 0.3:
        base = device.alloc(sum(reach))
        blocks, starts = [base], [base + sum(reach[:i]) for i in range(len(reach))]
    else:
        blocks = starts = [device.alloc(r) for r in reach]
    values = [pointer(s) for s in starts] + [ctypes.c_uint32(n)]
    params = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
    call("cuLaunchKernel", f, max(1, -(-n // BLOCK)), 1, 1, BLOCK, 1, 1, 0, None, params, None)
    call("cuCtxSynchronize")
    for b in blocks:
        call("cuMemFree_v2", pointer(b))


def main():
    out, what, *more = sys.argv[1:]
    rng = random.Random(int(more[1]) if more else 1)
    kernels = KNOWN if what == "known" else {f"drawn{i}": drawn(rng) for i in range(int(more[0]))}
    launches = int(more[2]) if len(more) > 2 else 3
    device = Device()
    with open(out, "w", encoding="ascii") as to:
        # A module for some of them, as programs have it.
        names = list(kernels)
        for first in range(0, len(names), 20):
            some = names[first:first + 20]
            module = device.load("".join(kernel(k, kernels[k]) for k in some))
            for name in some:
                for _ in range(launches):
                    n = rng.choice([1, 100, 128, 1000, 4096, 10007])
                    run(device, module, name, kernels[name], n, rng)
                to.write(json.dumps({"name": name, "n": n, "ops": [a.op for a in kernels[name]],
                                     "pointers": {8 * i: a.ranges(n) for i, a in enumerate(kernels[name])}}) + "\n")


main()
