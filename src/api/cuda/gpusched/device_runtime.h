/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the device runtime is: libcudadevrt.a of a CUDA toolkit, to which code is linked that
 * launches graphs from the device.
 *
 * Owns: nothing. Locks: none. Threads: any.
 */
#pragma once
#include <stddef.h>

/* The variable FERMATA_CUDA_DEVRT, if it is set: a file, or a directory that has it. Else the
 * toolkits of CUDA_HOME and CUDA_PATH, the usual places, and the system's libraries. NULL: it is in
 * none. A program that runs with other rights than its caller's takes no variable's word. */
const char *fm_cu_device_runtime(char *path, size_t size);
/* Where that looks, for people. */
void fm_cu_device_runtime_places(char *text, size_t size);
