/* SPDX-License-Identifier: Apache-2.0 */
/* Images of machine code: which kernels are rewritten, and what then stands where. */
#include "base/util.h"
#include "image_files.h"

static const char *const cubins[] = {"sm80.cubin", "sm86.cubin", "sm89.cubin", "sm90.cubin",
	"sm90a.cubin", "sm80-abi7.cubin", "sm86-abi7.cubin", "sm89-abi7.cubin", "sm90-abi7.cubin"};

/* What is known of each kernel, whatever the architecture. */
static const struct {
	const char *name;
	unsigned params, bytes;
	unsigned traits;
} known[] = {
	{"k_add", 3, 13, 0},
	{"k_empty", 0, 0, 0},
	{"k_barrier", 1, 8, 0},
	{"k_wait", 2, 16, FM_KERNEL_WAITS},
	{"k_look", 2, 16, 0},
	{"k_ticket", 3, 20, FM_KERNEL_WAITS},
	{"k_call", 2, 12, FM_KERNEL_CALLS},
	{"k_stack", 2, 12, 0},
	{"k_tight", 1, 8, 0},
	{"k_almost", 2, 4352, 0},
	{"k_beyond", 2, 4408, 0},
	{"k_cluster", 1, 8, FM_KERNEL_CLUSTER},
	{"k_overlap", 1, 8, FM_KERNEL_OVERLAPS},
	{"k_setmaxreg", 1, 8, FM_KERNEL_SETMAXREG},
};

static void facts(const struct fm_kernel *k, bool early)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++) {
		if (strcmp(known[i].name, k->name))
			continue;
		assert_int_equal(k->traits, known[i].traits);
		if (k->why)
			return;
		assert_int_equal(k->early, early && !(k->traits & FM_KERNEL_OVERLAPS));
		assert_int_equal(k->n_params, known[i].params);
		assert_int_equal(k->param_bytes, known[i].bytes);
		assert_int_equal(k->guard_at, (known[i].bytes + 7) / 8 * 8);
		assert_true(k->regs[1] >= k->regs[0] && k->regs[1] >= 14 && k->regs[1] <= 168);
		return;
	}
	fail_msg("kernel %s is not known", k->name);
}

static uint64_t word(const struct fm_section *s, size_t at)
{
	assert_true(at + 8 <= s->size);
	return fm_get64(s->data + at);
}

/* Where a branch leads, by the manual way: for sm_80 bits 34 and up in words of four bytes; from
 * sm_90 on the lower eight bits are at 16. */
static size_t branch(const struct fm_section *s, size_t at, unsigned sm)
{
	uint64_t w0 = word(s, at), w1 = word(s, at + 8);
	int64_t d = (int64_t)(w1 << 46) >> 16 | (int64_t)(w0 >> 34);

	assert_int_equal(w0 & 0xffff, 0x7947);
	if (sm >= 90)
		d = d * 256 + (int64_t)((w0 >> 16) & 0xff);
	return (size_t)((int64_t)at + 16 + d * 4);
}

/* Of a kernel that was rewritten: code. */
static void code(
	const struct fm_elf *was, const struct fm_elf *is, const struct fm_kernel *k, unsigned base)
{
	const struct fm_section *a = &was->s[section(was, ".text.", k->name)];
	const struct fm_section *b = &is->s[section(is, ".text.", k->name)];
	const struct fm_section *info = &is->s[section(is, ".nv.info.", k->name)];
	size_t guardian = branch(b, 0, is->sm), last = 0;
	unsigned place = base + k->guard_at, flags = 0, exits = 0;
	struct fm_attr e;

	assert_int_equal(guardian % 128, 0);
	assert_true(guardian >= a->size && guardian < b->size);
	assert_memory_equal(a->data + 16, b->data + 16, a->size - 16);
	for (size_t at = guardian; at < b->size; at += 16) {
		/* The stop word's address, from the constant bank; and the first instruction that
		 * was. */
		flags += ((word(b, at) >> 38) & 0xffff) == place &&
			 ((word(b, at) >> 54) & 0x1f) == 0 && (word(b, at) & 0x600);
		if (word(b, at) == word(a, 0))
			last = at;
	}
	assert_true(flags > 0);
	/* In one line of instructions: what launches take that are not guarded. */
	assert_true(last > guardian && last + 32 <= guardian + 128);
	assert_int_equal(word(b, last + 8), word(a, 8) | UINT64_C(0x3f) << 52);
	assert_int_equal(branch(b, last + 16, is->sm), 16);
	/* Exits are where the attribute says, the guardian's too. */
	assert_true(attribute(info, FM_EIATTR_EXIT_INSTR_OFFSETS, &e));
	for (unsigned i = 0; i < e.value; i += 4) {
		uint32_t at = fm_get32(e.data + i);

		assert_int_equal(word(b, at) & 0xfff, 0x94d);
		exits += at >= guardian;
	}
	assert_int_equal(exits, 3);
}

