/* SPDX-License-Identifier: Apache-2.0 */
/* Reads FERMATA_* from the environment. Values that cannot be understood are ignored: the program
 * must run. */
#include "client.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hint_limits {
	const char *name;
	int64_t min, max;
} hint_limits[FM_HINT_COUNT] = {
#define LIMITS(id, name, min, max, def, unit) [id] = {name, min, max},
	FM_HINT_MAP(LIMITS)
#undef LIMITS
};

static uint64_t number(const char *name, uint64_t min, uint64_t max, uint64_t otherwise)
{
	const char *text = secure_getenv(name);
	unsigned long long v;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return otherwise;
	errno = 0;
	v = strtoull(text, &end, 10);
	return errno || *end || v < min || v > max ? otherwise : v;
}

static void text(const char *name, char *to, size_t size)
{
	const char *from = secure_getenv(name);

	to[0] = '\0';
	if (from && strlen(from) < size)
		strcpy(to, from);
}

/* FERMATA_HINTS="priority=64 deadline=20000000": canonical numbers, times in ns. */
static void hints(struct fm_settings *s)
{
	char buf[512], *save = NULL;

	text("FERMATA_HINTS", buf, sizeof(buf));
	for (char *word = strtok_r(buf, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(word, '='), *end;
		long long v;

		if (!eq)
			continue;
		*eq = '\0';
		errno = 0;
		v = strtoll(eq + 1, &end, 10);
		if (errno || *end || end == eq + 1)
			continue;
		for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
			const struct hint_limits *l = &hint_limits[h];

			if (strcmp(word, l->name) == 0 && v >= l->min && v <= l->max) {
				s->hints.value[h] = v;
				s->hints_set |= 1u << h;
			}
		}
	}
}

void fm_settings_read(struct fm_settings *s)
{
	*s = (struct fm_settings){
		.interval_ns = number("FERMATA_INTERVAL_US", 10, 1000000, 0) * FM_US,
		.window_ns =
			number("FERMATA_WINDOW_US", 10, 1000000, FM_XQ_DEFAULT_WINDOW / FM_US) *
			FM_US,
		.guard_ns =
			number("FERMATA_GUARD_US", 0, 1000000, FM_XQ_DEFAULT_GUARD / FM_US) * FM_US,
		.spin_ns = number("FERMATA_SPIN_US", 0, 10000, 0) * FM_US,
		.memory = number("FERMATA_MEMORY", 0, 1, 0),
		.early = number("FERMATA_MEMORY_EARLY", 0, 1, 0),
		.lead = (unsigned)number("FERMATA_LEAD", 0, 64, FM_XQ_DEFAULT_LEAD),
		.wide = (unsigned)number("FERMATA_WIDE", 0, 1000, 0),
		.level_wish = (enum fm_level)number("FERMATA_LEVEL", 1, 3, FM_LEVEL_NONE),
	};
	text("FERMATA_GROUP", s->group, sizeof(s->group));
	text("FERMATA_SOCKET", s->dir, sizeof(s->dir));
	text("FERMATA_LOCAL", s->local, sizeof(s->local));
	hints(s);
}
