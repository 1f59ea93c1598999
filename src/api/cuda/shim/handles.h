/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from handles of the driver to what is kept for them, of any size. It is read at each
 * launch, without a lock. Writers exclude each other. Tables that became too small stay, for
 * somebody may be reading in them: each is twice the one before.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_handles_table;

struct fm_handles {
	_Atomic(struct fm_handles_table *) table;
	size_t live;
};

/* NULL: not there. */
void *fm_handles_find(struct fm_handles *h, uintptr_t key);

/* In place of what was there; the value is not NULL. False: no memory, and the key is not there. */
bool fm_handles_set(struct fm_handles *h, uintptr_t key, void *value);

/* If that is the value; NULL: whatever it is. */
void fm_handles_erase(struct fm_handles *h, uintptr_t key, const void *value);
