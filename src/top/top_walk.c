/* SPDX-License-Identifier: Apache-2.0 */
/* Looks. The daemon is asked for one page of groups at a time, and schedules between two pages. A
 * sample is made of all pages of a look and its tasks. */
#include "base/user.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "metrics/metrics.h"
#include "top.h"

#define USER_PLACE 2 /* of the name, in a row of the model */

static void drop_sample(struct top_walk *w)
{
	json_decref(w->groups);
	json_decref(w->tasks);
	w->groups = w->tasks = NULL;
	w->whole = w->told = false;
	w->pages = 0;
}

void top_walk_end(struct top *t)
{
	drop_sample(&t->walk);
	json_decref(t->walk.users);
	t->walk.users = NULL;
	t->walk.number++;
}

static void ask_page(struct top *t, json_int_t after)
{
	top_ask(t, TOP_PAGE,
		json_pack("{s:s, s:s, s:I}", "cmd", "metrics", "part", "rows", "after", after),
		"%s", "");
}

void top_look(struct top *t)
{
	const struct top_group *g = top_selected(t);

	drop_sample(&t->walk);
	t->walk.number++;
	ask_page(t, 0);
	top_ask(t, TOP_TASKS, json_pack("{s:s}", "cmd", "tasks"), "%s", "");
	if (t->panel == TOP_DETAIL && g && g->queue)
		top_ask(t, TOP_GROUP, json_pack("{s:s, s:s}", "cmd", "ps", "target", g->queue),
			"%s", "");
}

/* The user's name, which is looked up once while the daemon stays the same. Returns a new
 * reference, or NULL. */
static json_t *user_name(struct top *t, json_int_t uid)
{
	char key[32], name[FM_USER];
	json_t *known;

	snprintf(key, sizeof(key), "%" JSON_INTEGER_FORMAT, uid);
	known = json_object_get(t->walk.users, key);
	if (known)
		return json_incref(known);
	fm_user_name(t->passwd, (uid_t)uid, name);
	known = json_string(name);
	if (!t->walk.users)
		t->walk.users = json_object();
	json_object_set(t->walk.users, key, known);
	return known;
}

static void name_users(struct top *t, json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row)
		json_array_insert_new(
			row, USER_PLACE, user_name(t, json_integer_value(json_array_get(row, 1))));
}

static void take_page(struct top *t, const struct top_request *r, json_t *reply)
{
	json_int_t after = json_integer_value(json_object_get(r->body, "after"));
	json_t *items = json_object_get(reply, "items");
	struct top_walk *w = &t->walk;

	name_users(t, items);
	if (!w->groups) {
		w->groups = json_incref(reply);
		json_object_set(reply, "groups", items);
		json_object_del(reply, "items");
	} else {
		json_array_extend(json_object_get(w->groups, "groups"), items);
	}
	w->whole = ++w->pages == FM_PAGES_MAX || !fm_page_next(reply, &after);
	if (!w->whole)
		ask_page(t, after);
}

bool top_walk_take(struct top *t, const struct top_request *r, json_t *reply)
{
	struct top_walk *w = &t->walk;

	if (r->walk != w->number)
		return false;
	if (r->about == TOP_TASKS) {
		json_decref(w->tasks);
		w->tasks = json_incref(reply);
		w->told = true;
	} else if (reply) {
		take_page(t, r, reply);
	} else {
		drop_sample(w);
		w->number++;
	}
	return w->whole && w->told;
}
