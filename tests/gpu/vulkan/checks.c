/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver does with queues that wait for the host, and whether results are right:
 *
 *	gpu_vulkan closed SECONDS   a queue stands that long with work behind it, while another
 *	                            works; then it opens, and all is done
 *	gpu_vulkan pairs            does a queue that stands hold up another? All pairs, by families
 *	gpu_vulkan ring MOST        submissions behind what stands: how many until the driver makes
 *	                            the caller wait; then it opens, and all is done
 *	gpu_vulkan chain ROUNDS     likewise, and by timelines, in turn
 *	gpu_vulkan sparse ROUNDS    binds and commands that timelines order: each command works in
 *	                            the memory that was bound before it
 *	gpu_vulkan held             a bind behind a command: after each line of stdin the command,
 *	                            "submitted", the bind, "bound", the command's end, "done"
 *	gpu_vulkan binary ROUNDS    commands that binary semaphores order, to and fro between queues
 *
 * The waits are of the program's own, so natively these need no scheduler.
 */
#include "vk.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS 100u
#define SOON  (20000 * MS) /* what passes passes within that */

static bool is(const char *a, const char *b)
{
	return !strcmp(a, b);
}

static void expect(bool ok, const char *what)
{
	if (!ok)
		die(what, 0);
}

/* --- a queue that stands for long --- */

/* A second queue of that kind, or of a second device if there is only one. */
static void open_other(struct gpu *g, struct gpu *second, struct lane *other)
{
	if (g->queues[g->compute] > 1) {
		lane_open(other, g, g->compute, 1, 4096);
	} else {
		gpu_open(second, NULL, 1);
		lane_open(other, second, second->compute, 0, 4096);
	}
}

static void closed(unsigned seconds)
{
	enum { BEHIND = 64 };
	struct gpu g, second = {0};
	struct lane stands, works;
	VkSemaphore gate;
	VkCommandBuffer a, b;
	uint64_t from, beside = 0, opened;

	gpu_open(&g, NULL, 2);
	lane_open(&stands, &g, g.compute, 0, 4096);
	open_other(&g, &second, &works);
	gate = timeline_new(&g);
	a = lane_record(&stands, 1, STEPS);
	b = lane_record(&works, 1, STEPS);
	lane_submit(&stands, &(struct order){.wait = gate, .wait_value = 1});
	for (int i = 0; i < BEHIND; i++)
		lane_run(&stands, a);
	for (from = now_ns(); now_ns() - from < seconds * 1000 * MS; beside++) {
		expect(lane_wait(&works, lane_run(&works, b), SOON), "the other queue stands, too");
		sleep_ns(20 * MS);
	}
	expect(lane_at(&stands) == 0, "it did not stand");
	timeline_signal(&g, gate, 1);
	opened = now_ns();
	expect(lane_wait(&stands, stands.value, SOON), "it does not go on");
	printf("stood for %u s with %d submissions behind, %llu passed beside; done %.1f ms after "
	       "it opened\n",
		seconds, BEHIND, (unsigned long long)beside, (double)(now_ns() - opened) / 1e6);
	expect(!lane_wrong(&stands, (uint64_t)BEHIND * STEPS) &&
			!lane_wrong(&works, beside * STEPS),
		"wrong words");
	semaphore_end(&g, gate);
	lane_close(&stands);
	lane_close(&works);
	gpu_close(&g);
	if (second.device)
		gpu_close(&second);
}

/* --- which queues hold up each other --- */

static const char *name_of(const struct gpu *g, uint32_t family)
{
	VkQueueFlags f = g->family[family].queueFlags;

	return f & VK_QUEUE_GRAPHICS_BIT   ? "graphics"
	       : f & VK_QUEUE_COMPUTE_BIT  ? "compute"
	       : f & 0x20                  ? "decode"
	       : f & 0x40                  ? "encode"
	       : f & 0x100                 ? "flow"
	       : f & VK_QUEUE_TRANSFER_BIT ? "copy"
					   : "other";
}

/* Does what is in `b` pass while `a` stands? */
static bool passes(struct lane *a, struct lane *b, VkCommandBuffer in_b)
{
	const uint64_t while_it_stands = 300 * MS;
	VkSemaphore gate = timeline_new(a->g);
	bool ok;

	lane_submit(a, &(struct order){.wait = gate, .wait_value = 1});
	ok = lane_wait(b, lane_run(b, in_b), while_it_stands);
	expect(lane_at(a) == a->value - 1, "what waits for the host does not stand");
	timeline_signal(a->g, gate, 1);
	expect(lane_wait(a, a->value, SOON) && lane_wait(b, b->value, SOON), "it does not go on");
	semaphore_end(a->g, gate);
	return ok;
}

