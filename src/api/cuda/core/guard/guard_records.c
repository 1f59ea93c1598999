/* SPDX-License-Identifier: Apache-2.0 */
#include "guard_records.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

#define ALIGN 16u
/* If this many times as much is free in front of the kept records as they take, the next record is
 * the first again. So memory that is written in turn stays in the processor's caches. */
#define ROOMY 4u

static size_t aligned(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

bool fm_cu_records_init(struct fm_cu_records *r)
{
	r->ring = aligned_alloc(ALIGN, FM_CU_RECORD_BYTES);
	r->next = 1;
	fm_cu_records_reset(r);
	return r->ring;
}

void fm_cu_records_reset(struct fm_cu_records *r)
{
	r->head = 0;
	r->first = r->next;
	r->cover_first = r->cover_n = 0;
}

/* Where `need` bytes are free in one piece; SIZE_MAX: nowhere. The head never reaches the oldest
 * record, because then the ring would look empty. */
static FM_HOT size_t place(const struct fm_cu_records *r, size_t need)
{
	if (r->first == r->next)
		return need <= FM_CU_RECORD_BYTES ? 0 : SIZE_MAX;
	if (r->head > r->tail && need < r->tail && r->head - r->tail <= r->tail / ROOMY)
		return 0;
	if (r->head > r->tail && need <= FM_CU_RECORD_BYTES - r->head)
		return r->head;
	if (r->head > r->tail)
		return need < r->tail ? 0 : SIZE_MAX;
	return need < r->tail - r->head ? r->head : SIZE_MAX;
}

FM_HOT struct fm_cu_record *fm_cu_records_room(
	struct fm_cu_records *r, const struct fm_cu_launch_config *config, size_t bytes)
{
	size_t attributes = config->n_attributes * sizeof(struct fm_cu_attribute);
	size_t begin = aligned(sizeof(struct fm_cu_record)), params = begin + aligned(attributes);
	size_t need = params + aligned(bytes), at;
	struct fm_cu_record *rec;

	if (bytes > FM_CU_RECORD_BYTES / 4 || config->n_attributes > 64 ||
		r->next - r->first == FM_CU_RECORDS || r->cover_n == FM_CU_COVERS)
		return NULL;
	at = place(r, need);
	if (at == SIZE_MAX)
		return NULL;
	r->at[r->next % FM_CU_RECORDS] = (uint32_t)at;
	r->head = at + need;
	if (r->first == r->next)
		r->tail = at;
	rec = (struct fm_cu_record *)(r->ring + at);
	rec->config = *config;
	rec->config.stream = NULL;
	rec->config.attributes = (const struct fm_cu_attribute *)((char *)rec + begin);
	if (attributes)
		memcpy((char *)rec + begin, config->attributes, attributes);
	rec->blocks = (uint64_t)config->grid[0] * config->grid[1] * config->grid[2];
	rec->bytes = (uint32_t)bytes;
	rec->params = (char *)rec + params;
	return rec;
}

static struct fm_cu_cover *nth(struct fm_cu_records *r, unsigned i)
{
	return &r->cover[(r->cover_first + i) % FM_CU_COVERS];
}

void fm_cu_records_cover(struct fm_cu_records *r, uint64_t waiting, uint64_t passed)
{
	*nth(r, r->cover_n++) = (struct fm_cu_cover){waiting, passed, r->next - 1};
}

/* How many gates a queue with this progress has passed. */
static unsigned behind(const struct fm_cu_records *r, uint64_t progress)
{
	unsigned n = 0;

	while (n < r->cover_n && r->cover[(r->cover_first + n) % FM_CU_COVERS].passed <= progress)
		n++;
	return n;
}

static uint64_t last_before(const struct fm_cu_records *r, unsigned n)
{
	return n ? r->cover[(r->cover_first + n - 1) % FM_CU_COVERS].last : r->first - 1;
}

uint64_t fm_cu_records_past(const struct fm_cu_records *r, uint64_t progress)
{
	return last_before(r, behind(r, progress));
}

void fm_cu_records_retire(struct fm_cu_records *r, uint64_t progress)
{
	unsigned n = behind(r, progress);

	r->first = last_before(r, n) + 1;
	r->tail = r->at[r->first % FM_CU_RECORDS];
	r->cover_first = (r->cover_first + n) % FM_CU_COVERS;
	r->cover_n -= n;
}

uint64_t fm_cu_records_rest(const struct fm_cu_records *r, uint64_t progress)
{
	unsigned n = behind(r, progress);

	if (n < r->cover_n && r->cover[(r->cover_first + n) % FM_CU_COVERS].waiting == progress)
		n++;
	return last_before(r, n);
}
