/* SPDX-License-Identifier: Apache-2.0 */
#include "versions.h"
#include "base/util.h"

bool fm_version_dominates(const struct fm_cuda_version *a, const struct fm_cuda_version *b)
{
	return a->time_ns <= b->time_ns && a->block_ns <= b->block_ns &&
	       a->registers <= b->registers && a->shared <= b->shared && a->threads <= b->threads &&
	       a->blocks <= b->blocks;
}

size_t fm_versions_prune(const struct fm_cuda_version *v, size_t n, bool *kept)
{
	size_t left = n;

	for (size_t i = 0; i < n; i++)
		kept[i] = true;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n && kept[i]; k++) {
			/* Of two that are equal each dominates the other. */
			if (k == i || !kept[k] || !fm_version_dominates(&v[k], &v[i]) ||
				(k > i && fm_version_dominates(&v[i], &v[k])))
				continue;
			kept[i] = false;
			left--;
		}
	return left;
}

uint64_t fm_version_time(const struct fm_cuda_version *v, unsigned on, unsigned all)
{
	uint64_t at_once = (uint64_t)v->per_multiprocessor * on, waves, ns;

	if (!at_once || !v->blocks)
		return UINT64_MAX;
	if (on >= all)
		return v->time_ns;
	waves = (v->blocks + at_once - 1) / at_once;
	if (__builtin_mul_overflow(waves, v->block_ns, &ns))
		return UINT64_MAX;
	return FM_MAX(ns, v->time_ns);
}

int fm_versions_fit(
	const struct fm_cuda_version *v, size_t n, unsigned on, unsigned all, uint64_t block_ns)
{
	uint64_t best = UINT64_MAX;
	int found = -1;

	for (size_t i = 0; i < n && i <= INT32_MAX; i++) {
		uint64_t ns = fm_version_time(&v[i], on, all);

		if (ns >= best || (block_ns && v[i].block_ns > block_ns))
			continue;
		best = ns;
		found = (int)i;
	}
	return found;
}
