/* SPDX-License-Identifier: Apache-2.0 */
/* A batch for each thing that a guardian might get wrong. What it writes must not depend on what
 * stops it. */
#include "world.h"
#include <string.h>

enum { MAX_DYNAMIC_SHARED = 8, STATIC_SHARED = 16384 };

/* So much shared memory that only so many blocks run at the same time on a multiprocessor: a stop
 * finds a kernel of which others have not begun. */
static unsigned scarce(struct world *w, unsigned blocks)
{
	return ((unsigned)w->dev.shared_most - STATIC_SHARED) / blocks;
}

static void prepare_scarce(struct world *w, enum form form)
{
	CU(cuFuncSetAttribute(w->f[form][0].handle, MAX_DYNAMIC_SHARED, (int)scarce(w, 1)));
}

static void inc(struct world *w, struct function *f)
{
	unsigned cycles = 20000;

	for (int i = 0; i < 20; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {8000}, .block = {64}}), ARG(w->x),
			ARG(cycles));
}

/* Nearly as many blocks as there are bits. */
static void many(struct world *w, struct function *f)
{
	unsigned cycles = 1000;

	for (int i = 0; i < 10; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {WORDS}, .block = {32}}), ARG(w->x),
			ARG(cycles));
}

static void chain(struct world *w, struct function *f)
{
	unsigned cycles = 10000;

	for (unsigned i = 0; i < 60; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){
				.grid = {WORDS / 256}, .block = {256}, .shared = scarce(w, 2)}),
			ARG(w->x), ARG(i), ARG(cycles));
}

/* Kernels so short that a stop meets several of them. */
static void short_chain(struct world *w, struct function *f)
{
	unsigned cycles = 0;

	for (unsigned i = 0; i < 400; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {16}, .block = {256}}), ARG(w->x),
			ARG(i), ARG(cycles));
}

/* Blocks that are no whole number of warps. */
static void threads(struct world *w, struct function *f)
{
	static const unsigned size[] = {1, 31, 33, 97, 1000};
	unsigned cycles = 10000;

	for (unsigned i = 0; i < 40; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){
				.grid = {260}, .block = {size[i % 5]}, .shared = scarce(w, 1)}),
			ARG(w->x), ARG(i), ARG(cycles));
}

static void ping_pong(
	struct world *w, struct function *f, struct dims d, unsigned cycles, unsigned launches)
{
	unsigned n = d.grid[0] * d.block[0];

	for (unsigned i = 0; i < launches; i++) {
		device_ptr out = i % 2 ? w->x : w->y, in = i % 2 ? w->y : w->x;

		LAUNCH(&w->q, f[0], d, ARG(out), ARG(in), ARG(n), ARG(i), ARG(cycles));
	}
}

static void cross(struct world *w, struct function *f)
{
	ping_pong(w, f,
		(struct dims){.grid = {WORDS / 256}, .block = {256}, .shared = scarce(w, 2)}, 10000,
		40);
}

/* In launches as ever, each in front of one that may begin, if it waits, when all blocks of this
 * one have begun. */
static void tells(struct world *w, struct function *f)
{
	struct dims d = {.grid = {WORDS / 256}, .block = {256}};
	unsigned n = WORDS, cycles = 10000;

	for (unsigned i = 0; i < 40; i++) {
		device_ptr out = i % 2 ? w->x : w->y, in = i % 2 ? w->y : w->x;

		LAUNCH(&w->q, f[i % 2], d, ARG(out), ARG(in), ARG(n), ARG(i), ARG(cycles));
	}
}

static void overlap(struct world *w, struct function *f)
{
	ping_pong(w, f, (struct dims){.grid = {264}, .block = {256}, .overlaps = true}, 20000, 60);
}

static void none(struct world *w, struct function *f)
{
	for (unsigned i = 0; i < 40; i++)
		queue_launch(&w->q, f[0], (struct dims){.grid = {4096}, .block = {128}}, 0, NULL);
}

static void prepare_none(struct world *w, enum form form)
{
	CU(cuModuleGetGlobal_v2(
		&w->extra[form], &w->extra_bytes, w->images.module[form], "none_count"));
}

