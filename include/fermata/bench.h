/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers of fermata-lab-bench(1): what stands between its clients and a device. A client has a
 * model, opens it, and has requests served one after the other, each in six phases (those of DISB).
 *
 * A driver of one's own is a shared object that exports fm_bench_driver(); `fermata-lab bench
 * --driver
 * ./mine.so` loads it. What a model is, is the driver's business: it may load a network by its
 * name, or, as those that are built in, launch kernels of the lengths that it is given.
 *
 * Errors are texts, which stay valid until the client's next call; NULL is none. A client's
 * functions are called from one thread alone, open included; those of several clients at once, in
 * one process (--threads) or in processes of their own. Clients of one process open one after the
 * other.
 */
#ifndef FERMATA_BENCH_H
#define FERMATA_BENCH_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FM_BENCH_ABI 1u

enum fm_bench_phase {
	FM_BENCH_PREPARE_INPUT,
	FM_BENCH_PREPROCESS,
	FM_BENCH_COPY_INPUT,
	FM_BENCH_INFER,
	FM_BENCH_COPY_OUTPUT,
	FM_BENCH_POSTPROCESS,
	FM_BENCH_PHASES
};

/* Equal kernels in a row. */
struct fm_bench_kernel {
	uint64_t ns;       /* how long each is to take with the device to itself */
	uint32_t count;    /* at least 1 */
	uint32_t blocks;   /* work-groups; 0: as many as fill the device */
	uint64_t amount;   /* what makes that length: by calibrate, for the driver alone */
	uint64_t measured; /* what it took then, ns; 0: nobody measured */
};

struct fm_bench_model {
	const char *name;
	uint32_t batch; /* times of kernels have it in them */
	uint64_t input_bytes, output_bytes;
	const struct fm_bench_kernel *kernel;
	size_t kernels;
	const char *client; /* the task's object "client", as it stands in the workload: JSON */
};

struct fm_bench_hint {
	int hint; /* enum fm_hint of <fermata/hint.h> */
	int64_t value;
};

struct fm_bench_open {
	size_t size;            /* sizeof(struct fm_bench_open): later versions add fields */
	unsigned device;        /* its number */
	const char *task;       /* whose client this is */
	const char *libfermata; /* path of the library of XQueues; NULL: where the loader looks */
	const struct fm_bench_model *model;
	/* Several clients in one process: what of each is to be scheduled as a group of its own,
	 * if the driver can do that, as this group with these hints. NULL: the process is it. */
	const char *group;
	const struct fm_bench_hint *hint;
	size_t hints;
};

/* What the device is called, for people. */
struct fm_bench_device {
	char name[128], platform[128], driver[128];
};

struct fm_bench_driver {
	size_t size;  /* sizeof(struct fm_bench_driver) */
	unsigned abi; /* FM_BENCH_ABI */
	const char *name;
	const char *(*open)(const struct fm_bench_driver *self, const struct fm_bench_open *how,
		void **client, struct fm_bench_device *device);
	/* Find `amount` for each, and say what it took in `measured`. Called for one client, before
	 * all else, with the device to itself; the others are given the outcome with their models.
	 * NULL: nothing to find. */
	const char *(*calibrate)(void *client, struct fm_bench_kernel *kernel, size_t n);
	/* Until the phase has ended, on the device too. */
	const char *(*phase)(void *client, enum fm_bench_phase phase);
	void (*close)(void *client); /* may be NULL */
};

/* What a shared object exports. NULL: it does not know this version of the interface. */
const struct fm_bench_driver *fm_bench_driver(unsigned abi);

#ifdef __cplusplus
}
#endif
#endif
