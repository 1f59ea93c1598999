/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program over the recorder (fakes/recorder) that makes each call of the shim's table when
 * it is told to, with arguments that can be told apart, and says whether the driver was given these
 * and the program what the driver returned. It prints "entry SYMBOL NAME [own]" for each call that
 * there is, own: one that takes a stream; then "ready"; obeys lines on stdin, and answers each by a
 * line, "ok" or what is wrong:
 *
 *   call SYMBOL link|dlsym|proc own|other|default
 *                  for each of three results, into a stream of the program's or the default one.
 *                  "ok differs PARAMETER [copied N]": the driver was given another, a copy of the
 *                  list of N
 *   order SYMBOL   a query of a stream that is known to be idle, the call into that, and the query
 *                  once more: the shim itself answers the first, the driver the second
 *   deny           from now on no stream has a context
 *
 * usage: [code]    the shim has functions of its own for what loads code, too
 */
#define FERMATA_CUDA_OPTIONAL
#include "base/util.h"
#include "fakes/recorder/recorder.h"
#include <dlfcn.h>
#include <fermata/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUDA_ERROR_LAUNCH_FAILED, and one that nobody has heard of. */
static const fm_cu_result results[] = {FM_CU_SUCCESS, 719, 4321};

/* Of a row; void: there is none. */
struct param {
	const char *type;
	unsigned char size;
};

#define ON_other(kind, symbol, ...) extern rec_fn symbol;
#include "api/cuda/calls.def"

