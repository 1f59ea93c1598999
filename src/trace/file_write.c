/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"
#include <string.h>

static uint32_t padded(size_t size)
{
	return (uint32_t)((size + 7) & ~(size_t)7);
}

static void chunk(FILE *f, enum fm_trace_chunk_type type, size_t size)
{
	const struct fm_trace_chunk c = {(uint32_t)type, padded(size)};

	fwrite(&c, sizeof(c), 1, f);
}

void fm_trace_file_begin(FILE *f, uint64_t mono_ns, uint64_t real_ns)
{
	const struct fm_trace_file_head h = {
		.magic = FM_TRACE_FILE_MAGIC,
		.version = FM_TRACE_FILE_VERSION,
		.head_size = sizeof(h),
		.record_size = sizeof(struct fm_trace_rec),
		.mono_ns = mono_ns,
		.real_ns = real_ns,
	};

	fwrite(&h, sizeof(h), 1, f);
}

void fm_trace_file_name(FILE *f, const struct fm_trace_name *name, const char *text)
{
	size_t len = strnlen(text, FM_TRACE_TEXT - 1), size = sizeof(*name) + len + 1;
	static const char zero[8];

	chunk(f, FM_TC_NAME, size);
	fwrite(name, sizeof(*name), 1, f);
	fwrite(text, 1, len, f);
	fwrite(zero, 1, 1 + padded(size) - size, f);
}

void fm_trace_file_records(
	FILE *f, uint32_t ring, uint64_t lost, const struct fm_trace_rec *rec, uint32_t n)
{
	const struct fm_trace_records r = {ring, n, lost};

	chunk(f, FM_TC_RECORDS, sizeof(r) + n * sizeof(*rec));
	fwrite(&r, sizeof(r), 1, f);
	if (n)
		fwrite(rec, sizeof(*rec), n, f);
}

void fm_trace_file_end(FILE *f, enum fm_trace_end_reason why)
{
	const struct fm_trace_end e = {.why = (uint32_t)why};

	chunk(f, FM_TC_END, sizeof(e));
	fwrite(&e, sizeof(e), 1, f);
}
