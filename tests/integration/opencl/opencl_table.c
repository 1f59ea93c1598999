/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenCL program over the recorder (fakes/opencl_recorder) that makes each call of the layer's
 * table when it is told to, through the loader, with arguments that can be told apart, and says
 * whether the driver was given these and the program what the driver returned. It prints "entry
 * NAME KIND [queue|program|kernel] [blocking]" for each call that there is: what it is about, and
 * whether it may block; then "ready"; obeys lines on stdin, and answers each by a line, "ok" or
 * what is wrong:
 *
 *   make own|out|device make an in-order or an out-of-order queue, or one on the device; "own" has
 *                       a program and a kernel, too
 *   call NAME own|out|other full|bare|odd BLOCKING MASK
 *                       for each of three results. other: objects that the layer has not seen
 *                       made. full: with events to wait for, and places for an event and for the
 *                       status; bare: without; odd: there are events to wait for, but no list.
 *                       BLOCKING: 0 or 1. MASK: the driver may be given others in these parameters
 *                       (a bit each). Answer: "ok [differs PARAMETER]... [besides ENTRY]...": it
 *                       was given others, and called in other ways besides
 *   pass NAME ENTRY     a call that the layer leaves alone: by its place in the dispatch table
 *   once NAME own|out works|fails BLOCKING
 *                       a single time, with one of the results
 *   look NAME plain|platform
 *                       look the name of an extension's function up
 *   refs own            "refs N": as the driver's clGetCommandQueueInfo, which says 77
 *   retain own, release own
 *   late 0|1            whether the driver says nothing of finished commands
 *   events              "events LIVE WRONG" (recorder.h)
 *
 * usage: RECORDER
 */
#include "base/util.h"
#include "fakes/opencl_recorder/recorder.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 4096 /* what a parameter points to */

/* CL_OUT_OF_RESOURCES, and one that nobody has heard of. */
static const cl_int results[] = {CL_SUCCESS, -5, -4321};

struct param {
	const char *type, *name;
	unsigned char size;
	bool pointer;
};

/* clang-format off */
#define PARAM(type, name) {#type, #name, sizeof(type), __builtin_classify_type(*(type *)NULL) == 5}
#define VALUE(type, name) *(type *)NULL
#define STATUS_OF(symbol, params) \
	_Generic(((const cl_icd_dispatch *)NULL)->symbol(CALL_EACH(VALUE, params)), \
		cl_int: true, default: false)
/* clang-format on */

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	static const struct param params_##symbol[] = {CALL_EACH(PARAM, params)};
#include "api/opencl/calls.def"

static const struct row {
	const char *name, *kind;
	unsigned entry, n;
	const struct param *param;
	bool status; /* it returns that, and no pointer */
} rows[] = {
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...)                  \
	{#symbol, #kind, REC_ENTRY(symbol), FM_ARRAY_LEN(params_##symbol), params_##symbol, \
		STATUS_OF(symbol, params)},
#include "api/opencl/calls.def"
};

static rec_expect_fn *expect;
static rec_late_fn *late;
static rec_events_fn *events;
static const cl_icd_dispatch *driver;
static void *loader;

/* The last ones are of objects that the layer has not seen made. */
enum { OWN, OUT, OTHER, WHERES };
static struct rec_object queue[WHERES], program[WHERES], kernel[WHERES], made[3];
static struct rec_object other[REC_WORDS]; /* for parameters of other types */

static _Alignas(64) char room[REC_WORDS][ROOM], before[REC_WORDS][ROOM];
static struct {
	cl_event event;
	cl_int err;
	size_t other;
} slot;

__attribute__((noreturn)) static void die(const char *what, const char *of)
{
	fprintf(stderr, "opencl_table: %s: %s\n", of, what);
	exit(1);
}

static const struct row *row_of(const char *name)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	die("no such call", name);
}

static void *find(void *handle, const char *symbol)
{
	void *fn = handle ? dlsym(handle, symbol) : NULL;

	if (!fn)
		die("not found", symbol);
	return fn;
}

static int where_of(const char *word)
{
	return !strcmp(word, "own") ? OWN : !strcmp(word, "out") ? OUT : OTHER;
}

