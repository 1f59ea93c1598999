/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a workload that need more than one line: names, sums, and the policy. */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "workload_keys.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef const char *(*name_fn)(const struct workload *w, uint32_t i);

static const char *device_name(const struct workload *w, uint32_t i)
{
	return i < w->plan.devices ? w->device_name[i] : NULL;
}

static const char *group_name(const struct workload *w, uint32_t i)
{
	return i < w->plan.groups ? w->own[i].name : NULL;
}

static int find(const struct workload *w, name_fn name, const char *what, const char *word,
	uint32_t *out, struct fm_err *err)
{
	struct fm_nearest near = {.typed = word};

	for (*out = 0; name(w, *out); ++*out) {
		if (!strcmp(name(w, *out), word))
			return 0;
		fm_nearest_try(&near, name(w, *out));
	}
	fm_err_set(err, -EINVAL, "there is no %s '%.40s'", what, word);
	if (near.best)
		return fm_err_hint(err, "did you mean '%s'?", near.best);
	return fm_err_hint(err, "it needs a section [%s %.40s]", what, word);
}

/* Looks up names between spaces and commas. Each may occur only once. */
static int resolve(const struct workload *w, const struct workload_names *names, name_fn name,
	const char *what, uint32_t *out, uint32_t *n, uint32_t max, struct fm_err *err)
{
	char text[sizeof(names->text)], *save;

	snprintf(text, sizeof(text), "%s", names->text);
	*n = 0;
	for (char *word = strtok_r(text, " \t,", &save); word;
		word = strtok_r(NULL, " \t,", &save)) {
		int rc;

		if (*n == max)
			return fm_err_set(err, -E2BIG, "more than %u names", max);
		rc = find(w, name, what, word, &out[*n], err);
		if (rc)
			return rc;
		for (uint32_t i = 0; i < *n; i++)
			if (out[i] == out[*n])
				return fm_err_set(err, -EINVAL, "'%.40s' stands there twice", word);
		++*n;
	}
	return 0;
}

static int load_trace(
	struct workload_group *own, const char *name, const char *folder, struct fm_err *err)
{
	FM_CLEAN_FREE char *path = NULL;
	FM_CLEAN_FILE FILE *f = NULL;
	struct stat st;
	int fd, rc;

	if (!folder)
		return fm_err_set(err, -EINVAL, "no trace can be read here");
	if (asprintf(&path, "%s%s", *name == '/' ? "" : folder, name) < 0) {
		path = NULL;
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || !(f = fdopen(fd, "r"))) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return fm_err_set(err, rc, "%.100s: %s", path, strerror(-rc));
	}
	if (!S_ISREG(st.st_mode))
		return fm_err_set(err, -EINVAL, "%.100s is not a regular file", path);
	return workload_trace(f, name, &own->record, &own->records, err);
}

static bool is_recorded(const struct fm_sim_group *g)
{
	return g->arrival == FM_SIM_TRACE || g->arrival == FM_SIM_CHAIN;
}

/* The first job has no pause: it comes at its recorded time. */
static int check_pauses(const struct fm_sim_group *g, struct fm_err *err)
{
	for (size_t i = 1; i < g->records; i++)
		if (g->record[i].pause == WORKLOAD_NO_PAUSE) {
			fm_err_set(err, -EINVAL,
				"group '%s': job %zu does not say how long it came after the one "
				"before",
				g->name, i + 1);
			return fm_err_hint(err, "give it behind the commands, or let jobs come "
						"when they did: trace");
		}
	return 0;
}

int workload_closed(struct workload *w, bool closed, struct fm_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->plan.groups && !rc; i++) {
		struct fm_sim_group *g = &w->group[i];

		if (!is_recorded(g))
			continue;
		g->arrival = closed ? FM_SIM_CHAIN : FM_SIM_TRACE;
		rc = closed ? check_pauses(g, err) : 0;
	}
	return rc;
}

/* Recorded jobs are in a file, or in the section itself. */
static int finish_recorded(struct fm_sim_group *g, struct workload_group *own, const char *folder,
	uint32_t *line, struct fm_err *err)
{
	int rc = 0;

	if (own->job_line && (own->after.line || !is_recorded(g))) {
		*line = own->job_line;
		fm_err_set(
			err, -EINVAL, "group '%s' has jobs here, and comes otherwise", own->name);
		return fm_err_hint(err, "write arrive = trace, without a file");
	}
	if (own->after.line && is_recorded(g)) {
		*line = own->after.line;
		rc = load_trace(own, own->after.text, folder, err);
	}
	g->record = own->record;
	g->records = own->records;
	g->change = own->change;
	g->changes = own->changes;
	return rc || g->arrival != FM_SIM_CHAIN ? rc : check_pauses(g, err);
}

