/* SPDX-License-Identifier: Apache-2.0 */
/* What the bridge says of the time that a group has used, and of its jobs. */
#include "bridge_world.h"
#include <pthread.h>

/* While alone, a client rings for nothing; when the second comes, the first is looked at again. */
static void work_begun_before_the_bell_was_wanted_is_seen(void **state)
{
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->slot[0].bells), 0);
	begin(&w->a, 0, 1);
	pass(w, FM_MS);
	assert_int_equal(told(w, &w->a).account.ran_ns, 0); /* and measured nothing */
	assert_int_equal(add_queue(w, &w->z, 5), 0);
	pass(w, FM_MS);
	assert_int_equal(told(w, &w->a).account.ran_ns, FM_MS);
	assert_int_equal(atomic_load(&w->z.board->slot[5].bells), FM_BELL_READY);
}

static void work_begun_before_it_joined_is_seen(void **state)
{
	struct world *w = *state;

	begin(&w->a, 0, 1); /* under a daemon before this one */
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	pass(w, FM_MS);
	assert_int_equal(told(w, &w->a).account.ran_ns, FM_MS);
}

static void work_for(struct world *w, struct client *c, uint64_t ns)
{
	struct fm_slot *s = &c->board->slot[0];

	begin(c, 0, 1);
	atomic_store(&s->busy_since, w->now);
	pass(w, ns);
	finish(w, c, 0);
	atomic_store(&s->busy_since, 0);
	atomic_fetch_add(&s->device_ns, ns);
}

static void what_one_alone_does_its_board_says(void **state)
{
	struct fm_slot *s = &((struct world *)*state)->a.board->slot[0];
	struct world *w = *state;
	struct fm_bent_info i;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	work_for(w, &w->a, 3 * FM_MS);
	assert_int_equal(told(w, &w->a).account.ran_ns, 3 * FM_MS);
	assert_int_equal(told(w, &w->a).device_ns, 3 * FM_MS);
	pass(w, 2 * FM_MS);
	i = told(w, &w->a);
	assert_int_equal(i.ent.state, FM_ENT_IDLE);
	assert_int_equal(i.account.ran_ns, 3 * FM_MS);
	assert_int_equal(i.account.idle_ns, 2 * FM_MS);
	begin(&w->a, 0, 1);
	atomic_store(&s->busy_since, w->now);
	pass(w, FM_MS);
	i = told(w, &w->a);
	assert_int_equal(i.ent.state, FM_ENT_RUNNING);
	assert_int_equal(i.account.ran_ns, 4 * FM_MS);
	assert_int_equal(i.account.idle_ns, 2 * FM_MS);
	finish(w, &w->a, 0);
	atomic_store(&s->device_ns, INT64_MAX); /* more than there was since somebody asked */
	atomic_store(&s->busy_since, 0);
	pass(w, FM_MS);
	i = told(w, &w->a);
	assert_int_equal(i.account.ran_ns, 5 * FM_MS);
	assert_int_equal(i.device_ns, 5 * FM_MS);
}

/* Of who is heard the core knows better than its board. */
static void what_one_of_two_did_alone_stays_and_claims_beside_others_do_not_count(void **state)
{
	struct world *w = *state;
	struct fm_bent_info i;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	work_for(w, &w->a, 3 * FM_MS);
	assert_int_equal(add_queue(w, &w->z, 5), 0); /* nobody asked before */
	atomic_fetch_add(&w->a.board->slot[0].device_ns, 5 * FM_MS);
	pass(w, 10 * FM_MS);
	i = told(w, &w->a);
	assert_int_equal(i.device_ns, 3 * FM_MS);
	assert_int_equal(i.account.ran_ns, 3 * FM_MS);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, FM_MS);
	finish(w, &w->a, 0);
	atomic_fetch_add(&w->a.board->slot[0].device_ns, FM_MS);
	pass(w, FM_MS);
	ring(w, &w->a);
	pass(w, 5 * FM_MS);
	i = told(w, &w->a);
	assert_int_equal(i.device_ns, 4 * FM_MS);
	assert_int_equal(i.account.ran_ns, 4 * FM_MS);
}

static void sum_up(void *arg, const struct fm_bprocess_info *i)
{
	*(uint64_t *)arg += i->device_ns;
}

static void assert_used(struct world *w, const struct client *c, uint64_t least, uint64_t most)
{
	uint64_t used = told(w, c).device_ns, processes = 0;

	assert_in_range(used, least, most);
	fm_bridge_group_each_process(group_of(c, 0), w->now, sum_up, &processes);
	assert_in_range(processes, used - 10, used);
}

