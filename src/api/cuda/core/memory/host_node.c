/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves a device goes to memory of the device's NUMA node (base/pci.h), so that copies do not
 * cross to another socket. It is a wish: where the node has no room the kernel takes another one,
 * and where any of this is not to be had, memory comes from wherever it comes.
 */
#include "base/util.h"
#include "chunk.h"
#include "host.h"
#include <sys/syscall.h>
#include <unistd.h>

#define NODES_MOST    1024 /* that a kernel knows */
#define WORD_BITS     (8 * sizeof(unsigned long))
#define PREFERRED     1 /* MPOL_PREFERRED of <linux/mempolicy.h> */
#define SEGMENT_PAGES 64

void fm_cu_host_prefer(char *at, size_t size, int node)
{
	unsigned long mask[NODES_MOST / WORD_BITS] = {0};

	if (node < 0 || node >= NODES_MOST)
		return;
	mask[(unsigned)node / WORD_BITS] = 1ul << (unsigned)node % WORD_BITS;
	/* The kernel takes one bit less than it is told. */
	syscall(SYS_mbind, at, size, PREFERRED, mask, NODES_MOST + 1ul, 0u);
}

/* One small page tells of its large one. */
size_t fm_cu_host_strayed(char *at, size_t size, int node)
{
	void *page[SEGMENT_PAGES];
	int is[SEGMENT_PAGES];
	unsigned n = (unsigned)FM_MIN(size / FM_CU_PAGE, (size_t)SEGMENT_PAGES);
	size_t bytes = 0;

	if (node < 0)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		page[i] = at + i * FM_CU_PAGE;
		is[i] = -1;
	}
	if (syscall(SYS_move_pages, 0, (unsigned long)n, page, NULL, is, 0))
		return 0;
	for (unsigned i = 0; i < n; i++)
		bytes += is[i] >= 0 && is[i] != node ? FM_CU_PAGE : 0;
	return bytes;
}
