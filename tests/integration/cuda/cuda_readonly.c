/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What strict mode needs of a CUDA driver, on the fake one and on a machine's: does a stream wait
 * for a word in memory that this process can only read? The page is like that of fermatad
 * (board/gates.h): a memory file, mapped here by a descriptor for reading, and written by way of
 * another mapping, which stands for the daemon's.
 *
 * usage: [ROUNDS] | write
 * With `write` the device is told to write there; what comes of that is printed. Status 77: the
 * driver does not register such memory.
 */
#define CUDA_NO_LINK
#include "cuda_conform.h"
#include <fcntl.h>
#include <sys/mman.h>

#define SIZE     12288
#define WORD     64 /* where a gate is, in the page */
#define PATIENCE UINT64_C(5000000000)
#define STAYS    UINT64_C(20000000)

#define READ_ONLY_REGISTER 113 /* CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED */

struct page {
	char *written, *read;
	CUdeviceptr d;
};

static struct {
	CUstream s;
	_Atomic uint32_t *told; /* by the device */
	CUdeviceptr told_d;
} dev;

static void make_page(struct page *p)
{
	int fd = memfd_create("gates", MFD_CLOEXEC), reader;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || ftruncate(fd, SIZE) || (reader = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		die("no memory file");
	p->written = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p->read = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, reader, 0);
	if (p->written == MAP_FAILED || p->read == MAP_FAILED)
		die("no mapping");
	if (mprotect(p->read, SIZE, PROT_READ | PROT_WRITE) == 0)
		die("what was opened for reading can be made writable");
}

static void open_device(void)
{
	struct conform c = {0};
	int attribute = -1;

	load_proc(false);
	CU(cuInit(0));
	CU(cuDeviceGet(&c.dev, 0));
	CU(cuDeviceGetAttribute(&attribute, READ_ONLY_REGISTER, c.dev));
	printf("attribute %d: %d\n", READ_ONLY_REGISTER, attribute);
	CU(cuDevicePrimaryCtxRetain(&c.ctx, c.dev));
	CU(cuCtxSetCurrent(c.ctx));
	CU(cuStreamCreate(&dev.s, CU_STREAM_NON_BLOCKING));
	CU(cuMemHostAlloc((void **)&dev.told, 64, FM_CU_HOST_REGISTER_DEVICEMAP));
	CU(cuMemHostGetDevicePointer_v2(&dev.told_d, (void *)dev.told, 0));
}

/* By the flags as the backend has them. */
static int register_page(struct page *p, char *at, unsigned more)
{
	unsigned flags = FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP | more;
	int rc = cu.cuMemHostRegister_v2(at, SIZE, flags);

	return rc ? rc : cu.cuMemHostGetDevicePointer_v2(&p->d, at, 0);
}

static bool told(uint32_t value, uint64_t limit)
{
	uint64_t end = now_ns() + limit;

	while (atomic_load(dev.told) != value && now_ns() < end)
		;
	return atomic_load(dev.told) == value;
}

static _Atomic uint32_t *gate_of(const struct page *p)
{
	return (_Atomic uint32_t *)(p->written + WORD);
}

static void enqueue_gate(const struct page *p, uint32_t number)
{
	union fm_cu_mem_op ops[3] = {{.pad = {0}}, {.pad = {0}}, {.pad = {0}}};

	ops[0].op.operation = ops[2].op.operation = FM_CU_OP_WRITE_VALUE_32;
	ops[0].op.address = ops[2].op.address = dev.told_d;
	ops[0].op.value = 2 * number;
	ops[2].op.value = 2 * number + 1;
	ops[1].op.operation = FM_CU_OP_WAIT_VALUE_32;
	ops[1].op.address = p->d + WORD;
	ops[1].op.flags = FM_CU_WAIT_VALUE_EQ;
	CU(cuStreamBatchMemOp_v2(dev.s, 3, ops, 0));
}

/* Closed it stands, open it goes on; how long after the store. */
static uint64_t pass_gate(const struct page *p, uint32_t number, bool patient)
{
	uint64_t opened;

	atomic_store(gate_of(p), 1);
	enqueue_gate(p, number);
	if (!told(2 * number, PATIENCE))
		die("round %u: the stream did not come to the gate", number);
	if (patient && told(2 * number + 1, STAYS))
		die("round %u: the stream did not stand at the closed gate", number);
	opened = now_ns();
	atomic_store(gate_of(p), 0);
	if (!told(2 * number + 1, PATIENCE))
		die("round %u: the stream did not go on", number);
	opened = now_ns() - opened;
	CU(cuStreamSynchronize(dev.s));
	return opened;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void try_gates(struct page *p, const char *what, uint32_t rounds)
{
	uint64_t *took = calloc(rounds, sizeof(*took));

	for (uint32_t i = 0; i < rounds; i++)
		took[i] = pass_gate(p, 1 + i, i < 5);
	qsort(took, rounds, sizeof(*took), by_number);
	printf("%s: %u gates, store to gone on %llu ns p50, %llu ns max\n", what, rounds,
		(unsigned long long)took[rounds / 2], (unsigned long long)took[rounds - 1]);
	free(took);
}

static int try_write(struct page *p)
{
	atomic_store(gate_of(p), 7);
	printf("write: call %d", cu.cuStreamWriteValue32_v2(dev.s, p->d + WORD, 1, 0));
	printf(", synchronize %d", cu.cuStreamSynchronize(dev.s));
	printf(", word %u\n", atomic_load(gate_of(p)));
	return atomic_load(gate_of(p)) == 7 ? 0 : 1;
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 200;
	struct page p, plain;
	char *again;
	int rc;

	make_page(&p);
	make_page(&plain);
	open_device();
	rc = register_page(&plain, plain.read, 0);
	printf("registered as memory to write: %d\n", rc);
	rc = register_page(&p, p.read, FM_CU_HOST_REGISTER_READ_ONLY);
	printf("registered as memory to read: %d\n", rc);
	if (rc)
		return 77;
	if (argc > 1 && !strcmp(argv[1], "write"))
		return try_write(&p);
	try_gates(&p, "first mapping", rounds ? rounds : 1);
	/* As each further context has it: the same pages at another address. */
	again = mremap(p.read, 0, SIZE, MREMAP_MAYMOVE);
	if (again == MAP_FAILED || madvise(again, SIZE, MADV_DONTFORK))
		die("the page cannot be mapped again");
	rc = register_page(&p, again, FM_CU_HOST_REGISTER_READ_ONLY);
	if (rc)
		die("the second mapping is refused: %d", rc);
	try_gates(&p, "second mapping", rounds ? rounds : 1);
	return 0;
}
