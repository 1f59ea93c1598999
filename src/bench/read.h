/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a workload: where in the file one is, and what is wrong there. Within the room. */
#pragma once
#include "workload.h"

struct bench_place {
	const char *file;
	char path[160];
	struct bench_workload *w;
	struct fm_err *err;
};

void bench_at(struct bench_place *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "FILE: PATH.KEY: reason"; -EINVAL. key may be NULL. */
int bench_bad(const struct bench_place *p, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The first member that is not in `known`, which ends with NULL, is remembered. */
void bench_note_unknown(
	const struct bench_place *p, const json_t *object, const char *const *known);

/* A number in [min, max]. -EINVAL; `*v` stays as it is where the member is missing and `required`
 * is false. */
int bench_real(const struct bench_place *p, const json_t *from, const char *key, double min,
	double max, bool required, double *v);
int bench_whole(const struct bench_place *p, const json_t *from, const char *key, int64_t min,
	int64_t max, bool required, int64_t *v);

int bench_read_models(struct bench_place *p);
/* The index of one for such batches, which is made when it is first asked for. -EINVAL with err. */
int bench_find_model(
	struct bench_place *p, const char *key, const char *name, uint32_t batch, uint32_t *index);
/* All of a task but its place in the order, and what it depends on. */
int bench_read_task(struct bench_place *p, const json_t *from, struct bench_task *t);
int bench_read_before(struct bench_place *p, const json_t *from, struct bench_task *t);
