/* SPDX-License-Identifier: Apache-2.0 */
/* What a process counts of its device memory, and what it may have. The test is in the daemon's
 * place: it answers as it likes, or not at all. */
#include "own_process.h"
#include "xqueue/account.h"
#include "xqueue/link.h"
#include "xqueue/xqueue.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

#define GIB UINT64_C(0x40000000)

static struct {
	struct fm_ledger *ledger;
	struct fm_board *board;
	_Atomic bool wishes; /* once the agent has announced that it sleeps */
	_Atomic bool refuses, gone, silent;
	_Atomic unsigned opened, bells;
	_Atomic uint64_t limit; /* 0: none */
	_Atomic uint64_t others;
	_Atomic uint64_t slack; /* more than what is asked for */
} daemon_;

struct fm_link {
	int unused;
};

static struct fm_link the_link;

/* One client has it all, but for what the others have. */
static void answer(struct fm_ledger_device *row)
{
	uint64_t wanted, limit = daemon_.limit, room = fm_sub_sat(limit, daemon_.others);
	uint32_t number = fm_ledger_asked(row, &wanted);

	if (number == atomic_load(&row->answered))
		return;
	atomic_store(&row->limit, limit);
	atomic_store(&row->others, daemon_.others);
	if (!limit)
		fm_ledger_answer(row, number, UINT64_MAX);
	else if (wanted <= room)
		fm_ledger_answer(row, number, FM_MIN(room, wanted + daemon_.slack));
	else
		fm_ledger_answer(row, number, FM_MIN(room, atomic_load(&row->allowed)));
}

static void look(void)
{
	for (unsigned i = 0; !daemon_.silent && i < FM_LEDGER_DEVICES; i++)
		answer(&daemon_.ledger->device[i]);
}

static int peer_open(struct fm_link **out, struct fm_client *c, const char *arg,
	struct fm_board *board, int fd, const char *api)
{
	daemon_.ledger = fm_client_ledger(c);
	daemon_.board = board;
	if (daemon_.refuses)
		return -ECONNREFUSED;
	daemon_.gone = false;
	daemon_.opened++;
	*out = &the_link;
	return 0;
}

static void peer_close(struct fm_link *l)
{
}

static int peer_send(struct fm_link *l, const union fm_msg *m)
{
	if (m->head.type != FM_MSG_MEMORY_BELL)
		return 0;
	daemon_.bells++;
	look();
	return 0;
}

static void peer_bell(struct fm_link *l)
{
}

static int peer_fd(const struct fm_link *l)
{
	return -1;
}

static uint64_t peer_service(struct fm_link *l, uint64_t now)
{
	/* The message that says so is taken here. */
	if (atomic_load(&daemon_.board->agent_sleeps) && atomic_exchange(&daemon_.wishes, false))
		atomic_store(&daemon_.ledger->device[0].wish, (uint32_t)FM_MEM_OUT);
	return daemon_.gone ? 0 : FM_NEVER;
}

static const struct fm_link_ops peer_link = {
	.open = peer_open,
	.close = peer_close,
	.send = peer_send,
	.bell = peer_bell,
	.fd = peer_fd,
	.service = peer_service,
};

static struct fm_client *client_that(bool counts)
{
	const struct fm_client_config config = {.api = "test",
		.local = &peer_link,
		.local_policy = "test",
		.counts_memory = counts};

	return fm_client_get(&config);
}

static struct fm_client *client(void)
{
	return client_that(true);
}

static int device(struct fm_client *c)
{
	return fm_account_device(c, "gpu:0", 80 * GIB);
}

static uint64_t claimed(struct fm_client *c, int dev)
{
	return atomic_load(&fm_account_row(c, dev)->claimed);
}

