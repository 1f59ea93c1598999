/* SPDX-License-Identifier: Apache-2.0 */
/* A program that counts device memory as a shim does, told what to do line by line:
 *   claim KIND BYTES | add KIND BYTES | return KIND BYTES | info | lie | forget | fork
 * It says "ready", and then one line for each. With --layout it says where things are in a ledger,
 * for those that forge one: version, size, rows, the first row, the size of one. */
#include "base/clock.h"
#include "xqueue/account.h"
#include "xqueue/xqueue.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CAPACITY (UINT64_C(80) << 30)

static const struct fm_client_config config = {.api = "memory", .counts_memory = true};

static enum fm_mem_kind kind_of(const char *name)
{
	unsigned k = 0;

	while (k < FM_MEM_KINDS && strcmp(name, fm_mem_kind_name((enum fm_mem_kind)k)) != 0)
		k++;
	return (enum fm_mem_kind)k;
}

/* All that a daemon reads is nonsense from now on. */
static void lie(struct fm_ledger_device *row)
{
	char key[FM_DEVKEY_MAX];

	memcpy(key, row->key, sizeof(key));
	for (unsigned char *p = (unsigned char *)row; p < (unsigned char *)(row + 1); p++)
		*p = 0xff;
	memcpy(row->key, key, sizeof(key));
	row->asked = 7;
}

/* A child counts nothing of its own in the parent's ledger, and may have a client of its own. */
static int in_child(struct fm_client *c, int dev)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		int rc = fm_account_claim(c, dev, FM_MEM_PLAIN, UINT64_C(1) << 40);
		struct fm_client *own = fm_client_get(&config);
		int row = own ? fm_account_device(own, "gpu:0", CAPACITY) : -1;

		_exit(rc ? 1 : row < 0 ? 2 : fm_account_claim(own, row, FM_MEM_PLAIN, 1) ? 3 : 0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void obey(struct fm_client *c, int dev, char *line)
{
	uint64_t total = 0, left = 0, n = 0;
	char verb[16] = "", kind[32] = "";
	bool limited;

	sscanf(line, "%15s %31s %" SCNu64, verb, kind, &n);
	if (*kind && kind_of(kind) == FM_MEM_KINDS) {
		puts("no such kind");
	} else if (!strcmp(verb, "claim")) {
		puts(fm_account_claim(c, dev, kind_of(kind), n) ? "refused" : "claimed");
	} else if (!strcmp(verb, "add")) {
		fm_account_add(c, dev, kind_of(kind), n);
		puts("added");
	} else if (!strcmp(verb, "return")) {
		fm_account_return(c, dev, kind_of(kind), n);
		puts("returned");
	} else if (!strcmp(verb, "info")) {
		limited = fm_account_info(c, dev, &total, &left);
		printf("info %d %" PRIu64 " %" PRIu64 "\n", limited, total, left);
	} else if (!strcmp(verb, "lie")) {
		lie(fm_account_row(c, dev));
		puts("lied");
	} else if (!strcmp(verb, "fork")) {
		printf("child %d\n", in_child(c, dev));
	} else if (!strcmp(verb, "daemon")) {
		printf("daemon %d\n", fm_client_connected(c));
	} else {
		puts("what?");
	}
}

#define PRINT_WORD(name) printf("%s %zu\n", #name, offsetof(struct fm_ledger_device, name))

static void print_words(void)
{
	PRINT_WORD(claimed);
	PRINT_WORD(kind[FM_MEM_MOVABLE]);
	PRINT_WORD(resident);
	PRINT_WORD(host);
	PRINT_WORD(mapped);
	PRINT_WORD(went_out);
	PRINT_WORD(came_in);
	PRINT_WORD(reached);
	PRINT_WORD(hot);
	PRINT_WORD(host_has);
	PRINT_WORD(host_wants);
	PRINT_WORD(host_asks);
	PRINT_WORD(host_may);
	PRINT_WORD(host_told);
}

int main(int argc, char **argv)
{
	const char *key = argc > 1 ? argv[1] : "gpu:0";
	struct fm_client *c;
	char line[128];
	int dev;

	if (!strcmp(key, "--layout")) {
		printf("%u %zu %u %zu %zu\n", FM_LEDGER_VERSION, sizeof(struct fm_ledger),
			FM_LEDGER_DEVICES, offsetof(struct fm_ledger, device),
			sizeof(struct fm_ledger_device));
		return 0;
	}
	if (!strcmp(key, "--words")) {
		print_words();
		return 0;
	}
	c = fm_client_get(&config);
	dev = c ? fm_account_device(c, key, CAPACITY) : -1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s\n", dev < 0 ? "broken" : "ready");
	while (dev >= 0 && fgets(line, sizeof(line), stdin))
		obey(c, dev, line);
	return dev < 0;
}
