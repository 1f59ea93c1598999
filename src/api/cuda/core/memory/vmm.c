/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm.h"
#include "arena_internal.h"
#include "base/util.h"
#include "want.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (FM_CU_CHUNK_PAGES * FM_CU_PAGE)

/* --- memory --- */

/* Of struct CUmemAllocationProp, behind the handles of another system: compressed; known to network
 * cards; what it is used for; nothing. */
bool fm_cu_vmm_able(const struct fm_cu_memory_kind *kind, size_t size)
{
	static const unsigned char known[8] = {[FM_CU_MEMORY_CARDS] = 1};

	for (unsigned i = 0; i < sizeof(known); i++)
		if (kind->flags[i] & ~known[i])
			return false;
	return kind->type == FM_CU_MEMORY_PINNED && kind->location.type == FM_CU_LOCATION_DEVICE &&
	       !kind->win32 && size && size % FM_CU_PAGE == 0 &&
	       (!kind->handle_types || size <= CHUNK);
}

static int make_chunks(struct fm_cu_vmm *v)
{
	int rc = 0;

	for (size_t left = v->size; left && !rc;) {
		uint32_t page, pages = (uint32_t)(FM_MIN(left, CHUNK) / FM_CU_PAGE);

		if (fm_cu_places_take(&v->a->places, pages, 1, &page))
			return -ENOMEM;
		v->chunk[v->n] = fm_cu_chunk_new_of(v->a, page, pages, v, &rc);
		v->n += !rc;
		left -= pages * FM_CU_PAGE;
	}
	return rc;
}

/* Lock held. What the driver does not take back stays, and looks at its kind. */
static void end_chunks(struct fm_cu_vmm *v)
{
	struct fm_cu_arena *a = v->a;
	struct fm_cu_chunk *c;

	for (unsigned i = 0; i < v->n; i++)
		fm_cu_chunk_end(a, v->chunk[i]);
	fm_list_each (c, &a->chunks, all)
		if (c->of == v)
			return;
	free(v);
}

int fm_cu_vmm_create(struct fm_cu_arena *a, size_t size, const struct fm_cu_memory_kind *kind,
	bool borrows, struct fm_cu_vmm **vmm)
{
	size_t n = (size + CHUNK - 1) / CHUNK;
	struct fm_cu_vmm *v;
	int rc;

	if (size > a->size)
		return -ENOMEM;
	v = calloc(1, sizeof(*v) + n * sizeof(v->chunk[0]));
	if (!v)
		return -ENOMEM;
	v->a = a;
	v->kind = *kind;
	v->size = size;
	v->id = fm_cu_block_ids(1);
	pthread_mutex_lock(&a->lock);
	a->borrows = borrows && !a->stays;
	rc = make_chunks(v);
	if (rc)
		end_chunks(v);
	pthread_mutex_unlock(&a->lock);
	if (!rc)
		*vmm = v;
	return rc;
}

void fm_cu_vmm_end(struct fm_cu_vmm *v)
{
	struct fm_cu_arena *a = v->a;

	pthread_mutex_lock(&a->lock);
	end_chunks(v);
	pthread_mutex_unlock(&a->lock);
}

int fm_cu_vmm_pin(struct fm_cu_vmm *v, unsigned reason, bool borrowed, uint64_t *bytes)
{
	int rc = 0;

	*bytes = 0;
	pthread_mutex_lock(&v->a->lock);
	for (unsigned i = 0; i < v->n; i++)
		if (!fm_cu_chunk_here(v->chunk[i]) || (v->chunk[i]->borrowed && !borrowed))
			rc = -EBUSY;
	for (unsigned i = 0; i < v->n && !rc; i++) {
		fm_cu_want_fixed(v->a, v->chunk[i]);
		*bytes += v->chunk[i]->stays ? 0 : fm_cu_chunk_size(v->chunk[i]);
		v->chunk[i]->stays = v->chunk[i]->stays ? v->chunk[i]->stays : reason;
		v->chunk[i]->stays_held = false;
	}
	pthread_mutex_unlock(&v->a->lock);
	return rc;
}

/* --- mappings --- */

/* Of memory that is lost (lost.h) the handle is old, and may be another's by now. */
static fm_cu_result map_alias(const struct fm_cu_arena *a, struct fm_cu_alias *l)
{
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;

	if (l->chunk->made && !l->chunk->lost)
		rc = a->cu->mem_map(l->at, l->size, l->offset, l->chunk->handle, 0);
	l->mapped = !rc;
	return rc;
}

static void join(struct fm_cu_mapping *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		m->alias[i].next = m->alias[i].chunk->aliases;
		m->alias[i].chunk->aliases = &m->alias[i];
	}
}

