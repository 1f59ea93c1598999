// SPDX-License-Identifier: Apache-2.0
/* The public functions, each with its errors; nobody schedules here unless a case says so. */
#include "base/util.h"
#include "own_process.h"
#include <errno.h>
#include <fermata/fermata.h>
#include <pthread.h>
#include <string.h>

#define LONG (30 * FM_S)

/* A program's own device: executes at once, or when let, and can be told to fail. */
struct toy {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int value;    /* what its commands change */
	bool blocked; /* sync waits until it is not */
	int syncs, tracks, gates, interrupts, released;
	int rc; /* what the ops return */
};

#define TOY                                                                         \
	{                                                                           \
		.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER \
	}

static int toy_sync(void *ctx)
{
	struct toy *t = ctx;
	int rc;

	pthread_mutex_lock(&t->lock);
	t->syncs++;
	while (t->blocked)
		pthread_cond_wait(&t->cond, &t->lock);
	rc = t->rc;
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static void toy_unblock(struct toy *t)
{
	pthread_mutex_lock(&t->lock);
	t->blocked = false;
	pthread_cond_broadcast(&t->cond);
	pthread_mutex_unlock(&t->lock);
}

static int toy_track(void *ctx, void (*reached)(void *cookie), void *cookie)
{
	struct toy *t = ctx;

	if (t->rc)
		return t->rc;
	t->tracks++;
	reached(cookie);
	return 0;
}

static int toy_deactivate(void *ctx, void **gate)
{
	struct toy *t = ctx;

	*gate = t;
	t->gates++;
	return 0;
}

static void toy_reactivate(void *ctx, void *gate)
{
	struct toy *t = ctx;

	assert_ptr_equal(gate, t);
	t->gates--;
}

static int toy_interrupt(void *ctx)
{
	((struct toy *)ctx)->interrupts++;
	return 0;
}

static int toy_restore(void *ctx)
{
	((struct toy *)ctx)->interrupts--;
	return 0;
}

static void toy_release(void *ctx)
{
	((struct toy *)ctx)->released++;
}

static int add(void *ctx, void *arg)
{
	struct toy *t = ctx;

	__atomic_fetch_add(&t->value, *(int *)arg, __ATOMIC_RELAXED);
	return 0;
}

static int refuse(void *ctx, void *arg)
{
	return *(int *)arg;
}

static const struct fm_hwqueue_ops sync_only = {
	.size = sizeof(sync_only), .sync = toy_sync, .release = toy_release};
static const struct fm_hwqueue_ops tracked = {
	.size = sizeof(tracked), .sync = toy_sync, .track = toy_track, .release = toy_release};
static const struct fm_hwqueue_ops full = {.size = sizeof(full),
	.sync = toy_sync,
	.track = toy_track,
	.deactivate = toy_deactivate,
	.reactivate = toy_reactivate,
	.interrupt = toy_interrupt,
	.restore = toy_restore,
	.release = toy_release};

static fm_xqueue *toy_queue(struct toy *t, const struct fm_hwqueue_ops *ops)
{
	fm_hwqueue *h;
	fm_xqueue *q;

	assert_int_equal(fm_hwqueue_create(&h, "toy:0", ops, t), 0);
	assert_int_equal(fm_xqueue_create(&q, h, NULL), 0);
	return q;
}

static int submit(fm_xqueue *q, int (*fn)(void *, void *), void *arg, uint64_t *seq)
{
	const struct fm_command c = {.fn = fn, .arg = arg};

	return fm_xqueue_submit(q, &c, seq);
}

static struct fm_xqueue_info query(fm_xqueue *q)
{
	struct fm_xqueue_info i = {.size = sizeof(i)};

	assert_int_equal(fm_xqueue_query(q, &i), 0);
	return i;
}

static void test_version_and_init(void **state)
{
	const struct fm_options bad = {.local_policy = "no-such-policy"};
	const struct fm_options bad_param = {.local_policy = "fair nonsense=1"};
	const struct fm_options empty = {.local_policy = " "};

	assert_string_equal(fm_version(), FM_VERSION);
	assert_true(fm_init(&bad) < 0 && fm_init(&bad) != -EBUSY);
	assert_true(fm_init(&bad_param) < 0 && fm_init(&bad_param) != -EBUSY);
	assert_int_equal(fm_init(&empty), -EINVAL);
	assert_int_equal(fm_init(NULL), 0);
	assert_int_equal(fm_init(NULL), -EBUSY);
	assert_false(fm_scheduled());
}

static void test_init_comes_first(void **state)
{
	assert_int_equal(fm_segment_begin(NULL, FM_SEGMENT_KEEP), 0);
	assert_int_equal(fm_init(NULL), -EBUSY);
}

static void test_groups_hints_segments(void **state)
{
	fm_group *g;

	assert_int_equal(fm_group_create(NULL, "a"), -EINVAL);
	assert_int_equal(fm_group_create(&g, NULL), -EINVAL);
	assert_int_equal(fm_group_create(&g, ""), -EINVAL);
	assert_int_equal(fm_group_create(&g, "two words"), -EINVAL);
	assert_int_equal(fm_group_create(&g, "batch"), 0);
	for (unsigned i = 0; i < 2; i++, g = NULL) {
		assert_int_equal(fm_group_hint(g, FM_HINT_COUNT, 0), -EINVAL);
		assert_int_equal(fm_group_hint(g, (enum fm_hint) - 1, 0), -EINVAL);
		assert_int_equal(fm_group_hint(g, FM_HINT_PRIORITY, FM_PRIORITY_MAX + 1), -ERANGE);
		assert_int_equal(fm_group_hint(g, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
		assert_int_equal(fm_group_hint(g, FM_HINT_DEADLINE, -1), -ERANGE);
		assert_int_equal(fm_segment_end(g), -EINVAL);
		assert_int_equal(fm_segment_begin(g, FM_PRIORITY_MIN - 1), -ERANGE);
		assert_int_equal(fm_segment_begin(g, FM_PRIORITY_REALTIME), 0);
		assert_int_equal(fm_segment_begin(g, FM_SEGMENT_KEEP), 0);
		assert_int_equal(fm_segment_end(g), 0);
		assert_int_equal(fm_segment_end(g), 0);
		assert_int_equal(fm_segment_end(g), -EINVAL);
	}
	for (unsigned i = 0; i < 14; i++)
		assert_int_equal(fm_group_create(&g, "more"), 0);
	assert_int_equal(fm_group_create(&g, "more"), -ENOSPC);
}

static void test_hwqueue_arguments(void **state)
{
	struct fm_hwqueue_ops ops = full;
	struct toy t = TOY;
	char name[200];
	fm_hwqueue *h;

	assert_int_equal(fm_hwqueue_create(NULL, "d", &full, &t), -EINVAL);
	assert_int_equal(fm_hwqueue_create(&h, "d", NULL, &t), -EINVAL);
	assert_int_equal(fm_hwqueue_create(&h, NULL, &full, &t), -EINVAL);
	assert_int_equal(fm_hwqueue_create(&h, "", &full, &t), -EINVAL);
	assert_int_equal(fm_hwqueue_create(&h, "a\nb", &full, &t), -EINVAL);
	memset(name, 'x', sizeof(name));
	name[96] = '\0';
	assert_int_equal(fm_hwqueue_create(&h, name, &full, &t), -EINVAL);
	ops.size = 8;
	assert_int_equal(fm_hwqueue_create(&h, "d", &ops, &t), -EINVAL);
	ops = full;
	ops.sync = NULL;
	assert_int_equal(fm_hwqueue_create(&h, "d", &ops, &t), -EINVAL);
	ops = full;
	ops.reactivate = NULL;
	assert_int_equal(fm_hwqueue_create(&h, "d", &ops, &t), -EINVAL);
	ops = full;
	ops.interrupt = NULL;
	assert_int_equal(fm_hwqueue_create(&h, "d", &ops, &t), -EINVAL);
	name[95] = '\0';
	assert_int_equal(fm_hwqueue_create(&h, name, &full, &t), 0);
	assert_int_equal(t.released, 0);
	assert_int_equal(fm_hwqueue_destroy(h), 0);
	assert_int_equal(t.released, 1);
	assert_int_equal(fm_hwqueue_destroy(NULL), 0);
}

static void test_xqueue_arguments(void **state)
{
	struct fm_xqueue_options o = {.size = sizeof(o), .level = 4};
	struct fm_xqueue_info info = {.size = 4};
	struct fm_command c = {.fn = add};
	struct toy t = TOY;
	fm_hwqueue *h;
	fm_xqueue *q, *other;

	assert_int_equal(fm_hwqueue_create(&h, "toy:0", &full, &t), 0);
	assert_int_equal(fm_xqueue_create(NULL, h, NULL), -EINVAL);
	assert_int_equal(fm_xqueue_create(&q, NULL, NULL), -EINVAL);
	assert_int_equal(fm_xqueue_create(&q, h, &o), -EINVAL);
	o.level = o.size = 2;
	assert_int_equal(fm_xqueue_create(&q, h, &o), -EINVAL);
	o.size = sizeof(o);
	assert_int_equal(fm_xqueue_create(&q, h, &o), 0);
	assert_int_equal(query(q).level, 2);
	assert_int_equal(query(q).levels, 14);
	assert_int_equal(fm_xqueue_create(&other, h, NULL), -EBUSY);
	assert_int_equal(fm_hwqueue_destroy(h), -EBUSY);
	assert_int_equal(fm_xqueue_query(q, NULL), -EINVAL);
	assert_int_equal(fm_xqueue_query(q, &info), -EINVAL);
	assert_int_equal(fm_xqueue_submit(NULL, &c, NULL), -EINVAL);
	assert_int_equal(fm_xqueue_submit(q, NULL, NULL), -EINVAL);
	c.fn = NULL;
	assert_int_equal(fm_xqueue_submit(q, &c, NULL), -EINVAL);
	assert_int_equal(fm_xqueue_wait(q, 1, 0), -EINVAL); /* nothing was submitted */
	assert_int_equal(fm_xqueue_wait_all(q, 0), 0);
	assert_int_equal(fm_xqueue_wait(NULL, 0, 0), -EINVAL);
	assert_int_equal(fm_xqueue_wait_all(NULL, 0), -EINVAL);
	assert_int_equal(fm_xqueue_suspend(NULL, false, 0), -EINVAL);
	assert_int_equal(fm_xqueue_resume(NULL), -EINVAL);
	assert_int_equal(fm_xqueue_query(NULL, &info), -EINVAL);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	assert_int_equal(fm_xqueue_destroy(NULL), 0);
	assert_int_equal(t.released, 1);
}

static void submit_and_wait(const struct fm_hwqueue_ops *ops)
{
	struct toy t = TOY;
	int one = 1, io = -EIO, positive = 5;
	fm_xqueue *q = toy_queue(&t, ops);
	uint64_t seq = 0;

	for (unsigned i = 1; i <= 100; i++) {
		assert_int_equal(submit(q, add, &one, &seq), 0);
		assert_int_equal(seq, i);
		assert_int_equal(t.value, i);
		if (i % 10 == 0)
			assert_int_equal(fm_xqueue_wait(q, seq, i % 20 ? LONG : FM_FOREVER), 0);
	}
	assert_int_equal(submit(q, refuse, &io, &seq), -EIO);
	assert_int_equal(submit(q, refuse, &positive, NULL), -EIO);
	assert_int_equal(fm_xqueue_wait_all(q, LONG), 0);
	assert_int_equal(query(q).submitted, 102);
	assert_int_equal(query(q).completed, 102);
	assert_true(query(q).stalled);
	assert_false(query(q).suspended);
	assert_true(query(q).scheduled);
	assert_int_equal(t.released, 0);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	assert_int_equal(t.released, 1);
	assert_int_equal(t.gates, 0);
	assert_int_equal(t.interrupts, 0);
}

static void test_submit_and_wait(void **state)
{
	submit_and_wait(&sync_only);
	submit_and_wait(&tracked);
	submit_and_wait(&full);
}

static void wait_without_track(void)
{
	struct toy t = TOY;
	int one = 1;
	fm_xqueue *q = toy_queue(&t, &sync_only);
	uint64_t seq;

	t.blocked = true;
	submit(q, add, &one, &seq);
	assert_int_equal(fm_xqueue_wait(q, seq, 0), -ETIMEDOUT);
	assert_int_equal(fm_xqueue_wait(q, seq, FM_MS), -ETIMEDOUT);
	assert_int_equal(fm_xqueue_wait_all(q, FM_MS), -ETIMEDOUT);
	assert_int_equal(query(q).completed, 0);
	toy_unblock(&t);
	assert_int_equal(fm_xqueue_wait(q, seq, LONG), 0);
	assert_int_equal(query(q).completed, 1);
	assert_true(t.syncs >= 1 && t.syncs <= 2); /* one thread waits for all */
	submit(q, add, &one, &seq);
	t.rc = -EIO;
	assert_int_equal(fm_xqueue_wait(q, seq, LONG), -EIO);
	assert_int_equal(fm_xqueue_wait(q, seq, FM_FOREVER), -EIO);
	assert_int_equal(query(q).completed, 1);
	t.rc = 0;
	assert_int_equal(fm_xqueue_wait(q, seq, LONG), 0);
	submit(q, add, &one, &seq);
	t.rc = -EIO;
	assert_int_equal(fm_xqueue_destroy(q), -EIO); /* reported, and gone all the same */
	t.rc = 0;
}

static void test_wait_without_track(void **state)
{
	wait_without_track();
}

static void test_suspend_without_track(void **state)
{
	struct fm_hwqueue_ops ops = full;
	struct toy t = TOY;
	int one = 1;
	fm_xqueue *q = toy_queue(&t, &sync_only);

	submit(q, add, &one, NULL);
	assert_int_equal(fm_xqueue_suspend(q, true, LONG), 0); /* by sync */
	assert_true(query(q).suspended && query(q).stalled);
	assert_int_equal(fm_xqueue_resume(q), 0);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	ops.track = NULL;
	ops.interrupt = NULL;
	ops.restore = NULL;
	q = toy_queue(&t, &ops);
	submit(q, add, &one, NULL);
	assert_int_equal(fm_xqueue_suspend(q, true, LONG), -EOPNOTSUPP); /* nobody can tell */
	assert_true(query(q).suspended);
	assert_int_equal(fm_xqueue_resume(q), 0);
	assert_int_equal(fm_xqueue_wait_all(q, LONG), 0);
	assert_int_equal(fm_xqueue_suspend(q, true, LONG), 0); /* idle: that is known */
	assert_int_equal(fm_xqueue_destroy(q), 0);
	assert_int_equal(t.gates, 0);
}

static void test_disabled(void **state)
{
	struct toy t = TOY;
	int one = 1;
	fm_xqueue *q;
	fm_group *g;

	setenv("FERMATA_DISABLE", "1", 1);
	assert_false(fm_scheduled());
	assert_int_equal(fm_group_create(&g, "a"), -ENODEV);
	assert_int_equal(fm_group_hint(NULL, FM_HINT_PRIORITY, 0), -ENODEV);
	assert_int_equal(fm_segment_begin(NULL, FM_SEGMENT_KEEP), -ENODEV);
	assert_int_equal(fm_segment_end(NULL), -ENODEV);
	submit_and_wait(&sync_only);
	submit_and_wait(&full);
	wait_without_track();
	q = toy_queue(&t, &full);
	submit(q, add, &one, NULL);
	assert_int_equal(fm_xqueue_suspend(q, true, 0), -EOPNOTSUPP);
	assert_int_equal(fm_xqueue_resume(q), 0);
	assert_false(query(q).stalled);
	assert_int_equal(query(q).level, 0);
	assert_int_equal(query(q).levels, 14);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	assert_int_equal(t.tracks + t.gates + t.interrupts, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_version_and_init),
	cmocka_unit_test(test_init_comes_first),
	cmocka_unit_test(test_groups_hints_segments),
	cmocka_unit_test(test_hwqueue_arguments),
	cmocka_unit_test(test_xqueue_arguments),
	cmocka_unit_test(test_submit_and_wait),
	cmocka_unit_test(test_wait_without_track),
	cmocka_unit_test(test_suspend_without_track),
	cmocka_unit_test(test_disabled),
};

int main(int argc, char **argv)
{
	unsetenv("FERMATA_LOCAL");
	setenv("FERMATA_SOCKET", "/nowhere", 1);
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
