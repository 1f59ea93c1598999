/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_scan.h"
#include "base/util.h"
#include <ctype.h>

#define PARAMS_MAX 8192
#define BYTES_MAX  32764
#define NO_END     SIZE_MAX

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool is_blank(char c)
{
	return isspace((unsigned char)c);
}

/* The end of the comment or string that begins at i; i if none begins there; NO_END if it does not
 * end.
 */
static size_t past_comment(const char *s, size_t i, size_t size)
{
	const char *end;

	if (s[i] == '"') {
		for (size_t j = i + 1; j < size; j++) {
			if (s[j] == '"')
				return j + 1;
			j += s[j] == '\\';
		}
		return NO_END;
	}
	if (s[i] != '/' || i + 1 >= size)
		return i;
	if (s[i + 1] == '/') {
		end = memchr(s + i, '\n', size - i);
		return end ? (size_t)(end - s) : size;
	}
	if (s[i + 1] != '*')
		return i;
	end = memmem(s + i + 2, size - i - 2, "*/", 2);
	return end ? (size_t)(end - s) + 2 : NO_END;
}

static bool blank_out(char *s, size_t size)
{
	for (size_t i = 0; i < size;) {
		size_t end = past_comment(s, i, size);

		if (end == NO_END)
			return false;
		for (size_t j = i; j < end; j++)
			if (s[j] != '\n')
				s[j] = ' ';
		i = end > i ? end : i + 1;
	}
	return true;
}

struct cursor {
	const char *s;
	size_t at, end;
};

static void skip(struct cursor *c)
{
	while (c->at < c->end && is_blank(c->s[c->at]))
		c->at++;
}

/* A word, with the dot in front if it has one; its length, 0 if there is none. */
static size_t word(struct cursor *c, const char **w)
{
	size_t from;

	skip(c);
	from = c->at;
	if (c->at < c->end && c->s[c->at] == '.')
		c->at++;
	while (c->at < c->end && is_word(c->s[c->at]))
		c->at++;
	*w = c->s + from;
	return c->at - from;
}

static bool is(const char *w, size_t len, const char *what)
{
	return len == strlen(what) && !memcmp(w, what, len);
}

static bool number(struct cursor *c, uint32_t max, uint32_t *v)
{
	uint64_t n = 0;
	size_t from;

	skip(c);
	from = c->at;
	for (; c->at < c->end && isdigit((unsigned char)c->s[c->at]) && n <= max; c->at++)
		n = n * 10 + (unsigned)(c->s[c->at] - '0');
	*v = (uint32_t)n;
	return c->at > from && n <= max && (c->at == c->end || !is_word(c->s[c->at]));
}

static bool accept(struct cursor *c, char what)
{
	skip(c);
	if (c->at >= c->end || c->s[c->at] != what)
		return false;
	c->at++;
	return true;
}

static unsigned type_size(const char *w, size_t len)
{
	static const struct {
		const char *name;
		unsigned size;
	} types[] = {{".u64", 8}, {".b64", 8}, {".u32", 4}, {".b32", 4}, {".f32", 4}, {".s32", 4},
		{".b8", 1}, {".s64", 8}, {".f64", 8}, {".u8", 1}, {".s8", 1}, {".u16", 2},
		{".s16", 2}, {".b16", 2}, {".f16", 2}, {".f16x2", 4}, {".bf16", 2}, {".bf16x2", 4},
		{".b128", 16}};

	for (size_t i = 0; i < FM_ARRAY_LEN(types); i++)
		if (is(w, len, types[i].name))
			return types[i].size;
	return 0;
}

/* Behind the type of an address: its space, and the alignment of what it points to. */
static void pointee(struct cursor *c)
{
	struct cursor ahead = *c;
	const char *w;
	size_t len = word(&ahead, &w);
	uint32_t ignored;

	if (!is(w, len, ".ptr"))
		return;
	*c = ahead;
	for (len = word(&ahead, &w); len && *w == '.'; len = word(&ahead, &w)) {
		if (is(w, len, ".align") && !number(&ahead, UINT16_MAX, &ignored))
			return;
		*c = ahead;
	}
}

