/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of a process, as its writers and as an enemy leave it; and files of traces. */
#include "base/cleanup.h"
#include "trace/file.h"
#include "trace/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define N FM_TRACE_LANE /* what one thread writes into */

struct world {
	int fd, reader_fd;
	struct fm_trace_ring *ring;
	struct fm_trace_reader reader;
	unsigned lane; /* of this thread */
	struct fm_trace_rec rec[FM_TRACE_RECORDS];
};

static void put(struct world *w, uint64_t i)
{
	fm_trace_client(w->ring, FM_EV_gate_placed, i, i & 127, i & 15, i, 2 * i, 3 * i);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->fd = fm_trace_ring_create();
	assert_true(w->fd >= 0);
	w->reader_fd = fm_trace_ring_reader(w->fd);
	assert_true(w->reader_fd >= 0);
	assert_int_equal(fm_trace_ring_map(&w->ring, w->fd, NULL), 0);
	assert_int_equal(fm_trace_reader_open(&w->reader, w->reader_fd), 0);
	put(w, 0); /* which lane is this thread's? */
	while (!atomic_load(&w->ring->lane[w->lane].head))
		w->lane++;
	atomic_store(&w->ring->lane[w->lane].head, 0);
	atomic_store(&w->ring->slot[w->lane][0].word[0], 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	fm_trace_reader_close(&w->reader);
	fm_trace_ring_unmap(w->ring);
	close(w->fd);
	close(w->reader_fd);
	free(w);
	return 0;
}

/* Every field says the same number. */
static void assert_is(const struct fm_trace_rec *r, uint64_t i)
{
	assert_int_equal(r->at, i);
	assert_int_equal(r->event, FM_EV_gate_placed);
	assert_int_equal(r->slot, i & 127);
	assert_int_equal(r->group, i & 15);
	assert_int_equal(r->arg[0], i);
	assert_int_equal(r->arg[1], 2 * i);
	assert_int_equal(r->arg[2], 3 * i);
}

static size_t get(struct world *w, size_t max)
{
	return fm_trace_read(&w->reader, w->rec, max, false);
}

static void what_is_written_is_read_once(void **state)
{
	struct world *w = *state;

	assert_int_equal(get(w, N), 0);
	for (uint64_t i = 0; i < 10; i++)
		put(w, i);
	assert_int_equal(get(w, 4), 4);
	for (uint64_t i = 0; i < 4; i++) {
		assert_is(&w->rec[i], i);
		assert_int_equal(w->rec[i].position, i);
	}
	assert_int_equal(get(w, N), 6);
	assert_is(&w->rec[5], 9);
	assert_int_equal(get(w, N), 0);
	assert_int_equal(w->reader.lost, 0);
}

static void what_is_overwritten_is_counted(void **state)
{
	struct world *w = *state;

	for (uint64_t i = 0; i < 3 * N + 5; i++)
		put(w, i);
	assert_int_equal(get(w, N), N);
	assert_int_equal(w->reader.lost, 2 * N + 5);
	for (uint64_t i = 0; i < N; i++)
		assert_is(&w->rec[i], 2 * N + 5 + i);
	put(w, 7);
	assert_int_equal(get(w, N), 1);
	assert_is(&w->rec[0], 7);
	assert_int_equal(w->reader.lost, 2 * N + 5);
}

/* As a thread leaves it that was stopped in the middle of a record. */
static void a_record_that_is_not_whole_is_waited_for(void **state)
{
	struct world *w = *state;
	_Atomic uint64_t *word = w->ring->slot[w->lane][1].word;

	put(w, 0);
	put(w, 1);
	put(w, 2);
	atomic_store(&word[0], 3); /* position 1 is being written */
	assert_int_equal(get(w, N), 1);
	assert_int_equal(w->reader.lost, 0);
	atomic_store(&word[0], 4);
	assert_int_equal(get(w, N), 2);
	assert_is(&w->rec[0], 1);
	put(w, 3);
	put(w, 4);
	atomic_store(&w->ring->slot[w->lane][3].word[0], 0);
	for (unsigned i = 1; i < FM_TRACE_LOOKS; i++)
		assert_int_equal(get(w, N), 0);
	assert_int_equal(w->reader.lost, 0);
	assert_int_equal(get(w, N), 1); /* it never came */
	assert_is(&w->rec[0], 4);
	assert_int_equal(w->reader.lost, 1);
	put(w, 5);
	atomic_store(&w->ring->slot[w->lane][5].word[0], 11);
	assert_int_equal(fm_trace_read(&w->reader, w->rec, N, true), 0);
	assert_int_equal(w->reader.lost, 2);
}

/* A writer that sleeps in a record for a whole lap is not written over, and neither writes over
 * who was faster. */
static void nobody_writes_into_a_record_in_the_making(void **state)
{
	struct world *w = *state;
	_Atomic uint64_t *word = w->ring->slot[w->lane][0].word;

	put(w, 0);
	atomic_store(&word[0], 1);
	for (uint64_t i = 1; i < N + 2; i++)
		put(w, i);
	assert_int_equal(atomic_load(&word[0]), 1);
	assert_int_equal(atomic_load(&word[1]), 0);
	atomic_store(&word[0], 2 * (5 * N) + 2);
	atomic_store(&w->ring->lane[w->lane].head, 2 * N);
	put(w, 77);
	assert_int_equal(atomic_load(&word[1]), 0);
}

/* A thread keeps to one lane, and as many threads as there are lanes never meet in one. */

static void *write_one(void *arg)
{
	put(arg, 1);
	put(arg, 2);
	return NULL;
}

static void threads_have_lanes(void **state)
{
	struct world *w = *state;

	for (unsigned i = 0; i < FM_TRACE_LANES; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, write_one, w), 0);
		pthread_join(thread, NULL);
	}
	for (unsigned i = 0; i < FM_TRACE_LANES; i++)
		assert_int_equal(atomic_load(&w->ring->lane[i].head), 2);
	assert_int_equal(get(w, 3), 3);
	assert_int_equal(w->rec[0].lane, 0);
	assert_int_equal(w->rec[1].position, 1);
	assert_int_equal(w->rec[2].lane, 1);
	assert_int_equal(get(w, FM_TRACE_RECORDS), 2 * FM_TRACE_LANES - 3);
	assert_int_equal(w->reader.fill, 2);
	assert_int_equal(get(w, FM_TRACE_RECORDS), 0);
	assert_int_equal(w->reader.fill, 0);
	assert_int_equal(w->reader.lost, 0);
}

