/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_cuda_science.c computes, after programs of Rodinia: in integers, so that every device
 * gives the same. Each kernel has the parameters (out, a, b, n, k) and writes a word for each i <
 * n; k is the number of the step, so that a step does not write what the last one did. Below, the
 * same for processors.
 */
#pragma once
#include <stdint.h>

#define SCIENCE_ROW \
	1024u /* words of a row of grids and images; images have an even number of rows */

/* Text of another language. */
/* clang-format off */
#define SCIENCE_BEGIN(name)                                                                  \
	".visible .entry science_" name "(.param .u64 out, .param .u64 a, .param .u64 b, "   \
	".param .u64 n, .param .u32 k)\n{\n"                                                 \
	".reg .u64 %out, %a, %b, %n, %i, %step, %p, %q, %last, %sum;\n"                      \
	".reg .u32 %k, %v, %w, %t, %x<8>;\n.reg .pred %is, %done;\n"                         \
	"ld.param.u64 %out, [out];\nld.param.u64 %a, [a];\nld.param.u64 %b, [b];\n"          \
	"ld.param.u64 %n, [n];\nld.param.u32 %k, [k];\n"                                     \
	"mov.u32 %v, %ctaid.x;\nmov.u32 %w, %ntid.x;\nmov.u32 %t, %tid.x;\n"                 \
	"mad.lo.u32 %t, %v, %w, %t;\ncvt.u64.u32 %i, %t;\n"                                  \
	"mov.u32 %v, %nctaid.x;\nmul.lo.u32 %v, %v, %w;\ncvt.u64.u32 %step, %v;\n"           \
	"sub.u64 %last, %n, 1;\nmov.u64 %sum, 0;\n"
#define SCIENCE_LOOP "again: setp.ge.u64 %done, %i, %n;\n@%done bra done;\n"
#define SCIENCE_NEXT "add.u64 %i, %i, %step;\nbra again;\ndone:\n"
#define SCIENCE_END  "ret;\n}\n"
/* %v, by %t. */
#define SCIENCE_MIX                                                               \
	"mul.lo.u32 %v, %v, 2654435761;\nshr.u32 %t, %v, 15;\nxor.b32 %v, %v, %t;\n" \
	"mul.lo.u32 %v, %v, 2246822519;\nshr.u32 %t, %v, 13;\nxor.b32 %v, %v, %t;\n"
/* The word at this address and index, by %p. */
#define SCIENCE_AT(base, i, word)                           \
	"shl.b64 %p, " i ", 2;\nadd.u64 %p, %p, " base ";\n" \
	"ld.global.u32 " word ", [%p];\n"
#define SCIENCE_PUT(i, word)                               \
	"shl.b64 %p, " i ", 2;\nadd.u64 %p, %p, %out;\n"    \
	"st.global.u32 [%p], " word ";\n"
/* To %v: a word of `a' beside that of %i, none beyond the edge. */
#define SCIENCE_NEAR(distance)                                                         \
	"add.s64 %q, %i, " distance ";\nmax.s64 %q, %q, 0;\nmin.s64 %q, %q, %last;\n" \
	SCIENCE_AT("%a", "%q", "%w") "add.u32 %v, %v, %w;\n"
/* To %v: the value of the next cell of four, of which each has less weight. */
#define SCIENCE_LINK(j)                                                          \
	"cvt.u64.u32 %q, %x" j ";\n" SCIENCE_AT("%a", "%q", "%w")                 \
	"shr.u32 %w, %w, " j ";\nadd.u32 %v, %v, %w;\n"
/* Of x and y: y becomes their difference, x about their mean times two; and back. */
#define SCIENCE_LIFT(x, y) \
	"sub.u32 " y ", " y ", " x ";\nshr.u32 %t, " y ", 1;\nadd.u32 " x ", " x ", %t;\n"
#define SCIENCE_DROP(x, y) \
	"shr.u32 %t, " y ", 1;\nsub.u32 " x ", " x ", %t;\nadd.u32 " y ", " y ", " x ";\n"
/* To %q: where in the image of `base' the square of %i begins. */
#define SCIENCE_SQUARE(base)                                                  \
	"shr.u64 %q, %i, 9;\nshl.b64 %q, %q, 13;\nand.b64 %p, %i, 511;\n"      \
	"shl.b64 %p, %p, 3;\nadd.u64 %q, %q, %p;\nadd.u64 %q, %q, " base ";\n"
#define SCIENCE_FAR "add.u64 %p, %p, %last;\n" /* a quarter of the image further; %last: bytes */

