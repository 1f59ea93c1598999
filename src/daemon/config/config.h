/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: INI, every key checked, errors as "FILE:LINE: reason". Its keys are in
 * config_keys.c. */
#pragma once
#include "base/err.h"
#include "bridge/bridge.h"
#include "plugin/plugin.h"
#include <stdio.h>

#define CONFIG_POLICY_MAX 256
#define CONFIG_PARAMS     32
#define CONFIG_FOLDER_MAX 256
#define CONFIG_NAME_MAX   64
#define CONFIG_MANAGE_MAX 512
#define CONFIG_TABLES_MAX 512
#define CONFIG_RULES      64
#define CONFIG_WAYS       64
#define CONFIG_AUTO       UINT64_MAX /* of a time: it is not set */

struct config_param {
	char policy[32];
	char setting[96]; /* "key=value" */
};

/* Of a user; 0: any number. */
struct config_limits {
	struct fm_bridge_limits of;
	uint32_t clients;
	uint32_t line; /* of the range given last; 0: none */
};

/* [limits user NAME], [limits group NAME]. */
struct config_rule {
	bool group;
	uint32_t id;  /* uid or gid */
	uint64_t set; /* config_limits_bit() of the keys that it sets; the others are as in [limits]
		       */
	char name[CONFIG_NAME_MAX];
	struct config_limits limits;
};

/* [admission]: of real-time tasks. */
struct config_admission {
	uint32_t method;                  /* enum fm_rta_method, one of gcaps */
	uint64_t epsilon_ns;              /* 0: as the platform file says, if there is one */
	char platform[CONFIG_FOLDER_MAX]; /* "": none */
	uint64_t measured_ns;             /* epsilon of that file */
	uint32_t overrun;                 /* enum fm_overrun, where a task does not say */
	uint32_t tasks;                   /* per user; 0: any number */
};

/* [memory]: of devices. */
struct config_memory {
	char manage[CONFIG_MANAGE_MAX]; /* "off", "all", or patterns of groups between spaces */
	char harmless_tables[CONFIG_TABLES_MAX]; /* identifiers of the driver's tables */
	uint64_t device_limit; /* a device counts as having no more; 0: all that it has */
	uint32_t policy;       /* fm_mem_policies[] */
	bool overtime;
	bool duplex;      /* memory comes in while other memory goes out */
	bool templates;   /* of kernels are used, where there are files */
	bool early_start; /* managed programs go on before all of their memory is there */
	bool cgroup;      /* dmem.max of cgroups holds */
	char cgroup_limits[CONFIG_MANAGE_MAX]; /* PATTERN:SIZE between spaces */
	uint32_t keep_percent;
	/* Memory of the host for what is not on devices: in all, 0: as there is room; and
	 * NODE:SIZE between spaces. */
	uint64_t host;
	char host_nodes[CONFIG_MANAGE_MAX];
};

/* [metrics]: for the program that hands the numbers on (fermata-exporter). */
struct config_metrics {
	char listen[CONFIG_FOLDER_MAX]; /* fm_parse_listen(); "": in the daemon's directory */
	char group[CONFIG_NAME_MAX];    /* its members may see all */
	uint32_t limit;                 /* groups, processes and tasks told apart */
	bool loopback_groups;           /* also on TCP, where the peer's user is not known */
};

/* `fair` and `bandwidth` divide a device first among groups, or among users. */
enum config_fair_by { FAIR_BY_GROUP, FAIR_BY_USER };

struct config {
	char policy[CONFIG_POLICY_MAX];           /* "NAME [key=value...]" */
	struct config_param param[CONFIG_PARAMS]; /* of [policy NAME] sections */
	unsigned params;
	char folder[CONFIG_FOLDER_MAX]; /* of policy plug-ins; "": no folder */
	uint64_t budget_ns;             /* time for an answer of a plug-in */
	uint32_t fair_by;               /* enum config_fair_by */
	uint64_t linger_ns;             /* CONFIG_AUTO: learnt */
	uint64_t busy_poll_ns; /* after an event, how long to look for the next without sleeping */
	uint32_t idle_exit_s;  /* 0: stay */
	bool realtime;
	struct fm_stop_rule way[CONFIG_WAYS + 1]; /* [device NAME] as they stand, then [device] */
	unsigned ways;                            /* without the last */
	struct config_limits limits;
	uint64_t limits_set;                   /* of [limits]; bits as in a rule */
	struct config_rule rule[CONFIG_RULES]; /* as they stand in the file */
	unsigned rules;
	char access_group[CONFIG_NAME_MAX];
	struct config_memory memory;
	bool strict; /* clients cannot write their gates */
	struct config_admission admission;
	struct config_metrics metrics;
};

/* Is the memory of programs of that group managed, though they do not ask for it? */
bool config_manages(const struct config_memory *m, const char *group);

/* What the cgroup of that path may have by [memory] cgroup_limits: the least that matches;
 * UINT64_MAX: any amount. */
uint64_t config_cgroup_limit(const struct config_memory *m, const char *path);

/* The nodes of [memory] host_nodes. Returns how many. */
unsigned config_host_nodes(
	const struct config_memory *m, struct fm_bridge_node node[FM_BRIDGE_NODES]);

void config_defaults(struct config *c);

/* Starts from the defaults. On error *c is untouched. */
int config_read(struct config *c, FILE *f, const char *file, struct fm_err *err);

/* A missing file is the defaults, unless `required`. */
int config_load(struct config *c, const char *file, bool required, struct fm_err *err);

/* Prints the configuration as a file, with every key. */
void config_print(const struct config *c, FILE *f);

/* The limits of a user with these groups. Each key is from the rule for the user, else from the
 * first rule in the file for one of the groups that sets it, else from [limits]. A user who is not
 * `ordinary` is not bound by ends of ranges that have their default value (config_ceilings). */
void config_limits_for(const struct config *c, uid_t uid, const gid_t *gids, size_t n,
	bool ordinary, struct config_limits *out);

/* Ends of ranges that are by default narrower than the hint's own range. They are for ordinary
 * users of a machine that several users share. */
struct config_ceiling {
	enum fm_hint hint;
	bool upper;
	int64_t value, whole;
};
#define CONFIG_CEILINGS 4
extern const struct config_ceiling config_ceilings[CONFIG_CEILINGS];

/* Makes the core follow "NAME [key=value...]", with the parameters of its [policy NAME] section
 * first. The policy is a built-in one, or else a plug-in from the folder. *plugin is the core's
 * present plug-in, or NULL; afterwards it is the new one. On error the old policy stays. */
int config_set_policy(const struct config *c, struct fm_sched *s, struct fm_plugin **plugin,
	const char *policy, uint64_t now, struct fm_err *err);

/* The same checks without a core: is the policy sound? */
int config_try_policy(const struct config *c, const char *policy, struct fm_err *err);
