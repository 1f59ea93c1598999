/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of device memory: what the bridge allows the clients of a group and of a user, whatever
 * their ledgers say. */
#include "bridge_world.h"

#define GIB UINT64_C(0x40000000)

struct account {
	struct client *c;
	struct fm_ledger *ledger;
};

/* They stay mapped until the bridge is gone. */
static struct fm_ledger *ledgers[8];
static unsigned n_ledgers;

static struct account open_ledger(struct world *w, struct client *c, bool managed)
{
	struct account a = {.c = c};

	assert_int_equal(fm_ledger_create(&a.ledger, NULL), 0);
	ledgers[n_ledgers++] = a.ledger;
	a.ledger->managed = managed;
	assert_int_equal(fm_bridge_ledger(w->b, c->c, a.ledger), 0);
	return a;
}

static void ring_memory(struct world *w, struct client *c)
{
	assert_int_equal(tell(w, c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
}

static struct fm_ledger_device *add_row(
	struct world *w, struct account *a, unsigned i, const char *key, uint64_t capacity)
{
	struct fm_ledger_device *row = &a->ledger->device[i];

	strcpy(row->key, key);
	atomic_store(&row->allowed, 0);
	atomic_store(&row->capacity, capacity);
	fm_ledger_ask(row, 0);
	ring_memory(w, a->c);
	assert_int_equal(row->answered, row->asked);
	return row;
}

/* As the client does it. */
static bool take(struct world *w, struct account *a, struct fm_ledger_device *row, uint64_t bytes)
{
	if (fm_ledger_claim(row, bytes))
		return true;
	fm_ledger_ask(row, bytes);
	ring_memory(w, a->c);
	assert_int_equal(row->answered, row->asked);
	if (!fm_ledger_take(row, row->asked, bytes))
		return true;
	atomic_fetch_add(&row->refused, 1);
	return false;
}

static void give(struct fm_ledger_device *row, uint64_t bytes)
{
	atomic_fetch_sub(&row->claimed, bytes);
}

static void keep_memory(void *arg, const struct fm_bmemory_info *i)
{
	*(struct fm_bmemory_info *)arg = *i;
}

static struct fm_bmemory_info memory_of_group(const struct client *c)
{
	struct fm_bmemory_info i = {0};

	fm_bridge_group_each_memory(group_of(c, 0), keep_memory, &i);
	return i;
}

static void leave(struct world *w, struct account *a)
{
	fm_bridge_detach(w->b, a->c->c, w->now);
	fm_board_unmap(a->c->board);
}

/* Two clients of one group with a ledger each, on one device. */
struct pair {
	struct account a, z;
	struct fm_ledger_device *of_a, *of_z;
};

static struct pair pair_up(struct world *w, uint64_t limit)
{
	struct pair p = {.a = open_ledger(w, &w->a, false), .z = open_ledger(w, &w->z, false)};

	assert_int_equal(name_group(w, &w->a, 0, "both"), 0);
	assert_int_equal(name_group(w, &w->z, 0, "both"), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, (int64_t)limit), 0);
	p.of_a = add_row(w, &p.a, 0, DEVICE, 80 * GIB);
	p.of_z = add_row(w, &p.z, 0, DEVICE, 80 * GIB);
	return p;
}

static void without_a_limit_all_is_allowed(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, false);
	struct fm_ledger_device *row = add_row(w, &a, 0, DEVICE, 80 * GIB);

	assert_true(row->allowed == UINT64_MAX && !row->limit && !row->others);
	assert_true(take(w, &a, row, 500 * GIB));
	assert_true(memory_of_group(&w->a).committed == 500 * GIB);
	assert_true(memory_of_group(&w->a).limit == 0);
}

static void one_client_has_the_whole_limit_at_once(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, false);
	struct fm_ledger_device *row;

	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 10 * GIB), 0);
	row = add_row(w, &a, 0, DEVICE, 80 * GIB);
	assert_true(row->allowed == 10 * GIB && row->limit == 10 * GIB);
	assert_true(take(w, &a, row, 10 * GIB));
	assert_int_equal(row->asked, 1);
	assert_false(take(w, &a, row, 1));
	give(row, GIB);
	assert_true(take(w, &a, row, GIB));
}

