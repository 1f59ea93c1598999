/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, the code that programs bring along, and launches. */
#include "fake.h"
#include <stdlib.h>
#include <string.h>

hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
	FH_CALL(cuModuleLoadData(module, image));
}

hipError_t hipModuleUnload(hipModule_t module)
{
	FH_CALL(cuModuleUnload(module));
}

hipError_t hipModuleGetFunction(hipFunction_t *f, hipModule_t module, const char *name)
{
	FH_CALL(cuModuleGetFunction(f, module, name));
}

/* --- what the compiler registers --- */

/* Loaded on each device when the first of its functions is launched there. */
struct fat {
	struct fat *next;
	const void *image;
	hipModule_t on[FK_DEVICES];
	unsigned reset[FK_DEVICES]; /* of the device, before it was loaded there */
};

struct host_function {
	struct host_function *next;
	struct fat *fat;
	const void *host;
	const char *name;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fat *fats;
static struct host_function *functions;

void **__hipRegisterFatBinary(const void *data)
{
	const struct hip_fat_binary *b = data;
	struct fat *f = calloc(1, sizeof(*f));

	if (!f || !b || b->magic != HIP_FAT_BINARY_MAGIC || b->version != 1)
		fk_die("what is registered is no fat binary");
	f->image = b->binary;
	pthread_mutex_lock(&lock);
	f->next = fats;
	fats = f;
	pthread_mutex_unlock(&lock);
	return (void **)f;
}

void __hipRegisterFunction(void **module, const void *host, char *symbol, const char *name,
	unsigned threads, void *tid, void *bid, void *block, void *grid, int *warp)
{
	struct host_function *f = calloc(1, sizeof(*f));

	if (!f)
		fk_die("no memory for a function");
	*f = (struct host_function){NULL, (struct fat *)module, host, name};
	pthread_mutex_lock(&lock);
	f->next = functions;
	functions = f;
	pthread_mutex_unlock(&lock);
}

void __hipUnregisterFatBinary(void **module)
{
	struct fat *f = (struct fat *)module;

	pthread_mutex_lock(&lock);
	for (struct host_function **at = &functions, *h; (h = *at);) {
		if (h->fat != f) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		free(h);
	}
	for (struct fat **at = &fats; *at; at = &(*at)->next)
		if (*at == f) {
			*at = f->next;
			free(f);
			break;
		}
	pthread_mutex_unlock(&lock);
}

static fm_cu_result find(const void *host, hipFunction_t *out)
{
	int dev = fh_self.device;
	struct host_function *h;
	fm_cu_result rc = HIP_INVALID_FUNCTION;

	FK_TRY(fh_ready());
	pthread_mutex_lock(&lock);
	for (h = functions; h && h->host != host;)
		h = h->next;
	if (h) {
		rc = FM_CU_SUCCESS;
		if (!h->fat->on[dev] || h->fat->reset[dev] != fh_resets[dev])
			rc = cuModuleLoadData(&h->fat->on[dev], h->fat->image);
		h->fat->reset[dev] = fh_resets[dev];
		rc = rc ?: cuModuleGetFunction(out, h->fat->on[dev], h->name);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* --- launches --- */

#define DIMS gx, gy, gz, bx, by, bz

static fm_cu_result launch(
	hipFunction_t f, HIP_SHAPE, size_t shared, hipStream_t stream, void **params, void **extra)
{
	/* As CUDA has it but for the number that ends the list. */
	void *list[] = {HIP_PARAM_BUFFER, NULL, HIP_PARAM_SIZE, NULL, NULL};

	for (; extra && *extra != HIP_PARAM_END; extra += 2) {
		if (*extra != HIP_PARAM_BUFFER && *extra != HIP_PARAM_SIZE)
			return FM_CU_ERROR_INVALID_VALUE;
		list[*extra == HIP_PARAM_BUFFER ? 1 : 3] = extra[1];
	}
	return cuLaunchKernel(f, DIMS, (unsigned)shared, stream, params, extra ? list : NULL);
}

hipError_t hipModuleLaunchKernel(hipFunction_t f, HIP_SHAPE, unsigned shared, hipStream_t stream,
	void **params, void **extra)
{
	FH_CALL(launch(f, DIMS, shared, stream, params, extra));
}

static fm_cu_result launch_between(hipFunction_t f, HIP_SHAPE, size_t shared, hipStream_t stream,
	void **params, void **extra, hipEvent_t start, hipEvent_t stop)
{
	if (start)
		FK_TRY(cuEventRecord(start, stream));
	FK_TRY(launch(f, DIMS, shared, stream, params, extra));
	return stop ? cuEventRecord(stop, stream) : FM_CU_SUCCESS;
}

/* Its grid is counted in threads. */
hipError_t hipExtModuleLaunchKernel(hipFunction_t f, HIP_SHAPE, size_t shared, hipStream_t stream,
	void **params, void **extra, hipEvent_t start, hipEvent_t stop, unsigned flags)
{
	if (!bx || !by || !bz)
		return fh_done(HIP_INVALID_CONFIGURATION);
	FH_CALL(launch_between(f, gx / bx, gy / by, gz / bz, bx, by, bz, shared, stream, params,
		extra, start, stop));
}

hipError_t hipModuleLaunchCooperativeKernel(
	hipFunction_t f, HIP_SHAPE, unsigned shared, hipStream_t stream, void **params)
{
	FH_CALL(cuLaunchCooperativeKernel(f, DIMS, shared, stream, params));
}

#define DIM3 grid.x, grid.y, grid.z, block.x, block.y, block.z

hipError_t hipExtLaunchKernel(const void *fn, hip_dim3 grid, hip_dim3 block, void **args,
	size_t shared, hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags)
{
	hipFunction_t f;

	FH_CALL(find(fn, &f) ?: launch_between(f, DIM3, shared, stream, args, NULL, start, stop));
}

hipError_t hipLaunchKernel(const void *fn, hip_dim3 grid, hip_dim3 block, void **args,
	size_t shared, hipStream_t stream)
{
	hipFunction_t f;

	FH_CALL(find(fn, &f) ?: launch(f, DIM3, shared, stream, args, NULL));
}

hipError_t hipLaunchCooperativeKernel(const void *fn, hip_dim3 grid, hip_dim3 block, void **args,
	unsigned shared, hipStream_t stream)
{
	hipFunction_t f;

	FH_CALL(find(fn, &f) ?: cuLaunchCooperativeKernel(f, DIM3, shared, stream, args));
}

/* f<<<grid, block, shared, stream>>>() is a push, and a call of f, which pops and launches. */
hipError_t __hipPushCallConfiguration(
	hip_dim3 grid, hip_dim3 block, size_t shared, hipStream_t stream)
{
	if (fh_self.calls == sizeof(fh_self.call) / sizeof(*fh_self.call))
		return fh_done(HIP_OUT_OF_MEMORY);
	fh_self.call[fh_self.calls++] =
		(struct fh_call){.grid = grid, .block = block, .shared = shared, .stream = stream};
	return HIP_SUCCESS;
}

hipError_t __hipPopCallConfiguration(
	hip_dim3 *grid, hip_dim3 *block, size_t *shared, hipStream_t *stream)
{
	const struct fh_call *c = &fh_self.call[fh_self.calls - 1];

	if (!fh_self.calls)
		return fh_done(HIP_INVALID_CONFIGURATION);
	*grid = c->grid;
	*block = c->block;
	*shared = c->shared;
	*stream = c->stream;
	fh_self.calls--;
	return HIP_SUCCESS;
}

/* The older way: a push, each argument, and a launch that pops. */
hipError_t hipConfigureCall(hip_dim3 grid, hip_dim3 block, size_t shared, hipStream_t stream)
{
	return __hipPushCallConfiguration(grid, block, shared, stream);
}

hipError_t hipSetupArgument(const void *arg, size_t size, size_t offset)
{
	struct fh_call *c = &fh_self.call[fh_self.calls - 1];

	if (!fh_self.calls || offset + size > sizeof(c->args))
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	memcpy(c->args + offset, arg, size);
	c->n_args = c->n_args > offset + size ? c->n_args : offset + size;
	return HIP_SUCCESS;
}

hipError_t hipLaunchByPtr(const void *fn)
{
	struct fh_call c;
	void *extra[] = {HIP_PARAM_BUFFER, c.args, HIP_PARAM_SIZE, &c.n_args, HIP_PARAM_END};
	hipFunction_t f;

	if (!fh_self.calls)
		return fh_done(HIP_INVALID_CONFIGURATION);
	c = fh_self.call[--fh_self.calls];
	FH_CALL(find(fn, &f)
			?: launch(f, c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z,
				   c.shared, c.stream, NULL, extra));
}

HIP_CODE_API(FH_NOTHING, FH_SPT)
