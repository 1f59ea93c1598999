/* SPDX-License-Identifier: Apache-2.0 */
/* A user may have thousands of uids (subuid(5), for containers without root). They are counted as
 * one user, so that one person does not get the limits of a thousand. */
#pragma once
#include <stdio.h>

struct quota;

/* Called again when the settings are read again. What has been taken stays with the user that it
 * was counted to. */
void subuid_load(struct quota *q);
void subuid_read(struct quota *q, FILE *f);
