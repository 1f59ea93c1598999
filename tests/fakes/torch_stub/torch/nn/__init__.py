# SPDX-License-Identifier: Apache-2.0
"""Layers that have a shape and a number for their weights."""
import os
import time

import torch

from . import functional  # noqa: F401

LAYER_S = float(os.environ.get("TORCH_STUB_LAYER_US", "0")) / 1e6
MAKE_S = float(os.environ.get("TORCH_STUB_MAKE_US", "0")) / 1e6
FAIL = int(os.environ.get("TORCH_STUB_FAIL", "0"))


class Module:
    made = 0

    def __init__(self):
        self._children, self._before, self._after = {}, [], []
        self.weights = torch.generator.getrandbits(32)
        Module.made += 1
        if MAKE_S:
            time.sleep(MAKE_S)
        if FAIL and Module.made == FAIL:
            raise RuntimeError("out of memory, as the test wants it")

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, Module):
            self._children[name] = value

    def children(self):
        return iter(self._children.values())

    def modules(self):
        yield self
        for child in self.children():
            yield from child.modules()

    def _self(self, *_):
        return self

    eval = requires_grad_ = half = _self

    def to(self, where):
        if where.type == "cuda":
            torch.cuda.init()
        return self

    def register_forward_pre_hook(self, hook):
        self._before.append(hook)

    def register_forward_hook(self, hook):
        self._after.append(hook)

    def __call__(self, *inputs):
        for hook in self._before:
            hook(self, inputs)
        out = self.forward(*inputs)
        for hook in self._after:
            hook(self, inputs, out)
        return out


class Layer(Module):
    """A leaf: it takes time."""

    def forward(self, x):
        if x.device.type == "cuda":
            torch.cuda.launch()
        if LAYER_S:
            time.sleep(LAYER_S)
        return torch.Tensor(self.shape(x.shape), torch.mixed(self.weights, x.value), torch.float32, x.device)

    def shape(self, shape):
        return shape


class Identity(Module):
    def forward(self, x):
        return x


class ReLU(Layer):
    pass


class BatchNorm2d(Layer):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def shape(self, shape):
        assert shape[1] == self.width, (shape, self.width)
        return shape


class LayerNorm(Layer):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def shape(self, shape):
        assert shape[-1] == self.width, (shape, self.width)
        return shape


class Conv2d(Layer):
    def __init__(self, inside, outside, size, stride=1, padding=0, bias=True):
        super().__init__()
        self.inside, self.outside, self.of = inside, outside, (size, stride, padding)

    def shape(self, shape):
        n, inside, *sides = shape
        size, stride, padding = self.of
        assert inside == self.inside, (shape, self.inside)
        return (n, self.outside, *((side + 2 * padding - size) // stride + 1 for side in sides))


class MaxPool2d(Conv2d):
    def __init__(self, size, stride, padding=0):
        super().__init__(0, 0, size, stride, padding)

    def shape(self, shape):
        self.inside = self.outside = shape[1]
        return super().shape(shape)


class Linear(Layer):
    def __init__(self, inside, outside):
        super().__init__()
        self.inside, self.outside = inside, outside

    def shape(self, shape):
        assert shape[-1] == self.inside, (shape, self.inside)
        return (*shape[:-1], self.outside)


class Embedding(Layer):
    def __init__(self, words, width):
        super().__init__()
        self.width, self.weight = width, torch.Tensor((words, width), self.weights)

    def shape(self, shape):
        return (*shape, self.width)


class ModuleList(Module):
    def __init__(self, of=()):
        super().__init__()
        for one in of:
            self.append(one)

    def append(self, one):
        self._children[str(len(self._children))] = one

    def __iter__(self):
        return self.children()

    def __getitem__(self, k):
        return list(self.children())[k]


class Sequential(ModuleList):
    def __init__(self, *of):
        super().__init__(of)

    def forward(self, x):
        for one in self:
            x = one(x)
        return x
