/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_loop.h"
#include "base/util.h"
#include "ptx_write.h"
#include <stdio.h>

/* The weight of a loop that passes between two looks at the stop word. */
#define BUDGET   2048u
#define SAVE_MAX 1024u /* bytes of a thread */

/* --- the text. %fm_area: the save area; %fm_thread: the thread's number in the grid --- */

static const char declarations[] =
	"\t.reg .pred %fm_keep, %fm_any;\n"
	"\t.reg .b32 %fm_left, %fm_edge, %fm_w, %fm_t;\n"
	"\t.reg .b64 %fm_area, %fm_room, %fm_thread, %fm_threads, %fm_cell, %fm_step, %fm_word;\n";

/* Goes to LABEL_BEGIN unless this block was left before. If it was, the thread's %fm_edge says
 * where, and code that loads its values follows. */
static const char begin[] = "\tld.param.u64 %fm_word, [NAME_fermata_stop];\n"
			    "\tsetp.eq.u64 %fm_keep, %fm_word, 0;\n"
			    "\t@%fm_keep bra.uni LABEL_BEGIN;\n"
			    "\tld.param.u64 %fm_word, [NAME_fermata_launch];\n"
			    "\tand.b64 %fm_word, %fm_word, 3;\n"
			    "\tsetp.ne.u64 %fm_keep, %fm_word, 1;\n"
			    "\t@%fm_keep bra.uni LABEL_BEGIN;\n"
			    "\tld.param.u64 %fm_word, [NAME_fermata_block];\n"
			    "\tld.volatile.global.u64 %fm_area, [%fm_word+32];\n"
			    "\tld.volatile.global.u64 %fm_room, [%fm_word+40];\n";

static const char resume[] = "\tshl.b64 %fm_cell, %fm_thread, 2;\n"
			     "\tadd.u64 %fm_cell, %fm_area, %fm_cell;\n"
			     "\tld.volatile.global.u32 %fm_edge, [%fm_cell];\n"
			     "\tsetp.ne.u32 %fm_keep, %fm_edge, 0;\n"
			     "\tbar.red.or.pred %fm_any, 0, %fm_keep;\n"
			     "\t@!%fm_any bra.uni LABEL_BEGIN;\n"
			     "\t@!%fm_keep exit;\n"
			     "\tmov.u32 %fm_w, 0;\n"
			     "\tst.global.u32 [%fm_cell], %fm_w;\n";

/* Computes the number of this thread and the number of threads. Goes to ELSE if there is no room
 * for that many. Launches with more blocks than 32 bits can count never have this mode. */