#define WRITERS 6 /* more than lanes */
#define EACH    50000u

static void *write_many(void *arg)
{
	struct world *w = arg;

	for (uint64_t i = 0; i < EACH; i++)
		put(w, i);
	return NULL;
}

/* Whatever comes through is whole, and what does not is counted. */
static void several_writers_and_a_reader(void **state)
{
	struct world *w = *state;
	pthread_t thread[WRITERS];
	uint64_t seen = 0, next[FM_TRACE_LANES] = {0};
	size_t n;

	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, write_many, w), 0);
	while (seen + w->reader.lost < WRITERS * EACH / 2) {
		n = get(w, FM_TRACE_RECORDS);
		for (size_t i = 0; i < n; i++, seen++) {
			assert_is(&w->rec[i], w->rec[i].at);
			assert_true(w->rec[i].lane < FM_TRACE_LANES);
			assert_true(w->rec[i].position >= next[w->rec[i].lane]);
			next[w->rec[i].lane] = w->rec[i].position + 1;
		}
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	while ((n = fm_trace_read(&w->reader, w->rec, FM_TRACE_RECORDS, true)))
		for (size_t i = 0; i < n; i++, seen++)
			assert_is(&w->rec[i], w->rec[i].at);
	assert_int_equal(seen + w->reader.lost, WRITERS * EACH);
	assert_int_equal(w->reader.unknown, 0);
}

