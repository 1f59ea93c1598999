/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of calls by their names, for people to read. */
#include "client.h"
#include <stdio.h>
#include <string.h>

static struct fm_board_call *find(struct fm_client *c, unsigned from, unsigned n, const char *name)
{
	for (unsigned i = from; i < n; i++)
		if (fm_board_call_is(&c->board->call[i], name))
			return &c->board->call[i];
	return NULL;
}

/* NULL: no row is left. Only the first call of each name takes the lock. */
static struct fm_board_call *row_of(struct fm_client *c, const char *name)
{
	unsigned n = atomic_load_explicit(&c->calls, memory_order_acquire), seen = n;
	struct fm_board_call *row = find(c, 0, n, name);

	if (row || n == FM_BOARD_CALLS)
		return row;
	pthread_mutex_lock(&c->lock);
	n = atomic_load(&c->calls);
	row = find(c, seen, n, name);
	if (!row && n < FM_BOARD_CALLS) {
		row = &c->board->call[n];
		fm_board_call_name(row, name);
		atomic_store_explicit(&c->calls, n + 1, memory_order_release);
	}
	pthread_mutex_unlock(&c->lock);
	return row;
}

void fm_client_count_ungoverned(struct fm_client *c, const char *call)
{
	struct fm_board_call *row = row_of(c, call);

	atomic_fetch_add_explicit(&c->board->ungoverned, 1, memory_order_relaxed);
	if (row)
		atomic_fetch_add_explicit(&row->ungoverned, 1, memory_order_release);
	if (FM_UNLIKELY(c->rests))
		fm_rest_outside(c);
}

void fm_client_count_undivided(struct fm_client *c, const char *call)
{
	struct fm_board_call *row = row_of(c, call);

	atomic_fetch_add_explicit(&c->board->undivided, 1, memory_order_relaxed);
	if (row)
		atomic_fetch_add_explicit(&row->undivided, 1, memory_order_release);
}

void fm_client_count_images(struct fm_client *c, const struct fm_client_images *n)
{
	atomic_store_explicit(&c->board->images, n->images, memory_order_relaxed);
	atomic_store_explicit(&c->board->images_left, n->images_left, memory_order_relaxed);
	atomic_store_explicit(&c->board->kernels, n->kernels, memory_order_relaxed);
	atomic_store_explicit(&c->board->kernels_left, n->kernels_left, memory_order_relaxed);
	atomic_store_explicit(&c->board->images_ns, n->ns, memory_order_relaxed);
}

void fm_client_images(const struct fm_client *c, struct fm_client_images *n)
{
	*n = (struct fm_client_images){.images = atomic_load(&c->board->images),
		.images_left = atomic_load(&c->board->images_left),
		.kernels = atomic_load(&c->board->kernels),
		.kernels_left = atomic_load(&c->board->kernels_left),
		.ns = atomic_load(&c->board->images_ns)};
}

void fm_client_count_left(struct fm_client *c, const char *what, const char *why, unsigned n)
{
	struct fm_board_call *row;
	char name[FM_CALL_MAX], *comma;

	snprintf(name, sizeof(name), "%s (%s)", what, why);
	while ((comma = strchr(name, ','))) /* no part of a name */
		memmove(comma, comma + 1, strlen(comma));
	row = row_of(c, name);
	if (row)
		atomic_fetch_add_explicit(&row->undivided, n, memory_order_release);
}
