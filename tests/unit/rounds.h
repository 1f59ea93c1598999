// SPDX-License-Identifier: Apache-2.0
/* How much a test does: less, unless FERMATA_TEST_LONG=1 (script/test --long), or where a sanitizer
 * is to see all (FERMATA_TEST_SANITIZED=all). */
#ifndef FM_TEST_ROUNDS_H
#define FM_TEST_ROUNDS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool brief(void)
{
	const char *is_long = getenv("FERMATA_TEST_LONG"), *all = getenv("FERMATA_TEST_SANITIZED");

	return (!is_long || !*is_long || *is_long == '0') && (!all || strcmp(all, "all"));
}

static inline unsigned rounds(unsigned of_brief, unsigned of_all)
{
	return brief() ? of_brief : of_all;
}

#endif
