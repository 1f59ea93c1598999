/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fermata-exporter: the daemon's numbers over HTTP, in a process of its own, so that a reader,
 * however slow and whatever it sends, never holds up a decision.
 *
 * Owns: in struct exporter: the socket, its connections, and the views that are fresh.
 * Locks: none.
 * Threads: one, its loop.
 */
#pragma once
#include "base/clock.h"
#include "base/list.h"
#include "base/listen.h"
#include "base/log.h"
#include "metrics/metrics.h"
#include <microhttpd.h>
#include <systemd/sd-event.h>

#define DIR_MAX     108
#define SETTING_MAX 256
#define GROUP_MAX   64
#define CONNECTIONS 64                /* at once; beyond, the oldest one makes room */
#define PER_USER    8                 /* of them on a Unix socket, but for those who may see all */
#define LIFE_US     (5 * 1000 * 1000) /* of a connection, whatever it does */
#define FRESH_NS    FM_S              /* the daemon is asked at most so often */
#define DAEMON_MS   2000              /* and given so long to answer */
#define VIEWS       64

/* As the daemon's [metrics] says, unless an option does. */
struct settings {
	char listen[SETTING_MAX], group[GROUP_MAX], access_group[GROUP_MAX];
	bool loopback_groups;
	bool system; /* the daemon serves every user */
	uid_t daemon_uid;
};

struct options {
	const char *dir, *listen, *group;
	bool loopback_groups;
};

struct connection {
	struct fm_list link; /* oldest first */
	struct exporter *exporter;
	int fd;
	bool known; /* on a Unix socket: whose it is */
	bool doomed;
	struct fm_view view;
	uint64_t until_us;
};

/* What was written for one view of the present snapshot. */
struct body {
	struct fm_view view;
	struct MHD_Response *response;
};

struct exporter {
	struct fm_log log;
	struct fm_log_limit troubles;
	struct options options;
	char dir[DIR_MAX];
	struct settings settings;
	bool told; /* the daemon has told its settings */

	sd_event *event;
	sd_event_source *accept, *pause, *http_io, *http_again, *life, *poll;
	int listening;
	char at[SETTING_MAX];      /* where it listens, as people write it; "": nowhere */
	char refused[SETTING_MAX]; /* where it could not, as already said */
	char path[FM_LISTEN_PATH]; /* of its own Unix socket, to be removed; "": none */
	bool wide;                 /* everybody may connect to it */

	struct MHD_Daemon *http;
	struct fm_list connections;
	unsigned n_connections;
	struct connection *accepting;

	struct fm_rows *rows;
	uint64_t rows_at;
	bool up;
	struct body body[VIEWS];
	unsigned bodies;
};

/* settings.c */
/* Ask the daemon; what it does not say stays. */
void settings_read(struct exporter *x, const json_t *daemon);
int settings_ask(struct exporter *x, struct fm_err *err);
/* What somebody at the other end of a Unix socket may see. */
int settings_view(const struct exporter *x, int fd, struct fm_view *view);

/* listen.c */
int listen_open(struct exporter *x, struct fm_err *err); /* where the settings say */
void listen_close(struct exporter *x);
/* The settings may have changed: move, or stay and say why. */
void listen_move(struct exporter *x);

/* serve.c */
int serve_start(struct exporter *x, struct fm_err *err);
void serve_stop(struct exporter *x);
void serve_accept(struct exporter *x, int fd, bool tcp);

/* collect.c */
/* A reference to the answer for this view, as it is now; NULL: out of memory. */
struct MHD_Response *collect_for(struct exporter *x, const struct fm_view *view);
void collect_free(struct exporter *x);