static const struct param *param_of(const struct row *r, const char *name)
{
	for (unsigned i = 0; i < r->n; i++)
		if (!strcmp(r->param[i].name, name))
			return &r->param[i];
	return NULL;
}

/* --- arguments --- */

struct how {
	int where;
	bool lists, places, blocking; /* lists of events to wait for, places for what is written */
	bool odd;
	cl_int err;
};

static bool is(const struct param *p, const char *type)
{
	return !strcmp(p->type, type);
}

static bool named(const struct param *p, const char *name)
{
	return !strcmp(p->name, name);
}

/* The object of a handle; NULL: it is none. */
static void *object(const struct param *p, unsigned i, int where)
{
	if (is(p, "cl_command_queue"))
		return &queue[where];
	if (is(p, "cl_program"))
		return &program[where];
	if (is(p, "cl_kernel"))
		return &kernel[where];
	if (strncmp(p->type, "cl_", 3) || !p->pointer || strchr(p->type, '*'))
		return NULL;
	return &other[i];
}

/* Lists of objects and of texts; else zeros. */
static void furnish(const struct param *p, unsigned i)
{
	static const char text[] = "kernel void k(void) {}";
	const void **list = (const void **)room[i];
	const void *first = NULL, *next = NULL;

	if (is(p, "const char *"))
		strcpy(room[i], "clHasItREC");
	else if (is(p, "const char **") || is(p, "const unsigned char **"))
		first = next = text;
	else if (is(p, "cl_kernel *"))
		first = &made[0];
	else if (!strncmp(p->type, "const cl_", 9) && !strstr(p->type, "properties"))
		first = next = &program[OTHER];
	for (unsigned k = 0; first && k < ROOM / sizeof(*list); k++)
		list[k] = next ? next : &made[k % FM_ARRAY_LEN(made)];
}

/* Of each parameter another one. Those of 32 bits have something above these, as a register may;
 * what may say how many there are of something is small. */
static uint64_t number(const struct row *r, const struct param *p, unsigned i)
{
	unsigned small = 16 * (i + 1) + r->entry % 16;

	if (is(p, "size_t"))
		return small;
	if (p->size == 4)
		return UINT64_C(0xabcd) << 48 | small;
	return UINT64_C(0xfe) << 56 | (uint64_t)small << 32 | (uint64_t)r->entry << 8;
}

/* Where the driver writes something. */
static bool place(struct rec_call *c, const struct param *p, unsigned i, const struct how *how)
{
	struct rec_out *o = named(p, "event") ? &c->event
			    : named(p, "err") ? &c->status
					      : &c->other;
	void *to = named(p, "event") ? (void *)&slot.event
		   : named(p, "err") ? (void *)&slot.err
				     : (void *)&slot.other;

	if (!named(p, "event") && !named(p, "err") && !named(p, "size_ret") && !named(p, "n_ret"))
		return false;
	*o = (struct rec_out){(int)i, is(p, "size_t *") || is(p, "cl_event *") ? 8 : 4};
	c->word[i] = how->places ? (uintptr_t)to : 0;
	return true;
}

static uint64_t argument(const struct row *r, const struct how *how, unsigned i)
{
	const struct param *p = &r->param[i];
	bool lists = how->lists && !(how->odd && named(p, "wait"));
	void *o;

	if (named(p, "blocking"))
		return UINT64_C(0xabcd) << 48 | how->blocking;
	if (!lists && (named(p, "wait") || (named(p, "n") && param_of(r, "wait"))))
		return 0;
	o = object(p, i, how->where);
	if (o)
		return (uintptr_t)o;
	if (!p->pointer)
		return number(r, p, i);
	furnish(p, i);
	return (uintptr_t)room[i];
}

static uint64_t result_of(const struct row *r, const struct how *how)
{
	if (r->status)
		return (uint32_t)how->err;
	return how->err ? 0 : (uintptr_t)&made[0];
}

static struct rec_call prepare(const struct row *r, const struct how *how, unsigned mask)
{
	struct rec_call c = {.entry = r->entry, .n = r->n, .err = how->err, .may_differ = mask};

