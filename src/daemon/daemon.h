/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fermatad: sessions and control connections around one bridge, on one sd-event loop. After each
 * event daemon_run() lets the bridge do what is due.
 *
 * Owns: all of the daemon's state, in struct daemon; the file that is locked by flock(), so that
 * there is one daemon in a folder.
 * Locks: one, in deferred_close.c, over the descriptors that are still to be closed.
 * Threads: the loop does everything except two things: closing descriptors where the close may
 * block (deferred_close.h), and decisions about many tasks (admission/admission_job.c).
 */
#pragma once
#include "base/list.h"
#include "base/log.h"
#include "daemon/config/config.h"
#include "deferred_close.h"
#include "quota.h"
#include <jansson.h>
#include <systemd/sd-event.h>

#define DIR_MAX     108
#define AUDIT_USERS 32

/* The process at the other end of a connection, and its user. */
struct peer {
	uid_t uid;
	pid_t pid;
	bool steers; /* may see and steer everything; limits bind what its programs ask for */
	const struct config_limits *limits; /* until the settings change */
};

/* The limits of peers. Equal limits are stored once, since most of a thousand peers have the same.
 */
struct shared_limits {
	struct shared_limits *next;
	struct config_limits limits;
};

/* The lines written for a user in this second, and the attempts left out. */
struct audit_user {
	uid_t uid;
	uint64_t second;
	unsigned written, done, refused; /* done and refused count attempts that were left out */
};

/* Operators have a table of their own, so that lines of other users never crowd theirs out. `rest`
 * counts for users beyond the table. */
struct audit {
	struct audit_user user[2][AUDIT_USERS], rest[2];
	sd_event_source *timer;
};

struct listener {
	struct daemon *daemon;
	int fd;
	bool inherited; /* from systemd: the daemon does not remove it */
	int failing;    /* the logged error that keeps it from accepting, or 0 */
	sd_event_source *io, *pause;
	char path[DIR_MAX + sizeof("/" FM_CONTROL_NAME)];
};

struct daemon {
	struct fm_log log;
	struct fm_log_limit troubles, departures;
	struct audit audit;
	struct quota quota;
	struct config config;
	struct shared_limits *limits;
	const char *config_file; /* as named or found; NULL: no file was looked for */
	bool config_required;
	const char *policy_option; /* --policy, which overrides the file's */
	int64_t idle_option;       /* --idle-exit in seconds, or -1 */

	char dir[DIR_MAX];
	bool system;  /* it serves every user of the machine who can reach its directory */
	bool machine; /* it is the machine's daemon: by its options, or by its directory */
	int lock;
	gid_t access_gid; /* (gid_t)-1: no such group */
	struct listener client, control;

	sd_event *event;
	sd_event_source *idle, *lives;
	uint64_t due;  /* when something is due without an event */
	bool prepared; /* the loop is prepared to wait */
	struct fm_bridge *bridge;
	struct fm_plugin *plugin; /* in force, or NULL */
	char dropped[256];        /* the last plug-in that failed, and why; "": no failure */
	uint64_t started;
	struct fm_hist react; /* from the loop's wake-up to the gates stored, for each bell */

	struct {
		uint64_t joined, refused, dropped; /* clients, their requests, plug-ins */
	} count;

	struct admission *admission;
	struct tracing *tracing; /* trace.h */
	struct {
		sd_event_source *timer;
		struct fm_list clients; /* struct cgroups_client */
	} cgroups;

	struct fm_list sessions, controls;
	struct asks *asks;    /* asks.h */
	struct fm_list pages; /* strict.h */
	unsigned n_sessions, n_pages;
	struct {
		sd_event_source *io, *again, *later;
		struct fm_list users; /* with sessions to read from, in turn */
		unsigned n_users;     /* with sessions */
	} turn;                       /* turn.h */
};

/* daemon.c */
int daemon_new(struct daemon *d, struct fm_err *err); /* options and config are set */
void daemon_free(struct daemon *d);
int daemon_loop(struct daemon *d); /* until told to end; 0 or negative errno */
/* Reads the settings again. On error the old ones stay. The result is logged either way. */
int daemon_reload(struct daemon *d, struct fm_err *err);
/* Replaces a plug-in that failed by the default policy. Call it after anything that made the core
 * decide. Returns whether a plug-in had failed. */
bool daemon_drop_plugin(struct daemon *d);
void daemon_idle_check(struct daemon *d); /* the number of sessions changed */

/* listen.c */
int listen_setup(struct daemon *d, struct fm_err *err); /* directory, lock, sockets */
void listen_close(struct daemon *d);
int listen_watch(struct daemon *d); /* start to accept */

