/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of bodies in a PTX text, and what memory they access. */
#pragma once
#include "code/cuda/ptx_scan.h"
#include <stdbool.h>
#include <stdint.h>

/* In the text without comments; never a directive or a label. */
struct fm_ptx_statement {
	const char *s;
	size_t n; /* with its `;` */
};

/* The next statement of a body from `at` on, which is moved behind it; depth: of braces, 0 at
 * first. False: there is none. */
struct fm_ptx_walk {
	const char *s;
	size_t at, end, depth;
};
bool fm_ptx_walk(struct fm_ptx_walk *w, struct fm_ptx_statement *st);
size_t fm_ptx_blanks(const char *s, size_t at, size_t end);
static inline bool fm_ptx_is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '%';
}

/* A word, or a part of one. */
bool fm_ptx_is(struct fm_ptx_statement p, const char *what);
/* The next part of an opcode, behind its dot; false: there is none. */
bool fm_ptx_part(const char **at, const char *end, struct fm_ptx_statement *part);

enum fm_ptx_access_kind {
	FM_PTX_OTHER, /* no access to global memory */
	FM_PTX_LOAD,
	FM_PTX_STORE,
	FM_PTX_ATOMIC,
	FM_PTX_ASYNC,  /* an asynchronous load into shared memory */
	FM_PTX_STRANGE /* it takes more than an address and a size */
};
struct fm_ptx_access {
	struct fm_ptx_statement guard;  /* with its @; or empty */
	struct fm_ptx_statement opcode; /* all of it */
	struct fm_ptx_statement name;   /* its first part */
	enum fm_ptx_access_kind kind;
	unsigned bytes;
	bool global; /* it says so itself; else its address may be of anything */
	bool stale;  /* a load that need not see what the thread has stored before */
	/* Its address: a register, or a variable of the module's, and what is added; empty: it is
	 * none. */
	struct fm_ptx_statement base;
	int64_t plus;
};
void fm_ptx_access(struct fm_ptx_statement st, struct fm_ptx_access *a);
/* Can its bytes be told when it runs? */
static inline bool fm_ptx_access_known(const struct fm_ptx_access *a)
{
	return a->kind != FM_PTX_STRANGE && a->base.n && (*a->base.s == '%' || a->global);
}
