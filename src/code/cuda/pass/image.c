/* SPDX-License-Identifier: Apache-2.0 */
#include "code/cuda/image.h"
#include "base/util.h"
#include "code/cuda/bytes.h"
#include "code/cuda/fatbin.h"
#include "cubin.h"
#include "ptx.h"
#include <fnmatch.h>

static const char *const image_reasons[FM_IMAGE_WHYS] = {
	[FM_IMAGE_OK] = "rewritten",
	[FM_IMAGE_FOREIGN] = "not an image of CUDA",
	[FM_IMAGE_BROKEN] = "broken",
	[FM_IMAGE_LARGE] = "too large",
	[FM_IMAGE_NO_CODE] = "nothing for this device",
	[FM_IMAGE_AMBIGUOUS] = "several for this device",
	[FM_IMAGE_COMPRESSION] = "unknown compression",
	[FM_IMAGE_DEVICE] = "no guardian for this architecture",
	[FM_IMAGE_RELOCATABLE] = "not linked yet",
	[FM_IMAGE_LAUNCHES] = "kernels launch kernels",
	[FM_IMAGE_UNKNOWN] = "unknown version, section or flag",
	[FM_IMAGE_TEXT] = "PTX not understood",
	[FM_IMAGE_NO_KERNEL] = "no kernel that could be rewritten",
	[FM_IMAGE_VERIFY] = "result not as it should be",
	[FM_IMAGE_MEMORY] = "out of memory",
};

static const char *const kernel_reasons[FM_KERNEL_WHYS] = {
	[FM_KERNEL_REWRITTEN] = "rewritten",
	[FM_KERNEL_SECTIONS] = "sections not as expected",
	[FM_KERNEL_ATTRIBUTES] = "attributes not known or contradictory",
	[FM_KERNEL_PARAMS] = "no room for more parameters",
	[FM_KERNEL_ENTRY] = "unusual first instruction",
	[FM_KERNEL_RELOCATED] = "first instruction is relocated",
	[FM_KERNEL_LOOPS] = "branches to its first instruction",
	[FM_KERNEL_ADDRESS] = "its address is taken",
	[FM_KERNEL_REGISTERS] = "held to too few registers",
};

static const char *const loop_reasons[FM_LOOP_WHYS] = {
	[FM_LOOP_UNASKED] = "not asked for",
	[FM_LOOP_POLLED] = "polled",
	[FM_LOOP_CODE] = "machine code",
	[FM_LOOP_GRID] = "all blocks or none",
	[FM_LOOP_OVERLAPS] = "others may begin early",
	[FM_LOOP_NONE] = "no loop",
	[FM_LOOP_TOGETHER] = "threads wait for each other",
	[FM_LOOP_SHARED] = "shared memory",
	[FM_LOOP_LOCAL] = "local memory",
	[FM_LOOP_PLACE] = "reads where or when it runs",
	[FM_LOOP_LARGE] = "too large",
	[FM_LOOP_TEXT] = "not understood",
};

static const char *const kill_reasons[FM_KILL_WHYS] = {
	[FM_KILL_UNASKED] = "not asked for",
	[FM_KILL_ABLE] = "able",
	[FM_KILL_CODE] = "machine code",
	[FM_KILL_LOOPS] = "stops in its loops",
	[FM_KILL_GRID] = "all blocks or none",
	[FM_KILL_OVERLAPS] = "others may begin early",
	[FM_KILL_NONE] = "no loop",
	[FM_KILL_ATOMICS] = "atomics",
	[FM_KILL_ORDERED] = "fences",
	[FM_KILL_ASYNC] = "asynchronous copies",
	[FM_KILL_BARRIERS] = "barriers of some threads",
	[FM_KILL_UNEVEN] = "threads part in its loops",
	[FM_KILL_DYNAMIC] = "addresses from memory",
	[FM_KILL_APPROX] = "not the same each time",
	[FM_KILL_ADDRESS] = "unknown addresses",
	[FM_KILL_LARGE] = "too large",
	[FM_KILL_TEXT] = "not understood",
};

const struct fm_trait fm_kernel_trait[FM_KERNEL_TRAITS] = {
	{"cluster", true,
		"blocks of a cluster read each other's shared memory, and wait for each other"},
	{"overlaps", false, "what may begin early looks when all in front have looked"},
	{"waits", true, "a block may spin until another has written"},
	{"calls", true, "what it calls may do any of these"},
	{"setmaxreg", false, "the guardian runs before, with the registers of the launch"},
};

const char *fm_image_reason(enum fm_image_why why)
{
	return (unsigned)why < FM_IMAGE_WHYS ? image_reasons[why] : "?";
}

const char *fm_kernel_reason(enum fm_kernel_why why)
{
	return (unsigned)why < FM_KERNEL_WHYS ? kernel_reasons[why] : "?";
}

const char *fm_loop_reason(enum fm_loop_why why)
{
	return (unsigned)why < FM_LOOP_WHYS ? loop_reasons[why] : "?";
}

const char *fm_kill_reason(enum fm_kill_why why)
{
	return (unsigned)why < FM_KILL_WHYS ? kill_reasons[why] : "?";
}

/* The longest pattern; the rest of a longer one is ignored. */
#define PATTERN_MAX 256

bool fm_listed(const char *list, const char *name)
{
	char pattern[PATTERN_MAX];

	while (list && *list) {
		size_t n = strcspn(list, ":");

		if (n && n < sizeof(pattern)) {
			memcpy(pattern, list, n);
			pattern[n] = '\0';
			if (!fnmatch(pattern, name, 0))
				return true;
		}
		list += n + (list[n] != '\0');
	}
	return false;
}

