/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of a table of calls. Each device API has one table, src/api/API/calls.def: a row for
 * each function of the driver's that a shim stands in front of. Everything that is said of each
 * call (an enumeration, declarations, the shim's functions, what look-ups answer, the page that
 * says what is covered, the driver of a test) comes from that table, so a call is added by a row.
 *
 * A row:
 *
 *   CALL(name, suffix, clone, since, KIND(facts...), note, (type, name)...)
 *
 *   name      what programs ask for
 *   suffix    of this version of the function, or nothing: the symbol is name##suffix
 *   clone     there is a second symbol, name##suffix##_##clone, with the same parameters, for which
 *             the default queue is the thread's own: ptsz, ptds; or none
 *   since     the version of the API from which on a look-up of `name` means this function
 *   KIND      what the shim has to do with it, below; the facts are what that needs to know:
 *             expressions of the parameters, or words. The head of each table explains its own
 *   note      for the page, where the kind alone does not say what the shim does; or ""
 *   (type, name)...  a pair for each parameter, at most 20; (void, ) if there are none. A function
 *             or an array needs a typedef. A macro may stand for several pairs.
 *
 * For example, a copy that is a command of the queue `stream`; and a function written by hand:
 *
 *   CALL(cuMemcpyAsync, , ptsz, 4000, work(stream, key_bytes(1, n), 0), "",
 *           (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, n), (CUstream, stream))
 *   CALL(cuGetProcAddress, _v2, none, 12000, own(), "hands out the shim's functions", ...)
 *
 * A row does not say what the function returns. Where the functions of an API differ in that, its
 * headers or a fact of the row say it.
 *
 * The kinds. Commands of a queue, which are governed:
 *   kernel    a kernel, which some devices can stop in its middle
 *   work      another command: a copy, a fill
 *   order     what only orders commands (events, waits, host functions): it takes no time itself
 *   record    the same, and an event stands behind the commands so far from then on
 *   graph     a graph of commands, launched as one
 * Calls that are followed, so that the shim knows what it has to:
 *   sync      waits for commands, or asks whether they are finished
 *   make      makes something that the shim keeps account of
 *   end       ends it
 *   capture   begins or ends that commands of a queue are put into a graph instead
 *   alloc     makes memory
 *   release   ends memory
 *   own       any other that the shim has a function of its own for
 * Calls about code:
 *   code      loads it, hands it out, or gives it parameters elsewhere than in a launch
 *   load      may have the driver load it
 *
 * An includer defines ON_KIND for the kinds that it cares for, ON_other for the rest, or both, and
 * includes the table. For each symbol (so twice for a row with a clone) the table comes to
 *
 *   ON_KIND(symbol, per_thread, name, since, note, params, facts...)
 *   ON_other(kind, symbol, per_thread, name, since, note, params, facts...)
 *
 * or to nothing, if neither is defined. per_thread is 1 for a clone, else 0; params are for
 * CALL_PARAMS and the macros next to it. The table undefines all ON_ macros at its end. So
 *
 *   #define ON_other(kind, symbol, ...) FM_CUDA_##symbol,
 *   enum fm_cuda_id {
 *   #include "api/cuda/calls.def"
 *           FM_CUDA_CALLS
 *   };
 *
 * A table begins with #include "api/calls_begin.h" and ends with #include "api/calls_end.h". The
 * compiler reports an error in a row at that row. Three things to know:
 *   - a header that makes macros of function names (NVIDIA's cuda.h) cannot be included together
 *     with a table;
 *   - a parameter of an ON_ macro must not have the name of a member that its body uses, for the
 *     preprocessor would replace that, too;
 *   - a fact may stand in the body more than once, so it must have no side effects.
 *
 * Three words are reserved for rows of other forms; no table has any yet:
 *   ALIAS(name, since, symbol)     from that version on the name means another name's function
 *   LEFT(names, why)               calls that are left to the driver
 *   UNIFORM(name, KIND(facts...))  a function whose parameters are not known, but for the place of
 *                                  the queue among them
 */
#pragma once
#include <stdbool.h>

#define CALL(name, suffix, clone, since, kind, note, ...) \
	CALL_CLONE_##clone(KIND_##kind, name, suffix, since, note, (__VA_ARGS__))

/* --- for includers --- */

/* The parameters as they are declared, and as they are passed on: each with its parentheses. */
#define CALL_PARAMS(params) (CALL_EACH(CALL_DECLARED, params))
#define CALL_ARGS(params)   (CALL_EACH(CALL_NAME, params))

/* f(type, name) of each parameter, with commas between them. */
#define CALL_EACH(f, params) CALL_EACH_PAIR(f, CALL_UNWRAP params)

/* --- how it is done --- */

/* kind(facts) becomes kind, (facts). */
#define KIND_kernel(...)  kernel, (__VA_ARGS__)
#define KIND_work(...)    work, (__VA_ARGS__)
#define KIND_order(...)   order, (__VA_ARGS__)
#define KIND_record(...)  record, (__VA_ARGS__)
#define KIND_graph(...)   graph, (__VA_ARGS__)
#define KIND_sync(...)    sync, (__VA_ARGS__)
#define KIND_make(...)    make, (__VA_ARGS__)
#define KIND_end(...)     end, (__VA_ARGS__)
#define KIND_capture(...) capture, (__VA_ARGS__)
#define KIND_alloc(...)   alloc, (__VA_ARGS__)
#define KIND_release(...) release, (__VA_ARGS__)
#define KIND_code(...)    code, (__VA_ARGS__)
#define KIND_load(...)    load, (__VA_ARGS__)
#define KIND_own(...)     own, (__VA_ARGS__)

/* Once for each symbol; a kind of clone is a line here. */
#define CALL_CLONE_none(...) CALL_SYMBOL(, false, __VA_ARGS__)
#define CALL_CLONE_ptsz(...) CALL_SYMBOL(, false, __VA_ARGS__) CALL_SYMBOL(_ptsz, true, __VA_ARGS__)
#define CALL_CLONE_ptds(...) CALL_SYMBOL(, false, __VA_ARGS__) CALL_SYMBOL(_ptds, true, __VA_ARGS__)
#define CALL_CLONE_spt(...)  CALL_SYMBOL(, false, __VA_ARGS__) CALL_SYMBOL(_spt, true, __VA_ARGS__)

#define CALL_SYMBOL(tail, per_thread, kind, facts, name, suffix, since, note, params) \
	CALL_ON(ON_##kind, name##suffix##tail, per_thread, name, since, note, params, \
		CALL_UNWRAP facts)
#define CALL_ON(on, ...) on(__VA_ARGS__)

#define CALL_UNWRAP(...)          __VA_ARGS__
#define CALL_DECLARED(type, name) type name
#define CALL_NAME(type, name)     name

#define CALL_JOIN(a, b)  CALL_JOIN_(a, b)
#define CALL_JOIN_(a, b) a##b
#define CALL_COUNT(...)                                                                           \
	CALL_COUNT_(__VA_ARGS__, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, \
		2, 1)
#define CALL_COUNT_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, \
	_18, _19, _20, n, ...)                                                                  \
	n

