/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kernel an operation is. Its key says what must be the same so that it does the same to
 * memory: the code, the name, grid, block and scalars; and how many bytes it reads, writes, writes
 * first and shares among blocks, in each combination: so pointers that alias otherwise make another
 * key, and memory that lies elsewhere does not. One whose bytes follow from what memory holds has
 * one key for all of them.
 */
#include "base/util.h"
#include "read.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- names --- */

static uint64_t text_hash(const char *s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	while (*s)
		h = (h ^ (unsigned char)*s++) * UINT64_C(0x100000001b3);
	return idem_mix(h);
}

static uint64_t name_hash(const struct idem_reader *r, uint32_t i)
{
	return text_hash(r->t->names + i);
}

static int names_room(struct fm_idem_trace *t, size_t n)
{
	size_t room = FM_MAX(2 * (t->names_size + n), (size_t)4096);
	char *more;

	if (t->names_size + n <= t->names_room)
		return 0;
	more = realloc(t->names, room);
	if (!more)
		return -ENOMEM;
	t->names = more;
	t->names_room = room;
	return 0;
}

/* Each text once. */
static int keep(struct idem_reader *r, const char *key, const char *text, uint32_t *at)
{
	struct fm_idem_trace *t = r->t;
	size_t n = strlen(text);
	uint32_t slot;

	if (idem_table_room(r, &r->names, name_hash))
		return -ENOMEM;
	slot = idem_table_first(&r->names, text_hash(text));
	while (r->names.slot[slot] && strcmp(t->names + r->names.slot[slot] - 1, text))
		slot = (slot + 1) & r->names.mask;
	if (!r->names.slot[slot]) {
		if (t->names_size + n + 1 > FM_IDEM_NAMES)
			return fm_json_bad(&r->j, key, "is one of too many");
		if (names_room(t, n + 1))
			return -ENOMEM;
		memcpy(t->names + t->names_size, text, n + 1);
		r->names.slot[slot] = (uint32_t)t->names_size + 1;
		r->names.used++;
		t->names_size += n + 1;
	}
	*at = r->names.slot[slot] - 1;
	return 0;
}

static int keep_text(struct idem_reader *r, const json_t *root, const char *key, uint32_t *at)
{
	const json_t *value = json_object_get(root, key);
	const char *text = value ? json_string_value(value) : "";

	if (!text || strlen(text) > FM_IDEM_NAME)
		return fm_json_bad(
			&r->j, key, text ? "is longer than %u" : "is no text", FM_IDEM_NAME);
	return keep(r, key, text, at);
}

static int read_dims(struct idem_reader *r, const json_t *root, const char *key, uint32_t dim[3])
{
	const json_t *list = json_object_get(root, key), *one;
	size_t i;

	dim[0] = dim[1] = dim[2] = 1;
	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > 3)
		return fm_json_bad(&r->j, key, "is no array of up to three numbers");
	json_array_foreach (list, i, one) {
		json_int_t n = json_integer_value(one);

		if (!json_is_integer(one) || n < 1 || n > UINT32_MAX)
			return fm_json_bad(&r->j, key, "has what is no number above 0");
		dim[i] = (uint32_t)n;
	}
	return 0;
}

/* --- keys --- */

/* Bytes by the sets that have them: a bit for each. */
static void count_alike(
	const struct idem_reader *r, const struct fm_idem_op *o, uint64_t count[1 << FM_IDEM_SETS])
{
	const struct fm_idem_span *s[FM_IDEM_SETS], *end[FM_IDEM_SETS], *next = r->span;
	uint64_t at = 0;

	for (unsigned i = 0; i < FM_IDEM_SETS; i++) {
		s[i] = next;
		end[i] = next += o->n[i];
	}
	while (at < FM_IDEM_END) {
		uint64_t to = FM_IDEM_END;
		unsigned in = 0;

		for (unsigned i = 0; i < FM_IDEM_SETS; i++) {
			while (s[i] < end[i] && s[i]->to <= at)
				s[i]++;
			if (s[i] == end[i])
				continue;
			in |= s[i]->from <= at ? 1u << i : 0;
			to = FM_MIN(to, s[i]->from <= at ? s[i]->to : s[i]->from);
		}
		count[in] += to - at;
		at = to;
	}
	count[0] = 0; /* what is in none */
}

