/* SPDX-License-Identifier: Apache-2.0 */
/* usage: ptx_loops FILE PATTERNS [SM [NAMES]]
 * The PTX rewritten, with the kernels that the patterns match able to be left in their loops, and
 * those of these names able to be killed, on standard output; a line for each kernel on standard
 * error: its name, the reason, bytes, loops; or its name, where it can be killed, its bases, and
 * the reason. */
#include "code/cuda/image.h"
#include <stdio.h>
#include <stdlib.h>

static char text[1 << 22];

int main(int argc, char **argv)
{
	FILE *f = argc > 2 ? fopen(argv[1], "r") : NULL;
	size_t size = f ? fread(text, 1, sizeof(text), f) : 0;
	const struct fm_image_wishes wishes = {
		.loops = argc > 2 ? argv[2] : NULL, .kill = argc > 4 ? argv[4] : NULL};
	unsigned sm = argc > 3 ? (unsigned)atoi(argv[3]) : 90;
	struct fm_image image;

	if (!size || fm_image_rewrite_as(text, size, sm, &wishes, &image)) {
		fprintf(stderr, "%s: not rewritten\n", argc > 1 ? argv[1] : "?");
		return 1;
	}
	for (unsigned i = 0; wishes.kill && i < image.n; i++)
		fprintf(stderr, "%s %u %llx %s\n", image.kernel[i].name, image.kernel[i].n_kills,
			(unsigned long long)image.kernel[i].bases,
			fm_kill_reason(image.kernel[i].kill));
	for (unsigned i = 0; !wishes.kill && i < image.n; i++)
		fprintf(stderr, "%s %u %u %u %s\n", image.kernel[i].name, image.kernel[i].loops,
			image.kernel[i].n_loops, image.kernel[i].save_bytes,
			fm_loop_reason(image.kernel[i].loops));
	fwrite(image.data, 1, image.size - 1, stdout);
	fm_image_free(&image);
	return 0;
}
