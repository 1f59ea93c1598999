/* SPDX-License-Identifier: Apache-2.0 */
/* Random times, arrivals and commands, as people write them. */
#include "base/nearest.h"
#include "base/parse.h"
#include "workload.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS     (FM_SIM_POINTS + 4)
#define TEXT      200
#define TIMES_MAX 1000000
#define BURST_MAX 100000
#define TIME_HINT "write a time as 200us, or exp, uniform, normal, pareto, measured with theirs"

struct words {
	char text[TEXT];
	char *word[WORDS];
	unsigned n;
};

static int split(struct words *w, const char *text, struct fm_err *err)
{
	char *save;

	w->n = 0;
	if (snprintf(w->text, sizeof(w->text), "%s", text) >= (int)sizeof(w->text))
		return fm_err_set(err, -EINVAL, "the value is too long");
	for (char *s = strtok_r(w->text, " \t", &save); s; s = strtok_r(NULL, " \t", &save)) {
		if (w->n == WORDS)
			return fm_err_set(err, -EINVAL, "the value has too many words");
		w->word[w->n++] = s;
	}
	return 0;
}

int workload_time(const char *word, uint64_t *ns, struct fm_err *err)
{
	int64_t v;
	int rc = fm_parse_time(word, &v, err);

	if (!rc && v > (int64_t)WORKLOAD_TIME)
		rc = fm_err_set(err, -ERANGE, "'%.40s' is longer than a year", word);
	if (!rc)
		*ns = (uint64_t)v;
	return rc;
}

/* "1.5", in thousandths. */
static int exponent_of(const char *word, uint64_t *v, struct fm_err *err)
{
	unsigned long long whole = 0, part = 0, unit = 1000;
	const char *c = word;

	for (; *c >= '0' && *c <= '9' && whole < 1000; c++)
		whole = 10 * whole + (unsigned)(*c - '0');
	if (*c == '.' && c > word)
		for (c++; *c >= '0' && *c <= '9' && unit > 1; c++) {
			unit /= 10;
			part += unit * (unsigned)(*c - '0');
		}
	*v = 1000 * whole + part;
	if (!*c && c > word && *v > 1000 && *v <= 100000)
		return 0;
	fm_err_set(err, -EINVAL, "'%.40s' is no exponent of a pareto distribution", word);
	return fm_err_hint(
		err, "give a number above 1, to 100; the less it is the longer the tail");
}

static const struct shape {
	const char *name;
	enum fm_sim_shape shape;
	unsigned words;
	const char *use;
} shapes[] = {
	{"exp", FM_SIM_EXP, 1, "exp MEAN"},
	{"uniform", FM_SIM_UNIFORM, 2, "uniform LEAST MOST"},
	{"normal", FM_SIM_NORMAL, 2, "normal MEAN DEVIATION"},
	{"pareto", FM_SIM_PARETO, 2, "pareto LEAST EXPONENT"},
	{"measured", FM_SIM_MEASURED, 0, "measured 0:LEAST PERCENT:TIME... 100:MOST"},
};

static const struct shape *shape_of(const char *word)
{
	for (size_t k = 0; k < FM_ARRAY_LEN(shapes); k++)
		if (!strcmp(shapes[k].name, word))
			return &shapes[k];
	return NULL;
}

static int no_shape(const char *word, struct fm_err *err)
{
	struct fm_nearest near = {.typed = word};

	for (size_t k = 0; k < FM_ARRAY_LEN(shapes); k++)
		fm_nearest_try(&near, shapes[k].name);
	fm_err_set(err, -EINVAL, "'%.40s' is neither a time nor a distribution", word);
	if (near.best)
		return fm_err_hint(err, "did you mean '%s'?", near.best);
	return fm_err_hint(err, TIME_HINT);
}

/* "12.5", in thousandths. */
static bool percent_of(const char *word, uint64_t *v)
{
	unsigned long long n = 0, unit = 1000;
	const char *c = word;

	for (; *c >= '0' && *c <= '9' && n <= 100; c++)
		n = 10 * n + (unsigned)(*c - '0');
	*v = n * 1000;
	if (*c == '.' && c > word)
		for (c++; *c >= '0' && *c <= '9' && unit > 1; c++) {
			unit /= 10;
			*v += unit * (unsigned)(*c - '0');
		}
	return c > word && !*c && *v <= 100000;
}

/* "PERCENT:TIME" */
static int point_of(const char *word, struct fm_sim_points *p, struct fm_err *err)
{
	const char *colon = strchr(word, ':');
	uint64_t percent = 0, ns = 0;
	char text[16] = "";
	int rc;

	if (colon && (size_t)(colon - word) < sizeof(text))
		memcpy(text, word, (size_t)(colon - word));
	if (!percent_of(text, &percent))
		return fm_err_set(err, -EINVAL, "'%.40s' is no percentile and its time", word);
	rc = workload_time(colon + 1, &ns, err);
	if (rc)
		return rc;
	percent = (percent << 32) / 100000;
	if (p->n && (percent <= p->point[p->n - 1].part || ns < p->point[p->n - 1].ns))
		return fm_err_set(err, -EINVAL, "'%.40s' does not ascend", word);
	p->point[p->n].part = percent;
	p->point[p->n++].ns = ns;
	return 0;
}

