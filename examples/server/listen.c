/* SPDX-License-Identifier: Apache-2.0 */
#include "listen.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SEND_SECONDS 5

struct guest {
	struct listener *l;
	pthread_t thread;
	int fd, event;
	bool taken;
	bool gone; /* with the lock: its thread is about to end */
};

struct listener {
	struct engine *engine;
	int fd;
	struct sockaddr_un at;
	pthread_mutex_t lock;
	unsigned connections;
	struct guest guest[LISTEN_MAX];
};

static void *guest_main(void *arg)
{
	struct guest *g = arg;

	talk_lines(g->l->engine, g->fd, g->event);
	/* He sees the end now, and not when somebody looks after the thread. */
	shutdown(g->fd, SHUT_RDWR);
	pthread_mutex_lock(&g->l->lock);
	g->gone = true;
	pthread_mutex_unlock(&g->l->lock);
	return NULL;
}

static bool is_gone(struct guest *g)
{
	bool gone;

	pthread_mutex_lock(&g->l->lock);
	gone = g->gone;
	pthread_mutex_unlock(&g->l->lock);
	return gone;
}

static void clean_up(struct guest *g)
{
	pthread_join(g->thread, NULL);
	close(g->fd);
	close(g->event);
	g->taken = false;
}

/* A place that nobody has; NULL: there is none. */
static struct guest *find_place(struct listener *l)
{
	struct guest *found = NULL;

	for (unsigned i = 0; i < l->connections; i++) {
		struct guest *g = &l->guest[i];

		if (g->taken && is_gone(g))
			clean_up(g);
		if (!g->taken)
			found = g;
	}
	return found;
}

static void turn_away(int fd)
{
	static const char text[] = "error overloaded there are too many connections\n";

	send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

void listener_accept(struct listener *l)
{
	const struct timeval patience = {.tv_sec = SEND_SECONDS};
	struct guest *g = find_place(l); /* first: those who are gone have descriptors, too */
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);

	/* Without descriptors or memory he waits, and the caller must not ask again at once. */
	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	if (fd < 0)
		return;
	if (!g) {
		turn_away(fd);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	*g = (struct guest){.l = l, .fd = fd, .event = eventfd(0, EFD_CLOEXEC), .taken = true};
	if (g->event < 0 || pthread_create(&g->thread, NULL, guest_main, g)) {
		if (g->event >= 0)
			close(g->event);
		g->taken = false;
		turn_away(fd);
	}
}

int listener_fd(const struct listener *l)
{
	return l->fd;
}

/* A socket on which nobody listens any more. */
static bool left_behind(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;
	bool dead = fd >= 0 && !lstat(at->sun_path, &st) && S_ISSOCK(st.st_mode) &&
		    connect(fd, (const struct sockaddr *)at, sizeof(*at)) && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return dead;
}

static int bind_path(struct listener *l)
{
	const struct sockaddr *at = (const struct sockaddr *)&l->at;
	mode_t old = umask(0177);
	int rc = bind(l->fd, at, sizeof(l->at));

	if (rc && errno == EADDRINUSE && left_behind(&l->at) && !unlink(l->at.sun_path))
		rc = bind(l->fd, at, sizeof(l->at));
	umask(old);
	return rc;
}

const char *listener_open(
	struct listener **out, struct engine *e, const char *path, unsigned connections)
{
	struct listener *l = calloc(1, sizeof(*l));
	const char *failed = NULL;

	if (!l)
		return "out of memory";
	l->engine = e;
	l->connections = connections;
	pthread_mutex_init(&l->lock, NULL);
	l->at.sun_family = AF_UNIX;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (strlen(path) >= sizeof(l->at.sun_path))
		failed = wrong("%s: the path is too long", path);
	else
		strcpy(l->at.sun_path, path);
	if (!failed && (l->fd < 0 || bind_path(l) || listen(l->fd, 64)))
		failed = wrong("%s: %s", path, strerror(errno));
	if (failed) {
		if (l->fd >= 0)
			close(l->fd);
		free(l);
		return failed;
	}
	*out = l;
	return NULL;
}

void listener_close(struct listener *l)
{
	unlink(l->at.sun_path);
	close(l->fd);
	for (unsigned i = 0; i < l->connections; i++) {
		struct guest *g = &l->guest[i];

		if (!g->taken)
			continue;
		/* He is answered, and then it looks as if he had nothing more to say. */
		shutdown(g->fd, SHUT_RD);
		clean_up(g);
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
}
