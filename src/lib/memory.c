/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <fermata/memory.h>: the shim that moves the program's memory does what is said. It is found in
 * the process: it was preloaded, or linked, or has been loaded as the driver (the stand-in).
 */
#pragma GCC visibility push(default)
#include <fermata/memory.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#ifdef FM_OLD_LIBC
FM_OLD_LIBC(dlsym, "2.2.5", "2.17");
#endif

typedef int want_fn(const void *p, size_t n, enum fm_memory_use use);
typedef int stat_fn(const void *p, size_t n, struct fm_memory_stat *stat);

__attribute__((weak, visibility("default"))) want_fn fm_cuda_memory_want;
__attribute__((weak, visibility("default"))) stat_fn fm_cuda_memory_stat;

/* The stand-in may have been loaded so that others do not see its functions. */
static void *in_driver(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *fn = driver ? dlsym(driver, name) : NULL;

	if (driver)
		dlclose(driver);
	return fn;
}

/* The shim stays once it is loaded. */
static void *find(_Atomic(void *) *kept, void *linked, const char *name)
{
	void *fn = linked ? linked : atomic_load_explicit(kept, memory_order_relaxed);
	int saved = errno;

	if (fn)
		return fn;
	fn = in_driver(name);
	errno = saved;
	if (fn)
		atomic_store_explicit(kept, fn, memory_order_relaxed);
	return fn;
}

int fm_memory_want(const void *p, size_t n, enum fm_memory_use use)
{
	static _Atomic(void *) kept;
	want_fn *want = (want_fn *)find(&kept, (void *)fm_cuda_memory_want, "fm_cuda_memory_want");

	if (!n || (uintptr_t)p + n < n || (unsigned)use > FM_MEMORY_UNPIN)
		return -EINVAL;
	return want ? want(p, n, use) : -ENOSYS;
}

int fm_memory_stat(const void *p, size_t n, struct fm_memory_stat *stat)
{
	static _Atomic(void *) kept;
	stat_fn *ask = (stat_fn *)find(&kept, (void *)fm_cuda_memory_stat, "fm_cuda_memory_stat");

	if (!n || (uintptr_t)p + n < n || !stat || stat->size < sizeof(*stat))
		return -EINVAL;
	return ask ? ask(p, n, stat) : -ENOSYS;
}
