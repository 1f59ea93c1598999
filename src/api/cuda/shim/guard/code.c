/* SPDX-License-Identifier: Apache-2.0 */
#include "code.h"
#include "base/lockorder.h"
#include "guarded.h"
#include "rewrite.h"
#include "shim/map.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A handle that leads to some code: of a function, or of a module or library. */
struct handed {
	struct fm_handles *map;
	uintptr_t key;
	const void *value;
	CUcontext ctx; /* the handle ends with it; NULL: with the code */
};

struct fm_cuda_code {
	struct fm_cuda_code *next;
	bool library;
	CUcontext ctx; /* the module's */
	void *handle;
	char id[FM_IMAGE_ID];          /* empty: none of its kernels may be killed */
	struct fm_image image;         /* it has no kernels: it is as the program made it */
	struct fm_cuda_kernel *kernel; /* one for each of the image */
	unsigned *by_name;             /* their numbers, in the order of their names */
	struct fm_cuda_kernel other;   /* any other function */
	struct handed *handed;
	size_t n_handed, room;
};

_Atomic bool fm_cuda_rewrites;
_Atomic bool fm_cuda_rewrote;

/* Maps are read without the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, CUDA_CODE);
static struct fm_cuda_code *loaded;
static struct fm_handles functions;     /* struct fm_cuda_kernel, by CUfunction or CUkernel */
static struct fm_handles containers[2]; /* struct fm_cuda_code, by CUmodule; by CUlibrary */

static const char refused[] = "refused by the driver";

/* What was done to all code so far, and what the client was told about it. */
#define REFUSED FM_IMAGE_OK /* the reason that the driver did not take ours */
struct left {
	const char *why; /* NULL: no image was left */
	unsigned n, told;
};
static struct {
	struct fm_client *client;
	struct fm_client_images sum;
	struct left image[FM_IMAGE_WHYS], kernel[FM_KERNEL_WHYS + 1], loops[FM_LOOP_WHYS];
	struct left kill[FM_KILL_WHYS], not_killed[FM_CUDA_KILL_NOTS], list;
} counts;

/* Functions of code that we have not seen loaded. */
static struct fm_cuda_code strangers;
static struct fm_cuda_kernel stranger = {.why = "loaded unseen", .code = &strangers};

/* --- whether --- */

/* The driver's functions that identify a function whose handle we have not seen handed out. */
/* clang-format off */
#define QUESTIONS(X) \
	X(func_module, "cuFuncGetModule", (CUmodule *module, CUfunction f)) \
	X(func_name, "cuFuncGetName", (const char **name, CUfunction f)) \
	X(kernel_library, "cuKernelGetLibrary", (CUlibrary *library, CUkernel k)) \
	X(kernel_name, "cuKernelGetName", (const char **name, CUkernel k)) \
	X(library_kernel, "cuLibraryGetKernel", (CUkernel *k, CUlibrary library, const char *name)) \
	X(kernel_function, "cuKernelGetFunction", (CUfunction *f, CUkernel k))
/* clang-format on */

static struct questions {
	QUESTIONS(FM_CUDA_MEMBER)
	bool all;
} ask;

static pthread_once_t asked = PTHREAD_ONCE_INIT;

static void find_questions(void)
{
	struct questions *c = &ask;
	bool all = true;

	QUESTIONS(FM_CUDA_FIND)
	c->all = all;
}

/* The child has no code of its parent's, because the driver does not survive a fork. */
void fm_cuda_code_fork_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	loaded = NULL;
	functions = containers[0] = containers[1] = (struct fm_handles){.table = NULL};
	memset(&counts, 0, sizeof(counts));
	strangers = (struct fm_cuda_code){0};
	atomic_store(&fm_cuda_rewrote, false);
}

void fm_cuda_rewrite_images(void)
{
	fm_shim_hear_forks();
	atomic_store(&fm_cuda_rewrites, true);
	fm_cuda_be_careful();
}

__attribute__((constructor)) static void begin(void)
{
	const char *want = secure_getenv("FERMATA_GUARDIAN");

	if (want && !strcmp(want, "1") && !fm_client_switched_off())
		fm_cuda_rewrite_images();
}

/* Without those answers, a function that came by an unknown way could be a rewritten kernel without
 * our knowing. So drivers before CUDA 12.5 get images as they are. */
static bool wanted(void)
{
	if (FM_LIKELY(!atomic_load_explicit(&fm_cuda_rewrites, memory_order_relaxed)) ||
		fm_cu_inside || !fm_cuda_driver())
		return false;
	pthread_once(&asked, find_questions);
	return ask.all;
}

/* --- code in the making --- */

static int order(const void *a, const void *b, void *of)
{
	const struct fm_image *image = of;

	return strcmp(
		image->kernel[*(const unsigned *)a].name, image->kernel[*(const unsigned *)b].name);
}

