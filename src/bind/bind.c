/* SPDX-License-Identifier: Apache-2.0 */
#include "bind.h"
#include "base/parse.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* An object, not a function, since some shims are linked so that they call their own functions. The
 * section keeps the address sanitizer from taking several libraries' registries for a mistake. */
struct registry {
	_Atomic(struct fm_bind_shim *) first;
	_Atomic uint64_t key; /* a pthread_key_t, and 1; 0: there is none */
	_Atomic uint64_t serial;
};
extern struct registry fm_bind_registry __attribute__((visibility("default")));
struct registry fm_bind_registry __attribute__((section(".data.fm_bind"))) = {.first = NULL};

void fm_bind_enter(struct fm_bind_shim *shim)
{
	shim->next = atomic_load(&fm_bind_registry.first);
	while (!atomic_compare_exchange_weak(&fm_bind_registry.first, &shim->next, shim))
		;
}

static const struct fm_bind_shim *find(const char *api)
{
	const struct fm_bind_shim *s = atomic_load(&fm_bind_registry.first);

	while (s && (s->size < sizeof(*s) || strcmp(s->api, api) != 0))
		s = s->next;
	return s;
}

static bool name_is_sound(const char *name)
{
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_GROUP);
	if (!*name || strlen(name) >= sizeof(m.group.name))
		return false;
	strcpy(m.group.name, name);
	return !fm_msg_check(&m, sizeof(m.group), NULL);
}

static int check(const struct fm_binding *b)
{
	int rc = 0;

	if (!b || b->size < sizeof(*b) || (b->hint_count && !b->hints) ||
		(b->group && !name_is_sound(b->group)))
		return -EINVAL;
	for (size_t i = 0; i < b->hint_count && !rc; i++) {
		if ((unsigned)b->hints[i].hint >= FM_HINT_COUNT)
			return -EINVAL;
		rc = fm_hint_check(b->hints[i].hint, b->hints[i].value, NULL);
	}
	return rc;
}

int fm_bind(const char *api, void *queue, const struct fm_binding *binding)
{
	const struct fm_bind_shim *s;
	int rc = api && queue ? check(binding) : -EINVAL;

	if (rc)
		return rc;
	s = find(api);
	return s ? s->bind(queue, binding) : -ENOSYS;
}

int fm_unbind(const char *api, void *queue)
{
	const struct fm_bind_shim *s;

	if (!api || !queue)
		return -EINVAL;
	s = find(api);
	return s ? s->unbind(queue) : -ENOSYS;
}

/* --- threads --- */

/* The C library ends what a thread has with the thread. */
static bool make_key(void)
{
	uint64_t none = 0;
	pthread_key_t key;

	if (atomic_load(&fm_bind_registry.key))
		return true;
	if (pthread_key_create(&key, free))
		return false;
	if (!atomic_compare_exchange_strong(&fm_bind_registry.key, &none, (uint64_t)key + 1))
		pthread_key_delete(key);
	return true;
}

static struct fm_bind_thread *own(void)
{
	uint64_t key = atomic_load(&fm_bind_registry.key);

	return key ? pthread_getspecific((pthread_key_t)(key - 1)) : NULL;
}

static int replace(struct fm_bind_thread *t)
{
	pthread_key_t key = (pthread_key_t)(atomic_load(&fm_bind_registry.key) - 1);
	struct fm_bind_thread *was = own();

	if (pthread_setspecific(key, t))
		return -ENOMEM;
	free(was);
	return 0;
}

static void fill(struct fm_bind_thread *t, const struct fm_binding *b)
{
	t->size = sizeof(*t);
	t->serial = atomic_fetch_add(&fm_bind_registry.serial, 1) + 1;
	if (b->group)
		strcpy(t->group, b->group);
	for (size_t i = 0; i < b->hint_count; i++) {
		t->set |= UINT32_C(1) << b->hints[i].hint;
		t->hint[b->hints[i].hint] = b->hints[i].value;
	}
}

static int bind_thread(const struct fm_binding *b)
{
	struct fm_bind_thread *t = make_key() ? calloc(1, sizeof(*t)) : NULL;
	int rc;

	if (!t)
		return -ENOMEM;
	fill(t, b);
	rc = replace(t);
	if (rc)
		free(t);
	return rc;
}

int fm_thread_bind(const struct fm_binding *binding)
{
	int rc = binding ? check(binding) : 0;

	if (!rc && binding)
		rc = bind_thread(binding);
	else if (!rc && own())
		rc = replace(NULL);
	if (rc)
		return rc;
	return atomic_load(&fm_bind_registry.first) ? 0 : -ENOSYS;
}

const struct fm_bind_thread *fm_bind_of_thread(void)
{
	const struct fm_bind_thread *t = own();

	return t && t->size == sizeof(*t) ? t : NULL;
}
