/* SPDX-License-Identifier: Apache-2.0 */
/* [memory] host_nodes: NODE:SIZE between spaces. */
#include "base/parse.h"
#include "base/size.h"
#include "config_keys.h"
#include <errno.h>
#include <string.h>

#define SPACES    " \t"
#define NODE_MOST 1023

static int read_node(char *word, struct fm_bridge_node *node, struct fm_err *err)
{
	char *colon = strchr(word, ':');
	int64_t number, bytes;

	if (!colon) {
		fm_err_set(err, -EINVAL, "'%.60s' has no size", word);
		return fm_err_hint(err, "write NODE:SIZE, as 0:64G");
	}
	*colon = '\0';
	if (fm_parse_int(word, 0, NODE_MOST, &number, NULL)) {
		fm_err_set(err, -EINVAL, "'%.60s' is no NUMA node", word);
		return fm_err_hint(err, "give numbers as `lscpu' has them, such as 0:64G 1:64G");
	}
	if (fm_parse_size(colon + 1, &bytes, err))
		return -EINVAL;
	if (bytes < 0 || bytes > FM_MEMORY_MAX) {
		fm_err_set(err, -ERANGE, "'%.40s' is beyond what there is", colon + 1);
		return fm_err_hint(err, "give at most 1P");
	}
	*node = (struct fm_bridge_node){(int)number, (uint64_t)bytes};
	return 0;
}

/* What was read before a word that is wrong stays. */
static int read_nodes(const char *value, struct fm_bridge_node node[FM_BRIDGE_NODES], unsigned *n,
	struct fm_err *err)
{
	char words[CONFIG_MANAGE_MAX], *save, *word;
	int rc = 0;

	*n = 0;
	snprintf(words, sizeof(words), "%s", value); /* its length is checked already */
	for (word = strtok_r(words, SPACES, &save); word && !rc;
		word = strtok_r(NULL, SPACES, &save)) {
		if (*n == FM_BRIDGE_NODES) {
			fm_err_set(err, -E2BIG, "more than %d nodes", FM_BRIDGE_NODES);
			return fm_err_hint(err, "leave out nodes that need no limit");
		}
		rc = read_node(word, &node[*n], err);
		for (unsigned i = 0; i < *n && !rc; i++)
			if (node[i].node == node[*n].node)
				rc = fm_err_set(
					err, -EINVAL, "node %d is given twice", node[i].node);
		*n += !rc;
	}
	return rc;
}

int config_nodes_check(const char *value, struct fm_err *err)
{
	struct fm_bridge_node node[FM_BRIDGE_NODES];
	unsigned n;

	return read_nodes(value, node, &n, err);
}

unsigned config_host_nodes(
	const struct config_memory *m, struct fm_bridge_node node[FM_BRIDGE_NODES])
{
	unsigned n;

	read_nodes(m->host_nodes, node, &n, NULL);
	return n;
}
