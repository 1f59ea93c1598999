/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the shim engine by which an API is a table: entries that it makes itself, what
 * handles were made with, captures, and how far a queue has come. Each case in a process of its
 * own. */
#include "../xqueue/own_process.h"
#include "shim/captures.h"
#include "shim/progress.h"
#include "shim/queues.h"
#include "xqueue/client.h"
#include <pthread.h>
#include <string.h>

#define HANDLE(number) ((uintptr_t)0x1000 + 16 * (uintptr_t)(number))

struct queue {
	FM_SHIM_ENTRY;
	int hw; /* stands for the hwqueue */
	struct fm_shim_progress progress;
};

static struct {
	bool none;
	_Atomic unsigned made, released;
} api;

static unsigned levels(void *hwq)
{
	return 1u << FM_LEVEL_PENDING;
}

static int sync_none(void *hwq)
{
	return 0;
}

static void release(void *hwq, bool orphaned)
{
	free((char *)hwq - offsetof(struct queue, hw));
	api.released++;
}

static const struct fm_hw_ops hw_ops = {
	.name = "test", .levels = levels, .sync = sync_none, .release = release};

static bool where(struct fm_shim_place *at)
{
	at->key = at->handle;
	at->of = fm_shim_made_with((void *)at->handle);
	return at->of;
}

static bool init(struct fm_shim_entry *e, const struct fm_shim_place *at,
	struct fm_xq_config *config, char device[FM_DEVKEY_MAX])
{
	api.made++;
	config->ops = &hw_ops;
	config->hwq = &((struct queue *)e)->hw;
	strcpy(device, at->of);
	return !api.none;
}

static const struct fm_shim_queue_ops queue_ops = {
	.size = sizeof(struct queue), .where = where, .init = init};

static void fork_child(void)
{
	fm_shim_forget_queues();
}

const struct fm_shim_api fm_shim_api = {
	.name = "test", .fork_child = fork_child, .queues = &queue_ops};

static struct queue *launch(unsigned number)
{
	return fm_shim_queue((void *)HANDLE(number), "testLaunch");
}

static void an_entry_is_made(void **state)
{
	struct queue *q;

	assert_null(launch(1)); /* nobody knows what it is */
	assert_null(fm_shim_made((void *)HANDLE(1), "first device"));
	q = launch(1);
	assert_non_null(q);
	assert_ptr_equal(launch(1), q);
	assert_ptr_equal(fm_shim_find(HANDLE(1)), q);
	assert_ptr_equal(q->xq->hwq, &q->hw);
	assert_int_equal(q->key, HANDLE(1));
	assert_null(q->thread);
	assert_int_equal(api.made, 1);
	fm_shim_close(HANDLE(1), false);
	eventually(api.released == 1);
	assert_null(fm_shim_find(HANDLE(1)));
}

static void one_that_cannot_be_is_released_and_refused(void **state)
{
	fm_shim_made((void *)HANDLE(1), "a device");
	api.none = true;
	assert_null(launch(1));
	assert_int_equal(api.released, 1);
	api.none = false;
	assert_null(launch(1));
	assert_null(fm_shim_find(HANDLE(1)));
	assert_ptr_equal(fm_shim_look_up(HANDLE(1)), &fm_shim_refused);
	assert_int_equal(api.made, 1);
	assert_int_equal(atomic_load(&fm_shim_has_client()->board->ungoverned), 2);
}

static int child_knows_nothing(void *unused)
{
	return fm_shim_made_with((void *)HANDLE(1)) || fm_shim_captures || !fm_shim_touch();
}

static void a_child_knows_nothing_that_was_made(void **state)
{
	static char one[] = "one", two[] = "two";

	assert_null(fm_shim_made_with((void *)HANDLE(1)));
	assert_null(fm_shim_made((void *)HANDLE(1), one));
	assert_ptr_equal(fm_shim_made((void *)HANDLE(1), two), one);
	assert_ptr_equal(fm_shim_made_with((void *)HANDLE(1)), two);
	fm_shim_capture_begins();
	assert_int_equal(in_child(child_knows_nothing, NULL), 0);
	assert_ptr_equal(fm_shim_made((void *)HANDLE(1), NULL), two);
	assert_null(fm_shim_made_with((void *)HANDLE(1)));
	assert_null(fm_shim_made((void *)HANDLE(1), NULL));
}

static void captures_are_counted(void **state)
{
	assert_true(fm_shim_touch());
	fm_shim_untouch();
	fm_shim_capture_begins();
	fm_shim_capture_begun(0, false);
	assert_int_equal(fm_shim_captures, 0);
	fm_shim_capture_begins();
	fm_shim_capture_begun(HANDLE(1), true);
	assert_false(fm_shim_touch());
	fm_shim_launches = true; /* this thread's stream is another one */
	assert_true(fm_shim_touch());
	fm_shim_untouch();
	fm_shim_launches = false;
	fm_shim_capture_ended(HANDLE(2)); /* where none began */
	assert_int_equal(fm_shim_captures, 1);
	fm_shim_capture_ended(HANDLE(1));
	fm_shim_capture_ended(HANDLE(1));
	assert_int_equal(fm_shim_captures, 0);
}

static void a_set_may_be_full(void **state)
{
	static struct fm_shim_set set;

	assert_false(fm_shim_set_add(&set, 0));
	for (unsigned i = 0; i < FM_SHIM_SET; i++)
		assert_true(fm_shim_set_add(&set, HANDLE(i)));
	assert_false(fm_shim_set_add(&set, HANDLE(FM_SHIM_SET)));
	assert_false(fm_shim_set_has(&set, HANDLE(FM_SHIM_SET)));
	assert_true(fm_shim_set_has(&set, HANDLE(7)));
	assert_true(fm_shim_set_take(&set, HANDLE(7)));
	assert_false(fm_shim_set_take(&set, HANDLE(7)));
	assert_true(fm_shim_set_add(&set, HANDLE(FM_SHIM_SET)));
	fm_shim_set_clear(&set);
	assert_false(fm_shim_set_has(&set, HANDLE(1)));
}

/* Three commands of the program's, one that only orders; then something of ours. */
static void a_program_does_not_see_what_is_ours(void **state)
{
	struct fm_shim_mark m;
	struct queue *q;

	fm_shim_made((void *)HANDLE(1), "a device");
	q = launch(1);
	for (int i = 0; i < 3; i++) {
		fm_xq_begin(q->xq, 1, true);
		fm_xq_end(q->xq);
	}
	fm_shim_order(&q->progress);
	m = fm_shim_mark(&q->entry, &q->progress, 5);
	assert_int_equal(m.all, m.mark + 1);
	assert_false(fm_shim_idle_but_for_us(&q->entry, &q->progress, 6));
	fm_shim_finished(&q->entry, &q->progress, &m, fm_now());
	assert_false(fm_shim_idle_but_for_us(&q->entry, &q->progress, 5)); /* nothing is ours */
	assert_true(fm_shim_idle_but_for_us(&q->entry, &q->progress, 6));
	fm_shim_order(&q->progress);
	assert_false(fm_shim_idle_but_for_us(&q->entry, &q->progress, 6));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_is_made),
		cmocka_unit_test(one_that_cannot_be_is_released_and_refused),
		cmocka_unit_test(a_child_knows_nothing_that_was_made),
		cmocka_unit_test(captures_are_counted),
		cmocka_unit_test(a_set_may_be_full),
		cmocka_unit_test(a_program_does_not_see_what_is_ours),
	};

	setenv("FERMATA_SOCKET", "/nonexistent", 1);
	unsetenv("FERMATA_LOCAL");
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
