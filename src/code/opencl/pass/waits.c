/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a work-group wait for another? OpenCL does not guarantee that such a program works, but it
 * may; and it would not if one group has started and the other has been held back. Waiting means
 * reading repeatedly what other groups write: in a loop, by an atomic whose value is used, by a
 * volatile, or behind a fence. Text that looks like this is refused. A wait in an included file is
 * not seen; that does no lasting harm, since a launch that goes on runs the groups left out beside
 * the waiting ones.
 *
 * A loop that compares and exchanges until it succeeds is no wait: it fails only if another group
 * has made progress.
 */
#include "code/opencl/token.h"

#define NAMES_MAX 64u
#define DEPTH_MAX 256u

enum loop { COND, BODY, STATEMENT };

struct walk {
	const struct fm_tokens *t;
	uint32_t volatiles[NAMES_MAX]; /* tokens with the names of volatile variables */
	unsigned names;
	unsigned braces, parens;
	struct {
		enum loop kind;
		unsigned braces, parens;
	} loop[DEPTH_MAX];
	unsigned loops;
	bool in_kernel, kernel_ahead; /* the function around this place; the one that comes */
	bool jumps;                   /* there are gotos: any place may be in a loop */
};

static bool suspicious(enum fm_word w)
{
	return w == FM_W_ATOMIC || w == FM_W_EXCHANGE || w == FM_W_VOLATILE || w == FM_W_FENCE;
}

/* Is there any word that a wait needs? A word in a directive may stand anywhere, by a macro. */
static bool any_suspicion(const struct fm_tokens *t, bool directive)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->tok[i].kind == FM_TOK_WORD && suspicious(t->tok[i].word) &&
			(!directive || t->tok[i].directive))
			return true;
	return false;
}

/* Do braces match in every branch of each #if, so that they show the structure? */
static bool braces_tell(const struct fm_tokens *t)
{
	unsigned at_if[DEPTH_MAX], ifs = 0, depth = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct fm_token *d = i + 1 < t->n ? &t->tok[i + 1] : NULL;

		if (t->tok[i].kind == FM_TOK_DIRECTIVE && d && d->directive) {
			if (d->word == FM_W_IF || d->word == FM_W_IFDEF) {
				if (ifs == DEPTH_MAX)
					return false;
				at_if[ifs++] = depth;
			} else if (d->word == FM_W_ELSE || d->word == FM_W_ELIF ||
				   d->word == FM_W_ENDIF) {
				if (!ifs || at_if[ifs - 1] != depth)
					return false;
				ifs -= d->word == FM_W_ENDIF;
			}
		} else if (!t->tok[i].directive && fm_token_is(t, i, '{')) {
			depth++;
		} else if (!t->tok[i].directive && fm_token_is(t, i, '}') && depth-- == 0) {
			return false;
		}
	}
	return !depth && !ifs;
}

/* Notes the names that a declaration with `volatile` at i declares: the last word in front of each
 * comma and of the end. False: there are too many, or the text is not understood. */
static bool note_volatile(struct walk *w, uint32_t i)
{
	const struct fm_tokens *t = w->t;
	uint32_t word = t->n;

	for (i = fm_tokens_next(t, i); i < t->n; i = fm_tokens_next(t, i)) {
		char c = t->tok[i].kind == FM_TOK_PUNCT ? t->tok[i].punct : 0;

		if (t->tok[i].kind == FM_TOK_WORD) {
			word = i;
			continue;
		}
		if (c == '*' && word < t->n)
			continue;
		if (word == t->n || w->names == NAMES_MAX)
			return false;
		w->volatiles[w->names++] = word;
		if (c == ';' || c == '{' || (c == ',' && w->parens) || c == ')')
			return true;
		if (c == '[' || c == '(')
			i = fm_tokens_close(t, i);
		else if (c != ',' && c != '=' && t->tok[i].kind != FM_TOK_OTHER)
			return false;
	}
	return false;
}

static bool is_volatile(const struct walk *w, uint32_t i)
{
	for (unsigned n = 0; n < w->names; n++)
		if (i > w->volatiles[n] && fm_token_same(w->t, i, w->volatiles[n]))
			return true;
	return false;
}

static bool in_loop(const struct walk *w)
{
	return w->loops || w->jumps || !w->in_kernel;
}

/* Is the value of a call used? Its name is at i, its last parenthesis at end. */
static bool value_used(const struct fm_tokens *t, uint32_t i, uint32_t end)
{
	uint32_t before = fm_tokens_prev(t, i), open;

	if (before == UINT32_MAX || !fm_token_is(t, fm_tokens_next(t, end), ';'))
		return true;
	if (fm_token_is(t, before, ')')) {
		open = fm_tokens_open(t, before);
		before = open == UINT32_MAX ? open : fm_tokens_prev(t, open);
		return before == UINT32_MAX ||
		       !(fm_token_word(t, before, FM_W_IF) || fm_token_word(t, before, FM_W_LOOP));
	}
	return !(fm_token_is(t, before, ';') || fm_token_is(t, before, '{') ||
		 fm_token_is(t, before, '}') || fm_token_word(t, before, FM_W_ELSE));
}

/* The first token of the argument behind this comma. *end: the next comma, or the parenthesis. */
static uint32_t argument(const struct fm_tokens *t, uint32_t from, uint32_t close, uint32_t *end)
{
	uint32_t first = fm_tokens_next(t, from), i = first;

	while (i < close && !fm_token_is(t, i, ',')) {
		if (fm_token_is(t, i, '(') || fm_token_is(t, i, '['))
			i = fm_tokens_close(t, i);
		if (i < close)
			i = fm_tokens_next(t, i);
	}
	*end = i < close ? i : close;
	return first;
}

