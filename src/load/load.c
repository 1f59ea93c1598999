/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"
#include "base/clock.h"
#include "base/util.h"

#define SIZINGS UINT64_C(9)
#define FIRST   256
#define ENOUGH  (8 * FM_S) /* of trying the same length, where it is long */

/* The least of some, of LOAD_DEPTH commands at a time: what one takes where none has to wait. How
 * often it is tried depends on the length that is wished for, not on the time that it took: on a
 * busy machine that says nothing. */
static const char *each(
	struct load *l, uint64_t wish, uint64_t amount, uint32_t blocks, uint64_t *ns)
{
	uint64_t tries = FM_MIN(ENOUGH / LOAD_DEPTH / FM_MAX(wish, UINT64_C(1)), SIZINGS);
	const char *wrong = NULL;

	*ns = UINT64_MAX;
	for (uint64_t i = 0; !wrong && i < FM_MAX(tries, UINT64_C(1)); i++) {
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
	const char *wrong = each(l, wish, n, blocks, took);

	while (!wrong && !exact && *took < wish / 2 && n < UINT32_MAX / 2) {
		n *= 2;
		wrong = each(l, wish, n, blocks, took);
	}
	if (!wrong && !exact && *took) {
		n = FM_MAX((uint64_t)((double)n * (double)wish / (double)*took), 1u);
		n = FM_MIN(n, (uint64_t)UINT32_MAX);
		wrong = each(l, wish, n, blocks, took);
	}
	*amount = n;
	return wrong;
}
