/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers and devices are tried in a process of its own, so that a driver that hangs or crashes
 * harms nobody. The child writes one JSON object a line and may die after any of them. These mean
 * the same for each API (the others are told of where they are written, in api/NAME/tool/):
 *
 *   {"step":"device","name","platform","version","type"}    before the device is tried
 *   {"step":"levels","levels":[...],"text":...}             what trying it showed. Also
 *                      "what", for proof/proof.h, and whether it "stood", if all but level 1 has to
 * be proven
 *   {"step":"end"}
 */
#pragma once
#include "cmd/cli.h"
#include <stdint.h>

struct probe_result {
	json_t *lines;  /* array of the objects that came; the caller's to free */
	char died[128]; /* how it ended before its end, or "" */
};

/* Run the probe of that name (struct fm_api_probe), with this variable set in its environment;
 * value NULL: unset; variable NULL: left alone. 0 or negative errno when it could not be run. */
int probe_run(
	const char *what, const char *variable, const char *value, struct probe_result *result);

/* The same, for so much longer than other probes may take. */
int probe_run_longer(const char *what, const char *variable, const char *value, uint64_t longer,
	struct probe_result *result);

/* The first object with that step, or NULL. */
const json_t *probe_step(const struct probe_result *result, const char *step);

/* In the child: the line leaves at once, since what follows it may crash. */
void probe_tell(FILE *out, json_t *line);
