/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that `fermata calibrate` starts. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "calibrate.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define READY_NS (120 * FM_S) /* a kernel may have to be compiled, on a busy machine */
#define POLL_NS  (1 * FM_MS)

static const struct timespec poll_pause = {.tv_nsec = POLL_NS};

/* Runs in the child. A program that is to be scheduled is started by `fermata run', as any other.
 */
static void exec_program(int fd, const struct calibrate_start *how)
{
	char self[PATH_MAX], page[16], role[16], amount[32];
	char *run[] = {self, "run", "--socket", (char *)how->dir, "--priority",
		(char *)how->priority, "--group", NULL, "--", self, "_calibrate", page, role,
		(char *)how->device, amount, NULL};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		_exit(CLI_CANNOT_EXECUTE);
	self[n] = '\0';
	run[7] = how->role == ROLE_BUSY ? "calibrate-busy" : "calibrate-sporadic";
	snprintf(page, sizeof(page), "%d", fd);
	snprintf(role, sizeof(role), "%d", (int)how->role);
	snprintf(amount, sizeof(amount), "%" PRIu64, how->amount);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	unsetenv("FERMATA_LOCAL");
	unsetenv("FERMATA_GROUP");
	unsetenv("FERMATA_HINTS");
	if (!how->dir)
		setenv("FERMATA_DISABLE", "1", 1);
	if (fcntl(fd, F_SETFD, 0))
		_exit(CLI_CANNOT_EXECUTE);
	execv("/proc/self/exe", how->dir ? run : run + 9);
	_exit(CLI_CANNOT_EXECUTE);
}

static struct calibrate_page *new_page(int *fd)
{
	struct calibrate_page *page = MAP_FAILED;

	*fd = memfd_create("fermata-calibrate", MFD_CLOEXEC);
	if (*fd >= 0 && !ftruncate(*fd, sizeof(*page)))
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

/* Waits until the program is in that state. It may fail, die, or never get there. */
static int await(struct calibrate_program *p, enum calibrate_state state, struct fm_err *err)
{
	uint64_t end = fm_now() + READY_NS + p->page->budget_ns;
	int status;

	for (;;) {
		uint32_t now = atomic_load(&p->page->state);

		if (now == state)
			return 0;
		if (now == STATE_FAILED)
			return fm_err_set(err, -EIO, "%.150s", p->page->error);
		if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
			p->pid = 0;
			now = atomic_load(&p->page->state);
			if (now == STATE_FAILED || now == state)
				continue;
			return fm_err_set(
				err, -EIO, "a measuring program ended early (status %d)", status);
		}
		if (fm_now() > end)
			return fm_err_set(err, -ETIMEDOUT, "a measuring program hung for %u s",
				(unsigned)(READY_NS / FM_S));
		nanosleep(&poll_pause, NULL);
	}
}

int calibrate_start(
	struct calibrate_program *p, const struct calibrate_start *how, struct fm_err *err)
{
	FM_CLEAN_FD int fd = -1;

	*p = (struct calibrate_program){.page = new_page(&fd)};
	if (!p->page)
		return fm_err_set(err, -ENOMEM, "no memory for notes");
	p->page->realtime = how->realtime;
	p->page->budget_ns = how->budget_ns;
	fflush(stdout);
	p->pid = fork();
	if (p->pid < 0) {
		p->pid = 0;
		return fm_err_set(err, -errno, "cannot start a process: %m");
	}
	if (!p->pid)
		exec_program(fd, how);
	return await(p, STATE_READY, err);
}

int calibrate_go(struct calibrate_program *p, enum calibrate_go go, struct fm_err *err)
{
	atomic_store(&p->page->state, STATE_READY);
	atomic_store(&p->page->go, go);
	return go == GO_WAIT ? await(p, STATE_RESTING, err) : 0;
}

void calibrate_end(struct calibrate_program *p)
{
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (p->page)
		munmap(p->page, sizeof(*p->page));
	*p = (struct calibrate_program){0};
}
