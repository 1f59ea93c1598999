/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: the pool of host memory to which device memory goes. It is the process's own
 * memory, known to the driver, so that copies run at the speed of the link, and charged to the
 * cgroup of the process like the rest of its memory. Large pages come from transparent huge pages:
 * those that an administrator has set aside are not for this.
 *
 * What is free stays in the pool until fm_cu_host_trim().
 *
 * Locks: none; the arena's mover alone comes here, or the thread that has stopped it.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fm_cu_host_segment {
	struct fm_cu_host_segment *next;
	char *at;
	unsigned pages; /* of FM_CU_PAGE; at most 64 */
	uint64_t used;
	size_t strayed; /* bytes that are not on the pool's node */
};

/* Of the user, as the daemon says. */
struct fm_cu_host_budget {
	/* The pool will have so much. False: not more than it has. Less is always granted. */
	bool (*take)(void *cookie, uint64_t bytes);
	uint64_t (*may)(void *cookie); /* have; UINT64_MAX: any amount */
	void *cookie;
};

struct fm_cu_host_pool {
	struct fm_cu_host_segment *segments;
	uint64_t most;  /* bytes; never more than that */
	uint64_t bytes; /* of all segments */
	uint64_t lent;  /* bytes of the host that the driver has made, and that count here, too */
	struct fm_cu_host_budget budget; /* take NULL: there is none */
	int node;                        /* where its memory is to be; -1: anywhere */
	_Atomic uint64_t strayed;        /* bytes that are elsewhere */
	/* Tests have their own. */
	bool (*has_room)(uint64_t bytes, uint64_t uncounted);
	int (*populate)(char *at, size_t size);
};

/* A run of pages in it. */
struct fm_cu_host_run {
	struct fm_cu_host_segment *of;
	unsigned first, pages;
};

/* On any node, and without a budget. */
void fm_cu_host_init(struct fm_cu_host_pool *p, uint64_t most);
/* So much more than it may it has; and so much would go back if it were trimmed. */
uint64_t fm_cu_host_excess(const struct fm_cu_host_pool *p);
uint64_t fm_cu_host_unused(const struct fm_cu_host_pool *p);
/* A context of the driver is current. -ENOMEM: the host, the cgroup or `most` has no room. */
int fm_cu_host_take(struct fm_cu_host_pool *p, const struct fm_cu_driver *cu, unsigned pages,
	struct fm_cu_host_run *run);
/* The same, and nobody is asked for it: it is there, or within what there may be. */
int fm_cu_host_take_own(struct fm_cu_host_pool *p, const struct fm_cu_driver *cu, unsigned pages,
	struct fm_cu_host_run *run);
void fm_cu_host_give(struct fm_cu_host_pool *p, struct fm_cu_host_run *run);
static inline char *fm_cu_host_at(const struct fm_cu_host_run *run)
{
	return run->of->at + (size_t)run->first * ((size_t)2 << 20);
}
/* Free segments go back to the system, some of them at a time. True: there may be more. cu NULL:
 * all of them, for the context is gone, and with it what the driver knew of them. */
bool fm_cu_host_trim(struct fm_cu_host_pool *p, const struct fm_cu_driver *cu);

/* The driver is to make so much memory of the host, and it has gone back. False: there is no room
 * for it. No cgroup sees such memory, so it is added to what the cgroup says that it has. */
bool fm_cu_host_lend(struct fm_cu_host_pool *p, uint64_t bytes);
void fm_cu_host_unlend(struct fm_cu_host_pool *p, uint64_t bytes);

/* host_node.c: pages made there from now on are to be of that node, -1: of any; bytes of those that
 * are not. */
void fm_cu_host_prefer(char *at, size_t size, int node);
size_t fm_cu_host_strayed(char *at, size_t size, int node);

/* Half of the machine's memory. */
uint64_t fm_cu_host_most(void);
/* What the machine has left, and what the cgroups of the process leave: UINT64_MAX without a limit.
 */
struct fm_cu_host_room {
	uint64_t machine, cgroup;
};
struct fm_cu_host_room fm_cu_host_room(void);
/* Do both have that much left, and FM_CU_HOST_LEFT for others? uncounted: what no cgroup sees of
 * what the process has. */
bool fm_cu_host_has_room(uint64_t bytes, uint64_t uncounted);
/* Makes the pages, large ones if it can: 0, or a negative errno. */
int fm_cu_host_populate(char *at, size_t size);
