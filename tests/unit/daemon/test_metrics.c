/* SPDX-License-Identifier: Apache-2.0 */
/* What Prometheus is told: escaped labels, where processes are, who sees what, and how much. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hist.h"
#include "base/listen.h"
#include "base/util.h"
#include "metrics/metrics.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define ID   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2  "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD  "12345678-9abc-def0-1234-56789abcdef0"
#define POD_ "12345678_9abc_def0_1234_56789abcdef0"
#define HASH "0123456789abcdef0123456789abcdef"

static void cgroups_of_containers(void **state)
{
	static const struct {
		const char *text, *id, *pod;
	} paths[] = {
		{"0::/user.slice/user-1000.slice/session-1.scope\n", "", ""},
		{"0::/system.slice/docker-" ID ".scope\n", ID, ""},
		{"0::/docker/" ID, ID, ""},
		{"0::/docker/" ID "/init.scope\n", ID, ""},
		{"0::/machine.slice/libpod-" ID ".scope/container\n", ID, ""},
		{"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
		 ".scope/container\n",
			ID, ""},
		{"0::/machine.slice/libpod-conmon-" ID ".scope\n", "", ""},
		{"0::/system.slice/nerdctl-" ID ".scope\n", ID, ""},
		{"0::/default/" ID "\n", ID, ""},
		{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_
		 ".slice/cri-containerd-" ID ".scope\n",
			ID, POD},
		{"0::/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID ".scope\n", ID, POD},
		{"0::/kubepods.slice/kubepods-pod" POD_ ".slice/crio-conmon-" ID ".scope\n", "",
			POD},
		{"0::/kubepods/besteffort/pod" POD "/" ID "\n", ID, POD},
		{"0::/kubepods/burstable/pod" HASH "/" ID "\n", ID, HASH},
		{"0::/system.slice/kubepods-burstable-pod" POD_ ".slice:cri-containerd:" ID "\n",
			ID, POD},
		/* A node that is a container itself (kind): the pod's container counts. */
		{"0::/docker/" ID2 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" POD_
		 ".slice/cri-containerd-" ID ".scope\n",
			ID, POD},
		/* Docker in a container: what the machine knows is the outer one. */
		{"0::/docker/" ID "/docker/" ID2 "\n", ID, ""},
		/* Version 1, in several lines. */
		{"12:pids:/user.slice\n3:cpu,cpuacct:/docker/" ID
		 "\n1:name=systemd:/kubepods/pod" POD "/" ID2 "\n",
			ID2, POD},
		/* Nearly. */
		{"0::/kubepods/pod" POD "x/" ID "0\n", "", ""},
		{"0::/pod" POD "/x\n", "", ""},
		{"0::/docker/ABCDEF6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
			"", ""},
		{"0::/xdocker-" ID ".scope\n", "", ""},
		{"0::/kubepods/nopod" POD "/" ID "\n", ID, ""},
		{"/docker/" ID "\n", "", ""},
		{"0:/docker/" ID "\n", "", ""},
		{"", "", ""},
		{"\n\n::\n:::::\n", "", ""},
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(paths); i++) {
		struct fm_container c;
		bool found = fm_cgroup_parse(paths[i].text, &c);

		if (strcmp(c.id, paths[i].id) || strcmp(c.pod_uid, paths[i].pod))
			fail_msg("%s: '%s' '%s'", paths[i].text, c.id, c.pod_uid);
		assert_int_equal(found, *paths[i].id || *paths[i].pod);
	}
}

static void check_label(const char *value, const char *expected)
{
	FM_CLEAN_FREE char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	fm_label(f, "l", value);
	fclose(f);
	assert_string_equal(text, expected);
}

