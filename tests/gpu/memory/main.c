/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of what a device and its driver do when memory is moved. script/gpu-memory runs them. */
#include "gpu.h"
#include <string.h>

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
		const char *about;
	} probes[] = {
		{"p7", probe_flips,
			"[SECONDS]: commands behind a gate, range mapped anew, gate opened"},
		{"p8", probe_holes,
			"[SECONDS]: what calls say of addresses where nothing is mapped"},
		{"p9", probe_returns, "[SECONDS]: which calls wait for their stream"},
		{"p10", probe_locks, "[MS]: the mover's calls while others wait inside the driver"},
		{"pools", probe_pools,
			"[MIB]: how fast memory of the host is made, registered, copied to"},
		{"p11", probe_rounds, "KERNELS [MIB [SECONDS [ROWS]]]: rounds of three processes"},
		{"p12", probe_slowed, "KERNELS: kernels beside copies that never stop"},
		{"touch", touch_host, "[MIB]: no probe: touches memory of the host"},
		{"gates", probe_gates, "[SECONDS]: words around a gate: races, costs"},
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(probes) / sizeof(*probes); i++)
		if (!strcmp(argv[1], probes[i].name))
			return probes[i].run(argc - 2, argv + 2);
	fprintf(stderr, "usage: gpu_memory PROBE [ARGUMENT...]\n");
	for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++)
		fprintf(stderr, "  %-5s %s\n", probes[i].name, probes[i].about);
	return 2;
}
