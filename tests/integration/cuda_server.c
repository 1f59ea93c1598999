/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server in small, which uses <fermata/cuda.h>: one case of those below, in which two streams of
 * one process stop each other, or the program stops one itself. Whatever is not as it should be
 * ends it with a text.
 *
 * It is built twice: as it is, with nothing of Fermata in it, and as cuda_server_linked.
 *
 * usage: [--via link|dlsym|proc] CASE [POLICY [IMAGE]]
 * POLICY: of fm_cuda_init; none: by a daemon, or not. IMAGE: with the guardian, and this is loaded.
 */
#include "cuda_server.h"

/* The urgent stream has work: so the other one stops, in the middle of its queue. */
static void stops(void)
{
	bind_both(0);
	MUST(fm_cuda_scheduled());
	stand(batch);
	work(batch, out[1], KERNELS);
	stand(urgent);
	work(urgent, out[0], 1);
	EVENTUALLY(!info(batch).scheduled);
	MUST(!told.preempted);
	let_go(batch);
	EVENTUALLY(told.preempted);
	rests(batch, 1);
	MUST(words[1][0] != after(KERNELS));
	MUST(!told.resumed);
	MUST(info(batch).completed < KERNELS);
	MUST(!info(batch).suspended);
	MUST(info(batch).preemptions == 1);
	MUST(info(urgent).scheduled);
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	CU(cuStreamSynchronize(batch));
	MUST(words[0][0] == after(1));
	MUST(words[1][0] == after(KERNELS));
	EVENTUALLY(told.resumed == told.preempted);
	MUST(!told.amiss);
}

/* Gates in a graph of so many kernels, captured on this stream; it is launched, too. */
static uint64_t gates_captured(CUstream s, CUdeviceptr d, unsigned kernels)
{
	uint64_t before = info(s).gates, gates;
	CUgraphExec exec;
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	work(s, d, kernels);
	gates = info(s).gates - before;
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, s));
	CU(cuStreamSynchronize(s));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	return gates;
}

/* Who never waits for the other has few gates in its graphs. */
static void graphs(void)
{
	uint64_t few, many;

	stops();
	many = gates_captured(batch, out[1], KERNELS);
	few = gates_captured(urgent, out[0], KERNELS);
	MUST(many >= 8);
	MUST(few <= many / 4);
	MUST(words[0][0] == after(1 + KERNELS));
	MUST(words[1][0] == after(2 * KERNELS));
}

/* It has gates of the stream that it was captured on: another one that comes later has its own. */
static void graph_outlives_stream(void)
{
	struct fm_cuda_binding b = binding("batch", FM_PRIORITY_LOW), u = binding("urgent", 0);
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUgraphExec exec;
	CUgraph graph;

	IS(0, fm_cuda_bind(urgent, &u));
	IS(0, fm_cuda_bind(s, &u));
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	work(s, out[0], KERNELS);
	MUST(info(s).gates);
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuStreamDestroy_v2(s));
	usleep(100000);
	IS(0, fm_cuda_bind(batch, &b));
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	CU(cuGraphLaunch(exec, urgent));
	EVENTUALLY(words[0][0] == after(KERNELS));
	IS(0, fm_cuda_resume(batch));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

static void suspends(void)
{
	bind_both(0);
	stand(batch);
	work(batch, out[1], KERNELS);
	IS(0, fm_cuda_suspend(batch, false, 0));
	let_go(batch);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	IS(0, fm_cuda_suspend(batch, true, 0));
	rests(batch, 1);
	MUST(words[1][0] != after(KERNELS));
	work(batch, out[1], KERNELS);
	rests(batch, 1);
	MUST(info(batch).suspended);
	MUST(info(batch).completed < info(batch).submitted);
	MUST(cu.cuStreamQuery(batch) == FM_CU_ERROR_NOT_READY);
	EVENTUALLY(told.preempted == 1);
	work(urgent, out[0], 10);
	CU(cuStreamSynchronize(urgent));
	rests(batch, 1);
	IS(0, fm_cuda_resume(batch));
	IS(0, fm_cuda_resume(batch));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(2 * KERNELS));
	MUST(!info(batch).suspended);
	EVENTUALLY(told.resumed == told.preempted);
	MUST(!told.amiss);
}

/* Who suspends a stream may put more into it than may be under way before letting it go on. */
static void suspended_far_ahead(void)
{
	bind_both(0);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	work(batch, out[1], 514);
	IS(0, fm_cuda_resume(batch));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(514));
}

