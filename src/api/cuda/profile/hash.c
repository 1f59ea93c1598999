/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch changes, by looking at memory before it and behind it: copies where there is
 * little of it, digests of pieces by the device where there is more. It sees writes alone, and only
 * those that leave another value.
 */
#include "agent.h"
#include "base/util.h"
#include "device/digest.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

static uint64_t all_bytes(const struct fm_touched *t)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < t->n; i++)
		bytes = fm_add_sat(bytes, t->region[i].size);
	return bytes;
}

/* Pieces of all regions fit into the table, each region's last piece counted whole. */
static uint64_t piece_size(const struct fm_touched *t)
{
	uint64_t size = FM_PROFILE_PIECE, n;

	for (;; size *= 2) {
		n = 0;
		for (unsigned i = 0; i < t->n; i++)
			n += t->region[i].size / size + 1;
		if (n <= FM_PROFILE_PIECES)
			return size;
	}
}

static struct fm_digest_key key;
static void draw_key(void)
{
	uint64_t random[2] = {(uint64_t)time(NULL), (uintptr_t)&random};

	fm_digest_key(&key, random);
}

#define BLOCKS     4u     /* of a piece */
#define ROWS       65535u /* of a grid */
#define DIGEST_ONE (sizeof(struct fm_digest))

static int digest_run(const struct fm_profile_driver *cu, struct fm_profile_context *c,
	CUstream stream, CUdeviceptr at, uint64_t piece, unsigned n, unsigned first)
{
	for (unsigned done = 0; done < n;) {
		unsigned rows = FM_MIN(n - done, ROWS);
		uint64_t tiles = piece / FM_DIGEST_TILE, from = at + done * piece;
		CUdeviceptr out = c->digests + (first + done) * DIGEST_ONE;
		void *params[] = {&from, &tiles, &out, &key};

		if (cu->launch(c->hash, BLOCKS, rows, 1, FM_DIGEST_THREADS, 1, 1, 0, stream, params,
			    NULL))
			return -EIO;
		done += rows;
	}
	return 0;
}

/* Whole pieces, and what is left of whole tiles as a piece of its own. What is less than a tile is
 * not hashed: it counts as changed nowhere. */
struct part {
	unsigned whole; /* pieces */
	uint64_t rest;  /* bytes of the last one */
};
static struct part part_of(const struct fm_touched_region *r, uint64_t piece)
{
	uint64_t skip = -r->at & 15, size = r->size > skip ? r->size - skip : 0;

	return (struct part){
		(unsigned)(size / piece), size % piece / FM_DIGEST_TILE * FM_DIGEST_TILE};
}

static int hash_digests(const struct fm_profile_driver *cu, struct fm_profile_context *c,
	CUstream stream, bool after)
{
	const struct fm_touched *t = c->host;
	uint64_t piece = piece_size(t);
	unsigned n = 0;
	int rc = cu->fill(c->digests, 0, FM_PROFILE_PIECES * DIGEST_ONE / 4, stream) ? -EIO : 0;

	for (unsigned i = 0; !rc && i < t->n; i++) {
		struct part p = part_of(&t->region[i], piece);
		uint64_t at = t->region[i].at + (-t->region[i].at & 15);

		rc = digest_run(cu, c, stream, at, piece, p.whole, n);
		n += p.whole;
		if (!rc && p.rest)
			rc = digest_run(cu, c, stream, at + p.whole * piece, p.rest, 1, n);
		n += p.rest > 0;
	}
	if (!rc && n &&
		cu->to_host(c->digest + (after ? FM_PROFILE_PIECES : 0), c->digests, n * DIGEST_ONE,
			stream))
		rc = -EIO;
	return rc;
}

static int hash_copies(const struct fm_profile_driver *cu, struct fm_profile_context *c,
	CUstream stream, bool after)
{
	unsigned char *to = c->copy + (after ? FM_PROFILE_COPY : 0);

	for (unsigned i = 0; i < c->host->n; i++) {
		const struct fm_touched_region *r = &c->host->region[i];

		if (cu->to_host(to, r->at, r->size, stream))
			return -EIO;
		to += r->size;
	}
	return 0;
}

int fm_profile_hash(const struct fm_profile_driver *cu, struct fm_profile_context *c,
	CUstream stream, bool after)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, draw_key);
	return all_bytes(c->host) <= FM_PROFILE_COPY ? hash_copies(cu, c, stream, after)
						     : hash_digests(cu, c, stream, after);
}

/* --- what differs --- */

static void compare_copies(
	const struct fm_profile_context *c, fm_profile_changed *changed, void *arg)
{
	const unsigned char *a = c->copy, *b = a + FM_PROFILE_COPY;

	for (unsigned i = 0; i < c->host->n; i++) {
		const struct fm_touched_region *r = &c->host->region[i];

		for (uint64_t at = 0, from; at < r->size;) {
			while (at < r->size && a[at] == b[at])
				at++;
			from = at;
			while (at < r->size && a[at] != b[at])
				at++;
			if (at > from)
				changed(arg, r->at + from, at - from);
		}
		a += r->size;
		b += r->size;
	}
}

static void compare_digests(
	const struct fm_profile_context *c, fm_profile_changed *changed, void *arg)
{
	const struct fm_digest *a = c->digest, *b = a + FM_PROFILE_PIECES;
	uint64_t piece = piece_size(c->host);
	unsigned n = 0;

	for (unsigned i = 0; i < c->host->n; i++) {
		const struct fm_touched_region *r = &c->host->region[i];
		uint64_t at = r->at + (-r->at & 15);
		struct part p = part_of(r, piece);

		for (unsigned k = 0; k < p.whole + (p.rest > 0); k++, n++)
			if (!fm_digest_equal(&a[n], &b[n]))
				changed(arg, at + k * piece, k < p.whole ? piece : p.rest);
	}
}

bool fm_profile_changes(const struct fm_profile_context *c, fm_profile_changed *changed, void *arg)
{
	bool copies = all_bytes(c->host) <= FM_PROFILE_COPY;

	if (copies)
		compare_copies(c, changed, arg);
	else
		compare_digests(c, changed, arg);
	return copies;
}
