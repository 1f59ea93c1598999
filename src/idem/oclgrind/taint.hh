// SPDX-License-Identifier: Apache-2.0
// Does what a kernel touches follow from its arguments and from the numbers of its work-items
// alone, or from what memory holds, too? Functions and values are LLVM's, by its interface for C.
//
// Owns: nothing.
// Locks: none.
// Threads: one.
#pragma once

// True: an address of global memory, or a branch, may depend on what was loaded from there, or on
// the order of atomics.
bool taint_is_dynamic(const void *function);
// True: what an atomic gives back is used, so that results may be others each time.
bool taint_is_ordered(const void *function);
// The function's argument, as a value.
const void *taint_argument(const void *function, unsigned i);
