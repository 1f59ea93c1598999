/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "kserve.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMENSIONS 8

static const struct datatype {
	const char *name;
	size_t size;
	bool whole;
} datatypes[] = {{"BOOL", 1, true}, {"INT8", 1, true}, {"UINT8", 1, true}, {"INT16", 2, true},
	{"UINT16", 2, true}, {"INT32", 4, true}, {"UINT32", 4, true}, {"INT64", 8, true},
	{"UINT64", 8, true}, {"FP16", 2, false}, {"BF16", 2, false}, {"FP32", 4, false},
	{"FP64", 8, false}};

static const struct datatype *find_datatype(const char *name)
{
	for (size_t i = 0; i < sizeof(datatypes) / sizeof(*datatypes); i++)
		if (!strcmp(datatypes[i].name, name))
			return &datatypes[i];
	return NULL;
}

/* A first dimension of -1 is the batch. */
static const char *read_shape(struct kserve_input *in, json_t *shape, unsigned batch, json_t *out)
{
	size_t k;
	json_t *v;

	if (!json_array_size(shape) || json_array_size(shape) > DIMENSIONS)
		return "has no shape, or one of more than 8 dimensions";
	in->elements = 1;
	json_array_foreach (shape, k, v) {
		json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;

		if (n == -1 && !k)
			n = batch;
		if (n < 1 || (uint64_t)n > KSERVE_INPUT_SIZE)
			return "has a shape that is not fixed but for its batch";
		in->elements *= (size_t)n;
		if (in->elements * in->element > KSERVE_INPUT_SIZE)
			return "is larger than 64 MiB";
		json_array_append_new(out, json_integer(n));
	}
	return NULL;
}

static const char *read_input(
	struct kserve_input *in, const json_t *from, unsigned batch, json_t *requests)
{
	const char *name = json_string_value(json_object_get(from, "name"));
	const char *type = json_string_value(json_object_get(from, "datatype"));
	const struct datatype *d = type ? find_datatype(type) : NULL;
	json_t *shape = json_array();
	const char *wrong;

	if (!name || !*name || strlen(name) >= sizeof(in->name) || !d) {
		json_decref(shape);
		return !d && name && *name ? "has a datatype that is not understood here"
					   : "has no name, or one of more than 63 characters";
	}
	strcpy(in->name, name);
	strcpy(in->datatype, d->name);
	in->element = d->size;
	wrong = read_shape(in, json_object_get(from, "shape"), batch, shape);
	if (wrong) {
		json_decref(shape);
		return wrong;
	}
	return json_array_append_new(requests,
		       json_pack("{s:s, s:s, s:o, s:{s:I}}", "name", in->name, "datatype",
			       in->datatype, "shape", shape, "parameters", "binary_data_size",
			       (json_int_t)(in->elements * in->element)))
		       ? "is too much"
		       : NULL;
}

static const char *read_inputs(struct kserve_model *m, const json_t *inputs, unsigned batch,
	json_t *requests, char text[160])
{
	const char *wrong;
	size_t k;
	json_t *one;

	if (!json_array_size(inputs) || json_array_size(inputs) > KSERVE_INPUTS)
		return "the model's metadata has no inputs, or more than 16";
	json_array_foreach (inputs, k, one) {
		wrong = read_input(&m->input[k], one, batch, requests);
		m->inputs++;
		if (!wrong && kserve_input_bytes(m) > KSERVE_INPUT_SIZE)
			wrong = "is larger than 64 MiB, together with the others";
		if (wrong) {
			snprintf(text, 160, "the model's input %zu %s", k, wrong);
			return text;
		}
	}
	return NULL;
}

/* The request's own parameters, and those of the task. */
static json_t *parameters(const char *client)
{
	json_t *root = client ? json_loads(client, 0, NULL) : NULL;
	json_t *given = json_object_get(root, "parameters");
	json_t *all = json_is_object(given) ? json_deep_copy(given) : json_object();

	json_object_set_new(all, "binary_data_output", json_true());
	json_decref(root);
	return all;
}

const char *kserve_read_model(struct kserve_model *m, const char *metadata, size_t size,
	unsigned batch, const char *client, char text[160])
{
	json_t *root = json_loadb(metadata, size, JSON_REJECT_DUPLICATES, NULL);
	json_t *requests = json_array(), *request;
	const char *wrong;

	*m = (struct kserve_model){.inputs = 0};
	if (json_is_object(root))
		wrong = read_inputs(m, json_object_get(root, "inputs"), batch, requests, text);
	else
		wrong = "the model's metadata is not a JSON object";
	request = json_pack("{s:o, s:o}", "inputs", requests, "parameters", parameters(client));
	if (!wrong) {
		m->request = json_dumps(request, JSON_COMPACT);
		m->length = m->request ? strlen(m->request) : 0;
		wrong = m->request ? NULL : "out of memory";
	}
	json_decref(request);
	json_decref(root);
	return wrong;
}

size_t kserve_input_bytes(const struct kserve_model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->inputs; i++)
		n += m->input[i].elements * m->input[i].element;
	return n;
}

/* Whole numbers from 0 to 99, or 0 and 1 where there is room for no more; FP32 and FP64 from 0 to
 * 1. Of the narrow ones the top byte is that of a number about 1. */
static void fill_one(const struct kserve_input *in, size_t k, unsigned char *to)
{
	const struct datatype *d = find_datatype(in->datatype);
	float f = (float)(k % 100) / 100;
	double g = f;

	memset(to, 0, in->element);
	if (d->whole)
		to[0] = (unsigned char)(strcmp(d->name, "BOOL") ? k % 100 : k % 2);
	else if (in->element == 4)
		memcpy(to, &f, sizeof(f));
	else if (in->element == 8)
		memcpy(to, &g, sizeof(g));
	else
		to[1] = 0x3c;
}

void kserve_fill(const struct kserve_model *m, unsigned char *data)
{
	for (size_t i = 0; i < m->inputs; i++)
		for (size_t k = 0; k < m->input[i].elements; k++) {
			fill_one(&m->input[i], k, data);
			data += m->input[i].element;
		}
}

void kserve_free_model(struct kserve_model *m)
{
	free(m->request);
	m->request = NULL;
}