static const char science_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	/* Something that looks drawn. */
	SCIENCE_BEGIN("fill") SCIENCE_LOOP
	"cvt.u32.u64 %v, %i;\nadd.u32 %v, %v, %k;\n" SCIENCE_MIX SCIENCE_PUT("%i", "%v")
	SCIENCE_NEXT SCIENCE_END
	/* Temperatures `a' and power `b' of a chip. */
	SCIENCE_BEGIN("stencil") SCIENCE_LOOP
	SCIENCE_AT("%a", "%i", "%v") "add.u32 %v, %v, %v;\nadd.u32 %v, %v, %k;\n"
	SCIENCE_AT("%b", "%i", "%w") "add.u32 %v, %v, %w;\n"
	SCIENCE_NEAR("-1") SCIENCE_NEAR("1") SCIENCE_NEAR("-1024") SCIENCE_NEAR("1024")
	SCIENCE_PUT("%i", "%v")
	SCIENCE_NEXT SCIENCE_END
	/* An image, in squares of two by two, to four quarters of it. */
	SCIENCE_BEGIN("wavelet")
	"shr.u64 %n, %n, 2;\nshl.b64 %last, %n, 2;\n"
	SCIENCE_LOOP SCIENCE_SQUARE("%a")
	"ld.global.v2.u32 {%x0, %x1}, [%q];\nld.global.v2.u32 {%x2, %x3}, [%q+4096];\n"
	"add.u32 %x0, %x0, %k;\nadd.u32 %x1, %x1, %k;\nadd.u32 %x2, %x2, %k;\nadd.u32 %x3, %x3, %k;\n"
	SCIENCE_LIFT("%x0", "%x1") SCIENCE_LIFT("%x2", "%x3")
	SCIENCE_LIFT("%x0", "%x2") SCIENCE_LIFT("%x1", "%x3")
	SCIENCE_PUT("%i", "%x0") SCIENCE_FAR "st.global.u32 [%p], %x1;\n"
	SCIENCE_FAR "st.global.u32 [%p], %x2;\n" SCIENCE_FAR "st.global.u32 [%p], %x3;\n"
	SCIENCE_NEXT SCIENCE_END
	/* And the image of these. */
	SCIENCE_BEGIN("image")
	"shr.u64 %n, %n, 2;\nshl.b64 %last, %n, 2;\n"
	SCIENCE_LOOP
	SCIENCE_AT("%a", "%i", "%x0") SCIENCE_FAR "ld.global.u32 %x1, [%p];\n"
	SCIENCE_FAR "ld.global.u32 %x2, [%p];\n" SCIENCE_FAR "ld.global.u32 %x3, [%p];\n"
	SCIENCE_DROP("%x0", "%x2") SCIENCE_DROP("%x1", "%x3")
	SCIENCE_DROP("%x0", "%x1") SCIENCE_DROP("%x2", "%x3")
	SCIENCE_SQUARE("%out")
	"st.global.v2.u32 [%q], {%x0, %x1};\nst.global.v2.u32 [%q+4096], {%x2, %x3};\n"
	SCIENCE_NEXT SCIENCE_END
	/* Four cells beside each: one of them is far away for one cell in sixteen. */
	SCIENCE_BEGIN("links")
	"shr.u64 %last, %n, 2;\ncvt.u32.u64 %x0, %last;\nsub.u64 %last, %last, 1;\n"
	SCIENCE_LOOP
	"cvt.u32.u64 %x1, %i;\nand.b32 %x1, %x1, 3;\nshr.u64 %q, %i, 2;\ncvt.u32.u64 %v, %q;\n"
	"and.b32 %x2, %v, 15;\n" SCIENCE_MIX "rem.u32 %v, %v, %x0;\n"
	"shl.b32 %x3, %x1, 1;\nand.b32 %x3, %x3, 2;\nsub.u32 %x3, %x3, 1;\n" /* -1, 1, -1, 1 */
	"setp.lt.u32 %is, %x1, 2;\nselp.u32 %x4, 1, 1024, %is;\nmul.lo.s32 %x3, %x3, %x4;\n"
	"cvt.s64.s32 %p, %x3;\nadd.s64 %q, %q, %p;\nmax.s64 %q, %q, 0;\nmin.s64 %q, %q, %last;\n"
	"cvt.u32.u64 %w, %q;\nsub.u32 %x1, %x1, 2;\nor.b32 %x1, %x1, %x2;\n"
	"setp.eq.u32 %is, %x1, 0;\nselp.u32 %v, %v, %w, %is;\n" SCIENCE_PUT("%i", "%v")
	SCIENCE_NEXT SCIENCE_END
	/* Each cell `a' with those that the words of `b' name. */
	SCIENCE_BEGIN("gather") SCIENCE_LOOP
	SCIENCE_AT("%a", "%i", "%v") "mad.lo.u32 %v, %v, 31, %k;\n"
	"shl.b64 %q, %i, 4;\nadd.u64 %q, %q, %b;\nld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%q];\n"
	SCIENCE_LINK("0") SCIENCE_LINK("1") SCIENCE_LINK("2") SCIENCE_LINK("3")
	SCIENCE_PUT("%i", "%v")
	SCIENCE_NEXT SCIENCE_END
	/* How far places are, which are two words each, from one that k names. */
	SCIENCE_BEGIN("nearest") "mul.lo.u32 %x2, %k, 2654435761;\nmul.lo.u32 %x3, %k, 2246822519;\n"
	SCIENCE_LOOP
	"shl.b64 %q, %i, 3;\nadd.u64 %q, %q, %a;\nld.global.v2.u32 {%x0, %x1}, [%q];\n"
	"max.u32 %v, %x0, %x2;\nmin.u32 %w, %x0, %x2;\nsub.u32 %v, %v, %w;\nshr.u32 %v, %v, 1;\n"
	"max.u32 %t, %x1, %x3;\nmin.u32 %w, %x1, %x3;\nsub.u32 %t, %t, %w;\nshr.u32 %t, %t, 1;\n"
	"add.u32 %v, %v, %t;\n" SCIENCE_PUT("%i", "%v")
	SCIENCE_NEXT SCIENCE_END
	/* To the long word `out': what all words of `a' and their places amount to. */
	SCIENCE_BEGIN("digest") SCIENCE_LOOP
	SCIENCE_AT("%a", "%i", "%v") "cvt.u32.u64 %w, %i;\nxor.b32 %v, %v, %w;\n" SCIENCE_MIX
	"cvt.u64.u32 %q, %v;\nadd.u64 %sum, %sum, %q;\n"
	SCIENCE_NEXT "red.global.add.u64 [%out], %sum;\n" SCIENCE_END;
