/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server answers: its head is refused, incomplete or sound, and the metadata of a model
 * is refused with a text, or makes a request of bounded size. */
#include "bench/http.h"
#include "bench/kserve.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_head head;
	struct kserve_model m;
	const char *why, *wrong;
	char text[160];
	ssize_t n = http_parse_head((const char *)data, size, &head, &why);

	must(n == -EPROTO || (n >= 0 && (size_t)n <= size));
	must(n != -EPROTO || *why);
	must(n <= 0 || (head.status >= 100 && head.status < 600 && head.length <= HTTP_BODY_MAX));
	if (n > 0) {
		data += n;
		size -= (size_t)n;
	}
	wrong = kserve_read_model(&m, (const char *)data, size, 3, NULL, text);
	must(m.inputs <= KSERVE_INPUTS && (wrong || kserve_input_bytes(&m) <= KSERVE_INPUT_SIZE));
	must(wrong ? *wrong != 0 : m.length > 0);
	if (!wrong && kserve_input_bytes(&m) < 65536) {
		unsigned char *input = malloc(kserve_input_bytes(&m));

		must(input);
		kserve_fill(&m, input);
		free(input);
	}
	kserve_free_model(&m);
	return 0;
}