static void labels_are_escaped(void **state)
{
	check_label("", "");
	check_label("plain", "l=\"plain\"");
	check_label("a\"b", "l=\"a\\\"b\"");
	check_label("a\\", "l=\"a\\\\\"");
	check_label("a\nb", "l=\"a\\nb\"");
	check_label("\"} 1\nfermata_up 0 #", "l=\"\\\"} 1\\nfermata_up 0 #\"");
	check_label("a\r\tb\x7f", "l=\"a??b?\"");
	check_label("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xb5",
		"l=\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xb5\"");
	/* No UTF-8: alone, cut, overlong, a surrogate, too large. */
	check_label("\xff", "l=\"?\"");
	check_label("\xe2\x82", "l=\"??\"");
	check_label("\xc0\x80", "l=\"??\"");
	check_label("\xe0\x80\x80", "l=\"???\"");
	check_label("\xed\xa0\x80", "l=\"???\"");
	check_label("\xf4\x90\x80\x80", "l=\"????\"");
}

/* A place with files, where tests stand in for /proc and others. */
struct root {
	char dir[64], proc[80], gpus[80], pods[80], passwd[80];
	struct fm_sources from;
};

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_in(const struct root *r, const char *dir, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", r->dir, dir);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s", r->dir, dir, name);
	put(path, text);
}

static void root_make(struct root *r)
{
	strcpy(r->dir, "/tmp/fermata-metrics-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->proc, sizeof(r->proc), "%s/proc", r->dir);
	snprintf(r->gpus, sizeof(r->gpus), "%s/gpus", r->dir);
	snprintf(r->pods, sizeof(r->pods), "%s/pods", r->dir);
	snprintf(r->passwd, sizeof(r->passwd), "%s/passwd", r->dir);
	assert_int_equal(mkdir(r->proc, 0700) | mkdir(r->gpus, 0700) | mkdir(r->pods, 0700), 0);
	put(r->passwd, "root:x:0:0::/:/bin/sh\nanna:x:7:7::/:/bin/sh\n");
	r->from = (struct fm_sources){
		.proc = r->proc, .gpus = r->gpus, .pods = r->pods, .passwd = r->passwd};
}

static void root_remove(struct root *r)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", r->dir);
	assert_int_equal(system(command), 0);
}

static void check_place(
	struct fm_places *p, pid_t pid, const char *container, const char *pod, const char *space)
{
	struct fm_place at;

	fm_place_of(p, pid, &at);
	assert_string_equal(at.container, container);
	assert_string_equal(at.pod, pod);
	assert_string_equal(at.space, space);
}

static void places_of_processes(void **state)
{
	struct fm_places *p;
	struct root r;

	root_make(&r);
	put_in(&r, "proc/11", "cgroup", "0::/user.slice\n");
	put_in(&r, "proc/12", "cgroup", "0::/docker/" ID "\n");
	put_in(&r, "proc/13", "cgroup", "0::/kubepods/pod" POD "/" ID2 "\n");
	put_in(&r, "proc/14", "cgroup", "0::/kubepods/pod" POD "/" ID "\n");
	put_in(&r, "pods", "web-7_shop_nginx-" ID2 ".log", "");
	put_in(&r, "pods", "-" ID ".log", "");
	put_in(&r, "pods", "a_b", "");
	p = fm_places_new(&r.from);
	check_place(p, 10, "", "", ""); /* gone */
	check_place(p, 11, "", "", "");
	check_place(p, 12, "0123456789ab", "", "");
	check_place(p, 13, "nginx", "web-7", "shop");
	check_place(p, 14, "0123456789ab", POD, "");
	fm_places_free(p);
	root_remove(&r);
}

#define GPU(n) "GPU-0000000" #n "-0000-0000-0000-000000000000"

