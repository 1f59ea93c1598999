/* SPDX-License-Identifier: Apache-2.0 */
#include "groups.h"
#include "base/lockorder.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* Index 0 is the process's own. */
static struct {
	pthread_mutex_t lock;
	struct fm_client *client;
	char name[FM_BOARD_GROUPS][FM_NAME_MAX];
	uint64_t serial[FM_BOARD_GROUPS];
} groups = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(groups.lock, SHIM_GROUPS);

void fm_shim_groups_fork_child(void)
{
	groups.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Lock held. */
static void look_whose(struct fm_client *c)
{
	if (groups.client == c)
		return;
	memset(groups.name, 0, sizeof(groups.name));
	memset(groups.serial, 0, sizeof(groups.serial));
	groups.client = c;
}

/* Lock held. Its index, or a negative errno. */
static int find_or_add(struct fm_client *c, const char *name)
{
	int index;

	look_whose(c);
	for (index = 1; index < FM_BOARD_GROUPS; index++)
		if (!strcmp(groups.name[index], name))
			return index;
	index = fm_client_group_add(c, name);
	if (index > 0)
		strcpy(groups.name[index], name);
	return index;
}

int fm_shim_group(struct fm_client *c, const char *name)
{
	int index;

	if (!name)
		return 0;
	if (!*name)
		return -EINVAL;
	pthread_mutex_lock(&groups.lock);
	index = find_or_add(c, name);
	pthread_mutex_unlock(&groups.lock);
	return index;
}

bool fm_shim_group_news(struct fm_client *c, unsigned index, uint64_t serial)
{
	bool news;

	pthread_mutex_lock(&groups.lock);
	look_whose(c);
	news = serial > groups.serial[index];
	if (news)
		groups.serial[index] = serial;
	pthread_mutex_unlock(&groups.lock);
	return news;
}
