/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of cgroups: whoever may make a cgroup chooses its name, so nothing is taken for granted. */
#include "base/util.h"
#include "metrics.h"
#include <ctype.h>
#include <string.h>

#define ID_LEN   64
#define UUID_LEN 36
#define HASH_LEN 32 /* the UID of a static pod is a hash of its file */

static bool hex(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)s[i]) && (s[i] < 'a' || s[i] > 'f'))
			return false;
	return true;
}

static bool ends_with(const char *s, size_t *n, const char *suffix)
{
	size_t len = strlen(suffix);

	if (*n < len || memcmp(s + *n - len, suffix, len) != 0)
		return false;
	*n -= len;
	return true;
}

/* In names of slices the hyphens of a UUID are underscores, since hyphens nest slices. */
static bool uuid(const char *s, char *out)
{
	for (size_t i = 0; i < UUID_LEN; i++) {
		bool gap = i == 8 || i == 13 || i == 18 || i == 23;

		if (gap ? s[i] != '-' && s[i] != '_' : !hex(&s[i], 1))
			return false;
		out[i] = gap ? '-' : s[i];
	}
	out[UUID_LEN] = '\0';
	return true;
}

/* podUID, or kubepods-CLASS-podUID.slice. */
static bool pod_of(const char *s, size_t n, char *out)
{
	char found[UUID_LEN + 1];

	ends_with(s, &n, ".slice");
	if (n >= UUID_LEN + 3 && uuid(s + n - UUID_LEN, found)) {
		n -= UUID_LEN;
	} else if (n >= HASH_LEN + 3 && hex(s + n - HASH_LEN, HASH_LEN)) {
		memcpy(found, s + n - HASH_LEN, HASH_LEN);
		found[HASH_LEN] = '\0';
		n -= HASH_LEN;
	} else {
		return false;
	}
	if (memcmp(s + n - 3, "pod", 3) != 0 || (n > 3 && s[n - 4] != '-'))
		return false;
	strcpy(out, found);
	return true;
}

/* ID, or RUNTIME-ID.scope. What watches a container (conmon) has a scope of its own, which has
 * another prefix. */
static bool id_of(const char *s, size_t n, char *out)
{
	static const char *const prefixes[] = {
		"", "docker-", "libpod-", "crio-", "cri-containerd-", "containerd-", "nerdctl-"};

	ends_with(s, &n, ".scope");
	if (n < ID_LEN || !hex(s + n - ID_LEN, ID_LEN))
		return false;
	for (size_t i = 0; i < FM_ARRAY_LEN(prefixes); i++) {
		size_t len = strlen(prefixes[i]);

		if (n != len + ID_LEN || memcmp(s, prefixes[i], len) != 0)
			continue;
		memcpy(out, s + len, ID_LEN);
		out[ID_LEN] = '\0';
		return true;
	}
	return false;
}

/* Colons are how containerd writes a systemd path that it was not told to take for one:
 * "kubepods-...-podUID.slice:cri-containerd:ID". */
static void parse_path(const char *path, size_t n, struct fm_container *out)
{
	const char *end = path + n;
	bool kube = false;

	*out = (struct fm_container){0};
	while (path < end) {
		size_t len = 0;

		while (path + len < end && path[len] != '/' && path[len] != ':')
			len++;
		kube = kube || memmem(path, len, "kubepods", strlen("kubepods"));
		if (kube && !out->pod_uid[0] && pod_of(path, len, out->pod_uid))
			out->id[0] = '\0'; /* what the pod is inside of is no container of its */
		else if (!out->id[0])
			id_of(path, len, out->id);
		path += len + 1;
	}
}

static int worth(const struct fm_container *c)
{
	return (c->pod_uid[0] ? 2 : 0) + (c->id[0] ? 1 : 0);
}

/* HIERARCHY:CONTROLLERS:PATH, of version 2 one line, of version 1 several. */
bool fm_cgroup_parse(const char *text, struct fm_container *out)
{
	struct fm_container one;

	*out = (struct fm_container){0};
	while (*text) {
		size_t n = strcspn(text, "\n");
		const char *path = memchr(text, ':', n);

		path = path ? memchr(path + 1, ':', n - (size_t)(path + 1 - text)) : NULL;
		if (path) {
			parse_path(path + 1, n - (size_t)(path + 1 - text), &one);
			if (worth(&one) > worth(out))
				*out = one;
		}
		text += n + (text[n] == '\n');
	}
	return worth(out) > 0;
}