static void a_managed_group_has_the_device(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, true);
	struct fm_ledger_device *row = add_row(w, &a, 0, DEVICE, 80 * GIB);

	assert_true(row->allowed == 80 * GIB);
	assert_true(memory_of_group(&w->a).managed && memory_of_group(&w->a).limit == 80 * GIB);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 100 * GIB), 0);
	assert_true(take(w, &a, row, 100 * GIB));
	assert_false(take(w, &a, row, 1));
}

/* [memory] device_limit */
static void a_device_may_count_as_smaller(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, true);
	struct fm_ledger_device *row = add_row(w, &a, 0, DEVICE, 80 * GIB);

	fm_bridge_memory_settings(w->b, &(struct fm_bridge_memory){.device = 16 * GIB});
	assert_false(take(w, &a, row, 17 * GIB));
	assert_true(take(w, &a, row, 16 * GIB));
	assert_true(row->limit == 16 * GIB);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_REQUEST, 17 * GIB), -ENOSPC);
}

/* What is left of it is nobody's before it is asked for, whoever asks, and is given again. */
static void all_share_a_device_that_counts_as_smaller(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, false), z = open_ledger(w, &w->z, true);
	struct fm_ledger_device *of_a, *of_z;

	fm_bridge_memory_settings(w->b, &(struct fm_bridge_memory){.device = 16 * GIB});
	of_a = add_row(w, &a, 0, DEVICE, 80 * GIB);
	of_z = add_row(w, &z, 0, DEVICE, 80 * GIB);
	assert_true(take(w, &a, of_a, 10 * GIB));
	assert_true(of_a->limit == 16 * GIB && !of_a->others && !of_a->full);
	assert_false(take(w, &z, of_z, 7 * GIB));
	assert_true(of_z->full);
	assert_false(take(w, &z, of_z, 17 * GIB)); /* that is its group's limit */
	assert_false(of_z->full);
	assert_true(take(w, &z, of_z, 6 * GIB));
	give(of_a, 4 * GIB);
	assert_true(take(w, &z, of_z, 4 * GIB));
	assert_false(take(w, &a, of_a, 1));
	assert_true(of_a->full);
	/* Memory that is out leaves room, until it comes in. */
	atomic_store(&of_z->kind[FM_MEM_MOVABLE], 10 * GIB);
	atomic_store(&of_z->host, 10 * GIB);
	assert_true(take(w, &a, of_a, 10 * GIB));
	assert_false(take(w, &a, of_a, 1));
	/* Who may have more than there is is not refused what cannot be there. */
	assert_int_equal(give_hint(w, &w->z, FM_HINT_MEMORY_LIMIT, 40 * GIB), 0);
	assert_true(take(w, &z, of_z, 20 * GIB));
	assert_true(of_z->full);
}

static void two_clients_share_their_groups_limit(void **state)
{
	struct world *w = *state;
	struct pair p = pair_up(w, 10 * GIB);

	assert_true(take(w, &p.a, p.of_a, 6 * GIB));
	assert_false(take(w, &p.z, p.of_z, 5 * GIB));
	assert_true(take(w, &p.z, p.of_z, 4 * GIB));
	assert_false(take(w, &p.a, p.of_a, 1));
	assert_true(p.of_a->limit == 10 * GIB && p.of_a->others == 4 * GIB);
	assert_true(memory_of_group(&w->a).committed == 10 * GIB);
	assert_int_equal(memory_of_group(&w->a).refused, 2);
	give(p.of_z, 2 * GIB);
	assert_true(take(w, &p.a, p.of_a, 2 * GIB));
	assert_false(take(w, &p.z, p.of_z, 1));
}

/* What one may claim without asking is taken from it when the other needs that. */
static void slack_goes_to_whoever_needs_it(void **state)
{
	struct world *w = *state;
	struct pair p = pair_up(w, 10 * GIB);

	assert_true(take(w, &p.a, p.of_a, GIB));
	assert_true(p.of_a->allowed > GIB);
	assert_true(take(w, &p.z, p.of_z, 9 * GIB));
	assert_true(p.of_a->allowed == GIB);
	assert_false(fm_ledger_claim(p.of_a, 1));
}

/* The first one's claim stands before the daemon lowers what it may have: it keeps it. */
static void a_claim_under_way_is_counted(void **state)
{
	struct world *w = *state;
	struct pair p = pair_up(w, 10 * GIB);

	assert_true(take(w, &p.a, p.of_a, GIB));
	assert_true(fm_ledger_claim(p.of_a, GIB / 2));
	assert_false(take(w, &p.z, p.of_z, 9 * GIB));
	assert_true(take(w, &p.z, p.of_z, 9 * GIB - GIB / 2));
}

