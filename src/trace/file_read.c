/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/util.h"
#include "file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RINGS_MAX (1u << 16)

struct parse {
	struct fm_trace_file *t;
	const char *data, *path;
	size_t size, at; /* of the chunk's head */
	size_t names_cap, rings_cap, items_cap;
	struct fm_err *err;
};

static int bad(struct parse *p, const char *what)
{
	fm_err_set(p->err, -EINVAL, "%s: %s, at offset %zu", p->path, what, p->at);
	return fm_err_hint(p->err, "is it a file of `fermata trace record'?");
}

static int no_memory(struct parse *p)
{
	return fm_err_set(p->err, -ENOMEM, "%s: out of memory", p->path);
}

/* Room for one more; the array is the caller's pointer. */
static bool grow(void *array, size_t n, size_t *cap, size_t size)
{
	size_t wanted = *cap ? 2 * *cap : 256;
	void **old = array, *more;

	if (n < *cap)
		return true;
	more = reallocarray(*old, wanted, size);
	if (!more)
		return false;
	*old = more;
	*cap = wanted;
	return true;
}

/* Rings are few, and the last one is asked for most. NULL: out of memory. */
static struct fm_trace_file_ring *ring_get(struct parse *p, uint32_t id)
{
	struct fm_trace_file *t = p->t;

	for (size_t i = t->n_rings; i-- > 0;)
		if (t->rings[i].id == id)
			return &t->rings[i];
	if (t->n_rings >= RINGS_MAX ||
		!grow(&t->rings, t->n_rings, &p->rings_cap, sizeof(*t->rings)))
		return NULL;
	t->rings[t->n_rings] = (struct fm_trace_file_ring){.id = id, .program = "?"};
	return &t->rings[t->n_rings++];
}

static int take_name(struct parse *p, const char *data, size_t size)
{
	const struct fm_trace_name *name = (const void *)data;
	struct fm_trace_file *t = p->t;
	const char *text = data + sizeof(*name);
	struct fm_trace_file_ring *ring;

	if (size <= sizeof(*name) || !memchr(text, '\0', size - sizeof(*name)) ||
		size - sizeof(*name) > FM_TRACE_TEXT)
		return bad(p, "a name that does not end");
	if (name->kind < FM_TN_RING || name->kind > FM_TN_QUEUE)
		return bad(p, "a name of nothing");
	if (!grow(&t->names, t->n_names, &p->names_cap, sizeof(*t->names)))
		return no_memory(p);
	t->names[t->n_names] = (struct fm_trace_file_name){name, text, t->n_names};
	t->n_names++;
	if (name->kind != FM_TN_RING)
		return 0;
	ring = ring_get(p, name->id);
	if (!ring)
		return no_memory(p);
	ring->pid = name->pid;
	ring->program = text;
	return 0;
}

static int take_records(struct parse *p, const char *data, size_t size)
{
	const struct fm_trace_records *head = (const void *)data;
	const struct fm_trace_rec *rec = (const void *)(data + sizeof(*head));
	struct fm_trace_file *t = p->t;
	struct fm_trace_file_ring *ring;

	if (size < sizeof(*head) || (size - sizeof(*head)) / sizeof(*rec) != head->n ||
		(size - sizeof(*head)) % sizeof(*rec))
		return bad(p, "a number of records that is not the stated one");
	ring = ring_get(p, head->ring);
	if (!ring)
		return no_memory(p);
	ring->lost = FM_MAX(ring->lost, head->lost);
	for (uint32_t i = 0; i < head->n; i++) {
		if (!fm_trace_info(rec[i].event)) {
			t->unknown++;
			continue;
		}
		if (!grow(&t->items, t->n_items, &p->items_cap, sizeof(*t->items)))
			return no_memory(p);
		t->items[t->n_items++] =
			(struct fm_trace_item){&rec[i], (uint32_t)(ring - t->rings)};
		ring->records++;
	}
	return 0;
}

static int take_end(struct parse *p, const char *data, size_t size)
{
	if (size != sizeof(struct fm_trace_end))
		return bad(p, "an end of another size");
	p->t->ended = true;
	p->t->why = ((const struct fm_trace_end *)(const void *)data)->why;
	return 0;
}

static int take_chunk(struct parse *p, uint32_t type, const char *data, size_t size)
{
	if (p->t->ended)
		return bad(p, "data behind the end");
	switch (type) {
	case FM_TC_NAME:
		return take_name(p, data, size);
	case FM_TC_RECORDS:
		return take_records(p, data, size);
	case FM_TC_END:
		return take_end(p, data, size);
	}
	return bad(p, "a chunk of an unknown type");
}

static int take_head(struct parse *p)
{
	const struct fm_trace_file_head *h = (const void *)p->data;

	if (p->size < sizeof(*h) || memcmp(h->magic, FM_TRACE_FILE_MAGIC, sizeof(h->magic)) != 0)
		return bad(p, "this is not a trace of Fermata");
	if (h->version != FM_TRACE_FILE_VERSION) {
		fm_err_set(p->err, -EINVAL, "%s: a trace of version %u; this command reads %d",
			p->path, h->version, FM_TRACE_FILE_VERSION);
		return fm_err_hint(p->err, "use the `fermata' that recorded it");
	}
	if (h->head_size != sizeof(*h) || h->record_size != sizeof(struct fm_trace_rec))
		return bad(p, "an invalid head");
	p->t->head = h;
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct fm_trace_item *x = a, *y = b;

	if (x->rec->at != y->rec->at)
		return x->rec->at < y->rec->at ? -1 : 1;
	if (x->ring != y->ring)
		return x->ring < y->ring ? -1 : 1;
	return x->rec < y->rec ? -1 : x->rec > y->rec;
}

