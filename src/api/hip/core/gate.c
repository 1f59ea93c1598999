/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates. Each queue has a word of signal memory, which counts the opened gates: the n-th gate waits
 * until the word is n. So gates open in order, and a word can serve the next queue unchanged. A
 * command processor can wait for signal memory, too (GPU_STREAMOPS_CP_WAIT); otherwise a kernel of
 * one wave waits there.
 *
 * A host function that waits would be a gate as well. But the runtime calls the host functions of
 * all streams from one thread, so it would stop the program's own, also in streams that may run.
 */
#include "base/cancel.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "core.h"
#include "tune.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct fm_hip_word {
	struct fm_hip_word *next; /* while no queue has it */
	_Atomic uint64_t *opened;
	uint64_t put,
		early; /* bit i: the gate i + 2 behind the last one that counts has been opened */
	int device;
	unsigned reset; /* resets of the device when it was made; after another one its memory is
			   gone */
};

enum holds { UNTRIED, NO, YES };

static struct {
	pthread_mutex_t lock;
	struct fm_hip_word *free;
	_Atomic unsigned resets[FM_HIP_DEVICES];
} words = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(words.lock, HIP_WORDS);

static struct {
	pthread_mutex_t lock; /* held over a trial; taken before the other */
	_Atomic enum holds device[FM_HIP_DEVICES];
} holds = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(holds.lock, HIP_TRIAL);

static struct fm_hip_word *take(int device)
{
	struct fm_hip_word **at, *w;

	pthread_mutex_lock(&words.lock);
	for (at = &words.free; *at && (*at)->device != device;)
		at = &(*at)->next;
	w = *at;
	if (w)
		*at = w->next;
	pthread_mutex_unlock(&words.lock);
	return w;
}

/* The memory is never freed, because that would wait for the device. */
struct fm_hip_word *fm_hip_word_get(const struct fm_hip_driver *hip, int device)
{
	struct fm_hip_word *w = take(device);
	struct fm_hip_visit v;
	unsigned reset;
	void *p = NULL;

	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	reset = atomic_load(&words.resets[device]);
	v = fm_hip_enter(hip, device);
	if (hip->malloc_with_flags(&p, sizeof(uint64_t), FM_HIP_SIGNAL_MEMORY))
		p = NULL;
	fm_hip_leave(hip, device, v);
	if (!p) {
		free(w);
		return NULL;
	}
	w->device = device;
	w->reset = reset;
	w->opened = p;
	atomic_store(w->opened, 0);
	return w;
}

static bool is_there(const struct fm_hip_word *w)
{
	return w->reset == atomic_load(&words.resets[w->device]);
}

void fm_hip_word_put(struct fm_hip_word *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&words.lock);
	if (is_there(w)) {
		w->next = words.free;
		words.free = w;
		w = NULL;
	}
	pthread_mutex_unlock(&words.lock);
	free(w);
}

static int put(const struct fm_hip_driver *hip, hipStream_t stream, struct fm_hip_word *w)
{
	if (hip->wait_value(stream, w->opened, w->put + 1, FM_HIP_WAIT_GTE, UINT64_MAX))
		return -EIO;
	w->put++;
	return 0;
}

int fm_hip_gate_put(const struct fm_hip_driver *hip, int device, hipStream_t stream,
	struct fm_hip_word *w, void **gate)
{
	struct fm_hip_visit v = fm_hip_enter(hip, device);
	int rc = put(hip, stream, w);

	fm_hip_leave(hip, device, v);
	*gate = (void *)(uintptr_t)w->put;
	return rc;
}

/* A gate that is opened before those in front of it counts when they do: the stream reaches it only
 * then.
 */
static void open_gate(struct fm_hip_word *w, uint64_t n)
{
	uint64_t opened = atomic_load_explicit(w->opened, memory_order_relaxed);
	uint64_t ahead = n - opened - 1;

	if (ahead && ahead <= 64) {
		w->early |= UINT64_C(1) << (ahead - 1);
		return;
	}
	/* There are never so many gates. If there were, opening is better than closing for good. */
	opened = n;
	for (bool more = true; more; w->early >>= 1) {
		more = w->early & 1;
		opened += more;
	}
	atomic_store(w->opened, opened);
}

void fm_hip_gate_open(struct fm_hip_word *w, void *gate)
{
	if (is_there(w))
		open_gate(w, (uintptr_t)gate);
}

/* --- do gates hold? --- */

static bool passes(const struct fm_hip_driver *hip, hipStream_t stream)
{
	const struct timespec nap = {.tv_nsec = FM_HIP_TRIAL_LOOK};
	uint64_t until = fm_now() + FM_HIP_TRIAL_PASSES;
	hipError_t rc;

	while ((rc = hip->stream_query(stream)) == FM_HIP_NOT_READY && fm_now() < until)
		nanosleep(&nap, NULL);
	return rc == FM_HIP_SUCCESS;
}

/* An open gate is passed at once. Until it is, what the stream does next says nothing of it: a
 * driver's own threads may be late. */
