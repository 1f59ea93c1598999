/* SPDX-License-Identifier: Apache-2.0 */
#include "named.h"
#include "api/cuda/core/tune.h"
#include "api/cuda/shim/memory/memory.h"
#include "base/clock.h"
#include "templates.h"
#include "xqueue/early.h"
#include <pthread.h>

#define POINTER_MEMORY_TYPE 2  /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define TYPE_HOST           1u /* CU_MEMORYTYPE_HOST */
#define PARAMS_MOST         8192u

static struct {
	_Atomic(struct fm_touch *) of[FM_CUDA_MEM_DEVICES];
	_Atomic unsigned n;
	_Atomic bool blind;
} named;

static struct fm_shapes shapes;
static struct fm_tensor_maps maps;

void fm_cuda_named_arena(struct fm_cuda_managed *m)
{
	struct fm_touch *t = fm_cu_arena_touch(atomic_load(&m->arena));
	unsigned n = atomic_load(&named.n);

	t->maps = &maps;
	t->segment = &fm_early_number;
	t->parts = fm_cuda_templates_boxes();
	if (n == FM_CUDA_MEM_DEVICES)
		return;
	atomic_store(&named.of[n], t);
	atomic_store(&named.n, n + 1);
}

#define each_arena(t)                                                                            \
	for (unsigned i_ = 0, n_ = atomic_load_explicit(&named.n, memory_order_acquire);         \
		i_ < n_ && ((t) = atomic_load_explicit(&named.of[i_], memory_order_relaxed), 1); \
		i_++)

bool fm_cuda_named_is_ours(uint64_t word)
{
	struct fm_touch *t;

	each_arena(t) if (word - t->base < t->size) return true;
	return false;
}

const struct fm_tensor_maps *fm_cuda_named_maps(void)
{
	return &maps;
}

/* --- kernels --- */

/* X(name here, symbol, parameters) */
#define SHAPE_CALLS(X)                                                                       \
	X(module, "cuFuncGetModule", (CUmodule * module, CUfunction f))                      \
	X(param, "cuFuncGetParamInfo", (CUfunction f, size_t i, size_t * at, size_t * size)) \
	X(library, "cuKernelGetLibrary", (CUlibrary * library, CUfunction k))                \
	X(kernel_param, "cuKernelGetParamInfo",                                              \
		(CUfunction k, size_t i, size_t * at, size_t * size))

static struct calls {
	SHAPE_CALLS(FM_CUDA_MEMBER)
	bool all;
} calls;

static void find_calls(void)
{
	struct calls *c = &calls;
	bool all = true;

	SHAPE_CALLS(FM_CUDA_FIND)
	c->all = all;
}

/* The first launch of a function; a handle may be one of the driver's older or newer kind. The
 * driver may load the function for the answer, which a capture must not forbid. */
/* What the driver says of a function's parameters: FM_CU_ERROR_INVALID_VALUE behind the last one.
 */
static fm_cu_result ask_for_params(CUfunction f, struct fm_shape_making *m)
{
	fm_cu_result (*param)(CUfunction, size_t, size_t *, size_t *);
	const struct fm_cu_driver *cu = fm_cuda_driver();
	const struct calls *c = &calls;
	struct fm_layout layout = {0};
	int mode = fm_cu_enter(cu);
	size_t at, size, i = 0;
	CUmodule module = NULL;
	CUlibrary library = NULL;
	fm_cu_result rc = FM_CU_SUCCESS;

	*m = (struct fm_shape_making){0};
	param = !c->module(&module, f)     ? c->param
		: !c->library(&library, f) ? c->kernel_param
					   : NULL;
	for (; param && i < PARAMS_MOST && !(rc = param(f, i, &at, &size)); i++) {
		fm_shape_add(m, i, at, size);
		fm_layout_add(&layout, at, size);
	}
	if (rc == FM_CU_ERROR_INVALID_VALUE)
		fm_cuda_templates_learnt(
			f, library ? (void *)library : (void *)module, library != NULL, &layout);
	fm_cu_leave(cu, mode);
	if (rc && rc != FM_CU_ERROR_INVALID_VALUE) {
		fm_shape_drop(m);
		*m = (struct fm_shape_making){0};
	}
	return rc;
}

