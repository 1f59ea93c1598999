/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where addresses can stand in the parameters of a kernel: in each aligned word of eight bytes,
 * also within a struct; and in tensor maps of 128 bytes, whose content nobody knows. The program is
 * told by their size alone, for a pointer to each is all that a launch has.
 *
 * Owns: which function has parameters of which shape, and which tensor maps there are, in tables of
 * a fixed size.
 * Locks: none; see each function.
 * Threads: any.
 */
#pragma once
#include "touch.h"

/* --- shapes --- */

#define FM_SHAPES       4096u  /* that differ */
#define FM_SHAPE_PARAMS 65535u /* of one kernel */

/* The parameters that have room for an address. A shape never changes, and is never freed. */
struct fm_shape {
	uint32_t n;
	struct fm_shape_part {
		uint16_t param;
		uint16_t skip; /* bytes in front of the first aligned word, */
		uint16_t words;
		uint16_t map; /* and in front of the first place for a tensor map, plus one; 0: it
				 has none */
	} part[];
};

/* While a shape is made: its parameters, in their order. */
struct fm_shape_making {
	struct fm_shape *shape;
	uint32_t room;
	bool failed;
};
/* Parameter i is at this offset of all of them. */
void fm_shape_add(struct fm_shape_making *m, size_t i, size_t at, size_t size);
/* The same of a part of it, `skip` bytes from the beginning of the parameter. */
void fm_shape_add_part(struct fm_shape_making *m, size_t i, size_t skip, size_t at, size_t size);
void fm_shape_drop(struct fm_shape_making *m);

/* The shapes of functions, by their handles. Each word: handle times 4096, and the shape. */
#define FM_SHAPE_HANDLES 8192u /* lossy: who is not found is looked at again */
struct fm_shapes {
	_Atomic uint64_t handle[FM_SHAPE_HANDLES];
	_Atomic(struct fm_shape *) shape[FM_SHAPES];
	_Atomic uint32_t next; /* place of a handle that has to go */
};

/* NULL: it is not known. Takes no lock. */
const struct fm_shape *fm_shapes_find(const struct fm_shapes *s, const void *handle);
/* The function has these parameters; `m` is used up. NULL: no memory, or too many that differ. One
 * thread at a time. */
const struct fm_shape *fm_shapes_put(
	struct fm_shapes *s, const void *handle, struct fm_shape_making *m);
/* It has parameters that are not known: fm_shapes_find() gives FM_SHAPE_UNKNOWN from now on. */
void fm_shapes_unknown(struct fm_shapes *s, const void *handle);
extern struct fm_shape fm_shape_unknown;
#define FM_SHAPE_UNKNOWN (&fm_shape_unknown)
/* Handles may mean other functions from now on. */
void fm_shapes_forget(struct fm_shapes *s);

/* Names what the parameters name: a pointer to each, or all of them in one buffer. */
void fm_touch_params(struct fm_touch *t, const struct fm_shape *shape, void *const *params);
void fm_touch_buffer(struct fm_touch *t, const void *buffer, size_t bytes);

/* What a tensor map in the parameters names: its box, where parts are named, or the block. */
void fm_touch_map(struct fm_touch *t, const void *map);

/* --- tensor maps --- */

#define FM_TENSOR_MAP       ((size_t)128)
#define FM_TENSOR_MAP_ALIGN ((size_t)64)
#define FM_TENSOR_MAPS      8192u /* lossy: a later one may take the place of an earlier */

struct fm_tensor_maps {
	struct {
		_Atomic uint64_t hash, address;
		_Atomic uint64_t bytes; /* from there; 0: not known */
	} map[FM_TENSOR_MAPS];
	_Atomic bool any;
};
static inline bool fm_tensor_maps_any(const struct fm_tensor_maps *m)
{
	return atomic_load_explicit(&m->any, memory_order_relaxed);
}
/* These bytes are a map of so much memory at that address; 0: it is not known of how much. */
void fm_tensor_map_put(struct fm_tensor_maps *m, const void *map, uint64_t address, uint64_t bytes);
/* What a map reaches, in bytes from its address: an access beyond its sizes is none. 0: not known.
 */
uint64_t fm_tensor_map_bytes(
	int type, unsigned rank, const uint64_t *sizes, const uint64_t *strides);
/* False: they are no map that is known. */
bool fm_tensor_map_box(
	const struct fm_tensor_maps *m, const void *map, uint64_t *address, uint64_t *bytes);
bool fm_tensor_map_find(const struct fm_tensor_maps *m, const void *map, uint64_t *address);

/* --- what is looked at later --- */

/* All words of parameters, or of a buffer, that may be addresses, those within tensor maps too. */
typedef void fm_word_seen(void *arg, uint64_t word);
void fm_params_words(const struct fm_shape *shape, void *const *params,
	const struct fm_tensor_maps *maps, fm_word_seen *seen, void *arg);
void fm_buffer_words(const void *buffer, size_t bytes, const struct fm_tensor_maps *maps,
	fm_word_seen *seen, void *arg);
