/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_view.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "table.h"
#include <inttypes.h>
#include <string.h>

int trace_open(struct fm_trace_file *t, const char *path)
{
	struct fm_err err = {0};
	int rc = fm_trace_file_open(t, path, &err);

	if (rc)
		return cli_report(&err);
	if (t->cut_off_at)
		fprintf(stderr,
			"%s: %s is cut off at offset %" PRIu64
			": the whole records before that are shown\n",
			cli_name(), path, t->cut_off_at);
	else if (!t->ended)
		fprintf(stderr, "%s: %s: the recording did not end regularly\n", cli_name(), path);
	if (t->unknown)
		fprintf(stderr, "%s: %s: %" PRIu64 " records of unknown events left out\n",
			cli_name(), path, t->unknown);
	for (size_t i = 0; i < t->n_rings; i++) {
		FM_CLEAN_FREE char *program = NULL;

		if (!t->rings[i].lost)
			continue;
		program = strdup(t->rings[i].program);
		if (program)
			table_clean(program);
		fprintf(stderr, "%s: %s: %" PRIu64 " records of %s (pid %d) were lost\n",
			cli_name(), path, t->rings[i].lost, program ? program : "?",
			(int)t->rings[i].pid);
	}
	return CLI_OK;
}

static const char *name_of(const struct fm_trace_file *t, enum fm_trace_kind kind, uint32_t id,
	const char *what, char buf[32])
{
	const struct fm_trace_file_name *n = id ? fm_trace_file_find(t, kind, id) : NULL;

	if (!id || n)
		return n ? n->text : "";
	snprintf(buf, 32, "%s %u", what, id);
	return buf;
}

/* A client's record says which slot: whose that was then is in the names. */
void trace_look(
	const struct fm_trace_file *t, const struct fm_trace_item *item, struct trace_view *v)
{
	const struct fm_trace_file_ring *ring = &t->rings[item->ring];
	const struct fm_trace_rec *r = item->rec;
	const struct fm_trace_file_name *q = NULL;

	*v = (struct trace_view){
		.rec = r,
		.info = fm_trace_info(r->event),
		.pid = ring->pid,
		.program = ring->program,
	};
	if (ring->id) {
		if (r->slot != FM_TRACE_NO_SLOT)
			q = fm_trace_file_queue(t, ring->pid, r->slot, r->at);
		v->group_id = q ? q->name->group : 0;
		v->device_id = q ? q->name->device : 0;
		v->queue_id = q ? q->name->id : 0;
	} else {
		v->group_id = r->group;
		v->device_id = r->device;
		if (r->event == FM_EV_queue_added || r->event == FM_EV_queue_gone)
			v->queue_id = (uint32_t)r->arg[0];
	}
	v->group = name_of(t, FM_TN_GROUP, v->group_id, "group", v->text[0]);
	v->device = name_of(t, FM_TN_DEVICE, v->device_id, "device", v->text[1]);
	v->cause = name_of(t, FM_TN_GROUP, ring->id ? 0 : r->cause, "group", v->text[2]);
	v->reason = name_of(t, FM_TN_REASON, ring->id ? 0 : r->reason, "reason", v->text[3]);
}

const char *trace_arg(const struct trace_view *v, unsigned i, char *buf, size_t size)
{
	uint64_t a = v->rec->arg[i];

	switch (v->info->arg[i].unit) {
	case FM_TU_NONE:
		snprintf(buf, size, "%s", "");
		break;
	case FM_TU_SIGNED:
		snprintf(buf, size, "%" PRId64, (int64_t)a);
		break;
	case FM_TU_HINT:
		snprintf(buf, size, "%s", a < FM_HINT_COUNT ? fm_hint_name((enum fm_hint)a) : "?");
		break;
	default:
		snprintf(buf, size, "%" PRIu64, a);
	}
	return buf;
}
