/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that the fake CUDA driver's device launches: which are refused, and in what order they
 * run. */
#include "fake_world.h"

enum { BY_DEVICE = 4, TAIL = 1, FIRE = 2, MANY = 300 };

static const char text[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry graph_chunk(.param .u64 log, .param .u64 number)\n{\nret;\n}\n";
static const char launching[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".extern .func (.param .b32 r) cudaGraphLaunch(.param .b64 g, .param .b64 s);\n"
	".visible .entry graph_launches(.param .u64 graph, .param .u64 refused, .param .u32 n, "
	".param .u32 how)\n{\ncall (r), cudaGraphLaunch, (g, s);\nret;\n}\n"
	".visible .entry graph_meet(.param .u64 at, .param .u64 most)\n{\nret;\n}\n";

static uint64_t *mem; /* all that kernels touch: a log, how many were refused, and lists */
static CUfunction chunk, launches, beside;

static void load_linked(void)
{
	char path[] = "/tmp/test_fake_launches.XXXXXX";
	int fd = mkstemp(path);
	CUlinkState link;
	CUmodule module;
	void *image;
	size_t size;

	EXPECT(8, write(fd, "!<arch>\n", 8));
	close(fd);
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cuLinkAddData_v2(link, 1, (void *)(uintptr_t)launching, sizeof(launching), "launching",
		0, NULL, NULL));
	OK(cuLinkAddFile_v2(link, 4, path, 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &size));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	OK(unlink(path));
	OK(cuModuleGetFunction(&launches, module, "graph_launches"));
	OK(cuModuleGetFunction(&beside, module, "graph_meet"));
}

static void open_all(void)
{
	CUmodule module;
	CUdeviceptr d;

	world_open();
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&chunk, module, "graph_chunk"));
	EXPECT(218, cuModuleLoadData(&module, launching)); /* not linked */
	load_linked();
	OK(cuMemAlloc_v2(&d, 8 * 16384));
	OK(cuMemsetD8_v2(d, 0, 8 * 16384));
	OK(cuCtxSynchronize());
	mem = (uint64_t *)(uintptr_t)d; /* the fake's device has the host's memory */
}

#define LOG      mem
#define REFUSED  (mem + 5000)
#define LIST(of) (mem + 6000 + 400 * (of))

static void note(uint64_t number)
{
	void *params[] = {&mem, &number};

	OK(cuLaunchKernel(chunk, 1, 1, 1, 1, 1, 1, 0, w.s, params, NULL));
}

/* Of the list of that number. */
static void launch(unsigned list, uint32_t n, uint32_t how)
{
	uint64_t *from = LIST(list), *refused = REFUSED;
	void *params[] = {&from, &refused, &n, &how};

	OK(cuLaunchKernel(launches, 1, 1, 1, 1, 1, 1, 0, w.s, params, NULL));
}

static void begin(void)
{
	OK(cuStreamBeginCapture_v2(w.s, 2));
}

static CUgraphExec end(unsigned flags, bool upload)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuStreamEndCapture(w.s, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, flags));
	OK(cuGraphDestroy(graph));
	if (upload)
		OK(cuGraphUpload(exec, w.s));
	OK(cuStreamSynchronize(w.s));
	return exec;
}

/* Notes that number, and launches the list of that number, if n. */
static CUgraphExec graph(uint64_t number, uint32_t n, uint32_t how)
{
	begin();
	note(number);
	if (n)
		launch((unsigned)number, n, how);
	return end(BY_DEVICE, true);
}

/* By the host: launches that list. */
static void run(unsigned list, uint32_t n, uint32_t how)
{
	CUgraphExec first;

	begin();
	launch(list, n, how);
	first = end(0, false);
	OK(cuGraphLaunch(first, w.s));
	OK(cuStreamSynchronize(w.s));
	OK(cuGraphExecDestroy(first));
}

static void tails_in_order(void)
{
	open_all();
	LIST(1)[0] = (uintptr_t)graph(11, 0, 0);
	LIST(1)[1] = (uintptr_t)graph(12, 0, 0);
	LIST(0)[0] = (uintptr_t)graph(1, 2, TAIL);
	LIST(0)[1] = (uintptr_t)graph(2, 0, 0);
	run(0, 2, TAIL);
	EXPECT(4, LOG[0]);
	for (unsigned i = 0; i < 4; i++) /* those of a tail come before what was behind it */
		EXPECT(((unsigned[]){1, 11, 12, 2})[i], LOG[1 + i]);
	EXPECT(0, *REFUSED);
}

/* A tail comes when all has ended that was fired. */
static void what_is_fired_comes_before(void)
{
	open_all();
	LIST(0)[0] = (uintptr_t)graph(5, 0, 0);
	for (unsigned i = 0; i < 20; i++)
		LIST(3)[i] = (uintptr_t)graph(6, 0, 0);
	begin();
	launch(0, 1, TAIL);
	launch(3, 20, FIRE);
	LIST(4)[0] = (uintptr_t)end(BY_DEVICE, true);
	run(4, 1, TAIL);
	EXPECT(21, LOG[0]);
	EXPECT(5, LOG[21]);
}

static void one_launch_at_a_time(void)
{
	open_all();
	LIST(0)[0] = LIST(0)[1] = (uintptr_t)graph(1, 0, 0);
	run(0, 2, TAIL);
	EXPECT(1, LOG[0]);
	EXPECT(1, *REFUSED);
	run(0, 1, TAIL); /* it is over */
	EXPECT(2, LOG[0]);
	EXPECT(1, *REFUSED);
}

