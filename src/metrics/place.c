/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process is: its container and pod; and the numbers of GPUs. */
#include "base/cleanup.h"
#include "base/user.h"
#include "base/util.h"
#include "metrics.h"
#include <string.h>

#define CGROUP_MAX (64 * 1024)
#define POD_LINKS  16384

const struct fm_sources fm_sources_default = {
	.proc = "/proc",
	.gpus = "/proc/driver/nvidia/gpus",
	.pods = "/var/log/containers",
	.passwd = FM_PASSWD,
};

struct fm_places {
	const struct fm_sources *from;
	bool read;
	char **link; /* POD_NAMESPACE_CONTAINER-ID.log */
	size_t n;
};

struct fm_places *fm_places_new(const struct fm_sources *from)
{
	struct fm_places *p = calloc(1, sizeof(*p));

	if (p)
		p->from = from;
	return p;
}

void fm_places_free(struct fm_places *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		free(p->link[i]);
	free(p->link);
	free(p);
}

static void read_links(struct fm_places *p)
{
	FM_CLEAN_DIR DIR *dir = opendir(p->from->pods);
	const struct dirent *e;

	p->read = true;
	while (dir && p->n < POD_LINKS && (e = readdir(dir))) {
		char **more = realloc(p->link, (p->n + 1) * sizeof(*more));

		if (!more)
			return;
		p->link = more;
		p->link[p->n] = strdup(e->d_name);
		if (!p->link[p->n])
			return;
		p->n++;
	}
}

static const char *find_link(struct fm_places *p, const char *id)
{
	char suffix[80];
	size_t len = (size_t)snprintf(suffix, sizeof(suffix), "-%s.log", id);

	if (!p->read)
		read_links(p);
	for (size_t i = 0; i < p->n; i++) {
		size_t n = strlen(p->link[i]);

		if (n > len && !strcmp(p->link[i] + n - len, suffix))
			return p->link[i];
	}
	return NULL;
}

/* Neither of the three names can hold an underscore. */
static bool split_link(const char *link, struct fm_place *out)
{
	const char *space = strchr(link, '_');
	const char *container = space ? strchr(space + 1, '_') : NULL;
	int n;

	if (!container)
		return false;
	n = (int)(strlen(container + 1) - strlen(".log") - 65); /* without "-ID.log" */
	if (n <= 0)
		return false;
	snprintf(out->pod, sizeof(out->pod), "%.*s", (int)(space - link), link);
	snprintf(out->space, sizeof(out->space), "%.*s", (int)(container - space - 1), space + 1);
	snprintf(out->container, sizeof(out->container), "%.*s", n, container + 1);
	return true;
}

/* The process may be gone, or another with its number there: then that one's place is told, once.
 */
void fm_place_of(struct fm_places *p, pid_t pid, struct fm_place *out)
{
	FM_CLEAN_FREE char *text = NULL;
	FM_CLEAN_FILE FILE *f = NULL;
	struct fm_container c;
	const char *link;
	char path[256];
	size_t n;

	*out = (struct fm_place){.container = ""};
	snprintf(path, sizeof(path), "%s/%d/cgroup", p->from->proc, (int)pid);
	f = fopen(path, "re");
	text = f ? malloc(CGROUP_MAX) : NULL;
	if (!text)
		return;
	n = fread(text, 1, CGROUP_MAX - 1, f);
	text[n] = '\0';
	if (!fm_cgroup_parse(text, &c))
		return;
	link = c.pod_uid[0] && c.id[0] ? find_link(p, c.id) : NULL;
	if (link && split_link(link, out))
		return;
	snprintf(out->container, sizeof(out->container), "%.12s", c.id);
	snprintf(out->pod, sizeof(out->pod), "%s", c.pod_uid);
}

const char *fm_device_uuid(const char *device)
{
	const char *last = strrchr(device, ' ');

	last = last ? last + 1 : device;
	if (strlen(last) != 40 || (strncmp(last, "GPU-", 4) && strncmp(last, "MIG-", 4)))
		return NULL;
	return last;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void read_uuid(struct fm_gpus *g, const char *dir, const char *name)
{
	FM_CLEAN_FILE FILE *f = NULL;
	char path[512], line[256], *uuid = g->uuid[g->n++];

	uuid[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s/information", dir, name);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "GPU UUID: %47s", uuid) == 1)
			return;
}

/* The folders are named by PCI address; nvidia-smi and DCGM number GPUs in that order. */
static void read_gpus(struct fm_gpus *g, const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, no_dots, by_name);

	g->read = true;
	g->n = 0;
	for (int i = 0; i < n; i++) {
		if (g->n < FM_ARRAY_LEN(g->uuid))
			read_uuid(g, dir, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

int fm_gpu_index(struct fm_gpus *g, const struct fm_sources *from, const char *uuid)
{
	if (!g->read)
		read_gpus(g, from->gpus);
	for (unsigned i = 0; i < g->n; i++)
		if (!strcmp(g->uuid[i], uuid))
			return (int)i;
	return -1;
}