static bool index_kernels(struct fm_cuda_code *c)
{
	unsigned n = c->image.n;

	c->kernel = calloc(n, sizeof(*c->kernel));
	c->by_name = calloc(n, sizeof(*c->by_name));
	if (!c->kernel || !c->by_name)
		return false;
	for (unsigned i = 0; i < n; i++) {
		const struct fm_kernel *k = &c->image.kernel[i];

		c->by_name[i] = i;
		c->kernel[i].code = c;
		if (k->why) {
			c->kernel[i].why = fm_kernel_reason(k->why);
			continue;
		}
		c->kernel[i].image = k;
		c->kernel[i].kills = fm_cuda_kills(c->id, k);
		c->kernel[i].mode = fm_kernel_mode(k->traits);
		c->kernel[i].left = fm_cuda_guard_list(k->name, &c->kernel[i].mode);
	}
	qsort_r(c->by_name, n, sizeof(*c->by_name), order, &c->image);
	return true;
}

static struct fm_cuda_kernel *kernel_named(struct fm_cuda_code *c, const char *name)
{
	unsigned from = 0, to = c->kernel ? c->image.n : 0;

	while (from < to) {
		unsigned at = from + (to - from) / 2, i = c->by_name[at];
		int cmp = strcmp(name, c->image.kernel[i].name);

		if (!cmp)
			return &c->kernel[i];
		if (cmp < 0)
			to = at;
		else
			from = at + 1;
	}
	return &c->other;
}

static void drop_image(struct fm_cuda_code *c, enum fm_image_why why)
{
	fm_image_free(&c->image);
	free(c->kernel);
	free(c->by_name);
	c->kernel = NULL;
	c->by_name = NULL;
	c->image.why = why;
	c->other.why = fm_image_reason(why);
}

static struct fm_cuda_code *make(bool library)
{
	struct fm_cuda_code *c = wanted() ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return NULL;
	c->library = library;
	c->other = (struct fm_cuda_kernel){.why = "not known in its image", .code = c};
	return c;
}

static struct fm_cuda_code *made(struct fm_cuda_code *c)
{
	if (!c->image.why && !index_kernels(c))
		drop_image(c, FM_IMAGE_MEMORY);
	else if (c->image.why)
		drop_image(c, c->image.why);
	return c;
}

struct fm_cuda_code *fm_cuda_code_make(const void *image, size_t size, bool library)
{
	struct fm_cuda_code *c = make(library);

	if (!c)
		return NULL;
	if (image)
		fm_cuda_rewrite(image, size, library, c->id, &c->image);
	else
		c->image.why = FM_IMAGE_UNKNOWN;
	return made(c);
}

struct fm_cuda_code *fm_cuda_code_make_file(const char *path, bool library)
{
	struct fm_cuda_code *c = make(library);

	if (!c)
		return NULL;
	fm_cuda_rewrite_file(path, library, c->id, &c->image);
	return made(c);
}

const void *fm_cuda_code_data(const struct fm_cuda_code *c)
{
	return c->image.data;
}

void fm_cuda_code_refused(struct fm_cuda_code *c)
{
	drop_image(c, REFUSED);
	c->other.why = refused;
}

void fm_cuda_code_free(struct fm_cuda_code *c)
{
	drop_image(c, FM_IMAGE_OK);
	free(c->handed);
	free(c);
}

/* --- handles, all under the lock --- */

static struct fm_handles *containers_of(bool library)
{
	return &containers[library];
}

/* The handle leads to the value from now on. False: no memory. */
static bool hand(struct fm_cuda_code *c, struct fm_handles *map, const void *handle, void *value,
	CUcontext ctx)
{
	uintptr_t key = (uintptr_t)handle;
	struct handed *more;

	if (fm_handles_find(map, key) == value)
		return true;
	if (c->n_handed == c->room) {
		more = realloc(c->handed, (2 * c->room + 8) * sizeof(*more));
		if (!more)
			return false;
		c->handed = more;
		c->room = 2 * c->room + 8;
	}
	if (!fm_handles_set(map, key, value))
		return false;
	c->handed[c->n_handed++] = (struct handed){map, key, value, ctx};
	return true;
}

/* Takes back the handles that end with the context; NULL: all. A handle that leads elsewhere by now
 * is not ours. */
static void take_back(struct fm_cuda_code *c, CUcontext ctx)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_handed; i++) {
		struct handed *h = &c->handed[i];

		if (ctx && h->ctx != ctx)
			c->handed[n++] = *h;
		else
			fm_handles_erase(h->map, h->key, h->value);
	}
	c->n_handed = n;
}

static void tell_left(const char *what, struct left *left, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (left[i].n != left[i].told)
			fm_client_count_left(
				counts.client, what, left[i].why, left[i].n - left[i].told);
		left[i].told = left[i].n;
	}
}

