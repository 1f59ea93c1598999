/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as the program sees them; host functions; operations on words of memory. */
#include "engines.h"
#include "pools.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

fm_cu_result cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	fm_cu_result rc;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	if (!stream || flags > CU_STREAM_NON_BLOCKING)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	rc = fk_stream_new(fk_ctx(), FK_OWN, flags, stream);
	if (!rc)
		(*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	return fk_leave(rc);
}

fm_cu_result cuStreamCreate(CUstream *stream, unsigned flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

/* What it holds is still done. */
fm_cu_result cuStreamDestroy_v2(CUstream stream)
{
	fm_cu_result rc;
	CUstream s;

	FK_TRY(fk_enter());
	rc = !stream || stream == FM_CU_STREAM_LEGACY || stream == FM_CU_STREAM_PER_THREAD
		     ? CU_INVALID_HANDLE
		     : fk_stream_find(stream, &s);
	if (!rc)
		s->live = false;
	return fk_leave(rc);
}

static fm_cu_result find(CUstream stream, CUstream *s)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	fk_hw_lock(fk_ctx());
	rc = fk_stream_find(stream, s);
	return rc ? fk_leave(rc) : FM_CU_SUCCESS;
}

fm_cu_result cuStreamQuery(CUstream stream)
{
	fm_cu_result rc;
	CUstream s;

	FK_TRY(find(stream, &s));
	rc = fk_no_capture(s);
	rc = rc ? rc : fk_implicit(s);
	rc = rc ? rc : fk_unsafe();
	if (!rc && !fk_passed(fk_tail(s)))
		rc = FM_CU_ERROR_NOT_READY;
	return fk_leave(rc);
}

fm_cu_result cuStreamSynchronize(CUstream stream)
{
	fm_cu_result rc;
	CUstream s;

	FK_TRY(fk_fails(__func__));
	FK_TRY(find(stream, &s));
	rc = fk_no_capture(s);
	rc = rc ? rc : fk_implicit(s);
	rc = rc ? rc : fk_unsafe();
	if (!rc) {
		struct fk_work nothing = {0};
		struct fk_point at = fk_tail(s);

		/* The legacy stream stands for all that it orders. */
		if (s->kind == FK_LEGACY)
			rc = fk_submit(s, &nothing, NULL, 0, &at);
		fk_wait(at);
		fk_pools_synced();
	}
	return fk_leave(rc);
}

fm_cu_result cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
	CUstream s;

	FK_TRY(find(stream, &s));
	*ctx = s->ctx;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx, CUgreenCtx *green)
{
	CUstream s;

	FK_TRY(find(stream, &s));
	*green = s->ctx->green;
	*ctx = *green ? &fk.primary[s->ctx->dev] : s->ctx;
	return fk_leave(
		s->ctx->green && s->kind == FK_PER_THREAD ? CU_INVALID_HANDLE : FM_CU_SUCCESS);
}

fm_cu_result cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
	CUstream s;

	FK_TRY(find(stream, &s));
	*green = s->ctx->green;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuStreamGetFlags(CUstream stream, unsigned *flags)
{
	CUstream s;

	FK_TRY(find(stream, &s));
	*flags = s->flags;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuStreamGetId(CUstream stream, unsigned long long *id)
{
	CUstream s;

	FK_TRY(find(stream, &s));
	*id = s->id;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuStreamGetPriority(CUstream stream, int *priority)
{
	CUstream s;

	FK_TRY(find(stream, &s));
	*priority = s->priority;
	return fk_leave(FM_CU_SUCCESS);
}

/* Within it the driver's functions are forbidden. */
static void run_host(struct fk_work *w)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&one_at_a_time);
	fk_self.in_callback = true;
	if (w->host.fn)
		w->host.fn(w->host.arg);
	else
		w->host.callback(w->host.stream, FM_CU_SUCCESS, w->host.arg);
	fk_self.in_callback = false;
	pthread_mutex_unlock(&one_at_a_time);
}

