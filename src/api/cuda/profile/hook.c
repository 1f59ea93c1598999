/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that the agent stands in front of, and those that it makes itself. */
#include "base/util.h"
#include "calls.h"
#include <pthread.h>

struct fm_tap_call fm_tap_calls[] = {
#define ROW(symbol, name, own, since, params) FM_TAP_CALL(symbol, own, name, since),
	FM_PROFILE_CALLS(ROW)
#undef ROW
};
const size_t fm_tap_n_calls = FM_PROFILE_N_CALLS;

/* --- what we call ourselves --- */

static struct fm_profile_driver table;
static bool complete;

static void find_driver(void)
{
	struct fm_profile_driver *t = &table;

	fm_tap_inside++;
#define FIND(name, symbol, params) t->name = (fm_cu_result(*) params)fm_look_up_own_quietly(symbol);
	FM_PROFILE_DRIVER(FIND)
#undef FIND
	fm_tap_inside--;
	complete = t->current && t->mem_alloc && t->range && t->pointer_attribute && t->to_device &&
		   t->to_host && t->fill && t->capturing && t->capture_mode && t->query &&
		   t->module_load && t->module_function && t->launch && t->host_alloc;
}

const struct fm_profile_driver *fm_profile_driver(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_driver);
	return complete ? &table : NULL;
}
