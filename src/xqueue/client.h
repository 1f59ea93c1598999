/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module: the client's state, shared by client.c (settings, groups, fork), agent.c and
 * life.c. */
#pragma once
#include "base/list.h"
#include "base/lockorder.h"
#include "board/gates.h"
#include "board/ledger.h"
#include "trace/trace.h"
#include "tune.h"
#include "xqueue.h"
#include <pthread.h>
#include <sys/types.h>

#define FM_CLIENT_QUEUES FM_BOARD_SLOTS
/* A daemon accepts no more segments for a group. */
#define FM_CLIENT_SEGMENTS 32

/* Settings from the environment. */
struct fm_settings {
	uint64_t interval_ns; /* of a segment (level 2); 0: the default of the hwqueue's backend */
	uint64_t window_ns;   /* of work under way (level 1) */
	uint64_t guard_ns;    /* kernels of at least this time are guarded (level 3) */
	unsigned lead;        /* segments opened ahead of the one that runs */
	unsigned wide;        /* fm_host_gate_ops.wide for all queues; 0: as the backend says */
	uint64_t spin_ns;     /* how long the agent polls before it sleeps */
	enum fm_level level_wish;
	char group[FM_NAME_MAX];
	char dir[108];
	char local[256];
	bool memory; /* the program's memory may be moved, */
	bool early;  /* and it goes on before all of that is there (early.h) */
	struct fm_hints hints;
	uint32_t hints_set; /* bit per enum fm_hint */
};

struct fm_client_group {
	char name[FM_NAME_MAX];
	struct fm_hints hints;
	uint32_t hints_set;
	unsigned segments; /* depth of declared segments, sent again to a new daemon, */
	int32_t segment[FM_CLIENT_SEGMENTS]; /* with their priorities, outermost first */
};

/* A descriptor of ours. The program may close it and open another file under the same number. So we
 * use it only while it still refers to the file that we opened. */
struct fm_ownfd {
	int fd;
	dev_t dev;
	ino_t ino;
};

/* account.c */
struct fm_client_memory {
	struct fm_ledger *ledger; /* NULL: this client counts no memory */
	struct fm_ownfd fd;       /* without one no daemon sees the ledger */
	_Atomic uint64_t hint;    /* memory-limit of the process's group; 0: none */
	_Atomic bool offered;     /* a daemon has been sent the ledger, and says what is allowed */
	_Atomic bool rooming;     /* a thread waits for room; the words of a row are for one */
	pthread_mutex_t ask;      /* one request at a time */
	struct fm_ledger_device *silent; /* whose last request had no answer in time; under `ask` */
	/* The same of requests for memory of the host. */
	_Atomic(struct fm_ledger_device *) host_silent;
};

/* The agent's own. */
struct fm_slice_state {
	enum fm_slice_mode told;        /* to config.makes_room */
	uint64_t stopped_at, last_stop; /* since when it is stopped, 0: it is not; how long the
					   previous stop took */
};

struct fm_client {
	struct fm_client_config config;
	struct fm_settings set;
	struct fm_board *board;
	struct fm_ownfd board_fd, wake_rd, wake_wr;
	struct fm_ownfd gates_fd;
	struct fm_client_memory account;

	/* Strict mode: gate words that we only read. NULL until a daemon gives them; then they are
	 * kept for life, because gates in the driver look there. `strict` belongs to the current
	 * daemon, or to the last one, and is written under the lock. `joins`: a session has begun,
	 * and the daemon has not said yet which it is. */
	struct fm_gates *gates;
	_Atomic bool strict, joins;

	pthread_mutex_t lock; /* queues, slots, groups, sending; never held over a driver call */
	struct fm_xq *queue[FM_CLIENT_QUEUES]; /* by slot */
	uint64_t owed[FM_CLIENT_QUEUES]; /* for slots without a queue: the progress that they have
					    yet to reach, because a device still looks at them. 0:
					    nothing */
	_Atomic bool captured[FM_CLIENT_QUEUES]; /* gates in graphs look at that slot */
	struct fm_client_group group[FM_BOARD_GROUPS];
	unsigned groups;
	_Atomic unsigned calls; /* rows of the board that have a name; raised under the lock */

	_Atomic uint64_t graph_spacing; /* fm_xq_graph_spacing(), for queues that are not bound */

	/* Only the agent closes the link, and only when no thread is inside `ringing`. */
	const struct fm_link_ops *link_ops;
	const char *link_arg;
	_Atomic(struct fm_link *) link;
	_Atomic unsigned ringing;
	_Atomic bool link_broken; /* a message could not be sent: start afresh */

	struct fm_rests *rests; /* rest.h; NULL: this process does not rest */
	/* Of rests: work of a queue that is gone may not have ended before the slot's progress is
	 * so much. 0: it has. Under the lock. */
	uint64_t unsure[FM_CLIENT_QUEUES];