/* How deep a group is stopped its program can say, too, as it runs. */
static void hinted(void)
{
	bind_both(0);
	MUST(info(batch).level == 3 && info(urgent).level == 3);
	IS(0, fm_cuda_hint(batch, FM_HINT_LEVEL, 2));
	EVENTUALLY(info(batch).level == 2);
	MUST(info(urgent).level == 3 && info(batch).levels & 1u << 3);
	IS(-ERANGE, fm_cuda_hint(batch, FM_HINT_LEVEL, 1));
	IS(0, fm_cuda_hint(batch, FM_HINT_LEVEL, 3));
	EVENTUALLY(info(batch).level == 3);
}

/* While it has not come to a gate nobody can say that it rests. */
static void suspend_takes_its_time(void)
{
	bind_both(0);
	stand(batch);
	work(batch, out[1], 1);
	IS(-ETIMEDOUT, fm_cuda_suspend(batch, true, 1000000));
	MUST(info(batch).suspended);
	let_go(batch);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	work(batch, out[1], 1);
	rests(batch, 1);
	IS(0, fm_cuda_resume(batch));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(2));
}

/* A stream of high priority that its program has suspended is in nobody's way. */
static void suspended_is_not_in_the_way(void)
{
	bind_both(0);
	IS(0, fm_cuda_suspend(urgent, true, FM_FOREVER));
	work(urgent, out[0], 10);
	work(batch, out[1], KERNELS);
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(KERNELS));
	rests(urgent, 0);
	MUST(!words[0][0]);
	work(batch, out[1], KERNELS);
	IS(0, fm_cuda_resume(urgent));
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(10));
	CU(cuStreamSynchronize(batch));
}

static void *launch_one(void *launched)
{
	CU(cuCtxSetCurrent(c.ctx));
	work(batch, out[1], 1);
	*(_Atomic bool *)launched = true;
	return NULL;
}

static void at_level_1(void)
{
	_Atomic bool launched = false;
	pthread_t thread;

	bind_both(1);
	MUST(info(batch).level == 1);
	work(batch, out[1], 4);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	MUST(!pthread_create(&thread, NULL, launch_one, (void *)&launched));
	usleep(20000);
	MUST(!launched);
	IS(0, fm_cuda_resume(batch));
	pthread_join(thread, NULL);
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(5));
}

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

/* In a partition the urgent stream stops those on the whole device, and not those in the rest. */
static void partition(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH), b = binding("batch", 0),
			       r = binding("beside", 0);
	unsigned got = 0, again = 0;
	CUstream rest;

	IS(-ENOENT, fm_cuda_stream_create(&rest, FM_CUDA_REST, &r));
	IS(-EINVAL, fm_cuda_reserve(0, &got));
	IS(-ENOSPC, fm_cuda_reserve(100000, &got));
	IS(0, fm_cuda_reserve(1, &got));
	IS(0, fm_cuda_reserve(got, &again));
	MUST(got && got == again);
	IS(-EBUSY, fm_cuda_reserve(got + 1, NULL));
	IS(-EINVAL, fm_cuda_stream_create(&rest, FM_CUDA_REST, NULL));
	IS(0, fm_cuda_stream_create(&rest, FM_CUDA_REST, &r));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_PARTITION, &u));
	b.preempted = on_preempted;
	b.ctx = &told;
	IS(0, fm_cuda_stream_create(&batch, FM_CUDA_WHOLE, &b));
	stand(batch);
	work(batch, out[1], KERNELS);
	stand(urgent);
	work(urgent, out[0], 1);
	EVENTUALLY(!info(batch).scheduled);
	let_go(batch);
	EVENTUALLY(told.preempted);
	work(rest, flag_on_device + 64, KERNELS);
	CU(cuStreamSynchronize(rest));
	MUST(flag[16] == after(KERNELS));
	rests(batch, 1);
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(KERNELS));
	CU(cuStreamDestroy_v2(rest));
}

/* As FERMATA_PARTITION says: where batch is in what a partition leaves, urgent does not stop it. */
static void by_group(bool partition, bool apart)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH), b = binding("batch", 0);
	struct fm_cuda_elastic *e = NULL;

	IS(0, fm_cuda_stream_create(&batch, FM_CUDA_BY_GROUP, &b));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_BY_GROUP, &u));
	IS(partition ? 0 : -ENOENT, fm_cuda_elastic_create(&e, 0, &b));
	stand(batch);
	work(batch, out[1], KERNELS);
	stand(urgent);
	work(urgent, out[0], 1);
	if (apart) {
		let_go(batch);
		CU(cuStreamSynchronize(batch));
	} else {
		EVENTUALLY(!info(batch).scheduled);
		let_go(batch);
		EVENTUALLY(info(batch).stalled);
		rests(batch, 1);
	}
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(KERNELS));
	IS(0, fm_cuda_elastic_destroy(e));
}

