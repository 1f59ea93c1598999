/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of programs, threads and parents:
 *
 *   exit      ends with work under way, by exit()
 *   threads   its threads launch, and end with that under way
 *   cancel    says "ready"; upon a line its threads are cancelled
 *   callback  a callback stands in a stream, and its thread never comes
 *   force     streams are destroyed by force with work in them
 *   shared    threads have their device and give it back, and abort streams,
 *             while others are in calls for it
 *   errors    nothing but the program's own failed calls leaves an error
 *   fork      forks with work under way; the child, for which there is no
 *             library any more, ends by exit(), and the parent goes on
 *   exec      the child becomes a program that uses AscendCL
 *
 * It prints "right" if all is as it should be.
 */
#define CONFORM_ACL
#include "../cuda/cuda_conform.h"
#include <sys/wait.h>

static CUdeviceptr x;

static void busy(struct conform *c, CUstream s, unsigned n)
{
	for (uint32_t i = 0; i < n; i++) {
		spin(c, s, x, 300000);
		mix(c, s, x, i);
	}
}

static void *in_thread(void *arg)
{
	struct conform *c = arg;
	uint32_t words[16];

	CU(cuCtxSetCurrent(c->ctx));
	busy(c, NULL, 10);
	for (int i = 0; i < 10; i++)
		if (acl.aclrtMemcpy(words, sizeof(words), PTR(x), sizeof(words), ACL_COPY_D2H))
			die("no copy");
	return NULL;
}

static void threads(struct conform *c)
{
	pthread_t t[4];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			if (pthread_create(&t[i], NULL, in_thread, c))
				die("no thread");
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
	}
	CU(cuCtxSynchronize());
}

/* A wait in the library would be left with its lock. */
static void *until_cancelled(void *arg)
{
	struct conform *c = arg;

	CU(cuCtxSetCurrent(c->ctx));
	for (;;) {
		busy(c, NULL, 1);
		usleep(500);
	}
	return NULL;
}

static void cancelled(struct conform *c)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, until_cancelled, c))
			die("no thread");
	usleep(20000);
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 4; i++)
		pthread_cancel(t[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CU(cuCtxSynchronize());
}

static void never(void *arg)
{
	die("the callback was called");
}

/* The stream has work in front of the callback and behind it. */
static void callback(struct conform *c, CUstream s)
{
	int nobody;

	if (acl.aclrtSubscribeReport((uint64_t)(uintptr_t)&nobody, s) ||
		acl.aclrtLaunchCallback(never, NULL, ACL_CALLBACK_BLOCK, s))
		die("no callback");
	busy(c, s, 20);
	if (acl.aclrtSynchronizeStreamWithTimeout(s, 20) != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
		die("it has not stood");
}

static void by_force(struct conform *c)
{
	for (int i = 0; i < 20; i++) {
		CUstream s = new_stream(0);

		busy(c, s, 10);
		if (acl.aclrtDestroyStreamForce(s))
			die("not destroyed");
	}
	CU(cuCtxSynchronize());
}

static _Atomic unsigned at_work;

struct user {
	struct conform *c;
	CUstream s;
};

static void *uses(void *arg)
{
	struct user *u = arg;
	uint32_t words[16];

	CU(cuCtxSetCurrent(u->c->ctx));
	for (int i = 0; i < 100; i++) {
		busy(u->c, u->s, 1);
		busy(u->c, NULL, 1);
		if (acl.aclrtMemcpy(words, sizeof(words), PTR(x), sizeof(words), ACL_COPY_D2H))
			die("no copy");
		CU(cuStreamSynchronize(u->s));
	}
	at_work--;
	return NULL;
}

static void shared(struct conform *c)
{
	struct user u[2];
	pthread_t t[2];

	at_work = 2;
	for (int i = 0; i < 2; i++) {
		u[i] = (struct user){c, new_stream(0)};
		if (pthread_create(&t[i], NULL, uses, &u[i]))
			die("no thread");
	}
	while (at_work) {
		if (acl.aclrtSetDevice(0) || acl.aclrtStreamAbort(u[0].s) ||
			acl.aclrtResetDevice(0))
			die("the device is not shared");
		usleep(100);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	CU(cuCtxSynchronize());
}

static void errors(struct conform *c, CUstream s)
{
	int status;

	busy(c, NULL, 2);
	busy(c, new_stream(0), 2);
	if (acl.aclrtStreamQuery(NULL, &status) || acl.aclrtSynchronizeStream(NULL) ||
		acl.aclrtSynchronizeStream(s))
		die("no wait");
	if (acl.aclrtPeekAtLastError(0))
		die("there is an error: %d", acl.aclrtPeekAtLastError(0));
	if (!acl.aclrtStreamQuery((aclrtStream)&status, &status) || !acl.aclrtPeekAtLastError(0))
		die("no error");
	busy(c, NULL, 2);
	if (!acl.aclrtGetLastError(0))
		die("the program's error is lost");
}

static void child(const char *self)
{
	uint32_t n = WORDS;

	if (self) {
		execl(self, self, "threads", NULL);
		_exit(9);
	}
	if (!cu.cuMemsetD32Async(x, 1, n, NULL) || !cu.cuCtxSynchronize())
		_exit(8);
	exit(0);
}

static void forks(struct conform *c, CUstream s, const char *self)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		child(self);
	busy(c, s, 20);
	if (waitpid(pid, &status, 0) != pid || status)
		die("the child ended with %#x", status);
	busy(c, s, 20);
	CU(cuStreamSynchronize(s));
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	struct conform c = {0};
	CUstream s;

	if (argc < 2)
		return 2;
	load_linked(false);
	conform_open(&c);
	x = new_words(1);
	s = new_stream(0);
	busy(&c, s, 40);
	if (!strcmp(argv[1], "threads"))
		threads(&c);
	else if (!strcmp(argv[1], "cancel"))
		cancelled(&c);
	else if (!strcmp(argv[1], "callback"))
		callback(&c, s);
	else if (!strcmp(argv[1], "force"))
		by_force(&c);
	else if (!strcmp(argv[1], "shared"))
		shared(&c);
	else if (!strcmp(argv[1], "errors"))
		errors(&c, s);
	else if (strcmp(argv[1], "exit"))
		forks(&c, s, strcmp(argv[1], "exec") ? NULL : argv[0]);
	puts("right");
	exit(0);
}
