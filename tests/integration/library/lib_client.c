// SPDX-License-Identifier: Apache-2.0
/*
 * A program that uses the public library under the real daemon, told what to do line by line:
 *
 *   lib_client GROUP [DEVICE]
 *
 * GROUP: a name to share, or "-" for the process's own group; DEVICE: "shared:0" if not given.
 *
 * feed, enough        keep commands under way; no more
 * burst N             submit N and wait for them
 * steps N             submit one and wait for it, N times
 * anew N              N times another queue in place of the one it has, and 20 commands
 * state               say how things are
 * segment P, end      begin a segment of priority P; end it
 * admit US PERIOD_MS   a real-time task "lib" of so many us of the device; how it was answered
 * leave               it leaves
 * more N              N groups more, with a queue each: "PID.0" and so on
 * suspend, resume     this queue alone, and wait for it
 * fork                do the same work in a child
 * close FD            close a descriptor, whosever it is
 * quit                wait for all, check the results, end
 *
 * Every answer is one line that begins with the word it answers.
 */
#include <errno.h>
#include <fermata/fermata.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_NS UINT64_C(200000)
#define PATIENCE   UINT64_C(60000000000)

/* Results come in order: each command finds the number that the one before it left. */
struct client {
	fm_sim_device *dev;
	fm_group *group;
	fm_xqueue *q;
	unsigned submitted, last, wrong;
	atomic_uint finished;
	atomic_bool enough;
	bool feeding;
	pthread_t feeder;
	pthread_mutex_t order; /* numbers are drawn in the order of submission */
};

struct number {
	struct client *c;
	unsigned n;
};

static void done(void *arg)
{
	struct number *number = arg;
	struct client *c = number->c;

	c->wrong += number->n != c->last + 1;
	c->last = number->n;
	free(number);
	c->finished++;
}

static int submit(struct client *c, uint64_t *seq)
{
	struct number *number = malloc(sizeof(*number));
	const struct fm_command command = {.device_ns = COMMAND_NS, .done = done, .arg = number};
	int rc;

	if (!number)
		return -ENOMEM;
	pthread_mutex_lock(&c->order);
	*number = (struct number){c, ++c->submitted};
	rc = fm_xqueue_submit(c->q, &command, seq);
	pthread_mutex_unlock(&c->order);
	return rc;
}

static void *feed(void *arg)
{
	struct client *c = arg;
	uint64_t seq[100] = {0};

	for (unsigned i = 0; !c->enough; i++)
		if (fm_xqueue_wait(c->q, seq[i % 100], PATIENCE) || submit(c, &seq[i % 100]))
			exit(3);
	return NULL;
}

static void stop_feeding(struct client *c)
{
	if (!c->feeding)
		return;
	c->enough = true;
	pthread_join(c->feeder, NULL);
	c->feeding = false;
}

static int start_feeding(struct client *c)
{
	c->enough = false;
	c->feeding = !pthread_create(&c->feeder, NULL, feed, c);
	return c->feeding ? 0 : -EAGAIN;
}

static int burst(struct client *c, unsigned n)
{
	uint64_t seq = 0;
	int rc = 0;

	for (unsigned i = 0; i < n && !rc; i++)
		rc = submit(c, &seq);
	return rc ? rc : fm_xqueue_wait(c->q, seq, PATIENCE);
}

static int steps(struct client *c, int n)
{
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = burst(c, 1);
	return rc;
}

static int anew(struct client *c, int n)
{
	struct fm_xqueue_options o = {.size = sizeof(o), .group = c->group};
	const struct fm_command command = {.device_ns = COMMAND_NS};
	fm_hwqueue *hwq;
	int rc = 0;

	for (int i = 0; i < n && !rc; i++) {
		rc = fm_xqueue_destroy(c->q);
		rc = rc ? rc : fm_sim_hwqueue_create(&hwq, c->dev);
		rc = rc ? rc : fm_xqueue_create(&c->q, hwq, &o);
		for (int k = 0; k < 20 && !rc; k++)
			rc = fm_xqueue_submit(c->q, &command, NULL);
		rc = rc ? rc : fm_xqueue_wait_all(c->q, PATIENCE);
	}
	return rc;
}

static int say_state(struct client *c)
{
	struct fm_xqueue_info i = {.size = sizeof(i)};
	int rc = fm_xqueue_query(c->q, &i);

	printf("state scheduled=%d stalled=%d suspended=%d level=%u daemon=%d finished=%u\n",
		i.scheduled, i.stalled, i.suspended, i.level, fm_scheduled(), c->finished);
	return rc;
}

