/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of this process (docs/idempotence.md has its format), and what memory there is. */
#include "base/lockorder.h"
#include "base/util.h"
#include "record.h"
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QUEUES \
	63u /* with numbers of their own; the others share the last one, and never run again */
#define BEYOND (UINT64_C(1) << 63) /* no address of a trace */

struct allocation {
	uint64_t at, size, id;
	uintptr_t ctx; /* 0: it is not known */
};
struct queue {
	uintptr_t ctx, stream, thread;
};
static struct {
	pthread_once_t once;
	_Atomic bool wanted;
	pthread_mutex_t lock;
	pid_t owner;
	FILE *out;
	char path[4096];
	uint64_t op, next_id;
	struct allocation *of; /* by address, apart from each other */
	size_t n, room;
	struct queue queue[QUEUES];
	unsigned n_queues;
	bool exported; /* others may touch memory */
} the = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};
FM_LOCK_RANK(the.lock, RECORD_TRACE);

static void open_trace(void)
{
	const char *dir = secure_getenv(FM_RECORD_DIR);
	int fd;

	if (!dir || *dir != '/' ||
		(size_t)snprintf(the.path, sizeof(the.path), "%s/%d.cuda.trace", dir,
			(int)getpid()) >= sizeof(the.path))
		return;
	fd = open(the.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	the.out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!the.out)
		return;
	the.owner = getpid();
	fputs("{\"v\":1,\"device\":\"CUDA\",\"alloc\":[]}\n", the.out);
	fflush(the.out);
	atomic_store(&the.wanted, true);
}

/* A child of a fork has a trace of its own, if it comes to use the device: what is in the buffer is
 * the parent's, and so is what is known of memory. */
static void before_fork(void)
{
	pthread_mutex_lock(&the.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&the.lock);
}

static void in_child(void)
{
	the.out = NULL;
	the.op = the.n = the.n_queues = 0;
	the.exported = false;
	atomic_store(&the.wanted, false);
	the.once = (pthread_once_t)PTHREAD_ONCE_INIT;
	pthread_mutex_unlock(&the.lock);
	fm_record_again_fork_child();
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

bool fm_tap_wanted(void)
{
	pthread_once(&the.once, open_trace);
	return atomic_load_explicit(&the.wanted, memory_order_relaxed);
}

/* A trace with a hole is none. */
static void end_line(void)
{
	fputs("}\n", the.out);
	if (!fflush(the.out) && !ferror(the.out) && ftell(the.out) < (long)FM_RECORD_MOST)
		return;
	atomic_store(&the.wanted, false);
	if (truncate(the.path, 0))
		unlink(the.path);
}

static bool lock_trace(void)
{
	pthread_mutex_lock(&the.lock);
	if (the.owner == getpid() && fm_tap_wanted())
		return true;
	pthread_mutex_unlock(&the.lock);
	return false;
}

/* --- streams --- */

CUstream fm_record_stream(CUstream given, bool per_thread)
{
	return per_thread && !given ? FM_CU_STREAM_PER_THREAD : given;
}

/* QUEUES: of no number of its own. */
static unsigned queue_of(CUstream stream)
{
	const struct fm_record_driver *cu = fm_record_driver();
	struct queue q = {.stream = (uintptr_t)stream};
	CUcontext ctx = NULL;
	unsigned i = 0;

	if (stream == FM_CU_STREAM_LEGACY)
		q.stream = 0;
	if (stream == FM_CU_STREAM_PER_THREAD)
		q.thread = (uintptr_t)syscall(SYS_gettid);
	if (q.stream <= (uintptr_t)FM_CU_STREAM_PER_THREAD && !cu->current(&ctx))
		q.ctx = (uintptr_t)ctx;
	while (i < the.n_queues && memcmp(&the.queue[i], &q, sizeof(q)))
		i++;
	if (i == the.n_queues && i < QUEUES)
		the.queue[the.n_queues++] = q;
	return i;
}

/* --- memory --- */

/* The first that ends behind `at'. */
static size_t first_behind(uint64_t at)
{
	size_t low = 0, high = the.n;

	while (low < high) {
		size_t half = low + (high - low) / 2;

		if (the.of[half].at + the.of[half].size <= at)
			low = half + 1;
		else
			high = half;
	}
	return low;
}

static const struct allocation *find(struct fm_record_span s)
{
	size_t i = first_behind(s.at);

	if (i == the.n || s.at < the.of[i].at || s.size > the.of[i].size - (s.at - the.of[i].at))
		return NULL;
	return &the.of[i];
}

bool fm_record_find(uint64_t at, struct fm_record_span *whole)
{
	const struct allocation *a;

	if (!lock_trace())
		return false;
	a = find((struct fm_record_span){at, 1});
	if (a)
		*whole = (struct fm_record_span){a->at, a->size};
	pthread_mutex_unlock(&the.lock);
	return a;
}

/* --- lines --- */

static uint64_t begin_op(const char *kind, unsigned queue)
{
	fprintf(the.out, "{\"op\":%" PRIu64 ",\"queue\":%u,\"kind\":\"%s\"", the.op++, queue, kind);
	if (the.exported && strcmp(kind, "kernel")) /* put_flags() has those of kernels */
		fputs(",\"flags\":[\"visible\"]", the.out);
	return the.op - 1;
}

static void put_span(const char *set, struct fm_record_span s)
{
	const struct allocation *a = find(s);

	if (a && s.size)
		fprintf(the.out, ",\"%s\":[[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]]", set, a->id,
			s.at - a->at, s.at - a->at + s.size);
}

static void put_everything(void)
{
	for (unsigned w = 0; w < 2; w++) {
		fprintf(the.out, ",\"%s\":[", w ? "w" : "r");
		for (size_t i = 0; i < the.n; i++)
			fprintf(the.out, "%s[%" PRIu64 ",0,%" PRIu64 "]", i ? "," : "",
				the.of[i].id, the.of[i].size);
		fputc(']', the.out);
	}
}

static void put_text(const char *name, const char *text)
{
	fprintf(the.out, ",\"%s\":\"", name);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c < 32 || *c > 126 || *c == '"' || *c == '\\')
			fprintf(the.out, "\\u%04x", *c);
		else
			fputc(*c, the.out);
	fputc('"', the.out);
}

