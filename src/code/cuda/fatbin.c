/* SPDX-License-Identifier: Apache-2.0 */
#include "fatbin.h"

/* A fatbin: magic, version, size of this header, size of all entries. */
#define HEADER        16
#define VERSION       1
#define ENTRY         64
#define ENTRY_VERSION 0x101

enum { KIND_PTX = 1, KIND_ELF = 2 };
enum {
	FLAG_64BIT = 0x1,
	FLAG_DEBUG = 0x2,
	FLAG_LINUX = 0x10,
	FLAG_OPTIMIZED = 0x1000,
	FLAG_LZ4 = 0x2000,
	FLAG_ZSTD = 0x8000,
	FLAG_EXACT = 0x100000,  /* sm_90a: this architecture and no other */
	FLAG_FAMILY = 0x200000, /* sm_100f */
	FLAG_MERCURY = 0x1000000,
	FLAGS_KNOWN = FLAG_64BIT | FLAG_DEBUG | FLAG_LINUX | FLAG_OPTIMIZED | FLAG_LZ4 | FLAG_ZSTD |
		      FLAG_EXACT | FLAG_FAMILY | FLAG_MERCURY
};

struct entry {
	unsigned kind, version, sm;
	uint64_t flags;
	const uint8_t *head, *data;
	uint64_t size, packed, unpacked; /* in the file; the packed bytes of that; when unpacked */
};

bool fm_is_fatbin(const void *image, size_t size)
{
	return size >= HEADER && fm_get32(image) == FM_FATBIN_MAGIC;
}

/* Reads the entry at *p, and moves *p behind it. */
static bool read_entry(const uint8_t **p, const uint8_t *end, struct entry *e)
{
	const uint8_t *q = *p;
	uint64_t left = (uint64_t)(end - q), header;

	if (left < ENTRY)
		return false;
	header = fm_get32(q + 4);
	*e = (struct entry){
		.head = q,
		.kind = fm_get16(q),
		.version = fm_get16(q + 2),
		.size = fm_get64(q + 8),
		.packed = fm_get32(q + 16),
		.sm = fm_get32(q + 28),
		.flags = fm_get64(q + 40),
		.unpacked = fm_get64(q + 56),
	};
	if (header < ENTRY || header > left || e->size > left - header || e->packed > e->size)
		return false;
	e->data = q + header;
	*p = e->data + e->size;
	return true;
}

static unsigned major(unsigned sm)
{
	return sm / 10;
}

/*
 * How well an entry fits a device; 0: not at all. Machine code runs on its major architecture from
 * its own minor one on. Code for exactly this architecture comes first. PTX runs on the same or
 * newer architectures, and comes after all machine code.
 */
static unsigned fitness(const struct entry *e, unsigned sm)
{
	bool exact = e->flags & FLAG_EXACT, family = e->flags & FLAG_FAMILY;

	if (!(e->flags & FLAG_64BIT) || !e->sm || e->sm > sm || ((exact || family) && e->sm != sm))
		return 0;
	if (e->kind == KIND_PTX)
		return e->sm * 4 + exact;
	if (e->kind != KIND_ELF || major(e->sm) != major(sm))
		return 0;
	return (1u << 16) + e->sm * 4 + (exact ? 2 : family);
}

static enum fm_image_why unpack(const struct entry *e, struct fm_fatbin_pick *out)
{
	int rc;

	if (!(e->flags & (FLAG_LZ4 | FLAG_ZSTD))) {
		out->data = e->data;
		out->size = e->size;
		return FM_IMAGE_OK;
	}
	if ((e->flags & FLAG_LZ4) && (e->flags & FLAG_ZSTD))
		return FM_IMAGE_COMPRESSION;
	if (!e->unpacked || e->unpacked > FM_IMAGE_MAX)
		return e->unpacked ? FM_IMAGE_LARGE : FM_IMAGE_BROKEN;
	out->unpacked = malloc(e->unpacked);
	if (!out->unpacked)
		return FM_IMAGE_MEMORY;
	rc = (e->flags & FLAG_LZ4 ? fm_unpack_lz4 : fm_unpack_zstd)(
		e->data, e->packed ? e->packed : e->size, out->unpacked, e->unpacked);
	if (rc) {
		free(out->unpacked);
		out->unpacked = NULL;
		return FM_IMAGE_BROKEN;
	}
	out->data = out->unpacked;
	out->size = e->unpacked;
	return FM_IMAGE_OK;
}

