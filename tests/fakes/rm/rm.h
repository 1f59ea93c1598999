/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to the fake of NVIDIA's kernel driver (rm.c), and of it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define RM_FREE    0x29
#define RM_CONTROL 0x2a
#define RM_ALLOC   0x2b
#define RM_XFER    211

#define CLASS_CLIENT 0x41
#define CLASS_DEVICE 0x80
#define CLASS_SPACE  0x90f1
#define CLASS_TSG    0xa06c

#define RM_NO_CLIENT 0x23
#define RM_NO_OBJECT 0x57

#define RM_SLICE 2000 /* us: its own */

struct rm_free { /* NVOS00 */
	uint32_t root, parent, object, status;
};

struct rm_alloc21 { /* NVOS21 */
	uint32_t root, parent, object, class;
	uint64_t params;
	uint32_t params_size, status;
};

struct rm_alloc64 { /* NVOS64 */
	uint32_t root, parent, object, class;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};

struct rm_control { /* NVOS54 */
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t params_size, status;
};

struct rm_xfer {
	uint32_t cmd, size;
	uint64_t ptr;
};

/* NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS */
struct rm_tsg {
	uint32_t error, ecc_error, space, engine, more[4];
};

#define RM_GRAPHICS 1
#define RM_COPIES   9

/* The descriptor on which it is spoken to. */
void fake_rm_node(int fd);
/* The time slice of a channel group; 0: it does not know it. */
uint64_t fake_rm_slice(uint32_t client, uint32_t handle);
/* That of this one cannot be set any more, nor can it be ended by itself; or both can. */
void fake_rm_refuse(uint32_t client, uint32_t handle, bool refuse);
/* How many controls it was asked for. */
unsigned fake_rm_asked(void);
