/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of PTX that can be left in the middle of a loop: which, what is kept of them, and what
 * becomes of their branches. What the text does is tried by
 * integration/cuda/guard/test_ptx_loops.py. */
#include "api/cuda/cache/cache.h"
#include "api/cuda/cache/pack.h"
#include "code/cuda/pass/ptx_loop.h"
#include "image_files.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define REGS                                                                         \
	".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg " \
	".f64 %f<3>;\n"

static struct fm_image rewrite(const char *text, const char *loops)
{
	struct fm_image image;
	/* In a place of its own, so that a read behind the end is seen. */
	char *copy = malloc(strlen(text) + 1);

	assert_non_null(copy);
	memcpy(copy, text, strlen(text) + 1);
	assert_int_equal(
		fm_image_rewrite_loops(copy, strlen(copy), 90, loops, &image), FM_IMAGE_OK);
	free(copy);
	return image;
}

static enum fm_loop_why why(const char *body)
{
	char text[2048];
	struct fm_image i;
	enum fm_loop_why w;

	snprintf(text, sizeof(text), HEAD ".entry k(.param .u64 x)\n{\n%s}\n", body);
	i = rewrite(text, "k");
	w = i.kernel[0].loops;
	assert_true((w == FM_LOOP_POLLED) == (i.kernel[0].n_loops > 0));
	assert_int_equal(!strstr((char *)i.data, "_AWAY:"), w != FM_LOOP_POLLED);
	fm_image_free(&i);
	return w;
}

#define LOOP(inner) REGS "L: " inner "\n@%p1 bra L;\nret;\n"

static void which(void **state)
{
	assert_int_equal(why(LOOP("")), FM_LOOP_POLLED);
	assert_int_equal(why(LOOP("ld.global.v2.f64 {%f1, %f2}, [%d1+-8];")), FM_LOOP_POLLED);
	assert_int_equal(why(LOOP("red.global.add.u32 [%d1], %r1;")), FM_LOOP_POLLED);
	assert_int_equal(why(LOOP("mov.u64 %d1, %globaltimer;")), FM_LOOP_POLLED);
	assert_int_equal(why(LOOP("mov.b64 {%r1, _}, %d1;")), FM_LOOP_POLLED);
	assert_int_equal(why(LOOP("{ .reg .b32 %t; mov.u32 %t, %r1; }")), FM_LOOP_POLLED);
	assert_int_equal(why(LOOP(".loc 1 2 3, function_name $x\n.pragma ;")), FM_LOOP_POLLED);
	assert_int_equal(why("L: bra.uni L;"), FM_LOOP_POLLED);
	assert_int_equal(why(""), FM_LOOP_NONE);
	assert_int_equal(why(REGS "@%p1 bra L; mov.u32 %r1, %r2;\nL: ret;\n"), FM_LOOP_NONE);
}

