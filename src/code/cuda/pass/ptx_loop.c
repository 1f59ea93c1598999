/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_loop.h"
#include "base/util.h"
#include "device/guardian.h"
#include <stdarg.h>
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
static const char leave[] = "LABEL_AWAY:\n"
			    "\tshl.b64 %fm_cell, %fm_thread, 2;\n"
			    "\tadd.u64 %fm_cell, %fm_area, %fm_cell;\n"
			    "\tst.global.u32 [%fm_cell], %fm_edge;\n"
			    "\tactivemask.b32 %fm_w;\n"
			    "\tmov.u32 %fm_t, %lanemask_lt;\n"
			    "\tand.b32 %fm_w, %fm_w, %fm_t;\n"
			    "\tsetp.ne.u32 %fm_keep, %fm_w, 0;\n"
			    "\t@%fm_keep exit;\n"
			    "\tld.param.u64 %fm_area, [NAME_fermata_block];\n"
			    "\tatom.global.cas.b64 %fm_cell, [%fm_area+8], 0, %fm_word;\n"
			    "\tmov.u32 %fm_edge, %ctaid.z;\n"
			    "\tmov.u32 %fm_w, %nctaid.y;\n"
			    "\tmov.u32 %fm_t, %ctaid.y;\n"
			    "\tmad.lo.u32 %fm_edge, %fm_edge, %fm_w, %fm_t;\n"
			    "\tmov.u32 %fm_w, %nctaid.x;\n"
			    "\tmov.u32 %fm_t, %ctaid.x;\n"
			    "\tmad.lo.u32 %fm_edge, %fm_edge, %fm_w, %fm_t;\n"
			    "\tshr.u32 %fm_w, %fm_edge, 5;\n"
			    "\tmad.wide.u32 %fm_cell, %fm_w, 4, %fm_area;\n"
			    "\tand.b32 %fm_edge, %fm_edge, 31;\n"
			    "\tmov.u32 %fm_w, 1;\n"
			    "\tshl.b32 %fm_w, %fm_w, %fm_edge;\n"
			    "\tatom.global.or.b32 %fm_t, [%fm_cell+64], %fm_w;\n"
			    "\tand.b32 %fm_t, %fm_t, %fm_w;\n"
			    "\tsetp.ne.u32 %fm_keep, %fm_t, 0;\n"
			    "\t@%fm_keep exit;\n"
			    "\tred.global.add.u32 [%fm_area+4], 1;\n"
			    "\tmov.u64 %fm_word, 1;\n"
			    "\tred.global.add.u64 [%fm_area+48], %fm_word;\n"
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

struct writer {
	const struct fm_ptx_loops *l;
	const char *text;
	const struct fm_ptx_kernel *k;
	unsigned n;
	struct fm_buf *out;
};

static void add_string(struct fm_buf *out, const char *s)
{
	fm_buf_add(out, s, strlen(s));
}

/* Adds a text with some words replaced: pairs, ended by NULL. */
static void replace(struct fm_buf *out, const char *s, const char *const *pairs)
{
	while (*s) {
		const char *next = NULL, *with = NULL;
		size_t len = 0;

		for (const char *const *p = pairs; *p; p += 2) {
			const char *found = strstr(s, p[0]);

			if (!found || (next && next <= found))
				continue;
			next = found;
			len = strlen(p[0]);
			with = p[1];
		}
		if (!next)
			break;
		fm_buf_add(out, s, (size_t)(next - s));
		add_string(out, with);
		s = next + len;
	}
	add_string(out, s);
}

/* The same with the kernel's name and labels. `await`, `other`: the replacements of AWAIT and ELSE.
 */
