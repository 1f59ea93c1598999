/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an API's table of calls (api/calls.h) for script/coverage: a line for each symbol, with
 * tabs between kind, symbol, name, whether it is a clone, version, note, facts, and the types of
 * the parameters.
 */
#include "api/calls.h"
#include <stddef.h>
#include <stdio.h>

#define TYPE(type, name) #type

static const struct {
	const char *row, *type[20];
} rows[] = {
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...)                       \
	{#kind "\t" #symbol "\t" #name "\t" #per_thread "\t" #since "\t" note "\t" #__VA_ARGS__, \
		{CALL_EACH(TYPE, params)}},
#include CALLS
};

int main(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fputs(rows[i].row, stdout);
		for (size_t k = 0;
			k < sizeof(rows[i].type) / sizeof(*rows[i].type) && rows[i].type[k]; k++)
			printf("\t%s", rows[i].type[k]);
		putchar('\n');
	}
	return 0;
}