/* The driver loads the function for that. If there is no memory for it, the launch after it would
 * fail with an error that does not say so: it is asked again when there is room. */
static FM_COLD const struct fm_shape *learn(CUfunction f)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_flag learning = ATOMIC_FLAG_INIT;
	const struct fm_shape *shape = NULL;
	struct fm_shape_making m;
	fm_cu_result rc;

	pthread_once(&once, find_calls);
	if (!fm_cuda_driver() || !calls.all || !f || atomic_flag_test_and_set(&learning))
		return NULL;
	rc = FM_CUDA_LAUNCH_WITH_ROOM(ask_for_params(f, &m));
	if (rc == FM_CU_ERROR_INVALID_VALUE)
		shape = fm_shapes_put(&shapes, f, &m);
	else
		fm_shape_drop(&m);
	if (!shape)
		fm_shapes_unknown(&shapes, f);
	atomic_flag_clear(&learning);
	return shape;
}

FM_HOT const struct fm_shape *fm_cuda_named_shape(CUfunction f)
{
	const struct fm_shape *shape = fm_shapes_find(&shapes, f);

	if (FM_UNLIKELY(!shape))
		shape = learn(f);
	return FM_LIKELY(shape != FM_SHAPE_UNKNOWN) ? shape : NULL;
}

/* No kernel has more bytes of parameters (CUDA 12.1). The program may say anything, and the driver
 * refuses what is not the kernel's: a buffer that is said to be larger is not looked at. */
#define BUFFER_MOST 32764
const void *fm_cuda_named_buffer(void *const *extra, size_t *bytes)
{
	const void *buffer = NULL;

	*bytes = 0;
	for (; extra && extra[0] != FM_CU_EXTRA_END; extra += 2) {
		if (extra[0] == FM_CU_EXTRA_BUFFER)
			buffer = extra[1];
		else if (extra[0] == FM_CU_EXTRA_SIZE && extra[1])
			*bytes = *(const size_t *)extra[1];
		else
			return NULL;
	}
	return *bytes <= BUFFER_MOST ? buffer : NULL;
}

static FM_COLD void kernel_by_buffer(void *const *extra)
{
	struct fm_touch *t;
	size_t bytes;
	const void *buffer = fm_cuda_named_buffer(extra, &bytes);

	each_arena(t)
	{
		if (buffer)
			fm_touch_buffer(t, buffer, bytes);
		else
			fm_touch_all(t);
	}
}

/* False: all that its parameters name is to be named. */
static FM_COLD bool named_in_part(struct fm_bound *b, const uint32_t *dims, void *const *params)
{
	struct fm_predicted l;
	struct fm_touch *t;

	if (!fm_predict_begin(&fm_cuda_predict, b, dims, params, &l))
		return false;
	each_arena(t)
	{
		fm_touch_params(t, b->rest, (void *[]){l.params});
		fm_predict_touch(&fm_cuda_predict, &l, t);
	}
	return true;
}

FM_HOT void fm_cuda_named_kernel(
	CUfunction f, const uint32_t *dims, void *const *params, void *const *extra)
{
	const struct fm_shape *shape;
	struct fm_bound *bound;
	struct fm_touch *t;

	if (FM_UNLIKELY(extra)) {
		kernel_by_buffer(extra);
		return;
	}
	if (!params)
		return;
	shape = fm_cuda_named_shape(f);
	bound = fm_cuda_templates_of(f);
	if (FM_UNLIKELY(bound) && named_in_part(bound, dims, params))
		return;
	each_arena(t)
	{
		if (FM_LIKELY(shape))
			fm_touch_params(t, shape, params);
		else
			fm_touch_all(t);
	}
}

void fm_cuda_named_unloaded(const void *handle)
{
	fm_cuda_templates_unloaded(handle);
	fm_shapes_forget(&shapes);
}

/* --- others --- */

