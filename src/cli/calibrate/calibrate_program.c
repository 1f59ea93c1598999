/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that `fermata calibrate` lets compete. Their page tells them what to do, and they
 * end with the process that started them. */
#include "base/clock.h"
#include "base/util.h"
#include "bench/driver.h"
#include "calibrate.h"
#include "cli/commands.h"
#include "cmd/place.h"
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define REST_NS (200 * FM_US)
#define PAUSE_NS                                                                        \
	(2 * FM_MS) /* of the sporadic one: so long at least, and at most so much more: \
		     */
#define JITTER_NS (3 * FM_MS)
#define WARM_UP   16
#define RT_PRIO   10 /* of SCHED_FIFO: of the sporadic one; the busy one is just below it */

struct program {
	struct load load;
	struct calibrate_page *page;
	uint64_t amount;
	uint32_t random;
};

static void rest(uint64_t ns)
{
	const struct timespec t = fm_timespec(ns);

	nanosleep(&t, NULL);
}

static void note(struct calibrate_page *page, uint64_t begin, uint64_t end)
{
	uint32_t n = atomic_load_explicit(&page->notes, memory_order_relaxed);

	if (n == NOTES)
		return;
	page->note[n].begin = begin;
	page->note[n].end = end;
	atomic_store_explicit(&page->notes, n + 1, memory_order_release);
}

static const char *once(struct program *p, uint64_t amount, uint64_t *took)
{
	uint64_t begin = fm_now();
	const char *wrong = p->load.ops->launch(&p->load, 0, amount, 0);

	wrong = wrong ? wrong : p->load.ops->wait(&p->load, 0);
	*took = fm_now() - begin;
	return wrong;
}

static bool told(const struct program *p, enum calibrate_go go)
{
	return atomic_load(&p->page->go) == go;
}

static const char *busy(struct program *p)
{
	uint64_t begin[LOAD_DEPTH];
	const char *wrong = NULL;
	unsigned k;

	for (k = 0; !wrong && k < LOAD_DEPTH; k++) {
		begin[k] = fm_now();
		wrong = p->load.ops->launch(&p->load, k, p->amount, 0);
	}
	for (k = 0; !wrong && told(p, GO_WORK); k = (k + 1) % LOAD_DEPTH) {
		wrong = p->load.ops->wait(&p->load, k);
		note(p->page, begin[k], fm_now());
		begin[k] = fm_now();
		wrong = wrong ? wrong : p->load.ops->launch(&p->load, k, p->amount, 0);
	}
	for (unsigned n = 0; !wrong && n < LOAD_DEPTH; n++)
		wrong = p->load.ops->wait(&p->load, (k + n) % LOAD_DEPTH);
	return wrong;
}

static const char *sporadic(struct program *p)
{
	const char *wrong = NULL;

	while (!wrong && told(p, GO_WORK)) {
		uint64_t begin, took;

		p->random = p->random * 1664525u + 1013904223u;
		rest(PAUSE_NS + (p->random >> 8) % JITTER_NS);
		begin = fm_now();
		wrong = once(p, p->amount, &took);
		note(p->page, begin, begin + took);
	}
	return wrong;
}

static const char *follow(struct program *p, enum calibrate_role role)
{
	const struct sched_param param = {.sched_priority = RT_PRIO - (role == ROLE_BUSY)};
	const char *wrong = NULL;
	uint64_t took;

	for (int i = 0; !wrong && i < WARM_UP; i++)
		wrong = once(p, p->amount, &took);
	/* Only this thread: threads that the driver has made are not part of a task. */
	if (!wrong && p->page->realtime && sched_setscheduler(0, SCHED_FIFO, &param))
		wrong = "--realtime needs the right to real-time priorities (CAP_SYS_NICE)";
	if (!wrong)
		atomic_store(&p->page->state, STATE_READY);
	while (!wrong) {
		if (told(p, GO_WORK))
			wrong = role == ROLE_BUSY ? busy(p) : sporadic(p);
		if (!wrong && told(p, GO_WAIT))
			atomic_store(&p->page->state, STATE_RESTING);
		rest(REST_NS);
	}
	return wrong;
}

static struct calibrate_page *map(int fd)
{
	struct calibrate_page *page =
		mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

static const char *run(struct program *p, enum calibrate_role role, unsigned index)
{
	const char *wrong = p->load.ops->open(&p->load, index);

	if (wrong)
		return wrong;
	strcpy(p->page->name, p->load.about.name);
	strcpy(p->page->platform, p->load.about.platform);
	strcpy(p->page->driver, p->load.about.driver);
	if (role != ROLE_SIZE)
		return follow(p, role);
	wrong = load_size(&p->load, p->amount, 0, &p->page->amount, &p->page->command_ns);
	if (!wrong)
		atomic_store(&p->page->state, STATE_READY);
	return wrong;
}

int cli_calibrate_program(struct cli *cli, int argc, char **argv)
{
	struct program p = {.random = 1};
	char library[PATH_MAX];
	bool sets = argc == 5 && atoi(argv[2]) == ROLE_SETS;
	const char *wrong;
	unsigned index;

	(void)cli;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc == 5)
		p.page = map(atoi(argv[1]));
	if (argc == 5 && !sets) {
		p.load.ops = bench_load_find(argv[3], &index);
		p.load.libfermata = place_library(library) ? library : NULL;
		p.amount = strtoull(argv[4], NULL, 10);
	}
	if (!p.page || (!p.load.ops && !sets)) {
		fprintf(stderr, "fermata: _calibrate is for `fermata calibrate'\n");
		return CLI_USAGE;
	}
	wrong = sets ? calibrate_sets_program(p.page, place_library(library) ? library : NULL,
			       argv[3], (unsigned)strtoul(argv[4], NULL, 10))
		     : run(&p, (enum calibrate_role)atoi(argv[2]), index);
	if (!wrong && sets)
		atomic_store(&p.page->state, STATE_READY);
	if (wrong) {
		snprintf(p.page->error, sizeof(p.page->error), "%s", wrong);
		atomic_store(&p.page->state, STATE_FAILED);
	}
	/* Ends without running the exit handlers of drivers, since drivers may hang there. */
	_exit(wrong ? CLI_FAILED : CLI_OK);
}
