/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images loaded in every way, their kernels launched in every way, and what the driver tells of
 * them. Where FERMATA_GUARDIAN=1 asks for images to be rewritten, the driver itself is asked
 * whether it was given them so; what is noted is the same as without.
 */
#include "../fakes/cuda/fake_cuda.h"
#include "cuda_conform.h"

#define BLOCKS      24
#define IMAGE(name) GUARD_IMAGES "/" name

/* The kernels of data/guard, and where their parameters lie. */
static const struct kernel {
	const char *name;
	unsigned n, size;
	unsigned short at[4];
} kernels[] = {
	{"step", 1, 8, {0}},
	{"chain", 3, 16, {0, 8, 12}},
	{"odd", 4, 15, {0, 8, 12, 14}},
	{"tick", 0, 0, {0}},
	{"large", 2, 4048, {0, 4040}},
	{"beyond", 2, 6008, {0, 6000}},
};
#define KERNELS (sizeof(kernels) / sizeof(*kernels))
enum { STEP, CHAIN, ODD, TICK, LARGE, BEYOND };

/* In which form a launch is made. */
enum form { PARAMS, EXTRA, CONFIG, CONFIG_EXTRA, COOPERATIVE, SEVERAL, OLD, FORMS };
static const char *const form_name[] = {
	"params", "extra", "config", "config, extra", "cooperative", "several", "old"};

struct run {
	struct conform *c;
	CUstream s;
	CUdeviceptr out;
	CUfunction f[KERNELS]; /* NULL: not to be launched */
};

/* One launch of a kernel, in all its forms. */
struct call {
	const struct kernel *k;
	unsigned grid[3];
	unsigned char packed[6016];
	void *params[4];
	size_t size;
	void *extra[5];
};

static void prepare(struct call *l, unsigned kernel, unsigned gy)
{
	l->k = &kernels[kernel];
	l->size = l->k->size;
	memcpy(l->grid, (unsigned[]){BLOCKS / gy, gy, 1}, sizeof(l->grid));
	for (unsigned i = 0; i < l->k->n; i++)
		l->params[i] = l->packed + l->k->at[i];
	memcpy(l->extra, (void *[]){(void *)2, &l->size, (void *)1, l->packed, NULL},
		sizeof(l->extra));
}

static void launch_old(const struct call *l, CUfunction f, CUstream s)
{
	CU(cuFuncSetBlockShape(f, 32, 1, 1));
	CU(cuParamSetSize(f, l->k->size));
	if (l->k->size)
		CU(cuParamSetv(f, 0, (void *)l->packed, l->k->size));
	CU(cuLaunchGridAsync(f, (int)l->grid[0], (int)l->grid[1], s));
}

static void launch_call(struct call *l, CUfunction f, CUstream s, enum form form)
{
	const unsigned *g = l->grid;
	struct cu_launch_config how = {
		.grid = {g[0], g[1], g[2]}, .block = {32, 1, 1}, .stream = s};
	struct cu_launch_params one = {
		f, {g[0], g[1], g[2]}, {32, 1, 1}, 0, s, l->k->n ? l->params : NULL};

	if (form == EXTRA)
		CU(cuLaunchKernel(f, g[0], g[1], g[2], 32, 1, 1, 0, s, NULL, l->extra));
	else if (form == CONFIG)
		CU(cuLaunchKernelEx(&how, f, l->params, NULL));
	else if (form == CONFIG_EXTRA)
		CU(cuLaunchKernelEx(&how, f, NULL, l->extra));
	else if (form == COOPERATIVE)
		CU(cuLaunchCooperativeKernel(f, g[0], g[1], g[2], 32, 1, 1, 0, s, one.params));
	else if (form == SEVERAL)
		CU(cuLaunchCooperativeKernelMultiDevice(&one, 1, 0));
	else if (form == OLD)
		launch_old(l, f, s);
	else
		CU(cuLaunchKernel(f, g[0], g[1], g[2], 32, 1, 1, 0, s, one.params, NULL));
}

