/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of a study: numbers, and a picture of them. */
#include "cmd/cli.h"
#include "study.h"
#include <string.h>
#include <unistd.h>

#define WIDTH  760
#define HEIGHT 420
#define LEFT   60
#define TOP    40
#define PLOT_W 460
#define PLOT_H 320

void study_csv(FILE *f, const struct study_result *r)
{
	const struct study *s = r->study;

	fprintf(f, "# fermata study %s --seed %llu --sets %u ", s->name,
		(unsigned long long)r->seed, r->sets);
	if (s->decision)
		fprintf(f, "--decision %lldns ", (long long)s->decision);
	fprintf(f, "(%s)\n", s->title);
	fprintf(f, "%s,sets", s->axis);
	for (unsigned c = 0; c < s->curves; c++)
		fprintf(f, ",%s", s->curve[c]);
	fputc('\n', f);
	for (unsigned p = 0; p < s->points; p++) {
		if (!r->done[p])
			continue;
		fprintf(f, "%.4g,%u", study_x(s, p), r->sets);
		for (unsigned c = 0; c < s->curves; c++)
			fprintf(f, ",%u", r->passed[p][c]);
		fputc('\n', f);
	}
}

static double ratio(const struct study_result *r, unsigned point, unsigned curve)
{
	return (double)r->passed[point][curve] / r->sets;
}

double study_area(const struct study_result *r, unsigned curve)
{
	double area = 0;

	for (unsigned p = 1; p < r->study->points; p++)
		area += (ratio(r, p - 1, curve) + ratio(r, p, curve)) / 2 * r->study->step;
	return area;
}

static double at_x(const struct study *s, unsigned point)
{
	return LEFT + (double)PLOT_W * point / (s->points - 1);
}

static double at_y(double value)
{
	return TOP + PLOT_H * (1 - value);
}

static void text(FILE *f, double x, double y, const char *anchor, const char *string)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	for (; *string; string++) {
		if (*string == '&')
			fputs("&amp;", f);
		else if (*string == '<')
			fputs("&lt;", f);
		else
			putc(*string, f);
	}
	fputs("</text>\n", f);
}

static void axes(FILE *f, const struct study *s)
{
	char label[32];
	unsigned every = s->points > 16 ? s->points / 8 : 1; /* labels that fit */

	for (int k = 0; k <= 5; k++) {
		double y = at_y(k / 5.0);

		fprintf(f, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, LEFT + PLOT_W);
		snprintf(label, sizeof(label), "%d%%", 20 * k);
		text(f, LEFT - 8, y + 4, "end", label);
	}
	for (unsigned p = 0; p < s->points; p++) {
		if ((p + 1) % every && every > 1)
			continue;
		snprintf(label, sizeof(label), "%.4g", study_x(s, p));
		text(f, at_x(s, p), TOP + PLOT_H + 18, "middle", label);
	}
	fprintf(f, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#333\"/>\n", LEFT, TOP,
		TOP + PLOT_H, LEFT + PLOT_W);
	text(f, LEFT + PLOT_W / 2.0, TOP + PLOT_H + 40, "middle", s->axis);
	text(f, LEFT, TOP - 16, "start", s->title);
}

/* Colours that most people can tell apart, and dashes for people who cannot. */
static void curve(FILE *f, const struct study_result *r, unsigned c)
{
	static const char *const colour[STUDY_CURVES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
		"#e69f00", "#56b4e9", "#000000", "#999999"};
	static const char *const dash[STUDY_CURVES] = {
		"none", "none", "8 4", "8 4", "2 3", "2 3", "8 3 2 3", "8 3 2 3"};
	double y = TOP + 14 + 22 * c;

	fprintf(f,
		"<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" stroke-dasharray=\"%s\" "
		"points=\"",
		colour[c], dash[c]);
	for (unsigned p = 0; p < r->study->points; p++)
		fprintf(f, "%s%.1f,%.1f", p ? " " : "", at_x(r->study, p), at_y(ratio(r, p, c)));
	fprintf(f,
		"\"/>\n<path d=\"M%d %.1fh28\" stroke-width=\"2\" stroke=\"%s\" "
		"stroke-dasharray=\"%s\"/>\n",
		LEFT + PLOT_W + 20, y, colour[c], dash[c]);
	text(f, LEFT + PLOT_W + 54, y + 4, "start", r->study->curve[c]);
}

static void study_svg(FILE *f, const struct study_result *r)
{
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT);
	fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", WIDTH, HEIGHT);
	axes(f, r->study);
	for (unsigned c = 0; c < r->study->curves; c++)
		curve(f, r, c);
	fputs("</svg>\n", f);
}

int study_open(struct study_files *f, const struct study *s, const char *dir, bool force,
	struct fm_err *err)
{
	int rc;

	snprintf(f->path[0], sizeof(f->path[0]), "%s/%s.csv", dir, s->name);
	snprintf(f->path[1], sizeof(f->path[1]), "%s/%s.svg", dir, s->name);
	rc = outfile_open(&f->csv, f->path[0], force, err);
	return rc ? rc : outfile_open(&f->svg, f->path[1], force, err);
}

void study_files_drop(struct study_files *f)
{
	outfile_drop(&f->csv);
	outfile_drop(&f->svg);
}

int study_write(
	const struct study_result *r, struct study_files *f, const char *dir, struct fm_err *err)
{
	char path[4096];
	int rc;

	study_svg(f->svg.f, r);
	rc = outfile_close(&f->svg, true, err);
	if (rc)
		return rc;
	study_csv(f->csv.f, r);
	rc = outfile_close(&f->csv, true, err);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%s/%s.part", dir, r->study->name);
	unlink(path);
	return 0;
}
