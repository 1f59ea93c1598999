/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <CL/cl.h>
#include <stdbool.h>

/* Has a running kernel on the device seen what the host wrote? lib: the loader of OpenCL. */
bool probe_running(void *lib, cl_device_id device);
