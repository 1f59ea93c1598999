/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of ledgers: whatever a client writes all over its ledger, at any time, the limit of
 * another user's group holds, what is reported stays within bounds, and an honest client of the
 * same group is answered. */
#include "base/clock.h"
#include "bridge/bridge.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIB  UINT64_C(0x40000000)
#define KEY  "gpu:0"
#define FULL (10 * GIB)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p, *end;
};

struct one {
	struct fm_board *board;
	struct fm_ledger *mine, *view; /* as it and as the daemon maps it */
	struct fm_bridge_client *c;
};

struct world {
	struct fm_bridge *b;
	struct one liar, honest, stranger; /* the first two share a group */
	uint64_t now;
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t take(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static uint64_t take_word(struct input *in)
{
	static const uint64_t some[] = {0, 1, GIB, FULL, UINT64_MAX, UINT64_MAX - 1, INT64_MAX,
		(uint64_t)FM_MEMORY_MAX, UINT64_C(1) << 63};
	uint8_t n = take(in);
	uint64_t v = 0;

	if (n < FM_ARRAY_LEN(some))
		return some[n];
	for (unsigned i = 0; i < sizeof(v); i++)
		v = v << 8 | take(in);
	return v;
}

static void no_wake(void *ctx)
{
}

static void say(struct world *w, struct one *o, union fm_msg m, enum fm_msg_type type)
{
	must(fm_msg_head(&m, type) > 0);
	must(!fm_bridge_message(w->b, o->c, &m, w->now, NULL));
}

static void join(struct world *w, struct one *o, uid_t uid, pid_t pid)
{
	union fm_msg m = {.hint = {.hint = FM_HINT_MEMORY_LIMIT, .value = FULL}};
	struct fm_ledger_device *row;
	int fd;

	must(!fm_board_create(&o->board, NULL));
	must(!fm_ledger_create(&o->mine, &fd) && !fm_ledger_map(&o->view, fd));
	close(fd);
	row = &o->mine->device[0];
	strcpy(row->key, KEY);
	atomic_store(&row->allowed, 0);
	atomic_store(&row->capacity, 80 * GIB);
	must(!fm_bridge_attach(w->b, &o->c, o->board, uid, pid, "x", "fuzz", o, w->now));
	must(!fm_bridge_ledger(w->b, o->c, o->view));
	say(w, o, (union fm_msg){.group = {.name = "both"}}, FM_MSG_GROUP);
	say(w, o, m, FM_MSG_HINT);
}

/* As an honest client does it. */
static bool claim(struct world *w, struct one *o, uint64_t bytes)
{
	struct fm_ledger_device *row = &o->mine->device[0];
	uint32_t number;
	int rc = fm_ledger_claim(row, bytes) ? 0 : -1;

	for (int i = 0; rc && i < 2; i++) {
		number = fm_ledger_ask(row, bytes);
		say(w, o, (union fm_msg){0}, FM_MSG_MEMORY_BELL);
		must(atomic_load(&row->answered) == number);
		rc = fm_ledger_take(row, number, bytes);
	}
	return !rc;
}

static void give(struct one *o, uint64_t bytes)
{
	atomic_fetch_sub(&o->mine->device[0].claimed, bytes);
}

static void see(void *arg, const struct fm_bmemory_info *i)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < FM_MEM_KINDS; k++)
		sum += i->kind[k];
	must(i->committed <= 2 * FM_LEDGER_DEVICES * (uint64_t)FM_MEMORY_MAX);
	must(sum <= i->committed && i->peak >= i->committed);
	must(i->resident + i->host <= i->kind[FM_MEM_MOVABLE]);
	must(i->trouble < FM_MEM_TROUBLES && strlen(i->device) < FM_DEVKEY_MAX);
}

static void see_pins(const struct fm_bridge_group *g)
{
	struct fm_mem_pin pins[FM_BPINS];
	unsigned n = fm_bridge_group_pins(g, pins);

	must(n <= FM_BPINS);
	for (unsigned i = 0; i < n; i++) {
		must(fm_mem_pinned(pins[i].kind));
		must(strlen(pins[i].what) < FM_PIN_WHAT && strlen(pins[i].by) < FM_PIN_BY);
		for (const char *c = pins[i].what; *c; c++)
			must(*c >= ' ' && *c <= '~');
	}
}

static void look(struct world *w)
{
	struct fm_bridge_group *g = NULL;

	while ((g = fm_bridge_group_next(w->b, g))) {
		fm_bridge_group_each_memory(g, see, w);
		see_pins(g);
	}
}

static void scribble(struct world *w, struct input *in)
{
	uint8_t row = take(in), word = take(in);
	size_t words = sizeof(struct fm_ledger_device) / 8;
	uint64_t v = take_word(in);
	char *at = (char *)&w->liar.mine->device[row < 128 ? 0 : row % FM_LEDGER_DEVICES];

	if (row == 127) { /* the pins; their first words are kinds */
		at = (char *)&w->liar.mine->pins;
		words = sizeof(struct fm_ledger_pins) / 8;
	}
	memcpy(at + word % words * 8, &v, sizeof(v));
}

static void step(struct world *w, struct input *in)
{
	uint8_t op = take(in);
	uint64_t bytes = (take(in) + UINT64_C(1)) << 24;

	if (op < 128) {
		scribble(w, in);
	} else if (op < 200) {
		say(w, &w->liar, (union fm_msg){0}, FM_MSG_MEMORY_BELL);
	} else if (op < 230) {
		if (claim(w, &w->honest, bytes))
			give(&w->honest, bytes);
	} else {
		look(w);
	}
}

/* Another user's limit is its own. */
static void stranger_has_its_limit(struct world *w)
{
	must(claim(w, &w->stranger, FULL));
	must(!claim(w, &w->stranger, 1));
}

static void leave(struct one *o)
{
	fm_board_unmap(o->board);
	fm_ledger_unmap(o->mine);
	fm_ledger_unmap(o->view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fm_bridge_host host = {.wake = no_wake};
	struct input in = {data, data + size};
	struct world w = {.now = FM_S};

	must(!fm_bridge_new(&w.b, &host));
	join(&w, &w.liar, 1, 2);
	join(&w, &w.honest, 1, 3);
	join(&w, &w.stranger, 4, 5);
	while (in.p < in.end)
		step(&w, &in);
	look(&w);
	stranger_has_its_limit(&w);
	/* When the liar is gone, all is the honest one's. */
	fm_bridge_detach(w.b, w.liar.c, w.now);
	must(claim(&w, &w.honest, FULL));
	fm_bridge_free(w.b);
	leave(&w.liar);
	leave(&w.honest);
	leave(&w.stranger);
	return 0;
}
