#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks for script/lib/memory_sets.py, with random weights, on so many MiB of the device; each ends with its input:
  torch_nets.py resnet152|vgg19|inception|densenet201 MIB   of torchvision's, in half precision; as many images in a batch as there
                                                            is memory for, and more batches where some is left
  torch_nets.py decoder MIB                                 a decoder whose weights are that, of which each token reads all
Waits for a line, and says "ready DIGEST MIB BATCH", with what the device has of it; answers "decode FROM TO" (ns of the monotonic clock) with
"decode STEPS WAIT" (steps have fractions; WAIT ms was the longest time in which none of their parts ended), and "check" with "right",
or "wrong N" where N steps had other results than the first."""
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402

DEV = "cuda"
MIB = 1 << 20
MARKS = 16  # of a step, at most
WORDS, TEXT = 32000, 16


def digest(x):
    """Of all bits: a number, on the device."""
    bits = x.contiguous().view(torch.int16).flatten().long()
    return ((bits & 0xffff) * (torch.arange(bits.numel(), device=DEV) * 2 + 1)).sum()


class Step:
    """Runs a module; marks on the way say how far the device is."""

    def __init__(self, module):
        self.module, self.marks, self.at = module, [], 0
        leaves = [m for m in module.modules() if not list(m.children())]
        every = max(1, -(-len(leaves) // MARKS))
        for leaf in leaves[every - 1::every]:
            leaf.register_forward_hook(self.mark)

    def mark(self, *_):
        if self.at == len(self.marks):
            self.marks.append(torch.cuda.Event(blocking=True))
        self.marks[self.at].record()
        self.at += 1

    def __call__(self, x):
        """The output, and the times at which its parts have ended."""
        self.at = 0
        out = self.module(x)
        self.mark()
        return out, self.times()

    def times(self):
        for mark in self.marks[:self.at]:
            mark.synchronize()
            yield time.monotonic_ns()


class Net:
    def __init__(self, name, mib):
        from torchvision import models
        make = {"resnet152": models.resnet152, "vgg19": models.vgg19, "densenet201": models.densenet201,
                "inception": lambda **more: models.inception_v3(aux_logits=False, init_weights=False, **more)}[name]
        self.side = 299 if name == "inception" else 224
        with torch.device(DEV):
            self.model = make(weights=None).half().eval()
        self.size(mib)
        self.step = Step(self.model)
        self.round = len(self.images)

    def batch_of(self, n, seed=0):
        generator = torch.Generator(DEV).manual_seed(seed)
        return torch.randn(n, 3, self.side, self.side, device=DEV, dtype=torch.half, generator=generator)

    def needs(self, n):
        """MiB that the device has while n images are computed."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.model(self.batch_of(n))
        torch.cuda.synchronize()
        return torch.cuda.max_memory_reserved() / MIB

    def size(self, mib):
        few, more = self.needs(8), self.needs(16)
        self.batch = max(8, int(8 + (mib - few) / max((more - few) / 8, 0.1)))
        while self.batch > 8 and self.needs(self.batch) > mib:
            self.batch = max(8, self.batch * 15 // 16)
        each = self.batch * 3 * self.side * self.side * 2 / MIB
        spare = mib - torch.cuda.memory_reserved() / MIB
        self.images = [self.batch_of(self.batch, seed) for seed in range(1 + max(0, int(spare / each)))]

    def __call__(self, k):
        out, times = self.step(self.images[k])
        yield from times
        self.result = digest(out)


class Decoder:
    def __init__(self, mib):
        from torch_memory import Block
        torch.set_default_dtype(torch.bfloat16)
        width = 4096 if mib >= 2048 else 256
        layers = max(1, int(mib * MIB / (12 * width * width * 2)))
        with torch.device(DEV):
            self.words = torch.nn.Embedding(WORDS if width == 4096 else 256, width)
            self.step = Step(torch.nn.Sequential(*(Block(width, width // 128) for _ in range(layers))).eval())
            self.text = torch.arange(TEXT).view(1, TEXT)
        self.batch, self.round = 1, TEXT

    def __call__(self, k):
        if k == 0:
            self.now = self.text
        out, times = self.step(self.words(self.now))
        yield from times
        word = (out[:, -1:] @ self.words.weight.t()).argmax(-1)
        self.now = torch.cat([self.now[:, 1:], word], 1)
        self.result = digest(out)


class Program:
    def __init__(self, of):
        self.of, self.k = of, 0
        self.first, self.wrong = [], torch.zeros((), dtype=torch.long, device=DEV)
        for k in range(of.round):
            for _ in of(k):
                pass
            self.first.append(of.result)
        self.marks = sum(1 for _ in of(0))  # of a step
        self.digest = sum(int(d) for d in self.first) & (1 << 64) - 1

    def decode(self, begin, end):
        time.sleep(max(0, (begin - time.monotonic_ns()) / 1e9))
        marks, longest, last = 0, 0, begin
        while last < end:
            for now in self.of(self.k):
                longest, last = max(longest, now - last), now
                marks += now < end
            self.wrong += self.of.result != self.first[self.k]
            self.k = (self.k + 1) % self.of.round
        return f"decode {marks / self.marks:.3f} {longest / 1e6:.1f}"

    def check(self):
        wrong = int(self.wrong)
        return f"wrong {wrong}" if wrong else "right"


def main():
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    name, mib = sys.argv[1], int(sys.argv[2])
    sys.stdin.readline()
    with torch.no_grad():
        program = Program(Decoder(mib) if name == "decoder" else Net(name, mib))
        torch.cuda.synchronize()
        print(f"ready {program.digest:016x} {torch.cuda.memory_reserved() // MIB} {program.of.batch}", flush=True)
        for line in sys.stdin:
            what, *numbers = line.split()
            print(program.decode(*map(int, numbers)) if what == "decode" else program.check(), flush=True)


if __name__ == "__main__":
    main()