/* .param [.align N] TYPE [.ptr [.SPACE] [.align N]] NAME [[COUNT]]. The alignment is that of the
 * place in the constant bank. */
static bool param(struct cursor *c, unsigned base, struct fm_ptx_kernel *k)
{
	const char *w;
	size_t len = word(c, &w);
	uint32_t align = 0, count = 1, size;
	struct fm_param *more;

	if (!is(w, len, ".param"))
		return false;
	len = word(c, &w);
	if (is(w, len, ".align")) {
		if (!number(c, 128, &align) || !align || (align & (align - 1)))
			return false;
		len = word(c, &w);
	}
	size = type_size(w, len);
	pointee(c);
	len = word(c, &w);
	if (!size || !len || *w == '.')
		return false;
	if (accept(c, '[') && (!number(c, BYTES_MAX, &count) || !accept(c, ']')))
		return false;
	align = FM_MAX(align, size);
	k->align = FM_MAX(k->align, align);
	k->bytes = ((k->bytes + base + align - 1) & ~(align - 1)) - base;
	if (k->n_params >= PARAMS_MAX || k->bytes + (uint64_t)size * count > BYTES_MAX)
		return false;
	if (!(k->n_params & (k->n_params - 1))) {
		more = realloc(k->params, 2 * (k->n_params + 1) * sizeof(*more));
		if (!more)
			return false;
		k->params = more;
	}
	k->params[k->n_params++] = (struct fm_param){(uint16_t)k->bytes, (uint16_t)(size * count)};
	k->bytes += size * count;
	return true;
}

static bool params(struct cursor *c, unsigned base, struct fm_ptx_kernel *k)
{
	k->has_list = accept(c, '(');
	k->list = c->at;
	if (!k->has_list)
		return true;
	if (accept(c, ')')) {
		k->list_end = c->at - 1;
		return true;
	}
	k->has_params = true;
	do {
		if (!param(c, base, k))
			return false;
	} while (accept(c, ','));
	k->list_end = c->at;
	return accept(c, ')');
}

/* Reads the text between the parameters and the body. */
static bool directives(struct cursor *c, struct fm_ptx_kernel *k)
{
	const char *w;
	size_t len;

	while (!accept(c, '{')) {
		len = word(c, &w);
		if (is(w, len, ".explicitcluster") || is(w, len, ".reqnctapercluster") ||
			is(w, len, ".maxclusterrank"))
			k->traits |= FM_KERNEL_CLUSTER;
		if (!len && !accept(c, ','))
			return false; /* a declaration, or something unknown */
	}
	k->body = c->at;
	return true;
}

static bool body(struct cursor *c, struct fm_ptx_kernel *k)
{
	unsigned depth = 1;

	for (; c->at < c->end; c->at++) {
		depth += c->s[c->at] == '{';
		depth -= c->s[c->at] == '}';
		if (!depth) {
			k->body_end = c->at++;
			return true;
		}
	}
	return false;
}

/* Coarse: it does not matter whether such an instruction is in a loop. */
static unsigned body_traits(const char *s, size_t size)
{
	static const struct {
		const char *word;
		unsigned trait;
	} words[] = {{"griddepcontrol", FM_KERNEL_OVERLAPS}, {"setmaxnreg", FM_KERNEL_SETMAXREG},
		{"cluster", FM_KERNEL_CLUSTER}, {"volatile", FM_KERNEL_WAITS},
		{".acquire", FM_KERNEL_WAITS}, {".relaxed", FM_KERNEL_WAITS},
		{".mmio", FM_KERNEL_WAITS}, {"atom.", FM_KERNEL_WAITS},
		{"nanosleep", FM_KERNEL_WAITS}, {"ld.cv", FM_KERNEL_WAITS},
		{"global.cv", FM_KERNEL_WAITS}, {"call", FM_KERNEL_CALLS}};
	unsigned traits = 0;

	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++)
		if (memmem(s, size, words[i].word, strlen(words[i].word)))
			traits |= words[i].trait;
	return traits;
}