/* --- memory comes and goes --- */

static void free_one(size_t i, unsigned queue)
{
	begin_op("free", queue);
	put_span("w", (struct fm_record_span){the.of[i].at, the.of[i].size});
	end_line();
	memmove(&the.of[i], &the.of[i + 1], (--the.n - i) * sizeof(*the.of));
}

static uintptr_t current_context(void)
{
	const struct fm_record_driver *cu = fm_record_driver();
	CUcontext ctx = NULL;

	return cu && !cu->current(&ctx) ? (uintptr_t)ctx : 0;
}

bool fm_record_is_private(CUdeviceptr at)
{
	enum {
		MEMORY_TYPE = 2,
		IS_MANAGED = 8,
		TYPE_DEVICE = 2
	}; /* CUpointer_attribute, CUmemorytype */
	const struct fm_record_driver *cu = fm_record_driver();
	unsigned type = 0, managed = 0;

	return cu && cu->pointer && !cu->pointer(&type, MEMORY_TYPE, at) && type == TYPE_DEVICE &&
	       !cu->pointer(&managed, IS_MANAGED, at) && !managed;
}

void fm_record_allocated(uint64_t at, uint64_t size, bool visible)
{
	uintptr_t ctx = current_context();
	size_t i;

	if (!size || at >= BEYOND || size > BEYOND - at || !lock_trace())
		return;
	/* What was there has ended in a way that nobody has seen. */
	for (i = first_behind(at); i < the.n && the.of[i].at < at + size;)
		free_one(i, 0);
	if (the.n == the.room) {
		size_t room = the.room ? 2 * the.room : 1024;
		void *more = reallocarray(the.of, room, sizeof(*the.of));

		if (!more) { /* it is unknown then, as what touches it */
			pthread_mutex_unlock(&the.lock);
			return;
		}
		the.of = more;
		the.room = room;
	}
	memmove(&the.of[i + 1], &the.of[i], (the.n++ - i) * sizeof(*the.of));
	the.of[i] = (struct allocation){at, size, the.next_id++, ctx};
	fprintf(the.out,
		"{\"alloc\":[{\"id\":%" PRIu64 ",\"base\":\"0x%" PRIx64 "\",\"size\":%" PRIu64
		"%s}]",
		the.of[i].id, at, size, visible ? ",\"visible\":true" : "");
	end_line();
	pthread_mutex_unlock(&the.lock);
}

void fm_record_freed(uint64_t at, CUstream stream)
{
	size_t i;
	int mode;

	if (!at || !fm_record_enter(&mode))
		return;
	if (lock_trace()) {
		i = first_behind(at);
		if (i < the.n && the.of[i].at == at)
			free_one(i, queue_of(stream));
		pthread_mutex_unlock(&the.lock);
	}
	fm_record_leave(mode);
}

void fm_record_forget_memory(CUcontext ctx)
{
	if (!lock_trace())
		return;
	for (size_t i = the.n; i-- && fm_tap_wanted();)
		if (!ctx || !the.of[i].ctx || the.of[i].ctx == (uintptr_t)ctx)
			free_one(i, 0);
	pthread_mutex_unlock(&the.lock);
}

void fm_record_exported(void)
{
	if (fm_tap_inside || !lock_trace())
		return;
	the.exported = true;
	pthread_mutex_unlock(&the.lock);
}

