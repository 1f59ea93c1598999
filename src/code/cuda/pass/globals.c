/* SPDX-License-Identifier: Apache-2.0 */
/* What the variables of an image take of a device. Nothing is refused for what is new in an image:
 * only the headers of its sections are read. */
#include "code/cuda/elf.h"
#include "code/cuda/fatbin.h"
#include "code/cuda/ptx_scan.h"
#include "ptx.h"

#define MACHINE_CUDA 190
/* Sections of variables; the constant bank of a kernel's parameters is no such. */
#define GLOBAL   ".nv.global"
#define CONSTANT ".nv.constant3"

static bool is_of_variables(const char *name, size_t most)
{
	size_t n = strnlen(name, most);

	return n < most && (!strncmp(name, GLOBAL, strlen(GLOBAL)) || !strcmp(name, CONSTANT));
}

static Elf64_Shdr section(const uint8_t *in, const Elf64_Ehdr *h, unsigned i)
{
	Elf64_Shdr s;

	memcpy(&s, in + h->e_shoff + i * sizeof(s), sizeof(s));
	return s;
}

static bool elf_globals(const uint8_t *in, size_t len, uint64_t *bytes)
{
	Elf64_Shdr s, names;
	Elf64_Ehdr h;

	if (len < sizeof(h) || memcmp(in, ELFMAG, SELFMAG))
		return false;
	memcpy(&h, in, sizeof(h));
	if (h.e_machine != MACHINE_CUDA || h.e_ident[EI_CLASS] != ELFCLASS64 ||
		h.e_shentsize != sizeof(s) || h.e_shstrndx >= h.e_shnum ||
		!fm_within(h.e_shoff, (uint64_t)h.e_shnum * sizeof(s), len))
		return false;
	names = section(in, &h, h.e_shstrndx);
	if (!fm_within(names.sh_offset, names.sh_size, len))
		return false;
	*bytes = 0;
	for (unsigned i = 1; i < h.e_shnum; i++) {
		s = section(in, &h, i);
		if (s.sh_name >= names.sh_size || !(s.sh_flags & SHF_ALLOC) ||
			!is_of_variables((const char *)in + names.sh_offset + s.sh_name,
				names.sh_size - s.sh_name))
			continue;
		if (__builtin_add_overflow(*bytes, s.sh_size, bytes))
			return false;
	}
	return true;
}

static bool plain_globals(const void *image, size_t size, uint64_t *bytes)
{
	return fm_is_ptx(image, size) ? fm_ptx_globals(image, size, bytes)
				      : elf_globals(image, size, bytes);
}

bool fm_image_globals(const void *image, size_t size, unsigned sm, bool unpack, uint64_t *bytes)
{
	struct fm_fatbin_pick pick;
	bool known;

	if (size > FM_IMAGE_MAX)
		return false;
	if (!fm_is_fatbin(image, size))
		return plain_globals(image, size, bytes);
	if ((!unpack && fm_fatbin_is_packed(image, size, sm)) ||
		fm_fatbin_pick(image, size, sm, &pick))
		return false;
	known = plain_globals(pick.data, pick.size, bytes);
	free(pick.unpacked);
	return known;
}
