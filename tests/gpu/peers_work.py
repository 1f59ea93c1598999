#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deterministic work for memory that several devices or processes reach; prints a line for each round, with a digest.

usage: peers_work.py devices                how many there are
       peers_work.py copies|access|passed [ROUNDS]

copies  by the driver's calls, between devices that have not been given access to each other
access  by PyTorch, which gives access, both ways, and with kernels behind them
passed  a tensor of this process is changed by another, in turn (torch.multiprocessing)

Without ROUNDS until "stop" comes on stdin; kinds of rounds repeat after eight."""
import ctypes
import hashlib
import select
import sys

import torch
import torch.multiprocessing as mp

KINDS, N = 8, 24 << 20  # floats: 96 MiB


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().numpy().tobytes())
    return h.hexdigest()[:16]


def fresh(kind, device):
    g = torch.Generator().manual_seed(kind)
    return torch.randn(N, generator=g).to(device)


class Driver:
    """The primary contexts of two devices, and what the driver's own copies say."""

    def __init__(self):
        self.cu = ctypes.CDLL("libcuda.so.1")
        self.ctx = [ctypes.c_void_p(), ctypes.c_void_p()]
        for i, ctx in enumerate(self.ctx):
            self.check("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), i)

    def check(self, name, *args):
        rc = getattr(self.cu, name)(*args)
        if rc:
            sys.exit(f"{name}: error {rc}")

    def copy(self, dst, src):
        at = [ctypes.c_uint64(t.data_ptr()) for t in (dst, src)]
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
        self.check("cuMemcpyPeer", at[0], self.ctx[dst.device.index], at[1], self.ctx[src.device.index],
                   ctypes.c_size_t(src.numel() * src.element_size()))
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)


def copies():
    driver, x, y = Driver(), torch.empty(N, device=0), torch.empty(N, device=1)
    for i in range(2):
        print("access", torch.cuda.can_device_access_peer(i, 1 - i), file=sys.stderr)

    def one(kind):
        x.copy_(fresh(kind, "cpu"))
        driver.copy(y, x)
        y.mul_(1.5)
        driver.copy(x, y)
        return digest(x, y)

    return one


def access():
    kept = [torch.empty(N, device=d) for d in (0, 1)]

    def one(kind):
        x = fresh(kind, 0)
        for i in range(6):
            kept[1].copy_(x, non_blocking=True)  # from the other device's memory, by the one or the other
            y = kept[1].sin_().to(0, non_blocking=True)
            kept[0].copy_(y)
            x = kept[0] + i
        return digest(x, *kept)

    return one


def other(orders, done):
    while True:
        order = orders.get()
        if order is None:
            return
        tensor, kind = order
        tensor.mul_(1 + kind / 8).add_(1)
        torch.cuda.synchronize()
        del tensor
        done.put(kind)


def passed():
    ctx = mp.get_context("spawn")
    orders, done = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=other, args=(orders, done), daemon=True)
    process.start()
    shared, own = torch.empty(N, device=0), torch.zeros(N, device=0)

    def one(kind):
        shared.copy_(fresh(kind, "cpu"))
        own.copy_(shared)
        torch.cuda.synchronize()
        orders.put((shared, kind))
        done.get()
        return digest(shared - own)

    return one


def told_to_stop():
    return select.select([sys.stdin], [], [], 0)[0] and sys.stdin.readline().strip() in ("stop", "")


def main():
    if sys.argv[1] == "devices":
        print(torch.cuda.device_count())
        return
    one, most, i = {"copies": copies, "access": access, "passed": passed}[sys.argv[1]](), None, 0
    if len(sys.argv) > 2:
        most = int(sys.argv[2])
    while i != most and (most or not told_to_stop()):
        print(f"round {i} {one(i % KINDS)}", flush=True)
        i += 1


if __name__ == "__main__":
    main()
