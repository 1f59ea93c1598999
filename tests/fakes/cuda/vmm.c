/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory. A chunk is a memory file, a range of addresses is a mapping that nobody may
 * access, and a chunk is mapped into it in its place: so aliases, chunks that change under an
 * address, and accesses to holes are what they are on a device. A chunk lives as long as there is a
 * handle or a mapping of it, here or in another process.
 */
#include "vmm.h"
#include "engines.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define FOREIGN     UINT64_C(0x302000000) /* addresses of the driver's own */

/* What of a multicast group is some device's chunk. */
struct part {
	struct part *next;
	size_t at, size, offset;
	CUdevice dev;
	int fd;
};

struct chunk {
	struct chunk *next;
	unsigned handles, mappings, id;
	size_t size;
	struct cu_chunk_prop prop;
	int fd;
	bool counts; /* for who made it: as long as that one has it */
	bool group;  /* of multicast: it has no memory, but parts */
	unsigned devices, added;
	struct part *parts;
};

struct range {
	struct range *next;
	uintptr_t at;
	size_t size;
};

struct mapping {
	struct mapping *next;
	uintptr_t at;
	struct chunk *chunk;
	int access;                   /* of all together, */
	unsigned char of[FK_DEVICES]; /* and of each device */
};

static struct chunk *chunks;
static struct range *ranges;
static struct mapping *mappings;
_Atomic bool fk_vmm_used;

static size_t granularity(void)
{
	const char *given = fk_env("FAKE_CUDA_GRANULARITY");

	return given ? strtoul(given, NULL, 0) : GRANULARITY;
}

static bool granular(uint64_t n)
{
	return !(n % granularity());
}

static fm_cu_result enter(const char *call)
{
	fm_cu_result fails = fk_fails(call);

	if (fk_env("FAKE_CUDA_NO_VMM"))
		return FM_CU_ERROR_NOT_SUPPORTED;
	FK_TRY(fk_enter());
	fk_hw_lock(fk_ctx());
	return fails || fk.lost ? fk_leave(fails) : FM_CU_SUCCESS;
}

/* --- what is where --- */

static struct range *range_of(uintptr_t at, size_t n)
{
	struct range *r = ranges;

	while (r && (at < r->at || at - r->at >= r->size || n > r->size - (at - r->at)))
		r = r->next;
	return r;
}

static struct mapping *mapping_of(uintptr_t at)
{
	struct mapping *m = mappings;

	while (m && (at < m->at || at - m->at >= m->chunk->size))
		m = m->next;
	return m;
}

static bool overlaps(uintptr_t at, size_t n)
{
	for (const struct mapping *m = mappings; m; m = m->next)
		if (at < m->at + m->chunk->size && m->at < at + n)
			return true;
	return false;
}

/* Do these bytes cut none? */
static bool cut_nothing(uintptr_t at, size_t n)
{
	for (const struct mapping *m = mappings; m; m = m->next)
		if (at < m->at + m->chunk->size && m->at < at + n &&
			(m->at < at || m->at + m->chunk->size > at + n))
			return false;
	return true;
}

/* Are these bytes some mappings, each of them whole? */
static bool whole_mappings(uintptr_t at, size_t n)
{
	const struct mapping *m;
	uintptr_t end = at + n;

	if (!n || end < at)
		return false;
	for (; at < end; at += m->chunk->size) {
		m = mapping_of(at);
		if (!m || m->at != at)
			return false;
	}
	return at == end;
}

bool fk_vmm_whole(const void *p, size_t n)
{
	uintptr_t at = (uintptr_t)p, end = at + n;
	const struct mapping *m;

	for (; at < end; at = m->at + m->chunk->size) {
		m = mapping_of(at);
		if (!m)
			return false;
	}
	return true;
}

bool fk_vmm_hole(const void *p, size_t n)
{
	uintptr_t at = (uintptr_t)p, from, to;

	for (const struct range *r = ranges; r; r = r->next) {
		from = at > r->at ? at : r->at;
		to = at + n < r->at + r->size ? at + n : r->at + r->size;
		if (from < to && !fk_vmm_whole((void *)from, to - from))
			return true;
	}
	return false;
}

static bool on_device(const struct chunk *c)
{
	return c->prop.location.type == CU_LOCATION_DEVICE;
}

