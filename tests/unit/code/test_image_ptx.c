/* SPDX-License-Identifier: Apache-2.0 */
/* PTX: where parameters and guardian go, and what is refused. */
#include "image_files.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define OURS(k)                                                 \
	"\n\t.param .u64 " k "_fermata_stop,\n\t.param .u64 " k \
	"_fermata_block,\n\t.param .u64 " k "_fermata_launch"

static enum fm_image_why why(const char *text)
{
	struct fm_image image;
	/* In a place of its own, so that a read behind the end is seen. */
	char *copy = malloc(strlen(text) + 1);
	enum fm_image_why w;

	memcpy(copy, text, strlen(text) + 1);
	w = fm_image_rewrite(copy, strlen(copy), 90, &image);
	assert_true(w ? !image.data : image.text && !image.data[image.size - 1]);
	fm_image_free(&image);
	free(copy);
	return w;
}

/* `expected`: the text with $ where the guardian stands. */
static struct fm_image rewrites(const char *text, const char *expected)
{
	struct fm_image image;
	const char *p;

	assert_int_equal(fm_image_rewrite(text, strlen(text), 90, &image), FM_IMAGE_OK);
	assert_int_equal(image.size, strlen((char *)image.data) + 1);
	for (p = (const char *)image.data; *expected; expected++) {
		if (*expected == '$') {
			assert_memory_equal(p, "\n{\n\t.reg .pred %fm_p", 20);
			p = strstr(p, "_GO:\n}\n");
			assert_non_null(p);
			p += strlen("_GO:\n}\n");
		} else {
			assert_int_equal(*p, *expected);
			p++;
		}
	}
	assert_string_equal(p, "");
	return image;
}

static void lists(void **state)
{
	struct fm_image i;

	i = rewrites(HEAD ".visible .entry k()\n{ ret; }\n",
		HEAD ".visible .entry k(" OURS("k") "\n)\n{$ ret; }\n");
	fm_image_free(&i);
	i = rewrites(HEAD ".entry k\n{ ret; }", HEAD ".entry k(" OURS("k") "\n)\n{$ ret; }");
	fm_image_free(&i);
	i = rewrites(HEAD ".entry k ( .param .u32 a ) .maxntid 1, 2, 3 .minnctapersm 1 { ret; }",
		HEAD ".entry k ( .param .u32 a ," OURS(
			"k") "\n) .maxntid 1, 2, 3 .minnctapersm 1 {$ ret; }");
	assert_int_equal(i.kernel[0].n_params, 1);
	assert_int_equal(i.kernel[0].guard_at, 8);
	fm_image_free(&i);
	i = rewrites(HEAD
		".entry a() { ret; } .func f() { ret; }\n.entry b(.param .b8 x) {{ } ret; }",
		HEAD ".entry a(" OURS("a") "\n) {$ ret; } .func f() { ret; }\n.entry b(.param .b8 "
					   "x," OURS("b") "\n) {${ } ret; }");
	assert_int_equal(i.n, 2);
	assert_int_equal(i.n_rewritten, 2);
	assert_string_equal(i.kernel[1].name, "b");
	fm_image_free(&i);
}

static void comments(void **state)
{
	struct fm_image i =
		rewrites("// .version 1\n" HEAD
			 "/* .entry x() { */ // .entry y\n.file 1 \".entry \\\" z(){\"\n"
			 ".entry /* name */ k(/* none ) { */) // {\n{ // }\n ret; /* } */ }",
			"// .version 1\n" HEAD
			"/* .entry x() { */ // .entry y\n.file 1 \".entry \\\" z(){\"\n"
			".entry /* name */ k(/* none ) { */" OURS(
				"k") "\n) // {\n{$ // }\n ret; /* } */ }");

	assert_int_equal(i.n, 1);
	fm_image_free(&i);
}

