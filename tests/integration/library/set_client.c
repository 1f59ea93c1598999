/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of tasks (fermata/gpu_sched.h) under the real daemon, told what to do line by line:
 *
 *   set_client GROUP [DEVICE]
 *
 * GROUP: a name to share, or "-" for the process's own group. The task "camera" comes every 2 ms by
 * its period, and takes 200 us in two chunks; "learner" comes when it is released, and takes 1 ms
 * in four chunks.
 *
 * release N           N jobs of the learner
 * state               say how things are
 * suspend, resume     the set, by its own functions
 * free                the set ends; the process goes on
 * quit                drain, end
 *
 * Every answer is one line that begins with the word it answers.
 */
#include <fermata/fermata.h>
#include <fermata/gpu_sched.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAMERA, LEARNER };

static struct fm_gpu_set *make(const char *group, const char *device)
{
	struct fm_gpu_set_options o = {
		.size = sizeof(o),
		.policy = "edf",
		.slots = 1,
		.engine = "cpu",
		.resident = true,
		.group = strcmp(group, "-") ? group : NULL,
		.device = device,
	};
	const struct fm_gpu_task camera = {.size = sizeof(camera),
		.name = "camera",
		.period_ns = 2000000,
		.wcet_ns = 200000,
		.n_chunks = 2};
	const struct fm_gpu_task learner = {
		.size = sizeof(learner), .name = "learner", .wcet_ns = 1000000, .n_chunks = 4};
	struct fm_gpu_set *s = fm_gpu_set_new(&o, NULL);

	if (s && fm_gpu_task_add(s, &camera) == CAMERA && fm_gpu_task_add(s, &learner) == LEARNER &&
		!fm_gpu_set_start(s))
		return s;
	fm_gpu_set_free(s);
	return NULL;
}

static void say_state(struct fm_gpu_set *s)
{
	struct fm_gpu_stats camera = {.size = sizeof(camera)}, learner = camera;

	fm_gpu_set_stats(s, CAMERA, &camera);
	fm_gpu_set_stats(s, LEARNER, &learner);
	printf("state released=%" PRIu64 " done=%" PRIu64 " missed=%" PRIu64
	       " missed_stopped=%" PRIu64 " learnt=%" PRIu64 " asked=%" PRIu64
	       " running=%u daemon=%d\n",
		camera.released, camera.done, camera.missed, camera.missed_stopped, learner.done,
		learner.released, camera.running, fm_scheduled());
}

static int answer(struct fm_gpu_set **s, const char *line)
{
	char word[16] = "";
	unsigned n = 0;
	int rc = 0;

	sscanf(line, "%15s %u", word, &n);
	if (!strcmp(word, "state")) {
		say_state(*s);
		return 0;
	}
	if (!strcmp(word, "release"))
		rc = fm_gpu_release(*s, LEARNER, n);
	else if (!strcmp(word, "suspend"))
		rc = fm_gpu_set_suspend(*s);
	else if (!strcmp(word, "resume"))
		rc = fm_gpu_set_resume(*s);
	else if (!strcmp(word, "quit"))
		rc = fm_gpu_set_drain(*s, FM_FOREVER);
	if (!strcmp(word, "free") || !strcmp(word, "quit")) {
		fm_gpu_set_free(*s);
		*s = NULL;
	}
	printf("%s %d\n", word, rc);
	return !strcmp(word, "quit");
}

int main(int argc, char **argv)
{
	struct fm_gpu_set *s = make(argc > 1 ? argv[1] : "-", argc > 2 ? argv[2] : NULL);
	char line[128];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready %d\n", s ? 0 : 1);
	while (fgets(line, sizeof(line), stdin))
		if (answer(&s, line))
			return 0;
	fm_gpu_set_free(s);
	return 1;
}