static enum fm_image_why choose(
	const uint8_t *p, size_t size, unsigned sm, bool text, struct entry *best)
{
	const uint8_t *end;
	unsigned best_fit = 0;
	bool tied = false;
	struct entry e;

	if (!fm_is_fatbin(p, size))
		return FM_IMAGE_FOREIGN;
	if (fm_get16(p + 4) != VERSION || fm_get16(p + 6) != HEADER)
		return FM_IMAGE_UNKNOWN;
	if (fm_get64(p + 8) > size - HEADER)
		return FM_IMAGE_BROKEN;
	end = p + HEADER + fm_get64(p + 8);
	for (p += HEADER; p != end;) {
		unsigned fit;

		if (!read_entry(&p, end, &e))
			return FM_IMAGE_BROKEN;
		fit = text && e.kind != KIND_PTX ? 0 : fitness(&e, sm);
		if (fit && fit == best_fit)
			tied = true;
		if (fit > best_fit) {
			*best = e;
			best_fit = fit;
			tied = false;
		}
	}
	if (!best_fit)
		return FM_IMAGE_NO_CODE;
	return tied ? FM_IMAGE_AMBIGUOUS : FM_IMAGE_OK;
}

enum fm_image_why fm_fatbin_entry(
	const void *image, size_t size, unsigned sm, const void **entry, size_t *entry_size)
{
	struct entry best = {0};
	enum fm_image_why why = choose(image, size, sm, false, &best);

	if (why)
		return why;
	*entry = best.head;
	*entry_size = (size_t)(best.data - best.head) + best.size;
	return FM_IMAGE_OK;
}

bool fm_fatbin_is_packed(const void *image, size_t size, unsigned sm)
{
	struct entry best = {0};

	return choose(image, size, sm, false, &best) || (best.flags & (FLAG_LZ4 | FLAG_ZSTD));
}

static enum fm_image_why pick(
	const void *image, size_t size, unsigned sm, bool text, struct fm_fatbin_pick *out)
{
	struct entry best = {0};
	enum fm_image_why why = choose(image, size, sm, text, &best);

	*out = (struct fm_fatbin_pick){.sm = best.sm, .text = best.kind == KIND_PTX};
	if (why)
		return why;
	if (best.version != ENTRY_VERSION || best.flags & ~(uint64_t)FLAGS_KNOWN)
		return FM_IMAGE_UNKNOWN;
	return unpack(&best, out);
}

enum fm_image_why fm_fatbin_pick(
	const void *image, size_t size, unsigned sm, struct fm_fatbin_pick *out)
{
	return pick(image, size, sm, false, out);
}

/* Sources know for which architecture they are compiled. */
static bool is_of_same_source(const void *image, size_t size, unsigned sm)
{
	const uint64_t flags = FLAG_EXACT | FLAG_FAMILY;
	struct entry used = {0}, text = {0};

	return !choose(image, size, sm, false, &used) && !choose(image, size, sm, true, &text) &&
	       used.sm == text.sm && (used.flags & flags) == (text.flags & flags);
}

enum fm_image_why fm_fatbin_text(
	const void *image, size_t size, unsigned sm, struct fm_fatbin_pick *out)
{
	*out = (struct fm_fatbin_pick){0};
	if (fm_is_fatbin(image, size) && !is_of_same_source(image, size, sm))
		return FM_IMAGE_NO_CODE;
	return pick(image, size, sm, true, out);
}
