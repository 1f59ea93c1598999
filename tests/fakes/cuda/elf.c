/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code: what the driver goes by when it loads it. What it would not take, or would run
 * into nonsense with, is not taken. */
#include "image.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE_CUDA 190
#define NV_INFO      0x70000000u
#define STO_KERNEL   0x10
#define INSTRUCTION  16
#define ACQBULK      0x82e
#define PREEXIT      0x82d

enum {
	ATTR_MAX_THREADS = 0x05,
	ATTR_BANK = 0x0a,
	ATTR_PARAM = 0x17,
	ATTR_BANK_SIZE = 0x19,
	ATTR_REGS = 0x2f,
	ATTR_PARAM_V2 = 0x45
};

struct elf {
	const unsigned char *data;
	size_t size;
	Elf64_Ehdr h;
	unsigned sm;
	const Elf64_Shdr *section; /* a copy: aligned */
	const char *names;
};

/* What a kernel's attributes say of the constants that its parameters are in. */
struct bank {
	bool there;
	unsigned base, size, cbank_size;
};

size_t fk_elf_size(const unsigned char *data)
{
	size_t end;
	Elf64_Ehdr h;
	Elf64_Shdr s;

	memcpy(&h, data, sizeof(h));
	end = h.e_shoff + (size_t)h.e_shnum * sizeof(s);
	if (h.e_phoff + (size_t)h.e_phnum * h.e_phentsize > end)
		end = h.e_phoff + (size_t)h.e_phnum * h.e_phentsize;
	for (unsigned i = 0; i < h.e_shnum; i++) {
		memcpy(&s, data + h.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_type != SHT_NOBITS && s.sh_offset + s.sh_size > end)
			end = s.sh_offset + s.sh_size;
	}
	return end;
}

static bool inside(const struct elf *e, const Elf64_Shdr *s)
{
	return s->sh_type == SHT_NOBITS ||
	       (s->sh_offset <= e->size && s->sh_size <= e->size - s->sh_offset);
}

static const char *name_of(const struct elf *e, const Elf64_Shdr *s)
{
	return e->names + s->sh_name;
}

/* The section PREFIXname, or NULL. */
static const Elf64_Shdr *find(const struct elf *e, const char *prefix, const char *name)
{
	size_t n = strlen(prefix);

	for (unsigned i = 1; i < e->h.e_shnum; i++)
		if (!strncmp(name_of(e, &e->section[i]), prefix, n) &&
			!strcmp(name_of(e, &e->section[i]) + n, name))
			return &e->section[i];
	return NULL;
}

static uint64_t word(const unsigned char *at, unsigned bytes)
{
	uint64_t v = 0;

	memcpy(&v, at, bytes);
	return v;
}

/* Up to CUDA 12, and from 13 on. */
static fm_cu_result architecture(struct elf *e)
{
	uint32_t flags = e->h.e_flags;

	if (e->h.e_ident[EI_CLASS] != ELFCLASS64 || e->h.e_machine != MACHINE_CUDA)
		return CU_INVALID_IMAGE;
	e->sm = e->h.e_ident[EI_ABIVERSION] >= 8 ? (flags >> 8) & 0xff : flags & 0xff;
	return e->sm / 10 == FK_SM / 10 && e->sm <= FK_SM ? FM_CU_SUCCESS : CU_NO_BINARY;
}

/* --- attributes --- */

struct attr {
	unsigned form, kind, value;
	const unsigned char *data; /* of form 4, whose value is the size */
};

static bool next_attr(const unsigned char **at, const unsigned char *end, struct attr *a)
{
	const unsigned char *p = *at;

	if (end - p < 4)
		return false;
	*a = (struct attr){p[0], p[1], (unsigned)word(p + 2, 2), p + 4};
	*at = p + 4 + (a->form == 4 ? a->value : 0);
	return *at <= end;
}

static bool add_param(struct fk_entry *k, const struct attr *a, struct fk_param *param)
{
	unsigned ordinal = (unsigned)word(a->data + 4, 2), at = (unsigned)word(a->data + 6, 2);
	uint32_t size = (uint32_t)word(a->data + 8, 4);

	size = a->kind == ATTR_PARAM_V2 ? size & 0xffff : size >> 18;
	if (a->value != 12 || ordinal >= k->n_params || param[ordinal].size)
		return false;
	param[ordinal] = (struct fk_param){at, size};
	return true;
}

static unsigned count_params(const unsigned char *at, const unsigned char *end)
{
	struct attr a;
	unsigned n = 0;

	while (next_attr(&at, end, &a))
		n += a.kind == ATTR_PARAM || a.kind == ATTR_PARAM_V2;
	return n;
}

