/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that commands write: opened before the work begins, and in their place only when all of it
 * is written. What is there already stays, unless --force; a symbolic link is never followed. Until
 * then the file has no name (or, on file systems that cannot do that, one beside its own that ends
 * in six random characters).
 *
 * "-" is the standard output. Devices and pipes, and descriptors by name (/dev/stdout, /dev/fd/N),
 * are written to as they are.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdio.h>

struct outfile {
	const char *path; /* as it was named; NULL: not open */
	FILE *f;
	bool force;
	enum outfile_kind {
		OUTFILE_STREAM,  /* standard output, a pipe, a device */
		OUTFILE_UNNAMED, /* a file without a name, for now */
		OUTFILE_FRESH,   /* a file beside `path` */
		OUTFILE_LIVE,    /* under its own name at once */
	} kind;
	char *fresh;
};

#define OUTFILE_CLEAN __attribute__((cleanup(outfile_drop)))

/* -EEXIST: there is a file, or a link, which is to stay; -EINVAL: what is there is neither a file
 * nor can be written to. The path must live as long as the outfile does. */
int outfile_open(struct outfile *o, const char *path, bool force, struct fm_err *err);

/* The same for what is worth something before it is whole: if nothing is there under that name, it
 * is made there at once, so that it stays if this process is killed. */
int outfile_open_live(struct outfile *o, const char *path, bool force, struct fm_err *err);

/* Would outfile_open() refuse what is there now? For who writes several files. */
int outfile_check(const char *path, bool force, struct fm_err *err);

/* Closes it, and puts it in its place if all of it is `good` and could be written; otherwise it is
 * removed, and errno says why, if it is not 0. Without `force` what came there meanwhile stays. */
int outfile_close(struct outfile *o, bool good, struct fm_err *err);

/* Closes it after an error that has been told, and keeps what there is. */
void outfile_keep(struct outfile *o);

/* Removes what was written. Safe for one that is not open. */
void outfile_drop(struct outfile *o);

/* A file to read and write that never has a name, on the file system of that path. */
int outfile_scratch(const char *path, FILE **f, struct fm_err *err);

static inline bool outfile_is_stdout(const struct outfile *o)
{
	return o->f == stdout;
}

/* Is it the same file, by whatever name? */
bool outfile_same(const char *a, const char *b);
