/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of fractions against whole numbers, exactly, whatever their denominators: by the binary
 * digits of all fractions at once, until it is clear. */
#include "internal.h"

static unsigned bits(unsigned __int128 v)
{
	unsigned n = 0;

	for (; v; v >>= 1)
		n++;
	return n;
}

/* Whole parts into *sum; the remainders stay. Returns how many digits tell any sum that is not
 * zero from zero. */
static unsigned long take_whole(struct fraction *f, size_t n, __int128 *sum)
{
	unsigned long enough = bits(n) + 1;

	for (size_t k = 0; k < n; k++) {
		*sum += (__int128)(f[k].num / f[k].den);
		f[k].num %= f[k].den;
		enough += bits(f[k].den);
	}
	return enough;
}

/* The next binary digit of each; how many are ones. */
static size_t next_digits(struct fraction *f, size_t n, bool *rest)
{
	size_t ones = 0;

	*rest = false;
	for (size_t k = 0; k < n; k++) {
		f[k].num <<= 1;
		if (f[k].num >= f[k].den) {
			f[k].num -= f[k].den;
			ones++;
		}
		*rest |= f[k].num != 0;
	}
	return ones;
}

/* After p digits the sum is in [d, d + n) / 2^p. It differs from zero by the product of all
 * denominators' inverse at least, if at all. */
int fraction_sum_sign(struct fraction *f, size_t n, __int128 whole)
{
	__int128 d = -whole;
	unsigned long enough = take_whole(f, n, &d);
	bool rest = false;

	for (size_t k = 0; k < n; k++)
		rest |= f[k].num != 0;
	for (unsigned long p = 0; p <= enough; p++) {
		if (d > 0 || (d == 0 && rest))
			return 1;
		if (!rest)
			return d < 0 ? -1 : 0;
		if (d <= -(__int128)n)
			return -1;
		d = 2 * d + (__int128)next_digits(f, n, &rest);
	}
	return 0;
}
