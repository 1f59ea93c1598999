/* SPDX-License-Identifier: Apache-2.0 */
/* An executable ELF of CUDA, checked as a whole, and laid anew with some sections changed. */
#pragma once
#include "bytes.h"
#include <elf.h>

/* Types of sections that are NVIDIA's own. */
enum {
	FM_SHT_CUDA_INFO = 0x70000000,
	FM_SHT_CUDA_CALLGRAPH = 0x70000001,
	FM_SHT_CUDA_PROTOTYPE = 0x70000002,
	FM_SHT_CUDA_RELOCINFO = 0x7000000b,
	FM_SHT_CUDA_COMPAT = 0x70000086
};
/* In a symbol's st_other: a kernel. */
#define FM_STO_CUDA_ENTRY 0x10

struct fm_section {
	Elf64_Shdr h; /* as read; offset and size are made anew when it is written */
	const char *name;
	const uint8_t *data; /* NULL of those without bytes in the file */
	size_t size;
	struct fm_buf own; /* holds `data` if it has been changed; what is appended, if `grown` */
	bool grown;
	uint8_t first[16]; /* what it begins with then */
};

struct fm_elf {
	const uint8_t *in;
	size_t len;
	Elf64_Ehdr h;
	unsigned abi, sm;
	unsigned n;
	struct fm_section *s;
	unsigned symtab;
	unsigned n_symbols;
	const uint8_t *symbols;
	const char *strings;
};

/* After anything but FM_IMAGE_OK it holds nothing but `abi` and `sm`, as far as they were read. The
 * input has to outlive it. */
enum fm_image_why fm_elf_read(const void *in, size_t len, struct fm_elf *e);
void fm_elf_free(struct fm_elf *e);

static inline Elf64_Sym fm_elf_symbol(const struct fm_elf *e, unsigned i)
{
	Elf64_Sym s;

	memcpy(&s, e->symbols + (size_t)i * sizeof(s), sizeof(s));
	return s;
}
static inline const char *fm_elf_name(const struct fm_elf *e, const Elf64_Sym *s)
{
	return e->strings + s->st_name;
}
static inline bool fm_elf_is_kernel(const Elf64_Sym *s)
{
	return ELF64_ST_TYPE(s->st_info) == STT_FUNC && (s->st_other & FM_STO_CUDA_ENTRY) &&
	       s->st_shndx != SHN_UNDEF;
}

/* A copy of a section's bytes that may be changed in place; NULL without memory, or of an empty
 * one. */
uint8_t *fm_elf_own(struct fm_elf *e, unsigned section);
/* Gives a section these bytes, and takes the buffer. */
void fm_elf_replace(struct fm_elf *e, unsigned section, struct fm_buf *with);

/* Lets a section begin with these bytes, and end with those of the buffer, which it takes. */
void fm_elf_grow(struct fm_elf *e, unsigned section, const uint8_t first[16], struct fm_buf *tail);
/* The size that it will be written with. */
static inline size_t fm_elf_size(const struct fm_section *s)
{
	return s->size + (s->grown ? s->own.size : 0);
}

/* Whether a segment covers a section; one without bytes covers those that have none in the file. */
bool fm_elf_covers(const Elf64_Phdr *p, const Elf64_Shdr *h);

static inline Elf64_Phdr fm_elf_segment(const struct fm_elf *e, unsigned i)
{
	Elf64_Phdr p;

	memcpy(&p, e->in + e->h.e_phoff + i * sizeof(p), sizeof(p));
	return p;
}

/* Sections in their order, then their headers, then the segments, which cover what they covered. */
enum fm_image_why fm_elf_write(const struct fm_elf *e, struct fm_buf *out);
