/* SPDX-License-Identifier: Apache-2.0 */
/* Where models run, in each mode. All that the server knows of Fermata is in streams.c. */
#pragma once
#include "device.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum mode {
	MODE_SEQUENTIAL, /* one request at a time, on one stream */
	MODE_STREAMS,    /* a stream for each model */
	MODE_PRIORITY,   /* those of urgent models have the driver's highest priority */
	/* The same, and while an urgent model has work Fermata has the others stopped: */
	MODE_LEVEL2,   /* between two kernels */
	MODE_GUARDIAN, /* between two blocks of a kernel */
	/* Nobody is stopped: urgent models have multiprocessors of their own, by Fermata. */
	MODE_PARTITION,
	MODES
};
extern const char *const mode_names[MODES];
int mode_find(const char *name); /* or -1 */
static inline bool mode_stops(enum mode m)
{
	return m == MODE_LEVEL2 || m == MODE_GUARDIAN;
}

#define STREAMS_PAD_AUTO (-1)

struct streams {
	enum mode mode;
	/* For the mode partition: how many multiprocessors urgent models have, and after how much
	 * time without work the others may use those as well; 0: never. */
	unsigned reserve;
	uint64_t elastic_ns;
	/* For level2 and guardian: how many multiprocessors, at most, the others keep for requests
	 * that nobody stops; 0: none. And do they run beside each other, or in turns? */
	unsigned fill;
	bool beside;
	/* For guardian: on how many multiprocessors those that are stopped go on; 0: on none. */
	int pad;
	uint64_t spin_ns; /* Fermata's thread looks for so long before it sleeps */
	const struct device *device;
};

/* Before all else that has to do with CUDA: whatever looks for the driver's functions earlier gets
 * those that load kernels as they are. */
const char *streams_init(const struct streams *s);
/* With the device open. reserve and fill become what there is. */
const char *streams_share(struct streams *s);

struct model_stream {
	CUstream stream;
	struct fm_cuda_elastic *elastic; /* or NULL; it tells the stream, anew each time */
	_Atomic uint64_t stops;
};
const char *stream_open(
	const struct streams *s, bool urgent, const char *name, struct model_stream *m);
/* The one that nobody stops. */
const char *stream_open_fill(struct model_stream *m);
/* The one for the next kernel. */
const char *stream_next(struct model_stream *m, CUstream *stream);
void stream_close(struct model_stream *m);

/* How it was stopped so far. False: nobody stops it. */
struct stops {
	unsigned level;                   /* as deep as it may be: 1 to 3 */
	uint64_t preemptions, interrupts; /* interrupts: within a kernel */
	uint64_t guarded;                 /* kernels that could be */
	/* Of the whole process: kernels that were made so, and kernels and images left alone. */
	uint64_t kernels, kernels_left, images_left;
};
bool stream_stops(const struct model_stream *m, struct stops *stops);
