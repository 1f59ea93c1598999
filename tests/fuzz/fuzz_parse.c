/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the bytes, a parser answers 0 with a value inside its range, or an error with a text. */
#include "base/parse.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void one_hint(const char *name, const char *value)
{
	struct fm_err err = {0};
	enum fm_hint h;
	int64_t v;
	int rc = fm_parse_hint(name, value, &h, &v, &err);

	if (rc)
		must(rc < 0 && err.code == rc && err.text[0]);
	else
		must(!strcmp(name, fm_hint_name(h)) && !fm_hint_check(h, v, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char s[256];
	struct fm_err err;
	int64_t v;
	bool b;

	size = FM_MIN(size, sizeof(s) - 1);
	memcpy(s, data, size);
	s[size] = '\0';
	must(fm_parse_time(s, &v, &err) || v >= 0);
	must(fm_parse_int(s, -5, 5, &v, &err) || (v >= -5 && v <= 5));
	fm_parse_bool(s, &b, &err);
	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		one_hint(fm_hint_name((enum fm_hint)h), s);
	one_hint(s, "1");
	return 0;
}
