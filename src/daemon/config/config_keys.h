/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the configuration file: one table for reading, for writing and for error messages. A
 * test checks that fermatad.conf(5) and contrib/fermatad.conf have the same keys. */
#pragma once
#include "config.h"
#include <stddef.h>

enum config_type {
	CONFIG_TEXT,
	CONFIG_FOLDER,
	CONFIG_LISTEN,     /* a text, as fm_parse_listen() takes it */
	CONFIG_MANAGE,     /* a text, as config_manage_check() takes it */
	CONFIG_TABLES,     /* a text, as config_tables_check() takes it */
	CONFIG_CGROUPS,    /* a text, as config_cgroups_check() takes it */
	CONFIG_NODES,      /* a text, as config_nodes_check() takes it */
	CONFIG_SAME,       /* a text, as config_same_check() takes it */
	CONFIG_COUNT,      /* uint32_t */
	CONFIG_SIZE,       /* uint64_t bytes, as fm_parse_size() takes them */
	CONFIG_US,         /* uint64_t nanoseconds, written as microseconds */
	CONFIG_US_OR_AUTO, /* the same, or `auto`: CONFIG_AUTO */
	CONFIG_PAD,        /* uint32_t: a value of the hint `pad`, less FM_PAD_DEVICE */
	CONFIG_BOOL,
	CONFIG_CHOICE, /* uint32_t: which of the words in `unit` */
	CONFIG_HINTS,  /* names of the hints that may be set */
	CONFIG_RANGE,  /* one end of a hint's range */
};

struct config_key {
	const char *section, *name;
	enum config_type type;
	size_t offset; /* in struct config; of [limits] in struct config_limits, of [device] in
			  struct fm_stop_rule */
	int64_t min, max;
	const char *unit; /* for people; texts have none */
	enum fm_hint hint;
	bool upper; /* of a range: which end */
};

extern const struct config_key config_keys[]; /* ends with a NULL name */

/* "" or what may have been meant, as a hint. */
const struct config_key *config_key_find(const char *section, const char *name, struct fm_err *err);

/* base: a struct config; for keys of [limits] and [device] what their offsets are in. */
int config_key_set(const struct config_key *k, void *base, const char *value, struct fm_err *err);
void config_key_copy(const struct config_key *k, void *to, const void *from);
void config_key_print(const struct config_key *k, const void *base, FILE *f);

/* config_manage.c */
int config_manage_check(const char *value, struct fm_err *err);
int config_cgroups_check(const char *value, struct fm_err *err);
int config_nodes_check(const char *value, struct fm_err *err);
int config_tables_check(const char *value, struct fm_err *err);

/* config_same.c. finish: the value has been set. */
int config_same_check(const char *value, struct fm_err *err);
int config_same_finish(const struct config *c, const struct fm_stop_rule *w, struct fm_err *err);

/* config_limits.c. Its bit among the keys of [limits]. */
uint64_t config_limits_bit(const struct config_key *k);
/* The rule of a section [limits user NAME] or [limits group NAME]; made if it is not there. `who`
 * is the text after "limits". */
int config_rule_get(
	struct config *c, const char *who, struct config_rule **out, struct fm_err *err);
/* The end of the range that a ceiling is about. */
int64_t *config_end(struct config_limits *l, const struct config_ceiling *e);
/* Called when all is read. A rule takes the keys that it does not set from [limits]. Checks that
 * ranges are sound; *line is the line of one that is not. */
int config_limits_finish(struct config *c, uint32_t *line, struct fm_err *err);
