/* SPDX-License-Identifier: Apache-2.0 */
/* The image of trial.cu, made by make-images: what `fermata doctor' tries to stop in its middle. */
#pragma once
#include <stddef.h>

extern const unsigned char probe_trial_image[];
extern const size_t probe_trial_size;
