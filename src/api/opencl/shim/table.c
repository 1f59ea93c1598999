/* SPDX-License-Identifier: Apache-2.0 */
#include "objects.h"

#define BUCKETS 1024u

static struct {
	pthread_mutex_t lock;
	struct fm_list bucket[BUCKETS]; /* all zeros until first used */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fm_shim_table_lock(void)
{
	pthread_mutex_lock(&table.lock);
}

void fm_shim_table_unlock(void)
{
	pthread_mutex_unlock(&table.lock);
}

static struct fm_list *bucket_of(const void *handle)
{
	uint64_t hash = (uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
	struct fm_list *b = &table.bucket[hash >> 54];

	if (!b->next)
		fm_list_init(b);
	return b;
}

/* Lock held. */
static struct fm_shim_object *look_up(const void *handle)
{
	struct fm_shim_object *o;

	fm_list_each (o, bucket_of(handle), link)
		if (o->handle == (uintptr_t)handle)
			return o;
	return NULL;
}

void fm_shim_table_enter(struct fm_shim_object *o, const void *handle)
{
	o->handle = (uintptr_t)handle;
	o->holds = 1;
	atomic_init(&o->refs, 1);
	pthread_mutex_lock(&table.lock);
	fm_list_add_tail(bucket_of(handle), &o->link);
	pthread_mutex_unlock(&table.lock);
}

struct fm_shim_object *fm_shim_table_find(const void *handle)
{
	struct fm_shim_object *o;

	pthread_mutex_lock(&table.lock);
	o = look_up(handle);
	if (o)
		atomic_fetch_add(&o->refs, 1);
	pthread_mutex_unlock(&table.lock);
	return o;
}

void fm_shim_table_hold(const void *handle)
{
	struct fm_shim_object *o;

	pthread_mutex_lock(&table.lock);
	o = look_up(handle);
	if (o)
		o->holds++;
	pthread_mutex_unlock(&table.lock);
}

struct fm_shim_object *fm_shim_table_leave(const void *handle)
{
	struct fm_shim_object *o;

	pthread_mutex_lock(&table.lock);
	o = look_up(handle);
	if (o && --o->holds == 0)
		fm_list_del(&o->link);
	else
		o = NULL;
	pthread_mutex_unlock(&table.lock);
	return o;
}