void fm_cuda_named_words(const void *words, size_t n)
{
	struct fm_touch *t;

	each_arena(t) fm_touch_words(t, words, n);
}

void fm_cuda_named_part(uint64_t at, uint64_t bytes)
{
	struct fm_touch *t;

	each_arena(t) if (at - t->base < t->size) fm_touch_box(t, at, bytes);
}

void fm_cuda_named_all(void)
{
	struct fm_touch *t;

	each_arena(t) fm_touch_all(t);
}

void fm_cuda_named_never_known(void)
{
	atomic_store(&named.blind, true);
}

/* The driver knows device memory, and memory of the host that is registered. */
bool fm_cuda_named_readable(uint64_t at)
{
	static _Atomic(void *) kept;
	void *call = atomic_load_explicit(&kept, memory_order_relaxed);
	unsigned type;

	if (FM_UNLIKELY(!call)) {
		call = fm_cuda_symbol("cuPointerGetAttribute");
		atomic_store_explicit(&kept, call, memory_order_relaxed);
	}
	return at && call &&
	       (((fm_cu_result(*)(void *, int, CUdeviceptr))call)(&type, POINTER_MEMORY_TYPE, at) ||
		       type == TYPE_HOST);
}

/* A short copy from the host may be a table of pointers. */
static void look_into(struct fm_touch *t, const struct fm_cuda_named_copy *c)
{
	bool short_one = c->bytes >= 8 && c->bytes <= FM_TOUCH_TABLE;

	if (c->from_host && short_one && !fm_cuda_named_is_ours(c->src) &&
		fm_cuda_named_readable(c->src))
		fm_touch_points(t, c->dst, (const void *)(uintptr_t)c->src, c->bytes);
	else
		fm_touch_copied(t, c->dst, c->bytes, c->src);
}

void fm_cuda_named_copy(const struct fm_cuda_named_copy *c)
{
	struct fm_touch *t;

	each_arena(t)
	{
		fm_touch_range(t, c->src, c->bytes);
		if (c->dst - t->base >= t->size)
			continue;
		fm_touch_range(t, c->dst, c->bytes);
		look_into(t, c);
	}
}

/* --- tensor maps, textures --- */

/* How much a map reaches, by the names that its row gives the parameters: its sizes and strides; or
 * the same as before, if it has got another address. */
struct map_args {
	const void *map;
	uint64_t at;
	int type, interleave;
	unsigned rank;
	const uint64_t *sizes, *strides;
};
#define MAP_ARG(type, name)   MAP_ARG_##name(name)
#define MAP_ARG_map(v)        a.map = (v)
#define MAP_ARG_at(v)         a.at = (uintptr_t)(v)
#define MAP_ARG_type(v)       a.type = (v)
#define MAP_ARG_rank(v)       a.rank = (v)
#define MAP_ARG_sizes(v)      a.sizes = (v)
#define MAP_ARG_strides(v)    a.strides = (v)
#define MAP_ARG_interleave(v) a.interleave = (v)
#define MAP_ARG_box(v)        (void)(v)
#define MAP_ARG_steps(v)      (void)(v)
#define MAP_ARG_swizzle(v)    (void)(v)
#define MAP_ARG_promotion(v)  (void)(v)
#define MAP_ARG_fill(v)       (void)(v)
#define MAP_ARG_lower(v)      (void)(v)
#define MAP_ARG_upper(v)      (void)(v)
#define MAP_ARG_channels(v)   (void)(v)
#define MAP_ARG_pixels(v)     (void)(v)
#define MAP_ARG_mode(v)       (void)(v)

static uint64_t bytes_before(const struct map_args *a)
{
	uint64_t address, bytes = 0;

	if (a->rank || !a->map || !fm_cuda_manages())
		return 0;
	fm_tensor_map_box(&maps, a->map, &address, &bytes);
	return bytes;
}

static void map_is(const struct map_args *a, uint64_t before)
{
	uint64_t bytes = a->rank && !a->interleave
				 ? fm_tensor_map_bytes(a->type, a->rank, a->sizes, a->strides)
				 : before;

	if (a->map && fm_cuda_manages())
		fm_tensor_map_put(&maps, a->map, a->at, bytes);
}

