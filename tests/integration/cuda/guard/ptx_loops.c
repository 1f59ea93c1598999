/* SPDX-License-Identifier: Apache-2.0 */
/* usage: ptx_loops FILE PATTERNS [SM]
 * The PTX rewritten, with the kernels that the patterns match able to be left in their loops, on
 * standard output; a line for each kernel on standard error: its name, the reason, bytes, loops. */
#include "code/cuda/image.h"
#include <stdio.h>
#include <stdlib.h>

static char text[1 << 22];

int main(int argc, char **argv)
{
	FILE *f = argc > 2 ? fopen(argv[1], "r") : NULL;
	size_t size = f ? fread(text, 1, sizeof(text), f) : 0;
	struct fm_image image;

	if (!size || fm_image_rewrite_loops(text, size, argc > 3 ? (unsigned)atoi(argv[3]) : 90,
			     argv[2], &image)) {
		fprintf(stderr, "%s: not rewritten\n", argc > 1 ? argv[1] : "?");
		return 1;
	}
	for (unsigned i = 0; i < image.n; i++)
		fprintf(stderr, "%s %u %u %u %s\n", image.kernel[i].name, image.kernel[i].loops,
			image.kernel[i].n_loops, image.kernel[i].save_bytes,
			fm_loop_reason(image.kernel[i].loops));
	fwrite(image.data, 1, image.size - 1, stdout);
	fm_image_free(&image);
	return 0;
}
