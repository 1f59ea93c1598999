/* SPDX-License-Identifier: Apache-2.0 */
/* Marks in the text of kernels: in front of each access to global memory, under its guard. */
#include "code/cuda/pass/marks.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* last */
#include <cmocka.h>

#define HEAD  ".version 8.2\n.target sm_90\n.address_size 64\n"
#define ENTRY ".visible .entry k(.param .u64 p0, .param .u32 n) .maxntid 128, 1, 1\n{\n"

static char *marked(const char *body, int want)
{
	char text[4096], *out;

	snprintf(text, sizeof(text), HEAD ENTRY "%s\nret;\n}\n", body);
	assert_int_equal(fm_ptx_marks(text, strlen(text), &out), want);
	return out;
}

/* How many marks there are in front of the program's own text. */
static unsigned count(const char *text, const char *what)
{
	const char *at = strstr(text, ".entry");
	unsigned n = 0;

	while ((at = strstr(at, what))) {
		at++;
		n++;
	}
	return n;
}

static void mark_of(const char *body, const char *address, unsigned bytes, const char *guard)
{
	char *out = marked(body, 0), want[128];

	assert_int_equal(count(out, "call fermata_touched_mark"), 1);
	snprintf(want, sizeof(want), "add.s64 %%fm_at, %s;", address);
	assert_non_null(strstr(out, want));
	snprintf(want, sizeof(want), "st.param.b32 [fm_n], %u;", bytes);
	assert_non_null(strstr(out, want));
	snprintf(want, sizeof(want), "%s call fermata_touched_mark, (fm_a, fm_n); }\n%s", guard,
		body);
	assert_non_null(strstr(out, want));
	free(out);
}

static void accesses(void **state)
{
	mark_of("ld.global.u32 %r1, [%rd1];", "%rd1, 0", 4, "");
	mark_of("ld.f64 %fd1, [%rd1+8];", "%rd1, 8", 8, "");
	mark_of("@%p1 st.global.v4.b32 [ %rd1 + -32 ], { %r1, %r2, %r3, %r4 };", "%rd1, -32", 16,
		"@%p1");
	mark_of("@!%p1 atom.global.gpu.acq_rel.add.u32 %r5, [ %rd1 + 0 ], %r1;", "%rd1, 0", 4,
		"@!%p1");
	mark_of("red.global.add.noftz.f16x2 [%rd1+0x10], %r1;", "%rd1, 16", 4, "");
	mark_of("ld.global.nc.L1::no_allocate.v2.u64 {%rd2, %rd3}, [%rd1];", "%rd1, 0", 16, "");
	mark_of("cp.async.cg.shared.global [ %r6 + 0 ], [ %rd1 + 64 ], 0x10, 0x10;", "%rd1, 64", 16,
		"");
}

static void others(void **state)
{
	char *out = marked(
		"ld.param.u64 %rd1, [p0];\nld.shared.u32 %r1, [%r2];\nst.local.u32 [%rd3], %r1;\n"
		"ld.const.u32 %r1, [table];\nld.global.u32 %r1, "
		"[variable];\ncp.async.commit_group;\n"
		"st.shared::cluster.u32 [%r1], %r2;\nmov.u64 %rd1, 5; // ld.global.u32 %r1, "
		"[%rd1];\n"
		"$L1:\n.loc 1 5 0\nprefetch.global.L2 [%rd1];",
		0);

	assert_int_equal(count(out, "call fermata_touched_mark"), 0);
	free(out);
}

/* Labels, lines, blocks in blocks; functions as well as kernels. */
static void places(void **state)
{
	static const char text[] =
		HEAD ".func f(.param .b64 a)\n{\n.reg .b64 %rd<3>;\nld.param.u64 %rd1, [a];\nst.u8 "
		     "[%rd1], 1;\nret;\n}\n" ENTRY
		     "$L0: ld.global.u8 %r1, [%rd1];\n.loc 1 2 3\n@%p1 bra $L0;\n{\n.reg .b32 t;\n"
		     "{ ld.global.u16 %r1, [%rd1]; }\n}\ncall f, (x);\nret;\n}\n"
		     ".section .debug_str\n{\n.b8 1\n}\n";
	char *out, *end;

	assert_int_equal(fm_ptx_marks(text, strlen(text), &out), 0);
	end = strstr(out, ".section");
	assert_non_null(end);
	assert_int_equal(count(out, "call fermata_touched_mark"), 2);
	assert_non_null(strstr(strstr(out, ".func f("), "call fermata_touched_mark"));
	assert_non_null(strstr(out, "$L0: { .reg .b64 %fm_at;"));
	/* What has marks gets no more. */
	char *again;
	assert_int_equal(fm_ptx_marks(out, strlen(out), &again), -EINVAL);
	free(out);
}

