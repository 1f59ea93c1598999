/* SPDX-License-Identifier: Apache-2.0 */
/* The software device, and a story of what happened on it. */
#pragma once
#include "api/soft/sim.h"
#include "base/clock.h"
#include "base/util.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* What happened, in order, and when. One at a time per device, so that it needs no lock in virtual
 * time. */
static struct {
	struct fm_simdev *dev;
	struct fm_simq *q[4];
	char names[64];
	uint64_t at[64];
	unsigned n;
} w;

static inline void happened(const char *name)
{
	assert_true(w.n < FM_ARRAY_LEN(w.at));
	w.names[w.n] = *name;
	w.at[w.n++] = fm_simdev_now(w.dev);
}

static inline void done(void *arg)
{
	happened(arg);
}

static inline void reached(void *arg, uint64_t now)
{
	happened(arg);
	assert_true(now && now <= fm_now());
}

static const struct fm_hw_ops *const ops = &fm_simq_ops;

static inline int launch(unsigned q, const char *name, uint64_t ns)
{
	struct fm_command c = {.device_ns = ns, .done = done, .arg = (void *)name};

	return ops->launch(w.q[q], &c);
}

static inline int track(unsigned q, const char *name)
{
	return ops->track(w.q[q], reached, (void *)name);
}

static inline void setup_with(struct fm_sim_options o, unsigned queues)
{
	memset(&w, 0, sizeof(w));
	assert_int_equal(fm_simdev_new(&w.dev, &o), 0);
	for (unsigned i = 0; i < queues; i++)
		assert_int_equal(fm_simq_new(&w.q[i], w.dev), 0);
}

static inline int setup(void **state)
{
	setup_with((struct fm_sim_options){.virtual_time = true}, 4);
	return 0;
}

static inline int teardown(void **state)
{
	for (unsigned i = 0; i < FM_ARRAY_LEN(w.q); i++)
		if (w.q[i])
			ops->release(w.q[i], false);
	fm_simdev_free(w.dev);
	return 0;
}

static inline void advance(uint64_t ns)
{
	assert_int_equal(fm_simdev_advance(w.dev, ns), 0);
}

static inline void assert_story(const char *names, ...)
{
	va_list ap;

	assert_string_equal(w.names, names);
	va_start(ap, names);
	for (unsigned i = 0; i < w.n; i++)
		assert_int_equal(w.at[i], va_arg(ap, int));
	va_end(ap);
}
