/* SPDX-License-Identifier: Apache-2.0 */
/* The variants for per-thread default streams, and the table of all entry points. */
#include "fake.h"
#include <string.h>

#define NOTHING(symbol, base, since, params)
#define PER_THREAD(symbol, base, since, suffix, params, args) \
	fm_cu_result symbol##suffix params                    \
	{                                                     \
		fm_cu_result rc;                              \
		bool was = fk_self.per_thread;                \
                                                              \
		fk_self.per_thread = true;                    \
		rc = symbol args;                             \
		fk_self.per_thread = was;                     \
		return rc;                                    \
	}
CUDA_API(NOTHING, PER_THREAD)

static fm_cu_result newer(void)
{
	return 14000;
}

static fm_cu_result novel(void)
{
	return 14001;
}

static const struct entry {
	const char *symbol, *clone, *base;
	int since;
	void *legacy, *per_thread;
} entries[] = {
#define ENTRY(symbol, base, since, params) \
	{#symbol, NULL, #base, since, (void *)symbol, (void *)symbol},
#define ENTRY_BOTH(symbol, base, since, suffix, params, args) \
	{#symbol, #symbol #suffix, #base, since, (void *)symbol, (void *)symbol##suffix},
	CUDA_API(ENTRY, ENTRY_BOTH)
	/* The one symbol with two names. */
	{NULL, NULL, "cuGraphInstantiate", 12000, (void *)cuGraphInstantiateWithFlags,
		(void *)cuGraphInstantiateWithFlags},
	/* What nobody has heard of yet: another form of a known call, and a call of its own. */
	{"cuLaunchKernel_v14", NULL, "cuLaunchKernel", 14000, (void *)newer, (void *)newer},
	{"cuFermataNovelty", NULL, "cuFermataNovelty", 14000, (void *)novel, (void *)novel},
};

/* As the driver has it, not as whoever was loaded before. */
void *fake_cuda_own(const char *symbol)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		if (entries[i].symbol && !strcmp(entries[i].symbol, symbol))
			return entries[i].legacy;
		if (entries[i].clone && !strcmp(entries[i].clone, symbol))
			return entries[i].per_thread;
	}
	return NULL;
}

/* CUdriverProcAddressQueryResult */
enum { FOUND, NO_SUCH, TOO_OLD };

fm_cu_result cuGetProcAddress_v2(
	const char *name, void **fn, int version, uint64_t flags, int *status)
{
	int newest, found = NO_SUCH, since = 0;

	if (!name || !fn || flags > CU_PROC_PER_THREAD)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(cuDriverGetVersion(&newest));
	*fn = NULL;
	if (version > newest)
		return FM_CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		const struct entry *e = &entries[i];
		int from = e->since;

		if ((flags & CU_PROC_PER_THREAD) && e->per_thread != e->legacy && from < 7000)
			from = 7000; /* when default streams of threads came */
		if (strcmp(e->base, name) || from > newest)
			continue;
		if (from > version) {
			found = found == FOUND ? FOUND : TOO_OLD;
		} else if (from > since) {
			found = FOUND;
			since = from;
			*fn = flags & CU_PROC_PER_THREAD ? e->per_thread : e->legacy;
		}
	}
	if (status)
		*status = found;
	return *fn ? FM_CU_SUCCESS : CU_NOT_FOUND;
}

fm_cu_result cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(name, fn, version, flags, NULL);
}
