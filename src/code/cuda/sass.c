/* SPDX-License-Identifier: Apache-2.0 */
#include "sass.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>

/* The lower twelve bits of the first word; the lowest nine name the instruction, the others its
 * form. */
#define OPCODE(w) ((unsigned)(w)&0xfff)

enum {
	OP_BRA = 0x947,
	OP_BSSY = 0x945,
	OP_CALL_REL = 0x944,
	OP_CALL_ABS = 0x943,
	OP_CALL_ABS_REG = 0x343,
	OP_CALL_REL_REG = 0x344,
	OP_LD = 0x980,
	OP_LDG = 0x981,
	OP_LDG_PLAIN = 0x381,
	OP_ACQBULK = 0x82e,
	OP_PREEXIT = 0x82d,
	OP_CGABAR_ARRIVE = 0x9c7,
	OP_CGABAR_WAIT = 0xdc7,
	OP_SETMAXREG = 0x9c8,
	OP_NANOSLEEP = 0x35d,
	OP_NANOSLEEP_CONST = 0x95d
};

/* MOV R1, c[0][0x28]; IMAD.MOV.U32 R1, RZ, RZ, c[0][0x28]; LDC R1, c[0][0x28]: never predicated. */
static const uint64_t stack_loads[] = {
	0x00000a0000017a02u, 0x00000a00ff017624u, 0x00000a00ff017b82u};

#define GO_WORDS 4
#define NOP_0    0x0000000000007918u
#define NOP_1    0x000fc00000000000u
#define BRA_1    0x000fea0003800000u /* no predicate, stalls for five cycles */
/* Wait for all six scoreboards before this instruction. */
#define WAIT_ALL (0x3full << 52)

const struct fm_guardian *fm_guardian_for(unsigned sm)
{
	for (unsigned i = 0; i < fm_n_guardians; i++)
		if (fm_guardians[i].sm == sm)
			return &fm_guardians[i];
	return NULL;
}

bool fm_sass_entry(const uint8_t *code)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(stack_loads); i++)
		if (fm_get64(code) == stack_loads[i])
			return true;
	return false;
}

/*
 * The distance of a branch, in words of four bytes from the next instruction: bits 34 to 81; from
 * sm_90 on with eight bits more at the lower end, in bits 16 to 23.
 */
static void encode_branch(uint8_t *at, int64_t distance, unsigned sm, uint64_t second)
{
	uint64_t d = (uint64_t)(distance >> 2), low = 0;

	if (sm >= 90) {
		low = (d & 0xff) << 16;
		d = (uint64_t)((int64_t)d >> 8);
	}
	fm_put64(at, 0x7000 | OP_BRA | low | d << 34);
	fm_put64(at + 8, second | ((d >> 30) & 0x3ffff));
}

static int64_t branch_distance(const uint8_t *at, unsigned sm)
{
	uint64_t w0 = fm_get64(at), w1 = fm_get64(at + 8);
	uint64_t d = w0 >> 34 | (w1 & 0x3ffff) << 30;

	/* BSSY has its barrier where the others have the lower bits. */
	if (sm >= 90 && OPCODE(w0) != OP_BSSY)
		return ((int64_t)(d << 16) >> 16) * 256 * 4 + (int64_t)((w0 >> 16) & 0xff) * 4;
	return ((int64_t)(d << 16) >> 16) * 4;
}

static bool is_relative(unsigned op)
{
	return op == OP_BRA || op == OP_BSSY || op == OP_CALL_REL;
}

/* A load that may see writes of others: its scope and order, in bits 77 to 80, are not weak. */
static bool strong_load(unsigned op, uint64_t w1)
{
	if (op != OP_LD && op != OP_LDG && op != OP_LDG_PLAIN)
		return false;
	switch ((w1 >> 13) & 0xf) {
	case 0: /* weak */
	case 4: /* constant */
	case 5: /* of the block alone */
		return false;
	default:
		return true;
	}
}

/* An atomic whose result is used. */
static bool atomic_read(unsigned op, uint64_t w0)
{
	switch (op & 0x1ff) {
	case 0x18a: /* ATOM */
	case 0x18b: /* ATOM.CAS */
	case 0x1a8: /* ATOMG */
	case 0x1a9: /* ATOMG.CAS */
	case 0x1a3: /* ATOMG.F16 and the like */
	case 0x1a2:
		return ((w0 >> 16) & 0xff) != 0xff;
	default:
		return false;
	}
}

static bool looks_at_others(uint64_t w0, uint64_t w1)
{
	unsigned op = OPCODE(w0);

	return strong_load(op, w1) || atomic_read(op, w0) || op == OP_NANOSLEEP ||
	       op == OP_NANOSLEEP_CONST;
}

static unsigned trait_of(unsigned op)
{
	switch (op) {
	case OP_ACQBULK:
	case OP_PREEXIT:
		return FM_KERNEL_OVERLAPS;
	case OP_CGABAR_ARRIVE:
	case OP_CGABAR_WAIT:
		return FM_KERNEL_CLUSTER;
	case OP_SETMAXREG:
		return FM_KERNEL_SETMAXREG;
	case OP_CALL_ABS:
	case OP_CALL_ABS_REG:
	case OP_CALL_REL_REG:
		return FM_KERNEL_CALLS;
	default:
		return 0;
	}
}

