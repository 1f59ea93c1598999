/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_code.h"
#include "base/util.h"
#include <ctype.h>

/* Beyond these limits a kernel is too large to be examined. */
#define REGS_MAX     65536u
#define INSNS_MAX    65536u
#define OPERANDS_MAX 524288u
#define LABELS_MAX   16384u
#define FAMILIES_MAX 192u
#define DEPTH_MAX    16u

/* The approximate length, in instructions, of an access to memory, and of an operation with several
 * steps. */
#define WEIGHT_LOAD   128
#define WEIGHT_STORE  32
#define WEIGHT_LONG   16
#define WEIGHT_SHARED 8 /* within the multiprocessor, barriers included */

/* Registers that were declared together: %r<100>, or a single one. */
struct family {
	size_t name;
	uint32_t len, first, count; /* count 0: a single one of exactly that name */
};

struct label {
	const char *name;
	uint32_t len, insn;
};

struct reader {
	const char *s;
	size_t at, end;
	struct fm_ptx_code *code;
	struct family family[FAMILIES_MAX];
	unsigned n_families;
	unsigned scope[DEPTH_MAX]; /* families in front of each brace */
	unsigned depth;
	struct label *label;
	uint32_t n_labels, room_labels;
	enum fm_loop_why why;
	bool any; /* fm_ptx_code_read_any() */
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool fails(struct reader *r, enum fm_loop_why why)
{
	if (r->why == FM_LOOP_POLLED)
		r->why = why;
	return false;
}

/* Makes room for more items in a list. NULL: out of memory. */
static void *grow(struct reader *r, void *list, uint32_t *room, size_t size)
{
	uint32_t n = 2 * *room + 64;
	void *more = realloc(list, n * size);

	if (more)
		*room = n;
	else
		fails(r, FM_LOOP_LARGE);
	return more;
}

/* Makes room for one more. False: out of memory. */
#define ROOM(r, c, what)                                                                  \
	({                                                                                \
		void *more_ = (c)->what;                                                  \
		if ((c)->n_##what##s == (c)->room_##what##s)                              \
			more_ = grow(r, more_, &(c)->room_##what##s, sizeof(*(c)->what)); \
		if (more_)                                                                \
			(c)->what = more_;                                                \
		more_ != NULL;                                                            \
	})

static void skip(struct reader *r)
{
	while (r->at < r->end && isspace((unsigned char)r->s[r->at]))
		r->at++;
}

static bool accept(struct reader *r, char c)
{
	skip(r);
	if (r->at >= r->end || r->s[r->at] != c)
		return false;
	r->at++;
	return true;
}

/* The length of a name; 0: there is none. */
static uint32_t word(struct reader *r, size_t *at)
{
	skip(r);
	*at = r->at;
	while (r->at < r->end && is_word(r->s[r->at]))
		r->at++;
	return (uint32_t)FM_MIN(r->at - *at, (size_t)UINT32_MAX);
}

static bool is(const char *s, size_t len, const char *what)
{
	return strlen(what) == len && !memcmp(s, what, len);
}

/* --- registers --- */

static bool type_of(const char *s, size_t len, enum fm_ptx_type *type)
{
	static const struct {
		const char *name;
		enum fm_ptx_type type;
	} types[] = {{"pred", FM_PTX_PRED}, {"b8", FM_PTX_8}, {"u8", FM_PTX_8}, {"s8", FM_PTX_8},
		{"b16", FM_PTX_16}, {"u16", FM_PTX_16}, {"s16", FM_PTX_16}, {"f16", FM_PTX_16},
		{"bf16", FM_PTX_16}, {"b32", FM_PTX_32}, {"u32", FM_PTX_32}, {"s32", FM_PTX_32},
		{"f32", FM_PTX_32}, {"f16x2", FM_PTX_32}, {"bf16x2", FM_PTX_32}, {"b64", FM_PTX_64},
		{"u64", FM_PTX_64}, {"s64", FM_PTX_64}, {"f64", FM_PTX_64}};

	for (size_t i = 0; i < FM_ARRAY_LEN(types); i++)
		if (is(s, len, types[i].name)) {
			*type = types[i].type;
			return true;
		}
	return false;
}

static bool number(struct reader *r, uint32_t *v)
{
	size_t from;

	skip(r);
	from = r->at;
	for (*v = 0; r->at < r->end && isdigit((unsigned char)r->s[r->at]); r->at++) {
		*v = *v * 10 + (uint32_t)(r->s[r->at] - '0');
		if (*v > REGS_MAX)
			return fails(r, FM_LOOP_LARGE);
	}
	return r->at > from || fails(r, FM_LOOP_TEXT);
}

static bool add_regs(struct reader *r, const struct family *f, enum fm_ptx_type type)
{
	struct fm_ptx_code *c = r->code;
	uint32_t n = f->count ? f->count : 1;

	if (c->n_regs + n > REGS_MAX || r->n_families == FAMILIES_MAX)
		return fails(r, FM_LOOP_LARGE);
	for (uint32_t i = 0; i < n; i++) {
		if (!ROOM(r, c, reg))
			return false;
		c->reg[c->n_regs++] = (struct fm_ptx_reg){
			f->name, f->len, f->count ? i : FM_PTX_ALONE, type, r->depth > 0};
	}
	r->family[r->n_families++] = *f;
	return true;
}

/* Behind `.reg`: .TYPE NAME [<COUNT>] [, ...] ; */
static bool declare(struct reader *r)
{
	enum fm_ptx_type type;
	size_t at;
	uint32_t len;

	if (!accept(r, '.'))
		return fails(r, FM_LOOP_TEXT);
	len = word(r, &at);
	if (!type_of(r->s + at, len, &type))
		return fails(r, FM_LOOP_TEXT);
	do {
		struct family f = {.first = r->code->n_regs};

		f.len = word(r, &f.name);
		if (!f.len)
			return fails(r, FM_LOOP_TEXT);
		if (accept(r, '<') && (!number(r, &f.count) || !f.count || !accept(r, '>')))
			return fails(r, FM_LOOP_TEXT);
		if (!add_regs(r, &f, type))
			return false;
	} while (accept(r, ','));
	return accept(r, ';') || fails(r, FM_LOOP_TEXT);
}

/* The member of a family, such as %r12 of %r. False: it is not a member. */
static bool member(const struct family *f, const char *s, size_t len, uint32_t *n)
{
	*n = 0;
	if (len <= f->len || (s[f->len] == '0' && len > f->len + 1))
		return false;
	for (size_t i = f->len; i < len; i++) {
		if (!isdigit((unsigned char)s[i]) || *n > REGS_MAX)
			return false;
		*n = *n * 10 + (uint32_t)(s[i] - '0');
	}
	return *n < f->count;
}

static uint32_t find_reg(const struct reader *r, const char *s, size_t len)
{
	uint32_t n;

	for (unsigned i = r->n_families; i-- > 0;) {
		const struct family *f = &r->family[i];

		if (len < f->len || memcmp(r->s + f->name, s, f->len))
			continue;
		if (!f->count && len == f->len)
			return f->first;
		if (f->count && member(f, s, len, &n))
			return f->first + n;
	}
	return FM_PTX_NONE;
}

/* --- what instructions there are --- */

enum { DEST = 1, FLOW = 2, TOGETHER = 4, LONG = 8, LOADS = 16, STORES = 32 };

static const struct {
	const char *name;
	unsigned what;
} known[] = {{"mov", DEST}, {"add", DEST}, {"sub", DEST}, {"mul", DEST}, {"mad", DEST},
	{"fma", DEST}, {"ld", DEST | LOADS}, {"st", STORES}, {"setp", DEST}, {"cvt", DEST},
	{"cvta", DEST}, {"bra", FLOW}, {"ret", FLOW}, {"exit", FLOW}, {"selp", DEST}, {"and", DEST},
	{"or", DEST}, {"xor", DEST}, {"not", DEST}, {"cnot", DEST}, {"lop3", DEST}, {"shl", DEST},
	{"shr", DEST}, {"shf", DEST}, {"neg", DEST}, {"abs", DEST}, {"min", DEST}, {"max", DEST},
	{"div", DEST | LONG}, {"rem", DEST | LONG}, {"sqrt", DEST | LONG}, {"rsqrt", DEST | LONG},
	{"rcp", DEST | LONG}, {"sin", DEST}, {"cos", DEST}, {"lg2", DEST}, {"ex2", DEST},
	{"tanh", DEST}, {"set", DEST}, {"slct", DEST}, {"addc", DEST}, {"subc", DEST},
	{"madc", DEST}, {"mul24", DEST}, {"mad24", DEST}, {"sad", DEST}, {"popc", DEST},
	{"clz", DEST}, {"brev", DEST}, {"bfe", DEST}, {"bfi", DEST}, {"bfind", DEST},
	{"prmt", DEST}, {"fns", DEST}, {"bmsk", DEST}, {"szext", DEST}, {"copysign", DEST},
	{"testp", DEST}, {"dp4a", DEST}, {"dp2a", DEST}, {"isspacep", DEST}, {"red", STORES},
	{"membar", STORES}, {"fence", STORES}, {"prefetch", 0}, {"prefetchu", 0}, {"trap", 0},
	{"bar", TOGETHER}, {"barrier", TOGETHER}, {"shfl", TOGETHER}, {"vote", TOGETHER},
	{"match", TOGETHER}, {"activemask", TOGETHER}, {"redux", TOGETHER}, {"elect", TOGETHER},
	{"mma", TOGETHER}, {"wmma", TOGETHER}, {"wgmma", TOGETHER}, {"ldmatrix", TOGETHER},
	{"stmatrix", TOGETHER}, {"movmatrix", TOGETHER}, {"mbarrier", TOGETHER}, {"cp", TOGETHER}};

/* Their values do not change when the block continues elsewhere, later. */
static const char *const special[] = {"%tid", "%ntid", "%ctaid", "%nctaid", "%laneid",
	"%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge",
	"%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%dynamic_smem_size",
	"%total_smem_size"};
/* The values of these do. */
static const char *const placed[] = {
	"%clock", "%clock64", "%clock_hi", "%smid", "%nsmid", "%warpid", "%nwarpid", "%gridid"};

static bool listed(const char *const *list, size_t n, const char *s, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (is(s, len, list[i]))
			return true;
	return false;
}

static bool has(const char *s, size_t len, const char *part)
{
	return memmem(s, len, part, strlen(part));
}

/* Of threads together: what it is where that does not matter. False: it does. */
static bool classify_any(const char *op, size_t root, size_t len, unsigned *what)
{
	static const char *const gives[] = {"shfl", "vote", "match", "activemask", "redux", "elect",
		"mma", "ldmatrix", "movmatrix"};

	*what = TOGETHER;
	if (listed(gives, FM_ARRAY_LEN(gives), op, root) ||
		((is(op, root, "bar") || is(op, root, "barrier")) && has(op, len, ".red")))
		*what |= DEST;
	else if (is(op, root, "stmatrix"))
		*what |= STORES;
	else
		return is(op, root, "bar") || is(op, root, "barrier");
	return true;
}

static bool classify(struct reader *r, const char *op, size_t len, unsigned *what)
{
	const char *dot = memchr(op, '.', len);
	size_t root = dot ? (size_t)(dot - op) : len;

	*what = TOGETHER;
	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++)
		if (is(op, root, known[i].name)) {
			*what = known[i].what;
			if (*what & TOGETHER)
				return (r->any && classify_any(op, root, len, what)) ||
				       fails(r, FM_LOOP_TOGETHER);
			if (has(op, len, ".shared") && !r->any)
				return fails(r, FM_LOOP_SHARED);
			if (has(op, len, ".local") && !r->any)
				return fails(r, FM_LOOP_LOCAL);
			/* An address that may differ in another launch. */
			if (is(op, root, "cvta") && has(op, len, ".param"))
				return fails(r, FM_LOOP_PLACE);
			return true;
		}
	return fails(r, FM_LOOP_TEXT);
}

static uint16_t weight(const char *op, size_t len, unsigned what)
{
	if (what & TOGETHER || has(op, len, ".shared"))
		return WEIGHT_SHARED;
	if (what & LOADS)
		return has(op, len, ".param") || has(op, len, ".const") ? 1 : WEIGHT_LOAD;
	if (what & STORES)
		return WEIGHT_STORE;
	return what & LONG || has(op, len, ".f64") ? WEIGHT_LONG : 1;
}

/* --- instructions --- */

static bool add_operand(struct reader *r, uint32_t reg, bool dest, bool writes)
{
	struct fm_ptx_code *c = r->code;

	if (c->n_operands == OPERANDS_MAX || !ROOM(r, c, operand))
		return fails(r, FM_LOOP_LARGE);
	c->operand[c->n_operands++] = (struct fm_ptx_operand){reg, dest, writes};
	return true;
}

/* A word among the operands: a register, or something that does not matter. */
static bool operand(struct reader *r, bool dest, bool writes)
{
	size_t at;
	uint32_t len = word(r, &at), reg;
	const char *s = r->s + at;

	if (isdigit((unsigned char)*s))
		return true;
	reg = find_reg(r, s, len);
	if (reg != FM_PTX_NONE)
		return add_operand(r, reg, dest, writes);
	if (*s != '%' || listed(special, FM_ARRAY_LEN(special), s, len))
		return true;
	return fails(
		r, listed(placed, FM_ARRAY_LEN(placed), s, len) ? FM_LOOP_PLACE : FM_LOOP_TEXT);
}

/* Reads the operands, up to behind the `;`. dest: the first one is written, unless it is an
 * address. always: whatever the guard. */
static bool operands(struct reader *r, bool dest, bool always)
{
	unsigned first = 0, address = 0, vector = 0;

	for (;;) {
		char c;

		skip(r);
		if (r->at >= r->end)
			return fails(r, FM_LOOP_TEXT);
		c = r->s[r->at];
		if (is_word(c)) {
			bool gives = dest && !first && !address;

			if (!operand(r, gives, gives && always))
				return false;
			continue;
		}
		r->at++;
		if (c == ';')
			return (!address && !vector) || fails(r, FM_LOOP_TEXT);
		if (!strchr("[]{},.|!+-<>", c) || (c == ']' && !address) || (c == '}' && !vector))
			return fails(r, FM_LOOP_TEXT);
		address += c == '[';
		address -= c == ']';
		vector += c == '{';
		vector -= c == '}';
		first += c == ',' && !vector && !address;
		if (c == '.') /* part of a special register: %tid.x */
			while (r->at < r->end && is_word(r->s[r->at]))
				r->at++;
	}
}

static bool flow(struct reader *r, struct fm_ptx_insn *insn, const char *op, size_t len)
{
	insn->uniform = insn->guard != FM_PTX_NONE && has(op, len, ".uni");
	insn->flow = *op == 'b' ? FM_PTX_BRANCH : FM_PTX_END;
	if (insn->flow == FM_PTX_BRANCH) {
		insn->label_len = word(r, &insn->label);
		if (!insn->label_len)
			return fails(r, FM_LOOP_TEXT);
	}
	return accept(r, ';') || fails(r, FM_LOOP_TEXT);
}

static bool guard(struct reader *r, struct fm_ptx_insn *insn)
{
	size_t at;
	uint32_t len;

	insn->negated = accept(r, '!');
	len = word(r, &at);
	insn->guard = find_reg(r, r->s + at, len);
	if (insn->guard == FM_PTX_NONE || r->code->reg[insn->guard].type != FM_PTX_PRED)
		return fails(r, FM_LOOP_TEXT);
	return add_operand(r, insn->guard, false, false);
}

static bool instruction(struct reader *r)
{
	struct fm_ptx_code *c = r->code;
	struct fm_ptx_insn insn = {
		.at = r->at, .operand = c->n_operands, .guard = FM_PTX_NONE, .target = FM_PTX_NONE};
	size_t from;
	unsigned what;

	if (c->n_insns == INSNS_MAX)
		return fails(r, FM_LOOP_LARGE);
	if (accept(r, '@') && !guard(r, &insn))
		return false;
	skip(r);
	from = r->at;
	while (r->at < r->end && (is_word(r->s[r->at]) || r->s[r->at] == '.' || r->s[r->at] == ':'))
		r->at++;
	if (!classify(r, r->s + from, r->at - from, &what))
		return false;
	insn.op = from;
	insn.op_len = (uint32_t)(r->at - from);
	insn.weight = weight(r->s + from, r->at - from, what);
	if (what & FLOW ? !flow(r, &insn, r->s + from, r->at - from)
			: !operands(r, what & DEST, insn.guard == FM_PTX_NONE))
		return false;
	insn.end = r->at;
	if (!ROOM(r, c, insn))
		return false;
	c->insn[c->n_insns++] = insn;
	return true;
}

/* --- statements --- */

/* Not within braces, whose registers are unknown outside. */
static bool label(struct reader *r, size_t at, uint32_t len)
{
	if (r->depth)
		return fails(r, FM_LOOP_TEXT);
	if (r->n_labels == LABELS_MAX || !ROOM(r, r, label))
		return fails(r, FM_LOOP_LARGE);
	r->label[r->n_labels++] = (struct label){r->s + at, len, r->code->n_insns};
	return true;
}

static bool directive(struct reader *r)
{
	size_t at;
	uint32_t len;
	const char *end;

	r->at++;
	len = word(r, &at);
	if (is(r->s + at, len, "reg"))
		return declare(r);
	if (is(r->s + at, len, "shared") && !r->any)
		return fails(r, FM_LOOP_SHARED);
	if (is(r->s + at, len, "local") && !r->any)
		return fails(r, FM_LOOP_LOCAL);
	if (is(r->s + at, len, "loc")) /* ends with its line */
		end = memchr(r->s + r->at, '\n', r->end - r->at);
	else if (is(r->s + at, len, "pragma") || is(r->s + at, len, "shared") ||
		 is(r->s + at, len, "local"))
		end = memchr(r->s + r->at, ';', r->end - r->at);
	else
		return fails(r, FM_LOOP_TEXT);
	r->at = end ? (size_t)(end - r->s) + 1 : r->end;
	return end || fails(r, FM_LOOP_TEXT);
}

static bool brace(struct reader *r)
{
	bool opens = r->s[r->at++] == '{';

	if (opens && r->depth == DEPTH_MAX)
		return fails(r, FM_LOOP_LARGE);
	if (!opens && !r->depth)
		return fails(r, FM_LOOP_TEXT);
	if (opens)
		r->scope[r->depth++] = r->n_families;
	else
		r->n_families = r->scope[--r->depth];
	return true;
}

static bool statement(struct reader *r)
{
	size_t from = r->at, at;
	uint32_t len;
	char c = r->s[from];

	if (c == '{' || c == '}')
		return brace(r);
	if (c == '.')
		return directive(r);
	if (c == ';') {
		r->at++;
		return true;
	}
	len = word(r, &at);
	if (len && accept(r, ':'))
		return label(r, at, len);
	r->at = from;
	return instruction(r);
}

/* --- labels --- */

static int order(const void *a, const void *b)
{
	const struct label *x = a, *y = b;
	int cmp = memcmp(x->name, y->name, FM_MIN(x->len, y->len));

	return cmp ? cmp : x->len < y->len ? -1 : x->len > y->len;
}

static bool find_targets(struct reader *r)
{
	struct fm_ptx_code *c = r->code;

	if (r->n_labels)
		qsort(r->label, r->n_labels, sizeof(*r->label), order);
	for (uint32_t i = 1; i < r->n_labels; i++)
		if (!order(&r->label[i - 1], &r->label[i]))
			return fails(r, FM_LOOP_TEXT);
	for (uint32_t i = 0; i < c->n_insns; i++) {
		struct fm_ptx_insn *insn = &c->insn[i];
		struct label wanted = {r->s + insn->label, insn->label_len, 0}, *found;

		if (insn->flow != FM_PTX_BRANCH) {
			if (insn->uniform)
				return fails(r, FM_LOOP_TEXT);
			continue;
		}
		found = r->n_labels ? bsearch(&wanted, r->label, r->n_labels, sizeof(wanted), order)
				    : NULL;
		if (!found)
			return fails(r, FM_LOOP_TEXT);
		insn->target = found->insn;
		/* After a warp was left, some threads may be one round of a loop ahead of others.
		 * Branches that lead back are rewritten, and do not claim that all threads agree.
		 */
		if (insn->uniform && insn->target > i && !r->any)
			return fails(r, FM_LOOP_TEXT);
	}
	return true;
}

static void read_all(struct reader *r)
{
	struct fm_ptx_code *c = r->code;

	for (skip(r); r->at < r->end; skip(r))
		if (!statement(r))
			return;
	if (r->depth)
		fails(r, FM_LOOP_TEXT);
	else if (find_targets(r) && ROOM(r, c, insn))
		c->insn[c->n_insns] = (struct fm_ptx_insn){.at = r->end, .operand = c->n_operands};
}

static enum fm_loop_why code_read(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, bool any, struct fm_ptx_code *out)
{
	struct reader *r = calloc(1, sizeof(*r));
	enum fm_loop_why why;

	*out = (struct fm_ptx_code){0};
	if (!r)
		return FM_LOOP_LARGE;
	r->s = p->text;
	r->at = k->body;
	r->end = k->body_end;
	r->code = out;
	r->why = FM_LOOP_POLLED;
	r->any = any;
	read_all(r);
	why = r->why;
	free(r->label);
	free(r);
	return why;
}

enum fm_loop_why fm_ptx_code_read(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, struct fm_ptx_code *out)
{
	return code_read(p, k, false, out);
}

enum fm_loop_why fm_ptx_code_read_any(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, struct fm_ptx_code *out)
{
	return code_read(p, k, true, out);
}

void fm_ptx_code_free(struct fm_ptx_code *c)
{
	free(c->reg);
	free(c->insn);
	free(c->operand);
	*c = (struct fm_ptx_code){0};
}
