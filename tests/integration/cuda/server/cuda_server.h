/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server in small, which uses <fermata/cuda.h>: one case of those of cuda_server.c,
 * cuda_server_binding.c or cuda_server_partition.c. Here is what they share: two streams with
 * counters that the host sees, what the program was told, and checks. Whatever is not as it should
 * be ends it with a text.
 *
 * Each is built twice: as it is, with nothing of Fermata in it, and linked with the shim (_linked).
 *
 * usage: [--via link|dlsym|proc] CASE [POLICY [IMAGE]]
 * POLICY: of fm_cuda_init; none: by a daemon, or not. IMAGE: with the guardian, and this is loaded.
 */
#pragma once
#include "../cuda_conform.h"
#include <errno.h>
#include <fermata/cuda.h>
#include <signal.h>
#include <sys/prctl.h>

#define KERNELS   200
#define KERNEL_NS 300000

static struct conform c;
static CUstream urgent, batch;
static CUdeviceptr out[2]; /* of both; their first words are counted in by spin() */
static _Atomic uint32_t *words[2], *flag;
static CUdeviceptr flag_on_device;

static struct {
	_Atomic unsigned preempted, resumed, amiss;
	_Atomic bool blocks, inside;
} told;

#define EVENTUALLY(condition)                                                         \
	do {                                                                          \
		for (int i_ = 0; !(condition); i_++, usleep(500))                     \
			if (i_ == 120000)                                             \
				die("%s:%d: never: " #condition, __FILE__, __LINE__); \
	} while (0)
#define MUST(condition)                                                            \
	do {                                                                       \
		if (!(condition))                                                  \
			die("%s:%d: it must be: " #condition, __FILE__, __LINE__); \
	} while (0)
#define IS(value, call)                                                         \
	do {                                                                    \
		int rc_ = (call);                                               \
		if (rc_ != (value))                                             \
			die("%s:%d: " #call " is %d", __FILE__, __LINE__, rc_); \
	} while (0)

static inline void on_preempted(CUstream s, uint64_t at, void *ctx)
{
	told.amiss += s != batch || ctx != &told || !at;
	told.inside = true;
	told.preempted++;
	while (told.blocks)
		usleep(200);
	told.inside = false;
}

static inline void on_resumed(CUstream s, uint64_t at, void *ctx)
{
	told.amiss += s != batch || ctx != &told || !at;
	told.resumed++;
	told.amiss += told.resumed > told.preempted;
}

static inline _Atomic uint32_t *host_words(CUdeviceptr *d)
{
	void *p;

	CU(cuMemHostAlloc(&p, 4096, 1 | 2)); /* portable, mapped */
	memset(p, 0, 4096);
	CU(cuMemHostGetDevicePointer_v2(d, p, 0));
	return p;
}

static inline struct fm_cuda_binding binding(const char *group, int priority)
{
	return (struct fm_cuda_binding){
		.size = sizeof(struct fm_cuda_binding), .group = group, .priority = priority};
}

static inline struct fm_cuda_info info(CUstream s)
{
	struct fm_cuda_info i = {.size = sizeof(i)};

	IS(0, fm_cuda_query(s, &i));
	return i;
}

/* Of the device. */
static inline unsigned multiprocessors(void)
{
	CUdevice dev;
	int n;

	CU(cuCtxGetDevice(&dev));
	CU(cuDeviceGetAttribute(&n, 16, dev));
	return (unsigned)n;
}

static inline struct fm_cuda_room room(CUstream s)
{
	struct fm_cuda_room r = {.size = sizeof(r)};

	IS(0, fm_cuda_room(s, &r));
	MUST(r.multiprocessors == multiprocessors() && r.place <= r.multiprocessors);
	MUST(r.free == 0 || r.free == r.pad || r.free == r.place);
	return r;
}

static inline void open_streams(void)
{
	conform_open(&c);
	urgent = new_stream(CU_STREAM_NON_BLOCKING);
	batch = new_stream(CU_STREAM_NON_BLOCKING);
	words[0] = host_words(&out[0]);
	words[1] = host_words(&out[1]);
	flag = host_words(&flag_on_device);
}

static inline void bind_both(unsigned level)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH);
	struct fm_cuda_binding b = binding("batch", FM_PRIORITY_LOW);

	b.preempted = on_preempted;
	b.resumed = on_resumed;
	b.ctx = &told;
	b.level = u.level = level;
	IS(0, fm_cuda_bind(urgent, &u));
	IS(0, fm_cuda_bind(batch, &b));
}

static inline void work(CUstream s, CUdeviceptr d, unsigned kernels)
{
	for (unsigned i = 0; i < kernels; i++)
		spin(&c, s, d, KERNEL_NS);
}

/* Of a word behind so many kernels. */
static inline uint32_t after(unsigned kernels)
{
	uint32_t v = 0;

	while (kernels--)
		v = v * 3 + 1;
	return v;
}

/* What follows in the stream waits until it is let go, whatever Fermata does. */
static inline void stand(CUstream s)
{
	unsigned i = s == batch;

	flag[i] = 0;
	CU(cuStreamWaitValue32_v2(s, flag_on_device + i * sizeof(*flag), 1, CU_WAIT_EQ));
}

static inline void let_go(CUstream s)
{
	flag[s == batch] = 1;
}

/* Nothing of it runs. */
static inline void rests(CUstream s, unsigned which)
{
	uint32_t before = words[which][0];

	usleep(20000);
	MUST(words[which][0] == before);
	MUST(info(s).stalled);
}

struct server_case {
	const char *name;
	void (*run)(void);
};

/* Before the driver's functions are looked for. */
static inline const char *server_begin(int argc, char **argv)
{
	struct fm_cuda_options o = {.size = sizeof(o)};
	int at = argc > 1 && !strcmp(argv[1], "--via") ? 3 : 1;

	if (argc <= at)
		die("usage: [--via link|dlsym|proc] CASE [POLICY [IMAGE]]");
	o.local_policy = argc > at + 1 ? argv[at + 1] : NULL;
	o.guardian = argc > at + 2;
	if (o.local_policy)
		IS(0, fm_cuda_init(&o));
	return o.guardian ? argv[at + 2] : NULL;
}

static inline int server_main(int argc, char **argv, const struct server_case *cases)
{
	const char *image = server_begin(argc, argv);
	CUmodule m;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	conform_options(&argc, &argv);
	open_streams();
	if (image)
		CU(cuModuleLoad(&m, image));
	for (; cases->name; cases++)
		if (!strcmp(cases->name, argv[1])) {
			cases->run();
			return 0;
		}
	die("no case %s", argv[1]);
}
