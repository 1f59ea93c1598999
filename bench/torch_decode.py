#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs for script/lib/decode_bench:
  torch_decode.py decode   a decoder of the size of GPT-2 large with random weights: each token is a CUDA graph, then the host
                           waits for it, and pauses as one does that chooses the next token
  torch_decode.py train    steps of training of a smaller one
Each says "ready", answers each "go BEGIN END PAUSE" (CLOCK_MONOTONIC, ns; PAUSE: us between two tokens, 0: as a decoder does)
with a line of JSON, and ends with its input."""
import json
import math
import random
import sys
import time

import torch
import torch.nn.functional as F

DEV = "cuda"
LAYERS, WIDTH, HEADS, PAST, WORDS = 36, 1280, 20, 512, 50257
PAUSE_US, SPREAD = 120, 0.5  # of a decoder: lognormal
AHEAD = 2  # of the device, in steps


class Layer(torch.nn.Module):
    """A decoder's, for one token, over the keys and values of those before it."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.proj = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("k", torch.randn(1, HEADS, PAST, WIDTH // HEADS))
        self.register_buffer("v", torch.randn(1, HEADS, PAST, WIDTH // HEADS))

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        self.k[:, :, -1:], self.v[:, :, -1:] = k, v
        x = x + self.proj(F.scaled_dot_product_attention(q, self.k, self.v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Decoder:
    def __init__(self):
        torch.manual_seed(1)
        torch.set_default_dtype(torch.half)
        with torch.device(DEV), torch.no_grad():
            words = torch.nn.Embedding(WORDS, WIDTH)
            layers = torch.nn.Sequential(*(Layer() for _ in range(LAYERS))).eval()
            self.word = torch.zeros(1, 1, dtype=torch.long)
        side, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()

        def token():
            return (layers(words(self.word)) @ words.weight.t()).argmax()

        with torch.no_grad():
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    token()
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(self.graph):
                self.next = token()
        self.rng = random.Random(7)

    def token(self):
        self.graph.replay()
        return self.next.item()

    def pause(self, begin, us):
        """Awake, as one that samples is, but for most of a long one."""
        us = us or self.rng.lognormvariate(math.log(PAUSE_US), SPREAD)
        end = begin + int(us * 1000)
        if us > 1000:
            time.sleep(us / 1e6 - 0.0005)
        while time.monotonic_ns() < end:
            pass

    def go(self, begin, end, pause_us):
        at, took = [], []
        while time.monotonic_ns() < begin:
            pass
        while not at or at[-1] < end:
            asked = time.monotonic_ns()
            word = self.token()
            at.append(time.monotonic_ns())
            took.append((at[-1] - asked) / 1e3)
            self.pause(at[-1], pause_us)
            self.word.fill_(word)
        return {"tokens": len(at) - 1, "s": (at[-1] - at[0]) / 1e9, "us": [round((b - a) / 1e3, 1) for a, b in zip(at, at[1:])],
                "took_us": [round(t, 1) for t in took[1:]]}


class Trainer:
    def __init__(self):
        torch.manual_seed(1)
        with torch.device(DEV):
            layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, norm_first=True)
            self.model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
            self.x = torch.randn(8, 512, 1024)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-5)

    def step(self):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast(DEV, torch.bfloat16):
            loss = F.mse_loss(self.model(self.x), self.x)
        loss.backward()
        self.opt.step()
        event = torch.cuda.Event()
        event.record()
        return event

    def go(self, begin, end, _):
        """How many steps ended in that time; of the first and the last the part that lies within it."""
        time.sleep(max(0, (begin - time.monotonic_ns()) / 1e9))
        ahead, last, steps = [], begin, 0.0
        while last < end:
            ahead.append(self.step())
            if len(ahead) <= AHEAD:
                continue
            ahead.pop(0).synchronize()
            now = time.monotonic_ns()
            steps += min(1.0, (end - last) / max(1, now - last))
            last = now
        torch.cuda.synchronize()
        return {"steps": steps, "s": (end - begin) / 1e9}


def main():
    program = {"decode": Decoder, "train": Trainer}[sys.argv[1]]()
    now = time.monotonic_ns()
    program.go(now, now + 10**9, 0)
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(program.go(*map(int, line.split()[1:]))), flush=True)


if __name__ == "__main__":
    main()
