/* SPDX-License-Identifier: Apache-2.0 */
/* Liveness of the registers that live across blocks, backwards over blocks of instructions. */
#include "base/util.h"
#include "ptx_code.h"

#define WORDS_MAX (4u << 20)   /* of all sets together */
#define STEPS_MAX (256u << 20) /* words that are looked at */
#define BACKS_MAX 255u
#define SLOTS_MAX (1u << 20)

struct live {
	const struct fm_ptx_code *code;
	uint32_t *block_of; /* the block of each instruction, and of the end */
	uint32_t *first;    /* the first instruction of each block, and the end */
	uint32_t n_blocks;
	uint32_t *number; /* the number of each register among those that count; FM_PTX_NONE */
	uint32_t *reg;    /* and back */
	uint32_t n, words;
	uint64_t *read, *written, *in; /* sets of each block */
};

/* Blocks begin at the target of a branch, and behind each branch. */
static bool split(struct live *l)
{
	const struct fm_ptx_code *c = l->code;
	uint32_t *at = l->block_of;

	at[0] = 1;
	for (uint32_t i = 0; i < c->n_insns; i++) {
		if (c->insn[i].flow == FM_PTX_ON)
			continue;
		at[i + 1] = 1;
		if (c->insn[i].flow == FM_PTX_BRANCH)
			at[c->insn[i].target] = 1;
	}
	at[c->n_insns] = 1;
	for (uint32_t i = 0; i <= c->n_insns; i++)
		l->n_blocks += at[i];
	l->n_blocks--; /* the end is not a block */
	l->first = malloc((l->n_blocks + 1) * sizeof(*l->first));
	if (!l->first)
		return false;
	for (uint32_t i = 0, n = 0; i <= c->n_insns; i++) {
		if (at[i])
			l->first[n++] = i;
		at[i] = n - 1;
	}
	return true;
}

/* Registers that a block reads before it has written them: all others live within a block. */
static bool choose(struct live *l)
{
	const struct fm_ptx_code *c = l->code;
	uint32_t *written = calloc(c->n_regs + 1u, sizeof(*written)); /* in which block, from 1 */

	if (!written)
		return false;
	for (uint32_t i = 0; i < c->n_insns; i++) {
		uint32_t block = l->block_of[i] + 1;

		for (uint32_t o = c->insn[i].operand; o < c->insn[i + 1].operand; o++) {
			uint32_t reg = c->operand[o].reg;

			if (c->operand[o].writes || written[reg] == block ||
				l->number[reg] != FM_PTX_NONE)
				continue;
			l->number[reg] = l->n;
			l->reg[l->n++] = reg;
		}
		for (uint32_t o = c->insn[i].operand; o < c->insn[i + 1].operand; o++)
			if (c->operand[o].writes)
				written[c->operand[o].reg] = block;
	}
	free(written);
	return true;
}

static bool test(const uint64_t *set, uint32_t n)
{
	return set[n / 64] >> n % 64 & 1;
}

static void set_bit(uint64_t *set, uint32_t n)
{
	set[n / 64] |= UINT64_C(1) << n % 64;
}

static void summarize(struct live *l, uint32_t block)
{
	const struct fm_ptx_code *c = l->code;
	uint64_t *read = l->read + (size_t)block * l->words,
		 *written = l->written + (size_t)block * l->words;

	for (uint32_t i = l->first[block]; i < l->first[block + 1]; i++)
		for (unsigned writes = 0; writes < 2; writes++)
			for (uint32_t o = c->insn[i].operand; o < c->insn[i + 1].operand; o++) {
				uint32_t n = l->number[c->operand[o].reg];

				if (n == FM_PTX_NONE || c->operand[o].writes != writes)
					continue;
				if (writes)
					set_bit(written, n);
				else if (!test(written, n))
					set_bit(read, n);
			}
}

/* Writes the registers that are live behind the block's last instruction into `out`. */
static void behind(const struct live *l, uint32_t block, uint64_t *out)
{
	const struct fm_ptx_code *c = l->code;
	const struct fm_ptx_insn *last = &c->insn[l->first[block + 1] - 1];
	uint32_t next[2] = {FM_PTX_NONE, FM_PTX_NONE};

	if (last->flow == FM_PTX_BRANCH)
		next[0] = l->block_of[last->target];
	if (last->flow == FM_PTX_ON || last->guard != FM_PTX_NONE)
		next[1] = block + 1;
	memset(out, 0, l->words * sizeof(*out));
	for (unsigned i = 0; i < 2; i++)
		if (next[i] < l->n_blocks)
			for (uint32_t w = 0; w < l->words; w++)
				out[w] |= l->in[(size_t)next[i] * l->words + w];
}

