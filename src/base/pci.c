/* SPDX-License-Identifier: Apache-2.0 */
#include "pci.h"
#include "cleanup.h"
#include "parse.h"
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODES_MOST 1024

static bool path_of(const char *bus, const char *file, char path[PATH_MAX])
{
	const char *root = secure_getenv("FERMATA_TEST_SYSFS");
	int n;

	if (!*bus || strchr(bus, '/'))
		return false;
	n = snprintf(path, PATH_MAX, "%s/sys/bus/pci/devices/%s%s", root ? root : "", bus, file);
	return n > 0 && n < PATH_MAX;
}

int fm_pci_node(const char *bus)
{
	char path[PATH_MAX], text[32];
	FM_CLEAN_FD int fd = -1;
	int64_t node;
	ssize_t n;

	if (!path_of(bus, "/numa_node", path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	if (n <= 0)
		return -1;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return fm_parse_int(text, 0, NODES_MOST - 1, &node, NULL) ? -1 : (int)node;
}

void fm_pci_bridge_in(const char *target, char bridge[FM_PCI_BRIDGE])
{
	const char *at = strstr(target, "/devices/pci");
	size_t n;

	*bridge = '\0';
	if (!at)
		return;
	at += strlen("/devices/");
	n = strcspn(at, "/");
	if (n >= FM_PCI_BRIDGE || !at[n])
		return;
	memcpy(bridge, at, n);
	bridge[n] = '\0';
}

void fm_pci_bridge(const char *bus, char bridge[FM_PCI_BRIDGE])
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t n = -1;

	if (path_of(bus, "", path))
		n = readlink(path, target, sizeof(target) - 1);
	target[n < 0 ? 0 : n] = '\0';
	fm_pci_bridge_in(target, bridge);
}
