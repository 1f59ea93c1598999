/* SPDX-License-Identifier: Apache-2.0 */
/* The result is read as if it had come from outside. It must differ from the original where it
 * should, and nowhere else. This file shares the reading code with the rewriting, but not the
 * writing code. */
#include "base/cleanup.h"
#include "base/util.h"
#include "code/cuda/attr.h"
#include "code/cuda/index.h"
#include "code/cuda/sass.h"
#include "cubin.h"

struct pair {
	const struct fm_elf *was, *is;
	struct fm_index x; /* of the original; sections and symbols have the same numbers */
	const struct fm_guardian *guardian;
	bool *differs; /* sections whose bytes may differ */
};

static bool same_header(const Elf64_Shdr *a, const Elf64_Shdr *b)
{
	return a->sh_name == b->sh_name && a->sh_type == b->sh_type && a->sh_addr == b->sh_addr &&
	       a->sh_link == b->sh_link && a->sh_addralign == b->sh_addralign &&
	       a->sh_entsize == b->sh_entsize;
}

static bool same_bytes(const struct fm_section *a, const struct fm_section *b)
{
	return a->size == b->size && (!a->size || !memcmp(a->data, b->data, a->size)) &&
	       a->h.sh_size == b->h.sh_size && a->h.sh_info == b->h.sh_info &&
	       a->h.sh_flags == b->h.sh_flags;
}

static bool params_right(const struct fm_kernel_attrs *was, const struct fm_kernel_attrs *is,
	const struct fm_kernel *k)
{
	unsigned guard_at = (was->bytes + 7u) & ~7u;

	if (is->n_params != was->n_params + FM_GUARD_PARAMS ||
		is->bytes != guard_at + FM_GUARD_BYTES || k->guard_at != guard_at ||
		k->n_params != was->n_params || !is->bank)
		return false;
	if (was->n_params && memcmp(was->params, is->params, was->n_params * sizeof(*is->params)))
		return false;
	for (unsigned i = 0; i < FM_GUARD_PARAMS; i++) {
		const struct fm_param *p = &is->params[was->n_params + i];

		if (p->at != guard_at + 8 * i || p->size != 8)
			return false;
	}
	return is->v2 == (was->v2 || is->bytes > FM_PARAMS_V1) &&
	       (!was->bank || (was->base == is->base && was->bank_symbol == is->bank_symbol));
}

static bool attrs_right(
	const struct pair *p, unsigned info, const struct fm_kernel *k, unsigned *base)
{
	struct fm_kernel_attrs was, is;
	bool right;

	right = !fm_attr_read(p->was->s[info].data, p->was->s[info].size, &was);
	right = !fm_attr_read(p->is->s[info].data, p->is->s[info].size, &is) && right;
	right = right && params_right(&was, &is, k);
	right = right && is.max_regs == was.max_regs && is.traits == was.traits;
	right = right && is.barriers == (was.barriers || p->is->abi < 8 ? was.barriers : 1);
	*base = is.base;
	free(was.params);
	free(is.params);
	return right;
}

static bool bank_right(const struct pair *p, unsigned bank, unsigned size)
{
	const struct fm_section *was = &p->was->s[bank], *is = &p->is->s[bank];

	if (is->size != size || was->size > size || memcmp(was->data, is->data, was->size))
		return false;
	for (size_t i = was->size; i < is->size; i++)
		if (is->data[i])
			return false;
	return true;
}

static bool counts_right(const struct pair *p, unsigned symbol, unsigned text)
{
	const Elf64_Shdr *was = &p->was->s[text].h, *is = &p->is->s[text].h;
	unsigned least = p->guardian->regs, at = p->x.regs[symbol], in_head = was->sh_info >> 24;
	uint32_t regs = fm_get32(p->was->s[p->x.general].data + at);
	uint64_t barriers = (was->sh_flags >> 20) & 0x7f, flags = was->sh_flags;

	if (fm_get32(p->is->s[p->x.general].data + at) != FM_MAX(regs, least))
		return false;
	if (p->is->abi < 8 && !barriers)
		flags += 1 << 20;
	return is->sh_flags == flags && (is->sh_info & 0xffffff) == (was->sh_info & 0xffffff) &&
	       is->sh_info >> 24 == (in_head ? FM_MAX(in_head, least) : 0);
}

static bool kernel_right(
	struct pair *p, unsigned symbol, const Elf64_Sym *s, const struct fm_kernel *k)
{
	unsigned text = s->st_shndx, info = p->x.info[text], bank = p->x.bank[text], base;
	const struct fm_section *was = &p->was->s[text], *is = &p->is->s[text];

