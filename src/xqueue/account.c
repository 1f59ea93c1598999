/* SPDX-License-Identifier: Apache-2.0 */
#include "account.h"
#include "base/cancel.h"
#include "client.h"
#include <errno.h>
#include <string.h>
#include <time.h>

struct fm_ledger_device *fm_account_row(struct fm_client *c, int dev)
{
	struct fm_ledger *l = c->account.ledger;

	if (dev < 0 || dev >= FM_LEDGER_DEVICES || !l || atomic_load(&c->dead))
		return NULL;
	return &l->device[dev];
}

void fm_account_pin(struct fm_client *c, const struct fm_mem_pin *pin)
{
	if (c->account.ledger && !atomic_load(&c->dead))
		fm_ledger_pin(&c->account.ledger->pins, pin->kind, pin->what, pin->by);
}

void fm_account_foretold(struct fm_client *c, const uint32_t foretold[FM_MEM_FORETOLDS])
{
	struct fm_ledger *l = c->account.ledger;

	for (unsigned i = 0; l && !atomic_load(&c->dead) && i < FM_MEM_FORETOLDS; i++)
		atomic_store(&l->foretold[i], foretold[i]);
}

/* --- the limit while there is no daemon --- */

/* What this process is allowed by what it knows itself. */
static uint64_t own_limit(const struct fm_client *c, uint64_t capacity)
{
	uint64_t hint = atomic_load(&c->account.hint);

	return hint ? hint : c->account.ledger->managed ? capacity : UINT64_MAX;
}

static bool by_daemon(const struct fm_client *c)
{
	return atomic_load(&c->account.offered);
}

static void allow_rows(struct fm_client *c)
{
	for (unsigned i = 0; c->account.ledger && i < FM_LEDGER_DEVICES; i++) {
		struct fm_ledger_device *row = &c->account.ledger->device[i];
		uint64_t capacity = atomic_load(&row->capacity);

		if (capacity)
			atomic_store(&row->allowed, by_daemon(c) ? 0 : own_limit(c, capacity));
	}
}

void fm_account_offer(struct fm_client *c)
{
	atomic_store(&c->account.offered, fm_ownfd_valid(&c->account.fd));
	if (by_daemon(c))
		allow_rows(c);
}

/* A daemon that is gone wishes nothing any more, and the next one begins anew. */
static void forget_wishes(struct fm_client *c)
{
	for (unsigned i = 0; c->account.ledger && i < FM_LEDGER_DEVICES; i++) {
		atomic_store(&c->account.ledger->device[i].wish, FM_MEM_STAY);
		atomic_store(&c->account.ledger->device[i].cap, UINT64_MAX);
		atomic_store(&c->account.ledger->device[i].host_may, UINT64_MAX);
	}
}

void fm_account_alone(struct fm_client *c)
{
	forget_wishes(c);
	if (atomic_exchange(&c->account.offered, false))
		allow_rows(c);
}

void fm_account_hint(struct fm_client *c, int64_t limit)
{
	atomic_store(&c->account.hint, (uint64_t)limit);
	if (!by_daemon(c))
		allow_rows(c);
}

/* --- rows --- */

static int row_of(struct fm_ledger *l, const char *key)
{
	for (int i = 0; i < FM_LEDGER_DEVICES; i++)
		if (!atomic_load(&l->device[i].capacity) || !strcmp(l->device[i].key, key))
			return i;
	return -ENOSPC;
}

/* A message to the daemon: look at the ledger. Without a link it is not sent. */
static bool ring(struct fm_client *c)
{
	union fm_msg m;
	int rc;

	fm_msg_init(&m, FM_MSG_MEMORY_BELL);
	pthread_mutex_lock(&c->lock);
	rc = fm_client_send(c, &m);
	pthread_mutex_unlock(&c->lock);
	return !rc;
}

