/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the daemon is busy with one page of its metrics, and with all of them, as an exporter
 * and as `fermata top` ask for them: the time in which it decides nothing. One line a number, with
 * its unit.
 *
 *   bench_core_metrics [--groups N] [--rounds R]
 *
 * N programs (1000), each a group with one queue on one device; R (50) scrapes.
 */
#include "base/clock.h"
#include "daemon/daemon.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_wake(void *ctx)
{
}

static void must(bool ok)
{
	if (ok)
		return;
	fprintf(stderr, "bench_core_metrics: cannot set up: %s\n", strerror(errno));
	exit(1);
}

static void add_program(struct daemon *d, unsigned i)
{
	union fm_msg m = {.queue = {.levels = 6, .device = "sim:0"}};
	struct fm_board *board;
	struct fm_bridge_client *c;

	must(!fm_board_create(&board, NULL));
	must(!fm_bridge_attach(
		d->bridge, &c, board, 0, (pid_t)(1000 + i), "program", "bench", NULL, fm_now()));
	fm_msg_init(&m, FM_MSG_QUEUE);
	must(!fm_bridge_message(d->bridge, c, &m, fm_now(), NULL));
	atomic_store(&board->slot[0].begun, 1);
	fm_bridge_bell(d->bridge, c, fm_now());
}

/* With all that a request costs: its text is read, the reply is made and written. */
static json_int_t page(struct daemon *d, const char *part, json_int_t after, struct fm_hist *times)
{
	static const struct peer root = {.steers = true};
	uint64_t start = fm_now();
	char request[128], *text;
	struct listing *list;
	json_int_t next;
	json_t *reply;

	snprintf(request, sizeof(request),
		"{\"cmd\":\"metrics\",\"part\":\"%s\",\"after\":%" JSON_INTEGER_FORMAT "}", part,
		after);
	reply = command_run(d, &root, request, strlen(request), &list);
	text = json_dumps(reply, JSON_COMPACT);
	must(text != NULL);
	next = json_integer_value(json_object_get(reply, "next"));
	free(text);
	json_decref(reply);
	fm_hist_add(times, fm_now() - start);
	return next;
}

static void print(const char *name, const struct fm_hist *h)
{
	printf("%s_p50 %.1f us\n", name, (double)fm_hist_quantile(h, 0.50) / FM_US);
	printf("%s_p99 %.1f us\n", name, (double)fm_hist_quantile(h, 0.99) / FM_US);
	printf("%s_max %.1f us\n", name, (double)h->max / FM_US);
}

static void all_pages(
	struct daemon *d, const char *part, struct fm_hist *pages, struct fm_hist *whole)
{
	uint64_t start = fm_now();
	json_int_t after = 0;

	do
		after = page(d, part, after, pages);
	while (after);
	fm_hist_add(whole, fm_now() - start);
}

static void measure(struct daemon *d, unsigned rounds)
{
	static struct fm_hist pages, rows, groups, looks, head;

	fm_hist_reset(&pages);
	fm_hist_reset(&rows);
	fm_hist_reset(&groups);
	fm_hist_reset(&looks);
	fm_hist_reset(&head);
	for (unsigned i = 0; i < rounds; i++) {
		page(d, "daemon", 0, &head);
		all_pages(d, "groups", &pages, &groups);
		all_pages(d, "rows", &rows, &looks);
	}
	print("metrics_daemon_page", &head);
	print("metrics_groups_page", &pages);
	print("metrics_groups_all", &groups);
	printf("metrics_groups_pages %.0f 1\n", (double)pages.count / rounds);
	print("metrics_rows_page", &rows);
	print("metrics_rows_all", &looks);
	printf("metrics_rows_pages %.0f 1\n", (double)rows.count / rounds);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"groups", 1, 0, 'g'}, {"rounds", 1, 0, 'r'}, {0}};
	static const struct fm_bridge_host host = {.wake = on_wake};
	static struct daemon d = {.log = {.level = -1}};
	unsigned groups = 1000, rounds = 50;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'g' && c != 'r')
			return 2;
		*(c == 'g' ? &groups : &rounds) = (unsigned)atoi(optarg);
	}
	config_defaults(&d.config);
	fm_list_init(&d.sessions);
	must(!fm_bridge_new(&d.bridge, &host));
	for (unsigned i = 0; i < groups; i++)
		add_program(&d, i);
	printf("metrics_groups %u 1\n", groups);
	measure(&d, rounds);
	return 0;
}
