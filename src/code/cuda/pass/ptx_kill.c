/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_kill.h"
#include "access.h"
#include "base/util.h"
#include "nature.h"
#include "ptx_bases.h"
#include "ptx_write.h"
#include "tune.h"

/* --- the text --- */

static const char declarations[] = "\t.reg .pred %fm_keep, %fm_any;\n"
				   "\t.reg .b32 %fm_left, %fm_w, %fm_t, %fm_edge;\n"
				   "\t.reg .b64 %fm_area, %fm_cell, %fm_word;\n";

/* Goes to ELSE, where the loop continues, if this launch is never killed. All threads of a block
 * agree on that. */
static const char may[] = "\tmov.u32 %fm_left, 2147483647;\n"
			  "\tld.param.u64 %fm_word, [NAME_fermata_stop];\n"
			  "\tsetp.eq.u64 %fm_keep, %fm_word, 0;\n"
			  "\t@%fm_keep bra ELSE;\n"
			  "\tld.param.u64 %fm_cell, [NAME_fermata_launch];\n"
			  "\tsetp.ge.s64 %fm_keep, %fm_cell, 0;\n"
			  "\t@%fm_keep bra ELSE;\n"
			  "\tmov.u32 %fm_left, BUDGET;\n";

/* The first thread looks: is the stop word set, and no launch in front the first to leave blocks
 * out? All of them learn it. */
static const char look_whole[] = "\tmov.u32 %fm_w, %tid.x;\n"
				 "\tmov.u32 %fm_t, %tid.y;\n"
				 "\tor.b32 %fm_w, %fm_w, %fm_t;\n"
				 "\tmov.u32 %fm_t, %tid.z;\n"
				 "\tor.b32 %fm_w, %fm_w, %fm_t;\n"
				 "\tsetp.eq.u32 %fm_any, %fm_w, 0;\n"
				 "\tmov.u32 %fm_w, 0;\n"
				 "\t@%fm_any ld.volatile.global.u32 %fm_w, [%fm_word];\n"
				 "\tsetp.ne.u32 %fm_keep, %fm_w, 0;\n"
				 "\tshr.u64 %fm_cell, %fm_cell, 2;\n"
				 "\tld.param.u64 %fm_area, [NAME_fermata_block];\n"
				 "\tmov.u64 %fm_word, 0;\n"
				 "\t@%fm_keep ld.volatile.global.u64 %fm_word, [%fm_area+8];\n"
				 "\tsetp.eq.u64 %fm_any, %fm_word, 0;\n"
				 "\tsetp.eq.or.u64 %fm_any, %fm_word, %fm_cell, %fm_any;\n"
				 "\tand.pred %fm_keep, %fm_keep, %fm_any;\n"
				 "\tbar.red.or.pred %fm_any, 0, %fm_keep;\n"
				 "\t@!%fm_any bra ELSE;\n"
				 "\t@!%fm_keep exit;\n"
				 "\tbra LABEL_KILL;\n";

/* Each thread for itself. */
static const char look_single[] = "\tld.volatile.global.u32 %fm_w, [%fm_word];\n"
				  "\tsetp.eq.u32 %fm_keep, %fm_w, 0;\n"
				  "\t@%fm_keep bra ELSE;\n"
				  "\tshr.u64 %fm_cell, %fm_cell, 2;\n"
				  "\tld.param.u64 %fm_area, [NAME_fermata_block];\n"
				  "\tld.volatile.global.u64 %fm_word, [%fm_area+8];\n"
				  "\tsetp.eq.u64 %fm_keep, %fm_word, 0;\n"
				  "\tsetp.eq.or.u64 %fm_keep, %fm_word, %fm_cell, %fm_keep;\n"
				  "\t@!%fm_keep bra ELSE;\n"
				  "\tbra LABEL_KILL;\n";

/* Of the threads that end here together, one notes it. */
static const char one_of_many[] = "\tactivemask.b32 %fm_w;\n"
				  "\tmov.u32 %fm_t, %lanemask_lt;\n"
				  "\tand.b32 %fm_w, %fm_w, %fm_t;\n"
				  "\tsetp.ne.u32 %fm_keep, %fm_w, 0;\n"
				  "\t@%fm_keep exit;\n";

