/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"
#include "base/clock.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

#define SIZINGS 9
#define FIRST   256
#define ENOUGH  (1 * FM_S) /* of trying the same length */

const struct load_ops *const load_all[] = {&load_sim, &load_opencl, &load_cuda, NULL};

const struct load_ops *load_find(const char *device, unsigned *index)
{
	size_t len = strcspn(device, ":");
	char *end = "";

	*index = device[len] ? (unsigned)strtoul(device + len + 1, &end, 10) : 0;
	if (device[len] && (!device[len + 1] || *end || *index > 63))
		return NULL;
	for (const struct load_ops *const *o = load_all; *o; o++)
		if (strlen((*o)->kind) == len && !strncmp((*o)->kind, device, len))
			return *o;
	return NULL;
}

/* The least of some, of LOAD_DEPTH commands at a time: what one takes where none has to wait. */
static const char *each(struct load *l, uint64_t amount, uint32_t blocks, uint64_t *ns)
{
	uint64_t first = fm_now();
	const char *wrong = NULL;

	*ns = UINT64_MAX;
	for (int i = 0; !wrong && i < SIZINGS && (!i || fm_now() - first < ENOUGH); i++) {
		uint64_t begin = fm_now();

		for (unsigned k = 0; !wrong && k < LOAD_DEPTH; k++)
			wrong = l->ops->launch(l, k, amount, blocks);
		for (unsigned k = 0; !wrong && k < LOAD_DEPTH; k++)
			wrong = l->ops->wait(l, k);
		*ns = FM_MIN(*ns, (fm_now() - begin) / LOAD_DEPTH);
	}
	return wrong;
}

const char *load_size(
	struct load *l, uint64_t wish, uint32_t blocks, uint64_t *amount, uint64_t *took)
{
	bool exact = l->ops->exact;
	uint64_t n = exact ? wish : FIRST;
	const char *wrong = each(l, n, blocks, took);

	while (!wrong && !exact && *took < wish / 2 && n < UINT32_MAX / 2) {
		n *= 2;
		wrong = each(l, n, blocks, took);
	}
	if (!wrong && !exact && *took) {
		n = FM_MAX((uint64_t)((double)n * (double)wish / (double)*took), 1u);
		n = FM_MIN(n, (uint64_t)UINT32_MAX);
		wrong = each(l, n, blocks, took);
	}
	*amount = n;
	return wrong;
}
