/* SPDX-License-Identifier: Apache-2.0 */
/* A program for `fermata ps' to show: one XQueue of a software device, kept busy until stdin ends.
 */
#include <fermata/fermata.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static int work(fm_xqueue *q)
{
	struct fm_command command = {.kind = 1, .device_ns = 1000000};
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t seq;

	while (poll(&input, 1, 0) == 0) {
		int rc = fm_xqueue_submit(q, &command, &seq);

		rc = rc ? rc : fm_xqueue_wait(q, seq, FM_FOREVER);
		if (rc)
			return rc;
	}
	return 0;
}

int main(void)
{
	struct fm_sim_options sim = {.size = sizeof(sim)};
	struct fm_xqueue_options options = {.size = sizeof(options)};
	fm_sim_device *device;
	fm_hwqueue *hwqueue;
	fm_xqueue *queue;
	int rc = fm_sim_device_create(&device, "clitest", &sim);

	rc = rc ? rc : fm_sim_hwqueue_create(&hwqueue, device);
	rc = rc ? rc : fm_xqueue_create(&queue, hwqueue, &options);
	if (rc) {
		fprintf(stderr, "cli_client: no queue: %d\n", rc);
		return 1;
	}
	rc = work(queue);
	if (!rc)
		rc = fm_xqueue_destroy(queue);
	fm_sim_device_destroy(device);
	if (rc)
		fprintf(stderr, "cli_client: %d\n", rc);
	return rc ? 1 : 0;
}
