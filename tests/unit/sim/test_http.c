/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client of `fermata-lab bench --driver kserve:URL`, and what it makes of a model's
 * metadata: servers that answer in pieces, at length, wrongly, or not. */
#include "base/cleanup.h"
#include "bench/http.h"
#include "bench/kserve.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define OK "HTTP/1.1 200 OK\r\n"

static ssize_t parse(const char *text, struct http_head *head)
{
	const char *why;

	return http_parse_head(text, strlen(text), head, &why);
}

static void heads(void **state)
{
	static const char *const wrong[] = {"HTTP/2 200 OK\r\nContent-Length: 1\r\n\r\n",
		"x\r\n\r\n", "\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 200\r\n\r\n", OK "Content-Length: -1\r\n\r\n",
		OK "Content-Length: 1e3\r\n\r\n", OK "Content-Length:\r\n\r\n",
		OK "Content-Length: 99999999999999999999999\r\n\r\n",
		OK "Content-Length: 268435457\r\n\r\n",
		OK "Content-Length: 1\r\ncontent-length: 2\r\n\r\n",
		OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"};
	struct http_head head;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(parse(wrong[i], &head), -EPROTO);
	assert_int_equal(parse(OK "A: b\r\ncontent-LENGTH:  12 \r\n\r\nbody", &head),
		strlen(OK "A: b\r\ncontent-LENGTH:  12 \r\n\r\n"));
	assert_int_equal(head.length, 12);
	assert_false(head.close);
	assert_true(parse(OK "Content-Length: 0\r\nConnection: Close\r\n\r\n", &head) > 0);
	assert_true(head.close);
	assert_true(parse("HTTP/1.0 404 x\r\nContent-Length: 3\r\n\r\n", &head) > 0);
	assert_true(head.close && head.status == 404);
	assert_true(parse("HTTP/1.1 100 Continue\r\n\r\n", &head) > 0);
	assert_int_equal(parse(OK "Content-Length: 1\r\n", &head), 0);
	assert_int_equal(parse("", &head), 0);
}

static void urls(void **state)
{
	static const char *const wrong[] = {"", "http://", "https://a", "a:0", "a:65536", "a:b",
		"a:", "a/v2", "http://a:8000/v2", ":80", "[]:80", "a:8000000"};
	struct http h;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (!http_url(&h, wrong[i]))
			fail_msg("'%s' is a URL: %s port %s", wrong[i], h.host, h.port);
	assert_null(http_url(&h, "http://localhost:8080/"));
	assert_string_equal(h.host, "localhost");
	assert_string_equal(h.port, "8080");
	assert_null(http_url(&h, "gpu-7"));
	assert_string_equal(h.port, "8000");
	assert_null(http_url(&h, "[::1]:81"));
	assert_string_equal(h.host, "::1");
	assert_string_equal(h.port, "81");
}

/* What a server says to a request, whose connection it then closes if there is nothing more. */
static int said(const char *text, size_t n, bool closes, struct http *h, struct http_answer *a)
{
	int fd[2], rc;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_null(http_url(h, "localhost:1")); /* where nobody listens */
	h->fd = fd[0];
	assert_int_equal(write(fd[1], text, n), n);
	if (closes)
		shutdown(fd[1], SHUT_WR);
	rc = http_ask(h, "GET", "/", "", NULL, 0, 50, a);
	close(fd[1]);
	return rc;
}

static void answers(void **state)
{
	static const struct {
		const char *text;
		bool closes;
		int rc;
	} all[] = {{OK "Content-Length: 2\r\n\r\n{}", false, 0},
		{"HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\n{}", false, 0},
		{OK "Content-Length: 2\r\n\r\n{", true, -EPROTO},
		{OK "Content-Length: 2\r\n\r\n{}x", false, -EPROTO},
		{OK "Content-Length: 9\r\n\r\n{}", false, -ETIMEDOUT}, {OK, false, -ETIMEDOUT},
		{OK, true, -EPIPE}, {"garbage\r\n\r\n", false, -EPROTO}};
	struct http_answer a;
	struct http h;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		assert_int_equal(
			said(all[i].text, strlen(all[i].text), all[i].closes, &h, &a), all[i].rc);
		assert_true(all[i].rc ? h.fd < 0 && h.error[0] : h.fd >= 0 && a.length == 2);
		http_close(&h);
	}
}

