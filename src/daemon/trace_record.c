/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of recorders. Lines are sent to them, some with a descriptor. A recorder that
 * does not read them is given up. The memory for lines that wait is limited. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "board/proto.h"
#include "trace.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#define SLOW_US (10 * 1000 * 1000)

void recording_say(struct recording *r, json_t *object, int fd)
{
	FM_CLEAN_FREE char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	size_t len = text ? strlen(text) : 0;
	struct trace_line *l = text ? malloc(sizeof(*l) + len + 1) : NULL;

	json_decref(object);
	if (!l || r->queued + len > TRACE_QUEUED) {
		free(l);
		r->over = true;
		return;
	}
	memcpy(l->text, text, len);
	l->text[len] = '\n';
	l->len = len + 1;
	l->sent = 0;
	l->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	r->over = r->over || (fd >= 0 && l->fd < 0);
	r->queued += l->len;
	fm_list_add_tail(&r->lines, &l->link);
	if (l->fd >= 0) /* descriptors are scarce, so they are sent at once */
		recording_flush(r);
}

static void drop_line(struct recording *r, struct trace_line *l)
{
	fm_list_del(&l->link);
	r->queued -= l->len;
	fm_close_fd(&l->fd);
	free(l);
}

static int on_slow(sd_event_source *source, uint64_t usec, void *arg)
{
	struct recording *r = arg;

	fm_log_limited(&r->tracing->daemon->log, &r->tracing->daemon->troubles, LOG_NOTICE,
		"pid %d does not read its recording: given up", (int)r->peer.pid);
	r->over = true;
	return 0;
}

static int wait_for_peer(struct recording *r)
{
	uint64_t at = fm_now() / 1000 + SLOW_US;
	int rc = sd_event_source_set_io_events(r->io, EPOLLIN | EPOLLOUT);

	if (rc >= 0 && r->slow)
		return 0;
	return rc < 0 ? rc
		      : sd_event_add_time(r->tracing->daemon->event, &r->slow, CLOCK_MONOTONIC, at,
				0, on_slow, r);
}

void recording_flush(struct recording *r)
{
	while (!fm_list_empty(&r->lines) && !r->over) {
		struct trace_line *l = fm_list_first(&r->lines, struct trace_line, link);
		/* The descriptor goes with the first byte. */
		long n = fm_send_bytes(
			r->fd, l->text + l->sent, l->len - l->sent, l->sent ? -1 : l->fd);

		if (n < 0) {
			r->over = (n != -EAGAIN && n != -ETOOMANYREFS) || wait_for_peer(r) < 0;
			return;
		}
		r->slow = sd_event_source_disable_unref(r->slow);
		l->sent += (size_t)n;
		if (l->sent == l->len)
			drop_line(r, l);
	}
	if (r->io)
		sd_event_source_set_io_events(r->io, EPOLLIN);
}

