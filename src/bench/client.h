/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client: opens its model with the driver, does what its seat is told, and counts. Everything
 * from open to close happens in the thread that calls.
 */
#pragma once
#include "driver.h"
#include "page.h"

struct bench_client {
	struct bench_page *page;
	const struct bench_workload *workload;
	uint32_t task;
	const struct bench_driver *driver;
	const char *libfermata; /* may be NULL */
};

/* Until it is told to close, or has failed; the seat says which. */
void bench_client_run(const struct bench_client *c);
