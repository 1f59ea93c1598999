/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a program registers with other devices: network cards (libibverbs, and mlx5's own
 * calls), the processor's window (gdrcopy), storage (cuFile). They reach it by themselves, so it
 * comes in before it is registered, and stays until it is registered nowhere.
 *
 * These functions stand in front of the libraries' own: for programs that are linked with them, and
 * that find them by dlsym() or dlvsym(). Where memory is not managed they do nothing.
 */
#pragma once
#include "shim/lookup/lookup.h"
#include <stdbool.h>

/* Is it a name of one of those libraries? */
bool fm_cuda_registers(const char *symbol);
/* As lookup.h asks for them, for such names. */
bool fm_cuda_registers_loaded(const char *symbol);
void *fm_cuda_registers_own(const char *symbol);
void *fm_cuda_registers_answer(struct fm_look_up *l);

/* Is there a library of cards whose calls do not come by here? */
bool fm_cuda_registers_unseen(void);
void fm_cuda_registers_fork_child(void);
