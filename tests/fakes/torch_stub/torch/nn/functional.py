# SPDX-License-Identifier: Apache-2.0
"""Functions that have no weights."""


def relu(x):
    return x._with("relu")


def gelu(x):
    return x._with("gelu")


def interpolate(x, scale_factor):
    return x._with("interpolate", (*x.shape[:2], *(scale_factor * n for n in x.shape[2:])))


def scaled_dot_product_attention(q, k, v, is_causal):
    assert q.shape == k.shape == v.shape
    return q._with(("attention", k.value, v.value, is_causal))