bool fk_vmm_find(const void *p, struct fk_mapped *out)
{
	const struct range *r = range_of((uintptr_t)p, 1);
	const struct mapping *m = r ? mapping_of((uintptr_t)p) : NULL;

	if (!r)
		return false;
	*out = (struct fk_mapped){.range = r->at, .range_size = r->size, .there = m};
	if (!m)
		return true;
	out->at = m->at;
	out->size = m->chunk->size;
	out->device = on_device(m->chunk);
	out->alias = out->device ? m->at : FOREIGN + m->chunk->id * UINT64_C(0x100000000);
	out->access = m->access;
	out->fd = m->chunk->fd;
	out->id = m->chunk->id;
	out->prop = m->chunk->prop;
	return true;
}

void fk_vmm_leaks(FILE *f)
{
	for (const struct chunk *c = chunks; c; c = c->next)
		fprintf(f, "chunk %zu\n", c->size);
}

/* --- ranges --- */

static void *nothing_at(void *at, size_t size, int flags)
{
	return mmap(
		at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

static void *reserve(size_t size, size_t alignment, CUdeviceptr hint)
{
	void *p =
		hint ? nothing_at((void *)(uintptr_t)hint, size, MAP_FIXED_NOREPLACE) : MAP_FAILED;
	uintptr_t at, aligned;

	if (p != MAP_FAILED)
		return p;
	p = nothing_at(NULL, size + alignment, 0);
	if (p == MAP_FAILED)
		return NULL;
	at = (uintptr_t)p;
	aligned = (at + alignment - 1) / alignment * alignment;
	if (aligned > at)
		munmap(p, aligned - at);
	if (aligned - at < alignment)
		munmap((void *)(aligned + size), alignment - (aligned - at));
	return (void *)aligned;
}

fm_cu_result cuMemAddressReserve(
	CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
	struct range *r;
	void *p;

	FK_TRY(enter(__func__));
	alignment = alignment > granularity() ? alignment : granularity();
	if (!at || !size || flags || !granular(size) || alignment & (alignment - 1) ||
		size > SIZE_MAX - alignment)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	p = reserve(size, alignment, hint % alignment ? 0 : hint);
	r = p ? malloc(sizeof(*r)) : NULL;
	if (!r)
		return fk_leave(CU_OUT_OF_MEMORY);
	*r = (struct range){ranges, (uintptr_t)p, size};
	ranges = r;
	fk_touch_init();
	fk_vmm_used = true;
	*at = r->at;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemAddressFree(CUdeviceptr at, size_t size)
{
	struct range **r = &ranges, *gone;

	FK_TRY(enter(__func__));
	while (*r && ((*r)->at != at || (*r)->size != size))
		r = &(*r)->next;
	if (!*r || overlaps(at, size))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	gone = *r;
	*r = gone->next;
	free(gone);
	munmap((void *)(uintptr_t)at, size);
	return fk_leave(FM_CU_SUCCESS);
}

/* --- chunks --- */

static struct chunk *chunk_of(cu_chunk handle)
{
	struct chunk *c = chunks;

	while (c && (!c->handles || (uintptr_t)c != handle))
		c = c->next;
	return c;
}

static void drop_part(struct part **p)
{
	struct part *gone = *p;

	*p = gone->next;
	close(gone->fd);
	free(gone);
}

static void drop_unused(struct chunk *gone)
{
	struct chunk **c = &chunks;

	if (gone->handles || gone->mappings)
		return;
	while (*c != gone)
		c = &(*c)->next;
	*c = gone->next;
	while (gone->parts)
		drop_part(&gone->parts);
	if (!gone->group)
		close(gone->fd);
	if (gone->counts)
		fk_memory_give(gone->prop.location.id, gone->size);
	free(gone);
}

static fm_cu_result add_chunk(
	cu_chunk *handle, int fd, size_t size, const struct cu_chunk_prop *prop)
{
	static unsigned ids;
	struct chunk *c = malloc(sizeof(*c));

	if (!c) {
		close(fd);
		return CU_OUT_OF_MEMORY;
	}
	*c = (struct chunk){
		.next = chunks, .handles = 1, .id = ++ids, .size = size, .prop = *prop, .fd = fd};
	chunks = c;
	*handle = (uintptr_t)c;
	return FM_CU_SUCCESS;
}

static fm_cu_result check_prop(const struct cu_chunk_prop *p)
{
	if (!p || p->type != CU_CHUNK_PINNED || p->handles & ~CU_HANDLE_FD)
		return FM_CU_ERROR_INVALID_VALUE;
	switch (p->location.type) {
	case CU_LOCATION_DEVICE:
		return fk_device(p, p->location.id);
	case CU_LOCATION_NUMA:
		if (p->location.id < 0 || p->location.id > 63)
			return FM_CU_ERROR_INVALID_VALUE;
		break;
	case CU_LOCATION_HOST:
	case CU_LOCATION_NUMA_CURRENT:
		break;
	default:
		return FM_CU_ERROR_INVALID_VALUE;
	}
	return fk_env("FAKE_CUDA_NO_HOST_CHUNKS") ? FM_CU_ERROR_NOT_SUPPORTED : FM_CU_SUCCESS;
}

/* Its name says what it is, to who gets the descriptor. */
static int new_file(size_t size, const struct cu_chunk_prop *p)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "fake-cuda-chunk:%d:%d", p->location.type, p->location.id);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)size)) {
		close(fd);
		return -1;
	}
	return fd;
}

