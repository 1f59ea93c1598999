/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process has allocated on its devices, counted by kind in the client's ledger
 * (board/ledger.h), and held to the group's limit. Shims call it around the driver's calls that
 * make and end memory:
 *
 *   rc = fm_account_claim(c, dev, kind, n);   // before the driver is called
 *   if (!rc && the driver refused)
 *           fm_account_return(c, dev, kind, n);
 *
 * Only clients whose configuration says so (fm_client_config.counts_memory) have a ledger. Limits
 * hold without a daemon, too: then each process is held to the hint memory-limit of its own.
 *
 * Owns: the ledger of the process's client.
 * Locks: ACCOUNT, around a request to the daemon; fm_account_device() takes the client's.
 * Threads: any, but not the agent's. A claim that is within what is allowed costs two atomic
 * additions and no call.
 */
#pragma once
#include "board/ledger.h"

struct fm_client;

/* The row of a device, made at its first use: `key` as for its queues, `capacity` in bytes. Or
 * -ENOSPC: no row is left; -ENODEV: this client counts no memory; -EINVAL: no key, or no capacity.
 * Then nothing is counted there, and nothing is refused: every function below takes a negative row
 * and does nothing. The same holds in a forked child for rows of its parent. */
int fm_account_device(struct fm_client *c, const char *key, uint64_t capacity);
/* The same with its address on the bus, as Linux writes it, or "": for limits of the kernel's. */
int fm_account_device_at(struct fm_client *c, const char *key, const char *bus, uint64_t capacity);
/* That address, of a row that has none yet. */
void fm_account_bus(struct fm_client *c, int dev, const char *bus);

/* 0: the bytes are counted as `kind`. -ENOMEM: the group's limit, or the user's, does not allow
 * that. -ENOSPC: they do, but others have what is left of a device that counts as having less than
 * it has; fm_account_room() may help as where the driver has no memory. Waits for the daemon if
 * that has not allowed so much yet (where the group shares its limit with other processes, and once
 * at first), for FM_ACCOUNT_WAIT (tune.h) at most; without an answer the memory is allowed. */
int fm_account_claim(struct fm_client *c, int dev, enum fm_mem_kind kind, uint64_t bytes);

/* The same for memory that is there already (a context, an import): counted whatever the limit. */
void fm_account_add(struct fm_client *c, int dev, enum fm_mem_kind kind, uint64_t bytes);

void fm_account_return(struct fm_client *c, int dev, enum fm_mem_kind kind, uint64_t bytes);

/* Memory changes its kind, for example when it is pinned. */
void fm_account_change(
	struct fm_client *c, int dev, enum fm_mem_kind from, enum fm_mem_kind to, uint64_t bytes);

/* What a program shall be told of the device. False: no limit is set, so the driver's own figures
 * hold. True: *total is the limit, at most the capacity, and *left what of it the group has not
 * claimed. May wait for the daemon as fm_account_claim() does. */
bool fm_account_info(struct fm_client *c, int dev, uint64_t *total, uint64_t *left);

/* May the group have more than the device has? Only if its limit was set to more. */
bool fm_account_exceeds(struct fm_client *c, int dev);

/* Has the device no room for what was claimed last, although that was granted? It is the daemon
 * that says so, where a device counts as smaller than it is. */
bool fm_account_full(struct fm_client *c, int dev);

/* The driver has no memory for so much, although limits allow it. 0: others have made room, so the
 * driver can be asked again. -ENOMEM: they cannot, or there is no daemon. *until is 0 at the first
 * attempt of an allocation; all of them together wait for FM_ACCOUNT_ROOM_MOST. */
int fm_account_room(struct fm_client *c, int dev, uint64_t bytes, uint64_t *until);
/* That allocation waits no more. */
void fm_account_room_end(struct fm_client *c, int dev, uint64_t until);

/* The program wants to keep so many bytes more on the device; they are counted as movable until it
 * does. 0; -ENOSPC: not so many beside what others keep and have requested. Asks the daemon, as
 * above. fm_account_unkeep: it does not keep them any more, or was not to. */
int fm_account_keep(struct fm_client *c, int dev, uint64_t bytes);
void fm_account_unkeep(struct fm_client *c, int dev, uint64_t bytes);

/* Memory of the host for what is not on the device will be so much in all. False: the user's budget
 * has no room for more than there is; the daemon is asked, as above, and remembers it. Less is
 * always granted. may: what it may be; UINT64_MAX: any amount. unwant: no more is waited for. */
bool fm_account_host(struct fm_client *c, int dev, uint64_t bytes);
uint64_t fm_account_host_may(struct fm_client *c, int dev);
void fm_account_host_unwant(struct fm_client *c, int dev);

/* Something in the ledger is to be looked at. */
void fm_account_bell(struct fm_client *c);

/* Something keeps memory of this process where it is: for people. */
void fm_account_pin(struct fm_client *c, const struct fm_mem_pin *pin);
/* What is known of the program's kernels, from now on. */
void fm_account_foretold(struct fm_client *c, const uint32_t foretold[FM_MEM_FORETOLDS]);

/* The row itself, for code that moves memory. NULL: negative row. */
struct fm_ledger_device *fm_account_row(struct fm_client *c, int dev);