static void endless_answers(void **state)
{
	size_t n = 100000;
	FM_CLEAN_FREE char *text = malloc(n);
	struct http_answer a;
	struct http h;

	(void)state;
	memset(text, 'a', n);
	memcpy(text, OK, strlen(OK));
	assert_int_equal(said(text, n, false, &h, &a), -EPROTO);
	http_close(&h);
	for (size_t i = 0; i + 25 < n; i += 25)
		memcpy(text + i, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	assert_int_equal(said(text, n - n % 25, false, &h, &a), -EPROTO);
	http_close(&h);
}

/* A connection that the server has closed meanwhile is made again: here nobody listens. */
static void kept_connections(void **state)
{
	struct http_answer a;
	struct http h;

	(void)state;
	assert_int_equal(said("", 0, true, &h, &a), -ECONNREFUSED);
	http_close(&h);
}

static const char *read_model(struct kserve_model *m, const char *text, const char *client)
{
	static char wrong[160];

	return kserve_read_model(m, text, strlen(text), 4, client, wrong);
}

#define INPUT(name, type, shape) \
	"{\"name\":\"" name "\",\"datatype\":\"" type "\",\"shape\":" shape "}"
#define MODEL(inputs) "{\"name\":\"m\",\"inputs\":[" inputs "]}"

static void metadata(void **state)
{
	static const char *const wrong[] = {"", "[]", "{}", "{\"inputs\":7}", MODEL(""), MODEL("7"),
		MODEL(INPUT("a", "BYTES", "[1]")), MODEL(INPUT("", "FP32", "[1]")),
		MODEL(INPUT("a", "FP32", "[]")), MODEL(INPUT("a", "FP32", "7")),
		MODEL(INPUT("a", "FP32", "[1,-1]")), MODEL(INPUT("a", "FP32", "[-2]")),
		MODEL(INPUT("a", "FP32", "[0]")), MODEL(INPUT("a", "FP32", "[1.5]")),
		MODEL(INPUT("a", "FP32", "[4096,4097]")),
		MODEL(INPUT("a", "FP32", "[9223372036854775807,9223372036854775807]")),
		MODEL(INPUT("a", "FP32", "[1,1,1,1,1,1,1,1,1]")),
		MODEL(INPUT("a", "FP64", "[8000000]") "," INPUT("b", "FP64", "[8000000]"))};
	struct kserve_model m;
	unsigned char data[4 * 3 * 4 + 2 * 8];
	float f;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		if (!read_model(&m, wrong[i], NULL))
			fail_msg("it is taken: %s", wrong[i]);
		kserve_free_model(&m);
	}
	assert_null(
		read_model(&m, MODEL(INPUT("a", "FP32", "[-1,3]") "," INPUT("b", "INT64", "[2]")),
			"{\"parameters\": {\"priority\": 1}}"));
	assert_int_equal(kserve_input_bytes(&m), sizeof(data));
	assert_non_null(strstr(m.request, "\"shape\":[4,3]"));
	assert_non_null(strstr(m.request, "\"binary_data_size\":48"));
	assert_non_null(strstr(m.request, "\"priority\":1"));
	assert_non_null(strstr(m.request, "\"binary_data_output\":true"));
	kserve_fill(&m, data);
	memcpy(&f, data + 11 * 4, 4);
	assert_true(f > 0.1f && f < 0.12f);
	assert_int_equal(data[48 + 8], 1);
	kserve_free_model(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(heads), cmocka_unit_test(urls),
		cmocka_unit_test(answers), cmocka_unit_test(endless_answers),
		cmocka_unit_test(kept_connections), cmocka_unit_test(metadata)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