static fm_cu_result create(cu_chunk *handle, size_t size, const struct cu_chunk_prop *prop)
{
	fm_cu_result rc;
	bool device;
	int fd;

	FK_TRY(check_prop(prop));
	if (!handle || !size || !granular(size))
		return FM_CU_ERROR_INVALID_VALUE;
	if (size >> 40 || fk.refuse[FAKE_CUDA_MEMORY])
		return CU_OUT_OF_MEMORY;
	device = prop->location.type == CU_LOCATION_DEVICE;
	if (device && !fk_memory_take(prop->location.id, size))
		return CU_OUT_OF_MEMORY;
	fd = new_file(size, prop);
	rc = fd < 0 ? CU_OUT_OF_MEMORY : add_chunk(handle, fd, size, prop);
	if (rc && device)
		fk_memory_give(prop->location.id, size);
	else if (device)
		chunks->counts = true;
	return rc;
}

fm_cu_result cuMemCreate(
	cu_chunk *handle, size_t size, const struct cu_chunk_prop *prop, unsigned long long flags)
{
	bool on_host = prop && prop->location.type != CU_LOCATION_DEVICE;

	fk_engine_call(FK_CREATE);
	fk_engine_make(on_host ? size : 0);
	FK_TRY(enter(__func__));
	return fk_leave(flags ? FM_CU_ERROR_INVALID_VALUE : create(handle, size, prop));
}

