/* SPDX-License-Identifier: Apache-2.0 */
#include "registered.h"
#include "api/cuda/core/memory/hold.h"
#include "api/cuda/core/tune.h"
#include "api/cuda/shim/hook.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "managed.h"
#include "xqueue/rest.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WHY        FM_MEM_PIN_SHARED
#define DESCRIPTOR 1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */

/* --- whose they are --- */

static const struct {
	const char *prefix, *library;
} of[] = {{"ibv_", "libibverbs.so.1"}, {"mlx5dv_", "libmlx5.so.1"}, {"gdr_", "libgdrapi.so.2"},
	{"cuFile", "libcufile.so.0"}};

static int library_of(const char *symbol)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(of); i++)
		if (!strncmp(symbol, of[i].prefix, strlen(of[i].prefix)))
			return (int)i;
	return -1;
}

bool fm_cuda_registers(const char *symbol)
{
	return library_of(symbol) >= 0;
}

/* As the program has loaded it. It stays loaded from then on. */
static void *library(int i)
{
	static _Atomic(void *) loaded[FM_ARRAY_LEN(of)];
	void *h = atomic_load_explicit(&loaded[i], memory_order_acquire);

	if (h)
		return h;
	h = dlopen(of[i].library, RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store_explicit(&loaded[i], h, memory_order_release);
	return h;
}

bool fm_cuda_registers_loaded(const char *symbol)
{
	return library(library_of(symbol));
}

void *fm_cuda_registers_own(const char *symbol)
{
	void *h = library(library_of(symbol));

	return fm_look_up_next(h ? h : RTLD_NEXT, symbol);
}

/* --- what is registered --- */

struct registered {
	struct registered *next;
	const void *key; /* the library's handle, or the address */
	const void *by;  /* what ends it, too, when it is closed itself; or NULL */
	const char *of;  /* the function that ends it */
	struct fm_cu_holds holds;
};

static struct {
	pthread_mutex_t lock;
	struct registered *all;
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(registered.lock, CUDA_REGISTERED);

void fm_cuda_registers_fork_child(void)
{
	registered.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	registered.all = NULL;
}

struct holding {
	CUdeviceptr at;
	size_t size;
	bool anywhere; /* also what runs from the host, where it then stays */
	struct fm_cu_holds *h;
	const struct fm_cuda_pinner *by;
	int rc;
};

static void hold_in(struct fm_cuda_managed *m, void *arg)
{
	struct holding *r = arg;
	struct fm_cu_arena *a = atomic_load(&m->arena);
	struct fm_cu_range all = fm_cu_arena_range(a);
	uint64_t bytes = 0;
	int rc;

	if (r->at - all.at >= all.size && all.at - r->at >= r->size)
		return;
	rc = fm_cu_arena_hold(a, r->at, r->size, WHY, r->anywhere, r->h, &bytes);
	if (rc == -ENOMEM) /* to say for how long */
		fm_cu_arena_pin_all(a, WHY, &bytes);
	else if (rc)
		r->rc = rc;
	fm_cuda_managed_pinned(m, WHY, bytes);
	if (bytes)
		fm_cuda_managed_named(WHY, r->by);
}

static void let_go_in(struct fm_cuda_managed *m, void *holds)
{
	uint64_t bytes;

	fm_cu_arena_let_go(atomic_load(&m->arena), WHY, holds, &bytes);
	fm_cuda_managed_unpinned(m, WHY, bytes);
}

static void let_go(struct fm_cu_holds *h)
{
	int was = errno;

	if (h->n)
		fm_cuda_managed_each(let_go_in, h);
	free(h->one);
	*h = (struct fm_cu_holds){0};
	errno = was;
}

/* False: some of it runs from the host, and nothing is held. */
static bool hold_all(struct holding *r, bool anywhere)
{
	unsigned shard;
	int rc;

	r->anywhere = anywhere;
	r->rc = 0;
	shard = fm_rest_call_begin(fm_shim_has_client());
	fm_cuda_managed_each(hold_in, r);
	fm_rest_call_end(fm_shim_has_client(), shard);
	rc = fm_cuda_vmm_hold(r->at, r->size, WHY, anywhere, r->h, r->by);
	if ((!r->rc && !rc) || anywhere)
		return true;
	let_go(r->h);
	return false;
}

/* A card would reach what runs from the host there, for as long as it is registered: so it is to
 * come home first. */
static FM_COLD void hold_at_home(struct holding *r)
{
	static _Atomic uint64_t not_before; /* it was waited for in vain */
	const struct timespec look = {.tv_nsec = (long)FM_CU_HOLD_LOOK};
	uint64_t until = fm_add_sat(fm_now(), FM_CU_HOLD_MOST);
	bool waits = fm_now() >= atomic_load(&not_before), held = false;
	FM_NO_CANCEL;

	while (waits && !held && fm_now() < until) {
		fm_cuda_want_home(r->at, r->size);
		nanosleep(&look, NULL);
		held = hold_all(r, false);
	}
	if (held)
		return;
	if (waits)
		atomic_store(&not_before, fm_add_sat(fm_now(), FM_CU_HOLD_AGAIN));
	hold_all(r, true);
}

/* Memory that is out comes in first: nothing goes out from then on. */
static void hold(
	const void *at, size_t size, struct fm_cu_holds *h, const struct fm_cuda_pinner *by)
{
	struct holding r = {.at = (uintptr_t)at, .size = size, .h = h, .by = by};
	int was = errno;

	*h = (struct fm_cu_holds){0};
	if (FM_LIKELY(!atomic_load(&fm_cuda_managed_any)) || !size)
		return;
	if (FM_UNLIKELY(!hold_all(&r, false)))
		hold_at_home(&r);
	errno = was;
}

/* Without memory for that it stays for good. */
static void enter_by(const void *by, const void *key, const char *ends, const struct fm_cu_holds *h)
{
	int was = errno;
	struct registered *r = h->n ? calloc(1, sizeof(*r)) : NULL;

	if (r) {
		*r = (struct registered){.key = key, .by = by, .of = ends, .holds = *h};
		pthread_mutex_lock(&registered.lock);
		r->next = registered.all;
		registered.all = r;
		pthread_mutex_unlock(&registered.lock);
	} else {
		free(h->one);
	}
	errno = was;
}

static void enter(const void *key, const char *ends, const struct fm_cu_holds *h)
{
	enter_by(NULL, key, ends, h);
}

/* It is registered, or not. */
static void *made(void *key, const char *ends, struct fm_cu_holds *h)
{
	if (key)
		enter(key, ends, h);
	else
		let_go(h);
	return key;
}

/* Before the library ends it, for its handle may be another's as soon as it has. */
static struct fm_cu_holds leave(const void *key, const char *ends)
{
	struct fm_cu_holds h = {0};
	struct registered **at, *r;

	pthread_mutex_lock(&registered.lock);
	for (at = &registered.all; (r = *at); at = &r->next) {
		if (r->key != key || strcmp(r->of, ends))
			continue;
		*at = r->next;
		h = r->holds;
		free(r);
		break;
	}
	pthread_mutex_unlock(&registered.lock);
	return h;
}

static int ended(const void *key, const char *ends, struct fm_cu_holds h, int rc)
{
	if (rc)
		enter(key, ends, &h);
	else
		let_go(&h);
	return rc;
}

/* All that ends so, and was made by that. Before it is closed, for the same reason. */
static struct registered *leave_all(const void *by, const char *ends)
{
	struct registered *left = NULL, **at = &registered.all, *r;

	pthread_mutex_lock(&registered.lock);
	while ((r = *at)) {
		if (r->by != by || strcmp(r->of, ends) != 0) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = left;
		left = r;
	}
	pthread_mutex_unlock(&registered.lock);
	return left;
}

static void all_ended(struct registered *left, bool failed)
{
	struct registered *r;

	while ((r = left)) {
		left = r->next;
		if (failed)
			enter_by(r->by, r->key, r->of, &r->holds);
		else
			let_go(&r->holds);
		free(r);
	}
}

/* --- the functions --- */

struct ibv_mr { /* the beginning */
	void *context, *pd, *addr;
	size_t length;
};

#define ON_DEMAND (1 << 6) /* IBV_ACCESS_ON_DEMAND */

struct mr_how { /* of ibv_reg_mr_ex(), the beginning */
	size_t length;
	int access;
	uint64_t given, iova;
	void *addr;
};
#define GIVEN_ADDR 2 /* IBV_REG_MR_MASK_ADDR */

struct umem_how { /* of mlx5dv_devx_umem_reg_ex(), the beginning */
	void *addr;
	size_t size;
	uint32_t access;
	uint64_t page_sizes, given;
};
#define GIVEN_DESCRIPTOR 1 /* MLX5DV_UMEM_MASK_DMABUF: the address is within it */

struct gdr_mh { /* gdr_mh_t */
	unsigned long h;
};

struct cu_file_error { /* CUfileError_t */
	int is, driver;
};
#define CU_FILE_NOT_READY 5001 /* the library is not there */

/* X(name, what it returns, its parameters, their names). EACH: X, with what it returns where the
 * library is not there. */
/* clang-format off */
#define MAKES(X) \
	X(ibv_reg_mr, struct ibv_mr *, (void *pd, void *at, size_t n, int access), (pd, at, n, access)) \
	X(ibv_reg_mr_iova, struct ibv_mr *, (void *pd, void *at, size_t n, uint64_t iova, int access), (pd, at, n, iova, access)) \
	X(ibv_reg_mr_iova2, struct ibv_mr *, (void *pd, void *at, size_t n, uint64_t iova, unsigned access), (pd, at, n, iova, access)) \
	X(ibv_reg_mr_ex, struct ibv_mr *, (void *pd, struct mr_how *how), (pd, how)) \
	X(mlx5dv_devx_umem_reg, void *, (void *ctx, void *at, size_t n, uint32_t access), (ctx, at, n, access)) \
	X(mlx5dv_devx_umem_reg_ex, void *, (void *ctx, struct umem_how *how), (ctx, how))
#define OTHERS(X) \
	X(ibv_rereg_mr, int, (struct ibv_mr *mr, int flags, void *pd, void *at, size_t n, int access), (mr, flags, pd, at, n, access)) \
	X(ibv_dereg_mr, int, (struct ibv_mr *mr), (mr)) \
	X(mlx5dv_devx_umem_dereg, int, (void *umem), (umem)) \
	X(gdr_pin_buffer, int, (void *g, unsigned long at, size_t n, uint64_t token, uint32_t space, struct gdr_mh *handle), (g, at, n, token, space, handle)) \
	X(gdr_pin_buffer_v2, int, (void *g, unsigned long at, size_t n, uint32_t flags, struct gdr_mh *handle), (g, at, n, flags, handle)) \
	X(gdr_unpin_buffer, int, (void *g, struct gdr_mh handle), (g, handle)) \
	X(gdr_close, int, (void *g), (g)) \
	X(cuFileBufRegister, struct cu_file_error, (const void *at, size_t n, int flags), (at, n, flags)) \
	X(cuFileBufDeregister, struct cu_file_error, (const void *at), (at)) \
	X(cuFileDriverClose, struct cu_file_error, (void), ()) \
	X(cuFileDriverClose_v2, struct cu_file_error, (void), ())
#define EACH(X) MAKES(X) OTHERS(X)
/* clang-format on */

#define DECLARE(name, type, params, args) EXPORT type name params;
EACH(DECLARE)

/* The library's own; NULL: it is not there, or too old. */
#define OWN(name) ((__typeof__(&(name)))own(#name))
static void *own(const char *symbol)
{
	int was = errno;
	void *fn = fm_cuda_symbol(symbol);

	errno = was;
	return fn;
}

#define MAKE(name, at_, n_, ends, args)                      \
	do {                                                 \
		__typeof__(&(name)) next = OWN(name);        \
		struct fm_cu_holds h;                        \
                                                             \
		if (!next) {                                 \
			errno = ENOSYS;                      \
			return NULL;                         \
		}                                            \
		hold(at_, n_, &h, FM_CUDA_PINNER(__func__)); \
		return made(next args, ends, &h);            \
	} while (0)

/* What the card asks for as it needs it stays nowhere: mostly all addresses that there are. */
static size_t held(size_t n, unsigned access)
{
	return access & ON_DEMAND ? 0 : n;
}

/* The driver may not register as one what is several pieces here (up to 128 MiB each), which it
 * would do for memory of its own; but it has a descriptor of them. */
static struct ibv_mr *by_descriptor(
	void *pd, void *at, size_t n, uint64_t iova, int access, const struct fm_cu_holds *h)
{
	struct ibv_mr *(*reg)(void *, uint64_t, size_t, uint64_t, int, int) =
		own("ibv_reg_dmabuf_mr");
	CUdeviceptr from = (uintptr_t)at & ~(CUdeviceptr)4095;
	size_t size = fm_cuda_mem_round((uintptr_t)at + n - from, 4096);
	struct ibv_mr *mr = NULL;
	int fd = -1, was = errno;

	if (h->n < 2 || !reg ||
		NEXT(cuMemGetHandleForAddressRange, (&fd, from, size, DESCRIPTOR, 0)))
		return NULL;
	mr = reg(pd, (uintptr_t)at - from, n, iova, fd, access);
	close(fd);
	if (mr)
		mr->addr = at;
	errno = was;
	return mr;
}

#define MAKE_MR(name, iova, args)                                                  \
	do {                                                                       \
		__typeof__(&(name)) next = OWN(name);                              \
		struct fm_cu_holds h;                                              \
		struct ibv_mr *mr;                                                 \
                                                                                   \
		if (!next) {                                                       \
			errno = ENOSYS;                                            \
			return NULL;                                               \
		}                                                                  \
		hold(at, held(n, (unsigned)access), &h, FM_CUDA_PINNER(__func__)); \
		mr = next args;                                                    \
		if (!mr)                                                           \
			mr = by_descriptor(pd, at, n, iova, (int)access, &h);      \
		return made(mr, "ibv_dereg_mr", &h);                               \
	} while (0)

struct ibv_mr *ibv_reg_mr(void *pd, void *at, size_t n, int access)
{
	MAKE_MR(ibv_reg_mr, (uintptr_t)at, (pd, at, n, access));
}

struct ibv_mr *ibv_reg_mr_iova(void *pd, void *at, size_t n, uint64_t iova, int access)
{
	MAKE_MR(ibv_reg_mr_iova, iova, (pd, at, n, iova, access));
}

struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *at, size_t n, uint64_t iova, unsigned access)
{
	MAKE_MR(ibv_reg_mr_iova2, iova, (pd, at, n, iova, access));
}

/* What is given there may be a descriptor instead of the address: then it is of no memory of ours.
 */
struct ibv_mr *ibv_reg_mr_ex(void *pd, struct mr_how *how)
{
	bool is = how && how->given & GIVEN_ADDR;

	MAKE(ibv_reg_mr_ex, is ? how->addr : NULL,
		is ? held(how->length, (unsigned)how->access) : 0, "ibv_dereg_mr", (pd, how));
}

void *mlx5dv_devx_umem_reg(void *ctx, void *at, size_t n, uint32_t access)
{
	MAKE(mlx5dv_devx_umem_reg, at, held(n, access), "mlx5dv_devx_umem_dereg",
		(ctx, at, n, access));
}

void *mlx5dv_devx_umem_reg_ex(void *ctx, struct umem_how *how)
{
	bool is = how && !(how->given & GIVEN_DESCRIPTOR);

	MAKE(mlx5dv_devx_umem_reg_ex, is ? how->addr : NULL, is ? held(how->size, how->access) : 0,
		"mlx5dv_devx_umem_dereg", (ctx, how));
}

#define NEW_PLACE  1 /* IBV_REREG_MR_CHANGE_TRANSLATION */
#define NEW_ACCESS 4 /* IBV_REREG_MR_CHANGE_ACCESS */

/* If that fails it may be the old one still, or neither. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, void *pd, void *at, size_t n, int access)
{
	__typeof__(&ibv_rereg_mr) next = OWN(ibv_rereg_mr);
	struct fm_cu_holds h = {0}, old;
	int rc;

	if (!next)
		return ENOSYS;
	if (!(flags & NEW_PLACE))
		return next(mr, flags, pd, at, n, access);
	hold(at, flags & NEW_ACCESS ? held(n, (unsigned)access) : n, &h, FM_CUDA_PINNER(__func__));
	old = leave(mr, "ibv_dereg_mr");
	rc = next(mr, flags, pd, at, n, access);
	enter(mr, "ibv_dereg_mr", &h);
	return ended(mr, "ibv_dereg_mr", old, rc);
}

/* One that was registered anew, in vain, is held twice. */
int ibv_dereg_mr(struct ibv_mr *mr)
{
	__typeof__(&ibv_dereg_mr) next = OWN(ibv_dereg_mr);
	struct fm_cu_holds h, more;
	int rc;

	if (!next)
		return ENOSYS;
	h = leave(mr, "ibv_dereg_mr");
	more = leave(mr, "ibv_dereg_mr");
	rc = next(mr);
	ended(mr, "ibv_dereg_mr", more, rc);
	return ended(mr, "ibv_dereg_mr", h, rc);
}

int mlx5dv_devx_umem_dereg(void *umem)
{
	__typeof__(&mlx5dv_devx_umem_dereg) next = OWN(mlx5dv_devx_umem_dereg);
	struct fm_cu_holds h;

	if (!next)
		return ENOSYS;
	h = leave(umem, "mlx5dv_devx_umem_dereg");
	return ended(umem, "mlx5dv_devx_umem_dereg", h, next(umem));
}

static int gdr_made(void *g, int rc, const struct gdr_mh *handle, struct fm_cu_holds *h)
{
	if (!rc && handle)
		enter_by(g, (void *)handle->h, "gdr_unpin_buffer", h);
	else
		let_go(h);
	return rc;
}

int gdr_pin_buffer(
	void *g, unsigned long at, size_t n, uint64_t token, uint32_t space, struct gdr_mh *handle)
{
	__typeof__(&gdr_pin_buffer) next = OWN(gdr_pin_buffer);
	struct fm_cu_holds h;

	if (!next)
		return ENOSYS;
	hold((void *)at, n, &h, FM_CUDA_PINNER(__func__));
	return gdr_made(g, next(g, at, n, token, space, handle), handle, &h);
}

int gdr_pin_buffer_v2(void *g, unsigned long at, size_t n, uint32_t flags, struct gdr_mh *handle)
{
	__typeof__(&gdr_pin_buffer_v2) next = OWN(gdr_pin_buffer_v2);
	struct fm_cu_holds h;

	if (!next)
		return ENOSYS;
	hold((void *)at, n, &h, FM_CUDA_PINNER(__func__));
	return gdr_made(g, next(g, at, n, flags, handle), handle, &h);
}

int gdr_unpin_buffer(void *g, struct gdr_mh handle)
{
	__typeof__(&gdr_unpin_buffer) next = OWN(gdr_unpin_buffer);
	struct fm_cu_holds h;

	if (!next)
		return ENOSYS;
	h = leave((void *)handle.h, "gdr_unpin_buffer");
	return ended((void *)handle.h, "gdr_unpin_buffer", h, next(g, handle));
}

int gdr_close(void *g)
{
	__typeof__(&gdr_close) next = OWN(gdr_close);
	struct registered *left;
	int rc;

	if (!next)
		return ENOSYS;
	left = leave_all(g, "gdr_unpin_buffer");
	rc = next(g);
	all_ended(left, rc);
	return rc;
}

struct cu_file_error cuFileBufRegister(const void *at, size_t n, int flags)
{
	__typeof__(&cuFileBufRegister) next = OWN(cuFileBufRegister);
	struct cu_file_error rc = {CU_FILE_NOT_READY, 0};
	struct fm_cu_holds h;

	if (!next)
		return rc;
	hold(at, n, &h, FM_CUDA_PINNER(__func__));
	rc = next(at, n, flags);
	if (rc.is)
		let_go(&h);
	else
		enter(at, "cuFileBufDeregister", &h);
	return rc;
}

struct cu_file_error cuFileBufDeregister(const void *at)
{
	__typeof__(&cuFileBufDeregister) next = OWN(cuFileBufDeregister);
	struct cu_file_error rc = {CU_FILE_NOT_READY, 0};
	struct fm_cu_holds h;

	if (!next)
		return rc;
	h = leave(at, "cuFileBufDeregister");
	rc = next(at);
	ended(at, "cuFileBufDeregister", h, rc.is);
	return rc;
}

/* It is open as often as it was opened. */
static bool cu_file_is_open(void)
{
	long (*uses)(void) = own("cuFileUseCount");

	return uses && uses() > 0;
}

static struct cu_file_error closed(struct cu_file_error (*next)(void))
{
	struct cu_file_error rc = {CU_FILE_NOT_READY, 0};
	struct registered *left;

	if (!next)
		return rc;
	left = leave_all(NULL, "cuFileBufDeregister");
	rc = next();
	all_ended(left, rc.is || cu_file_is_open());
	return rc;
}

struct cu_file_error cuFileDriverClose(void)
{
	return closed(OWN(cuFileDriverClose));
}

struct cu_file_error cuFileDriverClose_v2(void)
{
	return closed(OWN(cuFileDriverClose_v2));
}

/* --- how programs find them --- */

static const struct call {
	const char *symbol, *absent;
	void *wrapper;
} ours[] = {
#define ROW(name, ...) {#name, #name FM_CUDA_MARK, (void *)(name)},
	EACH(ROW)};

static const struct call *call_of(const char *symbol)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(ours); i++)
		if (!strcmp(symbol, ours[i].symbol))
			return &ours[i];
	return NULL;
}

