/* SPDX-License-Identifier: Apache-2.0 */
/* The shim engine under an API that consists of this test: handles are numbers, contexts addresses
 * in an array, and a hwqueue does nothing but end. Each case in a process of its own. */
#include "../xqueue/own_process.h"
#include "shim/queues.h"
#include "shim/threads.h"
#include "xqueue/client.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(16) char contexts[2][16];

#define DEFAULT        ((uintptr_t)1)
#define THREAD         ((uintptr_t)2)
#define HANDLE(number) ((uintptr_t)0x1000 + 16 * (uintptr_t)(number))

struct queue {
	FM_SHIM_ENTRY;
	const void *of;
};

static struct queue refused;

static struct {
	_Atomic unsigned asked, made, clients, entered, left, closing, waited, released;
	_Atomic unsigned prepared, done, children, thread_ends;
	bool nowhere, none, keeps;
	const void *current;
} api = {.current = contexts[0]};

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
	free(hwq);
	api.released++;
}

static const struct fm_hw_ops hw_ops = {
	.name = "test", .levels = levels, .sync = sync_none, .release = release};

static bool where(struct fm_shim_place *at)
{
	api.asked++;
	at->of = api.current;
	at->key = at->handle == DEFAULT  ? fm_shim_default_key(at->of)
		  : at->handle == THREAD ? fm_shim_thread_key(at->of)
					 : at->handle;
	at->thread = at->handle == THREAD ? fm_this_thread() : NULL;
	return !api.nowhere;
}

static struct fm_shim_entry *make(struct fm_client *c, const struct fm_shim_place *at)
{
	struct queue *q = api.none ? NULL : calloc(1, sizeof(*q));
	const struct fm_xq_config config = {
		.device = "test", .ops = &hw_ops, .hwq = q, .in_order = true};

	api.made++;
	if (!q)
		return NULL;
	q->key = at->key;
	q->thread = at->thread;
	q->of = at->of;
	if (!fm_xq_create(&q->xq, c, &config))
		return &q->entry;
	free(q);
	return NULL;
}

static void entered(struct fm_shim_entry *e)
{
	api.entered++;
}

static void left(struct fm_shim_entry *e)
{
	api.left++;
}

static void closing(struct fm_shim_entry *e, bool wait)
{
	api.closing++;
	api.waited += wait;
}

static void client_made(struct fm_client *c)
{
	api.clients++;
}

static void fork_prepare(void)
{
	api.prepared++;
	fm_lock_fork_begin();
	if (api.keeps)
		fm_shim_lock();
	fm_lock_fork_end();
}

static void fork_done(void)
{
	api.done++;
	if (api.keeps)
		fm_shim_unlock();
}

static void fork_child(void)
{
	api.children++;
	if (!api.keeps)
		fm_shim_forget_queues();
	fm_shim_threads_fork_child();
}

static bool is_any(const struct fm_shim_entry *e, const void *unused)
{
	return true;
}

static bool of_thread(struct fm_shim_entry *e, const void *thread)
{
	return e->thread == thread;
}

static void thread_ends(bool closes)
{
	api.thread_ends++;
	if (closes)
		fm_shim_close_if(of_thread, fm_this_thread(), 0);
}

static const struct fm_shim_queue_ops queue_ops = {.refused = &refused.entry,
	.where = where,
	.make = make,
	.entered = entered,
	.left = left,
	.closing = closing};

const struct fm_shim_api fm_shim_api = {.name = "test",
	.client_made = client_made,
	.fork_prepare = fork_prepare,
	.fork_done = fork_done,
	.fork_child = fork_child,
	.thread_ends = thread_ends,
	.queues = &queue_ops};

static uintptr_t key_of(uintptr_t handle)
{
	struct fm_shim_place at = {.handle = handle};

	where(&at);
	api.asked--;
	return at.key;
}

/* As a launch does. */
static struct queue *launch(uintptr_t handle)
{
	struct queue *q = fm_shim_look_up(key_of(handle));

