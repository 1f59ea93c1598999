/* SPDX-License-Identifier: Apache-2.0 */
/* An executable ELF of CUDA. It is checked as a whole, and written again with some sections
 * changed. */
#pragma once
#include "bytes.h"
#include <elf.h>

/* NVIDIA's own types of sections. */
enum {
	FM_SHT_CUDA_INFO = 0x70000000,
	FM_SHT_CUDA_CALLGRAPH = 0x70000001,
	FM_SHT_CUDA_PROTOTYPE = 0x70000002,
	FM_SHT_CUDA_RELOCINFO = 0x7000000b,
	FM_SHT_CUDA_COMPAT = 0x70000086
};
/* In a symbol's st_other: it is a kernel. */
#define FM_STO_CUDA_ENTRY 0x10

struct fm_section {
	Elf64_Shdr h; /* as read; offset and size are computed again when it is written */
	const char *name;
	const uint8_t *data; /* NULL for sections without bytes in the file */
	size_t size;
	struct fm_buf own; /* holds `data` if that has been changed; holds the appended bytes if
			      `grown` */
	bool grown;
	uint8_t first[16]; /* the bytes that it begins with then */
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

/* After any result but FM_IMAGE_OK it holds only `abi` and `sm`, if they were read. The input has
 * to outlive it. */
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

/* A copy of a section's bytes that may be changed in place. NULL: out of memory, or the section is
 * empty. */
uint8_t *fm_elf_own(struct fm_elf *e, unsigned section);
/* Gives a section these bytes. Takes the buffer over. */
void fm_elf_replace(struct fm_elf *e, unsigned section, struct fm_buf *with);

/* Lets a section begin with these bytes, and end with those of the buffer, which it takes over. */
void fm_elf_grow(struct fm_elf *e, unsigned section, const uint8_t first[16], struct fm_buf *tail);
/* The size with which it will be written. */
static inline size_t fm_elf_size(const struct fm_section *s)
{
	return s->size + (s->grown ? s->own.size : 0);
}

/* Does a segment cover a section? A segment without bytes covers sections without bytes in the
 * file. */
bool fm_elf_covers(const Elf64_Phdr *p, const Elf64_Shdr *h);

static inline Elf64_Phdr fm_elf_segment(const struct fm_elf *e, unsigned i)
{
	Elf64_Phdr p;

	memcpy(&p, e->in + e->h.e_phoff + i * sizeof(p), sizeof(p));
	return p;
}

/* Writes the sections in their order, then their headers, then the segments, which cover the same
 * sections as before. */
enum fm_image_why fm_elf_write(const struct fm_elf *e, struct fm_buf *out);
