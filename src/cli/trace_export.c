/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"
int trace_export(struct cli *cli, int argc, char **argv)
{
	return CLI_FAILED;
}