static void large(struct world *w, struct function *f)
{
	static struct {
		unsigned w[4000];
	} p;
	unsigned cycles = 10000;

	for (unsigned i = 0; i < 4000; i++)
		p.w[i] = i * 2654435761u;
	for (unsigned i = 0; i < 40; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){.grid = {528}, .block = {256}, .shared = scarce(w, 2)}),
			ARG(p), ARG(w->x), ARG(i), ARG(cycles));
}

static void almost(struct world *w, struct function *f)
{
	static struct {
		unsigned w[1085];
	} p;
	unsigned cycles = 10000;

	for (unsigned i = 0; i < 1085; i++)
		p.w[i] = i * 2654435761u;
	for (unsigned i = 0; i < 40; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){.grid = {528}, .block = {256}, .shared = scarce(w, 2)}),
			ARG(p), ARG(w->x), ARG(i), ARG(cycles));
}

static void odd(struct world *w, struct function *f)
{
	unsigned cycles = 10000;

	for (unsigned i = 0; i < 40; i++) {
		char o = (char)(i * 7);

		LAUNCH(&w->q, f[0],
			((struct dims){.grid = {1000}, .block = {256}, .shared = scarce(w, 2)}),
			ARG(w->x), ARG(cycles), ARG(o));
	}
}

static void shared(struct world *w, struct function *f)
{
	unsigned bytes = (unsigned)w->dev.shared_most, words = bytes / 4, cycles = 10000;

	for (unsigned i = 0; i < 10; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {500}, .block = {512}, .shared = bytes}),
			ARG(w->x), ARG(words), ARG(i), ARG(cycles));
}

static void prepare_shared(struct world *w, enum form form)
{
	CU(cuFuncSetAttribute(w->f[form][0].handle, MAX_DYNAMIC_SHARED, w->dev.shared_most));
}

static void plain(
	struct world *w, struct function *f, struct dims d, unsigned cycles, unsigned launches)
{
	for (unsigned i = 0; i < launches; i++)
		LAUNCH(&w->q, f[0], d, ARG(w->x), ARG(i), ARG(cycles));
}

static void setmaxreg(struct world *w, struct function *f)
{
	plain(w, f, (struct dims){.grid = {400}, .block = {384}}, 20000, 30);
}

static void of_256(struct world *w, struct function *f)
{
	plain(w, f, (struct dims){.grid = {1000}, .block = {256}, .shared = scarce(w, 2)}, 10000,
		40);
}

static void of_128(struct world *w, struct function *f)
{
	plain(w, f, (struct dims){.grid = {1000}, .block = {128}, .shared = scarce(w, 2)}, 10000,
		40);
}

static void of_512(struct world *w, struct function *f)
{
	plain(w, f, (struct dims){.grid = {500}, .block = {512}, .shared = scarce(w, 2)}, 10000,
		40);
}

static void wide(struct world *w, struct function *f)
{
	plain(w, f, (struct dims){.grid = {256}, .block = {1024}, .shared = scarce(w, 1)}, 10000,
		60);
}

static void solid(struct world *w, struct function *f)
{
	plain(w, f, (struct dims){.grid = {9, 11, 7}, .block = {8, 4, 7}, .shared = scarce(w, 2)},
		10000, 40);
}

static void cluster(struct world *w, struct function *f)
{
	plain(w, f, (struct dims){.grid = {1000}, .block = {128}}, 20000, 40);
}

static void cluster_launch(struct world *w, struct function *f)
{
	for (unsigned size = 1; size <= 8; size *= 2)
		plain(w, f, (struct dims){.grid = {1024}, .block = {128}, .cluster = size}, 20000,
			10);
}

static void tensor(struct world *w, struct function *f)
{
	struct {
		_Alignas(64) char bytes[128];
	} map;
	unsigned cycles = 10000;

	memcpy(map.bytes, w->map, sizeof(map.bytes));
	for (unsigned i = 0; i < 40; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){.grid = {32, 32}, .block = {256}, .shared = scarce(w, 2)}),
			ARG(map), ARG(w->y), ARG(i), ARG(cycles));
}

