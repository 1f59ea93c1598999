/* SPDX-License-Identifier: Apache-2.0 */
/* A hint that the policy in force does not read is set all the same. The user who sets it is told.
 */
#pragma once
#include <jansson.h>
#include <stdint.h>

/* Writes a line to stderr for each of these hints (a set of FM_READS()) that `policy`, of a reply,
 * does not read. The line names the policies that read it. If a policy does not say what it reads,
 * nothing is written. */
void unread_tell(const json_t *policy, uint32_t hints);

/* The same for a built-in policy, "NAME [PARAMETER=VALUE...]". */
void unread_tell_local(const char *policy, uint32_t hints);