/* --- operations --- */

void fm_record_plain(const char *kind, CUstream stream)
{
	if (!lock_trace())
		return;
	begin_op(kind, queue_of(stream));
	end_line();
	pthread_mutex_unlock(&the.lock);
}

static void put_unknown(unsigned queue)
{
	begin_op("host_fn", queue);
	put_everything();
	end_line();
}

void fm_record_unknown(CUstream stream)
{
	if (!lock_trace())
		return;
	put_unknown(queue_of(stream));
	pthread_mutex_unlock(&the.lock);
}

void fm_record_graph(CUstream stream)
{
	if (!lock_trace())
		return;
	begin_op("kernel", queue_of(stream));
	fputs(",\"name\":\"(graph)\",\"unseen\":\"graph\",\"flags\":[\"dynamic\"]", the.out);
	put_everything();
	end_line();
	pthread_mutex_unlock(&the.lock);
}

uint64_t fm_record_next_op(void)
{
	uint64_t op = FM_RECORD_NO_OP;

	if (!lock_trace())
		return op;
	op = the.op;
	pthread_mutex_unlock(&the.lock);
	return op;
}

uint64_t fm_record_fill(CUstream stream, struct fm_record_span to, bool rows)
{
	uint64_t op = FM_RECORD_NO_OP;
	unsigned queue;

	if (!to.size || !lock_trace())
		return op;
	queue = queue_of(stream);
	if (queue == QUEUES || !find(to)) {
		put_unknown(queue);
	} else {
		op = begin_op("memset", queue);
		put_span("w", to);
		if (rows)
			fputs(",\"k\":[]", the.out);
		end_line();
	}
	pthread_mutex_unlock(&the.lock);
	return op;
}

/* Is some of it the program's memory of the device? */
static bool meets(struct fm_record_span s)
{
	size_t i = first_behind(s.at);

	return i < the.n && the.of[i].at < s.at + s.size;
}

uint64_t fm_record_copy(CUstream stream, struct fm_record_span to, struct fm_record_span from)
{
	uint64_t op = FM_RECORD_NO_OP;
	bool to_known, from_known;
	unsigned queue;

	if (!to.size || !lock_trace())
		return op;
	queue = queue_of(stream);
	to_known = find(to);
	from_known = find(from);
	if (queue == QUEUES || (!to_known && meets(to)) || (!from_known && meets(from))) {
		put_unknown(queue);
	} else {
		op = begin_op(to_known && from_known ? "d2d"
			      : to_known             ? "h2d"
			      : from_known           ? "d2h"
						     : "host_fn",
			queue);
		if (from_known)
			put_span("r", from);
		if (to_known)
			put_span("w", to);
		end_line();
	}
	pthread_mutex_unlock(&the.lock);
	return to_known && from_known ? op : FM_RECORD_NO_OP;
}

/* --- kernels --- */

static bool same_memory(const struct fm_accessed *t)
{
	for (unsigned i = 0; i < t->n; i++) {
		const struct allocation *a =
			find((struct fm_record_span){t->region[i].at, t->region[i].size});

		if (!a || a->at != t->region[i].at || a->size != t->region[i].size)
			return false;
	}
	return true;
}

/* Quarters of a cell, for each set of a trace. */
enum { R, W, K, A, B, SETS };
static unsigned quarters(uint64_t cell, unsigned set)
{
	unsigned r = cell >> FM_ACCESSED_R & 15, w = cell >> FM_ACCESSED_W & 15;

	switch (set) {
	case R:
		return r;
	case W:
		return w;
	case K:
		return (cell >> FM_ACCESSED_ALL) & 15 & ~r;
	case A:
		return cell >> FM_ACCESSED_A & 15;
	default:
		return cell >> FM_ACCESSED_MANY & 1 ? w : 0;
	}
}

/* Of a region; prints them if there is a name. How many. */
static uint64_t put_region(
	const struct fm_accessed *t, unsigned region, unsigned set, bool print, uint64_t before)
{
	const struct fm_accessed_region *r = &t->region[region];
	const struct allocation *a = find((struct fm_record_span){r->at, 1});
	uint64_t cells = fm_accessed_cells(r), from = 0, n = 0, q;
	bool open = false;

	for (uint64_t c = 0; c <= cells; c++) {
		unsigned has = c < cells ? quarters(t->cell[r->first + c], set) : 0;

		for (unsigned i = 0; i < 4; i++) {
			bool is = has >> i & 1;

			q = (c * 4 + i) << r->shift;
			if (is == open)
				continue;
			if (is)
				from = q;
			else if (print)
				fprintf(the.out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
					before + n ? "," : "", a->id, from, FM_MIN(q, r->size));
			n += !is;
			open = is;
		}
	}
	return n;
}

