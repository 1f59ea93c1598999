/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads of `fermata-lab bench` and the arrivals that they mean. */
#include "base/clock.h"
#include "bench/arrival.h"
#include "bench/driver.h"
#include "load/load.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void parse(struct bench_workload *w, const char *text)
{
	struct fm_err err = {0};

	if (bench_workload_parse(w, "test", text, strlen(text), false, &err))
		fail_msg("%s", err.text);
}

static const struct bench_task *task(const struct bench_workload *w, const char *id)
{
	for (uint32_t i = 0; i < w->tasks; i++)
		if (!strcmp(w->task[i].id, id))
			return &w->task[i];
	fail_msg("no task %s", id);
	return NULL;
}

#define TASK(id, load) "{\"id\": \"" id "\", \"load\": " load ", \"client\": {\"name\": \"n\"}}"
#define WITH(tasks)    "{\"time\": 10, \"tasks\": [" tasks "]}"

static void periodic_loads_come_at_their_rate(void **state)
{
	static struct bench_workload w;
	struct bench_arrivals a;

	parse(&w, WITH(TASK("a", "{\"type\": \"periodic\", \"frequency\": 100}")));
	bench_arrivals_init(&a, &w.task[0], 1, w.task[0].rate, 0);
	assert_int_equal(bench_arrivals_count(a, 10 * FM_S), 1000);
	assert_int_equal(bench_arrivals_count(a, 1), 1);
	assert_int_equal(bench_arrivals_count(a, 0), 0);
	bench_arrivals_pass(&a);
	assert_int_equal(bench_arrivals_due(&a), 10 * FM_MS);
	bench_arrivals_init(&a, &w.task[0], 1, w.task[0].rate, 7);
	bench_arrivals_pass(&a);
	assert_int_equal(bench_arrivals_due(&a), 10 * FM_MS + 7);
	bench_arrivals_init(&a, &w.task[0], 1, 0, 0);
	assert_int_equal(bench_arrivals_count(a, FM_NEVER), 0);
	bench_workload_free(&w);
}

/* Integers all the way: the same everywhere. */
static void poisson_loads_are_of_their_seed_and_name(void **state)
{
	static struct bench_workload w;
	struct bench_arrivals a, b, other, later;
	uint64_t n;

	parse(&w, WITH(TASK("a", "{\"type\": \"poisson\", \"frequency\": 1000}") "," TASK(
			  "b", "{\"type\": \"poisson\", \"frequency\": 1000}")));
	bench_arrivals_init(&a, &w.task[0], 1, 1000, 0);
	bench_arrivals_init(&b, &w.task[0], 1, 1000, 0);
	bench_arrivals_init(&other, &w.task[1], 1, 1000, 0);
	bench_arrivals_init(&later, &w.task[0], 2, 1000, 0);
	n = bench_arrivals_count(a, 10 * FM_S);
	assert_true(n > 9600 && n < 10400); /* four deviations */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(bench_arrivals_due(&a), bench_arrivals_due(&b));
		bench_arrivals_pass(&a);
		bench_arrivals_pass(&b);
		bench_arrivals_pass(&other);
		bench_arrivals_pass(&later);
	}
	assert_int_not_equal(bench_arrivals_due(&a), bench_arrivals_due(&other));
	assert_int_not_equal(bench_arrivals_due(&a), bench_arrivals_due(&later));
	bench_workload_free(&w);
}

static void traces_are_kept_in_order(void **state)
{
	static const uint64_t due[] = {0, 3000000, 3000000, 7250000, 20000000};
	static struct bench_workload w;
	struct bench_arrivals a;

	parse(&w, WITH(TASK("a", "{\"type\": \"trace\", \"trace\": [20, 3, 7.25, 0, 3]}")));
	bench_arrivals_init(&a, &w.task[0], 1, 0, 0);
	assert_int_equal(bench_arrivals_count(a, 20 * FM_MS), 4);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(bench_arrivals_due(&a), due[i]);
		bench_arrivals_pass(&a);
	}
	assert_int_equal(bench_arrivals_due(&a), FM_NEVER);
	bench_workload_free(&w);
}