static void counts_by_kind(void **state)
{
	struct fm_client *c = client();
	int a = device(c), b = fm_account_device(c, "gpu:1", 40 * GIB);
	const struct fm_ledger_device *row = fm_account_row(c, a);

	assert_int_equal(a, device(c));
	assert_true(a >= 0 && b >= 0 && a != b);
	assert_string_equal(row->key, "gpu:0");
	assert_int_equal(fm_account_claim(c, a, FM_MEM_PLAIN, 5 * GIB), 0);
	assert_int_equal(fm_account_claim(c, a, FM_MEM_POOL, 3 * GIB), 0);
	fm_account_add(c, a, FM_MEM_CONTEXT, GIB / 2);
	assert_true(row->claimed == 8 * GIB + GIB / 2);
	assert_true(row->kind[FM_MEM_PLAIN] == 5 * GIB && row->kind[FM_MEM_POOL] == 3 * GIB);
	fm_account_return(c, a, FM_MEM_PLAIN, 2 * GIB);
	fm_account_change(c, a, FM_MEM_PLAIN, FM_MEM_PIN_SHARED, GIB);
	assert_true(row->claimed == 6 * GIB + GIB / 2);
	assert_true(row->kind[FM_MEM_PLAIN] == 2 * GIB && row->kind[FM_MEM_PIN_SHARED] == GIB);
	assert_true(row->peak == 8 * GIB + GIB / 2);
	assert_true(claimed(c, b) == 0);
}

static void a_row_has_its_bus_from_the_start(void **state)
{
	struct fm_client *c = client();
	int a = fm_account_device_at(c, "gpu:0", "0000:3b:00.0", GIB), b;

	assert_string_equal(fm_account_row(c, a)->bus, "0000:3b:00.0");
	fm_account_bus(c, a, "0000:3c:00.0");
	assert_string_equal(fm_account_row(c, a)->bus, "0000:3b:00.0");
	b = fm_account_device_at(c, "gpu:1", "../x", GIB);
	assert_string_equal(fm_account_row(c, b)->bus, "");
	fm_account_bus(c, b, "0000:3c:00.0");
	assert_string_equal(fm_account_row(c, b)->bus, "0000:3c:00.0");
}

static void no_row_no_count(void **state)
{
	struct fm_client *c = client();
	uint64_t total, left;
	char key[FM_DEVKEY_MAX + 1];

	memset(key, 'x', FM_DEVKEY_MAX);
	key[FM_DEVKEY_MAX] = '\0';
	assert_int_equal(fm_account_device(c, key, GIB), -EINVAL);
	assert_int_equal(fm_account_device(c, "", GIB), -EINVAL);
	assert_int_equal(fm_account_device(c, "gpu", 0), -EINVAL);
	for (int i = 0; i < FM_LEDGER_DEVICES; i++) {
		snprintf(key, sizeof(key), "gpu:%d", i);
		assert_true(fm_account_device(c, key, GIB) >= 0);
	}
	assert_int_equal(fm_account_device(c, "one more", GIB), -ENOSPC);
	assert_int_equal(fm_account_claim(c, -ENOSPC, FM_MEM_PLAIN, UINT64_MAX), 0);
	fm_account_add(c, -ENOSPC, FM_MEM_PLAIN, 1);
	fm_account_return(c, -ENOSPC, FM_MEM_PLAIN, 1);
	fm_account_change(c, -ENOSPC, FM_MEM_PLAIN, FM_MEM_POOL, 1);
	assert_false(fm_account_info(c, -ENOSPC, &total, &left));
	assert_null(fm_account_row(c, FM_LEDGER_DEVICES));
}

static void a_client_that_does_not_count_has_no_ledger(void **state)
{
	struct fm_client *c = client_that(false);

	assert_non_null(c);
	assert_int_equal(device(c), -ENODEV);
	assert_null(fm_client_ledger(c));
	assert_int_equal(fm_client_memory(c), -1);
}

