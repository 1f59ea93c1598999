/* SPDX-License-Identifier: Apache-2.0 */
#include "bus.h"
#include "base/cleanup.h"
#include "board/board.h"
#include "board/ledger.h"
#include "daemon.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(struct fm_ledger) <= sizeof(struct fm_board), "one stands for both");

static struct {
	struct daemon *daemon;
	int nobodys; /* what replaces a board or a ledger: memory that is there */
	atomic_bool lost;
} guard = {.nobodys = -1};

/* Runs in the loop's thread, while it looks at a board. A fault at another address is a bug of the
 * daemon. */
static void on_bus(int sig, siginfo_t *si, void *context)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	size_t size = 0;
	void *map = session_map_lost(guard.daemon, si->si_addr, &size);
	int error = errno;

	if (!map || mmap(map, size, prot, flags, guard.nobodys, 0) != map) {
		signal(SIGBUS, SIG_DFL);
		return;
	}
	atomic_store(&guard.lost, true);
	errno = error;
}

void bus_guard(struct daemon *d)
{
	struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
	FM_CLEAN_FD int fd = memfd_create("fermata-nobodys", MFD_CLOEXEC);

	if (fd < 0 || fallocate(fd, 0, 0, sizeof(struct fm_board)) ||
		sigaction(SIGBUS, &act, NULL)) {
		fm_log(&d->log, LOG_WARNING, "boards are not guarded: %s", strerror(errno));
		return;
	}
	guard.daemon = d;
	guard.nobodys = fm_take_fd(&fd);
}

void bus_unguard(void)
{
	signal(SIGBUS, SIG_DFL);
	if (guard.nobodys >= 0)
		close(guard.nobodys);
	guard.nobodys = -1;
}

bool bus_lost(void)
{
	return atomic_load_explicit(&guard.lost, memory_order_relaxed) &&
	       atomic_exchange(&guard.lost, false);
}