/* A client asks before the daemon has read its hello. Its hints come later, its bell last. */
static void a_client_is_answered_after_its_hints(void **state)
{
	struct world *w = *state;
	struct account a = {.c = &w->a};
	struct fm_ledger_device *row;

	assert_int_equal(fm_ledger_create(&a.ledger, NULL), 0);
	ledgers[n_ledgers++] = a.ledger;
	row = &a.ledger->device[0];
	strcpy(row->key, DEVICE);
	atomic_store(&row->allowed, 0);
	atomic_store(&row->capacity, 80 * GIB);
	fm_ledger_ask(row, 20 * GIB);
	assert_int_equal(fm_bridge_ledger(w->b, w->a.c, a.ledger), 0);
	assert_int_equal(row->answered, 0);
	assert_true(memory_of_group(&w->a).capacity == 80 * GIB);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 10 * GIB), 0);
	assert_int_equal(row->answered, 0);
	ring_memory(w, &w->a);
	assert_int_equal(fm_ledger_take(row, 1, 20 * GIB), -ENOMEM);
	/* A limit that changes between the answer and its use refuses nothing. */
	fm_ledger_ask(row, 10 * GIB);
	ring_memory(w, &w->a);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 20 * GIB), 0);
	assert_int_equal(fm_ledger_take(row, 2, 10 * GIB), -EAGAIN);
	assert_true(take(w, &a, row, 10 * GIB));
}

static void a_limit_below_what_is_there_takes_nothing_away(void **state)
{
	struct world *w = *state;
	struct pair p = pair_up(w, 10 * GIB);

	assert_true(take(w, &p.a, p.of_a, 6 * GIB));
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 4 * GIB), 0);
	assert_true(memory_of_group(&w->a).committed == 6 * GIB);
	assert_false(take(w, &p.a, p.of_a, 1));
	assert_false(take(w, &p.z, p.of_z, 1));
	give(p.of_a, 3 * GIB);
	assert_true(take(w, &p.z, p.of_z, GIB));
	assert_false(take(w, &p.a, p.of_a, 1));
	assert_int_equal(give_hint(w, &w->z, FM_HINT_MEMORY_LIMIT, 0), 0);
	assert_true(take(w, &p.a, p.of_a, 100 * GIB));
}

static void a_user_is_limited_over_all_groups(void **state)
{
	struct fm_bridge_limits l = {.memory = 8 * GIB};
	struct world *w = *state;
	struct client bob = {0};
	struct account a, z, b;
	struct fm_ledger_device *of_a, *of_z, *of_b, *other;

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(attach(w, &bob, BOB, 33, "bob"), 0);
	a = open_ledger(w, &w->a, false);
	z = open_ledger(w, &w->z, false);
	b = open_ledger(w, &bob, false);
	of_a = add_row(w, &a, 0, DEVICE, 80 * GIB);
	of_z = add_row(w, &z, 0, DEVICE, 80 * GIB);
	of_b = add_row(w, &b, 0, DEVICE, 80 * GIB);
	other = add_row(w, &a, 1, "sim:1", 80 * GIB);
	assert_true(take(w, &a, of_a, 5 * GIB));
	assert_false(take(w, &z, of_z, 4 * GIB));
	assert_true(take(w, &z, of_z, 3 * GIB));
	assert_true(of_z->limit == 8 * GIB && of_z->others == 5 * GIB);
	/* Another user, and another device, have their own. */
	assert_true(take(w, &b, of_b, 8 * GIB));
	assert_true(take(w, &a, other, 8 * GIB));
	/* A group's own limit holds beside it. */
	give(of_a, 5 * GIB);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 2 * GIB), 0);
	assert_false(take(w, &a, of_a, 3 * GIB));
	assert_true(take(w, &a, of_a, 2 * GIB));
	l.memory = 0;
	fm_bridge_set_limits(w->b, &l);
	fm_bridge_memory_settings(w->b, &(struct fm_bridge_memory){0});
	assert_true(take(w, &z, of_z, 50 * GIB));
	leave(w, &b);
}