/* The bus is there before the capacity is, for then the daemon may look. */
int fm_account_device_at(struct fm_client *c, const char *key, const char *bus, uint64_t capacity)
{
	FM_NO_CANCEL;
	struct fm_ledger *l = c->account.ledger;
	struct fm_ledger_device *row;
	int i, saved = errno;
	bool made = false;

	if (!l || atomic_load(&c->dead))
		return -ENODEV;
	if (!*key || strlen(key) >= FM_DEVKEY_MAX || !capacity)
		return -EINVAL;
	pthread_mutex_lock(&c->lock);
	i = row_of(l, key);
	row = i >= 0 ? &l->device[i] : NULL;
	if (row && !atomic_load(&row->capacity)) {
		strcpy(row->key, key);
		if (fm_mem_is_bus(bus))
			strcpy(row->bus, bus);
		atomic_store(&row->allowed, by_daemon(c) ? 0 : own_limit(c, capacity));
		atomic_store(&row->capacity, capacity);
		made = true;
	}
	pthread_mutex_unlock(&c->lock);
	/* Its answer has usually come before it is needed. */
	if (made && by_daemon(c)) {
		pthread_mutex_lock(&c->account.ask);
		fm_ledger_settle(row, fm_ledger_ask(row, 0));
		ring(c);
		pthread_mutex_unlock(&c->account.ask);
	}
	errno = saved;
	return i;
}

int fm_account_device(struct fm_client *c, const char *key, uint64_t capacity)
{
	return fm_account_device_at(c, key, "", capacity);
}

/* The daemon takes it when it is whole, and not before. */
void fm_account_bus(struct fm_client *c, int dev, const char *bus)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);
	bool made = false;

	if (!row || !fm_mem_is_bus(bus))
		return;
	pthread_mutex_lock(&c->lock);
	if (!*row->bus) {
		strcpy(row->bus, bus);
		made = true;
	}
	pthread_mutex_unlock(&c->lock);
	if (made)
		fm_account_bell(c);
}

/* --- asking --- */

static void nap(uint64_t ns)
{
	struct timespec ts = fm_timespec(ns);

	nanosleep(&ts, NULL);
}

/* True: the daemon has answered the request. False: there is none, or it is silent. */
static bool await(struct fm_client *c, struct fm_ledger_device *row, uint32_t number)
{
	uint64_t until = fm_now() + FM_ACCOUNT_WAIT, look = FM_ACCOUNT_LOOK;

	while (atomic_load_explicit(&row->answered, memory_order_acquire) != number) {
		if (!by_daemon(c) || atomic_load(&c->stop) || fm_now() >= until)
			return false;
		nap(look);
		look = FM_MIN(2 * look, FM_ACCOUNT_LOOK_MOST);
	}
	return true;
}

/* Asks for so much more. Returns the number of the request; 0: no daemon answers. One that has not
 * answered the last request is not waited for again. Lock ACCOUNT held. */
static uint32_t ask(struct fm_client *c, struct fm_ledger_device *row, uint64_t bytes)
{
	uint32_t last = atomic_load(&row->asked), number;

	if (!by_daemon(c) || fm_client_free_run(c))
		return 0;
	if (row == c->account.silent && atomic_load(&row->answered) != last)
		return 0;
	number = fm_ledger_ask(row, bytes);
	c->account.silent = NULL;
	if (ring(c) && await(c, row, number))
		return number;
	c->account.silent = row;
	fm_ledger_settle(row, number);
	return 0;
}

static void note_peak(struct fm_ledger_device *row)
{
	uint64_t now = atomic_load_explicit(&row->claimed, memory_order_relaxed);
	uint64_t peak = atomic_load_explicit(&row->peak, memory_order_relaxed);

	while (now > peak && !atomic_compare_exchange_weak(&row->peak, &peak, now))
		;
}

static void count(struct fm_ledger_device *row, enum fm_mem_kind kind, uint64_t bytes)
{
	atomic_fetch_add_explicit(&row->kind[kind], bytes, memory_order_relaxed);
	note_peak(row);
}

/* Without a daemon `allowed` is the process's own limit; while that changes hands it may be 0. */
static int claim_alone(struct fm_client *c, struct fm_ledger_device *row, uint64_t bytes)
{
	uint64_t limit = own_limit(c, atomic_load(&row->capacity));
	uint64_t had = atomic_load(&row->claimed);

	do {
		if (had > limit || bytes > limit - had)
			return -ENOMEM;
	} while (!atomic_compare_exchange_weak(&row->claimed, &had, had + bytes));
	return 0;
}