static void refused(void **state)
{
	assert_int_equal(why(LOOP("bar.sync 0;")), FM_LOOP_TOGETHER);
	assert_int_equal(
		why(LOOP("shfl.sync.bfly.b32 %r1|%p2, %r2, 1, 31, -1;")), FM_LOOP_TOGETHER);
	assert_int_equal(why(LOOP("vote.sync.any.pred %p1, %p2, -1;")), FM_LOOP_TOGETHER);
	assert_int_equal(why(LOOP("cp.async.wait_all;")), FM_LOOP_TOGETHER);
	assert_int_equal(why(LOOP(".shared .b32 s[4];")), FM_LOOP_SHARED);
	assert_int_equal(why(LOOP("ld.shared::cta.u32 %r1, [%r2];")), FM_LOOP_SHARED);
	assert_int_equal(why(LOOP("cvta.shared.u64 %d1, %d2;")), FM_LOOP_SHARED);
	assert_int_equal(why(".local .align 4 .b8 depot[16];\n" LOOP("")), FM_LOOP_LOCAL);
	assert_int_equal(why(LOOP("st.local.u32 [%d1], %r1;")), FM_LOOP_LOCAL);
	assert_int_equal(why(LOOP("mov.u32 %r1, %clock;")), FM_LOOP_PLACE);
	assert_int_equal(why(LOOP("mov.u64 %d1, %clock64;")), FM_LOOP_PLACE);
	assert_int_equal(why(LOOP("mov.u32 %r1, %smid;")), FM_LOOP_PLACE);
	assert_int_equal(why(LOOP("cvta.param.u64 %d1, x;")), FM_LOOP_PLACE);
	assert_int_equal(why(LOOP("atom.global.add.u32 %r1, [%d1], 1;")), FM_LOOP_GRID);
	assert_int_equal(why(LOOP("call.uni f, ();")), FM_LOOP_GRID);
	assert_int_equal(why(LOOP("griddepcontrol.launch_dependents;")), FM_LOOP_OVERLAPS);
	/* A warp may be of threads that have been through the loop more often, and less. */
	assert_int_equal(why(LOOP("@%p2 bra.uni M;\nM:")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("tex.2d.v4.f32.f32 {}, [t, {}];")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("frobnicate.u32 %r1;")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("mov.u32 %r1, %r2, %wrong;")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("mov.u32 %r9, 1;")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("mov.u32 %r01, 1;")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("brx.idx %r1, T;")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP(".branchtargets L;")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("{ M: bra M; }")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("L: ret;")), FM_LOOP_TEXT);
	assert_int_equal(why(LOOP("bra NOWHERE;")), FM_LOOP_TEXT);
	assert_int_equal(why(".reg .b128 %q;" LOOP("")), FM_LOOP_TEXT);
	assert_int_equal(why(".reg .v4 .f32 %v;" LOOP("")), FM_LOOP_TEXT);
	assert_int_equal(why(".reg .b32 %w<99999>;" LOOP("")), FM_LOOP_LARGE);
	assert_int_equal(why("L: @%p1 bra L;"), FM_LOOP_TEXT);
	assert_int_equal(why(REGS "L: @%r1 bra L;"), FM_LOOP_TEXT);
	assert_int_equal(why(REGS "L: bra L; mov.u32 %r1"), FM_LOOP_TEXT);
	assert_int_equal(why("L: { .reg .b32 %t; add.u32 %t, %t, 1; } bra L;"), FM_LOOP_TEXT);
}

/* What lives at each branch back, in the order of the text: "a b, c". */
static void lives(const char *body, const char *expected)
{
	char text[2048], found[512] = "";
	struct fm_ptx p;
	struct fm_ptx_loops l;

	snprintf(text, sizeof(text), HEAD ".entry k(.param .u64 x)\n{\n%s}\n", body);
	assert_int_equal(fm_ptx_scan(text, strlen(text), 0, &p), FM_IMAGE_OK);
	assert_int_equal(fm_ptx_loops_find(&p, &p.kernel[0], &l), FM_LOOP_POLLED);
	for (uint32_t i = 0; i < l.n; i++) {
		if (i)
			strcat(found, ",");
		for (uint32_t n = 0; n < l.back[i].n_regs; n++) {
			const struct fm_ptx_reg *reg = &l.code.reg[l.back[i].reg[n]];
			size_t at = strlen(found);

			at += (size_t)snprintf(found + at, sizeof(found) - at, " %.*s",
				(int)reg->len, text + reg->name);
			if (reg->member != FM_PTX_ALONE)
				snprintf(found + at, sizeof(found) - at, "%u", reg->member);
		}
	}
	assert_string_equal(found, expected);
	fm_ptx_loops_free(&l);
	fm_ptx_free(&p);
}