static void what_leaves_no_longer_counts_but_its_counters_do(void **state)
{
	struct world *w = *state;
	struct client c = {0};
	struct account a = open_ledger(w, &w->a, false), x;
	struct fm_ledger_device *of_a, *of_x;

	assert_int_equal(attach(w, &c, ALICE, 44, "gone"), 0);
	x = open_ledger(w, &c, false);
	assert_int_equal(name_group(w, &w->a, 0, "both"), 0);
	assert_int_equal(name_group(w, &c, 0, "both"), 0);
	assert_int_equal(give_hint(w, &c, FM_HINT_MEMORY_LIMIT, 10 * GIB), 0);
	of_a = add_row(w, &a, 0, DEVICE, 80 * GIB);
	of_x = add_row(w, &x, 0, DEVICE, 80 * GIB);
	assert_true(take(w, &x, of_x, 10 * GIB));
	assert_false(take(w, &x, of_x, 1));
	assert_false(take(w, &a, of_a, 1));
	atomic_store(&of_x->went_out, 7);
	leave(w, &x);
	assert_true(take(w, &a, of_a, 10 * GIB));
	assert_int_equal(memory_of_group(&w->a).refused, 2);
	assert_int_equal(memory_of_group(&w->a).went_out, 7);
}

/* So many lies that their sum is beyond 64 bits: the others have nothing, not everything. */
#define LIARS 1024

static void lies_do_not_add_up_to_nothing(void **state)
{
	struct world *w = *state;
	struct account honest = open_ledger(w, &w->a, false), liar = open_ledger(w, &w->z, false);
	struct client *c = calloc(LIARS, sizeof(*c));
	struct fm_ledger_device *row;
	struct fm_bmemory_info i;

	for (unsigned k = 0; k < FM_LEDGER_DEVICES; k++) {
		strcpy(liar.ledger->device[k].key, DEVICE);
		atomic_store(&liar.ledger->device[k].claimed, UINT64_MAX);
		atomic_store(&liar.ledger->device[k].peak, UINT64_MAX);
		atomic_store(&liar.ledger->device[k].kind[FM_MEM_PLAIN], UINT64_MAX);
		atomic_store(&liar.ledger->device[k].capacity, UINT64_MAX);
	}
	for (unsigned k = 0; k < LIARS; k++) { /* all with the same ledger, and in one process */
		assert_int_equal(attach(w, &c[k], ALICE, 77, "liar"), 0);
		assert_int_equal(fm_bridge_ledger(w->b, c[k].c, liar.ledger), 0);
	}
	assert_int_equal(name_group(w, &c[0], 0, "both"), 0);
	assert_int_equal(name_group(w, &w->a, 0, "both"), 0);
	for (unsigned k = 1; k < LIARS; k++)
		assert_int_equal(name_group(w, &c[k], 0, "both"), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 10 * GIB), 0);
	row = add_row(w, &honest, 0, DEVICE, 80 * GIB);
	assert_false(take(w, &honest, row, GIB));
	i = memory_of_group(&w->a);
	assert_true(i.committed == UINT64_MAX && i.peak == UINT64_MAX);
	for (unsigned k = 0; k < LIARS; k++) {
		fm_bridge_detach(w->b, c[k].c, w->now);
		fm_board_unmap(c[k].board);
	}
	free(c);
	assert_true(take(w, &honest, row, GIB));
}

/* One who says that it has everything, and more, refuses others of its group. No sum overflows. */
static void lies_are_bounded(void **state)
{
	struct world *w = *state;
	struct pair p = pair_up(w, 10 * GIB);
	struct fm_bmemory_info i;

	atomic_store(&p.of_a->claimed, UINT64_MAX);
	atomic_store(&p.of_a->peak, 1);
	atomic_store(&p.of_a->resident, UINT64_MAX);
	atomic_store(&p.of_a->host, UINT64_MAX - 1);
	atomic_store(&p.of_a->refused, 5);
	for (unsigned k = 0; k < FM_MEM_KINDS; k++)
		atomic_store(&p.of_a->kind[k], UINT64_MAX - k);
	assert_false(take(w, &p.z, p.of_z, 1));
	i = memory_of_group(&w->a);
	assert_true(i.committed == FM_MEMORY_MAX && i.peak >= i.committed);
	assert_true(i.resident <= i.committed && i.kind[FM_MEM_POOL] <= i.committed);
	atomic_store(&p.of_a->refused, 3);
	i = memory_of_group(&w->a);
	assert_int_equal(i.refused, 6); /* with the other's; it never falls */
	atomic_store(&p.of_a->claimed, 0);
	assert_true(take(w, &p.z, p.of_z, 10 * GIB));
	/* What it writes where the daemon writes does not count. */
	atomic_store(&p.of_a->allowed, UINT64_MAX);
	atomic_store(&p.of_a->limit, UINT64_MAX);
	atomic_store(&p.of_a->claimed, 100 * GIB);
	assert_false(take(w, &p.z, p.of_z, 1));
	/* It asks for more than there is, and without end. */
	atomic_store(&p.of_a->wanted, UINT64_MAX);
	for (int n = 0; n < 100; n++) {
		atomic_store(&p.of_a->answered, 12345);
		ring_memory(w, &w->a);
	}
	assert_int_equal(p.of_a->answered, p.of_a->asked);
}

