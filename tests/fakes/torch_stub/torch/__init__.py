# SPDX-License-Identifier: Apache-2.0
"""As much of PyTorch as contrib/torch-server uses, without arithmetic. A tensor has a shape, and either elements or a number that
stands for them; what is computed has the right shape, and a number that depends on all that went in, weights and order too.

On the device "cuda" each layer launches a kernel of the fake driver's in the current stream (TORCH_STUB_PTX, TORCH_STUB_KERNEL_NS).
TORCH_STUB_LAYER_US: a layer takes the processor so long; TORCH_STUB_MAKE_US: making one does. TORCH_STUB_FAIL: making the layer
of that number fails."""
import array
import math
import random
import zlib

float32, float16, int64, int32 = "float32", "float16", "int64", "int32"
half = float16
_SIZE = {float32: 4, float16: 2, int64: 8, int32: 4}
_CODE = {float32: "f", int64: "q", int32: "i"}
generator = random.Random(0)


def manual_seed(seed):
    generator.seed(seed)


class device:
    def __init__(self, of):
        self.type = (of.type if isinstance(of, device) else str(of)).partition(":")[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


CPU = device("cpu")


class Number:
    """One that changes: of a tensor which is copied to, or one which a graph computes at each launch."""

    def __init__(self, *values):
        self.values = values
        self.compute()

    def compute(self):
        self.number = zlib.crc32(repr(self.values).encode())

    def __int__(self):
        return self.number

    def __repr__(self):
        return repr(self.number)


def mixed(*values):
    """One number of all of them, in their order."""
    number, graph = Number(*values), cuda.captures()
    if graph:
        graph.numbers.append(number)
        return number
    return int(number)


class Tensor:
    def __init__(self, shape, value, dtype=float32, at=CPU, elements=None):
        assert all(isinstance(n, int) and n > 0 for n in shape), shape
        self.shape, self.value, self.dtype, self.device, self._elements = tuple(shape), value, dtype, at, elements

    def _with(self, what, shape=None, dtype=None, at=None, elements=None):
        value = self.value if what is None else mixed(what, self.value)
        return Tensor(shape or self.shape, value, dtype or self.dtype, at or self.device, elements)

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return _SIZE[self.dtype]

    def elements(self):
        if self._elements is None:
            of = random.Random(int(self.value))
            self._elements = array.array(_CODE[self.dtype], (of.randrange(1 << 20) / (1 << 20) for _ in range(self.numel())))
        return self._elements

    def data_ptr(self):
        return self.elements().buffer_info()[0]

    def tolist(self):
        assert len(self.shape) <= 1
        return list(self.elements())

    def to(self, where):
        where = where if isinstance(where, device) else device(where)
        if where.type == self.device.type:
            return self
        return Tensor(self.shape, int(self.value), self.dtype, where, self._elements)

    def copy_(self, of):
        assert self.shape == of.shape and self.dtype == of.dtype and self.device.type == of.device.type
        self.value.number = int(of.value)

    def half(self):
        return self._with(None, dtype=float16)

    def float(self):
        return self._with(None, dtype=float32, elements=self._elements if self.dtype == float32 else None)

    def contiguous(self):
        return self

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], (tuple, list)) else shape
        assert math.prod(shape) == self.numel(), (self.shape, shape)
        return self._with(None, tuple(shape), elements=self._elements)

    def flatten(self, first=0):
        return self.reshape(*self.shape[:first], math.prod(self.shape[first:]))

    def permute(self, *order):
        assert sorted(order) == list(range(len(self.shape)))
        return self._with(("permute", order), tuple(self.shape[k] for k in order))

    def transpose(self, a, b):
        order = list(range(len(self.shape)))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    def unbind(self, dim):
        assert dim == 0
        return tuple(self._with(("unbind", k), self.shape[1:]) for k in range(self.shape[0]))

    def mean(self, dims):
        return self._with("mean", tuple(n for k, n in enumerate(self.shape) if k not in dims))

    def min(self):
        return min(self.elements())

    def max(self):
        return max(self.elements())

    def __add__(self, other):
        small, large = sorted((self.shape, other.shape), key=len)
        assert large[len(large) - len(small):] == small, f"{self.shape} + {other.shape}"
        return self._with(("add", other.value), large)

    def __getitem__(self, key):
        keys, shape = key if isinstance(key, tuple) else (key,), []
        for n, k in zip(self.shape, keys):
            if isinstance(k, slice):
                shape.append(len(range(*k.indices(n))))
        return self._with(("item", repr(key)), (*shape, *self.shape[len(keys):]))


def tensor(data, dtype):
    elements = array.array(_CODE[dtype], data)
    return Tensor((len(data),), mixed(elements.tobytes()), dtype, elements=elements)


def zeros(shape, dtype, device):
    return Tensor(shape, Number(), dtype, device)


def frombuffer(data, dtype):
    elements = array.array(_CODE[dtype])
    elements.frombytes(bytes(data))
    return Tensor((len(elements),), mixed(elements.tobytes()), dtype, elements=elements)


def cat(tensors, dim):
    first = tensors[0]
    for t in tensors:
        assert t.shape[:dim] + t.shape[dim + 1:] == first.shape[:dim] + first.shape[dim + 1:], [t.shape for t in tensors]
    shape = list(first.shape)
    shape[dim] = sum(t.shape[dim] for t in tensors)
    return Tensor(shape, mixed("cat", *(t.value for t in tensors)), first.dtype, first.device)


class inference_mode:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


from . import cuda, nn  # noqa: E402
