/* SPDX-License-Identifier: Apache-2.0 */
/* For probes: a call that fails ends the program, with its place. */
#pragma once
#include <cstdio>
#include <unistd.h>

#define CHECK(x)                                                                         \
	do {                                                                             \
		int rc_ = (int)(x);                                                      \
		if (rc_) {                                                               \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, rc_); \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)
