/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers that may depend on what memory holds, whatever the order of statements: those that are
 * loaded, and those that are made of such, until there are no more of them. Shared and local memory
 * are one such register each time.
 */
#include "nature.h"
#include "access.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 1024u

struct body {
	const struct fm_ptx *p;
	const struct fm_ptx_kernel *k;
	struct fm_ptx_statement *tainted; /* registers, by name: a table */
	uint32_t slots, used;
	bool scratch; /* something in shared or local memory depends on memory */
	bool carry;   /* the carry flag does */
	struct fm_ptx_statement operation; /* of its atomics so far: all change memory so */
	bool changed, failed;
	unsigned is;
};

/* --- registers --- */

static uint32_t slot_of(const struct body *b, struct fm_ptx_statement reg)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < reg.n; i++)
		h = (h ^ (unsigned char)reg.s[i]) * 16777619u;
	for (h &= b->slots - 1; b->tainted[h].n; h = (h + 1) & (b->slots - 1))
		if (b->tainted[h].n == reg.n && !memcmp(b->tainted[h].s, reg.s, reg.n))
			break;
	return h;
}

static bool make_room(struct body *b)
{
	struct fm_ptx_statement *old = b->tainted;
	uint32_t n = b->slots;

	if (b->tainted && b->used < b->slots / 2)
		return true;
	b->slots = n ? 2 * n : SLOTS_MIN;
	b->tainted = calloc(b->slots, sizeof(*b->tainted));
	for (uint32_t i = 0; b->tainted && i < n; i++)
		if (old[i].n)
			b->tainted[slot_of(b, old[i])] = old[i];
	b->failed |= !b->tainted;
	free(old);
	return b->tainted;
}

static void taint(struct body *b, struct fm_ptx_statement reg)
{
	uint32_t at;

	if (b->failed || !make_room(b))
		return;
	at = slot_of(b, reg);
	if (b->tainted[at].n)
		return;
	b->tainted[at] = reg;
	b->used++;
	b->changed = true;
}

static void set(struct body *b, bool *what)
{
	b->changed |= !*what;
	*what = true;
}

/* Differ with each run: time and place. And which threads happen to be together. */
static bool is_placed(struct fm_ptx_statement reg)
{
	static const char *const names[] = {"%clock", "%globaltimer", "%smid", "%nsmid", "%warpid",
		"%nwarpid", "%gridid", "%pm", "%envreg"};

	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		if (reg.n >= strlen(names[i]) && !memcmp(reg.s, names[i], strlen(names[i])))
			return true;
	return false;
}

/* --- operands --- */

/* The next register from *at on. */
static bool next_reg(const char **at, const char *end, struct fm_ptx_statement *reg)
{
	while (*at < end && **at != '%')
		++*at;
	reg->s = *at;
	while (*at < end && fm_ptx_is_word(**at))
		++*at;
	reg->n = (size_t)(*at - reg->s);
	return reg->n;
}

static bool any_tainted(struct body *b, const char *at, const char *end)
{
	struct fm_ptx_statement reg;
	bool any = false;

	while (next_reg(&at, end, &reg)) {
		if (is_placed(reg)) {
			b->is |= FM_NATURE_APPROX;
			any = true;
		}
		any |= b->tainted && b->tainted[slot_of(b, reg)].n;
	}
	return any;
}

static void taint_all(struct body *b, const char *at, const char *end)
{
	struct fm_ptx_statement reg;

	while (next_reg(&at, end, &reg))
		taint(b, reg);
}

/* Behind the first operand, which may be a vector, or two of them with a bar between. */
static const char *past_first(const char *at, const char *end)
{
	unsigned depth = 0;

	for (; at < end && (depth || *at != ','); at++)
		depth += (*at == '{' || *at == '[') ? 1u : (*at == '}' || *at == ']') ? -1u : 0;
	return at;
}

/* Is a register that an atomic gives read anywhere else? It may give several. */
static bool is_read_again(const struct body *b, const char *at, const char *end)
{
	struct fm_ptx_statement reg, other;

	while (next_reg(&at, end, &reg)) {
		const char *text = b->p->text + b->k->body, *last = b->p->text + b->k->body_end;
		unsigned n = 0;

		while (next_reg(&text, last, &other))
			n += other.n == reg.n && !memcmp(other.s, reg.s, reg.n);
		if (n > 1)
			return true;
	}
	return false;
}

/* --- statements --- */

static bool has(struct fm_ptx_statement opcode, const char *part)
{
	return memmem(opcode.s, opcode.n, part, strlen(part));
}

