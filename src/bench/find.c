/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"
#include "driver.h"
#include "load/load.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct load_ops *bench_load_find(const char *device, unsigned *index)
{
	size_t len = strcspn(device, ":");
	char *end = "";

	*index = device[len] ? (unsigned)strtoul(device + len + 1, &end, 10) : 0;
	if (device[len] && (!device[len + 1] || *end || *index > 63))
		return NULL;
	for (const struct fm_api *const *a = fm_apis; *a; a++)
		if ((*a)->load && strlen((*a)->name) == len && !strncmp((*a)->name, device, len))
			return (*a)->load;
	return NULL;
}

const char *bench_load_names(char *text, size_t size)
{
	const char *between = "";
	size_t len = 0;

	*text = '\0';
	for (const struct fm_api *const *a = fm_apis; *a; a++) {
		if (!(*a)->load || len >= size)
			continue;
		len += (size_t)snprintf(text + len, size - len, "%s%s", between, (*a)->name);
		between = ", ";
	}
	return text;
}