static void its_own_limit_needs_no_daemon(void **state)
{
	uint64_t total = 0, left = 0;
	struct fm_client *c;
	int dev;

	setenv("FERMATA_HINTS", "memory-limit=17179869184", 1);
	daemon_.refuses = true;
	c = client();
	dev = device(c);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 16 * GIB), 0);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 1), -ENOMEM);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, UINT64_MAX), -ENOMEM);
	assert_int_equal(fm_account_row(c, dev)->refused, 2);
	assert_true(claimed(c, dev) == 16 * GIB);
	fm_account_return(c, dev, FM_MEM_PLAIN, GIB);
	assert_true(fm_account_info(c, dev, &total, &left));
	assert_true(total == 16 * GIB && left == GIB);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_POOL, GIB), 0);
	/* What is there already counts whatever the limit. */
	fm_account_add(c, dev, FM_MEM_CONTEXT, GIB);
	assert_true(fm_account_info(c, dev, &total, &left) && !left);
	/* An operator's word. */
	fm_client_remember_hint(c, 0, FM_HINT_MEMORY_LIMIT, (int64_t)(20 * GIB));
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 3 * GIB), 0);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 1), -ENOMEM);
	fm_client_remember_hint(c, 0, FM_HINT_MEMORY_LIMIT, 0);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 100 * GIB), 0);
	assert_false(fm_account_info(c, dev, &total, &left));
}

static void a_managed_process_has_the_device_and_no_more(void **state)
{
	struct fm_client *c;
	uint64_t total, left;
	int dev;

	setenv("FERMATA_MEMORY", "1", 1);
	daemon_.refuses = true;
	c = client();
	dev = device(c);
	assert_int_equal(fm_client_ledger(c)->managed, 1);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_MOVABLE, 80 * GIB), 0);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_MOVABLE, 1), -ENOMEM);
	assert_true(fm_account_info(c, dev, &total, &left));
	assert_true(total == 80 * GIB && !left);
}

/* The first claim waits for the daemon's word; a later one asks if it is above that. */
static void a_daemon_says_what_is_allowed(void **state)
{
	struct fm_client *c = client();
	uint64_t total, left;
	int dev;

	daemon_.limit = 10 * GIB;
	daemon_.others = 4 * GIB;
	dev = device(c);
	assert_int_equal(daemon_.bells, 1);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 2 * GIB), 0);
	assert_int_equal(daemon_.bells, 2);
	daemon_.slack = GIB;
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, GIB), 0);
	assert_int_equal(daemon_.bells, 3);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, GIB), 0);
	assert_int_equal(daemon_.bells, 3);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 3 * GIB), -ENOMEM);
	assert_int_equal(daemon_.bells, 4);
	assert_true(claimed(c, dev) == 4 * GIB);
	assert_true(fm_account_info(c, dev, &total, &left));
	assert_true(total == 10 * GIB && left == 2 * GIB);
	daemon_.others = 0;
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 3 * GIB), 0);
}

static void without_a_limit_a_daemon_is_asked_once(void **state)
{
	struct fm_client *c = client();
	int dev = device(c);
	uint64_t total, left;

	for (int i = 0; i < 100; i++)
		assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 10 * GIB), 0);
	assert_int_equal(daemon_.bells, 1);
	assert_false(fm_account_info(c, dev, &total, &left));
}

/* It is waited for, but not for ever, and not again before it has answered. */
static void a_silent_daemon_refuses_nothing(void **state)
{
	struct fm_client *c = client();
	uint64_t begin = fm_now(), first;
	int dev;

	daemon_.silent = true;
	daemon_.limit = GIB;
	dev = device(c);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 5 * GIB), 0);
	first = fm_now() - begin;
	assert_true(first >= FM_S);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 5 * GIB), 0);
	assert_int_equal(daemon_.bells, 2);
	daemon_.silent = false;
	look();
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 1), -ENOMEM);
}

