/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are left as they are, and kernels: for each reason one that has it. */
#include "base/util.h"
#include "code/cuda/fatbin.h"
#include "image_files.h"

static enum fm_image_why why_of(const void *data, size_t size, unsigned sm)
{
	struct fm_image image;
	enum fm_image_why why = fm_image_rewrite(data, size, sm, &image);

	assert_int_equal(why, image.why);
	assert_true(
		why ? !image.data && !image.size : image.data && image.size && image.n_rewritten);
	fm_image_free(&image);
	return why;
}

static enum fm_image_why why(const struct file *f)
{
	return why_of(f->data, f->size, 90);
}

static void not_images(void **state)
{
	struct file self = {malloc(4 << 20), 0};
	FILE *exe = fopen("/proc/self/exe", "rb");

	assert_int_equal(why_of("", 0, 90), FM_IMAGE_FOREIGN);
	assert_int_equal(why_of("\177ELF", 4, 90), FM_IMAGE_FOREIGN);
	assert_int_equal(why_of("MZ and so on", 12, 90), FM_IMAGE_FOREIGN);
	self.size = fread(self.data, 1, 4 << 20, exe);
	fclose(exe);
	assert_int_equal(why(&self), FM_IMAGE_FOREIGN);
	assert_int_equal(why_of(self.data, (size_t)FM_IMAGE_MAX + 1, 90), FM_IMAGE_LARGE);
	free(self.data);
}

/* One byte wrong: the image is refused or understood, and what is made of it is never a
 * surprise to the check of it. */
static void bytes(const char *name, unsigned sm, size_t step)
{
	struct file f = load(name);
	enum fm_image_why w;

	for (size_t i = 0; i < f.size; i += step) {
		f.data[i] ^= 0xff;
		w = why_of(f.data, f.size, sm);
		assert_true(w != FM_IMAGE_VERIFY && w != FM_IMAGE_MEMORY);
		f.data[i] ^= 0xff;
	}
	assert_int_equal(why_of(f.data, f.size, sm), FM_IMAGE_OK);
	free(f.data);
}

static void broken_bytes(void **state)
{
	bytes("pack-lz4.fatbin", 90, 1);
	bytes("pack-zstd.fatbin", 86, 3);
	bytes("pack-none.fatbin", 80, 5);
	bytes("pack-none.fatbin", 100, 7);
	bytes("sm89-abi7.cubin", 90, 11);
}

static void cut_short(void **state)
{
	static const char *const names[] = {"pack-none.fatbin", "pack-lz4.fatbin",
		"pack-zstd.fatbin", "sm90.cubin", "sm80-abi7.cubin"};

	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
		struct file f = load(names[i]);

		for (size_t size = 0; size < f.size; size += 1 + size / 100) {
			/* In a place of its own, so that a read behind the end is seen. */
			uint8_t *part = malloc(size + !size);

			memcpy(part, f.data, size);
			assert_int_not_equal(why_of(part, size, 90), FM_IMAGE_OK);
			free(part);
		}
		free(f.data);
	}
}

/* The header of entry i of a fatbin. */
static uint8_t *entry(const struct file *f, unsigned i)
{
	uint8_t *p = f->data + 16;

	while (i--)
		p += fm_get32(p + 4) + fm_get64(p + 8);
	return p;
}

