/* SPDX-License-Identifier: Apache-2.0 */
/* Trying the guardian on CUDA's devices, in a probe's process: a kernel of our own is rewritten and
 * loaded, stopped between two of its blocks, and goes on, by the functions that programs under
 * `fermata run --guardian` have. Nothing here waits for the device without a limit. */
#include "api/cuda/cache/cache.h"
#include "api/cuda/core/cuda.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "code/cuda/image.h"
#include "device/trial.h"
#include "probe_cuda.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A step of a stop, or of going on. */
#define LIMIT_NS (3 * FM_S)
#define STAND_NS (20 * FM_MS)

/* Several times what a device takes at once, and blocks that last for longer each time it ended
 * before it could be told to stop. */
#define THREADS    1024u
#define WAVES      8u
#define BLOCKS_MIN 64u
#define BLOCKS_MAX 16384u
#define FIRST_NS   (500 * FM_US)
#define ATTEMPTS   4u

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, MULTIPROCESSORS = 16 };

struct words {
	uint64_t head;
	_Atomic uint32_t gate, waiting;
	_Atomic uint64_t progress;
};

struct trial {
	struct probe_cuda *c;
	CUdevice dev;
	unsigned sm;
	struct fm_image image;
	CUfunction kernel;
	struct fm_cu_queue q;
	struct words *words;
	CUdeviceptr out_at;
	_Atomic uint32_t *out; /* how often each block ran */
	unsigned blocks, launched;
	const char *reason; /* why it does not work; NULL: it does */
	int code;
	char text[200];
};

static const struct fm_hw_ops *const ops = &fm_cu_ops;

static bool fail(struct trial *t, const char *reason, int code, const char *text, const char *more)
{
	const char *name = code ? probe_cuda_error(t->c, code) : more;

	t->reason = reason;
	t->code = code;
	snprintf(t->text, sizeof(t->text), "%s%s%s%s", text, name ? " (" : "", name ? name : "",
		name ? ")" : "");
	return false;
}

static int attribute(const struct trial *t, int which)
{
	const struct fm_cu_driver *cu = &t->c->cu;
	int v;

	return cu->device_get_attribute && !cu->device_get_attribute(&v, which, t->dev) ? v : 0;
}

/* What programs are rewritten with, beside what a guard itself takes. */
static bool has_functions(struct trial *t)
{
	static const char *const names[] = {"cuFuncGetModule", "cuFuncGetName",
		"cuKernelGetLibrary", "cuKernelGetName", "cuLibraryGetKernel",
		"cuKernelGetFunction", "cuModuleLoadData", "cuModuleGetFunction"};

	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		if (!probe_cuda_symbol(names[i]))
			return fail(t, "old", 0, "the driver is too old, it lacks", names[i]);
	return true;
}

static bool rewrite(struct trial *t)
{
	enum fm_image_why why;

	t->sm = (unsigned)attribute(t, CAPABILITY_MAJOR) * 10 +
		(unsigned)attribute(t, CAPABILITY_MINOR);
	why = fm_image_rewrite(probe_trial_image, probe_trial_size, t->sm, &t->image);
	if (why == FM_IMAGE_DEVICE || why == FM_IMAGE_NO_CODE)
		return fail(t, "architecture", 0, "kernels of its architecture are not rewritten",
			NULL);
	if (why)
		return fail(t, "image", 0, "our kernel cannot be rewritten", fm_image_reason(why));
	if (t->image.n != 1 || t->image.kernel->why)
		return fail(t, "image", 0, "our kernel cannot be rewritten",
			fm_kernel_reason(t->image.kernel->why));
	return true;
}

static bool load(struct trial *t)
{
	fm_cu_result (*load_data)(void **module, const void *image) = NULL;
	fm_cu_result (*get)(CUfunction * f, void *module, const char *name) = NULL;
	void *module;
	int rc;

	*(void **)&load_data = probe_cuda_symbol("cuModuleLoadData");
	*(void **)&get = probe_cuda_symbol("cuModuleGetFunction");
	rc = load_data(&module, t->image.data);
	if (rc)
		return fail(t, "load", rc, "the driver refuses a rewritten kernel", NULL);
	rc = get(&t->kernel, module, t->image.kernel->name);
	return !rc || fail(t, "load", rc, "the driver does not find a rewritten kernel", NULL);
}