static void tell(void)
{
	if (!counts.client)
		return;
	counts.sum.ns = fm_cuda_rewrite_ns();
	fm_client_count_images(counts.client, &counts.sum);
	tell_left("image", counts.image, FM_ARRAY_LEN(counts.image));
	tell_left("kernel", counts.kernel, FM_ARRAY_LEN(counts.kernel));
	tell_left("loops", counts.loops, FM_ARRAY_LEN(counts.loops));
	tell_left("kill", counts.kill, FM_ARRAY_LEN(counts.kill));
	tell_left("kill", counts.not_killed, FM_ARRAY_LEN(counts.not_killed));
	tell_left("kill", &counts.list, 1);
}

/* The list says nothing of any kernel, since it is not believed. */
static void count_list(void)
{
	const char *why;

	fm_cuda_kill_wished(&why);
	counts.list.why = why;
	counts.list.n = why != NULL;
}

static void count(const struct fm_cuda_code *c)
{
	count_list();
	if (c->kernel) {
		counts.sum.images++;
		counts.sum.kernels += c->image.n_rewritten;
		counts.sum.kernels_left += c->image.n - c->image.n_rewritten;
	} else {
		counts.sum.images_left++;
		counts.image[c->image.why].why = c->other.why;
		counts.image[c->image.why].n++;
	}
	tell();
}

/* Counts a kernel that the program uses and that cannot be left in loops as was requested. */
static void count_loops(struct fm_cuda_kernel *k)
{
	enum fm_loop_why why = k->image->loops;

	if (k->counted || why == FM_LOOP_UNASKED || why == FM_LOOP_POLLED)
		return;
	k->counted = true;
	counts.loops[why].why = fm_loop_reason(why);
	counts.loops[why].n++;
	tell();
}

/* Likewise one that cannot be killed. */
static void count_kill(struct fm_cuda_kernel *k)
{
	enum fm_kill_why why = k->image->kill;

	if (k->kill_counted || why == FM_KILL_UNASKED || k->kills.n)
		return;
	k->kill_counted = true;
	why = why == FM_KILL_ABLE ? FM_KILL_ADDRESS : why;
	counts.kill[why].why = fm_kill_reason(why);
	counts.kill[why].n++;
	tell();
}

/* A launch has the order of its queue, which comes behind this lock: if another thread has it, the
 * next launch tells. */
void fm_cuda_code_not_killed(struct fm_cuda_kernel *k, enum fm_cuda_kill_not why)
{
	if (pthread_mutex_trylock(&lock))
		return;
	if (!(atomic_fetch_or(&k->kill_told, 1u << why) >> why & 1)) {
		counts.not_killed[why].why = fm_cuda_kill_not_text(why);
		counts.not_killed[why].n++;
		tell();
	}
	pthread_mutex_unlock(&lock);
}

/* Counts a kernel that the program uses and that was left as it is, in an image that was
 * rewritten. */
static void count_kernel(struct fm_cuda_kernel *k)
{
	unsigned i = 0;

	if (k->image) {
		count_loops(k);
		count_kill(k);
	}
	if (k->image || k->counted || !(k->code->kernel || k == &stranger))
		return;
	k->counted = k != &stranger;
	while (i < FM_ARRAY_LEN(counts.kernel) - 1 && counts.kernel[i].why &&
		counts.kernel[i].why != k->why)
		i++;
	counts.kernel[i].why = k->why;
	counts.kernel[i].n++;
	tell();
}

