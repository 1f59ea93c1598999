#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plain PyOpenCL program: a chain of kernels, copies and maps, checked with numpy; prints digests."""
import hashlib
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array

SOURCE = """
__kernel void saxpy(__global float *y, __global const float *x, float a) {
    size_t i = get_global_id(0);
    y[i] = fma(a, x[i], y[i]);
}
__kernel void transpose(__global const int *in, __global int *out, int n) {
    int r = get_global_id(1), c = get_global_id(0);
    out[c * n + r] = in[r * n + c];
}
"""


def digest(name, a):
    print(name, hashlib.sha256(np.ascontiguousarray(a)).hexdigest()[:16])


def saxpy_chain(queue, program, rng):
    """Small integers, so that float arithmetic is exact on the device and in numpy."""
    x = rng.integers(0, 16, 1 << 16).astype(np.float32)
    y = np.zeros_like(x)
    dx, dy = cl.array.to_device(queue, x), cl.array.to_device(queue, y)
    for a in range(100):
        program.saxpy(queue, x.shape, None, dy.data, dx.data, np.float32(a % 7))
        y += np.float32(a % 7) * x
    got = dy.get()
    assert np.array_equal(got, y), "saxpy is wrong"
    digest("saxpy", got)


def transposes(context, queue, program, rng):
    n = 256
    a = rng.integers(0, 1 << 30, (n, n), dtype=np.int32)
    src = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=a)
    dst = cl.Buffer(context, cl.mem_flags.READ_WRITE, a.nbytes)
    event = None
    for _ in range(25):  # an odd number: the result is the transpose
        event = program.transpose(
            queue, (n, n), None, src, dst, np.int32(n), wait_for=[event] if event else None)
        src, dst = dst, src
    view, _ = cl.enqueue_map_buffer(queue, src, cl.map_flags.READ, 0, (n, n), np.int32)
    assert np.array_equal(view, a.T), "transpose is wrong"
    digest("transpose", view)
    view.base.release(queue)


def main():
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    rng = np.random.default_rng(7)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        saxpy_chain(queue, program, rng)
        transposes(context, queue, program, rng)
    total = cl.array.sum(cl.array.arange(queue, 100000, dtype=np.int64)).get()
    assert total == 100000 * 99999 // 2, "sum is wrong"
    print("sum", total)


if __name__ == "__main__":
    main()
