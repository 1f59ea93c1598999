/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that are kept by their binaries: found for these and this driver alone, whole, or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/opencl/shim/objects.h"
#include "base/cleanup.h"
#include "cache/cache.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICE(i) ((cl_device_id)(uintptr_t)(16 + (i)))

static char place[64], folder[96];
static const char *driver_version;
static cl_program_binary_type type;
static size_t sizes[2];

static CL_API_ENTRY cl_int CL_API_CALL device_info(
	cl_device_id device, cl_device_info what, size_t size, void *value, size_t *size_ret)
{
	if (what == CL_DRIVER_VERSION)
		snprintf(value, size, "%s", driver_version);
	else
		snprintf(value, size, "device %d", (int)(uintptr_t)device);
	return CL_SUCCESS;
}

static CL_API_ENTRY cl_int CL_API_CALL program_info(
	cl_program program, cl_program_info what, size_t size, void *value, size_t *size_ret)
{
	const cl_device_id devices[] = {DEVICE(0), DEVICE(1)};

	assert_true(size <= sizeof(sizes));
	memcpy(value, what == CL_PROGRAM_DEVICES ? (const void *)devices : (const void *)sizes,
		size);
	return CL_SUCCESS;
}

static CL_API_ENTRY cl_int CL_API_CALL build_info(cl_program program, cl_device_id device,
	cl_program_build_info what, size_t size, void *value, size_t *size_ret)
{
	memcpy(value, &type, sizeof(type));
	return CL_SUCCESS;
}

static int fresh(void **state)
{
	strcpy(place, "/tmp/fermata-sources-XXXXXX");
	if (!mkdtemp(place))
		return -1;
	snprintf(folder, sizeof(folder), "%s/fermata/sources", place);
	setenv("XDG_CACHE_HOME", place, 1);
	fm_cl_layer.next.clGetDeviceInfo = device_info;
	fm_cl_layer.next.clGetProgramInfo = program_info;
	fm_cl_layer.next.clGetProgramBuildInfo = build_info;
	driver_version = "1.2.3";
	type = CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
	return 0;
}

static void each_file(void (*fn)(const char *path, const char *name))
{
	FM_CLEAN_DIR DIR *d = opendir(folder);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			fn(path, e->d_name);
	}
}

static void gone(const char *path, const char *name)
{
	unlink(path);
}

static int clean(void **state)
{
	each_file(gone);
	rmdir(folder);
	*strrchr(folder, '/') = '\0';
	rmdir(folder);
	return rmdir(place);
}

/* The last build was for this device alone; 0: for all. */
static cl_device_id built_for;

static void keep(const char *source, const char *options, const char *one, const char *two)
{
	unsigned char *binaries[] = {
		(unsigned char *)(uintptr_t)one, (unsigned char *)(uintptr_t)two};
	struct fm_opencl_program p = {.source = (char *)(uintptr_t)source,
		.options = (char *)(uintptr_t)options,
		.len = strlen(source),
		.n_devices = built_for != NULL,
		.devices = &built_for,
		.built = true};

	pthread_mutex_init(&p.lock, NULL);
	fm_lock_rank(&p.lock, CL_PROGRAM);
	sizes[0] = one ? strlen(one) : 0;
	sizes[1] = two ? strlen(two) : 0;
	fm_opencl_source_keep(&p, binaries, two ? 2 : 1);
}

/* What is said of them, as OPTIONS|SOURCE; the caller's. NULL: nothing. */
static char *found(const char *one, const char *two)
{
	const unsigned char *binaries[] = {(const unsigned char *)one, (const unsigned char *)two};
	const size_t lengths[] = {one ? strlen(one) : 0, two ? strlen(two) : 0};
	const cl_device_id devices[] = {DEVICE(0), DEVICE(1)};
	struct fm_opencl_source source;
	char *text = NULL;

	if (!fm_opencl_source_find(devices, lengths, binaries, two ? 2 : 1, &source))
		return NULL;
	assert_true(asprintf(&text, "%s|%.*s", source.options, (int)source.len, source.text) > 0);
	free(source.options);
	free(source.text);
	return text;
}

static void is_found(const char *what, const char *one, const char *two)
{
	FM_CLEAN_FREE char *text = found(one, two);

	assert_non_null(text);
	assert_string_equal(text, what);
}

static void finds_them_again(void **state)
{
	keep("kernel void f() {}", "-DX=1", "binary of f", NULL);
	keep("kernel void g() {}", "", "binary of g", NULL);
	is_found("-DX=1|kernel void f() {}", "binary of f", NULL);
	is_found("|kernel void g() {}", "binary of g", NULL);
	assert_null(found("binary of h", NULL));
	assert_null(found("binary of ", NULL));
	driver_version = "1.2.4";
	assert_null(found("binary of f", NULL));
}

