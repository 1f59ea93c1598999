/* SPDX-License-Identifier: Apache-2.0 */
/* XQueues in strict mode: the gate words that count are in a page of the scheduler's. */
#include "board/gates.h"
#include "xqueue/client.h"
#include "xqueue_world.h"
#include <sys/resource.h>
#include <unistd.h>

#define ALL 200

/* The scheduler's side of the page. */
static struct fm_gates *make_page(int *reader)
{
	struct fm_gates *g;
	int fd;

	assert_int_equal(fm_gates_create(&g, &fd, getpid()), 0);
	*reader = fm_gates_reader(fd);
	assert_true(*reader >= 0);
	close(fd);
	return g;
}

static void set(struct fm_gates *g, struct fm_xq *q, enum fm_gate gate)
{
	atomic_store(&g->slot[q->slot_index].gate, gate);
	fm_client_wake(q->client);
}

/* Closed in the page it rests, whatever the board says, and also when nobody schedules it. */
static void page_counts(unsigned level)
{
	struct feeder f = {.to = ALL};
	struct fm_gates *g;
	int reader;

	start_device(level);
	f.q = new_queue(false, 0);
	warm_up(f.q);
	g = make_page(&reader);
	fm_client_strict(f.q->client, reader);
	set(g, f.q, FM_GATE_CLOSED);
	start_feeder(&f);
	assert_rests(f.q, ALL);
	set_gate(f.q, FM_GATE_CLOSED);
	set_gate(f.q, FM_GATE_OPEN);
	assert_rests(f.q, ALL);
	peer.refuse = true; /* before it is gone: the next one would come at once */
	peer.gone = true;
	fm_client_wake(f.q->client);
	eventually(peer.closed == 1);
	assert_rests(f.q, ALL);
	set(g, f.q, FM_GATE_OPEN);
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(ALL);
	stop_device();
}

static void test_level_1(void **state)
{
	page_counts(1);
}

static void test_level_2(void **state)
{
	page_counts(2);
}

static void test_level_3(void **state)
{
	page_counts(3);
}

static void test_device_looks(void **state)
{
	page_counts(WORDS);
}

/* A device that does not look at such words, which is found out while two threads launch. */
static struct fm_hw_ops refusing;
static _Atomic bool inside;

static int refuse_gate(void *hwq, const struct fm_gate_words *words, uint64_t n, bool sample)
{
	struct fm_slot *s = fm_container(words->progress, struct fm_slot, progress);

	inside = true;
	eventually(atomic_load(&s->begun) == 2);
	usleep(20000); /* the other one comes to the lock */
	return -EOPNOTSUPP;
}

static void *launch_one(void *q)
{
	launch(q, 0);
	return NULL;
}

static void test_device_does_not_look(void **state)
{
	struct fm_xq_config config = {.device = "sim", .ops = &refusing, .in_order = true};
	struct fm_simq *simq;
	pthread_t thread[2];
	struct fm_xq *q;

	start_device(WORDS);
	refusing = fm_simq_ops;
	refusing.device_gate.write_fence = fm_simq_word_ops.device_gate.write_fence;
	refusing.device_gate.sampled = fm_simq_word_ops.device_gate.sampled;
	refusing.device_gate.gate = refuse_gate;
	refusing.host_gate = (struct fm_host_gate_ops){0};
	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	config.hwq = simq;
	assert_int_equal(fm_xq_create(&q, client(false), &config), 0);
	assert_int_equal(q->level, FM_LEVEL_QUEUED);
	assert_int_equal(pthread_create(&thread[0], NULL, launch_one, q), 0);
	eventually(inside);
	assert_int_equal(pthread_create(&thread[1], NULL, launch_one, q), 0);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	wait_all(q);
	assert_int_equal(q->level, FM_LEVEL_PENDING);
	assert_int_equal(w.n, 2);
	stop_device();
}

/* Of one that is closed the device is not asked to look anywhere: its context may have ended. */
static struct {
	_Atomic bool closed, late;
	_Atomic unsigned asked, rounds;
} reaching;

static int reach_later(void *hwq, const struct fm_gate_words *words)
{
	reaching.late |= reaching.closed;
	reaching.asked++;
	return -EBUSY;
}

static void count_rounds(void)
{
	reaching.rounds++;
}

