/* SPDX-License-Identifier: Apache-2.0 */
#include "marks.h"
#include "code/cuda/image.h"
#include "code/cuda/pass/marks.h"
#include "code/cuda/pass/ptx.h"

bool fm_profile_marks_has(const struct fm_profile_function *k)
{
	return k->marks;
}

bool fm_profile_marks_table(const struct fm_profile_driver *cu, struct fm_profile_function *k,
	CUdeviceptr table, CUstream stream)
{
	return !cu->fill(k->marks, (unsigned)table, 1, stream) &&
	       !cu->fill(k->marks + 4, (unsigned)(table >> 32), 1, stream);
}

char *fm_profile_marked(const void *image)
{
	char *text = NULL;
	size_t size;

	/* Code that the Sanitizer instruments needs no marks. */
	if (!image || !fm_tap_wanted() || !(fm_profile_wish()->by & 1u << FM_SOURCE_MARKS) ||
		fm_profile_sanitizer_works())
		return NULL;
	size = fm_image_extent(&image);
	if (!size || !fm_is_ptx(image, size))
		return NULL;
	return fm_ptx_marks(image, size, &text) ? NULL : text;
}

CUdeviceptr fm_profile_marks_word(void *handle, bool library)
{
	const struct fm_profile_driver *cu = fm_profile_driver();
	CUdeviceptr at = 0;
	size_t size = 0;

	if (!cu || (library ? !cu->library_global : !cu->module_global))
		return 0;
	if (library ? cu->library_global(&at, &size, handle, FM_TOUCHED_TABLE)
		    : cu->module_global(&at, &size, handle, FM_TOUCHED_TABLE))
		return 0;
	return size == 8 ? at : 0;
}
