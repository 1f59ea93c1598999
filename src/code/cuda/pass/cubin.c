/* SPDX-License-Identifier: Apache-2.0 */
#include "cubin.h"
#include "base/util.h"
#include "code/cuda/attr.h"
#include "code/cuda/index.h"
#include "code/cuda/sass.h"

#define TEXT     ".text."
#define REGS_MAX 255

struct work {
	struct fm_elf *e;
	struct fm_index x;
	const struct fm_guardian *guardian;
	bool no_memory;
};

/* A kernel's parts and their contents. */
struct parts {
	unsigned symbol, text, info, bank;
	struct fm_kernel_attrs attrs;
	struct fm_attr_change change;
};

/* A section of code belongs to one kernel only, has its name, and the kernel fills it. */
static enum fm_kernel_why find_parts(const struct work *w, const Elf64_Sym *s, struct parts *p)
{
	const struct fm_elf *e = w->e;
	const struct fm_section *text;

	if (s->st_shndx >= e->n)
		return FM_KERNEL_SECTIONS;
	p->text = s->st_shndx;
	p->info = w->x.info[p->text];
	p->bank = w->x.bank[p->text];
	text = &e->s[p->text];
	if (!p->info || !p->bank || !w->x.symbol[p->bank] || text->h.sh_type != SHT_PROGBITS ||
		strncmp(text->name, TEXT, strlen(TEXT)) ||
		strcmp(text->name + strlen(TEXT), fm_elf_name(e, s)))
		return FM_KERNEL_SECTIONS;
	if (s->st_value || s->st_size != text->size || text->size % FM_SASS_BYTES ||
		text->size < 2 * FM_SASS_BYTES || (w->x.text[p->text] & FM_TEXT_SHARED))
		return FM_KERNEL_SECTIONS;
	if (!w->x.regs[p->symbol] ||
		fm_get32(e->s[w->x.general].data + w->x.regs[p->symbol]) > REGS_MAX)
		return FM_KERNEL_ATTRIBUTES;
	if (w->x.address[p->symbol])
		return FM_KERNEL_ADDRESS;
	return FM_KERNEL_REWRITTEN;
}

static enum fm_kernel_why look_at_code(struct work *w, const struct parts *p, struct fm_kernel *k)
{
	const struct fm_section *text = &w->e->s[p->text];
	struct fm_sass_facts facts;

	if (w->x.text[p->text] & FM_TEXT_FIRST_RELOCATED)
		return FM_KERNEL_RELOCATED;
	if (!fm_sass_entry(text->data))
		return FM_KERNEL_ENTRY;
	if (fm_sass_look(text->data, text->size, w->e->sm, &facts)) {
		w->no_memory = true;
		return FM_KERNEL_SECTIONS;
	}
	k->traits |= facts.traits;
	if (w->x.text[p->text] & FM_TEXT_CALLS)
		k->traits |= FM_KERNEL_CALLS;
	return facts.loops ? FM_KERNEL_LOOPS : FM_KERNEL_REWRITTEN;
}

/* The place of the guardian's parameters, and its description. */
static enum fm_kernel_why place_params(const struct work *w, struct parts *p)
{
	const struct fm_kernel_attrs *a = &p->attrs;
	size_t bank = w->e->s[p->bank].size;
	unsigned base = a->bank ? a->base : (unsigned)FM_MIN(bank, (size_t)UINT16_MAX);
	unsigned guard_at = (a->bytes + 7u) & ~7u, end = guard_at + FM_GUARD_BYTES;
	bool far_base = w->guardian->sm < 90 && a->v2;

	if (base != (far_base ? FM_BASE_FAR : w->guardian->base) || bank != base + a->bytes)
		return FM_KERNEL_ATTRIBUTES;
	if (a->bank && (a->bank_symbol >= w->e->n_symbols ||
			       fm_elf_symbol(w->e, a->bank_symbol).st_shndx != p->bank))
		return FM_KERNEL_ATTRIBUTES;
	p->change.v2 = a->v2 || end > FM_PARAMS_V1;
	/* Code contains the places of its parameters. */
	if (end > FM_PARAMS_MAX || (p->change.v2 && !a->v2 && w->guardian->sm < 90))
		return FM_KERNEL_PARAMS;
	if (a->max_regs && a->max_regs < w->guardian->regs)
		return FM_KERNEL_REGISTERS;
	p->change.guard_at = (uint16_t)guard_at;
	p->change.base = (uint16_t)base;
	p->change.bank_symbol = w->x.symbol[p->bank];
	p->change.barriers = w->e->abi >= 8 && !a->barriers;
	return FM_KERNEL_REWRITTEN;
}

/* The counts in headers: the size of the code, registers, and barriers in old images. */
static bool write_counts(struct work *w, const struct parts *p, struct fm_kernel *k)
{
	Elf64_Shdr *text = &w->e->s[p->text].h;
	uint8_t *info = fm_elf_own(w->e, w->x.general), *symbols = fm_elf_own(w->e, w->e->symtab);
	unsigned least = w->guardian->regs;

	if (!info || !symbols)
		return false;
	k->regs[0] = (uint16_t)fm_get32(info + w->x.regs[p->symbol]);
	k->regs[1] = FM_MAX(k->regs[0], w->guardian->regs);
	fm_put32(info + w->x.regs[p->symbol], k->regs[1]);
	fm_put64(symbols + p->symbol * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_size),
		fm_elf_size(&w->e->s[p->text]));
	if (text->sh_info >> 24 && text->sh_info >> 24 < least)
		text->sh_info = (text->sh_info & 0xffffff) | least << 24;
	if (w->e->abi < 8 && !((text->sh_flags >> 20) & 0x7f))
		text->sh_flags |= 1 << 20;
	return true;
}