/* Each packing holds sm_80, 86, 90, 90a and PTX for 80, in this order. */
static void right_one(void **state)
{
	static const struct {
		unsigned device, entry, sm;
	} picks[] = {{80, 0, 80}, {86, 1, 86}, {87, 1, 86}, {89, 1, 86}, {90, 3, 90}, {100, 4, 80},
		{120, 4, 80}};
	struct file f = load("pack-none.fatbin"),
		    packed[2] = {load("pack-lz4.fatbin"), load("pack-zstd.fatbin")};
	struct fm_fatbin_pick plain, p;

	for (size_t i = 0; i < FM_ARRAY_LEN(picks); i++) {
		const uint8_t *head = entry(&f, picks[i].entry);

		assert_int_equal(
			fm_fatbin_pick(f.data, f.size, picks[i].device, &plain), FM_IMAGE_OK);
		assert_ptr_equal(plain.data, head + fm_get32(head + 4));
		assert_int_equal(plain.sm, picks[i].sm);
		assert_int_equal(plain.text, picks[i].entry == 4);
		for (unsigned j = 0; j < 2; j++) {
			assert_int_equal(
				fm_fatbin_pick(packed[j].data, packed[j].size, picks[i].device, &p),
				FM_IMAGE_OK);
			/* Padding of the plain one aside. */
			assert_true(p.size <= plain.size && p.size + 8 > plain.size);
			assert_memory_equal(p.data, plain.data, p.size);
			free(p.unpacked);
		}
	}
	assert_int_equal(why_of(f.data, f.size, 75), FM_IMAGE_NO_CODE);
	free(f.data);
	free(packed[0].data);
	free(packed[1].data);
}

/* The text for 80 stands for its machine code, and for nothing where the device uses other code. */
static void right_text(void **state)
{
	struct file f = load("pack-none.fatbin");
	struct fm_fatbin_pick p;

	for (unsigned device = 80; device <= 100; device += 20) {
		assert_int_equal(fm_fatbin_text(f.data, f.size, device, &p), FM_IMAGE_OK);
		assert_true(p.text && p.sm == 80);
	}
	assert_int_equal(fm_fatbin_text(f.data, f.size, 86, &p), FM_IMAGE_NO_CODE);
	assert_int_equal(fm_fatbin_text(f.data, f.size, 90, &p), FM_IMAGE_NO_CODE);
	free(f.data);
}

/* `at` in the header of the entry for sm_90a. */
static enum fm_image_why with_entry(const char *name, unsigned at, unsigned bytes, uint64_t value)
{
	struct file f = load(name);
	enum fm_image_why w;

	memcpy(entry(&f, 3) + at, &value, bytes);
	w = why(&f);
	free(f.data);
	return w;
}

static void fatbins(void **state)
{
	const char *lz4 = "pack-lz4.fatbin", *zstd = "pack-zstd.fatbin";
	struct file f = load(lz4);

	assert_int_equal(with_entry(lz4, 40, 8, 0x102011), FM_IMAGE_OK);
	assert_int_equal(with_entry(lz4, 40, 8, 0x2011), FM_IMAGE_AMBIGUOUS);
	assert_int_equal(with_entry(lz4, 40, 8, 0x10a011), FM_IMAGE_COMPRESSION);
	assert_int_equal(with_entry(lz4, 40, 8, 0x106011), FM_IMAGE_UNKNOWN);
	assert_int_equal(with_entry(lz4, 40, 8, 0x100011),
		FM_IMAGE_FOREIGN); /* packed, and taken as it is */
	assert_int_equal(with_entry(lz4, 40, 8, 0x108011), FM_IMAGE_BROKEN);
	assert_int_equal(with_entry(lz4, 2, 2, 0x201), FM_IMAGE_UNKNOWN);
	assert_int_equal(with_entry(lz4, 4, 4, 32), FM_IMAGE_BROKEN);
	assert_int_equal(with_entry(lz4, 8, 8, UINT64_MAX - 40), FM_IMAGE_BROKEN);
	for (unsigned i = 0; i < 2; i++) {
		const char *name = i ? lz4 : zstd;

		assert_int_equal(with_entry(name, 56, 8, 0), FM_IMAGE_BROKEN);
		assert_int_equal(with_entry(name, 56, 8, 1 << 20), FM_IMAGE_BROKEN);
		assert_int_equal(with_entry(name, 56, 8, 100), FM_IMAGE_BROKEN);
		assert_int_equal(with_entry(name, 56, 8, FM_IMAGE_MAX + 1u), FM_IMAGE_LARGE);
		assert_int_equal(with_entry(name, 16, 4, 1u << 31), FM_IMAGE_BROKEN);
		assert_int_equal(with_entry(name, 16, 4, 100), FM_IMAGE_BROKEN);
	}
	fm_put16(f.data + 4, 2);
	assert_int_equal(why(&f), FM_IMAGE_UNKNOWN);
	fm_put16(f.data + 4, 1);
	fm_put64(f.data + 8, f.size);
	assert_int_equal(why(&f), FM_IMAGE_BROKEN);
	fm_put64(f.data + 8, UINT64_MAX);
	assert_int_equal(why(&f), FM_IMAGE_BROKEN);
	free(f.data);
}