static void liveness(void **state)
{
	/* What is read behind the loop, what the next round needs, and not what it makes anew. */
	lives(REGS "L: add.u32 %r1, %r1, 1; mul.lo.u32 %r2, %r1, %r3; setp.lt.u32 %p1, %r1, %r4;\n"
		   "@%p1 bra L; st.global.u32 [%d1], %r2;",
		" %r1 %r3 %r4 %d1");
	/* Written in one way alone: it lives through the other. */
	lives(REGS "L: @%p2 bra M; mov.u32 %r1, 0;\nM: @%p1 bra L; st.global.u32 [%d1], %r1;",
		" %p2 %p1 %d1 %r1");
	/* Written in both. */
	lives(REGS "L: @%p2 bra M; mov.u32 %r1, 0; bra N;\nM: mov.u32 %r1, 1;\nN: @%p1 bra L; "
		   "st.global.u32 [%d1], %r1;",
		" %p2 %p1 %d1");
	/* Maybe written. */
	lives(REGS "L: @%p2 mov.u32 %r1, 0; @%p1 bra L; st.global.u32 [%d1], %r1;",
		" %p2 %r1 %p1 %d1");
	/* An address is read, and so is what is stored; of a vector all parts are written. */
	lives(REGS "L: ld.global.v2.u32 {%r1, %r2}, [%d1]; st.global.u32 [%d2], %r3;\n"
		   "add.u32 %r4, %r1, %r2; setp.eq.u32 %p1|%p2, %r4, 0; @!%p2 bra L;",
		" %d1 %d2 %r3");
	/* An inner loop, and an outer one, of which the inner knows. */
	lives(REGS "L: mov.u32 %r1, 0;\nM: add.u32 %r1, %r1, %r2; setp.lt.u32 %p1, %r1, 9;\n"
		   "@%p1 bra M; add.u32 %r3, %r3, %r1; setp.lt.u32 %p2, %r3, %r4; @%p2 bra L;",
		" %r1 %r2 %r3 %r4, %r2 %r3 %r4");
	/* Of loops side by side each has its own. */
	lives(REGS
		"L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra L;\n"
		"mov.u32 %r2, 0;\nM: add.u32 %r2, %r2, %r3; setp.lt.u32 %p1, %r2, 9; @%p1 bra M;",
		" %r1 %r3, %r2 %r3");
	/* One name in two scopes. */
	lives(REGS
		".reg .b32 s; L: { .reg .b32 s; mov.u32 s, 1; add.u32 %r1, %r1, s; } @%p1 bra L;\n"
		"st.global.u32 [%d1], s;",
		" %r1 %p1 %d1 s");
	/* A loop that never ends needs nothing of what is behind it. */
	lives(REGS "L: add.u32 %r1, %r1, 1; bra L; st.global.u32 [%d1], %r2;", " %r1");
	/* Entered in its middle, and left there. */
	lives(REGS "bra M;\nL: mov.u32 %r1, %r2;\nM: @%p1 bra OUT; bra L;\nOUT: "
		   "st.global.u32 [%d1], %r1;",
		" %r2 %p1 %d1");
}

static void text(void **state)
{
	struct fm_image i =
		rewrite(HEAD ".entry k()\n{\n" REGS "L: @!%p1 bra.uni L; // so\nM:\n\tbra M;\n}\n"
			     ".entry other()\n{\nL: bra L;\n}\n",
			"none:k");
	const char *s = (const char *)i.data;

	assert_non_null(strstr(s, "L: sub.s32 %fm_left, %fm_left, 1;\n"
				  "\tsetp.gt.and.s32 %fm_keep, %fm_left, 0, !%p1;\n"
				  "\t@%fm_keep bra L;\n"
				  "\t@!%p1 bra $FERMATA_0_LOOK1; // so\n"));
	assert_non_null(strstr(s, "M:\n\tsub.s32 %fm_left, %fm_left, 1;\n"
				  "\tsetp.gt.s32 %fm_keep, %fm_left, 0;\n"
				  "\t@%fm_keep bra M;\n"
				  "\tbra $FERMATA_0_LOOK2;\n"));
	assert_non_null(strstr(s, "\nL: bra L;\n}\n"));
	assert_int_equal(i.kernel[0].n_loops, 2);
	assert_int_equal(i.kernel[0].save_bytes, 8);
	assert_int_equal(i.kernel[1].loops, FM_LOOP_UNASKED);
	fm_image_free(&i);
}

