/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine's OpenCL and CUDA can do, tried in a process of its own, so that a driver that
 * hangs or crashes harms nobody. The child writes one JSON object a line and may die after any of
 * them:
 *
 *   {"step":"loader","path":...} or {"step":"loader","error":...}
 *   {"step":"device","name","platform","version","type"}    before the device is tried
 *   {"step":"levels","levels":[...],"text":...}             what trying it showed
 *   {"step":"layer","loaded":bool}                          with a layer: did the loader load it?
 *   {"step":"cuda","version":...,"number":N}                CUDA: of which version the driver is,
 *   {"step":"cuda","error":...,"absent":bool,"code":CUresult}
 *                                                           or why it does not start
 *   {"step":"gates","refused":...,"code":CUresult}          CUDA: why a device has no level 2
 *   {"step":"strict","works":bool,"error":...}              CUDA: level 2 in strict mode, too?
 *   {"step":"slices","groups":N,"refused":bool}             CUDA: could time slices be set?
 *   {"step":"partition","error":...,"sms":N,"rest":N}       CUDA: the smallest partition
 *   {"step":"shared"}                                       CUDA: its contexts are MPS's
 *   {"step":"guardian","reason":...,"text":...,"code":CUresult,"blocks":N,"shared":bool}
 *                                                           "guardian": reason: ""; it works
 *   {"step":"cache","error":...}                            "guardian": rewritten kernels on disk
 *   {"step":"end"}
 */
#pragma once
#include "cmd/cli.h"

struct probe_result {
	json_t *lines;  /* array of the objects that came; the caller's to free */
	char died[128]; /* how it ended before its end, or "" */
};

/* Try "opencl", without any layer; "layer": OpenCL with the layer at this path; "cuda";
 * "guardian". 0 or negative errno when it could not be run at all. */
int probe_run(const char *what, const char *layer, unsigned limit_ms, struct probe_result *result);

/* The first object with that step, or NULL. */
const json_t *probe_step(const struct probe_result *result, const char *step);

/* In the child. tell: each line leaves at once, since what follows it may crash. */
void probe_tell(FILE *out, json_t *line);
void probe_cuda(FILE *out);
void probe_guard(FILE *out);
