/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of images: little-endian words at any address, checked ranges, buffers that grow.
 */
#pragma once
#include "image.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "images are read as they are");

static inline uint16_t fm_get16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t fm_get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t fm_get64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void fm_put16(void *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void fm_put32(void *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void fm_put64(void *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* Are `size` bytes at `at` within the first `total`? The numbers may be anything. */
static inline bool fm_within(uint64_t at, uint64_t size, uint64_t total)
{
	return at <= total && size <= total - at;
}

/* Grows up to FM_IMAGE_MAX. A failure is remembered, so that one check at the end is enough. */
struct fm_buf {
	uint8_t *data;
	size_t size, room;
	bool failed;
};

static inline bool fm_buf_reserve(struct fm_buf *b, size_t more)
{
	size_t room = b->room;
	uint8_t *data;

	if (b->failed || !fm_within(b->size, more, FM_IMAGE_MAX)) {
		b->failed = true;
		return false;
	}
	if (b->size + more <= room)
		return true;
	room = b->size + more + room / 2 + 64;
	data = realloc(b->data, room);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->room = room;
	return true;
}

/* Zeros, if `from` is NULL. */
static inline void fm_buf_add(struct fm_buf *b, const void *from, size_t size)
{
	if (!size || !fm_buf_reserve(b, size))
		return;
	if (from)
		memcpy(b->data + b->size, from, size);
	else
		memset(b->data + b->size, 0, size);
	b->size += size;
}

static inline void fm_buf_free(struct fm_buf *b)
{
	free(b->data);
	*b = (struct fm_buf){0};
}
