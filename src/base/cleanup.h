/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound release of heap and descriptors, so that no function needs a ladder of gotos. */
#pragma once
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void fm_free_ptr(void *p)
{
	free(*(void **)p);
}

static inline void fm_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void fm_fclose_ptr(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void fm_closedir_ptr(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define FM_CLEAN_FREE __attribute__((cleanup(fm_free_ptr)))
#define FM_CLEAN_FD   __attribute__((cleanup(fm_close_fd)))
#define FM_CLEAN_FILE __attribute__((cleanup(fm_fclose_ptr)))
#define FM_CLEAN_DIR  __attribute__((cleanup(fm_closedir_ptr)))

/* Hand a descriptor or pointer out of its scope: the cleanup then finds nothing to do. */
static inline int fm_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define fm_take_ptr(p)                      \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
