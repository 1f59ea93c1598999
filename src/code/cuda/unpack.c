/* SPDX-License-Identifier: Apache-2.0 */
#include "fatbin.h"
#include <errno.h>
#include <limits.h>
#include <lz4.h>
#include <zstd.h>

int fm_unpack_lz4(const uint8_t *packed, size_t n, uint8_t *out, size_t size)
{
	int got;

	if (n > INT_MAX || size > INT_MAX)
		return -EILSEQ;
	got = LZ4_decompress_safe((const char *)packed, (char *)out, (int)n, (int)size);
	return got >= 0 && (size_t)got == size ? 0 : -EILSEQ;
}

int fm_unpack_zstd(const uint8_t *packed, size_t n, uint8_t *out, size_t size)
{
	size_t got = ZSTD_decompress(out, size, packed, n);

	return !ZSTD_isError(got) && got == size ? 0 : -EILSEQ;
}
