/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a test's copy of the shim (test_rest.py): a thread that puts the process to rest at
 * random moments, as one that moves memory does, and tells the fake driver that no command may run
 * meanwhile. At the end it writes what came of that into the file $REST_SAID.
 *
 * $REST_EVERY_US, $REST_FOR_US, $REST_MAPS_US: the most between two rests, of one, and of its end,
 * when memory is mapped again. $REST_MOST_MS: how long a rest may take to come.
 */
#include "api/cuda/shim/shim.h"
#include "base/clock.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void freeze_fn(int yes);

static struct {
	_Atomic unsigned moved, refused, stuck;
	char why[256];
	freeze_fn *freeze;
} said;

static unsigned number(const char *name, unsigned otherwise)
{
	const char *v = getenv(name);

	return v ? (unsigned)atoi(v) : otherwise;
}

static void nap(unsigned most_us, unsigned *seed)
{
	usleep(most_us ? (unsigned)rand_r(seed) % most_us : 0);
}

/* A stream may be held by what it shares a channel of the device with, and stand where nothing
 * tells that it does. So an attempt that takes long is given up for a moment. */
static int come_to_rest(struct fm_client *c, uint64_t deadline)
{
	struct fm_err why = {0};
	int rc;

	do {
		uint64_t patience = FM_MIN(deadline, fm_now() + 500 * FM_MS);

		while ((rc = fm_rest_begin(c, patience, &why)) == -EAGAIN)
			usleep(50);
		if (rc == -EBUSY)
			usleep(1000);
	} while (rc == -EBUSY && fm_now() < deadline);
	if (rc == -EBUSY) {
		snprintf(said.why, sizeof(said.why), "%s", why.text);
		said.refused++;
	}
	return rc;
}

/* A thread that is inside a call may wait there for the device: then it is let out. */
static int begin_to_move(struct fm_client *c, uint64_t deadline)
{
	int rc;

	for (;;) {
		uint64_t patience = fm_now() + 100 * FM_MS;

		while ((rc = fm_rest_moving(c)) == -EAGAIN && fm_now() < patience)
			usleep(50);
		if (rc != -EAGAIN || fm_now() >= deadline)
			return rc;
		fm_rest_end(c);
		usleep(1000);
		rc = come_to_rest(c, deadline);
		if (rc)
			return rc;
	}
}

static void move(struct fm_client *c, uint64_t deadline, unsigned *seed)
{
	int rc = begin_to_move(c, deadline);

	if (rc) {
		said.stuck += rc == -EAGAIN;
		fm_rest_end(c);
		return;
	}
	if (said.freeze)
		said.freeze(1);
	nap(number("REST_FOR_US", 2000), seed);
	fm_rest_mapping(c);
	nap(number("REST_MAPS_US", 0), seed);
	if (said.freeze)
		said.freeze(0);
	fm_rest_end(c);
	said.moved++;
}

static void *mover(void *arg)
{
	unsigned seed = (unsigned)getpid(), every = number("REST_EVERY_US", 5000);

	for (;;) {
		struct fm_client *c = fm_shim_has_client();
		uint64_t deadline = fm_now() + number("REST_MOST_MS", 20000) * FM_MS;

		nap(every, &seed);
		if (!c || !fm_rest_able(c))
			continue;
		if (!said.freeze)
			said.freeze = (freeze_fn *)fm_cuda_symbol("fake_cuda_freeze");
		if (!come_to_rest(c, deadline))
			move(c, deadline, &seed);
	}
	return NULL;
}

static void tell(void)
{
	const char *path = getenv("REST_SAID");
	FILE *f = path ? fopen(path, "w") : NULL;

	if (!f)
		return;
	fprintf(f, "%u %u %u %s\n", said.moved, said.refused, said.stuck, said.why);
	fclose(f);
}

__attribute__((constructor)) static void begin(void)
{
	sigset_t all, old;
	pthread_t thread;

	if (!getenv("REST_SAID"))
		return;
	atexit(tell);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!pthread_create(&thread, NULL, mover, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
