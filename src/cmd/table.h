/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: columns as wide as their contents; on a terminal, no wider than it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS 20

struct table_column {
	const char *title;
	bool right;  /* align numbers to the right */
	bool shrink; /* cut this one where the terminal is too narrow */
};

struct table {
	const struct table_column *column;
	size_t columns, cells;
	char **cell; /* row by row */
	bool failed; /* out of memory: a row is missing */
};

void table_init(struct table *t, const struct table_column *column, size_t columns);
void table_free(struct table *t);

/* Append one cell, row by row from left to right. Control characters become '?': names come from
 * other people's programs and must not steer the terminal. */
void table_add(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Print to stdout, with a header; an incomplete last row is left out. 0 or -ENOMEM. */
int table_print(const struct table *t);

/* "12.3 ms", "4.56 s", "3m07s", "5h02m". */
#define TABLE_TIME 32
const char *table_ms(double ms, char buf[TABLE_TIME]);

/* Make text safe to print, in place. */
void table_clean(char *text);

/* A field of CSV, quoted where it must be. */
void csv_text(FILE *f, const char *text);

#define TABLE_CLEAN __attribute__((cleanup(table_free)))
