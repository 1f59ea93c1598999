/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as that of /proc/PID/cgroup: what is found is an identifier and nothing else; and any
 * text as a label: one line, in quotes, that ends where it should. */
#include "metrics/metrics.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_container(const char *text)
{
	struct fm_container c;
	bool found = fm_cgroup_parse(text, &c);

	must(found == (c.id[0] || c.pod_uid[0]));
	must(!c.id[0] || (strlen(c.id) == 64 && strspn(c.id, "0123456789abcdef") == 64));
	must(!c.pod_uid[0] || strlen(c.pod_uid) == 36 || strlen(c.pod_uid) == 32);
	must(strspn(c.pod_uid, "0123456789abcdef-") == strlen(c.pod_uid));
	must(!c.id[0] || strstr(text, c.id));
}

static void check_label(const char *value)
{
	char *text, *p;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	fm_label(f, "l", value);
	must(!fclose(f));
	must(strlen(text) == size && !strchr(text, '\n'));
	if (*value) {
		must(!strncmp(text, "l=\"", 3));
		for (p = text + 3; *p != '"'; p++)
			if (*p == '\\')
				must(strchr("\\\"n", *++p) && *p);
		must(p == text + size - 1);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	check_container(text);
	check_label(text);
	free(text);
	return 0;
}
