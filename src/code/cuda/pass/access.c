/* SPDX-License-Identifier: Apache-2.0 */
#include "access.h"
#include "base/util.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

size_t fm_ptx_blanks(const char *s, size_t at, size_t end)
{
	while (at < end && isspace((unsigned char)s[at]))
		at++;
	return at;
}

/* --- statements --- */

/* To behind the `;` of a statement within a body: braces in it are of vectors. At the end of the
 * block if it has none. */
static size_t past_statement(const char *s, size_t at, size_t end)
{
	size_t inner = 0;

	for (; at < end && (inner || (s[at] != ';' && s[at] != '}')); at++)
		inner = s[at] == '{' ? inner + 1 : s[at] == '}' ? inner - 1 : inner;
	return at < end && s[at] == ';' ? at + 1 : at;
}

static size_t past_word(const char *s, size_t at, size_t end)
{
	while (at < end && fm_ptx_is_word(s[at]))
		at++;
	return at;
}

/* Behind what is no statement; where it was: a statement begins there. */
static size_t past_other(struct fm_ptx_walk *w)
{
	const char *s = w->s;
	size_t at = w->at, label = past_word(s, at, w->end);

	if (s[at] == '{' || s[at] == '}') {
		w->depth = s[at] == '{' ? w->depth + 1 : w->depth ? w->depth - 1 : 0;
		return at + 1;
	}
	if (!w->depth) {
		while (at < w->end && s[at] != '{' && s[at] != ';')
			at++;
		return at + (at < w->end && s[at] == ';');
	}
	if (label > at && fm_ptx_blanks(s, label, w->end) < w->end &&
		s[fm_ptx_blanks(s, label, w->end)] == ':')
		return fm_ptx_blanks(s, label, w->end) + 1;
	if (w->end - at > 4 && !memcmp(s + at, ".loc", 4))
		while (at < w->end && s[at] != '\n')
			at++;
	return at;
}

bool fm_ptx_walk(struct fm_ptx_walk *w, struct fm_ptx_statement *st)
{
	while ((w->at = fm_ptx_blanks(w->s, w->at, w->end)) < w->end) {
		size_t at = past_other(w), begin = w->at;

		if (at != begin) {
			w->at = at;
			continue;
		}
		at = past_statement(w->s, begin, w->end);
		w->at = at > begin ? at : begin + 1;
		*st = (struct fm_ptx_statement){w->s + begin, at - begin};
		if (w->s[begin] != '.' && at > begin)
			return true;
	}
	return false;
}

/* --- opcodes --- */

bool fm_ptx_part(const char **at, const char *end, struct fm_ptx_statement *part)
{
	if (*at >= end || **at != '.')
		return false;
	part->s = ++*at;
	while (*at < end && **at != '.')
		++*at;
	part->n = (size_t)(*at - part->s);
	return true;
}

bool fm_ptx_is(struct fm_ptx_statement p, const char *what)
{
	return p.n == strlen(what) && !memcmp(p.s, what, p.n);
}

static bool begins(struct fm_ptx_statement p, const char *what)
{
	return p.n >= strlen(what) && !memcmp(p.s, what, strlen(what));
}

