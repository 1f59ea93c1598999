/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tasks of the case study compute on the device, after the CUDA samples of the same names:
 * in integers, so that every device gives the same. Each kernel reads `in` and writes a word of
 * `out` for each work-item; `rounds` says how often it does its work over, so that its length can
 * be chosen.
 */
#pragma once

#define RT_ITEMS 2048u
#define RT_WORDS 4096u /* of the input */

static const char rt_source[] =
	"#define WORDS 4096u\n"
	/* Counts of bytes, in sixteen bins. */
	"__kernel void histogram(__global const uint *in, __global uint *out, uint rounds)\n"
	"{\n"
	"	uint me = get_global_id(0), bin[16], sum = 0;\n"
	"	for (uint b = 0; b < 16; b++)\n"
	"		bin[b] = 0;\n"
	"	for (uint r = 0; r < rounds; r++) {\n"
	"		uint w = in[(me + r) % WORDS];\n"
	"		for (uint k = 0; k < 4; k++)\n"
	"			bin[(w >> (8 * k + 4)) & 15]++;\n"
	"	}\n"
	"	for (uint b = 0; b < 16; b++)\n"
	"		sum = sum * 31 + bin[b];\n"
	"	out[me] = sum;\n"
	"}\n"
	/* One element of the product of two matrices of 32 by 32. */
	"__kernel void mmul(__global const uint *in, __global uint *out, uint rounds)\n"
	"{\n"
	"	uint me = get_global_id(0), row = me / 32 % 32, col = me % 32, sum = 0;\n"
	"	for (uint r = 0; r < rounds; r++)\n"
	"		for (uint k = 0; k < 32; k++)\n"
	"			sum = sum * 3 + in[row * 32 + k] * in[1024 + k * 32 + col];\n"
	"	out[me] = sum;\n"
	"}\n"
	/* A point, moved and turned, and moved again. */
	"__kernel void projection(__global const uint *in, __global uint *out, uint rounds)\n"
	"{\n"
	"	uint me = get_global_id(0);\n"
	"	uint x = in[me % WORDS], y = in[(me + 1) % WORDS], z = in[(me + 2) % WORDS];\n"
	"	for (uint r = 0; r < rounds; r++) {\n"
	"		uint u = 3 * x + 5 * y + 7 * z + 1, v = 11 * x + 13 * y + 17 * z + 2;\n"
	"		z = 19 * x + 23 * y + 29 * z + (u >> 16);\n"
	"		x = u ^ (v >> 8);\n"
	"		y = v;\n"
	"	}\n"
	"	out[me] = x + y + z;\n"
	"}\n"
	/* A block of sixteen pixels, as two colours and an index for each. */
	"__kernel void dxtc(__global const uint *in, __global uint *out, uint rounds)\n"
	"{\n"
	"	uint me = get_global_id(0), sum = 0;\n"
	"	for (uint r = 0; r < rounds; r++) {\n"
	"		uint low = 255, high = 0, code = 0;\n"
	"		for (uint p = 0; p < 16; p++) {\n"
	"			uint c = in[(me * 16 + p + r) % WORDS] & 255;\n"
	"			low = min(low, c);\n"
	"			high = max(high, c);\n"
	"		}\n"
	"		for (uint p = 0; p < 16; p++) {\n"
	"			uint c = in[(me * 16 + p + r) % WORDS] & 255;\n"
	"			code = code << 2 | (c - low) * 3 / (high - low + 1);\n"
	"		}\n"
	"		sum = sum * 31 + (code ^ low << 8 ^ high);\n"
	"	}\n"
	"	out[me] = sum;\n"
	"}\n"
	/* A ray through a volume of 16 by 16 by 16, between whose points it interpolates. */
	"__kernel void texture3d(__global const uint *in, __global uint *out, uint rounds)\n"
	"{\n"
	"	uint me = get_global_id(0), sum = 0;\n"
	"	for (uint r = 0; r < rounds; r++) {\n"
	"		uint p = me * 37 + r * 101, f = p & 255;\n"
	"		uint a = (p >> 8) % WORDS, b = (a + 1) % WORDS, c = (a + 16) % WORDS;\n"
	"		uint v = (in[a] & 0xffff) * (256 - f) + (in[b] & 0xffff) * f;\n"
	"		sum += v + (in[c] & 0xffff) * (256 - f) + (in[(c + 1) % WORDS] & 0xffff) * "
	"f;\n"
	"	}\n"
	"	out[me] = sum;\n"
	"}\n";
