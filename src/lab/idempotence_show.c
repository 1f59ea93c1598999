/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with their classes, and `idempotence show LIST'. */
#include "base/util.h"
#include "cmd/table.h"
#include "idempotence.h"
#include "json/json.h"
#include <inttypes.h>

static void add_dim(struct table *t, const uint32_t dim[3])
{
	if (dim[2] > 1)
		table_add(t, "%ux%ux%u", dim[0], dim[1], dim[2]);
	else if (dim[1] > 1)
		table_add(t, "%ux%u", dim[0], dim[1]);
	else
		table_add(t, "%u", dim[0]);
}

int idempotence_print_kernels(const struct fm_idem_verdict *kernel, size_t n)
{
	static const struct table_column columns[] = {{"KERNEL", false, true},
		{"GRID", true, false}, {"BLOCK", true, false}, {"CLASS", false, false},
		{"GROUP", true, false}, {"BACK", true, false}, {"LAUNCHES", true, false},
		{"WHY", false, true}};
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (size_t i = 0; i < n; i++) {
		const struct fm_idem_verdict *v = &kernel[i];

		table_add(&t, "%s", *v->name ? v->name : "-");
		add_dim(&t, v->grid);
		add_dim(&t, v->block);
		table_add(&t, "%s", fm_idem_class_name(v->class));
		table_add(&t, v->size ? "%u" : "-", v->size);
		table_add(&t, v->size ? "%d" : "-", (int)-v->start);
		table_add(&t, "%" PRIu64, v->launches);
		table_add(&t, "%s", fm_idem_why_text(v->why));
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

json_t *idempotence_kernel_json(const struct fm_idem_verdict *v)
{
	char key[FM_IDEM_KEY];

	fm_idem_key_text(v->key, key);
	return json_pack("{s:o?, s:s, s:s, s:i, s:i, s:o?, s:[I,I,I], s:[I,I,I], s:I, s:s}", "name",
		fm_json_text(v->name), "key", key, "class", fm_idem_class_name(v->class), "size",
		(int)v->size, "start", (int)v->start, "hash", fm_json_text(v->hash), "grid",
		(json_int_t)v->grid[0], (json_int_t)v->grid[1], (json_int_t)v->grid[2], "block",
		(json_int_t)v->block[0], (json_int_t)v->block[1], (json_int_t)v->block[2],
		"launches", (json_int_t)v->launches, "why", fm_idem_why_text(v->why));
}

/* --- show --- */

struct show {
	struct cli *cli;
	const char *path;
};
static const struct argp_option options[] = {CLI_OPT_JSON, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct show *s = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (s->path)
			cli_usage(state, "one list at a time, not '%s' as well", arg);
		s->path = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "which list?");
	default:
		return cli_option(key, arg, s->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "LIST",
	.doc = "Show a list of kernels that `fermata-lab idempotence check -o LIST' has written.",
};

static int show_json(const struct fm_idem_list *l)
{
	CLI_CLEAN_JSON json_t *json = json_object();
	json_t *kernels = json_array();

	json_object_set_new(json, "v", json_integer(FM_IDEM_VERSION));
	json_object_set_new(json, "kernels", kernels);
	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(kernels, idempotence_kernel_json(&l->kernel[i]));
	return kernels ? cli_print_json(json) : CLI_FAILED;
}

int idempotence_show(struct cli *cli, int argc, char **argv)
{
	struct show s = {.cli = cli};
	struct fm_idem_list list;
	struct fm_err err = {0};
	int rc;

	cli_parse(&argp, argc, argv, 0, &s);
	if (fm_idem_list_load(&list, s.path, &err))
		return cli_report(&err);
	rc = cli->json ? show_json(&list) : idempotence_print_kernels(list.kernel, list.n);
	fm_idem_list_free(&list);
	return rc;
}
