/* SPDX-License-Identifier: Apache-2.0 */
#include "uuid.h"
#include <string.h>

/* Is there a hyphen before that byte? */
static bool parts(unsigned i)
{
	return i == 4 || i == 6 || i == 8 || i == 10;
}

const char *fm_uuid_text(const unsigned char id[FM_UUID_SIZE], char buf[FM_UUID_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	char *to = buf;

	for (unsigned i = 0; i < FM_UUID_SIZE; i++) {
		if (parts(i))
			*to++ = '-';
		*to++ = digits[id[i] >> 4];
		*to++ = digits[id[i] & 15];
	}
	*to = '\0';
	return buf;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool fm_uuid_parse(const char *s, size_t len, unsigned char id[FM_UUID_SIZE])
{
	bool hyphens = len == FM_UUID_TEXT - 1;

	if (!hyphens && len != 2 * FM_UUID_SIZE)
		return false;
	for (unsigned i = 0; i < FM_UUID_SIZE; i++) {
		int high, low;

		if (hyphens && parts(i) && *s++ != '-')
			return false;
		high = digit(*s++);
		low = digit(*s++);
		if (high < 0 || low < 0)
			return false;
		id[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

const char *fm_uuid_next(const char *list, size_t *len)
{
	list += strspn(list, ", \t");
	*len = strcspn(list, ", \t");
	return *len ? list : NULL;
}
