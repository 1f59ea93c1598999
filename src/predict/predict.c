/* SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"
#include "handles.h"
#include "template_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOAD(p)     atomic_load_explicit(p, memory_order_relaxed)
#define STORE(p, v) atomic_store_explicit(p, v, memory_order_relaxed)

_Static_assert(FM_PREDICT_HANDLES == FM_HANDLES_PLACES && FM_PREDICT_KERNELS == FM_HANDLES_NUMBERS,
	"words");

/* --- binding --- */

void fm_layout_add(struct fm_layout *l, size_t at, size_t size)
{
	if (l->n >= FM_PREDICT_PARAMS || at > FM_TEMPLATE_PARAMS || size > FM_TEMPLATE_PARAMS) {
		l->n = UINT32_MAX;
		return;
	}
	l->param[l->n].at = (uint16_t)at;
	l->param[l->n++].size = (uint16_t)size;
}

static bool is_templated(const struct fm_kernel_templates *of, uint32_t at)
{
	for (unsigned i = 0; i < of->n; i++)
		if (at >= of->pointer[i].at &&
			at < of->pointer[i].at + fm_pointer_bytes(of->pointer[i].form))
			return of->pointer[i].form != FM_FORM_ANY;
	return false;
}

static bool is_of(const struct fm_layout *layout, const struct fm_kernel_templates *of)
{
	uint32_t size = 0, end = 0;

	if (layout->n > FM_PREDICT_PARAMS)
		return false;
	for (unsigned i = 0; i < layout->n; i++) {
		if (layout->param[i].at < end)
			return false;
		end = layout->param[i].at + (uint32_t)layout->param[i].size;
	}
	size = end;
	return size == of->size && size <= FM_TEMPLATE_PARAMS;
}

/* Is there a whole parameter at this word that is a word? */
static bool is_word(const struct fm_layout *layout, unsigned i, uint32_t at)
{
	return i < layout->n && layout->param[i].at == at && layout->param[i].size == 8;
}

/* Runs of words that no template is for, in the parameters as one buffer. Parameters of a word each
 * that follow one another are one run, unless a tensor map could be in it. */
static struct fm_shape *rest_of(
	const struct fm_layout *layout, const struct fm_kernel_templates *of)
{
	struct fm_shape_making m = {0};
	struct fm_shape *shape;

	for (unsigned i = 0; i < layout->n; i++) {
		uint32_t at = layout->param[i].at, end = at + layout->param[i].size;

		while (is_word(layout, i, end - 8) && is_word(layout, i + 1, end) && !(end % 8) &&
			end + 8 - at < FM_TENSOR_MAP)
			i++, end += 8;
		for (uint32_t from = at, word = (at + 7) & ~7u; from < end;) {
			while (word + 8 <= end && !is_templated(of, word))
				word += 8;
			if (word > from && word - from >= 8)
				fm_shape_add_part(&m, 0, from, from, word - from);
			while (word + 8 <= end && is_templated(of, word))
				word += 8;
			if (word + 8 > end)
				break;
			from = word;
		}
	}
	shape = m.failed ? NULL : m.shape ? m.shape : calloc(1, sizeof(*shape));
	if (m.failed)
		fm_shape_drop(&m);
	return shape;
}

static void bound_free(struct fm_bound *b)
{
	if (b) {
		free(b->rest);
		free(b->layout);
	}
	free(b);
}

static struct fm_bound *make(const struct fm_kernel_templates *of, const struct fm_layout *layout)
{
	struct fm_bound *b = calloc(1, sizeof(*b));
	size_t size = offsetof(struct fm_layout, param) + layout->n * sizeof(layout->param[0]);

	if (!b)
		return NULL;
	b->of = of;
	b->rest = rest_of(layout, of);
	b->layout = malloc(size);
	if (!b->rest || !b->layout) {
		bound_free(b);
		return NULL;
	}
	memcpy(b->layout, layout, size);
	for (unsigned i = 0; i < of->n; i++)
		b->memos |= of->pointer[i].form == FM_FORM_MEMO;
	return b;
}