/* A queue as programs have one, in memory of our own in place of a board; and memory that the host
 * can look at while the kernel runs. */
static bool make_queue(struct trial *t)
{
	const struct fm_cu_driver *cu = &t->c->cu;
	unsigned wanted = WAVES * (unsigned)attribute(t, MULTIPROCESSORS);
	CUcontext ctx;
	CUstream stream;
	void *out;
	int rc;

	t->words =
		mmap(NULL, PROBE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->words == MAP_FAILED)
		return fail(t, "start", 0, "memory is short", NULL);
	rc = probe_cuda_open(t->c, t->dev, &ctx, &stream);
	if (rc)
		return fail(t, "start", rc, "no context can be made", NULL);
	fm_cu_queue_init(&t->q, cu, ctx, ctx, stream, NULL);
	t->q.guarded = true;
	fm_cu_queue_words(&t->q, t->words, PROBE_PAGE);
	if (!(ops->levels(&t->q) & 1u << 2))
		return fail(t, "gates", 0, "streams have no gates", NULL);
	if (!t->q.guard)
		return fail(t, "start", 0, "a stream gets no control block", NULL);
	t->blocks = wanted < BLOCKS_MIN ? BLOCKS_MIN : FM_MIN(wanted, BLOCKS_MAX);
	rc = cu->host_alloc(&out, t->blocks * sizeof(*t->out), FM_CU_HOST_REGISTER_DEVICEMAP);
	rc = rc ? rc : cu->host_device_pointer(&t->out_at, out, 0);
	if (rc)
		return fail(t, "start", rc, "no memory for the device", NULL);
	memset(out, 0, t->blocks * sizeof(*t->out));
	t->out = out;
	return true;
}

static bool launch(struct trial *t, uint64_t ns)
{
	const struct fm_gate_words words = {.map = t->words,
		.map_size = PROBE_PAGE,
		.gate_map = t->words,
		.gate_map_size = PROBE_PAGE,
		.gate = &t->words->gate,
		.waiting = &t->words->waiting,
		.progress = &t->words->progress};
	struct {
		CUdeviceptr out;
		uint64_t ns, ours[FM_GUARD_PARAMS];
	} p = {.out = t->out_at, .ns = ns};
	size_t size = sizeof(p);
	void *extra[] = {FM_CU_EXTRA_BUFFER, &p, FM_CU_EXTRA_SIZE, &size, FM_CU_EXTRA_END};
	struct fm_cu_launch_config config = {
		.grid = {t->blocks, 1, 1}, .block = {THREADS, 1, 1}, .stream = t->q.stream};
	const struct fm_cu_guarded l = {.function = t->kernel, .config = &config, .bytes = size};
	void *copy = fm_cu_guard_begin(t->q.guard, &l, p.ours);
	int rc;

	if (!copy || t->image.kernel->guard_at != offsetof(__typeof__(p), ours))
		return fail(t, "image", 0, "our kernel's parameters are not where they should be",
			NULL);
	memcpy(copy, &p, offsetof(__typeof__(p), ours));
	rc = t->c->cu.launch(&config, t->kernel, NULL, extra);
	fm_cu_guard_end(t->q.guard, !rc);
	if (rc)
		return fail(t, "load", rc, "a rewritten kernel cannot be launched", NULL);
	if (ops->device_gate.gate(&t->q, &words, ++t->launched, false))
		return fail(t, "start", 0, "the driver refuses a gate", NULL);
	return true;
}

static void nap(void)
{
	const struct timespec pause = fm_timespec(50 * FM_US);

	nanosleep(&pause, NULL);
}

/* Blocks that have run in all launches. */
static uint64_t ran(const struct trial *t)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < t->blocks; i++)
		n += atomic_load_explicit(&t->out[i], memory_order_acquire);
	return n;
}

static bool finished(const struct trial *t)
{
	return atomic_load(&t->words->progress) == 2 * (uint64_t)t->launched;
}

/* -EINPROGRESS: not within the time. */
static int stop(struct trial *t)
{
	uint64_t before = (uint64_t)(t->launched - 1) * t->blocks, end = fm_now() + LIMIT_NS;
	int rc = -EINPROGRESS;

	while (ran(t) == before && fm_now() < end)
		nap();
	atomic_store(&t->words->gate, 1);
	while (((rc = ops->stop.interrupt(&t->q)) == -EINPROGRESS || rc == -EAGAIN) &&
		fm_now() < end)
		nap();
	return rc;
}