fm_cu_result cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
	struct fk_work w = {.what = FK_HOST, .run = run_host, .host = {.fn = fn, .arg = arg}};

	if (!fn)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	return fk_leave(fk_enqueue(stream, &w, NULL));
}

fm_cu_result cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
	const struct cu_host_node *host)
{
	struct fk_work w = {.what = FK_HOST, .run = run_host};

	if (!host || !host->fn)
		return FM_CU_ERROR_INVALID_VALUE;
	w.host.fn = host->fn;
	w.host.arg = host->arg;
	FK_TRY(fk_enter());
	return fk_leave(fk_graph_compose(node, graph, deps, n, &w));
}

fm_cu_result cuGraphHostNodeGetParams(CUgraphNode node, struct cu_host_node *host)
{
	FK_TRY(fk_enter());
	if (node->work.what != FK_HOST || !node->work.host.fn)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*host = (struct cu_host_node){node->work.host.fn, node->work.host.arg};
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *arg, unsigned flags)
{
	struct fk_work w = {.what = FK_HOST,
		.run = run_host,
		.host = {.callback = fn, .stream = stream, .arg = arg}};
	fm_cu_result rc;
	CUstream s;

	if (!fn || flags)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(find(stream, &s));
	rc = fk_no_capture(s);
	return fk_leave(rc ? rc : fk_enqueue(stream, &w, NULL));
}

static bool reached(const union fm_cu_mem_op *op, uint64_t word, bool wide)
{
	uint64_t mask = wide ? UINT64_MAX : UINT32_MAX, v = op->op.value & mask;

	switch (op->op.flags & 3) {
	case CU_WAIT_GEQ: /* cyclic */
		return wide ? (int64_t)(word - v) >= 0 : (int32_t)(word - v) >= 0;
	case CU_WAIT_EQ:
		return word == v;
	case CU_WAIT_AND:
		return word & v;
	}
	return ~(word | v) & mask;
}

static uint64_t load(const union fm_cu_mem_op *op, bool wide)
{
	return wide ? atomic_load((_Atomic uint64_t *)(uintptr_t)op->op.address)
		    : atomic_load((_Atomic uint32_t *)(uintptr_t)op->op.address);
}

/* Looks often at first, then leaves the processor to others. */
static void wait_value(const union fm_cu_mem_op *op, bool wide)
{
	for (unsigned looks = 0; fk_touches(op->op.address) && !reached(op, load(op, wide), wide);
		looks++)
		if (looks < 50)
			sched_yield();
		else
			usleep(looks < 500 ? 10 : 100);
}

static void run_memop(struct fk_work *w)
{
	if (w->memop.n == 1)
		fk_engine_late_word();
	for (unsigned i = 0; i < w->memop.n; i++) {
		const union fm_cu_mem_op *op = &w->memop.op[i];
		uintptr_t at = (uintptr_t)op->op.address;

		if (!fk_touches(op->op.address))
			return;
		if (op->op.operation == FM_CU_OP_WRITE_VALUE_32)
			atomic_store((_Atomic uint32_t *)at, (uint32_t)op->op.value);
		else if (op->op.operation == FM_CU_OP_WRITE_VALUE_64)
			atomic_store((_Atomic uint64_t *)at, op->op.value);
		else
			wait_value(op, op->op.operation == FM_CU_OP_WAIT_VALUE_64);
		if (op->op.operation == FM_CU_OP_WAIT_VALUE_32 ||
			op->op.operation == FM_CU_OP_WAIT_VALUE_64)
			fk_engine_late();
	}
}

static void end_memop(struct fk_work *w)
{
	free(w->memop.op);
}

static void share_memop(struct fk_work *w)
{
	size_t size = w->memop.n * sizeof(*w->memop.op);
	union fm_cu_mem_op *op = malloc(size);

	if (!op)
		fk_die("no memory for operations on words");
	w->memop.op = memcpy(op, w->memop.op, size);
}

