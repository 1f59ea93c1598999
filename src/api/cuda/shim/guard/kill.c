/* SPDX-License-Identifier: Apache-2.0 */
#include "kill.h"
#include "code/cuda/image.h"
#include "guarded.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Atomic unsigned fm_cuda_kill_age;
_Atomic bool fm_cuda_kill_exported;

static struct {
	pthread_once_t once;
	struct fm_kill_list list;
	const char *why;
} the = {.once = PTHREAD_ONCE_INIT};

const char *fm_cuda_kill_not_text(enum fm_cuda_kill_not why)
{
	static const char *const texts[] = {
#define TEXT(id, text) [id] = text,
		FM_CUDA_KILL_NOT_MAP(TEXT)
#undef TEXT
	};

	return texts[why];
}

static void load(void)
{
	const char *path = secure_getenv("FERMATA_GUARDIAN_KILL");
	int rc = path && *path ? fm_kill_load(&the.list, path) : 0;

	the.why = !rc             ? NULL
		  : rc == -EACCES ? "list of others"
		  : rc == -EINVAL ? "list not understood"
		  : rc == -E2BIG  ? "list too large"
				  : "list not readable";
}

bool fm_cuda_kill_wished(const char **why)
{
	pthread_once(&the.once, load);
	*why = the.why;
	return the.list.n;
}

char *fm_cuda_kill_names(const char id[FM_IMAGE_ID])
{
	const struct fm_kill_launch *l;
	size_t n = fm_kill_find(&the.list, id, NULL, &l), size = 0;
	char *names, *to;

	for (size_t i = 0; i < n; i++)
		size += strlen(l[i].name) + 1;
	names = to = n ? malloc(size) : NULL;
	for (size_t i = 0; names && i < n; i++)
		if (!i || strcmp(l[i].name, l[i - 1].name))
			to += sprintf(to, "%s%s", i ? ":" : "", l[i].name);
	return names;
}

/* A pointer that the kernel does anything with but add to it cannot be compared with another one.
 * Nor can what it takes for a pointer, and the record for a value: of what is around that nothing
 * is known. */
static bool is_told(const struct fm_kill_launch *l, const struct fm_kernel *k)
{
	if (l->bytes != k->param_bytes || (l->at & ~k->bases))
		return false;
	for (unsigned i = 0; 8 * i < l->bytes; i++)
		if ((k->bases & ~l->at) >> i & 1 && l->word[i])
			return false;
	return true;
}

struct fm_cuda_kills fm_cuda_kills(const char id[FM_IMAGE_ID], const struct fm_kernel *k)
{
	struct fm_cuda_kills its = {0};

	if (k->kill != FM_KILL_ABLE)
		return its;
	its.n = fm_kill_find(&the.list, id, k->name, &its.first);
	for (size_t i = 0; i < its.n; i++)
		if (!is_told(&its.first[i], k))
			its.n = 0;
	return its;
}

/* --- launches --- */

/* Memory of the device's own, which nobody else reads while the kernel writes it. */
static bool is_private(CUdeviceptr at)
{
	enum {
		MEMORY_TYPE = 2,
		IS_MANAGED = 8,
		TYPE_DEVICE = 2
	}; /* CUpointer_attribute, CUmemorytype */
	static fm_cu_result (*_Atomic ask)(void *data, int attribute, CUdeviceptr p);
	fm_cu_result (*attribute)(void *data, int attribute, CUdeviceptr p) = atomic_load(&ask);
	unsigned type = 0, managed = 0;

	if (!attribute) {
		attribute = (fm_cu_result(*)(void *, int, CUdeviceptr))fm_cuda_symbol(
			"cuPointerGetAttribute");
		if (!attribute)
			return false;
		atomic_store(&ask, attribute);
	}
	return !attribute(&type, MEMORY_TYPE, at) && type == TYPE_DEVICE &&
	       !attribute(&managed, IS_MANAGED, at) && !managed;
}

/* What was found private last, by the thread: most launches repeat. */
#define KNOWN 16u
static _Thread_local struct {
	CUdeviceptr at;
	unsigned age;
} known[KNOWN];

static bool stays_private(CUdeviceptr at)
{
	unsigned age = atomic_load_explicit(&fm_cuda_kill_age, memory_order_relaxed) + 1;
	unsigned i = (unsigned)(at * UINT64_C(0x9e3779b97f4a7c15) >> 60) % KNOWN;

	if (known[i].at == at && known[i].age == age)
		return true;
	if (!is_private(at))
		return false;
	known[i].at = at;
	known[i].age = age;
	return true;
}

static bool all_private(const struct fm_kill_launch *l, const uint64_t *base)
{
	if (atomic_load_explicit(&fm_cuda_kill_exported, memory_order_relaxed))
		return false;
	for (unsigned i = 0; i < l->n_groups; i++)
		if (l->group[i].from < l->group[i].to && !stays_private(base[i]))
			return false;
	return true;
}

bool fm_cuda_may_kill(
	struct fm_cuda_kernel *k, const struct fm_cu_launch_config *c, const void *params)
{
	enum fm_cuda_kill_not why = FM_CUDA_KILL_UNKNOWN;
	uint64_t base[FM_KILL_WORDS];

	for (size_t i = 0; i < k->kills.n; i++) {
		const struct fm_kill_launch *l = &k->kills.first[i];
		enum fm_kill_match is =
			fm_kill_match(l, c->grid, c->block, c->shared, params, base);

		if (is == FM_KILL_SAME && all_private(l, base))
			return true;
		if (is != FM_KILL_OTHER)
			why = is == FM_KILL_SAME ? FM_CUDA_KILL_SHARED : FM_CUDA_KILL_POINTERS;
	}
	if (!(atomic_load_explicit(&k->kill_told, memory_order_relaxed) >> why & 1))
		fm_cuda_code_not_killed(k, why);
	return false;
}
