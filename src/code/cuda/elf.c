/* SPDX-License-Identifier: Apache-2.0 */
#include "elf.h"
#include "base/cleanup.h"
#include "base/util.h"

#define MACHINE_CUDA 190
#define OSABI_7      0x33
#define OSABI_8      0x41
#define ALIGN_MAX    4096
#define SEGMENTS_MAX 64

/* The known versions, and where each has the architecture and the bit for 64-bit addresses. */
static enum fm_image_why read_version(struct fm_elf *e)
{
	uint32_t flags = e->h.e_flags;

	e->abi = e->h.e_ident[EI_ABIVERSION];
	if (e->abi == 7 && e->h.e_ident[EI_OSABI] == OSABI_7) {
		e->sm = flags & 0xff;
		return flags & 0x400 ? FM_IMAGE_OK : FM_IMAGE_UNKNOWN;
	}
	if (e->abi == 8 && e->h.e_ident[EI_OSABI] == OSABI_8) {
		e->sm = (flags >> 8) & 0xff;
		return (flags & 0xff) == 0x04 ? FM_IMAGE_OK : FM_IMAGE_UNKNOWN;
	}
	return FM_IMAGE_UNKNOWN;
}

static enum fm_image_why read_header(struct fm_elf *e)
{
	const Elf64_Ehdr *h = &e->h;
	enum fm_image_why why;

	if (e->len < sizeof(*h) || memcmp(e->in, ELFMAG, SELFMAG))
		return FM_IMAGE_FOREIGN;
	memcpy(&e->h, e->in, sizeof(*h));
	if (h->e_machine != MACHINE_CUDA || h->e_ident[EI_CLASS] != ELFCLASS64 ||
		h->e_ident[EI_DATA] != ELFDATA2LSB)
		return FM_IMAGE_FOREIGN;
	why = read_version(e);
	if (why)
		return why;
	if (h->e_type != ET_EXEC)
		return FM_IMAGE_RELOCATABLE;
	if (h->e_ehsize != sizeof(*h) || h->e_shentsize != sizeof(Elf64_Shdr) ||
		h->e_phnum > SEGMENTS_MAX || (h->e_phnum && h->e_phentsize != sizeof(Elf64_Phdr)) ||
		!h->e_shnum || h->e_shstrndx >= h->e_shnum)
		return FM_IMAGE_BROKEN;
	if (!fm_within(h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr), e->len) ||
		!fm_within(h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr), e->len))
		return FM_IMAGE_BROKEN;
	return FM_IMAGE_OK;
}

static bool known_type(uint32_t type)
{
	static const uint32_t known[] = {SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS,
		SHT_NOTE, SHT_REL, FM_SHT_CUDA_INFO, FM_SHT_CUDA_CALLGRAPH, FM_SHT_CUDA_PROTOTYPE,
		FM_SHT_CUDA_RELOCINFO, FM_SHT_CUDA_COMPAT};

	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++)
		if (type == known[i])
			return true;
	return false;
}

static enum fm_image_why read_section(struct fm_elf *e, unsigned i)
{
	struct fm_section *s = &e->s[i];

	memcpy(&s->h, e->in + e->h.e_shoff + i * sizeof(s->h), sizeof(s->h));
	if (!i)
		return s->h.sh_type == SHT_NULL ? FM_IMAGE_OK : FM_IMAGE_BROKEN;
	if (!known_type(s->h.sh_type))
		return FM_IMAGE_UNKNOWN;
	if (s->h.sh_addralign > ALIGN_MAX || (s->h.sh_addralign & (s->h.sh_addralign - 1)))
		return FM_IMAGE_BROKEN;
	if (s->h.sh_type == SHT_NOBITS)
		return s->h.sh_offset <= e->len ? FM_IMAGE_OK : FM_IMAGE_BROKEN;
	if (!fm_within(s->h.sh_offset, s->h.sh_size, e->len) ||
		(s->h.sh_size && s->h.sh_offset < sizeof(e->h)))
		return FM_IMAGE_BROKEN;
	s->data = e->in + s->h.sh_offset;
	s->size = s->h.sh_size;
	return FM_IMAGE_OK;
}

static bool is_strings(const struct fm_section *s)
{
	return s->h.sh_type == SHT_STRTAB && s->size && !s->data[s->size - 1];
}

static enum fm_image_why read_symbols(struct fm_elf *e)
{
	const struct fm_section *tab = NULL;

