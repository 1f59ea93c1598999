/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What AscendCL does otherwise than CUDA, and whether it does; answers go to stdout, and are the
 * same with Fermata and without it.
 *
 * usage: [--via link|dlsym]
 */
#define CONFORM_ACL
#include "../cuda/cuda_conform.h"

static struct conform conform, *const c = &conform;

static void say(const char *what, CUdeviceptr d)
{
	uint32_t words[WORDS];

	CU(cuStreamSynchronize(NULL));
	acl.aclrtMemcpy(words, BYTES, PTR(d), BYTES, ACL_COPY_D2H);
	printf("%s %016llx\n", what, (unsigned long long)digest(words, BYTES));
}

/* A stream stands until it is let go. */
static void *stand(CUstream s)
{
	void *word;

	acl.aclrtMalloc(&word, 8, 0);
	acl.aclrtMemset(word, 8, 0, 8);
	acl.aclrtValueWait(word, 1, ACL_WAIT_EQ, s);
	return word;
}

static void let_go(void *word, CUstream s)
{
	acl.aclrtValueWrite(word, 1, 0, NULL);
	CU(cuStreamSynchronize(s));
	acl.aclrtFree(word);
}

/* NULL is the context's default stream, which has a name, and for which nobody waits. */
static void default_stream(void)
{
	CUdeviceptr x = new_words(1);
	aclrtStream own = NULL, other = NULL;
	CUstream s = new_stream(0);
	aclrtContext first, second;
	int status;
	void *word;

	acl.aclrtGetCurrentContext(&first);
	printf("its name %d\n", acl.aclrtCtxGetCurrentDefaultStream(&own) || !own);
	mix(c, NULL, x, 1);
	mix(c, own, x, 2);
	say("by either name", x);
	word = stand(s);
	mix(c, s, x, 4);
	mix(c, NULL, x, 3);
	CU(cuStreamSynchronize(NULL));
	acl.aclrtStreamQuery(s, &status);
	printf("the other one has not been waited for: %d\n", status);
	printf("it is not destroyed: %d, %d\n", acl.aclrtDestroyStream(NULL) != 0,
		acl.aclrtDestroyStream(own) != 0);
	say("before it", x);
	let_go(word, s);
	CU(cuStreamDestroy_v2(s));
	say("behind it", x);

	acl.aclrtCreateContext(&second, 0);
	acl.aclrtCtxGetCurrentDefaultStream(&other);
	printf("another context has another: %d\n", other && other != own);
	printf("and not that of this one: %d\n", acl.aclrtMemsetAsync(PTR(x), 4, 0, 4, own));
	acl.aclrtSetCurrentContext(first);
	printf("destroyed: %d\n", acl.aclrtDestroyContext(second));
	CU(cuMemFree_v2(x));
}

/* Calls without a stream act at once. */
static void at_once(void)
{
	CUdeviceptr x = new_words(2);
	uint32_t words[WORDS];
	CUstream s = new_stream(0);
	void *word = stand(s);

	mix(c, s, x, 1);
	printf("at once %d\n", acl.aclrtMemset(PTR(x), 64, 7, 64));
	printf("too much %d\n", acl.aclrtMemset(PTR(x), 63, 7, 64));
	acl.aclrtMemcpy(words, sizeof(words), PTR(x), 64, ACL_COPY_D2H);
	printf("%08x\n", words[0]);
	let_go(word, s);
	CU(cuStreamDestroy_v2(s));
	say("filled", x);
	CU(cuMemFree_v2(x));
}

static void timeouts(void)
{
	CUdeviceptr x = new_words(3);
	CUstream s = new_stream(0);
	void *word = stand(s);
	int status;

	mix(c, s, x, 1);
	printf("in 1 ms: %d\n", acl.aclrtSynchronizeStreamWithTimeout(s, 1));
	acl.aclrtStreamQuery(s, &status);
	printf("a status of %d\n", status);
	acl.aclrtValueWrite(word, 1, 0, NULL);
	printf("in any time: %d\n", acl.aclrtSynchronizeStreamWithTimeout(s, -1));
	acl.aclrtStreamQuery(s, &status);
	printf("a status of %d\n", status);
	printf("of all in 10 s: %d\n", acl.aclrtSynchronizeDeviceWithTimeout(10000));
	printf("no error is left: %d\n",
		acl.aclrtGetLastError(0) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT ? 0 : 1);
	let_go(word, s);
	CU(cuStreamDestroy_v2(s));
	CU(cuMemFree_v2(x));
}

static void operators(void)
{
	CUdeviceptr x = new_words(4);
	int64_t dims[1] = {16};
	aclTensor *t = acl.aclCreateTensor(dims, 1, 0, NULL, 0, 0, dims, 1, PTR(x));
	aclOpExecutor *e;
	uint64_t size;

	for (int i = 0; i < 10; i++) {
		acl.aclnnInplaceZeroGetWorkspaceSize(t, &size, &e);
		acl.aclnnInplaceZero(NULL, size, e, NULL);
		mix(c, NULL, x, (uint32_t)i);
		acl.aclnnInplaceOneGetWorkspaceSize(t, &size, &e);
		acl.aclnnInplaceOne(NULL, size, e, NULL);
		mix(c, NULL, x, (uint32_t)i);
	}
	say("operators", x);
	acl.aclDestroyTensor(t);
	CU(cuMemFree_v2(x));
}

/* Callbacks: in the thread that is subscribed. */
static _Atomic unsigned called;
static _Atomic bool over;

static void count_call(void *arg)
{
	called++;
}

static void last_call(void *arg)
{
	called++;
	over = true;
}

