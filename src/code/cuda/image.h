/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites CUDA's code images so that a launch can be stopped between two of its thread blocks, and
 * continued later. Each kernel gets three more parameters and, in front of its first instruction, a
 * guardian that looks at them (guardian.ptx says what it does). A block that has started always
 * runs to its end, so this is safe for any kernel.
 *
 * An image is what a program passes to the driver: a fatbin, an ELF, or PTX. The result is one ELF
 * or one PTX text, to be loaded in its place. Nothing is guessed: if any part of an image, or of a
 * kernel, is not understood, it is left unchanged, with a reason. The result is parsed again and
 * compared with the original before it is returned.
 *
 * Pure: no CUDA, no files, no state. Memory is bounded by FM_IMAGE_MAX, and time by a small factor
 * of the size.
 *
 * Owns: nothing: the caller owns the image and the result.
 * Locks: none.
 * Threads: any, each with an image of its own.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_IMAGE_MAX (512u << 20)

/* Why an image is left unchanged. */
enum fm_image_why {
	FM_IMAGE_OK,
	FM_IMAGE_FOREIGN,     /* neither fatbin nor ELF of CUDA nor PTX */
	FM_IMAGE_BROKEN,      /* an offset or a size leads outside, or contradicts another */
	FM_IMAGE_LARGE,       /* beyond FM_IMAGE_MAX */
	FM_IMAGE_NO_CODE,     /* a fatbin without an image for this device */
	FM_IMAGE_AMBIGUOUS,   /* a fatbin with two images that fit equally well */
	FM_IMAGE_COMPRESSION, /* by an unknown method */
	FM_IMAGE_DEVICE,      /* of an architecture without a guardian */
	FM_IMAGE_RELOCATABLE, /* must be linked first */
	FM_IMAGE_LAUNCHES,    /* kernels launch kernels, without our parameters */
	FM_IMAGE_UNKNOWN,     /* an unknown version, section or flag */
	FM_IMAGE_TEXT,        /* PTX that is not understood */
	FM_IMAGE_NO_KERNEL,   /* no kernel, or none that could be rewritten */
	FM_IMAGE_VERIFY,      /* the result was wrong: a fault of ours */
	FM_IMAGE_MEMORY,
	FM_IMAGE_WHYS
};

/* Why a kernel is left unchanged, in an image that is rewritten. */
enum fm_kernel_why {
	FM_KERNEL_REWRITTEN,
	FM_KERNEL_SECTIONS,   /* lacks attributes or a constant bank, or they are not where they
				 should be */
	FM_KERNEL_ATTRIBUTES, /* has one that is unknown, or contradicts another */
	FM_KERNEL_PARAMS,     /* no room for ours, or their place is not known */
	FM_KERNEL_ENTRY,      /* does not begin as compilers let kernels begin */
	FM_KERNEL_RELOCATED,  /* the linker changes its first instruction */
	FM_KERNEL_LOOPS,      /* jumps to its own first instruction */
	FM_KERNEL_ADDRESS,    /* its address is taken: it may be called without our parameters */
	FM_KERNEL_REGISTERS,  /* is limited to fewer than the guardian needs */
	FM_KERNEL_WHYS
};

/* Can a kernel be left in the middle of a loop, if that was asked for? If not, why not. */
enum fm_loop_why {
	FM_LOOP_UNASKED,
	FM_LOOP_POLLED,
	FM_LOOP_CODE,     /* it is machine code */
	FM_LOOP_GRID,     /* its blocks run all or none */
	FM_LOOP_OVERLAPS, /* other kernels may begin, and look at the stop word, before it is left
			   */
	FM_LOOP_NONE,     /* it has no loop */
	FM_LOOP_TOGETHER, /* its threads wait for each other, or exchange values */
	FM_LOOP_SHARED,   /* it has shared memory */
	FM_LOOP_LOCAL,    /* it has local memory */
	FM_LOOP_PLACE, /* it reads something that differs between multiprocessors, such as the clock
			*/
	FM_LOOP_LARGE, /* too many instructions, or too many values to save */
	FM_LOOP_TEXT,  /* something in it is not understood */
	FM_LOOP_WHYS
};

