/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each register is nothing yet, a value without any base, or a base with such a value added,
 * whatever the order of instructions. A base that goes anywhere but into an address, or into one of
 * those and something else, is used up: it is none.
 */
#include "ptx_bases.h"
#include "access.h"
#include "base/util.h"

#define WORDS      64u
#define ROUNDS_MAX 4096u

/* A register: one of these, or FIRST plus the number of a word. */
enum { NOTHING, VALUE, MIXED, FIRST };

struct bases {
	const struct fm_ptx *p;
	const struct fm_ptx_kernel *k;
	const struct fm_param *params;
	const struct fm_ptx_code *c;
	uint8_t *reg;
	uint64_t used, at; /* words: in something else than an address; in an address */
	bool changed, elsewhere;
};

struct insn {
	const struct fm_ptx_insn *is;
	struct fm_ptx_access a;
	const struct fm_ptx_operand *first, *end;
};

/* --- registers --- */

static void use(struct bases *b, uint8_t reg)
{
	uint64_t bit = reg >= FIRST ? UINT64_C(1) << (reg - FIRST) : 0;

	b->changed |= (b->used & bit) != bit;
	b->used |= bit;
}

static void use_all(struct bases *b)
{
	b->changed |= b->used != UINT64_MAX;
	b->used = UINT64_MAX;
}

static void set(struct bases *b, uint32_t reg, uint8_t is)
{
	uint8_t was = b->reg[reg];

	if (was == is || is == NOTHING || was == MIXED)
		return;
	if (was != NOTHING) {
		use(b, was);
		use(b, is);
		is = MIXED;
	}
	b->reg[reg] = is;
	b->changed = true;
}

static void give(struct bases *b, const struct insn *i, uint8_t is)
{
	for (const struct fm_ptx_operand *o = i->first; o < i->end; o++)
		if (o->dest)
			set(b, o->reg, is);
}

/* Anything but an address. */
static void use_sources(struct bases *b, const struct insn *i)
{
	for (const struct fm_ptx_operand *o = i->first; o < i->end; o++)
		if (!o->dest)
			use(b, b->reg[o->reg]);
}

static bool op_has(const struct insn *i, const char *part)
{
	return memmem(i->a.opcode.s, i->a.opcode.n, part, strlen(part));
}

static bool is_64(const struct insn *i)
{
	return op_has(i, ".u64") || op_has(i, ".s64") || op_has(i, ".b64");
}

static bool name_is(const struct bases *b, uint32_t reg, const char *s, size_t n)
{
	const struct fm_ptx_reg *r = &b->c->reg[reg];
	const char *name = b->p->text + r->name;
	uint32_t member = 0;

	if (n < r->len || memcmp(s, name, r->len))
		return false;
	if (r->member == FM_PTX_ALONE)
		return n == r->len;
	for (size_t k = r->len; k < n; k++) {
		if (s[k] < '0' || s[k] > '9' || member > r->member)
			return false;
		member = member * 10 + (uint32_t)(s[k] - '0');
	}
	return n > r->len && member == r->member;
}

/* Is it what stands last in the instruction? */
static bool is_last(const struct bases *b, const struct insn *i, uint32_t reg)
{
	const char *from = b->p->text + i->is->at, *end = b->p->text + i->is->end - 1, *at;

	while (end > from && !fm_ptx_is_word(end[-1]))
		end--;
	for (at = end; at > from && fm_ptx_is_word(at[-1]);)
		at--;
	return name_is(b, reg, at, (size_t)(end - at));
}

/* --- parameters --- */

/* Which one is of that name; n_params: none. */
static unsigned param_of(const struct bases *b, struct fm_ptx_statement name)
{
	const char *at = b->p->text + b->k->list, *end = b->p->text + b->k->list_end;

	for (unsigned n = 0; n < b->k->n_params && at < end; n++) {
		const char *comma = memchr(at, ',', (size_t)(end - at)), *to, *from;

		to = memchr(at, '[', (size_t)((comma ?: end) - at)) ?: (comma ?: end);
		while (to > at && !fm_ptx_is_word(to[-1]))
			to--;
		for (from = to; from > at && fm_ptx_is_word(from[-1]);)
			from--;
		if ((size_t)(to - from) == name.n && !memcmp(from, name.s, name.n))
			return n;
		at = comma ? comma + 1 : end;
	}
	return b->k->n_params;
}

/* [NAME + N]: what is in the brackets. False: it is not of that form. */
static bool address_of(
	const struct bases *b, const struct insn *i, struct fm_ptx_statement *name, uint64_t *plus)
{
	const char *from = i->a.opcode.s, *all = b->p->text + i->is->end, *rest;
	const char *at = memchr(from, '[', (size_t)(all - from));
	const char *end = at ? memchr(at, ']', (size_t)(all - at)) : NULL;
	char *digits;

	if (!end)
		return false;
	for (at++; at < end && (*at == ' ' || *at == '\t');)
		at++;
	name->s = at;
	while (at < end && fm_ptx_is_word(*at))
		at++;
	name->n = (size_t)(at - name->s);
	while (at < end && (*at == ' ' || *at == '+' || *at == '\t'))
		at++;
	*plus = at < end ? strtoull(at, &digits, 10) : 0;
	rest = at < end ? digits : at;
	while (rest < end && *rest == ' ')
		rest++;
	return name->n && rest == end && *plus < 32768;
}

static void use_words(struct bases *b, uint64_t from, uint64_t bytes)
{
	for (uint64_t w = from / 8; w < WORDS && w * 8 < from + bytes; w++)
		use(b, (uint8_t)(FIRST + w));
}

