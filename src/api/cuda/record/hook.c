/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that the recorder stands in front of, and those that it makes itself. */
#include "base/util.h"
#include "calls.h"
#include <pthread.h>

struct fm_tap_call fm_tap_calls[] = {
#define ON_ROW(symbol, per_thread, name, since, ...) FM_TAP_CALL(symbol, per_thread, name, since),
#include "rows.h"
#define OWN_ROW(symbol, name, since, params) FM_TAP_CALL(symbol, false, name, since),
	FM_RECORD_OWN(OWN_ROW)
#undef OWN_ROW
};
const size_t fm_tap_n_calls = FM_RECORD_CALLS;

/* --- what we call ourselves --- */

static struct fm_record_driver table;
static bool complete;

static void find_driver(void)
{
	struct fm_record_driver *t = &table;

	fm_tap_inside++;
#define FIND(name, symbol, params) t->name = (fm_cu_result(*) params)fm_look_up_own_quietly(symbol);
	FM_RECORD_DRIVER(FIND)
#undef FIND
	fm_tap_inside--;
	complete = t->current && t->mem_alloc && t->mem_free && t->host_alloc && t->host_free &&
		   t->to_device && t->to_host && t->fill && t->capturing && t->capture_mode &&
		   t->query;
}

const struct fm_record_driver *fm_record_driver(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_driver);
	return complete ? &table : NULL;
}

const struct fm_record_driver *fm_record_enter(int *mode)
{
	const struct fm_record_driver *cu;

	if (!fm_tap_wanted() || fm_tap_inside || !(cu = fm_record_driver()))
		return NULL;
	*mode = FM_CU_CAPTURE_MODE_RELAXED;
	fm_tap_inside++;
	cu->capture_mode(mode);
	return cu;
}

void fm_record_leave(int mode)
{
	fm_record_driver()->capture_mode(&mode);
	fm_tap_inside--;
}

int fm_record_captures(const struct fm_record_driver *cu, CUstream stream)
{
	int status;

	return cu->capturing(stream, &status) ? -1 : status != FM_CU_CAPTURE_NONE;
}