static enum fm_image_why kernel(struct cursor *c, struct fm_ptx *p)
{
	struct fm_ptx_kernel *more, *k;
	const char *w;

	if (!(p->n & (p->n - 1))) {
		more = realloc(p->kernel, 2 * (p->n + 1) * sizeof(*more));
		if (!more)
			return FM_IMAGE_MEMORY;
		p->kernel = more;
	}
	k = &p->kernel[p->n++];
	*k = (struct fm_ptx_kernel){0};
	k->name_len = word(c, &w);
	k->name = (size_t)(w - p->text);
	if (!k->name_len || *w == '.' || !params(c, p->base, k) || !directives(c, k) || !body(c, k))
		return FM_IMAGE_TEXT;
	k->traits |= body_traits(p->text + k->body, k->body_end - k->body);
	return FM_IMAGE_OK;
}

static enum fm_image_why kernels(struct fm_ptx *p)
{
	struct cursor c = {p->text, 0, p->size};

	for (;;) {
		const char *found = memmem(p->text + c.at, p->size - c.at, ".entry", 6);
		enum fm_image_why why;

		if (!found)
			return p->n ? FM_IMAGE_OK : FM_IMAGE_NO_KERNEL;
		c.at = (size_t)(found - p->text) + 6;
		if ((found > p->text && !is_blank(found[-1])) || c.at >= p->size ||
			!is_blank(p->text[c.at]))
			return FM_IMAGE_TEXT;
		why = kernel(&c, p);
		if (why)
			return why;
	}
}

/* .version M.N .target sm_X... .address_size 64, at the beginning and once. */
static enum fm_image_why head(struct fm_ptx *p)
{
	struct cursor c = {p->text, 0, p->size};
	const char *w, *size;
	size_t len = word(&c, &w);
	uint32_t v;

	if (!is(w, len, ".version"))
		return FM_IMAGE_FOREIGN;
	if (!number(&c, 99, &v) || v < 3)
		return FM_IMAGE_TEXT;
	p->version = 10 * v;
	if (!accept(&c, '.') || !number(&c, 99, &v))
		return FM_IMAGE_TEXT;
	p->version += FM_MIN(v, 9u);
	len = word(&c, &w);
	if (!is(w, len, ".target"))
		return FM_IMAGE_TEXT;
	len = word(&c, &w);
	if (len < 5 || memcmp(w, "sm_", 3))
		return FM_IMAGE_TEXT;
	for (size_t i = 3; i < len && isdigit((unsigned char)w[i]) && p->sm < 1000; i++)
		p->sm = p->sm * 10 + (unsigned)(w[i] - '0');
	size = memmem(p->text, p->size, ".address_size", 13);
	if (!size)
		return FM_IMAGE_TEXT;
	c.at = (size_t)(size - p->text) + 13;
	return number(&c, 64, &v) && v == 64 ? FM_IMAGE_OK : FM_IMAGE_TEXT;
}

static bool mentions(const struct fm_ptx *p, const char *what)
{
	return memmem(p->text, p->size, what, strlen(what));
}

enum fm_image_why fm_ptx_scan(const char *text, size_t size, unsigned base, struct fm_ptx *out)
{
	enum fm_image_why why;

	*out = (struct fm_ptx){.size = size, .base = base, .text = malloc(size + 1)};
	if (!out->text)
		return FM_IMAGE_MEMORY;
	memcpy(out->text, text, size);
	out->text[size] = '\0';
	if (!blank_out(out->text, size))
		return FM_IMAGE_TEXT;
	why = head(out);
	if (why)
		return why;
	if (mentions(out, "__cudaCDP") || mentions(out, "cudaLaunchDevice") ||
		mentions(out, "cudaGetParameterBuffer"))
		return FM_IMAGE_LAUNCHES;
	if (mentions(out, "_fermata_") || mentions(out, "%fm_"))
		return FM_IMAGE_TEXT;
	return kernels(out);
}

