/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that forks while its threads, or Fermata's, are anywhere (forks.h): what it does it
 * does by the library, on software devices. Its children find that what their parent made is not
 * theirs, and use their own.
 *
 * usage: locks | first
 * first: the parent has used nothing of the library but what the child is about to use
 */
#include "forks.h"
#include <errno.h>
#include <fermata/fermata.h>

#define COMMANDS 20
#define PATIENCE UINT64_C(60000000000)

#define IS(value, call)                                                              \
	do {                                                                         \
		int rc_ = (call);                                                    \
		if (rc_ != (value)) {                                                \
			printf("%s:%d: " #call " is %d\n", __FILE__, __LINE__, rc_); \
			_exit(3);                                                    \
		}                                                                    \
	} while (0)

struct made {
	fm_sim_device *dev;
	fm_hwqueue *hwq;
	fm_xqueue *q;
	fm_group *group;
};

static struct made w;

static void make(struct made *m, const char *group)
{
	struct fm_xqueue_options o = {.size = sizeof(o)};

	if (!m->group)
		IS(0, fm_group_create(&m->group, group));
	o.group = m->group;
	IS(0, fm_sim_device_create(&m->dev, "forks:0", NULL));
	IS(0, fm_sim_hwqueue_create(&m->hwq, m->dev));
	IS(0, fm_xqueue_create(&m->q, m->hwq, &o));
}

static void work(struct made *m)
{
	const struct fm_command command = {.device_ns = 20000};
	uint64_t seq = 0;

	for (unsigned i = 0; i < COMMANDS; i++)
		IS(0, fm_xqueue_submit(m->q, &command, &seq));
	IS(0, fm_segment_begin(m->group, FM_SEGMENT_KEEP));
	IS(0, fm_xqueue_suspend(m->q, true, PATIENCE));
	IS(0, fm_xqueue_submit(m->q, &command, &seq));
	IS(0, fm_xqueue_resume(m->q));
	IS(0, fm_segment_end(m->group));
	IS(0, fm_group_hint(m->group, FM_HINT_PRIORITY, 1));
	IS(0, fm_xqueue_wait(m->q, seq, PATIENCE));
}

static void unmake(struct made *m)
{
	IS(0, fm_xqueue_destroy(m->q));
	fm_sim_device_destroy(m->dev);
	m->q = NULL;
	m->dev = NULL;
}

static void use(void)
{
	make(&w, "forks");
	work(&w);
	unmake(&w);
}

static void exits(void)
{
}

/* What the parent had made when it forked. */
static void is_not_ours(void)
{
	struct fm_xqueue_info i = {.size = sizeof(i)};
	const struct fm_command command = {.device_ns = 1};

	if (w.q) {
		IS(-EBADF, fm_xqueue_submit(w.q, &command, NULL));
		IS(-EBADF, fm_xqueue_suspend(w.q, true, FM_FOREVER));
		IS(-EBADF, fm_xqueue_resume(w.q));
		IS(-EBADF, fm_xqueue_wait_all(w.q, FM_FOREVER));
		IS(-EBADF, fm_xqueue_query(w.q, &i));
		IS(-EBADF, fm_xqueue_destroy(w.q));
	}
	if (w.dev) {
		IS(-EBADF, fm_sim_advance(w.dev, 1));
		fm_sim_device_destroy(w.dev);
	}
	if (w.group)
		IS(-EBADF, fm_group_hint(w.group, FM_HINT_PRIORITY, 1));
}

static void has_its_own(void)
{
	struct made own = {0};

	make(&own, "child");
	work(&own);
	unmake(&own);
}

/* All that was made before anything is scheduled. */
static void device_is_not_ours(void)
{
	fm_hwqueue *hwq;
	fm_xqueue *q;

	IS(-EBADF, fm_sim_advance(w.dev, 1));
	IS(-EBADF, fm_sim_hwqueue_create(&hwq, w.dev));
	IS(-EBADF, fm_xqueue_create(&q, w.hwq, NULL));
	IS(-EBADF, fm_hwqueue_destroy(w.hwq));
}

static int first(void)
{
	IS(0, fm_sim_device_create(&w.dev, "forks:0", NULL));
	IS(0, fm_sim_hwqueue_create(&w.hwq, w.dev));
	return forks_child(device_is_not_ours) ? 1 : 0;
}

int main(int argc, char **argv)
{
	static void (*const children[])(void) = {exits, is_not_ours, has_its_own, forks_exec, NULL};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc > 1 && !strcmp(argv[1], "first"))
		return first();
	forks_find();
	return forks_at_locks(use, children);
}
