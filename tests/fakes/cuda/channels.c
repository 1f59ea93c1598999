/* SPDX-License-Identifier: Apache-2.0 */
/* The real driver makes a channel group for each context, by ioctls on /dev/nvidiactl. So does this
 * one where there is a fake of what is behind that (fakes/rm). */
#include "fake.h"
#include <dlfcn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define ROOT      0xc1d00001u
#define CLASS_TSG 0xa06c
#define GRAPHICS  1

struct alloc { /* NVOS64 */
	uint32_t root, parent, object, class;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};

struct end { /* NVOS00 */
	uint32_t root, parent, object, status;
};

static int node(void)
{
	static int fd = -1;
	void (*tell)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "fake_rm_node");

	if (fd < 0 && tell) {
		fd = memfd_create("nvidiactl", MFD_CLOEXEC);
		tell(fd);
	}
	return fd;
}

static uint32_t handle(const struct CUctx_st *ctx)
{
	return (uint32_t)(uintptr_t)ctx;
}

void fk_channels_open(CUcontext ctx)
{
	uint32_t params[8] = {[3] = GRAPHICS};
	struct alloc a = {.root = ROOT,
		.object = handle(ctx),
		.class = CLASS_TSG,
		.params = (uintptr_t)params,
		.params_size = sizeof(params)};

	if (node() >= 0)
		ioctl(node(), _IOWR('F', 0x2b, struct alloc), &a);
}

void fk_channels_close(CUcontext ctx)
{
	struct end e = {.root = ROOT, .object = handle(ctx)};

	if (node() >= 0)
		ioctl(node(), _IOWR('F', 0x29, struct end), &e);
}
