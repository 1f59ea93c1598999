/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of Chrome's tracing, which ui.perfetto.dev reads: times in microseconds, with fractions
 * to the nanosecond. Events need no order in the file, except that of two that begin at one moment
 * on one track, the outer one comes first. */
#include "trace_tracks.h"
#include <inttypes.h>
#include <string.h>

/* Names come from other people's programs, or from a file that anybody may have written. */
static void put_text(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fputc('\\', f);
		fputc(c < 0x20 || c > 0x7e ? '?' : c, f);
	}
	fputc('"', f);
}

static void put_key(FILE *f, const char *key)
{
	fputc(',', f);
	put_text(f, key);
	fputc(':', f);
}

/* Readers multiply by a thousand and cut off. A tenth of a nanosecond more keeps each number right.
 */
static void put_us(FILE *f, uint64_t ns)
{
	fprintf(f, "%" PRIu64 ".%03u1", ns / 1000, (unsigned)(ns % 1000));
}

static void begin(struct timeline *t, const char *phase, const struct track *track)
{
	fputs(t->begun ? ",\n" : "\n", t->out);
	t->begun = true;
	fprintf(t->out, "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase, track->pid, track->tid);
}

static void put_time(struct timeline *t, const char *key, uint64_t ns)
{
	put_key(t->out, key);
	put_us(t->out, ns);
}

static void put_string(struct timeline *t, const char *key, const char *value)
{
	put_key(t->out, key);
	put_text(t->out, value);
}

/* Argument lists begin with the time, so that the rest is all commas. */
static void put_args(struct timeline *t, const struct draw *d)
{
	char buf[32];

	fprintf(t->out, ",\"args\":{\"at_ns\":%" PRIu64, d->at);
	if (d->reason && *d->reason)
		put_string(t, "reason", d->reason);
	if (d->cause && *d->cause)
		put_string(t, "cause", d->cause);
	if (d->args && *d->args->group)
		put_string(t, "group", d->args->group);
	for (unsigned i = 0; d->args && i < FM_TRACE_ARGS; i++) {
		enum fm_trace_unit unit = d->args->info->arg[i].unit;

		if (!unit)
			continue;
		snprintf(buf, sizeof(buf), "%s%s", d->args->info->arg[i].name,
			unit == FM_TU_NS ? "_ns" : "");
		put_key(t->out, buf);
		if (unit == FM_TU_HINT)
			put_text(t->out, trace_arg(d->args, i, buf, sizeof(buf)));
		else
			fputs(trace_arg(d->args, i, buf, sizeof(buf)), t->out);
	}
	fputc('}', t->out);
}

void json_slice(struct timeline *t, const struct draw *d)
{
	begin(t, "X", d->track);
	put_string(t, "name", d->name);
	put_string(t, "cat", "fermata");
	put_time(t, "ts", d->at);
	put_time(t, "dur", d->took);
	put_args(t, d);
	fputc('}', t->out);
}

void json_instant(struct timeline *t, const struct draw *d)
{
	begin(t, "i", d->track);
	put_string(t, "name", d->name);
	put_string(t, "cat", "fermata");
	put_time(t, "ts", d->at);
	put_string(t, "s", "t");
	put_args(t, d);
	fputc('}', t->out);
}

static void flow_end(struct timeline *t, const char *phase, unsigned tid, uint64_t at, size_t arrow)
{
	const struct arrow *a = &t->arrow[arrow];

	begin(t, phase, &(struct track){.pid = a->pid, .tid = tid});
	put_string(t, "name", "stops");
	put_string(t, "cat", "fermata");
	put_time(t, "ts", at);
	fprintf(t->out, ",\"id\":%zu,\"bp\":\"e\",\"args\":{\"reason\":", arrow + 1);
	put_text(t->out, a->reason);
	fputs("}}", t->out);
}

void json_flow(struct timeline *t, size_t arrow)
{
	flow_end(t, "s", t->arrow[arrow].from, t->arrow[arrow].from_at, arrow);
	flow_end(t, "f", t->arrow[arrow].to, t->arrow[arrow].to_at, arrow);
}

/* Its name says what it counts and for which group. The argument's name is the unit. */
void json_counter(struct timeline *t, const struct track *track, uint64_t at, const char *what,
	const char *of, const char *unit, double value)
{
	char name[FM_TRACE_TEXT + 64];

	begin(t, "C", track);
	snprintf(name, sizeof(name), "%s %s", what, of);
	put_string(t, "name", name);
	put_time(t, "ts", at);
	fprintf(t->out, ",\"args\":{\"%s\":%.3f}}", unit, value);
}

void json_name_track(struct timeline *t, const struct track *track, const char *name, bool process)
{
	begin(t, "M", track);
	put_string(t, "name", process ? "process_name" : "thread_name");
	fputs(",\"args\":{\"name\":", t->out);
	put_text(t->out, name);
	fputs("}}", t->out);
	begin(t, "M", track);
	put_string(t, "name", process ? "process_sort_index" : "thread_sort_index");
	fprintf(t->out, ",\"args\":{\"sort_index\":%u}}", process ? track->pid : track->tid);
}
