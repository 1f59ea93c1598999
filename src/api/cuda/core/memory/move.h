/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena's memory goes to the host, and comes back. Out: a chunk is copied to the host, then
 * unmapped and given back to the driver. In: memory is made and mapped at the same address, then
 * the content is copied straight there. Nothing is copied that belongs to no block, is all zeros,
 * or is as the copy that the host has kept (digests.h).
 *
 * The caller sees to it that the device runs nothing of the program meanwhile, and that nobody
 * allocates, frees, or names these addresses to the driver, from the first chunk that goes out
 * until the last one is in (xqueue/rest.h).
 *
 * After whatever error, each chunk is wholly on the device or wholly on the host, and either
 * function can be called again.
 *
 * Threads: one at a time.
 */
#pragma once
#include "arena.h"

struct fm_cu_move;

struct fm_cu_move_ops {
	/* May it go on? Asked all the time. */
	bool (*goes_on)(void *cookie);
	/* So many bytes have gone out or come in; of those that went, so many more without a copy.
	 */
	void (*moved)(void *cookie, bool out, uint64_t bytes, uint64_t kept);
	/* Around calls of the driver. False: one of them might wait for the device. */
	bool (*enter)(void *cookie);
	void (*leave)(void *cookie);
	void (*nap)(void *cookie, uint64_t ns);
	void *cookie;
	/* Bytes that may be on the device while memory is out. Asked before each chunk. NULL: 0. */
	uint64_t (*share)(void *cookie);
	/* What runs from the host comes to the device if it was named in that turn or since. NULL:
	 * whatever was named. */
	uint32_t (*since)(void *cookie);
	/* No more than that is on the device, also of what comes in: the rest runs from the host.
	 * NULL: any amount. */
	uint64_t (*most)(void *cookie);
	/* What goes out is to run from the host, as far as that has room. NULL: it is not. */
	bool (*mapped)(void *cookie);
	/* The device has room for the next chunk that comes in. May be NULL. */
	void (*found)(void *cookie);
};

/* Streams and events of its own, in the arena's context, made at first use. NULL: no memory. */
struct fm_cu_move *fm_cu_move_create(struct fm_cu_arena *a, const struct fm_cu_move_ops *ops);
/* With the context gone, its streams are, too. */
void fm_cu_move_end(struct fm_cu_move *m, bool context_gone);

/* 0: all that may move is out, but for the share; and of what was out, as much is in as there is
 * place for in the share; also what runs from the host. -ENOMEM: the host has no room for the rest.
 * -ENOSPC: the device has none for what is to come in. -ECANCELED: it does not go on. -EIO: the
 * driver refuses. */
int fm_cu_move_out(struct fm_cu_move *m);
/* 0: all of it is in. -ENOMEM: the device has no room, and it does not go on. -ECANCELED, -EIO. */
int fm_cu_move_in(struct fm_cu_move *m);
/* The same; but the device has no more than `share' of it afterwards, unless it has more already,
 * and the rest is mapped from the host, where the device reaches it over the link. */
int fm_cu_move_in_part(struct fm_cu_move *m, uint64_t share);
/* What is out is mapped from the host: for a program that must run without room on the device. 0;
 * -ENOMEM: the host has no room for the rest. -ECANCELED, -EIO. */
int fm_cu_move_borrow(struct fm_cu_move *m);
/* What runs from the host comes to the device, as far as that has room now, and has no more than
 * `share' of it then. 0; -ENOMEM: there is no room for the rest, which stays where it is.
 * -ECANCELED, -EIO. */
int fm_cu_move_home(struct fm_cu_move *m, uint64_t share);
/* A part of that, in the order in which segments name it. Not in the order of use comes what was
 * not named in this turn: in front of the others if work of an earlier turn may still have to run
 * (`before'), else behind them. */
struct fm_cu_early {
	uint64_t share;
	uint64_t bytes; /* so much comes home, but an eighth of all at most, and a chunk at least */
	bool before;
	/* Answers. left: this was not all; fits: the share has room for more. Of the rest: the
	 * first segment that has to wait for it, by number; or all segments; or none. */
	bool left, fits;
	enum { FM_CU_EARLY_NONE, FM_CU_EARLY_FROM, FM_CU_EARLY_ALL } wait;
	uint32_t segment;
};
/* Results as fm_cu_move_home()'s. */
int fm_cu_move_home_early(struct fm_cu_move *m, struct fm_cu_early *e);
/* What would be left if nothing came home. It needs no rest. */
void fm_cu_move_look_early(struct fm_cu_move *m, struct fm_cu_early *e);
/* Of what is on the device so much runs from the host afterwards that `most' is left. 0; -ENOMEM:
 * the host has no room for the rest, which stays. -ECANCELED, -EIO. */
int fm_cu_move_shrink(struct fm_cu_move *m, uint64_t most);
/* What runs from the host and is used more often than what is on the device comes there, and that
 * goes: a part of it at a time (exchange.h). Results as fm_cu_move_home()'s; -ENOMEM: the host has
 * no room for what goes. */
int fm_cu_move_exchange(struct fm_cu_move *m);
/* Is there any? Uses are counted from the first call on. It needs no rest. */
bool fm_cu_move_may_exchange(struct fm_cu_move *m);
void fm_cu_move_counts_no_more(struct fm_cu_move *m);
/* Since the last call: chunks that ran from the host and have changed there, though nothing named
 * them. They are looked at when memory goes out, one in 64. */
unsigned fm_cu_move_changed(struct fm_cu_move *m);
/* Has the device room, and its share, for a chunk that runs from the host and is in use? Also
 * without a rest. */
bool fm_cu_move_has_room(struct fm_cu_move *m, uint64_t share);
/* Has the host's memory to be trimmed, because there is more of it than there may be? */
bool fm_cu_move_exceeds(struct fm_cu_move *m);
/* Host memory that holds nothing goes back to the system; so do copies of what is on the device, if
 * the machine does not have as much left again, or there is more of it than there may be. The
 * driver may wait for the device meanwhile, so nothing must be launched. */
enum fm_cu_trimmed {
	FM_CU_TRIM_ALL,   /* none is left; */
	FM_CU_TRIM_KEEPS, /* there are still such copies; */
	FM_CU_TRIM_MORE   /* this was a part: call it again */
};
enum fm_cu_trimmed fm_cu_move_trim(struct fm_cu_move *m);