/* The parameters of the n-th launch of a kernel on these words. */
static void fill_in(struct call *l, CUdeviceptr out, unsigned kernel, uint32_t n)
{
	uint32_t words = WORDS / 2, width = 3;
	unsigned short by = (unsigned short)(7 + n);

	prepare(l, kernel, kernel == ODD ? 3 : 1);
	if (kernel == LARGE || kernel == BEYOND) {
		seed_words((uint32_t *)(void *)l->packed, l->k->at[1] / 4, n);
		memcpy(l->params[1], &out, sizeof(out));
	} else if (l->k->n) {
		memcpy(l->params[0], &out, sizeof(out));
	}
	if (kernel == CHAIN) {
		memcpy(l->params[1], &words, sizeof(words));
		memcpy(l->params[2], &n, sizeof(n));
	} else if (kernel == ODD) {
		memcpy(l->params[1], &width, sizeof(width));
		memcpy(l->params[2], &by, sizeof(by));
		*(signed char *)l->params[3] = n & 1 ? -3 : 5;
	}
}

static void one(struct run *r, unsigned kernel, uint32_t n, enum form form)
{
	struct call l;

	if (!r->f[kernel])
		return;
	fill_in(&l, r->out, kernel, n);
	launch_call(&l, r->f[kernel], r->s, form);
}

static void note_out(struct run *r, const char *what)
{
	note_words(r->c, what, r->out, r->s);
	CU(cuStreamSynchronize(r->s));
}

static void all_kernels(struct run *r, const char *what, enum form form)
{
	for (uint32_t n = 0; n < 3; n++)
		for (unsigned k = 0; k < KERNELS; k++)
			one(r, k, n, form);
	note_out(r, what);
}

/* --- was it rewritten? --- */

static void *own(const char *symbol)
{
	fake_cuda_own_fn *find;

	*(void **)&find = dlsym(RTLD_DEFAULT, "fake_cuda_own");
	if (!find)
		*(void **)&find = dlsym(driver_handle(), "fake_cuda_own");
	return find ? find(symbol) : NULL;
}

/* The driver is told not to take what was rewritten. */
static bool refuses;

/* As of CUDA 13.2: cuGetProcAddress may not have it. What is noted must not depend on that. */
static void count_params(CUfunction f, const struct kernel *k, bool kernel_handle)
{
	size_t n = k->n;
	fm_cu_result rc = 0;

	if (kernel_handle && cu.cuKernelGetParamCount)
		rc = cu.cuKernelGetParamCount((CUkernel)f, &n);
	else if (!kernel_handle && cu.cuFuncGetParamCount)
		rc = cu.cuFuncGetParamCount(f, &n);
	if (rc || n != k->n)
		die("%s: %zu parameters, error %d", k->name, n, rc);
}

/* The driver counts three parameters more, which the program is not told of. */
static void look(struct conform *c, CUfunction f, const struct kernel *k, bool kernel_handle)
{
	const char *guardian = refuses ? NULL : getenv("FERMATA_GUARDIAN");
	const char *symbol = kernel_handle ? "cuKernelGetParamInfo" : "cuFuncGetParamInfo";
	fm_cu_result (*ask)(CUfunction, size_t, size_t *, size_t *) = own(symbol);
	bool more = ask && !ask(f, k->n + 2, &(size_t){0}, &(size_t){0});
	size_t at, size;

	if (ask && more != (guardian && !strcmp(guardian, "1")))
		die("%s is %srewritten", k->name, more ? "" : "not ");
	count_params(f, k, kernel_handle);
	for (unsigned i = 0; i <= k->n; i++) {
		fm_cu_result rc = kernel_handle
					  ? cu.cuKernelGetParamInfo((CUkernel)f, i, &at, &size)
					  : cu.cuFuncGetParamInfo(f, i, &at, &size);

		if (rc)
			note(c, "%s: parameter %u: error %d", k->name, i, rc);
		else
			note(c, "%s: parameter %u: %zu at %zu", k->name, i, size, at);
	}
}

/* --- what is given and taken back --- */

static struct run begin_run(struct conform *c)
{
	struct run r = {.c = c, .s = new_stream(CU_STREAM_NON_BLOCKING), .out = new_words(21)};

	return r;
}

static void end_run(struct run *r)
{
	CU(cuStreamSynchronize(r->s));
	CU(cuMemFree_v2(r->out));
	CU(cuStreamDestroy_v2(r->s));
}

static void functions_of(struct run *r, CUmodule m, bool text)
{
	for (unsigned k = 0; k < KERNELS; k++) {
		CU(cuModuleGetFunction(&r->f[k], m, kernels[k].name));
		if (!text || k != BEYOND)
			look(r->c, r->f[k], &kernels[k], false);
	}
}

