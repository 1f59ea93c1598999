/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive circular doubly-linked list. A node that is in no list points to itself. Not
 * thread-safe. */
#pragma once
#include "util.h"
#include <stdbool.h>

struct fm_list {
	struct fm_list *next, *prev;
};

static inline void fm_list_init(struct fm_list *l)
{
	l->next = l->prev = l;
}

static inline bool fm_list_empty(const struct fm_list *l)
{
	return l->next == l;
}

/* Insert node before pos; with pos the head of the list, that is at its tail. */
static inline void fm_list_add_tail(struct fm_list *pos, struct fm_list *node)
{
	node->prev = pos->prev;
	node->next = pos;
	pos->prev->next = node;
	pos->prev = node;
}

static inline void fm_list_add_head(struct fm_list *head, struct fm_list *node)
{
	fm_list_add_tail(head->next, node);
}

/* Leaves the node pointing to itself, so that removing it twice does no harm. */
static inline void fm_list_del(struct fm_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	fm_list_init(node);
}

#define fm_list_entry(node, type, member) fm_container(node, type, member)
#define fm_list_first(head, type, member) fm_list_entry((head)->next, type, member)

#define fm_list_each(pos, head, member)                                                           \
	for (pos = fm_list_entry((head)->next, __typeof__(*pos), member); &pos->member != (head); \
		pos = fm_list_entry(pos->member.next, __typeof__(*pos), member))

/* The entry may be removed or freed inside the loop. */
#define fm_list_each_safe(pos, tmp, head, member)                            \
	for (pos = fm_list_entry((head)->next, __typeof__(*pos), member),    \
	    tmp = fm_list_entry(pos->member.next, __typeof__(*pos), member); \
		&pos->member != (head);                                      \
		pos = tmp, tmp = fm_list_entry(pos->member.next, __typeof__(*pos), member))
