/* SPDX-License-Identifier: Apache-2.0 */
/* Where the C library has a function, by its own table of symbols. A sanitizer may ask before it is
 * ready, and has functions of its own for strings: none is called here. Nor is dl_iterate_phdr():
 * programs put theirs in front of it, which look for the next one by dlsym(). */
#include "lookup.h"
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How far it begins like that; NULL: it does not. */
static const char *behind(const char *s, const char *begin)
{
	for (; *begin; s++, begin++)
		if (*s != *begin)
			return NULL;
	return s;
}

static const char *base_of(const char *path)
{
	const char *base = path;

	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

struct symbols {
	const ElfW(Sym) * table;
	const char *names;
	const uint32_t *hash; /* in GNU's way */
};

/* Linkers add where the library was loaded, on most machines. */
static const void *loaded_at(const struct link_map *m, ElfW(Addr) at)
{
	return (const void *)(at < m->l_addr ? at + m->l_addr : at);
}

static struct symbols symbols_of(const struct link_map *m)
{
	struct symbols s = {NULL, NULL, NULL};

	for (const ElfW(Dyn) *d = m->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			s.table = loaded_at(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			s.names = loaded_at(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			s.hash = loaded_at(m, d->d_un.d_ptr);
	}
	return s;
}

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/* hash: how many buckets, the first symbol that has one, words of a filter; the filter, buckets,
 * and for each symbol its hash, odd at the end of a bucket. */
static const ElfW(Sym) * find(const struct symbols *s, const char *name)
{
	const uint32_t *bucket, *chain;
	uint32_t h = hash_of(name), at;

	if (!s->table || !s->names || !s->hash || !s->hash[0])
		return NULL;
	bucket = s->hash + 4 + s->hash[2] * (sizeof(ElfW(Addr)) / 4);
	chain = bucket + s->hash[0];
	at = bucket[h % s->hash[0]];
	if (at < s->hash[1])
		return NULL;
	for (;; at++) {
		uint32_t is = chain[at - s->hash[1]];

		if ((is | 1) == (h | 1) && s->table[at].st_shndx != SHN_UNDEF) {
			const char *end = behind(s->names + s->table[at].st_name, name);

			if (end && !*end)
				return &s->table[at];
		}
		if (is & 1)
			return NULL;
	}
}

static void *in(const struct link_map *m, const char *name)
{
	struct symbols all = symbols_of(m);
	const ElfW(Sym) *s = find(&all, name);

	return s ? (void *)(m->l_addr + s->st_value) : NULL;
}

/* libc.so.6, libc-2.31.so, libdl of before glibc 2.34, and musl's. */
static bool is_named_so(const struct link_map *m)
{
	static const char *const names[] = {
		"libc.so", "libc-", "libdl.so", "libdl-", "libc.musl-", "ld-musl-"};
	const char *base = base_of(m->l_name ? m->l_name : "");

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (behind(base, names[i]))
			return true;
	return false;
}

/* The dynamic linker's list, of the name space that we are in. Since glibc 2.35 it has the others,
 * too. */
extern struct r_debug _r_debug __attribute__((weak));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

struct lists { /* struct r_debug_extended */
	struct r_debug first;
	const struct lists *next;
};

static const struct link_map *loaded(void)
{
	const struct lists *l = (const void *)&_r_debug;

	while (l) {
		for (const struct link_map *m = l->first.r_map; m; m = m->l_next)
			if (m->l_ld == _DYNAMIC)
				return l->first.r_map;
		l = l->first.r_version >= 2 ? l->next : NULL;
	}
	return &_r_debug ? _r_debug.r_map : NULL;
}

/* What is found is in front of all that may be unloaded. A C library of another name is known by
 * the function that begins programs. */
void *fm_find_in_libc(const char *name)
{
	const struct link_map *first = loaded(), *m;
	void *found = NULL;

	for (m = first; m && !found; m = m->l_next)
		found = is_named_so(m) ? in(m, name) : NULL;
	for (m = first; m && !found; m = m->l_next)
		found = m->l_ld != _DYNAMIC && in(m, "__libc_start_main") ? in(m, name) : NULL;
	return found;
}
