/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands touch. Where there is nothing, or nothing that they may access, the device is lost.
 * What is unmapped while a command runs that touches it ends the process with a word: on a device
 * that goes well now and then, and a test is to find it each time.
 */
#include "image.h"
#include "vmm.h"
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

static _Thread_local sigjmp_buf *landing; /* of the command that this thread executes */
static _Thread_local sigset_t mask;       /* as it was when it faulted */
static struct sigaction before;

static void on_fault(int sig, siginfo_t *info, void *more)
{
	if (landing) {
		mask = ((const ucontext_t *)more)->uc_sigmask;
		siglongjmp(*landing, 1);
	}
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(sig, info, more);
	else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
		sigaction(SIGSEGV, &before, NULL); /* it happens once more */
	else
		before.sa_handler(sig);
}

/* With the lock. */
void fk_touch_init(void)
{
	struct sigaction a = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

	if (!fk_vmm_used)
		sigaction(SIGSEGV, &a, &before);
}

void fk_catch(void (*run)(void *arg), void *arg)
{
	sigjmp_buf here, *outer = landing;

	if (!fk_vmm_used) {
		run(arg);
		return;
	}
	if (!sigsetjmp(here, 0)) {
		landing = &here;
		run(arg);
		landing = outer;
		return;
	}
	landing = outer;
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_mutex_lock(&fk.lock);
	fk_lose(CU_ILLEGAL_ADDRESS);
	pthread_mutex_unlock(&fk.lock);
}

static void run_work(void *work)
{
	struct fk_work *w = work;

	w->run(w);
}

static void set_running(const struct fk_work *w)
{
	pthread_mutex_lock(&fk.lock);
	fk_worker->running = w;
	pthread_mutex_unlock(&fk.lock);
}

static bool is_denied(const struct fk_work *w);

/* What a host function does is the program's. */
void fk_run_work(struct fk_work *w)
{
	bool tell = fk_vmm_used && !fk_plan_graph(w);

	if (!w->run)
		return;
	if (!tell) {
		w->run(w);
		return;
	}
	if (is_denied(w))
		return;
	set_running(w);
	if (w->what == FK_HOST)
		w->run(w);
	else
		fk_catch(run_work, w);
	set_running(NULL);
}

/* --- what a command touches --- */

struct bytes {
	uintptr_t at;
	size_t size;
};

static bool meet(struct bytes b, uintptr_t at, size_t n)
{
	return at < b.at + b.size && b.at < at + n;
}

uint64_t fk_launch_param(const struct fk_launch *l, unsigned i)
{
	const struct fk_param *p = &l->entry->param[i];
	uint64_t v = 0;

	memcpy(&v, l->params + p->at, p->size < sizeof(v) ? p->size : sizeof(v));
	return v;
}

size_t fk_reach_of(const struct fk_launch *l, unsigned i)
{
	const struct fk_kernel *k = l->entry->kernel;

	for (const struct fk_reach *r = k->reach; r < k->reach + 3; r++)
		if (r->param == i && (r->times || r->more))
			return (r->times ? fk_launch_param(l, r->by) * r->times : 0) + r->more;
	return 4;
}

uint64_t fk_reach_from(const struct fk_launch *l, unsigned i)
{
	const struct fk_kernel *k = l->entry->kernel;
	uint64_t at = fk_launch_param(l, i);

	for (const struct fk_reach *r = k->reach; r < k->reach + 3; r++)
		if (r->param == i && r->by & FK_REACH_MIB)
			return at + (fk_launch_param(l, r->by & ~FK_REACH_MIB) << 20);
	return at;
}

static bool launch_touches(const struct fk_launch *l, struct bytes b)
{
	for (unsigned i = 0; i < l->entry->n_params; i++)
		if (l->entry->param[i].size == 8 && meet(b, fk_reach_from(l, i), fk_reach_of(l, i)))
			return true;
	return false;
}

static bool words_touch(const struct fk_work *w, struct bytes b)
{
	for (unsigned i = 0; i < w->memop.n; i++)
		if (meet(b, w->memop.op[i].op.address, 4))
			return true;
	return false;
}

size_t fk_extent(size_t pitch, size_t width, size_t height)
{
	return height ? (height - 1) * pitch + width : 0;
}

static bool copy_touches(const struct fk_work *w, struct bytes b)
{
	size_t to = fk_extent(w->copy.dst_pitch, w->copy.width, w->copy.height);
	size_t from = fk_extent(w->copy.src_pitch, w->copy.width, w->copy.height);

	return meet(b, (uintptr_t)w->copy.dst, to) ||
	       (!w->copy.staged && meet(b, (uintptr_t)w->copy.src, from));
}

static const char *touches(const struct fk_work *w, struct bytes b)
{
	const struct fk_launch *l = fk_work_launch(w);

	if (w->what == FK_COPY)
		return copy_touches(w, b) ? "a copy" : NULL;
	if (w->what == FK_FILL)
		return meet(b, (uintptr_t)w->set.dst, w->set.n * w->set.width) ? "a fill" : NULL;
	if (w->what == FK_WORDS)
		return words_touch(w, b) ? "an operation on words" : NULL;
	return l && launch_touches(l, b) ? l->entry->name : NULL;
}

static const char *kernel_touches(uintptr_t at, size_t n, void *launch)
{
	return launch_touches(launch, (struct bytes){at, n}) ? "a kernel" : NULL;
}

/* A kernel on another device than the memory's that has not been given access. Copies between
 * devices go by way of both. */
static bool is_denied(const struct fk_work *w)
{
	const struct fk_launch *l = fk_work_launch(w);
	bool denied;

	if (!l)
		return false;
	pthread_mutex_lock(&fk.lock);
	denied = fk_vmm_denied(fk_worker->ctx->dev, kernel_touches, (void *)l);
	if (denied)
		fk_lose(CU_ILLEGAL_ADDRESS);
	pthread_mutex_unlock(&fk.lock);
	return denied;
}

static struct bytes engine[8];

void fake_cuda_engine(unsigned long long at, size_t size, int yes)
{
	unsigned i = 0;

	pthread_mutex_lock(&fk.lock);
	while (i < 8 && engine[i].at != (yes ? 0 : at))
		i++;
	if (i == 8)
		fk_die("fake_cuda_engine: too many ranges, or none such");
	engine[i] = yes ? (struct bytes){at, size} : (struct bytes){0};
	pthread_mutex_unlock(&fk.lock);
}

void fk_touch_check(uintptr_t at, size_t size)
{
	const char *who;

	for (unsigned i = 0; i < 8; i++)
		if (meet(engine[i], at, size))
			fk_die("memory at %#lx is unmapped that another engine uses",
				(unsigned long)at);
	for (CUstream s = fk.streams; s; s = s->next) {
		who = s->running && !fk.lost ? touches(s->running, (struct bytes){at, size}) : NULL;
		if (who)
			fk_die("memory at %#lx is unmapped under a command that runs: %s",
				(unsigned long)at, who);
	}
}
