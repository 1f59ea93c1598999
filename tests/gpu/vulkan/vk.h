/* SPDX-License-Identifier: Apache-2.0 */
/* What the Vulkan programs for real devices share: a device, and queues with work. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#define FAMILIES 16u
#define QUEUES   16u /* of a family, at most */
#define MS       UINT64_C(1000000)

#define LAYER "VK_LAYER_FERMATA_schedule"

struct gpu {
	VkInstance instance;
	VkPhysicalDevice physical;
	VkPhysicalDeviceProperties properties;
	bool processor; /* a software device */
	bool sparse;    /* it has sparse binding */
	uint32_t families;
	VkQueueFamilyProperties family[FAMILIES];
	uint32_t queues[FAMILIES]; /* of the device */
	uint32_t compute;          /* the family whose queues have compute shaders */
	VkDevice device;
	PFN_vkQueueSubmit submit; /* without the loader's trampoline */
	VkDescriptorSetLayout set_layout;
	VkPipelineLayout layout;
	VkPipeline pipeline;
};

/* A queue, with words that its commands change: each dispatch takes each word some steps further.
 * Each submission takes the lane's timeline one further. */
struct lane {
	struct gpu *g;
	uint32_t family;
	VkQueue queue;
	VkCommandPool pool;
	VkSemaphore timeline;
	uint64_t value;
	uint32_t words;
	VkBuffer buffer;
	VkDeviceMemory memory;
	VkDeviceSize size; /* of the buffer, if that is sparse */
	uint32_t *word;
	VkDescriptorPool sets;
	VkDescriptorSet set;
};

struct order {
	VkCommandBuffer commands; /* may be none */
	VkSemaphore wait;         /* likewise; binary, or a timeline with this value */
	uint64_t wait_value;
	VkSemaphore signal; /* likewise, binary */
};

_Noreturn void die(const char *what, int rc);
#define VK(call)                              \
	do {                                  \
		VkResult rc_ = (call);        \
		if (rc_ != VK_SUCCESS)        \
			die(#call, (int)rc_); \
	} while (0)

uint64_t now_ns(void);
void sleep_ns(uint64_t ns);
/* layer: what is asked for besides what the environment asks for; NULL: nothing. queues: so many of
 * each family that computes, if it has them; QUEUES: all of all families. */
void gpu_open(struct gpu *g, const char *layer, uint32_t queues);
void gpu_close(struct gpu *g);
/* So many words fill the device. */
static inline uint32_t gpu_words(const struct gpu *g)
{
	return g->processor ? 4096 : 64 * 4224;
}

void lane_open(struct lane *l, struct gpu *g, uint32_t family, uint32_t index, uint32_t words);
void lane_close(struct lane *l);
/* Commands that can be submitted many times: so many dispatches, of so many steps each. In a
 * family that cannot compute, the words are filled with `steps`, if it can do that. */
VkCommandBuffer lane_record(struct lane *l, unsigned dispatches, uint32_t steps);
/* The value that the timeline has when it has finished. */
uint64_t lane_submit(struct lane *l, const struct order *o);
static inline uint64_t lane_run(struct lane *l, VkCommandBuffer commands)
{
	return lane_submit(l, &(struct order){.commands = commands});
}
/* A sparse buffer in the place of the lane's, and two memories for it, with the words that the host
 * sees there. */
void lane_sparse(struct lane *l, uint32_t *word[2], VkDeviceMemory memory[2]);
/* o->signal: a timeline, which gets that value. */
void lane_bind(struct lane *l, VkDeviceMemory memory, const struct order *o, uint64_t signal_value);
/* False: not within that time. */
bool lane_wait(struct lane *l, uint64_t value, uint64_t ns);
uint64_t lane_at(struct lane *l);
/* Words that are not what so many steps make of them. */
uint32_t lane_wrong(const struct lane *l, uint64_t steps);
/* Steps with which a dispatch takes so long on a device that does nothing else. */
uint32_t lane_steps(struct lane *l, uint64_t ns);
VkSemaphore timeline_new(struct gpu *g);
VkSemaphore binary_new(struct gpu *g);
/* A batch whose other signals have been seen may still use it: the device comes to rest first. */
void semaphore_end(struct gpu *g, VkSemaphore s);
void timeline_signal(struct gpu *g, VkSemaphore s, uint64_t value);

/* checks.c, measures.c: a command of the program. False: there is none of that name. */
bool check(int argc, char **argv);
bool measure(int argc, char **argv);
