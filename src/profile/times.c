/* SPDX-License-Identifier: Apache-2.0 */
#include "times.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SMS_MOST 65536u
#define MOST     (UINT64_C(1) << 62)

void fm_times_free(struct fm_times *t)
{
	for (unsigned i = 0; i < t->n; i++)
		free(t->timed[i].name);
	free(t->timed);
	*t = (struct fm_times){0};
}

static bool is_shown(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return n < size;
}

bool fm_timed_makes_sense(const struct fm_record_timed *r)
{
	for (unsigned i = 0; i < 3; i++)
		if (!r->grid[i] || !r->block[i] || r->block[i] > 1024)
			return false;
	return fm_profile_is_image(r->image) && is_shown(r->device, sizeof(r->device)) && r->name &&
	       r->name <= FM_PROFILE_NAME && r->multiprocessors && r->multiprocessors <= SMS_MOST &&
	       r->on && r->on <= r->multiprocessors && r->ns && r->ns < MOST &&
	       r->per_multiprocessor <= 1024;
}

struct fm_timed *fm_times_find(
	const struct fm_times *t, const struct fm_record_timed *r, const char *name, size_t length)
{
	for (unsigned i = t->n; i--;) {
		struct fm_timed *k = &t->timed[i];

		if (!strcmp(k->is.image, r->image) && !strcmp(k->is.device, r->device) &&
			!memcmp(k->is.grid, r->grid, sizeof(r->grid)) &&
			!memcmp(k->is.block, r->block, sizeof(r->block)) &&
			k->is.shared == r->shared && k->is.multiprocessors == r->multiprocessors &&
			!strncmp(k->name, name, length) && !k->name[length])
			return k;
	}
	return NULL;
}

static struct fm_timed *make(struct fm_times *t, const struct fm_record_timed *r, const char *name)
{
	struct fm_timed *k;

	if (t->n == t->size) {
		k = realloc(t->timed, (2 * t->size + 16) * sizeof(*k));
		if (!k)
			return NULL;
		t->timed = k;
		t->size = 2 * t->size + 16;
	}
	k = &t->timed[t->n];
	*k = (struct fm_timed){.is = *r, .name = strndup(name, r->name)};
	if (!k->name)
		return NULL;
	t->n++;
	return k;
}

static struct fm_timed_room *room_of(struct fm_timed *k, uint32_t on)
{
	unsigned i = 0;

	while (i < k->n && k->room[i].on < on)
		i++;
	if (i < k->n && k->room[i].on == on)
		return &k->room[i];
	if (k->n == FM_ARRAY_LEN(k->room))
		return NULL;
	memmove(&k->room[i + 1], &k->room[i], (k->n - i) * sizeof(k->room[0]));
	k->room[i] = (struct fm_timed_room){.on = on};
	k->n++;
	return &k->room[i];
}

int fm_times_add(struct fm_times *t, const struct fm_record_timed *r, const char *name)
{
	struct fm_timed *k;
	struct fm_timed_room *room;
	unsigned i;

	if (memchr(name, 0, r->name))
		return 1;
	k = fm_times_find(t, r, name, r->name);
	k = k ? k : make(t, r, name);
	if (!k)
		return -ENOMEM;
	room = room_of(k, r->on);
	if (!room || room->n == FM_TIMED_SAMPLES)
		return 0;
	for (i = room->n++; i && room->ns[i - 1] > r->ns; i--)
		room->ns[i] = room->ns[i - 1];
	room->ns[i] = r->ns;
	return 0;
}

uint64_t fm_timed_blocks(const struct fm_timed *k)
{
	uint64_t n = k->is.grid[0];

	for (unsigned i = 1; i < 3; i++)
		if (__builtin_mul_overflow(n, k->is.grid[i], &n))
			return UINT64_MAX;
	return n;
}

/* Of an even number the lower one. */
uint64_t fm_timed_on(const struct fm_timed *k, unsigned on)
{
	for (unsigned i = 0; i < k->n; i++)
		if (k->room[i].on == on)
			return k->room[i].n ? k->room[i].ns[(k->room[i].n - 1) / 2] : 0;
	return 0;
}

uint64_t fm_timed_waves(const struct fm_timed *k)
{
	uint64_t at_once = (uint64_t)k->is.per_multiprocessor * k->is.multiprocessors;

	return at_once ? (fm_timed_blocks(k) - 1) / at_once + 1 : 0;
}

uint64_t fm_timed_block(const struct fm_timed *k)
{
	uint64_t waves = fm_timed_waves(k);

	return waves ? fm_timed_on(k, k->is.multiprocessors) / waves : 0;
}
