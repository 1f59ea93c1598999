/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that are recorded into graphs. What is appended to an immediate list meanwhile may become a
 * part of the graph, and is neither counted nor gated. */
#include "shim/captures.h"
#include "ze.h"

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

/* What a thread of ours has begun to put into a list is there when its lock has been had. */
void fm_ze_capture_begins(void)
{
	struct fm_xq *xq[FM_BOARD_SLOTS];
	size_t n;

	atomic_fetch_add(&fm_ze_captures, 1);
	n = fm_shim_has_client() ? fm_shim_keep(xq, keep_immediate, NULL) : 0;
	for (size_t i = 0; i < n; i++) {
		struct fm_ze_hwq *hw = xq[i]->hwq;

		fm_queue_lock_take(&hw->submit);
		fm_queue_lock_give(&hw->submit);
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
