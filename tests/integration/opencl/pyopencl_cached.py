#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyOpenCL keeps what it has built. A kernel whose result depends on a build option; told when to launch.

  launch   run the kernel once: "right" or "wrong"
"""
import sys

import numpy as np
import pyopencl as cl

SOURCE = """
__constant uint more[2] = {3u, 5u};
__kernel void f(__global uint *x, uint steps) {
    uint v = x[get_global_id(0)];
    for (uint k = 0; k < steps; k++)
        v = v * MULTIPLIER + more[k & 1];
    x[get_global_id(0)] = v;
}
"""
GROUPS, LOCAL, STEPS, MULTIPLIER = 512, 16, 400, 1664525


def main():
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build(options=[f"-DMULTIPLIER={MULTIPLIER}u"])
    kernel = program.f
    x = np.arange(GROUPS * LOCAL, dtype=np.uint32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
    print("ready", flush=True)
    for _ in sys.stdin:
        kernel(queue, (GROUPS * LOCAL,), (LOCAL,), buffer, np.uint32(STEPS))
        for k in range(STEPS):
            x = x * np.uint32(MULTIPLIER) + np.uint32(5 if k & 1 else 3)
        got = np.empty_like(x)
        cl.enqueue_copy(queue, got, buffer)
        print("right" if np.array_equal(got, x) else "wrong", flush=True)


if __name__ == "__main__":
    main()
