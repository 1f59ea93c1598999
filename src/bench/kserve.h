/* SPDX-License-Identifier: Apache-2.0 */
/* What the KServe v2 protocol says, as far as a client of a benchmark needs it. Within the room. */
#pragma once
#include <stddef.h>

#define KSERVE_INPUTS     16
#define KSERVE_INPUT_SIZE ((size_t)64 << 20) /* of all inputs together */

struct kserve_input {
	char name[64];
	char datatype[8];
	size_t element, elements; /* bytes of each; how many */
};

struct kserve_model {
	struct kserve_input input[KSERVE_INPUTS];
	size_t inputs;
	char *request; /* the JSON of a request; of the heap */
	size_t length; /* of it */
};

/* From a model's metadata. client: the object "client" of the task, whose member "parameters" is
 * sent along; may be NULL. NULL, or what is wrong, in `text`. */
const char *kserve_read_model(struct kserve_model *m, const char *metadata, size_t size,
	unsigned batch, const char *client, char text[160]);
/* The bytes of all inputs. */
size_t kserve_input_bytes(const struct kserve_model *m);
/* Numbers that any model takes: small ones that are the same each time. */
void kserve_fill(const struct kserve_model *m, unsigned char *data);
void kserve_free_model(struct kserve_model *m);
