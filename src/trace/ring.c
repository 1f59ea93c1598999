/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"
#include "base/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW)

_Static_assert((FM_TRACE_RECORDS & (FM_TRACE_RECORDS - 1)) == 0, "a power of two");

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

void fm_trace_write(struct fm_trace_ring *ring, const struct fm_trace_rec *rec)
{
	uint64_t pos = atomic_fetch_add_explicit(&ring->head, 1, memory_order_relaxed);
	_Atomic uint64_t *word = ring->slot[pos & (FM_TRACE_RECORDS - 1)].word;
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

void fm_trace_reader_skip(struct fm_trace_reader *r)
{
	r->next = atomic_load_explicit(&r->ring->head, memory_order_acquire);
}

enum found { FOUND, LOST, UNKNOWN, NOT_YET };

static enum found take(const struct fm_trace_reader *r, struct fm_trace_rec *to)
{
	const _Atomic uint64_t *word = r->ring->slot[r->next & (FM_TRACE_RECORDS - 1)].word;
	uint64_t copy[FM_TRACE_WORDS] = {r->next}, done = 2 * r->next + 2;
	uint64_t seen = atomic_load_explicit(&word[0], memory_order_acquire);

	if (seen != done)
		return seen > done ? LOST : NOT_YET;
	for (unsigned i = 1; i < FM_TRACE_WORDS; i++)
		copy[i] = atomic_load_explicit(&word[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&word[0], memory_order_relaxed) != done)
		return LOST;
	memcpy(to, copy, sizeof(*to));
	to->unused = 0;
	return fm_trace_info(to->event) ? FOUND : UNKNOWN;
}

/* Its writer may have lost the processor in the middle, or may never come. */
static bool look_again(struct fm_trace_reader *r)
{
	r->looks = r->waits == r->next + 1 ? r->looks + 1 : 1;
	r->waits = r->next + 1;
	return r->looks < FM_TRACE_LOOKS;
}

size_t fm_trace_read(struct fm_trace_reader *r, struct fm_trace_rec *to, size_t max, bool last)
{
	uint64_t head = atomic_load_explicit(&r->ring->head, memory_order_acquire);
	size_t n = 0;

	/* One lap is all there can be, and a position that goes back is a lie. */
	if (head < r->next)
		return 0;
	if (head - r->next > FM_TRACE_RECORDS) {
		r->lost = fm_add_sat(r->lost, head - r->next - FM_TRACE_RECORDS);
		r->next = head - FM_TRACE_RECORDS;
	}
	for (; n < max && r->next < head; r->next++) {
		enum found found = take(r, &to[n]);

		if (found == NOT_YET && !last && look_again(r))
			break;
		n += found == FOUND;
		r->lost = fm_add_sat(r->lost, found == LOST || found == NOT_YET);
		r->unknown += found == UNKNOWN;
	}
	return n;
}
