/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/lockorder.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The process's client. The lock is held over fork(), so that the child finds this whole. */
static struct {
	pthread_mutex_t lock;
	struct fm_client *client;
	bool handled; /* fork and exit */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(process.lock, PROCESS);

void fm_client_bell(struct fm_client *c)
{
	FM_NO_CANCEL;
	struct fm_link *l;

	atomic_fetch_add(&c->ringing, 1);
	l = atomic_load(&c->link);
	if (l)
		c->link_ops->bell(l);
	atomic_fetch_sub(&c->ringing, 1);
}

/* A daemon that takes no messages counts as gone: the agent starts afresh. */
int fm_client_send(struct fm_client *c, const union fm_msg *m)
{
	FM_NO_CANCEL;
	struct fm_link *l = atomic_load(&c->link);
	int rc;

	if (!l)
		return -ENOTCONN;
	rc = c->link_ops->send(l, m);
	if (rc) {
		atomic_store(&c->link_broken, true);
		fm_client_wake(c);
	}
	return rc;
}

void fm_client_wake(struct fm_client *c)
{
	FM_NO_CANCEL;
	int saved = errno;

	if (atomic_load(&c->board->agent_sleeps) && fm_ownfd_valid(&c->wake_wr))
		(void)send(c->wake_wr.fd, "", 1, MSG_NOSIGNAL);
	errno = saved;
}

static void send_hint(struct fm_client *c, unsigned index, unsigned h, int64_t value)
{
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_HINT);
	m.hint.group = index;
	m.hint.hint = h;
	m.hint.value = value;
	fm_client_send(c, &m);
}

/* For the process's own group, the environment's hints are sent first, even if they have changed
 * since. The daemon learns the environment's hints for later clients from them. */
static void send_hints(struct fm_client *c, unsigned index)
{
	const struct fm_client_group *g = &c->group[index];
	uint32_t begun = index || g->name[0] ? 0 : c->set.hints_set;

	for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
		if (!(g->hints_set & 1u << h))
			continue;
		if (begun & 1u << h && c->set.hints.value[h] != g->hints.value[h])
			send_hint(c, index, h, c->set.hints.value[h]);
		send_hint(c, index, h, g->hints.value[h]);
	}
}

static void send_group(struct fm_client *c, unsigned index)
{
	struct fm_client_group *g = &c->group[index];
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_GROUP);
	m.group.group = index;
	memcpy(m.group.name, g->name, sizeof(m.group.name));
	if (index > 0 || g->name[0])
		fm_client_send(c, &m);
	send_hints(c, index);
	for (unsigned i = 0; i < FM_MIN(g->segments, (unsigned)FM_CLIENT_SEGMENTS); i++) {
		fm_msg_init(&m, FM_MSG_SEGMENT);
		m.segment.group = index;
		m.segment.begin = 1;
		m.segment.priority = g->segment[i];
		fm_client_send(c, &m);
	}
}

int fm_client_send_queue(struct fm_client *c, const struct fm_xq *q)
{
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_QUEUE);
	m.queue.slot = q->slot_index;
	m.queue.group = q->group;
	m.queue.levels = q->levels;
	memcpy(m.queue.device, q->device, sizeof(m.queue.device));
	return fm_client_send(c, &m);
}

/* Offers the board, then sends again what a daemon must know of us. */
bool fm_client_connect(struct fm_client *c, uint64_t now)
{
	struct fm_link *l;

	c->backoff =
		c->backoff ? FM_MIN(2 * c->backoff, FM_CLIENT_BACKOFF_MAX) : FM_CLIENT_BACKOFF_MIN;
	c->connect_at = now + c->backoff;
	pthread_mutex_lock(&c->lock);
	fm_account_offer(c);
	pthread_mutex_unlock(&c->lock);
	if (!fm_ownfd_valid(&c->board_fd) ||
		c->link_ops->open(&l, c, c->link_arg, c->board, c->board_fd.fd, c->config.api)) {
		pthread_mutex_lock(&c->lock);
		fm_account_alone(c);
		pthread_mutex_unlock(&c->lock);
		return false;
	}
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->link_broken, false);
	c->asked = false;
	atomic_store(&c->link, l);
	for (unsigned i = 0; i < c->groups; i++)
		send_group(c, i);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		if (!c->queue[i])
			continue;
		fm_client_send_queue(c, c->queue[i]);
		fm_xq_set_interval(c->queue[i]);
	}
	pthread_mutex_unlock(&c->lock);
	return true;
}

