/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STOP = 0, FIRST = 8, DECIDED = 16, HOLD = 24, AREA = FM_LOOP_AREA, MAP = 64 };
enum { ARRIVED, PASSED };
enum { WAIT_GEQ = 0, WAIT_EQ = 1 };
#define ARGS_BYTES (8u << 20)
#define AREA_BYTES (64u << 20)

const char *const form_name[N_FORMS] = {"native", "elf", "ptx", "loops"};

void images_load(struct images *i, const char *folder, enum form form)
{
	char path[4096], what[64];
	struct fm_image *out = &i->rewritten[form];
	size_t size;
	void *data;

	if (i->module[form])
		return;
	snprintf(path, sizeof(path), "%s/kernels.%s", folder, form >= TEXT ? "ptx" : "cubin");
	doing = "loading the image";
	data = file_contents(path, &size);
	if (form == NATIVE) {
		i->module[form] = load_image("kernels.cubin", data);
		return;
	}
	if (fm_image_rewrite_loops(data, size, 90, form == LOOPS ? "k_loop_*" : NULL, out))
		fail("%s was not rewritten: %s", path, fm_image_reason(out->why));
	snprintf(what, sizeof(what), "the rewritten %s", form >= TEXT ? "PTX" : "ELF");
	i->module[form] = load_image(what, out->data);
}

struct function function_of(struct images *i, enum form form, const char *name)
{
	struct function f = {.name = name};
	const struct fm_image *image = &i->rewritten[form];
	size_t at, size, n = 0;
	int rc = cu.cuModuleGetFunction(&f.handle, i->module[form], name);

	if (rc)
		fail("cuModuleGetFunction of %s (%s) = %d", name, form_name[form], rc);
	rc = cu.cuFuncLoad(f.handle); /* now: later it might wait for a queue that stands */
	if (rc)
		fail("cuFuncLoad of %s (%s) = %d", name, form_name[form], rc);
	for (unsigned k = 0; k < image->n; k++) {
		const struct fm_kernel *kernel = &image->kernel[k];

		if (strcmp(kernel->name, name) != 0 || kernel->why)
			continue;
		f.guarded = true;
		if (form == LOOPS && kernel->loops != FM_LOOP_POLLED)
			fail("%s cannot be left in its loops: %s", name,
				fm_loop_reason(kernel->loops));
		f.traits = kernel->traits;
		f.early = kernel->early;
		f.mode = fm_kernel_mode(kernel->traits);
		while (!cu.cuFuncGetParamInfo(f.handle, n, &at, &size))
			n++;
		if (n != kernel->n_params + FM_GUARD_PARAMS)
			fail("%s has %zu parameters for the driver, not %u and ours", name, n,
				kernel->n_params);
		cu.cuFuncGetParamInfo(f.handle, kernel->n_params, &at, &size);
		if (at != kernel->guard_at || size != 8)
			fail("ours begin at %zu for the driver, not at %u", at, kernel->guard_at);
	}
	return f;
}

void queue_init(struct queue *q)
{
	int low, high;

	*q = (struct queue){0};
	CU(cuCtxGetStreamPriorityRange(&low, &high));
	CU(cuStreamCreateWithPriority(&q->s, 1, low));
	CU(cuStreamCreateWithPriority(&q->inner, 1, high));
	CU(cuStreamCreateWithPriority(&q->stopper, 1, high));
	CU(cuStreamCreateWithPriority(&q->urgent, 1, high));
	CU(cuMemAlloc_v2(&q->block, MAP + MAP_BYTES));
	CU(cuMemsetD8_v2(q->block, 0, MAP + MAP_BYTES));
	CU(cuMemHostAlloc((void **)&q->host, 4096, 3)); /* portable, mapped */
	memset((void *)q->host, 0, 4096);
	CU(cuMemHostGetDevicePointer_v2(&q->host_at, (void *)q->host, 0));
	CU(cuMemHostAlloc((void **)&q->seen, MAP + MAP_BYTES, 0));
	CU(cuCtxSynchronize());
	q->record = calloc(MOST_LAUNCHES, sizeof(*q->record));
	q->args = malloc(ARGS_BYTES);
	if (!q->record || !q->args)
		fail("no memory");
}

