/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software device with the optional operations that it has not itself (api/hwqueue.h): what
 * they answer is set by the case, and what was asked is counted. There are two of it: one that
 * looks at gates itself and has a guardian, and one whose driver does not call back.
 */
#pragma once
#include "xqueue_world.h"

static struct {
	/* Answers. */
	_Atomic int fence;                    /* not 0: write_fence fails with it */
	_Atomic bool lost, unfenced, stopped; /* as the operations of these names */
	_Atomic unsigned max_unfenced;        /* likewise */
	_Atomic bool orders, enters;          /* query and enter */
	/* Counts. */
	_Atomic unsigned inner, seams, asked, entered, reaped, closed, orphaned, released, quiesced;
	_Atomic unsigned bells_then; /* rung when something was put in front of work that comes */
} model;

static inline int model_write_fence(void *hwq, const struct fm_gate_words *words, uint64_t finished)
{
	return model.fence ? model.fence
			   : fm_simq_word_ops.device_gate.write_fence(hwq, words, finished);
}

static inline int model_inner(void *hwq, const struct fm_gate_words *words)
{
	if (words)
		model.inner++;
	else
		model.seams++;
	return 0;
}

static inline bool model_lost(void *hwq)
{
	return model.lost;
}

static inline bool model_unfenced(void *hwq)
{
	return model.unfenced;
}

static inline unsigned model_max_unfenced(void *hwq, unsigned n)
{
	return model.max_unfenced;
}

static inline bool model_stopped(void *hwq)
{
	return model.stopped;
}

static inline bool model_query(void *hwq, uint64_t done, uint64_t passed, bool ask)
{
	model.asked += ask;
	return model.orders;
}

static inline bool model_enter(void *hwq, bool put)
{
	if (put) {
		model.bells_then = peer.bells;
		model.entered++;
	}
	return model.enters;
}

static inline void model_close(void *hwq)
{
	model.closed++;
}

static inline void model_release(void *hwq, bool orphaned)
{
	model.orphaned += orphaned;
	fm_simq_ops.release(hwq, orphaned);
	model.released++;
}

static inline void model_quiesce(void *hwq)
{
	model.quiesced++;
}

/* Of level 3 where the device has that. */
static inline struct fm_hw_ops model_ops(void)
{
	struct fm_hw_ops ops = fm_simq_word_ops;

	ops.close = model_close;
	ops.release = model_release;
	ops.quiesce = model_quiesce;
	ops.device_gate.write_fence = model_write_fence;
	ops.device_gate.inner = model_inner;
	ops.lost = model_lost;
	ops.stop = fm_simq_ops.stop;
	ops.guardian = (struct fm_guardian_ops){.unfenced = model_unfenced,
		.max_unfenced = model_max_unfenced,
		.stopped = model_stopped,
		.query = model_query,
		.enter = model_enter};
	return ops;
}

/* A tracker whose end the device has told, or not, and which nobody has asked for. Of one queue;
 * under the XQueue's lock, save what the device writes. The device drops those of a queue that was
 * released, so none is given back. */
struct model_track {
	fm_reached_fn *reached;
	void *cookie;
	_Atomic uint64_t come; /* 0: it has not */
};

static struct {
	struct model_track at[4 * MOST];
	unsigned first, n;
} model_tracks;

static inline void model_track_comes(void *cookie, uint64_t now)
{
	struct model_track *t = cookie;

	t->come = now;
}

static inline int model_track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct model_track *t = &model_tracks.at[model_tracks.n];
	int rc;

	if (model_tracks.n == FM_ARRAY_LEN(model_tracks.at))
		return -ENOMEM;
	t->reached = reached;
	t->cookie = cookie;
	rc = fm_simq_ops.track(hwq, model_track_comes, t);
	model_tracks.n += !rc;
	return rc;
}

static inline void model_tell(bool all)
{
	for (; model_tracks.first < model_tracks.n; model_tracks.first++) {
		struct model_track *t = &model_tracks.at[model_tracks.first];

		if (!all && !t->come)
			break;
		t->reached(t->cookie, t->come ? t->come : fm_now());
	}
}

static inline void model_reap(void *hwq)
{
	model.reaped++;
	model_tell(false);
}

static inline void model_reaped_close(void *hwq)
{
	model.closed++;
	model_tell(true);
}

/* Gates that this process opens, and no callbacks of the driver's. */
static inline struct fm_hw_ops model_reaped_ops(void)
{
	struct fm_hw_ops ops = fm_simq_ops;

	ops.track = model_track;
	ops.reap = model_reap;
	ops.close = model_reaped_close;
	ops.release = model_release;
	return ops;
}
