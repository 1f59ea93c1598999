/* SPDX-License-Identifier: Apache-2.0 */
/* Any platform file: refused with a reason and nothing changed, or times that an analysis takes. */
#include "platform/platform.h"
#include <errno.h>
#include <fermata/rta.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Static_assert(FM_PLATFORM_UNSET == FM_RTA_UNSET, "what is not measured is not given");

static void must(bool ok)
{
	if (!ok)
		abort();
}

static bool sound(int64_t ns, int64_t min)
{
	return ns == FM_PLATFORM_UNSET || (ns >= min && ns <= FM_PLATFORM_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_platform p, before;
	struct fm_rta_set set = {0};
	struct fm_err err = {0};
	fm_rta *rta;
	int rc;

	memset(&before, 0x5a, sizeof(before));
	p = before;
	rc = fm_platform_parse(&p, "fuzz", (const char *)data, size, &err);
	if (rc) {
		must(rc == -EINVAL && err.code == rc && !strncmp(err.text, "fuzz: ", 6) &&
			err.hint[0]);
		must(!memcmp(&p, &before, sizeof(p)));
		return 0;
	}
	must(sound(p.epsilon, 0) && sound(p.slice, 1) && sound(p.theta, 0));
	must(p.epsilon >= 0 || p.slice >= 0 || p.theta >= 0);
	set.epsilon = p.epsilon;
	set.slice = p.slice;
	set.theta = p.theta;
	must(!fm_rta_new(&rta, &set, NULL));
	fm_rta_free(rta);
	return 0;
}