static int check_commands(const struct fm_sim_group *g, struct fm_err *err)
{
	bool works = is_recorded(g) && !g->steps;

	for (size_t i = 0; i < g->records && works; i++)
		works = g->record[i].length > 0;
	for (uint32_t s = 0; s < g->steps; s++)
		works |= !g->step[s].pause;
	if (works)
		return 0;
	fm_err_set(err, -EINVAL, "group '%s' has no commands", g->name);
	return fm_err_hint(err, "give it some: commands = 10 x 200us");
}

static int check_cpu(const struct fm_sim_group *g, struct fm_err *err)
{
	bool computes = false;

	for (uint32_t s = 0; s < g->steps; s++)
		computes |= g->step[s].cpu;
	if (g->has_cpu || (!computes && !g->spins))
		return 0;
	fm_err_set(err, -EINVAL, "group '%s' %s, and has no cpu", g->name,
		computes ? "computes" : "spins");
	return fm_err_hint(err, "give it one: cpu = 0");
}

static int finish_arrival(
	struct workload *w, uint32_t i, const char *folder, uint32_t *line, struct fm_err *err)
{
	struct fm_sim_group *g = &w->group[i];
	struct workload_group *own = &w->own[i];
	int rc = finish_recorded(g, own, folder, line, err);

	if (rc || g->arrival != FM_SIM_AFTER)
		return rc;
	*line = own->after.line;
	rc = resolve(
		w, &own->after, group_name, "group", g->before, &g->befores, FM_SIM_BEFORE, err);
	for (uint32_t b = 0; b < g->befores && !rc; b++)
		if (g->before[b] == i)
			rc = fm_err_set(err, -EINVAL, "group '%s' follows itself", own->name);
	return rc;
}

static int finish_group(
	struct workload *w, uint32_t i, const char *folder, uint32_t *line, struct fm_err *err)
{
	struct fm_sim_group *g = &w->group[i];
	const struct workload_group *own = &w->own[i];
	int rc;

	*line = own->line;
	g->name = own->name;
	g->deadline = fm_sim_deadline(&g->hints);
	rc = check_cpu(g, err);
	if (rc)
		return rc;
	if (g->stop <= g->start)
		return fm_err_set(err, -EINVAL, "group '%s' stops before it starts", own->name);
	if (!own->devices.line) {
		g->places = FM_MIN(w->plan.devices, (uint32_t)FM_SIM_PLACES);
		for (uint32_t k = 0; k < g->places; k++)
			g->place[k] = k;
	}
	rc = finish_arrival(w, i, folder, line, err);
	if (!rc) {
		*line = own->line;
		rc = check_commands(g, err);
	}
	if (rc || !own->devices.line)
		return rc;
	*line = own->devices.line;
	return resolve(
		w, &own->devices, device_name, "device", g->place, &g->places, FM_SIM_PLACES, err);
}

/* Groups must not follow each other in a circle: none of them would begin. */
static int check_circles(const struct workload *w, uint32_t *line, struct fm_err *err)
{
	FM_CLEAN_FREE uint8_t *ends = calloc(w->plan.groups + 1, 1);
	bool more = true;

	if (!ends)
		return fm_err_set(err, -ENOMEM, "out of memory");
	while (more) {
		more = false;
		for (uint32_t i = 0; i < w->plan.groups; i++) {
			const struct fm_sim_group *g = &w->group[i];
			bool now = !ends[i];

			for (uint32_t b = 0; b < g->befores && now; b++)
				now = g->arrival != FM_SIM_AFTER || ends[g->before[b]];
			ends[i] |= now;
			more |= now;
		}
	}
	for (uint32_t i = 0; i < w->plan.groups; i++) {
		if (ends[i])
			continue;
		*line = w->own[i].after.line;
		return fm_err_set(
			err, -EINVAL, "group '%s' follows itself, by others", w->own[i].name);
	}
	return 0;
}

