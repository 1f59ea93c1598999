/* SPDX-License-Identifier: Apache-2.0 */
/* PTX: its kernels with their parameters, and its variables. */
#include "image.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NEWEST 90 /* of the language: 9.0 */

/* A copy without comments. */
static char *strip(const char *text)
{
	char *copy = strdup(text), *to = copy;
	const char *end;

	for (const char *s = copy; s && *s;) {
		if (s[0] == '/' && s[1] == '/') {
			s += strcspn(s, "\n");
		} else if (s[0] == '/' && s[1] == '*') {
			end = strstr(s + 2, "*/");
			s = end ? end + 2 : s + strlen(s);
		} else {
			*to++ = *s++;
		}
	}
	if (to)
		*to = 0;
	return copy;
}

static const char *space(const char *s)
{
	return s + strspn(s, " \t\r\n");
}

static size_t word(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || (s[n] && strchr("_$.%", s[n])))
		n++;
	return n;
}

static bool is(const char *s, size_t n, const char *what)
{
	return strlen(what) == n && !memcmp(s, what, n);
}

/* Of .u32 and the like, in bytes; 0: it is no type. */
static unsigned size_of_type(const char *s, size_t n)
{
	if (n < 3 || s[0] != '.' || !strchr("bsuf", s[1]) || !isdigit((unsigned char)s[2]))
		return 0;
	return (unsigned)atoi(s + 2) / 8;
}

/* A declaration up to its name: [.align N] .TYPE [.ptr ...] NAME [ '[' N ']' ]. */
struct declared {
	const char *name;
	size_t len;
	unsigned align, size;
};

static const char *declaration(const char *s, struct declared *d)
{
	unsigned element = 0, count = 1;
	size_t n;

	*d = (struct declared){0};
	for (s = space(s); (n = word(s)); s = space(s + n)) {
		if (is(s, n, ".align") && !element) {
			d->align = (unsigned)atoi(space(s + n));
			s = space(s + n);
			n = word(s);
		} else if (size_of_type(s, n)) {
			element = size_of_type(s, n);
		} else if (is(s, n, ".align")) { /* of what it points to */
			s = space(s + n);
			n = word(s);
		} else if (*s != '.') {
			d->name = s;
			d->len = n;
		}
	}
	if (*s == '[') {
		count = (unsigned)atoi(s + 1);
		s += strcspn(s, "]");
		s += *s == ']';
	}
	d->size = element * count;
	d->align = d->align ? d->align : element;
	return space(s);
}

/* Behind the list; NULL: it is none. */
static const char *read_params(const char *s, struct fk_entry *k)
{
	struct declared d;
	unsigned at;

	s = space(s);
	if (*s != '(')
		return s;
	for (s = space(s + 1); *s && *s != ')'; s = space(s + (*s == ','))) {
		s = declaration(s, &d);
		if (!d.name || !d.size || !d.align)
			return NULL;
		at = (k->bytes + d.align - 1) / d.align * d.align;
		if (!fk_entry_param(k, at, d.size))
			return NULL;
		if (*s != ',' && *s != ')')
			return NULL;
	}
	return *s ? s + 1 : NULL;
}

/* The first that the body does is to look at the parameter that only a guardian has. */
static bool guarded(const struct fk_entry *k, const char *body)
{
	const char *load = strstr(body, "ld.param"), *end = load ? strchr(load, ';') : NULL;
	char stop[256];
	size_t n = strlen(k->name);

	if (!end || n + sizeof("[_fermata_stop]") > sizeof(stop))
		return false;
	stop[0] = '[';
	memcpy(stop + 1, k->name, n);
	strcpy(stop + 1 + n, "_fermata_stop]");
	load = strstr(load, stop);
	return load && load < end;
}

/* In front of that. */
static bool waits(const char *body)
{
	const char *load = strstr(body, "ld.param"), *wait = strstr(body, "griddepcontrol.wait;");

	return wait && wait < load;
}

static const char *skip_body(const char *s);

/* Behind the guardian, which is a block in front of its body. */
static bool knows(const char *body)
{
	const char *end = skip_body(body), *own = strchr(body + 1, '{');

	own = own && own < end ? strstr(skip_body(own), "griddepcontrol") : NULL;
	return own && own < end;
}

static const char *skip_body(const char *s)
{
	unsigned depth = 0;

	do {
		depth += *s == '{';
		depth -= *s == '}';
		s++;
	} while (depth && *s);
	return s;
}

/* It has a place where threads go that are left in a loop. */
static bool polls(const char *body)
{
	const char *away = strstr(body, "_AWAY:");

	return away && away < skip_body(body);
}

static bool launches(const char *body)
{
	const char *call = strstr(body, "cudaGraphLaunch");

	return call && call < skip_body(body);
}

/* It has a place where blocks go that are killed. */
static bool kills(const char *body)
{
	const char *kill = strstr(body, "_KILL:");

	return kill && kill < skip_body(body);
}

static const char *read_entry(const char *s, struct fk_image *out)
{
	struct fk_entry *k;
	size_t n;

	s = space(s);
	n = word(s);
	k = n ? fk_image_entry(out, s, n) : NULL;
	s = k ? read_params(s + n, k) : NULL;
	if (!s)
		return NULL;
	s += strcspn(s, "{;");
	k->max_threads = 1024;
	k->guarded = *s == '{' && guarded(k, s);
	k->launches = *s == '{' && launches(s);
	k->waits = k->guarded && waits(s);
	k->knows = k->guarded && knows(s);
	k->polls = k->guarded && polls(s);
	k->kills = k->guarded && kills(s);
	return s;
}

/* Of the module, not of a kernel: what is within braces is skipped. */
static const char *read_variable(const char *s, struct fk_image *out)
{
	struct declared d;

	s = declaration(s, &d);
	return !d.name || fk_image_variable(out, d.name, d.len, d.size) ? s : NULL;
}

static fm_cu_result read_all(const char *s, struct fk_image *out)
{
	while (*s) {
		size_t n = word(s);

		if (*s == '{')
			s = skip_body(s);
		else if (is(s, n, ".entry"))
			s = read_entry(s + n, out);
		else if (is(s, n, ".global") || is(s, n, ".const"))
			s = read_variable(s + n, out);
		else
			s += n ? n : 1;
		if (!s)
			return CU_INVALID_PTX;
	}
	return FM_CU_SUCCESS;
}

fm_cu_result fk_ptx_read(const char *text, struct fk_image *out)
{
	char *plain = strip(text);
	const char *version = plain ? strstr(plain, ".version") : NULL;
	const char *target = version ? strstr(version, ".target") : NULL;
	double number = version ? strtod(version + 8, NULL) : 0;
	fm_cu_result rc = CU_INVALID_IMAGE;

	if (number * 10 > NEWEST + 0.5)
		rc = CU_UNSUPPORTED_PTX;
	else if (target && strstr(target, ".extern .func") && !strstr(text, FK_LINKED))
		rc = CU_INVALID_PTX;
	else if (target && !strncmp(space(target + 7), "sm_", 3))
		rc = atoi(space(target + 7) + 3) <= FK_SM ? read_all(target, out) : CU_INVALID_PTX;
	free(plain);
	return rc;
}
