// SPDX-License-Identifier: Apache-2.0
/* A kernel before Linux 6.16: a socket cannot refuse descriptors. Preloaded. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PASSRIGHTS 83

int setsockopt(int sock, int level, int name, const void *value, socklen_t size)
{
	if (level == SOL_SOCKET && name == PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, sock, level, name, value, size);
}
