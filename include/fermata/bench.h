/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers of fermata-lab-bench(1), through which its clients use a device. A client opens a model
 * and serves its requests one after the other, each in six phases (those of DISB).
 *
 * A driver is a shared object that exports fm_bench_driver(); `fermata-lab bench --driver
 * ./mine.so` loads it. The driver decides how to run a model: it can load a network by the model's
 * name, or, as the built-in drivers do, launch kernels of the given lengths.
 *
 * Errors are texts, which stay valid until the client's next call; NULL means success. All
 * functions of a client are called from one thread, including open. Several clients run at once, in
 * one process (--threads) or in separate processes. Clients of one process open one after the
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
	uint64_t ns;       /* wanted length of each, alone on the device */
	uint32_t count;    /* at least 1 */
	uint32_t blocks;   /* work-groups; 0: as many as fill the device */
	uint64_t amount;   /* work that gives that length: set by calibrate, used by the driver */
	uint64_t measured; /* length measured with it, ns; 0: not measured */
};

struct fm_bench_model {
	const char *name;
	uint32_t batch; /* the kernels' lengths include it */
	uint64_t input_bytes, output_bytes;
	const struct fm_bench_kernel *kernel;
	size_t kernels;
	const char *client; /* the task's object "client" of the workload, as JSON */
};

struct fm_bench_hint {
	int hint; /* enum fm_hint of <fermata/hint.h> */
	int64_t value;
};

struct fm_bench_open {
	size_t size;            /* sizeof(struct fm_bench_open): later versions add fields */
	unsigned device;        /* its number */
	const char *task;       /* the client's task */
	const char *libfermata; /* path of the library of XQueues; NULL: the loader's default */
	const struct fm_bench_model *model;
	/* With several clients in one process: the group and hints under which the driver
	 * schedules the client, if it can. NULL: the process is the group. */
	const char *group;
	const struct fm_bench_hint *hint;
	size_t hints;
};

/* The device's names, for people. */
struct fm_bench_device {
	char name[128], platform[128], driver[128];
};

struct fm_bench_driver {
	size_t size;  /* sizeof(struct fm_bench_driver) */
	unsigned abi; /* FM_BENCH_ABI */
	const char *name;
	const char *(*open)(const struct fm_bench_driver *self, const struct fm_bench_open *how,
		void **client, struct fm_bench_device *device);
	/* Sets `amount` and `measured` of each kernel. Called first, for one client, alone on the
	 * device; other clients get the results in their models. NULL: nothing to set. */
	const char *(*calibrate)(void *client, struct fm_bench_kernel *kernel, size_t n);
	/* Returns when the phase has ended, on the device too. */
	const char *(*phase)(void *client, enum fm_bench_phase phase);
	void (*close)(void *client); /* may be NULL */
};

/* The function that a shared object exports. NULL: this version of the interface is unknown. */
const struct fm_bench_driver *fm_bench_driver(unsigned abi);

#ifdef __cplusplus
}
#endif
#endif
