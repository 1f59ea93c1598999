/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates in use: which functions of a program have some (by handle), and how far they are
 * trusted. A kernel's templates are on trial for 16 launches, then trusted. Those that lead outside
 * of an allocation are distrusted, and so are those of kernels that were launched when memory was
 * missed: they name whole allocations for 64 turns, and are on trial again. If that happens again
 * during the trial, it takes twice as long each time.
 *
 * Owns: tables of a fixed size; and what is bound, which is never freed.
 * Locks: none; binding is one thread's at a time.
 * Threads: any.
 */
#pragma once
#include "args.h"
#include "template.h"

#define FM_PREDICT_TRIAL    16u /* launches */
#define FM_PREDICT_DISTRUST 64u /* turns */
#define FM_PREDICT_TIMES    6u  /* it is doubled so often at most */
#define FM_PREDICT_KERNELS  4096u
#define FM_PREDICT_HANDLES  8192u /* lossy */
#define FM_PREDICT_PARAMS   512u  /* of a kernel */

/* Where the parameters of a function are. */
struct fm_layout {
	unsigned n;
	struct {
		uint16_t at, size;
	} param[FM_PREDICT_PARAMS];
};

/* The next parameter. With too many of them, or too large ones, n becomes UINT32_MAX. */
void fm_layout_add(struct fm_layout *layout, size_t at, size_t size);

/* A kernel that has templates. */
struct fm_bound {
	const struct fm_kernel_templates *of;
	struct fm_shape *rest;       /* words that have no template, in fm_predicted.params */
	struct fm_layout *layout;    /* NULL: no parameters */
	bool memos;                  /* some template looks at all scalars */
	_Atomic uint32_t uses;       /* up to FM_PREDICT_TRIAL */
	_Atomic uint32_t last;       /* the turn of its last launch */
	_Atomic uint32_t distrusted; /* until this turn; 0: never was */
	_Atomic uint32_t times;      /* it was so again, while on trial */
};

struct fm_predict {
	_Atomic uint64_t handle[FM_PREDICT_HANDLES];
	_Atomic uint32_t next;
	_Atomic uint32_t turn; /* from 1 on */
	_Atomic uint32_t n;
	_Atomic(struct fm_bound *) bound[FM_PREDICT_KERNELS];
};

/* From now on, that function has these templates, which are never freed. 0; -EINVAL: its parameters
 * are not those of the kernel, or no template is of use; -ENOSPC; -ENOMEM. */
int fm_predict_bind(struct fm_predict *p, const void *handle, const struct fm_kernel_templates *of,
	const struct fm_layout *layout);
/* Handles may mean other functions from now on. */
void fm_predict_forget(struct fm_predict *p);

/* NULL: it has none. Takes no lock. */
struct fm_bound *fm_predict_find(const struct fm_predict *p, const void *handle);

/* A launch of it: the parameters as the device has them. False: it is distrusted, or a parameter
 * is missing, and whole allocations are to be named. */
struct fm_predicted {
	struct fm_bound *of;
	struct fm_launch launch;
	uint64_t key;
	uint8_t params[FM_TEMPLATE_PARAMS];
};
bool fm_predict_begin(struct fm_predict *p, struct fm_bound *b, const uint32_t *dims,
	void *const *params, struct fm_predicted *out);
/* Names what it touches. */
void fm_predict_touch(struct fm_predict *p, const struct fm_predicted *l, struct fm_touch *t);
/* The same, said to a function: blocks by an address in them, spans by their addresses. */
typedef void fm_predict_block(void *arg, uint64_t address);
typedef void fm_predict_span(void *arg, uint64_t address, const struct fm_span *span);
void fm_predict_each(const struct fm_predicted *l, const struct fm_tensor_maps *maps,
	fm_predict_block *block, fm_predict_span *span, void *arg);

/* A turn is over (fm_touch_turn). */
void fm_predict_turn(struct fm_predict *p);
/* Memory was used that was not foretold: the kernels that were launched in the present turn or in
 * the `turns` before it are distrusted. Any thread; takes no lock. Returns how many. */
unsigned fm_predict_distrust(struct fm_predict *p, uint32_t turns);

/* Kernels that were launched, for people. */
struct fm_predict_counts {
	uint32_t trial, trusted, distrusted;
	uint32_t pointers[FM_FORMS];
};
void fm_predict_count(const struct fm_predict *p, struct fm_predict_counts *out);
