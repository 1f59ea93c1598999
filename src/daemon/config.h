/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: INI, every key checked, errors as "FILE:LINE: reason". */
#pragma once
#include "base/err.h"
#include "bridge/bridge.h"
#include "plugin/plugin.h"
#include <stdio.h>

#define CONFIG_POLICY_MAX 256
#define CONFIG_PARAMS     32

struct config_param {
	char policy[32];
	char setting[96]; /* "key=value" */
};

struct config {
	char policy[CONFIG_POLICY_MAX];           /* "NAME [key=value...]" */
	struct config_param param[CONFIG_PARAMS]; /* of [policy NAME] sections */
	unsigned params;
	char folder[256];   /* of policies by users; "": none */
	uint64_t budget_ns; /* for an answer of theirs */
	uint64_t linger_ns;
	uint64_t busy_poll_ns; /* after an event, how long to look for the next without sleeping */
	uint32_t idle_exit_s;  /* 0: stay */
	bool realtime;
	struct fm_bridge_limits limits;
	uint32_t clients; /* per user; 0: any number */
	char access_group[64];
};

void config_defaults(struct config *c);

/* Starts from the defaults. On error *c is untouched. */
int config_read(struct config *c, FILE *f, const char *file, struct fm_err *err);

/* A missing file is the defaults, unless `required`. */
int config_load(struct config *c, const char *file, bool required, struct fm_err *err);

/* Make the core follow "NAME [key=value...]", with the parameters of its [policy NAME] section
 * first: one that is built in, else from the folder. *plugin is the core's present plug-in, or
 * NULL, and afterwards the new one. On error the old policy stays. */
int config_set_policy(const struct config *c, struct fm_sched *s, struct fm_plugin **plugin,
	const char *policy, uint64_t now, struct fm_err *err);

/* The same without a core to follow it: is it sound? */
int config_try_policy(const struct config *c, const char *policy, struct fm_err *err);