static void add_text(struct fm_hash *h, const char *text)
{
	fm_hash_add(h, text, strlen(text) + 1);
}

static void make_key(const struct idem_reader *r, const struct fm_idem_op *o,
	struct fm_idem_kernel *k, const char *scalars)
{
	uint64_t count[1 << FM_IDEM_SETS] = {0};
	const uint8_t flags = o->flags & (FM_IDEM_DYNAMIC | FM_IDEM_APPROX | FM_IDEM_VISIBLE);
	struct fm_hash h;

	if (!(flags & FM_IDEM_DYNAMIC))
		count_alike(r, o, count);
	fm_hash_begin(&h);
	add_text(&h, "fermata idempotence 1");
	add_text(&h, r->t->names + k->hash);
	add_text(&h, r->t->names + k->name);
	add_text(&h, scalars);
	fm_hash_add(&h, k->grid, sizeof(k->grid));
	fm_hash_add(&h, k->block, sizeof(k->block));
	fm_hash_add(&h, &flags, sizeof(flags));
	fm_hash_add(&h, count, sizeof(count));
	fm_hash_end(&h, k->key);
}

static uint64_t key_hash(const uint8_t *key)
{
	uint64_t h;

	memcpy(&h, key, sizeof(h));
	return h;
}

static uint64_t kernel_hash(const struct idem_reader *r, uint32_t i)
{
	return key_hash(r->t->kernel[i].key);
}

static int keep_kernel(struct idem_reader *r, const struct fm_idem_kernel *k, uint32_t *at)
{
	struct fm_idem_trace *t = r->t;
	uint32_t slot;

	if (idem_table_room(r, &r->kernels, kernel_hash))
		return -ENOMEM;
	slot = idem_table_first(&r->kernels, key_hash(k->key));
	while (r->kernels.slot[slot] &&
		memcmp(t->kernel[r->kernels.slot[slot] - 1].key, k->key, sizeof(k->key)))
		slot = (slot + 1) & r->kernels.mask;
	if (!r->kernels.slot[slot]) {
		if (t->n_kernels == t->kernels_room) {
			size_t room = t->kernels_room ? t->kernels_room * 2 : 64;
			void *more = reallocarray(t->kernel, room, sizeof(*t->kernel));

			if (!more)
				return -ENOMEM;
			t->kernel = more;
			t->kernels_room = room;
		}
		t->kernel[t->n_kernels++] = *k;
		r->kernels.slot[slot] = (uint32_t)t->n_kernels;
		r->kernels.used++;
	}
	*at = r->kernels.slot[slot] - 1;
	return 0;
}

int idem_read_kernel(struct idem_reader *r, const json_t *root, struct fm_idem_op *o)
{
	const json_t *scalars = json_object_get(root, "scalars");
	struct fm_idem_kernel k = {0};
	char text[FM_KILL_CHARS];
	int rc = keep_text(r, root, "name", &k.name);

	rc = rc ? rc : keep_text(r, root, "hash", &k.hash);
	rc = rc ? rc : read_dims(r, root, "grid", k.grid);
	rc = rc ? rc : read_dims(r, root, "block", k.block);
	if (!rc && scalars && !json_is_string(scalars))
		rc = fm_json_bad(&r->j, "scalars", "is no text");
	if (rc)
		return rc;
	make_key(r, o, &k, scalars ? json_string_value(scalars) : "");
	rc = keep_kernel(r, &k, &o->kernel);
	if (!rc && idem_read_launch(r, root, o, &k, text)) {
		rc = keep(r, "args", text, &o->kill);
		o->kill++;
	}
	return rc;
}
