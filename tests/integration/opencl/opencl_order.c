/* SPDX-License-Identifier: Apache-2.0 */
/* Order: queues of both kinds, wait lists, user events, callbacks, markers, barriers, threads. */
#include "conform.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define OUT_OF_ORDER CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE

static void in_order(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 1);

	for (cl_uint i = 0; i < 200; i++)
		enqueue_mix(c, q, m, i, 0, NULL, NULL);
	note_buffer(c, "200 kernels", q, m);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

/* A diamond: join(mix(x), mix(y)), many times over, in a queue that keeps no order by itself. */
static void out_of_order(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, OUT_OF_ORDER);
	cl_mem x = new_words(c, 2), y = new_words(c, 3), z = new_words(c, 4);
	cl_event e[3], last = NULL;

	for (cl_uint i = 0; i < 30; i++) {
		enqueue_mix(c, q, x, i, last ? 1 : 0, last ? &last : NULL, &e[0]);
		enqueue_mix(c, q, y, ~i, last ? 1 : 0, last ? &last : NULL, &e[1]);
		enqueue_join(c, q, z, x, y, 2, e, &e[2]);
		if (last)
			OCL(clReleaseEvent(last));
		release_events(e, 2);
		last = e[2];
	}
	OCL(clWaitForEvents(1, &last));
	OCL(clReleaseEvent(last));
	note_buffer(c, "x", q, x);
	note_buffer(c, "y", q, y);
	note_buffer(c, "z", q, z);
	OCL(clReleaseMemObject(x));
	OCL(clReleaseMemObject(y));
	OCL(clReleaseMemObject(z));
	OCL(clReleaseCommandQueue(q));
}

/* Each of two queues always waits for the other's latest command: a gate in one must not lock both.
 */
static void ping_pong(struct conform *c)
{
	cl_command_queue q[2] = {ocl_queue(&c->o, 0), ocl_queue(&c->o, 0)};
	cl_mem m = new_words(c, 5);
	cl_event last = NULL, next;

	for (cl_uint i = 0; i < 120; i++) {
		enqueue_mix(c, q[i & 1], m, i, last ? 1 : 0, last ? &last : NULL, &next);
		if (last)
			OCL(clReleaseEvent(last));
		OCL(clFlush(q[i & 1]));
		last = next;
	}
	OCL(clWaitForEvents(1, &last));
	note(c, "last %d", event_status(last));
	OCL(clReleaseEvent(last));
	note_buffer(c, "120 kernels", q[0], m);
	OCL(clReleaseMemObject(m));
	for (int i = 0; i < 2; i++)
		OCL(clReleaseCommandQueue(q[i]));
}

static void user_events(struct conform *c)
{
	cl_command_queue a = ocl_queue(&c->o, 0), b = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 6), n = new_words(c, 7);
	cl_event gate = user_event(c), e[3];

	note(c, "fresh user event %d", event_status(gate));
	enqueue_mix(c, a, m, 1, 0, NULL, NULL);
	enqueue_mix(c, a, m, 2, 1, &gate, &e[0]);
	enqueue_mix(c, a, m, 3, 0, NULL, &e[1]); /* in order: behind the gated one */
	enqueue_mix(c, b, n, 4, 1, &e[0], &e[2]);
	OCL(clFlush(a));
	OCL(clFlush(b));
	usleep(2000);
	for (int i = 0; i < 3; i++)
		note(c, "gated %d: %s", i, event_status(e[i]) > CL_RUNNING ? "waits" : "runs");
	OCL(clSetUserEventStatus(gate, CL_COMPLETE));
	note(c, "set again %d", clSetUserEventStatus(gate, CL_COMPLETE));
	OCL(clWaitForEvents(3, e));
	note_buffer(c, "m", a, m);
	note_buffer(c, "n", b, n);
	release_events(e, 3);
	OCL(clReleaseEvent(gate));
	OCL(clReleaseMemObject(m));
	OCL(clReleaseMemObject(n));
	OCL(clReleaseCommandQueue(a));
	OCL(clReleaseCommandQueue(b));
}

/* The host sets the event from another thread while this one sits in clFinish. */
static void *set_soon(void *arg)
{
	usleep(3000);
	OCL(clSetUserEventStatus(arg, CL_COMPLETE));
	return NULL;
}

