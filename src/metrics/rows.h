/* SPDX-License-Identifier: Apache-2.0 */
/* Between rows.c and families.c. */
#pragma once
#include "metrics.h"

enum row_kind {
	ROW_EXPORTER, /* one row, also while the daemon does not answer */
	ROW_DAEMON,   /* one row */
	ROW_DEVICE,
	ROW_GROUP,
	ROW_ENTITY, /* a group on a device */
	ROW_MEMORY, /* the memory of a group on a device */
	ROW_PROCESS,
	ROW_TASK,
	ROW_KINDS
};

struct row {
	char *labels; /* between the braces */
	json_t *of;   /* a reference */
	uid_t uid;
};

struct rows_list {
	struct row *row;
	size_t n, cap;
};

struct fm_rows {
	struct rows_list list[ROW_KINDS];
	json_t *bounds, *wait_bounds; /* of histograms, in ns */
};

/* Which labels the rows of a kind have, for people. */
const char *row_labels(enum row_kind kind);
