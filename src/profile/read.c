/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/util.h"
#include "profile.h"
#include "times.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *fm_source_name(enum fm_source s)
{
	static const char *const names[] = {
#define NAME(id, name) name,
		FM_SOURCE_MAP(NAME)
#undef NAME
	};

	return s < FM_SOURCES ? names[s] : "?";
}

#define NAME(id, name, text) name,
#define TEXT(id, name, text) text,
const char *fm_unseen_name(enum fm_unseen u)
{
	static const char *const names[] = {FM_UNSEEN_MAP(NAME)};

	return names[u];
}

const char *fm_unseen_text(enum fm_unseen u)
{
	static const char *const texts[] = {FM_UNSEEN_MAP(TEXT)};

	return texts[u];
}
#undef NAME
#undef TEXT

const char *fm_rooms_text(uint32_t why)
{
	static const char *const texts[] = {
#define NAME(id, text) text,
		FM_ROOMS_MAP(NAME)
#undef NAME
	};

	return why < FM_ROOMS_WHYS ? texts[why] : "?";
}

void fm_profile_free(struct fm_profile *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		free(p->kernel[i].name);
		free(p->kernel[i].pointer);
	}
	free(p->kernel);
	*p = (struct fm_profile){0};
}

/* --- a launch --- */

bool fm_profile_is_image(const char *image)
{
	return strnlen(image, FM_PROFILE_IMAGE) == FM_PROFILE_IMAGE - 1 &&
	       strspn(image, "0123456789abcdef") == FM_PROFILE_IMAGE - 1;
}

bool fm_profile_is_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return n && n <= FM_PROFILE_NAME;
}

static bool pointers_make_sense(const struct fm_profile_launch *l)
{
	const struct fm_record_span *s = l->span;
	uint64_t spans = 0;

	for (unsigned i = 0; i < l->head->n; i++) {
		const struct fm_record_pointer *p = &l->pointer[i];

		if (p->at % 8 || p->at >= l->head->size || (i && p->at <= p[-1].at) ||
			p->n > FM_PROFILE_SPANS || p->map > 1 || p->before > INT64_MAX / 4 ||
			p->after > INT64_MAX / 4)
			return false;
		spans += p->n;
	}
	if (spans != l->head->spans)
		return false;
	for (unsigned i = 0; i < l->head->n; i++)
		for (unsigned k = 0; k < l->pointer[i].n; k++, s++)
			if (s->from >= s->to || (k && s->from <= s[-1].to))
				return false;
	return true;
}

/* The parts of a record of that many bytes. */
static bool take_apart(struct fm_profile_launch *l, const void *at, size_t bytes)
{
	const struct fm_record_launch *h = at;
	size_t need = sizeof(*h);
	const char *p = at;

	if (bytes < need || h->n > FM_PROFILE_POINTERS || h->size > FM_PROFILE_PARAMS ||
		h->name > FM_PROFILE_NAME || h->source >= FM_SOURCES ||
		h->spans > FM_PROFILE_POINTERS * FM_PROFILE_SPANS || !fm_profile_is_image(h->image))
		return false;
	need += h->n * sizeof(*l->pointer) + h->spans * sizeof(*l->span) + h->size + h->name;
	if (bytes < need)
		return false;
	l->head = h;
	l->pointer = (const void *)(p += sizeof(*h));
	l->span = (const void *)(p += h->n * sizeof(*l->pointer));
	l->params = p += h->spans * sizeof(*l->span);
	l->name = p + h->size;
	return fm_profile_is_name(l->name, h->name) && pointers_make_sense(l);
}

/* --- sums --- */

const struct fm_profile_kernel *fm_profile_find(
	const struct fm_profile *p, const char *image, const char *name)
{
	for (unsigned i = p->n; i--;)
		if (!strcmp(p->kernel[i].image, image) && !strcmp(p->kernel[i].name, name))
			return &p->kernel[i];
	return NULL;
}

static struct fm_profile_kernel *kernel_of(struct fm_profile *p, const struct fm_profile_launch *l)
{
	struct fm_profile_kernel *k;

	for (unsigned i = p->n; i--;) {
		k = &p->kernel[i];
		if (!strcmp(k->image, l->head->image) &&
			!strncmp(k->name, l->name, l->head->name) && !k->name[l->head->name])
			return k;
	}
	if (p->n == p->room) {
		k = realloc(p->kernel, (2 * p->room + 16) * sizeof(*k));
		if (!k)
			return NULL;
		p->kernel = k;
		p->room = 2 * p->room + 16;
	}
	k = &p->kernel[p->n];
	*k = (struct fm_profile_kernel){.name = strndup(l->name, l->head->name)};
	if (!k->name)
		return NULL;
	memcpy(k->image, l->head->image, sizeof(k->image));
	p->n++;
	return k;
}

static struct fm_profile_pointer *pointer_of(struct fm_profile_kernel *k, uint32_t at)
{
	struct fm_profile_pointer *p;
	unsigned i = 0;

	while (i < k->n && k->pointer[i].at < at)
		i++;
	if (i < k->n && k->pointer[i].at == at)
		return &k->pointer[i];
	p = k->n < FM_PROFILE_POINTERS ? realloc(k->pointer, (k->n + 1) * sizeof(*p)) : NULL;
	if (!p)
		return NULL;
	k->pointer = p;
	memmove(&p[i + 1], &p[i], (k->n - i) * sizeof(*p));
	p[i] = (struct fm_profile_pointer){.at = at};
	k->n++;
	return &p[i];
}

