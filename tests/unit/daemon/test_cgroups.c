/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of cgroups, and what somebody may have made of it. */
#include "daemon/cgroups.h"
#include "daemon/config/config_keys.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fm_bridge_dmem dmem[4];

static int dmem_of(const char *text)
{
	memset(dmem, 0xff, sizeof(dmem));
	return cgroups_dmem(text, dmem, 4);
}

static void regions_are_read(void **state)
{
	(void)state;
	assert_int_equal(dmem_of(""), 0);
	assert_int_equal(dmem_of("drm/0000:3b:00.0/vram0 1073741824\n"), 1);
	assert_string_equal(dmem[0].bus, "0000:3b:00.0");
	assert_true(dmem[0].most == UINT64_C(1) << 30);
	assert_int_equal(dmem_of("drm/0000:3b:00.0/vram0 max\n"), 0);
	assert_int_equal(dmem_of("drm/0000:3b:00.0/stolen 5\nother 6\n"), 0);
	assert_int_equal(dmem_of("drm/0000:3b:00.0/vram0 5\ndrm/10000:3c:00.0/vram0 max\n"
				 "drm/0000:3b:00.0/vram1 6\ndrm/0000:3d:00.0/vram0 0\n"),
		2);
	assert_true(dmem[0].most == 11 && dmem[1].most == 0);
	assert_string_equal(dmem[1].bus, "0000:3d:00.0");
	/* A part without a limit is none. */
	assert_int_equal(dmem_of("drm/0000:3b:00.0/vram0 5\ndrm/0000:3b:00.0/vram1 max\n"), 0);
	assert_int_equal(dmem_of("drm/0000:3b:00.0/vram1 max\ndrm/0000:3b:00.0/vram0 5\n"), 0);
	/* Those without a limit take no place. */
	assert_int_equal(dmem_of("drm/0000:01:00.0/vram0 max\ndrm/0000:02:00.0/vram0 max\n"
				 "drm/0000:03:00.0/vram0 max\ndrm/0000:04:00.0/vram0 max\n"
				 "drm/0000:05:00.0/vram0 7\n"),
		1);
	assert_string_equal(dmem[0].bus, "0000:05:00.0");
	assert_int_equal(dmem_of("drm/0000:3b:00.0/vram0 18446744073709551615\n"), 0);
	assert_int_equal(dmem_of("drm/0000:3b:00.0/vram0 18446744073709551614\n"), 1);
}

static void other_texts_are_refused(void **state)
{
	static const char *const bad[] = {"drm/0000:3b:00.0/vram0 1", "drm/0000:3b:00.0/vram0\n",
		"drm/0000:3b:00.0/vram0 \n", " 5\n", "\n", "drm/0000:3b:00.0/vram0 -5\n",
		"drm/0000:3b:00.0/vram0 5k\n", "drm/0000:3b:00.0/vram0 0x5\n",
		"drm/0000:3b:00.0/vram0 +5\n", "drm/0000:3b:00.0/vram0  5\n",
		"drm/0000:3b:00.0/vram0 maximum\n", "drm/0000:3b:00.0/vram0 18446744073709551616\n",
		"drm/0000:3b:00.0/vram0 99999999999999999999999999\n",
		"drm/0000:3b:00.0/vram0 5 6\n", "other\ndrm/0000:3b:00.0/vram0 5\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (dmem_of(bad[i]) != -EBADMSG)
			fail_msg("'%s' says %d", bad[i], dmem_of(bad[i]));
	/* What is no device of DRM's is none of ours. */
	assert_int_equal(dmem_of("drm/0000:3b:00.0 5\ndrm/3b:00.0/vram0 5\ndrm//vram0 5\n"
				 "drm/0000:3b:00.9/vram0 5\ndrm/0000:3b:00.0x/vram0 5\n"
				 "drm/0000000000000000000000:3b:00.0/vram0 5\n"),
		0);
	assert_int_equal(
		cgroups_dmem("drm/0000:01:00.0/vram0 1\ndrm/0000:02:00.0/vram0 1\n", dmem, 1),
		-E2BIG);
}

static void paths(void **state)
{
	char path[32];

	(void)state;
	assert_int_equal(cgroups_path("0::/a/b\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/a/b");
	assert_int_equal(cgroups_path("4:memory:/x\n0::/\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/");
	assert_int_equal(cgroups_path("0::/a (deleted)\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/a");
	assert_int_equal(cgroups_path("", path, sizeof(path)), -ENOENT);
	assert_int_equal(cgroups_path("4:memory:/x\n", path, sizeof(path)), -ENOENT);
	assert_int_equal(cgroups_path("10::/x\n", path, sizeof(path)), -ENOENT);
	assert_int_equal(cgroups_path("0::/a", path, sizeof(path)), -EBADMSG);
	assert_int_equal(cgroups_path("0::/../b\n", path, sizeof(path)), -EXDEV);
	assert_int_equal(cgroups_path("0::/a/../b\n", path, sizeof(path)), -EBADMSG);
	/* What is above holds, however long the rest is. */
	assert_int_equal(
		cgroups_path("0::/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/");
	assert_int_equal(
		cgroups_path("0::/aa/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/aa");
	assert_int_equal(
		cgroups_path("0::/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/b\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

static void a_line_is_found_in_parts(void **state)
{
	const char *text =
		"12:cpu:/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n10::/x\n0\n\n0::/a/b\n";
	char line[16];

	(void)state;
	for (size_t part = 1; part <= strlen(text); part++) {
		struct cgroups_line at = {0};
		bool found = false;

		for (size_t i = 0; i < strlen(text) && !found; i += part)
			found = cgroups_find(
				&at, text + i, FM_MIN(part, strlen(text) - i), line, sizeof(line));
		assert_true(found);
		assert_string_equal(line, "0::/a/b\n");
	}
	assert_false(cgroups_find(&(struct cgroups_line){0}, "1:a:/0::/\n0::/x", 15, line, 16));
	assert_true(cgroups_find(
		&(struct cgroups_line){0}, "0::/aaaaaaaaaaaaaaaaaaaaa\n", 26, line, sizeof(line)));
	assert_string_equal(line, "0::/aaaaaaaaaa\n");
}

static void limits_of_the_settings(void **state)
{
	struct config_memory m = {.cgroup_limits = "/user.slice/*:16G /a:4G /a*:8G"};
	struct fm_err err;

	(void)state;
	assert_true(config_cgroup_limit(&m, "/user.slice/x") == UINT64_C(16) << 30);
	assert_true(config_cgroup_limit(&m, "/user.slice/x/y") == UINT64_MAX);
	assert_true(config_cgroup_limit(&m, "/a") == UINT64_C(4) << 30);
	assert_true(config_cgroup_limit(&m, "/ab") == UINT64_C(8) << 30);
	assert_int_equal(config_cgroups_check(m.cgroup_limits, &err), 0);
	assert_int_equal(config_cgroups_check("", &err), 0);
	assert_int_equal(config_cgroups_check("a:4G", &err), -EINVAL);
	assert_int_equal(config_cgroups_check("/a", &err), -EINVAL);
	assert_int_equal(config_cgroups_check("/a:", &err), -EINVAL);
	assert_int_equal(config_cgroups_check("/a:4GB", &err), -EINVAL);
	assert_true(config_cgroups_check("/a:9999P", &err) < 0);
	assert_true(config_cgroups_check("/a:-1", &err) < 0);
	assert_true(*err.hint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_are_read),
		cmocka_unit_test(other_texts_are_refused),
		cmocka_unit_test(paths),
		cmocka_unit_test(a_line_is_found_in_parts),
		cmocka_unit_test(limits_of_the_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
