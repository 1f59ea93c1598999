/* SPDX-License-Identifier: Apache-2.0 */
#include "nets.h"
#include "device.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST (1u << 30) /* numbers in a buffer: kernels count in 32 bits */

#define KINDS "resnet18, resnet50, vgg16 and mlp"

static unsigned out_of(unsigned size, unsigned kernel, unsigned stride)
{
	return (size + kernel / 2 * 2 - kernel) / stride + 1;
}

/* A network under construction: what the next layer gets. */
struct maker {
	struct net *n;
	unsigned height, width, channels;
	int at; /* the buffer that it is in */
	const char *wrong;
};

static int free_buffer(int a, int b, int c)
{
	int i = 0;

	while (i == a || i == b || i == c)
		i++;
	return i;
}

static void needs(struct maker *m, uint64_t *have, uint64_t floats)
{
	if (floats > MOST)
		m->wrong = wrong("%s would be too large", m->n->kind);
	*have = floats > *have ? floats : *have;
}

static struct layer *add(struct maker *m, enum layer_kind kind, int from, int to)
{
	struct net *n = m->n;
	struct layer *l = &n->layer[n->layers];

	if (n->layers + 1 < NET_LAYERS)
		n->layers++;
	else
		m->wrong = "too many layers";
	*l = (struct layer){.kind = kind,
		.from = from,
		.to = to,
		.residual = NET_NONE,
		.shape = {.batch = n->o.batch,
			.height = m->height,
			.width = m->width,
			.inputs = m->channels,
			.outputs = m->channels}};
	return l;
}

/* What a layer has made becomes the input of the next. */
static void step(struct maker *m, struct layer *l, unsigned height, unsigned width)
{
	l->rows = (uint64_t)l->shape.batch * height * width;
	needs(m, &m->n->buffer[l->to], l->rows * l->shape.outputs);
	m->height = height;
	m->width = width;
	m->channels = l->shape.outputs;
	m->at = l->to;
}

static struct layer *conv(
	struct maker *m, int from, int to, unsigned outputs, unsigned kernel, unsigned stride)
{
	struct layer *l = add(m, LAYER_CONV, from, to);
	struct conv_shape *s = &l->shape;
	uint64_t all = (uint64_t)kernel * kernel * s->inputs;

	s->outputs = outputs;
	s->kernel = kernel;
	s->stride = stride;
	s->depth = m->n->o.depth;
	l->relu = true;
	l->parts = (unsigned)((all + s->depth - 1) / s->depth);
	l->weights = m->n->weights;
	l->bias = l->weights + all * outputs;
	m->n->weights = l->bias + outputs;
	step(m, l, out_of(s->height, kernel, stride), out_of(s->width, kernel, stride));
	needs(m, &m->n->part, l->rows * outputs * l->parts);
	return l;
}

static void pool(struct maker *m)
{
	struct layer *l = add(m, LAYER_POOL, m->at, free_buffer(m->at, NET_NONE, NET_NONE));

	step(m, l, out_of(m->height, 3, 2), out_of(m->width, 3, 2));
}

/* What all end with: the mean over all places, and from that a number for each class. */
static void classes(struct maker *m)
{
	struct layer *l = add(m, LAYER_MEAN, m->at, free_buffer(m->at, NET_NONE, NET_NONE));

	step(m, l, 1, 1);
	l = conv(m, m->at, free_buffer(m->at, NET_NONE, NET_NONE), NET_CLASSES, 1, 1);
	l->relu = false;
}

/* Two or three convolutions and a way around them. */
static void block(struct maker *m, unsigned channels, unsigned expand, unsigned stride)
{
	struct maker in = *m;
	int around = m->at, a = free_buffer(around, NET_NONE, NET_NONE), b;
	struct layer *last;

	conv(m, m->at, a, channels, expand > 1 ? 1 : 3, expand > 1 ? 1 : stride);
	if (expand > 1) {
		b = free_buffer(around, a, NET_NONE);
		conv(m, a, b, channels, 3, stride);
		a = b;
	}
	if (in.channels != channels * expand || stride > 1) {
		struct maker side = in;

		b = free_buffer(around, a, NET_NONE);
		conv(&side, around, b, channels * expand, 1, stride)->relu = false;
		m->wrong = side.wrong ? side.wrong : m->wrong;
		around = b;
	}
	b = free_buffer(around, a, NET_NONE);
	last = conv(m, a, b, channels * expand, expand > 1 ? 1 : 3, 1);
	last->residual = around;
}

static void resnet(struct maker *m, const unsigned blocks[4], unsigned expand)
{
	unsigned base = m->n->o.width;

	conv(m, m->at, 1, base, 7, 2);
	pool(m);
	for (unsigned stage = 0; stage < 4; stage++)
		for (unsigned i = 0; i < blocks[stage]; i++)
			block(m, base << stage, expand, stage && !i ? 2 : 1);
	classes(m);
}

