/* SPDX-License-Identifier: Apache-2.0 */
/* Many a user has thousands of uids (subuid(5), as containers without root want them). They are
 * counted as one user, lest one person be a thousand. */
#pragma once
#include <stdio.h>

struct quota;

/* Again when the settings are read again: what has been taken stays with whom it was counted to. */
void subuid_load(struct quota *q);
void subuid_read(struct quota *q, FILE *f);
