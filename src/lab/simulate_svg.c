/* SPDX-License-Identifier: Apache-2.0 */
/* A time line. Each group on each device has a lane: full while the device works for it, pale while
 * it waits behind a closed gate, with a mark where a job arrives. */
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "simulate.h"
#include <errno.h>
#include <string.h>

#define LEFT   190
#define TOP    44
#define PLOT_W 1000
#define LANE   18
#define BAR    12
#define GRID   10

#define WANTS                                                                                   \
	(FM_SIM_BIT(FM_SIM_ARRIVES) | FM_SIM_BIT(FM_SIM_RUNS) | FM_SIM_BIT(FM_SIM_STOPS) |      \
		FM_SIM_BIT(FM_SIM_READY) | FM_SIM_BIT(FM_SIM_IDLE) | FM_SIM_BIT(FM_SIM_OPENS) | \
		FM_SIM_BIT(FM_SIM_CLOSES))

struct lane {
	uint32_t group, instance, device;
	bool on, ready, open;
	uint64_t since; /* of its present state */
};

struct picture {
	const struct fm_sim_plan *plan;
	uint64_t from, until;
	FILE *f;
	struct lane lane[SIMULATE_LANES];
	unsigned lanes, bars;
	bool cut; /* not all of it is there */
};

/* In hundredths of a pixel, with integers only, so that the bytes are the same everywhere. */
static void put_x(FILE *f, const struct picture *p, uint64_t t)
{
	uint64_t x =
		(uint64_t)((unsigned __int128)(t - p->from) * PLOT_W * 100 / (p->until - p->from));

	fprintf(f, "%llu.%02llu", (unsigned long long)(LEFT + x / 100),
		(unsigned long long)(x % 100));
}

static void put_width(FILE *f, const struct picture *p, uint64_t ns)
{
	uint64_t x = (uint64_t)((unsigned __int128)ns * PLOT_W * 100 / (p->until - p->from));

	x = FM_MAX(x, UINT64_C(20));
	fprintf(f, "%llu.%02llu", (unsigned long long)(x / 100), (unsigned long long)(x % 100));
}

static void close_bar(struct picture *p, struct lane *l, uint64_t now)
{
	static const char *const colour[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
		"#56b4e9", "#000000", "#999999"};
	bool waits = l->ready && !l->open;
	uint64_t begin = FM_MAX(l->since, p->from);
	const char *fill = colour[l->group % FM_ARRAY_LEN(colour)];

	l->since = now;
	if ((!l->on && !waits) || now <= begin)
		return;
	if (p->bars++ >= SIMULATE_BARS) {
		p->cut = true;
		return;
	}
	fputs("<rect x=\"", p->f);
	put_x(p->f, p, begin);
	fprintf(p->f, "\" y=\"%d\" width=\"", (int)(TOP + LANE * (l - p->lane)));
	put_width(p->f, p, now - begin);
	fprintf(p->f, "\" height=\"%d\" fill=\"%s\"%s/>\n", BAR, fill,
		l->on ? "" : " fill-opacity=\"0.2\"");
}

static struct lane *lane_of(struct picture *p, const struct fm_sim_event *e)
{
	struct lane *l = p->lane;

	for (; l < p->lane + p->lanes; l++)
		if (l->group == e->group && l->instance == e->instance && l->device == e->device)
			return l;
	if (p->lanes == SIMULATE_LANES) {
		p->cut = true;
		return NULL;
	}
	p->lanes++;
	*l = (struct lane){.group = e->group, .instance = e->instance, .device = e->device};
	return l;
}

/* In the lane of the group's first device. */
static void arrival(struct picture *p, const struct fm_sim_event *e)
{
	struct lane *l = p->lane;

	while (l < p->lane + p->lanes && (l->group != e->group || l->instance != e->instance))
		l++;
	if (l == p->lane + p->lanes || e->at < p->from || p->bars++ >= SIMULATE_BARS)
		return;
	fputs("<path d=\"M", p->f);
	put_x(p->f, p, e->at);
	fprintf(p->f, " %dv%d\" stroke=\"#333\"/>\n", (int)(TOP + LANE * (l - p->lane)) - 3, 4);
}

