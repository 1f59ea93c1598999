/* SPDX-License-Identifier: Apache-2.0 */
/* How replies and requests change the view. */
#include "base/clock.h"
#include "base/user.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "top.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MARKED_FROM 0.01 /* of a device: less is not worth a colour */

void top_init(struct top *t)
{
	*t = (struct top){.interval = 1, .passwd = FM_PASSWD};
}

void top_lines_free(struct top_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->line[i]);
	free(l->line);
	*l = (struct top_lines){0};
}

void top_request_free(struct top_request *r)
{
	json_decref(r->body);
	r->body = NULL;
}

static void forget_requests(struct top *t)
{
	struct top_request r;

	while (top_next_request(t, &r))
		top_request_free(&r);
	top_walk_end(t);
	t->changes = 0;
	t->stale = false;
	t->wished.name[0] = '\0';
}

void top_free(struct top *t)
{
	forget_requests(t);
	top_model_clear(&t->model);
	top_grid_free(&t->grid);
	top_lines_free(&t->detail);
	free(t->list);
	json_decref(t->policies);
	*t = (struct top){0};
}

void top_say(struct top *t, bool bad, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->message, sizeof(t->message), fmt, ap);
	va_end(ap);
	t->message_bad = bad;
}

void top_ask(struct top *t, enum top_about about, json_t *body, const char *what, ...)
{
	struct top_request *r =
		&t->request[(t->first_request + t->requests) % FM_ARRAY_LEN(t->request)];
	va_list ap;

	if (!body || t->lost[0] || t->requests == FM_ARRAY_LEN(t->request)) {
		top_say(t, true, "%s",
			t->lost[0] ? "there is no daemon to ask"
			: body     ? "too much is waiting for the daemon already"
				   : "out of memory");
		json_decref(body);
		return;
	}
	r->about = about;
	r->walk = t->walk.number;
	r->body = body;
	va_start(ap, what);
	vsnprintf(r->what, sizeof(r->what), what, ap);
	va_end(ap);
	t->requests++;
	t->changes += about == TOP_CHANGE;
}

bool top_next_request(struct top *t, struct top_request *r)
{
	if (!t->requests)
		return false;
	*r = t->request[t->first_request];
	t->first_request = (t->first_request + 1) % FM_ARRAY_LEN(t->request);
	t->requests--;
	return true;
}

static void set_who(struct top_who *w, const struct top_group *g)
{
	w->uid = g->uid;
	snprintf(w->name, sizeof(w->name), "%s", g->name);
}

static bool is_who(const struct top_who *w, const struct top_group *g)
{
	return w->name[0] && w->uid == g->uid && !strncmp(w->name, g->name, TOP_NAME - 1);
}

const struct top_group *top_selected(const struct top *t)
{
	return t->at < t->groups ? t->list[t->at] : NULL;
}

void top_select(struct top *t, size_t at)
{
	t->at = t->groups ? FM_MIN(at, t->groups - 1) : 0;
	if (t->groups)
		set_who(&t->selected, t->list[t->at]);
}

void top_arrange(struct top *t)
{
	bool there = false;
	size_t at = t->at;

	free(t->list);
	t->list = NULL;
	if (top_model_order(&t->model, t->sort, t->reverse, t->user[0] ? t->user : NULL, &t->list,
		    &t->groups))
		t->groups = 0;
	for (size_t i = 0; i < t->groups; i++)
		if (is_who(&t->selected, t->list[i])) {
			at = i;
			there = true;
		}
	if (t->panel == TOP_DETAIL && !there) {
		t->panel = TOP_LIST;
		top_say(t, true, "%.64s has left", t->selected.name);
	}
	top_select(t, at);
}

unsigned top_mark_of(const struct top *t, const struct top_group *g)
{
	for (unsigned i = 0; i < TOP_MARKS; i++)
		if (is_who(&t->mark[i], g))
			return i + 1;
	return 0;
}

/* A group keeps its colour while it has a part of a device. Free colours go to the largest groups.
 */
