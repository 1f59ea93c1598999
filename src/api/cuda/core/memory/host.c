/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"
#include "api/cuda/core/tune.h"
#include "base/util.h"
#include "chunk.h"
#include "places.h"
#include <errno.h>
#include <sys/mman.h>

#define SEGMENT_PAGES 64

void fm_cu_host_init(struct fm_cu_host_pool *p, uint64_t most)
{
	*p = (struct fm_cu_host_pool){.most = most,
		.node = -1,
		.has_room = fm_cu_host_has_room,
		.populate = fm_cu_host_populate};
}

/* --- the budget --- */

static bool grants(struct fm_cu_host_pool *p, uint64_t more)
{
	return !p->budget.take || p->budget.take(p->budget.cookie, p->bytes + p->lent + more);
}

uint64_t fm_cu_host_excess(const struct fm_cu_host_pool *p)
{
	return p->budget.may ? fm_sub_sat(p->bytes + p->lent, p->budget.may(p->budget.cookie)) : 0;
}

uint64_t fm_cu_host_unused(const struct fm_cu_host_pool *p)
{
	const struct fm_cu_host_segment *s;
	uint64_t bytes = 0;

	for (s = p->segments; s; s = s->next)
		bytes += s->used ? 0 : s->pages * FM_CU_PAGE;
	return bytes;
}

/* --- segments --- */

static void end_segment(struct fm_cu_host_pool *p, struct fm_cu_host_segment *s)
{
	size_t size = s->pages * FM_CU_PAGE;

	munmap(s->at, size);
	p->bytes -= size;
	p->strayed -= s->strayed;
	grants(p, 0);
	free(s);
}

/* Memory that the driver still has registered must not be unmapped. */
bool fm_cu_host_trim(struct fm_cu_host_pool *p, const struct fm_cu_driver *cu)
{
	struct fm_cu_host_segment **at = &p->segments, *s;
	unsigned ended = 0;

	while ((s = *at)) {
		if (s->used || (cu && cu->host_unregister(s->at))) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		end_segment(p, s);
		if (cu && ++ended == FM_CU_TRIM_SEGMENTS)
			return true;
	}
	return false;
}

/* A child has nothing to do with it, and its writes must not move the pages that the device
 * knows. */
static char *map_pages(struct fm_cu_host_pool *p, size_t size)
{
	size_t more = size + FM_CU_PAGE;
	char *raw = mmap(NULL, more, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *at;

	if (raw == MAP_FAILED)
		return NULL;
	at = (char *)(((uintptr_t)raw + FM_CU_PAGE - 1) & ~(uintptr_t)(FM_CU_PAGE - 1));
	if (at > raw)
		munmap(raw, (size_t)(at - raw));
	munmap(at + size, (size_t)(raw + more - (at + size)));
	madvise(at, size, MADV_DONTFORK);
	fm_cu_host_prefer(at, size, p->node);
	if (!p->populate(at, size))
		return at;
	munmap(at, size);
	return NULL;
}

static bool may_have(struct fm_cu_host_pool *p, uint64_t bytes)
{
	return bytes <= fm_sub_sat(p->most, p->bytes + p->lent) && p->has_room(bytes, p->lent) &&
	       grants(p, bytes);
}

bool fm_cu_host_lend(struct fm_cu_host_pool *p, uint64_t bytes)
{
	bool ok = may_have(p, bytes);

	p->lent += ok ? bytes : 0;
	return ok;
}

void fm_cu_host_unlend(struct fm_cu_host_pool *p, uint64_t bytes)
{
	p->lent -= bytes;
	grants(p, 0);
}

static struct fm_cu_host_segment *add_segment(
	struct fm_cu_host_pool *p, const struct fm_cu_driver *cu, unsigned pages)
{
	struct fm_cu_host_segment *s;
	size_t size = pages * FM_CU_PAGE;

	if (!may_have(p, size))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (s)
		s->at = map_pages(p, size);
	if (!s || !s->at || cu->host_register(s->at, size, FM_CU_HOST_REGISTER_PORTABLE)) {
		if (s && s->at)
			munmap(s->at, size);
		free(s);
		grants(p, 0);
		return NULL;
	}
	s->pages = pages;
	s->strayed = fm_cu_host_strayed(s->at, size, p->node);
	p->bytes += size;
	p->strayed += s->strayed;
	s->next = p->segments;
	p->segments = s;
	return s;
}

static bool is_within(const struct fm_cu_host_pool *p, uint64_t bytes)
{
	return !p->budget.may || p->bytes + p->lent + bytes <= p->budget.may(p->budget.cookie);
}

static bool take_from(struct fm_cu_host_segment *s, unsigned pages, struct fm_cu_host_run *run)
{
	int first = fm_cu_run_find(s->used, s->pages, pages);

	if (first < 0)
		return false;
	s->used |= fm_cu_run_mask((unsigned)first, pages);
	*run = (struct fm_cu_host_run){s, (unsigned)first, pages};
	return true;
}

static bool take_from_any(struct fm_cu_host_pool *p, unsigned pages, struct fm_cu_host_run *run)
{
	for (struct fm_cu_host_segment *s = p->segments; s; s = s->next)
		if (take_from(s, pages, run))
			return true;
	return false;
}

/* Large segments are made faster, and used better. Where there is no room for one, one that is just
 * large enough may find it. */
int fm_cu_host_take(struct fm_cu_host_pool *p, const struct fm_cu_driver *cu, unsigned pages,
	struct fm_cu_host_run *run)
{
	struct fm_cu_host_segment *s;
	unsigned grown = (unsigned)FM_MIN(p->bytes / FM_CU_PAGE, (uint64_t)SEGMENT_PAGES);

	if (!is_within(p, grown * FM_CU_PAGE)) /* nobody is to give up anything for that */
		grown = 0;
	if (take_from_any(p, pages, run))
		return 0;
	s = add_segment(p, cu, FM_MAX(pages, grown));
	if (!s && grown > pages)
		s = add_segment(p, cu, pages);
	return s && take_from(s, pages, run) ? 0 : -ENOMEM;
}

int fm_cu_host_take_own(struct fm_cu_host_pool *p, const struct fm_cu_driver *cu, unsigned pages,
	struct fm_cu_host_run *run)
{
	if (take_from_any(p, pages, run))
		return 0;
	return is_within(p, pages * FM_CU_PAGE) ? fm_cu_host_take(p, cu, pages, run) : -ENOMEM;
}

void fm_cu_host_give(struct fm_cu_host_pool *p, struct fm_cu_host_run *run)
{
	(void)p;
	if (run->of)
		run->of->used &= ~fm_cu_run_mask(run->first, run->pages);
	*run = (struct fm_cu_host_run){0};
}
