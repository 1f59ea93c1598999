// SPDX-License-Identifier: Apache-2.0
/* What users have of the daemon: counted, limited, paid by time, and forgotten. */
#include "base/clock.h"
#include "daemon/quota.h"
#include "daemon/subuid.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define OWN 990

static struct quota q;

static int set_up(void **state)
{
	struct quota_limits l = quota_default_limits;

	l.most[QUOTA_CLOSING] = 10;
	l.budget[QUOTA_MESSAGES] = (struct quota_budget){.cost = 4, .burst_ns = FM_MS};
	quota_init(&q, OWN, &l);
	return 0;
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < QUOTA_BUCKETS; i++)
		for (struct quota_user *u = q.bucket[i]; u; u = u->next)
			for (unsigned k = 0; k < QUOTA_KINDS; k++)
				u->held[k] = 0;
	quota_free(&q);
	return 0;
}

static void test_nobody_takes_more_than_the_limit(void **state)
{
	struct quota_user *u = quota_get(&q, 1000, 0), *v = quota_get(&q, 1000 + QUOTA_BUCKETS, 0);

	assert_true(quota_take(u, QUOTA_CLOSING, 10));
	assert_false(quota_take(u, QUOTA_CLOSING, 1));
	assert_int_equal(quota_held(u, QUOTA_CLOSING), 10);
	assert_true(quota_take(v, QUOTA_CLOSING, 10));
	quota_give(u, QUOTA_CLOSING, 3);
	assert_false(quota_take(u, QUOTA_CLOSING, 4));
	assert_true(quota_take(u, QUOTA_CLOSING, 3));
	assert_false(quota_take(u, QUOTA_CLOSING, UINT64_MAX));
	/* What cannot be refused is counted all the same, and so is in the way of what can. */
	quota_charge(u, QUOTA_CLOSING, 5);
	quota_give(u, QUOTA_CLOSING, 5);
	assert_false(quota_take(u, QUOTA_CLOSING, 1));
	quota_put(u);
	quota_put(v);
}

static void test_root_and_the_daemons_own_user_are_not_limited(void **state)
{
	const uid_t uids[] = {0, OWN};

	for (unsigned i = 0; i < 2; i++) {
		struct quota_user *u = quota_get(&q, uids[i], 0);

		assert_true(quota_take(u, QUOTA_CLOSING, 1000000));
		assert_int_equal(quota_held(u, QUOTA_CLOSING), 1000000);
		quota_spend(u, QUOTA_MESSAGES, FM_S, 0);
		assert_int_equal(quota_debt(u, QUOTA_MESSAGES, 0), 0);
		quota_give(u, QUOTA_CLOSING, 1000000);
		quota_put(u);
	}
}

static void test_work_is_paid_by_time(void **state)
{
	struct quota_user *u = quota_get(&q, 1000, 0);
	uint64_t now = 5 * FM_S;

	quota_spend(u, QUOTA_MESSAGES, FM_MS, now);
	assert_int_equal(quota_debt(u, QUOTA_MESSAGES, now), 0);
	quota_spend(u, QUOTA_MESSAGES, FM_MS / 4, now);
	assert_int_equal(quota_debt(u, QUOTA_MESSAGES, now), FM_MS);
	assert_int_equal(quota_debt(u, QUOTA_REPLIES, now), 0);
	assert_int_equal(quota_debt(u, QUOTA_MESSAGES, now + FM_MS), 0);
	quota_spend(u, QUOTA_MESSAGES, 1, now + FM_MS);
	assert_int_equal(quota_debt(u, QUOTA_MESSAGES, now + FM_MS), 4);
	/* Whatever was used, it is paid within two seconds. */
	quota_spend(u, QUOTA_MESSAGES, UINT64_MAX, now + FM_MS);
	assert_true(quota_debt(u, QUOTA_MESSAGES, now + FM_MS) > FM_S);
	assert_int_equal(quota_debt(u, QUOTA_MESSAGES, now + 3 * FM_S), 0);
	quota_put(u);
}

static void test_users_are_remembered_while_there_is_something(void **state)
{
	uint64_t now = FM_S;
	struct quota_user *holds = quota_get(&q, 1, now), *owes = quota_get(&q, 2, now);

	assert_true(quota_take(holds, QUOTA_BYTES, 1));
	quota_spend(owes, QUOTA_MESSAGES, 10 * FM_MS, now);
	quota_put(holds);
	quota_put(owes);
	for (uid_t uid = 10; uid < 100000; uid++)
		quota_put(quota_get(&q, uid, now));
	assert_true(q.n_users <= 100);
	assert_ptr_equal(quota_get(&q, 1, now), holds);
	assert_ptr_equal(quota_get(&q, 2, now), owes);
	quota_give(holds, QUOTA_BYTES, 1);
	quota_put(holds);
	quota_put(owes);
	for (uid_t uid = 10; uid < 1000; uid++)
		quota_put(quota_get(&q, uid, now + FM_S));
	for (unsigned i = 0; i < QUOTA_BUCKETS; i++)
		for (struct quota_user *u = q.bucket[i]; u; u = u->next)
			assert_true(u->uid >= 10);
}