	if (q && q != &refused)
		return q;
	return (struct queue *)fm_shim_first(handle, q, false, "testLaunch");
}

static uint64_t ungoverned(void)
{
	return atomic_load(&fm_shim_has_client()->board->ungoverned);
}

static void a_first_command_makes_its_queue(void **state)
{
	struct queue *q, *second;

	assert_null(fm_shim_has_client());
	fm_shim_ungoverned("testEarly");
	q = launch(HANDLE(1));
	assert_non_null(q);
	assert_ptr_equal(q->xq->hwq, q);
	assert_ptr_equal(launch(HANDLE(1)), q);
	assert_int_equal(api.made, 1);
	assert_int_equal(api.clients, 1);
	assert_int_equal(api.entered, 1);
	second = launch(HANDLE(2));
	assert_ptr_not_equal(second, q);
	assert_true(second->generation > q->generation);
	assert_int_equal(api.clients, 1);
	assert_ptr_equal(fm_shim_client(), fm_shim_has_client());
	assert_int_equal(ungoverned(), 0);
}

static void where_none_can_be_made_it_is_counted(void **state)
{
	assert_non_null(launch(HANDLE(1)));
	/* Not now: asked again. */
	assert_null(fm_shim_first(HANDLE(2), NULL, true, "testLaunch"));
	assert_int_equal(api.asked, 1);
	assert_int_equal(ungoverned(), 1);
	api.nowhere = true;
	assert_null(launch(HANDLE(2)));
	assert_int_equal(ungoverned(), 2);
	api.nowhere = false;
	/* Refused: for good, and no other handle. */
	api.none = true;
	assert_null(launch(HANDLE(2)));
	api.none = false;
	assert_int_equal(api.made, 2);
	assert_null(launch(HANDLE(2)));
	assert_int_equal(api.made, 2);
	assert_int_equal(ungoverned(), 4);
	assert_ptr_equal(fm_shim_look_up(HANDLE(2)), &refused);
	assert_null(fm_shim_at(HANDLE(2)));
	assert_non_null(launch(HANDLE(3)));
	/* Until another queue gets that handle. */
	fm_shim_close(HANDLE(2), false);
	assert_non_null(launch(HANDLE(2)));
	assert_int_equal(api.left, 0);
}

static void without_a_client_nothing_is_asked_again(void **state)
{
	setenv("FERMATA_DISABLE", "1", 1);
	assert_null(launch(HANDLE(1)));
	assert_null(launch(HANDLE(1)));
	assert_int_equal(api.asked, 1);
	assert_int_equal(api.made, 0);
	assert_null(fm_shim_has_client());
	/* It is made for something else: then it is there for launches, too. */
	unsetenv("FERMATA_DISABLE");
	assert_non_null(fm_shim_client());
	assert_non_null(launch(HANDLE(1)));
}

static void a_handle_that_is_used_again_is_another_queue(void **state)
{
	struct queue *q = launch(HANDLE(1));
	uint64_t generation = q->generation;
	struct fm_xq *kept[FM_BOARD_SLOTS];

	fm_shim_close(HANDLE(1), true);
	assert_null(fm_shim_look_up(HANDLE(1)));
	assert_int_equal(api.left, 1);
	assert_int_equal(api.closing, 1);
	assert_int_equal(api.waited, 1);
	eventually(api.released == 1);
	q = launch(HANDLE(1));
	assert_true(q->generation > generation);
	fm_shim_close(HANDLE(77), false);
	assert_int_equal(api.left, 1);
	/* A reference keeps the XQueue, if not its hwqueue. */
	assert_int_equal(fm_shim_keep(kept, is_any, NULL), 1);
	fm_shim_close(HANDLE(1), false);
	eventually(api.released == 2);
	assert_ptr_equal(kept[0]->client, fm_shim_has_client());
	fm_xq_unref(kept[0]);
}