/* Under native order nobody is heard, and both measure the time in which the other was at work. */
static void those_who_run_as_they_like_share_the_device(void **state)
{
	struct world *w = *state;
	struct fm_slot *a = &w->a.board->slot[0], *z = &w->z.board->slot[5];

	assert_int_equal(fm_sched_policy(fm_bridge_sched(w->b), "fifo", NULL, 0, w->now, NULL), 0);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 5), 0);
	begin(&w->a, 0, 1);
	begin(&w->z, 5, 1);
	atomic_store(&a->busy_since, w->now);
	atomic_store(&z->busy_since, w->now);
	pass(w, 10 * FM_MS);
	assert_used(w, &w->a, 5 * FM_MS - 10, 5 * FM_MS);
	assert_used(w, &w->z, 5 * FM_MS - 10, 5 * FM_MS);
	atomic_store(&z->busy_since, 0);
	atomic_store(&z->device_ns, 12 * FM_MS); /* 2 of the next 10 */
	pass(w, 10 * FM_MS);
	assert_used(w, &w->a, 14 * FM_MS - 10, 14 * FM_MS);
	assert_used(w, &w->z, 6 * FM_MS - 10, 6 * FM_MS);
	atomic_store(&z->device_ns, UINT64_MAX); /* a lie gets it half, and no more */
	pass(w, 10 * FM_MS);
	assert_used(w, &w->a, 19 * FM_MS - 10, 19 * FM_MS);
	assert_used(w, &w->z, 11 * FM_MS - 10, 11 * FM_MS);
}

static struct fm_bridge_group_jobs jobs(struct world *w, struct client *c)
{
	return fm_bridge_group_jobs(group_of(c, 0), w->now);
}

static void assert_jobs(struct world *w, struct client *c, uint64_t ended, uint64_t missed)
{
	struct fm_bridge_group_jobs j = jobs(w, c);

	assert_int_equal(j.ended, ended);
	assert_int_equal(j.missed, missed);
}

/* A job that takes so long, heard by its bells alone. */
static void job(struct world *w, struct client *c, uint64_t ns)
{
	assert_int_equal(atomic_load(&c->board->slot[0].bells), FM_BELL_READY);
	begin(c, 0, 1);
	ring(w, c);
	assert_int_equal(atomic_load(&c->board->slot[0].bells), FM_BELL_IDLE);
	pass(w, ns);
	finish(w, c, 0);
	ring(w, c);
}

static void jobs_of_who_has_a_deadline_are_counted(void **state)
{
	static const char *const policies[] = {"fixed-priority", "edf", "fifo"};
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, FM_S);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, 10 * (int64_t)FM_MS), 0);
	finish(w, &w->a, 0);
	ring(w, &w->a); /* began before there was a deadline */
	assert_jobs(w, &w->a, 0, 0);
	for (unsigned i = 0; i < FM_ARRAY_LEN(policies); i++) {
		assert_int_equal(
			fm_sched_policy(w->b->sched, policies[i], NULL, 0, w->now, NULL), 0);
		job(w, &w->a, 9 * FM_MS);
		assert_jobs(w, &w->a, 2 * i + 1, i);
		pass(w, 30 * FM_MS);
		job(w, &w->a, 11 * FM_MS);
		assert_jobs(w, &w->a, 2 * i + 2, i + 1);
	}
	assert_int_equal(jobs(w, &w->a).deadline, 10 * FM_MS);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	assert_jobs(w, &w->a, 6, 3);
	pass(w, FM_MS); /* late from now on, and once */
	assert_jobs(w, &w->a, 6, 4);
	pass(w, FM_S);
	assert_jobs(w, &w->a, 6, 4);
	finish(w, &w->a, 0);
	ring(w, &w->a);
	assert_jobs(w, &w->a, 7, 4);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->slot[0].bells), 0);
}

/* Queues on two devices: one job as long as either works. A declared segment is one with its
 * pauses. */
static void a_job_is_the_groups(void **state)
{
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue_on(w, &w->a, 1, 0, "sim:1"), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, 10 * (int64_t)FM_MS), 0);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, 6 * FM_MS);
	begin(&w->a, 1, 1);
	finish(w, &w->a, 0);
	ring(w, &w->a);
	pass(w, 6 * FM_MS);
	finish(w, &w->a, 1);
	ring(w, &w->a);
	assert_jobs(w, &w->a, 1, 1);
	assert_int_equal(segment(w, &w->a, 1, FM_SEGMENT_KEEP), 0);
	for (unsigned i = 0; i < 2; i++) {
		begin(&w->a, 0, 1);
		ring(w, &w->a);
		pass(w, 4 * FM_MS);
		finish(w, &w->a, 0);
		ring(w, &w->a);
		pass(w, 4 * FM_MS);
	}
	assert_jobs(w, &w->a, 1, 2);
	assert_int_equal(segment(w, &w->a, 0, 0), 0);
	assert_jobs(w, &w->a, 2, 2);
}

