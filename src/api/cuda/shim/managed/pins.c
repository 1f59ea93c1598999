/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that stays on the device, since something reaches it that no gate of ours stops; and
 * programs whose memory is not managed at all.
 *
 * Profilers (CUPTI) are not in the list: they follow calls, and read none of the program's memory.
 * Frameworks load them always.
 */
#include "managed.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <link.h>

/* --- what is loaded --- */

/* Encoders, decoders, optical flow, ray tracing, a debugger: each has channels of its own. */
static const char *const engines[] = {"libnvidia-encode.so", "libnvcuvid.so",
	"libnvidia-opticalflow.so", "libnvoptix.so", "libcudadebugger.so"};
static const char *const tools[] = {"libsanitizer-"};

struct names {
	const char *const *name;
	size_t n;
};

static int is_one(struct dl_phdr_info *i, size_t size, void *arg)
{
	const struct names *names = arg;
	const char *base = i->dlpi_name ? strrchr(i->dlpi_name, '/') : NULL;

	(void)size;
	for (size_t k = 0; base && k < names->n; k++)
		if (!strncmp(base + 1, names->name[k], strlen(names->name[k])))
			return 1;
	return 0;
}

bool fm_cuda_managed_engines(void)
{
	return dl_iterate_phdr(is_one, &(struct names){engines, FM_ARRAY_LEN(engines)});
}

bool fm_cuda_managed_tools(void)
{
	return dl_iterate_phdr(is_one, &(struct names){tools, FM_ARRAY_LEN(tools)});
}

/* --- pins --- */

static _Atomic unsigned all_pinned;

static void count_pinned(struct fm_cuda_managed *m, enum fm_mem_kind why, uint64_t bytes)
{
	if (!bytes)
		return;
	fm_account_change(fm_shim_has_client(), m->row, FM_MEM_MOVABLE, why, bytes);
	fm_cuda_managed_tell(m);
}

/* Waits for memory that is out. */
void fm_cuda_managed_pin(CUdeviceptr p, enum fm_mem_kind why)
{
	struct fm_cu_block block;
	struct fm_cuda_managed *m = fm_cuda_managed_find(p, &block);
	uint64_t bytes = 0;
	unsigned shard;

	if (!m || !block.size || block.stays)
		return;
	shard = fm_rest_call_begin(fm_shim_has_client());
	fm_cu_arena_pin(atomic_load(&m->arena), p, why, &bytes);
	fm_rest_call_end(fm_shim_has_client(), shard);
	count_pinned(m, why, bytes);
}

static void pin_one(struct fm_cuda_managed *m, void *why)
{
	uint64_t bytes = 0;

	fm_cu_arena_pin_all(atomic_load(&m->arena), *(enum fm_mem_kind *)why, &bytes);
	count_pinned(m, *(enum fm_mem_kind *)why, bytes);
}

void fm_cuda_managed_pin_all(enum fm_mem_kind why)
{
	struct fm_client *c;
	unsigned shard;

	if (!fm_cuda_manages())
		return;
	/* Before the client is looked for: what is made from now on is pinned by who makes it. */
	atomic_store(&all_pinned, why);
	c = fm_shim_has_client();
	if (!c)
		return;
	shard = fm_rest_call_begin(c);
	fm_cuda_managed_each(pin_one, &why);
	fm_rest_call_end(c, shard);
	fm_cuda_managed_trouble(FM_MEM_PINNED_ALL);
}

/* The wish memory-pin is looked at here alone, before the first allocation: what is pinned stays
 * so, and the daemon honours a wish that comes later (bridge/away.c). */
void fm_cuda_managed_pin_new(struct fm_cuda_managed *m)
{
	enum fm_mem_kind why = atomic_load(&all_pinned);

	if (!why && fm_client_hinted(fm_shim_has_client(), FM_HINT_MEMORY_PIN)) {
		why = FM_MEM_PIN_WISH;
		atomic_store(&all_pinned, why);
	}
	if (why)
		pin_one(m, &why);
}

bool fm_cuda_managed_all_pinned(void)
{
	return atomic_load(&all_pinned);
}

void fm_cuda_pins_words_slow(const union fm_cu_mem_op *ops, unsigned n)
{
	for (unsigned i = 0; !fm_cu_inside && i < n; i++)
		fm_cuda_managed_pin(ops[i].op.address, FM_MEM_PIN_WORDS);
}

/* --- calls that name addresses --- */

/* Within the shim's call (fm_cu_inside is 1), not within one that the driver makes in another. */
unsigned fm_cuda_naming_begin_slow(void)
{
	struct fm_client *c = fm_shim_has_client();

	return c && fm_cu_inside <= 1 ? fm_rest_call_begin(c) + 1 : 0;
}

void fm_cuda_naming_end_slow(unsigned begun)
{
	fm_rest_call_end(fm_shim_has_client(), begun - 1);
}

/* --- tables of the driver's that it hands out by an identifier --- */

/* Those that each program of the runtime's uses, by what is known of them: none reaches memory. */
static const struct fm_cu_uuid harmless[] = {
	{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
		0xf9}}, /* the runtime's interface, */
	{{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d,
		0xd9}}, /* how it begins, */
	{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
		0x66}}, /* hooks of tools, */
	{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
		0xdc}}, /* what they keep for each thread, */
	{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
		0x93}}, /* and for each context; */
	{{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
		0x7e}}, /* checks of a context, */
	{{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
		0xf2}}, /* and of the driver; */
	{{0x69, 0xa2, 0x8e, 0x9f, 0x24, 0x49, 0x8b, 0x47, 0xb0, 0x30, 0xc5, 0xda, 0x33, 0x0e, 0xa4,
		0xe9}}, /* what NVML asks for when it begins */
};

void fm_cuda_managed_table(const struct fm_cu_uuid *id)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(harmless); i++)
		if (!memcmp(id, &harmless[i], sizeof(*id)))
			return;
	fm_cuda_managed_pin_all(FM_MEM_PIN_UNKNOWN);
}