static bool has_come_so_far(
	const struct fm_hip_driver *hip, hipStream_t stream, const struct fm_hip_word *w)
{
	return !hip->wait_value(stream, w->opened, w->put, FM_HIP_WAIT_GTE, UINT64_MAX) &&
	       passes(hip, stream);
}

/* stream[0] stands at a gate, while stream[1] passes an open one that was put there later. */
static bool try_once(const struct fm_hip_driver *hip, hipStream_t stream[2], struct fm_hip_word *w,
	uint64_t so_long)
{
	const struct timespec a_while = fm_timespec(so_long);
	bool ok = has_come_so_far(hip, stream[0], w) && !put(hip, stream[0], w) &&
		  !hip->wait_value(stream[1], w->opened, w->put - 1, FM_HIP_WAIT_GTE, UINT64_MAX);

	ok = ok && passes(hip, stream[1]);
	if (ok)
		nanosleep(&a_while, NULL);
	ok = ok && hip->stream_query(stream[0]) == FM_HIP_NOT_READY;
	open_gate(w, w->put);
	return passes(hip, stream[0]) && passes(hip, stream[1]) && ok;
}

/* On a busy machine a stream that does not stand may be late by chance, but not each time. */
static bool try_streams(const struct fm_hip_driver *hip, hipStream_t stream[2],
	struct fm_hip_word *w, unsigned times, uint64_t so_long)
{
	for (unsigned i = 0; i < times; i++)
		if (!try_once(hip, stream, w, so_long))
			return false;
	return true;
}

/* A stream that does not go on is not destroyed, since that would wait for it; and its word is
 * kept. */
static bool try_device(
	const struct fm_hip_driver *hip, int device, unsigned times, uint64_t so_long)
{
	hipStream_t stream[2] = {NULL, NULL};
	struct fm_hip_word *w = fm_hip_word_get(hip, device);
	bool ok = w != NULL, over = true;

	for (int i = 0; ok && i < 2; i++)
		ok = !hip->stream_create(&stream[i], FM_HIP_STREAM_NON_BLOCKING);
	ok = ok && try_streams(hip, stream, w, times, so_long);
	for (int i = 0; i < 2; i++) {
		if (stream[i] && hip->stream_query(stream[i]) == FM_HIP_SUCCESS)
			hip->stream_destroy(stream[i]);
		else
			over = over && !stream[i];
	}
	if (over)
		fm_hip_word_put(w);
	return ok;
}

/*
 * Before ROCm 5.6 the runtime waits for a device with a lock that most calls take. Such a wait may
 * be for what stands at a gate of ours, and then the calls that gates take never return. A trial
 * would have to wait for all that the program has on the device, so the version has to do.
 */
static bool waits_without_lock(const struct fm_hip_driver *hip)
{
	int version = 0;

	return hip->runtime_version && !hip->runtime_version(&version) &&
	       version >= FM_HIP_ROCM_5_6;
}

static bool can_wait(const struct fm_hip_driver *hip, int device)
{
	int can = 0;

	return waits_without_lock(hip) && hip->wait_value && hip->malloc_with_flags &&
	       hip->stream_create && hip->stream_destroy && hip->stream_query &&
	       hip->device_attribute &&
	       !hip->device_attribute(&can, FM_HIP_CAN_WAIT_VALUE, device) && can;
}

bool fm_hip_gates_hold(const struct fm_hip_driver *hip, int device)
{
	struct fm_hip_visit v;
	FM_NO_CANCEL;

	if (device < 0 || device >= FM_HIP_DEVICES)
		return false;
	if (atomic_load(&holds.device[device]) != UNTRIED)
		return atomic_load(&holds.device[device]) == YES;
	pthread_mutex_lock(&holds.lock);
	if (atomic_load(&holds.device[device]) == UNTRIED) {
		v = fm_hip_enter(hip, device);
		atomic_store(&holds.device[device],
			can_wait(hip, device) &&
					try_device(hip, device, FM_HIP_TRIALS, FM_HIP_TRIAL_STANDS)
				? YES
				: NO);
		fm_hip_leave(hip, device, v);
	}
	pthread_mutex_unlock(&holds.lock);
	return atomic_load(&holds.device[device]) == YES;
}

bool fm_hip_gates_stand(const struct fm_hip_driver *hip, int device, uint64_t ns)
{
	struct fm_hip_visit v = fm_hip_enter(hip, device);
	bool ok = can_wait(hip, device) && try_device(hip, device, 1, ns);

	fm_hip_leave(hip, device, v);
	return ok;
}

/* The device's memory has ended with the reset. */
void fm_hip_gates_forget(int device)
{
	struct fm_hip_word *w;

	if (device < 0 || device >= FM_HIP_DEVICES)
		return;
	pthread_mutex_lock(&words.lock);
	atomic_fetch_add(&words.resets[device], 1);
	pthread_mutex_unlock(&words.lock);
	while ((w = take(device)))
		free(w);
}

void fm_hip_gates_fork_child(void)
{
	words.lock = holds.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	words.free = NULL;
	for (int i = 0; i < FM_HIP_DEVICES; i++)
		atomic_store(&holds.device[i], UNTRIED);
}
