/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict mode: the daemon makes the page in which a client's gate words are (board/gates.h). So
 * only a daemon can open the gates. If the daemon dies, the next one gets the pages from systemd,
 * which keeps descriptors for it, and from the clients, which show them.
 *
 * A client that leaves while its gates are closed does not open them by leaving. They open a little
 * later.
 */
#include "strict.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

/* How long a client's gates stay as they are after it has left; and how long if it has not come
 * back to a new daemon. Clients look for a new daemon at least every 5 s. */
#define LEFT_US  (1000 * 1000)
#define AWAIT_US (10 * 1000 * 1000)

#define NAME "gates-" /* for systemd; the inode's number follows */

struct page {
	struct fm_list link;
	struct daemon *daemon;
	struct fm_gates *gates;
	int fd; /* for writing */
	dev_t dev;
	ino_t ino;
	bool used, stored;
	sd_event_source *timer; /* when they open */
};

static void notify(struct page *p, const char *what, bool with_fd)
{
	char text[96];

	snprintf(text, sizeof(text), "%s\nFDNAME=" NAME "%llu", what, (unsigned long long)p->ino);
	if (with_fd)
		sd_pid_notify_with_fds(0, 0, text, &p->fd, 1);
	else
		sd_notify(0, text);
}

/* systemd does not say when it has no room, but recent versions say how much there is. */
static void store(struct page *p)
{
	struct daemon *d = p->daemon;
	const char *room = getenv("FDSTORE");

	if (p->stored)
		return;
	if (room && d->n_pages > strtoul(room, NULL, 10))
		fm_log_limited(&d->log, &d->troubles, LOG_WARNING,
			"systemd keeps %s descriptors and this is one more: raise "
			"FileDescriptorStoreMax=",
			room);
	notify(p, "FDSTORE=1", true);
	p->stored = true;
}

/* The words stay as they are. */
static void page_free(struct page *p)
{
	struct daemon *d = p->daemon;

	sd_event_source_disable_unref(p->timer);
	fm_list_del(&p->link);
	d->n_pages--;
	fm_gates_unmap(p->gates);
	close(p->fd);
	free(p);
}

static void page_drop(struct page *p)
{
	fm_gates_open_all(p->gates);
	if (p->stored)
		notify(p, "FDSTOREREMOVE=1", false);
	page_free(p);
}

static int page_new(struct daemon *d, struct page **out, struct fm_gates *gates, int fd)
{
	struct page *p = calloc(1, sizeof(*p));
	struct stat st;

	if (!p || fstat(fd, &st)) {
		free(p);
		fm_gates_unmap(gates);
		close(fd);
		return -ENOMEM;
	}
	p->daemon = d;
	p->gates = gates;
	p->fd = fd;
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	fm_list_add_tail(&d->pages, &p->link);
	d->n_pages++;
	*out = p;
	return 0;
}

static int on_time(sd_event_source *source, uint64_t usec, void *arg)
{
	struct page *p = arg;
	struct daemon *d = p->daemon;

	fm_log(&d->log, LOG_NOTICE, "process %d is not scheduled any more: its gates are open",
		(int)p->gates->pid);
	page_drop(p);
	return 0;
}

static void drop_after(struct page *p, uint64_t us)
{
	sd_event *event = p->daemon->event;
	uint64_t at = fm_now() / 1000 + us;

	p->used = false;
	if (sd_event_add_time(event, &p->timer, CLOCK_MONOTONIC, at, 0, on_time, p) < 0)
		page_drop(p);
}

struct page *strict_find(struct daemon *d, int fd)
{
	struct stat st;
	struct page *p;

	/* Only a memory file has seals, and its fstat() is sure to return at once. */
	if (fd < 0 || fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st))
		return NULL;
	fm_list_each (p, &d->pages, link)
		if (p->dev == st.st_dev && p->ino == st.st_ino)
			return p;
	return NULL;
}