/* Sets the block's bit, as the guardian does for a block that has not begun, and counts it once. */
static const char leave[] =
	"\tld.param.u64 %fm_area, [NAME_fermata_block];\n"
	"\tatom.global.cas.b64 %fm_word, [%fm_area+8], 0, %fm_cell;\n" FM_PTX_BLOCK_LEAVES
	"\texit;\n";

_Static_assert(FM_LOOP_LEFT == 48, "as in the text");
_Static_assert(FM_GUARD_KILL << 2 == UINT64_C(1) << 63, "the sign, in the text");

#define TEXT(x)  #x
#define VALUE(x) TEXT(x)
const char *const fm_ptx_kill_text[] = {declarations, may, look_whole, look_single, one_of_many,
	leave, VALUE(FM_KILL_WHOLE_LOOK), VALUE(FM_KILL_SINGLE_LOOK), NULL};

/* --- whether --- */

static bool has(struct fm_ptx_statement s, const char *part)
{
	return memmem(s.s, s.n, part, strlen(part));
}

/* Of all threads of a block, by the number that compilers use. */
static bool is_plain_barrier(struct fm_ptx_statement st, const struct fm_ptx_access *a)
{
	const char *at = a->opcode.s + a->opcode.n, *end = st.s + st.n;
	bool red = has(a->opcode, ".red");

	if (has(a->opcode, ".arrive") || (!red && !has(a->opcode, ".sync")))
		return false;
	if (red && !(at = memchr(at, ',', (size_t)(end - at))))
		return false;
	at += red;
	at += fm_ptx_blanks(at, 0, (size_t)(end - at));
	if (at == end || *at++ != '0')
		return false;
	at += fm_ptx_blanks(at, 0, (size_t)(end - at));
	return at < end && *at == (red ? ',' : ';') &&
	       (!red || !memchr(at + 1, ',', (size_t)(end - at - 1)));
}

static enum fm_kill_why judge(
	struct fm_ptx_statement st, const struct fm_ptx_access *a, bool *whole)
{
	static const char *const together[] = {"shfl", "vote", "match", "redux", "elect", "mma",
		"ldmatrix", "stmatrix", "movmatrix", "activemask"};

	if (fm_ptx_is(a->name, "atom") || fm_ptx_is(a->name, "red"))
		return FM_KILL_ATOMICS;
	if (has(a->opcode, ".volatile") || has(a->opcode, ".relaxed") ||
		has(a->opcode, ".release") || has(a->opcode, ".acquire") ||
		has(a->opcode, ".mmio") || fm_ptx_is(a->name, "fence") ||
		fm_ptx_is(a->name, "membar") || fm_ptx_is(a->name, "nanosleep"))
		return FM_KILL_ORDERED;
	if (fm_ptx_is(a->name, "cp") || fm_ptx_is(a->name, "mbarrier") ||
		fm_ptx_is(a->name, "wgmma") || has(a->opcode, ".async"))
		return FM_KILL_ASYNC;
	*whole |= has(a->opcode, ".shared");
	for (size_t i = 0; i < FM_ARRAY_LEN(together); i++)
		*whole |= fm_ptx_is(a->name, together[i]);
	if (!fm_ptx_is(a->name, "bar") && !fm_ptx_is(a->name, "barrier"))
		return FM_KILL_ABLE;
	*whole = true;
	return has(a->opcode, ".warp") || is_plain_barrier(st, a) ? FM_KILL_ABLE : FM_KILL_BARRIERS;
}

/* whole: threads of a block may need each other. */
static enum fm_kill_why judge_all(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, bool *whole)
{
	struct fm_ptx_walk w = {.s = p->text, .at = k->body, .end = k->body_end, .depth = 1};
	enum fm_kill_why why = FM_KILL_ABLE;
	struct fm_ptx_statement st;
	struct fm_ptx_access a;

	*whole = false;
	while (why == FM_KILL_ABLE && fm_ptx_walk(&w, &st)) {
		fm_ptx_access(st, &a);
		why = judge(st, &a, whole);
	}
	return why;
}

