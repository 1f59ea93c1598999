/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `fermata doctor` has found, for those that look: the command, and each device API.
 *
 * Owns: the findings, and the processes in which drivers are tried.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "cmd/ctl.h"
#include "cmd/preload.h"
#include "probe.h"
#include <limits.h>

/* good; worth knowing, though programs run; needed and missing */
enum verdict { GOOD, WARNING, BAD };

struct doctor {
	struct cli *cli;
	json_t *checks, *devices;
	bool bad;
	unsigned prove; /* so many seconds a gate must stand on devices that are unproven; 0: not
			   tried */
	char daemon_dir[CTL_PATH]; /* "": no daemon answers */
	bool usable; /* an API was found whose programs and devices can be scheduled */
};

/* Note one finding and, unless it is good, what to do about it: text and remedy are owned by the
 * caller. */
void doctor_found(
	struct doctor *d, enum verdict v, const char *what, const char *text, const char *remedy);

/* Pairs each device with what trying it showed; the last may lack it, where the probe died. Returns
 * how many can be scheduled; *n: of how many. */
size_t doctor_devices(struct doctor *d, const struct probe_result *result, size_t *n);

/* Can LD_PRELOAD name this shim? If not, a warning says why, as `fermata run' does. */
bool doctor_preload(struct doctor *d, const struct preload *shim);

/* What is under way, for people who wait. */
void doctor_progress(const struct doctor *d, const char *text);