static void note_ticks(struct run *r, CUmodule m)
{
	CUdeviceptr ticks;
	uint32_t n;
	size_t size;

	CU(cuStreamSynchronize(r->s));
	CU(cuModuleGetGlobal_v2(&ticks, &size, m, "ticks"));
	CU(cuMemcpyDtoH_v2(&n, ticks, sizeof(n)));
	note(r->c, "%u ticks of %zu bytes", n, size);
}

static void *read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *data;
	long size;

	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0)
		die("%s: cannot be read", path);
	rewind(f);
	data = calloc(1, (size_t)size + 1);
	if (!data || fread(data, 1, (size_t)size, f) != (size_t)size)
		die("%s: cannot be read", path);
	fclose(f);
	return data;
}

static CUmodule load_module(const char *path)
{
	void *image = read_file(path);
	CUmodule m;

	CU(cuModuleLoadData(&m, image));
	free(image);
	return m;
}

/* --- cases --- */

static void forms(struct conform *c)
{
	struct run r = begin_run(c);
	CUmodule m = load_module(IMAGE("sm90.cubin"));

	functions_of(&r, m, false);
	for (enum form form = 0; form < FORMS; form++)
		all_kernels(&r, form_name[form], form);
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
}

/* A buffer that is longer than it needs to be, or none where there is nothing in it. */
static void buffers(struct conform *c)
{
	struct run r = begin_run(c);
	CUmodule m = load_module(IMAGE("sm90.cubin"));
	struct call l;

	functions_of(&r, m, false);
	fill_in(&l, r.out, ODD, 1);
	l.size = 16;
	launch_call(&l, r.f[ODD], r.s, EXTRA);
	CU(cuLaunchKernel(r.f[TICK], 3, 1, 1, 32, 1, 1, 0, r.s, NULL, NULL));
	note_out(&r, "longer");
	note(c, "both: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, l.params, l.extra));
	note(c, "none: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, NULL, NULL));
	l.extra[0] = (void *)9;
	note(c, "unknown: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, NULL, l.extra));
	note_out(&r, "no more than that");
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
}

/* A log that the driver writes into, and how far. */
static CUmodule load_with_options(struct conform *c, const void *image)
{
	char log[256] = "";
	int options[] = {5, 6, 7}; /* error log, its size, level of optimization */
	void *values[] = {log, (void *)sizeof(log), (void *)3};
	CUmodule m;

	CU(cuModuleLoadDataEx(&m, image, 3, options, values));
	note(c, "log of %zu bytes", (size_t)values[1]);
	return m;
}

static void run_module(struct conform *c, const char *what, CUmodule m, bool text)
{
	struct run r = begin_run(c);

	functions_of(&r, m, text);
	all_kernels(&r, what, PARAMS);
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
}

static void modules(struct conform *c)
{
	static const char *const files[] = {
		IMAGE("sm90.cubin"), IMAGE("text.ptx"), IMAGE("all.fatbin"), IMAGE("text.fatbin")};
	void *image;
	CUmodule m;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		bool text = strstr(files[i], "/text.");

		CU(cuModuleLoad(&m, files[i]));
		run_module(c, "file", m, text);
		run_module(c, "data", load_module(files[i]), text);
		image = read_file(files[i]);
		run_module(c, "options", load_with_options(c, image), text);
		if (strstr(files[i], "fatbin")) {
			CU(cuModuleLoadFatBinary(&m, image));
			run_module(c, "fatbin", m, text);
		}
		free(image);
	}
}

/* A kernel is launched as it is, or as the function that it is in a context. */
static void run_library(struct conform *c, const char *what, CUlibrary library)
{
	struct run r = begin_run(c);
	CUmodule m;

	for (unsigned k = 0; k < KERNELS; k++) {
		CU(cuLibraryGetKernel((CUkernel *)&r.f[k], library, kernels[k].name));
		look(c, r.f[k], &kernels[k], true);
	}
	for (enum form form = PARAMS; form < SEVERAL; form++)
		all_kernels(&r, what, form);
	for (unsigned k = 0; k < KERNELS; k++)
		CU(cuKernelGetFunction(&r.f[k], (CUkernel)r.f[k]));
	for (enum form form = 0; form < FORMS; form++)
		all_kernels(&r, what, form);
	CU(cuLibraryGetModule(&m, library));
	functions_of(&r, m, false);
	all_kernels(&r, what, PARAMS);
	note_ticks(&r, m);
	end_run(&r);
}

static void libraries(struct conform *c)
{
	void *image = read_file(IMAGE("all.fatbin"));
	int options[] = {1}; /* the image stays */
	void *values[] = {(void *)1};
	CUcontext other;
	CUlibrary l;

	CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, options, values, 1));
	run_library(c, "preserved", l);
	CU(cuCtxCreate_v2(&other, 0, c->dev));
	run_library(c, "in another context", l);
	CU(cuCtxDestroy_v2(other));
	CU(cuCtxSetCurrent(c->ctx));
	run_library(c, "in the first again", l);
	CU(cuLibraryUnload(l));
	free(image);
	CU(cuLibraryLoadFromFile(&l, IMAGE("sm90.cubin"), NULL, NULL, 0, NULL, NULL, 0));
	run_library(c, "file", l);
	CU(cuLibraryUnload(l));
}

