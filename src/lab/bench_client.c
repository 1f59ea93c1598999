/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that `fermata-lab bench` starts: one client, or all clients in threads. */
#include "base/parse.h"
#include "base/util.h"
#include "bench.h"
#include "bench/client.h"
#include "cmd/place.h"
#include "commands.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static void *client_thread(void *client)
{
	bench_client_run(client);
	return NULL;
}

/* A client that cannot be started says so on its seat. */
static void run_all(const struct bench_client *common)
{
	static struct bench_client client[BENCH_TASKS];
	pthread_t thread[BENCH_TASKS];
	bool running[BENCH_TASKS] = {false};
	uint32_t n = common->workload->tasks;

	for (uint32_t i = 0; i < n; i++) {
		struct bench_seat *s = &common->page->seat[i];

		client[i] = *common;
		client[i].task = i;
		running[i] = !pthread_create(&thread[i], NULL, client_thread, &client[i]);
		if (running[i])
			continue;
		strcpy(s->error, "a thread cannot be started");
		atomic_store(&s->done, BENCH_FAILED);
	}
	for (uint32_t i = 0; i < n; i++)
		if (running[i])
			pthread_join(thread[i], NULL);
}

static bool read_workload(struct bench_workload *w, int fd, bool any_model)
{
	struct fm_err err = {0};
	struct stat st;
	void *text;

	if (fstat(fd, &st) || st.st_size <= 0)
		return false;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return text != MAP_FAILED &&
	       !bench_workload_parse(w, "workload", text, (size_t)st.st_size, any_model, &err);
}

static int refuse(void)
{
	fprintf(stderr, "fermata-lab: _bench is for `fermata-lab bench'\n");
	return CLI_USAGE;
}

int lab_bench_client(struct cli *cli, int argc, char **argv)
{
	static struct bench_workload w;
	struct bench_client c = {.workload = &w};
	struct bench_driver driver = {0};
	char library[PATH_MAX];
	int64_t text, page, task = 0;

	(void)cli;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1); /* requests begin when they are due */
	signal(SIGINT, SIG_IGN);     /* the parent will report it */
	if (argc != 5 || fm_parse_int(argv[1], 0, INT32_MAX, &text, NULL) ||
		fm_parse_int(argv[2], 0, INT32_MAX, &page, NULL) ||
		bench_driver_find(&driver, argv[4], NULL))
		return refuse();
	c.page = bench_page_map((int)page);
	if (!c.page || !read_workload(&w, (int)text, !driver.built_in) ||
		c.page->tasks != w.tasks || c.page->kernels != w.kernels)
		return refuse();
	if (strcmp(argv[3], BENCH_ALL) && fm_parse_int(argv[3], 0, w.tasks - 1, &task, NULL))
		return refuse();
	c.driver = &driver;
	c.task = (uint32_t)task;
	c.libfermata = place_library(library) ? library : NULL;
	if (strcmp(argv[3], BENCH_ALL))
		bench_client_run(&c);
	else
		run_all(&c);
	/* Without the exit handlers of drivers, because drivers may hang there. */
	_exit(CLI_OK);
}