static bool write_parts(struct work *w, struct parts *p, struct fm_kernel *k)
{
	struct fm_buf tail = {0}, info = {0}, bank = {0};
	const struct fm_section *s = w->e->s;
	struct fm_attr_change *c = &p->change;
	uint8_t first[FM_SASS_BYTES];
	size_t start = fm_sass_guard(s[p->text].data, s[p->text].size, w->guardian,
		c->base + c->guard_at, k->early, first, &tail);

	for (unsigned i = 0; i < w->guardian->n_exits && i < FM_ARRAY_LEN(c->exits); i++)
		c->exits[c->n_exits++] =
			(uint32_t)(start + w->guardian->exits[i] * sizeof(uint64_t));
	fm_attr_write(s[p->info].data, s[p->info].size, &p->attrs, c, &info);
	fm_buf_add(&bank, s[p->bank].data, s[p->bank].size);
	fm_buf_add(&bank, NULL, c->base + c->guard_at + FM_GUARD_BYTES - s[p->bank].size);
	if (tail.failed || info.failed || bank.failed) {
		fm_buf_free(&tail);
		fm_buf_free(&info);
		fm_buf_free(&bank);
		return false;
	}
	fm_elf_grow(w->e, p->text, first, &tail);
	fm_elf_replace(w->e, p->info, &info);
	fm_elf_replace(w->e, p->bank, &bank);
	return write_counts(w, p, k);
}

static enum fm_kernel_why rewrite(struct work *w, unsigned symbol, struct fm_kernel *k)
{
	Elf64_Sym s = fm_elf_symbol(w->e, symbol);
	struct parts p = {.symbol = symbol};
	enum fm_kernel_why why = find_parts(w, &s, &p);

	if (why)
		return why;
	why = fm_attr_read(w->e->s[p.info].data, w->e->s[p.info].size, &p.attrs);
	k->traits = p.attrs.traits;
	if (!why)
		why = look_at_code(w, &p, k);
	if (!why)
		why = place_params(w, &p);
	if (why) {
		free(p.attrs.params);
		return why;
	}
	k->n_params = p.attrs.n_params;
	k->params = p.attrs.params;
	k->param_bytes = p.attrs.bytes;
	k->guard_at = p.change.guard_at;
	k->early = fm_guardian_waits(w->guardian) && !(k->traits & FM_KERNEL_OVERLAPS);
	if (!write_parts(w, &p, k))
		w->no_memory = true;
	return why;
}

static enum fm_image_why rewrite_all(struct work *w, struct fm_image *out)
{
	const struct fm_elf *e = w->e;
	unsigned n = 0;

	for (unsigned i = 1; i < e->n_symbols; i++) {
		Elf64_Sym s = fm_elf_symbol(e, i);

		n += fm_elf_is_kernel(&s);
	}
	out->kernel = calloc(n + 1, sizeof(*out->kernel));
	if (!out->kernel)
		return FM_IMAGE_MEMORY;
	for (unsigned i = 1; i < e->n_symbols && !w->no_memory; i++) {
		Elf64_Sym s = fm_elf_symbol(e, i);
		struct fm_kernel *k = &out->kernel[out->n];

		if (!fm_elf_is_kernel(&s))
			continue;
		k->name = strdup(fm_elf_name(e, &s));
		if (!k->name)
			return FM_IMAGE_MEMORY;
		out->n++;
		k->why = rewrite(w, i, k);
		out->n_rewritten += k->why == FM_KERNEL_REWRITTEN;
	}
	if (w->no_memory)
		return FM_IMAGE_MEMORY;
	return out->n_rewritten ? FM_IMAGE_OK : FM_IMAGE_NO_KERNEL;
}

static enum fm_image_why write_verified(
	const struct work *w, const void *in, size_t len, struct fm_image *out)
{
	struct fm_buf made = {0};
	struct fm_elf was;
	enum fm_image_why why = fm_elf_write(w->e, &made);

	if (!why)
		why = fm_elf_read(in, len, &was);
	if (!why) {
		if (!fm_cubin_verify(&was, made.data, made.size, w->guardian, out->kernel))
			why = FM_IMAGE_VERIFY;
		fm_elf_free(&was);
	}
	if (why) {
		fm_buf_free(&made);
		return why;
	}
	out->data = made.data;
	out->size = made.size;
	return FM_IMAGE_OK;
}

enum fm_image_why fm_cubin_rewrite(const void *in, size_t len, struct fm_image *out)
{
	struct fm_elf e;
	struct work w = {.e = &e};
	enum fm_image_why why = fm_elf_read(in, len, &e);

	out->sm = e.sm;
	if (why)
		return why;
	w.guardian = fm_guardian_for(e.sm);
	why = w.guardian ? fm_index_make(&e, &w.x) : FM_IMAGE_DEVICE;
	if (!why)
		why = rewrite_all(&w, out);
	if (!why)
		why = write_verified(&w, in, len, out);
	fm_index_free(&w.x);
	fm_elf_free(&e);
	return why;
}
