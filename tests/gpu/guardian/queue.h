/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue whose launches are guarded, stopped, and made good: the host's half of the guardian, as
 * small as it can be, so that what is tried here is the images and the device. A batch of launches
 * is recorded, and ends at a gate that waits for the hold word; whoever stops writes hold, then
 * stop; to go on, what was left out is launched again on another stream.
 */
#pragma once
#include "code/cuda/image.h"
#include "driver.h"
#include <stdbool.h>

enum form {
	NATIVE,    /* the image as it is */
	REWRITTEN, /* machine code, rewritten */
	TEXT,      /* PTX, rewritten; the driver compiles it */
	LOOPS,     /* likewise; kernels named k_loop_* can be left in their loops */
	N_FORMS
};
extern const char *const form_name[N_FORMS];

struct images {
	void *module[N_FORMS];
	struct fm_image rewritten[N_FORMS];
};
/* Loads kernels.cubin, or what is made of it or of kernels.ptx, once. */
void images_load(struct images *i, const char *folder, enum form form);

struct function {
	void *handle;
	const char *name;
	bool guarded; /* takes the three parameters */
	unsigned mode;
	unsigned traits;
	bool early; /* the guardian waits for what is in front of it */
};
/* Ends the program if there is none; of one that was left as it is in the image, `guarded` is
 * false. */
struct function function_of(struct images *i, enum form form, const char *name);

enum { MOST_LAUNCHES = 1100, MAP_BYTES = 65536, MOST_ARGS = 8 };

struct arg {
	const void *at;
	size_t size;
};
#define ARG(v) ((struct arg){&(v), sizeof(v)})

struct dims {
	unsigned grid[3], block[3], shared;
	unsigned cluster; /* of so many blocks, if not 0 */
	bool cooperative, overlaps;
};

struct record {
	struct function f;
	struct dims d;
	uint64_t number;
	void *args[MOST_ARGS]; /* copies */
	unsigned n_args;
};

/* How launches are made: the three parameters are given in any case. With EARLY in it, kernels
 * whose guardian waits may begin before what is in front of them has ended; with FOLLOWS every
 * other launch is all or none and does as the one in front of it, as guards have it. */
enum guard {
	UNGUARDED,
	GUARDED,
	GUARDED_GRID /* mode 2, whatever was seen */,
	EARLY = 4,
	FOLLOWS = 8
};

struct head {
	uint32_t stop, left_out;
	uint64_t first, decided;
	uint32_t hold;
	uint64_t area, room, in_loops;
};

struct queue {
	stream s, inner, stopper, urgent;
	device_ptr block;        /* control block */
	device_ptr area;         /* save area; 0: there is none */
	uint32_t *states;        /* what it begins with, as it was read */
	volatile uint32_t *host; /* +0 arrived, +4 passed, +8 urgent, +12 gate */
	device_ptr host_at;
	struct head *seen; /* pinned */
	enum guard guard;  /* without EARLY and FOLLOWS */
	bool early, follows;
	unsigned most_launches, most_blocks; /* of a kernel in a shape; 0: as the case has it */
	uint64_t number;
	uint32_t batch;
	unsigned n;
	struct record *record;
	char *args;
	size_t args_used;
	uint64_t in_loops; /* blocks that were left so, until the last look */
	uint64_t stops, inside, again,
		launches_again; /* stops that left something out; so in the middle of a launch; in a
				   replay; launches made again */
};

void queue_init(struct queue *q);
/* As nobody had used it; and with a save area or without. */
void queue_clear(struct queue *q);
void queue_loops(struct queue *q, bool on);
void queue_begin(struct queue *q, enum guard guard);
/* Left out, or of fewer blocks, if it is more than the queue takes. */
void queue_launch(
	struct queue *q, struct function f, struct dims d, unsigned n, const struct arg *args);
#define LAUNCH(q, f, d, ...)                                                            \
	queue_launch(q, f, d, sizeof((struct arg[]){__VA_ARGS__}) / sizeof(struct arg), \
		(struct arg[]){__VA_ARGS__})
/* The gate behind a batch. */
void queue_end(struct queue *q);
void queue_stop(struct queue *q);
/* Until the device stands at the gate, or is through. */
void queue_rest(struct queue *q);
/* What was left out is done and the gate opened; with chances of other stops, within so many ns,
 * meanwhile. */
void queue_restore(struct queue *q, uint64_t stop_within_ns);
/* Forgets what was left out, for who measures. */
void queue_drop(struct queue *q);
void queue_finish(struct queue *q);
struct head queue_head(struct queue *q);
/* No bit is left in the map, and no thread in the save area. */
void queue_check(struct queue *q);