static bool go_on(struct trial *t)
{
	uint64_t end = fm_now() + LIMIT_NS;

	atomic_store(&t->words->gate, 0);
	while ((ops->stop.restore(&t->q) || !finished(t)) && fm_now() < end)
		nap();
	return finished(t) || fail(t, "hang", 0, "a kernel that was stopped did not go on", NULL);
}

/* It stands where it was stopped: some blocks have run, and no more do. */
static bool stands(struct trial *t)
{
	uint64_t before = ran(t), all = (uint64_t)t->launched * t->blocks;
	const struct timespec pause = fm_timespec(STAND_NS);

	nanosleep(&pause, NULL);
	if (ran(t) == before && before < all && !finished(t))
		return true;
	return fail(t, "wrong", 0, "a kernel ran on although it was stopped", NULL);
}

static bool each_once(struct trial *t)
{
	unsigned wrong = 0;
	char text[64];

	for (unsigned i = 0; i < t->blocks; i++)
		wrong += atomic_load(&t->out[i]) != t->launched;
	if (!wrong)
		return true;
	snprintf(
		text, sizeof(text), "%u of %u blocks, launched %ux", wrong, t->blocks, t->launched);
	return fail(t, "wrong", 0, "a kernel that was stopped has computed something else", text);
}

/* The kernel may end before it can be told to stop: then once more, a longer one. */
static bool stop_and_go_on(struct trial *t)
{
	uint64_t ns = FIRST_NS;

	for (unsigned i = 0; i < ATTEMPTS; i++, ns *= 4) {
		bool inside;
		int rc;

		if (!launch(t, ns))
			return false;
		rc = stop(t);
		inside = rc == 0;
		if (rc == -EINPROGRESS)
			return fail(
				t, "hang", 0, "a kernel did not stop when it was told to", NULL);
		if ((inside && !stands(t)) || !go_on(t) || !each_once(t))
			return false;
		if (inside)
			return true;
	}
	return fail(t, "stop", 0, "a kernel ran to its end when it was told to stop", NULL);
}

/* What was made is of use to programs as well. */
static void try_cache(const struct trial *t, FILE *out)
{
	struct fm_image again = {.data = NULL};
	uint8_t key[FM_HASH_BYTES];
	struct fm_cache cache;
	int rc = fm_cache_open(&cache, NULL, FM_CACHE_DEFAULT);

	if (!rc) {
		if (!fm_cache_key(probe_trial_image, probe_trial_size, t->sm, NULL, key))
			rc = -ENOMEM;
		rc = rc ? rc : fm_cache_put(&cache, key, &t->image);
		rc = rc ? rc : fm_cache_get(&cache, key, &again);
		fm_image_free(&again);
		fm_cache_close(&cache);
	}
	probe_tell(out, json_pack("{s:s, s:s}", "step", "cache", "error", rc ? strerror(-rc) : ""));
}

static void try_device(struct probe_cuda *c, FILE *out, CUdevice d)
{
	struct trial t = {.c = c, .dev = d};
	char name[256] = "-";
	bool works;

	c->device_name(name, sizeof(name) - 1, d);
	probe_tell(out, json_pack("{s:s, s:s}", "step", "device", "name", name));
	works = has_functions(&t) && rewrite(&t) && make_queue(&t) && load(&t) &&
		stop_and_go_on(&t);
	probe_tell(out,
		json_pack("{s:s, s:s, s:s, s:i, s:i, s:b}", "step", "guardian", "reason",
			works ? "" : t.reason, "text", t.text, "code", t.code, "blocks",
			(int)t.blocks, "shared", attribute(&t, FM_CU_ATTRIBUTE_MPS_ENABLED) != 0));
	if (works)
		try_cache(&t, out);
}

void tool_cuda_probe_guard(FILE *out)
{
	struct probe_cuda c = {0};
	int n = probe_cuda_load(&c, out) ? probe_cuda_start(&c, out) : 0;

	for (CUdevice d = 0; d < n; d++)
		try_device(&c, out, d);
}