	for (unsigned i = 1; i < e->n; i++) {
		if (e->s[i].h.sh_type != SHT_SYMTAB)
			continue;
		if (tab)
			return FM_IMAGE_UNKNOWN;
		tab = &e->s[i];
		e->symtab = i;
	}
	if (!tab)
		return FM_IMAGE_NO_KERNEL;
	if (tab->h.sh_link >= e->n || !is_strings(&e->s[tab->h.sh_link]) ||
		tab->size % sizeof(Elf64_Sym) || tab->h.sh_entsize != sizeof(Elf64_Sym))
		return FM_IMAGE_BROKEN;
	e->symbols = tab->data;
	e->n_symbols = (unsigned)(tab->size / sizeof(Elf64_Sym));
	e->strings = (const char *)e->s[tab->h.sh_link].data;
	for (unsigned i = 0; i < e->n_symbols; i++) {
		Elf64_Sym s = fm_elf_symbol(e, i);

		if (s.st_name >= e->s[tab->h.sh_link].size ||
			(s.st_shndx >= e->n && s.st_shndx < SHN_LORESERVE))
			return FM_IMAGE_BROKEN;
	}
	return FM_IMAGE_OK;
}

static enum fm_image_why check_relocations(const struct fm_elf *e)
{
	for (unsigned i = 1; i < e->n; i++) {
		const struct fm_section *s = &e->s[i];
		size_t step = s->h.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);

		if (s->h.sh_type != SHT_RELA && s->h.sh_type != SHT_REL)
			continue;
		if (s->h.sh_entsize != step || s->size % step || !s->h.sh_info ||
			s->h.sh_info >= e->n || s->h.sh_link != e->symtab)
			return FM_IMAGE_BROKEN;
		for (size_t at = 0; at < s->size; at += step)
			if (ELF64_R_SYM(fm_get64(s->data + at + 8)) >= e->n_symbols)
				return FM_IMAGE_BROKEN;
	}
	return FM_IMAGE_OK;
}

struct place {
	uint64_t at;
	uint64_t size;
	unsigned section;
};

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1; /* empty sections come before one that begins at
						      the same place */
	return x->section < y->section ? -1 : 1;
}

/* The sections in the order of the file, without the first one, which is empty by definition. NULL:
 * out of memory.
 */
static struct place *in_order(const struct fm_elf *e)
{
	struct place *p = calloc(e->n, sizeof(*p));

	for (unsigned i = 1; p && i < e->n; i++) {
		bool none = e->s[i].h.sh_type == SHT_NOBITS;

		p[i - 1] = (struct place){e->s[i].h.sh_offset, none ? 0 : e->s[i].h.sh_size, i};
	}
	if (p)
		qsort(p, e->n - 1, sizeof(*p), by_place);
	return p;
}

static enum fm_image_why check_overlaps(const struct fm_elf *e)
{
	FM_CLEAN_FREE struct place *p = in_order(e);

	if (!p)
		return FM_IMAGE_MEMORY;
	for (unsigned i = 0; i + 2 < e->n; i++)
		if (p[i].at + p[i].size > p[i + 1].at)
			return FM_IMAGE_BROKEN;
	return FM_IMAGE_OK;
}

static enum fm_image_why read_sections(struct fm_elf *e)
{
	const struct fm_section *names;
	enum fm_image_why why;

	e->s = calloc(e->h.e_shnum, sizeof(*e->s));
	if (!e->s)
		return FM_IMAGE_MEMORY;
	e->n = e->h.e_shnum;
	for (unsigned i = 0; i < e->n; i++) {
		why = read_section(e, i);
		if (why)
			return why;
	}
	names = &e->s[e->h.e_shstrndx];
	if (!is_strings(names))
		return FM_IMAGE_BROKEN;
	for (unsigned i = 0; i < e->n; i++) {
		if (e->s[i].h.sh_name >= names->size)
			return FM_IMAGE_BROKEN;
		e->s[i].name = (const char *)names->data + e->s[i].h.sh_name;
	}
	return check_overlaps(e);
}

enum fm_image_why fm_elf_read(const void *in, size_t len, struct fm_elf *e)
{
	enum fm_image_why why;

	*e = (struct fm_elf){.in = in, .len = len};
	why = read_header(e);
	if (!why)
		why = read_sections(e);
	if (!why)
		why = read_symbols(e);
	if (!why)
		why = check_relocations(e);
	if (why)
		fm_elf_free(e);
	return why;
}

void fm_elf_free(struct fm_elf *e)
{
	for (unsigned i = 0; i < e->n; i++)
		fm_buf_free(&e->s[i].own);
	free(e->s);
	e->s = NULL;
	e->n = 0;
}

uint8_t *fm_elf_own(struct fm_elf *e, unsigned section)
{
	struct fm_section *s = &e->s[section];

	if (!s->own.data) {
		fm_buf_add(&s->own, s->data, s->size);
		if (s->own.failed || !s->size)
			return NULL;
		s->data = s->own.data;
		if (section == e->symtab)
			e->symbols = s->data;
	}
	return s->own.data;
}

void fm_elf_replace(struct fm_elf *e, unsigned section, struct fm_buf *with)
{
	struct fm_section *s = &e->s[section];

	fm_buf_free(&s->own);
	s->own = *with;
	s->data = s->own.data;
	s->size = s->own.size;
	*with = (struct fm_buf){0};
}

