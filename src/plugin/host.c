/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a plug-in. It does what the daemon says in the order in which it comes, and ends
 * with the daemon. Whatever the plug-in does to this process stays here, so there are few checks:
 * those that make a reason readable.
 */
#include "base/util.h"
#include "plugin.h"
#include "wire.h"
#include <dlfcn.h>
#include <errno.h>
#include <fermata/policy.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define NICE     (-10)
#define DATA_MAX (256ul << 20)

struct group {
	struct fm_policy_group pub;
	uint32_t slot, device;
	int64_t hint[FM_HINT_COUNT];
};

struct device {
	void *state;
	struct group *run[FM_RUN_MAX]; /* of the last answer */
	unsigned n;
};

static struct fm_policy policy; /* as far as both sides know it */
static struct group **groups;
static struct device **devices;
static uint32_t n_groups, n_devices;

static _Noreturn void fail(const char *why)
{
	struct wire_reply r = {.rc = -EIO};

	snprintf(r.reason, sizeof(r.reason), "%s", why);
	if (send(WIRE_SOCKET, &r, sizeof(r), MSG_NOSIGNAL) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_SUCCESS);
}

static void *must(void *p)
{
	if (!p)
		fail("out of memory");
	return p;
}

/* Room in a table of pointers for this index. */
static void *grow(void *table, uint32_t *n, uint32_t index)
{
	void **t = table;
	uint32_t want = FM_MAX(index + 1, 2 * *n);

	if (index < *n)
		return table;
	t = must(realloc(t, want * sizeof(*t)));
	memset(t + *n, 0, (want - *n) * sizeof(*t));
	*n = want;
	return t;
}

static void reply(struct wire_reply *r, uint64_t serial)
{
	r->serial = serial;
	if (send(WIRE_SOCKET, r, sizeof(*r), MSG_NOSIGNAL) != sizeof(*r))
		_exit(EXIT_FAILURE);
}

static void on_init(const struct wire_event *ev)
{
	struct wire_reply r = {0};
	struct device *d = must(calloc(1, sizeof(*d)));

	d->state = must(calloc(1, FM_MAX(policy.state_size, (size_t)1)));
	devices = grow(devices, &n_devices, ev->device);
	devices[ev->device] = d;
	r.rc = policy.init ? policy.init(d->state, ev->value) : 0;
	if (r.rc)
		snprintf(r.reason, sizeof(r.reason), "init: %s",
			strerror(r.rc < 0 && r.rc > -4096 ? -r.rc : EIO));
	reply(&r, ev->serial);
}

static void on_join(struct device *d, const struct wire_event *ev)
{
	struct group *g = must(calloc(1, sizeof(*g)));

	g->pub = (struct fm_policy_group){.size = sizeof(g->pub),
		.hints = FM_HINT_COUNT,
		.hint = g->hint,
		.id = ev->id,
		.served_ns = ev->served_ns,
		.priv = must(calloc(1, FM_MAX(policy.group_size, (size_t)1)))};
	g->slot = ev->slot;
	g->device = ev->device;
	memcpy(g->hint, ev->value, sizeof(g->hint));
	groups = grow(groups, &n_groups, ev->slot);
	groups[ev->slot] = g;
	if (policy.join && policy.join(d->state, &g->pub, ev->now))
		fail("join: out of memory");
}

static void on_leave(struct device *d, struct group *g, const struct wire_event *ev)
{
	if (policy.leave)
		policy.leave(d->state, &g->pub, ev->now);
	for (unsigned i = 0; i < d->n; i++)
		if (d->run[i] == g)
			d->run[i--] = d->run[--d->n];
	groups[g->slot] = NULL;
	free(g->pub.priv);
	free(g);
}

static void on_group(struct device *d, struct group *g, const struct wire_event *ev)
{
	void (*fn)(void *, struct fm_policy_group *, uint64_t) = NULL;

	g->pub.ready = ev->ready;
	g->pub.running = ev->running;
	g->pub.ready_since = ev->ready_since;
	g->pub.served_ns = ev->served_ns;
	memcpy(g->hint, ev->value, sizeof(g->hint));
	if (ev->type == WIRE_CHARGE) {
		if (policy.charge)
			policy.charge(d->state, &g->pub, ev->ns, ev->now);
		return;
	}
	if (ev->type == WIRE_READY)
		fn = policy.ready;
	else if (ev->type == WIRE_IDLE)
		fn = policy.idle;
	else if (ev->type == WIRE_HINT)
		fn = policy.hint;
	if (fn)
		fn(d->state, &g->pub, ev->now);
}

static struct group *chosen(struct fm_policy_group *pub)
{
	struct group *g = pub ? fm_container(pub, struct group, pub) : NULL;

	if (!g || g->slot >= n_groups || groups[g->slot] != g)
		fail("it chose something that is not a group");
	return g;
}

