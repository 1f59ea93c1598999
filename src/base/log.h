/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's log: lines on stderr. Under systemd each carries its level in front ("<6>",
 * sd-daemon(3)), otherwise the program's name and, for warnings and errors, the level in words.
 * Only the daemon and the exporter log.
 */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>

struct fm_log {
	const char *name; /* of the program */
	int level;        /* LOG_*: nothing less urgent is written */
	bool prefix;      /* level in front */
};

/* Lines that a stranger can cause pass through one of these: so many each second, the rest counted.
 */
#define FM_LOG_PER_SECOND 10

struct fm_log_limit {
	uint64_t second;
	unsigned written, dropped;
};

void fm_log_init(struct fm_log *log, const char *name);
void fm_log(const struct fm_log *log, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void fm_log_limited(const struct fm_log *log, struct fm_log_limit *limit, int level,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* "WHAT: text; hint" of an error. */
void fm_log_err(const struct fm_log *log, int level, const char *what, const struct fm_err *err);
