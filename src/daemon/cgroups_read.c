/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of cgroups. Their names are chosen by whoever makes them. */
#include "cgroups.h"
#include <errno.h>
#include <string.h>

#define V2      "0::/"
#define DELETED " (deleted)"

bool cgroups_find(struct cgroups_line *at, const char *text, size_t n, char *line, size_t size)
{
	for (size_t i = 0; i < n; i++) {
		if (at->other && text[i] != '\n')
			continue;
		if (text[i] != '\n' && at->n < size - 2)
			line[at->n++] = text[i];
		at->other = strncmp(line, V2, FM_MIN(at->n, strlen(V2))) != 0;
		if (text[i] != '\n')
			continue;
		if (at->n >= strlen(V2) && !at->other) {
			strcpy(line + at->n, "\n");
			return true;
		}
		*at = (struct cgroups_line){0};
	}
	return false;
}

/* Of a path that does not fit, as many cgroups from the root on as do. */
static size_t cut(const char *path, size_t n, size_t most)
{
	if (n <= most)
		return n;
	for (n = most; n > 1 && path[n] != '/';)
		n--;
	return n;
}

int cgroups_path(const char *text, char *path, size_t size)
{
	size_t n;

	while (strncmp(text, V2, strlen(V2)) != 0) {
		text = strchr(text, '\n');
		if (!text)
			return -ENOENT;
		text++;
	}
	text += strlen(V2) - 1;
	n = strcspn(text, "\n");
	if (!text[n])
		return -EBADMSG;
	if (n > strlen(DELETED) && !memcmp(text + n - strlen(DELETED), DELETED, strlen(DELETED)))
		n -= strlen(DELETED);
	n = cut(text, n, size - 1);
	memcpy(path, text, n);
	path[n] = '\0';
	if (!strncmp(path, "/..", 3) && (!path[3] || path[3] == '/'))
		return -EXDEV;
	return strstr(path, "/../") || strstr(path, "//") ? -EBADMSG : 0;
}

/* All of [text, end). False: it is neither a number nor "max". */
static bool read_most(const char *text, const char *end, uint64_t *most)
{
	*most = UINT64_MAX;
	if (end - text == 3 && !memcmp(text, "max", 3))
		return true;
	*most = 0;
	for (; text < end; text++) {
		unsigned digit = (unsigned)(*text - '0');

		if (digit > 9 || *most > (UINT64_MAX - digit) / 10)
			return false;
		*most = *most * 10 + digit;
	}
	return text[-1] != ' ';
}

/* The device of a region of its own memory: "drm/BUS/vramN". False: it is another region. */
static bool read_region(const char *text, size_t n, char bus[FM_BUS_MAX])
{
	const char *at = n > 4 && !memcmp(text, "drm/", 4) ? text + 4 : NULL;
	const char *slash = at ? memchr(at, '/', n - 4) : NULL;

	if (!slash || slash - at >= FM_BUS_MAX || text + n - slash < 5 ||
		memcmp(slash, "/vram", 5) != 0)
		return false;
	memset(bus, 0, FM_BUS_MAX);
	memcpy(bus, at, (size_t)(slash - at));
	return fm_mem_is_bus(bus);
}

static int add(struct fm_bridge_dmem *dmem, unsigned n, unsigned most, const char *bus, uint64_t is)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(dmem[i].bus, bus)) {
			dmem[i].most =
				is > UINT64_MAX - dmem[i].most ? UINT64_MAX : dmem[i].most + is;
			return (int)n;
		}
	if (n == most)
		return -E2BIG;
	memset(&dmem[n], 0, sizeof(dmem[n]));
	memcpy(dmem[n].bus, bus, FM_BUS_MAX);
	dmem[n].most = is;
	return (int)n + 1;
}

static int drop_unlimited(struct fm_bridge_dmem *dmem, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++)
		if (dmem[i].most != UINT64_MAX)
			dmem[kept++] = dmem[i];
	return (int)kept;
}

/* One line: the bus of its region, or "", and what it says. Returns the next line; NULL: it is
 * none.
 */
static const char *read_one(const char *text, char bus[FM_BUS_MAX], uint64_t *is)
{
	const char *end = strchr(text, '\n'), *space = strchr(text, ' ');

	if (!end || !space || space == text || space + 1 >= end || !read_most(space + 1, end, is))
		return NULL;
	if (!read_region(text, (size_t)(space - text), bus))
		*bus = '\0';
	return end + 1;
}

/* Has the device another region without a limit? */
static bool is_unlimited(const char *text, const char *of)
{
	char bus[FM_BUS_MAX];
	uint64_t is;

	while (*text && (text = read_one(text, bus, &is)))
		if (is == UINT64_MAX && !strcmp(bus, of))
			return true;
	return false;
}

int cgroups_dmem(const char *text, struct fm_bridge_dmem *dmem, unsigned most)
{
	const char *all = text;
	char bus[FM_BUS_MAX];
	uint64_t is;
	int n = 0;

	while (*text && n >= 0) {
		text = read_one(text, bus, &is);
		if (!text)
			return -EBADMSG;
		if (*bus && is != UINT64_MAX && !is_unlimited(all, bus))
			n = add(dmem, (unsigned)n, most, bus, is);
	}
	return n < 0 ? n : drop_unlimited(dmem, (unsigned)n);
}