/* Handles of which the shim has not seen where they come from. */
static void unseen(struct conform *c)
{
	fm_cu_result (*function)(CUfunction *, CUmodule, const char *) = own("cuModuleGetFunction");
	fm_cu_result (*of_kernel)(CUfunction *, CUkernel) = own("cuKernelGetFunction");
	fm_cu_result (*get_kernel)(CUkernel *, CUlibrary, const char *) = own("cuLibraryGetKernel");
	struct run r = begin_run(c);
	void *image = read_file(IMAGE("sm90.cubin"));
	CUmodule m = load_module(IMAGE("sm90.cubin"));
	CUlibrary l;
	CUkernel k;

	CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
	for (unsigned i = 0; i < KERNELS && function; i++)
		function(&r.f[i], m, kernels[i].name);
	all_kernels(&r, "of a module", PARAMS);
	for (unsigned i = 0; i < KERNELS && get_kernel; i++)
		get_kernel((CUkernel *)&r.f[i], l, kernels[i].name);
	all_kernels(&r, "kernels", EXTRA);
	for (unsigned i = 0; i < KERNELS && get_kernel; i++)
		if (!get_kernel(&k, l, kernels[i].name))
			of_kernel(&r.f[i], k);
	all_kernels(&r, "of a library", CONFIG);
	CU(cuModuleUnload(m));
	CU(cuLibraryUnload(l));
	free(image);
	end_run(&r);
}

static int by_name(const void *a, const void *b)
{
	const char *x, *y;

	CU(cuFuncGetName(&x, *(const CUfunction *)a));
	CU(cuFuncGetName(&y, *(const CUfunction *)b));
	return strcmp(x, y);
}

static void enumerated(struct conform *c)
{
	struct run r = begin_run(c);
	CUmodule m = load_module(IMAGE("all.fatbin"));
	CUfunction f[32];
	const char *name;
	unsigned n;

	CU(cuModuleGetFunctionCount(&n, m));
	CU(cuModuleEnumerateFunctions(f, n + 2, m));
	qsort(f, n, sizeof(*f), by_name);
	for (unsigned i = 0; i < n; i++) {
		CU(cuFuncGetName(&name, f[i]));
		note(c, "has %s", name);
		for (unsigned k = 0; k < KERNELS; k++)
			if (!strcmp(kernels[k].name, name))
				r.f[k] = f[i];
	}
	all_kernels(&r, "enumerated", PARAMS);
	CU(cuModuleUnload(m));
	end_run(&r);
}

/* The driver may give the same handles again, for code that is another. */
static void again_and_again(struct conform *c)
{
	struct run r = begin_run(c);
	void *plain = read_file(IMAGE("text.ptx")), *image = read_file(IMAGE("sm90.cubin"));
	CUmodule m;

	for (uint32_t i = 0; i < 40; i++) {
		CU(cuModuleLoadData(&m, i % 3 ? image : plain));
		CU(cuModuleGetFunction(&r.f[STEP], m, "step"));
		CU(cuModuleGetFunction(&r.f[BEYOND], m, "beyond"));
		one(&r, STEP, i, i & 1 ? EXTRA : PARAMS);
		one(&r, BEYOND, i, PARAMS);
		CU(cuStreamSynchronize(r.s));
		CU(cuModuleUnload(m));
	}
	note_out(&r, "in the end");
	note(c, "unloaded twice: error %d", cu.cuModuleUnload(m));
	note(c, "no such function: error %d", cu.cuModuleGetFunction(&r.f[STEP], m, "step"));
	free(plain);
	free(image);
	end_run(&r);
}