void *fm_cuda_registers_answer(struct fm_look_up *l)
{
	const struct call *c = call_of(l->symbol);

	return c && fm_look_up_find(l, c->absent, c->wrapper) ? c->wrapper : NULL;
}

/* dlvsym(), which cannot have found ours: NCCL asks so. */
void *fm_look_up_answer_version(const struct fm_look_up *l, const char *version)
{
	const struct call *c = call_of(l->symbol);
	void *fn;

	if (!c || l->handle == RTLD_NEXT || l->handle == RTLD_DEFAULT)
		return NULL;
	fn = fm_real_dlvsym(l->handle, l->symbol, version);
	return fn && fn == fm_look_up_own_quietly(l->symbol) ? c->wrapper : NULL;
}

struct order {
	bool ours, cards; /* come by so far */
	bool unseen;
};

static bool is_ours(const struct dl_phdr_info *i)
{
	for (unsigned k = 0; k < i->dlpi_phnum; k++)
		if (i->dlpi_phdr[k].p_type == PT_LOAD &&
			(uintptr_t)call_of - (i->dlpi_addr + i->dlpi_phdr[k].p_vaddr) <
				i->dlpi_phdr[k].p_memsz)
			return true;
	return false;
}

static int in_order(struct dl_phdr_info *i, size_t size, void *arg)
{
	const char *name = i->dlpi_name ?: "", *slash = strrchr(name, '/');
	struct order *o = arg;

	(void)size;
	o->ours |= is_ours(i);
	if (strcmp(slash ? slash + 1 : name, of[0].library) != 0)
		return 0;
	o->cards = true;
	o->unseen = !o->ours;
	return 1;
}

/* A library that was loaded where ours are not the first: behind the stand-in, or before us. The
 * mover asks, too: nothing may be looked up or opened here, for the program may be within dlopen(),
 * in a constructor that waits for its memory. */
bool fm_cuda_registers_unseen(void)
{
	struct order o = {0};

	dl_iterate_phdr(in_order, &o);
	return o.cards && (o.unseen || fm_look_up_stood_in("ibv_reg_mr"));
}
