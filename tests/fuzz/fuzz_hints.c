/* SPDX-License-Identifier: Apache-2.0 */
/* Any environment of a client: whatever it says of hints, group and limits, what comes of it is
 * within its range, is a message that the daemon takes, and ends where it must. The input is
 * values, with a byte 0 between them. */
#include "base/parse.h"
#include "xqueue/client.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void set(const char *name, const char **from, const char *end)
{
	if (*from >= end) {
		unsetenv(name);
		return;
	}
	must(!setenv(name, *from, 1));
	*from += strlen(*from) + 1;
}

static void check_hints(const struct fm_settings *s)
{
	union fm_msg m;

	must(!(s->hints_set >> FM_HINT_COUNT));
	for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
		if (!(s->hints_set & 1u << h))
			continue;
		must(!fm_hint_check((enum fm_hint)h, s->hints.value[h], NULL));
		fm_msg_init(&m, FM_MSG_HINT);
		m.hint.group = 0;
		m.hint.hint = h;
		m.hint.value = s->hints.value[h];
		must(!fm_msg_check(&m, sizeof(m.hint), NULL));
	}
}

static void check_rest(const struct fm_settings *s)
{
	must(!s->interval_ns || (s->interval_ns >= 10 * FM_US && s->interval_ns <= FM_S));
	must(s->window_ns >= 10 * FM_US && s->window_ns <= FM_S);
	must(s->lead <= 64 && s->level_wish <= FM_LEVEL_RUNNING);
	must(memchr(s->group, 0, sizeof(s->group)) && memchr(s->dir, 0, sizeof(s->dir)) &&
		memchr(s->local, 0, sizeof(s->local)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"FERMATA_HINTS", "FERMATA_GROUP", "FERMATA_INTERVAL_US",
		"FERMATA_WINDOW_US", "FERMATA_LEAD", "FERMATA_WIDE", "FERMATA_LEVEL",
		"FERMATA_LOCAL", "FERMATA_SOCKET"};
	char *text = calloc(1, size + 1);
	const char *from = text;
	struct fm_settings s;

	must(text != NULL);
	memcpy(text, data, size);
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		set(names[i], &from, text + size);
	fm_settings_read(&s);
	check_hints(&s);
	check_rest(&s);
	free(text);
	return 0;
}
