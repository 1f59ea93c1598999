/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that have no room for what is to come in: for how long, and what the daemon is told.
 * The state is the mover's alone, as the thread is the only one that asks the driver for room. */
#include "api/cuda/core/tune.h"
#include "base/clock.h"
#include "base/parse.h"
#include "managed.h"
#include "xqueue/rest.h"
#include <stdlib.h>
#include <string.h>

static struct {
	uint64_t ns; /* so long nothing has come in, for want of room, */
	uint64_t at; /* and it was refused then; 0: it was not */
	int64_t net; /* bytes that have come in since, less those that went out again */
	bool on[FM_CUDA_MEM_DEVICES]; /* at the last move */
} full;

void fm_cuda_full_end(void)
{
	full.ns = full.at = 0;
	full.net = 0;
}

/* Time in which nobody asks the driver does not count. */
uint64_t fm_cuda_full_refused(void)
{
	uint64_t now = fm_now(), ns = now - full.at;

	if (full.at && ns < FM_CU_FULL_GAP)
		full.ns += ns;
	full.at = now;
	return full.ns;
}

/* It ends when more is in than when it was first refused. What comes and goes again is not. */
void fm_cuda_full_moved(bool out, uint64_t bytes)
{
	if (!full.at)
		return;
	full.net += out ? -(int64_t)bytes : (int64_t)bytes;
	if (full.net > 0)
		fm_cuda_full_end();
}

uint64_t fm_cuda_full_patience(struct fm_client *c)
{
	const char *said = secure_getenv("FERMATA_MEMORY_WAIT");
	uint64_t most = FM_CU_FULL_MOST;
	int64_t ns;

	if (said && !strcmp(said, "forever"))
		most = UINT64_MAX;
	else if (said && !fm_parse_time(said, &ns, NULL) && ns >= 0)
		most = (uint64_t)ns;
	else if (!fm_client_connected(c))
		most = FM_CU_FULL_ALONE;
	/* The process ends in any case, and is to end with its work done. */
	return fm_rest_is_over(c) ? FM_MIN(most, FM_CU_FULL_ALONE) : most;
}

void fm_cuda_full_tried(struct fm_cuda_managed *m, bool refused)
{
	full.on[m->dev] = refused;
}

void fm_cuda_full_found(struct fm_cuda_managed *m)
{
	fm_cuda_managed_trouble_on(m, FM_MEM_DEVICE_FULL, FM_MEM_FINE);
}

static void set_one_fine(struct fm_cuda_managed *m, void *unused)
{
	(void)unused;
	if (!full.on[m->dev])
		fm_cuda_full_found(m);
}

void fm_cuda_full_trouble(enum fm_mem_trouble trouble)
{
	fm_cuda_managed_trouble(trouble);
	if (trouble == FM_MEM_DEVICE_FULL)
		fm_cuda_managed_each(set_one_fine, NULL);
}
