/* SPDX-License-Identifier: Apache-2.0 */
#include "settle.h"
#include "base/lockorder.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* first launches are few */
FM_LOCK_RANK(lock, CU_SETTLE);

void fm_cu_settle_init(struct fm_cu_settle *s, void *words, CUdeviceptr at)
{
	for (unsigned i = 0; i < FM_CU_SETTLE_WORDS; i++)
		atomic_store(&s->of[i].want, 0);
	atomic_store(&s->used, 0);
	s->at = at;
	atomic_store(&s->never, false);
	atomic_store(&s->words, (_Atomic uint32_t *)words);
}

void fm_cu_settle_forget(struct fm_cu_settle *s)
{
	atomic_store(&s->words, NULL);
	atomic_store(&s->never, false);
}

void fm_cu_settle_fork_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* The word for this launch: that of the stream's previous launch, which is in front of this one, or
 * the first free word. */
static unsigned place(const struct fm_cu_settle *s, _Atomic uint32_t *words, uint64_t queue)
{
	unsigned used = atomic_load(&s->used), unused = used;

	for (unsigned i = used; i-- > 0;) {
		if (atomic_load(&words[i]) == atomic_load(&s->of[i].want))
			unused = i;
		else if (s->of[i].queue == queue)
			return i;
	}
	return unused;
}

void fm_cu_settle_behind(
	struct fm_cu_settle *s, const struct fm_cu_driver *cu, CUstream stream, uint64_t queue)
{
	_Atomic uint32_t *words = atomic_load(&s->words);
	union fm_cu_mem_op op = {.pad = {0}};
	unsigned i;

	if (!words)
		return;
	pthread_mutex_lock(&lock);
	i = place(s, words, queue);
	if (i < FM_CU_SETTLE_WORDS) {
		s->of[i].queue = queue;
		op.op.operation = FM_CU_OP_WRITE_VALUE_32;
		op.op.address = s->at + i * sizeof(uint32_t);
		if (i == atomic_load(&s->used))
			atomic_store(&s->used, i + 1);
		op.op.value = atomic_fetch_add(&s->of[i].want, 1) + 1;
	}
	/* The driver may wait in this call. Then other threads wait here, and nothing is stopped
	 * meanwhile. */
	if (i == FM_CU_SETTLE_WORDS || cu->stream_mem_ops(stream, 1, &op, 0))
		atomic_store(&s->never, true);
	pthread_mutex_unlock(&lock);
}

bool fm_cu_settled(const struct fm_cu_settle *s)
{
	_Atomic uint32_t *words = atomic_load(&s->words);

	if (atomic_load(&s->never))
		return false;
	for (unsigned i = 0, n = atomic_load(&s->used); words && i < n; i++)
		if (atomic_load(&words[i]) != atomic_load(&s->of[i].want))
			return false;
	return true;
}
