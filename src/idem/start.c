/* SPDX-License-Identifier: Apache-2.0 */
/* Each queue by itself, under the algorithm that was asked for. But memory is freed for all: what
 * ran again from before that would touch what is no longer there. */
#include "base/cleanup.h"
#include "base/util.h"
#include "idem.h"
#include <errno.h>
#include <stdlib.h>

typedef int find_starts(
	const struct fm_idem_trace *t, const uint32_t *op, size_t n, int32_t *start);

const char *fm_idem_algorithm_name(enum fm_idem_algorithm a)
{
	static const char *const names[] = {
#define NAME(id, name, fn) [id] = name,
		FM_IDEM_ALGORITHM_MAP(NAME)
#undef NAME
	};

	return (unsigned)a < FM_IDEM_ALGORITHMS ? names[a] : "?";
}

int fm_idem_start(const struct fm_idem_trace *t, enum fm_idem_algorithm a, int32_t *start)
{
	static find_starts *const find[] = {
#define FIND(id, name, fn) [id] = fn,
		FM_IDEM_ALGORITHM_MAP(FIND)
#undef FIND
	};
	FM_CLEAN_FREE uint32_t *op = reallocarray(NULL, t->n_ops + 1, sizeof(*op));
	int rc = op ? 0 : -ENOMEM;

	for (unsigned q = 0; q < t->n_queues && !rc; q++) {
		size_t n = 0;

		for (size_t i = 0; i < t->n_ops; i++)
			if (t->op[i].queue == q || t->op[i].kind == FM_IDEM_FREE)
				op[n++] = (uint32_t)i;
		rc = find[a](t, op, n, start);
	}
	return rc;
}