static const char place[] = "\tmov.u32 %fm_w, %ctaid.z;\n"
			    "\tmov.u32 %fm_t, %nctaid.y;\n"
			    "\tmov.u32 %fm_edge, %ctaid.y;\n"
			    "\tmad.lo.u32 %fm_w, %fm_w, %fm_t, %fm_edge;\n"
			    "\tmov.u32 %fm_t, %nctaid.x;\n"
			    "\tmov.u32 %fm_edge, %ctaid.x;\n"
			    "\tmad.lo.u32 %fm_w, %fm_w, %fm_t, %fm_edge;\n"
			    "\tcvt.u64.u32 %fm_thread, %fm_w;\n"
			    "\tmov.u32 %fm_w, %nctaid.y;\n"
			    "\tmul.lo.u32 %fm_w, %fm_w, %fm_t;\n"
			    "\tmov.u32 %fm_t, %nctaid.z;\n"
			    "\tmul.lo.u32 %fm_w, %fm_w, %fm_t;\n"
			    "\tcvt.u64.u32 %fm_threads, %fm_w;\n"
			    "\tmov.u32 %fm_w, %tid.z;\n"
			    "\tmov.u32 %fm_t, %ntid.y;\n"
			    "\tmov.u32 %fm_edge, %tid.y;\n"
			    "\tmad.lo.u32 %fm_w, %fm_w, %fm_t, %fm_edge;\n"
			    "\tmov.u32 %fm_t, %ntid.x;\n"
			    "\tmov.u32 %fm_edge, %tid.x;\n"
			    "\tmad.lo.u32 %fm_w, %fm_w, %fm_t, %fm_edge;\n"
			    "\tcvt.u64.u32 %fm_cell, %fm_w;\n"
			    "\tmov.u32 %fm_w, %ntid.y;\n"
			    "\tmul.lo.u32 %fm_w, %fm_w, %fm_t;\n"
			    "\tmov.u32 %fm_t, %ntid.z;\n"
			    "\tmul.lo.u32 %fm_w, %fm_w, %fm_t;\n"
			    "\tcvt.u64.u32 %fm_step, %fm_w;\n"
			    "\tmad.lo.u64 %fm_thread, %fm_thread, %fm_step, %fm_cell;\n"
			    "\tmul.lo.u64 %fm_threads, %fm_threads, %fm_step;\n"
			    "\tsetp.gt.u64 %fm_keep, %fm_threads, 524288;\n"
			    "\tmul.lo.u64 %fm_cell, %fm_threads, SAVE;\n"
			    "\tsetp.gt.or.u64 %fm_keep, %fm_cell, %fm_room, %fm_keep;\n"
			    "\tsetp.eq.or.u64 %fm_keep, %fm_area, 0, %fm_keep;\n"
			    "\t@%fm_keep bra ELSE;\n";

/* Looks at the stop word. If the thread stays, goes to ELSE, where the loop continues. */
static const char look[] = "\tmov.u32 %fm_left, BUDGET;\n"
			   "\tld.param.u64 %fm_word, [NAME_fermata_stop];\n"
			   "\tsetp.eq.u64 %fm_keep, %fm_word, 0;\n"
			   "\t@%fm_keep bra ELSE;\n"
			   "\tld.volatile.global.u32 %fm_w, [%fm_word];\n"
			   "\tsetp.eq.u32 %fm_keep, %fm_w, 0;\n"
			   "\t@%fm_keep bra ELSE;\n"
			   "\tld.param.u64 %fm_word, [NAME_fermata_launch];\n"
			   "\tand.b64 %fm_cell, %fm_word, 3;\n"
			   "\tsetp.eq.u64 %fm_keep, %fm_cell, 2;\n"
			   "\t@%fm_keep bra ELSE;\n"
			   "\tshr.u64 %fm_word, %fm_word, 2;\n"
			   "\tld.param.u64 %fm_room, [NAME_fermata_block];\n"
			   "\tld.volatile.global.u64 %fm_cell, [%fm_room+8];\n"
			   "\tsetp.eq.u64 %fm_keep, %fm_cell, 0;\n"
			   "\tsetp.eq.or.u64 %fm_keep, %fm_cell, %fm_word, %fm_keep;\n"
			   "\t@!%fm_keep bra ELSE;\n"
			   "\tld.volatile.global.u64 %fm_area, [%fm_room+32];\n"
			   "\tld.volatile.global.u64 %fm_room, [%fm_room+40];\n";

/* Saves the thread's values. Of the threads that end here together, one sets the block's bit to say
 * that it was left, as the guardian does for a block that has not begun. */
static const char leave[] =
	"LABEL_AWAY:\n"
	"\tshl.b64 %fm_cell, %fm_thread, 2;\n"
	"\tadd.u64 %fm_cell, %fm_area, %fm_cell;\n"
	"\tst.global.u32 [%fm_cell], %fm_edge;\n"
	"\tactivemask.b32 %fm_w;\n"
	"\tmov.u32 %fm_t, %lanemask_lt;\n"
	"\tand.b32 %fm_w, %fm_w, %fm_t;\n"
	"\tsetp.ne.u32 %fm_keep, %fm_w, 0;\n"
	"\t@%fm_keep exit;\n"
	"\tld.param.u64 %fm_area, [NAME_fermata_block];\n"
	"\tatom.global.cas.b64 %fm_cell, [%fm_area+8], 0, %fm_word;\n" FM_PTX_BLOCK_LEAVES
	"\texit;\n";

