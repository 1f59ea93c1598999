// SPDX-License-Identifier: Apache-2.0
// Each word goes `steps` steps further. vulkan_steps.h is made of this:
//   glslangValidator -V --vn vulkan_steps -o vulkan_steps.h vulkan_steps.comp
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Words { uint word[]; };
layout(push_constant) uniform How { uint steps; };

void main()
{
    uint x = word[gl_GlobalInvocationID.x];

    for (uint i = 0u; i < steps; i++)
        x = x * 1664525u + 1013904223u;
    word[gl_GlobalInvocationID.x] = x;
}
