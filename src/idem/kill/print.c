/* SPDX-License-Identifier: Apache-2.0 */
/* Launches become text. Apart from kill.c: the shim only reads, and older C libraries have no
 * fmemopen() that does the same. */
#include "kill.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool fm_kill_print(const struct fm_kill_launch *l, char text[FM_KILL_CHARS])
{
	FILE *to;
	bool ok;

	if (!fm_kill_is_name(l->name, strlen(l->name)) || strlen(l->hash) != FM_KILL_HASH - 1 ||
		l->bytes > FM_KILL_BYTES)
		return false;
	to = fmemopen(text, FM_KILL_CHARS, "w");
	if (!to)
		return false;
	fprintf(to, "%s %s %u,%u,%u %u,%u,%u %u %u ", l->hash, l->name, l->grid[0], l->grid[1],
		l->grid[2], l->block[0], l->block[1], l->block[2], l->shared, l->bytes);
	for (unsigned i = 0; i < fm_kill_words(l); i++)
		if (l->at >> i & 1)
			fputc('p', to);
		else
			fprintf(to, "%" PRIx64 ",", l->word[i]);
	fputs("; ", to);
	for (unsigned i = 0; i < l->n; i++)
		fprintf(to, "%u:%" PRId64 ",", l->pointer[i].group, l->pointer[i].plus);
	fputs("; ", to);
	for (unsigned i = 0; i < l->n_groups; i++)
		fprintf(to, "%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64 ",", l->group[i].from,
			l->group[i].to, l->group[i].wfrom, l->group[i].wto);
	fputs(";", to);
	ok = !ferror(to) && ftell(to) < (long)FM_KILL_CHARS - 1;
	return !fclose(to) && ok;
}