/* A recorder sends no further requests. It ends the recording by closing the connection. */
static int on_io(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct recording *r = arg;
	char ignored[512];
	long n;

	if (!(revents & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return 0;
	n = fm_recv_bytes(fd, ignored, sizeof(ignored));
	r->over = r->over || !n || (n < 0 && n != -EAGAIN);
	return 0;
}

void recording_free(struct recording *r)
{
	sd_event_source_disable_unref(r->io);
	sd_event_source_disable_unref(r->slow);
	while (!fm_list_empty(&r->lines))
		drop_line(r, fm_list_first(&r->lines, struct trace_line, link));
	fm_trace_ring_unmap(r->map);
	fm_close_fd(&r->ring);
	if (r->fd >= 0)
		close_socket_aside_of(r->books, r->fd);
	quota_put(r->books);
	free(r);
}

static int parse_groups(struct recording *r, const json_t *groups, struct fm_err *err)
{
	if (groups && !json_is_array(groups))
		return fm_err_set(err, -EINVAL, "\"groups\" is not a list of names");
	if (groups && !json_array_size(groups))
		return fm_err_set(err, -EINVAL, "\"groups\" is empty: leave it out for all groups");
	if (json_array_size(groups) > TRACE_GROUPS)
		return fm_err_set(err, -EINVAL, "more than %d groups", TRACE_GROUPS);
	for (size_t i = 0; i < json_array_size(groups); i++) {
		const char *name = json_string_value(json_array_get(groups, i));

		if (!name || !*name || strlen(name) >= FM_NAME_MAX)
			return fm_err_set(
				err, -EINVAL, "a group without a name, or with a long one");
		strcpy(r->group[r->n_groups++], name);
	}
	return 0;
}

/* Takes one of the few places, which are bits of a word. Root takes its own place first. */
static int take_place(struct tracing *t, struct recording *r, struct fm_err *err)
{
	bool root = !r->peer.uid;
	unsigned mine = 0;

	for (unsigned i = 0; i < TRACE_RECORDINGS; i++)
		mine += t->recording[i] && t->recording[i]->books == r->books;
	if (!root && r->peer.uid != geteuid() && mine >= TRACE_PER_USER) {
		fm_err_set(err, -EDQUOT, "%u recordings of yours are under way, the limit", mine);
		return fm_err_hint(err, "end one of them first");
	}
	r->index = root && !t->recording[TRACE_SHARED] ? TRACE_SHARED : 0;
	while (r->index < TRACE_SHARED && t->recording[r->index])
		r->index++;
	if ((r->index < TRACE_SHARED || root) && !t->recording[r->index])
		return 0;
	fm_err_set(err, -EBUSY, "too many recordings are under way");
	return fm_err_hint(err, "wait until another one has ended");
}

static int make(struct tracing *t, const struct peer *p, const json_t *body, struct recording **out,
	struct fm_err *err)
{
	struct recording *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return fm_err_set(err, -ENOMEM, "out of memory");
	*out = r;
	fm_list_init(&r->lines);
	r->tracing = t;
	r->fd = r->ring = -1;
	r->peer = *p;
	r->books = quota_get(&t->daemon->quota, p->uid, fm_now());
	rc = take_place(t, r, err);
	rc = rc ? rc : parse_groups(r, json_object_get(body, "groups"), err);
	if (rc)
		return rc;
	rc = r->ring = fm_trace_ring_create();
	/* All pages are allocated now: touching one for which there is no memory is a SIGBUS. */
	if (rc >= 0 && fallocate(r->ring, 0, 0, sizeof(*r->map)))
		rc = -errno;
	rc = rc < 0 ? rc : fm_trace_ring_map(&r->map, r->ring, NULL);
	return rc ? fm_err_set(err, rc, "no memory to record into: %s", strerror(-rc)) : 0;
}

json_t *trace_start(struct daemon *d, const struct peer *p, const json_t *body, struct fm_err *err)
{
	struct tracing *t = d->tracing;

	if (t->fresh)
		recording_free(t->fresh);
	t->fresh = NULL;
	if (make(t, p, body, &t->fresh, err)) {
		if (t->fresh)
			recording_free(t->fresh);
		t->fresh = NULL;
		return NULL;
	}
	/* It costs other clients bells, so only a peer that may steer them gets it. */
	t->fresh->exact = p->steers && json_is_true(json_object_get(body, "exact"));
	return json_pack("{s:b, s:i, s:i, s:i, s:b, s:b}", "ok", 1, "version", FM_TRACE_VERSION,
		"records", (int)FM_TRACE_RECORDS, "record_size", (int)sizeof(struct fm_trace_rec),
		"all", p->steers, "exact", t->fresh->exact);
}

bool trace_adopt(struct daemon *d, int fd)
{
	struct recording *r = d->tracing->fresh;

	if (!r)
		return false;
	d->tracing->fresh = NULL;
	r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (r->fd < 0 || sd_event_add_io(d->event, &r->io, r->fd, EPOLLIN, on_io, r) < 0 ||
		sd_event_source_set_priority(r->io, PRIORITY_CONTROL) < 0) {
		recording_free(r);
		return true;
	}
	d->tracing->recording[r->index] = r;
	trace_begin(r);
	return true;
}
