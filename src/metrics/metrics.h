/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's numbers as Prometheus reads them (text format 0.0.4): asked for over the control
 * socket in pages (snapshot.c), given labels (rows.c, place.c), written by one table of names
 * (families.c). Used by fermata-exporter and `fermata metrics`.
 *
 * Owns: a snapshot of the daemon's numbers, while it is made into text.
 * Locks: none.
 * Threads: one: the exporter's loop, or the command.
 */
#pragma once
#include "base/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Where to look up what the daemon does not know; fm_sources_default(), or stand-ins in tests. */
struct fm_sources {
	const char *proc;   /* /proc: cgroups of processes */
	const char *gpus;   /* what NVIDIA's driver tells: the numbers of GPUs */
	const char *pods;   /* the kubelet's links to logs: names of pods and containers */
	const char *passwd; /* names of users */
};
extern const struct fm_sources fm_sources_default;

/* What a cgroup's path says: identifiers, "" where there is none. */
struct fm_container {
	char id[65];      /* of the container, 64 hex digits */
	char pod_uid[40]; /* of the Kubernetes pod */
};

/* The text of /proc/PID/cgroup, whoever wrote it. Is the process in a container? Docker, Podman,
 * containerd, CRI-O, also below Kubernetes; the outermost one, but in a pod the pod's. */
bool fm_cgroup_parse(const char *text, struct fm_container *out);

/* Labels. What Kubernetes' links do not name is identified: the pod by its UID, the container by
 * the first twelve digits, as `docker ps` shows it. */
struct fm_place {
	char container[256], pod[256], space[256];
};

struct fm_places; /* names of pods, read once */
struct fm_places *fm_places_new(const struct fm_sources *from);
void fm_places_free(struct fm_places *p);
void fm_place_of(struct fm_places *p, pid_t pid, struct fm_place *out);

/* GPUs by UUID; "": unknown. Only read when there is something to look up. */
struct fm_gpus {
	unsigned n;
	bool read;
	char uuid[64][48];
};
/* "GPU-..." or "MIG-..." at the end of a device's name, or NULL. */
const char *fm_device_uuid(const char *device);
/* Its number as DCGM and nvidia-smi count, or -1. */
int fm_gpu_index(struct fm_gpus *g, const struct fm_sources *from, const char *uuid);

/* NAME="VALUE", escaped; nothing when the value is empty. */
void fm_label(FILE *f, const char *name, const char *value);

struct fm_snapshot {
	json_t *daemon, *devices, *groups, *tasks;
	uint64_t took_ns;
	size_t more_groups; /* that are not in it; then devices count the states of all groups */
};

/* Ask the daemon at the other end of this connection, for at most so long. On error *s is empty.
 */
int fm_snapshot_take(struct fm_snapshot *s, int fd, unsigned wait_ms, struct fm_err *err);
/* A connection to the control socket in that directory. */
int fm_snapshot_connect(const char *dir, unsigned wait_ms, int *fd, struct fm_err *err);
/* The part "daemon" alone, with the settings; the caller owns it. */
int fm_snapshot_daemon(int fd, unsigned wait_ms, json_t **out, struct fm_err *err);
void fm_snapshot_free(struct fm_snapshot *s);

/* Is there another page behind this reply, and behind which number? Never the same again, so that
 * after FM_PAGES_MAX at the latest somebody has stopped asking. */
#define FM_PAGES_MAX 100000
bool fm_page_next(const json_t *reply, json_int_t *after);

/* The rows of a snapshot, which they outlive, with their labels. NULL snapshot: the daemon does not
 * answer. */
struct fm_rows;
struct fm_rows *fm_rows_new(
	const struct fm_snapshot *s, const struct fm_sources *from); /* NULL: out of memory */
void fm_rows_free(struct fm_rows *r);

/* Whose groups, processes and tasks are shown. */
struct fm_view {
	bool all;
	bool nobody; /* no rows of users at all */
	uid_t uid;
};
void fm_rows_write(const struct fm_rows *r, const struct fm_view *view, FILE *f);

/* The table of names, as docs/metrics.md has it. */
void fm_metrics_list(FILE *f);
