/* SPDX-License-Identifier: Apache-2.0 */
/* What the library reads from the environment, in a program of one's own and in one that runs with
 * another's rights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "board/proto.h"
#include "xqueue/client.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWNER 61001
#define OTHER 61002
#define SKIP  77

static void set_all(void)
{
	setenv("FERMATA_GROUP", "mine", 1);
	setenv("FERMATA_SOCKET", "/tmp/somewhere", 1);
	setenv("FERMATA_LOCAL", "fair", 1);
	setenv("FERMATA_HINTS", "priority=64 weight=0", 1);
	setenv("FERMATA_LEVEL", "1", 1);
	setenv("FERMATA_WINDOW_US", "77", 1);
	setenv("XDG_RUNTIME_DIR", "/tmp", 1);
}

static void the_environment_is_read(void **state)
{
	char dirs[FM_SOCKET_CANDIDATES][108];
	struct fm_settings s;

	set_all();
	fm_settings_read(&s);
	assert_string_equal(s.group, "mine");
	assert_string_equal(s.dir, "/tmp/somewhere");
	assert_string_equal(s.local, "fair");
	assert_int_equal(s.hints_set, 1u << FM_HINT_PRIORITY | 1u << FM_HINT_WEIGHT);
	assert_int_equal(s.hints.value[FM_HINT_PRIORITY], 64);
	assert_int_equal(s.level_wish, FM_LEVEL_PENDING);
	assert_int_equal(s.window_ns, 77 * FM_US);
	assert_int_equal(fm_socket_dirs(dirs), 1);
	assert_string_equal(dirs[0], "/tmp/somewhere");
}

/* Of a setuid copy of this program, started by somebody else: 0, if it is as it should be. */
static int in_a_setuid_program(void)
{
	char dirs[FM_SOCKET_CANDIDATES][108];
	struct fm_settings s;

	if (!getauxval(AT_SECURE))
		return SKIP;
	fm_settings_read(&s);
	if (*s.group || *s.dir || *s.local || s.hints_set || s.level_wish != FM_LEVEL_NONE)
		return 1;
	if (s.window_ns == 77 * FM_US)
		return 2;
	return fm_socket_dirs(dirs) == 1 && !strcmp(dirs[0], FM_SYSTEM_DIR) ? 0 : 3;
}

static void copy_self(const char *to)
{
	int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0700);
	struct stat st;

	assert_true(in >= 0 && out >= 0);
	assert_int_equal(fstat(in, &st), 0);
	for (off_t at = 0; at < st.st_size;)
		assert_true(sendfile(out, in, &at, (size_t)(st.st_size - at)) > 0);
	assert_int_equal(fchown(out, OWNER, OWNER), 0);
	assert_int_equal(fchmod(out, 04755), 0);
	close(in);
	close(out);
}

static int as_other(const char *program)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (setgid(OTHER) || setuid(OTHER))
			_exit(SKIP);
		execl(program, program, "secure", (char *)NULL);
		_exit(SKIP);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_setuid_program_does_not_read_it(void **state)
{
	char dir[] = "/tmp/fermata-test-XXXXXX", program[64];
	int rc;

	if (geteuid())
		skip();
	set_all();
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	snprintf(program, sizeof(program), "%s/program", dir);
	copy_self(program);
	rc = as_other(program);
	unlink(program);
	rmdir(dir);
	if (rc == SKIP)
		skip(); /* no setuid programs there */
	assert_int_equal(rc, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_is_read),
		cmocka_unit_test(a_setuid_program_does_not_read_it),
	};

	if (argc == 2 && !strcmp(argv[1], "secure"))
		_exit(in_a_setuid_program()); /* leaks cannot be looked for with such rights */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
