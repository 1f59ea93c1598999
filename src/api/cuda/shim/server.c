/* SPDX-License-Identifier: Apache-2.0 */
/* <fermata/cuda.h>: streams that the program binds to groups itself, and controls. */
#pragma GCC visibility push(default)
#include <fermata/cuda.h>
#pragma GCC visibility pop
#include "api/cuda/shim/guard/modules.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "hook.h"
#include "shim.h"
#include "shim/groups.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Images that bypass us when they are loaded would never be rewritten. */
static bool too_late_for_guardian(void)
{
	return !atomic_load(&fm_cuda_rewrites) && fm_cuda_code_given();
}

int fm_cuda_init(const struct fm_cuda_options *options)
{
	bool guardian;
	int rc;

	if (options && (options->size < sizeof(*options) || options->spin_ns > 10 * FM_MS))
		return -EINVAL;
	guardian = options && options->guardian && !fm_client_switched_off();
	if (fm_shim_has_client() || (guardian && too_late_for_guardian()))
		return -EBUSY;
	rc = fm_shim_choose(options ? options->local_policy : NULL, options ? options->spin_ns : 0);
	if (rc)
		return rc;
	if (guardian)
		fm_cuda_rewrite_images();
	return 0;
}

bool fm_cuda_scheduled(void)
{
	struct fm_client *c = fm_shim_client();

	return c && fm_client_connected(c);
}

/* The size of the structure without its later members. */
#define BINDING_LEAST offsetof(struct fm_cuda_binding, pad)

static int32_t pad_of(const struct fm_cuda_binding *b)
{
	return b->size >= sizeof(*b) ? b->pad : 0;
}

static int check_binding(CUstream stream, const struct fm_cuda_binding *b)
{
	int32_t pad = b ? pad_of(b) : 0;

	if (fm_cuda_is_default(stream) || !b || b->size < BINDING_LEAST ||
		b->level > FM_LEVEL_RUNNING)
		return -EINVAL;
	if (pad != FM_CUDA_PAD_NEVER && !fm_pad_percent(pad) &&
		(pad % 8 || fm_hint_check(FM_HINT_PAD, pad, NULL)))
		return -ERANGE;
	if (b->priority == FM_CUDA_PRIORITY_KEEP)
		return 0;
	return fm_hint_check(FM_HINT_PRIORITY, b->priority, NULL);
}

static int bind(struct fm_client *c, CUstream stream, const struct fm_cuda_binding *b)
{
	struct fm_cuda_terms terms = {.level = (enum fm_level)b->level};
	int rc = fm_shim_group(c, b->group);

	if (rc < 0)
		return rc;
	terms.group = (unsigned)rc;
	if (b->preempted || b->resumed) {
		terms.watch = fm_cuda_watch_new(stream, b);
		if (!terms.watch)
			return -ENOMEM;
	}
	rc = fm_cuda_bind_queue(stream, &terms);
	if (rc)
		fm_cuda_watch_put(terms.watch);
	else if (b->priority != FM_CUDA_PRIORITY_KEEP)
		fm_client_hint(c, terms.group, FM_HINT_PRIORITY, b->priority);
	if (!rc && pad_of(b))
		fm_client_hint(c, terms.group, FM_HINT_PAD,
			pad_of(b) == FM_CUDA_PAD_NEVER ? 0 : pad_of(b));
	return rc;
}

int fm_cuda_bind(struct CUstream_st *stream, const struct fm_cuda_binding *binding)
{
	struct fm_client *c;
	int rc = check_binding(stream, binding);

	if (rc)
		return rc;
	if (!fm_cuda_driver())
		return -ENODEV;
	c = fm_shim_client();
	return c ? bind(c, stream, binding) : -ENODEV;
}

int fm_cuda_unbind(struct CUstream_st *stream)
{
	return fm_cuda_is_default(stream) ? -EINVAL : fm_cuda_unbind_queue(stream);
}

/* --- <fermata/bind.h> --- */

