/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym() and dlerror() in front of the C library's, for shims whose functions programs find that
 * way. These objects are part of each such shim, which says for which names it wants to be asked.
 *
 * Owns: the pointers to the C library's functions.
 *
 * Locks: none.
 *
 * Threads: any thread of the program.
 */
#pragma once
#include <stdbool.h>

/* Appended to a name that must not be found, and put around an error that was kept; no name
 * contains it. */
#define FM_LOOK_UP_MARK "\001\002"

/* How dlsym() was called. It is on dlsym()'s stack, in the order that the assembler of dlsym.c
 * has. */
struct fm_look_up {
#ifdef __x86_64__
	const char *symbol;
	void *handle;
	const void *caller;
#else
	const void *caller;
	void *handle;
	const char *symbol;
#endif
};

/* --- of the shim; where there is a table of calls, shim/calls has all but the prefixes --- */

/* Names that may be the driver's: one of these, then a capital letter, or anything behind a `_'.
 * NULL ends them. */
extern const char *const fm_look_up_prefixes[];
/* The result of a look-up of such a name. NULL: the C library is asked for what is in l then. */
void *fm_look_up_answer(struct fm_look_up *l);

/* The same of dlvsym(), in a shim that exports it (fm_look_up_dlvsym); nothing may be changed. */
void *fm_look_up_answer_version(const struct fm_look_up *l, const char *version);

/* The driver's own function; is the library loaded that has functions of such names; and may it be
 * hidden behind one that stands in for it? */
void *fm_look_up_own(const char *symbol);
bool fm_look_up_loaded(const char *symbol);
bool fm_look_up_stood_in(const char *symbol);

/* --- for the shim --- */

/* For a name that has a function of ours. Returns what is found, the driver's or ours; NULL:
 * neither, and l is as fm_look_up_answer() must leave it. absent: the name with a mark behind
 * it. */
void *fm_look_up_find(struct fm_look_up *l, const char *absent, const void *ours);
/* A look-up that bypasses us. */
void *fm_look_up_next(void *handle, const char *symbol);

/* The next dlsym(): the C library's, or that of another shim. NULL before fm_find_dlsym(). */
extern void *(*fm_real_dlsym)(void *handle, const char *symbol);
extern void *(*fm_real_dlvsym)(void *handle, const char *symbol, const char *version);
void fm_find_dlsym(void);
/* elf.c: a function of the C library; NULL: it has none of that name. */
void *fm_find_in_libc(const char *name);
/* Around our own look-ups, which dlerror() must not report. */
char *fm_look_up_error_keep(void);
void fm_look_up_error_put_back(char *kept);
void *fm_look_up_own_quietly(const char *symbol);
