/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "queue.h"

enum { WORDS = 1 << 18, MOST_KERNELS = 4 };

/* What a case runs in: two buffers of WORDS words, and one more region if the kernel has it. */
struct world {
	struct device dev;
	struct images images;
	enum form form; /* of the batch that is made */
	struct queue q;
	device_ptr x, y;
	device_ptr extra[N_FORMS];
	size_t extra_bytes;
	struct function f[N_FORMS][MOST_KERNELS];
	_Alignas(64) char map[128]; /* a tensor map of x: 512 x 512, in tiles of 16 x 16 */
	double seconds;             /* of stops, for each case and form */
	bool never_stop;
};

struct test_case {
	const char *name; /* loop-...: also as PTX that can be left in its loops */
	const char *kernel[MOST_KERNELS];
	unsigned mode; /* of the first kernel's machine code */
	void (*prepare)(struct world *w, enum form form);
	void (*submit)(struct world *w, struct function *f);
};
extern const struct test_case cases[];
extern const unsigned n_cases;

/* Opens the device; once in a process. */
void world_open(struct world *w);
/* Each prints a line, or ends the program. */
void run_case(struct world *w, const struct test_case *c, enum form form, const char *folder);
void run_launching(struct world *w, const char *folder);
void measure_latency(struct world *w, const char *folder);
void measure_loops(struct world *w, const char *folder);
void measure_cost(struct world *w, const char *folder, enum form form);
int load_files(int n, char **file);
