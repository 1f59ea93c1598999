/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a study, on several threads. Each set has its own stream of random numbers. So
 * results are the same with any number of threads, and after any interruption. */
#include "base/cleanup.h"
#include "base/lockorder.h"
#include "study.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* The work that a thread takes at a time. */
#define BATCH 20

struct crew {
	struct study_result *r;
	const char *dir;
	bool progress;
	unsigned batches; /* of a point */
	unsigned points;  /* to do: */
	unsigned point[STUDY_POINTS];
	atomic_uint next; /* batch of all points */
	pthread_mutex_t lock;
	/* Under the lock. */
	unsigned finished, of_point[STUDY_POINTS];
	int rc;
};

/* A stream for each set of each point of each study: its name is part of it. */
static uint64_t stream_of(const struct study *s, unsigned point, unsigned set)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (const char *c = s->name; *c; c++)
		h = (h ^ (unsigned char)*c) * UINT64_C(1099511628211);
	return (h ^ point) * UINT64_C(1099511628211) + set;
}

static int run_batch(const struct study_result *r, unsigned point, unsigned from, unsigned to,
	unsigned passed[STUDY_CURVES])
{
	int rc = 0;

	for (unsigned k = from; !rc && k < to; k++) {
		bool passes[STUDY_CURVES] = {false};
		struct fm_rta_random random;

		fm_rta_seed(&random, r->seed, stream_of(r->study, point, k));
		rc = r->study->sample(r->study, point, &random, passes);
		for (unsigned c = 0; c < r->study->curves; c++)
			passed[c] += passes[c];
	}
	return rc;
}

static void draw_bar(const struct crew *c)
{
	unsigned all = c->batches * c->points, width = 40;
	unsigned full = width * c->finished / all;
	char bar[41];

	if (!c->progress)
		return;
	memset(bar, '#', full);
	memset(bar + full, '.', width - full);
	bar[width] = '\0';
	fprintf(stderr, "\r%-9s [%s] %3u%%%s", c->r->study->name, bar, 100 * c->finished / all,
		c->finished == all ? "\n" : "");
	fflush(stderr);
}

static void part_name(const struct study_result *r, const char *dir, char *path, size_t size)
{
	snprintf(path, size, "%s/%s.part", dir, r->study->name);
}

/* Writes all results so far in place of the old file: never half a line. */
static int save(const struct study_result *r, const char *dir)
{
	struct outfile part;
	char path[4096];
	int rc;

	part_name(r, dir, path, sizeof(path));
	rc = outfile_open(&part, path, true, NULL);
	if (rc)
		return rc;
	study_csv(part.f, r);
	return outfile_close(&part, true, NULL);
}

static void account(struct crew *c, unsigned point, const unsigned passed[STUDY_CURVES], int rc)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned k = 0; k < c->r->study->curves; k++)
		c->r->passed[point][k] += passed[k];
	c->finished++;
	if (rc && !c->rc)
		c->rc = rc;
	if (++c->of_point[point] == c->batches && !c->rc) {
		c->r->done[point] = true;
		c->rc = save(c->r, c->dir);
	}
	draw_bar(c);
	pthread_mutex_unlock(&c->lock);
}

static bool failed(struct crew *c)
{
	bool yes;

	pthread_mutex_lock(&c->lock);
	yes = c->rc != 0;
	pthread_mutex_unlock(&c->lock);
	return yes;
}

static void *work(void *arg)
{
	struct crew *c = arg;
	unsigned all = c->batches * c->points;

	for (;;) {
		unsigned n = atomic_fetch_add(&c->next, 1), passed[STUDY_CURVES] = {0};
		unsigned point, from, to;

		if (n >= all || failed(c))
			return NULL;
		point = c->point[n / c->batches];
		from = n % c->batches * BATCH;
		to = from + BATCH < c->r->sets ? from + BATCH : c->r->sets;
		account(c, point, passed, run_batch(c->r, point, from, to, passed));
	}
}

static int start(struct crew *c, unsigned threads)
{
	FM_CLEAN_FREE pthread_t *thread = calloc(threads, sizeof(*thread));
	unsigned n = 0;

	if (!thread)
		return -ENOMEM;
	draw_bar(c);
	while (n + 1 < threads && !pthread_create(&thread[n], NULL, work, c))
		n++;
	work(c); /* this thread is one of them, perhaps the only one */
	while (n--)
		pthread_join(thread[n], NULL);
	return c->rc;
}

int study_run(struct study_result *r, const char *dir, unsigned threads, bool progress,
	struct fm_err *err)
{
	struct crew c = {.r = r, .dir = dir, .progress = progress};
	int rc;

	c.batches = (r->sets + BATCH - 1) / BATCH;
	for (unsigned p = 0; p < r->study->points; p++)
		if (!r->done[p])
			c.point[c.points++] = p;
	if (!c.points)
		return 0;
	for (unsigned k = 0; k < c.points; k++)
		memset(r->passed[c.point[k]], 0, sizeof(r->passed[0]));
	pthread_mutex_init(&c.lock, NULL);
	fm_lock_rank(&c.lock, STUDY);
	rc = start(&c, threads);
	pthread_mutex_destroy(&c.lock);
	if (rc)
		fm_err_set(err, rc, "%.200s/%s: %s", dir, r->study->name, strerror(-rc));
	return rc;
}

/* A line of a part: "x,sets,passed...". */
static bool read_line(struct study_result *r, char *line)
{
	double x = strtod(line, &line);
	unsigned long v[STUDY_CURVES], sets;

	if (*line != ',')
		return false;
	sets = strtoul(line + 1, &line, 10);
	for (unsigned k = 0; k < r->study->curves; k++) {
		if (*line != ',')
			return false;
		v[k] = strtoul(line + 1, &line, 10);
		if (v[k] > sets)
			return false;
	}
	if (*line != '\n' || sets != r->sets)
		return false;
	for (unsigned p = 0; p < r->study->points; p++) {
		double off = study_x(r->study, p) - x;

		if (r->done[p] || off > r->study->step / 4 || off < -r->study->step / 4)
			continue;
		for (unsigned k = 0; k < r->study->curves; k++)
			r->passed[p][k] = (unsigned)v[k];
		r->done[p] = true;
		return true;
	}
	return false;
}

unsigned study_resume(struct study_result *r, const char *dir)
{
	FM_CLEAN_FREE char *line = NULL, *expected = NULL;
	FM_CLEAN_FILE FILE *f = NULL;
	char path[4096];
	size_t size = 0, length = 0;
	unsigned points = 0;
	FILE *head;

	part_name(r, dir, path, sizeof(path));
	f = fopen(path, "re");
	head = open_memstream(&expected, &length);
	if (!f || !head) {
		if (head)
			fclose(head);
		return 0;
	}
	study_csv(head, r); /* nothing is done yet: only the head */
	fclose(head);
	for (size_t at = 0; at < length; at += strlen(line))
		if (getline(&line, &size, f) < 0 || strncmp(expected + at, line, strlen(line)))
			return 0;
	while (getline(&line, &size, f) >= 0)
		points += read_line(r, line);
	return points;
}