/* Anything at all: reading ends, within a lap, and nothing comes but events that there are. */
static void an_enemys_ring_harms_nobody(void **state)
{
	struct world *w = *state;
	uint64_t random = 88172645463325252u;

	for (unsigned round = 0; round < 50; round++) {
		uint64_t *word = (uint64_t *)w->ring;

		for (size_t i = 0; i < sizeof(*w->ring) / 8; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			word[i] = round % 2 ? random % (3 * N) : random;
		}
		for (unsigned calls = 0; calls < 4; calls++) {
			size_t n = fm_trace_read(&w->reader, w->rec, FM_TRACE_RECORDS, calls == 3);

			assert_true(n <= FM_TRACE_RECORDS);
			for (size_t i = 0; i < n; i++)
				assert_non_null(fm_trace_info(w->rec[i].event));
		}
		for (unsigned i = 0; i < FM_TRACE_LANES; i++)
			if (w->reader.lane[i].next > UINT64_MAX / 2)
				w->reader.lane[i].next = 0;
	}
	for (unsigned i = 0; i < FM_TRACE_LANES; i++) {
		atomic_store(&w->ring->lane[i].head, 0);
		w->reader.lane[i].next = 5;
	}
	assert_int_equal(get(w, N), 0);
}

static void unknown_events_are_left_out_and_counted(void **state)
{
	struct world *w = *state;

	fm_trace_client(w->ring, FM_EV_COUNT, 1, 0, 0, 0, 0, 0);
	fm_trace_client(w->ring, FM_EV_NONE, 1, 0, 0, 0, 0, 0);
	put(w, 2);
	assert_int_equal(get(w, N), 1);
	assert_is(&w->rec[0], 2);
	assert_int_equal(w->reader.unknown, 2);
}