/* Each device's was made of the same, or it is as if none were known. */
static void several_devices(void **state)
{
	keep("both", "-O", "first", "second");
	is_found("-O|both", "first", "second");
	is_found("-O|both", "first", NULL);
	assert_null(found("second", "first"));
	assert_null(found("first", "third"));
	keep("other", "-O", "first", NULL);
	assert_null(found("first", "second"));
	keep("both", "-P", "first", NULL);
	assert_null(found("first", "second"));
	keep("both", "-O", "first", NULL);
	is_found("-O|both", "first", "second");
}

/* The other one's binary is of an earlier build, by what options nobody knows. */
static void built_one_by_one(void **state)
{
	built_for = DEVICE(1);
	keep("both", "-DSECOND", "first", "second");
	built_for = NULL;
	assert_null(found("first", NULL));
	keep("both", "-DALL", "first", NULL);
	is_found("-DALL|both", "first", NULL);
}

static void what_is_not_kept(void **state)
{
	keep("#include \"f.h\"\n", "", "1", NULL);
	assert_null(found("1", NULL));
	keep("text", "-include f.h", "1", NULL);
	assert_null(found("1", NULL));
	type = CL_PROGRAM_BINARY_TYPE_LIBRARY;
	keep("text", "", "1", NULL);
	assert_null(found("1", NULL));
	type = CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
	keep("text", "", NULL, NULL);
	assert_null(found("", NULL));
	keep("text", "", "1", NULL);
	is_found("|text", "1", NULL);
}

/* The folder is not gone through for each: what is too much there stays for now. */
static void looks_now_and_then(void **state)
{
	char path[256];
	int n;

	keep("text", "", "1", NULL);
	n = snprintf(path, sizeof(path), "%s/", folder);
	memset(path + n, 'f', 2 * FM_HASH_BYTES);
	path[n + 2 * FM_HASH_BYTES] = '\0';
	close(creat(path, 0600));
	assert_int_equal(truncate(path, 100 << 20), 0);
	keep("text", "", "2", NULL);
	is_found("|text", "1", NULL);
	is_found("|text", "2", NULL);
	assert_int_equal(access(path, F_OK), 0);
}

static const void *forged;
static size_t forged_size;

/* By somebody who knows what a file begins with. */
static void forge(const char *path, const char *name)
{
	uint8_t key[FM_HASH_BYTES], *data;
	struct fm_cache cache;
	unsigned byte;

	if (strlen(name) != 2 * sizeof(key))
		return;
	for (size_t i = 0; i < sizeof(key); i++) {
		assert_int_equal(sscanf(name + 2 * i, "%2x", &byte), 1);
		key[i] = (uint8_t)byte;
	}
	data = calloc(1, FM_CACHE_HEAD + forged_size);
	memcpy(data + FM_CACHE_HEAD, forged, forged_size);
	assert_int_equal(fm_cache_open_as(&cache, folder, NULL, 1 << 20), 0);
	assert_int_equal(fm_cache_write(&cache, key, data, FM_CACHE_HEAD + forged_size), 0);
	fm_cache_close(&cache);
	free(data);
}

static void nonsense(void **state)
{
	static const struct {
		uint64_t options, source;
		char rest[8];
	} files[] = {{0, 0, ""}, {4, 5, "-Da-text"}, {4, 3, "-Da-text"},
		{UINT64_MAX, 9, "-Da-text"}, {9, UINT64_MAX, "-Da-text"}, {8, 0, "-Da-text"},
		{4, 4, "-\0a-text"}};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		keep("text", "", "1", NULL);
		forged = &files[i];
		forged_size = sizeof(files[i]);
		each_file(forge);
		assert_null(found("1", NULL));
		/* It is gone, and the next is believed. */
		keep("text", "", "1", NULL);
		is_found("|text", "1", NULL);
	}
	forged_size = 7;
	each_file(forge);
	assert_null(found("1", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(finds_them_again, fresh, clean),
		cmocka_unit_test_setup_teardown(several_devices, fresh, clean),
		cmocka_unit_test_setup_teardown(built_one_by_one, fresh, clean),
		cmocka_unit_test_setup_teardown(what_is_not_kept, fresh, clean),
		cmocka_unit_test_setup_teardown(looks_now_and_then, fresh, clean),
		cmocka_unit_test_setup_teardown(nonsense, fresh, clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
