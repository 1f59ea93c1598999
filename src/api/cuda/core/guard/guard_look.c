/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a control block. A copy would do as well, but the copies of all streams of a context
 * share few channels. In those, a copy of the program's may wait for a stream that goes on only
 * when the block has been read. A kernel of ours, in a stream of ours, waits for nothing.
 */
#include "guard_internal.h"
#include <stddef.h>

static const char image[] = ".version 7.0\n"
			    ".target sm_80\n"
			    ".address_size 64\n"
			    ".visible .entry fermata_look(.param .u64 from, .param .u64 to)\n"
			    "{\n"
			    ".reg .b64 %at, %to, %a, %b, %c;\n"
			    "ld.param.u64 %at, [from];\n"
			    "ld.param.u64 %to, [to];\n"
			    "ld.volatile.global.u64 %a, [%at];\n"
			    "ld.volatile.global.u64 %b, [%at+8];\n"
			    "ld.volatile.global.u64 %c, [%at+48];\n"
			    "st.volatile.global.u64 [%to], %a;\n"
			    "st.volatile.global.u64 [%to+8], %b;\n"
			    "st.volatile.global.u64 [%to+48], %c;\n"
			    "membar.sys;\n"
			    "ret;\n"
			    "}\n";

CUfunction fm_cu_look_load(const struct fm_cu_driver *cu)
{
	CUmodule module;
	CUfunction f;

	if (!cu->module_load || !cu->module_function || cu->module_load(&module, image) ||
		cu->module_function(&f, module, "fermata_look"))
		return NULL;
	return f;
}

bool fm_cu_look(struct fm_cu_guard *g)
{
	const struct fm_cu_launch_config config = {
		.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = g->control};
	CUdeviceptr from = fm_cu_guard_block(g),
		    to = g->shared_at + offsetof(struct fm_cu_shared, head);
	void *params[] = {&from, &to};

	if (!g->look)
		return !g->cu->copy_to_host(&g->shared->head, from, FM_CU_BLOCK_HEAD, g->control);
	return !g->cu->launch(&config, g->look, params, NULL);
}

/* Tries the kernel on a block that is all zeros. Its code may be loaded only at its first launch,
 * and a driver may wait for the device to load code. So this must not happen later, when something
 * is stopped. */
void fm_cu_look_try(struct fm_cu_guard *g)
{
	if (!g->look)
		return;
	g->shared->head.count = 1;
	g->shared->head.first = g->shared->head.left = 1;
	if (!fm_cu_look(g) || g->cu->stream_synchronize(g->control) || g->shared->head.count ||
		g->shared->head.first || g->shared->head.left)
		g->look = NULL;
	g->shared->head.count = 0;
	g->shared->head.first = g->shared->head.left = 0;
}
