/* SPDX-License-Identifier: Apache-2.0 */
/* The platform file, and the same for people. */
#include "base/cleanup.h"
#include "base/util.h"
#include "board/proto.h"
#include "calibrate.h"
#include "cmd/table.h"
#include "platform/platform.h"
#include "json/json.h"
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

static json_t *time_or_null(int64_t ns)
{
	return ns == FM_PLATFORM_UNSET ? json_null() : json_integer(ns);
}

json_t *calibration_samples(const struct samples *s)
{
	if (!s->n)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)s->n, "min_ns",
		(json_int_t)samples_quantile(s, 0), "p50_ns", (json_int_t)samples_quantile(s, 0.5),
		"p99_ns", (json_int_t)samples_quantile(s, 0.99), "max_ns",
		(json_int_t)samples_quantile(s, 1));
}

static json_t *of_daemon(const json_t *h)
{
	if (!json_is_object(h) || !cli_num(h, "count"))
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I}", "count", (json_int_t)cli_num(h, "count"), "p50_ns",
		(json_int_t)(cli_num(h, "p50") * 1e3), "p99_ns",
		(json_int_t)(cli_num(h, "p99") * 1e3), "max_ns",
		(json_int_t)(cli_num(h, "max") * 1e3));
}

static void cpu_name(char *name, size_t size)
{
	FM_CLEAN_FILE FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], *colon;

	snprintf(name, size, "-");
	while (f && fgets(line, sizeof(line), f)) {
		colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " "));
		return;
	}
}

json_t *calibration_machine(void)
{
	struct utsname u;
	char cpu[128];

	if (uname(&u))
		return json_null();
	cpu_name(cpu, sizeof(cpu));
	return json_pack("{s:o, s:o, s:I, s:o}", "host", fm_json_text(u.nodename), "cpu",
		fm_json_text(cpu), "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "kernel",
		fm_json_text(u.release));
}

void calibration_time(char at[32])
{
	time_t now = time(NULL);
	struct tm tm;

	strcpy(at, "-");
	if (gmtime_r(&now, &tm))
		strftime(at, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static json_t *of_measurement(const struct calibration *c)
{
	char at[32];

	calibration_time(at);
	return json_pack("{s:s, s:s, s:f, s:b, s:i, s:I, s:i}", "at", at, "fermata", FM_VERSION,
		"seconds", c->seconds, "realtime", c->realtime, "level", c->level, "command_ns",
		(json_int_t)c->command_ns, "margin_percent", CALIBRATE_MARGIN);
}

json_t *calibration_json(const struct calibration *c)
{
	json_t *samples = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "alone",
		calibration_samples(&c->alone), "begin", calibration_samples(&c->begin), "go_on",
		calibration_samples(&c->go_on), "react", of_daemon(c->react), "stop",
		of_daemon(c->stop), "turn", calibration_samples(&c->turn));
	json_t *device =
		json_pack("{s:s, s:o, s:o, s:o}", "kind", c->kind, "name", fm_json_text(c->name),
			"platform", fm_json_text(c->platform), "driver", fm_json_text(c->driver));

	json_object_set_new(samples, "slowdown",
		c->slowdown < CALIBRATE_NO_SLOWDOWN ? json_null() : json_real(c->slowdown));
	return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "fermata_platform",
		FM_PLATFORM_VERSION, "epsilon_ns", time_or_null(c->epsilon), "slice_ns",
		time_or_null(c->slice), "theta_ns", time_or_null(c->theta), "device", device,
		"machine", calibration_machine(), "measured", of_measurement(c), "samples",
		samples);
}

int calibration_write(const json_t *root, struct outfile *out, struct fm_err *err)
{
	bool good;

	errno = 0;
	good = !json_dumpf(root, out->f, JSON_INDENT(2)) && fputc('\n', out->f) != EOF;
	return outfile_close(out, good, err);
}

static void add_row(
	struct table *t, const char *what, double count, double p50, double p99, double max)
{
	char buf[TABLE_TIME];

	if (!count)
		return;
	table_add(t, "%s", what);
	table_add(t, "%.0f", count);
	table_add(t, "%s", table_ms(p50 / 1e6, buf));
	table_add(t, "%s", table_ms(p99 / 1e6, buf));
	table_add(t, "%s", table_ms(max / 1e6, buf));
}

void calibration_row(struct table *t, const char *what, const struct samples *s)
{
	add_row(t, what, (double)s->n, (double)samples_quantile(s, 0.5),
		(double)samples_quantile(s, 0.99), (double)samples_quantile(s, 1));
}

static void add_daemon(struct table *t, const char *what, const json_t *h)
{
	add_row(t, what, cli_num(h, "count"), cli_num(h, "p50") * 1e3, cli_num(h, "p99") * 1e3,
		cli_num(h, "max") * 1e3);
}

static void show_time(const char *name, int64_t ns, const char *meaning)
{
	if (ns == FM_PLATFORM_UNSET)
		printf("%-8s not measured\n", name);
	else
		printf("%-8s %g ms: %s\n", name, (double)ns / 1e6, meaning);
}

void calibration_show(const struct calibration *c)
{
	static const struct table_column columns[] = {
		{"WHAT", false, true},
		{"SAMPLES", true, false},
		{"P50", true, false},
		{"P99", true, false},
		{"MAX", true, false},
	};
	char name[128], platform[128];
	TABLE_CLEAN struct table t;

	snprintf(name, sizeof(name), "%s", c->name);
	snprintf(platform, sizeof(platform), "%s", c->platform);
	table_clean(name);
	table_clean(platform);
	printf("%s (%s), level %d, commands of %.0f us\n\n", name, platform, c->level,
		(double)c->command_ns / 1e3);
	table_init(&t, columns, FM_ARRAY_LEN(columns));
	calibration_row(&t, "a command alone, from its submission to its end", &c->alone);
	calibration_row(&t, "begin: additional delay if another program has the device", &c->begin);
	add_daemon(&t, "  thereof in the daemon: from its wake-up to the gates stored", c->react);
	add_daemon(&t, "  thereof in the other program: from its gate to its stall", c->stop);
	calibration_row(&t, "resume: from the end until the other program computes", &c->go_on);
	calibration_row(&t, "a turn of the other program, without Fermata", &c->turn);
	table_print(&t);
	putchar('\n');
	show_time("epsilon", c->epsilon, "twice the largest of begin and resume, and 20 %");
	show_time("slice", c->slice, "the longest turn, and 20 %");
	show_time("theta", c->theta, "twice the time that two programs lose per slice");
	printf("\n"
	       "The longest observed time is no proof of a bound. A program with longer single "
	       "commands\n"
	       "increases epsilon by the difference.\n");
}