/* Until nothing changes. False: that takes too long. */
static bool settle(struct live *l)
{
	uint64_t *out = malloc((l->words + 1) * sizeof(*out)), steps = 0;
	bool changes = out;

	while (changes && steps < STEPS_MAX) {
		changes = false;
		for (uint32_t b = l->n_blocks; b-- > 0;) {
			size_t at = (size_t)b * l->words;

			behind(l, b, out);
			for (uint32_t w = 0; w < l->words; w++) {
				uint64_t in = l->read[at + w] | (out[w] & ~l->written[at + w]);

				changes |= in != l->in[at + w];
				l->in[at + w] = in;
			}
		}
		steps += (uint64_t)l->n_blocks * (l->words + 1);
	}
	free(out);
	return out && !changes;
}

/* A loop has at least one branch that leads back in the text. */
static bool leads_back(const struct fm_ptx_code *c, uint32_t i)
{
	return c->insn[i].flow == FM_PTX_BRANCH && c->insn[i].target <= i;
}

static bool collect(const struct live *l, struct fm_ptx_back *b)
{
	const uint64_t *in = l->in + (size_t)l->block_of[l->code->insn[b->insn].target] * l->words;

	b->reg = malloc((l->n + 1u) * sizeof(*b->reg));
	if (!b->reg)
		return false;
	for (uint32_t n = 0; n < l->n; n++)
		if (test(in, n))
			b->reg[b->n_regs++] = l->reg[n];
	return true;
}

static bool back_branches(const struct live *l, struct fm_ptx_back **backs, uint32_t *n)
{
	const struct fm_ptx_code *c = l->code;
	uint32_t all = 0;

	for (uint32_t i = 0; i < c->n_insns; i++)
		all += leads_back(c, i);
	if (all > BACKS_MAX || (uint64_t)all * l->n > SLOTS_MAX)
		return false;
	*backs = calloc(all + 1u, sizeof(**backs));
	if (!*backs)
		return false;
	for (uint32_t i = 0; i < c->n_insns; i++) {
		if (!leads_back(c, i))
			continue;
		(*backs)[*n].insn = i;
		if (!collect(l, &(*backs)[(*n)++]))
			return false;
	}
	return true;
}

static bool solve(struct live *l, struct fm_ptx_back **backs, uint32_t *n)
{
	const struct fm_ptx_code *c = l->code;
	size_t all;

	l->block_of = calloc(c->n_insns + 1u, sizeof(*l->block_of));
	l->number = malloc((c->n_regs + 1u) * sizeof(*l->number));
	l->reg = malloc((c->n_regs + 1u) * sizeof(*l->reg));
	if (!l->block_of || !l->number || !l->reg)
		return false;
	memset(l->number, 0xff, (c->n_regs + 1u) * sizeof(*l->number));
	if (!split(l) || !choose(l))
		return false;
	l->words = (l->n + 63) / 64;
	all = (size_t)l->n_blocks * l->words;
	if (all > WORDS_MAX)
		return false;
	l->read = calloc(3 * all + 1, sizeof(*l->read));
	if (!l->read)
		return false;
	l->written = l->read + all;
	l->in = l->written + all;
	for (uint32_t b = 0; b < l->n_blocks; b++)
		summarize(l, b);
	return settle(l) && back_branches(l, backs, n);
}

bool fm_ptx_live(const struct fm_ptx_code *c, struct fm_ptx_back **backs, uint32_t *n)
{
	struct live l = {.code = c};
	bool ok;

	*backs = NULL;
	*n = 0;
	ok = solve(&l, backs, n);
	free(l.block_of);
	free(l.first);
	free(l.number);
	free(l.reg);
	free(l.read);
	if (!ok) {
		fm_ptx_live_free(*backs, *n);
		*backs = NULL;
		*n = 0;
	}
	return ok;
}

void fm_ptx_live_free(struct fm_ptx_back *backs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		free(backs[i].reg);
	free(backs);
}
