/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models, their queues, and the threads that serve them. In the mode sequential one thread serves
 * all models, requests of urgent ones first; in the others each model has its own, and with
 * --fill-sms those that are not urgent have a second one, whose stream nobody stops. Whoever asks
 * waits in his own thread (engine_ask).
 */
#pragma once
#include "model.h"
#include "streams.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define ENGINE_MODELS 16

struct engine_counts {
	unsigned waiting;
	uint64_t served, failed, refused, left; /* left: who asked was gone before it began */
	uint64_t filled;                        /* served by who fills */
	uint64_t run_ns, run_max_ns;
};

struct engine_model {
	struct model model;
	bool urgent;
	struct lane *lane;
	struct engine_counts counts; /* with the lane's lock */
};

struct request {
	struct engine_model *model;
	uint32_t picture;
	int event; /* an eventfd of the asker's, which is 0 */
	/* The answer: */
	const char *code; /* NULL: all is well */
	char text[256];   /* if not */
	struct answer answer;
	uint64_t arrived, begun, ended; /* CLOCK_MONOTONIC, ns */
	/* The lane's: */
	struct request *next;
};

struct worker {
	struct lane *lane;
	bool fills; /* takes what waits while the other one serves, in the models' second rooms */
	pthread_t thread;
	bool started;
	struct model_stream stream;
	CUevent asleep; /* of one that is not urgent: it wants no processor while it waits */
};

/* First come, first served; urgent models before others. */
struct lane {
	struct engine *engine;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct request *head[2], **tail[2]; /* 0: urgent */
	_Atomic unsigned length;
	_Atomic bool ending;
	uint64_t spin_ns;
	bool serving; /* who does not fill; with the lock */
	struct worker worker, filler;
};

struct engine {
	struct streams streams;
	struct device device;
	struct kernels kernels;
	unsigned limit; /* requests that wait for one model */
	bool versions;  /* of kernels, among which each launch chooses, */
	int version;    /* or this one alone; -1: among all */
	uint64_t
		block_ns; /* beside urgent work a block takes no longer: that of an urgent kernel */
	uint64_t spin_ns; /* how long who has nothing to do looks for work of urgent models */
	struct engine_model model[ENGINE_MODELS];
	unsigned models;
	struct lane lane[ENGINE_MODELS];
	unsigned lanes;
	_Atomic bool ending;
};

/* "NAME=KIND[,batch=N]...": see net_make(). */
const char *engine_add(struct engine *e, const char *text, bool urgent);
/* Loads all that was added, and starts; image: see kernels_load(). */
const char *engine_start(struct engine *e, int device, const void *image);
struct engine_model *engine_find(struct engine *e, const char *name);
/* Waits for the answer. client: a socket; if its other end goes away, so does the request, unless
 * it has begun; -1: none. */
void engine_ask(struct engine *e, struct request *r, int client);
/* From now on requests are refused; those that wait are served. */
void engine_drain(struct engine *e);
/* After all who asked have their answers. Also of one that did not start. */
void engine_stop(struct engine *e);

/* What it serves, what became of requests so far: one line of JSON. */
void engine_stats(struct engine *e, FILE *to);