static enum fm_image_why with_header(size_t at, unsigned bytes, uint64_t value)
{
	struct file f = load("sm90.cubin");
	enum fm_image_why w;

	memcpy(f.data + at, &value, bytes);
	w = why(&f);
	free(f.data);
	return w;
}

static void headers(void **state)
{
	assert_int_equal(with_header(EI_ABIVERSION, 1, 9), FM_IMAGE_UNKNOWN);
	assert_int_equal(with_header(EI_OSABI, 1, 0x33), FM_IMAGE_UNKNOWN);
	assert_int_equal(with_header(48, 4, 0x6004b04), FM_IMAGE_DEVICE); /* sm_75 */
	assert_int_equal(with_header(48, 4, 0x6005a00), FM_IMAGE_UNKNOWN);
	assert_int_equal(with_header(18, 2, EM_X86_64), FM_IMAGE_FOREIGN);
	assert_int_equal(
		with_header(offsetof(Elf64_Ehdr, e_type), 2, ET_REL), FM_IMAGE_RELOCATABLE);
	assert_int_equal(
		with_header(offsetof(Elf64_Ehdr, e_shoff), 8, UINT64_MAX), FM_IMAGE_BROKEN);
	assert_int_equal(
		with_header(offsetof(Elf64_Ehdr, e_phoff), 8, UINT64_MAX - 8), FM_IMAGE_BROKEN);
	assert_int_equal(with_header(offsetof(Elf64_Ehdr, e_shnum), 2, 0), FM_IMAGE_BROKEN);
	assert_int_equal(
		with_header(offsetof(Elf64_Ehdr, e_shnum), 2, UINT16_MAX), FM_IMAGE_BROKEN);
	assert_int_equal(with_header(offsetof(Elf64_Ehdr, e_phnum), 2, 65), FM_IMAGE_BROKEN);
	assert_int_equal(with_header(offsetof(Elf64_Ehdr, e_shstrndx), 2, 3), FM_IMAGE_BROKEN);
}

static void whole_images(void **state)
{
	struct file f = load("relocatable.cubin");

	assert_int_equal(why(&f), FM_IMAGE_RELOCATABLE);
	free(f.data);
	f = load("launch.ptx");
	assert_int_equal(why(&f), FM_IMAGE_LAUNCHES);
	free(f.data);
}

/* sm90.cubin, to be changed in one place; what stands where. */
struct changed {
	struct file f;
	struct fm_elf e;
};

static struct changed begin(void)
{
	struct changed c = {.f = load("sm90.cubin")};

	c.e = elf_of(c.f.data, c.f.size);
	return c;
}

static uint8_t *in_section(struct changed *c, const char *prefix, const char *of)
{
	return c->f.data + c->e.s[section(&c->e, prefix, of)].h.sh_offset;
}

static Elf64_Shdr *head(struct changed *c, const char *prefix, const char *of)
{
	return (void *)(c->f.data + c->e.h.e_shoff +
			section(&c->e, prefix, of) * sizeof(Elf64_Shdr));
}

static uint8_t *in_attribute(struct changed *c, const char *of, uint8_t kind)
{
	struct fm_attr a;

	assert_true(attribute(&c->e.s[section(&c->e, ".nv.info.", of)], kind, &a));
	return in_section(c, ".nv.info.", of) + a.at;
}

