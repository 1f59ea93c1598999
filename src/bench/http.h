/* SPDX-License-Identifier: Apache-2.0 */
/* A client of one HTTP/1.1 server, over a connection that is kept. What the server sends is bounded
 * and checked: it may be anything. Within the room. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define HTTP_HEAD_MAX 16384u
#define HTTP_BODY_MAX ((size_t)256 << 20)
#define HTTP_TEXT     160

struct http_head {
	int status;
	size_t length; /* of the body */
	bool close;    /* the server closes the connection behind it */
};

/* The head of an answer. Its length; 0: it is not all there yet; -EPROTO: it is none, with `why'.
 */
ssize_t http_parse_head(const char *p, size_t n, struct http_head *head, const char **why);

struct http {
	char host[256], port[6];
	int fd; /* -1: not connected */
	char *buf;
	size_t room;
	char error[HTTP_TEXT]; /* what went wrong */
};

struct http_answer {
	int status;
	const char *body; /* valid until the next call */
	size_t length;
};

/* "http://HOST:PORT", "HOST:PORT", "[::1]:PORT"; without a port it is 8000. NULL, or what is wrong.
 */
const char *http_url(struct http *h, const char *url);
/* -errno with h->error: no answer came within that time, or none that makes sense. The connection
 * is made when it is needed. An answer with another status than 200 is an answer. */
int http_ask(struct http *h, const char *method, const char *path, const char *headers,
	const struct iovec *body, int parts, int timeout_ms, struct http_answer *a);
void http_close(struct http *h);