static int points_of(char *const *word, unsigned n, struct fm_sim_points *p, struct fm_err *err)
{
	int rc = n <= FM_SIM_POINTS
			 ? 0
			 : fm_err_set(err, -E2BIG, "more than %d percentiles", FM_SIM_POINTS);

	for (unsigned i = 0; i < n && !rc; i++)
		rc = point_of(word[i], p, err);
	if (!rc && (n < 2 || p->point[0].part || p->point[n - 1].part >> 32 != 1))
		rc = fm_err_set(err, -EINVAL, "percentiles go from 0 to 100");
	if (rc)
		fm_err_hint(err, "write measured 0:LEAST PERCENT:TIME... 100:MOST");
	return rc;
}

static int measured(char *const *word, unsigned n, struct fm_sim_dist *d, struct fm_err *err)
{
	struct fm_sim_points *p = calloc(1, sizeof(*p));
	int rc = p ? points_of(word, n, p, err) : fm_err_set(err, -ENOMEM, "out of memory");

	if (rc) {
		free(p);
		return rc;
	}
	d->shape = FM_SIM_MEASURED;
	d->points = p;
	return 0;
}

void workload_dist_free(struct fm_sim_dist *d)
{
	free(d->points);
	*d = (struct fm_sim_dist){0};
}

/* All words. */
static int dist_of(char *const *word, unsigned n, struct fm_sim_dist *d, struct fm_err *err)
{
	const struct shape *s = n ? shape_of(word[0]) : NULL;
	int rc;

	workload_dist_free(d);
	if (s && s->shape == FM_SIM_MEASURED)
		return measured(word + 1, n - 1, d, err);
	if (!n) {
		fm_err_set(err, -EINVAL, "there is no time");
		return fm_err_hint(err, TIME_HINT);
	}
	if (!s && !strchr("0123456789.+-", word[0][0]))
		return no_shape(word[0], err);
	if (n != (s ? s->words + 1 : 1)) {
		fm_err_set(
			err, -EINVAL, "'%.40s' has the wrong number of words behind it", word[0]);
		return fm_err_hint(err, "write %s", s ? s->use : "a time as one word, 200us");
	}
	if (!s)
		return workload_time(word[0], &d->a, err);
	d->shape = s->shape;
	rc = workload_time(word[1], &d->a, err);
	if (!rc && d->shape == FM_SIM_PARETO)
		return exponent_of(word[2], &d->b, err);
	if (!rc && s->words == 2)
		rc = workload_time(word[2], &d->b, err);
	if (!rc && d->shape == FM_SIM_UNIFORM && d->b < d->a)
		rc = fm_err_set(err, -EINVAL, "the most is less than the least");
	return rc;
}

int workload_dist(const char *text, struct fm_sim_dist *d, struct fm_err *err)
{
	struct words w;
	int rc = split(&w, text, err);

	return rc ? rc : dist_of(w.word, w.n, d, err);
}

/* "[COUNT x] [pause|cpu] TIME" */
static int one_step(const char *text, struct fm_sim_step *s, struct fm_err *err)
{
	struct words w;
	int64_t times = 1;
	unsigned at = 0;
	int rc = split(&w, text, err);

	if (rc)
		return rc;
	if (w.n > 1 && !strcmp(w.word[1], "x")) {
		rc = fm_parse_int(w.word[0], 1, TIMES_MAX, &times, err);
		at = 2;
	}
	if (rc)
		return rc;
	s->times = (uint32_t)times;
	s->pause = at < w.n && !strcmp(w.word[at], "pause");
	s->cpu = at < w.n && !strcmp(w.word[at], "cpu");
	at += s->pause || s->cpu;
	return dist_of(w.word + at, w.n - at, &s->time, err);
}

int workload_commands(struct fm_sim_group *g, const char *text, struct fm_err *err)
{
	char items[TEXT], *save;
	int rc = 0;

	if (snprintf(items, sizeof(items), "%s", text) >= (int)sizeof(items))
		return fm_err_set(err, -EINVAL, "the value is too long");
	for (char *s = strtok_r(items, ",", &save); s && !rc; s = strtok_r(NULL, ",", &save)) {
		if (g->steps == FM_SIM_STEPS) {
			fm_err_set(err, -E2BIG, "a job of more than %d steps", FM_SIM_STEPS);
			return fm_err_hint(err, "write equal commands together: 20 x 200us");
		}
		rc = one_step(s, &g->step[g->steps], err);
		g->steps += !rc;
	}
	return rc;
}