static void pairs(void)
{
	static struct lane lane[3 * FAMILIES];
	static VkCommandBuffer c[3 * FAMILIES];
	unsigned n = 0, tried = 0, held = 0;
	struct gpu g;

	gpu_open(&g, NULL, QUEUES);
	for (uint32_t f = 0; f < g.families; f++)
		for (uint32_t i = 0; i < g.queues[f] && i < 3; i++, n++) {
			uint32_t index = i ? g.queues[f] - i : 0;

			printf("%2u %s, family %u, queue %u\n", n, name_of(&g, f), f, index);
			lane_open(&lane[n], &g, f, index, 4096);
			c[n] = lane_record(&lane[n], 1, STEPS);
			expect(lane_wait(&lane[n], lane_run(&lane[n], c[n]), SOON),
				"a queue does nothing");
		}
	printf("a queue that stands (rows), and others (columns): . passes, x is held up\n");
	for (unsigned a = 0; a < n; a++) {
		printf("%2u ", a);
		for (unsigned b = 0; b < n; b++) {
			bool ok = a == b || passes(&lane[a], &lane[b], c[b]);

			tried += a != b;
			held += !ok;
			putchar(a == b ? '-' : ok ? '.' : 'x');
		}
		putchar('\n');
	}
	printf("pairs %u held %u\n", tried, held);
	for (unsigned i = 0; i < n; i++)
		lane_close(&lane[i]);
	gpu_close(&g);
}

/* --- much behind one gate --- */

static struct ring {
	struct lane *l;
	VkCommandBuffer c;
	unsigned most;
	_Atomic unsigned n;
} ring;

static void *fill(void *arg)
{
	for (unsigned i = 0; i < ring.most; i++) {
		lane_run(ring.l, ring.c);
		atomic_fetch_add(&ring.n, 1);
	}
	return NULL;
}

static void fill_ring(unsigned most)
{
	struct gpu g;
	struct lane l;
	VkSemaphore gate;
	pthread_t thread;
	unsigned n = 0, before;

	gpu_open(&g, NULL, 1);
	lane_open(&l, &g, g.compute, 0, 4096);
	gate = timeline_new(&g);
	lane_submit(&l, &(struct order){.wait = gate, .wait_value = 1});
	ring = (struct ring){.l = &l, .c = lane_record(&l, 1, STEPS), .most = most};
	expect(!pthread_create(&thread, NULL, fill, NULL), "no thread");
	do {
		before = n;
		sleep_ns(500 * MS);
		n = atomic_load(&ring.n);
	} while (n != before);
	expect(lane_at(&l) == 0, "it did not stand");
	timeline_signal(&g, gate, 1);
	pthread_join(thread, NULL);
	expect(lane_wait(&l, l.value, SOON), "it does not go on");
	expect(!lane_wrong(&l, (uint64_t)most * STEPS), "wrong words");
	printf(n < most ? "a submission waits in the driver behind %u others\n"
			: "no submission waits in the driver behind %u others\n",
		n);
	semaphore_end(&g, gate);
	lane_close(&l);
	gpu_close(&g);
}

/* --- binary semaphores across queues --- */

/* Two queues that compute, of two families if there are such; of one device, so that a binary
 * semaphore can be of both. */
static void two_queues(struct gpu *g, uint32_t *family, uint32_t *index)
{
	*family = g->compute;
	*index = g->queues[g->compute] > 1;
	for (uint32_t f = g->compute + 1; f < g->families; f++)
		if (g->family[f].queueFlags & VK_QUEUE_COMPUTE_BIT) {
			*family = f;
			*index = 0;
		}
}

/* Both change the words of the first. chained: the second waits for the first's timeline. */
static void binary(unsigned rounds, bool chained)
{
	struct gpu g;
	struct lane a, b, own;
	VkSemaphore there, back;
	VkCommandBuffer in_a, in_b;
	uint32_t family, index;

	gpu_open(&g, NULL, 2);
	two_queues(&g, &family, &index);
	lane_open(&a, &g, g.compute, 0, 4096);
	lane_open(&b, &g, family, index, 4096);
	own = b;
	b.set = a.set;
	in_a = lane_record(&a, 1, STEPS);
	in_b = lane_record(&b, 1, STEPS);
	there = binary_new(&g);
	back = binary_new(&g);
	for (unsigned i = 0; i < rounds; i++) {
		struct order to = {.commands = in_a, .wait = i ? back : NULL},
			     fro = {.commands = in_b, .signal = back};

		if (!chained)
			to.signal = fro.wait = there;
		lane_submit(&a, &to);
		if (chained) {
			fro.wait = a.timeline;
			fro.wait_value = a.value;
		}
		lane_submit(&b, &fro);
		if (i % 8 == 7)
			expect(lane_wait(&b, b.value, SOON), "it does not end");
	}
	expect(lane_wait(&b, b.value, SOON), "it does not end");
	expect(!lane_wrong(&a, 2ull * rounds * STEPS), "wrong words");
	printf("%u rounds between a %s queue and %s\n", rounds, name_of(&g, g.compute),
		a.queue == b.queue ? "itself" : name_of(&g, family));
	semaphore_end(&g, there);
	semaphore_end(&g, back);
	b.set = own.set;
	lane_close(&a);
	lane_close(&b);
	gpu_close(&g);
}