static void mark_groups(struct top *t)
{
	const struct top_group **list;
	size_t n;

	for (unsigned i = 0; i < TOP_MARKS; i++) {
		const struct top_group *g =
			top_model_find(&t->model, t->mark[i].uid, t->mark[i].name);

		if (!g || g->n.share < MARKED_FROM)
			t->mark[i].name[0] = '\0';
	}
	if (top_model_order(&t->model, TOP_BY_SHARE, false, NULL, &list, &n))
		return;
	for (size_t i = 0; i < n && list[i]->n.share >= MARKED_FROM; i++) {
		unsigned m = 0;

		while (m < TOP_MARKS && t->mark[m].name[0])
			m++;
		if (m == TOP_MARKS)
			break;
		if (!top_mark_of(t, list[i]))
			set_who(&t->mark[m], list[i]);
	}
	free(list);
}

/* When the daemon made the reply, by its own clock, so that a slow line does not make rates wrong.
 */
static uint64_t time_of(const json_t *ps, uint64_t now)
{
	double ms = cli_num(ps, "at_ms");

	return ms > 0 && ms < 1e12 ? (uint64_t)(ms * 1e6) : now;
}

static void take_sample(struct top *t, uint64_t now)
{
	json_t *groups = t->walk.groups, *tasks = t->walk.tasks;

	t->walk.groups = t->walk.tasks = NULL;
	t->walk.whole = false;
	if (top_model_take(&t->model, groups, tasks, time_of(groups, now),
		    (uint64_t)(t->interval / 2 * FM_S))) {
		top_say(t, true, "out of memory: the screen is old");
		return;
	}
	if (!t->changes && !t->stale)
		t->wished.name[0] = '\0';
	/* The list points into the sample before, so it is made again. */
	top_arrange(t);
	mark_groups(t);
}

static void refused(struct top *t, const json_t *reply)
{
	const json_t *e = json_object_get(reply, "error");
	const char *hint = json_string_value(json_object_get(e, "hint"));

	top_say(t, true, "%s%s%s", json_is_object(e) ? cli_str(e, "text") : "refused",
		hint ? ": " : "", hint ? hint : "");
}

static void take_policies(struct top *t, json_t *reply)
{
	const char *now = cli_str(json_object_get(reply, "policy"), "name");
	json_t *p;
	size_t i;

	json_decref(t->policies);
	t->policies = json_incref(reply);
	t->panel = TOP_CHOOSE_POLICY;
	t->cursor = t->panel_scroll = 0;
	json_array_foreach (json_object_get(reply, "available"), i, p)
		if (!strcmp(cli_str(p, "name"), now))
			t->cursor = i;
}

bool top_reply(struct top *t, const struct top_request *r, json_t *reply, uint64_t now)
{
	bool ok = json_is_true(json_object_get(reply, "ok")), shows = true;

	switch (r->about) {
	case TOP_PAGE:
	case TOP_TASKS:
		shows = top_walk_take(t, r, ok ? reply : NULL);
		if (shows)
			take_sample(t, now);
		shows = shows || !ok;
		break;
	case TOP_GROUP:
		if (ok && t->panel == TOP_DETAIL)
			top_describe(t, reply);
		break;
	case TOP_POLICIES:
		if (ok)
			take_policies(t, reply);
		break;
	case TOP_CHANGE:
		t->changes -= t->changes > 0;
		t->stale = true;
		if (ok)
			top_say(t, false, "%s", r->what);
		break;
	}
	if (!ok)
		refused(t, reply);
	json_decref(reply);
	if (t->stale && !t->requests) {
		t->stale = false;
		top_look(t);
	}
	return shows;
}

void top_lost(struct top *t, const char *why)
{
	forget_requests(t);
	snprintf(t->lost, sizeof(t->lost), "%s", why);
	t->message[0] = '\0';
}

void top_found(struct top *t)
{
	t->lost[0] = '\0';
	free(t->list);
	t->list = NULL;
	t->groups = 0;
	top_model_clear(&t->model);
	memset(t->mark, 0, sizeof(t->mark));
	top_say(t, false, "the daemon is back");
}