enum process { EVERY, POISSON, CLOSED, ALWAYS, BURST, TRACE, AFTER };

static const struct {
	const char *name, *use;
} processes[] = {
	[EVERY] = {"every", "every TIME"},
	[POISSON] = {"poisson", "poisson MEAN"},
	[CLOSED] = {"closed", "closed TIME"},
	[ALWAYS] = {"always", "always"},
	[BURST] = {"burst", "burst COUNT every TIME"},
	[TRACE] = {"trace", "trace [FILE]"},
	[AFTER] = {"after", "after GROUP..."},
};

static int no_process(const char *word, struct fm_err *err)
{
	struct fm_nearest near = {.typed = word};

	for (size_t k = 0; k < FM_ARRAY_LEN(processes); k++)
		fm_nearest_try(&near, processes[k].name);
	fm_err_set(err, -EINVAL, "'%.40s' is not a kind of arrival", word);
	if (near.best)
		return fm_err_hint(err, "did you mean '%s'?", near.best);
	return fm_err_hint(err, "give every, poisson, closed, always, burst, trace or after");
}

static int poisson(struct fm_sim_group *g, const struct words *w, struct fm_err *err)
{
	int rc = w->n == 2 ? workload_time(w->word[1], &g->time.a, err) : -EINVAL;

	g->time.shape = FM_SIM_EXP;
	g->random_phase = true;
	if (!rc && !g->time.a)
		rc = fm_err_set(err, -EINVAL, "no time between two arrivals");
	if (w->n != 2)
		fm_err_set(err, rc, "poisson takes one time");
	return rc;
}

static int burst(struct fm_sim_group *g, struct words *w, struct fm_err *err)
{
	int64_t n = 0;
	int rc;

	if (w->n < 4 || strcmp(w->word[2], "every")) {
		fm_err_set(err, -EINVAL, "this is no burst");
		return fm_err_hint(err, "write %s", processes[BURST].use);
	}
	rc = fm_parse_int(w->word[1], 1, BURST_MAX, &n, err);
	g->burst = (uint32_t)n;
	return rc ? rc : dist_of(w->word + 3, w->n - 3, &g->time, err);
}

/* The text behind this many words. */
static void name_list(const char *text, unsigned words, char names[200])
{
	while (words--) {
		text += strspn(text, " \t");
		text += strcspn(text, " \t");
	}
	snprintf(names, 200, "%s", text + strspn(text, " \t"));
}

static int closed(struct fm_sim_group *g, const struct words *w, const char *text, char names[200],
	struct fm_err *err)
{
	if (w->n < 2 || strcmp(w->word[1], "trace"))
		return dist_of(w->word + 1, w->n - 1, &g->time, err);
	g->arrival = FM_SIM_CHAIN;
	name_list(text, 2, names);
	return 0;
}

static int after(const struct words *w, const char *text, char names[200], struct fm_err *err)
{
	if (w->n < 2)
		return fm_err_set(err, -EINVAL, "'%s' of what?", w->word[0]);
	name_list(text, 1, names);
	return 0;
}

int workload_arrival(struct fm_sim_group *g, const char *text, char names[200], struct fm_err *err)
{
	static const enum fm_sim_arrival as[] = {FM_SIM_PERIODIC, FM_SIM_PERIODIC, FM_SIM_CLOSED,
		FM_SIM_CLOSED, FM_SIM_BURSTS, FM_SIM_TRACE, FM_SIM_AFTER};
	struct words w;
	size_t k = 0;
	int rc = split(&w, text, err);

	if (rc)
		return rc;
	if (!w.n)
		return fm_err_set(err, -EINVAL, "there is no value");
	while (k < FM_ARRAY_LEN(processes) && strcmp(processes[k].name, w.word[0]))
		k++;
	if (k == FM_ARRAY_LEN(processes))
		return no_process(w.word[0], err);
	g->arrival = as[k];
	workload_dist_free(&g->time);
	g->burst = 1;
	switch ((enum process)k) {
	case EVERY:
		return dist_of(w.word + 1, w.n - 1, &g->time, err);
	case CLOSED:
		return closed(g, &w, text, names, err);
	case POISSON:
		return poisson(g, &w, err);
	case ALWAYS:
		return w.n == 1 ? 0 : fm_err_set(err, -EINVAL, "'always' stands alone");
	case BURST:
		return burst(g, &w, err);
	case TRACE:
		name_list(text, 1, names);
		return 0;
	case AFTER:
		return after(&w, text, names, err);
	}
	return -EINVAL;
}

int workload_phase(struct fm_sim_group *g, const char *text, struct fm_err *err)
{
	g->random_phase = !strcmp(text, "random");
	g->phase = 0;
	return g->random_phase ? 0 : workload_time(text, &g->phase, err);
}