/* Who may look cannot write; nobody can make it shrink. */
static void descriptors_are_what_they_are_for(void **state)
{
	struct world *w = *state;
	struct fm_trace_ring *other;

	assert_ptr_equal(
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, w->reader_fd, 0), MAP_FAILED);
	assert_int_equal(mprotect((void *)w->reader.ring, 4096, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(ftruncate(w->fd, 0), -1);
	assert_int_equal(ftruncate(w->fd, 1 << 24), -1);
	assert_int_equal(fm_trace_ring_map(&other, w->reader_fd, NULL), -EACCES);
}

static void what_is_no_ring_is_refused(void **state)
{
	FM_CLEAN_FD int unsealed = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	FM_CLEAN_FD int empty = memfd_create("y", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	FM_CLEAN_FD int pipe_end = -1, other = -1;
	struct fm_trace_reader r;
	struct fm_trace_ring *m;
	int ends[2];

	assert_int_equal(ftruncate(unsealed, sizeof(struct fm_trace_ring)), 0);
	assert_int_equal(ftruncate(empty, sizeof(struct fm_trace_ring)), 0);
	assert_int_equal(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(pipe(ends), 0);
	pipe_end = ends[0];
	other = ends[1];
	for (unsigned i = 0; i < 4; i++) {
		int fd = i == 0 ? unsealed : i == 1 ? empty : i == 2 ? pipe_end : -1;

		assert_int_equal(fm_trace_ring_map(&m, fd, NULL), -EINVAL);
		assert_int_equal(fm_trace_reader_open(&r, fd), -EINVAL);
		assert_int_equal(fm_trace_switch(fd >= 0 ? fd : pipe_end), -EINVAL);
		assert_null(atomic_load(&fm_trace_ring));
	}
}

/* On, off, to another ring; all at one address. A child of fork() writes into none. */
static void a_client_switches(void **state)
{
	struct world *w = *state;
	FM_CLEAN_FD int next = fm_trace_ring_create();
	struct fm_trace_ring *first;
	pid_t pid;
	int status;

	FM_TRACE(gate_placed, 1, 0, 0, 0, 0, 0);
	assert_int_equal(fm_trace_switch(w->fd), 0);
	first = atomic_load(&fm_trace_ring);
	FM_TRACE(gate_placed, 2, 2, 2, 2, 4, 6);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		fm_trace_forked();
		FM_TRACE(gate_placed, 3, 3, 3, 3, 6, 9);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(fm_trace_switch(-1), 0);
	FM_TRACE(gate_placed, 4, 4, 4, 4, 8, 12);
	assert_int_equal(fm_trace_switch(next), 0);
	assert_ptr_equal(atomic_load(&fm_trace_ring), first);
	FM_TRACE(gate_placed, 5, 5, 5, 5, 10, 15);
	assert_int_equal(get(w, N), 1);
	assert_is(&w->rec[0], 2);
	assert_int_equal(fm_trace_switch(-1), 0);
}

/* In the middle of a stream of records: those before it are there. */
static void the_ring_outlives_its_process(void **state)
{
	struct world *w = *state;
	pid_t pid = fork();
	uint64_t next = 0;
	int status;
	size_t n;

	assert_true(pid >= 0);
	if (!pid)
		for (uint64_t i = 0;; i++)
			put(w, i);
	while (next < 1000) {
		n = get(w, 100);
		for (size_t i = 0; i < n; i++)
			next = w->rec[i].at + 1;
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = fm_trace_read(&w->reader, w->rec, N, true);
	assert_true(n + w->reader.lost > 0 || next == atomic_load(&w->ring->lane[w->lane].head));
	for (size_t i = 0; i < n; i++)
		assert_is(&w->rec[i], w->rec[i].position);
	assert_int_equal(w->reader.lane[w->lane].next, atomic_load(&w->ring->lane[w->lane].head));
}

/* Files. */

static char *sample_file(size_t *size)
{
	struct fm_trace_rec rec[3] = {
		{.position = 0, .at = 300, .event = FM_EV_ready, .group = 1, .device = 1},
		{.position = 1, .at = 100, .event = FM_EV_decided, .group = 1, .reason = 1},
		{.position = 2, .at = 200, .event = FM_EV_COUNT + 3},
	};
	char *data = NULL;
	FILE *f = open_memstream(&data, size);

	fm_trace_file_begin(f, 1, 2);
	fm_trace_file_name(f, &(struct fm_trace_name){.kind = FM_TN_RING, .pid = 42}, "fermatad");
	fm_trace_file_name(f, &(struct fm_trace_name){.kind = FM_TN_GROUP, .id = 1}, "old");
	fm_trace_file_name(f, &(struct fm_trace_name){.kind = FM_TN_GROUP, .id = 1}, "batch");
	fm_trace_file_name(f,
		&(struct fm_trace_name){
			.kind = FM_TN_QUEUE, .id = 5, .pid = 7, .slot = 3, .since = 50},
		"first");
	fm_trace_file_name(f,
		&(struct fm_trace_name){
			.kind = FM_TN_QUEUE, .id = 6, .pid = 7, .slot = 3, .since = 150},
		"second");
	fm_trace_file_records(f, 0, 4, rec, 3);
	fm_trace_file_records(f, 9, 0, NULL, 0);
	fm_trace_file_end(f, FM_TE_DAEMON_GONE);
	assert_int_equal(fclose(f), 0);
	return data;
}

static void files_say_what_was_written(void **state)
{
	FM_CLEAN_FREE char *data = NULL;
	struct fm_trace_file t;
	size_t size;

	data = sample_file(&size);
	assert_int_equal(fm_trace_file_parse(&t, data, size, "x", NULL), 0);
	assert_int_equal(t.n_items, 2);
	assert_int_equal(t.items[0].rec->event, FM_EV_decided); /* by time */
	assert_int_equal(t.items[1].rec->event, FM_EV_ready);
	assert_int_equal(t.unknown, 1);
	assert_int_equal(t.n_rings, 2);
	assert_int_equal(t.rings[0].lost, 4);
	assert_int_equal(t.rings[0].pid, 42);
	assert_true(t.ended && t.why == FM_TE_DAEMON_GONE && !t.cut_off_at);
	assert_string_equal(fm_trace_file_find(&t, FM_TN_GROUP, 1)->text, "batch");
	assert_null(fm_trace_file_find(&t, FM_TN_GROUP, 2));
	assert_null(fm_trace_file_find(&t, FM_TN_DEVICE, 1));
	assert_string_equal(fm_trace_file_queue(&t, 7, 3, 149)->text, "first");
	assert_string_equal(fm_trace_file_queue(&t, 7, 3, 150)->text, "second");
	assert_string_equal(fm_trace_file_queue(&t, 7, 3, 10)->text, "first");
	assert_null(fm_trace_file_queue(&t, 7, 4, 150));
	fm_trace_file_close(&t);
}

/* Of every length: what is whole comes through, and where it was cut off is known. */
static void files_that_were_cut_off_are_read_as_far_as_they_go(void **state)
{
	FM_CLEAN_FREE char *data = NULL;
	struct fm_trace_file t;
	struct fm_err err;
	size_t size;

	data = sample_file(&size);
	for (size_t n = 0; n < size; n++) {
		int rc = fm_trace_file_parse(&t, data, n, "x", &err);

		if (n < sizeof(struct fm_trace_file_head)) {
			assert_int_equal(rc, -EINVAL);
			assert_non_null(strstr(err.text, "offset 0"));
			continue;
		}
		assert_int_equal(rc, 0);
		assert_false(t.ended);
		assert_true(t.cut_off_at == n || t.cut_off_at == 0);
		fm_trace_file_close(&t);
	}
}

static void refuse(const char *data, size_t size, size_t at, char byte)
{
	FM_CLEAN_FREE char *copy = malloc(size);
	struct fm_err err = {0};
	struct fm_trace_file t;

	memcpy(copy, data, size);
	copy[at] = byte;
	assert_int_equal(fm_trace_file_parse(&t, copy, size, "x", &err), -EINVAL);
	assert_true(err.text[0] && err.hint[0]);
}

static void files_that_are_none_are_refused(void **state)
{
	const size_t head = sizeof(struct fm_trace_file_head);
	FM_CLEAN_FREE char *data = NULL;
	size_t size;

	data = sample_file(&size);
	refuse(data, size, 0, 'X');
	refuse(data, size, 8, 99);        /* version */
	refuse(data, size, 16, 1);        /* size of a record */
	refuse(data, size, head, 77);     /* type of a chunk */
	refuse(data, size, head + 4, 3);  /* its size */
	refuse(data, size, head + 8, 99); /* kind of a name */
	refuse(data, size, size - 16 + 4, 0);
}

int main(void)
{
#define WITH_RING(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH_RING(what_is_written_is_read_once),
		WITH_RING(what_is_overwritten_is_counted),
		WITH_RING(a_record_that_is_not_whole_is_waited_for),
		WITH_RING(nobody_writes_into_a_record_in_the_making),
		WITH_RING(threads_have_lanes),
		WITH_RING(several_writers_and_a_reader),
		WITH_RING(an_enemys_ring_harms_nobody),
		WITH_RING(unknown_events_are_left_out_and_counted),
		WITH_RING(descriptors_are_what_they_are_for),
		cmocka_unit_test(what_is_no_ring_is_refused),
		WITH_RING(a_client_switches),
		WITH_RING(the_ring_outlives_its_process),
		cmocka_unit_test(files_say_what_was_written),
		cmocka_unit_test(files_that_were_cut_off_are_read_as_far_as_they_go),
		cmocka_unit_test(files_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
