/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a preloaded shim finds and hands out, for an API with a table of calls (api/calls.h): the
 * library's functions for the calls, ours in their place, and the functions that the shim calls
 * itself. A shim says which these are in one table, fm_calls. What only this API has, such as a
 * look-up of its own, stays in the shim and uses fm_calls_find() and fm_calls_use().
 *
 * Owns: the handles of the API's libraries; the functions in fm_calls_next and in what `driver`
 * points to.
 *
 * Locks: made_lock in calls.c, while what was found is put into `driver`.
 *
 * Threads: any thread of the program.
 */
#pragma once
#include "api/calls.h"
#include "api/own.h"
#include "base/util.h"
#include "shim/lookup/lookup.h"
#include <stdatomic.h>

/* --- of the shim --- */

struct fm_calls_call {
	const char *symbol, *absent; /* with a mark that keeps it from being found */
	void *wrapper;
};
/* An entry for a row of the table. */
#define FM_CALLS_CALL(symbol) {#symbol, #symbol FM_LOOK_UP_MARK, (void *)symbol},

/* A library of the API. It is used under the first of its names by which the program has loaded it;
 * we never load it, and from then on it stays loaded. */
struct fm_calls_library {
	const char *prefix;       /* of its symbols; "": of any */
	const char *const *names; /* NULL ends them */
	_Atomic(void *) handle;
};

struct fm_calls {
	struct fm_calls_library *libraries;
	const struct fm_calls_call *calls;
	size_t n_libraries, n;
	/* Of the libraries that may have a symbol the first one that is loaded is asked. Or each of
	 * them, if there are several: then the functions of that name in two of them are two, and
	 * a program that asks for both gets the second as it is. */
	bool several;
	/* Called in the place of a function that nobody has; it returns the API's error. */
	void *not_there;
	const struct fm_owns *own; /* the functions that the shim calls itself */
	void *driver;              /* the struct that they are in */
};
extern const struct fm_calls fm_calls;
/* The library's functions, by the numbers of the calls; NULL: not yet looked for. There are
 * fm_calls.n. */
extern _Atomic(void *) fm_calls_next[];

/* --- for the shim --- */

/* The library's function for a call; if there is none, `not_there`. */
FM_COLD void *fm_calls_resolve(size_t call);
static inline void *fm_calls_get(size_t call)
{
	void *fn = atomic_load_explicit(&fm_calls_next[call], memory_order_relaxed);

	return FM_LIKELY(fn) ? fn : fm_calls_resolve(call);
}
/* Calls it with the parameters of a row, for a row that returns `type`. */
#define FM_CALLS_NEXT(type, call, params) \
	((type(*) CALL_PARAMS(params))fm_calls_get(call)) CALL_ARGS(params)

/* `driver`, filled at the first use. NULL: no library is loaded, or it lacks too many. */
void *fm_calls_driver(void);
/* The shim's fork_child(), or a part of it, for a library that does not survive a fork: no queue is
 * known any more (shim/queues.h), and what another thread had half filled is filled again. */
void fm_calls_forget(void);

/* The number of the call with that symbol; fm_calls.n: there is none. */
size_t fm_calls_find(const char *symbol);
/* The program is given the function fn for the call: it gets ours, behind which fn stands if none
 * did; or fn, if it is another library's. */
void *fm_calls_use(size_t call, void *fn);