/* And what stands around it. */
static void around(
	const struct fm_elf *was, const struct fm_elf *is, const struct fm_kernel *k, unsigned base)
{
	const struct fm_section *info = &is->s[section(is, ".nv.info.", k->name)];
	const struct fm_section *text = &is->s[section(is, ".text.", k->name)];
	const struct fm_section *bank = &is->s[section(is, ".nv.constant0.", k->name)];
	unsigned total = k->guard_at + 24;
	struct fm_attr a;
	Elf64_Sym s = fm_elf_symbol(is, symbol(is, k->name));

	assert_int_equal(s.st_size, text->size);
	assert_int_equal(bank->size, base + total);
	assert_true(attribute(info, FM_EIATTR_CBANK_PARAM_SIZE, &a));
	assert_int_equal(a.value, total);
	assert_true(attribute(info, FM_EIATTR_PARAM_CBANK, &a));
	assert_int_equal(fm_elf_symbol(is, fm_get32(a.data)).st_shndx, bank - is->s);
	assert_int_equal(fm_get16(a.data + 4), base);
	assert_int_equal(fm_get16(a.data + 6), total);
	/* The last one comes first: the launch. */
	assert_true(attribute(
		info, total > 4352 ? FM_EIATTR_KPARAM_INFO_V2 : FM_EIATTR_KPARAM_INFO, &a));
	assert_int_equal(fm_get16(a.data + 4), k->n_params + 2);
	assert_int_equal(fm_get16(a.data + 6), k->guard_at + 16);
	assert_int_equal(fm_get32(a.data + 8), total > 4352 ? 8 : 0x21f000);
	assert_false(attribute(
		info, total > 4352 ? FM_EIATTR_KPARAM_INFO : FM_EIATTR_KPARAM_INFO_V2, &a));
	if (is->abi >= 8) {
		assert_true(attribute(info, FM_EIATTR_NUM_BARRIERS, &a));
		assert_true(a.value >= 1);
	} else {
		assert_true((text->h.sh_flags >> 20) & 0x7f);
	}
	if (text->h.sh_info >> 24)
		assert_int_equal(text->h.sh_info >> 24, k->regs[1]);
	assert_true(was->s[section(was, ".text.", k->name)].h.sh_info << 8 == text->h.sh_info << 8);
}

static void untouched(const struct fm_elf *was, const struct fm_elf *is, const char *name)
{
	static const char *const parts[] = {".text.", ".nv.info.", ".nv.constant0."};

	for (size_t i = 0; i < FM_ARRAY_LEN(parts); i++) {
		const struct fm_section *a = &was->s[section(was, parts[i], name)];
		const struct fm_section *b = &is->s[section(is, parts[i], name)];

		assert_int_equal(a->size, b->size);
		assert_memory_equal(a->data, b->data, a->size);
		assert_int_equal(a->h.sh_info, b->h.sh_info);
	}
}

static void all_cubins(void **state)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(cubins); i++) {
		struct file f = load(cubins[i]);
		struct fm_image image;
		struct fm_elf was, is;
		unsigned left = 0;

		assert_int_equal(fm_image_rewrite(f.data, f.size, 90, &image), FM_IMAGE_OK);
		assert_int_equal(image.sm, strtoul(cubins[i] + 2, NULL, 10));
		assert_false(image.text);
		was = elf_of(f.data, f.size);
		is = elf_of(image.data, image.size);
		assert_int_equal(was.n, is.n);
		for (unsigned k = 0; k < image.n; k++) {
			unsigned base = is.sm >= 90                          ? 0x210
					: image.kernel[k].param_bytes > 4352 ? 0x1a80
									     : 0x160;

			facts(&image.kernel[k], image.sm >= 90);
			if (image.kernel[k].why) {
				untouched(&was, &is, image.kernel[k].name);
				left++;
				continue;
			}
			code(&was, &is, &image.kernel[k], base);
			around(&was, &is, &image.kernel[k], base);
		}
		assert_int_equal(image.n - left, image.n_rewritten);
		/* Before sm_90 code would have to be told that its parameters have moved. */
		assert_int_equal(left, !strcmp(cubins[i], "sm80.cubin"));
		if (left)
			assert_int_equal(kernel(&image, "k_almost")->why, FM_KERNEL_PARAMS);
		fm_elf_free(&was);
		fm_elf_free(&is);
		fm_image_free(&image);
		free(f.data);
	}
}