/* From the last to the first, as they stand there, or in any other order. */
static bool read_attrs(
	const struct elf *e, const Elf64_Shdr *info, struct fk_entry *k, struct bank *bank)
{
	const unsigned char *at = e->data + info->sh_offset, *end = at + info->sh_size;
	struct attr a;

	k->n_params = count_params(at, end);
	k->param = calloc(k->n_params + 1, sizeof(*k->param));
	if (!k->param)
		return false;
	while (next_attr(&at, end, &a)) {
		if ((a.kind == ATTR_PARAM || a.kind == ATTR_PARAM_V2) &&
			!add_param(k, &a, k->param))
			return false;
		if (a.kind == ATTR_BANK) {
			bank->there = true;
			bank->base = (unsigned)word(a.data + 4, 2);
			bank->size = (unsigned)word(a.data + 6, 2);
		}
		if (a.kind == ATTR_BANK_SIZE)
			bank->cbank_size = a.value;
		if (a.kind == ATTR_MAX_THREADS)
			k->max_threads = (unsigned)word(a.data, 4);
	}
	for (unsigned i = 0; i < k->n_params; i++) {
		const struct fk_param *p = &k->param[i];

		if (!p->size || p->at < k->bytes)
			return false;
		k->bytes = p->at + p->size;
	}
	return at == end;
}

/* All that says how many bytes of parameters there are says the same. */
static bool banks_agree(const struct elf *e, const struct fk_entry *k, const struct bank *b)
{
	const Elf64_Shdr *s = find(e, ".nv.constant0.", k->name);

	if (!k->n_params && !b->there)
		return true;
	return s && b->size == k->bytes && b->cbank_size == k->bytes &&
	       s->sh_size == b->base + b->size;
}

/* --- code --- */

static unsigned opcode(const unsigned char *at)
{
	return word(at, 8) & 0xfff;
}

/* Where an unconditional branch leads; 0: it is none. */
static uint64_t branch(const struct elf *e, const unsigned char *code, uint64_t at)
{
	uint64_t low = word(code + at, 8), high = word(code + at + 8, 8);
	int64_t distance = (int64_t)((low >> 34 | (high & 0x3ffff) << 30) << 16) >> 16;

	if ((low & 0xffff) != 0x7947)
		return 0;
	if (e->sm >= 90)
		distance = distance * 256 + (int64_t)((low >> 16) & 0xff);
	return at + INSTRUCTION + (uint64_t)(distance * 4);
}

/* Does any instruction from there on read this word of the constants? */
static bool reads(const unsigned char *code, uint64_t from, uint64_t size, unsigned constant)
{
	for (; from < size; from += INSTRUCTION)
		if (((word(code + from, 8) >> 38) & 0xffff) == constant)
			return true;
	return false;
}

/*
 * Whether the code begins with a branch to what was appended, which comes back to the second
 * instruction. No compiler begins so.
 */
static bool guarded(const struct elf *e, const Elf64_Shdr *text, const struct fk_entry *k,
	const struct bank *bank)
{
	const unsigned char *code = e->data + text->sh_offset;
	uint64_t start = branch(e, code, 0), back;
	bool comes_back = false;

	if (!start || start % 128 || start >= text->sh_size)
		return false;
	for (back = start; back < text->sh_size; back += INSTRUCTION)
		comes_back |= branch(e, code, back) == INSTRUCTION;
	if (!comes_back)
		fk_die("%s begins with a branch that does not come back", k->name);
	for (unsigned i = 0; i < FK_GUARD_PARAMS && k->n_params >= FK_GUARD_PARAMS; i++) {
		unsigned at = bank->base + k->param[k->n_params - FK_GUARD_PARAMS + i].at;

		if (!reads(code, start, text->sh_size, at))
			fk_die("the guardian of %s does not read its parameter at %#x", k->name,
				at);
	}
	return true;
}

/* In front of its first branch. */
static bool waits(const struct elf *e, const Elf64_Shdr *text)
{
	const unsigned char *code = e->data + text->sh_offset;
	uint64_t at = branch(e, code, 0);

	while (at < text->sh_size && !branch(e, code, at) && opcode(code + at) != ACQBULK)
		at += INSTRUCTION;
	return at < text->sh_size && opcode(code + at) == ACQBULK;
}

static bool knows(const struct elf *e, const Elf64_Shdr *text)
{
	const unsigned char *code = e->data + text->sh_offset;
	uint64_t end = branch(e, code, 0);

	for (uint64_t at = INSTRUCTION; at < end; at += INSTRUCTION)
		if (opcode(code + at) == ACQBULK || opcode(code + at) == PREEXIT)
			return true;
	return false;
}