#define OWN_MAP(symbol, params)                       \
	fm_cu_result symbol CALL_PARAMS(params)       \
	{                                             \
		struct map_args a = {.type = 0};      \
		uint64_t before;                      \
		fm_cu_result rc;                      \
                                                      \
		(void)(CALL_EACH(MAP_ARG, params));   \
		before = bytes_before(&a);            \
		rc = NEXT(symbol, CALL_ARGS(params)); \
		if (rc == FM_CU_SUCCESS)              \
			map_is(&a, before);           \
		return rc;                            \
	}
#define OWN_NAMES(...)
#define OWN_NAMES_BY_HAND(...)
#define OWN_WORDS_NODE(...)
#define OWN_(...)
#define ON_own(symbol, per_thread, name, since, note, params, how) OWN_##how(symbol, params)
#include "api/cuda/calls.def"

/* A texture is passed by a number, so its memory is in use as long as it is there. Lossy. */
#define TEXTURES 1024u
static struct {
	_Atomic uint64_t texture, at;
} textures[TEXTURES];

void fm_cuda_named_texture(uint64_t texture, uint64_t at)
{
	for (unsigned i = 0; i < TEXTURES; i++) {
		uint64_t is = 0;

		if (!atomic_compare_exchange_strong(&textures[i].texture, &is, texture) &&
			is != texture)
			continue;
		atomic_store(&textures[i].at, at);
		return;
	}
	fm_cuda_named_never_known();
}

fm_cu_result cuTexObjectCreate(unsigned long long *texture,
	const struct CUDA_RESOURCE_DESC_st *what, const struct CUDA_TEXTURE_DESC_st *how,
	const struct CUDA_RESOURCE_VIEW_DESC_st *view)
{
	fm_cu_result rc = NEXT(cuTexObjectCreate, (texture, what, how, view));
	const struct fm_cu_texture *r = (const void *)what;

	if (rc == FM_CU_SUCCESS && fm_cuda_manages() && r && texture &&
		(r->type == FM_CU_RESOURCE_LINEAR || r->type == FM_CU_RESOURCE_PITCHED))
		fm_cuda_named_texture(*texture, r->at);
	return rc;
}

fm_cu_result cuTexObjectDestroy(unsigned long long texture)
{
	for (unsigned i = 0; texture && fm_cuda_manages() && i < TEXTURES; i++)
		if (atomic_load_explicit(&textures[i].texture, memory_order_relaxed) == texture) {
			atomic_store(&textures[i].at, 0);
			atomic_store(&textures[i].texture, 0);
		}
	return NEXT(cuTexObjectDestroy, (texture));
}

static void keep_textures(struct fm_touch *t)
{
	for (unsigned i = 0; i < TEXTURES; i++) {
		uint64_t at = atomic_load_explicit(&textures[i].at, memory_order_relaxed);

		if (at)
			fm_touch_keep(t, at);
	}
}

/* --- turns --- */

/* How far each queue had come when this was last looked at, and when all of that had ended. What
 * was named before may still have to run, and is in use. */
static struct {
	atomic_flag busy;
	_Atomic uint64_t next; /* time of the next turn, if nothing comes to a rest before */
	struct {
		const struct fm_slot *slot;
		uint64_t begun;
	} mark[FM_BOARD_SLOTS];
	size_t n;
	struct fm_turn_marks {
		uint32_t marked;        /* the turn of the marks */
		_Atomic uint32_t since; /* nothing from before this turn has to run */
	} of[FM_CUDA_MEM_DEVICES];
} turns = {.busy = ATOMIC_FLAG_INIT};

static bool has_work(const struct fm_cuda_queue *q)
{
	return fm_slot_pending(q->xq->slot);
}

/* A slot that counts from zero is another queue's. */
static bool marks_passed(void)
{
	for (size_t i = 0; i < turns.n; i++) {
		const struct fm_slot *s = turns.mark[i].slot;

		if (fm_slot_done(s) < turns.mark[i].begun &&
			atomic_load(&s->begun) >= turns.mark[i].begun)
			return false;
	}
	return true;
}

