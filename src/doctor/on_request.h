/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The APIs whose shims programs are given only on request, since no hardware has tried them. For
 * the commands they differ in a row of a table, and in how devices are found and tried.
 */
#pragma once
#include "api/api.h"
#include "api/own.h"
#include "cmd/preload.h"
#include "doctor.h"
#include "proof/proof.h"

struct on_request {
	struct preload shim;
	const char *const *names; /* of the library, the newest first; NULL ends them */
	const char *check;        /* the name of the finding; NULL: the API's */
	const char *how;          /* "", or ", at level 1" */
	const char *node;         /* of its devices. Where there is neither this, nor a library in
				     $LD_LIBRARY_PATH, nothing is tried. NULL: it is tried anywhere */
	const char *get;          /* what to do where there is a node, and no library; */
	const char *look;         /* and where the library has an error */
};

int on_request_inject(
	const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err);
/* Tries its devices, and says what came of it. Its probe has the name of the API, and tells a step
 * of that name, with "absent" where there is no library, and with "error" where it cannot be used
 * (probe.h has the rest). */
void on_request_doctor(const struct fm_api *api, struct doctor *d);

/* The API's row. probe: how it is tried. */
#define ON_REQUEST(api, row, try)                                                  \
	{                                                                          \
		.name = api, .on_request = row, .inject = on_request_inject,       \
		.doctor = on_request_doctor,                                       \
		.probe = (const struct fm_api_probe[]){{api, try}, {.run = NULL}}, \
	}

/* --- in the probe's process --- */

/* The library; NULL: there is none, and that is told. */
void *probe_library(FILE *out, const struct fm_api *api);
/* Its functions that the API's shim calls itself, into the driver. False: it lacks some that are
 * needed, and that is told. */
bool probe_driver(
	FILE *out, const struct fm_api *api, void *lib, const struct fm_owns *own, void *driver);
/* The step of the API's name: its devices can be tried; or not, and why. */
void probe_begins(FILE *out, const struct fm_api *api);
__attribute__((format(printf, 3, 4))) void probe_fails(
	FILE *out, const struct fm_api *api, const char *format, ...);
/* A device, before it is tried. And what trying it showed: bits 1 << level, and in words. */
void probe_device(FILE *out, const struct fm_api *api, const char *name, const char *type);
void probe_levels(FILE *out, unsigned levels, const char *text);
/* The same of levels of which all but the first have been seen on fake drivers alone. what: for
 * proof/proof.h. stood: a gate has now stood for probe_stand(). */
void probe_unproven(FILE *out, unsigned levels, const char *text, const char *what, bool stood);
/* So long a gate is to stand; 0: nothing is to be proven. */
uint64_t probe_stand(void);
