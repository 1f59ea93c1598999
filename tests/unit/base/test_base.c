/* SPDX-License-Identifier: Apache-2.0 */
/* List, heap, histogram and errors, against plain models of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/count.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/hist.h"
#include "base/list.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

struct item {
	struct fm_list link;
	struct fm_heap_node node;
	int id;
};

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void list_keeps_order(void **state)
{
	struct item it[4] = {{.id = 0}, {.id = 1}, {.id = 2}, {.id = 3}}, *pos, *tmp;
	struct fm_list head;
	int expect[] = {3, 0, 1, 2}, n = 0;

	fm_list_init(&head);
	assert_true(fm_list_empty(&head));
	for (int i = 0; i < 3; i++)
		fm_list_add_tail(&head, &it[i].link);
	fm_list_add_head(&head, &it[3].link);
	assert_ptr_equal(fm_list_first(&head, struct item, link), &it[3]);
	fm_list_each (pos, &head, link)
		assert_int_equal(pos->id, expect[n++]);
	assert_int_equal(n, 4);
	fm_list_del(&it[0].link);
	fm_list_del(&it[0].link); /* twice does no harm */
	assert_true(fm_list_empty(&it[0].link));
	n = 0;
	fm_list_each_safe (pos, tmp, &head, link) {
		fm_list_del(&pos->link);
		n++;
	}
	assert_int_equal(n, 3);
	assert_true(fm_list_empty(&head));
}

static void heap_breaks_ties_by_order(void **state)
{
	struct item it[50];
	struct fm_heap h = {0};

	memset(it, 0, sizeof(it));
	for (int i = 0; i < 50; i++) {
		it[i].id = i;
		assert_int_equal(fm_heap_push(&h, &it[i].node, (uint64_t)(i % 2)), 0);
	}
	for (int i = 0; i < 50; i++) {
		struct item *min = fm_container(fm_heap_min(&h), struct item, node);

		assert_int_equal(min->id, i < 25 ? 2 * i : 2 * (i - 25) + 1);
		fm_heap_del(&h, &min->node);
		assert_false(fm_heap_has(&min->node));
	}
	assert_null(fm_heap_min(&h));
	fm_heap_fini(&h);
}

static void check_heap(const struct fm_heap *h, const struct item *it, size_t n)
{
	uint64_t least = UINT64_MAX;
	size_t in = 0;

	for (size_t i = 0; i < n; i++) {
		if (!fm_heap_has(&it[i].node))
			continue;
		in++;
		least = FM_MIN(least, it[i].node.key);
		assert_ptr_equal(h->at[it[i].node.pos - 1], &it[i].node);
	}
	assert_int_equal(h->n, in);
	if (in)
		assert_int_equal(fm_heap_min(h)->key, least);
}

static void heap_survives_random_use(void **state)
{
	struct item it[60];
	struct fm_heap h = {0};
	uint64_t x = 42;

	memset(it, 0, sizeof(it));
	for (int i = 0; i < 20000; i++) {
		struct item *e = &it[next_random(&x) % FM_ARRAY_LEN(it)];
		uint64_t key = next_random(&x) % 100;

		if (!fm_heap_has(&e->node))
			assert_int_equal(fm_heap_push(&h, &e->node, key), 0);
		else if (next_random(&x) % 2)
			fm_heap_rekey(&h, &e->node, key);
		else
			fm_heap_del(&h, &e->node);
		check_heap(&h, it, FM_ARRAY_LEN(it));
	}
	fm_heap_del(&h, &(struct fm_heap_node){0}); /* in no heap: nothing happens */
	fm_heap_fini(&h);
}

static void heap_reserves_early(void **state)
{
	struct item it[100];
	struct fm_heap h = {0};
	struct fm_heap_node **at;

	memset(it, 0, sizeof(it));
	assert_int_equal(fm_heap_reserve(&h, 100), 0);
	at = h.at;
	for (int i = 0; i < 100; i++)
		assert_int_equal(fm_heap_push(&h, &it[i].node, (uint64_t)(100 - i)), 0);
	assert_ptr_equal(h.at, at);
	assert_ptr_equal(h.at, at);
	assert_int_equal(fm_heap_min(&h)->key, 1);
	fm_heap_fini(&h);
}

