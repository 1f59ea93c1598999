/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance: the rules of order of VPI's streams and events, functions on streams, contexts,
 * threads, errors. It prints a line for each kind of work, which is the same however it is
 * scheduled.
 *
 * usage: [--dlsym] [SECONDS to go on for]
 */
#include "vpi_common.h"
#include <time.h>

static char said[64][160];
static unsigned n_said;
static bool again; /* what is said must be what was said before */

__attribute__((format(printf, 1, 2))) static void note(const char *text, ...)
{
	char line[160];
	va_list list;

	va_start(list, text);
	vsnprintf(line, sizeof(line), text, list);
	va_end(list);
	if (again && strcmp(said[n_said], line))
		die("%s, before: %s", line, said[n_said]);
	if (!again)
		puts(line);
	memcpy(said[n_said++], line, sizeof(line));
}

static void note_image(const char *what, VPIImage image)
{
	uint32_t *words = vpi.vpiFakeWords(image), sum = 0;

	for (unsigned i = 0; i < WORDS; i++)
		sum = 31 * sum + words[i];
	note("%s: %08x", what, sum);
}

/* --- one stream --- */

static void in_order(void)
{
	VPIStream s = stream_new(0);
	VPIImage x = image_new(1), y = image_new(2);
	VPIPayload p;

	OK(vpiCreateEqualizeHist(0, 0, &p));
	for (uint32_t i = 0; i < 100; i++) {
		mix(s, x, i);
		OK(vpiSubmitConvertImageFormat(s, VPI_CUDA, x, y, NULL));
		OK(vpiSubmitGaussianFilter(s, VPI_PVA, y, x, 3, 5, 1.5f, 2, 0));
		OK(vpiSubmitEqualizeHist(s, VPI_CPU, p, x, x));
		OK(vpiSubmitMixChannels(s, 0, &x, 1, &y, 1, (int[]){0}, (int[]){0}, 1));
	}
	OK(vpiStreamSync(s));
	note_image("in order", x);
	note_image("another image", y);
	vpi.vpiStreamDestroy(s);
	vpi.vpiPayloadDestroy(p);
	vpi.vpiImageDestroy(x);
	vpi.vpiImageDestroy(y);
}

static struct {
	uint32_t at[64];
	_Atomic unsigned n;
} seen;

static void look(void *image)
{
	seen.at[seen.n++] = *vpi.vpiFakeWords(image);
}

static VPIStatus look_ex(VPIStream stream, VPIStatus status, void *image)
{
	look(image);
	return status;
}

static void look_cuda(void *cuda, void *image)
{
	look(cuda ? image : NULL);
}

/* Each sees what is in front of it, and nothing behind it. */
static void functions(void)
{
	VPIStream s = stream_new(0);
	VPIImage x = image_new(1);
	uint32_t sum = 0;

	seen.n = 0;
	for (uint32_t i = 0; i < 30; i++) {
		mix(s, x, i);
		if (i % 3 == 0)
			OK(vpiSubmitHostFunction(s, look, x));
		else if (i % 3 == 1)
			OK(vpiSubmitHostFunctionEx(s, look_ex, x));
		else
			OK(vpiSubmitCUDAHostFunction(s, look_cuda, x));
	}
	OK(vpiStreamSync(s));
	for (unsigned i = 0; i < seen.n; i++)
		sum = 31 * sum + seen.at[i];
	note("functions: %u %08x", seen.n, sum);
	vpi.vpiStreamDestroy(s);
	vpi.vpiImageDestroy(x);
}

/* Nobody waits for the stream: an event is asked for. */
static void polling(void)
{
	VPIStream s = stream_new(VPI_VIC);
	VPIImage x = image_new(7);
	VPIEvent e = event_new();
	int state = VPI_SIGNALED;

	OK(vpiEventQuery(e, &state));
	note("an event that was never recorded: %d", state);
	for (uint32_t i = 0; i < 40; i++) {
		mix(s, x, i);
		OK(vpiEventRecord(e, s));
		for (state = VPI_NOT_SIGNALED; state == VPI_NOT_SIGNALED;)
			OK(vpiEventQuery(e, &state));
	}
	note_image("polling", x);
	vpi.vpiEventDestroy(e);
	vpi.vpiStreamDestroy(s);
	vpi.vpiImageDestroy(x);
}

static void flushes(void)
{
	VPIStream s = stream_new(0);
	VPIImage x = image_new(3);

	for (uint32_t i = 0; i < 50; i++) {
		mix(s, x, i);
		if (i % 7 == 0)
			OK(vpiStreamFlush(s));
	}
	vpi.vpiStreamDestroy(s); /* which waits for it */
	note_image("flushed and ended", x);
	vpi.vpiImageDestroy(x);
}

/* --- several streams --- */

static void between(void)
{
	VPIStream a = stream_new(0), b = stream_new(0);
	VPIImage x = image_new(1), y = image_new(1);
	VPIEvent e = event_new(), f = event_new();

	for (uint32_t i = 0; i < 30; i++) {
		mix(a, x, i);
		OK(vpiEventRecord(e, a));
		OK(vpiStreamWaitEvent(b, e));
		OK(vpiSubmitConvertImageFormat(b, 0, x, y, NULL));
		mix(b, y, 2 * i);
		OK(vpiEventRecord(f, b));
		OK(vpiStreamWaitEvent(a, f));
		OK(vpiSubmitConvertImageFormat(a, 0, y, x, NULL));
	}
	OK(vpiEventRecord(e, a));
	OK(vpiEventSync(e));
	note_image("between two streams", x);
	vpi.vpiEventDestroy(e);
	vpi.vpiEventDestroy(f);
	vpi.vpiStreamDestroy(b);
	vpi.vpiStreamDestroy(a);
	vpi.vpiImageDestroy(x);
	vpi.vpiImageDestroy(y);
}

