# SPDX-License-Identifier: Apache-2.0
"""For test_torch_bench.py: past_shim_program.py LIBRARY DRIVER calls the driver from a library that is linked with it, as
it is told by lines: past the shim, or through it. A round is four fills and a copy."""
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench"))
from past_shim import Shim

library = ctypes.CDLL(sys.argv[1])
words = (ctypes.c_uint32 * 64)()


def stay():
    """In a stream of its own, without which the daemon would forget this program between two rounds."""
    cuda, ctx, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    at = ctypes.c_uint64()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) or cuda.cuCtxSetCurrent(ctx) \
            or cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4)) or cuda.cuStreamCreate(ctypes.byref(stream), 1) \
            or cuda.cuMemsetD32Async(at, 0, ctypes.c_size_t(1), stream):
        sys.exit("the driver does nothing")


def work():
    if library.plugin_work(words, 64, 4) or list(words[:61]) != [3] * 61:
        sys.exit("the driver did something else")


stay()
work()  # so that all functions are bound
shim = Shim(driver=sys.argv[2])
print("ready", flush=True)
for line in sys.stdin:
    shim.through(line.strip() == "through")
    work()
    shim.through(True)
    print("done", flush=True)
