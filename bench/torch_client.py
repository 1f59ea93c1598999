#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs for script/lib/torch_bench:
  torch_client.py loop WORK          iterations without end; answers with how many there are in a second
  torch_client.py serve WORK         a request each PERIOD us (0: one after the other); answers with latencies
  torch_client.py past WORK          iterations through the shim and past it, by turns; answers with what they take
  torch_client.py touches            the least use of a GPU, in a child of its own each time; answers with how long that takes
  torch_client.py first WORK...      how long the first iteration of each takes, in ms, once there is a context; and out
Each says "ready", answers each "go BEGIN END PERIOD WAY" (CLOCK_MONOTONIC, ns; "through" the shim, if there is one, or
"past" it) with a line of JSON, and ends with its input."""
import json
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from past_shim import Shim

DEV = "cuda"
LEAST = 4  # iterations between the first mark and the last
AHEAD = 3  # of the device, in iterations
ROUND = 2  # iterations of one turn, through the shim or past it


def resnet(batch):
    import torchvision

    torch.manual_seed(1)
    model = torchvision.models.resnet50(weights=None).eval().half().to(DEV, memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 224, 224, dtype=torch.half, device=DEV).to(memory_format=torch.channels_last)

    def step():
        with torch.no_grad():
            model(x)

    return step


class Layer(torch.nn.Module):
    """A decoder's, for one token, over the keys and values of those before it."""

    def __init__(self, width, heads, past):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.register_buffer("k", torch.randn(1, heads, past, width // heads))
        self.register_buffer("v", torch.randn(1, heads, past, width // heads))

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).view(1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.k[:, :, -1:], self.v[:, :, -1:] = k, v
        x = x + self.proj(F.scaled_dot_product_attention(q, self.k, self.v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.n2(x))))


def gpt2():
    """The size of GPT-2 (124 million), a token at a time, as one graph."""
    torch.manual_seed(1)
    layers = torch.nn.Sequential(*(Layer(768, 12, 512) for _ in range(12))).half().to(DEV).eval()
    head = torch.nn.Linear(768, 50257, bias=False).half().to(DEV)
    x = torch.randn(1, 1, 768, dtype=torch.half, device=DEV)
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.no_grad():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                head(layers(x))
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            head(layers(x)).argmax()
    return graph.replay


def train():
    """A step of training, in half precision where that is usual."""
    import torchvision

    torch.manual_seed(1)
    model = torchvision.models.resnet50(weights=None).to(DEV, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(64, 3, 224, 224, device=DEV).to(memory_format=torch.channels_last)
    y = torch.arange(64, device=DEV)

    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast(DEV, torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()

    return step


WORK = {"resnet50-b1": lambda: resnet(1), "resnet50-b64": lambda: resnet(64), "gpt2-graph": gpt2, "train": train}


def mark():
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def loop(step, begin, end):
    """The device is never left without work, and never far behind. It is the device that says what an iteration takes:
    who launches is ahead of it, or behind, by a few of them. What it does after the end counts for nothing: others may
    have left it by then."""
    time.sleep(max(0, (begin - time.monotonic_ns()) / 1e9))
    step()
    first, n = mark(), 0
    ahead = [first]
    while n < LEAST or time.monotonic_ns() < end:
        step()
        ahead.append(mark())
        if len(ahead) > AHEAD:
            last = ahead.pop(0)
            last.synchronize()
            n += last is not first
    ahead[-1].synchronize()
    return {"per_s": n * 1e3 / first.elapsed_time(last)}


def serve(step, period_us, begin, end):
    """Latencies from the second request on: before the first one it was somebody else's turn."""
    step()
    torch.cuda.synchronize()
    took, at = [], begin
    while at < end:
        time.sleep(max(0, (at - time.monotonic_ns()) / 1e9 - 0.0003))
        while time.monotonic_ns() < at:
            pass
        start = time.monotonic_ns()
        step()
        torch.cuda.synchronize()
        took.append((time.monotonic_ns() - start) / 1e3)
        at = max(at + period_us * 1000, time.monotonic_ns())
    return {"us": [round(t, 1) for t in took]}


def past(step, shim, begin, end):
    """Until it ends, not only until it is launched: the first of each turn finds what the other way has left in caches."""
    time.sleep(max(0, (begin - time.monotonic_ns()) / 1e9))
    took, rng = {True: [], False: []}, random.Random(1)
    while time.monotonic_ns() < end or len(took[False]) < LEAST or len(took[True]) < LEAST:
        for through in rng.sample((True, False), 2):
            shim.through(through)
            step()
            torch.cuda.synchronize()
            start = time.monotonic_ns()
            for _ in range(ROUND):
                step()
            torch.cuda.synchronize()
            took[through].append((time.monotonic_ns() - start) / 1e3 / ROUND)
            shim.through(True)
    ratios = [a / b for a, b in zip(took[True], took[False])]
    low, middle, high = statistics.quantiles(ratios)
    return {"us": statistics.median(took[False]), "ratio": middle, "n": len(ratios),
            "error": 1.25 * (high - low) / 1.35 / len(ratios) ** 0.5}  # of a median, where they are spread normally


def touches():
    """Each in a child of a process that has all of PyTorch, and no context: that would take most of the time."""
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.monotonic_ns()
        child = os.fork()
        if not child:
            torch.zeros(1).cuda()
            torch.cuda.synchronize()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit("the GPU was not there")
        print(json.dumps({"ms": (time.monotonic_ns() - begin) / 1e6}), flush=True)


def first(works):
    torch.zeros(1).cuda()
    took = {}
    for work in works:
        begin = time.monotonic_ns()
        WORK[work]()()
        torch.cuda.synchronize()
        took[work] = (time.monotonic_ns() - begin) / 1e6
    print(json.dumps(took))


def main():
    what = sys.argv[1]
    if what == "first":
        return first(sys.argv[2:])
    if what == "touches":
        return touches()
    step = WORK[sys.argv[2]]()
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    shim = Shim()
    print("ready", flush=True)
    for line in sys.stdin:
        *times, way = line.split()[1:]
        begin, end, period_us = map(int, times)
        if not shim.words and (way == "past" or what == "past"):
            sys.exit("there is no shim that could be gone past")
        shim.through(way == "through")
        if what == "past":
            answer = past(step, shim, begin, end)
        else:
            answer = loop(step, begin, end) if what == "loop" else serve(step, period_us, begin, end)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