static const struct entry {
	const char *symbol, *name;
	int since;
	bool per_thread, code;
	rec_fn *linked;
	struct param param[REC_WORDS];
} entries[] = {
#define SIZE_OF(t) sizeof(*_Generic((t *)0, void * : "", default : (t *)0))
#define PARAM(type, name)            \
	{                            \
#type, SIZE_OF(type) \
	}
#define ENTRY(code, symbol, per_thread, name, since, note, params, ...) \
	{#symbol, #name, since, per_thread, code, symbol, {CALL_EACH(PARAM, params)}},
#define CODE_HOST    true
#define CODE_DEVICE  false
#define CODE_ARRAY   false
#define CODE_ORDERED false
#define CODE_        false
#define ON_release(symbol, per_thread, name, since, note, params, of, ...) \
	ENTRY(CODE_##of, symbol, per_thread, name, since, note, params)
#define FOLLOWS_LOADS           false /* it waits for room */
#define FOLLOWS_                true
#define FOLLOWS_KERNEL_NODE     true
#define FOLLOWS_OLD_KERNEL_NODE true
#define FOLLOWS_OTHER_NODE      true
#define FOLLOWS_WORDS_NODE      true
#define FOLLOWS_NAMES_BY_HAND   true
#define ON_code(symbol, per_thread, name, since, note, params, what, ...) \
	ENTRY(FOLLOWS_##what, symbol, per_thread, name, since, note, params)
#define ON_load(...)        ENTRY(true, __VA_ARGS__)
#define ON_other(kind, ...) ENTRY(false, __VA_ARGS__)
#include "api/cuda/calls.def"
};

static bool follows_code;
static rec_expect_fn *expect;
static rec_own_fn *own;
static rec_deny_fn *deny;

static char own_stream, other_stream;

/* What parameters point to: nothing but zeros, and where a stream stands in it, that. */
#define ROOM 4096
static _Alignas(64) char room[REC_WORDS][ROOM];

__attribute__((noreturn)) static void die(const char *what, const char *of)
{
	fprintf(stderr, "%s: %s\n", of, what);
	exit(1);
}

static unsigned id_of(const char *symbol)
{
	for (unsigned i = 0; i < REC_CALLS; i++)
		if (!strcmp(entries[i].symbol, symbol))
			return i;
	die("no such call", symbol);
}

static void *driver(const char *symbol)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW),
	     *fn = handle ? dlsym(handle, symbol) : NULL;

	if (!fn)
		die("the driver does not have it", symbol);
	return fn;
}

/* --- arguments --- */

/* Whatever it points to. */
static bool is_pointer(const struct param *p)
{
	return strchr(p->type, '*');
}

static bool is_handle(const struct param *p)
{
	return !strncmp(p->type, "CU", 2) && strncmp(p->type, "CUdevice", 8) != 0;
}

static bool is_config(const struct param *p)
{
	return !strcmp(p->type, "const struct CUlaunchConfig_st *");
}

static bool is_list(const struct param *p)
{
	return !strcmp(p->type, "struct CUDA_LAUNCH_PARAMS_st *");
}

static bool is_stream(const struct param *p)
{
	return !strcmp(p->type, "CUstream");
}

static unsigned params_of(const struct entry *e)
{
	unsigned n = 0;

	while (n < REC_WORDS && e->param[n].type && strcmp(e->param[n].type, "void") != 0)
		n++;
	return n;
}

/* Of each parameter another one. Those of 32 bits have something above these, as a register may;
 * what may say how many there are of something is small. */
static uint64_t argument(unsigned id, unsigned i, const struct param *p)
{
	unsigned small = 16 * (i + 1) + id % 16;

	if (is_pointer(p) || is_handle(p))
		return (uintptr_t)room[i];
	if (!strcmp(p->type, "size_t") || p->size < 4)
		return small;
	if (p->size == 4)
		return UINT64_C(0xabcd) << 48 | small;
	return UINT64_C(0xfe) << 56 | (uint64_t)small << 32 | (uint64_t)id << 8;
}

/* The stream is a parameter, or stands in what one points to. */
static void put_stream(struct rec_call *c, unsigned i, const struct param *p, CUstream stream)
{
	struct fm_cu_launch_config *config = (void *)room[i];
	struct fm_cu_launch_params *list = (void *)room[i];

	if (is_stream(p)) {
		c->word[i] = (uintptr_t)stream;
	} else if (is_config(p)) {
		config->stream = stream;
	} else if (is_list(p)) {
		for (unsigned k = 0; k < ROOM / sizeof(*list); k++)
			list[k] = (struct fm_cu_launch_params){.shared = k, .stream = stream};
		c->list = ROOM;
	}
}

static bool takes_stream(const struct entry *e)
{
	for (unsigned i = 0; i < params_of(e); i++)
		if (is_stream(&e->param[i]) || is_config(&e->param[i]) || is_list(&e->param[i]))
			return true;
	return false;
}

/* A parameter that is no word: a structure by value. Such a call is not made here. */
static bool is_wide(const struct entry *e)
{
	for (unsigned i = 0; i < params_of(e); i++)
		if (e->param[i].size > sizeof(uint64_t))
			return true;
	return false;
}

static struct rec_call prepare(unsigned id, CUstream stream)
{
	const struct entry *e = &entries[id];
	struct rec_call c = {.id = id, .n = params_of(e)};

	memset(room, 0, sizeof(room));
	for (unsigned i = 0; i < c.n; i++) {
		c.size[i] = e->param[i].size;
		c.word[i] = argument(id, i, &e->param[i]);
		put_stream(&c, i, &e->param[i], stream);
	}
	if (c.list)
		c.list = c.word[1] % 256 * sizeof(struct fm_cu_launch_params);
	return c;
}

/* --- calls --- */

static rec_fn *by_request(const struct entry *e)
{
	uint64_t flags = e->per_thread ? 2 : 0;
	int version = e->per_thread && e->since < 7000 ? 7000 : e->since;
	fm_cu_result (*get)(const char *, void **, int, uint64_t, unsigned *) =
		driver("cuGetProcAddress_v2");
	fm_cu_result (*old)(const char *, void **, int, uint64_t) = driver("cuGetProcAddress");
	void *fn = NULL, *same = NULL;
	unsigned status;

	if (get(e->name, &fn, version, flags, &status) || !fn)
		die("cuGetProcAddress_v2 does not give it", e->symbol);
	if (old(e->name, &same, version, flags) || same != fn)
		die("cuGetProcAddress gives another", e->symbol);
	return (rec_fn *)fn;
}

/* NULL: the shim's own functions were not, or were, in front of the driver's, as it should not be.
 */
static rec_fn *find(unsigned id, const char *via)
{
	const struct entry *e = &entries[id];
	rec_fn *fn = e->linked, *right = fn;

	if (e->code && !follows_code)
		right = (rec_fn *)own(id);
	if (!strcmp(via, "link"))
		return fn == (rec_fn *)own(id) ? NULL : fn;
	fn = !strcmp(via, "proc") ? by_request(e) : (rec_fn *)driver(e->symbol);
	return fn == right ? fn : NULL;
}

static fm_cu_result make(rec_fn *fn, struct rec_call *c)
{
	const uint64_t *w = c->word;
	fm_cu_result rc;

	expect(c);
	rc = fn(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
		w[13], w[14], w[15]);
	expect(NULL);
	return rc;
}

/* What began is ended: what comes next is not captured. */
static void end_capture(const struct entry *e, CUstream stream)
{
	unsigned id = id_of(e->per_thread ? "cuStreamEndCapture_ptsz" : "cuStreamEndCapture");
	struct rec_call c = prepare(id, stream);

	if (!strncmp(e->symbol, "cuStreamBeginCapture", strlen("cuStreamBeginCapture")))
		make(entries[id].linked, &c);
}

/* Of the parameters that were others. NULL: something is wrong, which it has said. */
static const struct rec_call *one(
	unsigned id, rec_fn *fn, CUstream stream, fm_cu_result rc, struct rec_call *c)
{
	fm_cu_result got;

	*c = prepare(id, stream);
	c->rc = rc;
	got = make(fn, c);
	if (rc == FM_CU_SUCCESS)
		end_capture(&entries[id], stream);
	if (c->calls != 1)
		printf("the driver was called %u times, for %d\n", c->calls, rc);
	else if (c->n_besides)
		printf("%s was called besides, for %d\n", c->besides[0], rc);
	else if (got != rc)
		printf("%d was returned in place of %d\n", got, rc);
	else
		return c;
	return NULL;
}

/* What is destroyed is not what others are put into. */
static CUstream stream_of(const char *symbol, const char *where)
{
	if (!strcmp(where, "default"))
		return NULL;
	if (!strcmp(where, "other") || strstr(symbol, "Destroy"))
		return (CUstream)(void *)&other_stream;
	return (CUstream)(void *)&own_stream;
}

static void call(const char *symbol, const char *via, const char *where)
{
	unsigned id = id_of(symbol), differs = 0;
	CUstream stream = stream_of(symbol, where);
	rec_fn *fn = find(id, via);
	struct rec_call c;

	if (!fn) {
		puts("the function is not whose it should be");
		return;
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(results); i++) {
		if (!one(id, fn, stream, results[i], &c))
			return;
		differs |= c.differs;
	}
	printf("ok");
	for (unsigned i = 0; i < c.n; i++)
		if (differs >> i & 1)
			printf(" differs %u", i);
	if (c.copied)
		printf(" copied %zu", c.list / sizeof(struct fm_cu_launch_params));
	puts("");
}

/* To the shim a stream that was just bound is idle, whatever the driver says for the sake of what
 * the shim has put there, until something is put there by the program. */
static void order(const char *symbol)
{
	static const struct fm_cuda_binding binding = {
		.size = sizeof(binding), .priority = FM_CUDA_PRIORITY_KEEP};
	unsigned id = id_of(symbol), query = id_of("cuStreamQuery");
	CUstream stream = (CUstream)(void *)&other_stream;
	struct rec_call c, q;
	fm_cu_result before, behind;

	if (fm_cuda_bind(stream, &binding))
		die("the stream cannot be bound", symbol);
	q = prepare(query, stream);
	q.rc = FM_CU_ERROR_NOT_READY;
	before = make(entries[query].linked, &q);
	if (!one(id, entries[id].linked, stream, FM_CU_SUCCESS, &c))
		return;
	q = prepare(query, stream);
	q.rc = FM_CU_ERROR_NOT_READY;
	behind = make(entries[query].linked, &q);
	if (fm_cuda_unbind(stream))
		die("the stream is not bound", symbol);
	if (before != FM_CU_SUCCESS || behind != FM_CU_ERROR_NOT_READY)
		printf("queries: %d before, %d behind\n", before, behind);
	else
		puts("ok");
}

int main(int argc, char **argv)
{
	char line[256], what[16], symbol[128], via[16], where[16];
	int n;

	follows_code = argc > 1 && !strcmp(argv[1], "code");
	expect = driver("rec_expect");
	own = driver("rec_own");
	deny = driver("rec_deny");
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < REC_CALLS; i++)
		printf("%s %s %s%s\n", is_wide(&entries[i]) ? "wide" : "entry", entries[i].symbol,
			entries[i].name, takes_stream(&entries[i]) ? " own" : "");
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		n = sscanf(line, "%15s %127s %15s %15s", what, symbol, via, where);
		if (n == 4 && !strcmp(what, "call")) {
			call(symbol, via, where);
		} else if (n == 2 && !strcmp(what, "order")) {
			order(symbol);
		} else if (n == 1 && !strcmp(what, "deny")) {
			deny(true);
			puts("ok");
		} else {
			die("not understood", line);
		}
	}
	return 0;
}
