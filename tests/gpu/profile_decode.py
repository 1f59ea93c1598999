#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A decoder in PyTorch, random weights, without graphs: a prompt, then some steps. Prints how long the steps took, and a sum.

usage: profile_decode.py [LAYERS [STEPS]]"""
import sys
import time

import torch
from torch.nn import functional as F

LAYERS, STEPS = (int(a) for a in (sys.argv[1:] + ["16", "4"][len(sys.argv) - 1:]))
WIDTH, HEADS, KV, INNER, WORDS, LENGTH = 4096, 32, 8, 14336, 32000, 2048
EACH = WIDTH // HEADS


def norm(x, weight):
    return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).to(x.dtype) * weight


def turn(x, at):
    half = EACH // 2
    angle = at[:, None] * 10000 ** (-torch.arange(half, device="cuda") / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Layer:
    def __init__(self):
        def weight(*shape):
            return torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.02

        self.qkv, self.out = weight(WIDTH + 2 * KV * EACH, WIDTH), weight(WIDTH, WIDTH)
        self.up, self.gate, self.down = weight(INNER, WIDTH), weight(INNER, WIDTH), weight(WIDTH, INNER)
        self.norms = [torch.ones(WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        self.k = torch.zeros(1, KV, LENGTH, EACH, device="cuda", dtype=torch.bfloat16)
        self.v = torch.zeros_like(self.k)

    def __call__(self, x, first):
        n = x.shape[1]
        at = torch.arange(first, first + n, device="cuda")
        q, k, v = F.linear(norm(x, self.norms[0]), self.qkv).split((WIDTH, KV * EACH, KV * EACH), -1)
        q, k, v = (t.view(1, n, -1, EACH).transpose(1, 2) for t in (q, k, v))
        self.k[:, :, first:first + n], self.v[:, :, first:first + n] = turn(k, at), v
        k, v = (t[:, :, :first + n].repeat_interleave(HEADS // KV, 1) for t in (self.k, self.v))
        y = F.scaled_dot_product_attention(turn(q, at), k, v, is_causal=n > 1)
        x = x + F.linear(y.transpose(1, 2).reshape(1, n, WIDTH), self.out)
        h = norm(x, self.norms[1])
        return x + F.linear(F.silu(F.linear(h, self.gate)) * F.linear(h, self.up), self.down)


@torch.inference_mode()
def main():
    torch.manual_seed(1)
    words = torch.randn(WORDS, WIDTH, device="cuda", dtype=torch.bfloat16) * 0.02
    layers = [Layer() for _ in range(LAYERS)]
    tokens, first = torch.arange(64, device="cuda")[None], 0
    torch.cuda.synchronize()
    begin = time.monotonic()
    for step in range(STEPS + 1):
        x = words[tokens]
        for layer in layers:
            x = layer(x, first)
        first += tokens.shape[1]
        tokens = F.linear(x[:, -1:], words).argmax(-1)
        torch.cuda.synchronize()
        print(f"{'prompt' if not step else 'step'} {time.monotonic() - begin:.2f} s", flush=True)
        begin = time.monotonic()
    print("sum", float(x.float().sum()))


main()
