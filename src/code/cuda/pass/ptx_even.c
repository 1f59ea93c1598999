/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A register varies if threads of a block may have different values in it: it follows from what
 * tells threads apart, from memory, or is written where they go apart. They go apart behind a
 * branch whose guard varies, up to where all ways from there meet again. Threads that go to where
 * there is neither a barrier nor a loop any more, nor an exchange within a warp, just end, as far
 * as the others are concerned.
 */
#include "ptx_even.h"
#include "base/util.h"

#define ROUNDS_MAX 64u         /* until nothing changes */
#define STEPS_MAX  (64u << 20) /* blocks that are looked at */
#define NONE       UINT32_MAX

struct even {
	const struct fm_ptx *p;
	const struct fm_ptx_code *c;
	uint32_t *first, *block_of; /* of blocks, and of instructions; with the end */
	uint32_t n;                 /* blocks; that number is the end */
	uint32_t (*next)[2];        /* behind each block; NONE */
	uint32_t *from, *edge;      /* the edges that lead to a block: edge[from[b]..from[b + 1]] */
	uint32_t *order, *ordered;  /* from the end backwards: number of a block, and back */
	uint32_t n_ordered;
	uint32_t *meet;  /* where all ways from a block meet first: NONE: nowhere */
	uint32_t *stack; /* of blocks */
	bool *loud;      /* there is a barrier, a loop or an exchange, or a way leads to one */
	bool *splits;    /* its branch's guard varies */
	bool *apart;     /* threads may be in it without the others */
	bool *seen;
	bool *varies; /* registers */
	uint64_t steps;
};

static bool has(const char *s, size_t n, const char *part)
{
	return memmem(s, n, part, strlen(part));
}

static const char *op_of(const struct even *e, const struct fm_ptx_insn *i)
{
	return e->p->text + i->op;
}

/* Barriers of a block, not of a warp. */
static bool is_barrier(const struct even *e, const struct fm_ptx_insn *i)
{
	return i->op_len >= 3 && !memcmp(op_of(e, i), "bar", 3) &&
	       !has(op_of(e, i), i->op_len, ".warp");
}

/* Threads of a warp wait for each other: also for those that are at a barrier of ours. */
static bool is_exchange(const struct even *e, const struct fm_ptx_insn *i)
{
	static const char *const ops[] = {"shfl", "vote", "match", "redux", "elect", "mma",
		"ldmatrix", "stmatrix", "movmatrix"};
	const char *op = op_of(e, i);

	for (size_t k = 0; k < FM_ARRAY_LEN(ops); k++)
		if (i->op_len >= strlen(ops[k]) && !memcmp(op, ops[k], strlen(ops[k])))
			return true;
	return has(op, i->op_len, ".warp");
}

static bool leads_back(const struct fm_ptx_code *c, uint32_t i)
{
	return c->insn[i].flow == FM_PTX_BRANCH && c->insn[i].target <= i;
}

/* --- blocks --- */

static bool split(struct even *e)
{
	const struct fm_ptx_code *c = e->c;
	uint32_t *at = e->block_of;

	at[0] = at[c->n_insns] = 1;
	for (uint32_t i = 0; i < c->n_insns; i++) {
		if (c->insn[i].flow == FM_PTX_ON)
			continue;
		at[i + 1] = 1;
		if (c->insn[i].flow == FM_PTX_BRANCH)
			at[c->insn[i].target] = 1;
	}
	for (uint32_t i = 0; i < c->n_insns; i++)
		e->n += at[i];
	e->first = calloc(e->n + 2u, sizeof(*e->first));
	if (!e->first)
		return false;
	for (uint32_t i = 0, n = 0; i <= c->n_insns; i++) {
		if (at[i])
			e->first[n++] = i;
		at[i] = n - 1;
	}
	return true;
}

static const struct fm_ptx_insn *last_of(const struct even *e, uint32_t b)
{
	return &e->c->insn[e->first[b + 1] - 1];
}

