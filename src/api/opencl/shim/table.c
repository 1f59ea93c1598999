/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lockorder.h"
#include "objects.h"
#include "shim/map.h"

static struct {
	pthread_mutex_t lock;
	struct fm_handles objects;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(table.lock, CL_TABLE);

void fm_opencl_table_lock(void)
{
	pthread_mutex_lock(&table.lock);
}

void fm_opencl_table_unlock(void)
{
	pthread_mutex_unlock(&table.lock);
}

/* Lock held. */
static struct fm_opencl_object *look_up(const void *handle)
{
	return fm_handles_find(&table.objects, (uintptr_t)handle);
}

bool fm_opencl_table_enter(struct fm_opencl_object *o, const void *handle)
{
	bool ok;

	o->handle = (uintptr_t)handle;
	o->holds = 1;
	atomic_init(&o->refs, 1);
	pthread_mutex_lock(&table.lock);
	ok = fm_handles_set(&table.objects, o->handle, o);
	pthread_mutex_unlock(&table.lock);
	return ok;
}

struct fm_opencl_object *fm_opencl_table_find(const void *handle)
{
	struct fm_opencl_object *o;

	pthread_mutex_lock(&table.lock);
	o = look_up(handle);
	if (o)
		atomic_fetch_add(&o->refs, 1);
	pthread_mutex_unlock(&table.lock);
	return o;
}

void fm_opencl_table_hold(const void *handle)
{
	struct fm_opencl_object *o;

	pthread_mutex_lock(&table.lock);
	o = look_up(handle);
	if (o)
		o->holds++;
	pthread_mutex_unlock(&table.lock);
}

struct fm_opencl_object *fm_opencl_table_leave(const void *handle)
{
	struct fm_opencl_object *o;

	pthread_mutex_lock(&table.lock);
	o = look_up(handle);
	if (o && --o->holds == 0)
		fm_handles_erase(&table.objects, o->handle, o);
	else
		o = NULL;
	pthread_mutex_unlock(&table.lock);
	return o;
}
