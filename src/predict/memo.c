/* SPDX-License-Identifier: Apache-2.0 */
/* What was seen of exactly these scalars, and templates evaluated. */
#include "base/lanes.h"
#include "base/util.h"
#include "template_internal.h"
#include <string.h>

const char *fm_form_name(enum fm_form form)
{
	static const char *const name[] = {
#define NAME(id, name) [id] = name,
		FM_FORM_MAP(NAME)
#undef NAME
	};

	return form < FM_FORMS ? name[form] : "?";
}

void fm_image_id(char id[FM_IMAGE_ID], const void *part, size_t size)
{
	static const char digit[] = "0123456789abcdef";
	uint8_t hash[FM_HASH_BYTES];

	fm_lanes_hash(part, size, hash);
	for (unsigned i = 0; i < FM_IMAGE_ID / 2; i++) {
		id[2 * i] = digit[hash[i] >> 4];
		id[2 * i + 1] = digit[hash[i] & 15];
	}
	id[FM_IMAGE_ID - 1] = '\0';
}

/* --- keys --- */

#define LANES 4u
struct key {
	uint64_t lane[LANES];
	unsigned n;
};

static inline void key_word(struct key *k, uint64_t word)
{
	uint64_t *lane = &k->lane[k->n++ % LANES];

	*lane = (*lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	*lane ^= *lane >> 29;
}

static inline void key_bytes(struct key *k, const char *bytes, size_t n)
{
	uint64_t word;

	for (; n >= 8; bytes += 8, n -= 8) {
		memcpy(&word, bytes, 8);
		key_word(k, word);
	}
	if (!n)
		return;
	word = 0;
	memcpy(&word, bytes, n);
	key_word(k, word);
}

FM_HOT uint64_t fm_key_of(const struct fm_launch *l, const struct fm_template *pointer, unsigned n)
{
	struct key k = {.lane = {1, 2, 3, 4}};
	const char *params = l->params;
	size_t at = 0;

	for (unsigned i = 0; i < 3; i++)
		key_word(&k, (uint64_t)l->grid[i] << 32 | l->block[i]);
	for (unsigned i = 0; i < n && pointer[i].at < l->size; i++) {
		key_bytes(&k, params + at, pointer[i].at - at);
		at = pointer[i].at + (size_t)fm_pointer_bytes(pointer[i].form);
		at = FM_MIN(at, l->size);
	}
	key_bytes(&k, params + at, l->size - at);
	return k.lane[0] ^ k.lane[1] * 3 ^ k.lane[2] * 5 ^ k.lane[3] * 7;
}

FM_HOT uint64_t fm_launch_key(const struct fm_kernel_templates *k, const struct fm_launch *l)
{
	return fm_key_of(l, k->pointer, k->n);
}

FM_HOT const struct fm_memo *fm_memo_find(const struct fm_template *t, uint64_t key)
{
	unsigned low = 0, high = t->n;

	while (low < high) {
		unsigned mid = (low + high) / 2;

		if (t->memo[mid].key < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->n && t->memo[low].key == key ? &t->memo[low] : NULL;
}

/* --- numbers --- */

FM_HOT bool fm_linear_at(const struct fm_linear *l, uint64_t product, int64_t *value)
{
	__int128 of;

	if (product > INT64_MAX)
		return false;
	of = (__int128)l->num * (int64_t)product;
	if (l->den != 1) {
		__int128 whole = of / l->den;

		of = whole + (of % l->den > 0);
	}
	of += l->plus;
	*value = (int64_t)of;
	return *value == of;
}

static inline bool operand(const struct fm_operand *of, const struct fm_launch *l, uint64_t *value)
{
	const char *at = (const char *)l->params + of->at;
	uint32_t word;

	switch (of->kind) {
	case FM_OPERAND_U32:
		if ((size_t)of->at + 4 > l->size)
			return false;
		memcpy(&word, at, 4);
		*value = word;
		return true;
	case FM_OPERAND_U64:
		if ((size_t)of->at + 8 > l->size)
			return false;
		memcpy(value, at, 8);
		return true;
	case FM_OPERAND_GRID:
		*value = l->grid[of->at % 3];
		return true;
	default:
		*value = l->block[of->at % 3];
		return true;
	}
}

static bool linear(const struct fm_linear *l, const struct fm_launch *at, int64_t *value)
{
	uint64_t product = 1, factor;

	if (!l->n) {
		*value = l->plus;
		return true;
	}
	for (unsigned i = 0; i < l->n; i++)
		if (!operand(&l->of[i], at, &factor) ||
			__builtin_mul_overflow(product, factor, &product))
			return false;
	return fm_linear_at(l, product, value);
}

/* --- spans --- */

static int one_span(int64_t from, int64_t bytes, struct fm_span *out)
{
	*out = (struct fm_span){.from = from};
	if (bytes < 0 || __builtin_add_overflow(from, bytes, &out->to))
		return -1;
	return bytes ? 1 : 0;
}

/* More pieces than there is room for are one. */
static FM_COLD int strided(const struct fm_template *t, const struct fm_launch *l, int64_t from,
	int64_t bytes, struct fm_span out[FM_TEMPLATE_SPANS])
{
	int64_t step, count, last;

	if (!linear(&t->step, l, &step) || !linear(&t->count, l, &count) || count < 0 ||
		step < bytes || step <= 0)
		return -1;
	if (!count || !bytes)
		return 0;
	if (__builtin_mul_overflow(step, count - 1, &last) ||
		__builtin_add_overflow(last, bytes, &last) || one_span(from, last, &out[0]) < 0)
		return -1;
	if (count > (int64_t)FM_TEMPLATE_SPANS)
		return 1;
	for (int64_t i = 0; i < count; i++)
		out[i] = (struct fm_span){from + i * step, from + i * step + bytes};
	return (int)count;
}

FM_HOT int fm_template_spans(const struct fm_template *t, const struct fm_launch *l, uint64_t key,
	struct fm_span out[FM_TEMPLATE_SPANS])
{
	const struct fm_memo *m;
	int64_t from, bytes;

	if (t->form == FM_FORM_MEMO) {
		m = fm_memo_find(t, key);
		if (!m)
			return -1;
		if (m->n)
			memcpy(out, m->span, m->n * sizeof(*out));
		return (int)m->n;
	}
	if (t->form == FM_FORM_ANY || t->form == FM_FORM_BOX || !linear(&t->from, l, &from) ||
		!linear(&t->bytes, l, &bytes))
		return -1;
	if (t->form == FM_FORM_STRIDED)
		return strided(t, l, from, bytes, out);
	return one_span(from, bytes, out);
}
