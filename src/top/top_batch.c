/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata top' without a terminal: tables for people, JSON for scripts. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include "cmd/table.h"
#include "top_link.h"
#include "top_live.h"
#include <errno.h>
#include <poll.h>
#include <string.h>

#define PATIENCE_MS 5000

static void add_memory(struct table *t, const struct top_memory *m, double most)
{
	char buf[16];

	table_add(t, "%s", top_bytes(m->committed, buf));
	table_add(t, "%s", top_bytes(m->resident, buf));
	table_add(t, "%s", top_bytes(m->host, buf));
	table_add(t, "%s", top_bytes(most, buf));
}

static int print_devices(const struct top_model *m)
{
	static const struct table_column columns[] = {
		{"DEVICE", false, true},
		{"GROUPS", true, false},
		{"READY", true, false},
		{"SHARE %", true, false},
		{"PREEMPT/S", true, false},
		{"STOP P50", true, false},
		{"STOP P99", true, false},
		{"MEMORY", true, false},
		{"ON DEVICE", true, false},
		{"ON HOST", true, false},
		{"CAPACITY", true, false},
	};
	bool known = m->seconds > 0;
	TABLE_CLEAN struct table t;
	char buf[16];

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (size_t i = 0; i < m->now.devices; i++) {
		const struct top_device *d = &m->now.device[i];

		table_add(&t, "%s", d->key);
		table_add(&t, "%zu", d->groups);
		table_add(&t, "%zu", d->ready);
		table_add(&t, "%s", top_percent(d->share, known, buf));
		table_add(&t, "%s", top_rate(d->preempt_s, known, buf));
		table_add(&t, "%s", top_us(d->p50_us, buf));
		table_add(&t, "%s", top_us(d->p99_us, buf));
		add_memory(&t, &d->memory, d->capacity);
	}
	return table_print(&t);
}

static void add_level(struct table *t, const struct top_group *g)
{
	if (!g->level_max)
		table_add(t, "-");
	else if (g->level_min == g->level_max)
		table_add(t, "%d", g->level_max);
	else
		table_add(t, "%d-%d", g->level_min, g->level_max);
}

static void add_group(struct table *t, const struct top_group *g, bool known)
{
	char buf[16], time[TABLE_TIME];

	table_add(t, "%s", g->name);
	table_add(t, "%s", g->user);
	table_add(t, "%d", g->priority);
	table_add(t, "%s", top_state_name(g->state));
	add_level(t, g);
	table_add(t, "%s", top_percent(g->n.share, known, buf));
	table_add(t, "%s", table_ms(g->n.device_ms, time));
	table_add(t, "%s", top_percent(g->n.waited, known, buf));
	table_add(t, "%s", top_rate(g->n.preempt_s, known, buf));
	table_add(t, "%s", top_us(g->n.p50_us, buf));
	table_add(t, "%s", top_us(g->n.p99_us, buf));
	if (top_misses_known(g))
		table_add(t, "%.0f", g->misses);
	else
		table_add(t, "-");
	add_memory(t, &g->memory, g->memory.limit);
}

static int print_groups(const struct top *top)
{
	static const struct table_column columns[] = {
		{"GROUP", false, true},
		{"USER", false, true},
		{"PRIO", true, false},
		{"STATE", false, false},
		{"LEVEL", true, false},
		{"SHARE %", true, false},
		{"DEVICE TIME", true, false},
		{"WAIT %", true, false},
		{"PREEMPT/S", true, false},
		{"WAIT P50", true, false},
		{"WAIT P99", true, false},
		{"MISSES", true, false},
		{"MEMORY", true, false},
		{"ON DEVICE", true, false},
		{"ON HOST", true, false},
		{"LIMIT", true, false},
	};
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (size_t i = 0; i < top->groups; i++)
		add_group(&t, top->list[i], top->model.seconds > 0);
	return table_print(&t);
}

static int print_tables(const struct top *t)
{
	int rc;

	cli_tell_fallback(json_object_get(t->model.now.ps, "policy"));
	rc = print_devices(&t->model);
	fputs("\n", stdout);
	return rc ? rc : print_groups(t);
}

/* Several samples are printed one object a line, for programs. A single one is indented, so that
 * people can read it, too. */
static int print_json(const struct top *t, bool once)
{
	CLI_CLEAN_JSON json_t *o =
		top_model_json(&t->model, t->sort, t->reverse, t->user[0] ? t->user : NULL);

	if (!o || json_dumpf(o, stdout, once ? JSON_INDENT(2) : JSON_COMPACT))
		return -ENOMEM;
	fputs("\n", stdout);
	return 0;
}

/* Takes one sample, and waits for the daemon's replies. */
static int sample(struct top *t, struct top_link *l)
{
	int rc;

	top_look(t);
	do {
		struct pollfd p = {.fd = l->fd};

		rc = top_link_send(l, t, fm_now());
		p.events = top_link_events(l);
		if (!rc && poll(&p, 1, PATIENCE_MS) == 0)
			rc = -ETIMEDOUT;
		if (!rc)
			rc = top_link_step(l, t, fm_now());
	} while (rc >= 0 && (l->request.body || t->requests));
	return FM_MIN(rc, 0);
}

static void rest(double seconds)
{
	struct timespec ts = fm_timespec((uint64_t)(seconds * FM_S));

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

static int print(struct top *t, const struct top_options *o)
{
	int rc;

	if (t->message[0]) { /* the daemon refused to say */
		fprintf(stderr, "fermata: %s\n", t->message);
		return CLI_FAILED;
	}
	rc = o->cli->json ? print_json(t, o->once) : print_tables(t);
	if (rc) {
		fprintf(stderr, "fermata: out of memory\n");
		return CLI_FAILED;
	}
	return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

int top_batch(struct top *t, const struct top_options *o)
{
	struct fm_err err = {0};
	struct top_link link;
	int rc, code = CLI_OK;

	top_link_init(&link, o->cli);
	rc = top_link_open(&link, &err);
	if (rc)
		return cli_report(&err);
	rc = sample(t, &link);
	for (int64_t n = 0; !rc && !code && (!o->count || n < o->count); n++) {
		rest(t->interval);
		rc = sample(t, &link);
		if (n && !o->cli->json)
			fputs("\n", stdout);
		code = rc ? CLI_OK : print(t, o);
	}
	top_link_close(&link);
	if (!rc)
		return code;
	fm_err_set(&err, -ENOTCONN, "the daemon is gone: %s", strerror(-rc));
	fm_err_hint(&err, "see its log; `fermata doctor' tells more");
	return cli_report(&err);
}