static void by_group_apart(void)
{
	by_group(true, true);
}

static void by_group_together(void)
{
	by_group(true, false);
}

static void by_group_whole(void)
{
	by_group(false, false);
}

static void no_partition(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH);

	IS(-EOPNOTSUPP, fm_cuda_reserve(8, NULL));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_BY_GROUP, &u));
	work(urgent, out[0], 1);
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(1));
}

static void check_mixed(CUdeviceptr x, uint32_t numbers)
{
	uint32_t seen[WORDS];

	CU(cuMemcpyDtoH_v2(seen, x, BYTES));
	for (uint32_t i = 0; i < WORDS; i += 100) {
		uint32_t v = 0;

		for (uint32_t n = 0; n < numbers; n++) {
			v ^= n + i;
			for (int k = 0; k < 40; k++)
				v = v * 1664525u + 1013904223u;
		}
		MUST(seen[i] == v);
	}
}

/* Wherever it launches, its commands run in order. */
static void elastic(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH), b = binding("batch", 0);
	struct fm_cuda_elastic *e = NULL;
	CUstream on[4];
	CUdeviceptr x;
	uint32_t n = 0;

	CU(cuMemAlloc_v2(&x, BYTES));
	CU(cuMemsetD8_v2(x, 0, BYTES));
	CU(cuStreamSynchronize(NULL));
	IS(-ENOENT, fm_cuda_elastic_create(&e, 0, &b));
	IS(0, fm_cuda_reserve(2, NULL));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_PARTITION, &u));
	IS(0, fm_cuda_elastic_create(&e, 0, &b));
	for (int turn = 0; turn < 4; turn++) {
		if (turn & 1) {
			stand(urgent);
			work(urgent, out[0], 1);
		}
		IS(0, fm_cuda_elastic_stream(e, &on[turn]));
		for (int i = 0; i < 50; i++)
			mix(&c, on[turn], x, n++);
		let_go(urgent);
		CU(cuStreamSynchronize(urgent));
	}
	MUST(on[0] == on[2] && on[1] == on[3] && on[0] != on[1]);
	CU(cuStreamSynchronize(on[3]));
	check_mixed(x, n);
	IS(0, fm_cuda_elastic_destroy(e));
	IS(0, fm_cuda_elastic_destroy(NULL));
}

/* While the test looks at it from outside. */
static void stays(void)
{
	char line[16];

	bind_both(0);
	work(urgent, out[0], 1);
	work(batch, out[1], 1);
	CU(cuStreamSynchronize(urgent));
	puts("ready");
	fflush(stdout);
	MUST(fgets(line, sizeof(line), stdin));
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

/* The streams may share a channel, in which the urgent one then stands behind the gates of the
 * other. */
static void in_one_channel(void)
{
	bind_both(0);
	work(batch, out[1], KERNELS);
	for (unsigned i = 0; i < 3; i++) {
		work(urgent, out[0], 1);
		CU(cuStreamSynchronize(urgent));
	}
	CU(cuStreamSynchronize(batch));
	MUST(words[0][0] == after(3));
	MUST(words[1][0] == after(KERNELS));
}

/* One stream's requests: in, kernels, out. */
struct requests {
	CUstream s;
	CUdeviceptr d;
	uint32_t *pinned;
	unsigned n;
};

static void *serve(void *arg)
{
	struct requests *r = arg;

	CU(cuCtxSetCurrent(c.ctx));
	for (unsigned i = 0; i < r->n; i++) {
		CU(cuMemcpyHtoDAsync_v2(r->d, r->pinned, BYTES, r->s));
		for (uint32_t j = 0; j < 10; j++)
			mix(&c, r->s, r->d, j);
		CU(cuMemcpyDtoHAsync_v2(r->pinned, r->d, BYTES, r->s));
		CU(cuStreamSynchronize(r->s));
	}
	return NULL;
}

/* All copies of a process share few channels, in whatever stream they are. */
#define SERVED 5
static void copies_of_many(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH),
			       b = binding("batch", FM_PRIORITY_LOW);
	struct requests r[SERVED];
	pthread_t t[SERVED];

	for (unsigned i = 0; i < SERVED; i++) {
		void *p;

		r[i].s = new_stream(CU_STREAM_NON_BLOCKING);
		r[i].n = 6;
		r[i].d = new_words(1);
		CU(cuMemHostAlloc(&p, BYTES, 0));
		r[i].pinned = p;
		seed_words(r[i].pinned, WORDS, 7);
		IS(0, fm_cuda_bind(r[i].s, i ? &b : &u));
	}
	for (unsigned i = 0; i < SERVED; i++)
		MUST(!pthread_create(&t[i], NULL, serve, &r[i]));
	for (unsigned i = 0; i < SERVED; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 1; i < SERVED; i++)
		MUST(!memcmp(r[i].pinned, r[0].pinned, BYTES));
}

