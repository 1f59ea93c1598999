#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA in processes that Python spawns, each with memory that it fills and reads back. They stay until the input
ends.
usage: PROCESSES"""
import ctypes
import multiprocessing
import sys

WORDS = 1024


def work(number):
    cu = ctypes.CDLL("libcuda.so.1")
    ctx, ptr, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
    words = (ctypes.c_uint32 * WORDS)()
    for rc in (cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0), cu.cuCtxSetCurrent(ctx),
               cu.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(4 * WORDS)),
               cu.cuStreamCreate(ctypes.byref(stream), 1)):
        assert rc == 0, rc
    for i in range(40):
        assert cu.cuMemsetD32Async(ptr, number * 1000 + i, ctypes.c_size_t(WORDS - i), stream) == 0
    assert cu.cuMemcpyDtoHAsync_v2(words, ptr, ctypes.c_size_t(4 * WORDS), stream) == 0
    assert cu.cuStreamSynchronize(stream) == 0
    assert cu.cuStreamDestroy_v2(stream) == 0
    return sum(words)


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(int(sys.argv[1])) as pool:
        for total in pool.map(work, range(int(sys.argv[1])), chunksize=1):
            print(total)
        print("end", flush=True)
        sys.stdin.read()
