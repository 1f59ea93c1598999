/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of command that names memory of the device, each with what it does to that memory. */
#pragma once
#include "gpu.h"

/* T is the range of addresses that is moved, of two chunks; the others stay where they are. */
enum place { T, PLAIN, PINNED, PAGEABLE, PLACES };
#define CHUNK (2 * MiB)
#define RANGE (2 * CHUNK)
#define FAR   (CHUNK - 2048) /* 4 KiB from here lie in both chunks */

enum how {
	SYNC,       /* cuMemcpy */
	SYNC_TYPED, /* cuMemcpyHtoD and its like */
	SYNC_2D,
	SYNC_3D,
	COPY, /* cuMemcpyAsync */
	COPY_TYPED,
	COPY_2D,
	COPY_3D,
	COPY_BATCH,
	COPY_PEER,
	COPY_NODE,
	COPY_CAPTURED,
	COPIES,
	FILL8_SYNC = COPIES,
	FILL2D_SYNC,
	FILL8,
	FILL16,
	FILL32,
	FILL2D,
	FILL_NODE,
	KERNEL,
	KERNEL_NODE,
	KERNEL_CAPTURED,
	TEXTURE,      /* made before the command is given */
	TEXTURE_MADE, /* made with the command */
	WRITE_WORD,
};

struct command {
	enum how how;
	enum place from, to;
	size_t from_at, to_at, n;
};

struct places {
	CUdeviceptr t, plain;
	char *pinned, *pageable;
	CUstream s;
};

/* What was made for a command before it is given. */
struct prepared {
	CUgraph graph;
	CUgraphExec exec;
	texture t;
	const char *step; /* the call that was last made */
};

enum { COMMANDS_MOST = 160 };
extern struct command commands[COMMANDS_MOST];
int commands_make(void); /* returns how many */
void command_name(const struct command *c, char *out, size_t size);
bool command_waits(const struct command *c); /* on the default stream, for its end */
CUstream command_stream(const struct command *c, const struct places *p);

int command_prepare(const struct command *c, const struct places *p, struct prepared *r);
int command_give(const struct command *c, const struct places *p, struct prepared *r);
void command_clean(struct prepared *r);
/* The same, on copies of all places. */
void command_effect(const struct command *c, char *const mem[PLACES]);

/* A pattern, another for each number. */
void pattern(char *p, size_t size, uint32_t number);