void fm_ptx_free(struct fm_ptx *p)
{
	for (unsigned i = 0; i < p->n; i++)
		free(p->kernel[i].params);
	free(p->kernel);
	free(p->text);
	*p = (struct fm_ptx){0};
}

/* --- variables --- */

static bool large_number(struct cursor *c, uint64_t *v)
{
	size_t from;

	skip(c);
	*v = 0;
	for (from = c->at; c->at < c->end && isdigit((unsigned char)c->s[c->at]); c->at++)
		if (__builtin_mul_overflow(*v, 10, v) ||
			__builtin_add_overflow(*v, (unsigned)(c->s[c->at] - '0'), v))
			return false;
	return c->at > from;
}

/* The elements of an array that is declared without their number: nothing but its values is behind
 * that, and they are passed. */
static uint64_t initial_values(struct cursor *c)
{
	uint64_t n = 0;

	for (; c->at < c->end && c->s[c->at] != ';'; c->at++)
		if (c->s[c->at] == ',')
			n++;
		else if (c->s[c->at] == '{' && !n)
			n = 1;
	return n;
}

/* Behind .global or .const: [.align N] [.v2 | .v4] TYPE NAME [[COUNT]...]. Adds what it takes,
 * where it is aligned. */
static bool variable(struct cursor *c, uint64_t *bytes)
{
	uint64_t align = 1, of = 0, vector = 1, size, count;
	const char *w;
	size_t len;

	while ((len = word(c, &w)) && *w == '.') {
		if (is(w, len, ".align")) {
			if (!large_number(c, &align) || !align || align > 4096)
				return false;
			continue;
		}
		if (is(w, len, ".v2") || is(w, len, ".v4"))
			vector = w[2] == '2' ? 2 : 4;
		else if (type_size(w, len))
			of = type_size(w, len);
		else if (is(w, len, ".texref") || is(w, len, ".samplerref") ||
			 is(w, len, ".surfref"))
			of = 8;
	}
	size = of * vector;
	if (!len || !of)
		return false;
	while (accept(c, '[')) {
		if (!large_number(c, &count)) {
			if (!accept(c, ']') || accept(c, '['))
				return false;
			count = initial_values(c);
		} else if (!accept(c, ']')) {
			return false;
		}
		if (__builtin_mul_overflow(size, count, &size))
			return false;
	}
	align = FM_MAX(align, of * vector);
	return !__builtin_add_overflow(*bytes, align - 1, bytes) &&
	       !__builtin_add_overflow(*bytes / align * align, size, bytes);
}

/* Those of the text's outermost level: what is in braces is a function's, or an initial value; in
 * parentheses, a parameter's (`.param .u64 .ptr .global p'). */
static bool globals(struct cursor *c, uint64_t *bytes)
{
	unsigned depth = 0;
	bool elsewhere = false;
	const char *w;
	size_t len;

	*bytes = 0;
	while (c->at < c->end) {
		len = depth ? 0 : word(c, &w);
		if (!len) {
			char is_now = c->at < c->end ? c->s[c->at] : '\0';

			depth += is_now == '{' || is_now == '(';
			depth -= depth && (is_now == '}' || is_now == ')');
			elsewhere &= is_now != ';';
			c->at++;
		} else if (is(w, len, ".extern")) {
			elsewhere = true;
		} else if ((is(w, len, ".global") || is(w, len, ".const")) && !elsewhere &&
			   !variable(c, bytes)) {
			return false;
		}
	}
	return true;
}

bool fm_ptx_globals(const char *text, size_t size, uint64_t *bytes)
{
	char *plain = malloc(size + 1);
	bool known;

	if (!plain)
		return false;
	memcpy(plain, text, size);
	plain[size] = '\0';
	known = blank_out(plain, size) && globals(&(struct cursor){plain, 0, size}, bytes);
	free(plain);
	return known;
}
