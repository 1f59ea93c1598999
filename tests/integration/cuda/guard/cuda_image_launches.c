/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of images launched in every form, with buffers of every kind, from graphs built and
 * captured. Where FERMATA_GUARDIAN=1 asks for images to be rewritten, the driver itself is asked
 * whether it was given them so; what is noted is the same as without.
 */
#include "cuda_images.h"

static const char *const form_name[] = {
	"params", "extra", "config", "config, extra", "cooperative", "several", "old"};

/* The driver is asked whether launches could begin early; CUDA_IMAGES_EARLY says whether they
 * should. */
static unsigned early(void)
{
	fake_cuda_early_fn *launches;

	*(void **)&launches = dlsym(driver_handle(), "fake_cuda_early");
	return launches ? launches() : 0;
}

static void check_early(unsigned before)
{
	const char *wanted = getenv("CUDA_IMAGES_EARLY");
	unsigned n = early() - before;

	if (!wanted || (n > 0) == (*wanted == '1'))
		return;
	fprintf(stderr, "%u launches could begin early\n", n);
	exit(1);
}

static void forms(struct conform *c)
{
	unsigned before = early();
	struct run r = begin_run(c);
	CUmodule m = load_module(IMAGE("sm90.cubin"));

	functions_of(&r, m, false);
	for (enum form form = 0; form < FORMS; form++)
		all_kernels(&r, form_name[form], form);
	check_early(before);
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
}

/* A buffer that is shorter than the parameters are, or longer, by what would align them or by more;
 * or none where there is nothing in it. */
static void buffers(struct conform *c)
{
	struct run r = begin_run(c);
	CUmodule m = load_module(IMAGE("sm90.cubin"));
	struct call l;

	functions_of(&r, m, false);
	fill_in(&l, r.out, ODD, 1);
	for (l.size = 0; l.size < 18; l.size++)
		note(c, "%zu bytes: error %d", l.size,
			cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, NULL, l.extra));
	l.size = 15;
	CU(cuLaunchKernel(r.f[TICK], 3, 1, 1, 32, 1, 1, 0, r.s, NULL, NULL));
	note_out(&r, "once");
	note(c, "both: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, l.params, l.extra));
	note(c, "none: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, NULL, NULL));
	l.extra[2] = NULL;
	note(c, "no size: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, NULL, l.extra));
	l.extra[0] = NULL;
	note(c, "neither: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, NULL, l.extra));
	l.extra[0] = (void *)9;
	note(c, "unknown: error %d",
		cu.cuLaunchKernel(r.f[ODD], 1, 1, 1, 32, 1, 1, 0, r.s, NULL, l.extra));
	note_out(&r, "no more than that");
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
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
	unsigned before = early();
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
	check_early(before);
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"forms", forms},
		{"buffers", buffers},
		{"nodes", nodes},
		{"captures", captures},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
