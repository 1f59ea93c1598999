/* SPDX-License-Identifier: Apache-2.0 */
/* Any trace file: refused with an offset, or every record of it can be looked up, drawn and is in
 * order. And any ring (what does not begin as a file): a lap at most comes of it. */
#include "cli/trace_tracks.h"
#include "trace/ring.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void look(const struct fm_trace_file *file)
{
	struct timeline t = {.file = file, .out = fopen("/dev/null", "w")};
	uint64_t last = 0;

	must(t.out);
	timeline_begin(&t);
	for (size_t i = 0; i < file->n_items; i++) {
		struct trace_view v;
		char buf[32];

		must(file->items[i].rec->at >= last);
		last = file->items[i].rec->at;
		trace_look(file, &file->items[i], &v);
		must(v.info && v.group && v.device && v.cause && v.reason && v.program);
		for (unsigned a = 0; a < FM_TRACE_ARGS; a++)
			must(trace_arg(&v, a, buf, sizeof(buf)) == buf);
		timeline_record(&t, &v);
	}
	timeline_end(&t);
	must(!t.failed);
	timeline_free(&t);
	fclose(t.out);
}

static void parse(const uint8_t *data, size_t size)
{
	struct fm_err err = {0};
	struct fm_trace_file t;
	void *copy = malloc(size ? size : 1); /* aligned, and exactly so long */
	int rc;

	must(copy);
	memcpy(copy, data, size);
	rc = fm_trace_file_parse(&t, copy, size, "fuzz", &err);
	if (rc) {
		must(rc == -EINVAL && err.code == rc && !strncmp(err.text, "fuzz: ", 6));
	} else {
		look(&t);
		fm_trace_file_close(&t);
	}
	free(copy);
}

static struct fm_trace_rec taken[FM_TRACE_RECORDS];

static void read_ring(const uint8_t *data, size_t size)
{
	static struct fm_trace_ring ring;
	struct fm_trace_reader r = {.ring = &ring};

	if (size < 16)
		return;
	for (unsigned i = 0; i < FM_TRACE_LANES; i++) {
		memcpy(&r.lane[i].next, data, 8);
		memcpy(&ring.lane[i].head, data + 8, 8);
		memcpy(&ring.slot[i], data + 16, FM_MIN(size - 16, sizeof(ring.slot[i])));
	}
	for (unsigned i = 0; i < 2; i++) {
		size_t n = fm_trace_read(&r, taken, FM_TRACE_RECORDS, i);

		must(n <= FM_TRACE_RECORDS);
		for (size_t k = 0; k < n; k++)
			must(fm_trace_info(taken[k].event));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == FM_TRACE_FILE_MAGIC[0])
		parse(data, size);
	else
		read_ring(data, size);
	return 0;
}