/* What is pushed to both afterwards comes out of both alike. */
static void heap_copy_is_exact(void **state)
{
	struct item it[40], twin[40];
	struct fm_heap h = {0}, copy;
	uint64_t x = 7;

	memset(it, 0, sizeof(it));
	for (int i = 0; i < 500; i++) {
		struct item *e = &it[next_random(&x) % FM_ARRAY_LEN(it)];

		if (fm_heap_has(&e->node))
			fm_heap_del(&h, &e->node);
		else
			assert_int_equal(fm_heap_push(&h, &e->node, next_random(&x) % 4), 0);
	}
	assert_in_range(h.n, 10, 30);
	assert_int_equal(fm_heap_copy(&copy, &h), 0);
	for (size_t i = 0; i < FM_ARRAY_LEN(it); i++)
		fm_heap_copy_node(&copy, &twin[i].node, &it[i].node);
	check_heap(&copy, twin, FM_ARRAY_LEN(it));
	check_heap(&h, it, FM_ARRAY_LEN(it));
	for (size_t i = 0; i < FM_ARRAY_LEN(it); i += 3) {
		if (fm_heap_has(&it[i].node))
			continue;
		assert_int_equal(fm_heap_push(&h, &it[i].node, i % 4), 0);
		assert_int_equal(fm_heap_push(&copy, &twin[i].node, i % 4), 0);
	}
	while (h.n) {
		size_t at = (size_t)(fm_container(h.at[0], struct item, node) - it);

		assert_ptr_equal(copy.at[0], &twin[at].node);
		fm_heap_del(&h, &it[at].node);
		fm_heap_del(&copy, &twin[at].node);
	}
	assert_int_equal(copy.n, 0);
	fm_heap_fini(&h);
	fm_heap_fini(&copy);
}

/* Each begins where the one before ends, and is no wider than its part of a power of two. */
static void log_buckets_have_no_gaps(void **state)
{
	for (unsigned bits = 0; bits < 8; bits++) {
		unsigned n = (64 - bits + 1) << bits;
		uint64_t begin = 0;

		for (unsigned i = 0; i < n; i++) {
			uint64_t end = fm_log_end(i, bits);

			assert_int_equal(fm_log_bucket(begin, bits), i);
			assert_int_equal(fm_log_bucket(end - 1, bits), i);
			assert_true((end - begin) << bits <= FM_MAX(begin, UINT64_C(1) << bits));
			begin = end;
		}
		assert_int_equal(begin, 0); /* beyond the last */
	}
}

static void hist_is_exact_where_it_promises(void **state)
{
	static struct fm_hist h, all;

	fm_hist_reset(&h);
	assert_int_equal(fm_hist_quantile(&h, 0.5), 0);
	for (uint64_t v = 1; v <= 1000; v++)
		fm_hist_add(&h, v * FM_US);
	assert_int_equal(h.count, 1000);
	assert_int_equal(h.sum, 500500 * FM_US);
	assert_int_equal(h.min, FM_US);
	assert_int_equal(h.max, FM_MS);
	assert_int_equal(fm_hist_quantile(&h, 1), FM_MS);
	assert_int_equal(fm_hist_quantile(&h, 2), FM_MS);
	assert_in_range(fm_hist_quantile(&h, -1), FM_US, FM_US + FM_US / 31);
	for (int q = 1; q < 100; q++)
		assert_in_range(fm_hist_quantile(&h, q / 100.0), (uint64_t)q * 10 * FM_US,
			(uint64_t)q * 10 * FM_US * 33 / 32 + 1);
	fm_hist_reset(&all);
	fm_hist_merge(&all, &h);
	fm_hist_add(&all, 5);
	fm_hist_merge(&all, &h);
	assert_int_equal(all.count, 2001);
	assert_int_equal(all.min, 5);
	assert_int_equal(all.max, FM_MS);
}