static void user_event_during_finish(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 8);
	cl_event gate = user_event(c);
	pthread_t t;

	enqueue_mix(c, q, m, 1, 1, &gate, NULL);
	for (cl_uint i = 2; i < 40; i++)
		enqueue_mix(c, q, m, i, 0, NULL, NULL);
	if (pthread_create(&t, NULL, set_soon, gate))
		die("no thread");
	OCL(clFinish(q));
	pthread_join(t, NULL);
	note_buffer(c, "m", q, m);
	OCL(clReleaseEvent(gate));
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

struct tally {
	_Atomic int calls, complete, wrong;
};

static void CL_CALLBACK on_event(cl_event e, cl_int status, void *arg)
{
	struct tally *t = arg;

	if (status == CL_COMPLETE)
		t->complete++;
	else if (status < 0)
		t->wrong++;
	t->calls++;
}

static void wait_calls(struct tally *t, int n)
{
	uint64_t deadline = now_ns() + UINT64_C(60000000000);

	while (atomic_load(&t->calls) < n) {
		if (now_ns() > deadline)
			die("only %d of %d callbacks came", atomic_load(&t->calls), n);
		usleep(200);
	}
}

static void callbacks(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 9);
	struct tally t = {0};
	cl_event e;

	for (cl_uint i = 0; i < 32; i++) {
		enqueue_mix(c, q, m, i, 0, NULL, &e);
		OCL(clSetEventCallback(e, CL_COMPLETE, on_event, &t));
		OCL(clSetEventCallback(e, CL_SUBMITTED, on_event, &t));
		OCL(clReleaseEvent(e)); /* the callback outlives our reference */
	}
	OCL(clFlush(q));
	wait_calls(&t, 64);
	note(c, "calls %d wrong %d", t.calls, t.wrong);
	note_buffer(c, "m", q, m);
	enqueue_mix(c, q, m, 33, 0, NULL, &e);
	OCL(clFinish(q));
	OCL(clSetEventCallback(e, CL_COMPLETE, on_event, &t)); /* complete already */
	wait_calls(&t, 65);
	OCL(clReleaseEvent(e));
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

struct relay {
	struct conform *c;
	cl_command_queue q;
	cl_mem m;
	cl_uint number;
	_Atomic int done;
};

/* Each completion enqueues the next command. */
static void CL_CALLBACK on_relay(cl_event e, cl_int status, void *arg)
{
	struct relay *r = arg;
	cl_event next;

	if (status != CL_COMPLETE)
		die("relay: status %d", status);
	if (++r->number == 25) {
		atomic_store(&r->done, 1);
		return;
	}
	enqueue_mix(r->c, r->q, r->m, r->number, 0, NULL, &next);
	OCL(clFlush(r->q));
	/* If it has ended by now all the others are called here, too, and then *r is no more. */
	OCL(clSetEventCallback(next, CL_COMPLETE, on_relay, r));
	OCL(clReleaseEvent(next));
}

static void enqueue_in_callback(struct conform *c)
{
	struct relay r = {.c = c, .q = ocl_queue(&c->o, 0), .m = new_words(c, 10)};
	uint64_t deadline = now_ns() + UINT64_C(60000000000);
	cl_event e;

	enqueue_mix(c, r.q, r.m, 0, 0, NULL, &e);
	OCL(clSetEventCallback(e, CL_COMPLETE, on_relay, &r));
	OCL(clFlush(r.q));
	OCL(clReleaseEvent(e));
	while (!atomic_load(&r.done)) {
		if (now_ns() > deadline)
			die("the relay stopped at %u", r.number);
		usleep(200);
	}
	note_buffer(c, "25 kernels", r.q, r.m);
	OCL(clReleaseMemObject(r.m));
	OCL(clReleaseCommandQueue(r.q));
}

