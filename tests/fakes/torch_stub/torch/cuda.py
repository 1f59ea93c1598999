# SPDX-License-Identifier: Apache-2.0
"""Streams of the fake driver's, and a kernel that takes time."""
import ctypes
import os
import threading

pointer = ctypes.c_void_p
_here = threading.local()


class _Driver:
    """Made when it is first used, as PyTorch does it. Its context is made current in each thread."""

    def __init__(self):
        self.cu, self.ctx, module, self.spin, out = ctypes.CDLL("libcuda.so.1"), pointer(), pointer(), pointer(), pointer()
        self.must("cuInit", 0)
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(self.ctx), 0)
        self.must("cuCtxSetCurrent", self.ctx)
        with open(os.environ["TORCH_STUB_PTX"], "rb") as f:
            self.must("cuModuleLoadData", ctypes.byref(module), f.read() + b"\0")
        self.must("cuModuleGetFunction", ctypes.byref(self.spin), module, b"spin")
        self.must("cuMemHostAlloc", ctypes.byref(out), ctypes.c_size_t(4096), 3)
        self.out, self.ns = ctypes.c_uint64(), ctypes.c_uint64(int(os.environ.get("TORCH_STUB_KERNEL_NS", "20000")))
        self.must("cuMemHostGetDevicePointer_v2", ctypes.byref(self.out), out, 0)
        self.arguments = (pointer * 2)(ctypes.addressof(self.out), ctypes.addressof(self.ns))

    def must(self, name, *arguments):
        rc = getattr(self.cu, name)(*arguments)
        if rc:
            raise RuntimeError(f"CUDA error {rc}: {name}")


_driver, _lock = None, threading.Lock()


def _it():
    global _driver
    with _lock:
        _driver = _driver or _Driver()
    if not getattr(_here, "current", False):
        _driver.must("cuCtxSetCurrent", _driver.ctx)
        _here.current = True
    return _driver


def launch():
    _it().must("cuLaunchKernel", _it().spin, 1, 1, 1, 1, 1, 1, 0, pointer(current_stream().cuda_stream), _it().arguments, None)


class ExternalStream:
    def __init__(self, cuda_stream):
        self.cuda_stream = cuda_stream

    def synchronize(self):
        _it().must("cuStreamSynchronize", pointer(self.cuda_stream))


class Stream(ExternalStream):
    def __init__(self, priority=0):
        made = pointer()
        _it().must("cuStreamCreateWithPriority", ctypes.byref(made), 1, priority)
        super().__init__(made.value)


def init():
    _it()


def synchronize():
    _it().must("cuCtxSynchronize")


def empty_cache():
    pass


def is_available():
    return "TORCH_STUB_PTX" in os.environ


def get_device_name():
    return "no device"


def current_stream():
    return getattr(_here, "stream", None) or ExternalStream(0)


class stream:
    def __init__(self, of):
        self.of = of

    def __enter__(self):
        self.before, _here.stream = getattr(_here, "stream", None), self.of

    def __exit__(self, *_):
        _here.stream = self.before


def captures():
    """The graph that this thread captures."""
    return getattr(_here, "graph", None)


class CUDAGraph:
    def __init__(self):
        self.numbers, self.exec = [], pointer()

    def replay(self):
        _it().must("cuGraphLaunch", self.exec, pointer(current_stream().cuda_stream))
        for number in self.numbers:
            number.compute()

    def __del__(self):
        _it().cu.cuGraphExecDestroy(self.exec)


class graph:
    """Captures what the thread launches."""

    def __init__(self, into, stream, capture_error_mode):
        assert capture_error_mode == "thread_local"
        self.into, self.stream = into, stream

    def __enter__(self):
        self.current = stream(self.stream)
        self.current.__enter__()
        _it().must("cuStreamBeginCapture_v2", pointer(self.stream.cuda_stream), 1)
        _here.graph = self.into

    def __exit__(self, *_):
        made = pointer()
        _here.graph = None
        _it().must("cuStreamEndCapture", pointer(self.stream.cuda_stream), ctypes.byref(made))
        _it().must("cuGraphInstantiateWithFlags", ctypes.byref(self.into.exec), made, ctypes.c_uint64(0))
        _it().must("cuGraphDestroy", made)
        self.current.__exit__()


class Event:
    def __init__(self):
        self.made = pointer()
        _it().must("cuEventCreate", ctypes.byref(self.made), 2)

    def record(self):
        _it().must("cuEventRecord", self.made, pointer(current_stream().cuda_stream))

    def synchronize(self):
        _it().must("cuEventSynchronize", self.made)

    def __del__(self):
        _it().cu.cuEventDestroy_v2(self.made)
