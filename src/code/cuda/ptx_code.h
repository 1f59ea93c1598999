/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a kernel as instructions: the registers that each reads and writes, and its branch
 * target. Only instructions that a thread executes by itself are known, on registers and on memory
 * that outlives the kernel. A kernel with any other instruction is not understood.
 */
#pragma once
#include "ptx_scan.h"

/* How a register is saved in memory. */
enum fm_ptx_type { FM_PTX_PRED, FM_PTX_8, FM_PTX_16, FM_PTX_32, FM_PTX_64 };

struct fm_ptx_reg {
	size_t name; /* in the text; for a member of a family (%r<100>), the name of the family */
	uint32_t len;
	uint32_t member; /* its number in the family, or FM_PTX_ALONE */
	enum fm_ptx_type type;
	bool inner; /* declared within inner braces, and unknown outside of them */
};
#define FM_PTX_ALONE UINT32_MAX
#define FM_PTX_NONE  UINT32_MAX

enum fm_ptx_flow { FM_PTX_ON, FM_PTX_BRANCH, FM_PTX_END };

struct fm_ptx_insn {
	size_t at, end; /* from its guard to behind the `;` */
	size_t op;      /* its operation, with all its parts */
	uint32_t op_len;
	uint32_t operand; /* its first register; they end where the next instruction's begin */
	uint32_t guard;   /* register, or FM_PTX_NONE */
	uint32_t target; /* of a branch: the target instruction, which may be one behind the last */
	size_t label;    /* and the name of its label */
	uint32_t label_len; /* until all labels are known; the target is then FM_PTX_NONE */
	uint16_t weight;    /* its approximate duration, in instructions */
	bool negated;       /* its guard */
	bool uniform;       /* it claims that all threads of a warp agree on the guard */
	enum fm_ptx_flow flow;
};

/* A register of an instruction. */
struct fm_ptx_operand {
	uint32_t reg : 30;
	uint32_t dest : 1;   /* it is what the instruction gives */
	uint32_t writes : 1; /* and does not read; in any case, whatever the guard */
};

struct fm_ptx_code {
	struct fm_ptx_reg *reg;
	struct fm_ptx_insn *insn; /* plus one behind the last, where the operands end */
	struct fm_ptx_operand *operand;
	uint32_t n_regs, n_insns, n_operands;
	uint32_t room_regs, room_insns, room_operands;
};

/* Reads the body of a kernel of p, whose text has no comments. FM_LOOP_POLLED: it is understood.
 * The caller frees the result in any case. */
enum fm_loop_why fm_ptx_code_read(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, struct fm_ptx_code *out);
/* The same, for a kernel of which no thread goes on later: its threads may wait for each other,
 * exchange values, and have shared and local memory. */
enum fm_loop_why fm_ptx_code_read_any(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, struct fm_ptx_code *out);
void fm_ptx_code_free(struct fm_ptx_code *c);

/*
 * The live registers in front of each instruction that some branch leads back to. `n`: the number
 * of such branches; for each, in the order of the text, its instruction and its registers. False:
 * too many, or out of memory.
 */
struct fm_ptx_back {
	uint32_t insn;
	uint32_t n_regs;
	uint32_t *reg; /* to be freed */
};
bool fm_ptx_live(const struct fm_ptx_code *c, struct fm_ptx_back **backs, uint32_t *n);
void fm_ptx_live_free(struct fm_ptx_back *backs, uint32_t n);
