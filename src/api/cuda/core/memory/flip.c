/* SPDX-License-Identifier: Apache-2.0 */
#include "flip.h"
#include "api/cuda/core/tune.h"
#include "arena_internal.h"
#include "base/util.h"
#include <errno.h>

/* What is made belongs to the other one from now on. Neither is mapped. */
static void swap_memory(struct fm_cu_chunk *c, struct fm_cu_chunk *w)
{
	unsigned long long handle = c->handle;
	bool made = c->made, borrowed = c->borrowed;

	c->handle = w->handle;
	c->made = w->made;
	c->borrowed = w->borrowed;
	w->handle = handle;
	w->made = made;
	w->borrowed = borrowed;
}

static int put_run(const struct fm_cu_arena *a, const struct fm_cu_chunk *c, unsigned first,
	unsigned n, CUstream stream)
{
	size_t at = first * FM_CU_PAGE, end = at + n * FM_CU_PAGE, size;
	int rc = 0;

	for (; !rc && at < end; at += size) {
		size = FM_MIN(FM_CU_PIECE, end - at);
		rc = a->cu->copy_within(a->window.at + at, c->at + at, size, stream);
	}
	return rc ? -EIO : 0;
}

/* Whatever comes of it, no copy is under way afterwards. */
static int copy_over(const struct fm_cu_arena *a, const struct fm_cu_chunk *c, CUstream stream,
	const struct fm_cu_move_ops *ops)
{
	unsigned at = 0, n;
	fm_cu_result is;
	int first, rc = 0;

	while (!rc && (first = fm_cu_run_next(c->used, &at, &n)) >= 0)
		rc = put_run(a, c, (unsigned)first, n, stream);
	while ((is = a->cu->stream_query(stream)) == FM_CU_ERROR_NOT_READY)
		ops->nap(ops->cookie, FM_CU_PIECE_LOOK);
	if (is)
		a->cu->stream_synchronize(stream);
	return is ? -EIO : rc;
}

/* The content is in both. It takes the place of what the chunk has, which is the window's then. */
static int change_places(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	int rc = fm_cu_chunk_lift(a, &a->window);

	if (!rc)
		rc = fm_cu_chunk_lift(a, c);
	if (rc)
		return rc;
	swap_memory(c, &a->window);
	rc = fm_cu_chunk_mend(a, c);
	if (!rc || fm_cu_chunk_lift(a, c))
		return rc;
	swap_memory(c, &a->window);
	fm_cu_chunk_mend(a, c);
	return rc;
}

int fm_cu_flip_end(struct fm_cu_arena *a)
{
	a->window_keeps = false;
	return fm_cu_chunk_unmap(a, &a->window, false);
}

void fm_cu_flip_keep(struct fm_cu_arena *a)
{
	a->window_keeps = true;
}

/* What is left in the window of the flip before is what this one needs. */
static bool is_of_use(const struct fm_cu_chunk *w, const struct fm_cu_chunk *c, bool home)
{
	return w->made && !w->of && !c->of && w->borrowed != home && w->pages == c->pages;
}

int fm_cu_flip(struct fm_cu_arena *a, struct fm_cu_chunk *c, bool home, CUstream stream,
	const struct fm_cu_move_ops *ops)
{
	struct fm_cu_chunk *w = &a->window;
	int rc = fm_cu_chunk_mend(a, c);
	bool keeps = a->window_keeps;

	if (rc || c->borrowed != home)
		return rc ? -EIO : 0;
	if (!is_of_use(w, c, home) && fm_cu_flip_end(a))
		return -EIO;
	w->pages = c->pages;
	w->of = c->of; /* it is to be of that kind, for it will be the program's */
	rc = home ? fm_cu_chunk_map(a, w) : fm_cu_chunk_borrow(a, w);
	w->of = NULL;
	if (!rc)
		rc = copy_over(a, c, stream, ops);
	if (!rc)
		rc = change_places(a, c);
	if (rc || !keeps || c->of)
		fm_cu_flip_end(a);
	a->window_keeps = keeps;
	return rc;
}