static bool is_of_use(const struct fm_kernel_templates *of)
{
	for (unsigned i = 0; i < of->n; i++)
		if (of->pointer[i].form != FM_FORM_ANY)
			return true;
	return false;
}

int fm_predict_bind(struct fm_predict *p, const void *handle, const struct fm_kernel_templates *of,
	const struct fm_layout *layout)
{
	uint32_t n = LOAD(&p->n), i = 0;
	struct fm_bound *b;

	if (!fm_handles_fits(handle) || !is_of(layout, of) || !is_of_use(of))
		return -EINVAL;
	while (i < n && LOAD(&p->bound[i])->of != of)
		i++;
	if (i == FM_PREDICT_KERNELS)
		return -ENOSPC;
	if (i == n) {
		b = make(of, layout);
		if (!b)
			return -ENOMEM;
		atomic_store_explicit(&p->bound[n], b, memory_order_release);
		atomic_store_explicit(&p->n, n + 1, memory_order_release);
	}
	fm_handles_enter(p->handle, &p->next, handle, i);
	return 0;
}

void fm_predict_forget(struct fm_predict *p)
{
	for (unsigned i = 0; i < FM_PREDICT_HANDLES; i++)
		STORE(&p->handle[i], 0);
}

FM_HOT struct fm_bound *fm_predict_find(const struct fm_predict *p, const void *handle)
{
	uint32_t i = fm_handles_number(p->handle, handle);

	return i != FM_HANDLES_NONE ? atomic_load_explicit(&p->bound[i], memory_order_acquire)
				    : NULL;
}

/* --- launches --- */

/* In whole words where that is all there is, as it mostly is. */
static inline void copy(uint8_t *to, const void *from, uint16_t size)
{
	if (FM_LIKELY(size == 8))
		memcpy(to, from, 8);
	else if (size == 4)
		memcpy(to, from, 4);
	else
		memcpy(to, from, size);
}

static inline bool pack(const struct fm_bound *b, void *const *params, uint8_t *to)
{
	const struct fm_layout *layout = b->layout;

	memset(to, 0, b->of->size);
	for (unsigned i = 0; i < layout->n; i++) {
		if (FM_UNLIKELY(!params[i]))
			return false;
		copy(to + layout->param[i].at, params[i], layout->param[i].size);
	}
	return true;
}

FM_HOT bool fm_predict_begin(struct fm_predict *p, struct fm_bound *b, const uint32_t *dims,
	void *const *params, struct fm_predicted *out)
{
	uint32_t now = LOAD(&p->turn), distrusted = LOAD(&b->distrusted), uses = LOAD(&b->uses);

	if (LOAD(&b->last) != now)
		STORE(&b->last, now);
	if (FM_UNLIKELY(distrusted > now) || !pack(b, params, out->params))
		return false;
	if (FM_UNLIKELY(uses < FM_PREDICT_TRIAL))
		STORE(&b->uses, uses + 1);
	out->of = b;
	out->launch = (struct fm_launch){dims, dims + 3, out->params, b->of->size};
	out->key = b->memos ? fm_launch_key(b->of, &out->launch) : 0;
	return true;
}

static void distrust(struct fm_predict *p, struct fm_bound *b)
{
	bool again = LOAD(&b->uses) < FM_PREDICT_TRIAL && LOAD(&b->distrusted);
	uint32_t times = again ? FM_MIN(LOAD(&b->times) + 1, FM_PREDICT_TIMES) : 0;

	STORE(&b->times, times);
	STORE(&b->distrusted, LOAD(&p->turn) + (FM_PREDICT_DISTRUST << times));
	STORE(&b->uses, 0);
}

static inline uint64_t pointer_at(const struct fm_predicted *l, uint32_t at)
{
	uint64_t word;

	memcpy(&word, l->params + at, 8);
	return word;
}

