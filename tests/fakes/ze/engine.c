/* SPDX-License-Identifier: Apache-2.0 */
/* Engines, and what they do with commands. */
#include "fake.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t commands; /* that have begun */
static _Atomic bool lost;
static struct fk_engine *shared[16][16];

void fk_undefined(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("fake Level Zero: undefined: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	abort();
}

uint64_t fk_setting(const char *name)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 10) : 0;
}

uint64_t fk_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

bool fk_is_lost(void)
{
	return atomic_load(&lost);
}

static void renew(void)
{
	pthread_condattr_t a;

	pthread_mutex_init(&lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&cond, &a);
	pthread_condattr_destroy(&a);
	memset(shared, 0, sizeof(shared));
}

/* A forked child has a driver of its own. */
static void begin(void)
{
	renew();
	pthread_atfork(NULL, NULL, renew);
}

void fk_lock(void)
{
	pthread_once(&once, begin);
	pthread_mutex_lock(&lock);
}

void fk_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void fk_changed(void)
{
	pthread_cond_broadcast(&cond);
}

static bool await(bool (*is)(void *of, uint64_t *again_at), void *of, uint64_t timeout)
{
	uint64_t now = fk_now(), until = timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout,
		 at;

	for (;;) {
		uint64_t again = UINT64_MAX;
		struct timespec ts;

		if (is(of, &again))
			return true;
		if (fk_now() >= until)
			return false;
		at = again < until ? again : until;
		if (at == UINT64_MAX) {
			pthread_cond_wait(&cond, &lock);
			continue;
		}
		ts = (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
		pthread_cond_timedwait(&cond, &lock, &ts);
	}
}

/* A thread that is cancelled ends after the call. */
bool fk_await(bool (*is)(void *of, uint64_t *again_at), void *of, uint64_t timeout)
{
	bool yes;
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	yes = await(is, of, timeout);
	pthread_setcancelstate(was, NULL);
	return yes;
}

uint64_t fk_late(void)
{
	static unsigned seed = 1;
	uint64_t most = fk_setting("FAKE_ZE_LATE_US") * 1000;

	return most ? fk_now() + (uint64_t)rand_r(&seed) % most : 0;
}

void fk_signal(ze_event_handle_t e)
{
	e->signalled = true;
	e->seen_at = fk_late();
	fk_changed();
}

/* --- commands --- */

static void use(struct fk_command *c, int by)
{
	for (uint32_t i = 0; i < c->waits; i++)
		c->wait[i]->uses += (unsigned)by;
	if (c->signal)
		c->signal->uses += (unsigned)by;
	if (c->fence)
		c->fence->uses += (unsigned)by;
	if (c->list)
		c->list->uses += (unsigned)by;
	c->queue->context->uses += (unsigned)by;
	c->queue->pending += (uint64_t)by;
}

/* Lock held. */
static void finished(struct fk_command *c)
{
	if (c->signal && c->kind == FK_RESET)
		c->signal->signalled = false;
	else if (c->signal)
		fk_signal(c->signal);
	if (c->fence) {
		c->fence->signalled = true;
		c->fence->seen_at = fk_late();
	}
	use(c, -1);
	fk_changed();
	free(c);
}

static void do_it(struct fk_command *c)
{
	if (c->kind == FK_KERNEL)
		c->fn(c->arg, c->groups);
	else if (c->kind == FK_COPY)
		memmove(c->dst, c->src, c->size);
	else if (c->kind == FK_STAMP)
		*(uint64_t *)c->dst = fk_now();
	for (size_t i = 0; c->kind == FK_FILL && i < c->size; i++)
		((unsigned char *)c->dst)[i] = ((const unsigned char *)c->src)[i % c->pattern];
}

/* One device for several processes is its commands', one by one. */
static int take_device(void)
{
	const char *path = getenv("FAKE_ZE_DEVICE");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;

	while (fd >= 0 && flock(fd, LOCK_EX) && errno == EINTR)
		;
	return fd;
}

struct work {
	struct fk_engine *engine;
	struct fk_command *command;
};

static void *worker(void *arg)
{
	struct work w = *(struct work *)arg;
	int fd = take_device();

	free(arg);
	do_it(w.command);
	if (fd >= 0)
		close(fd);
	if (w.command->kind == FK_FILL)
		free((void *)w.command->src);
	fk_lock();
	w.engine->running--;
	finished(w.command);
	fk_unlock();
	return NULL;
}

static bool passes(void *of, uint64_t *again_at)
{
	struct fk_command *c = of;

	for (uint32_t i = 0; i < c->waits; i++)
		if (!c->wait[i]->signalled && !fk_is_lost())
			return false;
	return true;
}

static bool is_done(void *of, uint64_t *again_at)
{
	return !((struct fk_engine *)of)->running;
}

static void spawn(void *(*fn)(void *), struct fk_engine *engine, struct fk_command *c)
{
	struct work *w = malloc(sizeof(*w));
	pthread_attr_t attr;
	pthread_t thread;

	*w = (struct work){engine, c};
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	while (pthread_create(&thread, &attr, fn, w))
		usleep(1000);
	pthread_attr_destroy(&attr);
}

/* A barrier that does not block. */
static void *leak(void *arg)
{
	struct work w = *(struct work *)arg;

	free(arg);
	fk_lock();
	fk_await(passes, w.command, UINT64_MAX);
	finished(w.command);
	fk_unlock();
	return NULL;
}

/* Lock held. */
static void run(struct fk_engine *engine, struct fk_command *c)
{
	bool orders = c->kind >= FK_BARRIER && c->kind != FK_STAMP;

	if (c->kind == FK_BARRIER && c->waits && fk_setting("FAKE_ZE_LEAKY")) {
		spawn(leak, engine, c);
		return;
	}
	fk_await(passes, c, UINT64_MAX);
	if (fk_setting("FAKE_ZE_LOST") && !orders && ++commands >= fk_setting("FAKE_ZE_LOST"))
		atomic_store(&lost, true);
	if (orders || fk_is_lost()) {
		if (c->kind == FK_END || (c->kind == FK_BARRIER && !c->waits))
			fk_await(is_done, engine, UINT64_MAX);
		finished(c);
		return;
	}
	engine->running++;
	spawn(worker, engine, c);
}

static bool has_one(void *of, uint64_t *again_at)
{
	return ((struct fk_engine *)of)->first;
}

static void *engine_thread(void *arg)
{
	struct fk_engine *engine = arg;

	fk_lock();
	for (;;) {
		struct fk_command *c;

		fk_await(has_one, engine, UINT64_MAX);
		c = engine->first;
		engine->first = c->next;
		if (!engine->first)
			engine->last = &engine->first;
		run(engine, c);
	}
	return NULL;
}

static struct fk_engine *engine_new(void)
{
	struct fk_engine *e = calloc(1, sizeof(*e));

	e->last = &e->first;
	pthread_create(&e->thread, NULL, engine_thread, e);
	pthread_detach(e->thread);
	return e;
}

/* Lock held. */
struct fk_engine *fk_engine_for(ze_device_handle_t device, uint32_t index)
{
	static unsigned turn;
	uint64_t n = fk_setting("FAKE_ZE_ENGINES");
	struct fk_engine **e;

	if (!n)
		return engine_new();
	e = &shared[device->index][turn++ % n % 16];
	if (!*e)
		*e = engine_new();
	return *e;
}

static bool has_room(void *of, uint64_t *again_at)
{
	return ((ze_command_queue_handle_t)of)->pending < fk_setting("FAKE_ZE_DEPTH");
}

void fk_submit(ze_command_queue_handle_t q, const struct fk_command *command)
{
	struct fk_command *c = malloc(sizeof(*c));

	*c = *command;
	c->queue = q;
	c->next = NULL;
	if (c->kind == FK_FILL) { /* the pattern is read when the command is appended */
		void *copy = malloc(c->pattern);

		c->src = memcpy(copy, command->src, c->pattern);
	}
	if (fk_setting("FAKE_ZE_DEPTH"))
		fk_await(has_room, q, UINT64_MAX);
	use(c, 1);
	*q->engine->last = c;
	q->engine->last = &c->next;
	fk_changed();
}

static bool is_idle(void *of, uint64_t *again_at)
{
	return !((ze_command_queue_handle_t)of)->pending || fk_is_lost();
}

ze_result_t fk_queue_wait(ze_command_queue_handle_t q, uint64_t timeout)
{
	if (!fk_await(is_idle, q, timeout))
		return ZE_RESULT_NOT_READY;
	return fk_is_lost() ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

ze_result_t fk_submitted(ze_command_queue_handle_t q)
{
	if (q->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS)
		return fk_queue_wait(q, UINT64_MAX);
	return fk_is_lost() ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}
