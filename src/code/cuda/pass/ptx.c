/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx.h"
#include "code/cuda/bytes.h"
#include "cubin.h"
#include "device/guardian.h"
#include "ptx_kill.h"
#include "ptx_loop.h"
#include "ptx_write.h"

bool fm_is_ptx(const void *text, size_t size)
{
	const char *s = text;

	return size &&
	       (*s == '.' || *s == '/' || *s == ' ' || *s == '\n' || *s == '\r' || *s == '\t') &&
	       memmem(s, size, ".version", 8);
}

static void add_text(struct fm_buf *out, const char *s)
{
	fm_buf_add(out, s, strlen(s));
}

static void add_params(struct fm_buf *out, const char *text, const struct fm_ptx_kernel *k)
{
	static const char *const ours[FM_GUARD_PARAMS] = {
		"_fermata_stop", "_fermata_block", "_fermata_launch"};

	if (!k->has_list)
		add_text(out, "(");
	for (unsigned i = 0; i < FM_GUARD_PARAMS; i++) {
		add_text(out, i || k->has_params ? ",\n\t.param .u64 " : "\n\t.param .u64 ");
		fm_buf_add(out, text + k->name, k->name_len);
		add_text(out, ours[i]);
	}
	add_text(out, k->has_list ? "\n" : "\n)");
}

/* Where parameters begin in the constant bank. 0: unknown; but it is always a multiple of SURELY.
 */
#define SURELY 16
static unsigned param_base(unsigned sm)
{
	if (sm < 70 || sm > 121)
		return 0;
	return sm < 90 ? 0x160 : sm < 100 ? 0x210 : 0x380;
}

/* Has the language fm_guardian_wait? */
static bool has_wait(const struct fm_ptx *p)
{
	return p->sm >= 90 && p->version >= 78;
}

/* Old versions of the language allow no more parameters. The compiler allocates registers. */
static enum fm_kernel_why decide(const struct fm_ptx *p, const struct fm_ptx_kernel *k)
{
	return (!p->base && k->align > SURELY) ||
			       ((k->bytes + 7) & ~7u) + FM_GUARD_BYTES > FM_PARAMS_V1
		       ? FM_KERNEL_PARAMS
		       : FM_KERNEL_REWRITTEN;
}

static bool note(
	const char *text, const struct fm_ptx *p, struct fm_ptx_kernel *from, struct fm_kernel *k)
{
	k->name = strndup(text + from->name, from->name_len);
	k->why = decide(p, from);
	k->traits = from->traits;
	if (k->why)
		return k->name;
	k->early = has_wait(p) && !(k->traits & FM_KERNEL_OVERLAPS);
	k->n_params = from->n_params;
	k->params = from->params;
	from->params = NULL;
	k->param_bytes = (uint16_t)from->bytes;
	k->guard_at = (uint16_t)((from->bytes + 7) & ~7u);
	return k->name;
}

/* The body, if the kernel should be left in loops, and can be. */
static bool write_loops(const char *text, const struct fm_ptx *p, unsigned i, const char *asked,
	struct fm_kernel *kernel, struct fm_buf *out)
{
	struct fm_ptx_loops l;

	if (!fm_listed(asked, kernel->name))
		return false;
	kernel->loops = fm_ptx_loops_find(p, &p->kernel[i], &l);
	if (kernel->loops == FM_LOOP_POLLED) {
		kernel->n_loops = (uint16_t)l.n;
		kernel->save_bytes = l.save_bytes;
		fm_ptx_loops_write(&l, text, &p->kernel[i], i, out);
	}
	fm_ptx_loops_free(&l);
	return kernel->loops == FM_LOOP_POLLED;
}

/* The body, if the kernel should be killed, and can be. */
static bool write_kill(const char *text, const struct fm_ptx *p, unsigned i, const char *asked,
	struct fm_kernel *kernel, struct fm_buf *out)
{
	struct fm_ptx_kill l;

	if (!fm_named(asked, kernel->name))
		return false;
	kernel->kill = fm_ptx_kill_find(p, &p->kernel[i], kernel->params, &l);
	if (kernel->kill == FM_KILL_ABLE) {
		kernel->n_kills = (uint16_t)l.sites.n;
		kernel->bases = l.bases;
		fm_ptx_kill_write(&l, text, &p->kernel[i], i, out);
	}
	fm_ptx_kill_free(&l);
	return kernel->kill == FM_KILL_ABLE;
}

