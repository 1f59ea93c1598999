/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of memory in virtual time: two ways, which slow each other down, and their order. */
#include "memory.h"

static struct machine *machine_of(const struct memory *mem)
{
	return mem->d->m;
}

/* What the device's own link does. */
static uint64_t own_rate(const struct memory *mem, const struct way *way)
{
	const struct fm_mem_link *link = &mem->d->plan->link;
	uint64_t alone = way == &mem->in ? link->in : link->out;

	if (way == &mem->out && is_early(mem))
		alone = FM_MIN(alone, EARLY_OUT);

	return mem->in.copies && mem->out.copies ? FM_MIN(alone, link->both / 2) : alone;
}

/* The next device behind the same bridge whose memory is modelled; the first behind NULL. */
static struct memory *next_on_bridge(const struct memory *mem, const struct memory *after)
{
	struct machine *m = machine_of(mem);
	struct device *d = after ? after->d + 1 : m->device;

	for (; d < m->device + m->devices; d++)
		if (d->memory && d->plan->bridge == mem->d->plan->bridge)
			return d->memory;
	return NULL;
}

uint64_t memory_bridge_rate(const struct memory *mem)
{
	const struct fm_sim_device *d = mem->d->plan;

	return d->bridge_rate ? d->bridge_rate : d->link.both;
}

unsigned memory_others_copy(const struct memory *mem)
{
	unsigned n = 0;

	if (!mem->d->plan->bridge)
		return 0;
	for (struct memory *o = next_on_bridge(mem, NULL); o; o = next_on_bridge(mem, o))
		n += o != mem && (o->in.busy || o->out.busy);
	return n;
}

/* Of a bridge each copy has its part. Beyond so many of them all have the same. */
#define WAYS 64
static uint64_t rate_of(const struct memory *mem, const struct way *way)
{
	uint64_t wants[WAYS], part[WAYS], own = own_rate(mem, way);
	unsigned n = 0, at = WAYS;

	if (!mem->d->plan->bridge)
		return own;
	for (struct memory *o = next_on_bridge(mem, NULL); o; o = next_on_bridge(mem, o)) {
		const struct way *both[] = {&o->in, &o->out};

		for (unsigned i = 0; i < 2; i++) {
			if (!both[i]->copies)
				continue;
			if (n < WAYS)
				wants[n] = own_rate(o, both[i]);
			at = both[i] == way ? n : at;
			n++;
		}
	}
	if (n > WAYS || at == WAYS) {
		part[0] = FM_MIN(own, memory_bridge_rate(mem) / (n ? n : 1));
		at = 0;
	} else {
		fm_mem_divide(memory_bridge_rate(mem), wants, n, part);
	}
	return FM_MAX(part[at], UINT64_C(1));
}

static uint64_t copied_since(const struct way *way, uint64_t now)
{
	unsigned __int128 bytes = (unsigned __int128)(now - way->since) * way->rate / FM_S;

	return bytes < way->left ? (uint64_t)bytes : way->left;
}

/* The way's rate is what it has to be from now on. */
static void set_rate(struct memory *mem, struct way *way)
{
	struct machine *m = machine_of(mem);

	if (!way->copies)
		return;
	way->left -= copied_since(way, m->now);
	way->since = m->now;
	way->rate = rate_of(mem, way);
	at(m, &way->ev, fm_add_sat(m->now, fm_mem_ns(way->left, way->rate)));
}

static void set_copies(struct memory *mem, struct way *way, bool copies)
{
	way->copies = copies;
	way->since = machine_of(mem)->now;
	if (!mem->d->plan->bridge) {
		set_rate(mem, &mem->in);
		set_rate(mem, &mem->out);
		return;
	}
	for (struct memory *o = next_on_bridge(mem, NULL); o; o = next_on_bridge(mem, o)) {
		set_rate(o, &o->in);
		set_rate(o, &o->out);
	}
}

static struct ent_memory *owner_of(struct memory *mem, unsigned extent)
{
	return &mem->ent[mem->extent[extent].client];
}