static void short_lives(void)
{
	VPIImage x = image_new(5);

	for (uint32_t i = 0; i < 40; i++) {
		VPIStream s = stream_new(i % 2 ? VPI_CUDA : 0);

		mix(s, x, i);
		mix(s, x, ~i);
		if (i % 3 == 0)
			OK(vpiStreamSync(s));
		vpi.vpiStreamDestroy(s);
	}
	note_image("streams of short lives", x);
	vpi.vpiImageDestroy(x);
}

static void *in_thread(void *number)
{
	VPIStream s = stream_new(0);
	VPIImage x = image_new((uint32_t)(uintptr_t)number);
	uint32_t word;

	for (uint32_t i = 0; i < 100; i++) {
		mix(s, x, i);
		if (i % 10 == 9)
			OK(vpiStreamSync(s));
	}
	word = *vpi.vpiFakeWords(x);
	vpi.vpiStreamDestroy(s);
	vpi.vpiImageDestroy(x);
	return (void *)(uintptr_t)word;
}

static void threads(void)
{
	pthread_t t[4];
	void *word[4];

	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, in_thread, (void *)i))
			die("no thread");
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], &word[i]);
	note("threads: %08x %08x %08x %08x", (unsigned)(uintptr_t)word[0],
		(unsigned)(uintptr_t)word[1], (unsigned)(uintptr_t)word[2],
		(unsigned)(uintptr_t)word[3]);
}

/* --- contexts --- */

struct given {
	VPIStream s;
	VPIImage x;
};

/* The context of the stream is not current here. */
static void *by_another(void *arg)
{
	struct given *g = arg;
	VPIContext current = NULL;

	for (uint32_t i = 0; i < 30; i++)
		mix(g->s, g->x, i);
	OK(vpiContextGetCurrent(&current));
	return current;
}

static void contexts(void)
{
	VPIContext of[2], current = NULL, popped = NULL;
	VPIStream shared = stream_new(0);
	VPIImage y = image_new(9);
	struct given g;
	pthread_t t;
	void *theirs;

	for (unsigned i = 0; i < 2; i++) {
		OK(vpiContextCreate(0, &of[i]));
		OK(vpiContextPush(of[i]));
		g = (struct given){stream_new(0), image_new(i)};
		for (uint32_t k = 0; k < 30; k++) {
			mix(g.s, g.x, k);
			mix(shared, y, k); /* of the context that all share */
		}
		if (pthread_create(&t, NULL, by_another, &g) || pthread_join(t, &theirs))
			die("no thread");
		OK(vpiContextGetCurrent(&current));
		OK(vpiStreamSync(g.s));
		note("context %u is %s, elsewhere %s", i,
			current == of[i] ? "current" : "not current", theirs ? "one" : "none");
		note_image("in a context", g.x);
		OK(vpiContextPop(&popped));
		for (uint32_t k = 0; i && k < 30; k++)
			mix(g.s, g.x, k);
		vpi.vpiContextDestroy(of[i]); /* with the stream in it */
	}
	OK(vpiStreamSync(shared));
	note_image("beside them", y);
	vpi.vpiStreamDestroy(shared);
	vpi.vpiImageDestroy(y);
}

/* --- errors --- */

static VPIStatus fails(VPIStream stream, VPIStatus status, void *unused)
{
	return 31;
}

/* What failed is what the thread is told of, whatever we do. */
static void errors(void)
{
	VPIStream s = stream_new(VPI_CUDA), none = NULL;
	VPIImage x = image_new(1);
	VPIStatus rc[4];

	for (uint32_t i = 0; i < 30; i++) {
		mix(s, x, i);
		rc[0] = vpi.vpiSubmitBoxFilter(s, VPI_PVA, x, x, 3, 3, 0);
		rc[1] = vpi.vpiPeekAtLastStatus();
		rc[2] = vpi.vpiGetLastStatus();
		rc[3] = vpi.vpiGetLastStatus();
		if (rc[0] != VPI_INVALID_OPERATION || rc[1] != rc[0] || rc[2] != rc[0] || rc[3])
			die("errors: %d %d %d %d", rc[0], rc[1], rc[2], rc[3]);
	}
	note("no such backend: %d", rc[0]);
	note("no stream: %d, %d, %d", vpi.vpiSubmitBoxFilter(NULL, 0, x, x, 3, 3, 0),
		vpi.vpiStreamSync(NULL), vpi.vpiStreamCreate(VPI_OFA, &none));
	vpi.vpiStreamDestroy(NULL);
	OK(vpiStreamSync(s));
	OK(vpiSubmitHostFunctionEx(s, fails, NULL));
	rc[0] = vpi.vpiStreamSync(s);
	note("a function that fails: %d, then %d", rc[0],
		vpi.vpiSubmitBoxFilter(s, 0, x, x, 1, 1, 0));
	vpi.vpiStreamDestroy(s);
	note_image("after errors", x);
	vpi.vpiImageDestroy(x);
}

static void (*const kinds[])(void) = {
	in_order, functions, polling, flushes, between, short_lives, threads, contexts, errors};

int main(int argc, char **argv)
{
	bool looked_up = argc > 1 && !strcmp(argv[1], "--dlsym");
	long seconds = argc > 1 + looked_up ? atol(argv[1 + looked_up]) : 0;
	time_t until = time(NULL) + seconds;

	load(looked_up);
	do {
		n_said = 0;
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			kinds[i]();
		again = true;
	} while (time(NULL) < until);
	return 0;
}