static int claim_asking(struct fm_client *c, struct fm_ledger_device *row, uint64_t bytes)
{
	for (unsigned i = 0; i < FM_ACCOUNT_TRIES; i++) {
		uint32_t number = ask(c, row, bytes);
		int rc = number ? fm_ledger_take(row, number, bytes) : claim_alone(c, row, bytes);

		if (rc == -ENOMEM && number && atomic_load(&row->full))
			return -ENOSPC;
		if (rc != -EAGAIN)
			return rc;
	}
	fm_ledger_settle(row, atomic_load(&row->asked));
	return -ENOMEM;
}

static int claim_slowly(struct fm_client *c, struct fm_ledger_device *row, uint64_t bytes)
{
	FM_NO_CANCEL;
	int saved = errno, rc;

	if (!by_daemon(c)) {
		rc = claim_alone(c, row, bytes);
	} else {
		pthread_mutex_lock(&c->account.ask);
		rc = fm_ledger_claim(row, bytes) ? 0 : claim_asking(c, row, bytes);
		pthread_mutex_unlock(&c->account.ask);
	}
	errno = saved;
	return rc;
}

/* --- what shims call --- */

int fm_account_claim(struct fm_client *c, int dev, enum fm_mem_kind kind, uint64_t bytes)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);
	int rc = 0;

	if (!row)
		return 0;
	if (FM_UNLIKELY(!fm_ledger_claim(row, bytes)))
		rc = claim_slowly(c, row, bytes);
	if (!rc)
		count(row, kind, bytes);
	else if (rc != -ENOSPC)
		atomic_fetch_add(&row->refused, 1);
	return rc;
}

void fm_account_add(struct fm_client *c, int dev, enum fm_mem_kind kind, uint64_t bytes)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);

	if (!row)
		return;
	atomic_fetch_add(&row->claimed, bytes);
	count(row, kind, bytes);
}

void fm_account_return(struct fm_client *c, int dev, enum fm_mem_kind kind, uint64_t bytes)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);

	if (!row)
		return;
	atomic_fetch_sub_explicit(&row->kind[kind], bytes, memory_order_relaxed);
	atomic_fetch_sub(&row->claimed, bytes);
}

void fm_account_change(
	struct fm_client *c, int dev, enum fm_mem_kind from, enum fm_mem_kind to, uint64_t bytes)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);

	if (!row)
		return;
	atomic_fetch_add_explicit(&row->kind[to], bytes, memory_order_relaxed);
	atomic_fetch_sub_explicit(&row->kind[from], bytes, memory_order_relaxed);
}

/* The limit, and what others of the group have of it. A daemon that has allowed the whole limit
 * says by that that there are no others, and need not be asked. */
static uint64_t limit_now(struct fm_client *c, struct fm_ledger_device *row, uint64_t *others)
{
	uint64_t limit = atomic_load(&row->limit);
	bool answers = by_daemon(c);

	*others = 0;
	if (answers && atomic_load(&row->allowed) < (limit ? limit : UINT64_MAX)) {
		FM_NO_CANCEL;
		int saved = errno;
		uint32_t number;

		pthread_mutex_lock(&c->account.ask);
		number = ask(c, row, 0);
		if (number) /* nothing is claimed by it */
			fm_ledger_settle(row, number);
		pthread_mutex_unlock(&c->account.ask);
		answers = number != 0;
		errno = saved;
	}
	if (answers) {
		limit = atomic_load(&row->limit);
		*others = atomic_load(&row->others);
		return limit ? limit : UINT64_MAX;
	}
	return own_limit(c, atomic_load(&row->capacity));
}

bool fm_account_info(struct fm_client *c, int dev, uint64_t *total, uint64_t *left)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);
	uint64_t limit, others;

	if (!row)
		return false;
	limit = limit_now(c, row, &others);
	if (limit == UINT64_MAX)
		return false;
	*total = FM_MIN(limit, atomic_load(&row->capacity));
	*left = fm_sub_sat(*total, fm_add_sat(atomic_load(&row->claimed), others));
	return true;
}