static void begin(struct memory *mem, struct way *way, unsigned extent, bool copy)
{
	struct fm_extent *x = &mem->extent[extent];

	way->busy = true;
	way->extent = extent;
	x->where = way == &mem->in ? FM_COMING : FM_GOING;
	if (copy) {
		way->left = x->bytes;
		set_copies(mem, way, true);
	} else {
		at(machine_of(mem), &way->ev,
			fm_add_sat(machine_of(mem)->now, mem->d->plan->link.flip));
	}
}

uint64_t memory_sum(const struct memory *mem, bool device)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < mem->w.extents; i++) {
		const struct fm_extent *x = &mem->extent[i];
		bool there = x->where == FM_ON_DEVICE || x->where == FM_COMING;

		if (x->where == FM_GOING)
			bytes += x->bytes;
		else if (device)
			bytes += there ? x->bytes : 0;
		else
			bytes += x->where == FM_ON_HOST || x->kept ? x->bytes : 0;
	}
	return bytes;
}

static void begin_in(struct memory *mem)
{
	const struct fm_mem_plan *p = &mem->plan;
	unsigned extent;

	if (mem->in.busy || mem->at_in >= p->n_in)
		return;
	extent = p->in[mem->at_in];
	if (mem->extent[extent].where != FM_ON_HOST || !at_rest(owner_of(mem, extent)->e) ||
		mem->extent[extent].bytes > fm_sub_sat(mem->w.capacity, memory_sum(mem, true)))
		return;
	mem->at_in++;
	begin(mem, &mem->in, extent, true);
	mem->moved.peak = FM_MAX(mem->moved.peak, memory_sum(mem, true));
}

static void begin_out(struct memory *mem)
{
	const struct fm_mem_plan *p = &mem->plan;
	struct fm_extent *x;

	if (mem->out.busy || mem->at_out >= p->n_out)
		return;
	x = &mem->extent[p->out[mem->at_out]];
	if (x->where != FM_ON_DEVICE || !at_rest(mem->ent[x->client].e) ||
		(!x->kept && x->bytes > fm_sub_sat(mem->d->plan->host, memory_sum(mem, false))))
		return;
	begin(mem, &mem->out, p->out[mem->at_out++], !x->kept);
}

void memory_moves(struct memory *mem)
{
	begin_out(mem);
	begin_in(mem);
}

static void count(struct memory *mem, struct way *way, struct fm_extent *x)
{
	struct ent_memory *em = &mem->ent[x->client];
	bool counts = machine_of(mem)->counts;
	uint64_t bytes = counts ? x->bytes : 0;

	if (way == &mem->in) {
		em->moved.in += bytes;
		mem->moved.in += bytes;
		mem->moved.residue += mem->d->on ? 0 : bytes;
	} else if (x->kept) {
		em->moved.kept += bytes;
		mem->moved.kept += bytes;
	} else {
		em->moved.out += bytes;
		mem->moved.out += bytes;
	}
}

static void arrive(struct memory *mem, struct way *way)
{
	struct fm_extent *x = &mem->extent[way->extent];
	bool keep = machine_of(mem)->plan->memory.keep && !is_early(mem);

	way->busy = false;
	count(mem, way, x);
	if (way == &mem->out) {
		x->where = FM_ON_HOST;
		x->kept = false;
	} else {
		x->where = FM_ON_DEVICE;
		x->kept = keep;
	}
	memory_stale(mem->d);
}

void memory_move_ends(struct memory *mem, struct way *way)
{
	uint64_t flip = mem->d->plan->link.flip;
	bool copied = way->copies;

	if (copied)
		set_copies(mem, way, false);
	if (copied && flip)
		at(machine_of(mem), &way->ev, fm_add_sat(machine_of(mem)->now, flip));
	else
		arrive(mem, way);
}

static void stop(struct memory *mem, struct way *way, const struct ent_memory *em)
{
	if (!way->busy || owner_of(mem, way->extent) != em)
		return;
	way->busy = false;
	fm_heap_del(&machine_of(mem)->queue, &way->ev.node);
	if (way->copies)
		set_copies(mem, way, false);
}

void memory_stop_moves(struct memory *mem, const struct ent_memory *em)
{
	stop(mem, &mem->in, em);
	stop(mem, &mem->out, em);
}
