/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's ioctls pass through here, because only they tell the handles of the process's
 * channel groups (api/cuda/core/timeslice.h). All other ioctls pass untouched. */
#include "api/cuda/core/timeslice.h"
#include "shim.h"
#include <stdarg.h>
#include <sys/ioctl.h>

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return fm_cu_ioctl(fd, request, arg);
}