static void *report_thread(void *arg)
{
	while (!over)
		acl.aclrtProcessReport(1000);
	return NULL;
}

static void callbacks(void)
{
	CUdeviceptr x = new_words(5);
	CUstream s = new_stream(0);
	pthread_t t;

	printf("nobody is subscribed: %d\n",
		acl.aclrtLaunchCallback(count_call, NULL, ACL_CALLBACK_BLOCK, s));
	pthread_create(&t, NULL, report_thread, NULL);
	acl.aclrtSubscribeReport((uint64_t)t, s);
	for (uint32_t i = 0; i < 10; i++) {
		mix(c, s, x, i);
		acl.aclrtLaunchCallback(count_call, NULL, ACL_CALLBACK_BLOCK, s);
	}
	CU(cuStreamSynchronize(s));
	printf("called %u times\n", called);
	acl.aclrtLaunchCallback(last_call, NULL, ACL_CALLBACK_BLOCK, s);
	pthread_join(t, NULL);
	for (uint32_t i = 0; i < 10; i++)
		acl.aclrtLaunchHostFunc(NULL, count_call, NULL);
	CU(cuStreamSynchronize(NULL));
	printf("called %u times\n", called);
	CU(cuStreamDestroy_v2(s));
	say("callbacks", x);
	CU(cuMemFree_v2(x));
}

/* What is put into a stream of a model does not run, and is no command. */
static void models(void)
{
	CUdeviceptr x = new_words(6);
	aclrtStream s;
	aclmdlRI model;
	CUstream own = new_stream(0);

	acl.aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_PERSISTENT);
	for (uint32_t i = 0; i < 40; i++)
		mix(c, s, x, i);
	acl.aclrtDestroyStream(s);
	say("nothing has run", x);
	acl.aclmdlRICaptureBegin(own, ACL_CAPTURE_GLOBAL);
	mix(c, own, x, 1);
	acl.aclmdlRICaptureEnd(own, &model);
	say("captured", x);
	for (int i = 0; i < 3; i++) {
		acl.aclmdlRIExecuteAsync(model, own);
		CU(cuStreamSynchronize(own));
		printf("executed %d\n", acl.aclmdlRIExecute(model, 60000));
	}
	acl.aclmdlRIDestroy(model);
	say("six times", x);
	CU(cuStreamDestroy_v2(own));
	CU(cuMemFree_v2(x));
}

/* By force: what was in it is not waited for. */
static void by_force(void)
{
	CUdeviceptr x = new_words(7);
	CUstream s = new_stream(0);
	aclrtContext first, other;
	int status;

	for (int i = 0; i < 10; i++)
		spin(c, s, x, 10000000);
	printf("destroyed %d\n", acl.aclrtDestroyStreamForce(s));
	printf("used again %d\n", acl.aclrtStreamQuery(s, &status) != 0);
	s = new_stream(0);
	spin(c, s, x, 10000000);
	printf("aborted %d\n", acl.aclrtStreamAbort(s));
	mix(c, s, x, 1);
	CU(cuStreamSynchronize(s));
	CU(cuStreamDestroy_v2(s));
	acl.aclrtGetCurrentContext(&first);
	for (int i = 0; i < 5; i++) {
		CUfunction was = c->spin;

		acl.aclrtCreateContext(&other, 0);
		conform_load(c);
		spin(c, NULL, x, 1000000);
		printf("a context of its own %d\n", acl.aclrtSynchronizeDevice());
		spin(c, NULL, x, 1000000);
		acl.aclrtSynchronizeStream(NULL);
		acl.aclrtDestroyContext(other);
		acl.aclrtSetCurrentContext(first);
		c->spin = was;
	}
	conform_load(c);
	CU(cuMemFree_v2(x));
}

static void *in_thread(void *arg)
{
	CUdeviceptr x;
	uint32_t words[WORDS], *digests = arg;

	CU(cuCtxSetCurrent(c->ctx));
	x = new_words(8);
	for (uint32_t i = 0; i < 20; i++) {
		acl.aclrtMemset(PTR(x), 64, (int32_t)i, 64);
		acl.aclrtMemcpy(PTR(x + 64), 64, PTR(x), 64, ACL_COPY_D2D);
		mix(c, NULL, x, i);
		CU(cuStreamSynchronize(NULL));
	}
	acl.aclrtMemcpy(words, BYTES, PTR(x), BYTES, ACL_COPY_D2H);
	*digests = (uint32_t)digest(words, BYTES);
	CU(cuMemFree_v2(x));
	return NULL;
}

/* They have one default stream together. */
static void threads(void)
{
	uint32_t got[4];
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, in_thread, &got[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	printf("threads %08x, alike %d\n", got[0],
		got[0] == got[1] && got[1] == got[2] && got[2] == got[3]);
}

static void again(void)
{
	CUdeviceptr x;

	printf("a reset that is counted %d\n", acl.aclrtSetDevice(0) ?: acl.aclrtResetDevice(0));
	x = new_words(9);
	mix(c, NULL, x, 1);
	say("goes on", x);
	printf("a reset by force %d\n", acl.aclrtResetDeviceForce(0));
	printf("no context %d\n", acl.aclrtSynchronizeStream(NULL));
	CU(cuDevicePrimaryCtxRetain(&c->ctx, 0));
	conform_load(c);
	x = new_words(9);
	mix(c, NULL, x, 1);
	say("and again", x);
	printf("the end %d\n", acl.aclFinalize());
}

int main(int argc, char **argv)
{
	conform_options(&argc, &argv);
	conform_open(c);
	default_stream();
	at_once();
	timeouts();
	operators();
	callbacks();
	models();
	by_force();
	threads();
	again();
	return 0;
}