static void leave(struct fm_cu_mapping *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct fm_cu_alias **l = &m->alias[i].chunk->aliases;

		while (*l != &m->alias[i])
			l = &(*l)->next;
		*l = m->alias[i].next;
	}
}

/* Parts of the chunks that lie within. */
static void cut(struct fm_cu_mapping *m, size_t offset)
{
	for (size_t done = 0; done < m->size; m->n++) {
		size_t in = (offset + done) % CHUNK;
		struct fm_cu_chunk *c = m->of->chunk[(offset + done) / CHUNK];

		m->alias[m->n] = (struct fm_cu_alias){.chunk = c,
			.of = m,
			.at = m->at + done,
			.offset = in,
			.size = FM_MIN(fm_cu_chunk_size(c) - in, m->size - done)};
		done += m->alias[m->n].size;
	}
}

fm_cu_result fm_cu_vmm_map(struct fm_cu_vmm *v, CUdeviceptr at, size_t size, size_t offset,
	struct fm_cu_mapping **mapping)
{
	fm_cu_result rc = FM_CU_SUCCESS;
	struct fm_cu_mapping *m;

	if (!size || offset >= v->size || size > v->size - offset)
		return FM_CU_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m) + v->n * sizeof(m->alias[0]));
	if (!m)
		return FM_CU_ERROR_OUT_OF_MEMORY;
	m->of = v;
	m->at = at;
	m->size = size;
	cut(m, offset);
	for (unsigned i = 0; i < m->n && !rc; i++)
		rc = map_alias(v->a, &m->alias[i]);
	if (!rc) {
		join(m);
		*mapping = m;
		return rc;
	}
	for (unsigned i = 0; i < m->n && m->alias[i].mapped; i++)
		v->a->cu->mem_unmap(m->alias[i].at, m->alias[i].size);
	free(m);
	return rc;
}

void fm_cu_vmm_unmapped(struct fm_cu_mapping *m)
{
	leave(m);
	free(m->granted);
	free(m);
}

int fm_cu_vmm_grant_ready(struct fm_cu_mapping *m, size_t n)
{
	struct fm_cu_memory_access *more;

	if (n <= m->room - m->n_granted)
		return 0;
	if (n > 4096) /* more than there are places */
		return -ENOMEM;
	more = realloc(m->granted, (m->n_granted + n) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	m->granted = more;
	m->room = m->n_granted + (unsigned)n;
	return 0;
}

static void grant(struct fm_cu_mapping *m, const struct fm_cu_memory_access *what)
{
	unsigned i = 0;

	while (i < m->n_granted &&
		memcmp(&m->granted[i].location, &what->location, sizeof(what->location)))
		i++;
	m->granted[i] = *what;
	m->n_granted = FM_MAX(m->n_granted, i + 1);
}

void fm_cu_vmm_granted(struct fm_cu_mapping *m, const struct fm_cu_memory_access *what, size_t n)
{
	for (size_t i = 0; i < n; i++)
		grant(m, &what[i]);
	for (unsigned i = 0; i < m->n; i++)
		m->alias[i].reachable = true;
}

/* --- they go and come with a chunk --- */

/* What a location that is gone reaches must not keep the others from the memory. */
static fm_cu_result open_alias(const struct fm_cu_arena *a, struct fm_cu_alias *l)
{
	const struct fm_cu_mapping *m = l->of;
	fm_cu_result rc, one;

	rc = a->cu->mem_access(l->at, l->size, m->granted, m->n_granted);
	if (!rc || rc == FM_CU_ERROR_OUT_OF_MEMORY || m->n_granted == 1)
		return rc;
	for (unsigned i = 0; i < m->n_granted; i++) {
		one = a->cu->mem_access(l->at, l->size, &m->granted[i], 1);
		if (one == FM_CU_ERROR_OUT_OF_MEMORY)
			return one;
		rc = one ? rc : FM_CU_SUCCESS;
	}
	return rc;
}

int fm_cu_aliases_map(const struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	for (struct fm_cu_alias *l = c->aliases; l && !rc; l = l->next) {
		if (!l->mapped)
			rc = map_alias(a, l);
		if (!rc && !l->reachable && l->of->n_granted) {
			rc = open_alias(a, l);
			l->reachable = !rc;
		}
	}
	return !rc ? 0 : rc == FM_CU_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

int fm_cu_aliases_unmap(const struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	for (struct fm_cu_alias *l = c->aliases; l; l = l->next) {
		if (!l->mapped)
			continue;
		if (a->cu->mem_unmap(l->at, l->size))
			return -EIO;
		l->mapped = l->reachable = false;
	}
	return 0;
}
