/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* At the start of main(): with a standard descriptor closed, the next file opened would take its
 * place, and be written to. The stand-in closes on exec. */
void fm_descriptors_occupy(void);
