/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel's text says about running it again. */
#include "code/cuda/pass/nature.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* last */
#include <cmocka.h>

#define HEAD ".version 8.2\n.target sm_90\n.address_size 64\n"
#define REGS                                                                      \
	".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n" \
	".shared .align 4 .b8 s[64];\n"                                           \
	"ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"

enum { D = FM_NATURE_DYNAMIC, A = FM_NATURE_APPROX, S = FM_NATURE_STRANGE };

static void is(const char *body, unsigned want)
{
	struct fm_natures n;
	char text[4096];

	snprintf(text, sizeof(text),
		HEAD ".visible .entry k(.param .u64 p0, .param .u32 n)\n{\n%s%s\nret;\n}\n", REGS,
		body);
	assert_int_equal(fm_ptx_natures(text, strlen(text), &n), 0);
	assert_int_equal(n.n, 1);
	assert_string_equal(n.kernel[0].name, "k");
	if (n.kernel[0].is != want)
		print_error("%s: %u, not %u\n", body, n.kernel[0].is, want);
	assert_int_equal(n.kernel[0].is, want);
	fm_natures_free(&n);
}

static void values(void **state)
{
	is("mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r3, [%rd3];\n"
	   "add.s32 %r3, %r3, 1; st.global.u32 [%rd3], %r3;",
		0);
	/* Loops and bounds by arguments. */
	is("setp.ge.u32 %p1, %r2, %r1; @%p1 bra $OUT; st.global.u32 [%rd1], %r2;\n$OUT:", 0);
	/* A value that is chosen by another, without a branch. */
	is("ld.global.u32 %r3, [%rd1]; setp.gt.u32 %p1, %r3, 4; selp.u32 %r4, 1, 2, %p1;\n"
	   "st.global.u32 [%rd1], %r4;",
		0);
	is("ld.global.u32 %r3, [%rd1]; st.shared.u32 [s], %r3; bar.sync 0; ld.shared.u32 %r4, "
	   "[s];\n"
	   "st.global.u32 [%rd1+4], %r4;",
		0);
	is("red.global.add.u32 [%rd1], 1;", 0);
	is("atom.global.add.u32 %r3, [%rd1], 1;", 0);
	is("st.shared.u32 [s], %r2; ld.shared.u32 %r3, [s]; mul.wide.u32 %rd2, %r3, 4;\n"
	   "add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;",
		0);
}

static void addresses_and_branches(void **state)
{
	is("ld.global.u32 %r3, [%rd1]; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;\n"
	   "st.global.u32 [%rd3], 1;",
		D);
	is("ld.global.u32 %r3, [%rd1]; setp.gt.u32 %p1, %r3, 4; @%p1 bra $OUT;\n"
	   "st.global.u32 [%rd1], 1;\n$OUT:",
		D);
	is("ld.u32 %r3, [%rd1]; setp.gt.u32 %p1, %r3, 4; @!%p1 st.global.u32 [%rd1], 1;", D);
	is("ld.global.u64 %rd2, [%rd1]; ld.global.u32 %r3, [%rd2];", D);
	/* In the text the address comes first; a loop brings what was loaded. */
	is("$L: st.global.u32 [%rd4], 1; ld.global.u64 %rd4, [%rd1];\n"
	   "setp.lt.u32 %p1, %r2, %r1; @%p1 bra $L;",
		D);
	/* By way of shared memory, a shuffle, a vector, the carry flag. */
	is("ld.global.u32 %r3, [%rd1]; st.shared.u32 [s], %r3; ld.shared.u32 %r4, [s];\n"
	   "mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;",
		D);
	is("ld.global.u32 %r3, [%rd1]; shfl.sync.idx.b32 %r4|%p1, %r3, 0, 31, -1;\n"
	   "cvt.u64.u32 %rd2, %r4; add.s64 %rd3, %rd1, %rd2; st.global.u8 [%rd3], 1;",
		D);
	is("ld.global.v2.u32 {%r3, %r4}, [%rd1]; cvt.u64.u32 %rd2, %r4; add.s64 %rd3, %rd1, %rd2;\n"
	   "st.global.u8 [%rd3], 1;",
		D);
	is("ld.global.u32 %r3, [%rd1]; add.cc.u32 %r4, %r3, %r3; addc.u32 %r5, %r2, 0;\n"
	   "cvt.u64.u32 %rd2, %r5; add.s64 %rd3, %rd1, %rd2; st.global.u8 [%rd3], 1;",
		D);
	is("cp.async.ca.shared.global [%r5], [%rd1], 4; ld.shared.u32 %r4, [s];\n"
	   "cvt.u64.u32 %rd2, %r4; add.s64 %rd3, %rd1, %rd2; st.global.u8 [%rd3], 1;",
		D);
	/* What an atomic leaves in shared memory. */
	is("ld.global.u32 %r3, [%rd1]; atom.shared.add.u32 %r4, [s], %r3; ld.shared.u32 %r5, [s];\n"
	   "cvt.u64.u32 %rd2, %r5; add.s64 %rd3, %rd1, %rd2; st.global.u8 [%rd3], 1;",
		D);
	/* A place that is counted out. */
	is("atom.global.add.u32 %r3, [%rd1], 1; mul.wide.u32 %rd2, %r3, 4;\n"
	   "add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;",
		D | A);
}

