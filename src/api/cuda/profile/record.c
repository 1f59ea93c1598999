/* SPDX-License-Identifier: Apache-2.0 */
/* The file of records of this process, and what is counted. */
#include "agent.h"
#include "base/clock.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
	pthread_once_t once;
	_Atomic bool wanted, ended;
	uint64_t until; /* 0: the program's end */
	struct fm_profile_wish wish;
	char dir[4096], sanitizer[4096];
	_Atomic pid_t pid; /* that of the file */
	_Atomic int fd;
	_Atomic uint64_t written;
	_Atomic int32_t patch_error;
	_Atomic uint64_t launches, seen, ns, modules, patched, unseen[FM_UNSEENS];
} the = {.once = PTHREAD_ONCE_INIT, .fd = -1};

static unsigned sources_of(const char *names)
{
	unsigned by = 0;

	for (unsigned i = 0; names && i < FM_SOURCES; i++) {
		const char *name = fm_source_name(i), *at = strstr(names, name);

		if (at)
			by |= 1u << i;
	}
	return by;
}

/* "0,8,16": the parts of the device, behind a nought for the whole of it. */
static void read_rooms(const char *text, struct fm_profile_wish *w)
{
	char *end;

	if (!text || *text != '0')
		return;
	w->times = true;
	for (text++; *text == ',' && w->n_rooms < FM_PROFILE_ROOMS; text = end) {
		unsigned long k = strtoul(text + 1, &end, 10);

		if (end == text + 1 || !k || k > 65536)
			return;
		w->room[w->n_rooms++] = (unsigned)k;
	}
}

static void open_file(void)
{
	char path[sizeof(the.dir) + 64];
	pid_t pid = getpid();

	snprintf(path, sizeof(path), "%s/%d-%u" FM_PROFILE_RECORDS, the.dir, (int)pid,
		(unsigned)(uintptr_t)&path >> 4);
	atomic_store(&the.fd,
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
	atomic_store(&the.written, 0);
	atomic_store(&the.pid, pid);
}

static void begin(void)
{
	const char *dir = secure_getenv(FM_PROFILE_DIR), *check, *sanitizer, *span;

	if (!dir || *dir != '/' || strlen(dir) >= sizeof(the.dir))
		return;
	strcpy(the.dir, dir);
	sanitizer = secure_getenv(FM_PROFILE_SANITIZER);
	if (sanitizer && *sanitizer == '/' && strlen(sanitizer) < sizeof(the.sanitizer))
		the.wish.sanitizer = strcpy(the.sanitizer, sanitizer);
	check = secure_getenv(FM_PROFILE_CHECK);
	the.wish.check = check && !strcmp(check, "1");
	the.wish.by = sources_of(secure_getenv(FM_PROFILE_BY));
	span = secure_getenv(FM_PROFILE_FOR);
	if (span && strtoull(span, NULL, 10))
		the.until = fm_now() + strtoull(span, NULL, 10);
	read_rooms(secure_getenv(FM_PROFILE_TIMED), &the.wish);
	if (the.wish.times)
		the.wish.by = 0;
	atomic_store(&the.wanted, the.wish.by != 0 || the.wish.times);
}

static void put_end(void);

bool fm_tap_wanted(void)
{
	pthread_once(&the.once, begin);
	if (the.until && fm_now() > the.until && atomic_exchange(&the.wanted, false))
		put_end();
	return atomic_load_explicit(&the.wanted, memory_order_relaxed);
}

const struct fm_profile_wish *fm_profile_wish(void)
{
	return &the.wish;
}

/* A child of a fork counts anew. */
static bool is_open(void)
{
	if (atomic_load(&the.pid) != getpid()) {
		if (atomic_load(&the.pid)) {
			close(atomic_load(&the.fd));
			atomic_store(&the.launches, 0);
			atomic_store(&the.seen, 0);
			atomic_store(&the.ended, false);
		}
		open_file();
	}
	return atomic_load(&the.fd) >= 0;
}

#define PARTS 8

bool fm_profile_put(enum fm_record_kind kind, const struct iovec *part, int n)
{
	static const char zeros[8];
	struct fm_record head = {
		.magic = FM_RECORD_MAGIC, .version = FM_RECORD_VERSION, .kind = (uint16_t)kind};
	struct iovec all[PARTS + 2] = {{&head, sizeof(head)}};
	size_t bytes = 0, pad;
	int last = 1;

	for (int i = 0; i < n && i < PARTS; i++) {
		all[last++] = part[i];
		bytes += part[i].iov_len;
	}
	pad = -bytes & 7;
	all[last++] = (struct iovec){(void *)(uintptr_t)zeros, pad};
	head.bytes = (uint32_t)(bytes + pad);
	if (!is_open() || atomic_fetch_add(&the.written, bytes) + bytes > FM_PROFILE_MOST)
		return false;
	/* One call: records of threads do not mix. */
	return writev(atomic_load(&the.fd), all, last) == (ssize_t)(sizeof(head) + head.bytes);
}

void fm_profile_began(uint32_t by, int32_t sanitizer, const char *why)
{
	struct fm_record_start s = {.by = by, .sanitizer = sanitizer};
	const struct iovec part = {&s, sizeof(s)};

	snprintf(s.why, sizeof(s.why), "%s", why);
	fm_profile_put(FM_RECORD_START, &part, 1);
}

void fm_profile_count_launch(void)
{
	atomic_fetch_add_explicit(&the.launches, 1, memory_order_relaxed);
}

void fm_profile_count_seen(uint64_t ns)
{
	atomic_fetch_add_explicit(&the.seen, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&the.ns, ns, memory_order_relaxed);
}

void fm_profile_unseen(enum fm_unseen why)
{
	atomic_fetch_add_explicit(&the.unseen[why], 1, memory_order_relaxed);
}

void fm_profile_count_module(int32_t error)
{
	atomic_fetch_add(&the.modules, 1);
	if (error)
		atomic_store(&the.patch_error, error);
	else
		atomic_fetch_add(&the.patched, 1);
}

/* Once; a child of a fork, which has another file, says nothing. */
static void put_end(void)
{
	struct fm_record_end e = {.launches = atomic_load(&the.launches),
		.seen = atomic_load(&the.seen),
		.modules = atomic_load(&the.modules),
		.patched = atomic_load(&the.patched),
		.ns = atomic_load(&the.ns),
		.patch_error = atomic_load(&the.patch_error),
		.rooms = fm_profile_rooms_why()};
	const struct iovec part = {&e, sizeof(e)};

	if (atomic_load(&the.pid) != getpid() || atomic_exchange(&the.ended, true))
		return;
	for (unsigned i = 0; i < FM_UNSEENS; i++)
		e.unseen[i] = atomic_load(&the.unseen[i]);
	fm_profile_put(FM_RECORD_END, &part, 1);
}

__attribute__((destructor)) static void end(void)
{
	put_end();
}