static void set_marks(void)
{
	struct fm_xq *busy[FM_BOARD_SLOTS];

	turns.n = fm_cuda_keep(NULL, busy, has_work, NULL);
	for (size_t i = 0; i < turns.n; i++) {
		turns.mark[i].slot = busy[i]->slot;
		turns.mark[i].begun = atomic_load(&busy[i]->slot->begun);
		fm_xq_unref(busy[i]);
	}
}

void fm_cuda_named_turn(void)
{
	bool passed, was_one = false;
	struct fm_touch *t;
	uint32_t before;

	if (atomic_flag_test_and_set(&turns.busy))
		return;
	atomic_store(&turns.next, fm_add_sat(fm_now(), FM_CU_NAMED_TURN));
	passed = marks_passed();
	if (passed)
		set_marks();
	each_arena(t)
	{
		struct fm_turn_marks *m = &turns.of[i_];

		if (passed) {
			atomic_store(&m->since, m->marked + 1);
			m->marked = atomic_load(&t->turn);
		}
		before = atomic_load(&t->turn);
		was_one |= fm_touch_turn(t) != before;
		keep_textures(t);
	}
	if (was_one)
		fm_predict_turn(&fm_cuda_predict);
	atomic_flag_clear(&turns.busy);
}

static void tell(struct fm_cuda_managed *m, void *arg)
{
	(void)arg;
	fm_cuda_named_tell(m);
}

/* The work of the last turns was not as it was foretold: its kernels name all again for a while. */
void fm_cuda_named_distrust(void)
{
	fm_predict_distrust(&fm_cuda_predict, FM_CU_NAMED_TURNS);
	fm_cuda_named_graphs_distrust();
}

void fm_cuda_named_look(void)
{
	if (fm_cuda_templates_look())
		fm_shapes_forget(&shapes);
	if (!atomic_load_explicit(&named.n, memory_order_relaxed) ||
		fm_now() < atomic_load_explicit(&turns.next, memory_order_relaxed))
		return;
	fm_cuda_named_turn();
	fm_cuda_missed_turn(0);
	fm_cuda_managed_each(tell, NULL);
}

/* The place of an arena here is that of its turns. */
static uint32_t unfinished_since(const struct fm_touch *of)
{
	struct fm_touch *t;

	each_arena(t) if (t == of) return atomic_load(&turns.of[i_].since);
	return 0;
}

uint32_t fm_cuda_named_since(const struct fm_cuda_managed *m)
{
	const struct fm_touch *t = fm_cu_arena_touch(atomic_load(&m->arena));
	uint32_t since = FM_MIN(fm_touch_since(t, FM_CU_NAMED_TURNS), unfinished_since(t));

	return !atomic_load(&named.blind) && fm_touch_known(t, since) ? since : 0;
}

void fm_cuda_named_tell(struct fm_cuda_managed *m)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = c ? fm_account_row(c, m->row) : NULL;
	struct fm_cu_arena *a = atomic_load(&m->arena);
	uint32_t since = fm_cuda_named_since(m);
	struct fm_cu_arena_hot hot;

	fm_cuda_templates_tell();
	if (!d)
		return;
	fm_cu_arena_hot(a, since, &hot);
	atomic_store(&d->hot_out, hot.out);
	atomic_store(&d->hot_mapped, hot.mapped);
	atomic_store(&d->hot, since ? hot.all : UINT64_MAX);
}

void fm_cuda_named_fork_child(void)
{
	atomic_store(&named.n, 0);
	atomic_flag_clear(&turns.busy);
	turns.n = 0;
	for (unsigned i = 0; i < TEXTURES; i++) {
		atomic_store(&textures[i].at, 0);
		atomic_store(&textures[i].texture, 0);
	}
	fm_cuda_missed_fork_child();
	fm_shapes_forget(&shapes);
	fm_cuda_templates_fork_child();
	fm_cuda_named_graphs_fork_child();
}