/* Can a kernel be ended in its middle by whole blocks, which then run again from their beginning,
 * if that was asked for? If not, why not. */
enum fm_kill_why {
	FM_KILL_UNASKED,
	FM_KILL_ABLE,
	FM_KILL_CODE,     /* it is machine code */
	FM_KILL_LOOPS,    /* it stops exactly (FM_LOOP_POLLED) */
	FM_KILL_GRID,     /* its blocks run all or none */
	FM_KILL_OVERLAPS, /* other kernels may begin before it has ended */
	FM_KILL_NONE,     /* it has no loop */
	FM_KILL_ATOMICS,
	FM_KILL_ORDERED,  /* fences, or accesses that others may wait for */
	FM_KILL_ASYNC,    /* copies that are not over when a thread ends */
	FM_KILL_BARRIERS, /* of some threads of a block, or where threads have gone apart */
	FM_KILL_UNEVEN,   /* its threads need each other, and go apart in each of its loops */
	FM_KILL_DYNAMIC,  /* addresses or branches follow from what memory holds */
	FM_KILL_APPROX,   /* it does not leave the same bits each time */
	FM_KILL_ADDRESS,  /* an address is not a parameter with something added */
	FM_KILL_LARGE,
	FM_KILL_TEXT, /* something in it is not understood */
	FM_KILL_WHYS
};

/* In a word or two, for people. */
const char *fm_image_reason(enum fm_image_why why);
const char *fm_kernel_reason(enum fm_kernel_why why);
const char *fm_loop_reason(enum fm_loop_why why);
const char *fm_kill_reason(enum fm_kill_why why);

/* Traits of a kernel that decide how it may be stopped. */
enum {
	FM_KERNEL_CLUSTER = 1 << 0,  /* is made for clusters of blocks */
	FM_KERNEL_OVERLAPS = 1 << 1, /* programmatic dependent launch: it begins before the kernel
					in front has ended, or lets others do so */
	FM_KERNEL_WAITS = 1 << 2,    /* a loop in it looks at what other blocks may write */
	FM_KERNEL_CALLS = 1 << 3,    /* calls functions that were not examined */
	FM_KERNEL_SETMAXREG = 1 << 4 /* moves registers between its warps */
};
#define FM_KERNEL_TRAITS 5

/* Does the trait of this bit require all blocks or none (FM_GUARD_GRID)? And why. */
struct fm_trait {
	const char *name;
	bool grid;
	const char *reason;
};
extern const struct fm_trait fm_kernel_trait[FM_KERNEL_TRAITS];

/* How the guardian treats a launch: in the low bits of its third parameter. */
enum fm_guard_mode {
	FM_GUARD_BLOCK, /* each block for itself */
	FM_GUARD_AGAIN, /* the blocks that the launch before left out */
	FM_GUARD_GRID   /* all blocks, or none */
};
/* The mode for a first launch of a kernel with these traits. Cooperative launches are
 * FM_GUARD_GRID, too: that is known from the launch, not from the image. */
enum fm_guard_mode fm_kernel_mode(unsigned traits);

/* Of the number of a launch whose blocks may be ended in their middle. It is in the highest bit of
 * the third parameter. */
#define FM_GUARD_KILL (UINT64_C(1) << 61)

/* The parameters, behind the kernel's own, eight bytes each. */
#define FM_GUARD_PARAMS 3
#define FM_GUARD_BYTES  (FM_GUARD_PARAMS * 8)

/*
 * The save area of a queue is in device memory, for kernels that can be left in a loop. These words
 * of the control block say where it is, how many bytes of values it has room for (0: there is no
 * area, and no kernel is left in a loop), and how many blocks were left in a loop in all. The area
 * begins with four bytes for each thread, which are zero unless the thread was left. The values
 * come behind all of these.
 */