static void resnet18(struct maker *m)
{
	resnet(m, (const unsigned[]){2, 2, 2, 2}, 1);
}

static void resnet50(struct maker *m)
{
	resnet(m, (const unsigned[]){3, 4, 6, 3}, 4);
}

static void vgg16(struct maker *m)
{
	static const unsigned convs[] = {2, 2, 3, 3, 3};
	unsigned base = m->n->o.width;

	for (unsigned stage = 0; stage < 5; stage++) {
		for (unsigned i = 0; i < convs[stage]; i++)
			conv(m, m->at, free_buffer(m->at, NET_NONE, NET_NONE),
				base << (stage < 3 ? stage : 3), 3, 1);
		pool(m);
	}
	classes(m);
}

/* Wide and narrow layers in turn, with a way around each pair, as between the attentions of a
 * language model. */
static void mlp(struct maker *m)
{
	unsigned width = m->n->o.width;

	conv(m, m->at, 1, width, 1, 1);
	for (unsigned i = 0; i < 6; i++) {
		int around = m->at, wide = free_buffer(around, NET_NONE, NET_NONE);

		conv(m, around, wide, 4 * width, 1, 1);
		conv(m, wide, free_buffer(around, wide, NET_NONE), width, 1, 1)->residual = around;
	}
	classes(m);
}

static const struct kind {
	const char *name;
	void (*make)(struct maker *m);
	bool vectors; /* what comes in is no picture, but so many vectors of that width */
	struct net_options usual;
} kinds[] = {
	{"resnet18", resnet18, false, {1, 224, 64, 288}},
	{"resnet50", resnet50, false, {1, 224, 64, 288}},
	{"vgg16", vgg16, false, {1, 224, 64, 288}},
	{"mlp", mlp, true, {1, 512, 512, 512}},
};

static const struct kind *find(const char *kind, size_t length)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strlen(kinds[i].name) == length && !strncmp(kinds[i].name, kind, length))
			return &kinds[i];
	return NULL;
}

/* "batch=4": one of them. */
static const char *read_option(const char *text, size_t length, struct net_options *o)
{
	const struct {
		const char *name;
		unsigned *to;
	} all[] = {{"batch=", &o->batch}, {"size=", &o->size}, {"width=", &o->width},
		{"depth=", &o->depth}};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		size_t n = strlen(all[i].name);
		unsigned long v = 0;
		char *end = NULL;

		if (length <= n || strncmp(text, all[i].name, n))
			continue;
		if (text[n] >= '0' && text[n] <= '9')
			v = strtoul(text + n, &end, 10);
		if (end != text + length || !v || v > 65536)
			break;
		*all[i].to = (unsigned)v;
		return NULL;
	}
	return wrong("`%.*s': it is batch=, size=, width= or depth=, with a number from 1 on",
		(int)length, text);
}

static const char *check(const struct net_options *o)
{
	if (o->batch > 1024 || o->size > 4096 || o->width > 4096)
		return "batch is at most 1024, size and width at most 4096";
	if (o->depth > 65536 || o->depth % CONV_STEP)
		return "depth is a multiple of 16, at most 65536";
	return NULL;
}

static void take_usual(struct net_options *o, const struct net_options *usual)
{
	o->batch = o->batch ? o->batch : usual->batch;
	o->size = o->size ? o->size : usual->size;
	o->width = o->width ? o->width : usual->width;
	o->depth = o->depth ? o->depth : usual->depth;
}

const char *net_make(struct net *n, const char *text)
{
	size_t length = strcspn(text, ",");
	const struct kind *k = find(text, length);
	struct maker m = {.n = n};

	memset(n, 0, sizeof(*n));
	if (!k)
		return wrong("there is no network `%.*s'; there are " KINDS, (int)length, text);
	while (text[length]) {
		text += length + 1;
		length = strcspn(text, ",");
		TRY(read_option(text, length, &n->o));
	}
	n->kind = k->name;
	take_usual(&n->o, &k->usual);
	TRY(check(&n->o));
	m.height = n->o.size;
	m.width = k->vectors ? 1 : n->o.size;
	m.channels = k->vectors ? n->o.width : 3;
	n->input = (uint64_t)m.height * m.width * m.channels;
	needs(&m, &n->buffer[0], n->input * n->o.batch);
	k->make(&m);
	n->last = m.at;
	n->output = (uint64_t)n->o.batch * NET_CLASSES;
	return m.wrong;
}

unsigned net_kernels(const struct net *n)
{
	unsigned sum = 1;

	for (unsigned i = 0; i < n->layers; i++)
		sum += n->layer[i].kind == LAYER_CONV ? 2 : 1;
	return sum;
}
