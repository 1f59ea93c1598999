/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers of 16 bytes as people write and read them: "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9",
 * the bytes in their order. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define FM_UUID_SIZE 16
#define FM_UUID_TEXT 37

const char *fm_uuid_text(const unsigned char id[FM_UUID_SIZE], char buf[FM_UUID_TEXT]);

/* 32 hex digits in either case, with or without the hyphens. len: of the text. */
bool fm_uuid_parse(const char *s, size_t len, unsigned char id[FM_UUID_SIZE]);

/* The next word of a list between commas or spaces; NULL: there is none. *len: of the word. */
const char *fm_uuid_next(const char *list, size_t *len);