void fm_elf_grow(struct fm_elf *e, unsigned section, const uint8_t first[16], struct fm_buf *tail)
{
	struct fm_section *s = &e->s[section];

	s->grown = true;
	memcpy(s->first, first, sizeof(s->first));
	s->own = *tail;
	*tail = (struct fm_buf){0};
}

static void align(struct fm_buf *out, uint64_t to)
{
	if (to > 1 && out->size % to)
		fm_buf_add(out, NULL, to - out->size % to);
}

/* Computes the place of each section: h.sh_offset and h.sh_size of `heads`. */
static enum fm_image_why write_sections(
	const struct fm_elf *e, Elf64_Shdr *heads, struct fm_buf *out)
{
	FM_CLEAN_FREE struct place *p = in_order(e);

	if (!p)
		return FM_IMAGE_MEMORY;
	for (unsigned i = 0; i < e->n; i++)
		heads[i] = e->s[i].h;
	for (unsigned i = 0; i + 1 < e->n; i++) {
		const struct fm_section *s = &e->s[p[i].section];
		Elf64_Shdr *h = &heads[p[i].section];

		align(out, h->sh_addralign);
		h->sh_offset = out->size;
		if (h->sh_type == SHT_NOBITS)
			continue;
		h->sh_size = fm_elf_size(s);
		fm_buf_add(out, s->data, s->size);
		if (!s->grown)
			continue;
		fm_buf_add(out, s->own.data, s->own.size);
		if (!out->failed)
			memcpy(out->data + h->sh_offset, s->first, sizeof(s->first));
	}
	return FM_IMAGE_OK;
}

bool fm_elf_covers(const Elf64_Phdr *p, const Elf64_Shdr *was)
{
	bool none = was->sh_type == SHT_NOBITS;

	if (was->sh_type == SHT_NULL || !(was->sh_flags & SHF_ALLOC))
		return false;
	if (!p->p_filesz)
		return none && was->sh_offset == p->p_offset;
	return !none && was->sh_size && was->sh_offset >= p->p_offset &&
	       was->sh_offset + was->sh_size <= p->p_offset + p->p_filesz;
}

static enum fm_image_why write_segment(
	const struct fm_elf *e, const Elf64_Shdr *heads, uint64_t segments_at, Elf64_Phdr *p)
{
	uint64_t from = UINT64_MAX, to = 0, beyond;

	if (!fm_within(p->p_offset, p->p_filesz, e->len) || p->p_memsz < p->p_filesz)
		return FM_IMAGE_BROKEN;
	beyond = p->p_memsz - p->p_filesz;
	if (p->p_offset == e->h.e_phoff) {
		p->p_offset = segments_at; /* the table of segments itself */
		return p->p_filesz == e->h.e_phnum * sizeof(*p) ? FM_IMAGE_OK : FM_IMAGE_UNKNOWN;
	}
	for (unsigned i = 1; i < e->n; i++) {
		uint64_t size = heads[i].sh_type == SHT_NOBITS ? 0 : heads[i].sh_size;

		if (!fm_elf_covers(p, &e->s[i].h))
			continue;
		from = FM_MIN(from, heads[i].sh_offset);
		to = FM_MAX(to, heads[i].sh_offset + size);
	}
	if (from == UINT64_MAX)
		return p->p_filesz ? FM_IMAGE_UNKNOWN : FM_IMAGE_OK;
	p->p_offset = from;
	p->p_filesz = to - from;
	p->p_memsz = p->p_filesz + beyond;
	return FM_IMAGE_OK;
}

enum fm_image_why fm_elf_write(const struct fm_elf *e, struct fm_buf *out)
{
	FM_CLEAN_FREE Elf64_Shdr *heads = calloc(e->n, sizeof(*heads));
	Elf64_Ehdr h = e->h;
	enum fm_image_why why;
	uint64_t size = sizeof(h) + sizeof(*heads);

	if (!heads)
		return FM_IMAGE_MEMORY;
	for (unsigned i = 1; i < e->n; i++)
		size += fm_elf_size(&e->s[i]) + e->s[i].h.sh_addralign + sizeof(*heads);
	fm_buf_reserve(out, size + h.e_phnum * sizeof(Elf64_Phdr));
	fm_buf_add(out, e->in, sizeof(h));
	why = write_sections(e, heads, out);
	align(out, 8);
	h.e_shoff = out->size;
	fm_buf_add(out, heads, e->n * sizeof(*heads));
	if (h.e_phnum)
		h.e_phoff = out->size;
	for (unsigned i = 0; i < h.e_phnum && !why; i++) {
		Elf64_Phdr p = fm_elf_segment(e, i);

		why = write_segment(e, heads, h.e_phoff, &p);
		fm_buf_add(out, &p, sizeof(p));
	}
	if (out->failed)
		return FM_IMAGE_MEMORY;
	memcpy(out->data, &h, sizeof(h));
	return why;
}
