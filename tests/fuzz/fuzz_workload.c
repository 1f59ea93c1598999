/* SPDX-License-Identifier: Apache-2.0 */
/* Any file, INI or JSON: refused with a reason and its line or path, or a plan that can be
 * simulated, twice with the same outcome. The same of recorded arrivals. */
#include "base/cleanup.h"
#include "model/workload.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHORT    (2 * FM_MS)
#define ENTITIES 200
#define JOBS     200

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* The first byte may put a beginning in front, so that the fuzzer gets to the values. */
static FILE *compose(char *text, size_t cap, const uint8_t *data, size_t size)
{
	static const char *const heads[] = {"", "[device d]\n[group g]\ncommands = 1ms\n",
		"[device d]\n[group g]\ncommands = ",
		"[device d]\n[group g]\ncommands = 1ms\narrive = ",
		"[device d]\ncount = 2\n[group g]\ncommands = 3 x 1ms\ntogether = yes\n",
		"[group g]\ncommands=1ms\n[group h]\ncommands=1ms\narrive = after g\n[device d]\n",
		"[workload]\npolicy = ", "[device d]\n[group g]\ncommands = 1ms\n[policy fair]\n"};
	static const char *const json[] = {"{",
		"{\"device\":{\"d\":{}},\"group\":{\"g\":{\"commands\":",
		"{\"device\":{\"d\":{}},\"group\":{\"g\":{\"commands\":1,",
		"{\"group\":{\"g\":{\"commands\":[1,\"1ms\"]}},\"device\":{\"d\":{",
		"{\"device\":{\"d\":{}},\"group\":{\"g\":{\"commands\":1}},\"policy\":{\"fair\":{"};
	static const char memory[] = "[device d]\nmemory = 1G\n[group h]\ncommands = 1ms\n"
				     "memory = 700M\n[group g]\ncommands = 1ms\n";
	size_t head;

	if (!size)
		return NULL;
	if (*data >= 0x70 && *data < 0x80)
		strcpy(text, memory);
	else
		strcpy(text, *data & 0x80 ? json[*data % FM_ARRAY_LEN(json)]
					  : heads[*data % FM_ARRAY_LEN(heads)]);
	head = strlen(text);
	size = FM_MIN(size - 1, cap - head);
	memcpy(text + head, data + 1, size);
	return head + size ? fmemopen(text, head + size, "r") : NULL;
}

/* Small enough to be simulated here. */
static bool is_small(const struct fm_sim_plan *p)
{
	uint64_t devices = 0, ents = 0;

	for (uint32_t i = 0; i < p->devices; i++)
		devices += p->device[i].count;
	for (uint32_t i = 0; i < p->groups; i++)
		ents += (uint64_t)p->group[i].count * (p->group[i].everywhere ? devices : 1);
	return devices <= ENTITIES && ents <= ENTITIES;
}

static uint64_t simulate(const struct fm_sim_plan *p)
{
	struct fm_sim_result r;
	uint64_t sum = 0;

	must(!fm_sim_result_init(&r, p));
	must(!fm_sim_machine(p, 0, NULL, NULL, &r, NULL));
	for (uint32_t i = 0; i < r.groups; i++) {
		must(r.group[i].jobs <= r.group[i].response.count);
		sum = sum * 31 + r.group[i].served + r.group[i].waits + r.group[i].left;
	}
	for (uint32_t i = 0; i < r.devices; i++)
		must(r.device[i].served + r.device[i].overhead <= r.device[i].time);
	fm_sim_result_free(&r);
	return sum * 31 + r.events;
}

static void check(struct workload *w)
{
	struct fm_sim_plan *p = &w->plan;

	must(p->policy && p->devices && p->groups && p->duration > p->warmup);
	for (uint32_t i = 0; i < p->groups; i++) {
		must(p->group[i].steps && p->group[i].places && p->group[i].count);
		for (uint32_t k = 0; k < p->group[i].places; k++)
			must(p->group[i].place[k] < p->devices);
		for (uint32_t k = 0; k < p->group[i].befores; k++)
			must(p->group[i].before[k] < p->groups);
		w->group[i].burst = FM_MIN(p->group[i].burst, (uint32_t)JOBS);
		w->group[i].start %= SHORT;
	}
	if (!is_small(p))
		return;
	p->duration = FM_MIN(p->duration, SHORT);
	p->warmup = FM_MIN(p->warmup, p->duration - 1);
	must(simulate(p) == simulate(p));
}

static void traces(const uint8_t *data, size_t size)
{
	FM_CLEAN_FILE FILE *f = size ? fmemopen((void *)data, size, "r") : NULL;
	struct fm_sim_record *record = NULL;
	struct fm_err err = {0};
	size_t n = 0;
	int rc;

	if (!f)
		return;
	rc = workload_trace(f, "fuzz.trace", &record, &n, &err);
	must(!rc || (err.code == rc && !strncmp(err.text, "fuzz.trace:", 11) && !record));
	for (size_t i = 1; i < n; i++)
		must(record[i - 1].at <= record[i].at);
	free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct workload w;
	char text[4096];
	FM_CLEAN_FILE FILE *f = compose(text, sizeof(text), data, size);
	struct fm_err err = {0};
	int rc;

	traces(data, size);
	if (!f)
		return 0;
	rc = workload_read(&w, f, "fuzz.ini", NULL, &err);
	if (rc) {
		must(err.code == rc && !strncmp(err.text, "fuzz.ini:", 9));
		must(!w.group && !w.own && !w.plan.groups);
		return 0;
	}
	if (!strchr(w.policy, '/'))
		check(&w);
	workload_free(&w);
	return 0;
}