/* A loop that computes for long looks each time, one that does little looks seldom. */
static void weights(void **state)
{
	struct fm_image i =
		rewrite(HEAD ".entry k()\n{\n" REGS
			     "L: ld.global.u32 %r1, [%d1]; ld.param.u32 %r2, [x]; @%p1 bra L;"
			     "M: div.s32 %r1, %r1, %r2; st.global.u32 [%d1], %r1; bra M;}",
			"*");

	assert_non_null(strstr((char *)i.data, "%fm_left, 130;"));
	assert_non_null(strstr((char *)i.data, "%fm_left, 49;"));
	fm_image_free(&i);
}

static char *repeated(const char *before, const char *one, unsigned n, const char *behind)
{
	size_t size = strlen(one);
	char *s = malloc(strlen(before) + n * size + strlen(behind) + 1), *to = s;

	assert_non_null(s);
	to = stpcpy(to, before);
	while (n--)
		to = stpcpy(to, one);
	strcpy(to, behind);
	return s;
}

static enum fm_loop_why why_many(const char *one, unsigned n)
{
	char *s = repeated(HEAD ".entry k()\n{\n" REGS "L:\n", one, n, " bra L; }");
	struct fm_image i = rewrite(s, "k");
	enum fm_loop_why w = i.kernel[0].loops;

	fm_image_free(&i);
	free(s);
	return w;
}

static void too_much(void **state)
{
	assert_int_equal(why_many("@%p1 bra L;\n", 254), FM_LOOP_POLLED);
	assert_int_equal(why_many("@%p1 bra L;\n", 255), FM_LOOP_LARGE);
	assert_int_equal(why_many("mov.u32 %r1, %r2;\n", 60000), FM_LOOP_POLLED);
	assert_int_equal(why_many("mov.u32 %r1, %r2;\n", 70000), FM_LOOP_LARGE);
	assert_int_equal(why_many("{ .reg .b32 %t; mov.u32 %t, 1; }", 1000), FM_LOOP_POLLED);
	assert_int_equal(why_many(".reg .b32 %t;", 1000), FM_LOOP_LARGE);
	assert_int_equal(why(".reg .b64 %w<200>; L: "
			     "mov.b64 %w1, %w2; bra L;"),
		FM_LOOP_POLLED);
}

/* Values that are kept: 1 KiB at most, of each thread. */
static void room(void **state)
{
	for (unsigned n = 128; n < 130; n++) {
		char text[8192];
		size_t at = (size_t)sprintf(text, HEAD ".entry k() {.reg .b64 %%w<200>; L:\n");
		struct fm_image i;

		for (unsigned k = 0; k < n; k++)
			at += (size_t)sprintf(text + at, "st.global.u64 [%%w%u], 1;\n", k);
		strcpy(text + at, "bra L; }");
		i = rewrite(text, "k");
		assert_int_equal(i.kernel[0].loops, n == 128 ? FM_LOOP_POLLED : FM_LOOP_LARGE);
		assert_int_equal(i.kernel[0].save_bytes, n == 128 ? 1024 : 0);
		fm_image_free(&i);
	}
}

/* Machine code has no text; of a fatbin's text it is as of any. */
static void other_images(void **state)
{
	static const struct {
		const char *name;
		enum fm_loop_why k_add, k_barrier;
	} images[] = {{"sm90.cubin", FM_LOOP_CODE, FM_LOOP_CODE},
		{"kernels.ptx", FM_LOOP_NONE, FM_LOOP_SHARED}};

	for (unsigned n = 0; n < 2; n++) {
		struct file f = load(images[n].name);
		struct fm_image i;

		assert_int_equal(fm_image_rewrite_loops(f.data, f.size, 90, "k_a*:k_barrier", &i),
			FM_IMAGE_OK);
		assert_int_equal(kernel(&i, "k_add")->loops, images[n].k_add);
		assert_int_equal(kernel(&i, "k_barrier")->loops, images[n].k_barrier);
		assert_int_equal(kernel(&i, "k_empty")->loops, FM_LOOP_UNASKED);
		fm_image_free(&i);
		free(f.data);
	}
}

