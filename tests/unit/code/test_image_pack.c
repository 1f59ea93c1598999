/* SPDX-License-Identifier: Apache-2.0 */
/* Rewritten images as the bytes of a file. */
#include "api/cuda/cache/pack.h"
#include "image_files.h"
#include <errno.h>

/* Bytes of a file that nobody vouches for: whatever they are, no more is read than there are. */
static void unpacked_with_care(void **state)
{
	struct file f = load("pack-lz4.fatbin");
	struct fm_buf packed = {0};
	struct fm_image made, got;

	assert_int_equal(fm_image_rewrite(f.data, f.size, 90, &made), FM_IMAGE_OK);
	free(f.data);
	fm_pack(&made, &packed);
	/* What it ends with is looked at first. */
	for (size_t size = 0; size < 200; size++) {
		uint8_t *part = malloc(size + 1);

		memcpy(part, packed.data + packed.size - size, size);
		assert_int_equal(fm_unpack(part, size, &got), -EBADMSG);
		memcpy(part, packed.data, size);
		assert_int_equal(fm_unpack(part, size, &got), -EBADMSG);
		free(part);
	}
	for (size_t i = packed.size - 150; i < packed.size; i++) {
		uint8_t *wrong = malloc(packed.size);

		memcpy(wrong, packed.data, packed.size);
		wrong[i] ^= 0xff;
		if (fm_unpack(wrong, packed.size, &got))
			free(wrong);
		else
			fm_image_free(&got);
		assert_null(got.data);
	}
	assert_int_equal(fm_unpack(packed.data, packed.size, &got), 0);
	assert_ptr_equal(got.data, packed.data);
	same_image(&made, &got);
	fm_image_free(&got);
	fm_image_free(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unpacked_with_care),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