FM_HOT void fm_predict_touch(struct fm_predict *p, const struct fm_predicted *l, struct fm_touch *t)
{
	const struct fm_kernel_templates *of = l->of->of;
	struct fm_span span[FM_TEMPLATE_SPANS];
	bool within = true;

	for (unsigned i = 0; i < of->n; i++) {
		const struct fm_template *is = &of->pointer[i];
		uint64_t word;
		int n;

		if (is->form == FM_FORM_ANY) /* among the rest */
			continue;
		if (FM_UNLIKELY(is->form == FM_FORM_BOX)) {
			fm_touch_map(t, l->params + is->at);
			continue;
		}
		word = pointer_at(l, is->at);
		if (word - t->base >= t->size)
			continue;
		n = fm_template_spans(is, &l->launch, l->key, span);
		if (FM_UNLIKELY(n < 0))
			fm_touch_word(t, word);
		else
			within &= fm_touch_spans(t, word, span, (unsigned)n);
	}
	if (FM_UNLIKELY(!within)) {
		distrust(p, l->of);
		for (unsigned i = 0; i < of->n; i++)
			if (of->pointer[i].form != FM_FORM_BOX)
				fm_touch_word(t, pointer_at(l, of->pointer[i].at));
	}
}

static void each_map(const uint8_t *map, const struct fm_tensor_maps *maps, fm_predict_block *block,
	fm_predict_span *span, void *arg)
{
	struct fm_span box = {0};
	uint64_t address, bytes, word;

	if (!fm_tensor_map_box(maps, map, &address, &bytes)) {
		for (unsigned i = 0; i < FM_TENSOR_MAP; i += 8) {
			memcpy(&word, map + i, 8);
			block(arg, word);
		}
		return;
	}
	box.to = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
	if (bytes)
		span(arg, address, &box);
	else
		block(arg, address);
}

void fm_predict_each(const struct fm_predicted *l, const struct fm_tensor_maps *maps,
	fm_predict_block *block, fm_predict_span *span, void *arg)
{
	const struct fm_kernel_templates *of = l->of->of;
	struct fm_span spans[FM_TEMPLATE_SPANS];

	for (unsigned i = 0; i < of->n; i++) {
		const struct fm_template *is = &of->pointer[i];
		int n;

		if (is->form == FM_FORM_ANY)
			continue;
		if (is->form == FM_FORM_BOX) {
			each_map(l->params + is->at, maps, block, span, arg);
			continue;
		}
		n = fm_template_spans(is, &l->launch, l->key, spans);
		if (n < 0)
			block(arg, pointer_at(l, is->at));
		for (int s = 0; s < n; s++)
			span(arg, pointer_at(l, is->at), &spans[s]);
	}
}

/* --- trust --- */

void fm_predict_turn(struct fm_predict *p)
{
	uint32_t now = LOAD(&p->turn);

	if (now < UINT32_MAX - (FM_PREDICT_DISTRUST << FM_PREDICT_TIMES) - 1)
		STORE(&p->turn, now + 1);
}

unsigned fm_predict_distrust(struct fm_predict *p, uint32_t turns)
{
	uint32_t n = atomic_load_explicit(&p->n, memory_order_acquire), now = LOAD(&p->turn);
	unsigned did = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct fm_bound *b = LOAD(&p->bound[i]);
		uint32_t last = LOAD(&b->last);

		if (!last || now - last > turns || LOAD(&b->distrusted) > now)
			continue;
		distrust(p, b);
		did++;
	}
	return did;
}

void fm_predict_count(const struct fm_predict *p, struct fm_predict_counts *out)
{
	uint32_t n = atomic_load_explicit(&p->n, memory_order_acquire), now = LOAD(&p->turn);

	*out = (struct fm_predict_counts){0};
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_bound *b = LOAD(&p->bound[i]);

		if (!LOAD(&b->last))
			continue;
		if (LOAD(&b->distrusted) > now)
			out->distrusted++;
		else if (LOAD(&b->uses) < FM_PREDICT_TRIAL)
			out->trial++;
		else
			out->trusted++;
		for (unsigned k = 0; k < b->of->n; k++)
			out->pointers[b->of->pointer[k].form]++;
	}
}