static void order_time_and_place(void **state)
{
	is("atom.global.add.u32 %r3, [%rd1], 1; st.global.u32 [%rd1+8], %r3;", A);
	is("red.global.add.f32 [%rd1], 0f3F800000;", A);
	is("atom.global.exch.b32 %r3, [%rd1], %r2;", A);
	is("mov.u32 %r3, %smid; st.global.u32 [%rd1], %r3;", A);
	is("mov.u64 %rd2, %globaltimer; st.global.u64 [%rd1], %rd2;", A);
	is("atom.shared.add.u32 %r3, [s], 1; st.global.u32 [%rd1], %r3;", A);
	is("activemask.b32 %r3; st.global.u32 [%rd1], %r3;", A);
	/* Each is the same in any order, but not one among others. */
	is("red.global.add.u32 [%rd1], 1; red.global.add.u64 [%rd1+8], 1;", 0);
	is("red.global.add.u32 [%rd1], 1; red.global.max.u32 [%rd1], %r2;", A);
	is("red.global.max.u32 [%rd1], 1; red.global.max.s32 [%rd1], %r2;", A);
	is("red.global.inc.u32 [%rd1], %r2;", A);
	/* The second of several results. */
	is("atom.global.v2.min.noftz.f16x2 {%r3, %r4}, [%rd1], {%r2, %r2}; st.global.u32 [%rd1+8], "
	   "%r4;",
		A);
}

static void what_marks_do_not_tell(void **state)
{
	is("call vprintf, (%rd1);", S | D);
	is("suld.b.1d.b32.trap %r3, [%rd1, {%r2}];", S | D);
	is("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r2}], [s];", S | D);
	is("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r3}, [%rd1];", S | D);
	is("griddepcontrol.wait;", S | D);
	is("discard.global.L2 [%rd1], 128;", S | D);
	is("ld.u32 %r3, [s];", S | D); /* of which memory? */
	is("st.async.release.gpu.global.b32 [%rd1], %r2;", S | D);
	is("barrier.cluster.arrive;", S | D); /* a block is not alone */
	is("mapa.shared::cluster.u32 %r3, %r2, 1;", S | D);
	is("inventednext.global.u32 [%rd1], %r2;", S | D);
	is("@ %p1 st.global.u32 [%rd1], %r2;", S | D);
	is("@%p1 prefetch.global.L2 [%rd1]; xor.b32 %r3, %r2, %r2; abs.s32 %r3, %r2;", 0);
	is(".reg .b32 plain; ld.global.u32 plain, [%rd1];", S | D);
}

static void no_text(void **state)
{
	struct fm_natures n;

	assert_int_not_equal(fm_ptx_natures("what is this?", 13, &n), 0);
	fm_natures_free(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(addresses_and_branches),
		cmocka_unit_test(order_time_and_place),
		cmocka_unit_test(what_marks_do_not_tell),
		cmocka_unit_test(no_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