#define COMPARE(x, y)                              \
	do {                                       \
		if ((x) != (y))                    \
			return (x) < (y) ? -1 : 1; \
	} while (0)

/* Queues by who had the slot, and since when; others by their numbers. */
static int by_number(const void *a, const void *b)
{
	const struct fm_trace_file_name *i = a, *k = b;
	const struct fm_trace_name *x = i->name, *y = k->name;

	COMPARE(x->kind, y->kind);
	if (x->kind == FM_TN_QUEUE) {
		COMPARE(x->pid, y->pid);
		COMPARE(x->slot, y->slot);
		COMPARE(x->since, y->since);
	} else {
		COMPARE(x->id, y->id);
	}
	COMPARE(i->order, k->order);
	return 0;
}

static int parse(struct parse *p)
{
	int rc = take_head(p);

	p->at = sizeof(struct fm_trace_file_head);
	while (!rc && p->at < p->size) {
		const struct fm_trace_chunk *c = (const void *)(p->data + p->at);
		size_t left = p->size - p->at;

		if (left < sizeof(*c) || left - sizeof(*c) < c->size) {
			p->t->cut_off_at = p->size;
			break;
		}
		if (c->size % 8)
			return bad(p, "a chunk of an impossible size");
		rc = take_chunk(p, c->type, (const char *)(c + 1), c->size);
		p->at += sizeof(*c) + c->size;
	}
	return rc;
}

int fm_trace_file_parse(struct fm_trace_file *t, const void *data, size_t size, const char *path,
	struct fm_err *err)
{
	struct parse p = {.t = t, .data = data, .path = path, .size = size, .err = err};
	int rc;

	*t = (struct fm_trace_file){0};
	rc = parse(&p);
	if (rc) {
		fm_trace_file_close(t);
		return rc;
	}
	if (t->n_items)
		qsort(t->items, t->n_items, sizeof(*t->items), by_time);
	if (t->n_names)
		qsort(t->names, t->n_names, sizeof(*t->names), by_number);
	return 0;
}

int fm_trace_file_open(struct fm_trace_file *t, const char *path, struct fm_err *err)
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;
	int rc;

	if (fd < 0 || fstat(fd, &st))
		return fm_err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || !st.st_size) {
		fm_err_set(err, -EINVAL, "%s: this is not a trace of Fermata", path);
		return fm_err_hint(err, "`fermata trace record -o FILE' makes one");
	}
	/* Private: who cuts the file off meanwhile harms who reads it, and nobody else. */
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return fm_err_set(err, -errno, "%s: %s", path, strerror(errno));
	rc = fm_trace_file_parse(t, map, (size_t)st.st_size, path, err);
	if (rc) {
		munmap(map, (size_t)st.st_size);
		return rc;
	}
	t->map = map;
	t->size = (size_t)st.st_size;
	return 0;
}

void fm_trace_file_close(struct fm_trace_file *t)
{
	free(t->names);
	free(t->rings);
	free(t->items);
	if (t->map)
		munmap(t->map, t->size);
	*t = (struct fm_trace_file){0};
}

/* The first name behind those of this kind and number. */
static size_t behind(const struct fm_trace_file *t, uint32_t kind, uint32_t id)
{
	size_t lo = 0, hi = t->n_names;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct fm_trace_name *n = t->names[mid].name;

		if (n->kind < kind || (n->kind == kind && n->id <= id))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct fm_trace_file_name *fm_trace_file_find(
	const struct fm_trace_file *t, enum fm_trace_kind kind, uint32_t id)
{
	size_t at = behind(t, kind, id);
	const struct fm_trace_file_name *n = at ? &t->names[at - 1] : NULL;

	return n && n->name->kind == (uint32_t)kind && n->name->id == id ? n : NULL;
}

static bool is_slot(const struct fm_trace_name *n, int32_t pid, unsigned slot)
{
	return n->kind == FM_TN_QUEUE && n->pid == pid && n->slot == slot;
}

/* The last one up to then; a record from before the first is the first one's. */
const struct fm_trace_file_name *fm_trace_file_queue(
	const struct fm_trace_file *t, int32_t pid, unsigned slot, uint64_t at)
{
	size_t lo = behind(t, FM_TN_QUEUE - 1, UINT32_MAX), hi = t->n_names;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct fm_trace_name *n = t->names[mid].name;

		if (n->pid != pid         ? n->pid < pid
			: n->slot != slot ? n->slot < slot
					  : n->since <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo && is_slot(t->names[lo - 1].name, pid, slot))
		return &t->names[lo - 1];
	return lo < t->n_names && is_slot(t->names[lo].name, pid, slot) ? &t->names[lo] : NULL;
}