static void hist_takes_extremes(void **state)
{
	static struct fm_hist h, empty;

	fm_hist_reset(&h);
	fm_hist_reset(&empty);
	fm_hist_add(&h, 0);
	fm_hist_add(&h, UINT64_MAX);
	fm_hist_add(&h, UINT64_MAX);
	assert_int_equal(h.sum, UINT64_MAX);
	assert_int_equal(fm_hist_quantile(&h, 0), 0);
	assert_int_equal(fm_hist_quantile(&h, 1), UINT64_MAX);
	fm_hist_merge(&h, &empty);
	assert_int_equal(h.min, 0);
	assert_int_equal(h.count, 3);
	for (uint64_t v = 0; v < 64; v++) { /* small values have buckets of their own */
		fm_hist_reset(&h);
		fm_hist_add(&h, v);
		fm_hist_add(&h, 1000);
		assert_int_equal(fm_hist_quantile(&h, 0.5), v);
	}
	for (unsigned bit = 6; bit < 64; bit++) { /* the error stays within 1/32 */
		uint64_t v = (UINT64_C(1) << bit) + (UINT64_C(1) << (bit - 1)) + 3, q;

		fm_hist_reset(&h);
		fm_hist_add(&h, v);
		fm_hist_add(&h, UINT64_MAX);
		q = fm_hist_quantile(&h, 0.5);
		assert_true(q >= v && q - v <= v / 32);
	}
}

static void err_is_a_value(void **state)
{
	struct fm_err err;
	char longer[400];

	assert_int_equal(fm_err_set(&err, -ENOENT, "no '%s'", "thing"), -ENOENT);
	assert_string_equal(err.text, "no 'thing'");
	assert_string_equal(err.hint, "");
	assert_int_equal(fm_err_hint(&err, "make one of %d", 3), -ENOENT);
	assert_string_equal(err.hint, "make one of 3");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(fm_err_set(&err, -E2BIG, "%s", longer), -E2BIG);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_string_equal(err.hint, ""); /* a new error has no old hint */
	assert_int_equal(fm_err_set(NULL, -EIO, "nobody asks"), -EIO);
	assert_int_equal(fm_err_hint(NULL, "nobody asks"), 0);
}

static void times_saturate(void **state)
{
	struct timespec ts = fm_timespec(3 * FM_S + 7);
	uint64_t t = fm_now();

	assert_int_equal(fm_add_sat(FM_NEVER, 1), FM_NEVER);
	assert_int_equal(fm_add_sat(FM_NEVER - 1, 1), FM_NEVER);
	assert_int_equal(fm_sub_sat(1, 2), 0);
	assert_int_equal(fm_sub_sat(5, 2), 3);
	assert_int_equal(ts.tv_sec, 3);
	assert_int_equal(ts.tv_nsec, 7);
	assert_true(t > 0 && fm_now() >= t);
}

static int opened_and_left(void)
{
	FM_CLEAN_FD int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	FM_CLEAN_FREE void *p = malloc(10);

	assert_true(fd >= 0 && p);
	return fd;
}

static void scopes_clean_up(void **state)
{
	int fd = opened_and_left();
	FM_CLEAN_FD int mine = open("/dev/null", O_RDONLY | O_CLOEXEC);
	FM_CLEAN_FREE char *p = strdup("x");
	char *taken = fm_take_ptr(p);
	int kept = fm_take_fd(&mine);

	assert_int_equal(kept, fd); /* the first was closed: its number is free again */
	assert_int_equal(mine, -1);
	assert_null(p);
	free(taken);
	close(kept);
}

/* --- counts --- */

enum { RAISED = 100000 };

static void *raise_others(void *arg)
{
	for (int i = 0; i < RAISED; i++)
		fm_count_raise(arg, false);
	return NULL;
}

/* By its owner and by two others at one time: none is lost, and it never falls. */
static void counts_lose_nothing(void **state)
{
	static struct fm_count c; /* threads may outlive a failure */
	pthread_t id[2];
	uint64_t last = 0;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&id[i], NULL, raise_others, &c), 0);
	for (int i = 0; i < RAISED; i++) {
		uint64_t sum;

		fm_count_raise(&c, true);
		sum = fm_count_sum(&c);
		assert_true(sum > last);
		last = sum;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(id[i], NULL);
	assert_int_equal(fm_count_sum(&c), 3 * RAISED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_keeps_order),
		cmocka_unit_test(heap_breaks_ties_by_order),
		cmocka_unit_test(heap_survives_random_use),
		cmocka_unit_test(heap_reserves_early),
		cmocka_unit_test(heap_copy_is_exact),
		cmocka_unit_test(log_buckets_have_no_gaps),
		cmocka_unit_test(hist_is_exact_where_it_promises),
		cmocka_unit_test(hist_takes_extremes),
		cmocka_unit_test(err_is_a_value),
		cmocka_unit_test(times_saturate),
		cmocka_unit_test(scopes_clean_up),
		cmocka_unit_test(counts_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