static Elf64_Sym *in_symbol(struct changed *c, const char *of)
{
	return (void *)(c->f.data + (c->e.symbols - c->f.data) +
			symbol(&c->e, of) * sizeof(Elf64_Sym));
}

/* The kernel is left alone for this reason, and no other is. */
static void end(struct changed *c, const char *of, enum fm_kernel_why reason)
{
	struct fm_image image;

	assert_int_equal(fm_image_rewrite(c->f.data, c->f.size, 90, &image), FM_IMAGE_OK);
	for (unsigned i = 0; i < image.n; i++)
		assert_int_equal(image.kernel[i].why,
			strcmp(image.kernel[i].name, of) ? FM_KERNEL_REWRITTEN : reason);
	assert_int_equal(kernel(&image, of)->why, reason);
	assert_int_equal(image.n_rewritten, image.n - 1);
	fm_image_free(&image);
	fm_elf_free(&c->e);
	free(c->f.data);
}

static void code(void **state)
{
	struct changed c = begin();

	in_section(&c, ".text.", "k_add")[0] ^= 1;
	end(&c, "k_add", FM_KERNEL_ENTRY);
	c = begin(); /* BRA from 0x20 to 0 */
	fm_put64(in_section(&c, ".text.", "k_wait") + 0x20, UINT64_C(0xfffffffc00f47947));
	fm_put64(in_section(&c, ".text.", "k_wait") + 0x28, 0x000fea000383ffff);
	end(&c, "k_wait", FM_KERNEL_LOOPS);
	c = begin(); /* the same, but to 0x10 */
	fm_put64(in_section(&c, ".text.", "k_wait") + 0x20, UINT64_C(0xfffffffc00f87947));
	fm_put64(in_section(&c, ".text.", "k_wait") + 0x28, 0x000fea000383ffff);
	assert_int_equal(why(&c.f), FM_IMAGE_OK);
	fm_elf_free(&c.e);
	free(c.f.data);
}

static void relocations(void **state)
{
	struct changed c = begin();
	uint8_t *r = in_section(&c, ".rela.nv.constant4", "");

	fm_put64(r, 8); /* now it changes the second word of k_stack */
	head(&c, ".rela.nv.constant4", "")->sh_info = section(&c.e, ".text.", "k_stack");
	end(&c, "k_stack", FM_KERNEL_RELOCATED);
	c = begin();
	r = in_section(&c, ".rela.nv.constant4", "");
	fm_put32(r + 12, symbol(&c.e, "k_stack")); /* and now it holds its address */
	end(&c, "k_stack", FM_KERNEL_ADDRESS);
	c = begin();
	r = in_section(&c, ".rela.nv.constant4", "");
	fm_put32(r + 12, c.e.n_symbols);
	assert_int_equal(why(&c.f), FM_IMAGE_BROKEN);
	fm_elf_free(&c.e);
	free(c.f.data);
}

static void sections(void **state)
{
	struct changed c = begin();

	in_symbol(&c, "k_add")->st_value = 16;
	end(&c, "k_add", FM_KERNEL_SECTIONS);
	c = begin();
	in_symbol(&c, "k_add")->st_size -= 16;
	end(&c, "k_add", FM_KERNEL_SECTIONS);
	c = begin(); /* attributes of another */
	head(&c, ".nv.info.", "k_add")->sh_info = section(&c.e, ".text.", "k_wait");
	end(&c, "k_add", FM_KERNEL_SECTIONS);
	c = begin();
	head(&c, ".text.", "k_add")->sh_type = 0x70000123;
	assert_int_equal(why(&c.f), FM_IMAGE_UNKNOWN);
	head(&c, ".text.", "k_add")->sh_type = SHT_PROGBITS;
	head(&c, ".text.", "k_add")->sh_offset = head(&c, ".text.", "k_wait")->sh_offset;
	assert_int_equal(why(&c.f), FM_IMAGE_BROKEN);
	fm_elf_free(&c.e);
	free(c.f.data);
}

