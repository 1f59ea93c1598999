/* SPDX-License-Identifier: Apache-2.0 */
#include "nvml.h"
#include "api/cuda/shim/hook.h"
#include "memory.h"
#include <dlfcn.h>
#include <pthread.h>

#define LIBRARY "libnvidia-ml.so.1"

enum { NVML_SUCCESS = 0, NVML_UNINITIALIZED = 1 };

typedef struct nvmlDevice_st *nvmlDevice_t;

struct fm_nvml_memory { /* nvmlMemory_t */
	unsigned long long total, left, used;
};

struct fm_nvml_memory_v2 { /* nvmlMemory_v2_t */
	unsigned version;
	unsigned long long total, reserved, left, used;
};
#define MEMORY_V2 ((unsigned)sizeof(struct fm_nvml_memory_v2) | 2u << 24)

EXPORT int nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, struct fm_nvml_memory *m);
EXPORT int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, struct fm_nvml_memory_v2 *m);

static const struct {
	const char *symbol, *absent;
	void *wrapper;
} ours[] = {
	{"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo" FM_CUDA_MARK,
		(void *)nvmlDeviceGetMemoryInfo},
	{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo_v2" FM_CUDA_MARK,
		(void *)nvmlDeviceGetMemoryInfo_v2},
};

/* The library, if the program has loaded it, or if it is to be. It stays loaded from then on, as
 * the driver does. */
static void *library(bool load)
{
	static _Atomic(void *) loaded;
	void *h = atomic_load_explicit(&loaded, memory_order_acquire);

	if (h)
		return h;
	h = dlopen(LIBRARY, load ? RTLD_LAZY : RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store_explicit(&loaded, h, memory_order_release);
	return h;
}

bool fm_nvml_loaded(void)
{
	return library(false);
}

void *fm_nvml_own(const char *symbol)
{
	void *h = library(false);

	return fm_look_up_next(h ? h : RTLD_NEXT, symbol);
}

void *fm_nvml_answer(struct fm_look_up *l)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(ours); i++)
		if (!strcmp(l->symbol, ours[i].symbol))
			return fm_look_up_find(l, ours[i].absent, ours[i].wrapper) ? ours[i].wrapper
										   : NULL;
	return NULL;
}

/* A function of the library's; NULL: it has none. */
static void *find(const char *symbol)
{
	char *kept = fm_cuda_error_keep();
	void *fn = fm_nvml_own(symbol);

	fm_cuda_error_put_back(kept);
	return fn;
}

/* What CUDA has of the device: without what the driver keeps for itself. */
static uint64_t capacity_of(nvmlDevice_t dev, uint64_t total)
{
	int (*ask)(nvmlDevice_t, struct fm_nvml_memory_v2 *) = find("nvmlDeviceGetMemoryInfo_v2");
	struct fm_nvml_memory_v2 m = {.version = MEMORY_V2};

	return ask && !ask(dev, &m) && m.reserved < m.total ? m.total - m.reserved : total;
}

static bool tell(nvmlDevice_t dev, uint64_t whole, uint64_t *total, uint64_t *left)
{
	int (*uuid)(nvmlDevice_t, char *, unsigned) = find("nvmlDeviceGetUUID");
	struct fm_client *c = fm_cu_inside ? NULL : fm_cuda_mem_client();
	char key[FM_DEVKEY_MAX];
	int row;

	if (!c || !uuid || uuid(dev, key, sizeof(key)))
		return false;
	row = fm_account_device(c, key, capacity_of(dev, whole));
	if (row < 0)
		return false;
	fm_cuda_mem_settle_all();
	return fm_account_info(c, row, total, left);
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, struct fm_nvml_memory *m)
{
	int (*next)(nvmlDevice_t, struct fm_nvml_memory *) = find("nvmlDeviceGetMemoryInfo");
	int rc = next ? next(dev, m) : NVML_UNINITIALIZED;
	uint64_t total, left;

	if (rc != NVML_SUCCESS || !tell(dev, m->total, &total, &left))
		return rc;
	*m = (struct fm_nvml_memory){total, left, total - left};
	return rc;
}

int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, struct fm_nvml_memory_v2 *m)
{
	int (*next)(nvmlDevice_t, struct fm_nvml_memory_v2 *) = find("nvmlDeviceGetMemoryInfo_v2");
	int rc = next ? next(dev, m) : NVML_UNINITIALIZED;
	uint64_t total, left;

	if (rc != NVML_SUCCESS || !tell(dev, m->total, &total, &left))
		return rc;
	m->total = total;
	m->reserved = 0;
	m->left = left;
	m->used = total - left;
	return rc;
}

/* --- for us --- */

static int (*open_device)(const char *, nvmlDevice_t *);
static int (*info)(nvmlDevice_t, struct fm_nvml_memory *);

static void start(void)
{
	char *kept = fm_cuda_error_keep();
	int (*init)(void) = NULL;

	if (library(true)) {
		init = fm_nvml_own("nvmlInit_v2");
		info = fm_nvml_own("nvmlDeviceGetMemoryInfo");
		open_device = fm_nvml_own("nvmlDeviceGetHandleByUUID");
	}
	if (!init || !info || init())
		open_device = NULL;
	fm_cuda_error_put_back(kept);
}

bool fm_nvml_free(const char *key, uint64_t *bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct fm_nvml_memory m;
	nvmlDevice_t dev;

	pthread_once(&once, start);
	if (!open_device || open_device(key, &dev) || info(dev, &m))
		return false;
	*bytes = m.left;
	return true;
}