static void gpus_are_numbered(void **state)
{
	struct fm_gpus g = {0};
	struct root r;

	root_make(&r);
	put_in(&r, "gpus/0000:81:00.0", "information",
		"Model: \t\t NVIDIA H200\nGPU UUID: \t " GPU(8) "\nVideo BIOS: \t x\n");
	put_in(&r, "gpus/0000:19:00.0", "information", "IRQ: 1\nGPU UUID: \t " GPU(1) "\n");
	put_in(&r, "gpus/0000:3b:00.0", "information", "Model: another\n");
	assert_int_equal(fm_gpu_index(&g, &r.from, GPU(1)), 0);
	assert_int_equal(fm_gpu_index(&g, &r.from, GPU(8)), 2);
	assert_int_equal(fm_gpu_index(&g, &r.from, GPU(5)), -1);
	root_remove(&r);
	assert_string_equal(fm_device_uuid(GPU(1)), GPU(1));
	assert_string_equal(fm_device_uuid("NVIDIA H200 " GPU(8)), GPU(8));
	assert_string_equal(fm_device_uuid("MIG-00000000-0000-0000-0000-000000000000"),
		"MIG-00000000-0000-0000-0000-000000000000");
	assert_null(fm_device_uuid("GPU-1"));
	assert_null(fm_device_uuid("pthread-x #0"));
	assert_null(fm_device_uuid(""));
}

static json_t *parse(const char *text)
{
	json_error_t e;
	json_t *o = json_loads(text, 0, &e);

	if (!o)
		fail_msg("%s in %s", e.text, text);
	return o;
}

/* Of anna's group "job" in a container, root's "other", one whose name is there twice, a task. */
static void snapshot_make(struct fm_snapshot *s, int limit)
{
	char daemon[512];

	snprintf(daemon, sizeof(daemon),
		"{\"version\":\"1\",\"clients\":2,\"policy\":\"fair\",\"cpu_ns\":1500000000,"
		"\"bounds_ns\":[1000,1000000000],\"react\":{\"count\":3,\"sum_ns\":2000001000,"
		"\"upto\":[1,2]},\"settings\":{\"limit\":%d}}",
		limit);
	s->daemon = parse(daemon);
	s->devices = parse("[{\"device\":\"NVIDIA H200 " GPU(8) "\"},{\"device\":\"sim\\\"0\"}]");
	s->groups = parse(
		"[{\"name\":\"job\",\"uid\":7,\"share\":25,\"devices\":[{\"device\":\"NVIDIA "
		"H200 " GPU(
			8) "\",\"state\":\"ready\",\"device_ns\":1000000001,\"waited_why\":{"
			   "\"policy\":5}}],"
			   "\"processes\":[{\"pid\":12,\"program\":\"train\",\"api\":\"cuda\","
			   "\"governed\":9}],\"more_processes\":0},"
			   "{\"name\":\"other\",\"uid\":0,\"devices\":[{\"device\":\"sim\\\"0\","
			   "\"state\":"
			   "\"idle\",\"device_ns\":0}],\"processes\":[{\"pid\":12},{\"pid\":11,"
			   "\"program\":"
			   "\"x\",\"api\":\"sim\",\"governed\":0}],\"more_processes\":3},"
			   "{\"name\":\"job\",\"uid\":7,\"devices\":[{\"device\":\"sim\\\"0\","
			   "\"state\":"
			   "\"idle\",\"device_ns\":0}],\"processes\":[],\"more_processes\":0}]");
	s->tasks = parse("[{\"id\":3,\"name\":\"cam\",\"group\":\"job\",\"uid\":7,\"pid\":12,"
			 "\"violations\":2,\"deadline_ns\":-20000000}]");
}

static char *written(const struct fm_snapshot *s, const struct root *r, struct fm_view view)
{
	struct fm_rows *rows = fm_rows_new(s, &r->from);
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(rows);
	fm_rows_write(rows, &view, f);
	fclose(f);
	fm_rows_free(rows);
	return text;
}

static void world_make(struct root *r, struct fm_snapshot *s, int limit)
{
	root_make(r);
	put_in(r, "gpus/0000:19:00.0", "information", "GPU UUID: \t " GPU(1) "\n");
	put_in(r, "gpus/0000:81:00.0", "information", "GPU UUID: \t " GPU(8) "\n");
	put_in(r, "proc/11", "cgroup", "0::/user.slice\n");
	put_in(r, "proc/12", "cgroup", "0::/docker/" ID "\n");
	snapshot_make(s, limit);
}

