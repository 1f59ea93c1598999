/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands must know of a device API, as one row of a table: how programs are given its
 * shim, what works on this machine, and how to make work for a device. The list is FERMATA_APIS of
 * CMakeLists.txt, in the order in which their devices are preferred.
 *
 * What is loaded into programs is not here: a shim is an object of its own, which no command links.
 * Its operations on queues are those of hwqueue.h, its calls those of its table of calls.
 */
#pragma once
#include <stdbool.h>
#include <stdio.h>

struct doctor;
struct fm_err;
struct load_ops;
struct on_request;

/* What the caller of `fermata run` asked for besides. */
struct fm_api_wishes {
	bool guardian;         /* rewrite kernels, so that they stop between two blocks */
	const char *loops;     /* patterns of kernels that stop within their loops, or NULL */
	const char *kill;      /* a file that says which kernels may be killed, or NULL */
	const char *partition; /* multiprocessors of a server's streams, or NULL */
	bool by_stream_priority;
};

/* Something that is tried in a process of its own, since drivers may hang or crash. */
struct fm_api_probe {
	const char *name;       /* for `fermata _probe` */
	void (*run)(FILE *out); /* writes one JSON object a line, each as soon as it is known */
};

/* Each operation may be NULL: there is nothing to do. None is called from two threads. */
struct fm_api {
	const char *name;  /* as options spell it: "cuda" */
	bool takes_wishes; /* else they change nothing */
	/* Would inject() fail? Called for all APIs before a daemon is started. */
	int (*check)(struct fm_err *err);
	/* Changes the environment so that programs started from now on load the shim. 0, or an
	 * error for which the program must not be started. What does not keep it from being
	 * scheduled by another API is reported, and 0. */
	int (*inject)(
		const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err);
	/* Are the parts installed? Called for all before anything is tried. */
	void (*installed)(struct doctor *d);
	/* Tries drivers and devices, by probes, and notes what was found. */
	void (*doctor)(const struct fm_api *api, struct doctor *d);
	const struct on_request *on_request; /* for these two, where they are those of
						doctor/on_request.h */
	const struct fm_api_probe *probe;    /* ends with a name of NULL; NULL: none */
	const struct load_ops *load;         /* work of a chosen length: bench, calibrate */
};

extern const struct fm_api *const fm_apis[]; /* ends with NULL */
