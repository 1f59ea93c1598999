/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of libopapi over AscendCL, as the real ones are: the first call plans, and the second
 * one puts what was planned into a stream, by AscendCL's own functions.
 */
#define ACL_EXPORT __attribute__((visibility("default")))
#include "../../acl.h"
#include <stdlib.h>

struct aclTensor {
	void *data;
	size_t n; /* words */
};

struct aclOpExecutor {
	struct aclTensor tensor;
};

aclTensor *aclCreateTensor(const int64_t *dims, uint64_t n, int type, const int64_t *stride,
	int64_t offset, int format, const int64_t *storage, uint64_t m, void *data)
{
	aclTensor *t = malloc(sizeof(*t));

	*t = (aclTensor){data, 1};
	for (uint64_t i = 0; i < n; i++)
		t->n *= (size_t)dims[i];
	return t;
}

aclError aclDestroyTensor(const aclTensor *tensor)
{
	free((void *)tensor);
	return ACL_SUCCESS;
}

static aclError plan(aclTensor *self, uint64_t *size, aclOpExecutor **executor)
{
	if (!self || !size || !executor)
		return 161001; /* ACLNN_ERR_PARAM_NULLPTR */
	*size = 0;
	*executor = malloc(sizeof(**executor));
	(*executor)->tensor = *self;
	return ACL_SUCCESS;
}

static aclError fill(aclOpExecutor *executor, uint32_t value, aclrtStream stream)
{
	struct aclTensor t = executor->tensor;

	free(executor);
	return aclrtMemsetD32Async(t.data, 4 * t.n, value, t.n, stream);
}

aclError aclnnInplaceZeroGetWorkspaceSize(aclTensor *self, uint64_t *size, aclOpExecutor **executor)
{
	return plan(self, size, executor);
}

aclError aclnnInplaceZero(
	void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)
{
	return fill(executor, 0, stream);
}

aclError aclnnInplaceOneGetWorkspaceSize(aclTensor *self, uint64_t *size, aclOpExecutor **executor)
{
	return plan(self, size, executor);
}

aclError aclnnInplaceOne(
	void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)
{
	return fill(executor, 1, stream);
}