static void world_end(struct root *r, struct fm_snapshot *s)
{
	fm_snapshot_free(s);
	root_remove(r);
}

#define JOB                                                                                     \
	"{group=\"job\",user=\"anna\",device=\"NVIDIA H200 " GPU(8) "\",gpu=\"1\",UUID=\"" GPU( \
		8) "\",pid=\"12\",container=\"0123456789ab\"}"

static void has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("'%s' is not in\n%s", line, text);
}

static void has_not(const char *text, const char *line)
{
	if (strstr(text, line))
		fail_msg("'%s' is in\n%s", line, text);
}

/* It is a client of the daemon for each API that it uses, and one process. */
static void process_with_several_clients(void **state)
{
	FM_CLEAN_FREE char *text = NULL;
	struct fm_snapshot s = {0};
	struct root r;

	world_make(&r, &s, 10);
	json_decref(s.groups);
	s.groups = parse(
		"[{\"name\":\"both\",\"uid\":7,\"clients\":3,\"devices\":[{\"device\":\"a\"}],"
		"\"processes\":[{\"pid\":12,\"program\":\"x\",\"api\":\"cuda\",\"governed\":1},"
		"{\"pid\":12,\"program\":\"x\",\"api\":\"lib\",\"governed\":2},"
		"{\"pid\":12,\"program\":\"x\",\"api\":\"lib\",\"governed\":3}]},"
		"{\"name\":\"unknown\",\"uid\":7,\"clients\":2,\"devices\":[{\"device\":\"a\"}],"
		"\"processes\":[{\"pid\":0},{\"pid\":0}]}]");
	text = written(&s, &r, (struct fm_view){.all = true});
	has(text, "fermata_group_processes{group=\"both\",user=\"anna\",pid=\"12\",container="
		  "\"0123456789ab\"} 1\n");
	has(text, "fermata_group_processes{group=\"unknown\",user=\"anna\"} 2\n");
	has(text, "api=\"cuda\",pid=\"12\",container=\"0123456789ab\"} 1\n");
	has(text, "api=\"lib\",pid=\"12\",container=\"0123456789ab\"} 2\n");
	has_not(text, "api=\"lib\",pid=\"12\",container=\"0123456789ab\"} 3\n");
	has(text, "fermata_left_out{of=\"processes\"} 1\n");
	world_end(&r, &s);
}

static void numbers_are_written(void **state)
{
	FM_CLEAN_FREE char *text = NULL;
	struct fm_snapshot s = {0};
	struct root r;

	world_make(&r, &s, 10);
	text = written(&s, &r, (struct fm_view){.all = true});
	has(text, "# TYPE fermata_up gauge\nfermata_up 1\n");
	has(text, "fermata_policy_info{policy=\"fair\"} 1\n");
	has(text, "fermata_cpu_seconds_total 1.500000000\n");
	has(text, "# TYPE fermata_reaction_seconds histogram\n"
		  "fermata_reaction_seconds_bucket{le=\"1e-06\"} 1\n"
		  "fermata_reaction_seconds_bucket{le=\"1\"} 2\n"
		  "fermata_reaction_seconds_bucket{le=\"+Inf\"} 3\n"
		  "fermata_reaction_seconds_sum 2.000001000\n"
		  "fermata_reaction_seconds_count 3\n");
	has(text, "\nfermata_group_device_seconds_total" JOB " 1.000000001\n");
	has(text, ",container=\"0123456789ab\",cause=\"policy\"} 0.000000005\n");
	has(text, ",container=\"0123456789ab\",state=\"ready\"} 1\n");
	has(text, ",container=\"0123456789ab\",state=\"idle\"} 0\n");
	has(text, "fermata_group_share_ratio{group=\"job\",user=\"anna\",pid=\"12\",container="
		  "\"0123456789ab\"} 0.250000000\n");
	has(text, "fermata_device_groups{device=\"sim\\\"0\",state=\"idle\"} 2\n");
	/* Several processes, in several places. */
	has(text, "fermata_group_device_seconds_total{group=\"other\",user=\"root\",device="
		  "\"sim\\\"0\"} 0\n");
	has(text, "fermata_process_governed_calls_total{group=\"job\",user=\"anna\",program="
		  "\"train\",api=\"cuda\",pid=\"12\",container=\"0123456789ab\"} 9\n");
	has(text, "fermata_task_deadline_misses_total{id=\"3\",task=\"cam\",group=\"job\",user="
		  "\"anna\",pid=\"12\",container=\"0123456789ab\"} 2\n");
	has(text, "} -0.020000000\n");
	/* The one of the same name, and those beyond a page. */
	has(text, "fermata_left_out{of=\"groups\"} 1\nfermata_left_out{of=\"processes\"} 3\n");
	/* Not told by this daemon: no series, and no title. */
	has_not(text, "fermata_gate_stores_total");
	has_not(text, "fermata_group_preemptions_total");
	world_end(&r, &s);
}

