/* SPDX-License-Identifier: Apache-2.0 */
#include "code/opencl/token.h"
#include "guardian.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define G "fermata_guard_"

const char *const fm_guardian_param[FM_GUARDIAN_PARAMS] = {G "marks", G "stop", G "left"};

/* Comes first, so no macro of the program's text changes it. */
static const char preamble[] =
	"typedef __global volatile uint *" G "marks_t;\n"
	"typedef __global const volatile uint *" G "stop_t;\n"
	"typedef __local uint " G "local_t;\n"
	"static inline uint " G "skip(__local uint *skip, " G "marks_t m, " G "stop_t stop, uint "
	"left)\n"
	"{\n"
	"	if (!(get_local_id(0) | get_local_id(1) | get_local_id(2))) {\n"
	"		size_t at = get_group_id(0) + get_num_groups(0) *\n"
	"			(get_group_id(1) + get_num_groups(1) * get_group_id(2));\n"
	"		uint mode = m[0], mark = 1;\n"
	"		if (mode != 2 && !m[8 + at]) {\n"
	"			if (mode == 0 && (m[left] || *stop)) {\n"
	"				m[left] = 1;\n"
	"			} else {\n"
	"				mark = atomic_xchg(&m[8 + at], 1u);\n"
	"				if (!m[1]) {\n"
	"					m[2] = (uint)get_local_size(1);\n"
	"					m[3] = (uint)get_local_size(2);\n"
	"					m[1] = (uint)get_local_size(0);\n"
	"				}\n"
	"			}\n"
	"		}\n"
	"		*skip = mark;\n"
	"	}\n"
	"	barrier(CLK_LOCAL_MEM_FENCE);\n"
	"	return *skip;\n"
	"}\n"
	"#line 1\n";

_Static_assert(FM_GUARD_MODE == 0 && FM_GUARD_LEFT == 4 && FM_GUARD_LOCAL == 1 &&
		       FM_GUARD_MARKS == 8 && FM_GUARD_FINAL == 1 && FM_GUARD_COMPLETE == 2,
	"as the preamble has it");

static const char params[] = G "marks_t " G "marks," G "stop_t " G "stop,uint " G "left";
static const char prologue[] =
	G "local_t " G "here;if(" G "skip(&" G "here," G "marks," G "stop," G "left))return;";

const char *fm_guardian_reason(enum fm_guardian_why why)
{
	static const char *const text[FM_GUARDIAN_WHYS] = {
		[FM_GUARDIAN_OK] = "none",
		[FM_GUARDIAN_NO_KERNEL] = "kernel by macro",
		[FM_GUARDIAN_WAITS] = "groups may wait",
		[FM_GUARDIAN_ENQUEUES] = "device enqueue",
		[FM_GUARDIAN_PIPES] = "pipes",
		[FM_GUARDIAN_PRINTS] = "printf",
		[FM_GUARDIAN_STATICS] = "program variables",
		[FM_GUARDIAN_OPTIONS] = "build options",
		[FM_GUARDIAN_CALLED] = "kernel called",
		[FM_GUARDIAN_UNCLEAR] = "unclear text",
		[FM_GUARDIAN_MEMORY] = "no memory",
	};

	return text[why];
}

/* One insertion, which replaces the text from `at` up to `to`. */
struct edit {
	uint32_t at, to;
	const char *text;
	bool comma;
};

struct edits {
	struct edit *e;
	size_t n, cap;
	bool failed;
	uint32_t name; /* of the kernel found last */
};

static void edit(struct edits *x, struct edit e)
{
	if (x->n == x->cap) {
		size_t cap = x->cap ? 2 * x->cap : 64;
		struct edit *more = realloc(x->e, cap * sizeof(*more));

		if (!more) {
			x->failed = true;
			return;
		}
		x->e = more;
		x->cap = cap;
	}
	x->e[x->n++] = e;
}

static bool forbids(const struct fm_tokens *t, enum fm_word word)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->tok[i].kind == FM_TOK_WORD && t->tok[i].word == word)
			return true;
	return false;
}