#define THREADS 4

struct thread {
	pthread_t id;
	struct run r;
	CUcontext ctx;
	uint64_t digest;
};

static void *load_and_unload(void *arg)
{
	struct thread *t = arg;
	uint32_t words[WORDS];
	CUmodule m;

	CU(cuCtxSetCurrent(t->ctx));
	for (uint32_t i = 0; i < 12; i++) {
		m = load_module(i & 1 ? IMAGE("text.ptx") : IMAGE("sm90.cubin"));
		for (unsigned k = 0; k < KERNELS; k++)
			CU(cuModuleGetFunction(&t->r.f[k], m, kernels[k].name));
		for (unsigned k = 0; k < KERNELS; k++)
			one(&t->r, k, i, i % 3 ? PARAMS : EXTRA);
		CU(cuStreamSynchronize(t->r.s));
		CU(cuModuleUnload(m));
	}
	CU(cuMemcpyDtoHAsync_v2(words, t->r.out, BYTES, t->r.s));
	CU(cuStreamSynchronize(t->r.s));
	t->digest = digest(words, BYTES);
	return NULL;
}

static void threads(struct conform *c)
{
	struct thread t[THREADS];

	for (int i = 0; i < THREADS; i++) {
		t[i] = (struct thread){.r = begin_run(c), .ctx = c->ctx};
		if (pthread_create(&t[i].id, NULL, load_and_unload, &t[i]))
			die("no thread");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i].id, NULL);
		note(c, "%016llx", (unsigned long long)t[i].digest);
		end_run(&t[i].r);
	}
}

/* With a context ends what was loaded there; the next one gets its own. */
static void contexts(struct conform *c)
{
	CUcontext ctx;

	for (int i = 0; i < 6; i++) {
		CU(cuCtxCreate_v2(&ctx, 0, c->dev));
		run_module(c, "in a context", load_module(IMAGE("sm90.cubin")), false);
		load_module(i & 1 ? IMAGE("all.fatbin") : IMAGE("text.ptx"));
		CU(cuCtxDestroy_v2(ctx));
	}
	CU(cuCtxSetCurrent(c->ctx));
}

static void linked(struct conform *c)
{
	char *text = read_file(IMAGE("text.ptx"));
	CUlinkState state;
	CUmodule m;
	void *cubin;
	size_t size;

	CU(cuLinkCreate_v2(0, NULL, NULL, &state));
	CU(cuLinkAddData_v2(state, 1, text, strlen(text) + 1, "text", 0, NULL, NULL));
	CU(cuLinkComplete(state, &cubin, &size));
	CU(cuModuleLoadData(&m, cubin));
	CU(cuLinkDestroy(state));
	run_module(c, "linked", m, true);
	free(text);
}

/* --- kernels in graphs --- */

enum by { BY_OLD, BY_NEW, BY_ANY, BY_ANY_NEW, WAYS };

static struct cu_kernel_node node_of(struct call *l, CUfunction f, bool kernel, bool extra)
{
	struct cu_kernel_node k = {.f = kernel ? NULL : f,
		.grid = {l->grid[0], l->grid[1], l->grid[2]},
		.block = {32, 1, 1},
		.kernel = kernel ? (CUkernel)f : NULL};

	if (extra)
		k.extra = l->extra;
	else
		k.params = l->params;
	return k;
}

static CUgraphNode add_node(CUgraph graph, const struct cu_kernel_node *k, enum by by)
{
	struct cu_node any = {.kernel = *k};
	CUgraphNode node;

	if (by == BY_OLD)
		CU(cuGraphAddKernelNode(&node, graph, NULL, 0, k));
	else if (by == BY_NEW)
		CU(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, k));
	else if (by == BY_ANY)
		CU(cuGraphAddNode(&node, graph, NULL, 0, &any));
	else
		CU(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &any));
	return node;
}

