/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call again and again, so that its instructions can be counted (test_hot_functions.py).
 *
 * usage: cuda_hot [--via link|dlsym|proc] [--ptds] launch|default|copy|record TIMES
 */
#include "../cuda_conform.h"

static struct conform c;
static CUstream stream;
static CUdeviceptr words, other;
static CUevent event;

static void call(const char *what)
{
	uint32_t n = 1, value = 0;

	if (!strcmp(what, "launch"))
		launch(c.fill, 1, 1, stream, (void *[]){&words, &n, &value});
	else if (!strcmp(what, "default"))
		launch(c.fill, 1, 1, NULL, (void *[]){&words, &n, &value});
	else if (!strcmp(what, "copy"))
		CU(cuMemcpyAsync(other, words, 64, stream));
	else if (!strcmp(what, "record"))
		CU(cuEventRecord(event, stream));
	else
		die("no call '%s'", what);
}

int main(int argc, char **argv)
{
	int times;

	conform_options(&argc, &argv);
	times = argc == 3 ? atoi(argv[2]) : 0;
	if (times < 1)
		die("usage: cuda_hot [--via HOW] [--ptds] launch|default|copy|record TIMES");
	conform_open(&c);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	words = new_words(1);
	other = new_words(2);
	event = new_event();
	launch(c.fill, 1, 1, stream, (void *[]){&words, &(uint32_t){1}, &(uint32_t){0}});
	CU(cuCtxSynchronize());
	for (int i = 0; i < times; i++)
		call(argv[1]);
	CU(cuCtxSynchronize());
	return 0;
}
