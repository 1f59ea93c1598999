/* SPDX-License-Identifier: Apache-2.0 */
/* Any list of keys: refused with a reason and nothing kept, or kernels each of which is found. */
#include "idem/idem.h"
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
	struct fm_err err = {0};
	struct fm_idem_list l;
	int rc = fm_idem_parse(&l, "fuzz", (const char *)data, size, &err);

	if (rc) {
		must(rc == -EINVAL && !strncmp(err.text, "fuzz:", 5) && err.hint[0] && !l.kernel);
		return 0;
	}
	for (size_t i = 0; i < l.n; i++) {
		const struct fm_idem_verdict *v = &l.kernel[i];

		must(fm_idem_find(&l, v->key) == v && v->class < FM_IDEM_CLASSES &&
			v->why < FM_IDEM_WHYS && strlen(v->name) <= FM_IDEM_NAME);
		must(v->size <= FM_IDEM_GROUP && v->start <= 0 && v->start > -(int)FM_IDEM_GROUP);
	}
	fm_idem_list_free(&l);
	return 0;
}
