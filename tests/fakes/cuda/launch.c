/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels, with what their parameters are in the end. */
#include "capacity.h"
#include "image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COOPERATIVE_TOO_LARGE = 720 };

/* What the device can hold at once. */
#define RESIDENT (FK_SMS * 2048ull)

/* The ways to give parameters: a pointer to each, or a packed buffer that `extra` names. */
enum { EXTRA_END, EXTRA_BUFFER, EXTRA_SIZE };

/* --- a guardian's parameters, which a launch may lack: then there is anything in their place ---
 */

/* A copy by the system, which says so when there is no such memory. */
static bool safe_read(void *to, const void *from, size_t n)
{
	struct iovec own = {to, n}, other = {(void *)(uintptr_t)from, n};

	return process_vm_readv(getpid(), &own, 1, &other, 1, 0) == (ssize_t)n;
}

static uint64_t guard_param(const struct fk_launch *l, unsigned i)
{
	const struct fk_entry *e = l->entry;
	uint64_t v;

	memcpy(&v, l->params + e->param[e->n_params - FK_GUARD_PARAMS + i].at, sizeof(v));
	return v;
}

/* Memory of the device, all of it one allocation's? */
static bool on_device(uint64_t at, uint64_t n)
{
	return fk_place((void *)(uintptr_t)at) == FK_DEVICE && fk_within((void *)(uintptr_t)at, n);
}

static void check_guard(const struct fk_launch *l)
{
	uint64_t stop = guard_param(l, 0), block = guard_param(l, 1), launch = guard_param(l, 2);
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	/* One that looks at what was left out in front of it leaves no bits. */
	bool bits = (launch & 3) != 2 && stop != block + 8;
	uint64_t map = bits ? (blocks + 31) / 32 * 4 : 0;

	if (!stop)
		return;
	if (stop % 4 || !on_device(stop, 4))
		fk_die("a launch of %s whose stop word is at %#llx, which is not the device's: "
		       "were the "
		       "guardian's parameters left out?",
			l->entry->name, (unsigned long long)stop);
	if (block % 8 || !on_device(block, map ? 64 + map : 24))
		fk_die("a launch of %s whose control block, at %#llx, has no room for %llu blocks",
			l->entry->name, (unsigned long long)block, (unsigned long long)blocks);
	if (!(launch >> 2))
		fk_die("a launch of %s with number and mode %#llx", l->entry->name,
			(unsigned long long)launch);
}

/* --- parameters --- */

static fm_cu_result copy_each(struct fk_launch *l, void **params)
{
	const struct fk_entry *e = l->entry;
	unsigned own = e->n_params - (e->guarded ? FK_GUARD_PARAMS : 0);
	void *at;

	for (unsigned i = 0; i < own; i++)
		memcpy(l->params + e->param[i].at, params[i], e->param[i].size);
	for (unsigned i = own; i < e->n_params; i++)
		if (!safe_read(&at, &params[i], sizeof(at)) ||
			!safe_read(l->params + e->param[i].at, at, e->param[i].size))
			fk_die("a launch of %s without the guardian's parameters", e->name);
	return FM_CU_SUCCESS;
}

static fm_cu_result copy_packed(struct fk_launch *l, void **extra)
{
	const struct fk_entry *e = l->entry;
	const void *packed = NULL;
	const size_t *size = NULL;

	for (; (uintptr_t)extra[0] != EXTRA_END; extra += 2) {
		if ((uintptr_t)extra[0] == EXTRA_BUFFER)
			packed = extra[1];
		else if ((uintptr_t)extra[0] == EXTRA_SIZE)
			size = extra[1];
		else
			return FM_CU_ERROR_INVALID_VALUE;
	}
	if (!packed || !size)
		return FM_CU_ERROR_INVALID_VALUE;
	if (*size < e->bytes && e->guarded)
		fk_die("a launch of %s without the guardian's parameters: %zu bytes of %u", e->name,
			*size, e->bytes);
	if (*size != e->bytes)
		return CU_OUT_OF_RESOURCES;
	memcpy(l->params, packed, e->bytes);
	return FM_CU_SUCCESS;
}

static fm_cu_result read_params(struct fk_launch *l, void **params, void **extra)
{
	const struct fk_entry *e = l->entry;
	fm_cu_result rc = FM_CU_SUCCESS;

	if (params && extra)
		return FM_CU_ERROR_INVALID_VALUE;
	if (e->guarded && !params && !extra)
		fk_die("a launch of %s with no parameters, not the guardian's either", e->name);
	if (e->n_params && !params && !extra)
		return FM_CU_ERROR_INVALID_VALUE;
	if (e->n_params)
		rc = extra ? copy_packed(l, extra) : copy_each(l, params);
	if (!rc && e->guarded)
		check_guard(l);
	return rc;
}