static fm_cu_result add_kernel(
	const struct elf *e, const char *name, const Elf64_Sym *s, struct fk_image *out)
{
	const Elf64_Shdr *info = find(e, ".nv.info.", name), *text = find(e, ".text.", name);
	const Elf64_Shdr *shared = find(e, ".nv.shared.", name);
	struct fk_entry *k = fk_image_entry(out, name, strlen(name));
	struct bank bank = {0};

	if (!k)
		return CU_OUT_OF_MEMORY;
	if (!info || !text || text->sh_size % INSTRUCTION || s->st_size != text->sh_size)
		return CU_INVALID_IMAGE;
	if (!read_attrs(e, info, k, &bank) || !banks_agree(e, k, &bank))
		return CU_INVALID_IMAGE;
	k->guarded = guarded(e, text, k, &bank);
	k->waits = k->guarded && waits(e, text);
	k->knows = k->guarded && knows(e, text);
	k->shared = shared ? (unsigned)shared->sh_size : 0;
	return FM_CU_SUCCESS;
}

static void read_registers(
	const struct elf *e, const Elf64_Shdr *symtab, const char *strings, struct fk_image *out)
{
	const Elf64_Shdr *info = find(e, ".nv.info", "");
	const unsigned char *at, *end;
	Elf64_Sym s;
	struct attr a;

	if (!info)
		return;
	at = e->data + info->sh_offset;
	for (end = at + info->sh_size; next_attr(&at, end, &a);) {
		uint64_t symbol = word(a.data, 4);

		if (a.kind != ATTR_REGS || symbol >= symtab->sh_size / sizeof(s))
			continue;
		memcpy(&s, e->data + symtab->sh_offset + symbol * sizeof(s), sizeof(s));
		for (unsigned i = 0; i < out->n; i++)
			if (!strcmp(out->entry[i].name, strings + s.st_name))
				out->entry[i].regs = (unsigned)word(a.data + 4, 4);
	}
}

static fm_cu_result add_symbol(
	const struct elf *e, const Elf64_Sym *s, const char *name, struct fk_image *out)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);

	if (s->st_shndx == SHN_UNDEF || s->st_shndx >= e->h.e_shnum)
		return FM_CU_SUCCESS;
	if (type == STT_FUNC && (s->st_other & STO_KERNEL))
		return add_kernel(e, name, s, out);
	if (type == STT_OBJECT &&
		!strncmp(name_of(e, &e->section[s->st_shndx]), ".nv.global", 10) &&
		!fk_image_variable(out, name, strlen(name), s->st_size))
		return CU_OUT_OF_MEMORY;
	return FM_CU_SUCCESS;
}

static fm_cu_result read_symbols(const struct elf *e, struct fk_image *out)
{
	const Elf64_Shdr *symtab = find(e, ".symtab", ""), *strings = find(e, ".strtab", "");
	const char *names;
	Elf64_Sym s;

	if (!symtab || !strings)
		return CU_INVALID_IMAGE;
	names = (const char *)e->data + strings->sh_offset;
	for (size_t i = 1; i < symtab->sh_size / sizeof(s); i++) {
		memcpy(&s, e->data + symtab->sh_offset + i * sizeof(s), sizeof(s));
		if (s.st_name >= strings->sh_size)
			return CU_INVALID_IMAGE;
		FK_TRY(add_symbol(e, &s, names + s.st_name, out));
	}
	read_registers(e, symtab, names, out);
	return FM_CU_SUCCESS;
}

fm_cu_result fk_elf_read(const unsigned char *data, size_t size, struct fk_image *out)
{
	struct elf e = {.data = data, .size = size};
	Elf64_Shdr *section;
	fm_cu_result rc = CU_INVALID_IMAGE;

	if (size < sizeof(e.h))
		return CU_INVALID_IMAGE;
	memcpy(&e.h, data, sizeof(e.h));
	FK_TRY(architecture(&e));
	section = calloc(e.h.e_shnum, sizeof(*section));
	if (!section)
		return CU_OUT_OF_MEMORY;
	memcpy(section, data + e.h.e_shoff, e.h.e_shnum * sizeof(*section));
	e.section = section;
	if (e.h.e_shstrndx < e.h.e_shnum) {
		e.names = (const char *)data + section[e.h.e_shstrndx].sh_offset;
		rc = FM_CU_SUCCESS;
	}
	for (unsigned i = 0; i < e.h.e_shnum; i++)
		if (!inside(&e, &section[i]))
			rc = CU_INVALID_IMAGE;
	rc = rc ? rc : read_symbols(&e, out);
	free(section);
	return rc;
}
