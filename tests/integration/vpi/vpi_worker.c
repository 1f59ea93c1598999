/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch job for VPI, which the tests stop, kill and question, as tests/fault/cuda_worker.c is one
 * for CUDA: algorithms that mix their number into an image, each of which takes FAKE_VPI_US. It
 * prints "ready", then "at ALGORITHMS" after each few; on "stop" "done ALGORITHMS wrong N". At the
 * end of stdin it exits at once.
 */
#include "vpi_common.h"
#include <poll.h>

#define STRIDE 4u /* algorithms between two reports */

static uint32_t number;

static void enqueue(VPIStream s, VPIImage x, VPIEvent done)
{
	for (unsigned i = 0; i < STRIDE; i++)
		mix(s, x, number++);
	OK(vpiEventRecord(done, s));
}

static uint32_t expected(void)
{
	uint32_t v = 0;

	for (uint32_t i = 0; i < number; i++)
		v = 1664525u * v + i;
	return v;
}

/* 's': told to stop; 'e': the end of stdin. */
static char told(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	char c;

	if (poll(&p, 1, 0) != 1)
		return 0;
	return read(0, &c, 1) == 1 ? 's' : 'e';
}

int main(void)
{
	unsigned wrong = 0;
	VPIEvent done[2];
	VPIStream s;
	VPIImage x;
	char c = 0;

	load(false);
	setvbuf(stdout, NULL, _IOLBF, 0);
	s = stream_new(0);
	x = image_new(0);
	for (unsigned i = 0; i < 2; i++)
		enqueue(s, x, done[i] = event_new());
	puts("ready");
	for (unsigned turn = 0; !c; turn = !turn) {
		OK(vpiEventSync(done[turn]));
		c = told();
		if (c == 'e')
			_exit(0);
		printf("at %u\n", number - STRIDE);
		enqueue(s, x, done[turn]);
	}
	OK(vpiStreamSync(s));
	for (unsigned i = 0; i < WORDS; i++)
		wrong += vpi.vpiFakeWords(x)[i] != expected();
	printf("done %u wrong %u\n", number, wrong);
	vpi.vpiEventDestroy(done[0]);
	vpi.vpiEventDestroy(done[1]);
	vpi.vpiStreamDestroy(s);
	vpi.vpiImageDestroy(x);
	return wrong != 0;
}
