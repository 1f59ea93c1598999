/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a device on the bus is, as Linux says in /sys: its NUMA node, and the bridge between it and
 * the host, whose link devices share that are behind it together. For tests FERMATA_TEST_SYSFS is a
 * folder with another sys.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any.
 */
#pragma once
#include <stddef.h>

#define FM_PCI_BRIDGE 32

/* By its address, as "0000:3b:00.0". -1: not known, or the machine has one node. */
int fm_pci_node(const char *bus);
/* "pci0000:3a"; "": not known. */
void fm_pci_bridge(const char *bus, char bridge[FM_PCI_BRIDGE]);
/* The same, of the text of the link /sys/bus/pci/devices/BUS. */
void fm_pci_bridge_in(const char *target, char bridge[FM_PCI_BRIDGE]);
