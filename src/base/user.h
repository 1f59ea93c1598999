/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#define FM_PASSWD "/etc/passwd"
#define FM_USER   64

/* The user's name by that file alone, since a directory service may take seconds; else the number.
 */
void fm_user_name(const char *passwd, uid_t uid, char name[FM_USER]);
