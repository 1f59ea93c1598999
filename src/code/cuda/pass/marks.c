/* SPDX-License-Identifier: Apache-2.0 */
#include "marks.h"
#include "access.h"
#include "base/util.h"
#include "code/cuda/bytes.h"
#include "device/accessed.h"
#include "device/touched.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is put in front of an access. */
struct mark {
	const char *module; /* of a text: the word, and */
	const char *function;
	const char *call; /* its name */
	bool kinds;       /* it is told what the access does; what is not understood has none */
};

static enum fm_accessed_kind kind_of(const struct fm_ptx_access *a)
{
	return a->kind == FM_PTX_LOAD    ? (a->stale ? FM_ACCESSED_LATER : FM_ACCESSED_READ)
	       : a->kind == FM_PTX_STORE ? FM_ACCESSED_WRITE
	       : a->kind == FM_PTX_ASYNC ? FM_ACCESSED_LATER
					 : FM_ACCESSED_ATOMIC;
}

static int add_mark(struct fm_buf *out, const struct mark *m, const struct fm_ptx_access *a)
{
	char line[512], param[32] = "", store[48] = "";
	bool variable = *a->base.s != '%';
	int n;

	if (m->kinds) {
		strcpy(param, " .param .b32 fm_k;");
		sprintf(store, " st.param.b32 [fm_k], %d;", (int)kind_of(a));
	}
	n = snprintf(line, sizeof(line),
		"{ .reg .b64 %%fm_at; .param .b64 fm_a; .param .b32 fm_n;%s\n"
		"%s%.*s%sadd.s64 %%fm_at, %.*s, %" PRId64 ";\n"
		"st.param.b64 [fm_a], %%fm_at; st.param.b32 [fm_n], %u;%s\n"
		"%.*s call %s, (fm_a, fm_n%s); }\n",
		param, variable ? "mov.u64 %fm_at, " : "", variable ? (int)a->base.n : 0, a->base.s,
		variable ? ";\n" : "", variable ? 6 : (int)a->base.n,
		variable ? "%fm_at" : a->base.s, a->plus, a->bytes, store, (int)a->guard.n,
		a->guard.s, m->call, m->kinds ? ", fm_k" : "");
	if (n < 0 || n >= (int)sizeof(line))
		return -EINVAL;
	fm_buf_add(out, line, (size_t)n);
	return 0;
}

static int mark(struct fm_buf *out, const struct mark *m, struct fm_ptx_statement st)
{
	struct fm_ptx_access a;

	fm_ptx_access(st, &a);
	if (a.kind == FM_PTX_OTHER)
		return 0;
	if (m->kinds)
		return fm_ptx_access_known(&a) ? add_mark(out, m, &a) : 0;
	if (a.kind == FM_PTX_STRANGE)
		return -EOPNOTSUPP;
	/* No pointer leads to a variable. */
	return a.base.n && *a.base.s == '%' ? add_mark(out, m, &a) : 0;
}

/* A call does not keep the carry flag: there is no mark between what sets it and what reads it. By
 * the order of the text, so what a jump leads past is refused, too. */
enum carry { CARRY_FREE, CARRY_SET, CARRY_LOST };
static bool keeps_carry(struct fm_ptx_statement st, bool marked, enum carry *carry)
{
	struct fm_ptx_access a;

	fm_ptx_access(st, &a);
	if (marked && *carry == CARRY_SET)
		*carry = CARRY_LOST;
	if (*carry == CARRY_LOST && (fm_ptx_is(a.name, "addc") || fm_ptx_is(a.name, "subc") ||
					    fm_ptx_is(a.name, "madc")))
		return false;
	if (memmem(a.opcode.s, a.opcode.n, ".cc", 3))
		*carry = CARRY_SET;
	return true;
}

/* So many registers that the largest block can be launched: a kernel that says nothing of its
 * blocks may take more than it would without marks. */
#define ANY_BLOCK " .maxnreg 64\n"