	memset(room, 0, sizeof(room));
	slot = (__typeof__(slot)){0};
	slot.err = 12345;
	c.status.at = c.event.at = c.other.at = -1;
	for (unsigned i = 0; i < r->n; i++) {
		c.size[i] = r->param[i].size;
		if (!place(&c, &r->param[i], i, how))
			c.word[i] = argument(r, how, i);
	}
	c.result = result_of(r, how);
	memcpy(before, room, sizeof(room));
	return c;
}

/* In an out-of-order queue of the layer's each barrier goes to the driver as one with a list, and
 * with an event; but as it is where it waits for no events, and should. */
static void as_barrier(const struct row *r, struct rec_call *c, const struct how *how)
{
	const bool waits = param_of(r, "wait");

	if (getenv("FERMATA_DISABLE") || strcmp(r->kind, "order") || how->where != OUT ||
		(!strcmp(r->name, "clEnqueueWaitForEvents") && (!c->word[1] || !c->word[2])))
		return;
	c->entry = REC_ENTRY(clEnqueueBarrierWithWaitList);
	c->n = 4;
	c->word[1] = waits ? c->word[1] : 0;
	c->word[2] = waits ? c->word[2] : 0;
	c->word[3] = c->event.at >= 0 ? c->word[3] : 0;
	c->may_differ = c->word[3] ? 0 : 1u << 3;
	c->event = (struct rec_out){3, sizeof(cl_event)};
	for (unsigned i = 0; i < 4; i++)
		c->size[i] = i == 1 ? 4 : 8;
}

/* --- calls --- */

static uint64_t make(rec_fn *fn, const uint64_t *w, struct rec_call *c)
{
	uint64_t rc;

	expect(c);
	rc = fn(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
		w[13]);
	expect(NULL);
	return rc;
}

static cl_int simply(const char *name, const void *handle)
{
	cl_int (*fn)(const void *) = (cl_int(*)(const void *))find(loader, name);

	return fn(handle);
}

/* What the driver has written where the program said, and nothing anywhere else. */
static const char *written(const struct rec_call *c, const uint64_t *word)
{
	const bool ok = !c->err;

	if (c->status.at >= 0 && word[c->status.at] && slot.err != c->err)
		return "the program was not told the driver's status";
	if (c->event.at >= 0 && word[c->event.at] && slot.event != (ok ? (cl_event)c->made : NULL))
		return "the program has another event";
	if (c->other.at >= 0 && word[c->other.at] && slot.other != (ok ? REC_OTHER : 0))
		return "the program was not told what the driver has written";
	if (memcmp(before, room, sizeof(room)))
		return "memory of the program's was changed";
	return NULL;
}

/* What was made is let go of; of what is let go of there is one more. */
static void before_call(const struct row *r, const struct how *how)
{
	char retain[64] = "clRetain";

	if (!strncmp(r->name, "clRelease", 9))
		simply(strcat(retain, r->name + 9), object(&r->param[0], 0, how->where));
}

static void after_call(const struct row *r, const struct rec_call *c, const uint64_t *word)
{
	const char *name = r->name;
	char release[64] = "clRelease";

	if (slot.event)
		simply("clReleaseEvent", slot.event);
	if (c->err)
		return;
	if (!strncmp(name, "clRetain", 8))
		simply(strcat(release, name + 8), (const void *)(uintptr_t)word[0]);
	else if (!strncmp(name, "clCreateCommandQueue", 20))
		simply("clReleaseCommandQueue", &made[0]);
	else if (!strncmp(name, "clCreateProgram", 15) || !strcmp(name, "clLinkProgram"))
		simply("clReleaseProgram", &made[0]);
	else if (!strcmp(name, "clCreateKernel") || !strcmp(name, "clCloneKernel"))
		simply("clReleaseKernel", &made[0]);
	else if (!strcmp(name, "clCreateKernelsInProgram"))
		for (unsigned i = 0; i < REC_OTHER; i++)
			simply("clReleaseKernel", &made[i]);
}

