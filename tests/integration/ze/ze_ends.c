/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of Level Zero that end, or do what they may not. Each prints "right" at its end.
 *
 *   exit         exits with work under way
 *   fork         a child uses a driver of its own, and the parent goes on
 *   exec         becomes another such program
 *   contexts     makes contexts, and ends each with what was made in it
 *   late         ends its context, with a queue, when the process exits
 *   cancel       a thread is cancelled while it submits
 *   destroy | reset  on a line of stdin a list is executed; 100 ms later, when it has long been
 * done, it is destroyed or reset, without a look whether it is done deep         on a line more is
 * submitted than the queue has room for timeouts     on a line work is submitted; it is waited for
 * with a timeout until it is done lost         the device is lost meanwhile: nothing hangs, and the
 * program hears of it
 */
#include "ze_common.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	ze_command_queue_handle_t q;
	ze_kernel_handle_t mix, spin;
	uint32_t *x;
} own;

static void begin(void)
{
	set_up();
	own.q = queue_new(ASYNC, COMPUTE);
	own.mix = kernel_new("mix");
	own.spin = kernel_new("spin");
	own.x = words_new();
}

static ze_command_list_handle_t recorded(unsigned n)
{
	ze_command_list_handle_t l = list_new(COMPUTE);

	for (unsigned i = 0; i < n; i++) {
		launch(l, own.mix, own.x, i, NULL, NULL);
		barrier(l);
	}
	OK(zeCommandListClose(l));
	return l;
}

static void some_work(void)
{
	ze_command_list_handle_t l = recorded(4);

	for (unsigned i = 0; i < 20; i++) {
		execute(own.q, l, NULL);
		OK(zeCommandQueueSynchronize(own.q, UINT64_MAX));
	}
	OK(zeCommandListDestroy(l));
}

static void in_child(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		begin();
		some_work();
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		fail("the child ended with %d", status);
}

/* What is ours in a context's queues must be gone before it, although it ends just after them. */
static void contexts(void)
{
	const ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
	ze_context_handle_t first = gpu.context;

	for (unsigned i = 0; i < 20; i++) {
		ze_command_list_handle_t l[10];

		OK(zeContextCreate(gpu.driver, &desc, &gpu.context));
		own.q = queue_new(ASYNC, COMPUTE);
		for (unsigned n = 0; n < 10; n++) {
			l[n] = list_new(COMPUTE);
			launch(l[n], own.spin, (void *)(uintptr_t)500000, 0, NULL, NULL);
			OK(zeCommandListClose(l[n]));
			execute(own.q, l[n], NULL);
		}
		OK(zeCommandQueueSynchronize(own.q, UINT64_MAX));
		for (unsigned n = 0; n < 10; n++)
			OK(zeCommandListDestroy(l[n]));
		if (i % 4)
			OK(zeCommandQueueDestroy(own.q));
		OK(zeContextDestroy(gpu.context));
	}
	gpu.context = first;
}

static void end_late(void)
{
	OK(zeContextDestroy(gpu.context));
	puts("right");
}

static void *submits(void *arg)
{
	ze_command_list_handle_t l = arg;

	for (;;) {
		execute(own.q, l, NULL);
		OK(zeCommandQueueSynchronize(own.q, UINT64_MAX));
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled(void)
{
	ze_command_list_handle_t l = recorded(2);
	pthread_t t;

	for (unsigned i = 0; i < 20; i++) {
		if (pthread_create(&t, NULL, submits, l))
			fail("no thread");
		usleep(3000);
		pthread_cancel(t);
		pthread_join(t, NULL);
		OK(zeCommandQueueSynchronize(own.q, UINT64_MAX));
	}
	OK(zeCommandListDestroy(l));
}

static void unlooked(bool reset)
{
	ze_command_list_handle_t l = recorded(2);

	execute(own.q, l, NULL);
	usleep(100000);
	if (reset)
		OK(zeCommandListReset(l));
	OK(zeCommandListDestroy(l));
}

static void deep(void)
{
	ze_command_list_handle_t l[1000];

	for (unsigned i = 0; i < 1000; i++)
		execute(own.q, l[i] = recorded(1), NULL);
	OK(zeCommandQueueSynchronize(own.q, UINT64_MAX));
	for (unsigned i = 0; i < 1000; i++)
		OK(zeCommandListDestroy(l[i]));
}

/* A wait that is over early says so, and the next one goes on. */
static void timeouts(void)
{
	ze_command_list_handle_t l = recorded(1);
	ze_event_handle_t done = event_new(0);
	ze_command_list_handle_t last = list_new(COMPUTE);
	ze_fence_handle_t f = fence_new(own.q);
	unsigned early[3] = {0};

	OK(zeCommandListAppendBarrier(last, done, 0, NULL));
	OK(zeCommandListClose(last));
	execute(own.q, l, NULL);
	execute(own.q, last, f);
	while (ze.zeEventHostSynchronize(done, 20000000) == ZE_RESULT_NOT_READY)
		if (!early[0]++)
			puts("the event is late");
	while (ze.zeFenceHostSynchronize(f, 20000000) == ZE_RESULT_NOT_READY)
		early[1]++;
	while (ze.zeCommandQueueSynchronize(own.q, 20000000) == ZE_RESULT_NOT_READY)
		early[2]++;
	printf("early %u\n", early[0]);
	OK(zeFenceDestroy(f));
	OK(zeCommandListDestroy(l));
	OK(zeCommandListDestroy(last));
	OK(zeEventDestroy(done));
}

/* FAKE_ZE_LOST */
static void lost(void)
{
	ze_command_list_handle_t l = recorded(4);
	ze_result_t rc = ZE_RESULT_SUCCESS;

	for (unsigned i = 0; i < 1000 && !rc; i++) {
		rc = ze.zeCommandQueueExecuteCommandLists(own.q, 1, &l, NULL);
		rc = rc ? rc : ze.zeCommandQueueSynchronize(own.q, UINT64_MAX);
	}
	if (rc != ZE_RESULT_ERROR_DEVICE_LOST)
		fail("0x%x", (unsigned)rc);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "exit";
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	load(false);
	if (!strcmp(how, "fork"))
		in_child(); /* before it has a driver */
	if (!strcmp(how, "late"))
		atexit(end_late);
	begin();
	if (strcmp(how, "lost"))
		some_work();
	puts("ready");
	if (strstr("destroy reset deep timeouts", how) && !fgets(line, sizeof(line), stdin))
		return 1;
	if (!strcmp(how, "fork")) {
		in_child();
		some_work();
	} else if (!strcmp(how, "exec")) {
		execl(argv[0], argv[0], "exit", NULL);
	} else if (!strcmp(how, "late")) {
		return 0;
	} else if (!strcmp(how, "contexts")) {
		contexts();
	} else if (!strcmp(how, "cancel")) {
		cancelled();
	} else if (!strcmp(how, "destroy") || !strcmp(how, "reset")) {
		unlooked(!strcmp(how, "reset"));
	} else if (!strcmp(how, "deep")) {
		deep();
	} else if (!strcmp(how, "timeouts")) {
		timeouts();
	} else if (!strcmp(how, "lost")) {
		lost();
	} else {
		ze_command_list_handle_t l = list_new(COMPUTE);

		for (unsigned i = 0; i < 8; i++)
			launch(l, own.spin, (void *)(uintptr_t)5000000, 0, NULL, NULL);
		OK(zeCommandListClose(l));
		execute(own.q, l, NULL);
	}
	puts("right");
	return 0;
}
