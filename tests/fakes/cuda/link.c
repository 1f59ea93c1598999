/* SPDX-License-Identifier: Apache-2.0 */
/* The linker, for one piece, which may call a library: what comes out is what went in. */
#include "image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG = 5, LOG_SIZE = 6 }; /* CUjit_option: of errors */

struct CUlinkState_st {
	char *data;
	size_t size;
	bool library;
	char *log;
	size_t log_size;
};

static void say(CUlinkState s, const char *text)
{
	if (s->log && s->log_size)
		snprintf(s->log, s->log_size, "%s", text);
}

fm_cu_result cuLinkCreate_v2(unsigned n, int *options, void **values, CUlinkState *state)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	FK_TRY(fk_fails("cuLinkCreate_v2"));
	FK_TRY(fk_enter_ctx());
	*state = calloc(1, sizeof(**state));
	if (!*state)
		rc = CU_OUT_OF_MEMORY;
	for (unsigned i = 0; !rc && i < n; i++) {
		if (options[i] == LOG)
			(*state)->log = values[i];
		if (options[i] == LOG_SIZE)
			(*state)->log_size = (uintptr_t)values[i];
	}
	return fk_leave(rc);
}

fm_cu_result cuLinkAddData_v2(CUlinkState s, int type, void *data, size_t size, const char *name,
	unsigned n, int *options, void **values)
{
	if (!s || !data || !size || type < 0)
		return FM_CU_ERROR_INVALID_VALUE;
	if (s->data)
		return FM_CU_ERROR_NOT_SUPPORTED; /* there is nothing here that could link */
	s->data = calloc(1, size + sizeof(FK_LINKED));
	if (!s->data)
		return CU_OUT_OF_MEMORY;
	memcpy(s->data, data, size);
	s->size = size;
	return FM_CU_SUCCESS;
}

/* Libraries alone; whatever they have is what is called. */
fm_cu_result cuLinkAddFile_v2(
	CUlinkState s, int type, const char *path, unsigned n, int *options, void **values)
{
	char head[8] = "";
	FILE *f;

	FK_TRY(fk_fails("cuLinkAddFile_v2"));
	if (!s || !path || type != 4)
		return FM_CU_ERROR_INVALID_VALUE;
	f = fopen(path, "r");
	if (!f)
		return CU_FILE_NOT_FOUND;
	s->library =
		fread(head, 1, sizeof(head), f) == sizeof(head) && !memcmp(head, "!<arch>\n", 8);
	fclose(f);
	if (!s->library)
		say(s, "error   : it is no library\nof this machine\n");
	return s->library ? FM_CU_SUCCESS : CU_INVALID_IMAGE;
}

fm_cu_result cuLinkComplete(CUlinkState s, void **cubin, size_t *size)
{
	FK_TRY(fk_fails("cuLinkComplete"));
	if (!s || !cubin || !s->data)
		return FM_CU_ERROR_INVALID_VALUE;
	if (s->library)
		strcpy(s->data + strlen(s->data), FK_LINKED);
	*cubin = s->data;
	if (size)
		*size = s->size;
	return FM_CU_SUCCESS;
}

fm_cu_result cuLinkDestroy(CUlinkState s)
{
	if (!s)
		return FM_CU_ERROR_INVALID_VALUE;
	free(s->data);
	free(s);
	return FM_CU_SUCCESS;
}
