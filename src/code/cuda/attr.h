/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes in sections .nv.info. Each is a record of a form, a kind, and a value. */
#pragma once
#include "bytes.h"

/* The attributes that the rewriting reads or writes, under the names of NVIDIA's tools. */
enum {
	FM_EIATTR_PARAM_CBANK = 0x0a,
	FM_EIATTR_KPARAM_INFO = 0x17,
	FM_EIATTR_CBANK_PARAM_SIZE = 0x19,
	FM_EIATTR_MAXREG_COUNT = 0x1b,
	FM_EIATTR_EXIT_INSTR_OFFSETS = 0x1c,
	FM_EIATTR_NEED_CNP_WRAPPER = 0x1f,
	FM_EIATTR_NEED_CNP_PATCH = 0x20,
	FM_EIATTR_REGCOUNT = 0x2f,
	FM_EIATTR_CUDA_API_VERSION = 0x37,
	FM_EIATTR_CTA_PER_CLUSTER = 0x3d,
	FM_EIATTR_EXPLICIT_CLUSTER = 0x3e,
	FM_EIATTR_MAX_CLUSTER_RANK = 0x3f,
	FM_EIATTR_KPARAM_INFO_V2 = 0x45,
	FM_EIATTR_NUM_BARRIERS = 0x4c
};

/* How the value is stored. */
enum { FM_ATTR_NONE = 1, FM_ATTR_BYTE, FM_ATTR_HALF, FM_ATTR_DATA };

struct fm_attr {
	uint8_t form, kind;
	uint16_t value;      /* for FM_ATTR_BYTE and FM_ATTR_HALF; for FM_ATTR_DATA, the size */
	const uint8_t *data; /* for FM_ATTR_DATA */
	size_t at, size;     /* the whole record */
};

/* Reads the record at *at, and moves *at behind it. 1; 0 at the end; -1: not such a record. */
int fm_attr_next(const uint8_t *info, size_t size, size_t *at, struct fm_attr *a);

/* Is this kind known to contain neither the place of something that moves, nor the number of
 * parameters? */
bool fm_attr_known(const struct fm_attr *a);

/* The contents of a kernel's attributes. */
struct fm_kernel_attrs {
	unsigned n_params;
	struct fm_param *params; /* by ordinal; to be freed */
	bool v2;                 /* parameters are in records of the second version */
	bool bank;               /* there is a PARAM_CBANK */
	uint32_t bank_symbol;
	uint16_t base, bytes; /* of the parameters in the constant bank */
	unsigned barriers, max_regs;
	unsigned traits;
};
enum fm_kernel_why fm_attr_read(const uint8_t *info, size_t size, struct fm_kernel_attrs *out);

/* What the attributes get in addition. */
struct fm_attr_change {
	uint16_t guard_at;    /* parameters of the guardian begin here */
	uint16_t base;        /* of the parameters in the constant bank */
	uint32_t bank_symbol; /* of the constant bank's section */
	bool v2;              /* write parameters by the second version */
	bool barriers;        /* count barriers by an attribute */
	uint32_t exits[4];    /* the guardian's */
	unsigned n_exits;
};
void fm_attr_write(const uint8_t *info, size_t size, const struct fm_kernel_attrs *was,
	const struct fm_attr_change *c, struct fm_buf *out);
