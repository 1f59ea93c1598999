/* SPDX-License-Identifier: Apache-2.0 */
/* Any request line, by an operator and by a stranger: one reply each, an object that says "ok" or
 * why not, and a stranger never changes what is not his. */
#include "base/clock.h"
#include "daemon/admission/admission.h"
#include "daemon/listing.h"
#include "daemon/trace.h"
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWNER 1000

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void on_wake(void *ctx)
{
}

static void populate(struct daemon *d, struct fm_board *board)
{
	union fm_msg m = {.queue = {.slot = 3, .levels = 6, .device = "sim:0"}};
	struct fm_bridge_client *c;

	must(!fm_bridge_attach(d->bridge, &c, board, OWNER, 42, "job", "fuzz", NULL, fm_now()));
	fm_msg_head(&m, FM_MSG_QUEUE);
	must(!fm_bridge_message(d->bridge, c, &m, fm_now(), NULL));
}

/* As it is sent, whole. */
static json_t *whole(struct daemon *d, const struct peer *p, json_t *head, struct listing *list)
{
	struct text text = {0};
	json_t *reply;

	if (!list)
		return head;
	listing_begin(list, head, &text);
	while (listing_step(list, d, p, &text))
		;
	must(!text.failed);
	reply = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
	text_free(&text);
	listing_free(list);
	return reply;
}

static json_t *answer(struct daemon *d, const struct peer *p, const char *line, size_t size)
{
	struct listing *list;
	json_t *head = command_run(d, p, line, size, &list);

	return whole(d, p, head, list);
}

static void ask(struct daemon *d, const struct peer *p, const char *line, size_t size)
{
	json_t *reply = answer(d, p, line, size), *error;
	char *text;

	must(json_is_object(reply));
	if (!json_is_true(json_object_get(reply, "ok"))) {
		error = json_object_get(reply, "error");
		must(json_is_string(json_object_get(error, "code")));
		must(json_string_length(json_object_get(error, "text")) > 0);
		must(json_string_length(json_object_get(error, "hint")) > 0);
	}
	text = json_dumps(reply, JSON_COMPACT);
	must(text && !strchr(text, '\n'));
	free(text);
	json_decref(reply);
}

static void unchanged(struct daemon *d)
{
	struct fm_bridge_group *g = fm_bridge_group_next(d->bridge, NULL);
	struct fm_bridge_group_info i;

	fm_bridge_group_info(g, &i);
	must(!i.suspended && !i.hints->value[FM_HINT_PRIORITY] && !i.hints->value[FM_HINT_WEIGHT]);
	must(!strcmp(fm_sched_policy_ops(fm_bridge_sched(d->bridge))->name, "fixed-priority"));
	must(!fm_bridge_group_watched(g));
}

/* Whatever was asked, the bounds of those admitted are not beyond their deadlines. */
static void kept(struct daemon *d)
{
	static const struct peer root = {.steers = true};
	static const char tasks[] = "{\"cmd\":\"tasks\"}";
	json_t *reply = answer(d, &root, tasks, strlen(tasks)), *t;
	size_t i;

	json_array_foreach (json_object_get(reply, "tasks"), i, t) {
		must(json_integer_value(json_object_get(t, "slack_ns")) >= 0);
		must(json_integer_value(json_object_get(t, "bound_ns")) >= 0);
	}
	must(json_array_size(json_object_get(reply, "tasks")) == admission_count(d));
	json_decref(reply);
}

/* Half of the inputs are set into the place of a value, so that the fuzzer need not find JSON
 * first. */
static size_t compose(char *line, size_t cap, const uint8_t *data, size_t size)
{
	static const char *const frames[] = {
		"{\"cmd\":\"hint\",\"target\":\"42\",\"hints\":{\"priority\":%.*s}}",
		"{\"cmd\":\"hint\",\"target\":\"42\",\"hints\":{\"weight\":\"%.*s\"}}",
		"{\"cmd\":\"hint\",\"target\":\"42\",\"hints\":{%.*s}}",
		"{\"cmd\":\"allowed\",\"hints\":{\"deadline\":\"%.*s\"}}",
		"{\"cmd\":\"suspend\",\"target\":\"%.*s\"}",
		"{\"cmd\":\"why\",\"target\":\"%.*s\"}",
		"{\"cmd\":\"policy\",\"name\":\"fair\",\"params\":[\"slice=%.*s\"]}",
		"{\"cmd\":\"policy\",\"name\":\"%.*s\"}",
		"{\"cmd\":\"%.*s\"}",
		"{\"cmd\":\"admit\",\"epsilon_ns\":1000,\"tasks\":[{\"name\":\"a\",%.*s}]}",
		"{\"cmd\":\"admit\",\"epsilon_ns\":1000,\"tasks\":[{\"name\":\"a\",\"period_ns\":"
		"1000000,"
		"\"segments\":[{%.*s}]}]}",
		"{\"cmd\":\"admit\",\"epsilon_ns\":1000,\"gpu_priority\":true,\"tasks\":[%.*s]}",
		"{\"cmd\":\"unadmit\",\"task\":\"%.*s\"}",
		"{\"cmd\":\"metrics\",\"part\":\"%.*s\"}",
		"{\"cmd\":\"metrics\",\"part\":\"tasks\",\"after\":%.*s}",
	};
	size_t n = sizeof(frames) / sizeof(frames[0]);
	int len;

	if (size && data[0] < 2 * n && data[0] & 1) {
		len = snprintf(
			line, cap, frames[data[0] / 2], (int)size - 1, (const char *)data + 1);
		return (size_t)len < cap ? (size_t)len : cap - 1;
	}
	size = size < cap ? size : cap;
	memcpy(line, data, size);
	return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char line[4096], request[256];
	static const struct fm_bridge_host host = {.wake = on_wake};
	static const struct config_limits none;
	const struct peer stranger = {.uid = 2000, .pid = getpid(), .limits = &none};
	const struct peer root = {.steers = true, .pid = getpid(), .limits = &none};
	static const char first[] = "{\"cmd\":\"admit\",\"epsilon_ns\":5000,\"for\":%d,\"tasks\":"
				    "[{\"name\":\"t\",\"group\":\"g\",\"period_ns\":1000000,"
				    "\"segments\":[{\"gpu_ns\":100000}]}]}";
	struct daemon d = {.log = {.level = -1}};
	struct fm_board *board;

	size = compose(line, sizeof(line), data, size);
	config_defaults(&d.config);
	must(!fm_board_create(&board, NULL));
	must(!fm_bridge_new(&d.bridge, &host));
	must(sd_event_new(&d.event) >= 0);
	fm_list_init(&d.sessions);
	quota_init(&d.quota, geteuid(), &quota_default_limits);
	must(!admission_new(&d));
	must(trace_new(&d) >= 0);
	admission_configure(&d);
	populate(&d, board);
	ask(&d, &stranger, line, size);
	unchanged(&d);
	kept(&d);
	snprintf(request, sizeof(request), first, (int)getpid());
	ask(&d, &root, request, strlen(request));
	ask(&d, &root, line, size);
	kept(&d);
	admission_run(&d, fm_now());
	fm_bridge_free(d.bridge);
	admission_free(&d);
	trace_free(&d);
	quota_free(&d.quota);
	sd_event_source_disable_unref(d.idle);
	sd_event_unref(d.event);
	fm_board_unmap(board);
	return 0;
}
