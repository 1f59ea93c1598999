/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The models that workloads of DISB name, as kernels that take time. How many there are, and how
 * long they take together, is what was published for these networks, compiled by TVM, on a
 * processor of 2018 (an MI50 of AMD); that some are longer than others is too, but how many of them
 * are is a rounding of ours; distilbert is given BERT's. They compute nothing.
 */
#include "workload.h"
#include <string.h>

#define IMAGE   (3u * 224 * 224 * 4)
#define CLASSES (1000u * 4)

const struct bench_built_in bench_built_in[] = {
	{"alexnet", {{11, 330}, {1, 1340}, {1, 3880}}, IMAGE, CLASSES},
	{"default", {{10, 100}}, 0, 0},
	{"densenet201", {{195, 14}, {12, 85}}, IMAGE, CLASSES},
	{"distilbert", {{180, 24}, {25, 44}}, 128 * 8, 128 * 4},
	{"inceptionv3", {{120, 40}, {24, 110}, {2, 415}}, 3u * 299 * 299 * 4, CLASSES},
	{"mobilenetv1", {{25, 30}, {6, 73}}, IMAGE, CLASSES},
	{"resnet18", {{50, 25}, {6, 73}, {1, 500}}, IMAGE, CLASSES},
	{"resnet152", {{190, 58}, {17, 130}}, IMAGE, CLASSES},
	{"vgg19", {{60, 50}, {11, 166}}, IMAGE, CLASSES},
	{NULL, {{0}}, 0, 0},
};

const struct bench_built_in *bench_built_in_find(const char *name)
{
	size_t len = strcspn(name, "-");

	for (const struct bench_built_in *m = bench_built_in; m->name; m++)
		if (strlen(m->name) == len && !strncmp(m->name, name, len))
			return m;
	return NULL;
}