/* --- launches as works --- */

/* FAKE_CUDA_LOST=ERROR@N: the N-th kernel is the device's last. */
static bool fatal(void)
{
	const char *lost = fk_env("FAKE_CUDA_LOST"), *at = lost ? strchr(lost, '@') : NULL;

	if (!at || atomic_fetch_add(&fk.kernels, 1) + 1 != (unsigned)atoi(at + 1))
		return false;
	pthread_mutex_lock(&fk.lock);
	fk_lose(atoi(lost));
	pthread_mutex_unlock(&fk.lock);
	return true;
}

static void run_kernel(struct fk_work *w)
{
	if (fatal())
		return;
	fk_watch_begins(w->launch);
	fk_launch_run(w->launch);
}

static void end_kernel(struct fk_work *w)
{
	struct fk_launch *l = w->launch;

	if (atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	fk_image_put(l->image);
	fk_variables_put(l->variables);
	free(l->param);
	free(l);
}

static void share_kernel(struct fk_work *w)
{
	atomic_fetch_add(&w->launch->refs, 1);
}

struct fk_launch *fk_work_launch(const struct fk_work *w)
{
	return w->run == run_kernel ? w->launch : NULL;
}

static fm_cu_result check_shape(const unsigned *grid, const unsigned *block)
{
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];

	if (!threads || threads > 1024 || block[2] > 64)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!grid[0] || !grid[1] || !grid[2] || grid[0] > INT32_MAX || grid[1] > 65535 ||
		grid[2] > 65535)
		return FM_CU_ERROR_INVALID_VALUE;
	return FM_CU_SUCCESS;
}

static struct fk_launch *new_launch(CUfunction f, const unsigned *grid, const unsigned *block)
{
	struct fk_launch *l = calloc(1, sizeof(*l) + f->entry->bytes + 1);

	if (!l)
		return NULL;
	l->param = calloc(f->entry->n_params + 1, sizeof(*l->param));
	if (!l->param) {
		free(l);
		return NULL;
	}
	for (unsigned i = 0; i < f->entry->n_params; i++)
		l->param[i] = l->params + f->entry->param[i].at;
	l->refs = 1;
	l->function = f;
	l->image = fk_module_image(f->module);
	l->variables = fk_module_variables(f->module);
	atomic_fetch_add(&l->image->refs, 1);
	atomic_fetch_add(&l->variables->refs, 1);
	l->entry = f->entry;
	memcpy(l->grid, grid, sizeof(l->grid));
	memcpy(l->block, block, sizeof(l->block));
	return l;
}

#define UNKNOWN ((fm_cu_result)999)

/* Code is loaded when it is first launched, or asked for. A function that could not be loaded when
 * it was asked for cannot be launched, and the launch does not say why. */
fm_cu_result fk_load_code(CUfunction f, bool asked)
{
	const char *given = fk_env("FAKE_CUDA_CODE");
	uint64_t bytes = given ? fk_bytes(given) : 0;

	if (f->bytes || !bytes)
		return FM_CU_SUCCESS;
	if (f->broken && !asked)
		return UNKNOWN;
	if (fk_memory_take(fk_ctx()->dev, bytes)) {
		f->bytes = bytes;
		f->broken = false;
		return FM_CU_SUCCESS;
	}
	f->broken = asked;
	return CU_OUT_OF_MEMORY;
}

fm_cu_result fk_kernel_work(struct fk_work *w, CUfunction f, const unsigned *grid,
	const unsigned *block, unsigned shared, void **params, void **extra)
{
	fm_cu_result rc;

	f = fk_function(f);
	if (!f)
		return CU_INVALID_HANDLE;
	FK_TRY(check_shape(grid, block));
	if (shared > fk_dynamic_most(f))
		return FM_CU_ERROR_INVALID_VALUE;
	if (!f->entry->kernel)
		return FM_CU_ERROR_NOT_SUPPORTED; /* nobody knows what it does */
	FK_TRY(fk_load_code(f, false));
	*w = (struct fk_work){.what = strncmp(f->entry->name, "fermata_", 8) ? FK_OTHER : FK_OURS,
		.run = run_kernel,
		.end = end_kernel,
		.share = share_kernel};
	w->launch = new_launch(f, grid, block);
	if (!w->launch)
		return CU_OUT_OF_MEMORY;
	w->launch->shared = shared;
	rc = read_params(w->launch, params, extra);
	if (rc)
		end_kernel(w);
	else
		fk_watch_launched(w->launch);
	return rc;
}