static void set_node(CUgraphNode node, const struct cu_kernel_node *k, enum by by)
{
	struct cu_node any = {.kernel = *k};

	if (by == BY_OLD)
		CU(cuGraphKernelNodeSetParams(node, k));
	else if (by == BY_NEW)
		CU(cuGraphKernelNodeSetParams_v2(node, k));
	else
		CU(cuGraphNodeSetParams(node, &any));
}

static void set_exec(CUgraphExec exec, CUgraphNode node, const struct cu_kernel_node *k, enum by by)
{
	struct cu_node any = {.kernel = *k};

	if (by == BY_OLD)
		CU(cuGraphExecKernelNodeSetParams(exec, node, k));
	else if (by == BY_NEW)
		CU(cuGraphExecKernelNodeSetParams_v2(exec, node, k));
	else
		CU(cuGraphExecNodeSetParams(exec, node, &any));
}

static void launch_graph(CUgraph graph, CUstream s)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, s));
	CU(cuStreamSynchronize(s));
	CU(cuGraphExecDestroy(exec));
}

/* A node of one kernel that is set anew, in the graph and in what was made of it, with its own
 * parameters as the driver tells them, and with others. */
static void one_node(struct run *r, unsigned kernel, enum by by, bool handle, bool extra)
{
	struct cu_kernel_node k;
	struct call l[3];
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	for (uint32_t n = 0; n < 3; n++)
		fill_in(&l[n], r->out, kernel, n);
	CU(cuGraphCreate(&graph, 0));
	k = node_of(&l[0], r->f[kernel], handle && by != BY_OLD, extra);
	node = add_node(graph, &k, by);
	launch_graph(graph, r->s);
	CU(cuGraphKernelNodeGetParams_v2(node, &k));
	add_node(graph, &k, by);
	launch_graph(graph, r->s);
	k = node_of(&l[1], r->f[kernel], handle && by != BY_OLD, extra);
	set_node(node, &k, by);
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, r->s));
	k = node_of(&l[2], r->f[kernel], handle && by != BY_OLD, extra);
	set_exec(exec, node, &k, by);
	CU(cuGraphLaunch(exec, r->s));
	CU(cuStreamSynchronize(r->s));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

/* The function of a node, of which the program has but a kernel. */
static void captured_kernel(struct run *r)
{
	struct cu_kernel_node k;
	CUgraphNode node;
	CUgraph graph;
	size_t n = 1;
	struct call l;

	CU(cuStreamBeginCapture_v2(r->s, CU_CAPTURE_RELAXED));
	one(r, STEP, 0, PARAMS);
	CU(cuStreamEndCapture(r->s, &graph));
	CU(cuGraphGetNodes(graph, &node, &n));
	CU(cuGraphKernelNodeGetParams_v2(node, &k));
	fill_in(&l, r->out, STEP, 0);
	launch_call(&l, k.f ? k.f : (CUfunction)k.kernel, r->s, EXTRA);
	launch_graph(graph, r->s);
	CU(cuGraphDestroy(graph));
}

static void nodes(struct conform *c)
{
	struct run r = begin_run(c);
	void *image = read_file(IMAGE("sm90.cubin"));
	CUmodule m = load_module(IMAGE("all.fatbin"));
	CUlibrary l;

	functions_of(&r, m, false);
	for (enum by by = 0; by < WAYS; by++)
		for (unsigned k = 0; k < KERNELS; k++)
			for (int extra = 0; extra < 2; extra++)
				one_node(&r, k, by, false, extra);
	note_out(&r, "functions");
	CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
	for (unsigned k = 0; k < KERNELS; k++)
		CU(cuLibraryGetKernel((CUkernel *)&r.f[k], l, kernels[k].name));
	for (enum by by = 0; by < WAYS; by++)
		for (unsigned k = 0; k < KERNELS; k++)
			one_node(&r, k, by, true, false);
	note_out(&r, "kernels");
	captured_kernel(&r);
	note_out(&r, "captured");
	CU(cuModuleUnload(m));
	CU(cuLibraryUnload(l));
	free(image);
	end_run(&r);
}

