/* SPDX-License-Identifier: Apache-2.0 */
/* The real driver makes a channel group for each context, by ioctls on /dev/nvidiactl: below an
 * object for the device, of the process's client. So does this one where there is a fake of what is
 * behind that (fakes/rm). */
#include "../rm/rm.h"
#include "fake.h"
#include <dlfcn.h>
#include <sys/mman.h>

#define ROOT    0xc1d00001u
#define DEVICES 0x5c000000u

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

static void make(uint32_t parent, uint32_t object, uint32_t class, void *params, uint32_t size)
{
	struct rm_alloc64 a = {.root = ROOT,
		.parent = parent,
		.object = object,
		.class = class,
		.params = (uintptr_t)params,
		.params_size = size};

	ioctl(node(), _IOWR('F', RM_ALLOC, struct rm_alloc64), &a);
}

/* What is there already stays. */
void fk_channels_open(CUcontext ctx)
{
	struct rm_tsg params = {.engine = RM_GRAPHICS};
	uint32_t device = DEVICES + (uint32_t)ctx->dev;

	if (node() < 0)
		return;
	make(0, ROOT, CLASS_CLIENT, NULL, 0);
	make(ROOT, device, CLASS_DEVICE, NULL, 0);
	make(device, handle(ctx), CLASS_TSG, &params, sizeof(params));
}

void fk_channels_close(CUcontext ctx)
{
	struct rm_free e = {.root = ROOT, .object = handle(ctx)};

	if (node() >= 0)
		ioctl(node(), _IOWR('F', RM_FREE, struct rm_free), &e);
}