static void pins_of_all_its_processes_once_each(void **state)
{
	struct world *w = *state;
	struct pair p = pair_up(w, 10 * GIB);
	struct fm_mem_pin pins[FM_BPINS];

	assert_int_equal(fm_bridge_group_pins(group_of(&w->a, 0), pins), 0);
	fm_ledger_pin(&p.a.ledger->pins, FM_MEM_PIN_UNKNOWN, "table 1", "liba.so");
	fm_ledger_pin(&p.z.ledger->pins, FM_MEM_PIN_UNKNOWN, "table 1", "liba.so");
	fm_ledger_pin(&p.z.ledger->pins, FM_MEM_PIN_ENGINE, "libnvcuvid.so.1", "");
	assert_int_equal(fm_bridge_group_pins(group_of(&w->a, 0), pins), 2);
	assert_string_equal(pins[0].by, "liba.so");
	assert_int_equal(pins[1].kind, FM_MEM_PIN_ENGINE);
	assert_string_equal(pins[1].what, "libnvcuvid.so.1");
}

static void rows_that_are_none(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, false);
	struct fm_ledger_device *row = &a.ledger->device[0];

	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, GIB), 0);
	memset(row->key, 'x', sizeof(row->key)); /* no end */
	memcpy(a.ledger->device[1].key, "not\nprintable", 14);
	for (unsigned i = 0; i < 3; i++) {
		atomic_store(&a.ledger->device[i].capacity, UINT64_MAX);
		fm_ledger_ask(&a.ledger->device[i], 0);
	}
	ring_memory(w, &w->a);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(a.ledger->device[i].answered, 1);
		assert_true(a.ledger->device[i].allowed == UINT64_MAX);
	}
	assert_true(fm_list_empty(&w->b->devices));
	/* A client without a ledger may ring all the same. */
	ring_memory(w, &w->z);
	/* Devices are limited: others of the user's are not counted. */
	for (unsigned i = 3; i < FM_LEDGER_DEVICES; i++) {
		snprintf(a.ledger->device[i].key, FM_DEVKEY_MAX, "x:%u", i);
		atomic_store(&a.ledger->device[i].capacity, GIB);
	}
	ring_memory(w, &w->a);
}

/* The same device twice in one ledger: what is in both counts. */
static void a_device_named_twice(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, false);
	struct fm_ledger_device *first, *second;

	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 10 * GIB), 0);
	first = add_row(w, &a, 0, DEVICE, 80 * GIB);
	second = add_row(w, &a, 1, DEVICE, 80 * GIB);
	assert_true(take(w, &a, first, 6 * GIB));
	assert_false(take(w, &a, second, 5 * GIB));
	assert_true(memory_of_group(&w->a).committed == 6 * GIB);
}

static void requests_fit_on_the_device_together(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, false), z = open_ledger(w, &w->z, false);
	struct fm_err err = {0};
	union fm_msg m = {.hint = {.hint = FM_HINT_MEMORY_REQUEST, .value = 50 * GIB}};

	/* Where no device is known, anything may be right. */
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_REQUEST, 30 * GIB), 0);
	add_row(w, &a, 0, DEVICE, 80 * GIB);
	fm_msg_head(&m, FM_MSG_HINT);
	assert_int_equal(fm_bridge_message(w->b, w->z.c, &m, w->now, &err), 0);
	add_row(w, &z, 0, DEVICE, 80 * GIB);
	m.hint.value = 50 * GIB + 1;
	assert_int_equal(fm_bridge_message(w->b, w->z.c, &m, w->now, &err), -ENOSPC);
	assert_string_equal(err.text, "memory-request 50.0G is more than the 50G that are free");
	assert_non_null(strstr(err.hint, "80G"));
	assert_non_null(strstr(err.hint, "30G"));
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_REQUEST, 0), 0);
	assert_int_equal(give_hint(w, &w->z, FM_HINT_MEMORY_REQUEST, 80 * GIB), 0);
	assert_true(memory_of_group(&w->z).request == 80 * GIB);
}