static void captures(struct conform *c)
{
	struct run r = begin_run(c);
	CUmodule m = load_module(IMAGE("sm90.cubin"));
	CUgraph graph, clone;

	functions_of(&r, m, false);
	for (enum form form = 0; form < FORMS; form++) {
		CU(cuStreamBeginCapture_v2(r.s, CU_CAPTURE_RELAXED));
		for (unsigned k = 0; k < KERNELS; k++)
			one(&r, k, 1, form);
		CU(cuStreamEndCapture(r.s, &graph));
		launch_graph(graph, r.s);
		CU(cuGraphClone(&clone, graph));
		CU(cuGraphDestroy(graph));
		launch_graph(clone, r.s);
		CU(cuGraphDestroy(clone));
		note_out(&r, form_name[form]);
	}
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
}

/* --- what cannot be loaded --- */

static void note_log(struct conform *c, const void *image)
{
	char log[64] = "";
	int options[] = {6, 5};
	void *values[] = {(void *)sizeof(log), log};
	CUmodule m;

	note(c, "with a log: error %d", cu.cuModuleLoadDataEx(&m, image, 2, options, values));
	note(c, "log: %zu bytes: %s", (size_t)values[0], log);
}

static void refused(struct conform *c)
{
	static const char garbage[4096] = "no image at all";
	CUmodule m;
	CUlibrary l;

	note(c, "garbage: error %d", cu.cuModuleLoadData(&m, garbage));
	note(c, "nothing: error %d", cu.cuModuleLoadData(&m, NULL));
	note(c, "nowhere: error %d", cu.cuModuleLoadData(NULL, garbage));
	note(c, "no file: error %d", cu.cuModuleLoad(&m, IMAGE("none")));
	note(c, "not one: error %d", cu.cuModuleLoad(&m, IMAGE("guard.cu")));
	note(c, "library: error %d",
		cu.cuLibraryLoadData(&l, garbage, NULL, NULL, 0, NULL, NULL, 0));
	note(c, "its file: error %d",
		cu.cuLibraryLoadFromFile(&l, IMAGE("none"), NULL, NULL, 0, NULL, NULL, 0));
	note_log(c, garbage);
}

/* Functions of code that is gone, whose handles may be those of others now, unseen. */
static void same_handles(struct conform *c, bool context)
{
	fm_cu_result (*function)(CUfunction *, CUmodule, const char *) = own("cuModuleGetFunction");
	CUcontext ctx;
	struct run r;
	CUmodule m;

	if (context)
		CU(cuCtxCreate_v2(&ctx, 0, c->dev));
	r = begin_run(c);
	m = load_module(IMAGE("sm90.cubin"));
	for (unsigned i = 0; i < KERNELS && function; i++)
		function(&r.f[i], m, kernels[i].name);
	all_kernels(&r, "the same handles", PARAMS);
	if (!context)
		CU(cuModuleUnload(m));
	end_run(&r);
	if (context)
		CU(cuCtxDestroy_v2(ctx));
	CU(cuCtxSetCurrent(c->ctx));
}

/* The driver takes the program's image alone, and says what it says of that. */
static void ours_refused(struct conform *c)
{
	static const char garbage[4096] = "no image at all";
	fake_cuda_refuse_fn *refuse;
	void *image = read_file(IMAGE("text.fatbin"));
	CUlibrary l;

	*(void **)&refuse = dlsym(driver_handle(), "fake_cuda_refuse");
	refuses = refuse;
	if (refuse)
		refuse(FAKE_CUDA_GUARDED, true);
	run_module(c, "options", load_with_options(c, image), false);
	run_module(c, "data", load_module(IMAGE("all.fatbin")), false);
	CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
	run_library(c, "library", l);
	CU(cuLibraryUnload(l));
	note_log(c, garbage);
	for (int i = 0; i < 80; i++) {
		refuses = refuse && (i % 40 < 12 || 0x9e3779b1u >> i % 32 & 1);
		if (refuse)
			refuse(FAKE_CUDA_GUARDED, refuses);
		same_handles(c, i >= 40);
	}
	refuses = false;
	free(image);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"forms", forms},
		{"buffers", buffers},
		{"modules", modules},
		{"libraries", libraries},
		{"unseen", unseen},
		{"enumerated", enumerated},
		{"again and again", again_and_again},
		{"threads", threads},
		{"contexts", contexts},
		{"linked", linked},
		{"nodes", nodes},
		{"captures", captures},
		{"refused", refused},
		{"ours refused", ours_refused},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
