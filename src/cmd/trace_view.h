/* SPDX-License-Identifier: Apache-2.0 */
/* Files of `fermata trace record', as commands read them. */
#pragma once
#include "cli.h"
#include "trace/file.h"

/* Open a file, and say on stderr what is not whole in it. The exit code; not 0: said already. */
int trace_open(struct fm_trace_file *t, const char *path);

/* A record with its names; what nobody has named has a number, such as "group 7". */
struct trace_view {
	const struct fm_trace_rec *rec;
	const struct fm_trace_info *info;
	int32_t pid;
	const char *program;
	const char *group, *device, *cause, *reason; /* "": none */
	uint32_t group_id, device_id, queue_id;      /* 0: none */
	char text[4][32];
};
void trace_look(
	const struct fm_trace_file *t, const struct fm_trace_item *item, struct trace_view *v);

/* An argument as text, with its unit. */
const char *trace_arg(const struct trace_view *v, unsigned i, char *buf, size_t size);
