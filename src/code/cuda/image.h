/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's images of code rewritten so that a launch can be stopped between two of its thread blocks,
 * and go on later: each kernel gets three parameters more and, in front of its first instruction, a
 * guardian that looks at them (guardian.ptx says what it does with them). A block that has started
 * always ends, so that what it computes does not matter.
 *
 * An image is what a program hands to the driver: a fatbin, an ELF, or PTX. What comes out is one
 * ELF or one PTX text, to be loaded in its place. Nothing is guessed: an image of which anything is
 * not understood stays as it is, and so does each kernel; the reason says why. What was made is
 * parsed again and compared with what it was made of before it is handed out.
 *
 * Pure: no CUDA, no files, no state. Memory is bounded by FM_IMAGE_MAX, and time by a small factor
 * of the size.
 *
 * Owns: nothing: the caller owns the image, and the rewritten one.
 * Locks: none.
 * Threads: any, each with an image of its own.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_IMAGE_MAX (512u << 20)

/* Why an image is left as it is. */
enum fm_image_why {
	FM_IMAGE_OK,
	FM_IMAGE_FOREIGN,     /* neither fatbin nor ELF of CUDA nor PTX */
	FM_IMAGE_BROKEN,      /* an offset or a size leads out of it, or contradicts another */
	FM_IMAGE_LARGE,       /* beyond FM_IMAGE_MAX */
	FM_IMAGE_NO_CODE,     /* a fatbin with nothing for this device */
	FM_IMAGE_AMBIGUOUS,   /* a fatbin with two that fit equally well */
	FM_IMAGE_COMPRESSION, /* by a method not known */
	FM_IMAGE_DEVICE,      /* of an architecture that there is no guardian for */
	FM_IMAGE_RELOCATABLE, /* to be linked first */
	FM_IMAGE_LAUNCHES,    /* kernels launch kernels, without our parameters */
	FM_IMAGE_UNKNOWN,     /* a version, a section or a flag that is not known */
	FM_IMAGE_TEXT,        /* PTX that is not understood */
	FM_IMAGE_NO_KERNEL,   /* no kernel in it, or none that could be rewritten */
	FM_IMAGE_VERIFY,      /* the result was not what it should be: a fault of ours */
	FM_IMAGE_MEMORY,
	FM_IMAGE_WHYS
};

/* Why a kernel is left as it is, in an image that is rewritten. */
enum fm_kernel_why {
	FM_KERNEL_REWRITTEN,
	FM_KERNEL_SECTIONS,   /* lacks attributes or a constant bank, or they are not where they
				 should be */
	FM_KERNEL_ATTRIBUTES, /* has one that is not known, or that contradicts another */
	FM_KERNEL_PARAMS,     /* no room for ours, or it is not known where they will be */
	FM_KERNEL_ENTRY,      /* does not begin as compilers begin */
	FM_KERNEL_RELOCATED,  /* the linker changes its first instruction */
	FM_KERNEL_LOOPS,      /* jumps to its own first instruction */
	FM_KERNEL_ADDRESS,    /* its address is taken: it may be called without our parameters */
	FM_KERNEL_REGISTERS,  /* is held to fewer than the guardian needs */
	FM_KERNEL_WHYS
};

/* Whether a kernel can be left in the middle of a loop, where that was asked for; or why not. */
enum fm_loop_why {
	FM_LOOP_UNASKED,
	FM_LOOP_POLLED,
	FM_LOOP_CODE,     /* it is machine code */
	FM_LOOP_GRID,     /* its blocks run all or none */
	FM_LOOP_OVERLAPS, /* others may begin, and look, before it is left */
	FM_LOOP_NONE,     /* it has no loop */
	FM_LOOP_TOGETHER, /* its threads wait for each other, or exchange values */
	FM_LOOP_SHARED,   /* it has shared memory */
	FM_LOOP_LOCAL,    /* it has local memory */
	FM_LOOP_PLACE,    /* it reads what is another on another multiprocessor, as its clock */
	FM_LOOP_LARGE,    /* too many instructions, or too much to be kept */
	FM_LOOP_TEXT,     /* something in it is not understood */
	FM_LOOP_WHYS
};

/* In a word or two, for people. */
const char *fm_image_reason(enum fm_image_why why);
const char *fm_kernel_reason(enum fm_kernel_why why);
const char *fm_loop_reason(enum fm_loop_why why);

