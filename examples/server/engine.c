/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Models that take turns; those after them run beside each other. */
#define GROUPS 12

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- models --- */

static bool name_is_fine(const char *name, size_t n)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	return n && n < MODEL_NAME && strspn(name, letters) >= n;
}

struct engine_model *engine_find(struct engine *e, const char *name)
{
	for (unsigned i = 0; i < e->models; i++)
		if (!strcmp(e->model[i].model.name, name))
			return &e->model[i];
	return NULL;
}

const char *engine_add(struct engine *e, const char *text, bool urgent)
{
	size_t n = strcspn(text, "=");
	struct engine_model *m = &e->model[e->models];

	if (e->models == ENGINE_MODELS)
		return wrong("there may be %d models", ENGINE_MODELS);
	if (!name_is_fine(text, n) || !text[n])
		return wrong("`%s' is not NAME=KIND, with a name of letters and digits", text);
	memcpy(m->model.name, text, n);
	m->model.name[n] = 0;
	if (engine_find(e, m->model.name))
		return wrong("there are two models `%s'", m->model.name);
	TRY(net_make(&m->model.net, text + n + 1));
	m->urgent = urgent;
	e->models++;
	return NULL;
}

/* --- lanes --- */

/* With the lock. */
static void append(struct lane *l, struct request *r)
{
	int class = !r->model->urgent;

	r->next = NULL;
	*l->tail[class] = r;
	l->tail[class] = &r->next;
	r->model->counts.waiting++;
	atomic_fetch_add(&l->length, 1);
}

static bool take_out(struct lane *l, struct request *r)
{
	int class = !r->model->urgent;
	struct request **at = &l->head[class];

	while (*at && *at != r)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = r->next;
	if (l->tail[class] == &r->next)
		l->tail[class] = at;
	r->model->counts.waiting--;
	atomic_fetch_sub(&l->length, 1);
	return true;
}

/* Who waits for urgent requests, and has a processor to spare, is sooner there than who sleeps. */
static void spin(const struct lane *l)
{
	uint64_t until = l->spin_ns ? now() + l->spin_ns : 0;

	while (until && !atomic_load(&l->length) && !atomic_load(&l->ending) && now() < until)
		;
}

/* With the lock. */
static bool may_take(const struct worker *w)
{
	const struct lane *l = w->lane;

	return (l->head[0] || l->head[1]) && (!w->fills || l->serving || l->ending);
}

/* The next request; NULL: there are none any more. */
static struct request *next(struct worker *w)
{
	struct lane *l = w->lane;
	struct request *r;