static bool is_limited(const struct fm_ptx *p, const struct fm_ptx_kernel *k)
{
	static const char *const limits[] = {".maxnreg", ".maxntid", ".reqntid", ".minnctapersm"};
	size_t from = k->has_list ? k->list_end : k->name + k->name_len;

	for (size_t i = 0; i < FM_ARRAY_LEN(limits); i++)
		if (memmem(p->text + from, k->body - from, limits[i], strlen(limits[i])))
			return true;
	return false;
}

/* The program's own text, up to `to'. */
struct own {
	const char *text;
	const struct fm_ptx *p;
	size_t done;
	unsigned kernel; /* the next whose head has not been copied */
};
static void copy_own(struct fm_buf *out, struct own *o, size_t to)
{
	for (; o->kernel < o->p->n && o->p->kernel[o->kernel].body <= to; o->kernel++) {
		size_t brace = o->p->kernel[o->kernel].body - 1;

		if (brace < o->done || is_limited(o->p, &o->p->kernel[o->kernel]))
			continue;
		fm_buf_add(out, o->text + o->done, brace - o->done);
		fm_buf_add(out, ANY_BLOCK, strlen(ANY_BLOCK));
		o->done = brace;
	}
	fm_buf_add(out, o->text + o->done, to - o->done);
	o->done = to;
}

/* Bodies of kernels and functions, one after the other. */
static int mark_all(const char *text, const struct fm_ptx *p, size_t done, const struct mark *m,
	struct fm_buf *out)
{
	struct fm_ptx_walk w = {.s = p->text, .at = done, .end = p->size};
	struct fm_ptx_statement st;
	struct own own = {.text = text, .p = p, .done = done};
	enum carry carry = CARRY_FREE;
	int rc = 0;

	while (!rc && fm_ptx_walk(&w, &st)) {
		size_t was;

		copy_own(out, &own, (size_t)(st.s - p->text));
		was = out->size;
		rc = mark(out, m, st);
		if (!rc && !keeps_carry(st, out->size > was, &carry))
			rc = -EOPNOTSUPP;
	}
	copy_own(out, &own, p->size);
	return rc;
}

/* Behind the head of the module. 0: it is not of 64-bit addresses. */
static size_t past_head(const struct fm_ptx *p)
{
	static const char size[] = ".address_size";
	const char *at = memmem(p->text, p->size, size, strlen(size));
	size_t i;

	if (!at)
		return 0;
	i = fm_ptx_blanks(p->text, (size_t)(at - p->text) + strlen(size), p->size);
	return p->size - i > 2 && !memcmp(p->text + i, "64", 2) ? i + 2 : 0;
}

static int rewrite(const char *text, size_t size, const struct mark *m, char **out)
{
	struct fm_ptx p = {0};
	struct fm_buf made = {0};
	size_t head = 0;
	int rc = -EINVAL;

	*out = NULL;
	if (!memmem(text, size, "fermata_touched", 15) &&
		!memmem(text, size, "fermata_accessed", 16) && !fm_ptx_scan(text, size, 0, &p))
		head = past_head(&p);
	if (head) {
		fm_buf_add(&made, text, head);
		fm_buf_add(&made, m->module, strlen(m->module));
		fm_buf_add(&made, m->function, strlen(m->function));
		rc = mark_all(text, &p, head, m, &made);
		fm_buf_add(&made, NULL, 1);
	}
	fm_ptx_free(&p);
	if (!rc && made.failed)
		rc = -ENOMEM;
	if (rc)
		free(made.data);
	else
		*out = (char *)made.data;
	return rc;
}

#define WORD(name) "\n.visible .global .align 8 .u64 " name ";\n"

int fm_ptx_marks(const char *text, size_t size, char **out)
{
	static const struct mark touched = {
		WORD(FM_TOUCHED_TABLE), fm_touched_text, FM_TOUCHED_MARK, false};

	return rewrite(text, size, &touched, out);
}

int fm_ptx_marks_kinds(const char *text, size_t size, char **out)
{
	static const struct mark accessed = {
		WORD(FM_ACCESSED_TABLE), fm_accessed_text, FM_ACCESSED_MARK, true};

	return rewrite(text, size, &accessed, out);
}