static void barriers(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, OUT_OF_ORDER);
	cl_mem x = new_words(c, 11), y = new_words(c, 12), z = new_words(c, 13);
	cl_event e[3];

	for (cl_uint i = 0; i < 20; i++) {
		enqueue_mix(c, q, x, i, 0, NULL, NULL);
		enqueue_mix(c, q, y, i + 100, 0, NULL, NULL);
		OCL(clEnqueueBarrierWithWaitList(q, 0, NULL, i & 1 ? &e[0] : NULL));
		if (i & 1)
			OCL(clReleaseEvent(e[0]));
		enqueue_join(c, q, z, x, y, 0, NULL, NULL);
		OCL(clEnqueueBarrier(q));
	}
	enqueue_mix(c, q, x, 500, 0, NULL, &e[0]);
	enqueue_mix(c, q, y, 501, 0, NULL, &e[1]);
	OCL(clEnqueueMarkerWithWaitList(q, 2, e, &e[2]));
	OCL(clWaitForEvents(1, &e[2]));
	note(c, "behind the marker %d %d", event_status(e[0]), event_status(e[1]));
	release_events(e, 3);
	enqueue_mix(c, q, x, 502, 0, NULL, NULL);
	OCL(clEnqueueMarker(q, &e[0]));
	OCL(clEnqueueBarrierWithWaitList(q, 1, &e[0], NULL));
	enqueue_join(c, q, z, z, x, 1, &e[0], NULL);
	OCL(clFinish(q));
	OCL(clReleaseEvent(e[0]));
	note_buffer(c, "x", q, x);
	note_buffer(c, "y", q, y);
	note_buffer(c, "z", q, z);
	OCL(clReleaseMemObject(x));
	OCL(clReleaseMemObject(y));
	OCL(clReleaseMemObject(z));
	OCL(clReleaseCommandQueue(q));
}

/* Completion learnt by asking alone. */
static void polling(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 14);
	cl_int before, status = CL_QUEUED;
	bool monotone = true;
	cl_event e;

	for (cl_uint i = 0; i < 60; i++)
		enqueue_mix(c, q, m, i, 0, NULL, i == 59 ? &e : NULL);
	OCL(clFlush(q));
	do {
		before = status;
		status = event_status(e);
		monotone &= status <= before;
	} while (status > CL_COMPLETE);
	note(c, "status %d %s", status, monotone ? "never back" : "went back");
	OCL(clReleaseEvent(e));
	note_buffer(c, "m", q, m);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

static void profiling(struct conform *c)
{
	static const cl_profiling_info what[] = {CL_PROFILING_COMMAND_QUEUED,
		CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
	cl_command_queue q = ocl_queue(&c->o, CL_QUEUE_PROFILING_ENABLE);
	cl_command_queue plain = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 15);
	cl_ulong at[4], end = 0;
	int ordered = 0;
	cl_event e[40];

	for (cl_uint i = 0; i < 40; i++)
		enqueue_mix(c, q, m, i, 0, NULL, &e[i]);
	OCL(clFinish(q));
	for (int i = 0; i < 40; i++) {
		for (int k = 0; k < 4; k++)
			OCL(clGetEventProfilingInfo(e[i], what[k], sizeof(at[k]), &at[k], NULL));
		ordered += at[0] <= at[1] && at[1] <= at[2] && at[2] <= at[3] && at[2] >= end;
		end = at[3];
	}
	release_events(e, 40);
	note(c, "%d of 40 in order", ordered);
	enqueue_mix(c, plain, m, 50, 0, NULL, e);
	OCL(clFinish(plain));
	note(c, "without profiling %d",
		clGetEventProfilingInfo(e[0], what[0], sizeof(at[0]), &at[0], NULL));
	OCL(clReleaseEvent(e[0]));
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(plain));
	OCL(clReleaseCommandQueue(q));
}

struct thread {
	struct conform *c;
	cl_command_queue q;
	cl_mem m, own;
	cl_uint seed;
	uint64_t sum;
};

/* clSetKernelArg is the one call of OpenCL that is not thread-safe: each thread has its own
 * kernels. */
static void *thread_main(void *arg)
{
	struct thread *t = arg;
	struct conform c = *t->c;
	size_t global = WORDS;
	uint32_t words[WORDS];

	c.mix = ocl_kernel(c.program, "scramble");
	c.count = ocl_kernel(c.program, "count");
	for (cl_uint i = 0; i < 40; i++) {
		cl_event e;

		OCL(clSetKernelArg(c.count, 0, sizeof(t->m), &t->m));
		OCL(clEnqueueNDRangeKernel(t->q, c.count, 1, NULL, &global, NULL, 0, NULL, NULL));
		enqueue_mix(&c, t->q, t->own, t->seed + i, 0, NULL, &e);
		if (i % 8 == 0)
			OCL(clWaitForEvents(1, &e));
		OCL(clReleaseEvent(e));
	}
	OCL(clEnqueueReadBuffer(t->q, t->own, CL_TRUE, 0, BYTES, words, 0, NULL, NULL));
	t->sum = digest(words, BYTES);
	OCL(clReleaseKernel(c.mix));
	OCL(clReleaseKernel(c.count));
	return NULL;
}