/* --- sparse binding --- */

struct sparse {
	struct gpu g;
	struct lane l;
	uint32_t *word[2];
	VkDeviceMemory memory[2];
	VkSemaphore bound;
	VkCommandBuffer commands;
	unsigned binds;
};

static void open_sparse(struct sparse *s)
{
	gpu_open(&s->g, NULL, 1);
	if (!s->g.sparse) {
		fputs("gpu_vulkan: the device has no sparse binding\n", stderr);
		exit(77);
	}
	lane_open(&s->l, &s->g, s->g.compute, 0, 4096);
	lane_sparse(&s->l, s->word, s->memory);
	s->bound = timeline_new(&s->g);
	s->commands = lane_record(&s->l, 1, STEPS);
}

static void close_sparse(struct sparse *s)
{
	semaphore_end(&s->g, s->bound);
	lane_close(&s->l);
	for (int i = 0; i < 2; i++)
		vkFreeMemory(s->g.device, s->memory[i], NULL);
	gpu_close(&s->g);
}

/* Behind all that was submitted. */
static void bind_next(struct sparse *s)
{
	const struct order o = {.wait = s->l.value ? s->l.timeline : VK_NULL_HANDLE,
		.wait_value = s->l.value,
		.signal = s->bound};

	lane_bind(&s->l, s->memory[s->binds % 2], &o, s->binds + 1);
	s->binds++;
}

static void run_bound(struct sparse *s)
{
	lane_submit(&s->l,
		&(struct order){.commands = s->commands, .wait = s->bound, .wait_value = s->binds});
}

static void expect_words(struct sparse *s, unsigned rounds)
{
	for (unsigned i = 0; i < 2; i++) {
		s->l.word = s->word[i];
		expect(!lane_wrong(&s->l, (uint64_t)((rounds + 1 - i) / 2) * STEPS), "wrong words");
	}
}

static void sparse(unsigned rounds)
{
	struct sparse s = {0};

	open_sparse(&s);
	for (unsigned i = 0; i < rounds; i++) {
		bind_next(&s);
		run_bound(&s);
		if (i % 8 == 7) {
			expect(lane_wait(&s.l, s.l.value, UINT64_MAX), "it does not end");
			expect_words(&s, i + 1);
		}
	}
	expect(lane_wait(&s.l, s.l.value, UINT64_MAX), "it does not end");
	expect_words(&s, rounds);
	close_sparse(&s);
	printf("%u rounds\n", rounds);
}

static void held(void)
{
	struct sparse s = {0};
	unsigned rounds = 0;
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	open_sparse(&s);
	bind_next(&s);
	run_bound(&s);
	expect(lane_wait(&s.l, s.l.value, UINT64_MAX), "it does not end");
	puts("ready");
	for (rounds++; fgets(line, sizeof(line), stdin); rounds++) {
		run_bound(&s);
		puts("submitted");
		lane_bind(&s.l, s.memory[0], &(struct order){.signal = s.bound}, ++s.binds);
		puts("bound");
		expect(lane_wait(&s.l, s.l.value, UINT64_MAX), "it does not end");
		puts("done");
	}
	close_sparse(&s);
}

bool check(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	/* A driver that hangs ends this, too. */
	alarm(60 + (is(what, "closed") && argc == 3 ? (unsigned)atoi(argv[2]) : 0));

	if (is(what, "closed") && argc == 3)
		closed((unsigned)atoi(argv[2]));
	else if (is(what, "pairs") && argc == 2)
		pairs();
	else if (is(what, "ring") && argc == 3)
		fill_ring((unsigned)atoi(argv[2]));
	else if ((is(what, "binary") || is(what, "chain")) && argc == 3)
		binary((unsigned)atoi(argv[2]), is(what, "chain"));
	else if (is(what, "sparse") && argc == 3)
		alarm(0), sparse((unsigned)atoi(argv[2]));
	else if (is(what, "held") && argc == 2)
		alarm(0), held();
	else
		return alarm(0), false;
	return true;
}