bool fm_account_exceeds(struct fm_client *c, int dev)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);
	uint64_t limit = row && by_daemon(c) ? atomic_load(&row->limit) : 0;

	if (row && !by_daemon(c))
		limit = atomic_load(&c->account.hint);
	return limit > (row ? atomic_load(&row->capacity) : 0);
}

bool fm_account_full(struct fm_client *c, int dev)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);

	return row && by_daemon(c) && atomic_load(&row->full);
}

/* --- room --- */

void fm_account_bell(struct fm_client *c)
{
	if (by_daemon(c))
		ring(c);
}

static bool goes_on(struct fm_client *c, uint64_t until)
{
	return by_daemon(c) && !fm_client_free_run(c) && !atomic_load(&c->stop) &&
	       !atomic_load(&c->dead) && fm_now() < until;
}

/* One thread at a time waits for room on a device: the words are for one request. */
static bool room_take(struct fm_client *c, uint64_t until)
{
	while (atomic_exchange(&c->account.rooming, true)) {
		if (!goes_on(c, until))
			return false;
		nap(FM_MS);
	}
	return true;
}

static bool await_room(
	struct fm_client *c, struct fm_ledger_device *row, uint32_t n, uint64_t until)
{
	uint64_t look = FM_ACCOUNT_LOOK;
	bool room = false;

	while (!fm_ledger_roomed(row, n, &room)) {
		if (!goes_on(c, until))
			return false;
		nap(look);
		look = FM_MIN(2 * look, FM_ACCOUNT_LOOK_MOST);
	}
	return room;
}

int fm_account_room(struct fm_client *c, int dev, uint64_t bytes, uint64_t *until)
{
	struct fm_ledger_device *row = c ? fm_account_row(c, dev) : NULL;
	uint64_t most = *until ? *until : fm_now() + FM_ACCOUNT_ROOM_MOST;
	int saved = errno;
	bool room = false;
	FM_NO_CANCEL;

	if (!bytes) /* a daemon would take that for no request, and answer nothing */
		return -ENOMEM;
	if (*until) /* others may say at once that there is room, and the driver that there is none
		     */
		nap(FM_ACCOUNT_LOOK_MOST);
	if (row && goes_on(c, most) && (*until || room_take(c, most))) {
		uint32_t number = fm_ledger_lack(row, bytes);

		*until = most;
		room = ring(c) && await_room(c, row, number, most);
	}
	errno = saved;
	return room ? 0 : -ENOMEM;
}

void fm_account_room_end(struct fm_client *c, int dev, uint64_t until)
{
	struct fm_ledger_device *row = until ? fm_account_row(c, dev) : NULL;

	if (!until)
		return;
	if (row)
		atomic_store(&row->lacks, 0);
	atomic_store(&c->account.rooming, false);
}

/* --- what the program keeps on the device --- */

static bool keep_alone(struct fm_client *c, struct fm_ledger_device *row)
{
	uint64_t capacity = atomic_load(&row->capacity);

	return atomic_load(&row->keeps) <= FM_MIN(own_limit(c, capacity), capacity);
}

static bool keep_asking(struct fm_client *c, struct fm_ledger_device *row, uint32_t number)
{
	uint64_t until = fm_now() + FM_ACCOUNT_WAIT, look = FM_ACCOUNT_LOOK;
	bool granted = false;

	if (!by_daemon(c) || fm_client_free_run(c) || !ring(c))
		return keep_alone(c, row);
	while (!fm_ledger_keep_answered(row, number, &granted)) {
		if (!goes_on(c, until))
			return keep_alone(c, row);
		nap(look);
		look = FM_MIN(2 * look, FM_ACCOUNT_LOOK_MOST);
	}
	return granted;
}

int fm_account_keep(struct fm_client *c, int dev, uint64_t bytes)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);
	int saved = errno;
	bool granted;
	FM_NO_CANCEL;

	if (!row)
		return 0;
	pthread_mutex_lock(&c->account.ask);
	granted = keep_asking(c, row, fm_ledger_keep(row, (int64_t)bytes));
	if (!granted)
		fm_account_unkeep(c, dev, bytes);
	pthread_mutex_unlock(&c->account.ask);
	errno = saved;
	return granted ? 0 : -ENOSPC;
}

