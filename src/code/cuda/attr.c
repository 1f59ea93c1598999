/* SPDX-License-Identifier: Apache-2.0 */
#include "attr.h"
#include "base/cleanup.h"

/* A kernel has at most this many bytes of parameters, and each has at least one byte. */
#define PARAMS_MAX 32764

/* The last word of a KPARAM_INFO has the size in bits 18 and up. For an ordinary parameter the
 * other bits are:
 */
#define V1_REST 0x1f000u

int fm_attr_next(const uint8_t *info, size_t size, size_t *at, struct fm_attr *a)
{
	const uint8_t *p = info + *at;

	if (*at == size)
		return 0;
	if (!fm_within(*at, 4, size) || p[0] < FM_ATTR_NONE || p[0] > FM_ATTR_DATA)
		return -1;
	*a = (struct fm_attr){.form = p[0], .kind = p[1], .at = *at, .size = 4};
	a->value = a->form == FM_ATTR_BYTE ? p[2] : fm_get16(p + 2);
	if (a->form == FM_ATTR_DATA) {
		if (a->value & 3 || !fm_within(*at + 4, a->value, size))
			return -1;
		a->data = p + 4;
		a->size += a->value;
	}
	*at += a->size;
	return 1;
}

/* Kinds that were seen in the output of CUDA 11 to 13 for sm_80 to sm_90, or that contain neither
 * places nor parameters. Places of instructions stay right, because only the end of the code
 * changes. */
static const uint8_t known[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x0a, 0x0d, 0x0f, 0x10, 0x17, 0x19,
	0x1b, 0x1c, 0x1d, 0x1e, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c,
	0x2d, 0x2e, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3c, 0x3d, 0x3e,
	0x3f, 0x41, 0x44, 0x45, 0x46, 0x47, 0x4c, 0x50, 0x54, 0x55, 0x5f};

bool fm_attr_known(const struct fm_attr *a)
{
	return memchr(known, a->kind, sizeof(known));
}

static bool is_param(const struct fm_attr *a)
{
	return a->kind == FM_EIATTR_KPARAM_INFO || a->kind == FM_EIATTR_KPARAM_INFO_V2;
}

static bool read_param(const struct fm_attr *a, struct fm_kernel_attrs *k, unsigned n, bool *seen)
{
	bool v2 = a->kind == FM_EIATTR_KPARAM_INFO_V2;
	uint16_t ordinal;

	if (a->form != FM_ATTR_DATA || a->value != 12 || fm_get32(a->data))
		return false;
	if (k->n_params && v2 != k->v2)
		return false;
	ordinal = fm_get16(a->data + 4);
	if (ordinal >= n || seen[ordinal])
		return false;
	seen[ordinal] = true;
	k->v2 = v2;
	k->params[ordinal].at = fm_get16(a->data + 6);
	k->params[ordinal].size = v2 ? fm_get16(a->data + 8) : fm_get32(a->data + 8) >> 18;
	k->n_params++;
	return true;
}

/* Attributes that are numbers. */
static bool read_number(const struct fm_attr *a, struct fm_kernel_attrs *k)
{
	switch (a->kind) {
	case FM_EIATTR_CBANK_PARAM_SIZE:
		k->bytes = a->value;
		return a->form == FM_ATTR_HALF;
	case FM_EIATTR_MAXREG_COUNT:
		k->max_regs = a->value;
		return a->form == FM_ATTR_HALF;
	case FM_EIATTR_NUM_BARRIERS:
		k->barriers = a->value;
		return a->form == FM_ATTR_BYTE;
	case FM_EIATTR_CTA_PER_CLUSTER:
	case FM_EIATTR_EXPLICIT_CLUSTER:
	case FM_EIATTR_MAX_CLUSTER_RANK:
		k->traits |= FM_KERNEL_CLUSTER;
		return true;
	case FM_EIATTR_EXIT_INSTR_OFFSETS:
		return a->form == FM_ATTR_DATA;
	case FM_EIATTR_PARAM_CBANK:
		if (a->form != FM_ATTR_DATA || a->value != 8 || k->bank)
			return false;
		k->bank = true;
		k->bank_symbol = fm_get32(a->data);
		k->base = fm_get16(a->data + 4);
		return true;
	default:
		return true;
	}
}

/* One after the other, within the size that the kernel declares. */
static bool params_agree(const struct fm_kernel_attrs *k, uint16_t bank_bytes)
{
	unsigned end = 0;

	if (!k->bank)
		return !k->n_params && !k->bytes;
	if (bank_bytes != k->bytes || k->bytes > PARAMS_MAX)
		return false;
	for (unsigned i = 0; i < k->n_params; i++) {
		const struct fm_param *p = &k->params[i];

		if (p->at < end || p->at + p->size > k->bytes)
			return false;
		end = p->at + p->size;
	}
	return true;
}

static enum fm_kernel_why read_all(
	const uint8_t *info, size_t size, struct fm_kernel_attrs *k, unsigned n, bool *seen)
{
	size_t at = 0;
	struct fm_attr a;
	uint16_t bank_bytes = 0;
	int more;

	while ((more = fm_attr_next(info, size, &at, &a)) > 0) {
		if (!fm_attr_known(&a))
			return FM_KERNEL_ATTRIBUTES;
		if (is_param(&a) ? !read_param(&a, k, n, seen) : !read_number(&a, k))
			return FM_KERNEL_ATTRIBUTES;
		if (a.kind == FM_EIATTR_PARAM_CBANK)
			bank_bytes = fm_get16(a.data + 6);
	}
	if (more < 0 || !params_agree(k, bank_bytes))
		return FM_KERNEL_ATTRIBUTES;
	return FM_KERNEL_REWRITTEN;
}