static void dependencies_and_classes(void **state)
{
	static struct bench_workload w;

	parse(&w, WITH(TASK("z", "{\"type\": \"dependent\", \"prev_task_ids\": [\"b\", "
				 "\"a\"]}") "," TASK("b",
			  "{\"type\": \"periodic\", \"frequency\": 1, \"priority\": "
			  "1}") "," TASK("a", "{\"type\": \"continuous\"}")));
	assert_string_equal(w.task[0].id, "a"); /* as libdisb sorts them */
	assert_int_equal(task(&w, "z")->before, 3);
	assert_true(task(&w, "z")->realtime);
	assert_false(task(&w, "b")->realtime);
	assert_false(task(&w, "a")->realtime);
	assert_int_equal(bench_task_hint(task(&w, "z"), FM_HINT_PRIORITY), FM_PRIORITY_HIGH);
	assert_int_equal(task(&w, "a")->hints, 0);
	assert_string_equal(w.unknown, "");
	bench_workload_free(&w);
}

static void models_and_batches(void **state)
{
	static struct bench_workload w;
	const struct bench_model *one, *four, *own;

	parse(&w, "{\"time\": 1, \"models\": {\"vgg19\": {\"kernels\": [{\"us\": 1.5, \"count\": "
		  "3}], "
		  "\"input_bytes\": 10}}, \"tasks\": ["
		  "{\"id\": \"a\", \"load\": {\"type\": \"continuous\"}, "
		  "\"client\": {\"model_name\": \"resnet152-imagenet\"}}, "
		  "{\"id\": \"b\", \"load\": {\"type\": \"continuous\"}, "
		  "\"client\": {\"model_name\": \"resnet152\", \"batch_size\": 4}}, "
		  "{\"id\": \"c\", \"load\": {\"type\": \"continuous\"}, "
		  "\"client\": {\"model_name\": \"vgg19\", \"batch_size\": 2}}]}");
	one = &w.model[task(&w, "a")->model];
	four = &w.model[task(&w, "b")->model];
	own = &w.model[task(&w, "c")->model];
	assert_true(one->built_in && four->built_in && !own->built_in);
	assert_int_equal(w.kernel[four->kernel].ns, 4 * w.kernel[one->kernel].ns);
	assert_int_equal(w.kernel[four->kernel].count, w.kernel[one->kernel].count);
	assert_int_equal(w.kernel[own->kernel].ns, 3000);
	assert_int_equal(own->input_bytes, 20);
	bench_workload_free(&w);
}

/* Numbers of kernels, and microseconds together, as they were published. */
static void built_in_models_take_what_was_published(void **state)
{
	static const struct {
		const char *name;
		uint32_t kernels, us;
	} published[] = {{"alexnet", 13, 8851}, {"densenet201-imagenet", 207, 3743},
		{"distilbert", 205, 5426}, {"inceptionv3-imagenet", 146, 8273},
		{"mobilenetv1-imagenet", 31, 1188}, {"resnet18", 57, 2189},
		{"resnet152-imagenet", 207, 13233}, {"vgg19-imagenet", 71, 4824}};

	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		const struct bench_built_in *b = bench_built_in_find(published[i].name);
		uint32_t n = 0, us = 0;

		assert_non_null(b);
		for (size_t k = 0; k < 4 && b->part[k].count; k++) {
			n += b->part[k].count;
			us += b->part[k].count * b->part[k].us;
		}
		assert_int_equal(n, published[i].kernels);
		assert_in_range(us, published[i].us * 99 / 100, published[i].us * 101 / 100);
	}
	assert_null(bench_built_in_find("resnet"));
}

static void devices_by_name(void **state)
{
	unsigned index;

	assert_string_equal(bench_load_find("sim", &index)->kind, "sim");
	assert_string_equal(bench_load_find("opencl:12", &index)->kind, "opencl");
	assert_int_equal(index, 12);
	assert_null(bench_load_find("opencl:", &index));
	assert_null(bench_load_find("opencl:64", &index));
	assert_null(bench_load_find("open", &index));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(periodic_loads_come_at_their_rate),
		cmocka_unit_test(poisson_loads_are_of_their_seed_and_name),
		cmocka_unit_test(traces_are_kept_in_order),
		cmocka_unit_test(dependencies_and_classes),
		cmocka_unit_test(models_and_batches),
		cmocka_unit_test(built_in_models_take_what_was_published),
		cmocka_unit_test(devices_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