	if (!info || !bank || strcmp(k->name, fm_elf_name(p->was, s)))
		return false;
	p->differs[text] = p->differs[info] = p->differs[bank] = true;
	if (!attrs_right(p, info, k, &base) ||
		!bank_right(p, bank, base + k->guard_at + FM_GUARD_BYTES))
		return false;
	return counts_right(p, symbol, text) &&
	       fm_sass_guarded(was->data, was->size, is->data, is->size, p->guardian,
		       base + k->guard_at, k->early);
}

/* Symbols are the same, except for the size of rewritten kernels. */
static bool symbols_right(struct pair *p, const struct fm_kernel *kernel)
{
	if (p->was->n_symbols != p->is->n_symbols)
		return false;
	for (unsigned i = 0; i < p->was->n_symbols; i++) {
		Elf64_Sym was = fm_elf_symbol(p->was, i), is = fm_elf_symbol(p->is, i);

		if (i && fm_elf_is_kernel(&was)) {
			const struct fm_kernel *k = kernel++;

			if (k->why == FM_KERNEL_REWRITTEN) {
				if (was.st_shndx >= p->was->n || !kernel_right(p, i, &was, k))
					return false;
				was.st_size = p->is->s[was.st_shndx].size;
			}
		}
		if (memcmp(&was, &is, sizeof(was)))
			return false;
	}
	return true;
}

/* .nv.info is the same, except for counts of registers of rewritten kernels.
 */
static bool general_right(const struct pair *p)
{
	const struct fm_section *was = &p->was->s[p->x.general], *is = &p->is->s[p->x.general];
	FM_CLEAN_FREE uint8_t *copy = malloc(was->size + 1);

	if (!copy || was->size != is->size)
		return false;
	memcpy(copy, was->data, was->size);
	for (unsigned i = 0; i < p->was->n_symbols; i++) {
		uint32_t at = p->x.regs[i];
		Elf64_Sym s = fm_elf_symbol(p->was, i);

		if (at && fm_elf_is_kernel(&s) && s.st_shndx < p->was->n && p->differs[s.st_shndx])
			memcpy(copy + at, is->data + at, 4);
	}
	return !memcmp(copy, is->data, is->size);
}

/* Each segment covers the same sections as before, from the first one's beginning to the last one's
 * end.
 */
static bool segments_right(const struct pair *p)
{
	if (p->was->h.e_phnum != p->is->h.e_phnum)
		return false;
	for (unsigned i = 0; i < p->is->h.e_phnum; i++) {
		Elf64_Phdr was = fm_elf_segment(p->was, i), is = fm_elf_segment(p->is, i);

		if (was.p_type != is.p_type || was.p_flags != is.p_flags ||
			was.p_memsz - was.p_filesz != is.p_memsz - is.p_filesz)
			return false;
		if (was.p_offset == p->was->h.e_phoff && is.p_offset == p->is->h.e_phoff)
			continue;
		for (unsigned j = 1; j < p->is->n; j++)
			if (fm_elf_covers(&was, &p->was->s[j].h) !=
				fm_elf_covers(&is, &p->is->s[j].h))
				return false;
	}
	return true;
}

static bool sections_right(const struct pair *p)
{
	for (unsigned i = 0; i < p->was->n; i++) {
		const struct fm_section *was = &p->was->s[i], *is = &p->is->s[i];

		if (!same_header(&was->h, &is->h))
			return false;
		if (i == p->was->symtab || i == p->x.general || p->differs[i])
			continue;
		if (!same_bytes(was, is))
			return false;
	}
	return true;
}

bool fm_cubin_verify(const struct fm_elf *was, const void *made, size_t size,
	const struct fm_guardian *guardian, const struct fm_kernel *kernel)
{
	struct fm_elf is;
	struct pair p = {.was = was, .is = &is, .guardian = guardian};
	bool right = false;

	if (fm_elf_read(made, size, &is))
		return false;
	p.differs = calloc(was->n, sizeof(*p.differs));
	if (p.differs && !fm_index_make(was, &p.x) && was->n == is.n && was->symtab == is.symtab &&
		was->abi == is.abi && was->sm == is.sm && was->h.e_flags == is.h.e_flags)
		right = symbols_right(&p, kernel) && sections_right(&p) && general_right(&p) &&
			segments_right(&p);
	free(p.differs);
	fm_index_free(&p.x);
	fm_elf_free(&is);
	return right;
}