#define CALL_EACH_PAIR(f, ...)  CALL_JOIN(CALL_EACH_, CALL_COUNT(__VA_ARGS__))(f, __VA_ARGS__)
#define CALL_EACH_1(f, a)       f a
#define CALL_EACH_2(f, a, ...)  f a, CALL_EACH_1(f, __VA_ARGS__)
#define CALL_EACH_3(f, a, ...)  f a, CALL_EACH_2(f, __VA_ARGS__)
#define CALL_EACH_4(f, a, ...)  f a, CALL_EACH_3(f, __VA_ARGS__)
#define CALL_EACH_5(f, a, ...)  f a, CALL_EACH_4(f, __VA_ARGS__)
#define CALL_EACH_6(f, a, ...)  f a, CALL_EACH_5(f, __VA_ARGS__)
#define CALL_EACH_7(f, a, ...)  f a, CALL_EACH_6(f, __VA_ARGS__)
#define CALL_EACH_8(f, a, ...)  f a, CALL_EACH_7(f, __VA_ARGS__)
#define CALL_EACH_9(f, a, ...)  f a, CALL_EACH_8(f, __VA_ARGS__)
#define CALL_EACH_10(f, a, ...) f a, CALL_EACH_9(f, __VA_ARGS__)
#define CALL_EACH_11(f, a, ...) f a, CALL_EACH_10(f, __VA_ARGS__)
#define CALL_EACH_12(f, a, ...) f a, CALL_EACH_11(f, __VA_ARGS__)
#define CALL_EACH_13(f, a, ...) f a, CALL_EACH_12(f, __VA_ARGS__)
#define CALL_EACH_14(f, a, ...) f a, CALL_EACH_13(f, __VA_ARGS__)
#define CALL_EACH_15(f, a, ...) f a, CALL_EACH_14(f, __VA_ARGS__)
#define CALL_EACH_16(f, a, ...) f a, CALL_EACH_15(f, __VA_ARGS__)
#define CALL_EACH_17(f, a, ...) f a, CALL_EACH_16(f, __VA_ARGS__)
#define CALL_EACH_18(f, a, ...) f a, CALL_EACH_17(f, __VA_ARGS__)
#define CALL_EACH_19(f, a, ...) f a, CALL_EACH_18(f, __VA_ARGS__)
#define CALL_EACH_20(f, a, ...) f a, CALL_EACH_19(f, __VA_ARGS__)
