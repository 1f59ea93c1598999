/* SPDX-License-Identifier: Apache-2.0 */
/* Launches are cut off and run again, by a plan (record.h). */
#include "base/cleanup.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "record.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST               64u                 /* operations of a group */
#define TURNS                 3u                  /* trials of a launch */
#define BLOCKS                (UINT64_C(1) << 26) /* of a launch, at most: their bits are 8 MiB */
#define COPIES                1024u               /* kernels with a guardian that are loaded */
#define HEAD                  64u /* of a control block; its bits are behind (guardian.ptx) */
#define SHARED_MOST_ATTRIBUTE 8   /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
#define RESULTS               "tried.cuda"

/* --- the plan: read once, and never changed --- */

enum { NEEDED = 1, TRIED = 2, BY_BLOCKS = 4 };
static struct {
	pthread_once_t once;
	struct planned {
		uint8_t is, back; /* so many operations in front of it is its start */
	} * op;
	uint64_t n;
} plan = {.once = PTHREAD_ONCE_INIT};

static bool plan_has_room(uint64_t op)
{
	uint64_t n = plan.n ? plan.n : 1024;
	void *more;

	while (n <= op)
		n *= 2;
	if (n == plan.n)
		return true;
	more = reallocarray(plan.op, n, sizeof(*plan.op));
	if (!more)
		return false;
	plan.op = more;
	memset(&plan.op[plan.n], 0, (n - plan.n) * sizeof(*plan.op));
	plan.n = n;
	return true;
}

static void read_plan(void)
{
	const char *path = secure_getenv("FERMATA_IDEMPOTENCE_PLAN");
	FM_CLEAN_FILE FILE *f = path && *path ? fopen(path, "re") : NULL;
	uint64_t op, from;
	char how;

	while (f && fscanf(f, "%" SCNu64 " %" SCNu64 " %c", &op, &from, &how) == 3) {
		if (from > op || op >= INT32_MAX || !plan_has_room(op))
			continue;
		plan.op[op].is |= TRIED | (how == 'b' ? BY_BLOCKS : 0);
		plan.op[op].back = (uint8_t)FM_MIN(op - from, (uint64_t)LONGEST);
		for (uint64_t i = from; op - from < LONGEST && i <= op; i++)
			plan.op[i].is |= NEEDED;
	}
}

bool fm_record_tries(void)
{
	pthread_once(&plan.once, read_plan);
	return plan.n;
}

static struct planned planned(uint64_t op)
{
	return fm_record_tries() && op < plan.n ? plan.op[op] : (struct planned){0};
}

/* --- what can run again: the last operations that are needed --- */

enum step_kind { NOTHING, KERNEL, FILL, COPY };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over the steps */
FM_LOCK_RANK(lock, RECORD_AGAIN);
static struct step {
	enum step_kind what;
	uint64_t op;
	CUstream stream;                /* also of one that cannot run again */
	struct fm_record_launch launch; /* of a kernel, with its parameters */
	unsigned char *params;
	size_t bytes;
	uint64_t from, value; /* of a copy; of a fill */
	unsigned element;
	struct fm_record_span *wrote;
	size_t n_wrote;
} steps[LONGEST];

/* With room for so many spans; NOTHING: it cannot run again. Under `lock'. */
static struct step *new_step(uint64_t op, enum step_kind what, CUstream stream, size_t spans)
{
	struct step *s = &steps[op % LONGEST];

	free(s->params);
	free(s->wrote);
	*s = (struct step){.op = op, .stream = stream};
	if (what == NOTHING)
		return s;
	s->wrote = reallocarray(NULL, spans, sizeof(*s->wrote));
	if (s->wrote)
		s->what = what;
	return s;
}

static void keep_plain(const struct step *is, struct fm_record_span to)
{
	struct step *s;

	if (is->op == FM_RECORD_NO_OP || !(planned(is->op).is & NEEDED))
		return;
	pthread_mutex_lock(&lock);
	s = new_step(is->op, is->what, is->stream, 1);
	if (s->what) {
		s->from = is->from;
		s->value = is->value;
		s->element = is->element;
		s->wrote[s->n_wrote++] = to;
	}
	pthread_mutex_unlock(&lock);
}

