/* SPDX-License-Identifier: Apache-2.0 */
/* A time in which no command of the program's may run, since memory is being moved: one that does
 * ends the program. What only orders others may. */
#include "fake.h"

static bool works(const struct fk_work *w)
{
	return w->run && w->what != FK_WORDS && w->what != FK_RECORD && w->what != FK_HOST &&
	       w->what != FK_OURS;
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
