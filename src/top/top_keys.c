/* SPDX-License-Identifier: Apache-2.0 */
/* Handles keys. */
#include "base/util.h"
#include "cmd/cli.h"
#include "top.h"
#include <stdlib.h>
#include <string.h>

#define PRIORITY_MAX 255
#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 3600

/* A queue's id names its group unambiguously. A name may also be that of another user's group, or
 * the daemon may take it for a process. A group without queues has nothing to steer. */
static const char *target_of(struct top *t)
{
	const struct top_group *g = top_selected(t);

	if (!g)
		top_say(t, true, "no group is selected");
	else if (!g->queue)
		top_say(t, true, "%s has no queues (yet): nothing to steer", g->name);
	return g ? g->queue : NULL;
}

static void set_priority(struct top *t, int priority)
{
	const char *target = target_of(t);
	const struct top_group *g = top_selected(t);

	if (!target)
		return;
	priority = FM_MAX(FM_MIN(priority, PRIORITY_MAX), -PRIORITY_MAX);
	top_ask(t, TOP_CHANGE,
		json_pack("{s:s, s:s, s:{s:i}}", "cmd", "hint", "target", target, "hints",
			"priority", priority),
		"priority of %.64s is %d", g->name, priority);
	t->wished = t->selected;
	t->priority = priority;
}

/* Keys come faster than replies, so each key counts from the value that was last asked for. */
static void step_priority(struct top *t, int by)
{
	const struct top_group *g = top_selected(t);
	bool pending = g && t->wished.name[0] && t->wished.uid == g->uid &&
		       !strcmp(t->wished.name, t->selected.name);

	set_priority(t, (pending ? t->priority : g ? g->priority : 0) + by);
}

static void steer(struct top *t, bool suspend)
{
	const char *target = target_of(t);

	if (target)
		top_ask(t, TOP_CHANGE,
			json_pack("{s:s, s:s}", "cmd", suspend ? "suspend" : "resume", "target",
				target),
			"%.64s is %s", top_selected(t)->name, suspend ? "suspended" : "resumed");
}

static void toggle(struct top *t)
{
	const struct top_group *g = top_selected(t);

	steer(t, !g || g->state != TOP_SUSPENDED);
}

static void begin_prompt(struct top *t, enum top_prompt prompt)
{
	if (prompt == TOP_ENTER_PRIORITY && !target_of(t))
		return;
	t->prompt = prompt;
	t->prompted = t->selected;
	t->typed[0] = '\0';
}

static void set_interval(struct top *t)
{
	char *end;
	double s = strtod(t->typed, &end);

	if (end == t->typed || *end || !(s >= INTERVAL_MIN && s <= INTERVAL_MAX))
		top_say(t, true, "an interval is %g to %d seconds", INTERVAL_MIN, INTERVAL_MAX);
	else
		t->interval = s;
}

static void enter_priority(struct top *t)
{
	char *end;
	long n = strtol(t->typed, &end, 10);

	if (t->prompted.uid != t->selected.uid || strcmp(t->prompted.name, t->selected.name) != 0)
		top_say(t, true, "%.64s has left", t->prompted.name);
	else if (end == t->typed || *end || n < -PRIORITY_MAX || n > PRIORITY_MAX)
		top_say(t, true, "a priority is a number from -%d to %d", PRIORITY_MAX,
			PRIORITY_MAX);
	else
		set_priority(t, (int)n);
}

static void end_prompt(struct top *t)
{
	enum top_prompt prompt = t->prompt;

	t->prompt = TOP_NO_PROMPT;
	if (prompt == TOP_ENTER_USER) {
		snprintf(t->user, sizeof(t->user), "%s", t->typed);
		top_arrange(t);
	} else if (t->typed[0] && prompt == TOP_ENTER_PRIORITY) {
		enter_priority(t);
	} else if (t->typed[0]) {
		set_interval(t);
	}
}

static void type(struct top *t, int key)
{
	size_t n = strlen(t->typed);

	if (key == TOP_KEY_ENTER) {
		end_prompt(t);
	} else if (key == TOP_KEY_ESCAPE) {
		t->prompt = TOP_NO_PROMPT;
	} else if (key == TOP_KEY_BACKSPACE) {
		t->typed[n ? n - 1 : 0] = '\0';
	} else if (key > ' ' && key < 0x7f && n + 1 < sizeof(t->typed)) {
		t->typed[n] = (char)key;
		t->typed[n + 1] = '\0';
	}
}

