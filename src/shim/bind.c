/* SPDX-License-Identifier: Apache-2.0 */
#include "bind.h"
#include "groups.h"
#include "queues.h"
#include <errno.h>

unsigned fm_shim_thread_group(struct fm_client *c)
{
	const struct fm_bind_thread *t = fm_bind_of_thread();
	int group = t ? fm_shim_group(c, *t->group ? t->group : NULL) : 0;

	if (!t || !t->set || group < 0 || !fm_shim_group_news(c, (unsigned)group, t->serial))
		return (unsigned)FM_MAX(group, 0);
	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		if (t->set & UINT32_C(1) << h)
			fm_client_hint(c, (unsigned)group, (enum fm_hint)h, t->hint[h]);
	return (unsigned)group;
}

void fm_shim_give_hints(struct fm_client *c, unsigned group, const struct fm_binding *b)
{
	for (size_t i = 0; i < b->hint_count; i++)
		fm_client_hint(c, group, b->hints[i].hint, b->hints[i].value);
}

static bool has_key(const struct fm_shim_entry *e, const void *key)
{
	return e->key == *(const uintptr_t *)key;
}

static int move(struct fm_client *c, uintptr_t key, const struct fm_binding *b)
{
	struct fm_xq *xq[FM_BOARD_SLOTS];
	int group = fm_shim_group(c, b->group);

	if (group < 0)
		return group;
	if (!fm_shim_keep(xq, has_key, &key))
		return -EINVAL; /* it ends: the program uses it elsewhere */
	fm_xq_move(xq[0], (unsigned)group);
	fm_xq_unref(xq[0]);
	fm_shim_give_hints(c, (unsigned)group, b);
	return 0;
}

static int bind_queue(void *queue, const struct fm_binding *b)
{
	const struct fm_shim_queue_ops *ops = fm_shim_api.queues;
	struct fm_client *c;
	uintptr_t key;
	int rc;

	if (ops->bind)
		return ops->bind(queue, b);
	c = fm_shim_client();
	rc = c ? fm_shim_reach((uintptr_t)queue, &key) : -ENODEV;
	return rc ? rc : move(c, key, b);
}

int fm_shim_unbind(uintptr_t handle)
{
	struct fm_xq *xq[FM_BOARD_SLOTS];
	int rc = -ENOENT;

	if (!fm_shim_keep(xq, has_key, &handle))
		return rc;
	if (xq[0]->group) {
		fm_xq_move(xq[0], 0);
		rc = 0;
	}
	fm_xq_unref(xq[0]);
	return rc;
}

static int unbind_queue(void *queue)
{
	const struct fm_shim_queue_ops *ops = fm_shim_api.queues;

	return ops->unbind ? ops->unbind(queue) : fm_shim_unbind((uintptr_t)queue);
}

__attribute__((constructor)) static void enter(void)
{
	static struct fm_bind_shim shim = {sizeof(shim), NULL, bind_queue, unbind_queue, NULL};

	shim.api = fm_shim_api.name;
	if (fm_shim_api.queues)
		fm_bind_enter(&shim);
}