/* Offsets as the language lays parameters out. */
static void places(void **state)
{
	static const struct fm_param want[] = {
		{0, 1}, {8, 8}, {16, 2}, {32, 20}, {52, 4}, {56, 8}, {64, 2}};
	struct fm_image i;
	const char *text =
		HEAD ".entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b, .param .s16 c,\n"
		     ".param .align 16 .b8 d[20], .param .f32 e, .param .u64 .ptr f, .param .b16 "
		     "g[1])\n{}";

	assert_int_equal(fm_image_rewrite(text, strlen(text), 90, &i), FM_IMAGE_OK);
	assert_int_equal(i.kernel[0].n_params, 7);
	for (unsigned p = 0; p < 7; p++) {
		assert_int_equal(i.kernel[0].params[p].at, want[p].at);
		assert_int_equal(i.kernel[0].params[p].size, want[p].size);
	}
	assert_int_equal(i.kernel[0].param_bytes, 66);
	assert_int_equal(i.kernel[0].guard_at, 72);
	fm_image_free(&i);
}

/* Compiled by ptxas: `middle` are the places of b, d and ours in k, `first` those of b and ours in
 * j, where b is aligned to 1 << index. */
static const struct {
	unsigned sm;
	uint16_t middle[8][3], first[8][2];
} aligned[] = {
	{80,
		{{1, 32, 40}, {2, 32, 40}, {4, 32, 40}, {8, 32, 40}, {16, 32, 40}, {32, 64, 72},
			{32, 64, 72}, {32, 64, 72}},
		{{0, 136}, {0, 136}, {0, 136}, {0, 136}, {0, 136}, {0, 136}, {32, 168}, {32, 168}}},
	{90,
		{{1, 16, 24}, {2, 16, 24}, {4, 48, 56}, {8, 48, 56}, {16, 48, 56}, {16, 48, 56},
			{48, 80, 88}, {112, 144, 152}},
		{{0, 136}, {0, 136}, {0, 136}, {0, 136}, {0, 136}, {16, 152}, {48, 184},
			{112, 248}}},
	{100,
		{{1, 32, 40}, {2, 32, 40}, {4, 32, 40}, {8, 32, 40}, {16, 32, 40}, {32, 64, 72},
			{64, 96, 104}, {128, 160, 168}},
		{{0, 136}, {0, 136}, {0, 136}, {0, 136}, {0, 136}, {0, 136}, {0, 136}, {0, 136}}},
};

static struct fm_image with_alignment(unsigned sm, unsigned align)
{
	char text[512];
	struct fm_image i;

	snprintf(text, sizeof(text),
		HEAD ".entry k(.param .u8 a, .param .align %u .b8 b[12], .param .u16 c, .param "
		     ".align 32 .b8 d[3]) {}\n"
		     ".entry j(.param .align %u .b8 b[128], .param .u32 c) {}\n.entry other() {}",
		align, align);
	assert_int_equal(fm_image_rewrite(text, strlen(text), sm, &i), FM_IMAGE_OK);
	assert_int_equal(i.n, 3);
	return i;
}

/* It is the place in the constant bank that is aligned, and that begins elsewhere on each device.
 */
static void alignments(void **state)
{
	for (size_t d = 0; d < sizeof(aligned) / sizeof(*aligned); d++)
		for (unsigned a = 0; a < 8; a++) {
			struct fm_image i = with_alignment(aligned[d].sm, 1u << a);
			const struct fm_kernel *k = &i.kernel[0], *j = &i.kernel[1];

			assert_int_equal(k->params[1].at, aligned[d].middle[a][0]);
			assert_int_equal(k->params[3].at, aligned[d].middle[a][1]);
			assert_int_equal(k->guard_at, aligned[d].middle[a][2]);
			assert_int_equal(j->params[0].at, aligned[d].first[a][0]);
			assert_int_equal(j->guard_at, aligned[d].first[a][1]);
			fm_image_free(&i);
		}
}