static void a_graph_is_its_own_tail_once(void)
{
	CUgraphExec again;

	open_all();
	begin();
	note(7);
	launch(7, 2, TAIL);
	again = end(BY_DEVICE, true);
	LIST(0)[0] = (uintptr_t)again;
	LIST(7)[0] = LIST(7)[1] = (uintptr_t)again;
	begin();
	launch(0, 1, TAIL);
	OK(cuGraphLaunch(end(0, false), w.s));
	while (__atomic_load_n(LOG, __ATOMIC_SEQ_CST) < 50)
		usleep(100);
	EXPECT(600, cuStreamQuery(w.s)); /* it goes on for ever */
	EXPECT(true, __atomic_load_n(REFUSED, __ATOMIC_SEQ_CST) + 2 >= 50);
}

static void so_many_and_no_more(void)
{
	open_all();
	for (unsigned i = 0; i < MANY; i++)
		LIST(0)[i] = (uintptr_t)graph(1, 0, 0);
	run(0, MANY, TAIL);
	EXPECT(255, LOG[0]);
	EXPECT(MANY - 255, *REFUSED);
	run(0, MANY, FIRE);
	EXPECT(255 + 120, LOG[0]);
	EXPECT(MANY - 255 + MANY - 120, *REFUSED);
}

static void only_what_is_uploaded(void)
{
	struct cu_update how;
	CUgraphExec one;
	CUgraph g;

	open_all();
	begin();
	note(1);
	OK(cuStreamEndCapture(w.s, &g));
	OK(cuGraphInstantiateWithFlags(&one, g, BY_DEVICE));
	LIST(0)[0] = (uintptr_t)one;
	run(0, 1, TAIL);
	EXPECT(1, *REFUSED);
	OK(cuGraphUpload(one, w.s));
	OK(cuStreamSynchronize(w.s));
	run(0, 1, TAIL);
	OK(cuGraphExecUpdate_v2(one, g, &how));
	run(0, 1, TAIL);
	EXPECT(2, *REFUSED);         /* it was changed since */
	OK(cuGraphLaunch(one, w.s)); /* which does that, too */
	OK(cuStreamSynchronize(w.s));
	run(0, 1, TAIL);
	EXPECT(3, LOG[0]);
	EXPECT(2, *REFUSED);
}

/* The driver does not see that, and the context is lost. */
static void a_graph_for_the_host_alone(void)
{
	CUgraphExec first;

	open_all();
	begin();
	note(1);
	LIST(0)[0] = (uintptr_t)end(0, true);
	begin();
	launch(0, 1, TAIL);
	first = end(0, false);
	OK(cuGraphLaunch(first, w.s));
	EXPECT(700, cuStreamSynchronize(w.s));
}

/* Of its module others may be launched. */
static void in_no_graph(void)
{
	uint64_t *from, *refused, at = 0, most = 0;
	uint64_t *to = &at;
	void *params[] = {&to, &most};
	uint32_t n = 1, how = TAIL;

	open_all();
	from = LIST(0);
	refused = REFUSED;
	LIST(0)[0] = (uintptr_t)graph(1, 0, TAIL);
	EXPECT(801, cuLaunchKernel(launches, 1, 1, 1, 1, 1, 1, 0, w.s,
			    (void *[]){&from, &refused, &n, &how}, NULL));
	OK(cuLaunchKernel(beside, 1, 1, 1, 1, 1, 1, 0, w.s, params, NULL));
	OK(cuStreamSynchronize(w.s));
	EXPECT(0, *REFUSED);
	EXPECT(0, LOG[0]);
	EXPECT(1, at);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void host_functions_are_none(void)
{
	struct cu_instantiate how = {.flags = BY_DEVICE};
	CUgraphExec exec;
	CUgraph g;
	int type;

	open_all();
	begin();
	note(1);
	OK(cuLaunchHostFunc(w.s, nothing, NULL));
	OK(cuStreamEndCapture(w.s, &g));
	EXPECT(1, cuGraphInstantiateWithParams(&exec, g, &how));
	EXPECT(3, how.result);
	OK(cuGraphNodeGetType(how.failed, &type));
	EXPECT(3, type);
}

static void destroyed(void)
{
	open_all();
	LIST(0)[0] = (uintptr_t)graph(1, 0, 0);
	OK(cuGraphExecDestroy((CUgraphExec)(uintptr_t)LIST(0)[0]));
	run(0, 1, TAIL);
}

CASE(tails_in_order)
CASE(what_is_fired_comes_before)
CASE(one_launch_at_a_time)
CASE(a_graph_is_its_own_tail_once)
CASE(so_many_and_no_more)
CASE(only_what_is_uploaded)
CASE(a_graph_for_the_host_alone)
CASE(in_no_graph)
CASE(host_functions_are_none)

static void test_what_is_no_more_ends_the_process(void **state)
{
	(void)state;
	world_dies(destroyed, "is no more");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tails_in_order),
		cmocka_unit_test(test_what_is_fired_comes_before),
		cmocka_unit_test(test_one_launch_at_a_time),
		cmocka_unit_test(test_a_graph_is_its_own_tail_once),
		cmocka_unit_test(test_so_many_and_no_more),
		cmocka_unit_test(test_only_what_is_uploaded),
		cmocka_unit_test(test_a_graph_for_the_host_alone),
		cmocka_unit_test(test_in_no_graph),
		cmocka_unit_test(test_host_functions_are_none),
		cmocka_unit_test(test_what_is_no_more_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
