/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that may be killed and run again, as a list of kernels (idem.h) names them: the same
 * code, grid, block and values, with pointers that lie to each other as they lay when the launch
 * was recorded. Read in programs that are not ours, so nothing is needed for it but this folder;
 * what is not as it is written here is refused, and all numbers are bounded.
 *
 * Pointers are in groups: those of one allocation of the record. Within a group distances are the
 * same; what is touched around the pointers of two groups must not meet where one of them is
 * written.
 *
 * Owns: lists; the caller frees them.
 * Locks: none.
 * Threads: any, each with objects of its own; a list that does not change may be read by all.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FM_KILL_WORDS 64u                /* of 8 bytes, of parameters */
#define FM_KILL_FILE  ((size_t)16 << 20) /* bytes of a list, as FM_IDEM_FILE */
#define FM_KILL_MOST  (1u << 16)         /* launches of a list */
#define FM_KILL_HASH  33u                /* of code, with a zero */
#define FM_KILL_CHARS 4096u              /* bytes of a launch as text */

struct fm_kill_group {
	int64_t from,
		to; /* what is touched, behind the first pointer of the group: none if equal */
	int64_t wfrom, wto; /* and written */
};
struct fm_kill_pointer {
	int64_t plus; /* behind the first one of its group */
	uint8_t group;
};
struct fm_kill_launch {
	char hash[FM_KILL_HASH];
	char *name;
	uint32_t grid[3], block[3], shared;
	uint32_t bytes;       /* of parameters */
	uint64_t at;          /* words that are pointers, a bit each */
	uint64_t *word;       /* the others; pointers are 0 */
	unsigned n, n_groups; /* pointers */
	struct fm_kill_pointer *pointer;
	struct fm_kill_group *group;
};

#define FM_KILL_BYTES (8 * FM_KILL_WORDS) /* of parameters, at most */

static inline unsigned fm_kill_words(const struct fm_kill_launch *l)
{
	return (l->bytes + 7) / 8;
}

/* May a kernel in a list be called that? */
bool fm_kill_is_name(const char *s, size_t n);
/* A launch as text, without quotes or backslashes. False: it has no such text. */
bool fm_kill_print(const struct fm_kill_launch *l, char text[FM_KILL_CHARS]);
/* -EINVAL, -ENOMEM; freed in any case. */
int fm_kill_parse(struct fm_kill_launch *l, const char *text, size_t size);
void fm_kill_launch_free(struct fm_kill_launch *l);

struct fm_kill_list {
	struct fm_kill_launch *launch; /* by hash and name */
	size_t n;
};
/* Of a file that belongs to this user, or root, and that nobody else can write to: else -EACCES.
 * -EINVAL: it is no list, or not whole; -E2BIG; -ENOMEM; or as open(2). */
int fm_kill_load(struct fm_kill_list *l, const char *path);
void fm_kill_list_free(struct fm_kill_list *l);
/* The launches of that code, and of its kernel (NULL: of all); how many. */
size_t fm_kill_find(const struct fm_kill_list *l, const char *hash, const char *name,
	const struct fm_kill_launch **first);

enum fm_kill_match { FM_KILL_SAME, FM_KILL_OTHER, FM_KILL_MEETS };
/* Is this such a launch? FM_KILL_MEETS: all is as it was, but pointers lie otherwise. base: the
 * first pointer of each group; room for FM_KILL_WORDS. */
enum fm_kill_match fm_kill_match(const struct fm_kill_launch *l, const uint32_t grid[3],
	const uint32_t block[3], uint32_t shared, const void *params, uint64_t *base);