static void link_blocks(struct even *e)
{
	for (uint32_t b = 0; b < e->n; b++) {
		const struct fm_ptx_insn *last = last_of(e, b);

		e->next[b][0] = last->flow == FM_PTX_BRANCH ? e->block_of[last->target]
				: last->flow == FM_PTX_END  ? e->n
							    : NONE;
		e->next[b][1] =
			last->flow == FM_PTX_ON || last->guard != FM_PTX_NONE ? b + 1 : NONE;
		for (uint32_t i = e->first[b]; i < e->first[b + 1]; i++)
			e->loud[b] |= is_barrier(e, &e->c->insn[i]) ||
				      is_exchange(e, &e->c->insn[i]) || leads_back(e->c, i);
	}
}

static bool spend(struct even *e, uint64_t steps)
{
	e->steps += steps;
	return e->steps <= STEPS_MAX;
}

static bool spread_loud(struct even *e)
{
	bool changed;

	do {
		changed = false;
		for (uint32_t b = e->n; b-- > 0;)
			for (unsigned i = 0; i < 2; i++) {
				uint32_t to = e->next[b][i];

				if (to == NONE || to == e->n || !e->loud[to] || e->loud[b])
					continue;
				e->loud[b] = changed = true;
			}
		if (!spend(e, e->n))
			return false;
	} while (changed);
	return true;
}

/* --- where ways meet --- */

/* A way that only some threads take, and that is quiet, is none for the others. */
static bool counts(const struct even *e, uint32_t b, unsigned i)
{
	uint32_t to = e->next[b][i], other = e->next[b][!i];

	if (to == NONE)
		return false;
	return !e->splits[b] || (to != e->n && e->loud[to]) || other == NONE || other == e->n ||
	       !e->loud[other];
}

static void turn_edges(struct even *e)
{
	memset(e->from, 0, (e->n + 2) * sizeof(*e->from));
	for (unsigned fill = 0; fill < 2; fill++) {
		for (uint32_t b = 0; b < e->n; b++)
			for (unsigned i = 0; i < 2; i++) {
				if (!counts(e, b, i))
					continue;
				if (fill)
					e->edge[--e->from[e->next[b][i]]] = b;
				else
					e->from[e->next[b][i]]++;
			}
		if (!fill)
			for (uint32_t b = 1; b <= e->n + 1; b++)
				e->from[b] += e->from[b - 1];
	}
}

/* In post-order, backwards from the end: the end is last. */
static void put_in_order(struct even *e)
{
	uint32_t depth = 0, *at = e->meet; /* which is not needed yet */

	for (uint32_t b = 0; b <= e->n; b++) {
		e->order[b] = NONE;
		e->seen[b] = false;
		at[b] = e->from[b];
	}
	e->n_ordered = 0;
	e->stack[depth++] = e->n;
	e->seen[e->n] = true;
	while (depth) {
		uint32_t b = e->stack[depth - 1];

		if (at[b] == e->from[b + 1]) {
			e->order[b] = e->n_ordered;
			e->ordered[e->n_ordered++] = b;
			depth--;
			continue;
		}
		b = e->edge[at[b]++];
		if (e->seen[b])
			continue;
		e->seen[b] = true;
		e->stack[depth++] = b;
	}
}

static uint32_t common(const struct even *e, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (e->order[a] < e->order[b])
			a = e->meet[a];
		while (e->order[b] < e->order[a])
			b = e->meet[b];
	}
	return a;
}

/* Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm, backwards. */
static bool find_meets(struct even *e)
{
	bool changed = true;

	turn_edges(e);
	put_in_order(e);
	for (uint32_t b = 0; b <= e->n; b++)
		e->meet[b] = NONE;
	e->meet[e->n] = e->n;
	while (changed) {
		changed = false;
		for (uint32_t o = e->n_ordered - 1; o-- > 0;) {
			uint32_t b = e->ordered[o], meet = NONE;

			for (unsigned i = 0; i < 2; i++) {
				uint32_t to = counts(e, b, i) ? e->next[b][i] : NONE;

				if (to == NONE || e->meet[to] == NONE)
					continue;
				meet = meet == NONE ? to : common(e, meet, to);
			}
			changed |= meet != e->meet[b];
			e->meet[b] = meet;
		}
		if (!spend(e, e->n))
			return false;
	}
	return true;
}

