/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of `fermata calibrate`: its programs, and a daemon of its own. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "calibrate.h"
#include "place.h"
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
#define STOP_NS  (10 * FM_S)
#define DIR_MAX  (CTL_PATH - 16) /* the names of its sockets follow */

static const struct timespec poll_pause = {.tv_nsec = POLL_NS};

/* In the child. Under Fermata: by `fermata run', as everybody. */
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

/* Until it is in that state; it may fail or die, or never get there. */
static int await(struct calibrate_program *p, enum calibrate_state state, struct fm_err *err)
{
	uint64_t end = fm_now() + READY_NS;
	int status;

	for (;;) {
		uint32_t now = atomic_load(&p->page->state);

		if (now == state)
			return 0;
		if (now == STATE_FAILED)
			return fm_err_set(err, -EIO, "%.150s", p->page->error);
		if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
			p->pid = 0;
			if (atomic_load(&p->page->state) == STATE_FAILED)
				continue;
			return fm_err_set(err, -EIO,
				"a program that was to use the device ended by itself (status %d)",
				status);
		}
		if (fm_now() > end)
			return fm_err_set(err, -ETIMEDOUT,
				"a program that was to use the device hung for %u s",
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

static void exec_daemon(const char *dir, const char *policy, const char *config)
{
	char path[PATH_MAX];
	char *argv[] = {"fermatad", "--dir", (char *)dir, "--policy", (char *)policy, "--config",
		(char *)(config ? config : "/dev/null"), NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	place_daemon(path);
	unsetenv("NOTIFY_SOCKET");
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		dup2(null, STDERR_FILENO) < 0)
		_exit(CLI_FAILED);
	execvp(path, argv);
	_exit(CLI_CANNOT_EXECUTE);
}

static int did_not_start(const char *config, struct fm_err *err)
{
	fm_err_set(err, -ENOENT, "the daemon that was to schedule did not start");
	if (!config)
		return fm_err_hint(err, "start `fermatad' by hand: it says why");
	return fm_err_hint(
		err, "`fermatad --check-config %.150s' tells what is wrong with it", config);
}

static int await_daemon(struct calibrate_daemon *d, const char *config, struct fm_err *err)
{
	uint64_t end = fm_now() + STOP_NS;

	while (fm_now() < end) {
		CLI_CLEAN_JSON json_t *reply = NULL;

		if (!ctl_call_at(d->dir, json_pack("{s:s}", "cmd", "version"), 1000, &reply, NULL))
			return 0;
		if (waitpid(d->pid, NULL, WNOHANG) == d->pid) {
			d->pid = 0;
			return did_not_start(config, err);
		}
		nanosleep(&poll_pause, NULL);
	}
	return fm_err_set(err, -ETIMEDOUT, "the daemon that was to schedule does not answer");
}

static const char *write_realtime(const struct calibrate_daemon *d, char *path, size_t size)
{
	FM_CLEAN_FILE FILE *f = NULL;

	snprintf(path, size, "%s/calibrate.conf", d->dir);
	f = fopen(path, "we");
	if (f)
		fputs("[daemon]\nrealtime = yes\n", f);
	return f ? path : NULL;
}

int calibrate_daemon_start(struct calibrate_daemon *d, const char *policy, const char *config,
	bool realtime, struct fm_err *err)
{
	const char *tmp = secure_getenv("TMPDIR"), *settings = config;
	char dir[DIR_MAX], path[CTL_PATH + 32];

	*d = (struct calibrate_daemon){0};
	snprintf(dir, sizeof(dir), "%s/fermata-calibrate-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return fm_err_set(err, -EIO, "no directory can be made for a daemon: %m");
	strcpy(d->dir, dir);
	d->own = true;
	if (realtime && !config)
		settings = write_realtime(d, path, sizeof(path));
	fflush(stdout);
	d->pid = fork();
	if (d->pid < 0) {
		d->pid = 0;
		return fm_err_set(err, -errno, "cannot start a process: %m");
	}
	if (!d->pid)
		exec_daemon(d->dir, policy, settings);
	return await_daemon(d, config, err);
}

static void remove_dir(const char *dir)
{
	FM_CLEAN_DIR DIR *files = opendir(dir);
	struct dirent *e;

	while (files && (e = readdir(files)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(files), e->d_name, 0);
	rmdir(dir);
}

void calibrate_daemon_end(struct calibrate_daemon *d)
{
	uint64_t end = fm_now() + STOP_NS;

	if (!d->own)
		return;
	if (d->pid > 0) {
		kill(d->pid, SIGTERM);
		while (!waitpid(d->pid, NULL, WNOHANG) && fm_now() < end)
			nanosleep(&poll_pause, NULL);
		kill(d->pid, SIGKILL);
		waitpid(d->pid, NULL, 0);
	}
	remove_dir(d->dir);
	*d = (struct calibrate_daemon){0};
}
