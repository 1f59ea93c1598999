/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the screen: title, devices, the list of groups or a panel, and one line for messages.
 */
#include "base/cleanup.h"
#include "base/size.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "top.h"
#include <math.h>
#include <string.h>

const char *top_us(double us, char buf[16])
{
	double ms = us / 1e3, s = us / 1e6;

	if (isnan(us))
		snprintf(buf, 16, "-");
	else if (us < 1e3)
		snprintf(buf, 16, "%.0fus", us);
	else if (ms < 1e3)
		snprintf(buf, 16, "%.*fms", ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
	else
		snprintf(buf, 16, "%.*fs", s < 100 ? 1 : 0, FM_MIN(s, 1e9));
	return buf;
}

const char *top_percent(double share, bool known, char buf[16])
{
	if (known)
		snprintf(buf, 16, "%.1f", floor(FM_MIN(share, 1e3) * 1000 + 1e-6) / 10);
	else
		snprintf(buf, 16, "-");
	return buf;
}

const char *top_rate(double rate, bool known, char buf[16])
{
	if (!known)
		snprintf(buf, 16, "-");
	else if (rate < 1e4)
		snprintf(buf, 16, "%.*f", rate < 1e3 ? 1 : 0, rate);
	else
		snprintf(buf, 16, "%.0fk", FM_MIN(rate / 1e3, 1e9));
	return buf;
}

/* The policy as a user would type it. For a fallback, also the policy that it replaces. */
static char *policy_text(const json_t *policy)
{
	const char *key;
	char *text = NULL;
	json_t *value;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputs(cli_str(policy, "name"), f);
	if (json_object_get(policy, "dropped")) {
		fprintf(f, ", fallback for %s", cli_str(policy, "dropped"));
		return fclose(f) ? NULL : text;
	}
	json_object_foreach (json_object_get(policy, "params"), key, value)
		fprintf(f, " %s=%s", key, json_string_value(value) ?: "?");
	return fclose(f) ? NULL : text;
}

static void draw_title(struct top *t)
{
	FM_CLEAN_FREE char *policy = policy_text(json_object_get(t->model.now.ps, "policy"));
	struct top_grid *g = &t->grid;
	size_t ready = 0;
	char right[64];
	int at, room;

	for (size_t i = 0; i < t->groups; i++)
		ready += t->list[i]->state == TOP_READY;
	if (t->lost[0])
		snprintf(right, sizeof(right), "NO DAEMON");
	else
		snprintf(right, sizeof(right), "%zu group%s, %zu wait%s  %s%gs", t->groups,
			t->groups == 1 ? "" : "s", ready, ready == 1 ? "s" : "",
			t->paused ? "PAUSED " : "", t->interval);
	room = g->columns - top_grid_width(g, right) - 1;
	at = top_grid_text(g, 0, 0, room, TOP_BOLD, "fermata ");
	if (t->model.now.ps && policy)
		at += top_grid_text(g, 0, at, room - at,
			json_object_get(json_object_get(t->model.now.ps, "policy"), "dropped")
				? TOP_WARN
				: TOP_PLAIN,
			policy);
	if (t->user[0])
		top_grid_printf(g, 0, at, room - at, TOP_WARN, "  user %s", t->user);
	top_grid_right(g, 0, 0, g->columns, t->lost[0] ? TOP_BAD | TOP_BOLD : TOP_PLAIN, right);
}

/* Draws the parts of a device that groups with a mark have, each as `part' says, and behind them
 * what others have: all is the sum. Of 1. */
static void draw_bar(struct top *t, int row, int column, int width, const struct top_device *d,
	double all,
	double (*part)(const struct top *t, const struct top_device *d, const struct top_group *g))
{
	double sum = 0;
	int at = 0, to;

	for (unsigned m = 0; m < TOP_MARKS; m++) {
		const struct top_group *g =
			t->mark[m].name[0]
				? top_model_find(&t->model, t->mark[m].uid, t->mark[m].name)
				: NULL;

		sum = FM_MIN(sum + (g ? part(t, d, g) : 0), 1.0);
		to = (int)lround(sum * width);
		top_grid_bar(&t->grid, row, column + at, to - at, m + 1);
		at = to;
	}
	to = (int)lround(FM_MIN(FM_MAX(all, sum), 1.0) * width);
	top_grid_bar(&t->grid, row, column + at, to - at, 0);
}

/* Of its time. */
static double time_on(const struct top *t, const struct top_device *d, const struct top_group *g)
{
	size_t device = (size_t)(d - t->model.now.device);

	for (size_t i = 0; i < g->ents; i++)
		if (g->ent[i].device == device)
			return g->ent[i].n.share;
	return 0;
}

static void draw_device(struct top *t, int row, size_t device, int name_width)
{
	const struct top_device *d = &t->model.now.device[device];
	struct top_grid *g = &t->grid;
	bool known = t->model.seconds > 0;
	char a[16], b[16], right[80];
	int used, bar;

	top_percent(d->share, known, a);
	if (g->columns < 56)
		snprintf(right, sizeof(right), "%5s%%", a);
	else if (g->columns < 76)
		snprintf(right, sizeof(right), "%5s%% %6s preempt/s", a,
			top_rate(d->preempt_s, known, b));
	else
		snprintf(right, sizeof(right), "%5s%% %6s preempt/s  stop P99 %6s", a,
			top_rate(d->preempt_s, known, b), top_us(d->p99_us, (char[16]){0}));
	used = top_grid_width(g, right);
	top_grid_text(g, row, 0, name_width, TOP_BOLD, d->key);
	bar = g->columns - name_width - used - 4;
	if (bar >= 4) {
		top_grid_text(g, row, name_width + 1, 1, TOP_PLAIN, "[");
		draw_bar(t, row, name_width + 2, bar, d, d->share, time_on);
		top_grid_text(g, row, name_width + 2 + bar, 1, TOP_PLAIN, "]");
	}
	top_grid_right(g, row, g->columns - used, used, TOP_PLAIN, right);
}

const char *top_bytes(double bytes, char buf[16])
{
	char size[FM_SIZE_TEXT];

	if (bytes > 0)
		snprintf(buf, 16, "%.15s", fm_size_short((uint64_t)FM_MIN(bytes, 1e18), size));
	else
		snprintf(buf, 16, "-");
	return buf;
}

/* Of its memory. */
static double memory_on(const struct top *t, const struct top_device *d, const struct top_group *g)
{
	for (size_t i = 0; i < g->parts; i++)
		if (!strcmp(g->part[i].device, d->key))
			return g->part[i].n.resident / d->capacity;
	return 0;
}

static void draw_memory(struct top *t, int row, size_t device, int name_width)
{
	const struct top_device *d = &t->model.now.device[device];
	char here[16], of[16], host[16], right[80];
	struct top_grid *g = &t->grid;
	int used, bar;

	top_bytes(d->memory.resident, here);
	top_bytes(d->capacity, of);
	if (g->columns < 56 || d->memory.host <= 0)
		snprintf(right, sizeof(right), "%6s of %6s", here, of);
	else
		snprintf(right, sizeof(right), "%6s of %6s  on the host %6s", here, of,
			top_bytes(d->memory.host, host));
	used = top_grid_width(g, right);
	top_grid_text(g, row, 0, name_width, TOP_DIM, "memory");
	bar = g->columns - name_width - used - 4;
	if (bar >= 4) {
		top_grid_text(g, row, name_width + 1, 1, TOP_PLAIN, "[");
		draw_bar(t, row, name_width + 2, bar, d, d->memory.resident / d->capacity,
			memory_on);
		top_grid_text(g, row, name_width + 2 + bar, 1, TOP_PLAIN, "]");
	}
	top_grid_right(g, row, g->columns - used, used, TOP_PLAIN, right);
}

/* Each device and its memory, if all of that has room. */
static int draw_with_memory(struct top *t, int row, int most, int name_width)
{
	const struct top_sample *s = &t->model.now;
	size_t rows = s->devices;
	int at = row;

	for (size_t i = 0; i < s->devices; i++)
		rows += s->device[i].capacity > 0;
	if (rows > (size_t)most || rows == s->devices)
		return 0;
	for (size_t i = 0; i < s->devices; i++) {
		draw_device(t, at++, i, name_width);
		if (s->device[i].capacity > 0)
			draw_memory(t, at++, i, name_width);
	}
	return at - row;
}

/* Uses at most a third of the screen. Returns the rows used. */
static int draw_devices(struct top *t, int row)
{
	const struct top_sample *s = &t->model.now;
	int most = FM_MAX(t->grid.rows / 3, 1), name_width = 6, shown;

	for (size_t i = 0; i < s->devices; i++)
		name_width = FM_MAX(name_width, top_grid_width(&t->grid, s->device[i].key));
	name_width = FM_MIN(name_width, FM_MAX(t->grid.columns / 4, 6));
	shown = draw_with_memory(t, row, most, name_width);
	if (shown)
		return shown;
	shown = (int)FM_MIN(s->devices, (size_t)most);
	if ((size_t)shown < s->devices && shown > 1)
		shown--;
	for (int i = 0; i < shown; i++)
		draw_device(t, row + i, (size_t)i, name_width);
	if ((size_t)shown < s->devices && most > 1) {
		top_grid_printf(&t->grid, row + shown, 0, t->grid.columns, TOP_DIM,
			"... and %zu more", s->devices - (size_t)shown);
		shown++;
	}
	return shown;
}

enum {
	GROUP,
	USER,
	PRIO,
	STATE,
	LEVEL,
	SHARE,
	TIME,
	WAIT,
	PREEMPT,
	P50,
	P99,
	MISS,
	MEMORY,
	RESIDENT,
	HOST,
	LIMIT,
	QUEUES,
	COLUMNS
};

/* On a narrow screen the columns with the largest `need` are left out first. */
static const struct column {
	const char *title;
	int width;
	bool left;
	int need;
	enum top_sort sort;
} columns[COLUMNS] = {
	[GROUP] = {"GROUP", 0, true, 0, TOP_BY_NAME},
	[USER] = {"USER", 8, true, 6, TOP_BY_USER},
	[PRIO] = {"PRIO", 4, false, 0, TOP_BY_PRIORITY},
	[STATE] = {"STATE", 9, true, 0, TOP_BY_STATE},
	[LEVEL] = {"LVL", 3, false, 5, TOP_SORTS},
	[SHARE] = {"DEV%", 5, false, 0, TOP_BY_SHARE},
	[TIME] = {"TIME", 8, false, 7, TOP_BY_TIME},
	[WAIT] = {"WAIT%", 5, false, 8, TOP_BY_WAIT},
	[PREEMPT] = {"PRE/S", 5, false, 3, TOP_BY_PREEMPT},
	[P50] = {"P50", 6, false, 4, TOP_SORTS},
	[P99] = {"P99", 6, false, 1, TOP_BY_P99},
	[MISS] = {"MISS", 4, false, 2, TOP_BY_MISSES},
	[MEMORY] = {"MEM", 6, false, 6, TOP_BY_MEMORY},
	[RESIDENT] = {"ONDEV", 6, false, 10, TOP_SORTS},
	[HOST] = {"HOST", 6, false, 8, TOP_SORTS},
	[LIMIT] = {"LIMIT", 6, false, 11, TOP_SORTS},
	[QUEUES] = {"Q", 3, false, 9, TOP_SORTS},
};

#define NEED_MOST  11
#define MARK_WIDTH 2
#define GROUP_MIN  16
#define GROUP_MAX  40

/* Sets the widths of the columns; 0: not shown. The group's name gets the rest, up to the length of
 * the longest name. */
static void fit(const struct top *t, int width[COLUMNS])
{
	int total = MARK_WIDTH, name = 5;

	for (size_t i = 0; i < t->groups; i++)
		name = FM_MAX(name, top_grid_width(&t->grid, t->list[i]->name));
	name = FM_MIN(name, GROUP_MAX);
	width[GROUP] = FM_MIN(name, GROUP_MIN);
	for (int c = 0; c < COLUMNS; c++) {
		width[c] = c == GROUP ? width[c] : columns[c].width;
		if (c >= MEMORY && c <= LIMIT && !t->model.now.memory)
			width[c] = 0;
		total += width[c] ? width[c] + (c > 0) : 0;
	}
	for (int need = NEED_MOST; need > 0 && total > t->grid.columns; need--)
		for (int c = 0; c < COLUMNS; c++)
			if (columns[c].need == need && width[c]) {
				total -= width[c] + 1;
				width[c] = 0;
			}
	width[GROUP] = FM_MAX(FM_MIN(name, width[GROUP] + t->grid.columns - total), 4);
}

static void draw_cell(
	struct top *t, int row, int *at, int c, const int *width, unsigned style, const char *text)
{
	if (!width[c])
		return;
	if (columns[c].left)
		top_grid_text(&t->grid, row, *at, width[c], style, text);
	else
		top_grid_right(&t->grid, row, *at, width[c], style, text);
	*at += width[c] + 1;
}

static void draw_head(struct top *t, int row, const int *width)
{
	int at = MARK_WIDTH;

	top_grid_paint(&t->grid, row, 0, t->grid.columns, TOP_REVERSE);
	for (int c = 0; c < COLUMNS; c++)
		draw_cell(t, row, &at, c, width,
			TOP_REVERSE | (columns[c].sort == t->sort ? TOP_BOLD : 0),
			columns[c].title);
}

static const char *level_text(const struct top_group *g, char buf[16])
{
	if (!g->level_max)
		snprintf(buf, 16, "-");
	else if (g->level_min == g->level_max)
		snprintf(buf, 16, "%d", g->level_max);
	else
		snprintf(buf, 16, "%d-%d", g->level_min, g->level_max);
	return buf;
}

static const char *count_text(double n, bool known, char buf[16])
{
	if (!known)
		snprintf(buf, 16, "-");
	else if (n < 1e4)
		snprintf(buf, 16, "%.0f", n);
	else
		snprintf(buf, 16, "%.0fk", FM_MIN(n / 1e3, 1e9));
	return buf;
}

static const char *cell_text(const struct top *t, const struct top_group *g, int c, char *buf)
{
	bool known = t->model.seconds > 0;
	char time[TABLE_TIME];

	switch (c) {
	case GROUP:
		return g->name;
	case USER:
		return g->user;
	case PRIO:
		snprintf(buf, 16, "%d", g->priority);
		return buf;
	case STATE:
		return top_state_name(g->state);
	case LEVEL:
		return level_text(g, buf);
	case SHARE:
		return top_percent(g->n.share, known, buf);
	case TIME:
		snprintf(buf, 16, "%.15s", table_ms(g->n.device_ms, time));
		return buf;
	case WAIT:
		return top_percent(g->n.waited, known, buf);
	case PREEMPT:
		return top_rate(g->n.preempt_s, known, buf);
	case P50:
		return top_us(g->n.p50_us, buf);
	case P99:
		return top_us(g->n.p99_us, buf);
	case MISS:
		return count_text(g->misses, top_misses_known(g), buf);
	case MEMORY:
		return top_bytes(g->memory.committed, buf);
	case RESIDENT:
		return top_bytes(g->memory.resident, buf);
	case HOST:
		return top_bytes(g->memory.host, buf);
	case LIMIT:
		return top_bytes(g->memory.limit, buf);
	default:
		return count_text(g->queues, true, buf);
	}
}

static unsigned cell_style(const struct top_group *g, int c)
{
	static const uint8_t states[TOP_STATES] = {
		[TOP_IDLE] = TOP_DIM,
		[TOP_READY] = TOP_WARN,
		[TOP_RUNNING] = TOP_GOOD,
		[TOP_SUSPENDED] = TOP_BAD,
	};

	if (c == STATE)
		return states[g->state];
	return c == MISS && g->misses > 0 ? TOP_BAD | TOP_BOLD : TOP_PLAIN;
}

static void draw_group(struct top *t, int row, size_t i, const int *width)
{
	const struct top_group *g = t->list[i];
	unsigned mark = top_mark_of(t, g);
	int at = MARK_WIDTH;
	char buf[16];

	if (mark)
		top_grid_bar(&t->grid, row, 0, 1, mark);
	for (int c = 0; c < COLUMNS; c++)
		draw_cell(t, row, &at, c, width, cell_style(g, c), cell_text(t, g, c, buf));
	if (i == t->at)
		top_grid_paint(&t->grid, row, 1, t->grid.columns - 1, TOP_REVERSE);
}

static void draw_list(struct top *t, int row, int rows)
{
	int width[COLUMNS];

	fit(t, width);
	draw_head(t, row, width);
	t->page = (size_t)FM_MAX(rows - 1, 1);
	if (t->at < t->scroll)
		t->scroll = t->at;
	if (t->at >= t->scroll + t->page)
		t->scroll = t->at - t->page + 1;
	t->scroll = FM_MIN(t->scroll, fm_sub_sat(t->groups, t->page));
	for (size_t i = 0; i < t->page && t->scroll + i < t->groups; i++)
		draw_group(t, row + 1 + (int)i, t->scroll + i, width);
	if (!t->groups && t->model.now.ps)
		top_grid_text(&t->grid, row + 1, MARK_WIDTH, t->grid.columns, TOP_PLAIN,
			t->user[0]
				? "no groups of this user (u, Enter: all)"
				: "no groups: `fermata run' starts programs under the scheduler");
}

static void draw_last(struct top *t)
{
	static const char *const prompts[] = {
		[TOP_ENTER_PRIORITY] = "priority (-255 to 255)",
		[TOP_ENTER_USER] = "only groups of the user (empty: all)",
		[TOP_ENTER_INTERVAL] = "seconds between two updates",
	};
	static const char *const keys[] = {
		[TOP_LIST] =
			"q quit  ? help  +/- priority  s suspend  r resume  P policy  Enter more",
		[TOP_HELP] = "q back  arrows move",
		[TOP_DETAIL] = "q back  +/- p priority  s suspend  r resume  arrows move",
		[TOP_CHOOSE_POLICY] = "Enter choose  q back",
		[TOP_CHOOSE_SORT] = "Enter choose  q back",
	};
	struct top_grid *g = &t->grid;
	int row = g->rows - 1;

	if (t->prompt != TOP_NO_PROMPT)
		top_grid_printf(
			g, row, 0, g->columns, TOP_BOLD, "%s: %s_", prompts[t->prompt], t->typed);
	else if (t->message[0])
		top_grid_text(g, row, 0, g->columns,
			(t->message_bad ? TOP_BAD : TOP_GOOD) | TOP_BOLD, t->message);
	else if (t->lost[0])
		top_grid_text(g, row, 0, g->columns, TOP_BAD | TOP_BOLD, t->lost);
	else
		top_grid_text(g, row, 0, g->columns, TOP_DIM, keys[t->panel]);
}

void top_draw(struct top *t)
{
	struct top_grid *g = &t->grid;
	int row = 1;

	top_grid_clear(g);
	draw_title(t);
	if (g->rows >= 6)
		row += draw_devices(t, row);
	if (t->panel == TOP_LIST && g->rows - row - 1 >= 2)
		draw_list(t, row, g->rows - row - 1);
	else if (t->panel != TOP_LIST)
		top_draw_panel(t, row, g->rows - row - 1);
	if (g->rows > 1)
		draw_last(t);
}