static void prepare_tensor(struct world *w, enum form form)
{
	enum { UINT32 = 2 };
	uint64_t size[2] = {512, 512}, pitch[1] = {2048};
	uint32_t box[2] = {16, 16}, step[2] = {1, 1};

	prepare_scarce(w, form);
	CU(cuTensorMapEncodeTiled(
		w->map, UINT32, 2, (void *)(uintptr_t)w->x, size, pitch, box, step, 0, 0, 0, 0));
}

static void grid_sync(struct world *w, struct function *f)
{
	unsigned n = 132 * 256, rounds = 3, cycles = 5000;

	for (unsigned i = 0; i < 20; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){.grid = {132}, .block = {256}, .cooperative = true}),
			ARG(w->x), ARG(n), ARG(rounds), ARG(cycles));
}

static void lookback(struct world *w, struct function *f)
{
	unsigned cycles = 5000;

	for (unsigned i = 1; i <= 8; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {600}, .block = {1024}}), ARG(w->x),
			ARG(w->y), ARG(i), ARG(cycles));
}

static void atomics(struct world *w, struct function *f)
{
	unsigned cycles = 10000;

	for (unsigned i = 0; i < 30; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){.grid = {2000}, .block = {256}, .shared = scarce(w, 2)}),
			ARG(w->x), ARG(cycles));
}

/* Of several kinds, one behind the other: by blocks, whole grids, and again by blocks. */
static void mixed(struct world *w, struct function *f)
{
	unsigned cycles = 10000, n = 132 * 256, rounds = 1;

	for (unsigned i = 1; i <= 12; i++) {
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {1000}, .block = {256}}), ARG(w->x),
			ARG(i), ARG(cycles));
		LAUNCH(&w->q, f[1],
			((struct dims){.grid = {132}, .block = {256}, .cooperative = true}),
			ARG(w->x), ARG(n), ARG(rounds), ARG(cycles));
		LAUNCH(&w->q, f[2], ((struct dims){.grid = {400}, .block = {128}}), ARG(w->x),
			ARG(i), ARG(cycles));
		LAUNCH(&w->q, f[3], ((struct dims){.grid = {3000}, .block = {64}}), ARG(w->x),
			ARG(cycles));
	}
}

/* --- loops --- */

static void loop_grind(struct world *w, struct function *f)
{
	unsigned n = 20000;

	for (unsigned i = 0; i < 6; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {1000}, .block = {256}}), ARG(w->x),
			ARG(n));
}

/* Blocks that are no whole number of warps, in three directions, and threads that end early. */
static void loop_rounds(struct world *w, struct function *f)
{
	static const unsigned size[] = {1, 33, 97, 250};
	unsigned n = 30000;

	for (unsigned i = 0; i < 12; i++)
		LAUNCH(&w->q, f[0],
			((struct dims){.grid = {60, 2, 2}, .block = {size[i % 4], 2, 2}}),
			ARG(w->x), ARG(n));
}

static void loop_nested(struct world *w, struct function *f)
{
	unsigned n = 300, mask = 15;

	for (unsigned i = 0; i < 8; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {700}, .block = {192}}), ARG(w->x),
			ARG(n), ARG(mask));
}

static void loop_stride(struct world *w, struct function *f)
{
	unsigned n = WORDS, rounds = 200;

	for (unsigned i = 0; i < 6; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {132}, .block = {512}}), ARG(w->x),
			ARG(w->y), ARG(n), ARG(rounds));
}

static void loop_red(struct world *w, struct function *f)
{
	unsigned n = 1000;

	for (unsigned i = 0; i < 6; i++)
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {132}, .block = {256}}), ARG(w->x),
			ARG(n));
}

/* Those that can be left in a loop, and between two of them those that cannot. */
static void loop_mixed(struct world *w, struct function *f)
{
	unsigned n = 10000, mask = 7, rounds = 100, few = 100;

	for (unsigned i = 0; i < 5; i++) {
		LAUNCH(&w->q, f[0], ((struct dims){.grid = {500}, .block = {256}}), ARG(w->x),
			ARG(n));
		LAUNCH(&w->q, f[1], ((struct dims){.grid = {500}, .block = {64}}), ARG(w->x),
			ARG(few), ARG(mask));
		LAUNCH(&w->q, f[2], ((struct dims){.grid = {132}, .block = {256}}), ARG(w->x),
			ARG(w->y), ARG(n), ARG(rounds));
	}
}

