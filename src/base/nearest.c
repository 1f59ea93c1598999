/* SPDX-License-Identifier: Apache-2.0 */
#include "nearest.h"
#include "util.h"
#include <string.h>

/* Optimal string alignment, by rows; two rows back is enough for a swap. */
unsigned fm_distance(const char *a, const char *b)
{
	unsigned row[3][FM_NEAREST_MAX + 1];
	size_t n = strnlen(a, FM_NEAREST_MAX + 1), m = strnlen(b, FM_NEAREST_MAX + 1);

	if (n > FM_NEAREST_MAX || m > FM_NEAREST_MAX)
		return FM_NEAREST_MAX + 1;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned change = before[j - 1] + (a[i - 1] != b[j - 1]);

			now[j] = FM_MIN(before[j], now[j - 1]) + 1;
			now[j] = FM_MIN(now[j], change);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = FM_MIN(now[j], older[j - 2] + 1);
		}
	}
	return row[n % 3][m];
}

/* Near is what differs in a third of its letters at most, and in one of a short word. */
void fm_nearest_try(struct fm_nearest *n, const char *word)
{
	unsigned distance = fm_distance(n->typed, word);
	size_t len = FM_MAX(strlen(n->typed), strlen(word));

	if (distance > FM_NEAREST_MAX || (distance > len / 3 && distance > 1))
		return;
	if (distance >= len || (n->best && distance >= n->distance))
		return;
	n->best = word;
	n->distance = distance;
}