static void a_limit_is_at_most_device_and_host(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, true);
	struct fm_err err = {0};
	union fm_msg m = {.hint = {.hint = FM_HINT_MEMORY_LIMIT, .value = 209 * GIB}};

	fm_bridge_memory_settings(w->b, &(struct fm_bridge_memory){.host = 128 * GIB});
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 500 * GIB), 0);
	add_row(w, &a, 0, DEVICE, 80 * GIB);
	fm_msg_head(&m, FM_MSG_HINT);
	assert_int_equal(fm_bridge_message(w->b, w->a.c, &m, w->now, &err), -ERANGE);
	assert_string_equal(err.text, "memory-limit 209G is more than there is");
	assert_string_equal(err.hint, "the device has 80G and the host has 128G");
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, 208 * GIB), 0);
	/* Another group that has no device yet. */
	assert_int_equal(give_hint(w, &w->z, FM_HINT_MEMORY_LIMIT, 208 * GIB + 1), -ERANGE);
}

/* --- what programs keep on the device --- */

static bool keeps(struct world *w, struct account *a, struct fm_ledger_device *row, uint64_t bytes)
{
	uint32_t number = fm_ledger_keep(row, (int64_t)bytes);
	bool granted = false;

	ring_memory(w, a->c);
	assert_true(fm_ledger_keep_answered(row, number, &granted));
	if (!granted)
		atomic_fetch_sub(&row->keeps, bytes);
	return granted;
}

static void what_programs_keep_fits_on_the_device(void **state)
{
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, true), z = open_ledger(w, &w->z, true);
	struct fm_ledger_device *of_a = add_row(w, &a, 0, DEVICE, 10 * GIB);
	struct fm_ledger_device *of_z = add_row(w, &z, 0, DEVICE, 10 * GIB);
	struct fm_ledger_device *other = add_row(w, &z, 1, "sim:1", 10 * GIB);

	assert_true(keeps(w, &a, of_a, 6 * GIB));
	assert_false(keeps(w, &z, of_z, 5 * GIB));
	assert_true(keeps(w, &z, of_z, 4 * GIB));
	/* What others keep cannot be requested, and no row makes the device larger. */
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_REQUEST, 7 * GIB), -ENOSPC);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_REQUEST, 6 * GIB), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_REQUEST, 0), 0);
	assert_true(keeps(w, &z, other, 10 * GIB));
	assert_false(keeps(w, &a, of_a, 1));
	/* Less is seen without a request; and what was granted is not more because it is claimed.
	 */
	atomic_fetch_sub(&of_a->keeps, 3 * GIB);
	assert_true(keeps(w, &z, of_z, 3 * GIB));
	atomic_fetch_add(&of_a->keeps, 3 * GIB);
	assert_false(keeps(w, &a, of_a, 1));
	atomic_fetch_sub(&of_a->keeps, 3 * GIB);
	leave(w, &z);
	assert_true(keeps(w, &a, of_a, 7 * GIB));
	assert_false(keeps(w, &a, of_a, UINT64_MAX / 2));
	leave(w, &a);
}

static void requests_of_others_are_not_kept(void **state)
{
	struct fm_bridge_limits l = {.forbidden = FM_HINT_BIT(FM_HINT_MEMORY_PIN)};
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, true), z = open_ledger(w, &w->z, true);
	struct fm_ledger_device *of_a = add_row(w, &a, 0, DEVICE, 10 * GIB);
	struct fm_ledger_device *of_z = add_row(w, &z, 0, DEVICE, 10 * GIB);

	assert_int_equal(give_hint(w, &w->z, FM_HINT_MEMORY_REQUEST, 4 * GIB), 0);
	assert_false(keeps(w, &a, of_a, 7 * GIB));
	assert_true(keeps(w, &a, of_a, 5 * GIB));
	/* What it keeps is part of what it has requested. */
	assert_true(keeps(w, &z, of_z, 3 * GIB));
	assert_true(keeps(w, &a, of_a, GIB));
	assert_true(keeps(w, &z, of_z, GIB));
	assert_false(keeps(w, &z, of_z, 1));
	fm_bridge_set_limits(w->b, &l);
	atomic_fetch_sub(&of_a->keeps, GIB);
	assert_true(keeps(w, &a, of_a, 0)); /* what it has it may keep */
	assert_false(keeps(w, &a, of_a, 1));
	leave(w, &z);
	leave(w, &a);
}