static enum fm_kill_why by_nature(const struct fm_ptx *p, const struct fm_ptx_kernel *k)
{
	unsigned is;

	if (fm_ptx_nature(p, k, &is))
		return FM_KILL_LARGE;
	return is & FM_NATURE_STRANGE   ? FM_KILL_TEXT
	       : is & FM_NATURE_DYNAMIC ? FM_KILL_DYNAMIC
	       : is & FM_NATURE_APPROX  ? FM_KILL_APPROX
					: FM_KILL_ABLE;
}

static enum fm_kill_why of_loop(enum fm_loop_why why)
{
	return why == FM_LOOP_POLLED  ? FM_KILL_ABLE
	       : why == FM_LOOP_LARGE ? FM_KILL_LARGE
	       : why == FM_LOOP_PLACE ? FM_KILL_APPROX
				      : FM_KILL_TEXT;
}

/* Claims that all threads of a warp agree no longer hold where one ends by itself. */
static bool claims(const struct fm_ptx_code *c)
{
	for (uint32_t i = 0; i < c->n_insns; i++)
		if (c->insn[i].uniform)
			return true;
	return false;
}

static enum fm_kill_why find(const struct fm_ptx *p, const struct fm_ptx_kernel *k,
	const struct fm_param *params, struct fm_ptx_kill *out)
{
	enum fm_kill_why why = judge_all(p, k, &out->whole);

	if (why != FM_KILL_ABLE)
		return why;
	if (fm_kernel_mode(k->traits) == FM_GUARD_GRID)
		return FM_KILL_GRID;
	if (k->traits & FM_KERNEL_OVERLAPS)
		return FM_KILL_OVERLAPS;
	why = by_nature(p, k);
	if (why == FM_KILL_ABLE)
		why = of_loop(fm_ptx_code_read_any(p, k, &out->code));
	if (why == FM_KILL_ABLE)
		why = fm_ptx_bases(p, k, params, &out->code, &out->bases);
	if (why != FM_KILL_ABLE)
		return why;
	if (!out->whole && p->version >= 62 && !claims(&out->code))
		return fm_ptx_any(&out->code, &out->sites);
	out->whole = true;
	return fm_ptx_even(p, &out->code, &out->sites);
}

enum fm_kill_why fm_ptx_kill_find(const struct fm_ptx *p, const struct fm_ptx_kernel *k,
	const struct fm_param *params, struct fm_ptx_kill *out)
{
	enum fm_kill_why why;

	*out = (struct fm_ptx_kill){0};
	why = find(p, k, params, out);
	return out->sites.n > UINT16_MAX ? FM_KILL_LARGE : why;
}

void fm_ptx_kill_free(struct fm_ptx_kill *l)
{
	fm_ptx_code_free(&l->code);
	free(l->sites.insn);
	*l = (struct fm_ptx_kill){0};
}

/* --- writing --- */

static void add_look(const struct fm_ptx_writer *w, const struct fm_ptx_kill *l, uint32_t n)
{
	char *label;
	const char *header = fm_ptx_header(w, l->sites.insn[n], &label);

	fm_ptx_write_line(w, "LABEL_LOOK%u:\n", n + 1);
	fm_ptx_write(w, may, header);
	fm_ptx_write(w, l->whole ? look_whole : look_single, header);
	free(label);
}

void fm_ptx_kill_write(const struct fm_ptx_kill *l, const char *text, const struct fm_ptx_kernel *k,
	unsigned n, struct fm_buf *out)
{
	const struct fm_ptx_writer w = {
		&l->code, text, k, n, 0, l->whole ? FM_KILL_WHOLE_LOOK : FM_KILL_SINGLE_LOOK, out};

	fm_ptx_write_string(&w, declarations);
	fm_ptx_write_line(&w, "\tmov.u32 %%fm_left, BUDGET;\n");
	fm_ptx_write_body(&w, l->sites.insn, l->sites.n);
	for (uint32_t i = 0; i < l->sites.n; i++)
		add_look(&w, l, i);
	fm_ptx_write_line(&w, "LABEL_KILL:\n");
	if (!l->whole)
		fm_ptx_write(&w, one_of_many, "");
	fm_ptx_write(&w, leave, "");
}
