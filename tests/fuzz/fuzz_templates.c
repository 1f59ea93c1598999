/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any file of templates: refused with a reason and nothing kept, or templates that are written and
 * read again as they are, and that foretell rising spans, or nothing, for any launch. The launch is
 * made of the file's own bytes.
 */
#include "base/util.h"
#include "predict/template_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IMAGE "0123456789abcdef0123456789abcdef"

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void written_again(const struct fm_templates *t)
{
	char *text[2] = {NULL};
	size_t size[2] = {0};

	for (unsigned turn = 0; turn < 2; turn++) {
		struct fm_templates again = {0};
		FILE *to = open_memstream(&text[turn], &size[turn]);

		must(to != NULL);
		if (turn)
			must(!fm_templates_parse(&again, IMAGE, "f", text[0], size[0], NULL));
		fm_templates_print_head(to, IMAGE, t->n);
		for (unsigned i = 0; i < t->n; i++)
			fm_templates_print(to, turn ? &again.kernel[i] : &t->kernel[i]);
		fclose(to);
		fm_templates_free(&again);
	}
	must(size[0] == size[1] && !memcmp(text[0], text[1], size[0]));
	free(text[0]);
	free(text[1]);
}

static void evaluate(const struct fm_kernel_templates *k, const uint8_t *data, size_t size)
{
	uint8_t params[FM_TEMPLATE_PARAMS] = {0};
	uint32_t dims[6] = {0};
	struct fm_span span[FM_TEMPLATE_SPANS];
	struct fm_launch l = {dims, dims + 3, params, k->size};
	uint64_t key;

	memcpy(params, data, FM_MIN(size, sizeof(params)));
	memcpy(dims, data + size - FM_MIN(size, sizeof(dims)), FM_MIN(size, sizeof(dims)));
	key = fm_launch_key(k, &l);
	for (unsigned i = 0; i < k->n; i++) {
		const struct fm_template *t = &k->pointer[i];
		int n = fm_template_spans(t, &l, t->n ? t->memo[t->n - 1].key : key, span);

		must(n >= -1 && n <= (int)FM_TEMPLATE_SPANS);
		for (int s = 0; s < n; s++)
			must(span[s].from < span[s].to && (!s || span[s - 1].to <= span[s].from));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_err err = {0};
	struct fm_templates t;
	int rc = fm_templates_parse(&t, IMAGE, "fuzz", (const char *)data, size, &err);

	if (rc) {
		must(rc == -EINVAL && err.code == rc && !strncmp(err.text, "fuzz:", 5) &&
			err.hint[0] && !t.n && !t.kernel);
		return 0;
	}
	written_again(&t);
	for (unsigned i = 0; i < t.n; i++)
		evaluate(&t.kernel[i], data, size);
	fm_templates_free(&t);
	return 0;
}
