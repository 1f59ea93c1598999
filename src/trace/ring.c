/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"
#include "base/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW)

_Static_assert((FM_TRACE_LANE & (FM_TRACE_LANE - 1)) == 0, "a power of two");

/* The thread's lane, and one more; 0: it has none yet. They are given in turn. */
static __thread unsigned own_lane __attribute__((tls_model("initial-exec")));
static _Atomic unsigned lanes_given;

int fm_trace_ring_label(int fd)
{
	const uint32_t head[4] = {
		FM_TRACE_MAGIC, FM_TRACE_VERSION, FM_TRACE_RECORDS, sizeof(struct fm_trace_rec)};

	return pwrite(fd, head, sizeof(head), 0) == sizeof(head) ? 0 : -EIO;
}

int fm_trace_ring_create(void)
{
	FM_CLEAN_FD int fd = memfd_create("fermata-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) || ftruncate(fd, sizeof(struct fm_trace_ring)))
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, SEALS_NEEDED | F_SEAL_SEAL))
		return -errno;
	if (fm_trace_ring_label(fd))
		return -EIO;
	return fm_take_fd(&fd);
}

int fm_trace_ring_reader(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* A memory file of the right size that keeps it. */
static bool is_ring(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & SEALS_NEEDED) == SEALS_NEEDED && !fstat(fd, &st) &&
	       S_ISREG(st.st_mode) && st.st_size == (off_t)sizeof(struct fm_trace_ring);
}

/* The head as it stands in the file: what is mapped already may be another's by then. */
static bool sound(int fd)
{
	uint32_t head[4];

	return pread(fd, head, sizeof(head), 0) == sizeof(head) && head[0] == FM_TRACE_MAGIC &&
	       head[1] == FM_TRACE_VERSION && head[2] == FM_TRACE_RECORDS &&
	       head[3] == sizeof(struct fm_trace_rec);
}

int fm_trace_ring_map(struct fm_trace_ring **out, int fd, struct fm_trace_ring *at)
{
	struct fm_trace_ring *r;

	if (!is_ring(fd) || !sound(fd))
		return -EINVAL;
	r = mmap(at, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
	if (r == MAP_FAILED)
		return -errno;
	*out = r;
	return 0;
}

void fm_trace_ring_unmap(const struct fm_trace_ring *ring)
{
	if (ring)
		munmap((void *)ring, sizeof(*ring));
}

static unsigned lane_of_thread(void)
{
	if (FM_UNLIKELY(!own_lane))
		own_lane = 1 + atomic_fetch_add_explicit(&lanes_given, 1, memory_order_relaxed) %
				       FM_TRACE_LANES;
	return own_lane - 1;
}

void fm_trace_write(struct fm_trace_ring *ring, const struct fm_trace_rec *rec)
{
	unsigned lane = lane_of_thread();
	uint64_t pos = atomic_fetch_add_explicit(&ring->lane[lane].head, 1, memory_order_relaxed);
	_Atomic uint64_t *word = ring->slot[lane][pos & (FM_TRACE_LANE - 1)].word;
	uint64_t seen = atomic_load_explicit(&word[0], memory_order_relaxed), done = 2 * pos + 2;
	uint64_t copy[FM_TRACE_WORDS];

	/* Somebody of a lap before is still in there, or one of the next was faster. */
	if (seen & 1 || seen >= done ||
		!atomic_compare_exchange_strong_explicit(
			&word[0], &seen, done - 1, memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	memcpy(copy, rec, sizeof(copy));
	for (unsigned i = 1; i < FM_TRACE_WORDS; i++)
		atomic_store_explicit(&word[i], copy[i], memory_order_relaxed);
	atomic_store_explicit(&word[0], done, memory_order_release);
}

int fm_trace_reader_open(struct fm_trace_reader *r, int fd)
{
	void *map;

	if (!is_ring(fd) || !sound(fd))
		return -EINVAL;
	map = mmap(NULL, sizeof(*r->ring), PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*r = (struct fm_trace_reader){.ring = map};
	return 0;
}

void fm_trace_reader_close(struct fm_trace_reader *r)
{
	fm_trace_ring_unmap(r->ring);
	r->ring = NULL;
}

enum found { FOUND, LOST, UNKNOWN, NOT_YET };

static enum found take(const struct fm_trace_reader *r, unsigned lane, struct fm_trace_rec *to)
{
	uint64_t next = r->lane[lane].next, done = 2 * next + 2;
	const _Atomic uint64_t *word = r->ring->slot[lane][next & (FM_TRACE_LANE - 1)].word;
	uint64_t copy[FM_TRACE_WORDS] = {next};
	uint64_t seen = atomic_load_explicit(&word[0], memory_order_acquire);

	if (seen != done)
		return seen > done ? LOST : NOT_YET;
	for (unsigned i = 1; i < FM_TRACE_WORDS; i++)
		copy[i] = atomic_load_explicit(&word[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&word[0], memory_order_relaxed) != done)
		return LOST;
	memcpy(to, copy, sizeof(*to));
	to->lane = lane;
	return fm_trace_info(to->event) ? FOUND : UNKNOWN;
}

/* Its writer may have lost the processor in the middle, or may never come. */
static bool look_again(struct fm_trace_lane *l)
{
	l->looks = l->waits == l->next + 1 ? l->looks + 1 : 1;
	l->waits = l->next + 1;
	return l->looks < FM_TRACE_LOOKS;
}

/* An older kernel does not know the call, and does without. */
static void find_memory(const struct fm_trace_reader *r, unsigned lane)
{
#ifdef MADV_POPULATE_READ
	madvise((void *)&r->ring->slot[lane], sizeof(r->ring->slot[lane]), MADV_POPULATE_READ);
#endif
}

static size_t read_lane(
	struct fm_trace_reader *r, unsigned lane, struct fm_trace_rec *to, size_t max, bool last)
{
	uint64_t head = atomic_load_explicit(&r->ring->lane[lane].head, memory_order_acquire);
	struct fm_trace_lane *l = &r->lane[lane];
	size_t n = 0;

	if (head && !l->used) {
		l->used = true;
		find_memory(r, lane);
	}
	/* One lap is all there can be, and a position that goes back is a lie. */
	if (head < l->next)
		return 0;
	if (head - l->next > FM_TRACE_LANE) {
		r->lost = fm_add_sat(r->lost, head - l->next - FM_TRACE_LANE);
		l->next = head - FM_TRACE_LANE;
	}
	r->fill = FM_MAX(r->fill, (unsigned)(head - l->next));
	for (; n < max && l->next < head; l->next++) {
		enum found found = take(r, lane, &to[n]);

		if (found == NOT_YET && !last && look_again(l))
			break;
		n += found == FOUND;
		r->lost = fm_add_sat(r->lost, found == LOST || found == NOT_YET);
		r->unknown += found == UNKNOWN;
	}
	return n;
}

size_t fm_trace_read(struct fm_trace_reader *r, struct fm_trace_rec *to, size_t max, bool last)
{
	size_t n = 0;

	r->fill = 0;
	for (unsigned i = 0; i < FM_TRACE_LANES && n < max; i++)
		n += read_lane(r, i, to + n, max - n, last);
	return n;
}