void fm_cuda_code_tell(struct fm_client *c)
{
	if (!atomic_load_explicit(&fm_cuda_rewrites, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	counts.client = c;
	tell();
	pthread_mutex_unlock(&lock);
}

bool fm_cuda_code_loaded(struct fm_cuda_code *c, void *handle, bool preserved)
{
	bool done;

	c->handle = handle;
	c->ctx = c->library ? NULL : fm_cuda_current();
	pthread_mutex_lock(&lock);
	done = hand(c, containers_of(c->library), handle, c, c->ctx);
	if (done) {
		c->next = loaded;
		loaded = c;
		count(c);
	}
	pthread_mutex_unlock(&lock);
	if (!done)
		return false;
	if (!preserved) {
		free(c->image.data);
		c->image.data = NULL;
	}
	if (c->kernel)
		atomic_store(&fm_cuda_rewrote, true);
	return true;
}

static void unlink_code(struct fm_cuda_code *c)
{
	struct fm_cuda_code **at = &loaded;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
}

/* The module of a library is not unloaded by itself. */
struct fm_cuda_code *fm_cuda_code_unload(void *handle, bool library)
{
	struct fm_cuda_code *c;

	if (!atomic_load_explicit(&fm_cuda_rewrites, memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(&lock);
	c = fm_handles_find(containers_of(library), (uintptr_t)handle);
	if (c && c->library != library)
		c = NULL;
	if (c) {
		fm_handles_erase(containers_of(library), (uintptr_t)handle, c);
		unlink_code(c);
	}
	pthread_mutex_unlock(&lock);
	return c;
}

void fm_cuda_code_unloaded(struct fm_cuda_code *c, fm_cu_result rc)
{
	if (!c)
		return;
	pthread_mutex_lock(&lock);
	if (rc) {
		hand(c, containers_of(c->library), c->handle, c, c->ctx);
		c->next = loaded;
		loaded = c;
	} else {
		take_back(c, NULL);
	}
	pthread_mutex_unlock(&lock);
	if (!rc)
		fm_cuda_code_free(c);
}

void fm_cuda_code_context_gone(CUcontext ctx)
{
	struct fm_cuda_code **at = &loaded, *ended = NULL, *c;

	if (!ctx || !atomic_load_explicit(&fm_cuda_rewrites, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	take_back(&strangers, NULL);
	while ((c = *at)) {
		if (c->ctx != ctx) {
			take_back(c, ctx);
			at = &c->next;
			continue;
		}
		*at = c->next;
		c->next = ended;
		ended = c;
		take_back(c, NULL);
	}
	pthread_mutex_unlock(&lock);
	while ((c = ended)) {
		ended = c->next;
		fm_cuda_code_free(c);
	}
}

/* --- functions --- */

static void function_is(struct fm_cuda_kernel *k, const void *function, CUcontext ctx)
{
	if (fm_handles_find(&functions, (uintptr_t)function) == k)
		return;
	pthread_mutex_lock(&lock);
	if (hand(k->code, &functions, function, k, ctx))
		count_kernel(k);
	pthread_mutex_unlock(&lock);
}

void fm_cuda_code_function(void *container, bool library, const char *name, void *function)
{
	struct fm_cuda_code *c;

	if (!wanted())
		return;
	c = fm_handles_find(containers_of(library), (uintptr_t)container);
	function_is(c ? kernel_named(c, name) : &stranger, function, NULL);
}

void fm_cuda_code_module(CUlibrary library, CUmodule module)
{
	CUcontext ctx;
	struct fm_cuda_code *c;

	if (!wanted())
		return;
	c = fm_handles_find(containers_of(true), (uintptr_t)library);
	ctx = fm_cuda_current();
	if (!c || fm_handles_find(containers_of(false), (uintptr_t)module) == c)
		return;
	pthread_mutex_lock(&lock);
	hand(c, containers_of(false), module, c, ctx);
	pthread_mutex_unlock(&lock);
}

/* Is this the function, in the current context, of one of our kernels by this name? */
static struct fm_cuda_kernel *of_library(CUfunction f, const char *name)
{
	struct fm_cuda_kernel *found = NULL;

	pthread_mutex_lock(&lock);
	for (struct fm_cuda_code *c = loaded; c && !found; c = c->next) {
		struct fm_cuda_kernel *k = c->library ? kernel_named(c, name) : &c->other;
		CUkernel kernel;
		CUfunction its;

		if (k != &c->other && !ask.library_kernel(&kernel, c->handle, name) &&
			!ask.kernel_function(&its, kernel) && its == f)
			found = k;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Asks the driver where a function is from. */
static FM_COLD struct fm_cuda_kernel *look_up(CUfunction f)
{
	struct fm_cuda_kernel *k = NULL;
	struct fm_cuda_code *c;
	CUlibrary library;
	CUmodule module;
	const char *name;

	if (!ask.func_module(&module, f) && !ask.func_name(&name, f)) {
		c = fm_handles_find(containers_of(false), (uintptr_t)module);
		k = c ? kernel_named(c, name) : of_library(f, name);
	} else if (!ask.kernel_library(&library, (CUkernel)f) &&
		   !ask.kernel_name(&name, (CUkernel)f)) {
		c = fm_handles_find(containers_of(true), (uintptr_t)library);
		k = c ? kernel_named(c, name) : NULL;
	}
	return k ? k : &stranger;
}

FM_HOT struct fm_cuda_kernel *fm_cuda_kernel_known(CUfunction f)
{
	struct fm_cuda_kernel *k = fm_handles_find(&functions, (uintptr_t)f);

	if (FM_LIKELY(k))
		return k;
	if (!f || !wanted())
		return &stranger;
	fm_cu_inside++;
	k = look_up(f);
	fm_cu_inside--;
	function_is(k, f, fm_cuda_current());
	return k;
}

void fm_cuda_code_kernel_function(CUkernel kernel, CUfunction function)
{
	if (wanted())
		function_is(fm_cuda_kernel_known((CUfunction)kernel), function, fm_cuda_current());
}