static void in_the_place_of_another(void **state)
{
	struct queue *q = launch(HANDLE(1)), *new;
	struct fm_shim_place at = {.handle = HANDLE(1)};
	struct fm_shim_entry *was;

	where(&at);
	new = (struct queue *)make(fm_shim_client(), &at);
	assert_true(fm_shim_replace(&new->entry, &was));
	assert_ptr_equal(was, &q->entry);
	assert_ptr_equal(launch(HANDLE(1)), new);
	assert_int_equal(api.entered, 2);
	assert_int_equal(api.left, 1);
	fm_shim_close_entry(was, true);
	fm_shim_close_entry(NULL, true);
	fm_shim_close_entry(&refused.entry, true);
	eventually(api.released == 1);
	assert_int_equal(api.closing, 1);
}

static bool of_context(struct fm_shim_entry *e, const void *ctx)
{
	return ((struct queue *)e)->of == ctx;
}

static bool count(struct fm_shim_entry *e, void *arg)
{
	return ++*(unsigned *)arg < 3;
}

static void a_context_ends(void **state)
{
	struct queue *defaults[2];
	unsigned n = 0;

	for (unsigned i = 0; i < 2; i++) {
		api.current = contexts[i];
		defaults[i] = launch(DEFAULT);
		assert_non_null(launch(HANDLE(2 * i)));
		assert_non_null(launch(HANDLE(2 * i + 1)));
	}
	assert_ptr_not_equal(defaults[0], defaults[1]);
	fm_shim_each(count, &n);
	assert_int_equal(n, 3);
	fm_shim_close_if(of_context, contexts[0], fm_shim_default_key(contexts[0]));
	eventually(api.released == 3);
	assert_int_equal(api.left, 3);
	assert_ptr_equal(launch(DEFAULT), defaults[1]);
	api.current = contexts[0];
	/* It was refused, and the next one of that address is not. */
	api.none = true;
	assert_null(launch(DEFAULT));
	fm_shim_close_if(of_context, contexts[0], fm_shim_default_key(contexts[0]));
	api.none = false;
	assert_non_null(launch(DEFAULT));
}

static void *launches_on_its_own(void *main_queue)
{
	struct queue *q = launch(THREAD);

	assert_non_null(q);
	assert_ptr_not_equal(q, main_queue);
	assert_ptr_equal(q->thread, fm_this_thread());
	assert_ptr_equal(launch(THREAD), q);
	return NULL;
}

static void *is_refused(void *unused)
{
	unsigned made = api.made;

	api.none = true;
	assert_null(launch(THREAD));
	assert_null(launch(THREAD));
	assert_int_equal(api.made, made + 1);
	assert_null(fm_shim_look_up(key_of(THREAD)));
	api.none = false;
	return NULL;
}

static void a_thread_ends(void **state)
{
	struct queue *q = launch(THREAD);
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, launches_on_its_own, q), 0);
	pthread_join(t, NULL);
	fm_shim_threads_await();
	eventually(api.released == 1);
	assert_int_equal(api.thread_ends, 1);
	/* What is refused is so in that thread. */
	assert_int_equal(pthread_create(&t, NULL, is_refused, NULL), 0);
	pthread_join(t, NULL);
	assert_ptr_equal(launch(THREAD), q);
}

#define THREADS 4
#define ROUNDS  200

static pthread_barrier_t together;
static struct queue *got[THREADS];

static void *comes_with_others(void *arg)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&together);
		*(struct queue **)arg = launch(HANDLE(round % 3));
		pthread_barrier_wait(&together);
		pthread_barrier_wait(&together);
	}
	return NULL;
}