static fm_cu_result check_memop(const union fm_cu_mem_op *op)
{
	bool wide = op->op.operation & (FM_CU_OP_WAIT_VALUE_64);
	bool writes = op->op.operation == FM_CU_OP_WRITE_VALUE_32 ||
		      op->op.operation == FM_CU_OP_WRITE_VALUE_64;

	switch (op->op.operation) {
	case FM_CU_OP_WAIT_VALUE_32:
	case FM_CU_OP_WRITE_VALUE_32:
	case FM_CU_OP_WAIT_VALUE_64:
	case FM_CU_OP_WRITE_VALUE_64:
		break;
	default:
		return FM_CU_ERROR_INVALID_VALUE;
	}
	/* As the real one: the second version of the calls knows no flags of a write. */
	if (writes && (op->op.flags || !fk_writable((void *)(uintptr_t)op->op.address)))
		return FM_CU_ERROR_INVALID_VALUE;
	if (op->op.address % (wide ? 8 : 4) || !fk_reachable((void *)(uintptr_t)op->op.address))
		return FM_CU_ERROR_INVALID_VALUE;
	return FM_CU_SUCCESS;
}

static fm_cu_result words(struct fk_work *w, unsigned n, const union fm_cu_mem_op *ops)
{
	*w = (struct fk_work){.what = FK_WORDS,
		.run = run_memop,
		.end = end_memop,
		.share = share_memop,
		.memop.n = n};
	for (unsigned i = 0; i < n; i++)
		FK_TRY(check_memop(&ops[i]));
	w->memop.op = malloc(n * sizeof(*ops));
	if (!w->memop.op)
		return CU_OUT_OF_MEMORY;
	memcpy(w->memop.op, ops, n * sizeof(*ops));
	return FM_CU_SUCCESS;
}

fm_cu_result cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cu_words_node *what)
{
	struct fk_work w;
	fm_cu_result rc;

	if (!what || !what->n || !what->op)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	rc = words(&w, what->n, what->op);
	return fk_leave(rc ? rc : fk_graph_compose(node, graph, deps, n, &w));
}

fm_cu_result cuStreamBatchMemOp_v2(
	CUstream stream, unsigned n, union fm_cu_mem_op *ops, unsigned flags)
{
	struct fk_work w;
	fm_cu_result rc;

	const char *slow = fk_env("FAKE_CUDA_SLOW_MEMOPS");

	if (slow && n == 1)
		usleep((unsigned)atoi(slow));
	if (fk_env("FAKE_CUDA_NO_MEMOPS"))
		return FM_CU_ERROR_NOT_SUPPORTED;
	if (n > 256 || (n && !ops) || flags)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!n)
		return FM_CU_SUCCESS;
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	rc = words(&w, n, ops);
	return fk_leave(rc ? rc : fk_enqueue(stream, &w, NULL));
}

static fm_cu_result one_memop(
	CUstream stream, uint32_t operation, CUdeviceptr d, uint64_t v, unsigned flags)
{
	union fm_cu_mem_op op = {.op = {operation, d, v, flags, 0}};

	return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

fm_cu_result cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr d, uint32_t v, unsigned flags)
{
	return one_memop(stream, FM_CU_OP_WAIT_VALUE_32, d, v, flags);
}

fm_cu_result cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr d, uint64_t v, unsigned flags)
{
	return one_memop(stream, FM_CU_OP_WAIT_VALUE_64, d, v, flags);
}

fm_cu_result cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr d, uint32_t v, unsigned flags)
{
	return one_memop(stream, FM_CU_OP_WRITE_VALUE_32, d, v, flags);
}

fm_cu_result cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr d, uint64_t v, unsigned flags)
{
	return one_memop(stream, FM_CU_OP_WRITE_VALUE_64, d, v, flags);
}