/* Of a launch that may begin before what is in front of it in its stream has ended. */
static bool overlaps(const struct cu_launch_attribute *attr, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (attr[i].id == CU_LAUNCH_SERIALIZATION && attr[i].value.serialization)
			return true;
	return false;
}

static _Atomic unsigned early;
static _Atomic bool promised;
static _Thread_local bool apart, promises;

void fake_cuda_apart(int yes)
{
	apart = yes;
	promises = true;
	promised = true;
}

unsigned fake_cuda_early(void)
{
	return early;
}

/* Those of kernels that know of it are the program's own, too. What a stop has left of launches for
 * which the program has promised that their data are apart is launched again by a thread that has
 * promised nothing. */
void fk_launch_early(const struct fk_launch *l)
{
	bool again = promised && !promises;

	if (l->entry->guarded && !l->entry->waits && !l->entry->knows && !apart && !again)
		fk_die("a launch of %s may begin early, and its guardian does not wait",
			l->entry->name);
	early++;
}

bool fk_launch_overlaps(const struct fk_launch *l)
{
	return overlaps(l->attr, l->n_attr);
}

/* When its kernel has begun, or its blocks say so: not before it is over, here. */
static fm_cu_result record_events(const struct cu_launch_config *c, CUstream s)
{
	for (unsigned i = 0; i < c->attr_count; i++) {
		const struct cu_launch_attribute *a = &c->attrs[i];

		if (a->id != CU_LAUNCH_EVENT && a->id != CU_LAUNCH_BEGUN_EVENT)
			continue;
		if (s->capture || !fk_event_known(a->value.event))
			return FM_CU_ERROR_INVALID_VALUE;
		FK_TRY(fk_record_on(a->value.event, s));
	}
	return FM_CU_SUCCESS;
}

static void note(const struct cu_launch_config *c, CUfunction f)
{
	const char *prefix = fk_env("FAKE_CUDA_LAUNCHES");
	char path[256];
	FILE *file;

	if (!prefix)
		return;
	snprintf(path, sizeof(path), "%s.%d", prefix, (int)getpid());
	file = fopen(path, "ae");
	if (!file)
		return;
	fprintf(file, "%s %u %u\n", fk_function(f)->entry->name, c->grid[0], c->shared);
	fclose(file);
}

static fm_cu_result launch(
	const struct cu_launch_config *c, CUfunction f, void **params, void **extra)
{
	struct fk_work w;
	fm_cu_result rc;
	CUstream s;

	if (!fk_function(f))
		return CU_INVALID_HANDLE;
	FK_TRY(fk_stream_find(c->stream, &s));
	if (!s->capture && fk_function(f)->entry->launches)
		return FM_CU_ERROR_NOT_SUPPORTED; /* it is launched within a graph alone */
	rc = fk_kernel_work(&w, f, c->grid, c->block, c->shared, params, extra);
	if (rc && s->capture)
		s->capture->invalid = true;
	FK_TRY(rc);
	if (overlaps(c->attrs, c->attr_count))
		fk_launch_early(w.launch);
	w.launch->n_attr = c->attr_count < 4 ? c->attr_count : 4;
	if (c->attr_count)
		memcpy(w.launch->attr, c->attrs, w.launch->n_attr * sizeof(*c->attrs));
	if (!s->capture)
		note(c, f);
	if (!s->capture)
		w.keeps_back = fk_hw_first(w.launch);
	FK_TRY(fk_enqueue(c->stream, &w, NULL));
	return record_events(c, s);
}

/* All blocks must be on the device at once. */
static bool too_large(const unsigned *grid, const unsigned *block)
{
	return (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2] > RESIDENT;
}

fm_cu_result cuLaunchKernelEx(
	const struct cu_launch_config *config, CUfunction f, void **params, void **extra)
{
	if (!config || (config->attr_count && !config->attrs))
		return FM_CU_ERROR_INVALID_VALUE;
	if (overlaps(config->attrs, config->attr_count) && fk_env("FAKE_CUDA_NO_EARLY"))
		return FM_CU_ERROR_NOT_SUPPORTED;
	for (unsigned i = 0; i < config->attr_count; i++)
		if (config->attrs[i].id == CU_LAUNCH_COOPERATIVE &&
			config->attrs[i].value.cooperative &&
			too_large(config->grid, config->block))
			return COOPERATIVE_TOO_LARGE;
	fk_at("cuLaunchKernelEx");
	FK_TRY(fk_fails("cuLaunchKernelEx"));
	FK_TRY(fk_enter_ctx());
	return fk_leave(launch(config, f, params, extra));
}