/* It is asked for memory of the host chunk by chunk, while the program stands still. */
static void a_silent_daemon_is_waited_for_once(void **state)
{
	struct fm_client *c = client();
	int dev = device(c);
	struct fm_ledger_device *row = fm_account_row(c, dev);
	uint64_t begin = fm_now();

	(void)state;
	atomic_store(&row->host_may, 0);
	for (uint64_t i = 1; i <= 10; i++)
		assert_true(fm_account_host(c, dev, i * GIB));
	assert_true(fm_now() - begin >= FM_S);
	assert_true(fm_now() - begin < 12 * FM_S); /* not two seconds each */
	/* It is asked when it has answered, and waited for when it has not. */
	fm_ledger_host_allow(row, 11 * GIB);
	fm_ledger_host_answer(row, atomic_load(&row->host_asks));
	assert_true(fm_account_host(c, dev, 11 * GIB));
	begin = fm_now();
	assert_true(fm_account_host(c, dev, 12 * GIB));
	assert_true(fm_now() - begin >= FM_S);
}

static bool allows_alone(struct fm_client *c, int dev)
{
	return atomic_load(&fm_account_row(c, dev)->allowed) == 3 * GIB;
}

/* When a daemon goes, the process's own limit holds; the next daemon is asked again. */
static void daemons_come_and_go(void **state)
{
	struct fm_client *c;
	int dev;

	setenv("FERMATA_HINTS", "memory-limit=3221225472", 1);
	c = client();
	daemon_.limit = GIB;
	dev = device(c);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 2 * GIB), -ENOMEM);
	daemon_.refuses = true;
	daemon_.gone = true;
	fm_client_wake(c);
	eventually(allows_alone(c, dev));
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 3 * GIB), 0);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 1), -ENOMEM);
	fm_account_return(c, dev, FM_MEM_PLAIN, 3 * GIB - 1);
	daemon_.refuses = false;
	eventually(daemon_.opened == 2);
	eventually(fm_client_connected(c));
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, GIB), -ENOMEM);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, GIB - 1), 0);
}

static int child_counts_nothing(void *arg)
{
	struct fm_client *c = arg;
	uint64_t total, left;

	if (fm_account_row(c, 0) || fm_account_info(c, 0, &total, &left) || device(c) != -ENODEV)
		return 1;
	/* Far beyond what the parent may have. */
	if (fm_account_claim(c, 0, FM_MEM_PLAIN, 100 * GIB))
		return 2;
	fm_account_add(c, 0, FM_MEM_PLAIN, GIB);
	fm_account_return(c, 0, FM_MEM_PLAIN, GIB);
	return 0;
}

static void a_child_does_not_count_in_its_parents_ledger(void **state)
{
	struct fm_client *c;
	int dev;

	daemon_.limit = 10 * GIB;
	c = client();
	dev = device(c);
	assert_int_equal(dev, 0);
	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, GIB), 0);
	assert_int_equal(in_child(child_counts_nothing, c), 0);
	assert_true(claimed(c, dev) == GIB);
}

#ifndef NO_THREADS_AFTER_FORK
static int child_has_its_own(void *arg)
{
	struct fm_client *c = client();
	int dev = c ? device(c) : -1;

	if (dev < 0 || claimed(c, dev) || fm_account_claim(c, dev, FM_MEM_PLAIN, GIB))
		return 1;
	return claimed(c, dev) != GIB;
}

static void a_child_may_have_a_ledger_of_its_own(void **state)
{
	struct fm_client *c = client();
	int dev = device(c);

	assert_int_equal(fm_account_claim(c, dev, FM_MEM_PLAIN, 2 * GIB), 0);
	assert_int_equal(in_child(child_has_its_own, NULL), 0);
	assert_true(claimed(c, dev) == 2 * GIB);
}
#endif

