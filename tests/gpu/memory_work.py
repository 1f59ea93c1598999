#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of the device, by PyTorch. usage: memory_work.py CASE
  info          what the device has and has left, as PyTorch and NVML say
  fill          takes blocks until there are no more, gives half of them back, takes one again
  hold MIB      takes that much in several ways, says "ready", and ends with its input
  fills MIB     takes that much in blocks of 256 MiB, says so, and ends with its input
  libraries     has each library of PyTorch's do something, the profiler last; says which after each, and goes on with a line
  rounds [N]    works on memory of 1.3 GiB that all rounds share; a digest of each round (there are 8 kinds), until N or
                "stop" comes in"""
import ctypes
import hashlib
import json
import os
import sys
import threading

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402

DEV = "cuda"
MIB = 1 << 20
KINDS = 8


def say(**what):
    print(json.dumps(what), flush=True)


class Info(ctypes.Structure):  # nvmlMemory_t
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def nvml_info():
    """Of the first device; None where there is no NVML."""
    try:
        lib = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    device, m = ctypes.c_void_p(), Info()
    if lib.nvmlInit_v2() or lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
        return None
    return None if lib.nvmlDeviceGetMemoryInfo(device, ctypes.byref(m)) else {"total": m.total, "free": m.free, "used": m.used}


def info():
    torch.zeros(1, device=DEV)
    free, total = torch.cuda.mem_get_info()
    say(free=free, total=total, nvml=nvml_info(), properties=torch.cuda.get_device_properties(0).total_memory)


def fill():
    blocks, error = [], None
    while error is None and len(blocks) < 4096:
        try:
            blocks.append(torch.full((64 * MIB,), len(blocks) % 251, dtype=torch.uint8, device=DEV))
        except torch.OutOfMemoryError as e:
            error = str(e).splitlines()[0]
    reached = torch.cuda.memory_reserved()
    right = all(int(b.cpu().sum(dtype=torch.int64)) == i % 251 * 64 * MIB for i, b in enumerate(blocks))
    del blocks[::2]
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved()
    again = torch.full((64 * MIB,), 7, dtype=torch.uint8, device=DEV)
    right = right and int(again.sum(dtype=torch.int64)) == 7 * 64 * MIB
    say(reached=reached, kept=kept, error=error, right=right, free=torch.cuda.mem_get_info()[0])


def hold(mib):
    """Tensors large and small, and the pool of a graph."""
    keep = [torch.zeros(MIB * (mib // 4), dtype=torch.uint8, device=DEV) for _ in range(3)]
    keep += [torch.zeros(MIB // 2, dtype=torch.uint8, device=DEV) for _ in range(mib // 4)]
    graph, x = torch.cuda.CUDAGraph(), torch.ones(MIB, device=DEV)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x * 2 + 1
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        y = torch.cat([x * i for i in range(16)])
    graph.replay()
    torch.cuda.synchronize()
    say(ready=True, reserved=torch.cuda.memory_reserved(), y=float(y[-1]))
    sys.stdin.read()
    del keep


def fills(mib):
    keep = [torch.zeros(256 * MIB, dtype=torch.uint8, device=DEV) for _ in range(mib // 256)]
    torch.cuda.synchronize()
    say(filled=len(keep) * 256)
    sys.stdin.read()


def fft(x):
    torch.fft.rfft2(x)


def compiled(x):
    """By NVRTC, at run time."""
    torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return x + x; }")(x)


def profiled(x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        x.mul(2)
        torch.cuda.synchronize()


LIBRARIES = {
    "memory": lambda x: x.fill_(1),
    "cuBLAS": lambda x: x @ x,
    "cuBLASLt": lambda x: torch.nn.functional.linear(x.half(), x.half(), x[0].half()),
    "cuDNN": lambda x: torch.nn.functional.conv2d(x.view(1, 1, 512, 512), torch.ones(4, 1, 3, 3, device=DEV)),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(*(x.view(1, 8, 64, 512).half(),) * 3),
    "cuFFT": fft,
    "cuRAND": lambda x: x.normal_(),
    "cuSPARSE": lambda x: torch.eye(512, device=DEV).to_sparse_csr() @ x,
    "cuSOLVER": lambda x: torch.linalg.cholesky(torch.eye(512, device=DEV)),
    "NVRTC": compiled,
    "profiler": profiled,
}


def libraries():
    x = torch.ones(512, 512, device=DEV)
    keep = torch.zeros(64 * MIB, dtype=torch.uint8, device=DEV)
    for name, use in LIBRARIES.items():
        error = None
        try:
            use(x)
            torch.cuda.synchronize()
        except Exception as e:  # a library that is not there is no matter of this test's
            error = str(e).splitlines()[0][:120]
        say(did=name, error=error)
        if not sys.stdin.readline():
            break
    del keep


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Rounds:
    def __init__(self):
        g = torch.Generator(device="cpu").manual_seed(11)
        self.weights = [torch.randn(2048, 2048, generator=g).to(DEV) for _ in range(24)]
        self.large = torch.arange(64 * MIB, dtype=torch.int32, device=DEV)  # 256 MiB
        self.rest = [torch.arange(MIB * 20, dtype=torch.int32, device=DEV) * i for i in range(8)]
        self.x = torch.zeros(2048, 2048, device=DEV)
        self.pinned = torch.empty(4 * MIB, dtype=torch.int32, pin_memory=True)
        self.side = torch.cuda.Stream()
        self.start = [torch.randn(2048, 2048, generator=g).pin_memory() for _ in range(KINDS)]
        self.graph = torch.cuda.CUDAGraph()
        self.chain()  # libraries get their memory
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.chain()

    def chain(self):
        for w in self.weights:
            self.x.copy_(torch.tanh(self.x @ w * 0.02))

    def round(self, k):
        """Leaves what rounds share as it was."""
        self.x.copy_(self.start[k], non_blocking=True)
        if k % 2:
            self.graph.replay()
        else:
            self.chain()
        rows = (torch.arange(MIB, device=DEV, dtype=torch.int64) * 7919 + k * 104729) % self.large.numel()
        self.large.add_(k + 1)
        picked = self.large[rows]
        self.large.sub_(k + 1)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            part = self.rest[k][: self.pinned.numel()]
            self.pinned.copy_(part, non_blocking=True)
            part.zero_()
            part.copy_(self.pinned, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.side)
        whole = self.rest[k].sum(dtype=torch.int64) + self.large.sum(dtype=torch.int64)
        return digest(self.x, picked, whole)


def rounds(most):
    stop = threading.Event()

    def listen():
        if sys.stdin.readline().strip() == "stop":
            stop.set()

    threading.Thread(target=listen, daemon=True).start()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    work, n = Rounds(), 0
    while n != most and not stop.is_set():
        print(f"round {n} {work.round(n % KINDS)}", flush=True)
        n += 1
    print(f"end {n}", flush=True)


if __name__ == "__main__":
    case, argument = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if case in ("hold", "fills"):
        {"hold": hold, "fills": fills}[case](argument)
    elif case == "rounds":
        rounds(argument or None)
    else:
        {"info": info, "fill": fill, "libraries": libraries}[case]()
    sys.stdout.flush()
    os._exit(0) if case == "rounds" else None  # the thread that listens may hold its input
