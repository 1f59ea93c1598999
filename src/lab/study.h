/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab study`: how many of many random sets of tasks pass, along one parameter. */
#pragma once
#include "cmd/cli.h"
#include "cmd/outfile.h"
#include <fermata/rta.h>

#define STUDY_POINTS 40
#define STUDY_CURVES 8

/* One figure of a paper. */
struct study {
	const char *name, *title, *axis;
	double first, step; /* along the axis, for people; everything else counts in points */
	unsigned points, curves, sets;
	const char *curve[STUDY_CURVES];
	/* Draws a set for a point, and says which curves' tests it passes. 0 or a negative errno.
	 */
	int (*sample)(const struct study *s, unsigned point, struct fm_rta_random *r,
		bool passes[STUDY_CURVES]);
	unsigned cpus;    /* global EDF */
	int64_t decision; /* ns; global EDF: what one of ours costs; 0: a study without */
	int sweep;        /* GCAPS: which parameter */
	bool gain;        /* GCAPS: with and without GPU priorities, instead of all methods */
};

/* NULL behind the last one. */
const struct study *study_at(size_t index);
const struct study *study_find(const char *name);
double study_x(const struct study *s, unsigned point);

struct study_result {
	const struct study *study;
	uint64_t seed;
	unsigned sets;
	unsigned passed[STUDY_POINTS][STUDY_CURVES];
	bool done[STUDY_POINTS];
};

/* Does the missing points, with `threads`. After each point, writes the results so far to
 * DIR/NAME.part. progress: show a bar on stderr. */
int study_run(struct study_result *r, const char *dir, unsigned threads, bool progress,
	struct fm_err *err);

/* Reads the results of an earlier run with the same seed and number of sets. Returns the number of
 * points. */
unsigned study_resume(struct study_result *r, const char *dir);

/* DIR/NAME.csv and DIR/NAME.svg, opened before the work begins. */
struct study_files {
	struct outfile csv, svg;
	char path[2][4096];
};
int study_open(struct study_files *f, const struct study *s, const char *dir, bool force,
	struct fm_err *err);
void study_files_drop(struct study_files *f);

/* Writes both, and removes DIR/NAME.part. */
int study_write(
	const struct study_result *r, struct study_files *f, const char *dir, struct fm_err *err);
void study_csv(FILE *f, const struct study_result *r);

/* The area under a curve, by trapezoids, in units of the axis. */
double study_area(const struct study_result *r, unsigned curve);
