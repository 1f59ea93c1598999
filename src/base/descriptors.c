/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptors.h"
#include <fcntl.h>
#include <unistd.h>

void fm_descriptors_occupy(void)
{
	/* From the lowest, which open() takes first. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
}
