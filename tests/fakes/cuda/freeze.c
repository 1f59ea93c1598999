/* SPDX-License-Identifier: Apache-2.0 */
/* A time in which no command of the program's may run, since memory is being moved: one that does
 * ends the program. What only orders others may, and what gives memory of a pool back, which never
 * moves. */
#include "fake.h"

static bool works(const struct fk_work *w)
{
	switch (w->what) {
	case FK_WORDS:
	case FK_RECORD:
	case FK_HOST:
	case FK_OURS:
	case FK_ALLOC:
	case FK_FREE:
		return false;
	default:
		return w->run;
	}
}

void fk_freeze_begins(const struct fk_work *w)
{
	if (!works(w))
		return;
	if (fk.frozen)
		fk_die("a command runs while memory moves");
	fk.working++;
}

void fk_freeze_ended(const struct fk_work *w)
{
	fk.working -= works(w);
}

void fake_cuda_freeze(int yes)
{
	pthread_mutex_lock(&fk.lock);
	if (yes && fk.working)
		fk_die("memory moves under a command that runs");
	fk.frozen = yes;
	pthread_mutex_unlock(&fk.lock);
}
