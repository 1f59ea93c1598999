/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of images: those of tests/data/images, and places in them. */
#pragma once
#include "code/cuda/attr.h"
#include "code/cuda/elf.h"
#include "code/cuda/image.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct file {
	uint8_t *data;
	size_t size;
};

static inline struct file load(const char *name)
{
	char path[512];
	struct file f = {malloc(1 << 20), 0};
	FILE *from;

	snprintf(path, sizeof(path), "%s/%s", IMAGES, name);
	from = fopen(path, "rb");
	assert_non_null(from);
	f.size = fread(f.data, 1, 1 << 20, from);
	fclose(from);
	/* To its exact size, so that a read behind it is seen. */
	f.data = realloc(f.data, f.size);
	assert_true(f.size > 0 && f.size < 1 << 20);
	return f;
}

static inline void same_image(const struct fm_image *a, const struct fm_image *b)
{
	assert_int_equal(a->size, b->size);
	assert_memory_equal(a->data, b->data, a->size);
	assert_int_equal(a->sm, b->sm);
	assert_int_equal(a->text, b->text);
	assert_int_equal(a->why, b->why);
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->n_rewritten, b->n_rewritten);
	for (unsigned i = 0; i < a->n; i++) {
		const struct fm_kernel *x = &a->kernel[i], *y = &b->kernel[i];

		assert_string_equal(x->name, y->name);
		assert_int_equal(x->why, y->why);
		assert_int_equal(x->traits, y->traits);
		assert_int_equal(x->early, y->early);
		assert_int_equal(x->guard_at, y->guard_at);
		assert_int_equal(x->param_bytes, y->param_bytes);
		assert_memory_equal(x->regs, y->regs, sizeof(x->regs));
		assert_int_equal(x->n_params, y->n_params);
		if (x->n_params)
			assert_memory_equal(x->params, y->params, x->n_params * sizeof(*x->params));
	}
}

static inline struct fm_elf elf_of(const void *data, size_t size)
{
	struct fm_elf e;

	assert_int_equal(fm_elf_read(data, size, &e), FM_IMAGE_OK);
	return e;
}

static inline unsigned section(const struct fm_elf *e, const char *prefix, const char *kernel)
{
	char name[256];

	snprintf(name, sizeof(name), "%s%s", prefix, kernel);
	for (unsigned i = 1; i < e->n; i++)
		if (!strcmp(e->s[i].name, name))
			return i;
	fail_msg("no section %s", name);
	return 0;
}

static inline unsigned symbol(const struct fm_elf *e, const char *name)
{
	for (unsigned i = 1; i < e->n_symbols; i++) {
		Elf64_Sym s = fm_elf_symbol(e, i);

		if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && !strcmp(fm_elf_name(e, &s), name))
			return i;
	}
	fail_msg("no symbol %s", name);
	return 0;
}

static inline const struct fm_kernel *kernel(const struct fm_image *i, const char *name)
{
	for (unsigned k = 0; k < i->n; k++)
		if (!strcmp(i->kernel[k].name, name))
			return &i->kernel[k];
	fail_msg("no kernel %s", name);
	return NULL;
}

/* The first attribute of a kind; false if there is none. */
static inline bool attribute(const struct fm_section *s, uint8_t kind, struct fm_attr *a)
{
	size_t at = 0;

	while (fm_attr_next(s->data, s->size, &at, a) > 0)
		if (a->kind == kind)
			return true;
	return false;
}