int fm_sass_look(const uint8_t *code, size_t size, unsigned sm, struct fm_sass_facts *facts)
{
	size_t n = size / FM_SASS_BYTES;
	FM_CLEAN_FREE uint32_t *seen = calloc(n + 1, sizeof(*seen));

	*facts = (struct fm_sass_facts){0};
	if (!seen)
		return -ENOMEM;
	/* seen[i]: the number of instructions before i that may see writes of others. */
	for (size_t i = 0; i < n; i++) {
		const uint8_t *at = code + i * FM_SASS_BYTES;

		seen[i + 1] = seen[i] + looks_at_others(fm_get64(at), fm_get64(at + 8));
		facts->traits |= trait_of(OPCODE(fm_get64(at)));
	}
	for (size_t i = 0; i < n; i++) {
		const uint8_t *at = code + i * FM_SASS_BYTES;
		int64_t target;

		if (!is_relative(OPCODE(fm_get64(at))))
			continue;
		target = (int64_t)((i + 1) * FM_SASS_BYTES) + branch_distance(at, sm);
		if (target >= 0 && target < FM_SASS_BYTES)
			facts->loops = true;
		else if (target < 0 || (uint64_t)target >= size)
			facts->traits |= FM_KERNEL_CALLS;
		else if ((size_t)target <= i * FM_SASS_BYTES &&
			 seen[i + 1] > seen[target / FM_SASS_BYTES])
			facts->traits |= FM_KERNEL_WAITS;
	}
	return 0;
}

static size_t aligned(size_t size)
{
	return (size + 127) & ~(size_t)127;
}

/* The guardian, and a branch to itself, with which compilers end a kernel. */
static size_t tail_bytes(const struct fm_guardian *guardian)
{
	return guardian->words * sizeof(uint64_t) + FM_SASS_BYTES;
}

size_t fm_sass_growth(size_t size, const struct fm_guardian *guardian)
{
	return aligned(aligned(size) + tail_bytes(guardian)) - size;
}

static void pad(uint8_t *code, size_t from, size_t to)
{
	for (; from < to; from += FM_SASS_BYTES) {
		fm_put64(code + from, NOP_0);
		fm_put64(code + from + 8, NOP_1);
	}
}

static void put_guardian(
	uint8_t *at, const struct fm_guardian *guardian, unsigned params, bool early)
{
	memcpy(at, guardian->code, guardian->words * sizeof(uint64_t));
	for (unsigned i = 0; i < guardian->n_places; i++) {
		uint8_t *word = at + guardian->places[i] * sizeof(uint64_t);

		/* The place of a constant is in bits 38 to 53. */
		fm_put64(word, fm_get64(word) + ((uint64_t)(params - guardian->base) << 38));
	}
	if (!early && fm_guardian_waits(guardian))
		pad(at, guardian->wait * sizeof(uint64_t),
			guardian->wait * sizeof(uint64_t) + FM_SASS_BYTES);
}

size_t fm_sass_guard(const uint8_t *code, size_t size, const struct fm_guardian *guardian,
	unsigned params, bool early, uint8_t first[FM_SASS_BYTES], struct fm_buf *tail)
{
	size_t start = aligned(size), at;
	uint8_t *c;

	fm_buf_add(tail, NULL, fm_sass_growth(size, guardian));
	if (tail->failed)
		return 0;
	c = tail->data;
	pad(c, 0, start - size);
	put_guardian(c + start - size, guardian, params, early);
	/* Goes into the room for it: the instruction that the branch replaced, and the branch back.
	 */
	at = start - size + guardian->go * sizeof(uint64_t);
	fm_put64(c + at, fm_get64(code));
	fm_put64(c + at + 8, fm_get64(code + 8) | WAIT_ALL);
	at += FM_SASS_BYTES;
	encode_branch(c + at, -(int64_t)(size + at), guardian->sm, BRA_1 | WAIT_ALL);
	at = start - size + guardian->words * sizeof(uint64_t);
	encode_branch(c + at, -FM_SASS_BYTES, guardian->sm, 0x000fc00003800000u);
	pad(c, at + FM_SASS_BYTES, tail->size);
	encode_branch(first, (int64_t)start - FM_SASS_BYTES, guardian->sm, BRA_1);
	return start;
}

/* Judged by the bytes alone, and in another way than they were written, where there is one. */
bool fm_sass_guarded(const uint8_t *before, size_t n_before, const uint8_t *after, size_t n_after,
	const struct fm_guardian *guardian, unsigned params, bool early)
{
	size_t start = aligned(n_before), back = start + guardian->go * sizeof(uint64_t);

	if (n_before < FM_SASS_BYTES || n_after != n_before + fm_sass_growth(n_before, guardian))
		return false;
	if (OPCODE(fm_get64(after)) != OP_BRA ||
		branch_distance(after, guardian->sm) + FM_SASS_BYTES != (int64_t)start)
		return false;
	if (memcmp(after + FM_SASS_BYTES, before + FM_SASS_BYTES, n_before - FM_SASS_BYTES))
		return false;
	for (unsigned i = 0, p = 0; i < guardian->words; i++) {
		uint64_t is = fm_get64(after + start + i * sizeof(uint64_t)),
			 was = guardian->code[i];
		bool place = p < guardian->n_places && guardian->places[p] == i;

		if (i - guardian->go < GO_WORDS)
			continue;
		if (!early && i - guardian->wait < FM_SASS_WORDS)
			was = i == guardian->wait ? NOP_0 : NOP_1;
		p += place;
		if (place ? ((is >> 38) & 0xffff) !=
					((was >> 38) & 0xffff) + params - guardian->base
			  : is != was)
			return false;
	}
	if (fm_get64(after + back) != fm_get64(before) ||
		fm_get64(after + back + 8) != (fm_get64(before + 8) | WAIT_ALL))
		return false;
	back += FM_SASS_BYTES;
	return OPCODE(fm_get64(after + back)) == OP_BRA &&
	       branch_distance(after + back, guardian->sm) + (int64_t)back == 0;
}