static void open_panel(struct top *t, enum top_panel panel)
{
	t->panel = panel;
	t->cursor = panel == TOP_CHOOSE_SORT ? t->sort : 0;
	t->panel_scroll = 0;
}

static void open_detail(struct top *t)
{
	const struct top_group *g = top_selected(t);

	if (!g)
		return;
	open_panel(t, TOP_DETAIL);
	top_describe(t, NULL);
	if (g->queue)
		top_ask(t, TOP_GROUP, json_pack("{s:s, s:s}", "cmd", "ps", "target", g->queue),
			"%s", "");
}

static void choose(struct top *t)
{
	const json_t *available = json_object_get(t->policies, "available");
	const char *name = cli_str(json_array_get(available, t->cursor), "name");

	if (t->panel == TOP_CHOOSE_SORT) {
		t->sort = (enum top_sort)FM_MIN(t->cursor, (size_t)TOP_SORTS - 1);
		top_arrange(t);
	} else if (json_array_size(available)) {
		top_ask(t, TOP_CHANGE, json_pack("{s:s, s:s}", "cmd", "policy", "name", name),
			"the policy is %.64s", name);
	}
	t->panel = TOP_LIST;
}

/* The position to which a key moves, from `at` among n. It is `at` if the key does not move. */
static size_t moved(int key, size_t at, size_t n, size_t page)
{
	size_t last = n ? n - 1 : 0;

	switch (key) {
	case TOP_KEY_UP:
	case 'k':
		return at ? at - 1 : 0;
	case TOP_KEY_DOWN:
	case 'j':
		return FM_MIN(at + 1, last);
	case TOP_KEY_PAGE_UP:
		return at > page ? at - page : 0;
	case TOP_KEY_PAGE_DOWN:
		return FM_MIN(at + page, last);
	case TOP_KEY_HOME:
		return 0;
	case TOP_KEY_END:
		return last;
	default:
		return at;
	}
}

static bool press_in_panel(struct top *t, int key)
{
	bool chooser = t->panel == TOP_CHOOSE_POLICY || t->panel == TOP_CHOOSE_SORT;
	size_t rows = top_panel_rows(t), page = FM_MAX(t->page, (size_t)1);

	if (key == TOP_KEY_ESCAPE || key == 'q' || (key == TOP_KEY_ENTER && !chooser)) {
		t->panel = TOP_LIST;
		return true;
	}
	if (key == TOP_KEY_ENTER) {
		choose(t);
		return true;
	}
	if (chooser) {
		t->cursor = moved(key, t->cursor, rows, page);
		return true;
	}
	t->panel_scroll = moved(key, t->panel_scroll, fm_sub_sat(rows, page) + 1, page);
	return t->panel == TOP_HELP || key >= TOP_KEY_UP || key == 'j' || key == 'k';
}

static void press_in_list(struct top *t, int key)
{
	switch (key) {
	case 'q':
		t->quit = true;
		break;
	case 'h':
	case '?':
		open_panel(t, TOP_HELP);
		break;
	case 'o':
	case 'F':
		open_panel(t, TOP_CHOOSE_SORT);
		break;
	case 'R':
		t->reverse = !t->reverse;
		top_arrange(t);
		break;
	case 'P':
		top_ask(t, TOP_POLICIES, json_pack("{s:s}", "cmd", "policy"), "%s", "");
		break;
	case 'u':
		begin_prompt(t, TOP_ENTER_USER);
		break;
	case 'd':
		begin_prompt(t, TOP_ENTER_INTERVAL);
		break;
	case ' ':
		t->paused = !t->paused;
		break;
	case TOP_KEY_ENTER:
		open_detail(t);
		break;
	default:
		top_select(t, moved(key, t->at, t->groups, FM_MAX(t->page, (size_t)1)));
	}
}

/* Keys for the selected group, in the list and in the group's panel. */
static bool press_for_group(struct top *t, int key)
{
	switch (key) {
	case '+':
	case '=':
		step_priority(t, 1);
		return true;
	case '-':
		step_priority(t, -1);
		return true;
	case 'p':
		begin_prompt(t, TOP_ENTER_PRIORITY);
		return true;
	case 's':
		toggle(t);
		return true;
	case 'r':
		steer(t, false);
		return true;
	default:
		return false;
	}
}

void top_press(struct top *t, int key)
{
	t->message[0] = '\0';
	if (t->prompt != TOP_NO_PROMPT) {
		type(t, key);
		return;
	}
	if (t->panel != TOP_LIST && press_in_panel(t, key))
		return;
	if (!press_for_group(t, key))
		press_in_list(t, key);
}
