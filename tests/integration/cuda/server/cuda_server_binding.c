/* SPDX-License-Identifier: Apache-2.0 */
/* Streams are bound and no longer bound, come, go and end; what is refused, or comes too late. */
#include "../guard/cuda_guard.h"
#include "cuda_server.h"

static void binds_what_is_idle(void)
{
	struct fm_cuda_binding other = binding("other", FM_CUDA_PRIORITY_KEEP),
			       own = binding(NULL, 0);

	bind_both(0);
	stand(batch);
	work(batch, out[1], 1);
	IS(-EBUSY, fm_cuda_bind(batch, &other));
	IS(-EBUSY, fm_cuda_unbind(batch));
	MUST(info(batch).bound);
	let_go(batch);
	CU(cuStreamSynchronize(batch));
	IS(0, fm_cuda_bind(batch, &other));
	MUST(info(batch).submitted == 0);
	work(batch, out[1], 10);
	CU(cuStreamSynchronize(batch));
	IS(0, fm_cuda_bind(batch, &own));
	IS(0, fm_cuda_hint(batch, FM_HINT_WEIGHT, 5));
	work(batch, out[1], 10);
	CU(cuStreamSynchronize(batch));
	IS(0, fm_cuda_unbind(batch));
	IS(-ENOENT, fm_cuda_unbind(batch));
	work(batch, out[1], 10);
	CU(cuStreamSynchronize(batch));
	MUST(!info(batch).bound);
	MUST(info(batch).submitted == 10);
	MUST(words[1][0] == after(31));
	MUST(!told.preempted);
}

/* In a thread without a context. */
static void *unbind_one(void *unbound)
{
	IS(0, fm_cuda_unbind(batch));
	MUST(!told.inside);
	*(_Atomic bool *)unbound = true;
	return NULL;
}

/* Unbinding waits for a function of the program that is under way. */
static void unbinds_when_nobody_is_told(void)
{
	_Atomic bool unbound = false;
	unsigned resumed;
	pthread_t thread;

	bind_both(0);
	told.blocks = true;
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	work(batch, out[1], KERNELS);
	EVENTUALLY(told.preempted);
	IS(0, fm_cuda_resume(batch));
	CU(cuStreamSynchronize(batch));
	MUST(!pthread_create(&thread, NULL, unbind_one, (void *)&unbound));
	usleep(20000);
	MUST(!unbound);
	told.blocks = false;
	pthread_join(thread, NULL);
	MUST(told.preempted == 1 && !told.amiss);
	resumed = told.resumed; /* which it was, or not: the thread may have come late */
	usleep(20000);
	MUST(told.resumed == resumed);
}

/* What comes while the program is told is told afterwards, as far as it still counts. */
static void turns_while_told(void)
{
	unsigned kernels = 0, us = 1000;

	bind_both(0);
	told.blocks = true;
	/* A turn that is over before anybody looks is none: then the next takes longer. */
	for (unsigned stops = 0; stops < 4; us = us < 200000 ? 2 * us : us) {
		if (info(batch).completed == info(batch).submitted) {
			work(batch, out[1], 20);
			kernels += 20;
		}
		IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
		usleep(us);
		EVENTUALLY(told.preempted == 1 || !info(batch).preemptions);
		IS(0, fm_cuda_resume(batch));
		usleep(us);
		if (info(batch).preemptions > stops) {
			stops = (unsigned)info(batch).preemptions;
			us = 1000;
		}
	}
	MUST(told.preempted == 1 && !told.resumed);
	told.blocks = false;
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(kernels));
	EVENTUALLY(told.resumed == told.preempted);
	MUST(!told.amiss);
	IS(0, fm_cuda_unbind(batch));
}

/* What was suspended with work is destroyed: its work is done all the same. */
static void destroyed_while_suspended(void)
{
	bind_both(0);
	work(batch, out[1], KERNELS);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	CU(cuStreamDestroy_v2(batch));
	EVENTUALLY(words[1][0] == after(KERNELS));
	IS(-ENOENT, fm_cuda_resume(batch));
	work(urgent, out[0], 10);
	CU(cuStreamSynchronize(urgent));
}

static void ends_while_suspended(void)
{
	bind_both(0);
	work(batch, out[1], KERNELS);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	exit(0);
}

