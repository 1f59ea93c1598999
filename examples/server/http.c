/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP, by libmicrohttpd, with a thread for each connection. */
#include "talk.h"
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define IDLE_SECONDS 30

struct http {
	struct engine *engine;
	struct MHD_Daemon *daemon;
};

static enum MHD_Result respond(struct MHD_Connection *c, unsigned status, char *text)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result done;

	if (!r) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
	done = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return done;
}

static unsigned status_of(const struct request *r)
{
	static const struct {
		const char *code;
		unsigned status;
	} all[] = {{"malformed", MHD_HTTP_BAD_REQUEST}, {"unknown", MHD_HTTP_NOT_FOUND},
		{"overloaded", MHD_HTTP_SERVICE_UNAVAILABLE},
		{"ending", MHD_HTTP_SERVICE_UNAVAILABLE}};

	for (size_t i = 0; r->code && i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(r->code, all[i].code))
			return all[i].status;
	return r->code ? MHD_HTTP_INTERNAL_SERVER_ERROR : MHD_HTTP_OK;
}

static enum MHD_Result answer(struct MHD_Connection *c, const struct request *r)
{
	char *text = NULL;
	int n;

	if (r->code)
		n = asprintf(&text, "{\"error\": \"%s\", \"text\": \"%s\"}\n", r->code, r->text);
	else
		n = asprintf(&text,
			"{\"model\": \"%s\", \"picture\": %u, \"class\": %u, \"digest\": "
			"\"%016llx\", "
			"\"wait_us\": %.1f, \"run_us\": %.1f}\n",
			r->model->model.name, r->picture, r->answer.class,
			(unsigned long long)r->answer.digest, (double)(r->begun - r->arrived) / 1e3,
			(double)(r->ended - r->begun) / 1e3);
	return n < 0 ? MHD_NO : respond(c, status_of(r), text);
}

static enum MHD_Result infer(struct engine *e, struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct request r = {.event = eventfd(0, EFD_CLOEXEC)};
	enum MHD_Result done;

	if (r.event < 0)
		return MHD_NO;
	if (talk_read(e, &r, MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "model"),
		    MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "picture")))
		engine_ask(e, &r, info ? info->connect_fd : -1);
	done = answer(c, &r);
	close(r.event);
	return done;
}

static enum MHD_Result stats(struct engine *e, struct MHD_Connection *c)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	if (!to)
		return MHD_NO;
	engine_stats(e, to);
	fprintf(to, "\n");
	if (fclose(to)) {
		free(text);
		return MHD_NO;
	}
	return respond(c, MHD_HTTP_OK, text);
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status)
{
	char *text = strdup("{\"error\": \"malformed\", \"text\": \"it is POST /infer?model=MODEL"
			    "&picture=PICTURE, or GET /stats\"}\n");

	return text ? respond(c, status, text) : MHD_NO;
}

/* Called once with the head of a request, and again when its body, which nobody wants, is read. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *c, const char *url,
	const char *method, const char *version, const char *data, size_t *n, void **state)
{
	static int seen;
	struct http *h = arg;
	bool is_infer = !strcmp(url, "/infer"), is_stats = !strcmp(url, "/stats");

	if (!*state || *n) {
		*n = 0;
		*state = &seen;
		return MHD_YES;
	}
	if (is_infer && !strcmp(method, MHD_HTTP_METHOD_POST))
		return infer(h->engine, c);
	if (is_stats && !strcmp(method, MHD_HTTP_METHOD_GET))
		return stats(h->engine, c);
	return refuse(c, is_infer || is_stats ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND);
}

struct http *http_start(
	struct engine *e, unsigned short port, unsigned connections, const char **failed)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct http *h = calloc(1, sizeof(*h));

	*failed = h ? NULL : "out of memory";
	if (!h)
		return NULL;
	h->engine = e;
	h->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL,
		port, NULL, NULL, handle, h, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_LIMIT,
		connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_END);
	if (h->daemon)
		return h;
	*failed = wrong("HTTP does not start on port %u of localhost", port);
	free(h);
	return NULL;
}

void http_stop(struct http *h)
{
	MHD_stop_daemon(h->daemon);
	free(h);
}
