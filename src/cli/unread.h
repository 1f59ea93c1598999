/* SPDX-License-Identifier: Apache-2.0 */
/* A hint that the policy in force does not read is set all the same; whoever sets it is told. */
#pragma once
#include <jansson.h>
#include <stdint.h>

/* One line to stderr for each of these hints (a set of FM_READS()) that `policy`, of a reply, does
 * not read, with those policies that do. Of a policy that does not say what it reads nothing. */
void unread_tell(const json_t *policy, uint32_t hints);

/* The same of one built in, "NAME [PARAMETER=VALUE...]". */
void unread_tell_local(const char *policy, uint32_t hints);
