/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for a tool that looks for leaks, by the name of its library: preloaded. */
typedef int not_empty;