static void everybody_sees_his_own(void **state)
{
	char *anna, *stranger, *nobody, *root;
	struct fm_snapshot s = {0};
	struct root r;

	world_make(&r, &s, 10);
	anna = written(&s, &r, (struct fm_view){.uid = 7});
	stranger = written(&s, &r, (struct fm_view){.uid = 8});
	root = written(&s, &r, (struct fm_view){.uid = 0}); /* here, a user like others */
	nobody = written(&s, &r, (struct fm_view){.nobody = true});
	has(anna, "group=\"job\"");
	has(anna, "task=\"cam\"");
	has_not(anna, "group=\"other\"");
	has(root, "group=\"other\"");
	has_not(root, "group=\"job\"");
	assert_string_equal(stranger, nobody);
	has_not(nobody, "group=\"");
	has_not(nobody, "anna");
	has_not(nobody, "pid=");
	has(nobody, "fermata_device_groups{device=");
	free(anna);
	free(stranger);
	free(nobody);
	free(root);
	world_end(&r, &s);
}

static void rows_are_limited(void **state)
{
	FM_CLEAN_FREE char *text = NULL;
	struct fm_snapshot s = {0};
	struct root r;

	world_make(&r, &s, 1);
	text = written(&s, &r, (struct fm_view){.all = true});
	has(text, "group=\"job\"");
	has_not(text, "group=\"other\"");
	has(text, "fermata_left_out{of=\"groups\"} 2\n");
	/* All count where devices are told of. */
	has(text, "fermata_device_groups{device=\"sim\\\"0\",state=\"idle\"} 2\n");
	world_end(&r, &s);
}

static void without_a_daemon(void **state)
{
	FM_CLEAN_FREE char *text = NULL;
	struct root r;

	root_make(&r);
	text = written(NULL, &r, (struct fm_view){.all = true});
	has(text, "\nfermata_up 0\n");
	assert_null(strstr(strstr(text, "fermata_up 0"), "# HELP"));
	root_remove(&r);
}