/* The daemon opens the gate of a slot without a queue when it reads that the queue is gone. A
 * daemon that never reads it may have closed the gate just before. Then gates of graphs still look
 * there, or the device has not reached the queue's last gate. Lock held. */
static void open_left(struct fm_client *c, unsigned slot)
{
	_Atomic uint32_t *gate = &c->board->slot[slot].gate;

	if (!c->queue[slot] && (c->owed[slot] || atomic_load(&c->captured[slot])) &&
		atomic_load(gate) != FM_GATE_OPEN)
		atomic_store(gate, FM_GATE_OPEN);
}

/* Fail open: without a scheduler every gate opens, except those that are not ours to open. */
void fm_client_disconnect(struct fm_client *c, uint64_t now)
{
	struct fm_link *l = atomic_exchange(&c->link, NULL);

	if (!l)
		return;
	FM_TRACE(daemon_lost, now, FM_TRACE_NO_SLOT, 0, 0, 0, 0);
	while (atomic_load(&c->ringing))
		sched_yield();
	pthread_mutex_lock(&c->lock);
	c->link_ops->close(l);
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++) {
		open_left(c, i);
		if (!c->queue[i])
			continue;
		atomic_store(&c->board->slot[i].bells, 0);
		atomic_store(&c->board->slot[i].deepest, 0);
		atomic_store(&c->board->slot[i].guard_us, 0);
		atomic_store(&c->board->slot[i].shares, 0);
		atomic_store(&c->board->slot[i].gate, FM_GATE_OPEN);
		fm_xq_set_interval(c->queue[i]);
	}
	atomic_store(&c->board->contended, 0);
	atomic_store(&c->board->makes_room, 0);
	fm_account_alone(c);
	pthread_mutex_unlock(&c->lock);
	c->connect_at = now + c->backoff;
}

void fm_client_fail_open(struct fm_client *c)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		open_left(c, i);
		if (c->queue[i] && atomic_load(&c->board->slot[i].gate) != FM_GATE_OPEN)
			atomic_store(&c->board->slot[i].gate, FM_GATE_OPEN);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Called when a daemon welcomes us: the session before is over. Lock held. */
static void look_at_gates(struct fm_client *c, bool strict)
{
	atomic_store(&c->strict, strict);
	atomic_store(&c->joins, false);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		open_left(c, i);
		if (c->queue[i])
			atomic_store(&c->queue[i]->gate, fm_client_gate(c, i));
	}
}

void fm_client_lax(struct fm_client *c)
{
	pthread_mutex_lock(&c->lock);
	look_at_gates(c, false);
	pthread_mutex_unlock(&c->lock);
}

/* Only the first page is ever used, because closed gates in the driver may look there. Takes over
 * the descriptor of that page. */
static bool take_page(struct fm_client *c, int *fd)
{
	struct stat st;

	if (c->gates)
		return !fstat(*fd, &st) && st.st_dev == c->gates_fd.dev &&
		       st.st_ino == c->gates_fd.ino;
	if (fm_gates_map(&c->gates, *fd))
		return false;
	fm_ownfd_adopt(&c->gates_fd, fm_take_fd(fd));
	return true;
}

void fm_client_strict(struct fm_client *c, int fd)
{
	bool mine = fd >= 0 && take_page(c, &fd);

	if (fd >= 0)
		close(fd);
	pthread_mutex_lock(&c->lock);
	look_at_gates(c, mine);
	pthread_mutex_unlock(&c->lock);
}

int fm_client_gates(const struct fm_client *c)
{
	return fm_ownfd_valid(&c->gates_fd) ? c->gates_fd.fd : -1;
}