bool fk_thin(void)
{
	static _Atomic int thin;
	int known = atomic_load_explicit(&thin, memory_order_relaxed);

	if (!known) {
		known = fk_env("FAKE_CUDA_THIN") ? 1 : -1;
		atomic_store(&thin, known);
	}
	return known > 0;
}

fm_cu_result cuLaunchKernel(CU_LAUNCH_PARAMS, void **extra)
{
	struct cu_launch_config c = {
		.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .stream = stream};

	if (fk_thin())
		return FM_CU_SUCCESS;
	return cuLaunchKernelEx(&c, f, params, extra);
}

fm_cu_result cuLaunchCooperativeKernel(CU_LAUNCH_PARAMS)
{
	struct cu_launch_attribute together = {.id = CU_LAUNCH_COOPERATIVE, .value.cooperative = 1};
	struct cu_launch_config c = {.grid = {gx, gy, gz},
		.block = {bx, by, bz},
		.shared = shared,
		.stream = stream,
		.attrs = &together,
		.attr_count = 1};

	return cuLaunchKernelEx(&c, f, params, NULL);
}

/* A kernel on several devices, of which there is one. */
fm_cu_result cuLaunchCooperativeKernelMultiDevice(
	struct cu_launch_params *list, unsigned n, unsigned flags)
{
	const unsigned *g, *b;

	if (!list || n != 1 || flags > 3 ||
		(uintptr_t)list->stream <= (uintptr_t)FM_CU_STREAM_PER_THREAD)
		return FM_CU_ERROR_INVALID_VALUE;
	g = list->grid;
	b = list->block;
	return cuLaunchCooperativeKernel(list->f, g[0], g[1], g[2], b[0], b[1], b[2], list->shared,
		list->stream, list->params);
}

/* --- before CUDA 4.0: shape and parameters belong to the function --- */

static fm_cu_result function(CUfunction f)
{
	FK_TRY(fk_enter_ctx());
	return f && fk_function(f) == f ? FM_CU_SUCCESS : fk_leave(CU_INVALID_HANDLE);
}

fm_cu_result cuFuncSetBlockShape(CUfunction f, int x, int y, int z)
{
	FK_TRY(function(f));
	f->block[0] = (unsigned)x;
	f->block[1] = (unsigned)y;
	f->block[2] = (unsigned)z;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuParamSetSize(CUfunction f, unsigned size)
{
	FK_TRY(function(f));
	if (size > FK_PARAMS_MAX)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	f->size = size;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuParamSetv(CUfunction f, int at, void *p, unsigned size)
{
	FK_TRY(function(f));
	if (at < 0 || (unsigned)at + size > FK_PARAMS_MAX)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (!f->params)
		f->params = malloc(FK_PARAMS_MAX);
	if (!f->params)
		return fk_leave(CU_OUT_OF_MEMORY);
	memcpy(f->params + at, p, size);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuParamSeti(CUfunction f, int at, unsigned v)
{
	return cuParamSetv(f, at, &v, sizeof(v));
}

fm_cu_result cuParamSetf(CUfunction f, int at, float v)
{
	return cuParamSetv(f, at, &v, sizeof(v));
}

fm_cu_result cuLaunchGridAsync(CUfunction f, int w, int h, CUstream stream)
{
	struct cu_launch_config c = {.grid = {(unsigned)w, (unsigned)h, 1}, .stream = stream};
	void *extra[] = {(void *)EXTRA_BUFFER, NULL, (void *)EXTRA_SIZE, NULL, NULL};
	size_t size;

	FK_TRY(function(f));
	size = f->size;
	extra[1] = f->params;
	extra[3] = &size;
	memcpy(c.block, f->block, sizeof(c.block));
	return fk_leave(launch(&c, f, NULL, extra));
}

fm_cu_result cuLaunchGrid(CUfunction f, int w, int h)
{
	return cuLaunchGridAsync(f, w, h, NULL);
}

fm_cu_result cuLaunch(CUfunction f)
{
	return cuLaunchGrid(f, 1, 1);
}
