/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"
#include "base/util.h"
#include <errno.h>

/* The data; then each kernel; and at the end: sm, text, kernels, kernels rewritten, size of the
 * data.
 */
#define TAIL 24
/* why, traits, parameters, bytes of them, where ours begin, registers before and after, loops: why
 * not, how many, bytes that are kept; early; kills: why not, how many, bases; length of the name;
 * then the name, then place and size of each parameter. */
#define KERNEL 38

static void put32(struct fm_buf *out, uint32_t v)
{
	fm_buf_add(out, &v, sizeof(v));
}

static void put16(struct fm_buf *out, uint16_t v)
{
	fm_buf_add(out, &v, sizeof(v));
}

static void pack_kernel(const struct fm_kernel *k, struct fm_buf *out)
{
	unsigned n = k->why ? 0 : k->n_params;
	size_t name = strlen(k->name);

	put16(out, (uint16_t)k->why);
	put16(out, (uint16_t)k->traits);
	put16(out, (uint16_t)n);
	put16(out, k->param_bytes);
	put16(out, k->guard_at);
	put16(out, k->regs[0]);
	put16(out, k->regs[1]);
	put16(out, (uint16_t)k->loops);
	put16(out, k->n_loops);
	put16(out, k->save_bytes);
	put16(out, k->early);
	put16(out, (uint16_t)k->kill);
	put16(out, k->n_kills);
	fm_buf_add(out, &k->bases, sizeof(k->bases));
	put32(out, (uint32_t)name);
	fm_buf_add(out, k->name, name);
	for (unsigned i = 0; i < n; i++) {
		put16(out, k->params[i].at);
		put16(out, k->params[i].size);
	}
}

void fm_pack(const struct fm_image *image, struct fm_buf *out)
{
	uint64_t size = image->size;

	fm_buf_add(out, image->data, image->size);
	for (unsigned i = 0; i < image->n; i++)
		pack_kernel(&image->kernel[i], out);
	put32(out, image->sm);
	put32(out, image->text);
	put32(out, image->n);
	put32(out, image->n_rewritten);
	fm_buf_add(out, &size, sizeof(size));
}

struct reader {
	const uint8_t *data;
	size_t at, size;
};

/* The next bytes; NULL beyond the end. */
static const uint8_t *take(struct reader *r, uint64_t size)
{
	const uint8_t *p = r->data + r->at;

	if (!fm_within(r->at, size, r->size))
		return NULL;
	r->at += size;
	return p;
}

static int unpack_kernel(struct reader *r, struct fm_kernel *k)
{
	const uint8_t *p = take(r, KERNEL), *name, *params;
	uint32_t len;

	if (!p)
		return -EBADMSG;
	k->why = fm_get16(p);
	k->traits = fm_get16(p + 2);
	k->n_params = fm_get16(p + 4);
	k->param_bytes = fm_get16(p + 6);
	k->guard_at = fm_get16(p + 8);
	k->regs[0] = fm_get16(p + 10);
	k->regs[1] = fm_get16(p + 12);
	k->loops = fm_get16(p + 14);
	k->n_loops = fm_get16(p + 16);
	k->save_bytes = fm_get16(p + 18);
	k->early = fm_get16(p + 20);
	k->kill = fm_get16(p + 22);
	k->n_kills = fm_get16(p + 24);
	k->bases = fm_get64(p + 26);
	len = fm_get32(p + 34);
	name = take(r, len);
	params = name ? take(r, (uint64_t)k->n_params * 4) : NULL;
	if (!params || k->why >= FM_KERNEL_WHYS || k->loops >= FM_LOOP_WHYS ||
		k->kill >= FM_KILL_WHYS || k->traits >> FM_KERNEL_TRAITS || fm_get16(p + 20) > 1 ||
		memchr(name, 0, len))
		return -EBADMSG;
	k->name = strndup((const char *)name, len);
	k->params = calloc(k->n_params + 1u, sizeof(*k->params));
	if (!k->name || !k->params)
		return -ENOMEM;
	for (unsigned i = 0; i < k->n_params; i++)
		k->params[i] =
			(struct fm_param){fm_get16(params + 4 * i), fm_get16(params + 4 * i + 2)};
	return 0;
}

static int unpack(uint8_t *data, size_t all, struct fm_image *out)
{
	struct reader r = {data, 0, fm_sub_sat(all, TAIL)};
	const uint8_t *p = data + r.size;
	uint64_t size;
	uint32_t n;

	if (all < TAIL)
		return -EBADMSG;
	out->sm = fm_get32(p);
	out->text = fm_get32(p + 4);
	n = fm_get32(p + 8);
	size = fm_get64(p + 16);
	if (!n || n > r.size / KERNEL || !size || !take(&r, size))
		return -EBADMSG;
	out->kernel = calloc(n, sizeof(*out->kernel));
	if (!out->kernel)
		return -ENOMEM;
	while (out->n < n) {
		int rc = unpack_kernel(&r, &out->kernel[out->n++]);

		if (rc)
			return rc;
		out->n_rewritten += out->kernel[out->n - 1].why == FM_KERNEL_REWRITTEN;
	}
	if (r.at != r.size || out->n_rewritten != fm_get32(p + 12) || (out->text && data[size - 1]))
		return -EBADMSG;
	out->data = data;
	out->size = size;
	return 0;
}

int fm_unpack(uint8_t *data, size_t size, struct fm_image *out)
{
	int rc;

	*out = (struct fm_image){0};
	rc = unpack(data, size, out);
	if (rc)
		fm_image_free(out);
	return rc;
}