/* False: something is wrong, which it has said. */
static bool one(const struct row *r, const struct how *how, unsigned mask, struct rec_call *c)
{
	uint64_t word[REC_WORDS], all = r->status ? UINT32_MAX : UINT64_MAX, got;
	const char *wrong;

	*c = prepare(r, how, mask);
	memcpy(word, c->word, sizeof(word));
	as_barrier(r, c, how);
	before_call(r, how);
	got = make((rec_fn *)find(loader, r->name), word, c);
	wrong = written(c, c->word);
	after_call(r, c, word);
	if (c->calls != 1)
		printf("the driver was called %u times, for %d", c->calls, how->err);
	else if ((got & all) != c->result)
		printf("%#lx was returned in place of %#lx", (long)(got & all), (long)c->result);
	else if (wrong)
		printf("%s, for %d", wrong, how->err);
	else
		return true;
	for (unsigned i = 0; i < c->n_besides; i++)
		printf(" besides %u", c->besides[i]);
	puts("");
	return false;
}

static void call(const char *name, const struct how *how, unsigned mask)
{
	const struct row *r = row_of(name);
	bool besides[REC_ENTRIES] = {false};
	unsigned differs = 0;

	for (size_t k = 0; k < FM_ARRAY_LEN(results); k++) {
		struct how now = *how;
		struct rec_call c;

		now.err = results[k];
		if (!one(r, &now, mask, &c))
			return;
		differs |= c.differs & mask;
		for (unsigned i = 0; i < c.n_besides; i++)
			besides[c.besides[i]] = true;
	}
	printf("ok");
	for (unsigned i = 0; i < REC_WORDS; i++)
		if (differs >> i & 1)
			printf(" differs %u", i);
	for (unsigned i = 0; i < REC_ENTRIES; i++)
		if (besides[i])
			printf(" besides %u", i);
	puts("");
}

static void once(const char *name, const struct how *how)
{
	struct rec_call c;

	if (one(row_of(name), how, 0, &c))
		puts("ok");
}

/* Its parameters are not known here: the first is an object, and nothing is said of the others. */
static void pass(const char *name, unsigned entry)
{
	struct rec_call c = {.entry = entry, .n = 1, .size = {8}, .err = 1, .result = 0xfe000123};
	uint64_t got;

	c.status.at = c.event.at = c.other.at = -1;
	memset(room, 0, sizeof(room));
	for (unsigned i = 0; i < REC_WORDS; i++)
		c.word[i] = (uintptr_t)room[i];
	c.word[0] = (uintptr_t)&other[0];
	got = make((rec_fn *)find(loader, name), c.word, &c);
	if (c.calls != 1 || c.n_besides)
		printf("the driver was called %u times, and %u times in other ways\n", c.calls,
			c.n_besides);
	else if ((uint32_t)got != c.result && strcmp(name, "clSVMFree") != 0)
		printf("%#lx was returned\n", (long)got);
	else
		puts("ok");
}

static void look(const char *name, bool plain)
{
	void *(*fn)(const char *) =
		(void *(*)(const char *))find(loader, "clGetExtensionFunctionAddress");
	void *(*fn_for)(const void *, const char *) = (void *(*)(const void *, const char *))find(
		loader, "clGetExtensionFunctionAddressForPlatform");
	cl_platform_id platform = NULL;

	driver->clGetPlatformIDs(1, &platform, NULL);
	puts((plain ? fn(name) : fn_for(platform, name)) ? "ok" : "not found");
}

static void refs(int where)
{
	cl_int (*fn)(const void *, cl_uint, size_t, void *, size_t *) = (cl_int(*)(const void *,
		cl_uint, size_t, void *, size_t *))find(loader, "clGetCommandQueueInfo");
	cl_uint n = 0;

	fn(&queue[where], CL_QUEUE_REFERENCE_COUNT, sizeof(n), &n, NULL);
	printf("refs %u\n", n);
}

/* --- objects --- */

static void enter(const char *name, uint64_t result, const struct how *how)
{
	const struct row *r = row_of(name);
	struct rec_call c = prepare(r, how, 0);

	c.result = result;
	make((rec_fn *)find(loader, name), c.word, &c);
	if (c.calls != 1)
		die("it does not get to the driver", name);
}

/* Objects that the layer sees made. */
static void make_objects(int where)
{
	const struct how how = {.where = where, .places = true};

	queue[where].properties = where == OUT ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0;
	enter("clCreateCommandQueue", (uintptr_t)&queue[where], &how);
	if (where == OUT)
		return;
	enter("clCreateProgramWithSource", (uintptr_t)&program[where], &how);
	enter("clBuildProgram", CL_SUCCESS, &how);
	enter("clCreateKernel", (uintptr_t)&kernel[where], &how);
}