static void errors(void)
{
	struct fm_cuda_binding b = binding("group", 0);
	struct fm_cuda_options small = {.size = 1},
			       busy = {.size = sizeof(busy), .spin_ns = 1000000000},
			       wrong = {.size = sizeof(wrong), .local_policy = "no-such-policy"};
	struct fm_cuda_info i = {.size = 1};
	CUstream other = new_stream(0);
	char name[16];

	IS(-EINVAL, fm_cuda_init(&small));
	IS(-EINVAL, fm_cuda_init(&wrong));
	IS(-EINVAL, fm_cuda_init(&busy));
	IS(-ENOENT, fm_cuda_unbind(other));
	IS(-ENOENT, fm_cuda_suspend(other, false, 0));
	IS(-ENOENT, fm_cuda_resume(other));
	IS(-ENOENT, fm_cuda_hint(other, FM_HINT_WEIGHT, 1));
	IS(-EINVAL, fm_cuda_query(other, &i));
	i.size = sizeof(i);
	IS(-ENOENT, fm_cuda_query(other, &i));
	IS(-EINVAL, fm_cuda_bind(NULL, &b));
	IS(-EINVAL, fm_cuda_bind(FM_CU_STREAM_LEGACY, &b));
	IS(-EINVAL, fm_cuda_bind(FM_CU_STREAM_PER_THREAD, &b));
	IS(-EINVAL, fm_cuda_bind(other, NULL));
	b.priority = 1000;
	IS(-ERANGE, fm_cuda_bind(other, &b));
	b.priority = 0;
	b.level = 4;
	IS(-EINVAL, fm_cuda_bind(other, &b));
	b.level = 0;
	b.group = "two words";
	IS(-EINVAL, fm_cuda_bind(other, &b));
	b.group = "";
	IS(-EINVAL, fm_cuda_bind(other, &b));
	b.group = name;
	for (int n = 1; n <= 15; n++) {
		snprintf(name, sizeof(name), "group-%d", n);
		IS(0, fm_cuda_bind(other, &b));
	}
	strcpy(name, "one-more");
	IS(-ENOSPC, fm_cuda_bind(other, &b));
	strcpy(name, "group-3");
	IS(0, fm_cuda_bind(other, &b));
	IS(-EINVAL, fm_cuda_hint(other, FM_HINT_COUNT, 1));
	IS(-ERANGE, fm_cuda_hint(other, FM_HINT_WEIGHT, -1));
	IS(-EBUSY, fm_cuda_init(NULL));
	CU(cuStreamDestroy_v2(other));
	IS(-ENOENT, fm_cuda_query(other, &i));
}

/* The driver's functions have been looked for: images would go past the library. */
static void too_late(void)
{
	struct fm_cuda_options o = {.size = sizeof(o), .guardian = true};

	IS(-EBUSY, fm_cuda_init(&o));
	o.guardian = false;
	IS(0, fm_cuda_init(&o));
	bind_both(0);
}

/* Those that come first when the program is linked, or that say so before. */
static void in_time(void)
{
	struct fm_cuda_options o = {.size = sizeof(o), .guardian = true};

	IS(0, fm_cuda_init(&o));
	bind_both(0);
}

/* Any number of streams in the life of a process. One that was destroyed leaves its place a little
 * later. */
static void comes_and_goes(void)
{
	int rc;

	for (unsigned i = 0; i < 300; i++) {
		struct fm_cuda_binding b = binding(i & 1 ? "odd" : "even", 0);
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

		b.preempted = on_preempted;
		EVENTUALLY((rc = fm_cuda_bind(s, &b)) != -ENOSPC);
		MUST(!rc);
		spin(&c, s, out[0] + i * sizeof(uint32_t), 1000);
		if (i & 2)
			CU(cuStreamSynchronize(s));
		CU(cuStreamDestroy_v2(s));
	}
	for (unsigned i = 0; i < 300; i++)
		EVENTUALLY(words[0][i] == after(1));
}

#define FIRSTS 100

/* In so many streams functions are launched for the first time, and none of them begins for a
 * while. When all have, kernels stop in their middle as before. */
static void many_first_launches(void)
{
	CUstream s[FIRSTS];
	struct guard g[FIRSTS];

	bind_both(0);
	flag[2] = 0;
	for (unsigned i = 0; i < FIRSTS; i++) {
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
		guard_open(&g[i]);
	}
	for (unsigned i = 0; i < FIRSTS; i++) {
		CU(cuStreamWaitValue32_v2(s[i], flag_on_device + 2 * sizeof(*flag), 1, CU_WAIT_EQ));
		step(&g[i], s[i], out[0]);
	}
	flag[2] = 1;
	CU(cuCtxSynchronize());
	for (unsigned i = 0; i < FIRSTS; i++)
		CU(cuStreamDestroy_v2(s[i]));
	for (int tries = 0; !info(batch).interrupts; tries++) {
		MUST(tries < 1000);
		for (unsigned i = 0; i < 10; i++)
			toil(&g[0], batch, out[1]);
		IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
		IS(0, fm_cuda_resume(batch));
		CU(cuStreamSynchronize(batch));
	}
}

/* Switched off, or without the library: as the header says. */
static void without(int rc)
{
	struct fm_cuda_binding b = binding("group", 0);
	struct fm_cuda_info i = {.size = sizeof(i)};
	int none = rc == -ENOSYS ? -ENOSYS : -ENOENT;

	MUST(!fm_cuda_scheduled());
	IS(rc, fm_cuda_bind(batch, &b));
	IS(none, fm_cuda_unbind(batch));
	IS(none, fm_cuda_suspend(batch, true, 0));
	IS(none, fm_cuda_resume(batch));
	IS(none, fm_cuda_hint(batch, FM_HINT_WEIGHT, 1));
	IS(none, fm_cuda_query(batch, &i));
	work(batch, out[1], 10);
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(10));
}

static void off(void)
{
	without(-ENODEV);
}

static void absent(void)
{
	IS(-ENOSYS, fm_cuda_init(NULL));
	without(-ENOSYS);
}

int main(int argc, char **argv)
{
	static const struct server_case cases[] = {
		{"binds-what-is-idle", binds_what_is_idle},
		{"unbinds-when-nobody-is-told", unbinds_when_nobody_is_told},
		{"turns-while-told", turns_while_told},
		{"destroyed-while-suspended", destroyed_while_suspended},
		{"ends-while-suspended", ends_while_suspended},
		{"errors", errors},
		{"too-late", too_late},
		{"in-time", in_time},
		{"comes-and-goes", comes_and_goes},
		{"many-first-launches", many_first_launches},
		{"off", off},
		{"absent", absent},
		{NULL, NULL},
	};

	return server_main(argc, argv, cases);
}