/* session.c, control.c: a connection was accepted. They take over the descriptor. */
void session_accept(struct daemon *d, int fd);
void session_free_all(struct daemon *d);
void session_wake(void *session);
void session_hint(void *session, uint32_t group, enum fm_hint h, int64_t value);
void session_died(void *session); /* its process has ended */
bool session_one_process(void *session, void *other);
const struct fm_bridge_limits *session_limits(void *session);
uint64_t session_host_own(void *session);
/* The settings changed: what each peer may do is found out again. */
void session_settings(struct daemon *d);
void control_settings(struct daemon *d);
void control_accept(struct daemon *d, int fd);
void control_free_all(struct daemon *d);

/* asks.c: after the listeners are watched; after each turn of the loop. */
#define PRIORITY_CONTROL (SD_EVENT_PRIORITY_NORMAL + 10)
int asks_new(struct daemon *d);
void asks_check(struct daemon *d);
void asks_free(struct daemon *d);

/* access.c */
int peer_of(struct daemon *d, int fd, struct peer *p);
void peer_limits_free(struct shared_limits *l);
bool peer_sees(const struct peer *p, uid_t owner);
gid_t access_gid(const char *group);

/* pidfd.c: calls session_died() when the process has ended. lives_del() must come before the
 * descriptor is closed.
 */
int lives_open(struct daemon *d);
void lives_close(struct daemon *d);
int lives_add(struct daemon *d, int pidfd, void *session);
void lives_del(struct daemon *d, int pidfd);

/* lookup.c: the number of a user or of a group. False: there is no such name, or the directory that
 * knows it does not answer. */
bool lookup_id(const char *name, bool group, uint32_t *id);

/* audit.c: a line for each attempt to steer, with a limit for each user and second. Attempts beyond
 * the limit are counted, and the count is written a second later. */
/* forbidden: the target belongs to another user; the reply does not say so. */
void audit_request(struct daemon *d, const struct peer *p, const json_t *request,
	const json_t *reply, bool forbidden);
bool audit_admit(struct daemon *d, const struct peer *p, bool ok); /* is there room for a line? */
void audit_signal(struct daemon *d, uid_t uid, pid_t pid, const struct fm_err *err);
void audit_flush(struct daemon *d);

/* command.c: runs one request, a JSON object in text. Returns the reply, a new object, or NULL if
 * out of memory. *list is the list that follows in the reply, or NULL (listing.h). */
struct listing;
json_t *command_run(struct daemon *d, const struct peer *p, const char *text, size_t size,
	struct listing **list);
/* The same for a request that has been parsed. NULL can also mean that the reply comes later
 * (admission_adopt()). */
json_t *command_again(struct daemon *d, const struct peer *p, json_t *body, struct listing **list);
const char *command_code(int code); /* "EPERM" for -EPERM */

/* metrics.c: numbers for programs that collect them, a page at a time. NULL on error, with err. */
json_t *metrics_page(
	struct daemon *d, const struct peer *p, const json_t *request, struct fm_err *err);

json_t *metrics_histogram(const struct fm_hist *h);

/* report.c: the parts of replies. */
json_t *report_ps(struct daemon *d, uint64_t now); /* without the groups */
json_t *report_devices(struct daemon *d, uint64_t now);
/* The whole waiting time, including the wait for an earlier group to come to rest. */
uint64_t report_waited(const struct fm_account *a);
void report_account(json_t *ent, const struct fm_account *a, const struct peer *p);
void report_linger(json_t *ent, const struct fm_linger *l);
json_t *report_policy(const struct daemon *d);
json_t *report_available(const struct daemon *d);
json_t *report_stats(struct daemon *d);
void report_coverage(json_t *o, struct fm_bcoverage c);
/* report_memory.c. Sums over the kinds of memory: resident is all that is on the device. */
struct report_memory {
	uint64_t movable, pinned, foreign, resident;
};
struct report_memory report_memory_sums(const struct fm_bmemory_info *i);
void report_memory(json_t *group, struct fm_bridge_group *g, uint64_t now);
void report_out(json_t *group, const struct fm_bridge_group *g, const struct peer *p, uint64_t now);
/* Where the memory of a group is, and where it is to be. */
json_t *report_away(struct fm_bridge_group *g, uint64_t now);
void report_jobs(json_t *o, struct fm_bridge_group_jobs j);
const char *report_state(enum fm_ent_state state);
long report_rss_kib(void);
double report_cpu_ms(void);
