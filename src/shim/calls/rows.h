/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the table of calls of a shim's API comes to in the shim's own header, which includes this
 * once. Before that it defines
 *
 *   CALLS_DEF      "api/NAME/calls.def"
 *   CALLS_RESULT   what the functions return
 *   CALLS_RESULT_OF_end   the same for those of the kind `end`, if these return something else
 */
#include "shim/calls/calls.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef CALLS_RESULT_OF_end
#define CALLS_RESULT_OF_end CALLS_RESULT
#endif

/* The number of the call with that symbol, and of all. */
enum fm_calls_id {
#define ON_other(kind, symbol, ...) CALL_##symbol,
#include CALLS_DEF
	CALLS
};

#define ON_end(symbol, per_thread, name, since, note, params, ...) \
	EXPORT CALLS_RESULT_OF_end symbol CALL_PARAMS(params);
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	EXPORT CALLS_RESULT symbol CALL_PARAMS(params);
#include CALLS_DEF

/* Calls the library's function with the parameters of this row. */
#define NEXT_OF(result, symbol, params) FM_CALLS_NEXT(result, CALL_##symbol, params)
#define NEXT(symbol, params)            NEXT_OF(CALLS_RESULT, symbol, params)

/* The shim's function for this row, where it is an expression with NEXT(). */
#define CALLS_RETURN(symbol, params, ...)       \
	CALLS_RESULT symbol CALL_PARAMS(params) \
	{                                       \
		return __VA_ARGS__;             \
	}
