/* SPDX-License-Identifier: Apache-2.0 */
/* AscendCL's functions by either way on which programs get at them: linked, or by dlsym. */
#pragma once
#define ACL_EXPORT __attribute__((weak)) extern
#include "../../acl.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct acl_api {
#define ACL_MEMBER(symbol, params) aclError(*symbol) params;
	ACL_API(ACL_MEMBER)
	ACL_OPERATORS(ACL_MEMBER)
	aclTensor *(*aclCreateTensor)(const int64_t *dims, uint64_t n, int type,
		const int64_t *stride, int64_t offset, int format, const int64_t *storage,
		uint64_t m, void *data);
};

static struct acl_api acl;

static inline void *acl_handle(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return handle;
}

static inline void acl_linked(void)
{
#define ACL_LINKED(symbol, params) acl.symbol = symbol;
	ACL_API(ACL_LINKED)
	ACL_OPERATORS(ACL_LINKED)
	acl.aclCreateTensor = aclCreateTensor;
}

static inline void acl_dlsym(const char *operators)
{
	void *handle = acl_handle("libascendcl.so");

#define ACL_FOUND(symbol, params) *(void **)&acl.symbol = dlsym(handle, #symbol);
	ACL_API(ACL_FOUND)
	handle = acl_handle(operators);
	ACL_OPERATORS(ACL_FOUND)
	*(void **)&acl.aclCreateTensor = dlsym(handle, "aclCreateTensor");
}

static inline void acl_load(const char *via)
{
	if (!strcmp(via, "link"))
		acl_linked();
	else
		acl_dlsym("libopapi.so");
}