static void tell_area(struct queue *q)
{
	uint64_t words[2] = {q->area, AREA_BYTES - FM_LOOP_VALUES};

	if (q->area)
		CU(cuMemcpyHtoD_v2(q->block + AREA, words, sizeof(words)));
}

void queue_loops(struct queue *q, bool on)
{
	if (q->area)
		CU(cuMemFree_v2(q->area));
	q->area = 0;
	if (!on)
		return;
	if (!q->states)
		CU(cuMemHostAlloc((void **)&q->states, FM_LOOP_VALUES, 0));
	CU(cuMemAlloc_v2(&q->area, AREA_BYTES));
	CU(cuMemsetD8_v2(q->area, 0, FM_LOOP_VALUES));
	tell_area(q);
	CU(cuCtxSynchronize());
}

void queue_clear(struct queue *q)
{
	CU(cuMemsetD8_v2(q->block, 0, MAP + MAP_BYTES));
	tell_area(q);
	CU(cuCtxSynchronize());
	q->stops = q->inside = q->again = q->launches_again = q->in_loops = 0;
}

void queue_begin(struct queue *q, enum guard guard)
{
	q->guard = guard & ~(unsigned)(EARLY | FOLLOWS);
	q->early = guard & EARLY;
	q->follows = guard & FOLLOWS;
	q->n = 0;
	q->args_used = 0;
}

static unsigned attributes(const struct dims *d, bool early, struct launch_attribute *a)
{
	unsigned n = 0;

	memset(a, 0, 3 * sizeof(*a));
	if (d->cooperative) {
		a[n].id = LAUNCH_COOPERATIVE;
		a[n++].value.on = 1;
	}
	if (d->overlaps || (early && !d->cooperative && !d->cluster)) {
		a[n].id = LAUNCH_OVERLAPS;
		a[n++].value.on = 1;
	}
	if (d->cluster) {
		a[n].id = LAUNCH_CLUSTER;
		a[n].value.dim[0] = d->cluster;
		a[n].value.dim[1] = a[n].value.dim[2] = 1;
		n++;
	}
	return n;
}

static unsigned mode_of(const struct queue *q, const struct record *r)
{
	bool other = q->follows && (r - q->record) % 2;

	return q->guard == GUARDED_GRID || r->d.cooperative || other ? FM_GUARD_GRID : r->f.mode;
}

/* As fm_cu_guard_follows(): but not launches that are made again. */
static bool follows(const struct queue *q, const struct record *r, stream s)
{
	return q->follows && s == q->s && r > q->record && mode_of(q, r) == FM_GUARD_GRID &&
	       mode_of(q, r - 1) == FM_GUARD_BLOCK && r[-1].f.guarded;
}

static void make(struct queue *q, const struct record *r, unsigned mode, stream s)
{
	void *params[MOST_ARGS + FM_GUARD_PARAMS];
	struct launch_attribute attrs[3];
	struct launch_config c = {.shared = r->d.shared, .s = s, .attrs = attrs};
	bool as_front = follows(q, r, s);
	device_ptr stop = q->guard ? q->block + (as_front ? FIRST : STOP) : 0;
	uint64_t launch = r->number << 2 | (as_front ? FM_GUARD_BLOCK : mode);
	unsigned n = r->n_args;
	int rc;

	memcpy(params, r->args, sizeof(r->args));
	if (r->f.guarded) {
		params[n++] = &stop;
		params[n++] = &q->block;
		params[n++] = &launch;
	}
	memcpy(c.grid, r->d.grid, sizeof(c.grid));
	memcpy(c.block, r->d.block, sizeof(c.block));
	c.n_attrs = attributes(&r->d, q->early && r->f.early && s == q->s, attrs);
	if (c.n_attrs)
		rc = cu.cuLaunchKernelEx(&c, r->f.handle, params, NULL);
	else
		rc = cu.cuLaunchKernel(r->f.handle, c.grid[0], c.grid[1], c.grid[2], c.block[0],
			c.block[1], c.block[2], c.shared, s, params, NULL);
	if (rc)
		fail_call(r->f.name, rc, __FILE__, __LINE__);
}

