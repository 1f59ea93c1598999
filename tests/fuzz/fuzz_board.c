/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of boards: any header and any seals are taken or refused as they must; and whatever a
 * client writes all over its board, at any time, its neighbour on the device has its turns, and
 * nobody has used more time than has passed. */
#include "base/clock.h"
#include "bridge/bridge.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUEUES 3
#define TURNS  200 /* looks within which the neighbour must have had the device */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p, *end;
};

struct world {
	struct fm_bridge *b;
	struct fm_board *mine, *view, *honest; /* the liar's, as it and as the daemon maps it */
	struct fm_bridge_client *liar, *neighbour;
	uint64_t start, now;
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

static void take_bytes(struct input *in, void *to, size_t n)
{
	size_t left = (size_t)(in->end - in->p);

	n = FM_MIN(n, left);
	memcpy(to, in->p, n);
	in->p += n;
}

/* A descriptor as a stranger might send it. */
static void any_descriptor(struct input *in)
{
	static const int some_seals[] = {0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_GROW,
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE,
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK,
		F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW};
	struct fm_board head = {.magic = FM_BOARD_MAGIC,
		.version = FM_BOARD_VERSION,
		.slots = FM_BOARD_SLOTS,
		.size = sizeof(struct fm_board)};
	const struct fm_board sound = head;
	uint8_t seals = take(in) % 8, other_size = take(in), other_head = take(in);
	bool exact = other_size < 128, same;
	struct fm_board *b = NULL;
	int fd = memfd_create("board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t size = exact ? sizeof(head) : sizeof(head) - 128 + other_size;

	if (fd < 0)
		return;
	if (other_head & 1)
		take_bytes(in, &head, 12);
	same = !memcmp(&head, &sound, 12);
	if (ftruncate(fd, (off_t)size) || pwrite(fd, &head, 12, 0) != 12)
		abort();
	fcntl(fd, F_ADD_SEALS, some_seals[seals]);
	if (!fm_board_map(&b, fd)) {
		must(size == sizeof(head) && same);
		must((some_seals[seals] & (F_SEAL_SHRINK | F_SEAL_GROW)) ==
			(F_SEAL_SHRINK | F_SEAL_GROW));
		fm_board_unmap(b);
	} else {
		must(size != sizeof(head) || !same || (seals != 3 && seals != 5));
	}
	close(fd);
}

static void no_wake(void *ctx)
{
}

static struct fm_bridge_client *join(struct world *w, struct fm_board *board, unsigned queues)
{
	union fm_msg m = {.queue = {.levels = 6}};
	struct fm_bridge_client *c;

	fm_msg_head(&m, FM_MSG_QUEUE);
	must(!fm_bridge_attach(w->b, &c, board, 1, 2, "x", "fuzz", board, w->now));
	for (unsigned i = 0; i < queues; i++) {
		m.queue.slot = i;
		strcpy(m.queue.device, i % 2 ? "sim:1" : "sim:0");
		must(!fm_bridge_message(w->b, c, &m, w->now, NULL));
	}
	return c;
}

static void see_ent(void *arg, const struct fm_bent_info *info)
{
	const struct fm_ent_info *i = &info->ent;
	const struct world *w = arg;

	must(i->state <= FM_ENT_SUSPENDED);
	must(i->served_ns <= w->now - w->start && i->ready_wait_ns <= w->now - w->start);
}

static void see_queue(void *arg, const struct fm_bqueue_info *i)
{
	must(i->level <= FM_LEVEL_RUNNING);
}

static void look(struct world *w)
{
	struct fm_call calls[FM_BOARD_CALLS + 1];
	struct fm_bridge_group *g = NULL;

	while ((g = fm_bridge_group_next(w->b, g))) {
		unsigned n = fm_bridge_group_calls(g, calls, FM_BOARD_CALLS + 1);

		must(n <= FM_BOARD_CALLS);
		for (unsigned i = 0; i < n; i++)
			must(calls[i].name[0] && strlen(calls[i].name) < FM_CALL_MAX);
		fm_bridge_group_each_ent(g, w->now, see_ent, w);
		fm_bridge_group_each_queue(g, see_queue, NULL);
		fm_bridge_group_coverage(g);
	}
	fm_bridge_client_work(w->liar);
}

/* The neighbour stops at its gate, as the honest do. */
static uint64_t run_once(struct world *w)
{
	struct fm_slot *s = &w->honest->slot[0];
	bool open = atomic_load(&s->gate) == FM_GATE_OPEN;

	atomic_store(&s->released, open ? UINT64_MAX : 0);
	return fm_bridge_run(w->b, w->now);
}

static void run(struct world *w, uint64_t until)
{
	uint64_t next = run_once(w);

	for (int i = 0; i < 1000 && next <= until; i++) {
		w->now = FM_MAX(w->now + 1, next);
		next = run_once(w);
	}
	w->now = FM_MAX(w->now, until);
	run_once(w);
}

static void scribble(struct world *w, struct input *in)
{
	uint8_t *base = (uint8_t *)w->mine;
	uint8_t what = take(in), n = take(in);
	size_t at;

	if (what < 200) /* in the slots that are in use, by words */
		at = offsetof(struct fm_board, slot) +
		     (what * 8u) % (QUEUES * sizeof(struct fm_slot));
	else if (what < 240)
		at = offsetof(struct fm_board, call) + take(in) % 64u * 16u;
	else
		at = take(in) * 256u;
	if (at >= sizeof(struct fm_board))
		return;
	take_bytes(in, base + at, FM_MIN((size_t)n % 72 + 1, sizeof(struct fm_board) - at));
}

static void step(struct world *w, struct input *in)
{
	uint8_t op = take(in);

	if (op < 128)
		scribble(w, in);
	else if (op < 200)
		fm_bridge_bell(w->b, w->liar, w->now);
	else if (op < 240)
		run(w, w->now + take(in) * 50 * FM_US);
	else
		look(w);
}

/* Whatever the liar says, it shares the device. */
static void neighbour_has_turns(struct world *w)
{
	const struct fm_slot *s = &w->honest->slot[0];
	int i;

	for (i = 0; i < TURNS && atomic_load(&s->gate) != FM_GATE_OPEN; i++)
		run(w, w->now + FM_MS);
	must(i < TURNS);
}

static void set_up(struct world *w)
{
	static const struct fm_bridge_host host = {.wake = no_wake};
	static const char *const params[] = {"slice=2"};
	int fd;

	*w = (struct world){.start = FM_S, .now = FM_S};
	must(!fm_bridge_new(&w->b, &host));
	must(!fm_sched_policy(fm_bridge_sched(w->b), "round-robin", params, 1, w->now, NULL));
	must(!fm_board_create(&w->mine, &fd) && !fm_board_map(&w->view, fd));
	close(fd);
	must(!fm_board_create(&w->honest, NULL));
	w->neighbour = join(w, w->honest, 1);
	w->liar = join(w, w->view, QUEUES);
	atomic_store(&w->honest->slot[0].begun, 5);
	atomic_store(&w->honest->slot[0].released, UINT64_MAX);
	fm_bridge_bell(w->b, w->neighbour, w->now);
}

static void tear_down(struct world *w)
{
	must(atomic_load(&w->honest->slot[0].begun) == 5 && !atomic_load(&w->honest->slot[0].done));
	fm_bridge_free(w->b);
	must(w->honest->slot[0].gate == FM_GATE_OPEN);
	for (unsigned i = 0; i < QUEUES; i++)
		must(w->mine->slot[i].gate == FM_GATE_OPEN);
	fm_board_unmap(w->mine);
	fm_board_unmap(w->view);
	fm_board_unmap(w->honest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct world w;

	any_descriptor(&in);
	set_up(&w);
	while (in.p < in.end)
		step(&w, &in);
	look(&w);
	neighbour_has_turns(&w);
	tear_down(&w);
	return 0;
}
