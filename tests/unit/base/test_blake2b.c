/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE2b: the digests of others. */
#include "base/blake2b.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Made by Python's hashlib, of that many bytes, the i-th of them 7 * i. */
static const struct {
	size_t size;
	const char *digest;
} known[] = {
	{0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"},
	{1, "03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314"},
	{127, "4ff62e7c4c43fe101a078479c48836be4907d9d498dcc577ca89d694b2c11f9b"},
	{128, "14696d2a98d9f8a280da8b132b1045b345e1033759c6b02fcc4ee885c8ae7c37"},
	{129, "3934215260b1039be9d9d2b073b059bcd50120c327a22af93eb4d98cf821c14c"},
	{255, "a3bb8b4fa098078d32bb5a89e905e237862fd83e99141ca7d8a073bb268ba2a0"},
	{256, "3d0cb2693dfbac42af5a6cc960953fea8714aa39c4bcd054ef61d6b5e98ade4a"},
	{257, "63cb41934eb22ceb359755501ea299abcd784306baf8845ad6b97ff0828b7cfe"},
	{1000, "6ac4bea923678eb024090384d6e767b5870f849057dc19b172d8d9f2df30bf8e"},
};

static void check(const uint8_t *data, size_t size, size_t step, const char *digest)
{
	uint8_t hash[FM_HASH_BYTES];
	char text[2 * FM_HASH_BYTES + 1];
	struct fm_hash h;

	fm_hash_begin(&h);
	for (size_t at = 0; at < size; at += step)
		fm_hash_add(&h, data + at, step < size - at ? step : size - at);
	fm_hash_end(&h, hash);
	for (unsigned i = 0; i < FM_HASH_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	assert_string_equal(text, digest);
}

static void digests(void **state)
{
	uint8_t data[1000];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(7 * i);
	for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
		for (size_t step = 1; step < 300; step++)
			check(data, known[k].size, step, known[k].digest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
