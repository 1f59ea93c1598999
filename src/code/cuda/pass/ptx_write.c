/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_write.h"
#include "base/util.h"
#include "device/guardian.h"
#include <stdarg.h>
#include <stdio.h>

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
	unsigned save, unsigned most)
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
	snprintf(budget, sizeof(budget), "%u", most);
	replace(out, pattern, pairs);
	free(name);
}

void fm_ptx_add_text(struct fm_buf *out, const char *pattern, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, bool waits)
{
	add_pattern(out, pattern, text, k, n, waits ? fm_guardian_wait : "", "", 0, 0);
}

void fm_ptx_write_string(const struct fm_ptx_writer *w, const char *s)
{
	add_string(w->out, s);
}

void fm_ptx_write(const struct fm_ptx_writer *w, const char *pattern, const char *other)
{
	add_pattern(w->out, pattern, w->text, w->k, w->n, "", other, w->save, w->budget);
}

void fm_ptx_write_line(const struct fm_ptx_writer *w, const char *form, ...)
{
	char s[256];
	va_list list;

	va_start(list, form);
	vsnprintf(s, sizeof(s), form, list);
	va_end(list);
	fm_ptx_write(w, s, "");
}

void fm_ptx_write_reg(const struct fm_ptx_writer *w, uint32_t reg)
{
	const struct fm_ptx_reg *r = &w->code->reg[reg];
	char number[16];

	fm_buf_add(w->out, w->text + r->name, r->len);
	if (r->member == FM_PTX_ALONE)
		return;
	snprintf(number, sizeof(number), "%u", r->member);
	add_string(w->out, number);
}

const char *fm_ptx_header(const struct fm_ptx_writer *w, uint32_t insn, char **label)
{
	const struct fm_ptx_insn *branch = &w->code->insn[insn];

	*label = strndup(w->text + branch->label, branch->label_len);
	if (!*label)
		w->out->failed = true;
	return *label ? *label : "";
}

/* The instructions from the place where the loop begins again to that branch, in the order of the
 * text. */
static unsigned weight(const struct fm_ptx_writer *w, const struct fm_ptx_insn *insn)
{
	unsigned sum = 0;

	for (const struct fm_ptx_insn *i = &w->code->insn[insn->target];
		i <= insn && sum < w->budget; i++)
		sum += i->weight;
	return FM_MIN(sum, w->budget);
}

static void write_branch(const struct fm_ptx_writer *w, uint32_t at, uint32_t n)
{
	const struct fm_ptx_insn *insn = &w->code->insn[at];
	const char *header;
	char *label;

	header = fm_ptx_header(w, at, &label);
	fm_ptx_write_line(w, "sub.s32 %%fm_left, %%fm_left, %u;\n", weight(w, insn));
	if (insn->guard == FM_PTX_NONE) {
		add_string(w->out, "\tsetp.gt.s32 %fm_keep, %fm_left, 0;\n\t@%fm_keep bra ");
	} else {
		add_string(w->out, "\tsetp.gt.and.s32 %fm_keep, %fm_left, 0, ");
		add_string(w->out, insn->negated ? "!" : "");
		fm_ptx_write_reg(w, insn->guard);
		add_string(w->out, ";\n\t@%fm_keep bra ");
	}
	add_string(w->out, header);
	add_string(w->out, ";\n\t");
	if (insn->guard != FM_PTX_NONE) {
		add_string(w->out, insn->negated ? "@!" : "@");
		fm_ptx_write_reg(w, insn->guard);
		add_string(w->out, " ");
	}
	fm_ptx_write_line(w, "bra LABEL_LOOK%u;", n + 1);
	free(label);
}

void fm_ptx_write_body(const struct fm_ptx_writer *w, const uint32_t *insn, uint32_t n)
{
	size_t at = w->k->body;

	for (uint32_t i = 0; i < n; i++) {
		const struct fm_ptx_insn *branch = &w->code->insn[insn[i]];

		fm_buf_add(w->out, w->text + at, branch->at - at);
		write_branch(w, insn[i], i);
		at = branch->end;
	}
	fm_buf_add(w->out, w->text + at, w->k->body_end - at);
	add_string(w->out, "\n\texit;\n");
}
