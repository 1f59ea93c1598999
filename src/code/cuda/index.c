/* SPDX-License-Identifier: Apache-2.0 */
#include "index.h"
#include "attr.h"
#include "sass.h"

#define INFO ".nv.info"
#define BANK ".nv.constant0."
#define TEXT ".text."

static bool begins(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static void index_sections(const struct fm_elf *e, struct fm_index *x)
{
	for (unsigned i = 1; i < e->n; i++) {
		const char *name = e->s[i].name;
		unsigned of = e->s[i].h.sh_info;

		if (e->s[i].h.sh_type == FM_SHT_CUDA_INFO && !strcmp(name, INFO))
			x->general = i;
		if (!of || of >= e->n || !begins(e->s[of].name, TEXT))
			continue;
		/* Has the right name, and is not merely linked there. */
		name += begins(name, INFO ".") ? strlen(INFO ".")
			: begins(name, BANK)   ? strlen(BANK)
					       : 0;
		if (strcmp(name, e->s[of].name + strlen(TEXT)))
			continue;
		if (e->s[i].h.sh_type == FM_SHT_CUDA_INFO)
			x->info[of] = i;
		else if (e->s[i].h.sh_type == SHT_PROGBITS)
			x->bank[of] = i;
	}
}

static enum fm_image_why index_symbols(const struct fm_elf *e, struct fm_index *x)
{
	for (unsigned i = 1; i < e->n_symbols; i++) {
		Elf64_Sym s = fm_elf_symbol(e, i);
		const char *name = fm_elf_name(e, &s);

		/* The device runtime, of any version. */
		if (begins(name, "__cudaCDP") || begins(name, "__cudaCNP") ||
			begins(name, "cudaLaunchDevice") || begins(name, "cudaGetParameterBuffer"))
			return FM_IMAGE_LAUNCHES;
		if (!s.st_shndx || s.st_shndx >= e->n)
			continue;
		if (ELF64_ST_TYPE(s.st_info) == STT_SECTION)
			x->symbol[s.st_shndx] = i;
		if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_value < FM_SASS_BYTES)
			x->text[s.st_shndx] |= x->text[s.st_shndx] & FM_TEXT_FUNCTION
						       ? FM_TEXT_SHARED
						       : FM_TEXT_FUNCTION;
	}
	return FM_IMAGE_OK;
}

/* The addend of the relocation leads to the symbol's first instruction. The place of the relocation
 * in the code does not matter. */
static bool names_entry(const struct fm_section *s, size_t at)
{
	return s->h.sh_type == SHT_RELA && fm_get64(s->data + at + 16) < FM_SASS_BYTES;
}

static void index_relocations(const struct fm_elf *e, struct fm_index *x)
{
	for (unsigned i = 1; i < e->n; i++) {
		const struct fm_section *s = &e->s[i];
		size_t step = s->h.sh_entsize;
		bool loaded;

		if (s->h.sh_type != SHT_RELA && s->h.sh_type != SHT_REL)
			continue;
		loaded = e->s[s->h.sh_info].h.sh_flags & SHF_ALLOC;
		for (size_t at = 0; at < s->size && loaded; at += step) {
			unsigned symbol = (unsigned)ELF64_R_SYM(fm_get64(s->data + at + 8));
			Elf64_Sym y = fm_elf_symbol(e, symbol);

			if (fm_get64(s->data + at) < FM_SASS_BYTES)
				x->text[s->h.sh_info] |= FM_TEXT_FIRST_RELOCATED;
			/* A function's own code may name places in it, as return addresses. */
			if (ELF64_ST_TYPE(y.st_info) != STT_FUNC || !y.st_shndx ||
				(y.st_shndx == s->h.sh_info && !names_entry(s, at)))
				continue;
			x->text[s->h.sh_info] |= FM_TEXT_CALLS;
			x->address[symbol] = true;
		}
	}
}

static enum fm_image_why index_registers(const struct fm_elf *e, struct fm_index *x)
{
	const struct fm_section *s = &e->s[x->general];
	size_t at = 0;
	struct fm_attr a;
	int more;

	while ((more = fm_attr_next(s->data, s->size, &at, &a)) > 0) {
		uint32_t symbol;

		if (a.kind != FM_EIATTR_REGCOUNT)
			continue;
		if (a.form != FM_ATTR_DATA || a.value != 8)
			return FM_IMAGE_UNKNOWN;
		symbol = fm_get32(a.data);
		if (symbol >= e->n_symbols || x->regs[symbol])
			return FM_IMAGE_BROKEN;
		x->regs[symbol] = (uint32_t)(a.data + 4 - s->data);
	}
	return more < 0 ? FM_IMAGE_BROKEN : FM_IMAGE_OK;
}

enum fm_image_why fm_index_make(const struct fm_elf *e, struct fm_index *x)
{
	enum fm_image_why why;

	*x = (struct fm_index){
		.info = calloc(e->n, sizeof(*x->info)),
		.bank = calloc(e->n, sizeof(*x->bank)),
		.symbol = calloc(e->n, sizeof(*x->symbol)),
		.text = calloc(e->n, sizeof(*x->text)),
		.address = calloc(e->n_symbols + 1, sizeof(*x->address)),
		.regs = calloc(e->n_symbols + 1, sizeof(*x->regs)),
	};
	if (!x->info || !x->bank || !x->symbol || !x->text || !x->address || !x->regs)
		return FM_IMAGE_MEMORY;
	index_sections(e, x);
	why = index_symbols(e, x);
	if (why)
		return why;
	index_relocations(e, x);
	return x->general ? index_registers(e, x) : FM_IMAGE_NO_KERNEL;
}

void fm_index_free(struct fm_index *x)
{
	free(x->info);
	free(x->bank);
	free(x->symbol);
	free(x->text);
	free(x->address);
	free(x->regs);
	*x = (struct fm_index){0};
}