int fm_cuda_bind_any(void *queue, const struct fm_binding *b)
{
	const struct fm_cuda_binding own = {
		.size = sizeof(own), .group = b->group, .priority = FM_CUDA_PRIORITY_KEEP};
	int rc = fm_cuda_bind(queue, &own);
	struct fm_cuda_view v;

	if (rc || !fm_cuda_view(queue, &v))
		return rc;
	fm_shim_give_hints(v.xq->client, v.group, b);
	fm_xq_unref(v.xq);
	return 0;
}

/* A stream that a thread has bound is in the group, but the program does not steer it. */
int fm_cuda_unbind_any(void *queue)
{
	int rc = fm_cuda_unbind(queue);

	return rc == -ENOENT ? fm_shim_unbind((uintptr_t)queue) : rc;
}

/* Views a bound stream; the caller releases the XQueue. */
static int take(CUstream stream, struct fm_cuda_view *v)
{
	if (fm_cuda_is_default(stream))
		return -EINVAL;
	if (!fm_cuda_view(stream, v))
		return -ENOENT;
	if (v->bound)
		return 0;
	fm_xq_unref(v->xq);
	return -ENOENT;
}

int fm_cuda_hint(struct CUstream_st *stream, enum fm_hint hint, int64_t value)
{
	struct fm_cuda_view v;
	int rc;

	if ((unsigned)hint >= FM_HINT_COUNT)
		return -EINVAL;
	rc = fm_hint_check(hint, value, NULL);
	rc = rc ? rc : take(stream, &v);
	if (rc)
		return rc;
	rc = fm_client_hint(v.xq->client, v.group, hint, value);
	fm_xq_unref(v.xq);
	return rc;
}

int fm_cuda_suspend(struct CUstream_st *stream, bool wait, uint64_t timeout_ns)
{
	struct fm_cuda_view v;
	int rc = take(stream, &v);

	if (rc)
		return rc;
	rc = fm_xq_suspend(v.xq);
	if (!rc && wait)
		rc = fm_xq_wait_rest(v.xq, timeout_ns);
	fm_xq_unref(v.xq);
	return rc;
}

int fm_cuda_resume(struct CUstream_st *stream)
{
	struct fm_cuda_view v;
	int rc = take(stream, &v);

	if (rc)
		return rc;
	rc = fm_xq_resume(v.xq);
	fm_xq_unref(v.xq);
	return rc;
}

static void describe(const struct fm_cuda_view *v, struct fm_cuda_info *i)
{
	struct fm_xq *q = v->xq;
	struct fm_client_images n;
	struct fm_slot *s = q->slot;

	fm_client_images(q->client, &n);
	i->level = fm_xq_level(q);
	i->levels = q->levels;
	i->completed = fm_slot_done(s);
	i->submitted = fm_xq_mark(q);
	i->device_ns = atomic_load(&s->device_ns);
	i->gates = atomic_load(&s->gates);
	i->preemptions = v->stops;
	i->interrupts = fm_xq_interrupts(q);
	i->guarded = v->guarded;
	i->kernels = n.kernels;
	i->kernels_left = n.kernels_left;
	i->images_left = n.images_left;
	i->bound = v->bound;
	i->suspended = fm_xq_own_suspended(q);
	i->stalled = fm_xq_stalled(q);
	i->scheduled = atomic_load(atomic_load(&q->gate)) == FM_GATE_OPEN;
}

int fm_cuda_query(struct CUstream_st *stream, struct fm_cuda_info *info)
{
	struct fm_cuda_info i = {.size = 0};
	struct fm_cuda_view v;

	if (!info || info->size < sizeof(i) || fm_cuda_is_default(stream))
		return -EINVAL;
	if (!fm_cuda_view(stream, &v))
		return -ENOENT;
	i.size = info->size;
	describe(&v, &i);
	fm_xq_unref(v.xq);
	memcpy(info, &i, sizeof(i));
	return 0;
}
