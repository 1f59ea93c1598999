/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AscendCL, for the shim and for the commands.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any.
 */
#pragma once
#include "api/own.h"
#include "types.h"
#include <stdbool.h>

/* Where the functions are: X(name). The newer libraries have parts of the first. */
#define FM_ACL_LIBRARY "libascendcl.so"
#define FM_ACL_PARTS(X)            \
	X(FM_ACL_LIBRARY)          \
	X("libacl_rt.so")          \
	X("libacl_mdl.so")         \
	X("libacl_op_executor.so") \
	X("libacl_op_compiler.so") \
	X("libacl_cblas.so")
/* And the operators, of which a program may have several. */
#define FM_ACL_OPERATORS(X)          \
	X("libopapi.so")             \
	X("libopapi_math.so")        \
	X("libopapi_nn.so")          \
	X("libopapi_cv.so")          \
	X("libopapi_transformer.so") \
	X("libopapi_legacy.so")      \
	X("libaclnn_ops_infer.so")   \
	X("libaclnn_ops_train.so")   \
	X("libaclnn_math.so")        \
	X("libaclnn_sparse.so")      \
	X("libaclnn_fft.so")         \
	X("libaclnn_rand.so")        \
	X("libcust_opapi.so")

extern const struct fm_owns fm_acl_owns;
/* The same text for the same device in every process. */
void fm_acl_device_key(const struct fm_acl_driver *acl, int32_t device, char *key, size_t size);