static void run_threads(struct conform *c, const char *what, cl_command_queue *q, int queues)
{
	cl_mem shared = new_words(c, 16);
	struct thread t[4];
	pthread_t id[4];

	for (int i = 0; i < 4; i++) {
		t[i] = (struct thread){.c = c,
			.q = q[i % queues],
			.m = shared,
			.own = new_words(c, 20 + (uint32_t)i),
			.seed = 1000u * (cl_uint)i};
		if (pthread_create(&id[i], NULL, thread_main, &t[i]))
			die("no thread");
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(id[i], NULL);
		note(c, "%s, thread %d: %016llx", what, i, (unsigned long long)t[i].sum);
		OCL(clReleaseMemObject(t[i].own));
	}
	for (int i = 0; i < queues; i++)
		OCL(clFinish(q[i]));
	note_buffer(c, what, q[0], shared);
	OCL(clReleaseMemObject(shared));
}

static void threads(struct conform *c)
{
	cl_command_queue q[4];

	for (int i = 0; i < 4; i++)
		q[i] = ocl_queue(&c->o, 0);
	run_threads(c, "one queue", q, 1);
	run_threads(c, "four queues", q, 4);
	for (int i = 0; i < 4; i++)
		OCL(clReleaseCommandQueue(q[i]));
}

/* Commands wait for commands that are enqueued later: only a user event makes that possible. */
static void crossed_waits(struct conform *c)
{
	cl_command_queue a = ocl_queue(&c->o, 0), b = ocl_queue(&c->o, OUT_OF_ORDER);
	cl_event gate = user_event(c), ea[10], eb[10];
	cl_mem x = new_words(c, 30), y = new_words(c, 31);

	for (cl_uint i = 0; i < 10; i++) {
		enqueue_mix(c, b, y, i, 1, i ? &ea[i - 1] : &gate, &eb[i]);
		enqueue_mix(c, a, x, i, 1, &eb[i], &ea[i]);
	}
	OCL(clFlush(a));
	OCL(clFlush(b));
	note(c, "first %s", event_status(eb[0]) > CL_RUNNING ? "waits" : "runs");
	OCL(clSetUserEventStatus(gate, CL_COMPLETE));
	OCL(clWaitForEvents(10, ea));
	OCL(clWaitForEvents(10, eb));
	release_events(ea, 10);
	release_events(eb, 10);
	OCL(clReleaseEvent(gate));
	note_buffer(c, "x", a, x);
	note_buffer(c, "y", b, y);
	OCL(clReleaseMemObject(x));
	OCL(clReleaseMemObject(y));
	OCL(clReleaseCommandQueue(a));
	OCL(clReleaseCommandQueue(b));
}

static void deep_queue(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	uint32_t zero = 0, value;
	size_t one = 1;
	cl_mem m;

	m = ocl_buffer(&c->o, sizeof(zero), &zero);
	OCL(clSetKernelArg(c->one, 0, sizeof(m), &m));
	for (int i = 0; i < 5000; i++)
		OCL(clEnqueueNDRangeKernel(q, c->one, 1, NULL, &one, &one, 0, NULL, NULL));
	OCL(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof(value), &value, 0, NULL, NULL));
	note(c, "after 5000 kernels %u", value);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"in order", in_order},
		{"out of order", out_of_order},
		{"ping pong", ping_pong},
		{"user events", user_events},
		{"user event during finish", user_event_during_finish},
		{"callbacks", callbacks},
		{"enqueue in callback", enqueue_in_callback},
		{"barriers", barriers},
		{"polling", polling},
		{"profiling", profiling},
		{"threads", threads},
		{"crossed waits", crossed_waits},
		{"deep queue", deep_queue},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