static void both_abis_are_there(void **state)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(cubins); i++) {
		struct file f = load(cubins[i]);
		struct fm_elf e = elf_of(f.data, f.size);

		assert_int_equal(e.abi, strstr(cubins[i], "abi7") ? 7 : 8);
		fm_elf_free(&e);
		free(f.data);
	}
}

/* What was rewritten is not rewritten again: its first instruction is not a compiler's. */
static void once_is_enough(void **state)
{
	struct file f = load("sm90.cubin");
	struct fm_image once, twice;

	assert_int_equal(fm_image_rewrite(f.data, f.size, 90, &once), FM_IMAGE_OK);
	assert_int_equal(fm_image_rewrite(once.data, once.size, 90, &twice), FM_IMAGE_NO_KERNEL);
	assert_null(twice.data);
	assert_int_equal(twice.n, once.n);
	for (unsigned i = 0; i < twice.n; i++)
		assert_int_equal(twice.kernel[i].why, FM_KERNEL_ENTRY);
	fm_image_free(&twice);
	fm_image_free(&once);
	free(f.data);
}

static void params_are_told(void **state)
{
	struct file f = load("sm90.cubin");
	struct fm_image image;
	const struct fm_kernel *k;

	assert_int_equal(fm_image_rewrite(f.data, f.size, 90, &image), FM_IMAGE_OK);
	k = kernel(&image, "k_add");
	assert_int_equal(k->params[0].at, 0);
	assert_int_equal(k->params[0].size, 8);
	assert_int_equal(k->params[1].at, 8);
	assert_int_equal(k->params[1].size, 4);
	assert_int_equal(k->params[2].at, 12);
	assert_int_equal(k->params[2].size, 1);
	k = kernel(&image, "k_beyond");
	assert_int_equal(k->params[0].size, 4400);
	fm_image_free(&image);
	free(f.data);
}

static void modes(void **state)
{
	unsigned grid = FM_KERNEL_CLUSTER | FM_KERNEL_WAITS | FM_KERNEL_CALLS;

	assert_int_equal(fm_kernel_mode(0), FM_GUARD_BLOCK);
	for (unsigned t = 1; t < 1u << FM_KERNEL_TRAITS; t++)
		assert_int_equal(fm_kernel_mode(t), t & grid ? FM_GUARD_GRID : FM_GUARD_BLOCK);
	for (unsigned i = 0; i < FM_KERNEL_TRAITS; i++)
		assert_true(fm_kernel_trait[i].name[0] && fm_kernel_trait[i].reason[0]);
	for (unsigned i = 0; i < FM_IMAGE_WHYS; i++)
		assert_true(strlen(fm_image_reason(i)) > 3);
	for (unsigned i = 0; i < FM_KERNEL_WHYS; i++)
		assert_true(strlen(fm_kernel_reason(i)) > 3);
	assert_string_equal(fm_image_reason(FM_IMAGE_WHYS), "?");
	assert_string_equal(fm_kernel_reason(FM_KERNEL_WHYS), "?");
}

/* An ELF is as long as its tables say, wherever they stand. */
static void extents(void **state)
{
	static const char *const names[] = {"sm90.cubin", "sm80-abi7.cubin", "pack-zstd.fatbin",
		"pack-none.fatbin", "relocatable.cubin"};
	struct {
		uint32_t magic, version;
		const void *fatbin, *more;
	} wrapper = {0x466243b1, 1, NULL, NULL};

	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
		struct file f = load(names[i]);
		const void *at = f.data;

		assert_int_equal(fm_image_extent(&at), f.size);
		assert_ptr_equal(at, f.data);
		wrapper.fatbin = f.data;
		at = &wrapper;
		if (strstr(names[i], "fatbin")) {
			assert_int_equal(fm_image_extent(&at), f.size);
			assert_ptr_equal(at, f.data);
			wrapper.version = 2;
			at = &wrapper;
			assert_int_equal(fm_image_extent(&at), 0);
			wrapper.version = 1;
		} else {
			assert_int_equal(fm_image_extent(&at), 0);
		}
		free(f.data);
	}
}

static void extent_of_text(void **state)
{
	struct file f = load("kernels.ptx");
	const void *at;

	f.data = realloc(f.data, f.size + 1);
	f.data[f.size] = 0;
	at = f.data;
	assert_int_equal(fm_image_extent(&at), f.size);
	at = "nothing that is known, but long enough for headers and all that may be in them: "
	     "0123456789";
	assert_int_equal(fm_image_extent(&at), 0);
	free(f.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_cubins),
		cmocka_unit_test(both_abis_are_there),
		cmocka_unit_test(once_is_enough),
		cmocka_unit_test(params_are_told),
		cmocka_unit_test(modes),
		cmocka_unit_test(extents),
		cmocka_unit_test(extent_of_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
