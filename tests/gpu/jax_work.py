#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deterministic work for JAX on a GPU; prints a digest of each case's results. Its compiler makes CUDA graphs: node by node,
with what it captures of libraries as parts, and changes both when memory is at other addresses.
usage: jax_work.py [ROUNDS]   without ROUNDS: until the end of stdin"""
import functools
import hashlib
import itertools
import os
import sys
import threading

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

# The same kernels in each process; and all that can be in graphs.
OPTIONS = {"xla_gpu_autotune_level": 0, "xla_gpu_deterministic_ops": True, "xla_gpu_graph_min_graph_size": 1}
jit = functools.partial(jax.jit, compiler_options=OPTIONS)


def seeded(*shape, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)).astype(dtype)


@jit
def multiplied(a):
    for _ in range(8):
        a = jnp.tanh(a @ a * 0.03)
    return a


def products():
    """Each from and to memory of its own."""
    results, a = [], seeded(1024, 1024)
    for i in range(12):
        a = multiplied(a)
        if i % 3 == 0:
            results.append(a)
    return results


@jit
def attended(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8, axis=-1) @ v


def attention():
    q, k, v = (seeded(8, 512, 64 + i, dtype=jnp.bfloat16)[..., :64] for i in range(3))
    for _ in range(12):
        q = attended(q, k, v)
    return q.astype(jnp.float32)


def forward(params, x):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return x


@jit
def step(params, x):
    grads = jax.grad(lambda p: jnp.square(forward(p, x)).mean())(params)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads)


def training():
    params = [(seeded(512, 512 + i)[:, :512] * 0.05, jnp.zeros(512)) for i in range(4)]
    for i in range(12):
        params = step(params, seeded(256 + i, 512)[:256])
    return params


@jit
def recurrent(x, w):
    return jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), h.sum()), x, None, length=50)


@jit
def ordered(x):
    return jnp.cumsum(jnp.sort(x, axis=1), axis=1) * 0.01


def scan():
    return recurrent(seeded(64, 256), seeded(256, 256) * 0.1)


def sort():
    x = seeded(256, 2048)
    for _ in range(6):
        x = ordered(x)
    return x


def digest(results):
    h = hashlib.sha256()
    for leaf in jax.tree.leaves(results):
        h.update(np.asarray(leaf).tobytes())
    return h.hexdigest()[:16]


def until_told(n):
    """Numbers of rounds."""
    end = threading.Event()
    if n is None:
        threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    return itertools.takewhile(lambda r: not end.is_set(), itertools.count() if n is None else range(n))


def main():
    if jax.default_backend() != "gpu":
        sys.exit("JAX has no GPU here")
    held, rng = {}, np.random.default_rng(1)
    for r in until_told(int(sys.argv[1]) if sys.argv[1:] else None):
        for case in (products, attention, training, scan, sort):
            held[rng.integers(12)] = jnp.zeros(1 << 20)  # so that memory is elsewhere each time
            print(f"{r} {case.__name__} {digest(case())}", flush=True)


if __name__ == "__main__":
    main()