static bool write_body(const char *text, const struct fm_ptx *p, unsigned i,
	const struct fm_image_wishes *wishes, struct fm_kernel *kernel, struct fm_buf *out)
{
	if (!write_loops(text, p, i, wishes->loops, kernel, out))
		return write_kill(text, p, i, wishes->kill, kernel, out);
	if (fm_named(wishes->kill, kernel->name))
		kernel->kill = FM_KILL_LOOPS;
	return true;
}

static void write_text(const char *text, const struct fm_ptx *p,
	const struct fm_image_wishes *wishes, struct fm_kernel *kernel, struct fm_buf *out)
{
	size_t at = 0;

	for (unsigned i = 0; i < p->n; i++) {
		const struct fm_ptx_kernel *k = &p->kernel[i];
		size_t list = k->has_list ? k->list_end : k->name + k->name_len;

		if (kernel[i].why)
			continue;
		fm_buf_add(out, text + at, list - at);
		add_params(out, text, k);
		fm_buf_add(out, text + list, k->body - list);
		add_text(out, "\n");
		if (kernel[i].early)
			add_text(out, fm_guardian_wait);
		fm_ptx_add_text(out, fm_guardian_ptx, text, k, i, has_wait(p));
		at = write_body(text, p, i, wishes, &kernel[i], out) ? k->body_end : k->body;
	}
	fm_buf_add(out, text + at, p->size - at);
	fm_buf_add(out, NULL, 1);
}

/* Reads the result again: each kernel must have three more parameters where they were put.
 * fm_ptx_scan refuses a text with our names as already rewritten, so they are renamed in the copy.
 */
static bool verify(const struct fm_buf *made, unsigned base, const struct fm_image *out)
{
	char *copy = malloc(made->size), *s;
	struct fm_ptx p = {0};
	bool right = false;

	if (!copy)
		return false;
	memcpy(copy, made->data, made->size);
	for (s = copy; (s = strstr(s, "_fermata_"));)
		*s = 'X';
	for (s = copy; (s = strstr(s, "%fm_"));)
		s[3] = 'X';
	if (!fm_ptx_scan(copy, made->size - 1, base, &p) && p.n == out->n) {
		right = true;
		for (unsigned i = 0; i < p.n && right; i++) {
			const struct fm_ptx_kernel *is = &p.kernel[i];
			const struct fm_kernel *was = &out->kernel[i];
			unsigned first = is->n_params - FM_GUARD_PARAMS;

			if (was->why)
				continue;
			right = is->n_params == was->n_params + FM_GUARD_PARAMS &&
				is->params[first].at == was->guard_at &&
				is->bytes == was->guard_at + (unsigned)FM_GUARD_BYTES &&
				(!was->n_params || !memcmp(is->params, was->params,
							   was->n_params * sizeof(*was->params)));
		}
	}
	fm_ptx_free(&p);
	free(copy);
	return right;
}

static enum fm_image_why rewrite(const char *text, struct fm_ptx *p,
	const struct fm_image_wishes *wishes, struct fm_image *out)
{
	struct fm_buf made = {0};

	out->kernel = calloc(p->n, sizeof(*out->kernel));
	if (!out->kernel)
		return FM_IMAGE_MEMORY;
	for (; out->n < p->n; out->n++) {
		struct fm_kernel *k = &out->kernel[out->n];

		if (!note(text, p, &p->kernel[out->n], k))
			return FM_IMAGE_MEMORY;
		out->n_rewritten += k->why == FM_KERNEL_REWRITTEN;
	}
	if (!out->n_rewritten)
		return FM_IMAGE_NO_KERNEL;
	write_text(text, p, wishes, out->kernel, &made);
	if (made.failed || !verify(&made, p->base, out)) {
		enum fm_image_why why = made.failed ? FM_IMAGE_MEMORY : FM_IMAGE_VERIFY;

		fm_buf_free(&made);
		return why;
	}
	out->data = made.data;
	out->size = made.size;
	out->text = true;
	return FM_IMAGE_OK;
}

enum fm_image_why fm_ptx_rewrite(const char *text, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out)
{
	struct fm_ptx p;
	enum fm_image_why why;

	size = strnlen(text, size);
	why = fm_ptx_scan(text, size, param_base(sm), &p);
	out->sm = p.sm;
	if (!why)
		why = rewrite(text, &p, wishes, out);
	fm_ptx_free(&p);
	return why;
}
