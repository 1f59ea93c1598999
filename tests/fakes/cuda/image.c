/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static bool grow(void *array, unsigned n, size_t size)
{
	void *more = reallocarray(*(void **)array, n + 1, size);

	if (!more)
		return false;
	*(void **)array = more;
	memset((char *)more + n * size, 0, size);
	return true;
}

struct fk_entry *fk_image_entry(struct fk_image *image, const char *name, size_t len)
{
	struct fk_entry *e;

	if (!grow(&image->entry, image->n, sizeof(*e)))
		return NULL;
	e = &image->entry[image->n++];
	e->name = strndup(name, len);
	return e->name ? e : NULL;
}

bool fk_image_variable(struct fk_image *image, const char *name, size_t len, size_t size)
{
	struct fk_variable *v;

	if (!grow(&image->variable, image->n_variables, sizeof(*v)))
		return false;
	v = &image->variable[image->n_variables++];
	v->name = strndup(name, len);
	v->size = size;
	return v->name;
}

bool fk_entry_param(struct fk_entry *e, unsigned at, unsigned size)
{
	if (!grow(&e->param, e->n_params, sizeof(*e->param)))
		return false;
	e->param[e->n_params++] = (struct fk_param){at, size};
	if (at + size > e->bytes)
		e->bytes = at + size;
	return true;
}

void fk_image_put(struct fk_image *image)
{
	if (!image || atomic_fetch_sub(&image->refs, 1) != 1)
		return;
	for (unsigned i = 0; i < image->n; i++) {
		free(image->entry[i].name);
		free(image->entry[i].param);
	}
	for (unsigned i = 0; i < image->n_variables; i++)
		free(image->variable[i].name);
	free(image->entry);
	free(image->variable);
	free(image);
}

/* --- fatbins --- */

#define FATBIN_MAGIC  0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u /* what nvcc puts around one; at +8 is where it is */
#define FATBIN_HEADER 16
#define FATBIN_ENTRY  64

enum { KIND_PTX = 1, KIND_ELF = 2 };
enum { PACKED_LZ4 = 0x2000, PACKED_ZSTD = 0x8000, EXACT = 0x100000 };

static uint64_t number(const unsigned char *at, unsigned bytes)
{
	uint64_t v = 0;

	memcpy(&v, at, bytes);
	return v;
}

/* How well an entry of a fatbin suits the device; 0: not. Machine code runs from its own minor
 * architecture on; text does on whatever is newer, and costs a compilation. */
static unsigned suits(const unsigned char *entry)
{
	unsigned kind = (unsigned)number(entry, 2), sm = (unsigned)number(entry + 28, 4);
	bool exact = number(entry + 40, 8) & EXACT;

	if (sm > FK_SM || (exact && sm != FK_SM))
		return 0;
	if (kind == KIND_ELF)
		return sm / 10 == FK_SM / 10 ? 100000 + 2 * sm + exact : 0;
	return kind == KIND_PTX ? 2 * sm + exact : 0;
}

static fm_cu_result read_plain(const unsigned char *data, size_t size, struct fk_image *out);

static fm_cu_result read_packed(const unsigned char *entry, struct fk_image *out)
{
	uint64_t flags = number(entry + 40, 8), bytes = number(entry + 56, 8);
	const unsigned char *data = entry + number(entry + 4, 4);
	size_t packed = number(entry + 16, 4), size = number(entry + 8, 8), got;
	unsigned char *plain;
	fm_cu_result rc;

	if (!(flags & (PACKED_LZ4 | PACKED_ZSTD)))
		return read_plain(data, size, out);
	plain = calloc(1, bytes + 1); /* text ends with a zero */
	if (!plain)
		return CU_OUT_OF_MEMORY;
	packed = packed ? packed : size;
	if (flags & PACKED_ZSTD)
		got = ZSTD_decompress(plain, bytes, data, packed);
	else
		got = (size_t)LZ4_decompress_safe(
			(const char *)data, (char *)plain, (int)packed, (int)bytes);
	rc = got == bytes ? read_plain(plain, bytes, out) : CU_INVALID_IMAGE;
	free(plain);
	return rc;
}

static fm_cu_result read_fatbin(const unsigned char *fatbin, struct fk_image *out)
{
	const unsigned char *at = fatbin + FATBIN_HEADER, *best = NULL;
	const unsigned char *end = at + number(fatbin + 8, 8);

	while (at < end) {
		uint64_t header = number(at + 4, 4);

		if (header < FATBIN_ENTRY)
			return CU_INVALID_IMAGE;
		if (suits(at) > (best ? suits(best) : 0))
			best = at;
		at += header + number(at + 8, 8);
	}
	return best ? read_packed(best, out) : CU_NO_BINARY;
}

/* --- any --- */

/* size is 0 if nobody has told. */
static fm_cu_result read_plain(const unsigned char *data, size_t size, struct fk_image *out)
{
	if (!memcmp(data, "\177ELF", 4))
		return fk_elf_read(data, size ? size : fk_elf_size(data), out);
	return fk_ptx_read((const char *)data, out);
}

static fm_cu_result read_any(const unsigned char *image, struct fk_image *out)
{
	const unsigned char *fatbin;

	if (number(image, 4) == FATBIN_MAGIC)
		return read_fatbin(image, out);
	if (number(image, 4) != WRAPPER_MAGIC)
		return read_plain(image, 0, out);
	memcpy(&fatbin, image + 8, sizeof(fatbin));
	return number(fatbin, 4) == FATBIN_MAGIC ? read_fatbin(fatbin, out) : CU_INVALID_IMAGE;
}

/* Is it the kernel that is known by this name, by its parameters? */
static bool same_params(const struct fk_entry *e, const struct fk_kernel *k)
{
	unsigned n = e->n_params - (e->guarded ? FK_GUARD_PARAMS : 0);

	for (unsigned i = 0; i < n; i++)
		if (!k->size[i] || k->size[i] != e->param[i].size)
			return false;
	return !k->size[n];
}

/* A guardian's parameters are where its code looks for them; what is otherwise has been put
 * together wrongly. */
static void check_guardian(const struct fk_entry *e)
{
	unsigned n = e->n_params, end = 0, at;

	if (n < FK_GUARD_PARAMS)
		fk_die("%s has a guardian, and %u parameters", e->name, n);
	n -= FK_GUARD_PARAMS;
	if (n)
		end = e->param[n - 1].at + e->param[n - 1].size;
	at = (end + 7) & ~7u;
	for (unsigned i = 0; i < FK_GUARD_PARAMS; i++)
		if (e->param[n + i].at != at + 8 * i || e->param[n + i].size != 8)
			fk_die("%s has a guardian, whose parameter %u is %u bytes at %u", e->name,
				i, e->param[n + i].size, e->param[n + i].at);
}

fm_cu_result fk_image_read(const void *image, struct fk_image **out)
{
	struct fk_image *i = calloc(1, sizeof(*i));
	fm_cu_result rc;

	if (!i)
		return CU_OUT_OF_MEMORY;
	i->refs = 1;
	rc = read_any(image, i);
	for (unsigned n = 0; !rc && n < i->n; n++) {
		struct fk_entry *e = &i->entry[n];
		const struct fk_kernel *k = fk_kernel_find(e->name);

		if (e->guarded)
			check_guardian(e);
		if (e->guarded && (fk.refuse[FAKE_CUDA_GUARDED] || fk_env("FAKE_CUDA_NO_GUARDED")))
			rc = CU_INVALID_IMAGE;
		if (k && same_params(e, k))
			e->kernel = k;
	}
	if (rc)
		fk_image_put(i);
	else
		*out = i;
	return rc;
}