	_Atomic bool forked;        /* a child may hold copies of our descriptors */
	_Atomic bool dead;          /* a forked child's copy of its parent's client */
	_Atomic bool stop, stopped; /* the process exits: every gate open, the agent at rest */
	bool agent_started;
	struct fm_slice_state room;
	_Atomic bool crowded; /* at_work.c */
	uint64_t ask_at;      /* the agent's */
	uint64_t connect_at, backoff;

	/* watch.c. The agent's, except `dozes`: a thread that begins a command wakes the agent
	 * while it is set. */
	_Atomic bool dozes;
	uint64_t watch_at, watch_begun;
	unsigned unheard; /* looks in a row at which the daemon had not read our last bell */
	bool asked;
};

/* rest.c */
int fm_rests_new(struct fm_client *c);
void fm_rests_free(struct fm_client *c);
/* A new queue begins held while the process rests. Lock held. */
void fm_rest_enter(struct fm_xq *q);
/* This queue was given back. Lock held. */
void fm_rest_left(struct fm_xq *q);
/* The child after a fork has no memory of the device. */
void fm_rest_fork_child(struct fm_client *c);
/* The process exits: nothing opens before memory is back, for as long as that may take. */
void fm_rest_exit(struct fm_client *c);
/* A command of this queue is not behind a gate: none could be placed. Waits until the rest is
 * over. */
FM_COLD void fm_rest_await(struct fm_xq *q);
/* A call that no gate stops has been counted (ungoverned), and waits until the rest is over. One
 * that came before the process rests again keeps it from that. */
FM_COLD void fm_rest_outside(struct fm_client *c);

/* slice_mode.c: calls config.makes_room if the mode has changed; returns when to look again. Agent
 * only. */
uint64_t fm_slice_tell(struct fm_client *c, uint64_t now);

/* settings.c */
void fm_settings_read(struct fm_settings *s);

/* ownfd.c */
void fm_ownfd_adopt(struct fm_ownfd *o, int fd); /* moves it to a high number */
bool fm_ownfd_valid(const struct fm_ownfd *o);
void fm_ownfd_close(struct fm_ownfd *o);

/* client.c */
void fm_client_bell(struct fm_client *c);
int fm_client_send(struct fm_client *c, const union fm_msg *m);       /* lock held */
int fm_client_send_queue(struct fm_client *c, const struct fm_xq *q); /* lock held */
bool fm_client_connect(struct fm_client *c, uint64_t now);    /* agent, or before it starts */
void fm_client_disconnect(struct fm_client *c, uint64_t now); /* agent */
/* Called by the agent while there is no link. A daemon that has not heard that we left may still
 * close a gate, and it does not hear as long as a forked child holds copies of our descriptors. */
void fm_client_fail_open(struct fm_client *c);
/* Where the gate word of a slot is. Lock held. */
static inline _Atomic uint32_t *fm_client_gate(struct fm_client *c, unsigned slot)
{
	return c->strict ? &c->gates->slot[slot].gate : &c->board->slot[slot].gate;
}
static inline bool fm_client_free_run(struct fm_client *c)
{
	return !atomic_load_explicit(&c->link, memory_order_relaxed);
}
/* No gates are placed from now on, and closed gates open. */
static inline bool fm_client_ungated(struct fm_client *c)
{
	return atomic_load(&c->stop) || (fm_client_free_run(c) && !c->config.gates_always);
}

/* account.c. make: after the settings are read. offer: before the ledger is sent to a daemon;
 * alone: there is none, so that the process's own limit holds; both under the lock. hint: the limit
 * of the process's group has changed. */
void fm_account_make(struct fm_client *c);
void fm_account_unmake(struct fm_client *c);
void fm_account_offer(struct fm_client *c);
void fm_account_alone(struct fm_client *c);
void fm_account_hint(struct fm_client *c, int64_t limit);

/* at_work.c, agent only. fm_client_asks: is it time to ask the driver whether queues have something
 * under way? fm_xq_ask: asks for one queue of which this is not known. */
bool fm_client_asks(struct fm_client *c, uint64_t now);
void fm_xq_ask(struct fm_xq *q);

/* watch.c: does the daemon still listen? Agent only; returns when to look again. */
uint64_t fm_watch(struct fm_client *c, uint64_t now);
/* A command begins on a queue that was idle: start watching again, if the agent does not watch. Any
 * thread. */
static inline void fm_watch_wake(struct fm_client *c)
{
	if (atomic_load(&c->dozes) && atomic_exchange(&c->dozes, false))
		fm_client_wake(c);
}

/* agent.c */
int fm_agent_start(struct fm_client *c);
void fm_agent_stop(struct fm_client *c); /* the process exits */

/* life.c: do what is due for one queue; returns when to look again. Agent only. */
uint64_t fm_xq_pump(struct fm_xq *q, uint64_t now);
/* The part of fm_xq_pump() that stops a queue that is to stop in the middle of a command. */
void fm_xq_pump_stop(struct fm_xq *q);
/* Sets whether gates are placed from now on (a scheduler is connected) or not. */
void fm_xq_set_interval(struct fm_xq *q);
