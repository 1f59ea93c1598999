/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fermata calibrate` runs two programs of its own on one device. Their commands take the same
 * time. The busy one always has commands queued. The sporadic one issues a command now and then,
 * and waits for it. Both note when each command was asked for and when it had ended, on the clock
 * that all processes share.
 *
 * The programs are separate processes (`fermata _calibrate FD ROLE DEVICE AMOUNT`, with their page
 * at FD). Where they are to be scheduled, `fermata run` starts them, so that they get what other
 * programs get.
 */
#pragma once
#include "cmd/cli.h"
#include "cmd/outfile.h"
#include "cmd/table.h"
#include "load/load.h"
#include "platform/platform.h"
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum calibrate_go { GO_NOT_YET, GO_WORK, GO_WAIT };
enum calibrate_state { STATE_NEW, STATE_READY, STATE_RESTING, STATE_FAILED };

/* What is measured of sets of tasks (<fermata/gpu_sched.h>), one after the other. A note is a time.
 */
enum sets_phase { SETS_DECISION, SETS_START, SETS_PREEMPTION, SETS_PHASES };

/* A program's notes, in memory that it shares with the process that started it. */
#define NOTES (1u << 22) /* only the part that is written uses memory */
struct calibrate_page {
	_Atomic uint32_t go;    /* enum calibrate_go: written by the starting process */
	_Atomic uint32_t state; /* this and the rest are written by the program */
	_Atomic uint32_t notes; /* grows to NOTES, and stays there */
	bool realtime;          /* written before the start: be scheduled like real-time tasks */
	uint64_t amount;        /* found by the program with ROLE_SIZE */
	uint64_t command_ns;
	uint64_t budget_ns;          /* ROLE_SETS: how long to measure; written before the start */
	bool skipped;                /* ROLE_SETS: there is no such engine; `error' says why */
	uint32_t phase[SETS_PHASES]; /* ROLE_SETS: how many notes there were at its end */
	char error[160];
	char name[128], platform[128], driver[128];
	struct {
		uint64_t begin, end;
	} note[NOTES];
};

enum calibrate_role { ROLE_SIZE, ROLE_BUSY, ROLE_SPORADIC, ROLE_SETS };

/* One such program. */
struct calibrate_program {
	struct calibrate_page *page;
	pid_t pid;
};

/* Starts a program, with dir under the daemon there and with that priority. Waits until it is
 * ready, or has found the amount. On error err has the program's message. */
struct calibrate_start {
	const char *device;
	enum calibrate_role role;
	uint64_t amount; /* of ROLE_SIZE: nanoseconds that a command is to take; of ROLE_SETS: tasks
			  */
	uint64_t budget_ns;
	const char *dir, *priority;
	bool realtime;
};
int calibrate_start(
	struct calibrate_program *p, const struct calibrate_start *how, struct fm_err *err);
/* Makes it work, or rest. Returns 0 when it does, or a negative errno with err if it has failed. */
int calibrate_go(struct calibrate_program *p, enum calibrate_go go, struct fm_err *err);
/* Safe for one that was never started. */
void calibrate_end(struct calibrate_program *p);
#define CALIBRATE_CLEAN __attribute__((cleanup(calibrate_end)))

/* Samples, sorted once they are complete. */
struct samples {
	uint64_t *ns;
	size_t n, cap;
};
void samples_free(struct samples *s);
uint64_t samples_quantile(const struct samples *s, double q);

/* The results. */
struct calibration {
	const char *kind;
	char name[128], platform[128], driver[128];
	double seconds;
	bool realtime;
	uint64_t command_ns;
	int level; /* of preemption */
	struct samples alone, begin, go_on, turn;
	json_t *stop, *react; /* of the daemon: count, p50, p99, max, in us */
	/* Of two programs without Fermata, beyond twice as long: -0.5 where they run side by side.
	 */
	double slowdown;
	int64_t epsilon, slice, theta; /* ns, with the margin; FM_PLATFORM_UNSET */
};
void calibration_free(struct calibration *c);

/* From notes to samples; negative errno. */
int calibrate_alone(struct calibration *c, const struct calibrate_page *sporadic);
int calibrate_together(struct calibration *c, const struct calibrate_page *busy,
	const struct calibrate_page *sporadic, uint32_t from);
int calibrate_native(struct calibration *c, struct calibrate_page *const page[2],
	const uint32_t alone[2], const uint32_t both[2]);
/* Derives from the samples the numbers that analyses take. */
void calibrate_conclude(struct calibration *c);

#define CALIBRATE_MARGIN      20     /* percent beyond the largest that was seen */
#define CALIBRATE_NO_SLOWDOWN (-0.9) /* what is below was not measured */
json_t *calibration_json(const struct calibration *c);
json_t *calibration_samples(const struct samples *s);
json_t *calibration_machine(void);
void calibration_time(char at[32]);
void calibration_row(struct table *t, const char *what, const struct samples *s);
/* And closes it. */
int calibration_write(const json_t *root, struct outfile *out, struct fm_err *err);
void calibration_show(const struct calibration *c);

/* --- sets of tasks that schedule themselves --- */

struct set_row {
	unsigned engine; /* enum fm_platform_engine_id */
	int64_t tasks;
	bool skipped;
	char why[160];
	struct samples of[SETS_PHASES];
	int64_t decision, start; /* ns, with the margin */
};

int calibrate_set_row(struct set_row *row, const struct calibrate_page *page);

/* What the program with ROLE_SETS does; NULL, or what was wrong. */
const char *calibrate_sets_program(
	struct calibrate_page *page, const char *libfermata, const char *engine, unsigned tasks);

/* `fermata calibrate --gpu-sched`. tasks: ascending. */
struct calibrate_sets {
	int64_t seconds;
	int64_t tasks[FM_PLATFORM_ROWS];
	unsigned n;
	struct set_row row[FM_PLATFORM_ENGINES * FM_PLATFORM_ROWS];
	unsigned rows;
};
int calibrate_sets(struct calibrate_sets *s, struct fm_err *err);
/* Before that: with what is measured, does the file have more rows than are read? */
int calibrate_sets_fit(
	const struct calibrate_sets *s, const struct fm_platform *file, struct fm_err *err);
/* The platform file, new or with what is added to it; NULL without memory. */
json_t *calibrate_sets_json(const struct calibrate_sets *s, const json_t *old);
void calibrate_sets_show(const struct calibrate_sets *s);
void calibrate_sets_free(struct calibrate_sets *s);
