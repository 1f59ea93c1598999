/* SPDX-License-Identifier: Apache-2.0 */
/* What the program is told of a device's memory. Where its group has a limit, that is the limit and
 * what the group has left of it, and does not move with what others do. */
#include "memory.h"

static void tell(size_t *left, size_t *total)
{
	struct fm_cuda_mem_at at = fm_cuda_mem_here();
	uint64_t n, all;

	if (!at.c)
		return;
	fm_cuda_mem_settle_all();
	if (!fm_account_info(at.c, at.row, &all, &n))
		return;
	if (left)
		*left = n;
	if (total)
		*total = all;
}

fm_cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
	fm_cu_result rc = NEXT(cuMemGetInfo_v2, (left, total));

	if (rc == FM_CU_SUCCESS)
		tell(left, total);
	return rc;
}

/* Of before CUDA 3.2: 32 bits. */
fm_cu_result cuMemGetInfo(unsigned *left, unsigned *total)
{
	fm_cu_result rc = NEXT(cuMemGetInfo, (left, total));
	size_t n, all;

	if (rc != FM_CU_SUCCESS || !left || !total)
		return rc;
	n = *left;
	all = *total;
	tell(&n, &all);
	*left = (unsigned)FM_MIN(n, (size_t)UINT32_MAX);
	*total = (unsigned)FM_MIN(all, (size_t)UINT32_MAX);
	return rc;
}