/* Of the same kernel, in the same shape, there are as many as are wanted. */
static bool enough(const struct queue *q, const struct function *f, const struct dims *d)
{
	unsigned n = 0;

	for (const struct record *r = q->record; q->most_launches && r < q->record + q->n; r++)
		n += r->f.handle == f->handle && r->d.cluster == d->cluster &&
		     memcmp(r->d.block, d->block, sizeof(d->block)) == 0;
	return q->most_launches && n >= q->most_launches;
}

/* In the first direction; whole clusters. */
static void fewer_blocks(const struct queue *q, struct dims *d)
{
	unsigned most = q->most_blocks / (d->grid[1] * d->grid[2]) & ~7u;

	most = most ? most : 8;
	if (q->most_blocks && d->grid[0] > most)
		d->grid[0] = most;
}

void queue_launch(
	struct queue *q, struct function f, struct dims d, unsigned n, const struct arg *args)
{
	struct record *r = &q->record[q->n];

	for (int i = 0; i < 3; i++) {
		d.grid[i] += !d.grid[i];
		d.block[i] += !d.block[i];
	}
	if (enough(q, &f, &d))
		return;
	fewer_blocks(q, &d);
	q->n++;
	if (q->n > MOST_LAUNCHES || n > MOST_ARGS ||
		(uint64_t)d.grid[0] * d.grid[1] * d.grid[2] > MAP_BYTES * 8)
		fail("a case too large");
	*r = (struct record){.f = f, .d = d, .number = ++q->number, .n_args = n};
	for (unsigned i = 0; i < n; i++) {
		q->args_used = (q->args_used + 127) & ~(size_t)127;
		if (q->args_used + args[i].size > ARGS_BYTES)
			fail("a case too large");
		r->args[i] = memcpy(q->args + q->args_used, args[i].at, args[i].size);
		q->args_used += args[i].size;
	}
	make(q, r, mode_of(q, r), q->s);
}

void queue_end(struct queue *q)
{
	q->batch++;
	CU(cuStreamWriteValue32_v2(q->s, q->host_at + 4 * ARRIVED, q->batch, 0));
	CU(cuStreamWaitValue32_v2(q->s, q->block + HOLD, 0, WAIT_EQ));
	CU(cuStreamWriteValue32_v2(q->s, q->host_at + 4 * PASSED, q->batch, 0));
}

void queue_stop(struct queue *q)
{
	CU(cuStreamWriteValue32_v2(q->stopper, q->block + HOLD, 1, 0));
	CU(cuStreamWriteValue32_v2(q->stopper, q->block + STOP, 1, 0));
}

void queue_rest(struct queue *q)
{
	uint64_t end = now_ns() + 5000000000;
	struct head h;

	while (q->host[ARRIVED] != q->batch)
		if (now_ns() > end) {
			h = queue_head(q);
			fail("the queue did not come to rest in 5 s; stop %u, left out %u blocks, "
			     "first %llu, decided %llx, hold %u, "
			     "launches %llu to %llu",
				h.stop, h.left_out, (unsigned long long)h.first,
				(unsigned long long)h.decided, h.hold,
				(unsigned long long)(q->number - q->n + 1),
				(unsigned long long)q->number);
		}
}

struct head queue_head(struct queue *q)
{
	CU(cuMemcpyDtoHAsync_v2(q->seen, q->block, sizeof(*q->seen), q->inner));
	CU(cuStreamSynchronize(q->inner));
	return *q->seen;
}

/* Whether `r`, which left blocks out, has run others. */
static bool partly(struct queue *q, const struct record *r, uint64_t in_loops)
{
	uint64_t blocks = (uint64_t)r->d.grid[0] * r->d.grid[1] * r->d.grid[2], set = 0;
	const uint32_t *map;

	if (mode_of(q, r) == FM_GUARD_GRID)
		return false;
	CU(cuMemcpyDtoHAsync_v2(q->seen, q->block, MAP + MAP_BYTES, q->inner));
	CU(cuStreamSynchronize(q->inner));
	map = (const uint32_t *)((const char *)q->seen + MAP);
	for (unsigned i = 0; i < MAP_BYTES / 4; i++)
		set += (unsigned)__builtin_popcount(map[i]);
	if (!set || set > blocks)
		fail("launch of %s left out blocks, %llu bits of %llu are set", r->f.name,
			(unsigned long long)set, (unsigned long long)blocks);
	return set < blocks || q->seen->in_loops != in_loops;
}