/* For no bytes nobody would answer. */
static void room_for_nothing_is_not_waited_for(void **state)
{
	struct fm_client *c;
	uint64_t until = 0;
	int dev;

	daemon_.limit = GIB;
	c = client();
	dev = device(c);
	assert_int_equal(fm_account_room(c, dev, 0, &until), -ENOMEM);
	assert_true(!until && !atomic_load(&fm_account_row(c, dev)->lacking));
}

#define THREADS 8
#define ROUNDS  2000

static _Atomic unsigned had, had_most, above;

static void *claims_and_returns(void *arg)
{
	struct fm_client *c = arg;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned n;

		if (fm_account_claim(c, 0, FM_MEM_PLAIN, GIB))
			continue;
		n = atomic_fetch_add(&had, 1) + 1;
		above += n > THREADS / 2;
		had_most = FM_MAX(n, atomic_load(&had_most));
		atomic_fetch_sub(&had, 1);
		fm_account_return(c, 0, FM_MEM_PLAIN, GIB);
	}
	return NULL;
}

/* Half of them fit. Never are there more, and in the end nothing is left. */
static void threads_race_for_the_last_bytes(void **state)
{
	struct fm_client *c = client();
	pthread_t t[THREADS];

	daemon_.limit = THREADS / 2 * GIB;
	assert_int_equal(device(c), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, claims_and_returns, c), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(above, 0);
	assert_true(had_most > 0);
	assert_true(claimed(c, 0) == 0);
	assert_true(fm_account_row(c, 0)->kind[FM_MEM_PLAIN] == 0);
	assert_true(fm_account_row(c, 0)->peak <= THREADS / 2 * GIB);
	assert_int_equal(fm_account_claim(c, 0, FM_MEM_PLAIN, THREADS / 2 * GIB), 0);
}

static _Atomic bool seen_wish;

static void look_at_wish(struct fm_client *c)
{
	if (atomic_load(&fm_client_ledger(c)->device[0].wish) == FM_MEM_OUT)
		atomic_store(&seen_wish, true);
}

/* The daemon's message comes when the agent has looked around and is about to sleep. */
static void a_wish_that_comes_before_it_sleeps_is_seen(void **state)
{
	const struct fm_client_config config = {.api = "test",
		.local = &peer_link,
		.local_policy = "test",
		.counts_memory = true,
		.looked = look_at_wish};
	struct fm_client *c = fm_client_get(&config);

	(void)state;
	eventually(daemon_.opened && atomic_load(&daemon_.board->agent_sleeps));
	assert_int_equal(device(c), 0);
	atomic_store(&daemon_.wishes, true);
	fm_client_wake(c);
	eventually(atomic_load(&seen_wish));
	assert_false(atomic_load(&daemon_.wishes));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_by_kind),
		cmocka_unit_test(a_row_has_its_bus_from_the_start),
		cmocka_unit_test(no_row_no_count),
		cmocka_unit_test(a_client_that_does_not_count_has_no_ledger),
		cmocka_unit_test(its_own_limit_needs_no_daemon),
		cmocka_unit_test(a_managed_process_has_the_device_and_no_more),
		cmocka_unit_test(a_daemon_says_what_is_allowed),
		cmocka_unit_test(without_a_limit_a_daemon_is_asked_once),
		cmocka_unit_test(a_silent_daemon_refuses_nothing),
		cmocka_unit_test(a_silent_daemon_is_waited_for_once),
		cmocka_unit_test(daemons_come_and_go),
		cmocka_unit_test(a_child_does_not_count_in_its_parents_ledger),
#ifndef NO_THREADS_AFTER_FORK
		cmocka_unit_test(a_child_may_have_a_ledger_of_its_own),
#endif
		cmocka_unit_test(room_for_nothing_is_not_waited_for),
		cmocka_unit_test(threads_race_for_the_last_bytes),
		cmocka_unit_test(a_wish_that_comes_before_it_sleeps_is_seen),
	};

	return RUN_OWN_PROCESSES(tests, argc, argv);
}
