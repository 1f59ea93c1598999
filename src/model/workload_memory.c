/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, and whether the memory of a workload has a place to go. */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "workload_keys.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The factor of a unit; 0: there is no such unit. */
static uint64_t unit_of(const char *s)
{
	static const char letters[] = "KMGT";
	const char *at = *s ? strchr(letters, *s) : NULL;
	uint64_t binary = 1, decimal = 1;

	if (!*s || !strcmp(s, "B"))
		return 1;
	if (!at)
		return 0;
	for (const char *c = letters; c <= at; c++) {
		binary *= 1024;
		decimal *= 1000;
	}
	if (!s[1] || !strcmp(s + 1, "iB"))
		return binary;
	return strcmp(s + 1, "B") ? 0 : decimal;
}

/* Unlike fm_parse_size() it takes GB, too: links are told in powers of 1000, and so are models. */
int workload_size(const char *word, uint64_t *bytes, struct fm_err *err)
{
	unsigned __int128 whole = 0, part = 0, scale = 1, sum;
	const char *c = word;
	uint64_t unit;

	for (; *c >= '0' && *c <= '9'; c++)
		whole = FM_MIN(whole, 2 * WORKLOAD_SIZE) * 10 + (unsigned)(*c - '0');
	if (*c == '.' && c > word && c[1] >= '0' && c[1] <= '9')
		for (c++; *c >= '0' && *c <= '9' && scale < 1000000000; c++) {
			part = 10 * part + (unsigned)(*c - '0');
			scale *= 10;
		}
	unit = c > word ? unit_of(c) : 0;
	if (!unit) {
		fm_err_set(err, -EINVAL, "'%.40s' is no size", word);
		return fm_err_hint(err, "give a number with K, M, G or T (of 1024), or KB, MB, GB "
					"or TB (of 1000)");
	}
	sum = whole * unit + part * unit / scale;
	if (sum > WORKLOAD_SIZE)
		return fm_err_set(err, -ERANGE, "'%.40s' is more than 1024T", word);
	*bytes = (uint64_t)sum;
	return 0;
}

int workload_memory_policy(
	const char *name, const struct fm_mem_policy **policy, struct fm_err *err)
{
	struct fm_nearest near = {.typed = name};
	char list[80] = "";
	size_t len = 0;

	*policy = fm_mem_policy_find(name);
	if (*policy)
		return 0;
	for (const struct fm_mem_policy *const *p = fm_mem_policies; *p; p++) {
		fm_nearest_try(&near, (*p)->name);
		len += (size_t)snprintf(
			list + len, sizeof(list) - len, "%s%s", len ? ", " : "", (*p)->name);
	}
	fm_err_set(err, -EINVAL, "there is no policy '%.40s' of memory", name);
	if (near.best)
		return fm_err_hint(err, "did you mean '%s'?", near.best);
	return fm_err_hint(err, "policies of memory are %s", list);
}

/* The groups of a section that one device of another section has at most. */
static uint64_t on_one(const struct workload *w, const struct fm_sim_group *g, uint32_t device)
{
	uint64_t devices = 0;
	bool here = false;

	for (uint32_t k = 0; k < g->places; k++) {
		devices += w->device[g->place[k]].count;
		here |= g->place[k] == device;
	}
	if (!here)
		return 0;
	return g->everywhere ? g->count : (g->count + devices - 1) / devices;
}

