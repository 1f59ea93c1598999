/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host: what a client has of it, and what it may have. */
#include "ledger.h"

bool fm_ledger_host_take(struct fm_ledger_device *row, uint64_t bytes)
{
	uint64_t had = atomic_load(&row->host_has);

	if (bytes > had && bytes > atomic_load_explicit(&row->host_may, memory_order_acquire))
		return false;
	atomic_store(&row->host_has, bytes);
	atomic_thread_fence(memory_order_seq_cst);
	if (bytes <= had || bytes <= atomic_load_explicit(&row->host_may, memory_order_acquire))
		return true;
	atomic_store(&row->host_has, had);
	return false;
}

/* The number is raised last: a reader that sees it sees the bytes. */
uint32_t fm_ledger_host_ask(struct fm_ledger_device *row, uint64_t bytes)
{
	atomic_store(&row->host_wants, bytes);
	return atomic_fetch_add(&row->host_asks, 1) + 1;
}

bool fm_ledger_host_told(const struct fm_ledger_device *row, uint32_t number)
{
	return atomic_load_explicit(&row->host_told, memory_order_acquire) == number;
}

uint64_t fm_ledger_host_allow(struct fm_ledger_device *row, uint64_t bytes)
{
	atomic_store(&row->host_may, bytes);
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&row->host_has, memory_order_acquire);
}

void fm_ledger_host_answer(struct fm_ledger_device *row, uint32_t number)
{
	atomic_store_explicit(&row->host_told, number, memory_order_release);
}
