/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launches of a list: a line for the head, one for each kernel, which begins with its key, and
 * may have a member "kill", an array of texts. What is in names cannot be taken for that member,
 * since quotes are escaped there.
 */
#include "base/cleanup.h"
#include "kill.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char head[] = "{\"v\":1,\"kernels\":", key[] = "{\"key\":\"", member[] = "\"kill\":[";

void fm_kill_list_free(struct fm_kill_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		fm_kill_launch_free(&l->launch[i]);
	free(l->launch);
	*l = (struct fm_kill_list){0};
}

static int add(struct fm_kill_list *l, const char *text, size_t size)
{
	struct fm_kill_launch *more;
	int rc;

	if (l->n == FM_KILL_MOST)
		return -E2BIG;
	if (!(l->n & (l->n - 1))) {
		more = realloc(
			l->launch, (l->n ? 2 * l->n : 1) * sizeof(*more)); /* of FM_KILL_MOST */
		if (!more)
			return -ENOMEM;
		l->launch = more;
	}
	rc = fm_kill_parse(&l->launch[l->n], text, size);
	l->n++; /* to be freed in any case */
	return rc;
}

/* Texts up to the bracket. */
static int read_texts(struct fm_kill_list *l, const char *at, const char *end)
{
	int rc = 0;

	while (!rc && at < end && *at == '"') {
		const char *close = memchr(at + 1, '"', (size_t)(end - at - 1));

		if (!close || end - close < 2 || (close[1] != ',' && close[1] != ']'))
			return -EINVAL;
		rc = add(l, at + 1, (size_t)(close - at - 1));
		if (rc || close[1] == ']')
			return rc;
		at = close + 2;
	}
	return rc ? rc : -EINVAL;
}

static int read_kernel(struct fm_kill_list *l, const char *line, size_t n)
{
	const char *at;

	if (n < sizeof(key) || memcmp(line, key, sizeof(key) - 1) || line[n - 1] != '}')
		return -EINVAL;
	at = memmem(line, n, member, sizeof(member) - 1);
	if (!at)
		return 0;
	if (!memmem(line, n, "\"class\":\"idempotent\"", 20))
		return -EINVAL;
	return read_texts(l, at + sizeof(member) - 1, line + n);
}

static int by_name(const void *a, const void *b)
{
	const struct fm_kill_launch *x = a, *y = b;
	int order = strcmp(x->hash, y->hash);

	return order ? order : strcmp(x->name, y->name);
}

static int read_list(struct fm_kill_list *l, const char *text, size_t size)
{
	const char *end = text + size, *line;
	unsigned long kernels, n = 0;
	char *rest;
	int rc = 0;

	if (size < sizeof(head) || memcmp(text, head, sizeof(head) - 1) ||
		text[sizeof(head) - 1] < '0' || text[sizeof(head) - 1] > '9')
		return -EINVAL;
	kernels = strtoul(text + sizeof(head) - 1, &rest, 10);
	if (end - rest < 2 || rest[0] != '}' || rest[1] != '\n')
		return -EINVAL;
	for (line = rest + 2; !rc && line < end; n++) {
		const char *to = memchr(line, '\n', (size_t)(end - line));

		if (!to)
			return -EINVAL; /* it was cut */
		rc = read_kernel(l, line, (size_t)(to - line));
		line = to + 1;
	}
	if (!rc && n != kernels)
		rc = -EINVAL;
	if (!rc && l->n)
		qsort(l->launch, l->n, sizeof(*l->launch), by_name);
	return rc;
}

static int read_all(int fd, char *text, size_t room, size_t *size)
{
	ssize_t n;

	for (*size = 0; *size < room; *size += (size_t)n) {
		n = read(fd, text + *size, room - *size);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return n ? -errno : 0;
	}
	return -E2BIG;
}

int fm_kill_load(struct fm_kill_list *l, const char *path)
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	FM_CLEAN_FREE char *text = NULL;
	struct stat st;
	size_t size;
	int rc;

	*l = (struct fm_kill_list){0};
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((st.st_uid && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EACCES;
	if (st.st_size < 0 || (uint64_t)st.st_size > FM_KILL_FILE)
		return -E2BIG;
	text = malloc((size_t)st.st_size + 2);
	if (!text)
		return -ENOMEM;
	rc = read_all(fd, text, (size_t)st.st_size + 1, &size);
	if (!rc) {
		text[size] = '\0';
		rc = read_list(l, text, size);
	}
	if (rc)
		fm_kill_list_free(l);
	return rc;
}

size_t fm_kill_find(const struct fm_kill_list *l, const char *hash, const char *name,
	const struct fm_kill_launch **first)
{
	size_t from = 0, to = l->n, n = 0;

	while (from < to) {
		size_t at = from + (to - from) / 2;
		int order = strcmp(l->launch[at].hash, hash);

		if (order < 0 || (!order && name && strcmp(l->launch[at].name, name) < 0))
			from = at + 1;
		else
			to = at;
	}
	*first = l->n ? &l->launch[from] : NULL;
	while (from + n < l->n && !strcmp(l->launch[from + n].hash, hash) &&
		(!name || !strcmp(l->launch[from + n].name, name)))
		n++;
	return n;
}