static uint64_t times_sat(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static int no_place(const struct workload *w, uint32_t device, uint32_t group, enum fm_mem_no no,
	struct fm_err *err)
{
	if (no == FM_MEM_LIMIT) {
		fm_err_set(err, -EINVAL, "group '%s' has more memory than its limit, or the device",
			w->own[group].name);
		return fm_err_hint(err, "raise its limit, or make its memory smaller");
	}
	fm_err_set(err, -EINVAL,
		"device '%s': the memory of its groups does not fit into device "
		"and host together",
		w->device_name[device]);
	return fm_err_hint(err, "give it more: host = 64G");
}

/* The groups of one device at one moment. */
struct moment {
	const struct workload *w;
	uint32_t device;
	struct fm_mem_budget budget;
	struct fm_mem_claim *claim;
	uint32_t *group; /* of each claim */
};

/* Who is there when group `at' begins, it included. */
static int list_moment(struct moment *m, uint32_t at, struct fm_err *err)
{
	const struct workload *w = m->w;
	const struct fm_sim_device *d = &w->device[m->device];
	uint64_t contexts = 0, now = w->group[at].start, all = 0;

	m->budget.claims = 0;
	for (uint32_t i = 0; i < w->plan.groups; i++) {
		const struct fm_sim_group *g = &w->group[i];
		uint64_t n = g->start <= now && now < g->stop ? on_one(w, g, m->device) : 0;

		contexts = fm_add_sat(contexts, times_sat(n, d->context));
		if (!n || !g->memory)
			continue;
		all += n;
		if (all > WORKLOAD_MEMORIES)
			return fm_err_set(err, -E2BIG,
				"device '%s': more than %d groups with memory at a time",
				w->device_name[m->device], WORKLOAD_MEMORIES);
		m->group[m->budget.claims] = i;
		m->claim[m->budget.claims++] = (struct fm_mem_claim){
			.limit = times_sat(n, g->limit ? g->limit : d->memory),
			.request = times_sat(n, g->request),
			.committed = times_sat(n, g->memory)};
	}
	m->budget.capacity = fm_sub_sat(d->memory, contexts);
	return 0;
}

static int check_request(struct moment *m, uint32_t i, struct fm_err *err)
{
	const struct workload *w = m->w;
	uint64_t left;

	if (!fm_mem_may_request(&m->budget, i, m->claim[i].request, &left))
		return 0;
	fm_err_set(err, -EINVAL, "group '%s' requests more than device '%s' has for it",
		w->own[m->group[i]].name, w->device_name[m->device]);
	return fm_err_hint(err, "that is %llu MiB", (unsigned long long)(left >> 20));
}

static int check_moment(struct moment *m, uint32_t at, struct fm_err *err)
{
	const struct workload *w = m->w;
	int rc = list_moment(m, at, err);

	if (rc)
		return rc;
	if (m->budget.capacity <= m->budget.reserve) {
		fm_err_set(err, -EINVAL, "device '%s': contexts and the reserve leave no memory",
			w->device_name[m->device]);
		return fm_err_hint(err, "give it more: memory = 16G");
	}
	for (uint32_t i = 0; i < m->budget.claims && !rc; i++) {
		enum fm_mem_no no = fm_mem_may_commit(&m->budget, i, 0);

		if (no != FM_MEM_YES)
			return no_place(w, m->device, m->group[i], no, err);
		rc = check_request(m, i, err);
	}
	return rc;
}

static int check_device(struct workload *w, uint32_t device, uint32_t *line, struct fm_err *err)
{
	FM_CLEAN_FREE struct fm_mem_claim *claim = calloc(WORKLOAD_MEMORIES + 1, sizeof(*claim));
	FM_CLEAN_FREE uint32_t *group = calloc(WORKLOAD_MEMORIES + 1, sizeof(*group));
	const struct fm_sim_device *d = &w->device[device];
	uint64_t reserve = w->plan.memory.reserve;
	struct moment m = {.w = w, .device = device, .claim = claim, .group = group};
	int rc = claim && group ? 0 : fm_err_set(err, -ENOMEM, "out of memory");

	m.budget = (struct fm_mem_budget){.host = d->host, .claim = claim};
	m.budget.reserve = reserve == FM_NEVER ? fm_mem_reserve(d->memory) : reserve;
	for (uint32_t i = 0; i < w->plan.groups && !rc; i++) {
		*line = w->own[i].line;
		if (w->group[i].memory)
			rc = check_moment(&m, i, err);
	}
	return rc;
}

static int check_group(const struct workload *w, uint32_t i, struct fm_err *err)
{
	const struct fm_sim_group *g = &w->group[i];
	bool has = g->set || g->request || g->limit || g->gap;
	bool here = false;

	for (uint32_t k = 0; k < g->places; k++)
		here |= w->device[g->place[k]].memory > 0;
	if (!g->memory && has) {
		fm_err_set(err, -EINVAL, "group '%s' has no memory to which that could apply",
			w->own[i].name);
		return fm_err_hint(err, "give it some: memory = 8G");
	}
	if (g->memory && !here) {
		fm_err_set(err, -EINVAL, "group '%s' has memory, and no device of it has",
			w->own[i].name);
		return fm_err_hint(err, "give the device some: memory = 16G");
	}
	if (g->set > g->memory)
		return fm_err_set(err, -EINVAL,
			"the working set of group '%s' is larger than its memory", w->own[i].name);
	return 0;
}

int workload_finish_memory(struct workload *w, uint32_t *line, struct fm_err *err)
{
	bool any = false;
	int rc = 0;

	for (uint32_t i = 0; i < w->plan.groups && !rc; i++) {
		*line = w->own[i].line;
		rc = check_group(w, i, err);
	}
	for (uint32_t d = 0; d < w->plan.devices && !rc; d++) {
		any |= w->device[d].memory > 0;
		if (w->device[d].memory)
			rc = check_device(w, d, line, err);
	}
	if (rc)
		return rc;
	*line = w->memory_line;
	if (w->memory_line && !any) {
		fm_err_set(err, -EINVAL, "[memory] without a device that has memory");
		return fm_err_hint(err, "give one some: memory = 16G");
	}
	if (any && !w->plan.memory.policy)
		w->plan.memory.policy = fm_mem_policies[0];
	return 0;
}
