/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver "kserve:URL": a client is a connection to a server with the KServe v2 protocol, and
 * asks it for one model, with binary tensors. A model that is not ready is loaded first.
 */
#include "kserve.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "driver.h"
#include "http.h"
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_MS   20000 /* whatever takes the server no work with a device */
#define INFER_MS 60000
#define LOAD_MS  110000 /* a run waits for its clients for two minutes */

struct server {
	struct fm_bench_driver driver;
	struct http at; /* where it is; never connected */
};

struct client {
	struct http http;
	struct kserve_model model;
	unsigned char *data; /* of all inputs */
	char path[256];      /* /v2/models/NAME */
	char infer[264], headers[96];
	char text[256]; /* what is wrong */
};

__attribute__((format(printf, 2, 3))) static const char *bad(struct client *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->text, sizeof(c->text), fmt, ap);
	va_end(ap);
	for (char *p = c->text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return c->text;
}

/* What a server says of an error, cut. */
static const char *refused(struct client *c, const char *what, const struct http_answer *a)
{
	json_t *root = json_loadb(a->body, a->length, 0, NULL);
	const char *said = json_string_value(json_object_get(root, "error"));
	const char *wrong = bad(
		c, "%s: status %d%s%.160s", what, a->status, said ? ": " : "", said ? said : "");

	json_decref(root);
	return wrong;
}

static const char *ask(struct client *c, const char *method, const char *path, int timeout_ms,
	struct http_answer *a)
{
	const struct iovec nothing = {"{}", 2};

	if (http_ask(&c->http, method, path, "", &nothing, !strcmp(method, "POST"), timeout_ms, a))
		return bad(c, "%s", c->http.error);
	return NULL;
}

/* --- opening --- */

static bool put_name(char *to, size_t size, const char *name)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;

	for (; *name && n + 4 < size; name++) {
		unsigned char ch = (unsigned char)*name;

		if (strchr("-_.~", ch) || ((ch | 32) >= 'a' && (ch | 32) <= 'z') ||
			(ch >= '0' && ch <= '9')) {
			to[n++] = (char)ch;
			continue;
		}
		to[n++] = '%';
		to[n++] = hex[ch >> 4];
		to[n++] = hex[ch & 15];
	}
	to[n] = '\0';
	return !*name;
}

static const char *find_model(struct client *c, const struct fm_bench_model *model)
{
	char name[192], load[256];
	const char *wrong;
	struct http_answer a;

	if (!put_name(name, sizeof(name), model->name))
		return "the model's name is too long";
	snprintf(c->path, sizeof(c->path), "/v2/models/%s", name);
	snprintf(c->infer, sizeof(c->infer), "%s/infer", c->path);
	wrong = ask(c, "GET", c->path, ASK_MS, &a);
	if (!wrong && a.status != 200) {
		snprintf(load, sizeof(load), "/v2/repository/models/%s/load", name);
		wrong = ask(c, "POST", load, LOAD_MS, &a);
		if (!wrong && a.status != 200)
			return refused(c, "loading the model", &a);
		wrong = wrong ? wrong : ask(c, "GET", c->path, ASK_MS, &a);
	}
	if (wrong)
		return wrong;
	if (a.status != 200)
		return refused(c, "the model", &a);
	wrong = kserve_read_model(
		&c->model, a.body, a.length, model->batch, model->client, (char[160]){0});
	return wrong ? bad(c, "%s", wrong) : NULL;
}

/* What a server says is printed, and may be anything. */
static void put_text(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text);
	for (; *to; to++)
		if (*to < ' ' || *to > '~')
			*to = '?';
}

static void name_server(struct client *c, struct fm_bench_device *device)
{
	struct http_answer a;
	json_t *root = NULL;
	const char *name, *version;

	if (!ask(c, "GET", "/v2", ASK_MS, &a) && a.status == 200)
		root = json_loadb(a.body, a.length, 0, NULL);
	name = json_string_value(json_object_get(root, "name"));
	version = json_string_value(json_object_get(root, "version"));
	put_text(device->name, sizeof(device->name), name ? name : "a server");
	put_text(device->driver, sizeof(device->driver), version ? version : "?");
	snprintf(device->platform, sizeof(device->platform), "http://%.100s:%s", c->http.host,
		c->http.port);
	json_decref(root);
}

static void close_client(void *client)
{
	struct client *c = client;

	http_close(&c->http);
	kserve_free_model(&c->model);
	free(c->data);
	free(c);
}

static const char *prepare(
	struct client *c, const struct fm_bench_open *how, struct fm_bench_device *device)
{
	const char *wrong = how->device ? "a server has no devices" : find_model(c, how->model);

	if (wrong)
		return wrong;
	c->data = malloc(kserve_input_bytes(&c->model));
	if (!c->data)
		return "out of memory";
	kserve_fill(&c->model, c->data);
	snprintf(c->headers, sizeof(c->headers),
		"Content-Type: application/octet-stream\r\n"
		"Inference-Header-Content-Length: %zu\r\n",
		c->model.length);
	name_server(c, device);
	return NULL;
}

static const char *open_client(const struct fm_bench_driver *self, const struct fm_bench_open *how,
	void **client, struct fm_bench_device *device)
{
	static _Thread_local char text[256];
	const struct server *s = fm_container(self, struct server, driver);
	struct client *c = calloc(1, sizeof(*c));
	const char *wrong;

	if (!c)
		return "out of memory";
	c->http = s->at;
	wrong = prepare(c, how, device);
	if (wrong) {
		snprintf(text, sizeof(text), "%s", wrong);
		close_client(c);
		return text;
	}
	*client = c;
	return NULL;
}

/* --- requests --- */

static const char *phase(void *client, enum fm_bench_phase phase)
{
	struct client *c = client;
	const struct iovec body[2] = {
		{c->model.request, c->model.length}, {c->data, kserve_input_bytes(&c->model)}};
	struct http_answer a;

	if (phase != FM_BENCH_INFER)
		return NULL;
	if (http_ask(&c->http, "POST", c->infer, c->headers, body, 2, INFER_MS, &a))
		return bad(c, "%s", c->http.error);
	if (a.status != 200)
		return refused(c, "a request", &a);
	return a.length && *a.body == '{' ? NULL : "the server's answer is not a JSON object";
}

const struct fm_bench_driver *bench_kserve(const char *url, struct fm_err *err)
{
	static struct server server = {.driver = {.size = sizeof(struct fm_bench_driver),
					       .abi = FM_BENCH_ABI,
					       .name = "kserve",
					       .open = open_client,
					       .phase = phase,
					       .close = close_client},
		.at = {.fd = -1}};
	const char *wrong = http_url(&server.at, url);

	if (!wrong)
		return &server.driver;
	fm_err_set(err, -EINVAL, "'%.100s': %s", url, wrong);
	fm_err_hint(err, "write kserve:http://HOST:PORT");
	return NULL;
}