static void *launch_and_tell(void *arg)
{
	CU(cuCtxSetCurrent(c.ctx));
	work(batch, out[1], 1);
	*(_Atomic bool *)arg = true;
	return NULL;
}

static void *capture(void *arg)
{
	CUgraph graph;

	CU(cuCtxSetCurrent(c.ctx));
	CU(cuStreamBeginCapture_v2(urgent, CU_CAPTURE_THREAD_LOCAL));
	EVENTUALLY(*(_Atomic bool *)arg);
	CU(cuStreamEndCapture(urgent, &graph));
	CU(cuGraphDestroy(graph));
	return NULL;
}

/* A capture begins while another thread's launch is in the driver, which waits for the device: it
 * has a gate behind it all the same, for nobody could put one there as long as the capture lasts.
 */
static void captures_beside_a_launch(void)
{
	_Atomic bool launched = false, over = false;
	pthread_t t[2];
	uint64_t gates;

	bind_both(0);
	stand(batch);
	MUST(!pthread_create(&t[0], NULL, launch_and_tell, &launched));
	EVENTUALLY(!info(batch).stalled);
	usleep(20000); /* it is in the driver */
	MUST(!launched);
	gates = info(batch).gates;
	MUST(!pthread_create(&t[1], NULL, capture, &over));
	usleep(20000); /* it begins */
	let_go(batch);
	pthread_join(t[0], NULL);
	EVENTUALLY(launched);
	/* Where the capture came first nothing was guarded. */
	EVENTUALLY(!info(batch).guarded || info(batch).gates > gates);
	over = true;
	pthread_join(t[1], NULL);
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(1));
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

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"stops", stops},
	{"graphs", graphs},
	{"graph-outlives-stream", graph_outlives_stream},
	{"suspends", suspends},
	{"suspended-far-ahead", suspended_far_ahead},
	{"hinted", hinted},
	{"suspend-takes-its-time", suspend_takes_its_time},
	{"suspended-is-not-in-the-way", suspended_is_not_in_the_way},
	{"at-level-1", at_level_1},
	{"binds-what-is-idle", binds_what_is_idle},
	{"unbinds-when-nobody-is-told", unbinds_when_nobody_is_told},
	{"turns-while-told", turns_while_told},
	{"destroyed-while-suspended", destroyed_while_suspended},
	{"ends-while-suspended", ends_while_suspended},
	{"errors", errors},
	{"too-late", too_late},
	{"in-time", in_time},
	{"comes-and-goes", comes_and_goes},
	{"partition", partition},
	{"by-group-apart", by_group_apart},
	{"by-group-together", by_group_together},
	{"by-group-whole", by_group_whole},
	{"no-partition", no_partition},
	{"elastic", elastic},
	{"in-one-channel", in_one_channel},
	{"copies-of-many", copies_of_many},
	{"captures-beside-a-launch", captures_beside_a_launch},
	{"stays", stays},
	{"off", off},
	{"absent", absent},
};

/* Before the driver's functions are looked for. */
static const char *begin(int argc, char **argv)
{
	struct fm_cuda_options o = {.size = sizeof(o)};
	int at = argc > 1 && !strcmp(argv[1], "--via") ? 3 : 1;

	if (argc <= at)
		die("usage: [--via link|dlsym|proc] CASE [POLICY [IMAGE]]");
	o.local_policy = argc > at + 1 ? argv[at + 1] : NULL;
	o.guardian = argc > at + 2;
	if (o.local_policy)
		IS(0, fm_cuda_init(&o));
	return o.guardian ? argv[at + 2] : NULL;
}

int main(int argc, char **argv)
{
	const char *image = begin(argc, argv);
	CUmodule m;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	conform_options(&argc, &argv);
	open_streams();
	if (image)
		CU(cuModuleLoad(&m, image));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			return 0;
		}
	die("no case %s", argv[1]);
}