/* Its commands are enqueued by kernels. */
static void make_on_device(void)
{
	const struct row *r = row_of("clCreateCommandQueueWithProperties");
	struct rec_call c = prepare(r, &(struct how){.where = OTHER, .places = true}, 0);
	const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES,
		CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};

	memcpy(room[2], list, sizeof(list));
	make((rec_fn *)find(loader, r->name), c.word, &c);
	if (c.calls != 1)
		die("it does not get to the driver", r->name);
}

static void set_up(const char *recorder)
{
	void *handle = dlopen(recorder, RTLD_NOW);
	cl_int (*platforms)(cl_uint, cl_platform_id *, cl_uint *);
	cl_platform_id platform;

	loader = dlopen("libOpenCL.so.1", RTLD_NOW);
	platforms =
		(cl_int(*)(cl_uint, cl_platform_id *, cl_uint *))find(loader, "clGetPlatformIDs");
	expect = (rec_expect_fn *)find(handle, "rec_expect");
	late = (rec_late_fn *)find(handle, "rec_late");
	events = (rec_events_fn *)find(handle, "rec_events");
	driver = ((rec_dispatch_fn *)find(handle, "rec_dispatch"))();
	if (platforms(1, &platform, NULL) || *(const cl_icd_dispatch **)platform != driver)
		die("it is not the loader's driver", recorder);
	for (int i = 0; i < WHERES; i++)
		queue[i].dispatch = program[i].dispatch = kernel[i].dispatch = driver;
	for (size_t i = 0; i < FM_ARRAY_LEN(made); i++)
		made[i].dispatch = driver;
	for (size_t i = 0; i < FM_ARRAY_LEN(other); i++)
		other[i].dispatch = driver;
}

/* --- what it is told --- */

struct order {
	char what[16], name[128], where[16], form[16];
	unsigned blocking, mask;
	int n; /* words */
};

static bool is_order(const struct order *o, const char *what, int n)
{
	return o->n == n && !strcmp(o->what, what);
}

/* What is answered by "ok". */
static bool do_order(const struct order *o)
{
	int where = where_of(o->name);

	if (is_order(o, "make", 2) && !strcmp(o->name, "device"))
		make_on_device();
	else if (is_order(o, "make", 2))
		make_objects(where);
	else if (is_order(o, "retain", 2))
		simply("clRetainCommandQueue", &queue[where]);
	else if (is_order(o, "release", 2))
		simply("clReleaseCommandQueue", &queue[where]);
	else if (is_order(o, "late", 2))
		late(o->name[0] == '1');
	else
		return false;
	puts("ok");
	return true;
}

static void obey(const char *line)
{
	struct order o = {.n = 0};
	unsigned live, wrong;
	struct how how;

	o.n = sscanf(line, "%15s %127s %15s %15s %u %u", o.what, o.name, o.where, o.form,
		&o.blocking, &o.mask);
	how = (struct how){.where = where_of(o.where),
		.lists = strcmp(o.form, "bare") != 0,
		.places = strcmp(o.form, "bare") != 0,
		.odd = !strcmp(o.form, "odd"),
		.blocking = o.blocking,
		.err = strcmp(o.form, "fails") ? CL_SUCCESS : results[1]};
	if (is_order(&o, "call", 6)) {
		call(o.name, &how, o.mask);
	} else if (is_order(&o, "once", 5)) {
		once(o.name, &how);
	} else if (is_order(&o, "pass", 3)) {
		pass(o.name, (unsigned)atoi(o.where));
	} else if (is_order(&o, "look", 3)) {
		look(o.name, !strcmp(o.where, "plain"));
	} else if (is_order(&o, "refs", 2)) {
		refs(where_of(o.name));
	} else if (is_order(&o, "events", 1)) {
		events(&live, &wrong);
		printf("events %u %u\n", live, wrong);
	} else if (!do_order(&o)) {
		die("not understood", line);
	}
}

int main(int argc, char **argv)
{
	char line[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2)
		die("not understood", "arguments");
	set_up(argv[1]);
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		printf("entry %s %s %s%s\n", rows[i].name, rows[i].kind, rows[i].param[0].type,
			param_of(&rows[i], "blocking") ? " blocking" : "");
	puts("ready");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