void strict_restore(struct daemon *d, int fd)
{
	struct fm_gates *gates;
	struct page *p;
	int mine, rc = fm_gates_adopt(&gates, &mine, fd);

	close(fd);
	rc = rc ? rc : page_new(d, &p, gates, mine);
	if (rc)
		fm_log(&d->log, LOG_WARNING, "gates that systemd kept cannot be opened: %s",
			strerror(-rc));
	else
		p->stored = true;
}

bool strict_restores(const char *name)
{
	return !strncmp(name, NAME, strlen(NAME));
}

void strict_start(struct daemon *d)
{
	struct page *p, *tmp;

	fm_list_each_safe (p, tmp, &d->pages, link) {
		if (d->config.strict)
			drop_after(p, AWAIT_US);
		else
			page_drop(p);
	}
}

void strict_configured(struct daemon *d)
{
	if (d->config.strict && !getenv("NOTIFY_SOCKET"))
		fm_log(&d->log, LOG_WARNING,
			"strict = yes, without systemd: if this daemon is killed, stopped "
			"programs stay stopped until another daemon runs");
}

/* Adopts the page that a client says it had from an earlier daemon. */
static int take_offered(
	struct daemon *d, struct page **out, pid_t pid, int offered, struct fm_err *err)
{
	struct fm_gates *gates;
	struct page *p;
	bool mine;
	int fd, rc;

	*out = NULL;
	if (offered < 0)
		return 0;
	/* A page of another daemon, or no page at all: as if nothing had been offered. */
	rc = fm_gates_adopt(&gates, &fd, offered);
	if (rc)
		return rc == -EPERM || rc == -EINVAL ? 0 : fm_err_set(err, rc, "out of memory");
	p = strict_find(d, fd);
	mine = gates->pid == pid && !(p && p->used);
	if (p || !mine) {
		fm_gates_unmap(gates);
		close(fd);
	} else if (page_new(d, &p, gates, fd)) {
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	if (!mine)
		return fm_err_set(err, -EBADMSG,
			"GATES message: the gates belong to another "
			"client");
	p->timer = sd_event_source_disable_unref(p->timer);
	*out = p;
	return 0;
}

int strict_join(struct daemon *d, struct page **out, pid_t pid, int offered, struct fm_err *err)
{
	struct fm_gates *gates;
	int fd, rc = take_offered(d, out, pid, offered, err);

	if (rc)
		return rc;
	if (!d->config.strict) {
		if (*out)
			page_drop(*out);
		*out = NULL;
		return 0;
	}
	if (!*out) {
		rc = fm_gates_create(&gates, &fd, pid);
		rc = rc ? rc : page_new(d, out, gates, fd);
	}
	if (rc)
		return fm_err_set(err, rc, "no gates for strict mode: %s", strerror(-rc));
	(*out)->used = true;
	store(*out);
	return 0;
}

struct fm_gates *strict_gates(struct page *p)
{
	return p->gates;
}

int strict_send(struct page *p, int sock)
{
	FM_CLEAN_FD int fd = fm_gates_reader(p->fd);
	union fm_msg m;

	if (fd < 0)
		return fd;
	fm_msg_init(&m, FM_MSG_GATES);
	return fm_msg_send(sock, &m, fd);
}

static bool any_closed(const struct fm_gates *g)
{
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++)
		if (atomic_load(&g->slot[i].gate) != FM_GATE_OPEN)
			return true;
	return false;
}

void strict_leave(struct page *p, bool dead)
{
	if (dead || !any_closed(p->gates))
		page_drop(p);
	else
		drop_after(p, LEFT_US);
}

/* The descriptors that systemd keeps stay there for the next daemon, if it starts one. */
void strict_stop(struct daemon *d)
{
	struct page *p, *tmp;

	fm_list_each_safe (p, tmp, &d->pages, link) {
		fm_gates_open_all(p->gates);
		page_free(p);
	}
}