static bool has_lower(const struct fm_tokens *t, uint32_t i)
{
	for (uint32_t c = t->tok[i].at; c < t->tok[i].end; c++)
		if (t->text[c] >= 'a' && t->text[c] <= 'z')
			return true;
	return false;
}

/* Does a loop around this compare-and-exchange wait? Yes, if it expects a constant, for which it
 * would wait, or if it writes what it expects, which is a mere read. */
static bool exchange_waits(const struct fm_tokens *t, uint32_t open, uint32_t close)
{
	uint32_t end, second, second_end, third, third_end;
	bool variable = false;

	argument(t, open, close, &end);
	second = argument(t, end, close, &second_end);
	if (end >= close || second_end >= close)
		return true;
	third = argument(t, second_end, close, &third_end);
	for (uint32_t i = second; i < second_end; i = fm_tokens_next(t, i))
		variable |= t->tok[i].kind == FM_TOK_WORD && has_lower(t, i);
	if (!variable)
		return true;
	while (second < second_end && third < third_end && fm_token_same(t, second, third)) {
		second = fm_tokens_next(t, second);
		third = fm_tokens_next(t, third);
	}
	return second == second_end && third == third_end;
}

/* May the atomic at *i be a wait? If not, *i becomes the end of the call, behind its arguments. */
static bool atomic_waits(struct walk *w, uint32_t *i)
{
	const struct fm_tokens *t = w->t;
	bool exchange = t->tok[*i].word == FM_W_EXCHANGE;
	uint32_t open = fm_tokens_next(t, *i), close;

	if (!fm_token_is(t, open, '('))
		return exchange; /* without a call it is a type */
	close = fm_tokens_close(t, open);
	if (close == t->n)
		return true;
	if (in_loop(w) && (exchange ? exchange_waits(t, open, close) : value_used(t, *i, close)))
		return true;
	*i = close;
	return false;
}

static bool push_loop(struct walk *w, enum loop kind)
{
	if (w->loops == DEPTH_MAX)
		return false;
	w->loop[w->loops].kind = kind;
	w->loop[w->loops].braces = w->braces;
	w->loop[w->loops].parens = w->parens;
	w->loops++;
	return true;
}

/* A parenthesis closes, maybe that of a loop's condition: then the loop's body follows. */
static void close_paren(struct walk *w, uint32_t i)
{
	uint32_t next = fm_tokens_next(w->t, i);

	w->parens -= w->parens > 0;
	if (!w->loops || w->loop[w->loops - 1].kind != COND ||
		w->loop[w->loops - 1].parens != w->parens)
		return;
	w->loop[w->loops - 1].kind = fm_token_is(w->t, next, '{') ? BODY : STATEMENT;
}

static void close_brace(struct walk *w)
{
	w->braces -= w->braces > 0;
	while (w->loops && (w->loop[w->loops - 1].braces > w->braces ||
				   (w->loop[w->loops - 1].kind == BODY &&
					   w->loop[w->loops - 1].braces == w->braces)))
		w->loops--;
	if (!w->braces)
		w->in_kernel = w->kernel_ahead = false;
}

static void semicolon(struct walk *w)
{
	while (w->loops && w->loop[w->loops - 1].kind == STATEMENT &&
		w->loop[w->loops - 1].braces == w->braces && !w->parens)
		w->loops--;
	if (!w->braces)
		w->kernel_ahead = false;
}

static void punct(struct walk *w, uint32_t i)
{
	switch (w->t->tok[i].punct) {
	case '(':
		w->parens++;
		break;
	case ')':
		close_paren(w, i);
		break;
	case '{':
		if (!w->braces++)
			w->in_kernel = w->kernel_ahead;
		break;
	case '}':
		close_brace(w);
		break;
	case ';':
		semicolon(w);
		break;
	default:
		break;
	}
}

/* True: the word may be part of a wait. */
static bool word(struct walk *w, uint32_t *i)
{
	const struct fm_tokens *t = w->t;

	switch (t->tok[*i].word) {
	case FM_W_KERNEL:
		w->kernel_ahead = true;
		return false;
	case FM_W_LOOP:
		return !push_loop(w, COND);
	case FM_W_DO:
		return !push_loop(w, fm_token_is(t, fm_tokens_next(t, *i), '{') ? BODY : STATEMENT);
	case FM_W_VOLATILE:
		return !w->braces && !w->parens ? true : !note_volatile(w, *i);
	case FM_W_FENCE:
		return in_loop(w);
	case FM_W_ATOMIC:
	case FM_W_EXCHANGE:
		return atomic_waits(w, i);
	default:
		return in_loop(w) && w->braces && is_volatile(w, *i);
	}
}

bool fm_tokens_may_wait(const struct fm_tokens *t)
{
	struct walk w = {.t = t};

	if (!any_suspicion(t, false))
		return false;
	if (any_suspicion(t, true) || !braces_tell(t))
		return true;
	for (uint32_t i = 0; i < t->n; i++)
		w.jumps |= t->tok[i].word == FM_W_GOTO;
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->tok[i].directive)
			continue;
		if (t->tok[i].kind == FM_TOK_PUNCT)
			punct(&w, i);
		else if (t->tok[i].kind == FM_TOK_WORD && word(&w, &i))
			return true;
	}
	return false;
}
