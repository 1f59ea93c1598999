/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of command, for estimates, as a table of calls computes them from the parameters. */
#pragma once
#include <stdint.h>

/* Copies are alike by powers of two of their size. op: which call. */
static inline uint64_t key_bytes(unsigned op, uint64_t bytes)
{
	return UINT64_C(0x20000) + op * 64u + (bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0);
}

/* What is alike in both: a function and its number of blocks. */
static inline uint64_t key_mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return (h ^ h >> 29) | 1u << 31;
}
