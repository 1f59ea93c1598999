/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A digest of a piece of memory, computed where the memory is: by the device as fast as it can be
 * read, or by the processor. Memory whose digest is that of its copy on the host has not changed,
 * so that it need not be copied again.
 *
 * Four lanes of 64 bits. Each lane is a sum over strips of 64 bytes: NH of the strip (Black et al.,
 * UMAC, CRYPTO 1999: sums of products of 32-bit words and keys, two equal strips by chance in one
 * of 2^32), mixed with the strip's number. The keys of the lanes are independent, so that two
 * contents have the same digest by chance in one of 2^128. The key is a process's own, drawn at
 * random. The digest is made against chance, not against an enemy: a program that knew the key
 * could deceive itself alone.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_DIGEST_LANES   4
#define FM_DIGEST_TILE    16384 /* sizes are multiples of it */
#define FM_DIGEST_THREADS 256   /* of a block of the kernel: each has a strip of every tile */

/* As the kernel takes it, by value. */
struct fm_digest_key {
	uint64_t seed[FM_DIGEST_LANES];
	uint32_t nh[FM_DIGEST_LANES][4][4]; /* by lane, 16-byte word of the strip, 32-bit word */
};

/* As the kernel leaves it. All zero before: the blocks of the kernel add to it. */
struct fm_digest {
	uint64_t lane[FM_DIGEST_LANES];
	uint64_t ones; /* 1: there is a bit that is not zero */
};

void fm_digest_key(struct fm_digest_key *key, uint64_t random[2]);

/* The same by the processor: it adds to *d what the kernel would. size: a multiple of
 * FM_DIGEST_TILE; p: aligned to 16. */
void fm_digest_add(
	struct fm_digest *d, const struct fm_digest_key *key, const void *p, size_t size);

static inline bool fm_digest_equal(const struct fm_digest *a, const struct fm_digest *b)
{
	uint64_t differs = a->ones ^ b->ones;

	for (int i = 0; i < FM_DIGEST_LANES; i++)
		differs |= a->lane[i] ^ b->lane[i];
	return !differs;
}

/* The kernel: fermata_digest(const void *p, uint64_t tiles, struct fm_digest *d, struct
 * fm_digest_key key). The grid has a row of any number of blocks for each part: parts of so many
 * tiles follow each other, and have a digest each. Made of digest.cu by make-images: machine code,
 * and text for what comes later. */
extern const unsigned char fm_digest_image[];
extern const size_t fm_digest_image_size;
#define FM_DIGEST_KERNEL "fermata_digest"