void fm_record_again_fill(
	uint64_t op, CUstream stream, struct fm_record_span to, uint64_t value, unsigned element)
{
	keep_plain(&(struct step){FILL, op, stream, .value = value, .element = element}, to);
}

void fm_record_again_copy(uint64_t op, CUstream stream, struct fm_record_span to, uint64_t from)
{
	keep_plain(&(struct step){COPY, op, stream, .from = from}, to);
}

/* --- spans that a kernel has written --- */

struct spans {
	struct fm_record_span *of; /* NULL: they are only counted */
	size_t n;
};

static void add_span(
	struct spans *s, const struct fm_accessed_region *r, uint64_t from, uint64_t to)
{
	to = FM_MIN(to << r->shift, r->size);
	from <<= r->shift;
	if (s->of)
		s->of[s->n] = (struct fm_record_span){r->at + from, to - from};
	s->n++;
}

static void find_region(const struct fm_accessed *t, unsigned region, struct spans *out)
{
	const struct fm_accessed_region *r = &t->region[region];
	uint64_t quarters = fm_accessed_cells(r) * FM_ACCESSED_QUARTERS, from = 0;
	bool open = false;

	for (uint64_t q = 0; q <= quarters; q++) {
		bool is =
			q < quarters && t->cell[r->first + q / FM_ACCESSED_QUARTERS] >>
							(FM_ACCESSED_W + q % FM_ACCESSED_QUARTERS) &
						1;

		if (is && !open)
			from = q;
		else if (open && !is)
			add_span(out, r, from, q);
		open = is;
	}
}

static size_t find_spans(const struct fm_accessed *t, struct fm_record_span *of)
{
	struct spans s = {.of = of};

	for (unsigned i = 0; i < t->n; i++)
		find_region(t, i, &s);
	return s.n;
}

/* Of a launch that was seen. Under `lock'. */
static void keep_kernel(const struct fm_record_tried *t, uint64_t op)
{
	size_t n = find_spans(t->seen, NULL);
	struct step *s = new_step(op, KERNEL, t->launch->stream, n + 1);

	s->bytes = t->k->params.bytes;
	s->params = malloc(s->bytes + 1);
	if (!s->params || t->launch->special || n > FM_RECORD_SPANS) {
		s->what = NOTHING;
		return;
	}
	memcpy(s->params, t->params, s->bytes);
	s->launch = *t->launch;
	if (s->wrote)
		s->n_wrote = find_spans(t->seen, s->wrote);
}

/* Those from `from' up to `op', of the same stream, in their order. What bars a group is in no
 * group: what is not here was of another stream. False: one cannot run again. Under `lock'. */
static bool find_steps(
	uint64_t from, uint64_t op, CUstream stream, struct step *found[LONGEST], unsigned *n)
{
	*n = 0;
	for (uint64_t i = from; i <= op; i++) {
		struct step *s = &steps[i % LONGEST];

		if (s->op != i || s->stream != stream)
			continue;
		if (!s->what)
			return false;
		found[(*n)++] = s;
	}
	return *n;
}

/* --- memory --- */

/* Of the launch that is about to be tried: ranges, and what is in them. Under `looking'. */
#define RANGES (FM_ACCESSED_REGIONS + LONGEST)
static struct {
	uint64_t op; /* FM_RECORD_NO_OP: none */
	struct fm_record_span range[RANGES];
	size_t place[RANGES], bytes;
	unsigned n;
	unsigned char *before, *behind, *now;
} kept = {.op = FM_RECORD_NO_OP};

static void drop_kept(void)
{
	free(kept.before);
	free(kept.behind);
	free(kept.now);
	kept.before = kept.behind = kept.now = NULL;
	kept.op = FM_RECORD_NO_OP;
	kept.n = 0;
	kept.bytes = 0;
}

static bool add_range(uint64_t at, uint64_t size)
{
	if (kept.n == RANGES || size > FM_RECORD_KEPT - kept.bytes)
		return false;
	kept.range[kept.n] = (struct fm_record_span){at, size};
	kept.place[kept.n++] = kept.bytes;
	kept.bytes += size;
	return true;
}

