/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network cards without a card: libibverbs, as far as memory is registered with it; and with
 * GDRAPI, gdrcopy. What is registered is in use by an engine of the fake driver's, which ends the
 * program that unmaps it. As the kernel's module has it, memory that is registered by its address
 * is one allocation, and was made for cards; by a descriptor it is what that is of.
 */
#include "../../cuda.h"
#include "../cuda/fake_cuda.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define VISIBLE __attribute__((visibility("default")))

struct ibv_mr {
	void *context, *pd, *addr;
	size_t length;
	uint64_t at; /* what the card reads */
};

static void *of_driver(const char *symbol)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
	void *(*own)(const char *) = NULL;

	*(void **)&own = dlsym(driver, "fake_cuda_own");
	return own ? own(symbol) : NULL;
}

static void engine(uint64_t at, size_t n, int yes)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
	fake_cuda_engine_fn *fn = NULL;

	*(void **)&fn = dlsym(driver, "fake_cuda_engine");
	fn(at, n, yes);
}

/* 0: it is the driver's own. */
static cu_chunk chunk_at(uint64_t at, struct cu_chunk_prop *prop)
{
	fm_cu_result (*retain)(cu_chunk *, void *) = of_driver("cuMemRetainAllocationHandle");
	fm_cu_result (*release)(cu_chunk) = of_driver("cuMemRelease");
	fm_cu_result (*ask)(struct cu_chunk_prop *, cu_chunk) =
		of_driver("cuMemGetAllocationPropertiesFromHandle");
	cu_chunk h = 0;

	if (retain(&h, (void *)(uintptr_t)at))
		return 0;
	ask(prop, h);
	release(h);
	return h;
}

static bool is_able(uint64_t at, size_t n)
{
	struct cu_chunk_prop prop = {.rdma = 1, .location.type = CU_LOCATION_DEVICE};

	return chunk_at(at, &prop) == chunk_at(at + n - 1, &prop) && prop.rdma &&
	       prop.location.type == CU_LOCATION_DEVICE;
}

static struct ibv_mr *made(void *pd, void *at, size_t n, uint64_t card)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	*mr = (struct ibv_mr){.pd = pd, .addr = at, .length = n, .at = card};
	engine(card, n, 1);
	return mr;
}

#ifndef GDRAPI
VISIBLE struct ibv_mr *ibv_reg_mr(void *pd, void *at, size_t n, int access);
VISIBLE struct ibv_mr *ibv_reg_mr_iova2(
	void *pd, void *at, size_t n, uint64_t iova, unsigned access);
VISIBLE struct ibv_mr *ibv_reg_dmabuf_mr(
	void *pd, uint64_t offset, size_t n, uint64_t iova, int fd, int access);
VISIBLE int ibv_rereg_mr(struct ibv_mr *mr, int flags, void *pd, void *at, size_t n, int access);
VISIBLE int ibv_dereg_mr(struct ibv_mr *mr);

struct ibv_mr *ibv_reg_mr(void *pd, void *at, size_t n, int access)
{
	(void)access;
	if (is_able((uintptr_t)at, n))
		return made(pd, at, n, (uintptr_t)at);
	errno = EFAULT;
	return NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *at, size_t n, uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(pd, at, n, (int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(
	void *pd, uint64_t offset, size_t n, uint64_t iova, int fd, int access)
{
	struct stat st;

	(void)access;
	if (!fstat(fd, &st))
		return made(pd, (void *)(uintptr_t)offset, n, iova);
	errno = EBADF;
	return NULL;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, void *pd, void *at, size_t n, int access)
{
	(void)pd, (void)access;
	if (flags != 1 || !is_able((uintptr_t)at, n))
		return EINVAL;
	engine(mr->at, mr->length, 0);
	mr->addr = at;
	mr->at = (uintptr_t)at;
	mr->length = n;
	engine(mr->at, n, 1);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	engine(mr->at, mr->length, 0);
	free(mr);
	return 0;
}
#else
struct gdr_mh {
	unsigned long h;
};
VISIBLE int gdr_pin_buffer(
	void *g, unsigned long at, size_t n, uint64_t token, uint32_t space, struct gdr_mh *handle);
VISIBLE int gdr_unpin_buffer(void *g, struct gdr_mh handle);
VISIBLE int gdr_close(void *g);

static struct ibv_mr *pinned[16];

static void note(struct ibv_mr *old, struct ibv_mr *new)
{
	unsigned i = 0;

	while (i < sizeof(pinned) / sizeof(*pinned) && pinned[i] != old)
		i++;
	if (i == sizeof(pinned) / sizeof(*pinned))
		abort();
	pinned[i] = new;
}

int gdr_pin_buffer(
	void *g, unsigned long at, size_t n, uint64_t token, uint32_t space, struct gdr_mh *handle)
{
	(void)token, (void)space;
	if (!is_able(at, n))
		return EINVAL;
	handle->h = (unsigned long)(uintptr_t)made(g, (void *)at, n, at);
	note(NULL, (void *)handle->h); // NOLINT(performance-no-int-to-ptr)
	return 0;
}

int gdr_unpin_buffer(void *g, struct gdr_mh handle)
{
	struct ibv_mr *mr = (void *)(uintptr_t)handle.h; // NOLINT(performance-no-int-to-ptr)

	(void)g;
	note(mr, NULL);
	engine(mr->at, mr->length, 0);
	free(mr);
	return 0;
}

int gdr_close(void *g)
{
	for (size_t i = 0; i < sizeof(pinned) / sizeof(*pinned); i++)
		if (pinned[i])
			gdr_unpin_buffer(g, (struct gdr_mh){(unsigned long)(uintptr_t)pinned[i]});
	return 0;
}
#endif
