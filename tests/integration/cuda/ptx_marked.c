/* SPDX-License-Identifier: Apache-2.0 */
/* usage: ptx_marked FILE
 * The PTX with marks that tell what each access does, on standard output. */
#include "code/cuda/pass/marks.h"
#include <stdio.h>
#include <stdlib.h>

static char text[1 << 22];

int main(int argc, char **argv)
{
	FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
	size_t size = f ? fread(text, 1, sizeof(text), f) : 0;
	char *out;

	if (!size || fm_ptx_marks_kinds(text, size, &out)) {
		fprintf(stderr, "%s: not rewritten\n", argc > 1 ? argv[1] : "?");
		return 1;
	}
	fputs(out, stdout);
	free(out);
	return 0;
}
