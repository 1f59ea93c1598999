/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the live view: keys, signals, the daemon and the clock. The screen is drawn when one
 * of them has changed something. */
#include "top_live.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include "top_link.h"
#include "top_screen.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#define RETRY   (FM_S / 2)    /* between two attempts to find a daemon again */
#define SILENCE (2 * FM_S)    /* after which it is said that it does not answer */
#define FIRST   (300 * FM_MS) /* the second look comes soon, since without it there are no rates */

struct live {
	struct top *top;
	struct top_link link;
	int signals, ended_by;
	uint64_t next;  /* look */
	uint64_t retry; /* connect */
	int64_t left;   /* samples; 0: without end */
	uint64_t seen;  /* the time of the last sample */
	bool dirty, silent;
};

/* Signals that end the program come as input, so that the terminal is given back in order. So does
 * SIGCONT, since the terminal may have changed after a SIGSTOP. ncurses handles SIGTSTP and
 * SIGWINCH.
 */
static int watch_signals(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGCONT);
	sigprocmask(SIG_BLOCK, &set, old);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void on_signals(struct live *v)
{
	struct signalfd_siginfo s;

	while (read(v->signals, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo != SIGCONT) {
			v->ended_by = (int)s.ssi_signo;
			v->top->quit = true;
			continue;
		}
		top_screen_again();
		v->dirty = true;
	}
}

static void lose(struct live *v, const struct fm_err *why, uint64_t now)
{
	char text[TOP_TEXT];

	top_link_close(&v->link);
	snprintf(text, sizeof(text), "%.200s; trying again", why->text);
	if (strcmp(text, v->top->lost) != 0) {
		top_lost(v->top, text);
		v->dirty = true;
	}
	v->retry = now + RETRY;
}

static void find(struct live *v, uint64_t now)
{
	struct fm_err err = {0};

	if (v->link.fd >= 0 || now < v->retry)
		return;
	if (top_link_open(&v->link, &err)) {
		lose(v, &err, now);
		return;
	}
	if (v->top->lost[0])
		top_found(v->top);
	v->next = now;
	v->dirty = true;
}

/* A request is not answered. The screen shows that, and the reply is still waited for. */
static void watch_silence(struct live *v, uint64_t now)
{
	bool silent = v->link.request.body && now > v->link.asked + SILENCE;

	if (silent != v->silent) {
		v->silent = silent;
		v->dirty = true;
		top_say(v->top, silent, "%s", silent ? "the daemon does not answer" : "");
	}
}

static void look(struct live *v, uint64_t now)
{
	struct top *t = v->top;

	if (v->link.fd < 0 || t->paused || now < v->next)
		return;
	v->next = now + (t->model.now.ps ? (uint64_t)(t->interval * FM_S)
					 : FM_MIN((uint64_t)(t->interval * FM_S), FIRST));
	if (!v->link.request.body && !t->requests)
		top_look(t);
}

static void count_samples(struct live *v)
{
	if (!v->top->model.now.ps || v->top->model.now.at == v->seen)
		return;
	v->seen = v->top->model.now.at;
	if (v->left && !--v->left)
		v->top->quit = true;
}

static void talk(struct live *v, short revents, uint64_t now)
{
	struct fm_err err = {0};
	int rc = 0;

	if (v->link.fd < 0)
		return;
	if (revents)
		rc = top_link_step(&v->link, v->top, now);
	v->dirty = v->dirty || rc > 0;
	rc = rc < 0 ? rc : top_link_send(&v->link, v->top, now);
	if (!rc)
		return;
	fm_err_set(&err, -ENOTCONN, "the daemon is gone: %s", strerror(-rc));
	lose(v, &err, now);
}

static void press_keys(struct live *v, short revents)
{
	struct top *t = v->top;
	bool resized = false;
	int key;

	while (!t->quit && (key = top_screen_key(&t->grid, &resized)) > 0) {
		top_press(t, key);
		v->dirty = true;
		if (key == ' ')
			v->next = 0;
	}
	v->dirty = v->dirty || resized;
	if (revents & (POLLHUP | POLLERR | POLLNVAL) || (!t->quit && key < 0))
		t->quit = true;
}

/* The time until the next look, the next attempt or the end of patience, in ms, rounded up. */
static int sleep_ms(const struct live *v, uint64_t now)
{
	uint64_t at = FM_NEVER, ns;

	if (v->link.fd < 0)
		at = v->retry;
	else if (!v->top->paused)
		at = v->next;
	if (v->link.request.body && !v->silent)
		at = FM_MIN(at, v->link.asked + SILENCE);
	ns = fm_sub_sat(at, now);
	return at == FM_NEVER ? -1 : (int)FM_MIN((ns + FM_MS - 1) / FM_MS, (uint64_t)60000);
}

static void loop(struct live *v)
{
	struct top *t = v->top;

	while (!t->quit) {
		struct pollfd p[3] = {{.fd = STDIN_FILENO, .events = POLLIN},
			{.fd = v->signals, .events = POLLIN}};
		uint64_t now = fm_now();

		find(v, now);
		look(v, now);
		talk(v, 0, now);
		watch_silence(v, now);
		if (v->dirty) {
			top_draw(t);
			top_screen_show(&t->grid);
			v->dirty = false;
		}
		p[2] = (struct pollfd){.fd = v->link.fd, .events = top_link_events(&v->link)};
		if (poll(p, 3, sleep_ms(v, now)) < 0 && errno != EINTR)
			break;
		on_signals(v);
		press_keys(v, p[0].revents);
		talk(v, p[2].revents, fm_now());
		count_samples(v);
	}
}

int top_live(struct top *t, const struct top_options *o)
{
	struct live v = {.top = t, .signals = -1, .left = o->count};
	struct fm_err err = {0};
	sigset_t old;
	int rc;

	top_link_init(&v.link, o->cli);
	rc = top_link_open(&v.link, &err);
	if (!rc)
		rc = top_screen_open(&t->grid, o->ascii, &err);
	if (rc) {
		top_link_close(&v.link);
		return cli_report(&err);
	}
	v.signals = watch_signals(&old);
	if (v.signals >= 0)
		loop(&v);
	top_screen_close();
	top_link_close(&v.link);
	fm_close_fd(&v.signals);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (v.ended_by) {
		signal(v.ended_by, SIG_DFL);
		raise(v.ended_by);
	}
	return CLI_OK;
}
