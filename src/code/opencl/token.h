/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the module: OpenCL C as an array of preprocessing tokens. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fm_token_kind { FM_TOK_WORD, FM_TOK_PUNCT, FM_TOK_OTHER, FM_TOK_DIRECTIVE };

/* The words that the guardian distinguishes. */
enum fm_word {
	FM_W_NONE, /* any other */
	FM_W_KERNEL,
	FM_W_VOID,
	FM_W_ATTRIBUTE,
	FM_W_LOOP, /* for, while */
	FM_W_DO,
	FM_W_ELSE,
	FM_W_RETURN,
	FM_W_IF,
	FM_W_GOTO,
	FM_W_STATIC,
	FM_W_GLOBAL,
	FM_W_VOLATILE,
	FM_W_FENCE,
	FM_W_ATOMIC,   /* any other atomic function, or a type */
	FM_W_EXCHANGE, /* compare and exchange */
	FM_W_ENQUEUE,
	FM_W_PIPE,
	FM_W_PRINT,
	FM_W_OURS, /* fermata_guard... */
	FM_W_DEFINE,
	FM_W_UNDEF,
	FM_W_INCLUDE,
	FM_W_ENDIF,
	FM_W_ELIF,
	FM_W_IFDEF, /* ifdef, ifndef */
	FM_W_TYPEDEF,
};

struct fm_token {
	uint32_t at, end; /* offsets in the text */
	uint8_t kind, word;
	char punct;
	bool directive; /* part of a directive */
};

struct fm_tokens {
	const char *text;
	struct fm_token *tok;
	uint32_t n, cap;
};

/* Returns 0, -ENOMEM, -EFBIG, or -EINVAL for a comment without an end and for spellings that are
 * not supported (digraphs, trigraphs, zero bytes). A quotation without an end stops at the end of
 * its line, as it does in text that the preprocessor removes. */
int fm_tokens_read(struct fm_tokens *t, const char *text, size_t len);
void fm_tokens_free(struct fm_tokens *t);

/* The next or the previous token outside of directives; if there is none, n or UINT32_MAX. */
uint32_t fm_tokens_next(const struct fm_tokens *t, uint32_t i);
uint32_t fm_tokens_prev(const struct fm_tokens *t, uint32_t i);
/* The parenthesis (brace, bracket) that closes the one at i; t->n if there is none. */
uint32_t fm_tokens_close(const struct fm_tokens *t, uint32_t i);
/* The parenthesis that the one at i closes; UINT32_MAX if there is none. */
uint32_t fm_tokens_open(const struct fm_tokens *t, uint32_t i);

static inline bool fm_token_is(const struct fm_tokens *t, uint32_t i, char punct)
{
	return i < t->n && t->tok[i].kind == FM_TOK_PUNCT && t->tok[i].punct == punct;
}

static inline bool fm_token_word(const struct fm_tokens *t, uint32_t i, enum fm_word word)
{
	return i < t->n && t->tok[i].kind == FM_TOK_WORD && t->tok[i].word == word;
}

/* Are the two tokens spelled alike? */
bool fm_token_same(const struct fm_tokens *t, uint32_t a, uint32_t b);

/* waits.c: may work-groups of the program wait for each other? */
bool fm_tokens_may_wait(const struct fm_tokens *t);