/* Words of the insertions must keep their meaning: `#define return` changes it. */
static bool is_ours(enum fm_word w)
{
	return w == FM_W_KERNEL || w == FM_W_VOID || w == FM_W_RETURN || w == FM_W_IF ||
	       w == FM_W_ATTRIBUTE || w == FM_W_LOOP || w == FM_W_DO || w == FM_W_VOLATILE;
}

static bool redefines(const struct fm_tokens *t)
{
	for (uint32_t i = 0; i + 2 < t->n; i++)
		if (t->tok[i].kind == FM_TOK_DIRECTIVE &&
			(fm_token_word(t, i + 1, FM_W_DEFINE) ||
				fm_token_word(t, i + 1, FM_W_UNDEF)) &&
			t->tok[i + 2].directive && is_ours(t->tok[i + 2].word))
			return true;
	return false;
}

/* Does the declaration at i, which has `global` and is outside of functions, declare a variable? */
static bool declares_variable(const struct fm_tokens *t, uint32_t i)
{
	for (; i < t->n; i = fm_tokens_next(t, i)) {
		if (fm_token_is(t, i, '(') || fm_token_is(t, i, '{'))
			return false;
		if (fm_token_is(t, i, ';') || fm_token_is(t, i, '=') || fm_token_is(t, i, '['))
			return true;
	}
	return false;
}

/* Looks for `static` in a function and __global outside of one. (The driver is asked, too.) */
static bool has_statics(const struct fm_tokens *t)
{
	unsigned braces = 0, parens = 0;
	bool type = false;

	for (uint32_t i = 0; i < t->n; i++) {
		if (t->tok[i].directive)
			continue;
		parens += fm_token_is(t, i, '(');
		parens -= parens && fm_token_is(t, i, ')');
		braces += fm_token_is(t, i, '{');
		braces -= braces && fm_token_is(t, i, '}');
		type = fm_token_word(t, i, FM_W_TYPEDEF) || (type && !fm_token_is(t, i, ';'));
		if (braces ? fm_token_word(t, i, FM_W_STATIC)
			   : !parens && !type && fm_token_word(t, i, FM_W_GLOBAL) &&
					declares_variable(t, i))
			return true;
	}
	return false;
}

static enum fm_guardian_why refuse(const struct fm_tokens *t)
{
	if (forbids(t, FM_W_OURS) || redefines(t))
		return FM_GUARDIAN_OPTIONS;
	if (forbids(t, FM_W_ENQUEUE))
		return FM_GUARDIAN_ENQUEUES;
	if (forbids(t, FM_W_PIPE))
		return FM_GUARDIAN_PIPES;
	if (forbids(t, FM_W_PRINT))
		return FM_GUARDIAN_PRINTS;
	if (has_statics(t))
		return FM_GUARDIAN_STATICS;
	return fm_tokens_may_wait(t) ? FM_GUARDIAN_WAITS : FM_GUARDIAN_OK;
}

/* The token behind any attributes, __attribute__((...)), at i. */
static uint32_t past_attributes(const struct fm_tokens *t, uint32_t i)
{
	while (fm_token_word(t, i, FM_W_ATTRIBUTE) && fm_token_is(t, fm_tokens_next(t, i), '(')) {
		i = fm_tokens_close(t, fm_tokens_next(t, i));
		if (i == t->n)
			break;
		i = fm_tokens_next(t, i);
	}
	return i;
}

/* The parenthesis that opens the parameters of the kernel whose word `kernel` is at i; t->n: not
 * found. Between them stand attributes and the like, `void`, and the name. A macro may make the
 * name: NAME(x)(parameters). */
static uint32_t find_params(const struct fm_tokens *t, uint32_t i, uint32_t *name_at)
{
	uint32_t before = fm_tokens_prev(t, i), name;
	bool is_void = before != UINT32_MAX && fm_token_word(t, before, FM_W_VOID);

	i = fm_tokens_next(t, i);
	for (int n = 0; !is_void && n < 32 && i < t->n; n++) {
		is_void = fm_token_word(t, i, FM_W_VOID);
		if (t->tok[i].kind != FM_TOK_WORD)
			return t->n;
		i = fm_tokens_next(t, i);
		if (is_void || !fm_token_is(t, i, '('))
			continue;
		i = fm_tokens_close(t, i);
		i = i < t->n ? fm_tokens_next(t, i) : i;
	}
	i = past_attributes(t, i);
	name = i;
	if (!is_void || name >= t->n || t->tok[name].kind != FM_TOK_WORD)
		return t->n;
	*name_at = name;
	i = fm_tokens_next(t, name);
	if (!fm_token_is(t, i, '('))
		return t->n;
	before = fm_tokens_close(t, i);
	if (before < t->n && fm_token_is(t, fm_tokens_next(t, before), '('))
		i = fm_tokens_next(t, before);
	return i;
}