/* Where the copy has a span that lies in one of the ranges; SIZE_MAX: nowhere. */
static size_t place_of(struct fm_record_span s)
{
	for (unsigned i = 0; i < kept.n; i++)
		if (s.at >= kept.range[i].at && s.size <= kept.range[i].size &&
			s.at - kept.range[i].at <= kept.range[i].size - s.size)
			return kept.place[i] + (s.at - kept.range[i].at);
	return SIZE_MAX;
}

static bool read_memory(const struct fm_record_tried *t, unsigned char *to)
{
	bool ok = true;

	for (unsigned i = 0; i < kept.n && ok; i++)
		ok = !kept.range[i].size || !t->cu->to_host(to + kept.place[i], kept.range[i].at,
						    kept.range[i].size, t->launch->stream);
	return !fm_record_wait(t->cu, t->launch->stream) && ok;
}

static bool put_spans(
	const struct fm_record_tried *t, const struct step *s, const unsigned char *from)
{
	for (size_t i = 0; i < s->n_wrote; i++) {
		size_t at = place_of(s->wrote[i]);

		if (at == SIZE_MAX || t->cu->to_device(s->wrote[i].at, from + at, s->wrote[i].size,
					      t->launch->stream))
			return false;
	}
	return true;
}

/* What the group writes is as it was then. */
static bool put_memory(const struct fm_record_tried *t, struct step *const *group, unsigned n,
	const unsigned char *from)
{
	for (unsigned i = 0; i < n; i++)
		if (!put_spans(t, group[i], from))
			return false;
	return !fm_record_wait(t->cu, t->launch->stream);
}

static bool is_same(struct step *const *group, unsigned n)
{
	for (unsigned g = 0; g < n; g++)
		for (size_t i = 0; i < group[g]->n_wrote; i++) {
			size_t at = place_of(group[g]->wrote[i]);

			if (memcmp(kept.now + at, kept.behind + at, group[g]->wrote[i].size))
				return false;
		}
	return true;
}

/* What the launch may write by its parameters, and what the steps in front of it have written.
 * Under `lock'. */
static bool add_ranges(const struct fm_record_tried *t, struct step *const *group, unsigned n)
{
	for (unsigned i = 0; i < t->n; i++)
		if (!add_range(t->region[i].at, t->region[i].size))
			return false;
	for (unsigned i = 0; i < n; i++)
		for (size_t w = 0; w < group[i]->n_wrote; w++)
			if (place_of(group[i]->wrote[w]) == SIZE_MAX &&
				!add_range(group[i]->wrote[w].at, group[i]->wrote[w].size))
				return false;
	return true;
}

void fm_record_again_before(const struct fm_record_tried *t)
{
	uint64_t op = fm_record_next_op();
	struct planned p = planned(op);
	struct step *group[LONGEST];
	unsigned n = 0;
	bool ok;

	drop_kept();
	if (!(p.is & TRIED) || p.back >= LONGEST)
		return;
	pthread_mutex_lock(&lock);
	ok = (!p.back || find_steps(op - p.back, op - 1, t->launch->stream, group, &n)) &&
	     add_ranges(t, group, n);
	pthread_mutex_unlock(&lock);
	if (!ok)
		return;
	kept.before = malloc(kept.bytes + 1);
	kept.behind = malloc(kept.bytes + 1);
	kept.now = malloc(kept.bytes + 1);
	if (kept.before && kept.behind && kept.now && read_memory(t, kept.before))
		kept.op = op;
}

/* --- copies of kernels with a guardian --- */

static struct copy {
	const struct fm_image *image;
	CUcontext ctx;
	CUmodule module;   /* NULL: the driver does not take it */
	CUdeviceptr block; /* a control block; as long as the context */
	size_t words;      /* of its bits */
} copies[COPIES];
static unsigned n_copies;

static struct copy *load_copy(const struct fm_record_tried *t, const struct fm_image *image)
{
	struct copy *c;

	for (unsigned i = 0; i < n_copies; i++)
		if (copies[i].image == image && copies[i].ctx == t->ctx)
			return &copies[i];
	if (n_copies == COPIES)
		return NULL;
	c = &copies[n_copies++];
	*c = (struct copy){.image = image, .ctx = t->ctx};
	if (t->cu->module_load(&c->module, image->data))
		c->module = NULL;
	return c;
}

