/* SPDX-License-Identifier: Apache-2.0 */
#include "acl.h"

const char *const fm_look_up_prefixes[] = {
	"aclrt", "aclnn", "aclmdl", "aclop", "aclblas", "acl", NULL};

/* Each is a library of its own: what one of them has not, another one may. */
#define ONE(prefix_, ...)                                         \
	{                                                         \
		.prefix = prefix_, .names = (const char *const[]) \
		{                                                 \
			__VA_ARGS__, NULL                         \
		}                                                 \
	}
static struct fm_calls_library libraries[] = {
#define OPERATORS(name) ONE("aclnn", name),
#define PARTS(name)     ONE("acl", name),
	FM_ACL_OPERATORS(OPERATORS) FM_ACL_PARTS(PARTS)};

#define CALLS_NOT_THERE FM_ACL_UNINITIALIZED
#define CALLS_DRIVER    struct fm_acl_driver
#define CALLS_OWN       fm_acl_owns
#define CALLS_SEVERAL   true
#include "shim/calls/hook.h"