fm_cu_result cuMemRelease(cu_chunk handle)
{
	struct chunk *c;

	FK_TRY(enter(__func__));
	c = chunk_of(handle);
	if (!c)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	c->handles--;
	drop_unused(c);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemRetainAllocationHandle(cu_chunk *handle, void *at)
{
	struct mapping *m;

	FK_TRY(enter(__func__));
	m = mapping_of((uintptr_t)at);
	if (!handle || !m)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	m->chunk->handles++;
	*handle = (uintptr_t)m->chunk;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemGetAllocationGranularity(
	size_t *size, const struct cu_chunk_prop *prop, int option)
{
	fm_cu_result rc;

	FK_TRY(enter(__func__));
	rc = size && (unsigned)option <= 1 ? check_prop(prop) : FM_CU_ERROR_INVALID_VALUE;
	if (!rc)
		*size = granularity();
	return fk_leave(rc);
}

fm_cu_result cuMemGetAllocationPropertiesFromHandle(struct cu_chunk_prop *prop, cu_chunk handle)
{
	struct chunk *c;

	FK_TRY(enter(__func__));
	c = chunk_of(handle);
	if (!c || !prop)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*prop = c->prop;
	return fk_leave(FM_CU_SUCCESS);
}

/* --- chunks that others get --- */

fm_cu_result cuMemExportToShareableHandle(
	void *handle, cu_chunk chunk, int type, unsigned long long flags)
{
	struct chunk *c;
	int fd;

	FK_TRY(enter(__func__));
	c = chunk_of(chunk);
	if (!c || c->group || !handle || type != CU_HANDLE_FD || flags ||
		!(c->prop.handles & CU_HANDLE_FD))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (c->prop.location.type == CU_LOCATION_HOST)
		return fk_leave(FM_CU_ERROR_NOT_SUPPORTED);
	fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return fk_leave(CU_OUT_OF_MEMORY);
	*(int *)handle = fd;
	return fk_leave(FM_CU_SUCCESS);
}

/* False: the descriptor is not one of a chunk. */
static bool read_name(int fd, struct cu_chunk_prop *p)
{
	char path[64], name[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	name[n > 0 ? n : 0] = 0;
	return sscanf(name, "/memfd:fake-cuda-chunk:%d:%d", &p->location.type, &p->location.id) ==
	       2;
}

fm_cu_result cuMemImportFromShareableHandle(cu_chunk *chunk, void *handle, int type)
{
	struct cu_chunk_prop prop = {.type = CU_CHUNK_PINNED, .handles = CU_HANDLE_FD};
	int given = (int)(intptr_t)handle, fd;
	struct stat st;

	FK_TRY(enter(__func__));
	if (!chunk || type != CU_HANDLE_FD || !read_name(given, &prop) || fstat(given, &st))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return fk_leave(CU_OUT_OF_MEMORY);
	return fk_leave(add_chunk(chunk, fd, (size_t)st.st_size, &prop));
}

/* A descriptor for devices of others: of chunks of the device alone. */
fm_cu_result cuMemGetHandleForAddressRange(
	void *handle, CUdeviceptr at, size_t size, int type, unsigned long long flags)
{
	const struct mapping *m;
	int fd;

	FK_TRY(enter(__func__));
	if (!handle || type != 1 || flags || !size || !fk_vmm_whole((void *)(uintptr_t)at, size))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (uintptr_t p = at; p < at + size; p = m->at + m->chunk->size) {
		m = mapping_of(p);
		if (!on_device(m->chunk))
			return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	}
	fd = fcntl(mapping_of(at)->chunk->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return fk_leave(CU_OUT_OF_MEMORY);
	*(int *)handle = fd;
	return fk_leave(FM_CU_SUCCESS);
}

/* --- mappings --- */

static int protection(int access)
{
	return (access & 1 ? PROT_READ : 0) | (access & 2 ? PROT_WRITE : 0);
}

/* Of a part of a group, whatever was there. */
static void show_part(const struct mapping *m, const struct part *p)
{
	if (mmap((void *)(m->at + p->at), p->size, protection(m->access), MAP_SHARED | MAP_FIXED,
		    p->fd, (off_t)p->offset) == MAP_FAILED)
		fk_die("a part of a group cannot be mapped");
}

static fm_cu_result map(uintptr_t at, struct chunk *c)
{
	struct mapping *m = malloc(sizeof(*m));

	if (!m)
		return CU_OUT_OF_MEMORY;
	if (!c->group && mmap((void *)at, c->size, PROT_NONE, MAP_SHARED | MAP_FIXED, c->fd, 0) ==
				 MAP_FAILED) {
		free(m);
		return CU_OUT_OF_MEMORY;
	}
	*m = (struct mapping){.next = mappings, .at = at, .chunk = c, .access = CU_ACCESS_NONE};
	mappings = m;
	c->mappings++;
	for (const struct part *p = c->parts; p; p = p->next)
		show_part(m, p);
	return FM_CU_SUCCESS;
}

/* A chunk is mapped as a whole. Nobody may access it yet. */
fm_cu_result cuMemMap(
	CUdeviceptr at, size_t size, size_t offset, cu_chunk chunk, unsigned long long flags)
{
	struct chunk *c;

	fk_engine_call(FK_MAP);
	FK_TRY(enter(__func__));
	c = chunk_of(chunk);
	if (!c || size != c->size || offset || flags || !granular(at) || !range_of(at, size) ||
		overlaps(at, size))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(map(at, c));
}

static void unmap(struct mapping **m)
{
	struct mapping *gone = *m;

	*m = gone->next;
	if (nothing_at((void *)gone->at, gone->chunk->size, MAP_FIXED) == MAP_FAILED)
		fk_die("a chunk cannot be unmapped");
	gone->chunk->mappings--;
	drop_unused(gone->chunk);
	free(gone);
}

/* Waits for nobody. That there is nothing does not matter, as driver 580 has it. */
fm_cu_result cuMemUnmap(CUdeviceptr at, size_t size)
{
	struct mapping **m = &mappings;

	fk_engine_call(FK_UNMAP);
	FK_TRY(enter(__func__));
	if (!size || !granular(at | size) || !range_of(at, size) || !cut_nothing(at, size))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	fk_touch_check(at, size);
	while (*m)
		if ((*m)->at >= at && (*m)->at < at + size)
			unmap(m);
		else
			m = &(*m)->next;
	return fk_leave(FM_CU_SUCCESS);
}

static fm_cu_result check_access(const struct cu_access *access, size_t n, int *flags)
{
	if (!access || !n)
		return FM_CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		if (access[i].flags < 0 || access[i].flags > CU_ACCESS_BOTH || access[i].flags == 2)
			return FM_CU_ERROR_INVALID_VALUE;
		if (access[i].location.type == CU_LOCATION_DEVICE)
			FK_TRY(fk_device(access, access[i].location.id));
		else if (access[i].location.type < 1 || access[i].location.type > 4)
			return FM_CU_ERROR_INVALID_VALUE;
		*flags |= access[i].flags;
	}
	return FM_CU_SUCCESS;
}

static void grant(struct mapping *m, const struct cu_access *access, size_t n)
{
	m->access = 0;
	for (size_t i = 0; i < n; i++)
		if (access[i].location.type == CU_LOCATION_DEVICE)
			m->of[access[i].location.id] = (unsigned char)access[i].flags;
		else
			m->access |= access[i].flags;
	for (unsigned d = 0; d < FK_DEVICES; d++)
		m->access |= m->of[d];
}

/* What a kernel of another device touches there: NULL if it may. */
const char *fk_vmm_denied(
	CUdevice dev, const char *(*touches)(uintptr_t at, size_t n, void *arg), void *arg)
{
	const char *who = NULL;

	for (const struct mapping *m = mappings; m && !who; m = m->next)
		if (m->access && !m->of[dev])
			who = touches(m->at, m->chunk->size, arg);
	return who;
}

fm_cu_result cuMemSetAccess(CUdeviceptr at, size_t size, const struct cu_access *access, size_t n)
{
	struct mapping *m;
	fm_cu_result rc;
	int flags = 0;

	fk_engine_call(FK_ACCESS);
	FK_TRY(enter(__func__));
	rc = check_access(access, n, &flags);
	if (rc || !whole_mappings(at, size))
		return fk_leave(rc ? rc : FM_CU_ERROR_INVALID_VALUE);
	for (uintptr_t p = at; p < at + size; p += m->chunk->size) {
		m = mapping_of(p);
		grant(m, access, n);
		flags = m->access;
		if (mprotect((void *)p, m->chunk->size, protection(flags)))
			return fk_leave(CU_OUT_OF_MEMORY);
	}
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemGetAccess(
	unsigned long long *flags, const struct cu_location *location, CUdeviceptr at)
{
	const struct mapping *m;

	FK_TRY(enter(__func__));
	m = mapping_of(at);
	if (!flags || !location || !m)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*flags = location->type == CU_LOCATION_DEVICE && (unsigned)location->id < FK_DEVICES
			 ? m->of[location->id]
			 : (unsigned)m->access;
	return fk_leave(FM_CU_SUCCESS);
}

/* --- multicast: groups of chunks of several devices, at the same places --- */

/* What is written to a group goes to the parts of all devices. Here it goes to those of the device
 * that was bound last. */
fm_cu_result cuMulticastGetGranularity(
	size_t *size, const struct cu_multicast_prop *prop, int option)
{
	if (!size || !prop || (unsigned)option > 1)
		return FM_CU_ERROR_INVALID_VALUE;
	*size = granularity();
	return FM_CU_SUCCESS;
}

fm_cu_result cuMulticastCreate(cu_chunk *group, const struct cu_multicast_prop *prop)
{
	const struct cu_chunk_prop none = {.location = {CU_LOCATION_DEVICE, 0}};
	fm_cu_result rc;

	FK_TRY(enter(__func__));
	if (!group || !prop || !prop->devices || prop->devices > FK_DEVICES || !prop->size ||
		!granular(prop->size) || prop->flags || prop->handles & ~(uint64_t)CU_HANDLE_FD)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	rc = add_chunk(group, -1, prop->size, &none);
	if (!rc) {
		chunks->group = true;
		chunks->devices = prop->devices;
	}
	return fk_leave(rc);
}

static unsigned count(unsigned bits)
{
	return (unsigned)__builtin_popcount(bits);
}

fm_cu_result cuMulticastAddDevice(cu_chunk group, CUdevice dev)
{
	struct chunk *g;

	FK_TRY(enter(__func__));
	g = chunk_of(group);
	if (!g || !g->group || fk_device(g, dev) || g->added & 1u << dev ||
		count(g->added) == g->devices)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	g->added |= 1u << dev;
	return fk_leave(FM_CU_SUCCESS);
}

/* With the lock. dev: -1: the chunk's own. */
static fm_cu_result bind(struct chunk *g, CUdevice dev, size_t at, const struct chunk *c,
	size_t offset, size_t size, unsigned long long flags)
{
	struct part *p;

	if (!g || !g->group || !c || c->group || !on_device(c) || flags || !size ||
		!granular(at | offset | size) || at > g->size || size > g->size - at ||
		offset > c->size || size > c->size - offset || count(g->added) != g->devices ||
		(dev >= 0 && dev != c->prop.location.id) || !(g->added & 1u << c->prop.location.id))
		return FM_CU_ERROR_INVALID_VALUE;
	for (p = g->parts; p; p = p->next)
		if (p->dev == c->prop.location.id && at < p->at + p->size && p->at < at + size)
			return FM_CU_ERROR_INVALID_VALUE;
	p = malloc(sizeof(*p));
	if (!p)
		return CU_OUT_OF_MEMORY;
	*p = (struct part){
		g->parts, at, size, offset, c->prop.location.id, fcntl(c->fd, F_DUPFD_CLOEXEC, 0)};
	g->parts = p;
	for (const struct mapping *m = mappings; m; m = m->next)
		if (m->chunk == g)
			show_part(m, p);
	return FM_CU_SUCCESS;
}

fm_cu_result cuMulticastBindMem(cu_chunk group, size_t at, cu_chunk chunk, size_t offset,
	size_t size, unsigned long long flags)
{
	FK_TRY(enter(__func__));
	return fk_leave(bind(chunk_of(group), -1, at, chunk_of(chunk), offset, size, flags));
}

fm_cu_result cuMulticastBindMem_v2(cu_chunk group, CUdevice dev, size_t at, cu_chunk chunk,
	size_t offset, size_t size, unsigned long long flags)
{
	FK_TRY(enter(__func__));
	return fk_leave(bind(chunk_of(group), dev, at, chunk_of(chunk), offset, size, flags));
}

/* Of one mapping. */
static fm_cu_result bind_address(cu_chunk group, CUdevice dev, size_t at, CUdeviceptr p,
	size_t size, unsigned long long flags)
{
	const struct mapping *m = mapping_of(p);

	return bind(chunk_of(group), dev, at, m ? m->chunk : NULL, m ? p - m->at : 0, size, flags);
}

fm_cu_result cuMulticastBindAddr(
	cu_chunk group, size_t at, CUdeviceptr p, size_t size, unsigned long long flags)
{
	FK_TRY(enter(__func__));
	return fk_leave(bind_address(group, -1, at, p, size, flags));
}

fm_cu_result cuMulticastBindAddr_v2(cu_chunk group, CUdevice dev, size_t at, CUdeviceptr p,
	size_t size, unsigned long long flags)
{
	FK_TRY(enter(__func__));
	return fk_leave(bind_address(group, dev, at, p, size, flags));
}

/* As it was bound, or nobody knows what happens: here, nothing. */
fm_cu_result cuMulticastUnbind(cu_chunk group, CUdevice dev, size_t at, size_t size)
{
	struct chunk *g;
	struct part **p;

	FK_TRY(enter(__func__));
	g = chunk_of(group);
	if (!g || !g->group)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (p = &g->parts; *p; p = &(*p)->next)
		if ((*p)->dev == dev && (*p)->at == at && (*p)->size == size)
			break;
	if (!*p)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (const struct mapping *m = mappings; m; m = m->next)
		if (m->chunk == g)
			nothing_at((void *)(m->at + at), size, MAP_FIXED);
	drop_part(p);
	return fk_leave(FM_CU_SUCCESS);
}