/* --- cgroups --- */

static void cgroups_share_and_sink(void **state)
{
	struct fm_bridge_dmem dmem = {.bus = "0000:3b:00.0", .most = 10 * GIB};
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, true), z = open_ledger(w, &w->z, true);
	struct fm_bridge_cgroup *box = fm_bridge_cgroup_get(w->b, "/box"), *both[2];
	struct fm_ledger_device *of_a, *of_z;

	strcpy(a.ledger->device[0].bus, dmem.bus);
	strcpy(z.ledger->device[0].bus, "../../etc/passw");
	of_a = add_row(w, &a, 0, DEVICE, 80 * GIB);
	of_z = add_row(w, &z, 0, DEVICE, 80 * GIB);
	both[0] = box;
	both[1] = fm_bridge_cgroup_get(w->b, "/box/in");
	assert_ptr_equal(fm_bridge_cgroup_get(w->b, "/box"), box);
	fm_bridge_cgroup_put(box);
	fm_bridge_client_cgroups(w->a.c, both, 2);
	fm_bridge_client_cgroups(w->z.c, both, 1);
	assert_true(fm_bridge_cgroup_limit(w->b, box, UINT64_MAX, &dmem, 1));
	assert_false(fm_bridge_cgroup_limit(w->b, box, UINT64_MAX, &dmem, 1));
	/* Whose device is not known is counted, and not held to the kernel's limit. */
	assert_true(take(w, &z, of_z, 6 * GIB));
	assert_false(take(w, &a, of_a, 5 * GIB));
	assert_true(take(w, &a, of_a, 4 * GIB));
	fm_bridge_cgroup_limit(w->b, box, 12 * GIB, NULL, 0);
	assert_true(take(w, &a, of_a, GIB));
	assert_false(take(w, &z, of_z, 2 * GIB));
	atomic_store(&of_a->kind[FM_MEM_MOVABLE], 4 * GIB);
	atomic_store(&of_a->kind[FM_MEM_PIN_WISH], GIB);
	atomic_store(&of_z->kind[FM_MEM_MOVABLE], 6 * GIB);
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == UINT64_MAX && of_z->cap == UINT64_MAX);
	/* What cannot move counts first. */
	fm_bridge_cgroup_limit(w->b, box, 6 * GIB, NULL, 0);
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == 2 * GIB && of_z->cap == 3 * GIB);
	fm_bridge_cgroup_limit(w->b, box, 0, NULL, 0);
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == 0 && of_z->cap == 0);
	fm_bridge_client_cgroups(w->z.c, NULL, 0);
	fm_bridge_client_cgroups(w->a.c, NULL, 0);
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == UINT64_MAX && of_z->cap == UINT64_MAX);
	fm_bridge_cgroup_put(both[1]);
	fm_bridge_cgroup_put(box);
	leave(w, &z);
	leave(w, &a);
}

/* A bus that is told late ends what was allowed without it. */
static void a_bus_is_told_late(void **state)
{
	struct fm_bridge_dmem dmem = {.bus = "0000:3b:00.0", .most = 2 * GIB};
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, false);
	struct fm_bridge_cgroup *box = fm_bridge_cgroup_get(w->b, "/box");
	struct fm_ledger_device *of_a;

	fm_bridge_cgroup_limit(w->b, box, UINT64_MAX, &dmem, 1);
	fm_bridge_client_cgroups(w->a.c, &box, 1);
	of_a = add_row(w, &a, 0, DEVICE, 80 * GIB);
	assert_true(of_a->allowed == UINT64_MAX);
	strcpy(of_a->bus, dmem.bus);
	ring_memory(w, &w->a);
	assert_false(take(w, &a, of_a, 3 * GIB));
	assert_true(take(w, &a, of_a, 2 * GIB));
	fm_bridge_client_cgroups(w->a.c, NULL, 0);
	fm_bridge_cgroup_put(box);
	leave(w, &a);
}

