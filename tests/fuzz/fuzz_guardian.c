/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the program's text: it is left alone, or it is rewritten by insertions alone, a prologue
 * and parameters for each kernel. The first line is the options. */
#include "base/util.h"
#include "code/opencl/pass/guardian.h"
#include <stdlib.h>
#include <string.h>

#define PARAMS                                                                               \
	"fermata_guard_marks_t fermata_guard_marks,fermata_guard_stop_t fermata_guard_stop," \
	"uint fermata_guard_left"
#define PROLOGUE                                                                              \
	"fermata_guard_local_t fermata_guard_here;if(fermata_guard_skip(&fermata_guard_here," \
	"fermata_guard_marks,fermata_guard_stop,fermata_guard_left))return;"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static bool skip(const char **p, const char *text)
{
	bool there = !strncmp(*p, text, strlen(text));

	*p += there ? strlen(text) : 0;
	return there;
}

/* (void) becomes parameters: the word, maybe with line splices in it. */
static const char *past_void(const char *s, const char *end)
{
	must(s < end && *s == 'v');
	while (s < end && *s != 'd')
		s++;
	must(s < end);
	return s + 1;
}

static void compare(const char *s, const char *end, const struct fm_guardian_text *t)
{
	const char *p = strstr(t->text, "\n#line 1\n");
	unsigned prologues = 0, params = 0;

	must(p);
	p += strlen("\n#line 1\n");
	for (;;) {
		if (skip(&p, PROLOGUE)) {
			prologues++;
		} else if (skip(&p, "," PARAMS)) {
			params++;
		} else if (skip(&p, PARAMS)) {
			params++;
			if (s < end && *s == 'v' && *p != 'v')
				s = past_void(s, end);
		} else if (s < end) {
			must(*p++ == *s++);
		} else {
			break;
		}
	}
	must(!*p && prologues == t->kernels && params >= prologues && prologues);
	must(p == t->text + t->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = memchr(data, '\n', size);
	struct fm_guardian_text t, again;
	enum fm_guardian_why why;
	const char *source, *end;
	char options[128] = "";
	size_t n;

	if (!line)
		return 0;
	n = FM_MIN((size_t)(line - data), sizeof(options) - 1);
	memcpy(options, data, n);
	/* No zero behind the end: it is not read. */
	source = (const char *)line + 1;
	end = (const char *)data + size;
	why = fm_guardian_rewrite(source, (size_t)(end - source), options, &t);
	must(fm_guardian_reason(why)[0]);
	if (why) {
		must(!t.text && !t.len && !t.kernels);
		return 0;
	}
	compare(source, end, &t);
	/* What we have written is not ours to rewrite. */
	must(fm_guardian_rewrite(t.text, t.len, options, &again) == FM_GUARDIAN_OPTIONS);
	free(t.text);
	return 0;
}
