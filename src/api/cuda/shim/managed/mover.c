/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that moves memory. There is none until something has to move. It asks for a rest of
 * the process (xqueue/rest.h), copies and unmaps; on the way back it maps and copies, and only then
 * the rest ends.
 *
 * Memory is out while the daemon wishes so, but for the share that it leaves to the device, or
 * gives back early. Without a daemon, and when the process exits, it comes in; until then nothing
 * of the process runs.
 *
 * The file is long because it is one thread and its states: each asks for the next, and `moves' is
 * theirs alone.
 */
#include "api/cuda/core/memory/move.h"
#include "api/cuda/core/memory/want.h"
#include "api/cuda/core/tune.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "named.h"
#include "trace/trace.h"
#include "xqueue/early.h"
#include "xqueue/rest.h"
#include "xqueue/tune.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock; /* while memory moves; and what follows */
	struct fm_cu_move *move[FM_CUDA_MEM_DEVICES];
	bool gave_up;        /* the driver refused; not before another wish */
	bool full;           /* what may be out is out */
	bool missed;         /* the program waits for its memory, as the daemon was told */
	uint64_t until;      /* coming in waits for room until then */
	uint64_t refused;    /* the driver refuses to bring it in, since then; 0: it does not */
	_Atomic bool engine; /* one has come that reaches memory by itself: it comes in */
	uint64_t excess_at;  /* not before that is it looked at whether there is too much of it */
	uint64_t trim_at;    /* then the host gets its memory back; 0: it has none of it */
	uint64_t home_at; /* not before that is there a look for room for what runs from the host */
	bool homing;      /* it comes to the device */
	bool had_room;    /* at the last look */
	unsigned restless; /* so often it did not come to rest for that */
	uint64_t rests_since;
	uint64_t exchange_at;  /* not before that is it looked at what is used most */
	bool counting;         /* how often memory is used */
	bool exchanging;       /* what comes in does so for that */
	bool early;            /* the program has gone on before all of its memory was there */
	bool before;           /* and may have work from before that went out */
	uint64_t early_passed; /* how far it had come when it last stood still for that, */
	uint64_t early_at;     /* and when, */
	uint64_t early_in;     /* and that some came in */
	uint64_t rung_at;      /* when the daemon was last told of a chunk that has moved */

	_Atomic bool expected; /* the program has said that it uses its memory soon */

	_Atomic bool started, stop, resting;
	_Atomic uint64_t told;  /* the wish that the mover was last woken for */
	_Atomic uint32_t asked; /* a futex: raised whenever there may be something to do */
} moves = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(moves.lock, CUDA_MOVES);

/* --- what is wished --- */

struct wish {
	struct fm_client *c;
	bool out;
	bool reached;  /* for the shares that there are now, nothing is left to be moved */
	uint64_t caps; /* a sum, too; 0: there are none */
	bool grows;    /* it may have memory of the host that it was refused before, */
	bool excess;   /* or has more than it may have */
	uint64_t sum;  /* of the wish and the shares: another one if they are others */
};

static void look_at_wish(struct fm_cuda_managed *m, void *arg)
{
	struct wish *w = arg;
	struct fm_ledger_device *d = fm_account_row(w->c, m->row);
	uint64_t share, wants;

	if (!d)
		return;
	w->out |= atomic_load(&d->wish) == FM_MEM_OUT;
	wants = atomic_load(&d->host_wants);
	w->grows |= wants && atomic_load(&d->host_may) >= wants;
	w->excess |= atomic_load(&d->host_has) > atomic_load(&d->host_may);
	if (atomic_load(&d->cap) != UINT64_MAX)
		w->caps = (w->caps + atomic_load(&d->cap)) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	share = atomic_load(&d->share);
	/* Where the context has ended there is nothing to be moved. */
	w->reached &=
		atomic_load(&d->reached) == share || !fm_cu_arena_context(atomic_load(&m->arena));
	w->sum = (w->sum + share) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* Is memory to be out? */
static struct wish wish_now(struct fm_client *c)
{
	struct wish w = {.c = c, .reached = true};

	if (!fm_client_connected(c) || fm_rest_is_over(c) || fm_cuda_managed_all_pinned() ||
		atomic_load(&moves.engine))
		return w;
	fm_cuda_managed_each(look_at_wish, &w);
	w.sum = w.out || fm_early_able(c) ? (w.sum + w.caps) | 1 : w.caps ? w.caps | 1 : 0;
	w.sum ^= (uint64_t)w.grows << 63 ^ (uint64_t)w.excess << 62 ^ (uint64_t)w.out << 61;
	return w;
}

/* What may be on the device at all. */
static uint64_t cap_of(void *device)
{
	struct fm_cuda_managed *m = device;
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = fm_account_row(c, m->row);

	return d && fm_client_connected(c) ? atomic_load(&d->cap) : UINT64_MAX;
}

static bool wanted_out(struct fm_client *c)
{
	return wish_now(c).out;
}

static uint64_t share_of(void *device)
{
	struct fm_cuda_managed *m = device;
	struct fm_ledger_device *d = fm_account_row(fm_shim_has_client(), m->row);

	return d ? atomic_load(&d->share) : 0;
}

static bool has_work(const struct fm_cuda_queue *q)
{
	return fm_slot_pending(q->xq->slot);
}

static bool works(void)
{
	struct fm_xq *busy[FM_BOARD_SLOTS];
	size_t n = fm_cuda_keep(NULL, busy, has_work, NULL);

	for (size_t i = 0; i < n; i++)
		fm_xq_unref(busy[i]);
	return n;
}

static void note_missed(struct fm_cuda_managed *m, void *missed)
{
	struct fm_ledger_device *d = fm_account_row(fm_shim_has_client(), m->row);

	if (d)
		atomic_store(&d->misses, *(bool *)missed);
}

/* Does the program wait for its memory? The daemon is told, so that it makes room. */
static void tell_missed(struct fm_client *c, bool missed)
{
	if (missed == moves.missed)
		return;
	moves.missed = missed;
	fm_cuda_managed_each(note_missed, &missed);
	if (missed)
		fm_account_bell(c);
}

/* --- the moves --- */

static bool goes_out(void *device)
{
	(void)device;
	return !atomic_load(&moves.stop) && wanted_out(fm_shim_has_client());
}

static bool comes_in(void *device)
{
	(void)device;
	return !atomic_load(&moves.stop) && fm_now() < moves.until &&
	       !wanted_out(fm_shim_has_client());
}

static bool goes_on(void *device)
{
	if (moves.homing)
		return !atomic_load(&moves.stop) && !wanted_out(fm_shim_has_client());
	return fm_rest_state(fm_shim_has_client()) == FM_REST_MAPPING ? comes_in(device)
								      : goes_out(device);
}

/* Others may have the room that there is now, or the rest may come in. */
static void ring(bool at_once)
{
	uint64_t now = fm_now();

	if (!at_once && now - moves.rung_at < FM_CU_TELL_EACH)
		return;
	moves.rung_at = now;
	fm_account_bell(fm_shim_has_client());
}

static void moved(void *device, bool out, uint64_t bytes, uint64_t kept)
{
	struct fm_cuda_managed *m = device;
	struct fm_ledger_device *d = fm_account_row(fm_shim_has_client(), m->row);

	if (d)
		atomic_fetch_add(out ? &d->went_out : &d->came_in, bytes);
	if (d)
		atomic_fetch_add(&d->kept, kept);
	if (d && !out && moves.exchanging)
		atomic_fetch_add(&d->exchanged, bytes);
	moves.until = fm_add_sat(fm_now(), FM_CU_ROOM_MOST);
	moves.early_in = fm_now();
	fm_cuda_full_moved(out, bytes + kept);
	fm_cuda_named_tell(m);
	fm_cuda_managed_tell(m);
	FM_TRACE(memory_moved, fm_now(), FM_TRACE_NO_SLOT, 0, out ? bytes + kept : 0,
		out ? 0 : bytes, d ? atomic_load(&d->resident) : 0);
	ring(false);
}

static void found(void *device)
{
	fm_cuda_full_found(device);
}

static struct fm_cu_turnstile *turnstile(struct fm_cuda_managed *m)
{
	CUcontext ctx = fm_cu_arena_context(atomic_load(&m->arena));

	return ctx ? fm_cu_turnstile(ctx, false) : NULL;
}

static bool enter(void *device)
{
	return fm_cu_visit_begin(turnstile(device));
}

static void leave(void *device)
{
	fm_cu_visit_end(turnstile(device));
}

static void nap(void *device, uint64_t ns)
{
	const struct timespec ts = {.tv_nsec = (long)ns};

	(void)device;
	nanosleep(&ts, NULL);
}

static uint32_t in_use_since(void *device)
{
	return fm_cuda_named_since(device);
}

static bool goes_out_mapped(void *device)
{
	(void)device;
	return fm_early_able(fm_shim_has_client());
}

static struct fm_cu_move *move_of(struct fm_cuda_managed *m)
{
	const struct fm_cu_move_ops ops = {goes_on, moved, enter, leave, nap, m, share_of,
		in_use_since, cap_of, goes_out_mapped, found};

	if (!moves.move[m->dev])
		moves.move[m->dev] = fm_cu_move_create(atomic_load(&m->arena), &ops);
	return moves.move[m->dev];
}

struct going {
	int (*move)(struct fm_cuda_managed *m, struct fm_cu_move *move);
	int rc;
};

/* What of the program may be on the device while it runs. */
static uint64_t share_in(struct fm_cuda_managed *m)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = fm_account_row(c, m->row);
	bool told = d && fm_client_connected(c), early = fm_early_able(c);
	bool in = told && (atomic_load(&d->wish) == FM_MEM_IN ||
				  (early && atomic_load(&d->wish) == FM_MEM_STAY));

	return FM_MIN(in ? atomic_load(&d->share) : UINT64_MAX, cap_of(m));
}

static int move_in(struct fm_cuda_managed *m, struct fm_cu_move *move)
{
	struct fm_ledger_device *d = fm_account_row(fm_shim_has_client(), m->row);

	if (d)
		atomic_store(&d->reached, UINT64_MAX);
	return fm_cu_move_in_part(move, atomic_load(&moves.engine) ? UINT64_MAX : share_in(m));
}

static int move_to_host(struct fm_cuda_managed *m, struct fm_cu_move *move)
{
	(void)m;
	return fm_cu_move_borrow(move);
}

static int move_home(struct fm_cuda_managed *m, struct fm_cu_move *move)
{
	return atomic_load(&m->smaller) ? 0 : fm_cu_move_home(move, share_in(m));
}

static void add_changed(struct fm_cuda_managed *m, void *sum)
{
	if (moves.move[m->dev])
		*(unsigned *)sum += fm_cu_move_changed(moves.move[m->dev]);
}

/* The first time that memory moves in a rest. */
static void look_for_misses(void)
{
	unsigned changed = 0;

	fm_cuda_managed_each(add_changed, &changed);
	fm_cuda_missed_turn(changed);
}

static int move_out(struct fm_cuda_managed *m, struct fm_cu_move *move)
{
	struct fm_ledger_device *d = fm_account_row(fm_shim_has_client(), m->row);
	uint64_t share = share_of(m);
	int rc = fm_cu_move_out(move);

	/* Where the host is full nothing can be done for that share, either. */
	if (d && (!rc || rc == -ENOMEM)) {
		atomic_store(&d->reached, share);
		FM_TRACE(memory_reached, fm_now(), FM_TRACE_NO_SLOT, 0, share,
			atomic_load(&d->resident), 0);
	}
	return rc;
}

static void move_one(struct fm_cuda_managed *m, void *arg)
{
	struct going *g = arg;
	struct fm_cu_move *move;
	int rc;

	if (!fm_cu_arena_context(atomic_load(&m->arena)))
		return;
	move = move_of(m);
	rc = move ? g->move(m, move) : -ENOMEM;
	fm_cuda_full_tried(m, rc == (g->move == move_out ? -ENOSPC : -ENOMEM));
	g->rc = g->rc ? g->rc : rc;
	fm_cuda_managed_tell(m);
	fm_cuda_named_tell(m);
}

static int move_all(int (*move)(struct fm_cuda_managed *m, struct fm_cu_move *move))
{
	struct going g = {.move = move};

	moves.until = fm_add_sat(fm_now(), FM_CU_ROOM_MOST);
	fm_cuda_managed_each(move_one, &g);
	return g.rc;
}

static void trim_one(struct fm_cuda_managed *m, void *trimmed)
{
	enum fm_cu_trimmed *all = trimmed, one;

	if (!moves.move[m->dev])
		return;
	one = fm_cu_move_trim(moves.move[m->dev]);
	*all = FM_MAX(*all, one);
}

static void look_for_too_much(struct fm_cuda_managed *m, void *any)
{
	if (moves.move[m->dev])
		*(bool *)any |= fm_cu_move_exceeds(moves.move[m->dev]);
}

static bool has_excess(void)
{
	bool any = false;

	fm_cuda_managed_each(look_for_too_much, &any);
	return any;
}

/* Memory of the host goes back to the system a while after it was used last. The driver waits for
 * all of the device before it lets go of it, and keeps others out. So this is for a moment without
 * work, and launches wait outside meanwhile: what they launch might wait for a call that is kept
 * out. */
static uint64_t trim(void)
{
	enum fm_cu_trimmed trimmed = FM_CU_TRIM_MORE;
	uint64_t now = fm_now();

	if (now >= moves.excess_at && has_excess()) {
		moves.excess_at = now + FM_CU_TRIM_LOOK;
		moves.trim_at = now;
	}
	if (!moves.trim_at)
		return FM_NEVER;
	if (now < moves.trim_at)
		return moves.trim_at - now;
	if (works() || !fm_cu_keep_out(true))
		return FM_CU_TRIM_LOOK;
	if (!works()) {
		trimmed = FM_CU_TRIM_ALL;
		fm_cuda_managed_each(trim_one, &trimmed);
	}
	fm_cu_keep_out(false);
	if (trimmed == FM_CU_TRIM_MORE)
		return FM_CU_TRIM_NEXT;
	moves.trim_at = trimmed == FM_CU_TRIM_KEEPS ? now + FM_CU_HOST_KEPT : 0;
	return moves.trim_at ? FM_CU_HOST_KEPT : FM_NEVER;
}

/* --- out and in --- */

static bool is_missed(struct fm_client *c)
{
	return atomic_load(&moves.expected) || fm_rest_is_missed(c) || fm_cu_waits_outside() ||
	       works();
}

/* The device has no room for the rest. Has the program waited long enough? An engine may not reach
 * the host. */
static bool runs_from_host(struct fm_client *c)
{
	if (wanted_out(c) || atomic_load(&moves.stop) || atomic_load(&moves.engine))
		return false;
	return fm_cuda_full_refused() >= fm_cuda_full_patience(c) &&
	       (fm_rest_is_over(c) || is_missed(c));
}

/* What does not come in since the context has died is given up, so that the program sees the
 * driver's error. */
static bool gives_up(int rc)
{
	bool refused = rc == -EIO;

	moves.refused = !refused ? 0 : moves.refused ? moves.refused : fm_now();
	if (!fm_cuda_managed_lose(refused && fm_now() - moves.refused > FM_CU_REFUSED_MOST))
		return false;
	moves.gave_up = true;
	fm_cuda_managed_trouble(FM_MEM_DRIVER);
	return true;
}

/* --- early start (xqueue/early.h) --- */

static bool is_before(uint32_t a, uint32_t b)
{
	return b - a - 1 < UINT32_MAX / 2;
}

static void look_early(struct fm_cuda_managed *m, void *arg)
{
	struct fm_cu_early *sum = arg, e = {.share = share_in(m), .before = moves.before};

	if (!fm_cu_arena_context(atomic_load(&m->arena)) || !move_of(m))
		return;
	fm_cu_move_look_early(move_of(m), &e);
	if (e.wait > sum->wait || (e.wait == FM_CU_EARLY_FROM && e.wait == sum->wait &&
					  is_before(e.segment, sum->segment)))
		sum->segment = e.segment;
	sum->wait = FM_MAX(sum->wait, e.wait);
	sum->left |= e.left;
	sum->fits |= e.fits;
}

static void end_early(struct fm_client *c)
{
	if (moves.early)
		FM_TRACE(memory_early, fm_now(), FM_TRACE_NO_SLOT, 0, 0, 0, 0);
	moves.early = moves.before = false;
	fm_early_open(c);
}

/* What names memory that is to come waits, from now on. */
static struct fm_cu_early hold_early(struct fm_client *c)
{
	struct fm_cu_early sum = {.wait = FM_CU_EARLY_NONE};

	if (!atomic_load(&fm_cuda_managed_mapped) || fm_rest_is_over(c) ||
		fm_cuda_managed_all_pinned())
		return sum;
	fm_cuda_managed_each(look_early, &sum);
	if (sum.wait == FM_CU_EARLY_ALL)
		fm_early_hold_all(c);
	else if (sum.wait == FM_CU_EARLY_FROM)
		fm_early_hold(c, sum.segment);
	else
		fm_early_open(c);
	return sum;
}

/* Before the rest ends. */
static void begin_early(struct fm_client *c)
{
	if (!fm_early_able(c) || moves.gave_up || atomic_load(&moves.engine))
		return;
	moves.early_at = fm_now();
	if (!moves.early) {
		moves.early_in = moves.early_at;
		moves.early_at = 0;
	}
	moves.early = hold_early(c).left;
	if (moves.early)
		FM_TRACE(memory_early, fm_now(), FM_TRACE_NO_SLOT, 0, 1, 0, 0);
	else
		end_early(c);
}

static void settle(struct fm_cuda_managed *m, void *unused)
{
	(void)unused;
	fm_account_host_unwant(fm_shim_has_client(), m->row);
	fm_cu_want_settle(atomic_load(&m->arena));
}

static uint64_t goes_on_again(struct fm_client *c)
{
	uint64_t now;

	fm_cuda_managed_each(settle, NULL);
	atomic_store(&moves.expected, false);
	tell_missed(c, false);
	begin_early(c);
	fm_rest_end(c);
	atomic_store(&moves.resting, false);
	/* What was said between the two is over, too: the next rest is not for that. */
	atomic_store(&moves.expected, false);
	now = fm_now();
	FM_TRACE(memory_goes_on, now, FM_TRACE_NO_SLOT, 0, now - moves.rests_since, 0, 0);
	moves.refused = 0;
	fm_cuda_full_end();
	moves.trim_at = now + FM_CU_HOST_KEPT;
	if (atomic_exchange(&moves.engine, false))
		fm_cuda_managed_pin_all(FM_MEM_PIN_ENGINE);
	else if (moves.gave_up)
		fm_account_bell(c);
	else
		fm_cuda_managed_trouble(FM_MEM_FINE);
	if (moves.early)
		return FM_CU_EARLY_LOOK;
	return atomic_load(&fm_cuda_managed_mapped) ? FM_CU_HOME_LOOK : FM_CU_HOST_KEPT;
}

static uint64_t come_in(struct fm_client *c)
{
	int rc;

	fm_rest_mapping(c);
	moves.full = false;
	/* Others may have its room. */
	if (fm_rest_is_over(c) || atomic_load(&moves.engine))
		tell_missed(c, true);
	rc = move_all(move_in);
	if (rc == -ENOMEM && runs_from_host(c))
		rc = move_all(move_to_host);
	if (rc)
		gives_up(rc);
	if (!rc || !fm_cuda_managed_away())
		return goes_on_again(c);
	if (atomic_load(&moves.stop) || wanted_out(c))
		return rc == -EIO ? FM_CU_OUT_LOOK : 0;
	fm_cuda_full_trouble(rc == -EIO ? FM_MEM_DRIVER : FM_MEM_DEVICE_FULL);
	return rc == -ENOMEM ? 0 : FM_CU_OUT_LOOK;
}

/* 0: at rest, and memory may be unmapped. -ECANCELED: it is not wished any more. -EBUSY. A rest in
 * which memory is missing is not ended here. */
static int rest(struct fm_client *c, bool (*goes)(void *device))
{
	bool resting = atomic_load(&moves.resting), began = resting;
	uint64_t most = moves.homing ? FM_CU_HOME_REST : FM_CU_REST_MOST;
	uint64_t asked = fm_now(), deadline = fm_add_sat(asked, most);
	struct fm_err why = {0};
	int rc = -EAGAIN;

	while (rc == -EAGAIN && goes(NULL)) {
		rc = began ? 0 : fm_rest_begin(c, deadline, &why);
		began |= !rc;
		if (began)
			rc = fm_rest_moving(c);
		if (rc == -EAGAIN && fm_now() > deadline)
			rc = -EBUSY;
		if (rc == -EAGAIN)
			nap(NULL, FM_REST_LOOK);
	}
	if (rc && !resting)
		fm_rest_end(c);
	if (!rc && !resting) {
		moves.rests_since = fm_now();
		FM_TRACE(memory_rests, moves.rests_since, FM_TRACE_NO_SLOT, 0,
			moves.rests_since - asked, 0, 0);
	}
	return rc == -EAGAIN ? -ECANCELED : rc;
}

/* Until the shares are others, or the host has room for what was refused. */
static bool is_done(struct fm_client *c)
{
	struct wish w = wish_now(c);

	return w.reached && !w.grows;
}

static void look_for_wants(struct fm_cuda_managed *m, void *wants)
{
	struct fm_ledger_device *d = fm_account_row(fm_shim_has_client(), m->row);

	*(bool *)wants |= d && atomic_load(&d->host_wants);
}

static enum fm_mem_trouble trouble_of(int rc)
{
	bool wants = false;

	fm_cuda_managed_each(look_for_wants, &wants);
	return rc == -EIO      ? FM_MEM_DRIVER
	       : rc == -ENOSPC ? FM_MEM_DEVICE_FULL
	       : rc != -ENOMEM ? FM_MEM_FINE
	       : wants         ? FM_MEM_HOST_BUDGET
			       : FM_MEM_HOST_FULL;
}

/* What may be out is out, or the driver refuses. A program whose context has died goes on, so that
 * it sees the driver's error. */
static uint64_t stay_out(struct fm_client *c)
{
	bool missed = is_missed(c);

	if (missed && gives_up(0) && !fm_cuda_managed_away()) {
		fm_rest_mapping(c); /* nobody has to make room for it */
		return goes_on_again(c);
	}
	if (!moves.gave_up)
		tell_missed(c, missed);
	return FM_CU_OUT_LOOK;
}

static uint64_t go_out(struct fm_client *c)
{
	bool first = !atomic_load(&moves.resting);
	int rc;

	if (!is_missed(c)) /* nothing waits for it */
		fm_cuda_full_end();
	if (moves.gave_up && first)
		return FM_NEVER;
	if (first && fm_cuda_managed_engines()) {
		fm_cuda_managed_pin_all(FM_MEM_PIN_ENGINE);
		return FM_NEVER;
	}
	if (moves.gave_up || (moves.full && is_done(c)))
		return stay_out(c);
	rc = rest(c, goes_out);
	if (rc == -EBUSY)
		fm_cuda_managed_trouble(FM_MEM_NO_REST);
	if (rc)
		return rc == -ECANCELED ? 0 : FM_CU_REST_AGAIN;
	if (first) {
		moves.before = works();
		fm_cuda_named_turn(); /* what is launched from now on is for the next one */
	}
	atomic_store(&moves.resting, true);
	rc = move_all(move_out);
	if (first)
		look_for_misses();
	if (rc == -ECANCELED) /* or the context does not let it in */
		return goes_out(NULL) ? stay_out(c) : 0;
	if (rc == -ENOSPC)
		fm_cuda_full_refused();
	moves.full = rc != -ENOSPC;
	moves.gave_up = rc == -EIO;
	fm_cuda_full_trouble(trouble_of(rc));
	ring(true);
	return moves.gave_up ? come_in(c) : moves.full ? FM_CU_OUT_LOOK : FM_CU_ROOM_LOOK;
}

/* --- what runs from the host --- */

/* On the device, of what may move. */
static uint64_t here_of(struct fm_cuda_managed *m, uint64_t *grain)
{
	struct fm_cu_arena_sums s;

	fm_cu_arena_sum(atomic_load(&m->arena), &s);
	*grain = s.grain;
	return s.here - FM_MIN(s.here, s.pinned);
}

static void look_for_room(struct fm_cuda_managed *m, void *room)
{
	if (fm_cu_arena_context(atomic_load(&m->arena)) && !atomic_load(&m->smaller) && move_of(m))
		*(bool *)room |= fm_cu_move_has_room(move_of(m), share_in(m));
}

static void look_for_excess(struct fm_cuda_managed *m, void *excess)
{
	uint64_t grain;

	if (fm_cu_arena_context(atomic_load(&m->arena)))
		*(bool *)excess |= here_of(m, &grain) > cap_of(m);
}

static int move_excess(struct fm_cuda_managed *m, struct fm_cu_move *move)
{
	return fm_cu_move_shrink(move, cap_of(m));
}

/* The process rests for that. What could not be done is tried again, later each time. */
static uint64_t change_place(
	struct fm_client *c, int (*move)(struct fm_cuda_managed *m, struct fm_cu_move *move))
{
	uint64_t again;
	int rc = -EBUSY;

	if (fm_cuda_managed_engines()) {
		fm_cuda_managed_pin_all(FM_MEM_PIN_ENGINE);
		return FM_NEVER;
	}
	moves.homing = true;
	if (!rest(c, goes_on)) {
		atomic_store(&moves.resting, true);
		rc = move_all(move);
		moves.homing = false;
		moves.restless = rc == -EIO || rc == -ENOMEM ? moves.restless : 0;
		if (move == move_home || !rc)
			return come_in(c);
		come_in(c);
	}
	moves.homing = false;
	again = FM_CU_HOME_AGAIN << moves.restless;
	moves.restless += moves.restless < 6;
	moves.home_at = fm_now() + again;
	return again;
}

/* More is on the device than may be. FM_NEVER: it is not. */
static uint64_t shrink(struct fm_client *c)
{
	uint64_t now = fm_now();
	bool excess = false;

	if (!fm_rest_is_over(c) && !fm_cuda_managed_all_pinned())
		fm_cuda_managed_each(look_for_excess, &excess);
	if (!excess)
		return FM_NEVER;
	return now < moves.home_at ? moves.home_at - now : change_place(c, move_excess);
}

static int move_early(struct fm_cuda_managed *m, struct fm_cu_move *move)
{
	struct fm_cu_early e = {.share = atomic_load(&m->smaller) ? 0 : share_in(m),
		.bytes = FM_CU_EARLY_BYTES,
		.before = moves.before};

	return fm_cu_move_home_early(move, &e);
}

/* It runs from the host what has not come, which is tried again, later each time. */
static uint64_t later_early(struct fm_client *c)
{
	uint64_t again = FM_CU_HOME_LOOK << moves.restless;

	end_early(c);
	moves.restless += moves.restless < 6;
	moves.home_at = fm_now() + again;
	return again;
}

/* The program stands still for some of its memory, and goes on. The driver may have less room than
 * its share says. */
static uint64_t stop_early(struct fm_client *c)
{
	uint64_t now = fm_now(), again, passed;
	bool stands = fm_early_stands(c, &passed);
	struct fm_cu_early e;
	int rc;

	if (now - moves.early_at < FM_CU_EARLY_EACH && !(stands && passed != moves.early_passed))
		return FM_CU_EARLY_LOOK;
	moves.early_passed = passed;
	e = hold_early(c);
	if (e.left && !e.fits && now - moves.early_in < FM_CU_EARLY_ROOM)
		return FM_CU_EARLY_LOOK;
	if (!e.fits || fm_cuda_managed_engines()) {
		end_early(c);
		return FM_CU_HOME_LOOK;
	}
	moves.homing = true;
	rc = rest(c, goes_on);
	if (rc) {
		moves.homing = false;
		return later_early(c);
	}
	atomic_store(&moves.resting, true);
	rc = move_all(move_early);
	moves.homing = false;
	moves.restless = rc ? moves.restless : 0;
	again = come_in(c);
	if (rc && moves.early && fm_now() - moves.early_in >= FM_CU_EARLY_ROOM)
		return later_early(c);
	return moves.early ? FM_CU_EARLY_LOOK : again;
}

static void look_whether_given(struct fm_cuda_managed *m, void *given)
{
	*(bool *)given |= share_in(m) != UINT64_MAX;
}

/* What the daemon has made free for this program is nobody else's. */
static bool is_given(struct fm_client *c)
{
	bool given = false;

	if (fm_early_able(c))
		fm_cuda_managed_each(look_whether_given, &given);
	return given;
}

/* It comes to the device when there is room. */
static uint64_t come_home(struct fm_client *c)
{
	uint64_t now = fm_now();
	bool room = false, had = moves.had_room;

	if (!atomic_load(&fm_cuda_managed_mapped) || fm_rest_is_over(c) ||
		fm_cuda_managed_all_pinned())
		return FM_NEVER;
	had |= is_given(c) && !moves.restless;
	if (now < moves.home_at && !had)
		return moves.home_at - now;
	fm_cuda_managed_each(look_for_room, &room);
	moves.had_room = room;
	moves.home_at = now + FM_CU_HOME_LOOK;
	if (!room || !had)
		return FM_CU_HOME_LOOK;
	if (!fm_early_able(c))
		return change_place(c, move_home);
	begin_early(c);
	return moves.early ? 0 : FM_CU_HOME_LOOK;
}

/* --- what is used most --- */

static void look_to_exchange(struct fm_cuda_managed *m, void *any)
{
	if (fm_cu_arena_context(atomic_load(&m->arena)) && move_of(m))
		*(bool *)any |= fm_cu_move_may_exchange(move_of(m));
}

static void count_no_more(struct fm_cuda_managed *m, void *unused)
{
	(void)unused;
	if (moves.move[m->dev])
		fm_cu_move_counts_no_more(moves.move[m->dev]);
}

static int move_exchange(struct fm_cuda_managed *m, struct fm_cu_move *move)
{
	int rc;

	(void)m;
	moves.exchanging = true;
	rc = fm_cu_move_exchange(move);
	moves.exchanging = false;
	return rc;
}

static bool exchanges(void)
{
	const char *said = secure_getenv("FERMATA_MEMORY_EXCHANGE");

	return !said || strcmp(said, "0") != 0;
}

/* What runs from the host since there was no room for it, and is used more than what has the room,
 * takes its place. */
static uint64_t exchange(struct fm_client *c)
{
	uint64_t now = fm_now(), again;
	bool any = false;

	if (!atomic_load(&fm_cuda_managed_mapped) || fm_rest_is_over(c) ||
		fm_cuda_managed_all_pinned()) {
		if (moves.counting)
			fm_cuda_managed_each(count_no_more, NULL);
		moves.counting = false;
		return FM_NEVER;
	}
	if (!moves.counting && !exchanges())
		return FM_NEVER;
	moves.counting = true;
	if (now < moves.exchange_at)
		return moves.exchange_at - now;
	fm_cuda_managed_each(look_to_exchange, &any);
	moves.exchange_at = now + FM_CU_HOME_LOOK;
	if (!any)
		return FM_CU_HOME_LOOK;
	again = change_place(c, move_exchange);
	/* There may be more. The program stands still for a third of the time at most. */
	if (!moves.restless)
		again = FM_MIN(2 * (fm_now() - now), FM_CU_HOME_LOOK);
	moves.exchange_at = fm_now() + again;
	return again;
}

/* When to look again, if nobody asks. */
static uint64_t step(struct fm_client *c)
{
	uint64_t again, trimmed;
	bool out = wanted_out(c);

	if (out && atomic_load(&moves.resting) && fm_cuda_managed_engines_came()) {
		atomic_store(&moves.engine, true);
		out = false;
	}
	pthread_mutex_lock(&moves.lock);
	if (moves.early && (out || atomic_load(&moves.engine) || fm_rest_is_over(c)))
		end_early(c);
	if (!out)
		moves.gave_up = false;
	if (out)
		again = go_out(c);
	else if (atomic_load(&moves.resting))
		again = come_in(c);
	else if (moves.early)
		again = stop_early(c);
	else {
		again = shrink(c);
		again = again == FM_NEVER ? come_home(c) : again;
		/* Not between the two looks of the one that comes home. */
		if (!moves.had_room && !moves.early && !atomic_load(&moves.resting))
			again = FM_MIN(again, exchange(c));
	}
	trimmed = out || atomic_load(&moves.resting) ? FM_NEVER : trim();
	if (!out && !atomic_load(&moves.resting))
		fm_cuda_managed_forget_trouble();
	pthread_mutex_unlock(&moves.lock);
	return FM_MIN(again, trimmed);
}

/* --- the thread --- */

static void wait_for_more(uint32_t seen, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / FM_S), .tv_nsec = (long)(ns % FM_S)};

	syscall(SYS_futex, &moves.asked, FUTEX_WAIT_PRIVATE, seen, ns == FM_NEVER ? NULL : &ts,
		NULL, 0);
}

static void *mover(void *client)
{
	prctl(PR_SET_TIMERSLACK, 1ul); /* of this thread alone */
	for (;;) {
		uint32_t seen = atomic_load(&moves.asked);
		uint64_t again = step(client);

		if (again)
			wait_for_more(seen, again);
	}
	return NULL;
}

/* The agent's signals are blocked, and so are those of the thread that it makes. */
static bool start(struct fm_client *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	rc = pthread_create(&thread, &attr, mover, c);
	pthread_attr_destroy(&attr);
	return !rc;
}

void fm_cuda_mover_wake(void)
{
	atomic_fetch_add(&moves.asked, 1);
	syscall(SYS_futex, &moves.asked, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* What runs from the host comes in by the next look for room. */
void fm_cuda_mover_expect(void)
{
	if (atomic_load(&moves.resting))
		atomic_store(&moves.expected, true);
	fm_cuda_mover_wake();
}

void fm_cuda_mover_look(struct fm_client *c)
{
	uint64_t wished;

	if (!fm_cuda_manages() || c != fm_shim_has_client())
		return;
	fm_cuda_named_look();
	wished = wish_now(c).sum;
	if (wished == atomic_load(&moves.told) &&
		(atomic_load(&moves.started) || !atomic_load(&fm_cuda_managed_mapped)))
		return;
	if (!atomic_load(&moves.started) && !start(c))
		return;
	atomic_store(&moves.started, true);
	atomic_store(&moves.told, wished);
	fm_cuda_mover_wake();
}

/* What is out of that context's memory is nobody's any more. */
void fm_cuda_mover_context_ends(struct fm_cuda_managed *m)
{
	FM_NO_CANCEL;

	atomic_store(&moves.stop, true);
	pthread_mutex_lock(&moves.lock);
	atomic_store(&moves.stop, false);
	if (moves.early)
		end_early(fm_shim_has_client());
	if (moves.move[m->dev]) {
		fm_cu_move_end(moves.move[m->dev], false);
		moves.move[m->dev] = NULL;
	}
	pthread_mutex_unlock(&moves.lock);
}

void fm_cuda_mover_fork_child(void)
{
	moves.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (unsigned i = 0; i < FM_CUDA_MEM_DEVICES; i++)
		moves.move[i] = NULL;
	moves.gave_up = moves.full = moves.missed = moves.homing = moves.had_room = false;
	moves.early = moves.before = false;
	fm_cuda_full_end();
	moves.refused = moves.trim_at = moves.home_at = moves.excess_at = moves.exchange_at = 0;
	moves.counting = false;
	moves.restless = 0;
	atomic_store(&moves.engine, false);
	atomic_store(&moves.expected, false);
	atomic_store(&moves.started, false);
	atomic_store(&moves.told, 0);
	atomic_store(&moves.stop, false);
	atomic_store(&moves.resting, false);
}