static int set_up(struct client *c, const char *group, const char *device)
{
	struct fm_xqueue_options o = {.size = sizeof(o)};
	fm_hwqueue *hwq;
	int rc = 0;

	*c = (struct client){.order = PTHREAD_MUTEX_INITIALIZER};
	if (strcmp(group, "-") != 0)
		rc = fm_group_create(&c->group, group);
	o.group = c->group;
	if (!rc)
		rc = fm_sim_device_create(&c->dev, device, NULL);
	if (!rc)
		rc = fm_sim_hwqueue_create(&hwq, c->dev);
	return rc ? rc : fm_xqueue_create(&c->q, hwq, &o);
}

static int add_groups(struct client *c, int n)
{
	struct fm_xqueue_options o = {.size = sizeof(o)};
	fm_hwqueue *hwq;
	fm_xqueue *q;
	char name[32];
	int rc = 0;

	for (int i = 0; i < n && !rc; i++) {
		snprintf(name, sizeof(name), "%d.%d", (int)getpid(), i);
		rc = fm_group_create(&o.group, name);
		rc = rc ? rc : fm_sim_hwqueue_create(&hwq, c->dev);
		rc = rc ? rc : fm_xqueue_create(&q, hwq, &o);
	}
	return rc;
}

static int tear_down(struct client *c)
{
	int rc;

	stop_feeding(c);
	rc = fm_xqueue_destroy(c->q);
	fm_sim_device_destroy(c->dev);
	return rc ? rc : c->wrong || c->finished != c->submitted ? -EILSEQ : 0;
}

static int in_child(struct client *parent)
{
	struct client c;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fm_xqueue_wait_all(parent->q, 0) != -EBADF || set_up(&c, "-", "shared:0") ||
			burst(&c, 50) || tear_down(&c));
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -ECHILD;
}

static int admit(struct client *c, const char *line)
{
	struct fm_task_answer a = {.size = sizeof(a)};
	struct fm_task_segment s = {0};
	struct fm_task t = {.size = sizeof(t),
		.name = "lib",
		.cpu = FM_TASK_OWN_CPU,
		.segments = &s,
		.segment_count = 1};
	unsigned long us, ms;
	int rc;

	if (sscanf(line, "admit %lu %lu", &us, &ms) != 2)
		return -EINVAL;
	s.gpu_ns = us * 1000;
	t.period_ns = ms * 1000000;
	rc = fm_task_admit(c->group, &t, &a);
	printf("admit %d bound=%llu slack=%llu %s\n", rc, (unsigned long long)a.bound_ns,
		(unsigned long long)a.slack_ns, a.text);
	return (rc == 0) != a.admitted ? -EPROTO : 0;
}

static int obey(struct client *c, const char *word, int value)
{
	if (strcmp(word, "feed") == 0)
		return start_feeding(c);
	if (strcmp(word, "enough") == 0)
		return stop_feeding(c), 0;
	if (strcmp(word, "burst") == 0)
		return burst(c, (unsigned)value);
	if (strcmp(word, "steps") == 0)
		return steps(c, value);
	if (strcmp(word, "anew") == 0)
		return anew(c, value);
	if (strcmp(word, "segment") == 0)
		return fm_segment_begin(c->group, value);
	if (strcmp(word, "end") == 0)
		return fm_segment_end(c->group);
	if (strcmp(word, "more") == 0)
		return add_groups(c, value);
	if (strcmp(word, "leave") == 0)
		return fm_task_leave("lib");
	if (strcmp(word, "suspend") == 0)
		return fm_xqueue_suspend(c->q, true, PATIENCE);
	if (strcmp(word, "resume") == 0)
		return fm_xqueue_resume(c->q);
	if (strcmp(word, "fork") == 0)
		return in_child(c);
	if (strcmp(word, "close") == 0)
		return close(value);
	return -EINVAL;
}

int main(int argc, char **argv)
{
	struct client c;
	char line[64], word[32];
	int value, rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	rc = argc == 2 || argc == 3 ? set_up(&c, argv[1], argc == 3 ? argv[2] : "shared:0")
				    : -EINVAL;
	printf("ready %d\n", rc);
	while (!rc && fgets(line, sizeof(line), stdin)) {
		value = 0;
		if (sscanf(line, "%31s %d", word, &value) < 1 || strcmp(word, "quit") == 0)
			break;
		if (strcmp(word, "state") == 0)
			rc = say_state(&c);
		else if (strcmp(word, "admit") == 0)
			rc = admit(&c, line);
		else
			printf("%s %d\n", word, obey(&c, word, value));
	}
	if (!rc)
		rc = tear_down(&c);
	printf("quit %d\n", rc);
	return rc != 0;
}
