#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deterministic work for several GPUs, a process each, that wait for each other on the device (NCCL); prints a digest
of each rank's results. usage: nccl_work.py ROUNDS"""
import hashlib
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def digest(t):
    return hashlib.sha256(t.detach().float().cpu().numpy().tobytes()).hexdigest()[:16]


def all_reduce(rank):
    total = torch.zeros(1 << 20, device=rank)
    for i in range(100):
        x = torch.full((1 << 20,), float(rank + 1 + i % 7), device=rank)
        dist.all_reduce(x)
        total += x
    return total


def training(rank):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6))).to(rank)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    g = torch.Generator().manual_seed(rank)
    for _ in range(20):
        opt.zero_grad()
        model(torch.randn(256, 1024, generator=g).to(rank)).square().mean().backward()
        opt.step()
    return torch.cat([p.flatten() for p in model.parameters()])


def work(rank, ranks, rounds):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    torch.use_deterministic_algorithms(True, warn_only=True)
    for r in range(rounds):
        for case in (all_reduce, training):
            print(f"{r} {case.__name__} rank {rank} {digest(case(rank))}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    ranks = torch.cuda.device_count()
    if ranks < 2:
        sys.exit(77)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29511"),
                      CUBLAS_WORKSPACE_CONFIG=":4096:8")
    mp.spawn(work, args=(ranks, int(sys.argv[1])), nprocs=ranks)


if __name__ == "__main__":
    main()
