/* SPDX-License-Identifier: Apache-2.0 */
/* Any file: either settings that the daemon can follow, or an error with a text and nothing
 * changed. */
#include "base/cleanup.h"
#include "daemon/config/config.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* The first byte may put a section and a key in front, so that the fuzzer gets to the values. */
static FILE *compose(char *text, size_t cap, const uint8_t *data, size_t size)
{
	static const char *const heads[] = {"", "[daemon]\npolicy=", "[daemon]\nlinger_us=",
		"[daemon]\nrealtime = ", "[policy fair]\nslice=", "[limits]\npriority_min = ",
		"[limits]\ngroups=", "[access]\ngroup=", "[policy ", "[limits]\nhints = ",
		"[limits user 7]\ndeadline_max = ", "[limits group 7]\nweight_", "[limits user ",
		"[device]\nguard_from_us=", "[device a*]\nlevel = ", "[device "};
	size_t head;

	if (!size)
		return NULL;
	strcpy(text, heads[*data % (sizeof(heads) / sizeof(heads[0]))]);
	head = strlen(text);
	size = size - 1 < cap - head ? size - 1 : cap - head;
	memcpy(text + head, data + 1, size);
	return head + size ? fmemopen(text, head + size, "r") : NULL;
}

/* What is printed says the same: read and printed again it is the same text. */
static void check_print(const struct config *c)
{
	char *once = NULL, *twice = NULL;
	struct config again;
	struct fm_err err;
	size_t size;
	FILE *f;

	f = open_memstream(&once, &size);
	must(f);
	config_print(c, f);
	fclose(f);
	f = fmemopen(once, strlen(once), "r");
	must(f && !config_read(&again, f, "printed", &err));
	fclose(f);
	f = open_memstream(&twice, &size);
	must(f);
	config_print(&again, f);
	fclose(f);
	must(!strcmp(once, twice));
	free(once);
	free(twice);
}

/* Whoever it is, each range has an inside. */
static void check_limits(const struct config *c)
{
	static const gid_t gids[] = {0, 7};
	struct config_limits l;

	for (unsigned i = 0; i < 4; i++) {
		config_limits_for(c, 6 + i / 2, gids, 2, i % 2, &l);
		for (unsigned h = 0; h < FM_HINT_COUNT; h++)
			must(l.of.range[h].min <= l.of.range[h].max);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[4096];
	FM_CLEAN_FILE FILE *f = compose(text, sizeof(text), data, size);
	struct config before, c;
	struct fm_err err = {0};
	int rc;

	if (!f)
		return 0;
	memset(&before, 0x5a, sizeof(before));
	c = before;
	rc = config_read(&c, f, "fuzz.conf", &err);
	if (rc) {
		must(err.code == rc && !strncmp(err.text, "fuzz.conf:", 10));
		must(!memcmp(&c, &before, sizeof(c)));
		return 0;
	}
	must(c.params <= CONFIG_PARAMS && c.rules <= CONFIG_RULES);
	must(memchr(c.policy, '\0', sizeof(c.policy)) != NULL);
	check_limits(&c);
	check_print(&c);
	return 0;
}
