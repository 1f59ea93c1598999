/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include <stdio.h>

__thread unsigned fm_hip_inside;

#define OWNER struct fm_hip_driver
static const struct fm_own own[] = {FM_HIP_DRIVER(FM_OWN)};
const struct fm_owns fm_hip_owns = {own, FM_ARRAY_LEN(own), FM_HIP_NEEDED(FM_OWN_COUNT)};

struct fm_hip_visit fm_hip_enter(const struct fm_hip_driver *hip, int device)
{
	struct fm_hip_visit v = {.device = device, .mode = FM_HIP_CAPTURE_RELAXED};

	fm_hip_inside++;
	v.error = hip->peek_error();
	if (!hip->capture_mode || hip->capture_mode(&v.mode))
		v.mode = -1;
	if (!hip->get_device(&v.device) && v.device != device)
		hip->set_device(device);
	return v;
}

void fm_hip_leave(const struct fm_hip_driver *hip, int device, struct fm_hip_visit v)
{
	if (v.device != device)
		hip->set_device(v.device);
	if (v.mode >= 0)
		hip->capture_mode(&v.mode);
	/* Ours may replace an error that the program has not asked for yet, but must not be the
	 * only one. */
	if (!v.error && hip->peek_error())
		hip->take_error();
	fm_hip_inside--;
}

void fm_hip_device_key(const struct fm_hip_driver *hip, int device, char *key, size_t size)
{
	char name[48] = "device", place[32] = "";

	hip->device_name(name, sizeof(name), device);
	name[sizeof(name) - 1] = '\0';
	for (char *p = name; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '_';
	if (hip->device_place && !hip->device_place(place, sizeof(place) - 1, device) && *place)
		snprintf(key, size, "%s %s", name, place);
	else
		snprintf(key, size, "%s#%d", name, device);
}

void fm_hip_proof(const struct fm_hip_driver *hip, int device, char *text, size_t size)
{
	int version = 0, n;

	if (hip->runtime_version)
		hip->runtime_version(&version);
	n = snprintf(text, size, "hip %d ", version);
	fm_hip_device_key(hip, device, text + n, size - (size_t)n);
}
