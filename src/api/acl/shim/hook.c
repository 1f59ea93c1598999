/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the libraries' functions: it is linked to them (our exports come
 * first), or it uses dlsym. Either gives it our functions for the calls of the table.
 */
#include "acl.h"

const char *const fm_look_up_prefixes[] = {
	"aclrt", "aclnn", "aclmdl", "aclop", "aclblas", "acl", NULL};
_Atomic(void *) fm_calls_next[FM_ACL_CALLS];

static const struct fm_calls_call calls[FM_ACL_CALLS] = {
#define ON_other(kind, symbol, ...) FM_CALLS_CALL(symbol)
#include "api/acl/calls.def"
};

static struct fm_acl_driver driver;
static const struct fm_calls_own own[] = {
#define ENTRY(name, symbol, params) {symbol, offsetof(struct fm_acl_driver, name)},
	FM_ACL_DRIVER(ENTRY)
#undef ENTRY
		{"aclrtGetSocName", offsetof(struct fm_acl_driver, soc_name)},
};

static bool whole(const void *table)
{
	return fm_acl_driver_whole(table);
}

static aclError not_there(void)
{
	return FM_ACL_UNINITIALIZED;
}

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

const struct fm_calls fm_calls = {
	.libraries = libraries,
	.n_libraries = FM_ARRAY_LEN(libraries),
	.calls = calls,
	.n = FM_ACL_CALLS,
	.own = own,
	.n_own = FM_ARRAY_LEN(own),
	.not_there = (void *)not_there,
	.driver = &driver,
	.whole = whole,
	.several = true,
};
