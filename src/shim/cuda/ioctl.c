/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's ioctls pass by here, since only they tell the handles of the process's channel
 * groups (backend/cuda/timeslice.h). Everybody else's pass untouched. */
#include "backend/cuda/timeslice.h"
#include "shim.h"
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	long rc;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	rc = syscall(SYS_ioctl, fd, request, arg);
	if (FM_UNLIKELY(_IOC_TYPE(request) == 'F') && rc == 0)
		fm_cu_ioctl_seen(fd, request, arg);
	return (int)rc;
}