bool fm_client_connected(struct fm_client *c)
{
	return !fm_client_free_run(c);
}

bool fm_client_is_strict(const struct fm_client *c)
{
	return atomic_load(&c->strict);
}

bool fm_client_finds_strict(const struct fm_client *c)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t until = fm_now() + FM_CLIENT_JOIN_MS * FM_MS;

	while (atomic_load(&c->joins) && fm_now() < until)
		nanosleep(&nap, NULL);
	return fm_client_is_strict(c);
}

struct fm_board *fm_client_board(const struct fm_client *c)
{
	return c->board;
}

bool fm_client_exits(const struct fm_client *c)
{
	return atomic_load(&c->stop);
}

uint64_t fm_client_guard_from(const struct fm_client *c)
{
	return c->set.level_wish && c->set.level_wish < FM_LEVEL_RUNNING ? UINT64_MAX
									 : c->set.guard_ns;
}

/* Is this a name that a daemon accepts? A daemon that receives any other name ends the session. */
static bool name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= FM_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~' || strchr("/\"'`", name[i]))
			return false;
	return true;
}

int fm_client_group_add(struct fm_client *c, const char *name)
{
	int index = -ENOSPC;

	if (!name_ok(name))
		return -EINVAL;
	pthread_mutex_lock(&c->lock);
	if (c->groups < FM_BOARD_GROUPS) {
		index = (int)c->groups++;
		strcpy(c->group[index].name, name);
		send_group(c, (unsigned)index);
	}
	pthread_mutex_unlock(&c->lock);
	return index;
}

static void remember(struct fm_client *c, uint32_t group, enum fm_hint h, int64_t value)
{
	c->group[group].hints.value[h] = value;
	c->group[group].hints_set |= 1u << h;
	if (!group && h == FM_HINT_MEMORY_LIMIT)
		fm_account_hint(c, value);
}

int fm_client_hint(struct fm_client *c, uint32_t group, enum fm_hint h, int64_t value)
{
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_HINT);
	m.hint.group = group;
	m.hint.hint = h;
	m.hint.value = value;
	if (fm_msg_check(&m, sizeof(m.hint), NULL))
		return -ERANGE;
	pthread_mutex_lock(&c->lock);
	remember(c, group, h, value);
	fm_client_send(c, &m);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

void fm_client_remember_hint(struct fm_client *c, uint32_t group, enum fm_hint h, int64_t value)
{
	pthread_mutex_lock(&c->lock);
	if (group < c->groups && h < FM_HINT_COUNT)
		remember(c, group, h, value);
	pthread_mutex_unlock(&c->lock);
}

int64_t fm_client_hinted(struct fm_client *c, enum fm_hint h)
{
	int64_t v;

	pthread_mutex_lock(&c->lock);
	v = c->group[0].hints.value[h];
	pthread_mutex_unlock(&c->lock);
	return v;
}

int fm_client_segment(struct fm_client *c, uint32_t group, bool begin, int32_t priority)
{
	struct fm_client_group *g = &c->group[group];
	union fm_msg m;
	int rc = 0;

	fm_msg_init(&m, FM_MSG_SEGMENT);
	m.segment.group = group;
	m.segment.begin = begin;
	m.segment.priority = priority;
	if (fm_msg_check(&m, sizeof(m.segment), NULL))
		return -ERANGE;
	pthread_mutex_lock(&c->lock);
	if (!begin && !g->segments) {
		rc = -EINVAL;
	} else {
		if (begin && g->segments < FM_CLIENT_SEGMENTS)
			g->segment[g->segments] = priority;
		g->segments += begin ? 1 : -1u;
		fm_client_send(c, &m);
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* fork: no lock of ours is held halfway in the child. Its copy of the client is dead, because the
 * agent does not exist in the child. The board is the parent's, so the child gets a private board
 * with open gates at the same place. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&process.lock);
	if (process.client)
		pthread_mutex_lock(&process.client->lock);
}

static void fork_parent(void)
{
	struct fm_client *c = process.client;

	if (c) {
		pthread_mutex_unlock(&c->lock);
		atomic_store(&c->forked, true);
		fm_client_wake(c);
	}
	pthread_mutex_unlock(&process.lock);
}

static void fork_child(void)
{
	struct fm_client *c = process.client;

	fm_trace_forked();
	if (c) {
		atomic_store(&c->dead, true);
		atomic_store(&c->link, NULL);
		fm_board_detach(c->board);
		fm_rest_fork_child(c);
		fm_ledger_detach(c->account.ledger);
		for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++)
			if (c->queue[i]) {
				atomic_store(&c->queue[i]->gate, &c->board->slot[i].gate);
				atomic_store(&c->queue[i]->interval, UINT64_MAX);
			}
		pthread_mutex_unlock(&c->lock);
	}
	process.client = NULL;
	pthread_mutex_unlock(&process.lock);
}

static void on_exit_process(void)
{
	struct fm_client *c = process.client;

	if (!c)
		return;
	fm_rest_exit(c);
	fm_agent_stop(c);
}

static void destroy(struct fm_client *c)
{
	fm_ownfd_close(&c->wake_rd);
	fm_ownfd_close(&c->wake_wr);
	fm_ownfd_close(&c->board_fd);
	fm_ownfd_close(&c->gates_fd);
	fm_gates_unmap(c->gates);
	fm_account_unmake(c);
	if (c->board)
		fm_board_unmap(c->board);
	pthread_mutex_destroy(&c->lock);
	fm_rests_free(c);
	free(c);
}

static void init_group0(struct fm_client *c)
{
	c->groups = 1;
	if (name_ok(c->set.group))
		strcpy(c->group[0].name, c->set.group);
	c->group[0].hints = c->set.hints;
	c->group[0].hints_set = c->set.hints_set;
}

static void choose_link(struct fm_client *c)
{
	const char *policy = c->config.local_policy;

	if (!policy && c->set.local[0])
		policy = c->set.local;
	c->link_ops = policy && c->config.local ? c->config.local : &fm_link_socket;
	c->link_arg = policy && c->config.local ? policy : c->set.dir;
}

static struct fm_client *create(const struct fm_client_config *config)
{
	struct fm_client *c = calloc(1, sizeof(*c));
	int fd, pair[2];

	if (!c)
		return NULL;
	c->config = *config;
	c->board_fd.fd = c->gates_fd.fd = c->wake_rd.fd = c->wake_wr.fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	fm_lock_rank(&c->lock, CLIENT);
	fm_settings_read(&c->set);
	c->set.spin_ns = config->spin_ns ? config->spin_ns : c->set.spin_ns;
	init_group0(c);
	fm_account_make(c);
	choose_link(c);
	if (fm_board_create(&c->board, &fd) == 0)
		fm_ownfd_adopt(&c->board_fd, fd);
	/* This is not a pipe, because the program may have closed one end, and then a write to the
	 * other end raises a signal. */
	if (!c->board || (config->rests && fm_rests_new(c)) ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
		destroy(c);
		return NULL;
	}
	fm_ownfd_adopt(&c->wake_rd, pair[0]);
	fm_ownfd_adopt(&c->wake_wr, pair[1]);
	fm_client_connect(c, fm_now());
	if (fm_agent_start(c)) {
		fm_client_disconnect(c, fm_now());
		destroy(c);
		return NULL;
	}
	return c;
}

/* Runs before any thread has the lock, because a child must find it free. */
static void handlers(void)
{
	process.handled =
		!pthread_atfork(fork_prepare, fork_parent, fork_child) && !atexit(on_exit_process);
}

bool fm_client_switched_off(void)
{
	const char *off = secure_getenv("FERMATA_DISABLE");

	return off && *off && strcmp(off, "0") != 0;
}

struct fm_client *fm_client_get(const struct fm_client_config *config)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	FM_NO_CANCEL;
	struct fm_client *c;

	if (fm_client_switched_off())
		return NULL;
	pthread_once(&once, handlers);
	pthread_mutex_lock(&process.lock);
	if (!process.client && process.handled)
		process.client = create(config);
	c = process.client;
	pthread_mutex_unlock(&process.lock);
	return c;
}