bool fm_named(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (list && *list) {
		size_t n = strcspn(list, ":");

		if (n == len && !memcmp(list, name, n))
			return true;
		list += n + (list[n] != '\0');
	}
	return false;
}

enum fm_guard_mode fm_kernel_mode(unsigned traits)
{
	for (unsigned i = 0; i < FM_KERNEL_TRAITS; i++)
		if ((traits & 1u << i) && fm_kernel_trait[i].grid)
			return FM_GUARD_GRID;
	return FM_GUARD_BLOCK;
}

/* No kernel of machine code can be left in a loop, or killed. */
static enum fm_image_why rewrite_code(
	const void *image, size_t size, const struct fm_image_wishes *wishes, struct fm_image *out)
{
	enum fm_image_why why = fm_cubin_rewrite(image, size, out);

	for (unsigned i = 0; i < out->n; i++) {
		struct fm_kernel *k = &out->kernel[i];

		if (!k->why && fm_listed(wishes->loops, k->name))
			k->loops = FM_LOOP_CODE;
		if (!k->why && fm_named(wishes->kill, k->name))
			k->kill = FM_KILL_CODE;
	}
	return why;
}

static enum fm_image_why rewrite_plain(const void *image, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out)
{
	if (size >= SELFMAG && !memcmp(image, ELFMAG, SELFMAG))
		return rewrite_code(image, size, wishes, out);
	if (fm_is_ptx(image, size))
		return fm_ptx_rewrite(image, size, sm, wishes, out);
	return FM_IMAGE_FOREIGN;
}

static enum fm_image_why rewrite_fatbin(const void *image, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out)
{
	struct fm_fatbin_pick pick;
	enum fm_image_why why = fm_fatbin_pick(image, size, sm, &pick);

	out->sm = pick.sm;
	if (!why)
		why = pick.text
			      ? fm_ptx_rewrite((const char *)pick.data, pick.size, sm, wishes, out)
			      : rewrite_code(pick.data, pick.size, wishes, out);
	free(pick.unpacked);
	return why;
}

enum fm_image_why fm_image_rewrite_as(const void *image, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out)
{
	*out = (struct fm_image){0};
	if (size > FM_IMAGE_MAX)
		out->why = FM_IMAGE_LARGE;
	else if (fm_is_fatbin(image, size))
		out->why = rewrite_fatbin(image, size, sm, wishes, out);
	else
		out->why = rewrite_plain(image, size, sm, wishes, out);
	return out->why;
}

enum fm_image_why fm_image_rewrite_loops(
	const void *image, size_t size, unsigned sm, const char *loops, struct fm_image *out)
{
	const struct fm_image_wishes wishes = {.loops = loops};

	return fm_image_rewrite_as(image, size, sm, &wishes, out);
}

enum fm_image_why fm_image_rewrite(
	const void *image, size_t size, unsigned sm, struct fm_image *out)
{
	return fm_image_rewrite_loops(image, size, sm, NULL, out);
}

enum fm_image_why fm_image_part(
	const void *image, size_t size, unsigned sm, const void **part, size_t *part_size)
{
	*part = image;
	*part_size = size;
	if (size > FM_IMAGE_MAX)
		return FM_IMAGE_LARGE;
	return fm_is_fatbin(image, size) ? fm_fatbin_entry(image, size, sm, part, part_size)
					 : FM_IMAGE_OK;
}

void fm_image_free(struct fm_image *image)
{
	for (unsigned i = 0; i < image->n; i++) {
		free(image->kernel[i].name);
		free(image->kernel[i].params);
	}
	free(image->kernel);
	free(image->data);
	*image = (struct fm_image){0};
}

/* Finds the end of what the headers describe. No more is read than they say. */
static size_t elf_extent(const uint8_t *p)
{
	Elf64_Ehdr h;
	uint64_t end;

	memcpy(&h, p, sizeof(h));
	if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shoff > FM_IMAGE_MAX ||
		h.e_phoff > FM_IMAGE_MAX)
		return 0;
	end = FM_MAX(h.e_shoff + (uint64_t)h.e_shnum * sizeof(Elf64_Shdr),
		h.e_phoff + (uint64_t)h.e_phnum * sizeof(Elf64_Phdr));
	for (unsigned i = 0; i < h.e_shnum; i++) {
		Elf64_Shdr s;

		memcpy(&s, p + h.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL)
			continue;
		if (!fm_within(s.sh_offset, s.sh_size, FM_IMAGE_MAX))
			return 0;
		end = FM_MAX(end, s.sh_offset + s.sh_size);
	}
	return end <= FM_IMAGE_MAX ? end : 0;
}

size_t fm_image_extent(const void **image)
{
	const uint8_t *p = *image;
	uint64_t size;

	/* Magic, version 1, the fatbin, and one more pointer. Version 2 lists several fatbins that
	 * are still to be linked. */
	if (fm_get32(p) == FM_FATBIN_WRAPPER) {
		uintptr_t inner = fm_get64(p + 8);

		if (fm_get32(p + 4) != 1 || !inner)
			return 0;
		p = (const uint8_t *)inner;
		if (fm_get32(p) != FM_FATBIN_MAGIC)
			return 0;
		*image = p;
	}
	if (fm_get32(p) == FM_FATBIN_MAGIC) {
		size = fm_get64(p + 8);
		return size <= FM_IMAGE_MAX - 16 ? (size_t)size + fm_get16(p + 6) : 0;
	}
	if (!memcmp(p, ELFMAG, SELFMAG))
		return elf_extent(p);
	size = strnlen((const char *)p, FM_IMAGE_MAX);
	return fm_is_ptx(p, size) ? size : 0;
}
