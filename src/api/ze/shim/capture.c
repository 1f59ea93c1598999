/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that are recorded into graphs. What is appended to an immediate list meanwhile may become a
 * part of the graph, and is neither counted nor gated. */
#include "base/cancel.h"
#include "shim/captures.h"
#include "ze.h"
#include <time.h>

static struct fm_shim_set recorded;

/* The hwqueue, too, must stay, since another thread may end the list. */
static bool keep_immediate(const struct fm_shim_entry *e, const void *none)
{
	struct fm_ze_hwq *hw =
		&fm_container((struct fm_shim_entry *)e, struct fm_ze_queue, entry)->hw;

	if (hw->queue)
		return false;
	fm_ze_ref(hw);
	return true;
}

/* What is ours waits for no lock that is held in the driver for longer. Should the driver not come
 * back to it, the program is not kept. */
static void await_ours(const struct fm_ze_hwq *hw, uint64_t until)
{
	const struct timespec nap = {.tv_nsec = FM_ZE_END_LOOK};
	FM_NO_CANCEL;

	while (atomic_load(&hw->ours) && fm_now() < until)
		nanosleep(&nap, NULL);
}

/* What of ours has begun to be put into a list is there when this returns. A call of the program's
 * that has the list's lock is not waited for: it may wait for what this very thread does next. */
void fm_ze_capture_begins(void)
{
	uint64_t until = fm_now() + FM_ZE_END_MOST;
	struct fm_xq *xq[FM_BOARD_SLOTS];
	size_t n;

	atomic_fetch_add(&fm_ze_captures, 1);
	n = fm_shim_has_client() ? fm_shim_keep(xq, keep_immediate, NULL) : 0;
	for (size_t i = 0; i < n; i++) {
		struct fm_ze_hwq *hw = xq[i]->hwq;

		await_ours(hw, until);
		fm_xq_unref(xq[i]);
		fm_ze_unref(hw);
	}
}

/* Without room here a recording never counts as over. */
void fm_ze_capture_begun(const void *list, ze_result_t rc)
{
	if (rc)
		atomic_fetch_sub(&fm_ze_captures, 1);
	else
		fm_shim_set_add(&recorded, (uintptr_t)list);
}

void fm_ze_capture_ended(const void *list)
{
	if (fm_shim_set_take(&recorded, (uintptr_t)list))
		atomic_fetch_sub(&fm_ze_captures, 1);
}

void fm_ze_captures_clear(void)
{
	fm_shim_set_clear(&recorded);
	atomic_store(&fm_ze_captures, 0);
}