static const struct fm_kernel *kernel_named(const struct fm_image *image, const char *name)
{
	for (unsigned i = 0; i < image->n; i++)
		if (!strcmp(image->kernel[i].name, name))
			return &image->kernel[i];
	return NULL;
}

struct cut {
	struct copy *of;
	CUfunction f;
	const struct fm_kernel *kernel;
	CUdeviceptr block;
	uint64_t blocks;
	uint32_t *bits; /* of blocks that are to run */
	size_t words;
};

static bool find_copy(const struct fm_record_tried *t, struct cut *c)
{
	const struct fm_image *image = fm_record_guarded(t->k);
	const uint32_t *grid = t->launch->grid;

	c->of = image && t->k->name ? load_copy(t, image) : NULL;
	c->kernel = c->of && c->of->module ? kernel_named(image, t->k->name) : NULL;
	if (!c->kernel || c->kernel->why || fm_kernel_mode(c->kernel->traits) != FM_GUARD_BLOCK ||
		c->kernel->param_bytes != t->k->params.bytes ||
		__builtin_mul_overflow((uint64_t)grid[0] * grid[1], grid[2], &c->blocks) ||
		c->blocks > BLOCKS || t->cu->module_function(&c->f, c->of->module, t->k->name))
		return false;
	if (t->launch->shared && t->cu->func_set)
		t->cu->func_set(c->f, SHARED_MOST_ATTRIBUTE, (int)t->launch->shared);
	c->words = (c->blocks + 31) / 32;
	return true;
}

static bool make_room(const struct fm_record_tried *t, struct cut *c)
{
	struct copy *of = c->of;

	if (of->words < c->words) {
		of->words = 2 * c->words; /* what was there before stays until the context ends */
		if (t->cu->mem_alloc(&of->block, HEAD + of->words * sizeof(*c->bits)))
			of->words = 0;
	}
	c->block = of->block;
	c->bits = of->words ? calloc(c->words, sizeof(*c->bits)) : NULL;
	return c->bits;
}

/* --- one trial --- */

static uint64_t drawn = UINT64_C(0x9e3779b97f4a7c15); /* never 0 */

static uint32_t draw(void)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	drawn ^= drawn << 17;
	return (uint32_t)(drawn >> 32);
}

static void draw_bits(struct cut *c)
{
	uint64_t one = draw() % c->blocks;

	for (size_t i = 0; i < c->words; i++)
		c->bits[i] = draw();
	c->bits[one / 32] |= UINT32_C(1) << one % 32;
}

static int launch(const struct fm_record_driver *cu, CUfunction f, const struct fm_record_launch *l,
	unsigned char *params, size_t bytes)
{
	void *extra[] = {FM_CU_EXTRA_BUFFER, params, FM_CU_EXTRA_SIZE, &bytes, FM_CU_EXTRA_END};

	return cu->launch(f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
		l->block[2], l->shared, l->stream, NULL, bytes ? extra : NULL);
}

/* The blocks with bits that are set. The stop word comes first in the control block. */
static bool run_blocks(const struct fm_record_tried *t, const struct cut *c, const struct step *s)
{
	FM_CLEAN_FREE unsigned char *params = calloc(1, c->kernel->guard_at + FM_GUARD_BYTES);
	uint64_t ours[FM_GUARD_PARAMS] = {c->block, c->block, 1 << 2 | FM_GUARD_AGAIN};

	if (!params)
		return false;
	memcpy(params, s->params, s->bytes);
	memcpy(params + c->kernel->guard_at, ours, sizeof(ours));
	return !t->cu->fill(c->block, 0, HEAD / 4, s->stream) &&
	       !t->cu->to_device(
		       c->block + HEAD, c->bits, c->words * sizeof(*c->bits), s->stream) &&
	       !launch(t->cu, c->f, &s->launch, params, c->kernel->guard_at + FM_GUARD_BYTES) &&
	       !fm_record_wait(t->cu, s->stream);
}