static unsigned bytes_of(struct fm_ptx_statement p)
{
	static const struct {
		const char *type;
		unsigned bytes;
	} types[] = {{"b8", 1}, {"u8", 1}, {"s8", 1}, {"b16", 2}, {"u16", 2}, {"s16", 2},
		{"f16", 2}, {"bf16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4},
		{"f16x2", 4}, {"bf16x2", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8},
		{"b128", 16}};

	for (size_t i = 0; i < FM_ARRAY_LEN(types); i++)
		if (fm_ptx_is(p, types[i].type))
			return types[i].bytes;
	return 0;
}

static void read_opcode(struct fm_ptx_access *a)
{
	static const struct {
		const char *name;
		enum fm_ptx_access_kind kind;
	} accesses[] = {{"ld", FM_PTX_LOAD}, {"ldu", FM_PTX_LOAD}, {"st", FM_PTX_STORE},
		{"atom", FM_PTX_ATOMIC}, {"red", FM_PTX_ATOMIC}};
	static const char *const strange[] = {"multimem", "wmma"};
	const char *s = a->name.s + a->name.n, *end = a->opcode.s + a->opcode.n;
	struct fm_ptx_statement part;
	unsigned times = 1;
	bool elsewhere = false, async = false, bulk = false;

	while (fm_ptx_part(&s, end, &part)) {
		a->global |= fm_ptx_is(part, "global");
		a->stale |= fm_ptx_is(part, "nc");
		elsewhere |= begins(part, "shared") || begins(part, "param") ||
			     fm_ptx_is(part, "local") || begins(part, "const");
		async |= fm_ptx_is(part, "async");
		bulk |= fm_ptx_is(part, "bulk");
		times = part.n == 2 && part.s[0] == 'v' ? (unsigned)(part.s[1] - '0') : times;
		a->bytes = bytes_of(part) ? bytes_of(part) : a->bytes;
	}
	a->bytes *= times;
	for (size_t i = 0; i < FM_ARRAY_LEN(accesses); i++)
		if (fm_ptx_is(a->name, accesses[i].name) && !elsewhere)
			a->kind = a->bytes && !async ? accesses[i].kind : FM_PTX_STRANGE;
	a->stale |= fm_ptx_is(a->name, "ldu");
	for (size_t i = 0; i < FM_ARRAY_LEN(strange); i++)
		if (fm_ptx_is(a->name, strange[i]) && !elsewhere)
			a->kind = FM_PTX_STRANGE;
	if (fm_ptx_is(a->name, "cp") && a->global)
		a->kind = bulk || !async ? FM_PTX_STRANGE : FM_PTX_ASYNC;
}

/* --- operands --- */

/* The nth [address]: its base, and what is added. False: it is none. */
static bool read_address(
	struct fm_ptx_statement st, unsigned nth, struct fm_ptx_statement *base, int64_t *plus)
{
	const char *end = st.s + st.n, *at = st.s;
	char number[32], *rest;
	size_t n = 0;

	for (unsigned i = 0; i <= nth; i++) {
		at = memchr(at, '[', (size_t)(end - at));
		if (!at)
			return false;
		at++;
	}
	at += fm_ptx_blanks(at, 0, (size_t)(end - at));
	base->s = at;
	while (at < end && fm_ptx_is_word(*at))
		at++;
	base->n = (size_t)(at - base->s);
	for (; at < end && *at != ']'; at++)
		if (!isspace((unsigned char)*at) && n < sizeof(number) - 1)
			number[n++] = *at;
	number[n] = 0;
	/* `+-8' is minus eight. */
	*plus = strtoll(number[0] == '+' ? number + 1 : number, &rest, 0);
	return at < end && base->n > 1 && !isdigit((unsigned char)*base->s) && (!n || !*rest);
}

/* The number behind the last address, of an asynchronous copy. */
static unsigned async_bytes(struct fm_ptx_statement st)
{
	const char *at = memrchr(st.s, ']', st.n), *end = st.s + st.n;

	while (at && at < end && !isdigit((unsigned char)*at))
		at++;
	return at && at < end ? (unsigned)strtoul(at, NULL, 0) : 0;
}

void fm_ptx_access(struct fm_ptx_statement st, struct fm_ptx_access *a)
{
	const char *end = st.s + st.n, *at = st.s;

	*a = (struct fm_ptx_access){.guard = {st.s, 0}};
	if (*at == '@') {
		while (at < end && !isspace((unsigned char)*at))
			at++;
		a->guard.n = (size_t)(at - st.s);
		at += fm_ptx_blanks(at, 0, (size_t)(end - at));
	}
	a->opcode.s = a->name.s = at;
	while (at < end && !isspace((unsigned char)*at) && *at != ';')
		at++;
	a->opcode.n = (size_t)(at - a->opcode.s);
	while (a->name.n < a->opcode.n && a->name.s[a->name.n] != '.')
		a->name.n++;
	read_opcode(a);
	if (a->kind == FM_PTX_ASYNC)
		a->bytes = async_bytes(st);
	if (a->kind != FM_PTX_OTHER && !a->bytes)
		a->kind = FM_PTX_STRANGE;
	if (a->kind != FM_PTX_OTHER && a->kind != FM_PTX_STRANGE &&
		!read_address(st, a->kind == FM_PTX_ASYNC, &a->base, &a->plus))
		a->base.n = 0;
}