_Static_assert(FM_LOOP_AREA == 32 && FM_LOOP_BYTES == 40 && FM_LOOP_LEFT == 48, "as in the text");
_Static_assert(FM_LOOP_THREADS == 524288 && FM_LOOP_VALUES == 2097152, "as in the text");
_Static_assert(BUDGET == 2048, "it is hashed with the text, as this says: 2048");

const char *const fm_ptx_loop_text[] = {
	declarations, begin, resume, place, look, leave, "2048 2097152", NULL};

/* --- whether --- */

static const unsigned char bytes_of[] = {
	[FM_PTX_PRED] = 4, [FM_PTX_8] = 4, [FM_PTX_16] = 4, [FM_PTX_32] = 4, [FM_PTX_64] = 8};

/* The registers to save where a branch leads back. False: one of them is not known there. */
static bool saved_bytes(const struct fm_ptx_loops *l, const struct fm_ptx_back *b, uint32_t *bytes)
{
	*bytes = 0;
	for (uint32_t i = 0; i < b->n_regs; i++) {
		const struct fm_ptx_reg *reg = &l->code.reg[b->reg[i]];

		if (reg->inner)
			return false;
		*bytes += bytes_of[reg->type];
	}
	return true;
}

static enum fm_loop_why measure(struct fm_ptx_loops *l)
{
	uint32_t most = 0, bytes;

	if (!l->n)
		return FM_LOOP_NONE;
	for (uint32_t i = 0; i < l->n; i++) {
		if (!saved_bytes(l, &l->back[i], &bytes))
			return FM_LOOP_TEXT;
		most = FM_MAX(most, bytes);
	}
	if (most > SAVE_MAX)
		return FM_LOOP_LARGE;
	l->save_bytes = (uint16_t)((most + 7) & ~7u);
	return FM_LOOP_POLLED;
}

enum fm_loop_why fm_ptx_loops_find(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, struct fm_ptx_loops *out)
{
	enum fm_loop_why why;

	*out = (struct fm_ptx_loops){0};
	if (fm_kernel_mode(k->traits) == FM_GUARD_GRID)
		return FM_LOOP_GRID;
	if (k->traits & FM_KERNEL_OVERLAPS)
		return FM_LOOP_OVERLAPS;
	if (p->version < 62) /* it has no activemask */
		return FM_LOOP_TEXT;
	why = fm_ptx_code_read(p, k, &out->code);
	if (why != FM_LOOP_POLLED)
		return why;
	return fm_ptx_live(&out->code, &out->back, &out->n) ? measure(out) : FM_LOOP_LARGE;
}

void fm_ptx_loops_free(struct fm_ptx_loops *l)
{
	fm_ptx_code_free(&l->code);
	fm_ptx_live_free(l->back, l->n);
	*l = (struct fm_ptx_loops){0};
}

/* --- writing --- */

/* Stores to the cell or loads from it. Predicates go through %fm_t. */
static void move(const struct fm_ptx_writer *w, uint32_t reg, bool saves)
{
	static const char *const types[] = {"b32", "b8", "b16", "b32", "b64"};
	enum fm_ptx_type type = w->code->reg[reg].type;

	if (type == FM_PTX_PRED && saves) {
		fm_ptx_write_string(w, "\tselp.b32 %fm_t, 1, 0, ");
		fm_ptx_write_reg(w, reg);
		fm_ptx_write_string(w, ";\n");
	}
	fm_ptx_write_string(w, saves ? "\tst.global." : "\tld.global.");
	fm_ptx_write_string(w, types[type]);
	fm_ptx_write_string(w, saves ? " [%fm_cell+2097152], " : " ");
	if (type == FM_PTX_PRED)
		fm_ptx_write_string(w, "%fm_t");
	else
		fm_ptx_write_reg(w, reg);
	fm_ptx_write_string(w, saves ? ";\n" : ", [%fm_cell+2097152];\n");
	if (type == FM_PTX_PRED && !saves) {
		fm_ptx_write_string(w, "\tsetp.ne.u32 ");
		fm_ptx_write_reg(w, reg);
		fm_ptx_write_string(w, ", %fm_t, 0;\n");
	}
}

