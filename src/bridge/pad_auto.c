/* SPDX-License-Identifier: Apache-2.0 */
#include "pad_auto.h"
#include "base/util.h"

#define MILLION UINT64_C(1000000)
/* A number that was too much is not tried again before so many jobs, and each time twice as long
 * after. */
#define FORBIDDEN_LEAST 64u
#define FORBIDDEN_MOST  4096u
/* So many jobs are looked at before the number changes; more where jobs differ anyway. */
#define SAMPLES_LEAST 2u
#define SAMPLES_MOST  16u

void pad_auto_init(struct pad_auto *a, unsigned percent)
{
	*a = (struct pad_auto){
		.target = percent * 10000, .jobs = PAD_EVERY, .forbidden = FORBIDDEN_LEAST / 2};
}

bool pad_auto_alone(const struct pad_auto *a)
{
	return !a->k || a->jobs + 1 >= PAD_EVERY;
}

static uint64_t *plain_of(struct pad_auto *a, uint64_t kind, bool add)
{
	for (unsigned i = 0; i < PAD_KINDS; i++)
		if (a->plain[i].ns && a->plain[i].kind == kind)
			return &a->plain[i].ns;
	if (!add)
		return NULL;
	a->next = (a->next + 1) % PAD_KINDS;
	a->plain[a->next].kind = kind;
	a->plain[a->next].ns = 0;
	return &a->plain[a->next].ns;
}

static uint64_t compared(uint64_t ns, uint64_t plain)
{
	return FM_MIN(ns / plain, 1000u) * MILLION + ns % plain * MILLION / plain;
}

static void ran_alone(struct pad_auto *a, uint64_t kind, uint64_t ns)
{
	uint64_t *plain = plain_of(a, kind, true), x;

	a->jobs = 0;
	if (!*plain) {
		*plain = ns;
		return;
	}
	x = compared(ns, *plain);
	x = x > MILLION ? x - MILLION : MILLION - x;
	a->noise = (3 * a->noise + FM_MIN(x, MILLION)) / 4;
	*plain = (3 * *plain + ns) / 4;
}

static bool change(struct pad_auto *a, unsigned k)
{
	a->sum = a->n = 0;
	if (a->k == k)
		return false;
	a->k = k;
	return true;
}

static bool grows(struct pad_auto *a)
{
	unsigned k = a->k + PAD_STEP;

	if (k > PAD_MOST || (a->ceiling && k >= a->ceiling))
		return change(a, a->k);
	return change(a, k);
}

static bool shrinks(struct pad_auto *a)
{
	a->ceiling = a->k;
	a->forbidden = FM_MIN(2 * a->forbidden, FORBIDDEN_MOST);
	a->patience = a->forbidden;
	return change(a, a->k - PAD_STEP);
}

/* The error of a mean falls with the root of their number: it is to be a quarter of the target. */
static unsigned samples(const struct pad_auto *a)
{
	uint64_t r = a->noise * 4 / (a->target / 2);

	return (unsigned)FM_MIN(FM_MAX(r * r, (uint64_t)SAMPLES_LEAST), (uint64_t)SAMPLES_MOST);
}

bool pad_auto_job(struct pad_auto *a, uint64_t kind, uint64_t ns, bool padded)
{
	uint64_t *plain, mean;

	if (!ns)
		return false;
	if (a->patience && !--a->patience)
		a->ceiling = 0;
	if (!padded || !a->k) {
		ran_alone(a, kind, ns);
		return !a->k && !a->ceiling && change(a, PAD_STEP);
	}
	a->jobs++;
	plain = plain_of(a, kind, false);
	if (!plain)
		return false;
	a->padded_ns = ns;
	a->alone_ns = *plain;
	a->sum += compared(ns, *plain);
	if (++a->n < samples(a))
		return false;
	mean = a->sum / a->n;
	if (mean > MILLION + a->target)
		return shrinks(a);
	return mean < MILLION + a->target / 2 ? grows(a) : change(a, a->k);
}
