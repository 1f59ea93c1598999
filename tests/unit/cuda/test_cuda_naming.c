/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table of CUDA's calls that is given an address of device memory, or nodes that
 * have some, waits while managed memory is out; or it is listed here, with the reason. */
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
	const char *kind, *symbol, *facts, *params;
};

static const struct row rows[] = {
#define TEXT(...) #__VA_ARGS__
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	{#kind, #symbol, TEXT(__VA_ARGS__), TEXT params},
#include "api/cuda/calls.def"
};

/* Types that are addresses, or say some. */
static const char *const addresses[] = {"(CUdeviceptr", "CUDA_MEMCPY", "CUDA_MEMSET_NODE_PARAMS",
	"CUDA_KERNEL_NODE_PARAMS", "CUgraphNodeParams_st", "fm_cu_words_node", "fm_cu_mem_op",
	"CUmemDecompressParams_st", "(CUgraph, child)", "(CUgraphExec, exec), (CUgraph, graph)"};

/* What makes a row wait (calls.def). */
static const char *const waits[] = {
	"NAMES", "NAMES_BY_HAND", "WORDS_NODE", "KERNEL_NODE", "OLD_KERNEL_NODE", "OTHER_NODE"};

/* Kinds, or symbols by their beginning, and why they do not wait. */
static const struct {
	const char *kind, *symbol, *why;
} others[] = {
	{"work", "", "waits as a command"},
	{"alloc", "", "makes memory, or maps the program's own"},
	{"release", "", "ends memory: ours is ended by us, and waits there"},
	{"load", "", "gives an address"},
	{"code", "cuModuleGetGlobal", "gives an address"},
	{"code", "cuLibraryGetGlobal", "gives an address"},
	{"order", "cuStreamWaitValue", "pins the word before"},
	{"order", "cuStreamWriteValue", "pins the word before"},
	{"order", "cuStreamBatchMemOp", "pins the words before"},
	{"order", "cuGLMapBufferObject", "gives an address"},
	{"order", "cuMemDiscardBatchAsync", "of unified memory alone"},
	{"order", "cuStreamAttachMemAsync", "of unified memory alone"},
	{"own", "cuPointerGetAttribute", "answered by us; asks the driver behind the lock"},
	{"own", "cuPointerSetAttribute", "pins before"},
	{"own", "cuMemGetAddressRange_v2", "answered by us"},
	{"own", "cuIpcGetMemHandle", "pins before"},
	{"own", "cuMulticastBindAddr", "pins before"},
	{"own", "cuMemSetAccess",
		"waits by itself, for as long as it changes what is mapped (vmm.c)"},
	{"own", "cuMemGetHandleForAddressRange", "pins before"},
};

static bool names_addresses(const struct row *r)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(addresses); i++)
		if (strstr(r->params, addresses[i]))
			return true;
	return false;
}

/* The first fact. */
static bool does_wait(const struct row *r)
{
	size_t n = strcspn(r->facts, ", ");

	for (size_t i = 0; i < FM_ARRAY_LEN(waits); i++)
		if (strlen(waits[i]) == n && !strncmp(r->facts, waits[i], n))
			return true;
	return false;
}

static void no_call_that_names_addresses_is_missing(void **state)
{
	bool used[FM_ARRAY_LEN(others)] = {0};

	(void)state;
	for (const struct row *r = rows; r < rows + FM_ARRAY_LEN(rows); r++) {
		bool listed = false;

		if (!names_addresses(r) || does_wait(r))
			continue;
		for (size_t i = 0; i < FM_ARRAY_LEN(others); i++)
			if (!strcmp(r->kind, others[i].kind) &&
				!strncmp(r->symbol, others[i].symbol, strlen(others[i].symbol)))
				listed = used[i] = true;
		if (!listed)
			fail_msg("%s(%s) %s names addresses, and does not wait", r->kind, r->facts,
				r->symbol);
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(others); i++)
		if (!used[i])
			fail_msg("there is no row %s of the kind %s that needs this: %s",
				others[i].symbol, others[i].kind, others[i].why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_call_that_names_addresses_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
