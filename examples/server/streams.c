/* SPDX-License-Identifier: Apache-2.0 */
/* What Fermata adds to a server are the lines that end in "Fermata", a dozen. Without its library
 * in the process the first three modes are there, and the others say what is missing. */
#include "streams.h"
#include <string.h>
#define FERMATA_CUDA_OPTIONAL /* nothing is linked */
#include <fermata/cuda.h>     /* Fermata */

const char *const mode_names[MODES] = {
	"sequential", "streams", "priority-streams", "level2", "guardian", "partition"};

int mode_find(const char *name)
{
	for (int i = 0; i < MODES; i++)
		if (!strcmp(name, mode_names[i]))
			return i;
	return -1;
}

_Static_assert(STREAMS_PAD_AUTO == FM_PAD_AUTO, "as the header says");

static const char *explain(const char *what, int rc)
{
	if (rc == -ENOSYS)
		return "this mode needs Fermata in the process: start the server with "
		       "LD_PRELOAD=libfermata-cuda.so, or by `fermata run'";
	return rc ? wrong("%s: %s", what, strerror(-rc)) : NULL;
}

/* clang-format off */
const char *streams_init(const struct streams *s)
{
	struct fm_cuda_options o = {sizeof(o), "fixed-priority", s->mode == MODE_GUARDIAN, s->spin_ns}; /* Fermata */

	if (s->mode >= MODE_LEVEL2)
		return explain("fm_cuda_init", fm_cuda_init(&o)); /* Fermata */
	return NULL;
}

const char *streams_share(struct streams *s)
{
	unsigned sms = (unsigned)s->device->sms, others = sms - s->fill;
	int rc = 0;

	if (s->fill >= sms)
		return wrong("there are %u multiprocessors, not more than --fill-sms", sms);
	if (s->fill)
		rc = fm_cuda_reserve(others, &others); /* Fermata */
	if (rc == -ENOSPC)
		return wrong("--fill-sms %u: the device sets more multiprocessors apart at a time", s->fill);
	TRY(explain("fm_cuda_reserve", rc));
	s->fill = sms - others;
	if (s->mode == MODE_PARTITION)
		TRY(explain("fm_cuda_reserve", fm_cuda_reserve(s->reserve, &s->reserve))); /* Fermata */
	return NULL;
}

static void stopped(CUstream stream, uint64_t at_ns, void *m);

const char *stream_open(const struct streams *s, bool urgent, const char *name, struct model_stream *m)
{
	bool turns = s->mode != MODE_PARTITION && !s->beside;
	struct fm_cuda_binding b = {.size = sizeof(b), .group = urgent ? "urgent" : turns ? name : "others", .ctx = m, .preempted = stopped, /* Fermata */
		.priority = urgent ? FM_PRIORITY_HIGH : FM_PRIORITY_LOW, .level = urgent || s->mode == MODE_LEVEL2 ? 2 : 0, .pad = urgent ? 0 : s->pad}; /* Fermata */

	if (s->mode == MODE_PARTITION && !urgent && s->elastic_ns)
		return explain("fm_cuda_elastic_create", fm_cuda_elastic_create(&m->elastic, s->elastic_ns, &b)); /* Fermata */
	if (s->mode == MODE_PARTITION)
		return explain("fm_cuda_stream_create", fm_cuda_stream_create(&m->stream, urgent ? FM_CUDA_PARTITION : FM_CUDA_REST, &b)); /* Fermata */
	CU(cuStreamCreateWithPriority(&m->stream, STREAM_NON_BLOCKING,
		urgent && s->mode >= MODE_PRIORITY ? s->device->greatest : s->device->least));
	if (s->mode >= MODE_LEVEL2)
		return explain("fm_cuda_bind", fm_cuda_bind(m->stream, &b)); /* Fermata */
	return NULL;
}

const char *stream_open_fill(struct model_stream *m)
{
	struct fm_cuda_binding b = {.size = sizeof(b), .group = "filling", .priority = FM_PRIORITY_LOW, .level = 2}; /* Fermata */

	return explain("fm_cuda_stream_create", fm_cuda_stream_create(&m->stream, FM_CUDA_REST, &b)); /* Fermata */
}

const char *stream_next(struct model_stream *m, CUstream *stream)
{
	*stream = m->stream;
	if (m->elastic)
		return explain("fm_cuda_elastic_stream", fm_cuda_elastic_stream(m->elastic, stream)); /* Fermata */
	return NULL;
}
/* clang-format on */

void stream_close(struct model_stream *m)
{
	if (m->elastic)
		fm_cuda_elastic_destroy(m->elastic); /* Fermata */
	if (m->stream)
		cu.cuStreamDestroy_v2(m->stream);
	m->elastic = NULL;
	m->stream = NULL;
}

/* --- what `stats' tells of it, which no server needs --- */

static void stopped(CUstream stream, uint64_t at_ns, void *m)
{
	atomic_fetch_add(&((struct model_stream *)m)->stops, 1);
}

bool stream_stops(const struct model_stream *m, struct stops *stops)
{
	struct fm_cuda_info i = {.size = sizeof(i)};

	if (!m->stream || fm_cuda_query(m->stream, &i) || !i.bound)
		return false;
	*stops = (struct stops){i.level, atomic_load(&m->stops), i.interrupts, i.guarded, i.kernels,
		i.kernels_left, i.images_left};
	return true;
}