const struct test_case cases[] = {
	{"inc", {"k_inc"}, FM_GUARD_BLOCK, NULL, inc},
	{"many", {"k_inc"}, FM_GUARD_BLOCK, NULL, many},
	{"chain", {"k_chain"}, FM_GUARD_BLOCK, prepare_scarce, chain},
	{"short", {"k_chain"}, FM_GUARD_BLOCK, NULL, short_chain},
	{"threads", {"k_chain"}, FM_GUARD_BLOCK, prepare_scarce, threads},
	{"cross", {"k_cross"}, FM_GUARD_BLOCK, prepare_scarce, cross},
	{"none", {"k_none"}, FM_GUARD_BLOCK, prepare_none, none},
	{"almost", {"k_almost"}, FM_GUARD_BLOCK, prepare_scarce, almost},
	{"large", {"k_large"}, FM_GUARD_BLOCK, prepare_scarce, large},
	{"odd", {"k_odd"}, FM_GUARD_BLOCK, prepare_scarce, odd},
	{"shared", {"k_shared"}, FM_GUARD_BLOCK, prepare_shared, shared},
	{"setmaxreg", {"k_setmaxreg"}, FM_GUARD_BLOCK, NULL, setmaxreg},
	{"bulk", {"k_bulk"}, FM_GUARD_BLOCK, prepare_scarce, of_256},
	{"tensor", {"k_tensor"}, FM_GUARD_BLOCK, prepare_tensor, tensor},
	{"wide", {"k_wide"}, FM_GUARD_BLOCK, prepare_scarce, wide},
	{"3d", {"k_3d"}, FM_GUARD_BLOCK, prepare_scarce, solid},
	{"barriers", {"k_barriers"}, FM_GUARD_BLOCK, prepare_scarce, of_512},
	{"stack", {"k_stack"}, FM_GUARD_BLOCK, prepare_scarce, of_256},
	{"registers", {"k_registers"}, FM_GUARD_BLOCK, prepare_scarce, of_128},
	{"atomics", {"k_atomics"}, FM_GUARD_BLOCK, prepare_scarce, atomics},
	{"calls", {"k_calls"}, FM_GUARD_GRID, prepare_scarce, of_256},
	{"cluster", {"k_cluster"}, FM_GUARD_GRID, NULL, cluster},
	{"cluster-launch", {"k_cluster_launch"}, FM_GUARD_GRID, NULL, cluster_launch},
	{"overlap", {"k_overlap"}, FM_GUARD_BLOCK, NULL, overlap},
	{"tells", {"k_overlap", "k_cross"}, FM_GUARD_BLOCK, NULL, tells},
	{"grid-sync", {"k_grid_sync"}, FM_GUARD_GRID, NULL, grid_sync},
	{"lookback", {"k_lookback"}, FM_GUARD_GRID, NULL, lookback},
	{"loop-grind", {"k_loop_grind"}, FM_GUARD_BLOCK, NULL, loop_grind},
	{"loop-rounds", {"k_loop_rounds"}, FM_GUARD_BLOCK, NULL, loop_rounds},
	{"loop-nested", {"k_loop_nested"}, FM_GUARD_BLOCK, NULL, loop_nested},
	{"loop-stride", {"k_loop_stride"}, FM_GUARD_BLOCK, NULL, loop_stride},
	{"loop-red", {"k_loop_red"}, FM_GUARD_BLOCK, NULL, loop_red},
	{"loop-mixed", {"k_loop_grind", "k_loop_nested", "k_loop_stride"}, FM_GUARD_BLOCK, NULL,
		loop_mixed},
	{"mixed", {"k_chain", "k_grid_sync", "k_cluster", "k_inc"}, FM_GUARD_BLOCK, NULL, mixed},
};
const unsigned n_cases = sizeof(cases) / sizeof(*cases);
