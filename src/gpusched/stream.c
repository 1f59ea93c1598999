// SPDX-License-Identifier: Apache-2.0
/* Streams of the engine "cpu": what enqueue puts there, as commands that pass time and call. */
#include "base/util.h"
#include "set.h"
#include <errno.h>
#include <stdlib.h>

__thread const struct fm_gpu_set *fm_gpu_inside;

/* A chunk that is being put together. Its address is the stream that enqueue gets. */
struct chunk {
	struct fm_gpu_commands commands;
	struct chunk *outer;
};

static __thread struct chunk *filled_now;

static int push(struct fm_gpu_commands *c, struct fm_gpu_command command)
{
	struct fm_gpu_command *at;
	size_t cap = c->cap ? 2 * c->cap : 4;

	if (c->n == c->cap) {
		at = malloc(cap * sizeof(*at));
		if (!at)
			return -ENOMEM;
		for (size_t i = 0; i < c->n; i++)
			at[i] = c->at[(c->first + i) & (c->cap - 1)];
		free(c->at);
		*c = (struct fm_gpu_commands){.at = at, .n = c->n, .cap = cap};
	}
	c->at[(c->first + c->n++) & (c->cap - 1)] = command;
	return 0;
}

struct fm_gpu_command fm_gpu_take(struct fm_gpu_commands *c)
{
	struct fm_gpu_command command = c->at[c->first];

	c->first = (c->first + 1) & (c->cap - 1);
	c->n--;
	return command;
}

void fm_gpu_call(const struct fm_gpu_set *s, const struct fm_gpu_command *c)
{
	const struct fm_gpu_set *outer = fm_gpu_inside;

	if (!c->fn)
		return;
	fm_gpu_inside = s;
	c->fn(c->arg);
	fm_gpu_inside = outer;
}

int fm_gpu_cpu_launch(struct CUstream_st *stream, uint64_t ns, void (*fn)(void *arg), void *arg)
{
	struct chunk *c = filled_now;

	if (!c || (void *)stream != c || ns >= FM_GPU_TIME_MAX)
		return -EINVAL;
	return push(&c->commands, (struct fm_gpu_command){.ns = ns, .fn = fn, .arg = arg});
}

/* A part of the whole for each chunk; the first ones have what does not divide. */
static uint64_t part_of(uint64_t wcet, uint32_t chunk, uint32_t chunks)
{
	return wcet / chunks + (chunk < wcet % chunks);
}

static int gather(struct fm_gpu_set *s, uint32_t task, struct chunk *c)
{
	const struct fm_gpu_set *inside = fm_gpu_inside;
	const struct fm_gs_task *t = &s->host.g.task[task];
	const struct fm_gpu_work *w = &s->work[task];
	int rc = 0;

	c->outer = filled_now;
	filled_now = c;
	fm_gpu_inside = s;
	if (w->enqueue)
		rc = w->enqueue((struct CUstream_st *)c, w->chunk, w->ctx);
	else
		rc = fm_gpu_cpu_launch(
			(struct CUstream_st *)c, part_of(t->wcet, w->chunk, t->chunks), NULL, NULL);
	fm_gpu_inside = inside;
	filled_now = c->outer;
	return rc > 0 ? -EIO : rc;
}

/* All of it or nothing. The last command says that the chunk ends with it. */
static int append(struct fm_gpu_commands *to, struct fm_gpu_commands *chunk)
{
	size_t before = to->n;
	int rc = chunk->n ? 0 : push(chunk, (struct fm_gpu_command){0});

	while (!rc && chunk->n) {
		struct fm_gpu_command c = fm_gpu_take(chunk);

		c.last = !chunk->n;
		rc = push(to, c);
	}
	if (rc)
		to->n = before;
	return rc;
}

static int fill_chunk(struct fm_gpu_set *s, uint32_t task)
{
	struct fm_gpu_work *w = &s->work[task];
	struct chunk c = {0};
	int rc;

	pthread_mutex_unlock(&s->lock);
	rc = gather(s, task, &c);
	pthread_mutex_lock(&s->lock);
	if (!rc)
		rc = append(&w->stream, &c.commands);
	free(c.commands.at);
	if (rc)
		return rc;
	if (++w->chunk == s->host.g.task[task].chunks) {
		w->chunk = 0;
		w->jobs++;
	}
	fm_gs_host_queued(&s->host, task, 1);
	return 0;
}

/* What is released by others than the host stands there in advance; the rest when it is released,
 * so that a task without work holds nothing. */
static bool wants_more(const struct fm_gpu_set *s, uint32_t task)
{
	const struct fm_gs_task *t = &s->host.g.task[task];
	const struct fm_gpu_work *w = &s->work[task];

	if (s->stop || w->error || w->jobs >= fm_gs_read(&t->done) + s->depth)
		return false;
	return fm_gpu_ahead(s, task) || w->jobs < fm_gs_read(&t->rung);
}

bool fm_gpu_fill(struct fm_gpu_set *s, uint32_t task)
{
	struct fm_gpu_work *w = &s->work[task];
	bool news = false;

	pthread_mutex_lock(&s->lock);
	if (!w->filling) { /* else that thread looks again before it leaves */
		w->filling = true;
		while (wants_more(s, task)) {
			w->error = fill_chunk(s, task);
			news = true;
			if (w->error)
				fm_gs_write(&s->host.g.task[task].off, 1);
		}
		w->filling = false;
	}
	pthread_mutex_unlock(&s->lock);
	return news;
}
