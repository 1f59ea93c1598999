// SPDX-License-Identifier: Apache-2.0
#include "local.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "bridge/bridge.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One word for the policy, one for each setting and one that is too many. */
#define WORDS (1 + FM_POLICY_PARAMS + 1)

#define ROUNDS 4

struct fm_link {
	struct fm_client *client;
	pthread_mutex_t lock; /* protects the bridge, which has no locks of its own */
	struct fm_bridge *bridge;
	struct fm_bridge_client *self;
	uint64_t next;     /* when the agent means to call service() */
	_Atomic bool rung; /* bell() was called since the last look */
};

/* Called under the lock: it only writes to a pipe. */
static void wake(void *client_ctx)
{
	struct fm_link *l = client_ctx;

	fm_client_wake(l->client);
}

/* There is no hint(), because only this process sets its hints. */
static const struct fm_bridge_host host = {.wake = wake};

static int set_policy(struct fm_bridge *b, const char *policy, struct fm_err *err)
{
	FM_CLEAN_FREE char *copy = strdup(policy);
	const char *word[WORDS];
	char *save = NULL;
	size_t n = 0;

	if (!copy)
		return fm_err_set(err, -ENOMEM, "out of memory");
	for (char *w = strtok_r(copy, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		if (n == WORDS)
			return fm_err_set(err, -EINVAL, "too many settings in '%s'", policy);
		word[n++] = w;
	}
	if (!n)
		return fm_err_set(err, -EINVAL, "no policy is named");
	return fm_sched_policy(fm_bridge_sched(b), word[0], word + 1, n - 1, fm_now(), err);
}

int fm_local_check(const char *policy, struct fm_err *err)
{
	struct fm_bridge *b;
	int rc = fm_bridge_new(&b, &host);

	if (rc)
		return fm_err_set(err, rc, "out of memory");
	rc = set_policy(b, policy, err);
	fm_bridge_free(b);
	return rc;
}

static int attach(struct fm_link *l, struct fm_board *board, const char *api)
{
	struct fm_ledger *ledger = fm_client_ledger(l->client);
	int rc = fm_bridge_attach(l->bridge, &l->self, board, getuid(), getpid(),
		program_invocation_short_name, api, l, fm_now());

	return rc || !ledger ? rc : fm_bridge_ledger(l->bridge, l->self, ledger);
}

static int local_open(struct fm_link **out, struct fm_client *client, const char *arg,
	struct fm_board *board, int board_fd, const char *api)
{
	FM_CLEAN_FREE struct fm_link *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return -ENOMEM;
	l->client = client;
	rc = fm_bridge_new(&l->bridge, &host);
	if (rc)
		return rc;
	rc = set_policy(l->bridge, arg, NULL);
	if (!rc)
		rc = attach(l, board, api);
	if (!rc)
		rc = -pthread_mutex_init(&l->lock, NULL);
	if (rc) {
		fm_bridge_free(l->bridge);
		return rc;
	}
	fm_lock_rank(&l->lock, LOCAL);
	*out = fm_take_ptr(l);
	return 0;
}

static void local_close(struct fm_link *l)
{
	fm_bridge_free(l->bridge); /* opens the gates */
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Lock held. */
static uint64_t run(struct fm_link *l, uint64_t now)
{
	if (atomic_exchange(&l->rung, false))
		fm_bridge_bell(l->bridge, l->self, now);
	return fm_bridge_run(l->bridge, now);
}

/* A thread that finds the lock taken has rung before, and leaves. So the thread that unlocks looks
 * again. */
static void unlock(struct fm_link *l)
{
	pthread_mutex_unlock(&l->lock);
	atomic_thread_fence(memory_order_seq_cst);
}

/* A thread that rings decides at once, itself, unless another thread is deciding: urgent work must
 * not wait until the agent wakes up to stop others. After ROUNDS rounds the agent goes on. */
static void decide(struct fm_link *l)
{
	bool agent = false;

	for (int i = 0; i < ROUNDS && atomic_load(&l->rung); i++) {
		if (pthread_mutex_trylock(&l->lock))
			break;
		agent |= run(l, fm_now()) < l->next;
		unlock(l);
	}
	if (agent || atomic_load(&l->rung))
		fm_client_wake(l->client);
}

/* A refusal by the bridge (a limit, a name that is taken) is no failure of the link: over a socket
 * the client would not hear of it either. */
static int local_send(struct fm_link *l, const union fm_msg *m)
{
	uint64_t now = fm_now();
	bool sooner;
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = fm_bridge_message(l->bridge, l->self, m, now, NULL);
	sooner = run(l, now) < l->next;
	unlock(l);
	if (sooner)
		fm_client_wake(l->client);
	decide(l);
	return rc == -EBADMSG || rc == -ENOMEM ? rc : 0;
}

static void local_bell(struct fm_link *l)
{
	atomic_store(&l->rung, true);
	decide(l);
}

static int local_fd(const struct fm_link *l)
{
	return -1;
}

static uint64_t local_service(struct fm_link *l, uint64_t now)
{
	uint64_t next;

	pthread_mutex_lock(&l->lock);
	next = run(l, now);
	l->next = next;
	unlock(l);
	decide(l);
	return FM_MAX(next, UINT64_C(1)); /* 0 would say that the other end is gone */
}

const struct fm_link_ops fm_link_local = {
	.open = local_open,
	.close = local_close,
	.send = local_send,
	.bell = local_bell,
	.fd = local_fd,
	.service = local_service,
};
