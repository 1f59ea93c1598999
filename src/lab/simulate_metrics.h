/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a simulation as Prometheus would read it from a daemon: the same families, from the
 * same table (metrics/families.c). The numbers are for the whole run, as the daemon's are since its
 * start. Only those of jobs leave out the warm-up.
 */
#pragma once
#include "cmd/outfile.h"
#include "simulate_names.h"

#define SIMULATE_METRICS_WANTS \
	(FM_SIM_BIT(FM_SIM_STAYS) | FM_SIM_BIT(FM_SIM_AGED) | FM_SIM_BIT(FM_SIM_OVER))
/* Groups and devices beyond this number have no series. */
#define SIMULATE_METRICS_ROWS 1000

struct simulate_metrics;
int simulate_metrics_open(struct simulate_metrics **out, const struct simulate_names *names,
	struct outfile *to, struct fm_err *err);
/* Called in the order of the parts, one at a time. */
void simulate_metrics_note(struct simulate_metrics *m, const struct fm_sim_event *e);
/* Safe for NULL. result: the simulation's result; NULL: nothing is to be written. */
int simulate_metrics_close(
	struct simulate_metrics *m, const struct fm_sim_result *result, struct fm_err *err);
