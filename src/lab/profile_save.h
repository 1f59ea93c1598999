/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of what was seen, and where they are written. */
#pragma once
#include "cmd/outfile.h"
#include "predict/template.h"
#include "profile.h"
#include <limits.h>

struct profile_fit {
	struct fm_profile *p;
	struct fm_fit *fit;
	unsigned images, kernels; /* with templates */
	char where[PATH_MAX];     /* the folder that has them; "" if that is a file */
};
/* Was all seen of the kernel that it touches? Hashes see writes alone, and may say that another
 * source has missed something. */
bool profile_is_whole(const struct fm_profile_kernel *k);
/* Of fm_profile_read(), when all have been added to f->p. */
int profile_fit_add(void *f, const struct fm_profile_launch *l);
/* To `out` if it is open, else to the user's folder of kernels. */
int profile_save(struct profile_fit *f, struct outfile *out, struct fm_err *err);

/* Each image of a file; the function may keep *of, and leaves it empty then. 0, or with err. */
typedef int profile_image(void *arg, struct fm_templates *of, struct fm_err *err);
int profile_each_image(const char *path, profile_image *image, void *arg, struct fm_err *err);

/* --- profile_against.c --- */

/* What was foretold by templates, beside what was seen. */
struct profile_against;
/* The templates of --against, before the program runs. NULL, with err. */
struct profile_against *profile_against_new(const char *path, struct fm_err *err);
void profile_against_free(struct profile_against *a);
/* When the records in `dir' have been added to p: compares, and prints. */
int profile_against(struct profile_against *a, const struct fm_profile *p, const char *dir,
	const struct profile_options *o, struct fm_err *err);
