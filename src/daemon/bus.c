/* SPDX-License-Identifier: Apache-2.0 */
#include "bus.h"
#include "base/cleanup.h"
#include "board/board.h"
#include "daemon.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
	struct daemon *daemon;
	int nobodys; /* what replaces a board: memory that is there */
	atomic_bool lost;
} guard = {.nobodys = -1};

/* Runs in the loop's thread, while it looks at a board. A fault at another address is a bug of the
 * daemon. */
static void on_bus(int sig, siginfo_t *si, void *context)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	void *board = session_board_lost(guard.daemon, si->si_addr);
	int error = errno;

	if (!board ||
		mmap(board, sizeof(struct fm_board), prot, flags, guard.nobodys, 0) != board) {
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