/* --- where threads are apart --- */

static bool part_behind(struct even *e, uint32_t branch)
{
	uint32_t depth = 0, stop = e->meet[branch];

	memset(e->seen, 0, (e->n + 1) * sizeof(*e->seen));
	e->stack[depth++] = branch;
	for (bool begins = true; depth; begins = false) {
		uint32_t b = e->stack[--depth];

		if (!begins)
			e->apart[b] = true;
		for (unsigned i = 0; i < 2; i++) {
			uint32_t to = e->next[b][i];

			if (!counts(e, b, i) || to == e->n || to == stop || e->seen[to])
				continue;
			e->seen[to] = true;
			e->stack[depth++] = to;
		}
		if (!spend(e, 1))
			return false;
	}
	return true;
}

/* The guard of a branch varies, and both ways matter to those that stay. */
static bool parts(const struct even *e, uint32_t b)
{
	return e->splits[b] && counts(e, b, 0) && counts(e, b, 1);
}

static bool find_parts(struct even *e)
{
	memset(e->apart, 0, e->n + 1);
	if (!find_meets(e))
		return false;
	for (uint32_t b = 0; b < e->n; b++)
		if (parts(e, b) && !part_behind(e, b))
			return false;
	return true;
}

/* --- what varies --- */

static bool tells_apart(const struct even *e, const struct fm_ptx_insn *i)
{
	static const char *const ops[] = {"shfl", "vote", "match", "activemask", "redux", "elect",
		"mma", "ldmatrix", "atom", "addc", "subc",
		"madc"}; /* which carry flag there is, is not followed */
	static const char *const registers[] = {"%tid", "%laneid", "%lanemask", "%warpid", "%clock",
		"%globaltimer", "%smid", "%pm", "%envreg"};
	const char *op = op_of(e, i), *s = e->p->text + i->at;

	for (size_t k = 0; k < FM_ARRAY_LEN(ops); k++)
		if (i->op_len >= strlen(ops[k]) && !memcmp(op, ops[k], strlen(ops[k])))
			return true;
	for (size_t k = 0; k < FM_ARRAY_LEN(registers); k++)
		if (has(s, i->end - i->at, registers[k]))
			return true;
	return i->op_len > 2 && !memcmp(op, "ld", 2) && !has(op, i->op_len, ".param") &&
	       !has(op, i->op_len, ".const");
}

static bool follow(struct even *e, uint32_t b)
{
	bool changed = false;

	for (uint32_t i = e->first[b]; i < e->first[b + 1]; i++) {
		const struct fm_ptx_insn *insn = &e->c->insn[i];
		bool varies = e->apart[b] || tells_apart(e, insn);

		for (uint32_t o = insn->operand; o < insn[1].operand; o++)
			varies |= !e->c->operand[o].writes && e->varies[e->c->operand[o].reg];
		for (uint32_t o = insn->operand; varies && o < insn[1].operand; o++) {
			if (!e->c->operand[o].dest || e->varies[e->c->operand[o].reg])
				continue;
			e->varies[e->c->operand[o].reg] = changed = true;
		}
	}
	return changed;
}

static bool find_splits(struct even *e)
{
	bool changed = false;

	for (uint32_t b = 0; b < e->n; b++) {
		const struct fm_ptx_insn *last = last_of(e, b);
		bool splits = last->guard != FM_PTX_NONE && e->varies[last->guard];

		changed |= splits != e->splits[b];
		e->splits[b] = splits;
	}
	return changed;
}

