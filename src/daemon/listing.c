/* SPDX-License-Identifier: Apache-2.0 */
#include "listing.h"
#include "base/clock.h"
#include "daemon/admission/admission.h"
#include "report.h"
#include <string.h>

/* A step ends with the item that reaches one of these. */
#define STEP_BYTES ((size_t)32 << 10)
#define STEP_NS    (300 * FM_US)

struct listing {
	const char *name; /* of the list */
	bool (*step)(struct listing *l, struct daemon *d, const struct peer *p, struct text *to,
		uint64_t until);
	bool any;       /* the list has an item */
	uint64_t after; /* the number of the group or task that was written last */
	bool inside;    /* that group's queues are not all written */
	uint32_t queue; /* the last one that is */
	bool chosen;    /* these groups alone, in the order of their numbers */
	uint64_t *choice;
	size_t n_choice;
	struct names names;
};

/* Text. */

static bool text_grow(struct text *t, size_t len)
{
	size_t cap = t->cap ? t->cap : 4096;
	char *at;

	while (cap - t->len < len)
		cap *= 2;
	if (cap == t->cap)
		return true;
	at = realloc(t->at, cap);
	if (!at)
		return false;
	t->at = at;
	t->cap = cap;
	return true;
}

void text_put(struct text *t, const char *s, size_t len)
{
	t->failed = t->failed || !text_grow(t, len);
	if (t->failed)
		return;
	memcpy(t->at + t->len, s, len);
	t->len += len;
}

static int text_dump(const char *s, size_t len, void *arg)
{
	struct text *t = arg;

	text_put(t, s, len);
	return t->failed ? -1 : 0;
}

void text_json(struct text *t, json_t *value)
{
	if (!value ||
		json_dump_callback(value, text_dump, t, JSON_COMPACT | JSON_REAL_PRECISION(12)))
		t->failed = true;
	json_decref(value);
}

void text_free(struct text *t)
{
	free(t->at);
	*t = (struct text){0};
}

static void text_string(struct text *t, const char *s)
{
	text_put(t, s, strlen(s));
}

/* An object with one more member, a list that is still open. */
static void text_open(struct text *t, json_t *object, const char *list)
{
	text_json(t, object);
	if (t->failed)
		return;
	t->len--; /* the brace */
	text_string(t, ",\"");
	text_string(t, list);
	text_string(t, "\":[");
}

static bool step_is_full(const struct text *to, uint64_t until)
{
	return to->failed || to->len >= STEP_BYTES || fm_now() >= until;
}

static void next_item(struct listing *l, struct text *to)
{
	if (l->any)
		text_put(to, ",", 1);
	l->any = true;
}

/* Groups, with their queues. */

static bool is_chosen(const struct listing *l, uint64_t id)
{
	size_t low = 0, high = l->n_choice;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (l->choice[mid] < id)
			low = mid + 1;
		else
			high = mid;
	}
	return !l->chosen || (low < l->n_choice && l->choice[low] == id);
}

/* Some of the queues of the group that is being written. False: those were the last. */
static bool put_queues(struct listing *l, struct fm_bridge_group *g, struct text *to)
{
	struct fm_bqueue_info info[FM_QUEUES_AT_ONCE];
	unsigned n = fm_bridge_group_queues_after(g, l->queue, info);

	for (unsigned i = 0; i < n; i++) {
		if (l->queue)
			text_put(to, ",", 1);
		text_json(to, report_queue(&info[i]));
		l->queue = info[i].id;
	}
	return n == FM_QUEUES_AT_ONCE;
}

static void end_group(struct listing *l, struct text *to)
{
	text_string(to, "]}");
	l->inside = false;
}

/* Begins it, if the peer may see it. */
static void begin_group(
	struct listing *l, struct fm_bridge_group *g, const struct peer *p, struct text *to)
{
	struct fm_bridge_group_info info;

	l->after = fm_bridge_group_id(g);
	if (!peer_sees(p, fm_bridge_group_uid(g)) || !is_chosen(l, l->after))
		return;
	fm_bridge_group_info(g, &info);
	next_item(l, to);
	text_open(to, report_group(g, &info, p, &l->names, fm_now()), "queues");
	l->inside = true;
	l->queue = 0;
}

static bool groups_step(
	struct listing *l, struct daemon *d, const struct peer *p, struct text *to, uint64_t until)
{
	struct fm_bridge_group *g = fm_bridge_group_after(d->bridge, l->after - l->inside);

	if (l->inside && (!g || fm_bridge_group_id(g) != l->after))
		end_group(l, to);
	while (g && !step_is_full(to, until)) {
		if (!l->inside)
			begin_group(l, g, p, to);
		if (l->inside && put_queues(l, g, to))
			continue;
		if (l->inside)
			end_group(l, to);
		g = fm_bridge_group_next(d->bridge, g);
	}
	return g;
}

struct choice {
	struct listing *listing;
	const struct peer *peer;
};

static int choose(void *arg, struct fm_bridge_group *g)
{
	const struct choice *c = arg;
	struct listing *l = c->listing;
	uint64_t *more = l->choice;

	if (!peer_sees(c->peer, fm_bridge_group_uid(g)))
		return FM_TARGET_NOT;
	/* A power of two is full. */
	if (!(l->n_choice & (l->n_choice - 1)))
		more = realloc(l->choice, (l->n_choice ? 2 * l->n_choice : 1) * sizeof(*l->choice));
	if (!more)
		return -1;
	l->choice = more;
	l->choice[l->n_choice++] = fm_bridge_group_id(g);
	return 0;
}

struct listing *listing_groups(struct daemon *d, const struct peer *p, const char *target)
{
	struct listing *l = calloc(1, sizeof(*l));
	struct choice c = {l, p};

	if (!l)
		return NULL;
	l->name = "groups";
	l->step = groups_step;
	l->chosen = target;
	if (target && fm_bridge_target(d->bridge, target, choose, &c) != (int)l->n_choice) {
		listing_free(l);
		return NULL;
	}
	return l;
}

/* Tasks. */

static bool tasks_step(
	struct listing *l, struct daemon *d, const struct peer *p, struct text *to, uint64_t until)
{
	while (!step_is_full(to, until)) {
		json_t *task = admission_task(d, p, &l->after);

		if (!task)
			return false;
		next_item(l, to);
		text_json(to, task);
	}
	return true;
}

struct listing *listing_tasks(void)
{
	struct listing *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->name = "tasks";
	l->step = tasks_step;
	return l;
}

/* Any of them. */

void listing_begin(struct listing *l, json_t *head, struct text *to)
{
	text_open(to, head, l->name);
}

bool listing_step(struct listing *l, struct daemon *d, const struct peer *p, struct text *to)
{
	bool more = l->step(l, d, p, to, fm_now() + STEP_NS);

	if (!more)
		text_string(to, "]}");
	return more;
}

void listing_free(struct listing *l)
{
	if (!l)
		return;
	while (l->names.n)
		json_decref(l->names.name[--l->names.n]);
	free(l->choice);
	free(l);
}