static struct record *find(struct queue *q, uint64_t number)
{
	for (unsigned i = 0; i < q->n; i++)
		if (q->record[i].number == number)
			return &q->record[i];
	fail("the control block names launch %llu, which is none of the %u of this batch, the last "
	     "of which is %llu",
		(unsigned long long)number, q->n, (unsigned long long)q->number);
}

/* From the first that was left out to the last, on the inner stream. What was decided of the last
 * grid is kept by number: all get others, or the decision is forgotten; both must do. */
static void launch_again(struct queue *q, struct record *first)
{
	unsigned mode = mode_of(q, first) == FM_GUARD_GRID ? FM_GUARD_GRID : FM_GUARD_AGAIN;

	if (dice() % 2)
		CU(cuMemsetD32Async(q->block + DECIDED, 0, 2, q->inner));
	else
		for (struct record *r = first; r < q->record + q->n; r++)
			r->number = ++q->number;
	for (struct record *r = first; r < q->record + q->n; r++) {
		make(q, r, r == first ? mode : mode_of(q, r), q->inner);
		q->launches_again++;
	}
}

static void count_stop(struct queue *q, const struct record *first)
{
	uint64_t before = q->in_loops;

	q->in_loops = queue_head(q).in_loops;
	q->stops++;
	q->inside += partly(q, first, before);
}

void queue_restore(struct queue *q, uint64_t stop_within_ns)
{
	struct record *first;
	struct head h;
	bool stop;

	doing = "reading the control block";
	CU(cuStreamSynchronize(q->stopper));
	CU(cuStreamWriteValue32_v2(q->inner, q->block + STOP, 0, 0));
	for (h = queue_head(q); h.first; h = queue_head(q)) {
		first = find(q, h.first);
		count_stop(q, first);
		CU(cuMemsetD32Async(q->block + FIRST, 0, 2, q->inner));
		doing = "launching again";
		stop = stop_within_ns && dice() % 2;
		launch_again(q, first);
		if (stop) {
			spin_until(now_ns() + dice() % stop_within_ns);
			queue_stop(q);
			CU(cuStreamSynchronize(q->stopper));
			q->again++;
		}
		doing = "waiting for what was launched again";
		CU(cuStreamSynchronize(q->inner));
		CU(cuStreamWriteValue32_v2(q->inner, q->block + STOP, 0, 0));
	}
	CU(cuStreamWriteValue32_v2(q->inner, q->block + HOLD, 0, 0));
	doing = "going on";
}

void queue_drop(struct queue *q)
{
	CU(cuStreamSynchronize(q->stopper));
	if (q->area)
		fail("what is in the save area cannot be dropped");
	CU(cuMemsetD32Async(q->block, 0, (MAP + MAP_BYTES) / 4, q->inner));
	CU(cuStreamSynchronize(q->inner));
	queue_finish(q);
}

void queue_finish(struct queue *q)
{
	doing = "waiting for the batch";
	CU(cuStreamSynchronize(q->s));
	if (q->host[PASSED] != q->batch)
		fail("the batch ended, but did not pass its gate");
}

void queue_check(struct queue *q)
{
	const uint32_t *map = (const uint32_t *)((const char *)q->seen + MAP);

	CU(cuMemcpyDtoHAsync_v2(q->seen, q->block, MAP + MAP_BYTES, q->inner));
	CU(cuStreamSynchronize(q->inner));
	for (unsigned i = 0; i < MAP_BYTES / 4; i++)
		if (map[i])
			fail("all is done, and word %u of the map is %08x", i, map[i]);
	if (q->area) {
		CU(cuMemcpyDtoHAsync_v2(q->states, q->area, FM_LOOP_VALUES, q->inner));
		CU(cuStreamSynchronize(q->inner));
		for (unsigned i = 0; i < FM_LOOP_THREADS; i++)
			if (q->states[i])
				fail("all is done, and thread %u is left in loop %u", i,
					q->states[i]);
	}
	if (q->seen->stop || q->seen->first || q->seen->hold)
		fail("all is done, and stop is %u, first %llu, hold %u", q->seen->stop,
			(unsigned long long)q->seen->first, q->seen->hold);
}