/* What another user's client says counts as far as it was allowed. */
static void lies_in_a_cgroup_are_bounded(void **state)
{
	struct world *w = *state;
	struct client bob = {0};
	struct account a = open_ledger(w, &w->a, true), z;
	struct fm_bridge_cgroup *box = fm_bridge_cgroup_get(w->b, "/box");
	struct fm_ledger_device *of_a, *of_z;

	assert_int_equal(attach(w, &bob, ALICE + 1, 33, "bob"), 0);
	z = open_ledger(w, &bob, false);
	fm_bridge_cgroup_limit(w->b, box, 12 * GIB, NULL, 0);
	fm_bridge_client_cgroups(w->a.c, &box, 1);
	fm_bridge_client_cgroups(bob.c, &box, 1);
	of_a = add_row(w, &a, 0, DEVICE, 80 * GIB);
	of_z = add_row(w, &z, 0, DEVICE, 80 * GIB);
	assert_true(take(w, &a, of_a, 4 * GIB));
	assert_true(take(w, &z, of_z, 2 * GIB));
	assert_true(of_z->allowed == 7 * GIB / 2);
	atomic_store(&of_z->claimed, UINT64_C(1) << 50);
	assert_true(take(w, &a, of_a, 4 * GIB));
	assert_false(take(w, &a, of_a, GIB));
	atomic_store(&of_a->kind[FM_MEM_MOVABLE], 8 * GIB);
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == UINT64_MAX);
	fm_bridge_cgroup_limit(w->b, box, 6 * GIB, NULL, 0);
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == 5 * GIB / 2);
	/* Its own user believes it. */
	fm_bridge_cgroup_limit(w->b, box, 12 * GIB, NULL, 0);
	assert_false(take(w, &z, of_z, GIB));
	fm_bridge_client_cgroups(bob.c, NULL, 0);
	fm_bridge_client_cgroups(w->a.c, NULL, 0);
	fm_bridge_cgroup_put(box);
	leave(w, &z);
	leave(w, &a);
	fm_board_unmap(bob.board);
}

static void a_users_limit_sinks(void **state)
{
	struct fm_bridge_limits l = {.memory = 8 * GIB};
	struct world *w = *state;
	struct account a = open_ledger(w, &w->a, true);
	struct fm_ledger_device *of_a = add_row(w, &a, 0, DEVICE, 80 * GIB);

	assert_true(take(w, &a, of_a, 8 * GIB));
	atomic_store(&of_a->kind[FM_MEM_MOVABLE], UINT64_MAX);
	l.memory = 2 * GIB;
	fm_bridge_set_limits(w->b, &l);
	fm_bridge_memory_settings(w->b, &(struct fm_bridge_memory){0});
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == 2 * GIB);
	give(of_a, 7 * GIB);
	w->now += FM_S;
	fm_bridge_run(w->b, w->now);
	assert_true(of_a->cap == UINT64_MAX);
	leave(w, &a);
}

static int end(void **state)
{
	teardown(state);
	while (n_ledgers)
		fm_ledger_unmap(ledgers[--n_ledgers]);
	return 0;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, end)
	const struct CMUnitTest tests[] = {
		CASE(without_a_limit_all_is_allowed),
		CASE(one_client_has_the_whole_limit_at_once),
		CASE(a_managed_group_has_the_device),
		CASE(a_device_may_count_as_smaller),
		CASE(all_share_a_device_that_counts_as_smaller),
		CASE(two_clients_share_their_groups_limit),
		CASE(slack_goes_to_whoever_needs_it),
		CASE(a_claim_under_way_is_counted),
		CASE(a_client_is_answered_after_its_hints),
		CASE(a_limit_below_what_is_there_takes_nothing_away),
		CASE(a_user_is_limited_over_all_groups),
		CASE(what_leaves_no_longer_counts_but_its_counters_do),
		CASE(lies_are_bounded),
		CASE(lies_do_not_add_up_to_nothing),
		CASE(pins_of_all_its_processes_once_each),
		CASE(rows_that_are_none),
		CASE(a_device_named_twice),
		CASE(requests_fit_on_the_device_together),
		CASE(a_limit_is_at_most_device_and_host),
		CASE(cgroups_share_and_sink),
		CASE(a_bus_is_told_late),
		CASE(lies_in_a_cgroup_are_bounded),
		CASE(a_users_limit_sinks),
		CASE(what_programs_keep_fits_on_the_device),
		CASE(requests_of_others_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