/* Checks the number of entities and of devices on one machine. */
static int check_size(const struct workload *w, struct fm_err *err)
{
	uint64_t devices = 0, ents = 0, most = WORKLOAD_ENTITIES;

	for (uint32_t i = 0; i < w->plan.devices; i++)
		devices += w->device[i].count;
	for (uint32_t i = 0; i < w->plan.groups; i++) {
		const struct fm_sim_group *g = &w->group[i];
		uint64_t on = 0;

		for (uint32_t k = 0; k < g->places; k++)
			on += w->device[g->place[k]].count;
		ents += g->count * (g->everywhere ? on : 1);
	}
	if (devices <= most && ents <= most)
		return 0;
	fm_err_set(err, -E2BIG, "more than %u devices, or groups on devices, of one machine",
		WORKLOAD_ENTITIES);
	return fm_err_hint(err, "make it several: machines = N");
}

static int check_whole(const struct workload *w, struct fm_err *err)
{
	if (!w->plan.devices) {
		fm_err_set(err, -EINVAL, "there is no device");
		return fm_err_hint(err, "give it one: [device gpu]");
	}
	for (uint32_t i = 0; i < w->plan.devices; i++)
		if (w->device[i].fair && w->device[i].slots > 1) {
			fm_err_set(err, -EINVAL, "device '%s': fair turns of more than one slot",
				w->device_name[i]);
			return fm_err_hint(err, "give it one slot, or turns = in-order");
		}
	for (uint32_t i = 0; i < w->plan.devices; i++)
		if (w->device[i].tick &&
			(!w->device[i].fair || !fm_sim_takes_time(&w->device[i].slice))) {
			fm_err_set(err, -EINVAL, "device '%s': a tick without fair turns",
				w->device_name[i]);
			return fm_err_hint(err, "give it turns = fair, and a slice");
		}
	if (!w->plan.groups) {
		fm_err_set(err, -EINVAL, "there is no group");
		return fm_err_hint(err, "give it one: [group work], commands = 10 x 200us");
	}
	if (w->plan.warmup >= w->plan.duration)
		return fm_err_set(err, -EINVAL, "the warm-up is as long as all of it");
	return 0;
}

int workload_finish(struct workload *w, const char *folder, uint32_t *line, struct fm_err *err)
{
	int rc;

	*line = 0;
	rc = check_whole(w, err);
	for (uint32_t i = 0; i < w->plan.devices; i++)
		w->device[i].name = w->device_name[i];
	for (uint32_t i = 0; i < w->plan.groups && !rc; i++)
		rc = finish_group(w, i, folder, line, err);
	if (!rc)
		rc = check_circles(w, line, err);
	if (!rc)
		rc = workload_finish_memory(w, line, err);
	if (rc)
		return rc;
	*line = 0;
	rc = check_size(w, err);
	w->plan.device = w->device;
	w->plan.group = w->group;
	if (rc)
		return rc;
	*line = w->policy_line;
	/* The code that loads a policy checks one that is not built in. */
	return strchr(w->policy, '/') ? 0 : workload_policy(w, w->policy, NULL, err);
}

int workload_no_policy(const char *name, struct fm_err *err)
{
	struct fm_nearest near = {.typed = name};

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		fm_nearest_try(&near, (*p)->name);
	fm_err_set(err, -EINVAL, "there is no policy '%.40s'", name);
	if (near.best)
		return fm_err_hint(err, "did you mean '%s'?", near.best);
	return fm_err_hint(err, "fermata-policy(1) lists them; one of your own is ./NAME.so");
}

int workload_policy(
	struct workload *w, const char *policy, const struct fm_policy_ops *ops, struct fm_err *err)
{
	int64_t values[FM_POLICY_PARAMS];
	char *save, *name, *word;
	size_t n = 0;

	if (snprintf(w->words, sizeof(w->words), "%s", policy) >= (int)sizeof(w->words))
		return fm_err_set(err, -EINVAL, "too long");
	name = strtok_r(w->words, " \t", &save);
	if (!name)
		return fm_err_set(err, -EINVAL, "no policy named");
	ops = ops ? ops : fm_policy_find(name);
	if (!ops)
		return workload_no_policy(name, err);
	for (unsigned i = 0; i < w->params; i++)
		if (!strcmp(w->param[i].policy, name))
			w->setting[n++] = w->param[i].setting;
	while ((word = strtok_r(NULL, " \t", &save)))
		w->setting[n++] = word;
	w->plan.policy = ops;
	w->plan.params = w->setting;
	w->plan.n_params = n;
	return fm_policy_parse(ops, w->setting, n, values, err);
}
