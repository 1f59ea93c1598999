# SPDX-License-Identifier: Apache-2.0
"""The five networks of DISB as REEF's paper has them, in plain PyTorch, with random weights that are the same each time. What
they answer means nothing; what they make the device do is what the trained ones make it do."""
import dataclasses
import zlib

import torch
import torch.nn.functional as F
from kserve import Spec
from torch import nn

TOKENS = 128


def conv(inside, outside, size=3, stride=1, act=True):
    parts = [nn.Conv2d(inside, outside, size, stride, size // 2, bias=False), nn.BatchNorm2d(outside)]
    return nn.Sequential(*parts, *([nn.ReLU()] if act else []))


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.body = nn.Sequential(conv(inside, width, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1, act=False))
        self.side = conv(inside, 4 * width, 1, stride, act=False) if stride > 1 or inside != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x))


class ResNet152(nn.Module):
    def __init__(self):
        super().__init__()
        parts, inside = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
        for width, blocks, stride in ((64, 3, 1), (128, 8, 2), (256, 36, 2), (512, 3, 2)):
            for k in range(blocks):
                parts.append(Bottleneck(inside, width, 1 if k else stride))
                inside = 4 * width
        self.body, self.head = nn.Sequential(*parts), nn.Linear(inside, 1000)

    def forward(self, x):
        return [self.head(self.body(x).mean((2, 3)))]


class Vgg19(nn.Module):
    def __init__(self):
        super().__init__()
        parts, inside = [], 3
        for width, n in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
            for _ in range(n):
                parts += [nn.Conv2d(inside, width, 3, 1, 1), nn.ReLU()]
                inside = width
            parts.append(nn.MaxPool2d(2, 2))
        self.body = nn.Sequential(*parts)
        self.head = nn.Sequential(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))

    def forward(self, x):
        return [self.head(self.body(x).flatten(1))]


class Twice(nn.Module):
    """Darknet's block."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(conv(width, width // 2, 1), conv(width // 2, width))

    def forward(self, x):
        return x + self.body(x)


class Yolo(nn.Module):
    """Like YOLOv3: 75 convolutions, three scales."""

    def __init__(self):
        super().__init__()
        self.stem, self.stages, inside = conv(3, 32), nn.ModuleList(), 32
        for blocks in (1, 2, 8, 8, 4):
            self.stages.append(nn.Sequential(conv(inside, 2 * inside, 3, 2), *(Twice(2 * inside) for _ in range(blocks))))
            inside *= 2
        self.necks, self.heads, self.ups, inside, beside = nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), 1024, 0
        for width in (512, 256, 128):
            if beside:
                self.ups.append(conv(2 * width, width, 1))
                inside = width + beside
            self.necks.append(nn.Sequential(conv(inside, width, 1), conv(width, 2 * width), conv(2 * width, width, 1),
                                            conv(width, 2 * width), conv(2 * width, width, 1)))
            self.heads.append(nn.Sequential(conv(width, 2 * width), nn.Conv2d(2 * width, 255, 1)))
            beside = width

    def forward(self, x):
        x, scales, out = self.stem(x), [], []
        for stage in self.stages:
            x = stage(x)
            scales.append(x)
        for k, (neck, head) in enumerate(zip(self.necks, self.heads)):
            if k:
                x = torch.cat([F.interpolate(self.ups[k - 1](x), scale_factor=2), scales[-1 - k]], 1)
            x = neck(x)
            out.append(head(x))
        return out


class Layer(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Transformer(nn.Module):
    """BERT-base, whose answer is of its first token; GPT-2, one pass over the prompt, the words that may follow."""

    def __init__(self, words, places, out, causal, width=768, layers=12):
        super().__init__()
        self.causal = causal
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.body = nn.Sequential(*(Layer(width, 12, causal) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, out)

    def forward(self, ids):
        x = self.body(self.words(ids) + self.places.weight[:TOKENS])
        return [self.head(x[:, -1 if self.causal else 0])]


def image(side):
    return (Spec("input", "FP32", (3, side, side)),)


@dataclasses.dataclass(frozen=True)
class Kind:
    make: object
    inputs: tuple
    outputs: tuple


def ids(below):
    return (Spec("input_ids", "INT64", (TOKENS,), below),)


KINDS = {
    "resnet152": Kind(ResNet152, image(224), (Spec("output", "FP32", (1000,)),)),
    "vgg19": Kind(Vgg19, image(224), (Spec("output", "FP32", (1000,)),)),
    "yolov3": Kind(Yolo, image(416), tuple(Spec(f"output{n}", "FP32", (255, n, n)) for n in (13, 26, 52))),
    "bert-base": Kind(lambda: Transformer(30522, 512, 768, False), ids(30522), (Spec("output", "FP32", (768,)),)),
    "gpt2": Kind(lambda: Transformer(50257, 1024, 50257, True), ids(50257), (Spec("output", "FP32", (50257,)),)),
}


def make(kind, device, half):
    """With weights that depend on the network's name alone. One at a time: PyTorch's generator is the process's."""
    torch.manual_seed(zlib.crc32(kind.encode()))
    with torch.device(device):  # where making them takes a moment
        net = KINDS[kind].make().eval().requires_grad_(False)
    return (net.half() if half else net).to(device)
