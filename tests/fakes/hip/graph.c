/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and graphs. */
#include "fake.h"

hipError_t hipThreadExchangeStreamCaptureMode(int *mode)
{
	FH_CALL(cuThreadExchangeStreamCaptureMode(mode));
}

hipError_t hipStreamBeginCapture(hipStream_t stream, int mode)
{
	FH_CALL(cuStreamBeginCapture_v2(stream, mode));
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
	FH_CALL(cuStreamEndCapture(stream, graph));
}

hipError_t hipStreamIsCapturing(hipStream_t stream, int *status)
{
	FH_CALL(cuStreamIsCapturing(stream, status));
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, int *status, unsigned long long *id,
	hipGraph_t *graph, const hipGraphNode_t **deps, size_t *n)
{
	FH_CALL(cuStreamGetCaptureInfo_v2(stream, status, (uint64_t *)id, graph, deps, n));
}

hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags)
{
	FH_CALL(cuGraphCreate(graph, flags));
}

hipError_t hipGraphDestroy(hipGraph_t graph)
{
	FH_CALL(cuGraphDestroy(graph));
}

hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph)
{
	FH_CALL(cuGraphClone(clone, graph));
}

hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *n)
{
	FH_CALL(cuGraphGetNodes(graph, nodes, n));
}

hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph,
	const hipGraphNode_t *deps, size_t n, hipGraph_t child)
{
	FH_CALL(cuGraphAddChildGraphNode(node, graph, deps, n, child));
}

hipError_t hipGraphInstantiate(
	hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node, char *log, size_t size)
{
	FH_CALL(cuGraphInstantiate_v2(exec, graph, node, log, size));
}

hipError_t hipGraphInstantiateWithFlags(
	hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags)
{
	FH_CALL(cuGraphInstantiateWithFlags(exec, graph, flags));
}

hipError_t hipGraphExecUpdate(
	hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t *node, int *result)
{
	struct cu_update update = {0};
	fm_cu_result rc;

	if (!node || !result)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	rc = fh_ready() ?: cuGraphExecUpdate_v2(exec, graph, &update);
	*node = update.failed;
	*result = update.result;
	return fh_done(rc);
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec)
{
	FH_CALL(cuGraphExecDestroy(exec));
}

hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream)
{
	FH_CALL(cuGraphUpload(exec, stream));
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
	FH_CALL(cuGraphLaunch(exec, stream));
}

HIP_GRAPH_API(FH_NOTHING, FH_SPT)
