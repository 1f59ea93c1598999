/* SPDX-License-Identifier: Apache-2.0 */
#include "talk.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_MAX_BYTES 256

static bool read_picture(const char *text, uint32_t *picture)
{
	unsigned long long v;
	char *end;

	if (text[0] < '0' || text[0] > '9' || strlen(text) > 10)
		return false;
	v = strtoull(text, &end, 10);
	*picture = (uint32_t)v;
	return !*end && v <= UINT32_MAX;
}

static bool malformed(struct request *r, const char *why)
{
	r->code = "malformed";
	snprintf(r->text, sizeof(r->text), "%s", why);
	return false;
}

bool talk_read(struct engine *e, struct request *r, const char *model, const char *picture)
{
	r->code = NULL;
	if (!model || !picture)
		return malformed(r, "it is `infer MODEL PICTURE'");
	if (!read_picture(picture, &r->picture))
		return malformed(r, "a picture is a number from 0 to 4294967295");
	r->model = engine_find(e, model);
	if (r->model)
		return true;
	r->code = "unknown";
	snprintf(r->text, sizeof(r->text), "there is no such model");
	return false;
}

/* A client that reads nothing for that long is left (SO_SNDTIMEO). */
static bool send_all(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		text += sent;
		n -= (size_t)sent;
	}
	return true;
}

static bool answer(int fd, const struct request *r)
{
	char text[LINE_MAX_BYTES + sizeof(r->text)];
	int n;

	if (r->code)
		n = snprintf(text, sizeof(text), "error %s %s\n", r->code, r->text);
	else
		n = snprintf(text, sizeof(text),
			"ok %s %u class=%u digest=%016llx wait_us=%.1f run_us=%.1f\n",
			r->model->model.name, r->picture, r->answer.class,
			(unsigned long long)r->answer.digest, (double)(r->begun - r->arrived) / 1e3,
			(double)(r->ended - r->begun) / 1e3);
	return send_all(fd, text, (size_t)n);
}

static bool stats(struct engine *e, int fd)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);
	bool sent;

	if (!to)
		return false;
	fprintf(to, "ok ");
	engine_stats(e, to);
	fprintf(to, "\n");
	sent = !fclose(to) && send_all(fd, text, n);
	free(text);
	return sent;
}

/* What was said in a line, without its end. */
static bool follow(struct engine *e, struct request *r, int fd, char *line)
{
	char *model, *picture = NULL;

	if (!strcmp(line, "stats"))
		return stats(e, fd);
	model = strncmp(line, "infer ", 6) ? NULL : line + 6;
	if (model && (picture = strchr(model, ' ')))
		*picture++ = 0;
	if (talk_read(e, r, model, picture))
		engine_ask(e, r, fd);
	return answer(fd, r);
}

static bool too_much(struct request *r, int fd)
{
	malformed(r, "a line has at most 255 bytes, none of them 0");
	answer(fd, r);
	return false;
}

/* All whole lines of what was read; what is left moves to the front. False: that was all. */
static bool lines(struct engine *e, struct request *r, int fd, char *text, size_t *n)
{
	char *end;

	while ((end = memchr(text, '\n', *n))) {
		size_t length = (size_t)(end - text) + 1;

		*end = 0;
		if (strlen(text) + 1 != length)
			return too_much(r, fd);
		if (!follow(e, r, fd, text))
			return false;
		*n -= length;
		memmove(text, end + 1, *n);
	}
	return *n < LINE_MAX_BYTES || too_much(r, fd);
}

void talk_lines(struct engine *e, int fd, int event)
{
	struct request r = {.event = event};
	char text[LINE_MAX_BYTES];
	size_t n = 0;
	ssize_t got;

	do {
		got = recv(fd, text + n, sizeof(text) - n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		n += got > 0 ? (size_t)got : 0;
	} while (got > 0 && lines(e, &r, fd, text, &n));
}
