/* SPDX-License-Identifier: Apache-2.0 */
/* Tables by identifiers. The driver knows those that begin with one of these words; they are empty.
 */
#include "fake.h"
#include <string.h>

fm_cu_result cuGetExportTable(const void **table, const struct fm_cu_uuid *id)
{
	static const size_t size = sizeof(size_t);
	static const struct fm_cu_uuid of_contexts = {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32,
		0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2}};

	if (!table || !id)
		return FM_CU_ERROR_INVALID_VALUE;
	if (memcmp(id, "nobody ", 7) && memcmp(id, &of_contexts, sizeof(of_contexts)))
		return FM_CU_ERROR_INVALID_VALUE;
	*table = &size;
	return FM_CU_SUCCESS;
}