/* Where it is not known, such kernels are left alone. */
static void alignments_elsewhere(void **state)
{
	static const unsigned unknown[] = {0, 61, 190};

	for (unsigned u = 0; u < 3; u++)
		for (unsigned a = 0; a < 8; a++) {
			char text[256];
			struct fm_image i;

			snprintf(text, sizeof(text),
				HEAD
				".entry k(.param .u8 a, .param .align %u .b8 b[12]) {}\n.entry "
				"other() {}",
				1u << a);
			assert_int_equal(
				fm_image_rewrite(text, strlen(text), unknown[u], &i), FM_IMAGE_OK);
			assert_int_equal(
				i.kernel[0].why, a > 4 ? FM_KERNEL_PARAMS : FM_KERNEL_REWRITTEN);
			assert_int_equal(i.kernel[1].why, FM_KERNEL_REWRITTEN);
			fm_image_free(&i);
		}
}

static unsigned traits(const char *head, const char *body)
{
	char text[512];
	struct fm_image i;
	unsigned t;

	snprintf(
		text, sizeof(text), HEAD ".entry k() %s {%s}\n.entry other() { ret; }", head, body);
	assert_int_equal(fm_image_rewrite(text, strlen(text), 90, &i), FM_IMAGE_OK);
	assert_int_equal(i.kernel[1].traits, 0);
	t = i.kernel[0].traits;
	fm_image_free(&i);
	return t;
}

static void what_is_seen(void **state)
{
	assert_int_equal(traits("", "ret;"), 0);
	assert_int_equal(traits(".reqnctapercluster 2, 1, 1", "ret;"), FM_KERNEL_CLUSTER);
	assert_int_equal(traits(".explicitcluster", "ret;"), FM_KERNEL_CLUSTER);
	assert_int_equal(traits("", "barrier.cluster.arrive;"), FM_KERNEL_CLUSTER);
	assert_int_equal(traits("", "griddepcontrol.wait;"), FM_KERNEL_OVERLAPS);
	assert_int_equal(traits("", "setmaxnreg.inc.sync.aligned.u32 232;"), FM_KERNEL_SETMAXREG);
	assert_int_equal(traits("", "ld.volatile.global.u32 %r1, [%rd1];"), FM_KERNEL_WAITS);
	assert_int_equal(traits("", "ld.acquire.gpu.u32 %r1, [%rd1];"), FM_KERNEL_WAITS);
	assert_int_equal(traits("", "atom.global.add.u32 %r1, [%rd1], 1;"), FM_KERNEL_WAITS);
	assert_int_equal(traits("", "call.uni f, ();"), FM_KERNEL_CALLS);
	assert_int_equal(traits("", "// atom.\n"), 0);
}

/* In front of its guardian, but not where it waits itself; and where it ends instead of the kernel.
 */
static unsigned waits(const char *version, const char *target, const char *body)
{
	char text[256];
	const char *first;
	unsigned n = 0;
	struct fm_image i;

	snprintf(text, sizeof(text), ".version %s\n.target %s\n.address_size 64\n.entry k() {%s}",
		version, target, body);
	assert_int_equal(fm_image_rewrite(text, strlen(text), 90, &i), FM_IMAGE_OK);
	first = strstr((const char *)i.data, "griddepcontrol.wait;");
	for (const char *s = first; s; s = strstr(s + 1, "griddepcontrol.wait;"))
		n++;
	assert_int_equal(i.kernel[0].early, n && !strstr(body, "griddep"));
	assert_int_equal(
		i.kernel[0].early, first && first < strstr((const char *)i.data, "ld.param"));
	fm_image_free(&i);
	return n;
}

static void where_it_waits(void **state)
{
	assert_int_equal(waits("7.8", "sm_90", "ret;"), 2);
	assert_int_equal(waits("8.4", "sm_90a", "ret;"), 2);
	assert_int_equal(waits("7.8", "sm_90, texmode_independent", "ret;"), 2);
	assert_int_equal(waits("7.8", "sm_80, sm_90", "ret;"), 0);
	assert_int_equal(waits("7.7", "sm_90", "ret;"), 0);
	assert_int_equal(waits("8.4", "sm_80", "ret;"), 0);
	assert_int_equal(waits("8.4", "sm_90", "griddepcontrol.wait; ret;"), 2);
}

