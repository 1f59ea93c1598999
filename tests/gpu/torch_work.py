#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deterministic work for PyTorch on a GPU; prints a digest of each case's results. usage: torch_work.py ROUNDS"""
import contextlib
import hashlib
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = True
DEV = "cuda"


def seeded(*shape, dtype=torch.float32):
    g = torch.Generator(device="cpu").manual_seed(sum(shape) * 7919)
    return torch.randn(*shape, generator=g).to(DEV, dtype)


def sgemm():
    torch.backends.cuda.matmul.allow_tf32 = False
    a = seeded(1024, 1024)
    for _ in range(20):
        a = (a @ a) * 0.03
    return a


def bf16_matmul():
    a = seeded(2048, 2048, dtype=torch.bfloat16)
    for _ in range(20):
        a = (a @ a) * 0.02
    return a


def linear_bias():
    x, w, b = seeded(512, 1024), seeded(1024, 1024), seeded(1024)
    for _ in range(30):
        x = F.linear(x, w, b) * 0.03
    return x


def batched_gemm():
    a = seeded(32, 256, 256)
    for _ in range(20):
        a = torch.bmm(a, a) * 0.06
    return a


def softmax_sort():
    x = seeded(256, 4096)
    for _ in range(20):
        x = torch.softmax(torch.sort(x, dim=1).values, dim=1) * 100
    return x


def triton_kernel():
    import triton
    import triton.language as tl

    @triton.jit
    def turn(x, n, WIDTH: tl.constexpr):
        at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
        v = tl.load(x + at, mask=at < n)
        tl.store(x + at, tl.sin(v) * 1.5 + v, mask=at < n)

    x = seeded(1 << 20)
    for _ in range(50):
        turn[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), WIDTH=1024)
    return x


def resnet50(dtype, layout):
    import torchvision

    torch.manual_seed(1)
    m = torchvision.models.resnet50(weights=None).eval().to(DEV, dtype, memory_format=layout)
    with torch.no_grad():
        return m(seeded(4, 3, 224, 224, dtype=dtype).to(memory_format=layout))


def resnet50_fp32():
    return resnet50(torch.float32, torch.contiguous_format)


def resnet50_fp16():
    return resnet50(torch.float16, torch.channels_last)


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = (torch.nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))
        self.na, self.nb = (torch.nn.BatchNorm2d(c) for _ in range(2))

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


def net(blocks, c=64):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, c, 7, 2, 3), *(Block(c) for _ in range(blocks)),
                               torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(c, 100)).to(DEV)


def attention():
    """As PyTorch chooses, and by each kind of kernel that is made for it."""
    q = seeded(4, 8, 512, 64, dtype=torch.float16)
    for kinds in [None, *([kind] for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION))]:
        with sdpa_kernel(kinds) if kinds else contextlib.nullcontext():
            for _ in range(10):
                q = F.scaled_dot_product_attention(q, q, q)
    return q


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((64,), float(i * i))


def data_loader():
    """Batches from workers, which are forked from this process."""
    total = torch.zeros(64, device=DEV)
    for batch in torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context="fork", pin_memory=True):
        total = total * 3 + batch.to(DEV, non_blocking=True).sum(0)
    return total


def training_step():
    m, x, y = net(4), seeded(16, 3, 64, 64), torch.arange(16, device=DEV) % 100
    opt = torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9)
    for _ in range(5):
        opt.zero_grad()
        F.cross_entropy(m(x), y).backward()
        opt.step()
    return torch.cat([p.detach().flatten() for p in m.parameters()])


def graph_replay():
    x = seeded(512, 512)
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            x.copy_(torch.tanh(x @ x * 0.05))
    torch.cuda.current_stream().wait_stream(s)
    x.copy_(seeded(512, 512))
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(64):
            x.copy_(torch.tanh(x @ x * 0.05))
    for _ in range(20):
        g.replay()
    return x


def allocation_churn():
    total = torch.zeros(1024, device=DEV)
    for i in range(200):
        t = torch.full((1 + i * 997,), float(i), device=DEV)
        total[: min(1024, t.numel())] += t[:1024]
        if i % 50 == 0:
            torch.cuda.empty_cache()
    return total


def two_streams():
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    x = seeded(4096)
    torch.cuda.synchronize()
    for i in range(200):
        with torch.cuda.stream(a):
            a.wait_stream(b)
            x.mul_(1.0001).add_(i)
        with torch.cuda.stream(b):
            b.wait_stream(a)
            x.sin_().add_(1)
    torch.cuda.synchronize()
    return x


def pageable_copies():
    host = torch.arange(1 << 20, dtype=torch.float32)
    for _ in range(10):
        host = (host.to(DEV) * 1.5 + 1).cpu()
    return host


def waves():
    """Kernels of many waves of blocks, in place: one that runs twice, or not at all, shows in the sums."""
    x = torch.arange(1 << 26, dtype=torch.int32, device=DEV)
    for i in range(400):
        x.mul_(5).add_(i)
    return x.view(-1, 1 << 13).sum(dim=0, dtype=torch.int64) & 0xFFFF


CASES = (sgemm, bf16_matmul, linear_bias, batched_gemm, softmax_sort, triton_kernel, resnet50_fp32, resnet50_fp16, attention,
         data_loader, training_step, graph_replay, allocation_churn, two_streams, pageable_copies, waves)


def digest(t):
    return hashlib.sha256(t.detach().float().cpu().numpy().tobytes()).hexdigest()[:16]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for r in range(rounds):
        for case in CASES:
            print(f"{r} {case.__name__} {digest(case())}", flush=True)


if __name__ == "__main__":
    main()
