/* SPDX-License-Identifier: Apache-2.0 */
#include "token.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX     (16u << 20)
#define NAME_MAX_LEN 64

static const struct {
	const char *name;
	enum fm_word word;
} words[] = {
	{"__kernel", FM_W_KERNEL},
	{"kernel", FM_W_KERNEL},
	{"void", FM_W_VOID},
	{"__attribute__", FM_W_ATTRIBUTE},
	{"__attribute", FM_W_ATTRIBUTE},
	{"for", FM_W_LOOP},
	{"while", FM_W_LOOP},
	{"do", FM_W_DO},
	{"else", FM_W_ELSE},
	{"return", FM_W_RETURN},
	{"if", FM_W_IF},
	{"goto", FM_W_GOTO},
	{"static", FM_W_STATIC},
	{"typedef", FM_W_TYPEDEF},
	{"__global", FM_W_GLOBAL},
	{"global", FM_W_GLOBAL},
	{"volatile", FM_W_VOLATILE},
	{"__volatile__", FM_W_VOLATILE},
	{"__volatile", FM_W_VOLATILE},
	{"asm", FM_W_VOLATILE}, /* it may read memory repeatedly */
	{"__asm__", FM_W_VOLATILE},
	{"__asm", FM_W_VOLATILE},
	{"mem_fence", FM_W_FENCE},
	{"read_mem_fence", FM_W_FENCE},
	{"write_mem_fence", FM_W_FENCE},
	{"atomic_work_item_fence", FM_W_FENCE},
	{"printf", FM_W_PRINT},
	{"enqueue_kernel", FM_W_ENQUEUE},
	{"enqueue_marker", FM_W_ENQUEUE},
	{"get_default_queue", FM_W_ENQUEUE},
	{"queue_t", FM_W_ENQUEUE},
	{"clk_event_t", FM_W_ENQUEUE},
	{"ndrange_t", FM_W_ENQUEUE},
	{"pipe", FM_W_PIPE},
	{"__pipe", FM_W_PIPE},
	{"read_pipe", FM_W_PIPE},
	{"write_pipe", FM_W_PIPE},
	{"define", FM_W_DEFINE},
	{"undef", FM_W_UNDEF},
	{"include", FM_W_INCLUDE},
	{"include_next", FM_W_INCLUDE},
	{"import", FM_W_INCLUDE},
	{"endif", FM_W_ENDIF},
	{"elif", FM_W_ELIF},
	{"elifdef", FM_W_ELIF},
	{"elifndef", FM_W_ELIF},
	{"ifdef", FM_W_IFDEF},
	{"ifndef", FM_W_IFDEF},
};

static bool begins(const char *name, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && !memcmp(name, with, n);
}

static bool contains(const char *name, size_t len, const char *part)
{
	return memmem(name, len, part, strlen(part));
}

/* atomic_add, atom_add, and the built-in functions of compilers. */
static enum fm_word atomic_of(const char *name, size_t len)
{
	if (!begins(name, len, "atom_") && !begins(name, len, "atomic_") &&
		!begins(name, len, "__atomic") && !begins(name, len, "__sync") &&
		!begins(name, len, "__opencl_atomic") && !begins(name, len, "__c11_atomic") &&
		!begins(name, len, "__builtin_nontemporal"))
		return FM_W_NONE;
	/* A type such as atomic_int counts, too: it has no parenthesis behind it (waits.c). */
	if (contains(name, len, "cmpxchg") || contains(name, len, "compare_exchange"))
		return FM_W_EXCHANGE;
	return FM_W_ATOMIC;
}

/* The kind of word that the name is. */
static enum fm_word fm_word_of(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i].name) == len && !memcmp(words[i].name, name, len))
			return words[i].word;
	if (begins(name, len, "fermata_guard"))
		return FM_W_OURS;
	return atomic_of(name, len);
}

static bool is_newline(char c)
{
	return c == '\n' || c == '\r';
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
	       (unsigned char)c >= 0x80 || is_digit(c);
}

struct lexer {
	struct fm_tokens *t;
	const char *s;
	size_t at, len;
	bool line_start, directive;
	int rc;
};

/* The length of the line splice at i: a backslash, blanks (compilers accept them), a newline. */
static size_t splice(const struct lexer *x, size_t i)
{
	size_t from = i;

	if (i >= x->len || x->s[i] != '\\')
		return 0;
	for (i++; i < x->len && is_space(x->s[i]); i++)
		;
	if (i >= x->len || !is_newline(x->s[i]))
		return 0;
	i += i + 1 < x->len && x->s[i] == '\r' && x->s[i + 1] == '\n' ? 2 : 1;
	return i - from;
}

static size_t past_splices(const struct lexer *x, size_t i)
{
	for (size_t n = splice(x, i); n; n = splice(x, i))
		i += n;
	return i;
}

/* The character behind the one at i, or zero at the end. *next is its place. */
static char after(const struct lexer *x, size_t i, size_t *next)
{
	*next = past_splices(x, i + 1);
	return *next < x->len ? x->s[*next] : '\0';
}

static void push(struct lexer *x, struct fm_token tok)
{
	struct fm_tokens *t = x->t;

	if (t->n == t->cap) {
		uint32_t cap = t->cap ? 2 * t->cap : 1024;
		struct fm_token *more = realloc(t->tok, cap * sizeof(*more));

		if (!more) {
			x->rc = -ENOMEM;
			return;
		}
		t->tok = more;
		t->cap = cap;
	}
	tok.directive = x->directive;
	t->tok[t->n++] = tok;
}

static void line_comment(struct lexer *x)
{
	while (x->at < x->len && !is_newline(x->s[x->at])) {
		size_t n = splice(x, x->at);

		x->at += n ? n : 1;
	}
}

