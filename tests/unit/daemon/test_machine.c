/* SPDX-License-Identifier: Apache-2.0 */
/* Where devices are, and what the host has left, by a folder of our own. */
#include "daemon/config/config_keys.h"
#include "daemon/machine.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define GIB UINT64_C(0x40000000)
#define BUS "0000:3b:00.0"

static char root[] = "/tmp/fermata-machine-XXXXXX";

static void put(const char *path, const char *text)
{
	char file[256];
	FILE *f;

	snprintf(file, sizeof(file), "%s%s", root, path);
	for (char *at = file + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(file, 0755);
		*at = '/';
	}
	f = fopen(file, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void devices_have_places(void **state)
{
	struct fm_bridge_place p;
	char file[256];

	(void)state;
	put("/sys/devices/pci0000:3a/0000:3a:00.0/" BUS "/numa_node", "1\n");
	put("/sys/bus/pci/devices/none", "");
	snprintf(file, sizeof(file), "%s/sys/bus/pci/devices/%s", root, BUS);
	assert_int_equal(symlink("../../../devices/pci0000:3a/0000:3a:00.0/" BUS, file), 0);
	machine_place(BUS, &p);
	assert_int_equal(p.node, 1);
	assert_string_equal(p.link, "pci0000:3a");
	machine_place("0000:3c:00.0", &p);
	assert_true(p.node == -1 && !*p.link);
	machine_place("../../devices/x", &p);
	assert_true(p.node == -1 && !*p.link);
	machine_place("", &p);
	assert_true(p.node == -1 && !*p.link);
	put("/sys/devices/pci0000:3a/0000:3a:00.0/" BUS "/numa_node", "-1\n");
	assert_int_equal(fm_pci_node(BUS), -1);
	put("/sys/devices/pci0000:3a/0000:3a:00.0/" BUS "/numa_node", "99999\n");
	assert_int_equal(fm_pci_node(BUS), -1);
}

static void processes_are_stopped(void **state)
{
	(void)state;
	put("/proc/999999/stat", "999999 (a) T (b) T ) R 1 2 3\n");
	assert_false(machine_is_stopped(999999));
	put("/proc/999999/stat", "999999 (a ) S (b)) T 1 2 3\n");
	assert_true(machine_is_stopped(999999));
	put("/proc/999999/stat", "999999 (a) t 1 2 3\n");
	assert_true(machine_is_stopped(999999));
	put("/proc/999999/stat", "999999 (a) T");
	assert_false(machine_is_stopped(999999));
	put("/proc/999999/stat", "");
	assert_false(machine_is_stopped(999999) || machine_is_stopped(0) || machine_is_stopped(-1));
}

static void bridges(void **state)
{
	static const char *const none[] = {"", "../../../devices/pci0000:3a", "devices/x/y",
		"../../../devices/pcipcipcipcipcipcipcipcipcipcipcipcipci/x"};
	char bridge[FM_PCI_BRIDGE];

	(void)state;
	fm_pci_bridge_in("../../../devices/pci10000:00/10000:00:02.0/10000:01:00.0", bridge);
	assert_string_equal(bridge, "pci10000:00");
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		fm_pci_bridge_in(none[i], bridge);
		assert_string_equal(bridge, "");
	}
}

static void what_the_host_has_left(void **state)
{
	(void)state;
	put("/proc/meminfo", "MemTotal:       33554432 kB\nMemFree: 1 kB\n"
			     "MemAvailable:   16777216 kB\n");
	assert_true(machine_host_left() == 14 * GIB); /* without 2 of 32 */
	put("/sys/fs/cgroup/memory.max", "max\n");
	assert_true(machine_host_left() == 14 * GIB);
	put("/sys/fs/cgroup/memory.max", "8589934592\n");
	put("/sys/fs/cgroup/memory.current", "3221225472\n");
	assert_true(machine_host_left() == 5 * GIB - GIB / 2);
	put("/sys/fs/cgroup/memory.current", "9221225472\n");
	assert_true(!machine_host_left());
	put("/proc/meminfo", "nothing\n");
	assert_true(machine_host_left() == UINT64_MAX);
	assert_true(machine_own(getpid()) > 4096 && machine_own(getpid()) < GIB * 1024);
	assert_true(machine_own(0) == UINT64_MAX && machine_own(-1) == UINT64_MAX);
}

static void nodes_of_the_settings(void **state)
{
	static const char *const bad[] = {"0", "0:", "x:4G", "-1:4G", "0:4GB", "0:-1", "1024:4G",
		"0:9999P", "0:4G 0:5G", "1:1 0:4G:5G",
		"0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1 16:1"};
	struct config_memory m = {.host_nodes = "0:64G  3:512M"};
	struct fm_bridge_node node[FM_BRIDGE_NODES];

	(void)state;
	assert_int_equal(config_host_nodes(&m, node), 2);
	assert_true(node[0].node == 0 && node[0].most == 64 * GIB);
	assert_true(node[1].node == 3 && node[1].most == GIB / 2);
	assert_int_equal(config_nodes_check("", NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct fm_err err = {0};

		assert_true(config_nodes_check(bad[i], &err) < 0);
		assert_true(*err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_have_places),
		cmocka_unit_test(processes_are_stopped),
		cmocka_unit_test(bridges),
		cmocka_unit_test(what_the_host_has_left),
		cmocka_unit_test(nodes_of_the_settings),
	};
	char clean[64];
	int rc;

	if (!mkdtemp(root) || setenv("FERMATA_TEST_SYSFS", root, 1))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(clean, sizeof(clean), "rm -rf %s", root);
	return system(clean) ? 1 : rc;
}