static void threads_that_come_at_one_time_get_one_queue(void **state)
{
	pthread_t t[THREADS];

	pthread_barrier_init(&together, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, comes_with_others, &got[i]), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&together);
		pthread_barrier_wait(&together);
		for (int i = 1; i < THREADS; i++)
			assert_ptr_equal(got[i], got[0]);
		assert_non_null(got[0]);
		fm_shim_close(HANDLE(round % 3), false);
		/* All slots of the board are free again. */
		eventually(api.released == api.made);
		pthread_barrier_wait(&together);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(api.entered, ROUNDS);
	assert_int_equal(api.left, ROUNDS);
}

static void the_map_may_be_full(void **state)
{
	assert_non_null(launch(HANDLE(0)));
	api.none = true;
	for (unsigned i = 1; i < FM_MAP_SLOTS; i++)
		assert_null(launch(HANDLE(i)));
	api.none = false;
	assert_null(launch(HANDLE(5000)));
	eventually(api.released == 1);
	assert_null(fm_shim_look_up(HANDLE(5000)));
	fm_shim_close(HANDLE(3), false);
	assert_non_null(launch(HANDLE(5000)));
}

static int child_forgets(void *unused)
{
	if (api.children != 1 || api.done != 1 || fm_shim_has_client() ||
		fm_shim_look_up(HANDLE(1)) || fm_shim_look_up(HANDLE(2)))
		return 1;
#ifndef NO_THREADS_AFTER_FORK
	if (!launch(HANDLE(1)) || !launch(HANDLE(2)) || api.clients != 2)
		return 2;
#endif
	return 0;
}

static void a_child_forgets(void **state)
{
	struct queue *q;

	q = launch(HANDLE(1));
	api.none = true;
	assert_null(launch(HANDLE(2)));
	api.none = false;
	/* As if another thread held it: the order of locks is a thread's own. */
	fm_lock_fork_begin();
	fm_shim_lock();
	assert_int_equal(in_child(child_forgets, NULL), 0);
	fm_shim_unlock();
	fm_lock_fork_end();
	assert_int_equal(api.prepared, 1);
	assert_int_equal(api.done, 1);
	assert_int_equal(api.children, 0);
	assert_ptr_equal(launch(HANDLE(1)), q);
}

static int child_keeps(void *unused)
{
	struct queue *q = fm_shim_look_up(HANDLE(1));

	if (api.children != 1 || fm_shim_has_client() || !q)
		return 1;
	fm_xq_begin(q->xq, 1, true);
	fm_xq_end(q->xq);
	fm_shim_close(HANDLE(1), false);
	return fm_shim_look_up(HANDLE(1)) ? 2 : 0;
}

static void a_child_keeps(void **state)
{
	struct queue *q = launch(HANDLE(1));

	api.keeps = true;
	assert_int_equal(in_child(child_keeps, NULL), 0);
	assert_ptr_equal(launch(HANDLE(1)), q);
	fm_shim_close(HANDLE(1), false);
	eventually(api.released == 1);
}

static void a_program_chooses(void **state)
{
	assert_int_equal(fm_shim_choose("no-such-policy", 0), -EINVAL);
	assert_int_equal(fm_shim_choose("round-robin slice=2", 0), 0);
	assert_non_null(launch(HANDLE(1)));
	assert_true(fm_client_connected(fm_shim_has_client()));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_first_command_makes_its_queue),
		cmocka_unit_test(where_none_can_be_made_it_is_counted),
		cmocka_unit_test(without_a_client_nothing_is_asked_again),
		cmocka_unit_test(a_handle_that_is_used_again_is_another_queue),
		cmocka_unit_test(in_the_place_of_another),
		cmocka_unit_test(a_context_ends),
		cmocka_unit_test(a_thread_ends),
		cmocka_unit_test(threads_that_come_at_one_time_get_one_queue),
		cmocka_unit_test(the_map_may_be_full),
		cmocka_unit_test(a_child_forgets),
		cmocka_unit_test(a_child_keeps),
		cmocka_unit_test(a_program_chooses),
	};

	setenv("FERMATA_SOCKET", "/nonexistent", 1);
	unsetenv("FERMATA_LOCAL");
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