/* Until nothing changes. */
static bool settle(struct even *e)
{
	for (unsigned round = 0; round < ROUNDS_MAX; round++) {
		bool changed, any = false;

		do {
			changed = false;
			for (uint32_t b = 0; b < e->n; b++)
				changed |= follow(e, b);
			any |= changed;
			if (!spend(e, e->c->n_insns / 8 + 1))
				return false;
		} while (changed);
		any |= find_splits(e);
		if (!any && round)
			return true;
		if (!find_parts(e))
			return false;
	}
	return false;
}

/* --- the result --- */

static bool apart_at_barrier(const struct even *e)
{
	for (uint32_t i = 0; i < e->c->n_insns; i++)
		if (is_barrier(e, &e->c->insn[i]) &&
			(e->apart[e->block_of[i]] || e->c->insn[i].guard != FM_PTX_NONE))
			return true;
	return false;
}

static enum fm_kill_why collect(const struct even *e, struct fm_ptx_sites *out)
{
	const struct fm_ptx_code *c = e->c;

	if (apart_at_barrier(e))
		return FM_KILL_BARRIERS;
	for (uint32_t i = 0; i < c->n_insns; i++)
		if (leads_back(c, i) && !e->apart[e->block_of[i]] && !e->splits[e->block_of[i]])
			out->insn[out->n++] = i;
	return out->n ? FM_KILL_ABLE : FM_KILL_UNEVEN;
}

static bool make_room(struct even *e, struct fm_ptx_sites *out)
{
	size_t n = e->n + 2u;

	e->next = calloc(n, sizeof(*e->next));
	e->from = calloc(n, sizeof(*e->from));
	e->edge = calloc(2 * n, sizeof(*e->edge));
	e->order = calloc(n, sizeof(*e->order));
	e->ordered = calloc(n, sizeof(*e->ordered));
	e->meet = calloc(n, sizeof(*e->meet));
	e->stack = calloc(n, sizeof(*e->stack));
	e->loud = calloc(n, sizeof(*e->loud));
	e->splits = calloc(n, sizeof(*e->splits));
	e->apart = calloc(n, sizeof(*e->apart));
	e->seen = calloc(n, sizeof(*e->seen));
	e->varies = calloc(e->c->n_regs + 1u, sizeof(*e->varies));
	out->insn = calloc(e->c->n_insns + 1u, sizeof(*out->insn));
	return e->next && e->from && e->edge && e->order && e->ordered && e->meet && e->stack &&
	       e->loud && e->splits && e->apart && e->seen && e->varies && out->insn;
}

static void drop(struct even *e)
{
	free(e->first);
	free(e->block_of);
	free(e->next);
	free(e->from);
	free(e->edge);
	free(e->order);
	free(e->ordered);
	free(e->meet);
	free(e->stack);
	free(e->loud);
	free(e->splits);
	free(e->apart);
	free(e->seen);
	free(e->varies);
}

enum fm_kill_why fm_ptx_even(
	const struct fm_ptx *p, const struct fm_ptx_code *c, struct fm_ptx_sites *out)
{
	struct even e = {.p = p, .c = c};
	enum fm_kill_why why = FM_KILL_LARGE;

	*out = (struct fm_ptx_sites){0};
	e.block_of = calloc(c->n_insns + 1u, sizeof(*e.block_of));
	if (e.block_of && split(&e) && make_room(&e, out)) {
		link_blocks(&e);
		if (spread_loud(&e) && settle(&e))
			why = collect(&e, out);
	}
	drop(&e);
	return why;
}

enum fm_kill_why fm_ptx_any(const struct fm_ptx_code *c, struct fm_ptx_sites *out)
{
	*out = (struct fm_ptx_sites){.insn = calloc(c->n_insns + 1u, sizeof(*out->insn))};
	if (!out->insn)
		return FM_KILL_LARGE;
	for (uint32_t i = 0; i < c->n_insns; i++)
		if (leads_back(c, i))
			out->insn[out->n++] = i;
	return out->n ? FM_KILL_ABLE : FM_KILL_NONE;
}