/* clang-format on */

static inline uint32_t science_mix(uint32_t v)
{
	v *= 2654435761u;
	v ^= v >> 15;
	v *= 2246822519u;
	return v ^ v >> 13;
}

static inline uint64_t science_near(uint64_t i, int64_t distance, uint64_t n)
{
	int64_t at = (int64_t)i + distance;

	return at < 0 ? 0 : at >= (int64_t)n ? n - 1 : (uint64_t)at;
}

static inline void science_stencil(
	uint32_t *out, const uint32_t *a, const uint32_t *b, uint64_t n, uint32_t k, uint64_t i)
{
	out[i] = 2 * a[i] + k + b[i] + a[science_near(i, -1, n)] + a[science_near(i, 1, n)] +
		 a[science_near(i, -(int64_t)SCIENCE_ROW, n)] + a[science_near(i, SCIENCE_ROW, n)];
}

static inline void science_lift(uint32_t *x, uint32_t *y)
{
	*y -= *x;
	*x += *y >> 1;
}

static inline void science_drop(uint32_t *x, uint32_t *y)
{
	*x -= *y >> 1;
	*y += *x;
}

static inline uint64_t science_square(uint64_t i)
{
	return i / (SCIENCE_ROW / 2) * 2 * SCIENCE_ROW + i % (SCIENCE_ROW / 2) * 2;
}

/* For i < n / 4. */
static inline void science_wavelet(
	uint32_t *out, const uint32_t *a, uint64_t n, uint32_t k, uint64_t i)
{
	const uint32_t *s = a + science_square(i);
	uint32_t x[4] = {s[0] + k, s[1] + k, s[SCIENCE_ROW] + k, s[SCIENCE_ROW + 1] + k};

	science_lift(&x[0], &x[1]);
	science_lift(&x[2], &x[3]);
	science_lift(&x[0], &x[2]);
	science_lift(&x[1], &x[3]);
	for (unsigned q = 0; q < 4; q++)
		out[q * (n / 4) + i] = x[q];
}

/* For i < n / 4. */
static inline void science_image(uint32_t *out, const uint32_t *a, uint64_t n, uint64_t i)
{
	uint32_t *s = out + science_square(i), x[4];

	for (unsigned q = 0; q < 4; q++)
		x[q] = a[q * (n / 4) + i];
	science_drop(&x[0], &x[2]);
	science_drop(&x[1], &x[3]);
	science_drop(&x[0], &x[1]);
	science_drop(&x[2], &x[3]);
	s[0] = x[0];
	s[1] = x[1];
	s[SCIENCE_ROW] = x[2];
	s[SCIENCE_ROW + 1] = x[3];
}

static inline void science_links(uint32_t *out, uint64_t n, uint64_t i)
{
	static const int64_t distance[] = {-1, 1, -(int64_t)SCIENCE_ROW, SCIENCE_ROW};
	uint64_t cells = n / 4, cell = i / 4;

	out[i] = i % 4 == 2 && cell % 16 == 0
			 ? science_mix((uint32_t)cell) % (uint32_t)cells
			 : (uint32_t)science_near(cell, distance[i % 4], cells);
}

static inline void science_gather(
	uint32_t *out, const uint32_t *a, const uint32_t *b, uint32_t k, uint64_t i)
{
	uint32_t v = a[i] * 31 + k;

	for (unsigned j = 0; j < 4; j++)
		v += a[b[4 * i + j]] >> j;
	out[i] = v;
}

static inline void science_nearest(uint32_t *out, const uint32_t *a, uint32_t k, uint64_t i)
{
	uint32_t to[2] = {k * 2654435761u, k * 2246822519u}, sum = 0;

	for (unsigned j = 0; j < 2; j++) {
		uint32_t v = a[2 * i + j];

		sum += (v > to[j] ? v - to[j] : to[j] - v) >> 1;
	}
	out[i] = sum;
}

static inline uint64_t science_digest(const uint32_t *a, uint64_t i)
{
	return science_mix(a[i] ^ (uint32_t)i);
}