static void refused(void **state)
{
	assert_int_equal(why(HEAD), FM_IMAGE_NO_KERNEL);
	assert_int_equal(why("// .version 8.0 alone is none"), FM_IMAGE_FOREIGN);
	assert_int_equal(
		why(".version 2.3\n.target sm_80\n.address_size 64\n.entry k() {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(".version 8.0\n.target sm_80\n.entry k() {}"), FM_IMAGE_TEXT);
	assert_int_equal(
		why(".version 8.0\n.target sm_80\n.address_size 32\n.entry k() {}"), FM_IMAGE_TEXT);
	assert_int_equal(
		why(".version 8.0\n.target texmode_unified\n.address_size 64\n.entry k() {}"),
		FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k();"),
		FM_IMAGE_TEXT); /* declared, and maybe launched elsewhere */
	assert_int_equal(why(HEAD ".entry k() {"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k() { /* }"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k() { } \"open"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k(.param .u32) {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k(.param .texref t) {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k(.param .v4 .u32 a) {}"), FM_IMAGE_TEXT);
	assert_int_equal(
		why(HEAD ".entry k(.param .u32 a[99999999999999999999]) {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k(.param .u32 a[9999]) {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k(.param .align 3 .u32 a) {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry k(.param .u32 a,) {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry 	(.param .u32 a) {}"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".entry"), FM_IMAGE_TEXT);
	assert_int_equal(
		why(HEAD ".entry k() { } .func g() { .reg .u32 %fm_stop; }"), FM_IMAGE_TEXT);
	assert_int_equal(why(HEAD ".extern .func cudaGetParameterBufferV2;\n.entry k() {}"),
		FM_IMAGE_LAUNCHES);
	assert_int_equal(why(HEAD ".entry k() {}"), FM_IMAGE_OK);
}

/* One with too many parameters is left alone, the other is not. */
static void room(void **state)
{
	struct fm_image i = rewrites(HEAD ".entry k(.param .align 4 .b8 a[4329]) { ret; } .entry "
					  "j(.param .b8 a[4328]) { ret; }",
		HEAD
		".entry k(.param .align 4 .b8 a[4329]) { ret; } .entry j(.param .b8 a[4328]," OURS(
			"j") "\n) {$ ret; }");

	assert_int_equal(i.kernel[0].why, FM_KERNEL_PARAMS);
	assert_int_equal(i.kernel[1].why, FM_KERNEL_REWRITTEN);
	fm_image_free(&i);
	assert_int_equal(why(HEAD ".entry k(.param .b8 a[4329]) { ret; }"), FM_IMAGE_NO_KERNEL);
}

/* What nvcc makes; the kernels are those of the machine code. */
static void from_compiler(void **state)
{
	struct file f = load("kernels.ptx"), cubin = load("sm90.cubin");
	struct fm_image text, code, again;

	assert_int_equal(fm_image_rewrite(f.data, f.size, 90, &text), FM_IMAGE_OK);
	assert_int_equal(fm_image_rewrite(cubin.data, cubin.size, 90, &code), FM_IMAGE_OK);
	assert_int_equal(text.sm, 90);
	assert_int_equal(text.n, code.n);
	for (unsigned i = 0; i < code.n; i++) {
		const struct fm_kernel *c = &code.kernel[i], *t = kernel(&text, c->name);

		assert_int_equal(c->why, FM_KERNEL_REWRITTEN);
		assert_int_equal(
			t->why, c->param_bytes > 4300 ? FM_KERNEL_PARAMS : FM_KERNEL_REWRITTEN);
		/* Without a look at loops it takes more for waiting. */
		assert_int_equal(t->traits & c->traits, c->traits);
		if (t->why)
			continue;
		assert_int_equal(t->n_params, c->n_params);
		assert_int_equal(t->guard_at, c->guard_at);
		assert_memory_equal(t->params, c->params, c->n_params * sizeof(*c->params));
	}
	/* Twice is refused. */
	assert_int_equal(fm_image_rewrite(text.data, text.size, 90, &again), FM_IMAGE_TEXT);
	fm_image_free(&again);
	fm_image_free(&text);
	fm_image_free(&code);
	free(f.data);
	free(cubin.data);
}

/* What variables take, in bytes; UINT64_MAX: it cannot be told. */
static uint64_t globals_of(const char *text)
{
	size_t n = strlen(text);
	char *copy = malloc(n);
	uint64_t bytes = 0;
	bool known;

	memcpy(copy, text, n);
	known = fm_image_globals(copy, n, 90, false, &bytes);
	free(copy);
	return known ? bytes : UINT64_MAX;
}

static void variables(void **state)
{
	struct file f = load("kernels.ptx");
	uint64_t bytes;

	assert_int_equal(globals_of(HEAD ".entry k() { ret; }"), 0);
	assert_int_equal(globals_of(HEAD ".visible .global .align 4 .b8 a[1000];"), 1000);
	assert_int_equal(
		globals_of(HEAD ".const .u32 a; .global .align 16 .v4 .f32 b[2][3];"), 112);
	/* neither of functions, nor of other modules, nor in comments */
	assert_int_equal(globals_of(HEAD ".extern .global .align 4 .b8 a[]; // .global .u64 b;\n"
					 ".extern .shared .align 16 .b8 s[];\n.global .u8 c;\n"
					 ".func f() { .global .u64 d; }"),
		1);
	assert_int_equal(
		globals_of(HEAD ".global .align 8 .u64 a[] = {1, f, 3}; .global .u8 b;"), 25);
	assert_int_equal(globals_of(HEAD ".global .u64 a[][2] = {{1, 2}, {3, 4}};"), UINT64_MAX);
	assert_int_equal(
		globals_of(HEAD ".global .u8 a;\n.entry k(.param .u64 .ptr .global .align 16 p)"
				"{ ret; }\n.const .u8 b;"),
		2);
	assert_int_equal(globals_of(HEAD ".global .u64 a[99999999999999999999];"), UINT64_MAX);
	assert_int_equal(globals_of(HEAD ".global .u64 a[4611686018427387904];"), UINT64_MAX);
	assert_int_equal(globals_of(HEAD ".global .b8"), UINT64_MAX);
	assert_int_equal(globals_of(HEAD ".global .b8 a["), UINT64_MAX);
	assert_int_equal(globals_of(HEAD ".global .unknown a;"), UINT64_MAX);
	assert_true(fm_image_globals(f.data, f.size, 90, false, &bytes));
	assert_int_equal(bytes, 16);
	free(f.data);
}

/* The same of machine code, packed or not; and with each byte of it wrong no more is read than is
 * there. */
static void variables_of_code(void **state)
{
	static const struct {
		const char *file;
		unsigned bytes;
		bool packed;
	} images[] = {{"sm90.cubin", 16, false}, {"sm80-abi7.cubin", 16, false},
		{"pack-none.fatbin", 0, false}, {"pack-lz4.fatbin", 0, true},
		{"pack-zstd.fatbin", 0, true}};
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(images) / sizeof(*images); i++) {
		struct file f = load(images[i].file);

		assert_int_equal(
			fm_image_globals(f.data, f.size, 90, false, &bytes), !images[i].packed);
		bytes = 77;
		assert_true(fm_image_globals(f.data, f.size, 90, true, &bytes));
		assert_int_equal(bytes, images[i].bytes);
		assert_false(fm_image_globals(f.data, 60, 90, true, &bytes));
		free(f.data);
	}
	for (size_t i = 0; i < 64; i++) {
		struct file f = load("sm90.cubin");

		f.data[i] ^= 0xff;
		fm_image_globals(f.data, f.size, 90, true, &bytes);
		free(f.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables),
		cmocka_unit_test(variables_of_code),
		cmocka_unit_test(lists),
		cmocka_unit_test(comments),
		cmocka_unit_test(places),
		cmocka_unit_test(alignments),
		cmocka_unit_test(alignments_elsewhere),
		cmocka_unit_test(what_is_seen),
		cmocka_unit_test(where_it_waits),
		cmocka_unit_test(refused),
		cmocka_unit_test(room),
		cmocka_unit_test(from_compiler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