static void add_pattern(struct fm_buf *out, const char *pattern, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, const char *await, const char *other,
	unsigned save)
{
	char label[32], number[16], budget[16], *name = strndup(text + k->name, k->name_len);
	const char *const pairs[] = {"NAME", name, "LABEL", label, "AWAIT", await, "ELSE", other,
		"SAVE", number, "BUDGET", budget, NULL};

	if (!name) {
		out->failed = true;
		return;
	}
	snprintf(label, sizeof(label), "$FERMATA_%u", n);
	snprintf(number, sizeof(number), "%u", save);
	snprintf(budget, sizeof(budget), "%u", BUDGET);
	replace(out, pattern, pairs);
	free(name);
}

void fm_ptx_add_text(struct fm_buf *out, const char *pattern, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, bool waits)
{
	add_pattern(out, pattern, text, k, n, waits ? fm_guardian_wait : "", "", 0);
}

static void add(const struct writer *w, const char *pattern, const char *other)
{
	add_pattern(w->out, pattern, w->text, w->k, w->n, "", other, w->l->save_bytes);
}

/* Adds a line of ours, whose labels are LABEL_... */
static __attribute__((format(printf, 2, 3))) void line(
	const struct writer *w, const char *form, ...)
{
	char s[256];
	va_list list;

	va_start(list, form);
	vsnprintf(s, sizeof(s), form, list);
	va_end(list);
	add(w, s, "");
}

static void add_reg(const struct writer *w, uint32_t reg)
{
	const struct fm_ptx_reg *r = &w->l->code.reg[reg];
	char number[16];

	fm_buf_add(w->out, w->text + r->name, r->len);
	if (r->member == FM_PTX_ALONE)
		return;
	snprintf(number, sizeof(number), "%u", r->member);
	add_string(w->out, number);
}

/* Stores to the cell or loads from it. Predicates go through %fm_t. */
static void move(const struct writer *w, uint32_t reg, bool saves)
{
	static const char *const types[] = {"b32", "b8", "b16", "b32", "b64"};
	enum fm_ptx_type type = w->l->code.reg[reg].type;
	struct fm_buf *out = w->out;

	if (type == FM_PTX_PRED && saves) {
		add_string(out, "\tselp.b32 %fm_t, 1, 0, ");
		add_reg(w, reg);
		add_string(out, ";\n");
	}
	add_string(out, saves ? "\tst.global." : "\tld.global.");
	add_string(out, types[type]);
	add_string(out, saves ? " [%fm_cell+2097152], " : " ");
	if (type == FM_PTX_PRED)
		add_string(out, "%fm_t");
	else
		add_reg(w, reg);
	add_string(out, saves ? ";\n" : ", [%fm_cell+2097152];\n");
	if (type == FM_PTX_PRED && !saves) {
		add_string(out, "\tsetp.ne.u32 ");
		add_reg(w, reg);
		add_string(out, ", %fm_t, 0;\n");
	}
}

/* The values of all threads for one register are side by side. Registers of eight bytes come first.
 */
static void move_all(const struct writer *w, const struct fm_ptx_back *b, bool saves)
{
	unsigned base = 0;

	for (unsigned bytes = 8; bytes >= 4; bytes -= 4) {
		unsigned n = 0;

		for (uint32_t i = 0; i < b->n_regs; i++) {
			if (bytes_of[w->l->code.reg[b->reg[i]].type] != bytes)
				continue;
			if (!n++)
				line(w,
					"\tmad.lo.u64 %%fm_cell, %%fm_threads, %u, %%fm_area;\n"
					"\tmad.lo.u64 %%fm_cell, %%fm_thread, %u, %%fm_cell;\n"
					"\tmul.lo.u64 %%fm_step, %%fm_threads, %u;\n",
					base, bytes, bytes);
			else
				line(w, "\tadd.u64 %%fm_cell, %%fm_cell, %%fm_step;\n");
			move(w, b->reg[i], saves);
		}
		base += n * bytes;
	}
}

static const char *header_of(const struct writer *w, const struct fm_ptx_back *b, char **label)
{
	const struct fm_ptx_insn *insn = &w->l->code.insn[b->insn];

	*label = strndup(w->text + insn->label, insn->label_len);
	if (!*label)
		w->out->failed = true;
	return *label ? *label : "";
}