/* Whatever a daemon tells, however little of it makes sense. */
static void nonsense_is_survived(void **state)
{
	static const char *const odd[] = {"{}", "[]", "null", "[null]", "[[]]", "[{}]", "[7]",
		"[{\"name\":7,\"uid\":\"x\",\"devices\":{},\"processes\":[7,{\"program\":[]}]}]",
		"[{\"devices\":[{},7,{\"state\":\"\\u0000\"}],\"processes\":null}]",
		"{\"settings\":7,\"react\":{\"upto\":7},\"bounds_ns\":{},\"version\":{}}"};
	struct root r;

	root_make(&r);
	for (size_t i = 0; i < FM_ARRAY_LEN(odd); i++) {
		json_t *o = json_loads(odd[i], JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
		struct fm_snapshot s = {.daemon = json_incref(o),
			.devices = json_deep_copy(o),
			.groups = json_deep_copy(o),
			.tasks = json_deep_copy(o)};

		assert_non_null(o);
		free(written(&s, &r, (struct fm_view){.all = true}));
		fm_snapshot_free(&s);
		json_decref(o);
	}
	root_remove(&r);
}

static void places_to_listen(void **state)
{
	static const char *const bad[] = {"0.0.0.0:9", "localhost:9", "127.0.0.1",
		"127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:9x", "127.0.0.1:+9",
		"127.0.0.1: 9", "[::]:9", "::1:9", "[::1]", "9400", "metrics.sock", " /x",
		"192.168.1.1:9"};
	char path[120];
	struct fm_listen l;
	struct fm_err err;

	assert_int_equal(fm_parse_listen("", &l, NULL), 0);
	assert_true(!l.tcp && !l.path[0]);
	assert_int_equal(fm_parse_listen("/run/x", &l, NULL), 0);
	assert_true(!l.tcp && !strcmp(l.path, "/run/x"));
	assert_int_equal(fm_parse_listen("127.0.0.1:9400", &l, NULL), 0);
	assert_true(l.tcp && !l.v6 && l.port == 9400);
	assert_int_equal(fm_parse_listen("[::1]:65535", &l, NULL), 0);
	assert_true(l.tcp && l.v6 && l.port == 65535);
	for (size_t i = 0; i < FM_ARRAY_LEN(bad); i++) {
		err = (struct fm_err){0};
		if (!fm_parse_listen(bad[i], &l, &err) || !err.text[0] || !err.hint[0])
			fail_msg("'%s' is taken, or refused without a word", bad[i]);
	}
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[107] = '\0';
	assert_int_equal(fm_parse_listen(path, &l, NULL), 0);
	path[107] = 'x';
	path[108] = '\0';
	assert_int_equal(fm_parse_listen(path, &l, &err), -ENAMETOOLONG);
}

/* Against the samples themselves: each counts at the first bound that it is not above, or, within
 * the width of a bucket, the next. */
static void histograms_by_bounds(void **state)
{
	static struct fm_hist h;
	uint64_t upto[FM_HIST_BOUNDS], below[FM_HIST_BOUNDS] = {0}, near[FM_HIST_BOUNDS] = {0};
	uint64_t v = 1;

	fm_hist_reset(&h);
	fm_hist_upto(&h, upto);
	assert_int_equal(upto[FM_HIST_BOUNDS - 1], 0);
	for (int i = 0; i < 20000; i++) {
		v = v * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint64_t ns = (v >> 30) >> (v & 31);

		fm_hist_add(&h, ns);
		for (unsigned k = 0; k < FM_HIST_BOUNDS; k++) {
			below[k] += ns <= fm_hist_bounds[k];
			near[k] += ns <= fm_hist_bounds[k] - fm_hist_bounds[k] / 31;
		}
	}
	fm_hist_upto(&h, upto);
	for (unsigned k = 0; k < FM_HIST_BOUNDS; k++) {
		assert_true(upto[k] <= below[k] && upto[k] >= near[k]);
		assert_true(!k || upto[k] >= upto[k - 1]);
	}
	assert_true(upto[10] > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cgroups_of_containers),
		cmocka_unit_test(labels_are_escaped),
		cmocka_unit_test(places_of_processes),
		cmocka_unit_test(gpus_are_numbered),
		cmocka_unit_test(numbers_are_written),
		cmocka_unit_test(process_with_several_clients),
		cmocka_unit_test(everybody_sees_his_own),
		cmocka_unit_test(rows_are_limited),
		cmocka_unit_test(without_a_daemon),
		cmocka_unit_test(nonsense_is_survived),
		cmocka_unit_test(places_to_listen),
		cmocka_unit_test(histograms_by_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
