/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <CL/cl.h>
#include <stdbool.h>

/* lib: the loader of OpenCL. Was a kernel that ran on the device seen to see what the host wrote?
 */
bool probe_running(void *lib, cl_device_id device);