/* Without patterns nothing is another than before; with them, nothing of other kernels. */
static void not_asked(void **state)
{
	struct file f = load("kernels.ptx");
	struct fm_image a, b;

	assert_int_equal(fm_image_rewrite(f.data, f.size, 90, &a), FM_IMAGE_OK);
	assert_int_equal(fm_image_rewrite_loops(f.data, f.size, 90, "x:*_y:", &b), FM_IMAGE_OK);
	assert_int_equal(a.size, b.size);
	assert_memory_equal(a.data, b.data, a.size);
	fm_image_free(&a);
	fm_image_free(&b);
	free(f.data);
	/* activemask came with 6.2. */
	a = rewrite(".version 6.1\n.target sm_70\n.address_size 64\n.entry k() {L: bra L;}", "k");
	assert_int_equal(a.kernel[0].loops, FM_LOOP_TEXT);
	fm_image_free(&a);
	a = rewrite(".version 6.2\n.target sm_70\n.address_size 64\n.entry k() {L: bra L;}", "k");
	assert_int_equal(a.kernel[0].loops, FM_LOOP_POLLED);
	fm_image_free(&a);
}

/* What a cache keeps of it, and that it is another for who asks for other kernels. */
static void cached(void **state)
{
	static const char *const lists[] = {NULL, "k", "k*"};
	const char *text = HEAD ".entry k() { .reg .b64 %r<2>; L: add.u64 %r1, %r1, 1; bra L; }\n"
				".entry other() { ret; }\n";
	struct fm_image made = rewrite(text, "*"), got;
	struct fm_buf data = {0};
	uint8_t key[4][FM_HASH_BYTES];

	fm_pack(&made, &data);
	assert_int_equal(fm_unpack(data.data, data.size, &got), 0);
	assert_int_equal(got.kernel[0].loops, FM_LOOP_POLLED);
	assert_int_equal(got.kernel[0].n_loops, 1);
	assert_int_equal(got.kernel[0].save_bytes, 8);
	assert_int_equal(got.kernel[1].loops, FM_LOOP_NONE);
	fm_image_free(&got);
	fm_image_free(&made);
	for (unsigned i = 0; i < 3; i++)
		assert_true(fm_cache_key(text, strlen(text), 90,
			&(struct fm_image_wishes){.loops = lists[i]}, key[i]));
	assert_true(fm_cache_key(
		text, strlen(text), 90, &(struct fm_image_wishes){.loops = "k"}, key[3]));
	assert_memory_equal(key[1], key[3], sizeof(key[1]));
	assert_memory_not_equal(key[0], key[1], sizeof(key[1]));
	assert_memory_not_equal(key[1], key[2], sizeof(key[1]));
}

static void lists(void **state)
{
	assert_true(fm_listed("a:b*", "bc"));
	assert_true(fm_listed(":a", "a"));
	assert_true(fm_listed("*", "anything"));
	assert_false(fm_listed("a:b", "ab"));
	assert_false(fm_listed("", "a"));
	assert_false(fm_listed(NULL, "a"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which),
		cmocka_unit_test(refused),
		cmocka_unit_test(liveness),
		cmocka_unit_test(text),
		cmocka_unit_test(weights),
		cmocka_unit_test(too_much),
		cmocka_unit_test(room),
		cmocka_unit_test(other_images),
		cmocka_unit_test(not_asked),
		cmocka_unit_test(cached),
		cmocka_unit_test(lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
