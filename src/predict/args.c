/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "handles.h"
#include <stdlib.h>
#include <string.h>

#define LOAD(p)     atomic_load_explicit(p, memory_order_relaxed)
#define STORE(p, v) atomic_store_explicit(p, v, memory_order_relaxed)

/* --- shapes --- */

void fm_shape_drop(struct fm_shape_making *m)
{
	free(m->shape);
	*m = (struct fm_shape_making){0};
}

/* One more part than there is. */
static struct fm_shape_part *new_part(struct fm_shape_making *m)
{
	uint32_t n = m->shape ? m->shape->n : 0, room = m->room ? 2 * m->room : 8;
	struct fm_shape *more;

	if (n < m->room)
		return &m->shape->part[m->shape->n++];
	more = realloc(m->shape, sizeof(*more) + room * sizeof(more->part[0]));
	if (!more)
		return NULL;
	if (!m->shape)
		more->n = 0;
	m->shape = more;
	m->room = room;
	return &more->part[more->n++];
}

void fm_shape_add_part(struct fm_shape_making *m, size_t i, size_t from, size_t at, size_t size)
{
	size_t skip = -at & 7, map = -at & (FM_TENSOR_MAP_ALIGN - 1);
	struct fm_shape_part *p;

	if (size < skip + 8)
		return;
	p = i <= FM_SHAPE_PARAMS && from + size <= UINT16_MAX ? new_part(m) : NULL;
	if (!p) {
		m->failed = true;
		return;
	}
	*p = (struct fm_shape_part){.param = (uint16_t)i,
		.skip = (uint16_t)(from + skip),
		.words = (uint16_t)((size - skip) / 8),
		.map = size >= map + FM_TENSOR_MAP ? (uint16_t)(from + map + 1) : 0};
}

void fm_shape_add(struct fm_shape_making *m, size_t i, size_t at, size_t size)
{
	fm_shape_add_part(m, i, 0, at, size);
}

static bool is_same(const struct fm_shape *a, const struct fm_shape *b)
{
	return a->n == b->n && !memcmp(a->part, b->part, a->n * sizeof(a->part[0]));
}

/* The same shape if there is one; else this one enters. FM_SHAPES: there is no place. */
static uint32_t enter_shape(struct fm_shapes *s, struct fm_shape *shape)
{
	for (uint32_t i = 0; i < FM_SHAPES; i++) {
		const struct fm_shape *is = LOAD(&s->shape[i]);

		if (is && is != FM_SHAPE_UNKNOWN && is_same(is, shape)) {
			free(shape);
			return i;
		}
		if (!is) {
			atomic_store_explicit(&s->shape[i], shape, memory_order_release);
			return i;
		}
	}
	free(shape);
	return FM_SHAPES;
}

_Static_assert(FM_SHAPES == FM_HANDLES_NUMBERS && FM_SHAPE_HANDLES == FM_HANDLES_PLACES, "words");

FM_HOT const struct fm_shape *fm_shapes_find(const struct fm_shapes *s, const void *handle)
{
	uint32_t i = fm_handles_number(s->handle, handle);

	return FM_LIKELY(i != FM_HANDLES_NONE)
		       ? atomic_load_explicit(&s->shape[i], memory_order_acquire)
		       : NULL;
}

const struct fm_shape *fm_shapes_put(
	struct fm_shapes *s, const void *handle, struct fm_shape_making *m)
{
	struct fm_shape *shape = m->shape ? m->shape : calloc(1, sizeof(*shape));
	uint32_t i;

	m->shape = NULL;
	if (!shape || m->failed || !fm_handles_fits(handle)) {
		free(shape);
		return NULL;
	}
	i = enter_shape(s, shape);
	if (i == FM_SHAPES)
		return NULL;
	fm_handles_enter(s->handle, &s->next, handle, i);
	return LOAD(&s->shape[i]);
}

struct fm_shape fm_shape_unknown;

void fm_shapes_unknown(struct fm_shapes *s, const void *handle)
{
	uint32_t i = 0;

	while (i < FM_SHAPES && LOAD(&s->shape[i]) && LOAD(&s->shape[i]) != FM_SHAPE_UNKNOWN)
		i++;
	if (i == FM_SHAPES || !fm_handles_fits(handle))
		return;
	atomic_store_explicit(&s->shape[i], FM_SHAPE_UNKNOWN, memory_order_release);
	fm_handles_enter(s->handle, &s->next, handle, i);
}

void fm_shapes_forget(struct fm_shapes *s)
{
	for (unsigned i = 0; i < FM_SHAPE_HANDLES; i++)
		STORE(&s->handle[i], 0);
}

/* --- parameters --- */

/* A map is opaque, and may have the address among its words: these name nothing. */
static bool touch_map(struct fm_touch *t, const void *map)
{
	uint64_t address, bytes;

	if (!fm_tensor_map_box(t->maps, map, &address, &bytes))
		return false;
	if (bytes && t->parts)
		fm_touch_box(t, address, bytes);
	else
		fm_touch_word(t, address);
	return true;
}

static FM_COLD void touch_maps(struct fm_touch *t, const char *bytes, size_t n, size_t first)
{
	for (size_t i = 0, size; i + 8 <= n; i += size) {
		bool may = i >= first && (i - first) % FM_TENSOR_MAP_ALIGN == 0 &&
			   i + FM_TENSOR_MAP <= n;

		size = may && touch_map(t, bytes + i) ? FM_TENSOR_MAP : 8;
		if (size == 8)
			fm_touch_words(t, bytes + i, 1);
	}
}

