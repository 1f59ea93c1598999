/* SPDX-License-Identifier: Apache-2.0 */
#include "on_request.h"
#include "base/clock.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STAND   "FERMATA_PROBE_STAND" /* [s] for the probe's process */
#define DEVICES 16u                   /* of one API, which are tried one after the other */

int on_request_inject(
	const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&api->on_request->shim, false, err);
}

static void judge_devices(
	struct doctor *d, const struct fm_api *api, const struct probe_result *result)
{
	const struct on_request *row = api->on_request;
	size_t n, usable = doctor_devices(d, result, &n);
	char text[384];

	snprintf(text, sizeof(text),
		"%s%s%zu of %zu devices can be scheduled%s, for programs that are started with "
		"%s=1: the shim for %s has been tested on no hardware",
		result->died, *result->died ? "; " : "", usable, n, row->how, row->shim.variable,
		row->shim.name);
	doctor_found(d, usable == n && n && !*result->died ? GOOD : WARNING,
		row->check ?: api->name, text, "see what trying them showed, below");
	if (doctor_preload(d, &row->shim) && usable && preload_wanted(&row->shim, false))
		d->usable = true;
}

static bool has_node(const struct on_request *row)
{
	return row->node && !access(row->node, F_OK);
}

static void judge(struct doctor *d, const struct fm_api *api, const struct probe_result *result)
{
	const struct on_request *row = api->on_request;
	const json_t *step = probe_step(result, api->name);
	bool absent = json_is_true(json_object_get(step, "absent"));

	if (absent && !has_node(row))
		return;
	if (json_object_get(step, "error"))
		doctor_found(d, WARNING, row->check ?: api->name, cli_str(step, "error"),
			absent ? row->get : row->look);
	else
		judge_devices(d, api, result);
}

/* May programs here use it? */
static bool may_be_here(const struct on_request *row)
{
	bool may = !row->node || has_node(row);

	for (const char *const *name = row->names; !may && *name; name++)
		may = preload_in_library_path(*name);
	return may;
}

void on_request_doctor(const struct fm_api *api, struct doctor *d)
{
	struct probe_result result;
	char text[64], stand[16];

	if (!may_be_here(api->on_request))
		return;
	snprintf(text, sizeof(text), "trying the devices of %s...", api->on_request->shim.name);
	snprintf(stand, sizeof(stand), "%u", d->prove);
	doctor_progress(d, text);
	if (probe_run_longer(api->name, STAND, stand, DEVICES * d->prove * FM_S, &result))
		return;
	judge(d, api, &result);
	json_decref(result.lines);
}

/* --- in the probe's process --- */

void *probe_library(FILE *out, const struct fm_api *api)
{
	void *lib = NULL;

	for (const char *const *name = api->on_request->names; !lib && *name; name++)
		lib = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		probe_tell(out, json_pack("{s:s, s:b, s:s}", "step", api->name, "absent", true,
					"error", dlerror()));
	return lib;
}

bool probe_driver(
	FILE *out, const struct fm_api *api, void *lib, const struct fm_owns *own, void *driver)
{
	for (size_t i = 0; i < own->n; i++)
		*(void **)((char *)driver + own->of[i].at) = dlsym(lib, own->of[i].symbol);
	if (fm_own_whole(own, driver))
		return true;
	probe_fails(out, api, "the library lacks functions that we need");
	return false;
}

void probe_begins(FILE *out, const struct fm_api *api)
{
	probe_tell(out, json_pack("{s:s}", "step", api->name));
}

void probe_fails(FILE *out, const struct fm_api *api, const char *format, ...)
{
	char text[128];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	probe_tell(out, json_pack("{s:s, s:s}", "step", api->name, "error", text));
}

void probe_device(FILE *out, const struct fm_api *api, const char *name, const char *type)
{
	probe_tell(
		out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", name,
			     "platform", api->on_request->shim.name, "version", "-", "type", type));
}

static json_t *levels_line(unsigned levels, const char *text)
{
	json_t *list = json_array();

	for (int level = 1; levels >> level; level++)
		if (levels >> level & 1)
			json_array_append_new(list, json_integer(level));
	return json_pack("{s:s, s:o, s:s}", "step", "levels", "levels", list, "text", text);
}

void probe_levels(FILE *out, unsigned levels, const char *text)
{
	probe_tell(out, levels_line(levels, text));
}

void probe_unproven(FILE *out, unsigned levels, const char *text, const char *what, bool stood)
{
	json_t *line = levels_line(levels, text);

	json_object_set_new(line, "what", json_string(what));
	json_object_set_new(line, "stood", json_boolean(stood));
	probe_tell(out, line);
}

uint64_t probe_stand(void)
{
	return (uint64_t)atoi(getenv(STAND) ?: "0") * FM_S;
}