enum fm_kernel_why fm_attr_read(const uint8_t *info, size_t size, struct fm_kernel_attrs *out)
{
	FM_CLEAN_FREE bool *seen = NULL;
	struct fm_attr a;
	unsigned n = 0;

	*out = (struct fm_kernel_attrs){0};
	for (size_t at = 0; fm_attr_next(info, size, &at, &a) > 0;)
		n += is_param(&a);
	/* As many places as records: all ordinals are below that number, and none occurs twice.
	 */
	seen = calloc(n + 1, sizeof(*seen));
	out->params = calloc(n + 1, sizeof(*out->params));
	if (!seen || !out->params || n > PARAMS_MAX)
		return FM_KERNEL_ATTRIBUTES;
	return read_all(info, size, out, n, seen);
}

static void add_param(struct fm_buf *out, unsigned ordinal, unsigned at, bool v2)
{
	uint8_t r[16] = {FM_ATTR_DATA, v2 ? FM_EIATTR_KPARAM_INFO_V2 : FM_EIATTR_KPARAM_INFO, 12};

	fm_put16(r + 8, (uint16_t)ordinal);
	fm_put16(r + 10, (uint16_t)at);
	fm_put32(r + 12, v2 ? 8 : 8 << 18 | V1_REST);
	fm_buf_add(out, r, sizeof(r));
}

/* In the order of compilers: the last one first. */
static void add_params(
	struct fm_buf *out, const struct fm_kernel_attrs *was, const struct fm_attr_change *c)
{
	for (unsigned i = FM_GUARD_PARAMS; i-- > 0;)
		add_param(out, was->n_params + i, c->guard_at + 8 * i, c->v2);
	if (!was->bank) {
		uint8_t r[16] = {FM_ATTR_HALF, FM_EIATTR_CBANK_PARAM_SIZE, 0, 0, FM_ATTR_DATA,
			FM_EIATTR_PARAM_CBANK, 8};

		fm_put16(r + 2, c->guard_at + FM_GUARD_BYTES);
		fm_put32(r + 8, c->bank_symbol);
		fm_put16(r + 12, c->base);
		fm_put16(r + 14, c->guard_at + FM_GUARD_BYTES);
		fm_buf_add(out, r, sizeof(r));
	}
}

/* The place of ours: in front of the first parameter, or behind the version if there is none. */
static size_t params_place(const uint8_t *info, size_t size)
{
	size_t at = 0, other = size;
	struct fm_attr a;

	while (fm_attr_next(info, size, &at, &a) > 0) {
		if (is_param(&a))
			return a.at;
		if (a.kind != FM_EIATTR_CUDA_API_VERSION && other == size)
			other = a.at;
	}
	return other;
}

/* Copies a record, with the necessary changes. */
static void copy(const struct fm_attr *a, const uint8_t *info, const struct fm_kernel_attrs *was,
	const struct fm_attr_change *c, struct fm_buf *out)
{
	size_t at = out->size;
	uint8_t *r;

	fm_buf_add(out, info + a->at, a->size);
	if (out->failed)
		return;
	r = out->data + at;
	if (a->kind == FM_EIATTR_KPARAM_INFO && c->v2) {
		r[1] = FM_EIATTR_KPARAM_INFO_V2;
		fm_put32(r + 12, fm_get32(r + 12) >> 18);
	} else if (a->kind == FM_EIATTR_CBANK_PARAM_SIZE) {
		fm_put16(r + 2, c->guard_at + FM_GUARD_BYTES);
	} else if (a->kind == FM_EIATTR_PARAM_CBANK) {
		fm_put16(r + 10, c->guard_at + FM_GUARD_BYTES);
	} else if (a->kind == FM_EIATTR_NUM_BARRIERS && !r[2]) {
		r[2] = 1;
	} else if (a->kind == FM_EIATTR_EXIT_INSTR_OFFSETS &&
		   a->value + 4 * c->n_exits <= UINT16_MAX) {
		fm_put16(r + 2, (uint16_t)(a->value + 4 * c->n_exits));
		fm_buf_add(out, c->exits, 4 * c->n_exits);
	}
}

static bool has(const uint8_t *info, size_t size, uint8_t kind)
{
	size_t at = 0;
	struct fm_attr a;

	while (fm_attr_next(info, size, &at, &a) > 0)
		if (a.kind == kind)
			return true;
	return false;
}

void fm_attr_write(const uint8_t *info, size_t size, const struct fm_kernel_attrs *was,
	const struct fm_attr_change *c, struct fm_buf *out)
{
	size_t place = params_place(info, size), at = 0;
	bool barriers = c->barriers && !has(info, size, FM_EIATTR_NUM_BARRIERS);
	static const uint8_t one[4] = {FM_ATTR_BYTE, FM_EIATTR_NUM_BARRIERS, 1, 0};
	struct fm_attr a;

	while (fm_attr_next(info, size, &at, &a) > 0) {
		if (a.at == place)
			add_params(out, was, c);
		copy(&a, info, was, c, out);
		if (barriers && a.kind == FM_EIATTR_MAXREG_COUNT) {
			fm_buf_add(out, one, sizeof(one));
			barriers = false;
		}
	}
	if (place == size)
		add_params(out, was, c);
	if (barriers)
		fm_buf_add(out, one, sizeof(one));
}