/* The instructions from the place where the loop begins again to that branch, in the order of the
 * text. */
static unsigned weight(const struct fm_ptx_code *c, const struct fm_ptx_insn *insn)
{
	unsigned sum = 0;

	for (const struct fm_ptx_insn *i = &c->insn[insn->target]; i <= insn && sum < BUDGET; i++)
		sum += i->weight;
	return FM_MIN(sum, BUDGET);
}

/* Replaces the n-th branch that leads back. */
static void add_branch(const struct writer *w, uint32_t n)
{
	const struct fm_ptx_code *c = &w->l->code;
	const struct fm_ptx_insn *insn = &c->insn[w->l->back[n].insn];
	const char *header;
	char *label;

	header = header_of(w, &w->l->back[n], &label);
	line(w, "sub.s32 %%fm_left, %%fm_left, %u;\n", weight(c, insn));
	if (insn->guard == FM_PTX_NONE) {
		add_string(w->out, "\tsetp.gt.s32 %fm_keep, %fm_left, 0;\n\t@%fm_keep bra ");
	} else {
		add_string(w->out, "\tsetp.gt.and.s32 %fm_keep, %fm_left, 0, ");
		add_string(w->out, insn->negated ? "!" : "");
		add_reg(w, insn->guard);
		add_string(w->out, ";\n\t@%fm_keep bra ");
	}
	add_string(w->out, header);
	add_string(w->out, ";\n\t");
	if (insn->guard != FM_PTX_NONE) {
		add_string(w->out, insn->negated ? "@!" : "@");
		add_reg(w, insn->guard);
		add_string(w->out, " ");
	}
	line(w, "bra LABEL_LOOK%u;", n + 1);
	free(label);
}

static void add_look(const struct writer *w, uint32_t n)
{
	char *label;
	const char *header = header_of(w, &w->l->back[n], &label);

	line(w, "LABEL_LOOK%u:\n", n + 1);
	add(w, look, header);
	add(w, place, header);
	move_all(w, &w->l->back[n], true);
	line(w, "\tmov.u32 %%fm_edge, %u;\n\tbra LABEL_AWAY;\n", n + 1);
	line(w, "LABEL_BACK%u:\n", n + 1);
	move_all(w, &w->l->back[n], false);
	add_string(w->out, "\tbra ");
	add_string(w->out, header);
	add_string(w->out, ";\n");
	free(label);
}

static void add_begin(const struct writer *w)
{
	char begins[48];

	snprintf(begins, sizeof(begins), "$FERMATA_%u_BEGIN", w->n);
	add_string(w->out, declarations);
	line(w, "\tmov.u32 %%fm_left, BUDGET;\n");
	add(w, begin, begins);
	add(w, place, begins);
	add(w, resume, begins);
	for (uint32_t i = 1; i < w->l->n; i++)
		line(w,
			"\tsetp.eq.u32 %%fm_keep, %%fm_edge, %u;\n"
			"\t@%%fm_keep bra LABEL_BACK%u;\n",
			i, i);
	line(w, "\tbra LABEL_BACK%u;\nLABEL_BEGIN:\n", w->l->n);
}

void fm_ptx_loops_write(const struct fm_ptx_loops *l, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, struct fm_buf *out)
{
	const struct writer w = {l, text, k, n, out};
	size_t at = k->body;

	add_begin(&w);
	for (uint32_t i = 0; i < l->n; i++) {
		const struct fm_ptx_insn *insn = &l->code.insn[l->back[i].insn];

		fm_buf_add(out, text + at, insn->at - at);
		add_branch(&w, i);
		at = insn->end;
	}
	fm_buf_add(out, text + at, k->body_end - at);
	add_string(out, "\n\texit;\n");
	for (uint32_t i = 0; i < l->n; i++)
		add_look(&w, i);
	add(&w, leave, "");
}