/* Someone with many uids cannot make the table grow, nor take the place of those who are there. */
static void test_those_beyond_the_table_are_counted_as_one(void **state)
{
	struct quota_user *first, *u = NULL;

	for (uid_t uid = 1; uid <= QUOTA_USERS; uid++)
		u = quota_get(&q, uid, 0);
	assert_ptr_not_equal(u, &q.rest);
	first = quota_get(&q, 100000, 0);
	assert_ptr_equal(first, quota_get(&q, 100001, 0));
	assert_true(quota_take(first, QUOTA_CLOSING, 10));
	assert_false(quota_take(quota_get(&q, 100002, 0), QUOTA_CLOSING, 1));
	assert_true(quota_take(quota_get(&q, 5, 0), QUOTA_CLOSING, 1));
	assert_int_equal(q.n_users, QUOTA_USERS);
}

static void test_a_full_table_has_room_for_root(void **state)
{
	const uid_t uids[] = {0, OWN + 100000};
	struct quota_user *u = NULL;

	q.own = uids[1];
	for (uid_t uid = 1; uid <= QUOTA_USERS + 1; uid++)
		u = quota_get(&q, uid, 0);
	assert_ptr_equal(u, &q.rest);
	assert_true(quota_take(u, QUOTA_CLOSING, 10));
	for (unsigned i = 0; i < 2; i++) {
		assert_true(quota_take(quota_get(&q, uids[i], 0), QUOTA_CLOSING, 1000));
		assert_int_equal(quota_held(quota_get(&q, uids[i], 0), QUOTA_CLOSING), 1000);
	}
	assert_int_equal(quota_held(u, QUOTA_CLOSING), 10);
}

static void read_ranges(const char *text)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");

	assert_non_null(f);
	subuid_read(&q, f);
	fclose(f);
}

static uid_t account(uid_t uid)
{
	struct quota_user *u = quota_get(&q, uid, 0);

	quota_put(u);
	return u->uid;
}

/* As containers without root want them: one person is one user with all of them. */
static void test_subordinate_uids_are_one_user(void **state)
{
	read_ranges("# NAME:FIRST:COUNT\n\nalice:100000:65536\n1001:165536:65536\n"
		    "lxd:1000000:1000000\nroot:1000000:1000000\nzero:0:100\nown:980:20\n"
		    "bad\nbad:x:1\nbad:7:0\nbad:-1:5\nbad:5:4294967295\nlast:4294967000:5");
	assert_int_equal(account(99999), 99999);
	assert_int_equal(account(100000), 100000);
	assert_int_equal(account(165535), 100000);
	assert_int_equal(account(165536), 165536);
	assert_int_equal(account(231071), 165536);
	assert_int_equal(account(231072), 231072);
	assert_int_equal(account(1000005), 1000005); /* root's containers are users each */
	assert_int_equal(account(4294967004), 4294967000);
	assert_int_equal(account(0), 0);
	assert_int_equal(account(OWN), OWN);
	/* Nobody comes to be root, or the daemon's own, by that. */
	assert_int_equal(account(50), 50);
	assert_int_equal(account(985), 980);
	q.own = 980;
	assert_int_equal(account(985), 985);
	for (uid_t uid = 100000; uid < 165536; uid++)
		assert_true(quota_get(&q, uid, 0)->limited);
	assert_true(q.n_users < 20);
	assert_true(quota_take(quota_get(&q, 100001, 0), QUOTA_CLOSING, 10));
	assert_false(quota_take(quota_get(&q, 100002, 0), QUOTA_CLOSING, 1));
	assert_true(quota_take(quota_get(&q, 165537, 0), QUOTA_CLOSING, 10));
	read_ranges("nobody\n");
	assert_int_equal(account(165535), 165535);
}

static void *gives(void *arg)
{
	for (int i = 0; i < 100000; i++)
		quota_give(arg, QUOTA_CLOSING, 1);
	return NULL;
}

static void test_any_thread_gives_back(void **state)
{
	struct quota_user *u = quota_get(&q, 1000, 0);
	pthread_t thread[4];

	quota_charge(u, QUOTA_CLOSING, 400000);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, gives, u), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(quota_held(u, QUOTA_CLOSING), 0);
	quota_put(u);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nobody_takes_more_than_the_limit),
		TEST(test_root_and_the_daemons_own_user_are_not_limited),
		TEST(test_work_is_paid_by_time),
		TEST(test_users_are_remembered_while_there_is_something),
		TEST(test_those_beyond_the_table_are_counted_as_one),
		TEST(test_a_full_table_has_room_for_root),
		TEST(test_subordinate_uids_are_one_user),
		TEST(test_any_thread_gives_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