/* The values of all threads for one register are side by side. Registers of eight bytes come first.
 */
static void move_all(const struct fm_ptx_writer *w, const struct fm_ptx_back *b, bool saves)
{
	unsigned base = 0;

	for (unsigned bytes = 8; bytes >= 4; bytes -= 4) {
		unsigned n = 0;

		for (uint32_t i = 0; i < b->n_regs; i++) {
			if (bytes_of[w->code->reg[b->reg[i]].type] != bytes)
				continue;
			if (!n++)
				fm_ptx_write_line(w,
					"\tmad.lo.u64 %%fm_cell, %%fm_threads, %u, %%fm_area;\n"
					"\tmad.lo.u64 %%fm_cell, %%fm_thread, %u, %%fm_cell;\n"
					"\tmul.lo.u64 %%fm_step, %%fm_threads, %u;\n",
					base, bytes, bytes);
			else
				fm_ptx_write_line(
					w, "\tadd.u64 %%fm_cell, %%fm_cell, %%fm_step;\n");
			move(w, b->reg[i], saves);
		}
		base += n * bytes;
	}
}

static void add_look(const struct fm_ptx_writer *w, const struct fm_ptx_back *b, uint32_t n)
{
	char *label;
	const char *header = fm_ptx_header(w, b->insn, &label);

	fm_ptx_write_line(w, "LABEL_LOOK%u:\n", n + 1);
	fm_ptx_write(w, look, header);
	fm_ptx_write(w, place, header);
	move_all(w, b, true);
	fm_ptx_write_line(w, "\tmov.u32 %%fm_edge, %u;\n\tbra LABEL_AWAY;\n", n + 1);
	fm_ptx_write_line(w, "LABEL_BACK%u:\n", n + 1);
	move_all(w, b, false);
	fm_ptx_write_string(w, "\tbra ");
	fm_ptx_write_string(w, header);
	fm_ptx_write_string(w, ";\n");
	free(label);
}

static void add_begin(const struct fm_ptx_writer *w, uint32_t n)
{
	char begins[48];

	snprintf(begins, sizeof(begins), "$FERMATA_%u_BEGIN", w->n);
	fm_ptx_write_string(w, declarations);
	fm_ptx_write_line(w, "\tmov.u32 %%fm_left, BUDGET;\n");
	fm_ptx_write(w, begin, begins);
	fm_ptx_write(w, place, begins);
	fm_ptx_write(w, resume, begins);
	for (uint32_t i = 1; i < n; i++)
		fm_ptx_write_line(w,
			"\tsetp.eq.u32 %%fm_keep, %%fm_edge, %u;\n"
			"\t@%%fm_keep bra LABEL_BACK%u;\n",
			i, i);
	fm_ptx_write_line(w, "\tbra LABEL_BACK%u;\nLABEL_BEGIN:\n", n);
}

void fm_ptx_loops_write(const struct fm_ptx_loops *l, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, struct fm_buf *out)
{
	const struct fm_ptx_writer w = {&l->code, text, k, n, l->save_bytes, BUDGET, out};
	uint32_t *insn = malloc(l->n * sizeof(*insn));

	if (!insn) {
		out->failed = true;
		return;
	}
	for (uint32_t i = 0; i < l->n; i++)
		insn[i] = l->back[i].insn;
	add_begin(&w, l->n);
	fm_ptx_write_body(&w, insn, l->n);
	for (uint32_t i = 0; i < l->n; i++)
		add_look(&w, &l->back[i], i);
	fm_ptx_write(&w, leave, "");
	free(insn);
}
