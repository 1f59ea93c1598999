/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon is asked when somebody wants to know, and at most once a second: however many scrape,
 * it has no more to do. What was written for one is given to all who may see the same. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "exporter.h"
#include <string.h>

static void forget_bodies(struct exporter *x)
{
	while (x->bodies)
		MHD_destroy_response(x->body[--x->bodies].response);
}

void collect_free(struct exporter *x)
{
	forget_bodies(x);
	fm_rows_free(x->rows);
	x->rows = NULL;
}

static int take(struct exporter *x, struct fm_snapshot *s, struct fm_err *err)
{
	FM_CLEAN_FD int fd = -1;
	int rc = fm_snapshot_connect(x->dir, DAEMON_MS, &fd, err);

	return rc ? rc : fm_snapshot_take(s, fd, DAEMON_MS, err);
}

static void note(struct exporter *x, bool up, const struct fm_err *err)
{
	if (up && !x->up)
		fm_log(&x->log, LOG_INFO, "the daemon in %s answers", x->dir);
	if (!up && (x->up || !x->rows_at))
		fm_log_err(&x->log, LOG_WARNING, "nothing to tell", err);
	x->up = up;
}

/* Counted from the end: a daemon that takes long is left in peace for as long again. */
static void refresh(struct exporter *x)
{
	struct fm_snapshot s = {0};
	struct fm_err err = {0};
	bool up;

	if (x->rows && fm_now() - x->rows_at < FRESH_NS)
		return;
	collect_free(x);
	up = !take(x, &s, &err);
	note(x, up, &err);
	if (up)
		settings_read(x, s.daemon);
	x->rows = fm_rows_new(up ? &s : NULL, &fm_sources_default);
	fm_snapshot_free(&s);
	x->rows_at = fm_now();
}

static struct MHD_Response *respond(char *text, size_t size)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);

	if (!r) {
		free(text);
		return NULL;
	}
	MHD_add_response_header(
		r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	return r;
}

static struct MHD_Response *write_body(const struct exporter *x, const struct fm_view *view)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	if (view->nobody)
		fputs("# Groups, processes and tasks are left out, since the reader's user is not "
		      "known: loopback_groups in fermatad.conf(5).\n",
			f);
	fm_rows_write(x->rows, view, f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return respond(text, size);
}

static bool same(const struct fm_view *a, const struct fm_view *b)
{
	if (a->all || b->all)
		return a->all == b->all;
	return a->nobody == b->nobody && (a->nobody || a->uid == b->uid);
}

struct MHD_Response *collect_for(struct exporter *x, const struct fm_view *view)
{
	struct MHD_Response *r;

	refresh(x);
	for (unsigned i = 0; i < x->bodies; i++)
		if (same(&x->body[i].view, view))
			return x->body[i].response;
	r = x->rows && x->bodies < VIEWS ? write_body(x, view) : NULL;
	if (r)
		x->body[x->bodies++] = (struct body){.view = *view, .response = r};
	return r;
}