/* The largest block can be launched, whatever marks take. */
static void registers(void **state)
{
	static const char text[] =
		HEAD ".entry a(.param .u64 p)\n{\nld.global.u8 %r1, [%rd1];\nret;\n}\n" ENTRY
		     "ret;\n}\n.entry c\n{\nret;\n}\n.entry d() .maxnreg 32\n{\nret;\n}\n";
	char *out;

	assert_int_equal(fm_ptx_marks(text, strlen(text), &out), 0);
	assert_int_equal(count(out, ".maxnreg"), 3);
	assert_non_null(strstr(out, ".entry a(.param .u64 p)\n .maxnreg 64\n{\n"));
	assert_non_null(strstr(out, ".maxntid 128, 1, 1\n{\nret;"));
	assert_non_null(strstr(out, ".entry c\n .maxnreg 64\n{\nret;"));
	free(out);
}

static void refused(void **state)
{
	static const char old[] = ".version 4.0\n.target sm_20\n" ENTRY "ret;\n}\n";
	char *out = marked("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
			   "[%r1], [%rd1], %r2, [%r3];",
		-EOPNOTSUPP);

	assert_null(out);
	marked("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd1], %r2;",
		-EOPNOTSUPP);
	marked("multimem.ld_reduce.global.add.f32 %f1, [%rd1];", -EOPNOTSUPP);
	marked("st.async.release.gpu.global.b32 [%rd1], %r1;", -EOPNOTSUPP);
	/* A call loses the carry flag. */
	marked("add.cc.u32 %r1, %r2, %r3; ld.global.u32 %r4, [%rd1]; addc.u32 %r5, %r4, 0;",
		-EOPNOTSUPP);
	free(marked("add.cc.u32 %r1, %r2, %r3; addc.u32 %r5, %r4, 0; ld.global.u32 %r4, [%rd1];\n"
		    "sub.cc.u32 %r1, %r2, %r3; subc.u32 %r5, %r4, 0;",
		0));
	assert_int_equal(fm_ptx_marks(old, strlen(old), &out), -EINVAL);
	assert_int_equal(fm_ptx_marks("", 0, &out), -EINVAL);
	assert_int_equal(fm_ptx_marks(HEAD, strlen(HEAD), &out), -EINVAL);
}

/* Whatever is cut off, or changed: it ends, and reads nothing behind. */
static void broken(void **state)
{
	static const char text[] =
		HEAD ENTRY "@%p1 st.global.v4.b32 [ %rd1 + -32 ], { %r1, %r2, %r3, %r4 };\n"
			   "cp.async.cg.shared.global [ %r6 ], [ %rd1 ], 16;\n$L1: ret;\n}\n";
	size_t size = strlen(text);
	char *out;

	for (size_t n = 0; n <= size; n++)
		for (size_t at = 0; at < n; at += 3) {
			char *copy = malloc(n);

			memcpy(copy, text, n);
			copy[at] = "{}[];@.%"[at % 8];
			if (!fm_ptx_marks(copy, n, &out))
				free(out);
			free(copy);
		}
}

/* With kinds, and of variables, too; what is not understood has none, and the others do. */
static void kinds(void **state)
{
	static const struct {
		const char *body, *address;
		int kind;
	} all[] = {{"ld.global.u32 %r1, [%rd1];", "add.s64 %fm_at, %rd1, 0;", 1},
		{"ld.global.nc.u32 %r1, [%rd1];", "add.s64 %fm_at, %rd1, 0;", 4},
		{"ldu.global.u32 %r1, [%rd1];", "add.s64 %fm_at, %rd1, 0;", 4},
		{"@%p1 st.f64 [%rd1+8], %fd1;", "add.s64 %fm_at, %rd1, 8;", 2},
		{"red.global.add.u32 [%rd1], 1;", "add.s64 %fm_at, %rd1, 0;", 3},
		{"cp.async.ca.shared.global [%r1], [%rd1], 8;", "add.s64 %fm_at, %rd1, 0;", 4},
		{"ld.global.u32 %r1, [table+4];",
			"mov.u64 %fm_at, table;\nadd.s64 %fm_at, %fm_at, 4;", 1},
		{"wmma.load.a.sync.f16 {%r1}, [%rd1]; st.global.u8 [%rd2], 1;",
			"add.s64 %fm_at, %rd2, 0;", 2}};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char text[4096], want[64], *out;

		snprintf(text, sizeof(text), HEAD ENTRY "%s\nret;\n}\n", all[i].body);
		assert_int_equal(fm_ptx_marks_kinds(text, strlen(text), &out), 0);
		assert_int_equal(count(out, "call fermata_accessed_mark"), 1);
		assert_non_null(strstr(strstr(out, ".entry"), all[i].address));
		snprintf(want, sizeof(want), "st.param.b32 [fm_k], %d;", all[i].kind);
		assert_non_null(strstr(out, want));
		free(out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accesses),
		cmocka_unit_test(kinds),
		cmocka_unit_test(others),
		cmocka_unit_test(places),
		cmocka_unit_test(registers),
		cmocka_unit_test(refused),
		cmocka_unit_test(broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