static int add_launch(struct fm_profile *p, const struct fm_profile_launch *l)
{
	struct fm_profile_kernel *k = kernel_of(p, l);
	const struct fm_record_span *s = l->span;

	if (!k)
		return -ENOMEM;
	k->launches++;
	k->by[l->head->source]++;
	k->outside += !!(l->head->flags & FM_LAUNCH_OUTSIDE);
	k->checked += !!(l->head->flags & FM_LAUNCH_CHECKED);
	k->coarse += !!(l->head->flags & FM_LAUNCH_COARSE);
	for (unsigned i = 0; i < l->head->n; i++) {
		const struct fm_record_pointer *r = &l->pointer[i];
		struct fm_profile_pointer *to = pointer_of(k, r->at);

		if (!to)
			return -ENOMEM;
		to->map = r->map;
		to->launches += r->n > 0;
		to->missed = fm_add_sat(to->missed, r->missed);
		to->behind = fm_add_sat(to->behind, r->after);
		to->n = r->n;
		for (unsigned n = 0; n < r->n; n++, s++) {
			to->span[n] = *s;
			to->bytes = fm_add_sat(to->bytes, (uint64_t)(s->to - s->from));
		}
	}
	return 0;
}

static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static void add_start(struct fm_profile *p, const struct fm_record_start *s)
{
	p->processes++;
	p->by |= s->by;
	if (!p->sanitizer || !*p->why) {
		p->sanitizer = s->sanitizer;
		memcpy(p->why, s->why, sizeof(p->why));
		p->why[sizeof(p->why) - 1] = 0;
		make_printable(p->why);
	}
}

static void add_end(struct fm_profile *p, const struct fm_record_end *e)
{
	p->launches = fm_add_sat(p->launches, e->launches);
	p->seen = fm_add_sat(p->seen, e->seen);
	for (unsigned i = 0; i < FM_UNSEENS; i++)
		p->unseen[i] = fm_add_sat(p->unseen[i], e->unseen[i]);
	p->modules = fm_add_sat(p->modules, e->modules);
	p->patched = fm_add_sat(p->patched, e->patched);
	p->ns = fm_add_sat(p->ns, e->ns);
	p->patch_error = e->patch_error ? e->patch_error : p->patch_error;
	p->rooms = e->rooms ? e->rooms : p->rooms;
}

/* 1: it makes no sense. */
static int add_timed(struct fm_profile *p, const struct fm_record_timed *r, size_t bytes)
{
	if (bytes < sizeof(*r) || bytes - sizeof(*r) < r->name || !fm_timed_makes_sense(r) ||
		!fm_profile_is_name((const char *)(r + 1), r->name))
		return 1;
	return p && p->times ? fm_times_add(p->times, r, (const char *)(r + 1)) : 0;
}

/* 1: it makes no sense. */
static int add_record(
	struct fm_profile *p, const struct fm_record *r, fm_profile_seen *seen, void *arg)
{
	struct fm_profile_launch l;
	int rc;

	switch (r->kind) {
	case FM_RECORD_LAUNCH:
		if (!take_apart(&l, r + 1, r->bytes))
			return 1;
		rc = p ? add_launch(p, &l) : 0;
		return rc ? rc : seen ? seen(arg, &l) : 0;
	case FM_RECORD_START:
		if (r->bytes < sizeof(struct fm_record_start))
			return 1;
		if (p)
			add_start(p, (const void *)(r + 1));
		return 0;
	case FM_RECORD_END:
		if (r->bytes < sizeof(struct fm_record_end))
			return 1;
		if (p)
			add_end(p, (const void *)(r + 1));
		return 0;
	case FM_RECORD_TIMED:
		return add_timed(p, (const void *)(r + 1), r->bytes);
	}
	return 1;
}

int fm_profile_add(
	struct fm_profile *p, const void *records, size_t size, fm_profile_seen *seen, void *arg)
{
	const char *at = records, *end = at + size;
	int rc;

	while (at < end) {
		const struct fm_record *r = (const void *)at;

		if ((size_t)(end - at) < sizeof(*r) || r->magic != FM_RECORD_MAGIC ||
			r->version != FM_RECORD_VERSION || r->bytes % 8 ||
			r->bytes > (size_t)(end - at) - sizeof(*r)) {
			rc = 1;
		} else {
			rc = add_record(p, r, seen, arg);
		}
		if (rc == 1 && p)
			p->broken++;
		if (rc)
			return rc == 1 ? 0 : rc;
		at += sizeof(*r) + r->bytes;
	}
	return 0;
}

/* The program may still change the file: what is read is looked at once it is here. */
int fm_profile_read(struct fm_profile *p, const char *path, fm_profile_seen *seen, void *arg)
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	FM_CLEAN_FREE char *all = NULL;
	size_t size = 0;
	struct stat st;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st))
		return -EIO;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return 0;
	st.st_size = FM_MIN((uint64_t)st.st_size, 2 * FM_PROFILE_MOST);
	all = malloc((size_t)st.st_size);
	if (!all)
		return -ENOMEM;
	while (size < (size_t)st.st_size && n > 0) {
		n = read(fd, all + size, (size_t)st.st_size - size);
		if (n < 0 && errno != EINTR)
			return -EIO;
		size += n > 0 ? (size_t)n : 0;
	}
	return fm_profile_add(p, all, size, seen, arg);
}