enum { FM_LOOP_AREA = 32, FM_LOOP_BYTES = 40, FM_LOOP_LEFT = 48 };
#define FM_LOOP_STATE   4u
#define FM_LOOP_THREADS (UINT32_C(1) << 19) /* a launch of more threads is not left in a loop */
#define FM_LOOP_VALUES  (FM_LOOP_STATE * FM_LOOP_THREADS)

struct fm_param {
	uint16_t at, size;
};

struct fm_kernel {
	char *name;
	enum fm_kernel_why why;
	unsigned traits;
	unsigned n_params;       /* its own */
	struct fm_param *params; /* in their order; none if the kernel was left unchanged */
	uint16_t param_bytes;    /* its own, in all */
	uint16_t guard_at;       /* where ours begin */
	uint16_t regs[2];        /* before and after; 0 for PTX, where it is unknown */
	enum fm_loop_why loops;
	uint16_t n_loops;    /* branches at which it can be left */
	uint16_t save_bytes; /* that are saved of a thread, at most; plus FM_LOOP_STATE */
	enum fm_kill_why kill;
	uint16_t n_kills; /* branches at which its blocks can end */
	/* Words of 8 bytes of its parameters that are nothing but addresses, if it can be killed:
	 * where they point elsewhere, it does the same there. */
	uint64_t bases;
	/* The guardian waits until the work in front of the launch in its stream has ended, so the
	 * launch may be a programmatic one (CUDA C++ Programming Guide, "Programmatic Dependent
	 * Launch"). Not in kernels that wait themselves. */
	bool early;
};

struct fm_image {
	enum fm_image_why why;
	uint8_t *data; /* what to load instead; PTX ends with a zero, which the size includes */
	size_t size;
	unsigned sm;             /* 80 for sm_80; of the ELF or PTX that was rewritten or refused */
	bool text;               /* PTX */
	unsigned n, n_rewritten; /* kernels */
	struct fm_kernel *kernel; /* in the order of the image */
};

/*
 * `sm` is the device's: 90 for compute capability 9.0. Without FM_IMAGE_OK there is no data, but
 * there are kernels with their reasons if the image could be read that far. The caller frees it in
 * any case.
 */
enum fm_image_why fm_image_rewrite(
	const void *image, size_t size, unsigned sm, struct fm_image *out);
/* The same. In addition, kernels whose names match these patterns (as in the shell, separated by
 * colons; NULL: none) can be left in the middle of a loop, if that is possible (ptx_loop.h). */
enum fm_image_why fm_image_rewrite_loops(
	const void *image, size_t size, unsigned sm, const char *loops, struct fm_image *out);
/* The same. And the kernels of these names, separated by colons, can be killed, if that is possible
 * (ptx_kill.h). What can be left in a loop is not. */
struct fm_image_wishes {
	const char *loops, *kill; /* NULL: none */
};
enum fm_image_why fm_image_rewrite_as(const void *image, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out);
void fm_image_free(struct fm_image *image);

/*
 * How much the variables of the code take of a device (`__device__', `__constant__', static ones of
 * functions). unpack: also if the image has to be unpacked for that, which takes as long as to copy
 * it a few times. False: it is not understood, or packed.
 */
bool fm_image_globals(const void *image, size_t size, unsigned sm, bool unpack, uint64_t *bytes);

/* Does a pattern of such a list match? Is the name itself one of such a list? */
bool fm_listed(const char *list, const char *name);
bool fm_named(const char *list, const char *name);

/* The part of an image that determines the result on this device: the whole image; for a fatbin,
 * the entry that is used. */
enum fm_image_why fm_image_part(
	const void *image, size_t size, unsigned sm, const void **part, size_t *part_size);

/* The size of an image of which only the beginning is known, by its own headers, which have to be
 * believed. 0: it is none of the kinds above. If *image is the wrapper that nvcc puts around a
 * fatbin (and passes to the driver), it is moved to the fatbin. */
size_t fm_image_extent(const void **image);