static bool directive_between(const struct fm_tokens *t, uint32_t a, uint32_t b)
{
	while (++a < b)
		if (t->tok[a].directive)
			return true;
	return false;
}

static void add_params(const struct fm_tokens *t, uint32_t open, uint32_t close, struct edits *x)
{
	uint32_t first = fm_tokens_next(t, open), at = t->tok[close].at;
	bool empty = first == close;

	if (fm_token_word(t, first, FM_W_VOID) && fm_tokens_next(t, first) == close)
		edit(x, (struct edit){t->tok[first].at, t->tok[first].end, params, false});
	else
		edit(x, (struct edit){at, at, params, !empty});
}

/* A definition gets parameters and prologue, a declaration the parameters. Other text is not
 * changed. */
static bool rewrite_kernel(const struct fm_tokens *t, uint32_t kernel, struct edits *x)
{
	uint32_t open = find_params(t, kernel, &x->name), close, body;

	if (open >= t->n)
		return false;
	close = fm_tokens_close(t, open);
	if (close >= t->n)
		return false;
	body = past_attributes(t, fm_tokens_next(t, close));
	if (body >= t->n || directive_between(t, close, body))
		return false;
	if (fm_token_is(t, body, ';')) {
		add_params(t, open, close, x);
		return false;
	}
	if (!fm_token_is(t, body, '{'))
		return false;
	add_params(t, open, close, x);
	edit(x, (struct edit){t->tok[body].end, t->tok[body].end, prologue, false});
	return true;
}

static int by_hash(const void *a, const void *b)
{
	uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;

	return p < q ? -1 : p > q;
}

static uint64_t hash(const struct fm_tokens *t, uint32_t i)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (uint32_t c = t->tok[i].at; c < t->tok[i].end; c++)
		h = (h ^ (unsigned char)t->text[c]) * UINT64_C(0x100000001b3);
	return h;
}

/* Does the program call a kernel as a function? The call would lack the new arguments. The names in
 * declarations of kernels have been marked as FM_W_OURS. */
static enum fm_guardian_why find_calls(const struct fm_tokens *t)
{
	enum fm_guardian_why why = FM_GUARDIAN_OK;
	uint64_t *names, h;
	size_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		n += t->tok[i].word == FM_W_OURS;
	names = malloc((n + 1) * sizeof(*names));
	if (!names)
		return FM_GUARDIAN_MEMORY;
	n = 0;
	for (uint32_t i = 0; i < t->n; i++)
		if (t->tok[i].word == FM_W_OURS)
			names[n++] = hash(t, i);
	qsort(names, n, sizeof(*names), by_hash);
	for (uint32_t i = 0; i < t->n && !why; i++) {
		if (t->tok[i].kind != FM_TOK_WORD || t->tok[i].word || t->tok[i].directive ||
			!fm_token_is(t, fm_tokens_next(t, i), '('))
			continue;
		h = hash(t, i);
		if (bsearch(&h, names, n, sizeof(*names), by_hash))
			why = FM_GUARDIAN_CALLED;
	}
	free(names);
	return why;
}

static unsigned rewrite_kernels(struct fm_tokens *t, struct edits *x)
{
	uint32_t params_at = 0;
	unsigned n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		size_t before = x->n;

		if (t->tok[i].directive || !fm_token_word(t, i, FM_W_KERNEL))
			continue;
		n += rewrite_kernel(t, i, x);
		/* `__kernel __kernel` is one kernel. Edits must be in the order of the text. */
		if (x->n > before && x->e[before].at < params_at) {
			n -= x->n == before + 2;
			x->n = before;
		} else if (x->n > before) {
			params_at = x->e[x->n - 1].at + 1;
			t->tok[x->name].word = FM_W_OURS;
		}
	}
	return n;
}