	spin(l);
	pthread_mutex_lock(&l->lock);
	if (!w->fills)
		l->serving = false;
	while (!may_take(w) && !l->ending)
		pthread_cond_wait(&l->changed, &l->lock);
	r = l->head[0] ? l->head[0] : l->head[1];
	if (r)
		take_out(l, r);
	if (!w->fills) {
		l->serving = r != NULL;
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

static const char *next_stream(void *ctx, CUstream *stream)
{
	return stream_next(ctx, stream);
}

__attribute__((format(printf, 3, 4))) static void refuse(
	struct request *r, const char *code, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(r->text, sizeof(r->text), format, ap);
	va_end(ap);
	r->code = code;
}

static void count(const struct worker *w, const struct request *r)
{
	struct engine_counts *c = &r->model->counts;
	uint64_t ns = r->ended - r->begun;

	pthread_mutex_lock(&w->lane->lock);
	c->served += !r->code;
	c->filled += !r->code && w->fills;
	c->failed += r->code != NULL;
	c->run_ns += r->code ? 0 : ns;
	c->run_max_ns = !r->code && ns > c->run_max_ns ? ns : c->run_max_ns;
	pthread_mutex_unlock(&w->lane->lock);
}

static const char *run(struct worker *w, struct request *r)
{
	const struct engine *e = w->lane->engine;
	const struct launcher launcher = {.stream = next_stream,
		.ctx = &w->stream,
		.room = w->fills,
		.graph = r->model->urgent,
		.chooses = e->versions && !r->model->urgent,
		.block_ns = e->block_ns,
		.asleep = w->asleep};

	TRY(device_use(&w->lane->engine->device));
	return model_run(&r->model->model, &launcher, r->picture, &r->answer);
}

static void *worker_main(void *arg)
{
	const uint64_t one = 1;
	struct worker *w = arg;
	struct request *r;

	while ((r = next(w))) {
		const char *failed;

		r->begun = now();
		failed = run(w, r);
		r->ended = now();
		if (failed)
			refuse(r, "device", "%s", failed);
		count(w, r);
		/* It is the asker's again. His eventfd is 0, and takes it at once. */
		while (write(r->event, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	return NULL;
}

static const char *start_worker(struct worker *w, bool urgent)
{
	if (!urgent)
		CU(cuEventCreate(&w->asleep, EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING));
	if (pthread_create(&w->thread, NULL, worker_main, w))
		return "no thread can be had";
	w->started = true;
	return NULL;
}

static void end_worker(struct worker *w)
{
	if (w->started)
		pthread_join(w->thread, NULL);
	if (w->asleep)
		cu.cuEventDestroy_v2(w->asleep);
	stream_close(&w->stream);
}

/* name: of its model, or of all. */
static const char *start_lane(struct engine *e, bool urgent, const char *name)
{
	struct lane *l = &e->lane[e->lanes++];

	*l = (struct lane){.engine = e,
		.spin_ns = urgent ? e->spin_ns : 0,
		.worker = {.lane = l},
		.filler = {.lane = l, .fills = true}};
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	l->tail[0] = &l->head[0];
	l->tail[1] = &l->head[1];
	TRY(stream_open(&e->streams, urgent, name, &l->worker.stream));
	TRY(start_worker(&l->worker, urgent));
	if (urgent || !e->streams.fill)
		return NULL;
	TRY(stream_open_fill(&l->filler.stream));
	return start_worker(&l->filler, false);
}

/* --- from begin to end --- */

static const char *start_lanes(struct engine *e)
{
	bool urgent = false;

	for (unsigned i = 0; i < e->models; i++)
		urgent |= e->model[i].urgent;
	if (e->streams.mode == MODE_SEQUENTIAL)
		TRY(start_lane(e, urgent, "all"));
	for (unsigned i = 0; i < e->models; i++) {
		if (e->streams.mode != MODE_SEQUENTIAL)
			TRY(start_lane(e, e->model[i].urgent,
				i < GROUPS ? e->model[i].model.name : "others"));
		e->model[i].lane = &e->lane[e->lanes - 1];
	}
	return NULL;
}

static const char *measure_versions(struct engine *e)
{
	uint64_t sum = 0;
	unsigned n = 0;

	for (unsigned i = 0; e->versions && i < e->models; i++) {
		struct model *m = &e->model[i].model;

		if (e->version >= 0) {
			versions_set(m, (unsigned)e->version);
			continue;
		}
		TRY(versions_measure(m, &e->device));
		n += e->model[i].urgent;
		sum += e->model[i].urgent ? versions_kernel_ns(m) : 0;
	}
	e->block_ns = n ? sum / n : 0;
	return NULL;
}

const char *engine_start(struct engine *e, int device, const void *image)
{
	TRY(device_open(&e->device, device));
	e->streams.device = &e->device;
	TRY(streams_share(&e->streams));
	TRY(kernels_load(&e->kernels, image));
	for (unsigned i = 0; i < e->models; i++)
		TRY(model_load(&e->model[i].model, &e->kernels,
			!e->model[i].urgent && e->streams.fill ? 2 : 1));
	TRY(measure_versions(e));
	return start_lanes(e);
}

void engine_drain(struct engine *e)
{
	atomic_store(&e->ending, true);
}

void engine_stop(struct engine *e)
{
	engine_drain(e);
	for (unsigned i = 0; i < e->lanes; i++) {
		struct lane *l = &e->lane[i];

		pthread_mutex_lock(&l->lock);
		atomic_store(&l->ending, true);
		pthread_cond_broadcast(&l->changed);
		pthread_mutex_unlock(&l->lock);
		end_worker(&l->worker);
		end_worker(&l->filler);
		pthread_cond_destroy(&l->changed);
		pthread_mutex_destroy(&l->lock);
	}
	for (unsigned i = 0; i < e->models; i++)
		model_free(&e->model[i].model);
}

/* --- askers --- */

/* False: refused. Else it is the lane's, until that writes to the event. */
static bool submit(struct engine *e, struct request *r)
{
	struct engine_model *m = r->model;
	struct lane *l = m->lane;
	bool taken = false;

	r->arrived = now();
	r->code = NULL;
	pthread_mutex_lock(&l->lock);
	if (atomic_load(&e->ending)) {
		refuse(r, "ending", "the server is ending");
	} else if (m->counts.waiting >= e->limit) {
		refuse(r, "overloaded", "%u requests wait for %s already", e->limit, m->model.name);
		m->counts.refused++;
	} else {
		append(l, r);
		taken = true;
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
	return taken;
}

/* Who asked is gone. False: it has begun. */
static bool give_up(struct request *r)
{
	struct lane *l = r->model->lane;
	bool waited;

	pthread_mutex_lock(&l->lock);
	waited = take_out(l, r);
	r->model->counts.left += waited;
	pthread_mutex_unlock(&l->lock);
	if (waited)
		refuse(r, "left", "who asked is gone");
	return waited;
}

void engine_ask(struct engine *e, struct request *r, int client)
{
	struct pollfd at[] = {{.fd = -1, .events = POLLIN}, {.fd = client}};
	uint64_t until, ignored;

	if (!submit(e, r))
		return;
	at[0].fd = r->event;
	until = r->model->urgent && e->spin_ns ? now() + e->spin_ns : 0;
	for (;;) {
		if (poll(at, 2, until && now() < until ? 0 : -1) <= 0)
			continue;
		if (at[0].revents & POLLIN)
			break;
		if ((at[1].revents & (POLLHUP | POLLERR)) && give_up(r))
			return;
		if (at[1].revents)
			at[1].fd = -1;
	}
	while (read(r->event, &ignored, sizeof(ignored)) < 0 && errno == EINTR)
		;
}

/* --- what there is --- */

static void show_plain(const char *text, FILE *to)
{
	for (; *text; text++)
		if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\')
			putc(*text, to);
}

/* How often each was launched, or put into a graph; and in how many layers it is worth anything. */
static void show_versions(struct model *m, FILE *to)
{
	for (unsigned i = 0; i < CONV_N_VERSIONS; i++) {
		unsigned layers = 0;

		for (unsigned l = 0; l < m->net.layers; l++)
			for (unsigned k = 0; k < m->versions[l].n; k++)
				layers += m->versions[l].kernel[k] == i;
		fprintf(to, "%s\"%s\": {\"layers\": %u, \"launched\": %llu}",
			i ? ", " : ", \"versions\": {", version_names[i], layers,
			(unsigned long long)atomic_load(&m->launched[i]));
	}
	fprintf(to, "}");
}

static void show_model(struct engine_model *m, FILE *to)
{
	typedef unsigned long long ull;
	struct engine_counts c;
	struct stops s;

	pthread_mutex_lock(&m->lane->lock);
	c = m->counts;
	pthread_mutex_unlock(&m->lane->lock);
	fprintf(to, "{\"name\": \"%s\", \"kind\": \"%s\", \"class\": \"%s\", \"kernels\": %u, ",
		m->model.name, m->model.net.kind, m->urgent ? "real-time" : "best-effort",
		net_kernels(&m->model.net));
	fprintf(to, "\"waiting\": %u, \"served\": %llu, \"failed\": %llu, \"refused\": %llu, ",
		c.waiting, (ull)c.served, (ull)c.failed, (ull)c.refused);
	fprintf(to, "\"left\": %llu, \"mean_us\": %.1f, \"max_us\": %.1f", (ull)c.left,
		c.served ? (double)c.run_ns / 1e3 / (double)c.served : 0,
		(double)c.run_max_ns / 1e3);
	if (m->lane->filler.started)
		fprintf(to, ", \"filled\": %llu", (ull)c.filled);
	if (stream_stops(&m->lane->worker.stream, &s))
		fprintf(to,
			", \"level\": %u, \"preemptions\": %llu, \"interrupts\": %llu, "
			"\"guarded\": %llu",
			s.level, (ull)s.preemptions, (ull)s.interrupts, (ull)s.guarded);
	if (m->lane->engine->versions)
		show_versions(&m->model, to);
	fprintf(to, "}");
}

/* What became of the kernels, in the modes that have them made so that they can be stopped. */
static void show_kernels(struct engine *e, FILE *to)
{
	struct stops s;

	if (!e->lanes || !stream_stops(&e->lane[0].worker.stream, &s))
		return;
	fprintf(to,
		"\"rewritten\": {\"kernels\": %llu, \"kernels_left\": %llu, "
		"\"images_left\": %llu}, ",
		(unsigned long long)s.kernels, (unsigned long long)s.kernels_left,
		(unsigned long long)s.images_left);
}

void engine_stats(struct engine *e, FILE *to)
{
	fprintf(to, "{\"mode\": \"%s\", \"device\": \"", mode_names[e->streams.mode]);
	show_plain(e->device.name, to);
	fprintf(to, "\", \"reserved_sms\": %u, \"fill_sms\": %u, ",
		e->streams.mode == MODE_PARTITION ? e->streams.reserve : 0, e->streams.fill);
	if (e->versions)
		fprintf(to, "\"block_us\": %.1f, ", (double)e->block_ns / 1e3);
	show_kernels(e, to);
	fprintf(to, "\"models\": [");
	for (unsigned i = 0; i < e->models; i++) {
		fprintf(to, i ? ", " : "");
		show_model(&e->model[i], to);
	}
	fprintf(to, "]}");
}