static void load_param(struct bases *b, const struct insn *i)
{
	struct fm_ptx_statement name;
	uint64_t plus, at;
	unsigned param, n = 0;

	if (!address_of(b, i, &name, &plus) || *name.s == '%' ||
		(param = param_of(b, name)) == b->k->n_params) {
		use_all(b);
		give(b, i, VALUE);
		return;
	}
	at = b->params[param].at + plus;
	if (!is_64(i) || at % 8) {
		use_words(b, at, i->a.bytes ? i->a.bytes : 64);
		give(b, i, VALUE);
		return;
	}
	for (const struct fm_ptx_operand *o = i->first; o < i->end; o++)
		if (o->dest) {
			uint64_t w = at / 8 + n++;

			set(b, o->reg, w < WORDS ? (uint8_t)(FIRST + w) : VALUE);
		}
}

/* --- instructions --- */

/* The one source that is a base; NULL: there is none, or several. */
static const struct fm_ptx_operand *only_base(const struct bases *b, const struct insn *i)
{
	const struct fm_ptx_operand *found = NULL;

	for (const struct fm_ptx_operand *o = i->first; o < i->end; o++) {
		if (o->dest || b->reg[o->reg] < FIRST)
			continue;
		if (found)
			return NULL;
		found = o;
	}
	return found;
}

static bool any_mixed(const struct bases *b, const struct insn *i)
{
	for (const struct fm_ptx_operand *o = i->first; o < i->end; o++)
		if (!o->dest && b->reg[o->reg] == MIXED)
			return true;
	return false;
}

/* A base moves on, or something is added to it. */
static bool moves(const struct bases *b, const struct insn *i)
{
	const struct fm_ptx_operand *base = only_base(b, i);

	if (!base || !is_64(i) || op_has(i, ".cc") || i->is->guard == base->reg)
		return false;
	if (fm_ptx_is(i->a.name, "add"))
		return true;
	if (fm_ptx_is(i->a.name, "mov"))
		return !memchr(i->a.opcode.s, '{', i->is->end - i->is->op);
	if (fm_ptx_is(i->a.name, "cvta"))
		return op_has(i, ".global");
	return false;
}

/* Two numbers multiplied, and added to a base. */
static bool adds_product(const struct bases *b, const struct insn *i)
{
	const struct fm_ptx_operand *base = only_base(b, i);

	return base && fm_ptx_is(i->a.name, "mad") &&
	       (op_has(i, ".wide") || (op_has(i, ".lo") && is_64(i))) && !op_has(i, ".cc") &&
	       is_last(b, i, base->reg);
}

/* In the brackets is a register: which one. */
static const struct fm_ptx_operand *address(const struct bases *b, const struct insn *i)
{
	for (const struct fm_ptx_operand *o = i->first; o < i->end; o++)
		if (!o->dest && o->reg != i->is->guard &&
			name_is(b, o->reg, i->a.base.s, i->a.base.n))
			return o;
	return NULL;
}

static void access(struct bases *b, const struct insn *i)
{
	const struct fm_ptx_operand *at = i->a.base.n ? address(b, i) : NULL;
	uint8_t is = at ? b->reg[at->reg] : VALUE;

	if (is >= FIRST)
		b->at |= UINT64_C(1) << (is - FIRST);
	else
		b->elsewhere = true;
	for (const struct fm_ptx_operand *o = i->first; o < i->end; o++)
		if (!o->dest && o != at)
			use(b, b->reg[o->reg]);
	give(b, i, VALUE);
}

static void look_at(struct bases *b, const struct fm_ptx_insn *is)
{
	struct insn i = {.is = is,
		.first = &b->c->operand[is->operand],
		.end = &b->c->operand[is[1].operand]};
	const struct fm_ptx_operand *base;

	fm_ptx_access((struct fm_ptx_statement){b->p->text + is->at, is->end - is->at}, &i.a);
	if (i.a.kind != FM_PTX_OTHER) {
		access(b, &i);
	} else if (fm_ptx_is(i.a.name, "ld") && op_has(&i, ".param")) {
		load_param(b, &i);
	} else if (moves(b, &i) || adds_product(b, &i)) {
		base = only_base(b, &i);
		give(b, &i, any_mixed(b, &i) ? MIXED : b->reg[base->reg]);
	} else if (!fm_ptx_is(i.a.name, "prefetch") && !fm_ptx_is(i.a.name, "prefetchu")) {
		use_sources(b, &i);
		give(b, &i, any_mixed(b, &i) ? MIXED : VALUE);
	}
}

enum fm_kill_why fm_ptx_bases(const struct fm_ptx *p, const struct fm_ptx_kernel *k,
	const struct fm_param *params, const struct fm_ptx_code *c, uint64_t *bases)
{
	struct bases b = {.p = p, .k = k, .params = params, .c = c};
	unsigned rounds = 0;

	*bases = 0;
	b.reg = calloc(c->n_regs + 1u, sizeof(*b.reg));
	if (!b.reg)
		return FM_KILL_LARGE;
	do {
		b.changed = b.elsewhere = false;
		b.at = 0;
		for (uint32_t i = 0; i < c->n_insns; i++)
			look_at(&b, &c->insn[i]);
	} while (b.changed && rounds++ < ROUNDS_MAX);
	free(b.reg);
	if (b.changed)
		return FM_KILL_LARGE;
	*bases = b.at & ~b.used;
	return b.elsewhere || (b.at & b.used) ? FM_KILL_ADDRESS : FM_KILL_ABLE;
}