/* What was seen of a kernel that matters for how it may be stopped. */
enum {
	FM_KERNEL_CLUSTER = 1 << 0,  /* is made for clusters of blocks */
	FM_KERNEL_OVERLAPS = 1 << 1, /* programmatic dependent launch: begins before, or lets others
					begin before, the kernel in front has ended */
	FM_KERNEL_WAITS = 1 << 2,    /* a loop in it looks at what other blocks may write */
	FM_KERNEL_CALLS = 1 << 3,    /* calls functions that were not looked at */
	FM_KERNEL_SETMAXREG = 1 << 4 /* moves registers between its warps */
};
#define FM_KERNEL_TRAITS 5

/* For the trait of this bit: whether it asks for all blocks or none (FM_GUARD_GRID), and why. */
struct fm_trait {
	const char *name;
	bool grid;
	const char *reason;
};
extern const struct fm_trait fm_kernel_trait[FM_KERNEL_TRAITS];

/* How the guardian goes about a launch: in the low bits of its third parameter. */
enum fm_guard_mode {
	FM_GUARD_BLOCK, /* each block for itself */
	FM_GUARD_AGAIN, /* the blocks that were left out by the launch before */
	FM_GUARD_GRID   /* all blocks, or none */
};
/* The mode for a first launch of a kernel with these traits. Cooperative launches are FM_GUARD_GRID
 * besides: that stands in the launch, not in the image. */
enum fm_guard_mode fm_kernel_mode(unsigned traits);

/* The parameters, behind the kernel's own, eight bytes each. */
#define FM_GUARD_PARAMS 3
#define FM_GUARD_BYTES  (FM_GUARD_PARAMS * 8)

/*
 * The save area of a queue, for kernels that can be left in a loop, in device memory: which words
 * of the control block say where it is and how many bytes of values it has room for (0: there is
 * none, and no kernel is left so), and how many blocks were left in a loop, in all. It begins with
 * four bytes for each thread, all zero but for what was left, and behind all these are the values.
 */
enum { FM_LOOP_AREA = 32, FM_LOOP_BYTES = 40, FM_LOOP_LEFT = 48 };
#define FM_LOOP_STATE   4u
#define FM_LOOP_THREADS (UINT32_C(1) << 19) /* a launch of more is not left in a loop */
#define FM_LOOP_VALUES  (FM_LOOP_STATE * FM_LOOP_THREADS)

struct fm_param {
	uint16_t at, size;
};

struct fm_kernel {
	char *name;
	enum fm_kernel_why why;
	unsigned traits;
	unsigned n_params;       /* its own */
	struct fm_param *params; /* in their order; not if it was left as it is */
	uint16_t param_bytes;    /* its own, all together */
	uint16_t guard_at;       /* where ours begin */
	uint16_t regs[2];        /* before and after; of PTX unknown: 0 */
	enum fm_loop_why loops;
	uint16_t n_loops;    /* branches at which it can be left */
	uint16_t save_bytes; /* that are kept of a thread, at most; FM_LOOP_STATE besides */
	/* The guardian waits until what is in front of the launch in its stream has ended, so that
	 * it may be a programmatic one (CUDA C++ Programming Guide, "Programmatic Dependent
	 * Launch"). Not in kernels that do so themselves. */
	bool early;
};

struct fm_image {
	enum fm_image_why why;
	uint8_t *data; /* what to load instead; PTX ends with a zero that is in the size */
	size_t size;
	unsigned sm; /* 80 for sm_80; that of the ELF or PTX that was rewritten or refused */
	bool text;   /* PTX */
	unsigned n, n_rewritten;  /* kernels */
	struct fm_kernel *kernel; /* in the order of the image */
};

/*
 * `sm` is the device's: 90 for compute capability 9.0. On anything but FM_IMAGE_OK there is no
 * data, but kernels with their reasons where the image could be read so far. To be freed either
 * way.
 */
enum fm_image_why fm_image_rewrite(
	const void *image, size_t size, unsigned sm, struct fm_image *out);
/* The same; and kernels whose names these patterns match (as the shell has them, with colons in
 * between; NULL: none), which can be left in the middle of a loop, where that is possible
 * (ptx_loop.h). */
enum fm_image_why fm_image_rewrite_loops(
	const void *image, size_t size, unsigned sm, const char *loops, struct fm_image *out);
void fm_image_free(struct fm_image *image);

/* Does a pattern of such a list match? */
bool fm_listed(const char *list, const char *name);

/* The part of an image that decides what is made of it, on this device: all of it, but of a fatbin
 * the entry that is taken. */
enum fm_image_why fm_image_part(
	const void *image, size_t size, unsigned sm, const void **part, size_t *part_size);

/* The size of an image of which the driver is told only where it begins: by its own headers, which
 * have to be believed so far. 0: it is none of the kinds above. Of the wrapper that nvcc puts
 * around a fatbin (and hands to the driver), *image is moved to the fatbin. */
size_t fm_image_extent(const void **image);