static void block_comment(struct lexer *x, size_t star)
{
	size_t i = star + 1, next;

	for (; i < x->len; i++) {
		if (x->s[i] == '*' && after(x, i, &next) == '/') {
			x->at = next + 1;
			return;
		}
	}
	x->rc = -EINVAL;
}

static void quoted(struct lexer *x)
{
	size_t from = x->at, i = from + 1;
	char quote = x->s[from];

	while (i < x->len && !is_newline(x->s[i]) && x->s[i] != quote) {
		size_t n = splice(x, i);

		if (n)
			i += n;
		else if (x->s[i] == '\\' && i + 1 < x->len && !is_newline(x->s[i + 1]))
			i += 2;
		else
			i++;
	}
	if (i < x->len && x->s[i] == quote)
		i++;
	x->at = i;
	push(x, (struct fm_token){.at = (uint32_t)from, .end = (uint32_t)i, .kind = FM_TOK_OTHER});
}

/* A name, or a number: the characters of a number may be those of a name. */
static void name(struct lexer *x)
{
	size_t from = x->at, i = from, end = from, n = 0;
	bool number = is_digit(x->s[from]);
	char buf[NAME_MAX_LEN];

	while (i < x->len && (is_name(x->s[i]) || (number && x->s[i] == '.'))) {
		if (n < sizeof(buf))
			buf[n] = x->s[i];
		n++;
		end = i + 1;
		i = past_splices(x, end);
	}
	x->at = end;
	push(x, (struct fm_token){.at = (uint32_t)from,
			.end = (uint32_t)end,
			.kind = number ? FM_TOK_OTHER : FM_TOK_WORD,
			.word = number || n > sizeof(buf) ? FM_W_NONE : fm_word_of(buf, n)});
}

static void punctuator(struct lexer *x)
{
	char c = x->s[x->at], n;
	size_t next;

	n = after(x, x->at, &next);
	if ((c == '<' && (n == '%' || n == ':')) || (c == '%' && n == ':') ||
		(c == '?' && n == '?')) {
		x->rc = -EINVAL;
		return;
	}
	push(x, (struct fm_token){.at = (uint32_t)x->at,
			.end = (uint32_t)x->at + 1,
			.kind = FM_TOK_PUNCT,
			.punct = c});
	x->at++;
}

static void newline(struct lexer *x)
{
	x->at++;
	x->line_start = true;
	x->directive = false;
}

static void begin_directive(struct lexer *x)
{
	x->directive = true;
	push(x, (struct fm_token){.at = (uint32_t)x->at,
			.end = (uint32_t)x->at + 1,
			.kind = FM_TOK_DIRECTIVE});
	x->at++;
}

static void step(struct lexer *x)
{
	size_t n = splice(x, x->at), next;
	char c = x->s[x->at];

	if (n) {
		x->at += n;
		return;
	}
	if (is_newline(c)) {
		newline(x);
		return;
	}
	if (is_space(c)) {
		x->at++;
		return;
	}
	if (c == '/' && after(x, x->at, &next) == '/') {
		line_comment(x);
		return;
	}
	if (c == '/' && after(x, x->at, &next) == '*') {
		block_comment(x, next);
		return;
	}
	if (c == '#' && x->line_start) {
		x->line_start = false;
		begin_directive(x);
		return;
	}
	x->line_start = false;
	if (c == '"' || c == '\'')
		quoted(x);
	else if (is_name(c))
		name(x);
	else if (c)
		punctuator(x);
	else
		x->rc = -EINVAL;
}

int fm_tokens_read(struct fm_tokens *t, const char *text, size_t len)
{
	struct lexer x = {.t = t, .s = text, .len = len, .line_start = true};

	*t = (struct fm_tokens){.text = text};
	if (len > TEXT_MAX)
		return -EFBIG;
	while (x.at < x.len && !x.rc)
		step(&x);
	if (x.rc)
		fm_tokens_free(t);
	return x.rc;
}

void fm_tokens_free(struct fm_tokens *t)
{
	free(t->tok);
	t->tok = NULL;
	t->n = t->cap = 0;
}

uint32_t fm_tokens_next(const struct fm_tokens *t, uint32_t i)
{
	for (i++; i < t->n && t->tok[i].directive; i++)
		;
	return i < t->n ? i : t->n;
}

uint32_t fm_tokens_prev(const struct fm_tokens *t, uint32_t i)
{
	while (i-- > 0)
		if (!t->tok[i].directive)
			return i;
	return UINT32_MAX;
}

uint32_t fm_tokens_close(const struct fm_tokens *t, uint32_t i)
{
	char open = t->tok[i].punct, close = open == '(' ? ')' : open == '{' ? '}' : ']';
	uint32_t depth = 0;

	for (; i < t->n; i = fm_tokens_next(t, i)) {
		if (fm_token_is(t, i, open))
			depth++;
		else if (fm_token_is(t, i, close) && --depth == 0)
			return i;
	}
	return t->n;
}

uint32_t fm_tokens_open(const struct fm_tokens *t, uint32_t i)
{
	uint32_t depth = 0;

	for (; i != UINT32_MAX; i = fm_tokens_prev(t, i)) {
		if (fm_token_is(t, i, ')'))
			depth++;
		else if (fm_token_is(t, i, '(') && --depth == 0)
			return i;
	}
	return UINT32_MAX;
}

bool fm_token_same(const struct fm_tokens *t, uint32_t a, uint32_t b)
{
	const struct fm_token *p = &t->tok[a], *q = &t->tok[b];
	uint32_t n = p->end - p->at;

	return n == q->end - q->at && !memcmp(t->text + p->at, t->text + q->at, n);
}