static bool run_fill(const struct fm_record_driver *cu, const struct step *s)
{
	CUdeviceptr to = s->wrote[0].at;
	size_t n = s->wrote[0].size / s->element;

	if (s->element == 4)
		return !cu->fill(to, (unsigned)s->value, n, s->stream);
	if (s->element == 2)
		return cu->fill_16 && !cu->fill_16(to, (unsigned short)s->value, n, s->stream);
	return s->element == 1 && cu->fill_8 &&
	       !cu->fill_8(to, (unsigned char)s->value, n, s->stream);
}

static bool run_step(const struct fm_record_driver *cu, const struct step *s)
{
	if (s->what == FILL)
		return run_fill(cu, s);
	if (s->what == COPY)
		return !cu->copy(s->wrote[0].at, s->from, s->wrote[0].size, s->stream);
	return !launch(cu, s->launch.f, &s->launch, s->params, s->bytes);
}

/* Those that have not run yet, and some of the others. */
static bool run_rest(const struct fm_record_tried *t, struct cut *c, const struct step *s)
{
	for (size_t i = 0; i < c->words; i++)
		c->bits[i] = ~c->bits[i] | draw();
	return run_blocks(t, c, s);
}

static char try_once(const struct fm_record_tried *t, struct cut *c, struct step *const *group,
	unsigned n, bool rest)
{
	const struct step *last = group[n - 1];
	bool ok;

	draw_bits(c);
	ok = put_memory(t, group, n, kept.before) && run_blocks(t, c, last);
	if (ok && rest)
		ok = run_rest(t, c, last);
	for (unsigned i = 0; i < n && ok && !rest; i++)
		ok = run_step(t->cu, group[i]);
	if (!ok || fm_record_wait(t->cu, last->stream) || !read_memory(t, kept.now))
		return '-';
	return is_same(group, n) ? '1' : '0';
}

static char try_group(
	const struct fm_record_tried *t, struct step *const *group, unsigned n, bool by_blocks)
{
	struct cut c = {0};
	char result = '1';

	if (!find_copy(t, &c) || !read_memory(t, kept.behind) || !make_room(t, &c))
		return '-';
	for (unsigned turn = 0; turn < TURNS && result == '1'; turn++)
		result = try_once(t, &c, group, n, by_blocks && turn);
	if (!put_memory(t, group, n, kept.behind) && result == '1')
		result = '-';
	free(c.bits);
	return result;
}

/* --- results --- */

static void put_result(uint64_t op, char result)
{
	const char *dir = secure_getenv(FM_RECORD_DIR);
	FM_CLEAN_FREE char *path = NULL;
	static FILE *out; /* under `looking' */

	if (!out && dir && asprintf(&path, "%s/" RESULTS, dir) >= 0)
		out = fopen(path, "wxe");
	if (!out)
		return;
	fprintf(out, "%" PRIu64 " %c\n", op, result);
	fflush(out);
}

static bool has_calls(const struct fm_record_driver *cu)
{
	return cu->launch && cu->module_load && cu->module_function && cu->copy;
}

void fm_record_again_behind(const struct fm_record_tried *t, uint64_t op)
{
	struct planned p = planned(op);
	struct step *group[LONGEST];
	char result = '-';
	unsigned n;

	if (!(p.is & NEEDED) && !(p.is & TRIED))
		return;
	pthread_mutex_lock(&lock);
	if (t->seen)
		keep_kernel(t, op);
	else
		new_step(op, NOTHING, t->launch->stream, 0);
	if (p.is & TRIED) {
		if (t->seen && kept.op == op && has_calls(t->cu) &&
			find_steps(op - p.back, op, t->launch->stream, group, &n) &&
			group[n - 1]->op == op)
			result = try_group(t, group, n, p.is & BY_BLOCKS);
		put_result(op, result);
	}
	pthread_mutex_unlock(&lock);
	drop_kept();
}

void fm_record_again_forget(CUcontext ctx)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_copies; i++)
		if (ctx && copies[i].ctx != ctx)
			copies[n++] = copies[i];
	n_copies = n;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < LONGEST; i++)
		steps[i].what = NOTHING;
	pthread_mutex_unlock(&lock);
}

void fm_record_again_fork_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (unsigned i = 0; i < LONGEST; i++)
		steps[i].what = NOTHING;
	n_copies = 0;
}
