#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: pyopencl_chain.py SEED [cuts]

A chain of operations, drawn by SEED, on five buffers; prints a digest of all of them. With `cuts': each line of the standard
input, CUT START SEED, is one more run, from the beginning to CUT, of which some groups, drawn by that seed, run; then
from START to the end. Prints a digest for each."""
import hashlib
import random
import sys

import numpy as np
import pyopencl as cl

N, GROUP, BUFFERS, LENGTH = 64, 8, 5, 24
KERNELS = {
    "scale": "b[i] = a[i] * 3 + c;",
    "add": "b[i] += a[i] + c;",
    "turn": "l[j] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); b[i] = l[GROUP - 1 - j];",
    "pair": "b[i] = a[i] + c; barrier(CLK_GLOBAL_MEM_FENCE); uint x = b[i ^ 1]; barrier(CLK_GLOBAL_MEM_FENCE); b[i] = x;",
    "sum": "atomic_add(&b[i % 4], a[i]);",
    "bytes": "((global uchar *)b)[4 * i + 1] = (uchar)(a[i] + c);",
    "far": "b[(i + 16) % N] = a[i] + b[i + N];",  # the other half of the buffer is read
}
APART = {"turn", "pair", "sum", "bytes", "far"}  # of two buffers, since threads would race in one
SOURCE = "#define N %d\n#define GROUP %d\n" % (N, GROUP) + "".join(
    "kernel void %s(global uint *a, global uint *b, uint c) {\n uint i = get_global_id(0), j = get_local_id(0);\n"
    " local uint l[GROUP]; (void)j; (void)l; %s }\n" % kernel for kernel in KERNELS.items())


def draw(seed):
    """(name, from, to, constant, groups)"""
    rng = random.Random(seed)
    chain = []
    for _ in range(LENGTH):
        name = rng.choice([*KERNELS, *KERNELS, "fill", "copy"])
        a, b = rng.sample(range(BUFFERS), 2)
        a = a if name in APART or name == "copy" or rng.random() < 0.7 else b
        chain.append((name, a, b, rng.randrange(1, 100), rng.choice([N // GROUP, N // GROUP, N // GROUP // 2])))
    return chain


class Device:
    def __init__(self):
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        self.program = cl.Program(self.context, SOURCE).build()
        self.kernel = {name: cl.Kernel(self.program, name) for name in KERNELS}
        self.buffers = [cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 8 * N) for _ in range(BUFFERS)]

    def begin(self):
        for i, b in enumerate(self.buffers):
            cl.enqueue_copy(self.queue, b, np.arange(2 * N, dtype=np.uint32) * (2 * i + 1))

    def op(self, op, groups=None):
        """All of it; or only those groups, of a fill or copy as many bytes as they would write."""
        name, a, b, c, n = op
        a, b = self.buffers[a], self.buffers[b]
        size = 4 * GROUP * (n if groups is None else len(groups))
        if name == "fill":
            if size:
                cl.enqueue_fill_buffer(self.queue, b, np.uint32(c), 0, size)
        elif name == "copy":
            if size:
                cl.enqueue_copy(self.queue, b, a, byte_count=size)
        else:
            kernel = self.kernel[name]
            kernel.set_args(a, b, np.uint32(c))
            if groups is None:
                cl.enqueue_nd_range_kernel(self.queue, kernel, (n * GROUP,), (GROUP,))
            for g in groups or ():
                cl.enqueue_nd_range_kernel(self.queue, kernel, (GROUP,), (GROUP,), (g * GROUP,))

    def digest(self):
        h = hashlib.sha256()
        for b in self.buffers:
            to = np.zeros(2 * N, np.uint32)
            cl.enqueue_copy(self.queue, to, b)
            h.update(to.tobytes())
        return h.hexdigest()[:16]


def main():
    chain, device = draw(int(sys.argv[1])), Device()
    device.begin()
    for op in chain:
        device.op(op)
    print(device.digest())
    for line in sys.stdin if sys.argv[2:] == ["cuts"] else ():
        cut, start, seed = map(int, line.split())
        rng = random.Random(seed)
        groups = rng.sample(range(chain[cut][4]), rng.randrange(chain[cut][4] + 1))
        device.begin()
        for op in chain[:cut]:
            device.op(op)
        device.op(chain[cut], groups)
        for op in chain[start:]:
            device.op(op)
        print(device.digest())


main()
