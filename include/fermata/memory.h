/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program knows of its device memory, said to Fermata: which of it is used soon, which is
 * not used for a while, and which is to stay. And where it is now.
 *
 *	#include <fermata/memory.h>
 *
 *	fm_memory_want(weights_of_the_next_layer, size, FM_MEMORY_SOON);
 *	fm_memory_want(cache_of_an_idle_user, size, FM_MEMORY_COLD);
 *
 * These are hints for programs whose memory Fermata moves (`fermata run --memory`), today those of
 * CUDA. No program needs them: Fermata sees by itself which memory the work of a program names, and
 * memory that is away comes back when it is used. Whatever is said here, results are the same.
 *
 * The functions are in libfermata.so (-lfermata, pkg-config fermata). With FERMATA_MEMORY_OPTIONAL
 * defined before this header is included, nothing needs to be linked; this needs a
 * position-independent program (the default of most compilers) or library.
 *
 * Errors: functions return 0 or a negative errno; a call that fails has no effect.
 *   -ENOSYS  the program runs without Fermata, or libfermata is not there.
 *   -EINVAL  no bytes, a range beyond the end of addresses, or an unknown use.
 *   -ENOENT  none of the range is memory that Fermata moves (fm_memory_want).
 * Ranges are rounded: to pages of 2 MiB for SOON and COLD, and to what moves as a whole, at most
 * 128 MiB, for PIN. Parts of a range that Fermata does not move are left out.
 *
 * Threads: any, at any time but in a function that the driver calls (cuLaunchHostFunc). No function
 * prints, exits, or waits for memory or for the device; FM_MEMORY_PIN waits for an answer of the
 * daemon, at most two seconds.
 */
#ifndef FERMATA_MEMORY_H
#define FERMATA_MEMORY_H
#include <stddef.h>
#include <stdint.h>

#ifdef FERMATA_MEMORY_OPTIONAL
#include <errno.h>
#define FM_MEMORY_API __attribute__((weak))
#else
#define FM_MEMORY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum fm_memory_use {
	/* Used soon. It leaves the device last and comes in first. If it is out, or runs from the
	 * host, it is asked to come in now, as if a call waited for it. */
	FM_MEMORY_SOON,
	/* Not used for a while. It leaves the device first and comes in last, until it is said to
	 * be used soon, or is freed; also if calls name it. */
	FM_MEMORY_COLD,
	/* It stays on the device until UNPIN, or until it is freed. Saying it twice is as good as
	 * once. -EBUSY: it is not on the device just now; it was asked to come in, say it again
	 * later. -ENOSPC: what all programs keep so, and what groups have requested
	 * (memory-request), does not leave so much of the device, or a limit forbids it
	 * (memory-pin_max, for which see fermatad.conf(5)). */
	FM_MEMORY_PIN,
	FM_MEMORY_UNPIN
};
FM_MEMORY_API int fm_memory_want(const void *p, size_t n, enum fm_memory_use use);

/* Bytes of a range, by where they are: the first five add up to the range. It may be another answer
 * a moment later. */
struct fm_memory_stat {
	size_t size;        /* set by the caller: sizeof(struct fm_memory_stat) */
	uint64_t device;    /* on the device */
	uint64_t host;      /* on the host, from where they come back when they are used */
	uint64_t mapped;    /* on the host, where the device uses them over its link */
	uint64_t empty;     /* out, and nowhere: they are zeros, or were never written */
	uint64_t unmanaged; /* Fermata does not move them, or nothing is allocated there */
	uint64_t pinned;    /* of `device': they stay, for whatever reason */
};
FM_MEMORY_API int fm_memory_stat(const void *p, size_t n, struct fm_memory_stat *stat);

#ifdef __cplusplus
}
#endif

#ifdef FERMATA_MEMORY_OPTIONAL
#define FM_MEMORY_IF(fn, ...) (fn ? fn(__VA_ARGS__) : -ENOSYS)
#define fm_memory_want(...)   FM_MEMORY_IF(fm_memory_want, __VA_ARGS__)
/* Not the structure's name, which has no parenthesis behind it. */
#define fm_memory_stat(...) FM_MEMORY_IF(fm_memory_stat, __VA_ARGS__)
#endif
#endif
