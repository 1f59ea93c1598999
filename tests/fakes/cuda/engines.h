/* SPDX-License-Identifier: Apache-2.0 */
/* What takes time (engines.c). All without the lock. */
#pragma once
#include "fake.h"

enum fk_way { FK_IN, FK_OUT };
enum fk_vmm_call { FK_CREATE, FK_MAP, FK_ACCESS, FK_UNMAP };

/* In the memory that processes share. */
struct fk_engines {
	pthread_mutex_t lock[2];
	_Atomic uint32_t busy[2];
};

bool fk_engine_takes_time(void);
void fk_engine_copy(enum fk_way way, size_t bytes);
void fk_engine_call(enum fk_vmm_call call);
void fk_engine_make(size_t bytes); /* a chunk of the host */
void fk_engine_late(void);         /* between a wait that has passed and what is behind it */
void fk_engine_late_word(void);    /* before a word that stands alone */