static bool apply(
	const char *source, size_t len, const struct edits *x, struct fm_guardian_text *out)
{
	size_t size = sizeof(preamble) + len, from = 0;
	char *p;

	for (size_t i = 0; i < x->n; i++)
		size += strlen(x->e[i].text) + 1;
	out->text = p = malloc(size);
	if (!p)
		return false;
	p = mempcpy(p, preamble, sizeof(preamble) - 1);
	for (size_t i = 0; i < x->n; i++) {
		const struct edit *e = &x->e[i];

		p = mempcpy(p, source + from, e->at - from);
		if (e->comma)
			*p++ = ',';
		p = mempcpy(p, e->text, strlen(e->text));
		from = e->to;
	}
	p = mempcpy(p, source + from, len - from);
	*p = '\0';
	out->len = (size_t)(p - out->text);
	return true;
}

/* A macro of the options must have neither a name nor a text that the preamble, the prologue or the
 * search for waits depends on. */
static bool macro_ok(const char *text, size_t len)
{
	static const char *const ours[] = {"typedef", "inline", "uint", "size_t", "__local",
		"barrier", "CLK_LOCAL_MEM_FENCE", "get_local_id", "get_group_id", "get_num_groups",
		"get_local_size", "const"};
	struct fm_tokens t;
	bool ok = true;

	if (fm_tokens_read(&t, text, len))
		return false;
	for (uint32_t i = 0; i < t.n && ok; i++) {
		const char *name = text + t.tok[i].at;
		size_t n = t.tok[i].end - t.tok[i].at;

		ok = !memchr("\"'#", *name, 3) && t.tok[i].word == FM_W_NONE;
		for (unsigned w = 0; w < sizeof(ours) / sizeof(*ours); w++)
			ok &= strlen(ours[w]) != n || memcmp(ours[w], name, n);
	}
	fm_tokens_free(&t);
	return ok;
}

static bool begins(const char *word, size_t n, const char *with)
{
	return n >= strlen(with) && !memcmp(word, with, strlen(with));
}

/* Options must not choose another language either, nor include a file in front of the text. */
static bool options_ok(const char *o)
{
	bool macro = false;

	if (strpbrk(o, "\"'\\\n\r") || strstr(o, "//") || strstr(o, "/*"))
		return false;
	while (*(o += strspn(o, " \t"))) {
		size_t n = strcspn(o, " \t");

		if (begins(o, n, "-D") || begins(o, n, "-U")) {
			macro = n == 2;
			if (!macro_ok(o + 2, n - 2))
				return false;
		} else if (macro) {
			macro = false;
			if (!macro_ok(o, n))
				return false;
		} else if (begins(o, n, "-x") || begins(o, n, "-include") ||
			   begins(o, n, "-imacros") || begins(o, n, "-cl-std=CLC++") ||
			   begins(o, n, "-cl-std=clc++") || begins(o, n, "-X") ||
			   begins(o, n, "@")) {
			return false;
		}
		o += n;
	}
	return true;
}

enum fm_guardian_why fm_guardian_rewrite(
	const char *source, size_t len, const char *options, struct fm_guardian_text *out)
{
	struct edits x = {0};
	enum fm_guardian_why why;
	struct fm_tokens t;
	int rc;

	*out = (struct fm_guardian_text){0};
	if (options && !options_ok(options))
		return FM_GUARDIAN_OPTIONS;
	rc = fm_tokens_read(&t, source, len);
	if (rc)
		return rc == -ENOMEM ? FM_GUARDIAN_MEMORY : FM_GUARDIAN_UNCLEAR;
	why = refuse(&t);
	if (!why) {
		out->includes = forbids(&t, FM_W_INCLUDE);
		out->kernels = rewrite_kernels(&t, &x);
		why = out->kernels ? find_calls(&t) : FM_GUARDIAN_NO_KERNEL;
		if (!why && (x.failed || !apply(source, len, &x, out)))
			why = FM_GUARDIAN_MEMORY;
	}
	if (why)
		*out = (struct fm_guardian_text){0};
	free(x.e);
	fm_tokens_free(&t);
	return why;
}