void fm_account_unkeep(struct fm_client *c, int dev, uint64_t bytes)
{
	struct fm_ledger_device *row = fm_account_row(c, dev);
	uint64_t keeps = row ? atomic_load(&row->keeps) : 0;

	while (row && !atomic_compare_exchange_weak(&row->keeps, &keeps, fm_sub_sat(keeps, bytes)))
		;
}

/* --- memory of the host --- */

/* Without a daemon, or with one that does not answer, nobody refuses it. One that has not answered
 * the last request is not waited for again. */
static bool host_granted(struct fm_client *c, struct fm_ledger_device *row, uint64_t bytes)
{
	uint64_t until = fm_now() + FM_ACCOUNT_WAIT, look = FM_ACCOUNT_LOOK;
	bool silent = atomic_load(&c->account.host_silent) == row &&
		      !fm_ledger_host_told(row, atomic_load(&row->host_asks));
	uint32_t number = fm_ledger_host_ask(row, bytes);

	if (!by_daemon(c) || fm_client_free_run(c) || !ring(c) || silent)
		return true;
	atomic_store(&c->account.host_silent, NULL);
	while (!fm_ledger_host_told(row, number)) {
		if (!goes_on(c, until)) {
			atomic_store(&c->account.host_silent, row);
			return true;
		}
		nap(look);
		look = FM_MIN(2 * look, FM_ACCOUNT_LOOK_MOST);
	}
	return false;
}

bool fm_account_host(struct fm_client *c, int dev, uint64_t bytes)
{
	struct fm_ledger_device *row = c ? fm_account_row(c, dev) : NULL;
	int saved = errno;
	bool ok;
	FM_NO_CANCEL;

	if (!row)
		return true;
	ok = fm_ledger_host_take(row, bytes);
	if (!ok && host_granted(c, row, bytes)) {
		atomic_store(&row->host_has, bytes);
		ok = true;
	} else if (!ok) {
		ok = fm_ledger_host_take(row, bytes);
	}
	if (ok)
		atomic_store(&row->host_wants, 0);
	errno = saved;
	return ok;
}

uint64_t fm_account_host_may(struct fm_client *c, int dev)
{
	struct fm_ledger_device *row = c ? fm_account_row(c, dev) : NULL;

	return row && by_daemon(c) ? atomic_load(&row->host_may) : UINT64_MAX;
}

void fm_account_host_unwant(struct fm_client *c, int dev)
{
	struct fm_ledger_device *row = c ? fm_account_row(c, dev) : NULL;

	if (row)
		atomic_store(&row->host_wants, 0);
}

/* --- the ledger's life --- */

/* A ledger that is no file is not offered, but the process's own limit holds. */
void fm_account_make(struct fm_client *c)
{
	int fd = -1;

	c->account.fd.fd = -1;
	pthread_mutex_init(&c->account.ask, NULL);
	fm_lock_rank(&c->account.ask, ACCOUNT);
	atomic_store(&c->account.hint, (uint64_t)c->group[0].hints.value[FM_HINT_MEMORY_LIMIT]);
	if (!c->config.counts_memory)
		return;
	if (!fm_ledger_create(&c->account.ledger, &fd))
		fm_ownfd_adopt(&c->account.fd, fd);
	else if (fm_ledger_create(&c->account.ledger, NULL))
		return;
	c->account.ledger->managed = !c->set.memory ? 0
				     : c->set.early ? FM_LEDGER_MANAGED | FM_LEDGER_EARLY
						    : FM_LEDGER_MANAGED;
}

void fm_account_unmake(struct fm_client *c)
{
	fm_ownfd_close(&c->account.fd);
	fm_ledger_unmap(c->account.ledger);
	pthread_mutex_destroy(&c->account.ask);
}

int fm_client_memory(const struct fm_client *c)
{
	return fm_ownfd_valid(&c->account.fd) ? c->account.fd.fd : -1;
}

struct fm_ledger *fm_client_ledger(const struct fm_client *c)
{
	return c->account.ledger;
}