static uint64_t count_spans(const struct fm_accessed *t)
{
	uint64_t n = 0;

	for (unsigned set = 0; set < SETS; set++)
		for (unsigned i = 0; i < t->n; i++)
			n += put_region(t, i, set, false, 0);
	return n;
}

static void put_sets(const struct fm_accessed *t)
{
	static const char *const names[SETS] = {"r", "w", "k", "a", "b"};

	for (unsigned set = 0; set < SETS; set++) {
		uint64_t n = 0;

		fprintf(the.out, ",\"%s\":[", names[set]);
		for (unsigned i = 0; i < t->n; i++)
			n += put_region(t, i, set, true, n);
		fputc(']', the.out);
	}
}

/* All of what its arguments name. */
static void put_regions(const struct fm_accessed *t)
{
	for (unsigned w = 0; w < 3; w++) {
		fprintf(the.out, ",\"%s\":[", w > 1 ? "b" : w ? "w" : "r");
		for (unsigned i = 0; i < t->n; i++)
			fprintf(the.out, "%s[%" PRIu64 ",0,%" PRIu64 "]", i ? "," : "",
				find((struct fm_record_span){t->region[i].at, 1})->id,
				t->region[i].size);
		fputc(']', the.out);
	}
}

/* Pointers are a dot, and what is no pointer is hexadecimal digits. */
static void put_scalars(const struct fm_record_kernel *k)
{
	uint64_t value;

	fprintf(the.out, ",\"scalars\":\"%u;", k->shared);
	for (unsigned at = 0; at < k->bytes; at += 8) {
		unsigned n = FM_MIN(8u, k->bytes - at);

		value = 0;
		memcpy(&value, k->params + at, n);
		if (n == 8 && find((struct fm_record_span){value, 1}))
			fputc('.', the.out);
		else
			for (unsigned i = 0; i < n; i++)
				fprintf(the.out, "%02x", k->params[at + i]);
	}
	fputc('"', the.out);
}

/* Where those dots point: [allocation, byte]. */
static void put_pointers(const struct fm_record_kernel *k)
{
	const char *between = "";
	uint64_t value;

	fputs(",\"args\":[", the.out);
	for (unsigned at = 0; at + 8 <= k->bytes; at += 8) {
		const struct allocation *a;

		memcpy(&value, k->params + at, 8);
		a = find((struct fm_record_span){value, 1});
		if (!a)
			continue;
		fprintf(the.out, "%s[%" PRIu64 ",%" PRIu64 "]", between, a->id, value - a->at);
		between = ",";
	}
	fputc(']', the.out);
}

static void put_flags(unsigned nature, bool coarse)
{
	const char *between = "";

	fputs(",\"flags\":[", the.out);
	if (nature & FM_NATURE_DYNAMIC) {
		fputs("\"dynamic\"", the.out);
		between = ",";
	}
	if (nature & FM_NATURE_APPROX) {
		fprintf(the.out, "%s\"approx\"", between);
		between = ",";
	}
	if (the.exported) {
		fprintf(the.out, "%s\"visible\"", between);
		between = ",";
	}
	if (coarse)
		fprintf(the.out, "%s\"coarse\"", between);
	fputc(']', the.out);
}

static uint64_t put_kernel(
	const struct fm_record_kernel *k, enum fm_record_unseen why, unsigned queue)
{
#define UNSEEN_NAME(id, name) name,
	static const char *const names[] = {FM_RECORD_UNSEEN_MAP(UNSEEN_NAME)};
#undef UNSEEN_NAME
	bool many = !why && count_spans(k->seen) > FM_RECORD_SPANS;
	uint64_t op = begin_op("kernel", queue);

	put_text("name", k->name);
	put_text("hash", k->hash);
	fprintf(the.out, ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u]", k->grid[0], k->grid[1],
		k->grid[2], k->block[0], k->block[1], k->block[2]);
	put_scalars(k);
	if (why) {
		put_text("unseen", names[why]);
		put_flags(k->nature | FM_NATURE_DYNAMIC, false);
		put_everything();
	} else {
		put_pointers(k);
		put_flags(k->nature, many || (k->seen->n && k->seen->region[0].shift));
		(many ? put_regions : put_sets)(k->seen);
	}
	end_line();
	return op;
}

uint64_t fm_record_put_kernel(const struct fm_record_kernel *k, bool *seen)
{
	enum fm_record_unseen why = k->why;
	unsigned queue;
	uint64_t op;

	*seen = false;
	if (!lock_trace())
		return FM_RECORD_NO_OP;
	queue = queue_of(k->stream);
	if (queue == QUEUES)
		why = FM_RECORD_LARGE;
	else if (!why && !same_memory(k->seen))
		why = FM_RECORD_FAILED;
	op = put_kernel(k, why, queue);
	pthread_mutex_unlock(&the.lock);
	*seen = !why;
	return op;
}