static void on_event(void *ctx, const struct fm_sim_event *e)
{
	struct picture *p = ctx;
	struct lane *l;

	if (e->what == FM_SIM_ARRIVES) {
		arrival(p, e);
		return;
	}
	if (e->device == FM_SIM_NO_DEVICE)
		return;
	l = lane_of(p, e);
	if (!l)
		return;
	close_bar(p, l, e->at);
	switch (e->what) {
	case FM_SIM_RUNS:
	case FM_SIM_STOPS:
		l->on = e->what == FM_SIM_RUNS;
		break;
	case FM_SIM_READY:
	case FM_SIM_IDLE:
		l->ready = e->what == FM_SIM_READY;
		break;
	case FM_SIM_OPENS:
	case FM_SIM_CLOSES:
		l->open = e->what == FM_SIM_OPENS;
		break;
	default:
		break;
	}
}

static void label(struct picture *p, const struct lane *l)
{
	const struct fm_sim_group *g = &p->plan->group[l->group];
	uint32_t which, section = fm_sim_device_at(p->plan, l->device, &which);
	int y = (int)(TOP + LANE * (l - p->lane)) + BAR - 2;

	fprintf(p->f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s", LEFT - 8, y, g->name);
	if (g->count > 1)
		fprintf(p->f, ".%u", l->instance);
	fprintf(p->f, " %s", p->plan->device[section].name);
	if (p->plan->device[section].count > 1)
		fprintf(p->f, ".%u", which);
	fputs("</text>\n", p->f);
}

static void frame(struct picture *p, int height)
{
	char buf[TABLE_TIME];

	for (unsigned k = 0; k <= GRID; k++) {
		uint64_t t = p->from + (p->until - p->from) / GRID * k;

		fputs("<path d=\"M", p->f);
		put_x(p->f, p, t);
		fprintf(p->f, " %dV%d\" stroke=\"#ddd\"/>\n<text text-anchor=\"middle\" x=\"",
			TOP - 8, height - 10);
		put_x(p->f, p, t);
		fprintf(p->f, "\" y=\"%d\">%s</text>\n", TOP - 14, table_ms((double)t / 1e6, buf));
	}
}

static int draw(struct picture *p, FILE *out, struct fm_err *err)
{
	const struct fm_sim_watch watch = {on_event, p, WANTS};
	struct fm_sim_plan part = *p->plan;
	struct fm_sim_result r;
	FM_CLEAN_FREE char *bars = NULL;
	size_t size = 0;
	int height, rc = fm_sim_result_init(&r, &part);

	part.duration = p->until;
	part.warmup = 0;
	p->f = rc ? NULL : open_memstream(&bars, &size);
	if (!p->f) {
		fm_sim_result_free(&r);
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	rc = fm_sim_machine(&part, 0, &watch, NULL, &r, err);
	for (unsigned i = 0; i < p->lanes; i++)
		close_bar(p, &p->lane[i], p->until);
	if (fclose(p->f) && !rc)
		rc = fm_err_set(err, -ENOMEM, "out of memory");
	fm_sim_result_free(&r);
	if (rc)
		return rc;
	height = TOP + LANE * (int)p->lanes + 20;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\">\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
		"<text x=\"8\" y=\"16\">%s%s</text>\n",
		LEFT + PLOT_W + 40, height, LEFT + PLOT_W + 40, height, LEFT + PLOT_W + 40, height,
		p->plan->policy->name, p->cut ? " (too much for one picture: not all of it)" : "");
	p->f = out;
	frame(p, height);
	fputs(bars, out);
	for (unsigned i = 0; i < p->lanes; i++)
		label(p, &p->lane[i]);
	fputs("</svg>\n", out);
	return 0;
}

int simulate_svg(const struct fm_sim_plan *p, uint64_t from, uint64_t until, struct outfile *to,
	struct fm_err *err)
{
	struct picture pic = {.plan = p, .from = from, .until = until};
	int rc = draw(&pic, to->f, err);

	return rc ? rc : outfile_close(to, true, err);
}
