/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what the C library would find without us, and whether that is the driver's. */
#include "lookup.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

void *fm_look_up_next(void *handle, const char *symbol)
{
	if (!__atomic_load_n(&fm_real_dlsym, __ATOMIC_ACQUIRE))
		fm_find_dlsym();
	return __atomic_load_n(&fm_real_dlsym, __ATOMIC_ACQUIRE)(handle, symbol);
}

void *fm_look_up_own_quietly(const char *symbol)
{
	char *kept = fm_look_up_error_keep();
	void *fn = fm_look_up_own(symbol);

	fm_look_up_error_put_back(kept);
	return fn;
}

static struct link_map *map_of(const void *address)
{
	Dl_info info;
	struct link_map *map = NULL;

	return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* A library that was opened locally sees what it is linked with in addition to what all see. */
static bool sees(const void *caller, const char *symbol)
{
	const struct link_map *map = map_of(caller);
	void *h = map && *map->l_name ? dlopen(map->l_name, RTLD_NOLOAD | RTLD_LAZY) : NULL;
	void *fn = h ? fm_look_up_next(h, symbol) : NULL;

	if (h)
		dlclose(h);
	return fn && fn == fm_look_up_own(symbol);
}

/* We were found ourselves, as the first of all libraries. */
static bool found_without_us(const struct fm_look_up *l)
{
	if (fm_look_up_next(RTLD_NEXT, l->symbol))
		return true;
	if (!fm_look_up_loaded(l->symbol))
		return false;
	if (fm_look_up_stood_in(l->symbol) && fm_look_up_own(l->symbol))
		return true;
	return l->handle == RTLD_DEFAULT && sees(l->caller, l->symbol);
}

/* A library that was loaded before us stays as long as we do. */
static bool in_front_of_us(const void *caller)
{
	const struct link_map *theirs = map_of(caller), *m = map_of((void *)fm_look_up_next);

	while (m && m != theirs)
		m = m->l_prev;
	return m && theirs;
}

/* Is our function the only one of that name behind the caller? */
static bool only_ours_is_next(const struct fm_look_up *l, const void *ours)
{
	return !fm_look_up_next(RTLD_NEXT, l->symbol) &&
	       fm_look_up_next(RTLD_DEFAULT, l->symbol) == ours && in_front_of_us(l->caller);
}

static void *found(const struct fm_look_up *l, const void *ours, bool *absent)
{
	void *fn = fm_look_up_next(l->handle, l->symbol);

	if (!fn)
		return NULL;
	if (fn == ours) {
		*absent = !found_without_us(l);
		return *absent ? NULL : fn;
	}
	/* Something else may have a function of that name. */
	return fn == fm_look_up_own(l->symbol) ? fn : NULL;
}

void *fm_look_up_find(struct fm_look_up *l, const char *absent, const void *ours)
{
	bool is_absent = false;
	void *fn = NULL;

	if (l->handle == RTLD_NEXT)
		is_absent = only_ours_is_next(l, ours);
	else
		fn = found(l, ours, &is_absent);
	if (is_absent)
		l->symbol = absent;
	else if (fn) /* the last look-up leaves no error, and did find it */
		fm_look_up_next(l->handle, l->symbol);
	return fn;
}