/* Two names for one code: a launch by the other would lack our parameters. */
static void aliases(void **state)
{
	struct changed c = begin();
	Elf64_Sym *alias = in_symbol(&c, "k_add");
	struct fm_image image;

	alias->st_shndx = in_symbol(&c, "k_wait")->st_shndx;
	assert_int_equal(fm_image_rewrite(c.f.data, c.f.size, 90, &image), FM_IMAGE_OK);
	assert_int_equal(kernel(&image, "k_add")->why, FM_KERNEL_SECTIONS);
	assert_int_equal(kernel(&image, "k_wait")->why, FM_KERNEL_SECTIONS);
	assert_int_equal(image.n_rewritten, image.n - 2);
	fm_image_free(&image);
	fm_elf_free(&c.e);
	free(c.f.data);
}

static void attributes(void **state)
{
	struct changed c = begin();
	uint8_t *regs;

	in_attribute(&c, "k_add", FM_EIATTR_MAXREG_COUNT)[1] = 0x7a;
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin();
	in_attribute(&c, "k_add", FM_EIATTR_MAXREG_COUNT)[0] = 7;
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin();
	in_attribute(&c, "k_add", FM_EIATTR_MAXREG_COUNT)[2] = 15;
	end(&c, "k_add", FM_KERNEL_REGISTERS);
	c = begin(); /* the same ordinal twice */
	in_attribute(&c, "k_add", FM_EIATTR_KPARAM_INFO)[8] = 0;
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin(); /* beyond all parameters */
	fm_put16(in_attribute(&c, "k_add", FM_EIATTR_KPARAM_INFO) + 10, 13);
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin();
	fm_put16(in_attribute(&c, "k_add", FM_EIATTR_CBANK_PARAM_SIZE) + 2, 12);
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin();
	fm_put16(in_attribute(&c, "k_add", FM_EIATTR_PARAM_CBANK) + 8, 0x160);
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin();
	fm_put32(in_attribute(&c, "k_add", FM_EIATTR_PARAM_CBANK) + 4, symbol(&c.e, "k_wait"));
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin();
	regs = c.f.data + c.e.s[section(&c.e, ".nv.info", "")].h.sh_offset;
	while (fm_get32(regs) != symbol(&c.e, "k_add") || regs[-3] != FM_EIATTR_REGCOUNT)
		regs += 4;
	fm_put32(regs + 4, 256);
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
	c = begin(); /* it is only now that this kernel has as many as there may be */
	fm_put16(in_attribute(&c, "k_add", FM_EIATTR_EXIT_INSTR_OFFSETS) + 2, 0x7ffd);
	end(&c, "k_add", FM_KERNEL_ATTRIBUTES);
}

/* Kernels launched by kernels: known by the runtime that they call. Long names stand in for its
 * own. */
static void device_launches(void **state)
{
	static const char *const names[] = {
		"__cudaCDP2", "cudaLaunchDevice", "cudaGetParameterBuffer"};

	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
		struct changed c = begin();
		size_t at = (size_t)(c.e.strings - (const char *)c.f.data);

		/* Over the table's end, where the names of sections of constants are. */
		at += in_symbol(&c, "k_tight")->st_name;
		fm_put32(&in_symbol(&c, "k_add")->st_name, in_symbol(&c, "k_tight")->st_name);
		memcpy(c.f.data + at, names[i], strlen(names[i]) + 1);
		assert_int_equal(why(&c.f), FM_IMAGE_LAUNCHES);
		fm_elf_free(&c.e);
		free(c.f.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_images),
		cmocka_unit_test(broken_bytes),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(right_one),
		cmocka_unit_test(right_text),
		cmocka_unit_test(fatbins),
		cmocka_unit_test(headers),
		cmocka_unit_test(whole_images),
		cmocka_unit_test(code),
		cmocka_unit_test(relocations),
		cmocka_unit_test(sections),
		cmocka_unit_test(aliases),
		cmocka_unit_test(attributes),
		cmocka_unit_test(device_launches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
