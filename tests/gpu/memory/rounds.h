/* SPDX-License-Identifier: Apache-2.0 */
/* P11: what the processes of a round share, and memory of the host for what leaves the device. */
#pragma once
#include "host.h"
#include <sys/types.h>

enum { MOVERS = 3, ROUNDS_MOST = 27, CHUNKS = 2048, SLAB = 128 * 1024 * 1024, BLOCKS_MOST = 8192 };
/* SHARED: registered memory of one file for all, which grows as it is needed and is used again.
 * OWN: registered anonymous memory of each process, kept. CHUNKS_NEW: chunks of the host, made and
 * released each time. CHUNKS_KEPT: likewise, kept. */
enum mode { SHARED, OWN, CHUNKS_NEW, CHUNKS_KEPT };

struct row {
	enum mode mode;
	size_t chunk, piece; /* a piece is copied at once; more than one in a chunk: it is a slab */
	bool beside;         /* the third process computes */
	int rounds;
};

enum action { SETUP, LEAVE, TAKE_REST, ROUND, GIVE_REST, TEARDOWN, QUIT };
struct shared {
	struct row row;
	enum action action;
	int who, round;
	size_t set; /* bytes of each process */
	_Atomic int step, done, computing, go, out, stop, failed;
	double began, ended[MOVERS], make_us[MOVERS], get_us[MOVERS], unmap_us[MOVERS];
	_Atomic uint64_t read_bytes, bad;
	double read_us;
	/* The pool of all: blocks that are free. */
	_Atomic int lock;
	int fd, n_free, free_blocks[BLOCKS_MOST];
	size_t grown; /* bytes that have pages */
};
extern struct shared *sh;
extern int me;

/* Room for chunk i of this process on the host, until it is put back. */
size_t pool_size(int sets); /* of the file, or of one's own memory */
void room_setup(void);
CUdeviceptr room_get(int i);
CUdeviceptr room_of(int i);
void room_put(int i);
void room_teardown(void);