static bool named(const struct fm_ptx_access *a, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fm_ptx_is(a->name, names[i]))
			return true;
	return false;
}
#define NAMED(a, ...)                                \
	named(a, (const char *const[]){__VA_ARGS__}, \
		sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* How an atomic changes memory: its operation, and of a minimum or a maximum the type, from there
 * on. Empty: the order of such changes is in what they leave, or it is not known. */
static struct fm_ptx_statement operation_of(const struct fm_ptx_access *a)
{
	static const char *const any_order[] = {"add", "and", "or", "xor", "min", "max"};
	const char *at = a->name.s + a->name.n, *end = a->opcode.s + a->opcode.n;
	struct fm_ptx_statement part;

	while (fm_ptx_part(&at, end, &part))
		for (size_t i = 0; i < FM_ARRAY_LEN(any_order); i++)
			if (fm_ptx_is(part, any_order[i])) {
				part.n = *part.s == 'm' ? (size_t)(end - part.s) : part.n;
				return part;
			}
	return (struct fm_ptx_statement){end, 0};
}

/* Those of one kind can be in any order. Two kinds may be of the same memory: then they cannot. */
static bool depends_on_order(struct body *b, const struct fm_ptx_access *a)
{
	struct fm_ptx_statement is = operation_of(a);

	if (!b->operation.n)
		b->operation = is;
	return !is.n || is.n != b->operation.n || memcmp(is.s, b->operation.s, is.n);
}

static void look_at_atomic(
	struct body *b, const struct fm_ptx_access *a, const char *operands, const char *first_end)
{
	bool gives = fm_ptx_is(a->name, "atom");
	bool rounds = has(a->opcode, ".add") &&
		      (has(a->opcode, ".f16") || has(a->opcode, ".f32") || has(a->opcode, ".f64") ||
			      has(a->opcode, ".bf16"));

	/* Which thread comes first, or last, is not the same each time. */
	if (rounds || depends_on_order(b, a) || (gives && is_read_again(b, operands, first_end)))
		b->is |= FM_NATURE_APPROX;
}

static int by_text(const void *key, const void *element)
{
	const struct fm_ptx_statement *name = key;
	const char *known = *(const char *const *)element;
	int order = strncmp(name->s, known, name->n);

	return order ? order : known[name->n] ? -1 : 0;
}

/* Instructions that are understood: those that are accesses, and those that touch no memory of the
 * program. What is not here is new, or does more. Sorted. */
static bool is_known(struct fm_ptx_statement name)
{
	static const char *const known[] = {"abs", "activemask", "add", "addc", "and",
		"applypriority", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bmsk", "bra",
		"brev", "brkpt", "brx", "clz", "cnot", "copysign", "cos", "cp", "createpolicy",
		"cvt", "cvta", "div", "dp2a", "dp4a", "elect", "ex2", "exit", "fence", "fma", "fns",
		"isspacep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad", "mad24", "madc", "match",
		"max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "mul24",
		"nanosleep", "neg", "not", "or", "pmevent", "popc", "prefetch", "prefetchu", "prmt",
		"rcp", "red", "redux", "rem", "ret", "rsqrt", "sad", "selp", "set", "setmaxnreg",
		"setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt", "st", "stmatrix", "sub",
		"subc", "szext", "tanh", "testp", "trap", "vote", "wgmma", "xor"};

	return !name.n || bsearch(&name, known, FM_ARRAY_LEN(known), sizeof(*known), by_text);
}

/* What marks cannot tell. Blocks of a cluster may touch each other's shared memory: one of them
 * does not run again by itself. */
static bool is_strange(const struct fm_ptx_access *a)
{
	return !is_known(a->name) || (a->kind != FM_PTX_OTHER && !fm_ptx_access_known(a)) ||
	       (fm_ptx_is(a->name, "cp") && has(a->opcode, ".bulk")) ||
	       has(a->opcode, ".cluster") || has(a->opcode, "::cluster");
}

/* Does it give a value that follows from memory, or from what the threads happen to do? */
static bool loads(const struct body *b, const struct fm_ptx_access *a)
{
	if (NAMED(a, "ld", "ldu"))
		return has(a->opcode, ".shared") || has(a->opcode, ".local")
			       ? b->scratch
			       : !has(a->opcode, ".param");
	if (NAMED(a, "ldmatrix"))
		return b->scratch;
	return NAMED(a, "atom", "activemask", "elect", "mbarrier", "match", "wgmma");
}

static void look_at(struct body *b, struct fm_ptx_statement st)
{
	struct fm_ptx_access a;
	const char *end = st.s + st.n, *operands, *first_end;
	bool depends, memory;

	fm_ptx_access(st, &a);
	operands = a.opcode.s + a.opcode.n;
	first_end = past_first(operands, end);
	if (is_strange(&a))
		b->is |= FM_NATURE_STRANGE | FM_NATURE_DYNAMIC;
	if (NAMED(&a, "atom", "red"))
		look_at_atomic(b, &a, operands, first_end);
	if (NAMED(&a, "activemask")) /* which threads happen to be together */
		b->is |= FM_NATURE_APPROX;
	memory = a.kind != FM_PTX_OTHER;
	depends = any_tainted(b, a.guard.s, a.guard.s + a.guard.n);
	if (NAMED(&a, "bra", "brx", "ret", "exit", "trap")) {
		depends |= any_tainted(b, operands, end);
		b->is |= depends ? FM_NATURE_DYNAMIC : 0;
		return;
	}
	if (memory && a.base.n)
		depends |= any_tainted(b, a.base.s, a.base.s + a.base.n);
	if (memory && depends)
		b->is |= FM_NATURE_DYNAMIC;
	if (NAMED(&a, "st", "red", "atom", "cp", "stmatrix", "bar", "barrier")) {
		/* To shared or local memory, or one does not know where. */
		depends |= any_tainted(b, operands, end);
		if (fm_ptx_is(a.name, "cp") || (depends && !a.global))
			set(b, &b->scratch);
	}
	if (NAMED(&a, "st", "red", "cp", "stmatrix", "fence", "membar"))
		return;
	depends |= loads(b, &a) || any_tainted(b, first_end, end);
	depends |= b->carry && NAMED(&a, "addc", "subc", "madc");
	if (depends && has(a.opcode, ".cc"))
		set(b, &b->carry);
	if (depends)
		taint_all(b, operands, first_end);
}

/* A register whose name begins otherwise is not found among operands. */
static bool has_odd_names(const char *s, const char *end)
{
	while ((s = memmem(s, (size_t)(end - s), ".reg", 4))) {
		s += fm_ptx_blanks(s, 4, (size_t)(end - s));
		while (s < end && *s == '.') /* its type */
			for (s++; s < end && fm_ptx_is_word(*s);)
				s++;
		for (bool begins = true; s < end && *s != ';'; s++) {
			if (begins && !isspace((unsigned char)*s) && *s != '%')
				return true;
			begins = *s == ',' || (begins && isspace((unsigned char)*s));
		}
	}
	return false;
}

int fm_ptx_nature(const struct fm_ptx *p, const struct fm_ptx_kernel *k, unsigned *is)
{
	struct body b = {.p = p, .k = k};
	struct fm_ptx_statement st;

	if (!make_room(&b))
		return -ENOMEM;
	if (has_odd_names(p->text + k->body, p->text + k->body_end))
		b.is = FM_NATURE_STRANGE | FM_NATURE_DYNAMIC;
	do {
		/* From the brace on. */
		struct fm_ptx_walk w = {
			.s = p->text, .at = k->body, .end = k->body_end, .depth = 1};

		b.changed = false;
		while (!b.failed && fm_ptx_walk(&w, &st))
			look_at(&b, st);
	} while (b.changed && !b.failed);
	free(b.tainted);
	*is = b.is;
	return b.failed ? -ENOMEM : 0;
}

/* --- all kernels --- */

void fm_natures_free(struct fm_natures *n)
{
	for (unsigned i = 0; i < n->n; i++)
		free(n->kernel[i].name);
	free(n->kernel);
	*n = (struct fm_natures){0};
}

int fm_ptx_natures(const char *text, size_t size, struct fm_natures *out)
{
	struct fm_ptx p = {0};
	int rc = fm_ptx_scan(text, size, 0, &p) ? -EINVAL : 0;

	*out = (struct fm_natures){0};
	if (!rc)
		out->kernel = calloc(p.n + 1, sizeof(*out->kernel));
	if (!rc && !out->kernel)
		rc = -ENOMEM;
	for (unsigned i = 0; i < p.n && !rc; i++) {
		struct fm_nature *k = &out->kernel[out->n];

		rc = fm_ptx_nature(&p, &p.kernel[i], &k->is);
		k->name = rc ? NULL : strndup(p.text + p.kernel[i].name, p.kernel[i].name_len);
		if (!rc && !k->name)
			rc = -ENOMEM;
		out->n += !rc;
	}
	fm_ptx_free(&p);
	return rc;
}