static void time_used_is_believed_within_reason(void **state)
{
	struct world *w = *state;
	struct fm_slot *s = &w->a.board->slot[0];
	struct queue *q;

	atomic_store(&s->device_ns, 5 * FM_S); /* used under a daemon before this one */
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	q = fm_list_first(&w->a.c->queues, struct queue, in_client);
	assert_int_equal(queue_usage(q, T0 + FM_S), 0);
	atomic_fetch_add(&s->device_ns, FM_MS);
	assert_int_equal(queue_usage(q, T0 + FM_S), FM_MS);
	atomic_store(&s->busy_since, T0 + FM_S);
	assert_int_equal(queue_usage(q, T0 + FM_S + FM_MS), 2 * FM_MS);
	atomic_store(&s->busy_since, T0 + 99 * FM_S); /* in the future */
	atomic_store(&s->device_ns, 0);               /* backwards */
	assert_int_equal(queue_usage(q, T0 + 2 * FM_S), 2 * FM_MS);
	atomic_store(&s->device_ns, UINT64_MAX); /* more than there was */
	assert_int_equal(queue_usage(q, T0 + 2 * FM_S), 2 * FM_S);
	atomic_store(&s->busy_since, 1); /* before it joined */
	assert_int_equal(queue_usage(q, T0 + 3 * FM_S), 3 * FM_S);
}

#define TURNS 3000000u

struct turns {
	struct fm_slot *slot;
	uint64_t began_at;
	atomic_uint begun;
};

/* As a program that is busy for a millisecond, again and again. */
static void *takes_turns(void *arg)
{
	struct turns *t = arg;

	for (unsigned i = 0; i < TURNS; i++) {
		atomic_fetch_add(&t->begun, 1);
		atomic_store(&t->slot->busy_since, t->began_at);
		atomic_exchange(&t->slot->busy_since, 0);
		atomic_fetch_add(&t->slot->device_ns, FM_MS);
		for (volatile int idle = 0; idle < 50; idle++)
			;
	}
	return NULL;
}

/* What ends while it is looked at is not counted twice. */
static void time_used_is_counted_once(void **state)
{
	struct world *w = *state;
	uint64_t now = T0 + 2 * TURNS * FM_MS, used;
	struct turns t = {&w->a.board->slot[0], now - FM_MS, 0};
	struct queue *q;
	pthread_t thread;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	q = fm_list_first(&w->a.c->queues, struct queue, in_client);
	assert_int_equal(pthread_create(&thread, NULL, takes_turns, &t), 0);
	do {
		used = queue_usage(q, now);
		assert_true(used <= t.begun * FM_MS);
	} while (used < TURNS * FM_MS);
	pthread_join(thread, NULL);
}

#define CROWD 32

static uint64_t thread_ns(struct world *w, void (*fn)(struct world *w, void *arg), void *arg)
{
	uint64_t begin = fm_thread_time();

	fn(w, arg);
	return fm_thread_time() - begin;
}

static void ask_processes(struct world *w, void *arg)
{
	uint64_t sum = 0;

	fm_bridge_group_each_process(arg, w->now, sum_up, &sum);
}

static void add_id(void *arg, const struct fm_bqueue_info *i)
{
	*(uint64_t *)arg += i->id;
}

static void ask_queues(struct world *w, void *arg)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CROWD; i++)
		fm_bridge_group_each_queue(arg, add_id, &sum);
}

static void leave(struct world *w, void *arg)
{
	struct client *c = arg;

	for (unsigned i = 0; i < CROWD; i++)
		fm_bridge_detach(w->b, c[i].c, w->now);
}

/* What each used is dealt out once, not once for each of its queues. */
static void a_group_of_many_queues_costs_what_they_are_many(void **state)
{
	struct client *c = calloc(CROWD, sizeof(*c));
	struct world *w = *state;
	uint64_t once, asked, left;

	for (unsigned i = 0; i < CROWD; i++) {
		assert_int_equal(attach(w, &c[i], ALICE, (pid_t)(100 + i), "many"), 0);
		assert_int_equal(name_group(w, &c[i], 0, "crowd"), 0);
		for (unsigned k = 0; k < FM_BOARD_SLOTS; k++)
			assert_int_equal(add_queue(w, &c[i], k), 0);
	}
	pass(w, FM_MS);
	once = thread_ns(w, ask_queues, group_of(&c[0], 0));
	asked = thread_ns(w, ask_processes, group_of(&c[0], 0));
	left = thread_ns(w, leave, c);
	assert_true(asked < 10 * once);
	assert_true(left < 10 * once);
	for (unsigned i = 0; i < CROWD; i++)
		fm_board_unmap(c[i].board);
	free(c);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(work_begun_before_the_bell_was_wanted_is_seen),
		TEST(work_begun_before_it_joined_is_seen),
		TEST(what_one_alone_does_its_board_says),
		TEST(what_one_of_two_did_alone_stays_and_claims_beside_others_do_not_count),
		TEST(those_who_run_as_they_like_share_the_device),
		TEST(jobs_of_who_has_a_deadline_are_counted),
		TEST(a_job_is_the_groups),
		TEST(time_used_is_believed_within_reason),
		TEST(time_used_is_counted_once),
		TEST(a_group_of_many_queues_costs_what_they_are_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