static void test_closed_looks_nowhere(void **state)
{
	static struct fm_hw_ops busy; /* the agent reads it to the end */
	struct fm_xq_config config = {.device = "sim", .ops = &busy, .in_order = true};
	struct fm_simq *simq;
	struct fm_xq *q;
	unsigned n;
	int reader;

	start_device(WORDS);
	make_page(&reader);
	fm_client_strict(client(false), reader);
	busy = fm_simq_word_ops;
	busy.device_gate.reach_gates = reach_later;
	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	config.hwq = simq;
	assert_int_equal(fm_xq_create(&q, client(false), &config), 0);
	assert_true(reaching.asked > 0); /* by the agent, too, if it is about */
	pause_device();
	launch(q, 0);
	fm_xq_close(q);
	reaching.closed = true;
	peer.looks = count_rounds;
	n = reaching.rounds;
	while (reaching.rounds < n + 6) {
		fm_client_wake(client(false));
		usleep(1000);
	}
	assert_false(reaching.late);
	w.pause = false;
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* A queue that comes later looks there from the start; with a lax scheduler again at the board. */
static void test_lax_again(void **state)
{
	struct fm_gates *g;
	struct fm_xq *q;
	int reader;

	start_device(2);
	g = make_page(&reader);
	fm_client_strict(client(false), reader);
	atomic_store(&g->slot[0].gate, FM_GATE_CLOSED);
	q = new_queue(false, 0);
	assert_int_equal(q->slot_index, 0);
	for (unsigned i = 0; i < ALL; i++)
		launch(q, i);
	assert_rests(q, ALL);
	fm_client_lax(q->client);
	fm_client_wake(q->client);
	wait_all(q);
	assert_in_order(ALL);
	assert_true(atomic_load(&q->gate) == &q->slot->gate);
	stop_device();
}

/* One page for life: the driver may have gates that look at it. Anything else is left alone. */
static void test_another_page(void **state)
{
	int reader, other, again, p[2];
	struct fm_gates *g, *h;
	struct fm_client *c;
	struct fm_xq *q;

	start_device(2);
	q = new_queue(false, 0);
	c = q->client;
	assert_int_equal(pipe(p), 0);
	fm_client_strict(c, p[0]);
	fm_client_strict(c, -1);
	assert_true(atomic_load(&q->gate) == &q->slot->gate);
	assert_int_equal(fm_client_gates(c), -1);
	g = make_page(&reader);
	h = make_page(&other);
	again = dup(reader);
	fm_client_strict(c, reader);
	assert_true(atomic_load(&q->gate) == &c->gates->slot[q->slot_index].gate);
	assert_true(fm_client_gates(c) >= 0);
	fm_client_strict(c, other);
	assert_true(atomic_load(&q->gate) == &q->slot->gate);
	fm_client_strict(c, again);
	atomic_store(&g->slot[q->slot_index].gate, FM_GATE_CLOSED);
	assert_int_equal(atomic_load(atomic_load(&q->gate)), FM_GATE_CLOSED);
	fm_gates_unmap(g);
	fm_gates_unmap(h);
	stop_device();
}

/* With the last descriptor that it could have, it has one to show to the next daemon. */
static void test_last_descriptor(void **state)
{
	struct rlimit was, r;
	int reader;
	struct fm_gates *g;
	struct fm_xq *q;

	start_device(2);
	q = new_queue(false, 0);
	g = make_page(&reader);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	r = was;
	r.rlim_cur = 1; /* there is none below that */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
	fm_client_strict(q->client, reader);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_true(atomic_load(&q->gate) == &q->client->gates->slot[q->slot_index].gate);
	assert_true(fm_client_gates(q->client) >= 0);
	fm_gates_unmap(g);
	stop_device();
}

/* A child looks at nobody's page. */
static void test_fork(void **state)
{
	struct fm_gates *g;
	struct fm_xq *q;
	int reader, status;
	pid_t child;

	start_device(2);
	q = new_queue(false, 0);
	g = make_page(&reader);
	fm_client_strict(q->client, reader);
	atomic_store(&g->slot[q->slot_index].gate, FM_GATE_CLOSED);
	child = fork();
	if (!child)
		_exit(atomic_load(&q->gate) != &q->slot->gate ||
			atomic_load(&q->slot->gate) != FM_GATE_OPEN);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(atomic_load(atomic_load(&q->gate)), FM_GATE_CLOSED);
	atomic_store(&g->slot[q->slot_index].gate, FM_GATE_OPEN);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_level_1),
	cmocka_unit_test(test_level_2),
	cmocka_unit_test(test_level_3),
	cmocka_unit_test(test_device_looks),
	cmocka_unit_test(test_device_does_not_look),
	cmocka_unit_test(test_closed_looks_nowhere),
	cmocka_unit_test(test_lax_again),
	cmocka_unit_test(test_another_page),
	cmocka_unit_test(test_last_descriptor),
	cmocka_unit_test(test_fork),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