void fm_touch_map(struct fm_touch *t, const void *map)
{
	if (!t->maps || !touch_map(t, map))
		fm_touch_words(t, map, FM_TENSOR_MAP / 8);
}

FM_HOT void fm_touch_params(struct fm_touch *t, const struct fm_shape *shape, void *const *params)
{
	for (uint32_t i = 0; i < shape->n; i++) {
		const struct fm_shape_part *p = &shape->part[i];
		const char *at = params[p->param];

		if (FM_UNLIKELY(!at)) /* the driver says what that is */
			continue;
		if (FM_UNLIKELY(p->map) && t->maps && fm_tensor_maps_any(t->maps))
			touch_maps(t, at + p->skip, 8 * (size_t)p->words, p->map - 1u - p->skip);
		else
			fm_touch_words(t, at + p->skip, p->words);
	}
}

FM_HOT void fm_touch_buffer(struct fm_touch *t, const void *buffer, size_t bytes)
{
	if (t->maps && fm_tensor_maps_any(t->maps))
		touch_maps(t, buffer, bytes, 0);
	else
		fm_touch_words(t, buffer, bytes / 8);
}

/* --- tensor maps --- */

/* Never 0, which is no map. Four lanes, for a launch waits for it. */
static uint64_t hash_of(const void *map)
{
	uint64_t lane[4] = {1, 2, 3, 4}, word;

	for (size_t i = 0; i < FM_TENSOR_MAP / 8; i++) {
		memcpy(&word, (const char *)map + 8 * i, 8);
		lane[i % 4] = (lane[i % 4] ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		lane[i % 4] ^= lane[i % 4] >> 29;
	}
	word = lane[0] ^ lane[1] * 3 ^ lane[2] * 5 ^ lane[3] * 7;
	return word ? word : 1;
}

void fm_tensor_map_put(struct fm_tensor_maps *m, const void *map, uint64_t address, uint64_t bytes)
{
	uint64_t hash = hash_of(map);

	STORE(&m->map[hash % FM_TENSOR_MAPS].hash, 0);
	STORE(&m->map[hash % FM_TENSOR_MAPS].address, address);
	STORE(&m->map[hash % FM_TENSOR_MAPS].bytes, bytes);
	atomic_store_explicit(&m->map[hash % FM_TENSOR_MAPS].hash, hash, memory_order_release);
	STORE(&m->any, true);
}

bool fm_tensor_map_box(
	const struct fm_tensor_maps *m, const void *map, uint64_t *address, uint64_t *bytes)
{
	uint64_t hash = hash_of(map);

	if (atomic_load_explicit(&m->map[hash % FM_TENSOR_MAPS].hash, memory_order_acquire) != hash)
		return false;
	*address = LOAD(&m->map[hash % FM_TENSOR_MAPS].address);
	*bytes = LOAD(&m->map[hash % FM_TENSOR_MAPS].bytes);
	return true;
}

bool fm_tensor_map_find(const struct fm_tensor_maps *m, const void *map, uint64_t *address)
{
	uint64_t bytes;

	return fm_tensor_map_box(m, map, address, &bytes);
}

/* Bytes of an element, by CUtensorMapDataType; packed ones are not known. */
static const uint8_t element[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

uint64_t fm_tensor_map_bytes(
	int type, unsigned rank, const uint64_t *sizes, const uint64_t *strides)
{
	uint64_t bytes, more;

	if (type < 0 || type >= (int)FM_ARRAY_LEN(element) || !rank || rank > 5 || !sizes ||
		(rank > 1 && !strides) || !sizes[0] ||
		__builtin_mul_overflow(sizes[0], element[type], &bytes))
		return 0;
	for (unsigned i = 1; i < rank; i++)
		if (!sizes[i] || __builtin_mul_overflow(sizes[i] - 1, strides[i - 1], &more) ||
			__builtin_add_overflow(bytes, more, &bytes))
			return 0;
	return bytes;
}

/* --- what is looked at later --- */

static void words(const char *at, size_t n, fm_word_seen *seen, void *arg)
{
	uint64_t word;

	for (size_t i = 0; i < n; i++) {
		memcpy(&word, at + 8 * i, 8);
		seen(arg, word);
	}
}

static void maps_words(
	const char *at, size_t n, const struct fm_tensor_maps *maps, fm_word_seen *seen, void *arg)
{
	uint64_t address;

	for (size_t i = 0; fm_tensor_maps_any(maps) && i + FM_TENSOR_MAP <= n;
		i += FM_TENSOR_MAP_ALIGN)
		if (fm_tensor_map_find(maps, at + i, &address))
			seen(arg, address);
}

void fm_params_words(const struct fm_shape *shape, void *const *params,
	const struct fm_tensor_maps *maps, fm_word_seen *seen, void *arg)
{
	for (uint32_t i = 0; i < shape->n; i++) {
		const struct fm_shape_part *p = &shape->part[i];
		const char *at = params[p->param];
		size_t size = p->skip + 8 * (size_t)p->words;

		if (!at)
			continue;
		words(at + p->skip, p->words, seen, arg);
		if (p->map)
			maps_words(at + p->map - 1, size - (p->map - 1u), maps, seen, arg);
	}
}

void fm_buffer_words(const void *buffer, size_t bytes, const struct fm_tensor_maps *maps,
	fm_word_seen *seen, void *arg)
{
	words(buffer, bytes / 8, seen, arg);
	maps_words(buffer, bytes, maps, seen, arg);
}