static void on_decide(struct device *d, const struct wire_event *ev)
{
	struct fm_policy_answer a = {.size = sizeof(a), .next = FM_POLICY_NEVER};
	struct wire_reply r = {0};

	policy.decide(d->state, ev->now, &a);
	if (!a.all && a.n > FM_POLICY_RUN_MAX)
		fail("it chose more groups than an answer holds");
	for (unsigned i = 0; i < d->n; i++)
		d->run[i]->pub.running = 0;
	d->n = 0;
	r.all = a.all;
	r.n = a.all ? 0 : a.n;
	r.next = a.next;
	for (unsigned i = 0; i < r.n; i++) {
		d->run[i] = chosen(a.run[i]);
		r.run[i] = d->run[i]->slot;
		d->run[i]->pub.running = 1;
		d->n++;
	}
	if (a.reason)
		snprintf(r.reason, sizeof(r.reason), "%s", a.reason);
	reply(&r, ev->serial);
}

static void on_event(const struct wire_event *ev)
{
	struct device *d = ev->device < n_devices ? devices[ev->device] : NULL;
	struct group *g = ev->slot < n_groups ? groups[ev->slot] : NULL;

	if (ev->type == WIRE_INIT)
		on_init(ev);
	else if (!d)
		fail("an event of no device");
	else if (ev->type == WIRE_DECIDE)
		on_decide(d, ev);
	else if (ev->type == WIRE_JOIN)
		on_join(d, ev);
	else if (!g)
		fail("an event of no group");
	else if (ev->type == WIRE_LEAVE)
		on_leave(d, g, ev);
	else
		on_group(d, g, ev);
}

/* Only what both sides know is looked at; what is beyond must be unset. */
static const char *take(const struct fm_policy *p)
{
	const unsigned char *more = (const unsigned char *)p + sizeof(policy);

	if (p->abi != FM_POLICY_ABI)
		return "it is made for another version of <fermata/policy.h>: build it anew";
	if (p->size < sizeof(policy) || p->size > 65536)
		return "its fm_policy has an impossible size";
	for (size_t i = 0; i < p->size - sizeof(policy); i++)
		if (more[i])
			return "it needs a newer fermatad";
	policy = *p;
	if (policy.flags & ~(FM_POLICY_EXACT_JOBS | FM_POLICY_BINDS_ALONE))
		return "it needs a newer fermatad";
	return policy.decide ? NULL : "it has no decide()";
}

static const char *introduce(struct wire_hello *h)
{
	const struct fm_policy_setting *s = policy.settings;

	h->flags = policy.flags;
	snprintf(h->summary, sizeof(h->summary), "%s", policy.summary ? policy.summary : "");
	for (; s && s->name; s++) {
		struct wire_setting *w = &h->setting[h->n];

		if (h->n++ == FM_POLICY_PARAMS)
			return "it has more than 8 settings";
		snprintf(w->name, sizeof(w->name), "%s", s->name);
		snprintf(w->unit, sizeof(w->unit), "%s", s->unit ? s->unit : "");
		snprintf(w->help, sizeof(w->help), "%s", s->help ? s->help : "");
		w->min = s->min;
		w->max = s->max;
		w->def = s->def;
	}
	return NULL;
}

static bool load(struct wire_hello *h)
{
	char path[32];
	const struct fm_policy *p;
	const char *why;
	void *so;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", WIRE_OBJECT);
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	p = so ? dlsym(so, "fm_policy") : NULL;
	if (!p) {
		snprintf(h->error, sizeof(h->error), "%s", dlerror() ?: "no fm_policy in it");
		return false;
	}
	why = take(p);
	if (!why)
		why = introduce(h);
	if (why)
		snprintf(h->error, sizeof(h->error), "%s", why);
	return !why;
}

/* It ends with the daemon, also when it loops; a crash is one at once, without a dump. */
static void confine(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPIPE, SIGXFSZ};
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!recv(WIRE_SOCKET, &byte, 1, MSG_PEEK | MSG_DONTWAIT)) /* it had ended before */
		_exit(EXIT_FAILURE);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (size_t i = 0; i < FM_ARRAY_LEN(fatal); i++)
		signal(fatal[i], SIG_DFL);
#ifndef FM_SANITIZED /* its shadow is large */
	setrlimit(RLIMIT_DATA, &(struct rlimit){DATA_MAX, DATA_MAX});
#endif
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	/* Where that is allowed: the daemon waits for it. */
	setpriority(PRIO_PROCESS, 0, NICE);
}

int fm_plugin_host(void)
{
	static struct wire_hello hello;
	static struct wire_event batch[WIRE_BATCH];
	bool loaded;
	ssize_t n;

	confine();
	loaded = load(&hello);
	close(WIRE_OBJECT);
	prctl(PR_SET_DUMPABLE, 0); /* after dlopen(), which needs /proc/self */
	if (send(WIRE_SOCKET, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) || !loaded)
		_exit(EXIT_FAILURE);
	while ((n = recv(WIRE_SOCKET, batch, sizeof(batch), 0)) > 0 || (n < 0 && errno == EINTR))
		for (ssize_t i = 0; i < n / (ssize_t)sizeof(batch[0]); i++)
			on_event(&batch[i]);
	_exit(EXIT_SUCCESS);
}
