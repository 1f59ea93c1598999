/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of programs that are loaded from binaries later. A program that asks the driver for the
 * binary of what it has built from source is likely to load that binary another time. So the source
 * is kept on disk, under a hash of the binary and of the driver that made it. A program made of
 * such a binary gets its source back, and with it a twin.
 */
#include "base/cancel.h"
#include "base/cleanup.h"
#include "cache/cache.h"
#include "objects.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX (64ull << 20) /* of all sources together */
#define VERSION     1u            /* of the file format and of the key */
#define DEVICES     16u           /* of one program */

/* Follows the cache's own head in a file; the options come next, then the source. */
struct record {
	uint64_t options, source; /* their sizes */
};

static void add_text(struct fm_hash *h, cl_device_id device, cl_device_info what)
{
	char text[256] = "";

	fm_cl_layer.next.clGetDeviceInfo(device, what, sizeof(text), text, NULL);
	text[sizeof(text) - 1] = '\0';
	fm_hash_add(h, text, strlen(text) + 1);
}

/* The driver is part of the key: another version makes another binary of the same source. */
static void key_of(
	cl_device_id device, const unsigned char *binary, size_t size, uint8_t key[FM_HASH_BYTES])
{
	const uint64_t numbers[] = {VERSION, size};
	struct fm_hash h;

	fm_hash_begin(&h);
	fm_hash_add(&h, numbers, sizeof(numbers));
	add_text(&h, device, CL_DEVICE_NAME);
	add_text(&h, device, CL_DEVICE_VERSION);
	add_text(&h, device, CL_DRIVER_VERSION);
	fm_hash_add(&h, binary, size);
	fm_hash_end(&h, key);
}

/* Bytes that this process has written since it last checked the size of the folder. A check takes
 * the longer the more files there are, so it is not made for each file. */
static _Atomic uint64_t unchecked = SOURCES_MAX;

static void write_one(
	struct fm_cache *cache, const uint8_t key[FM_HASH_BYTES], uint8_t *data, size_t size)
{
	atomic_store(&cache->unchecked, atomic_load(&unchecked));
	fm_cache_write(cache, key, data, size);
	atomic_store(&unchecked, atomic_load(&cache->unchecked));
}

/* Can the program be built again from the text alone? */
static bool stands_alone(const struct fm_opencl_program *p)
{
	return !memmem(p->source, p->len, "include", 7) && !strstr(p->options, "-include");
}

/* Each device has the options of its last build. Only those of the last build of all are known. */
static bool knows_options_for(const struct fm_opencl_program *p, cl_device_id device)
{
	for (cl_uint i = 0; i < p->n_devices; i++)
		if (p->devices[i] == device)
			return true;
	return !p->n_devices;
}

/* The contents of the file, with room for the cache's head. NULL: there is nothing to keep. Lock of
 * the program held. */
static uint8_t *record_of(const struct fm_opencl_program *p, size_t *size)
{
	struct record r;
	uint8_t *data;

	if (!p->source || !p->built || p->len > SOURCES_MAX / 4 || !stands_alone(p))
		return NULL;
	r = (struct record){strlen(p->options), p->len};
	*size = FM_CACHE_HEAD + sizeof(r) + r.options + r.source;
	data = malloc(*size);
	if (data)
		mempcpy(mempcpy(mempcpy(data + FM_CACHE_HEAD, &r, sizeof(r)), p->options,
				r.options),
			p->source, r.source);
	return data;
}

static bool is_executable(cl_program program, cl_device_id device)
{
	cl_program_binary_type type = 0;

	return !fm_cl_layer.next.clGetProgramBuildInfo(
		       program, device, CL_PROGRAM_BINARY_TYPE, sizeof(type), &type, NULL) &&
	       type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
}

void fm_opencl_source_keep(struct fm_opencl_program *p, unsigned char *const *binaries, size_t n)
{
	FM_NO_CANCEL;
	FM_CLEAN_FREE uint8_t *data = NULL;
	cl_program program = (cl_program)p->object.handle;
	cl_device_id devices[DEVICES];
	size_t sizes[DEVICES], size = 0;
	struct fm_cache cache;

	if (n > DEVICES ||
		fm_cl_layer.next.clGetProgramInfo(
			program, CL_PROGRAM_DEVICES, n * sizeof(*devices), devices, NULL) ||
		fm_cl_layer.next.clGetProgramInfo(
			program, CL_PROGRAM_BINARY_SIZES, n * sizeof(*sizes), sizes, NULL))
		return;
	pthread_mutex_lock(&p->lock);
	data = record_of(p, &size);
	for (size_t i = 0; data && i < n; i++)
		if (!knows_options_for(p, devices[i]))
			sizes[i] = 0;
	pthread_mutex_unlock(&p->lock);
	if (!data || fm_cache_open_as(&cache, NULL, "sources", SOURCES_MAX))
		return;
	for (size_t i = 0; i < n; i++) {
		uint8_t key[FM_HASH_BYTES];

		if (!binaries[i] || !sizes[i] || !is_executable(program, devices[i]))
			continue;
		key_of(devices[i], binaries[i], sizes[i], key);
		write_one(&cache, key, data, size);
	}
	fm_cache_close(&cache);
}

/* A file is not trusted: its sizes are checked. */
static bool is_sound(const uint8_t *data, size_t size)
{
	struct record r;

	if (size < sizeof(r))
		return false;
	memcpy(&r, data, sizeof(r));
	size -= sizeof(r);
	return r.options <= size && r.source == size - r.options && r.source &&
	       !memchr(data + sizeof(r), '\0', r.options);
}

/* The record of the binaries. It must be the same for all devices. */
static int read_record(struct fm_cache *cache, const cl_device_id *devices, const size_t *sizes,
	const unsigned char *const *binaries, cl_uint n, uint8_t **data, size_t *size)
{
	int rc = n ? 0 : -ENOENT;

	for (cl_uint i = 0; i < n && !rc; i++) {
		FM_CLEAN_FREE uint8_t *one = NULL;
		uint8_t key[FM_HASH_BYTES];
		size_t len = 0;

		key_of(devices[i], binaries[i], sizes[i], key);
		rc = fm_cache_read(cache, key, &one, &len);
		if (!rc && !is_sound(one, len)) {
			fm_cache_remove(cache, key);
			rc = -EBADMSG;
		}
		if (!rc && *data && (len != *size || memcmp(*data, one, len)))
			rc = -ENOENT;
		if (rc || *data)
			continue;
		*data = fm_take_ptr(one);
		*size = len;
	}
	return rc;
}

bool fm_opencl_source_find(const cl_device_id *devices, const size_t *sizes,
	const unsigned char *const *binaries, cl_uint n, struct fm_opencl_source *out)
{
	FM_NO_CANCEL;
	FM_CLEAN_FREE uint8_t *data = NULL;
	struct fm_cache cache;
	struct record r;
	size_t size = 0;
	int rc;

	if (fm_cache_open_as(&cache, NULL, "sources", SOURCES_MAX))
		return false;
	rc = read_record(&cache, devices, sizes, binaries, n, &data, &size);
	fm_cache_close(&cache);
	if (rc)
		return false;
	memcpy(&r, data, sizeof(r));
	*out = (struct fm_opencl_source){
		.options = strndup((char *)data + sizeof(r), r.options),
		.text = malloc(r.source),
		.len = r.source,
	};
	if (!out->options || !out->text) {
		free(out->options);
		free(out->text);
		return false;
	}
	memcpy(out->text, data + sizeof(r) + r.options, r.source);
	return true;
}
