/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Early start: a program goes on before all of its memory is on the device. What is not there yet
 * runs from the host, so it is slow to reach, and never missing; and the device does not begin with
 * a segment before the memory that the segment names has come.
 *
 * Each gate of a process has a number, in the order in which gates are placed. At a gate the device
 * waits until a word of the board, `memory', has reached the gate's number. It has said by then
 * that it stands, so a process that waits for its memory is at rest; and it waits for that before
 * it looks at the gate word, so a gate that is closed meanwhile is closed. Numbers and the word
 * wrap around: a word that is less than 2^31 behind a number has not reached it.
 *
 * Results are the same whatever the word is. So it may open at any time, for any reason, and it
 * does when the process exits.
 *
 * Only processes that can rest (rest.h) and have been told so (FERMATA_MEMORY_EARLY) have any of
 * this. Elsewhere gates and launches are as they are without it.
 *
 * Owns: the word (memory of struct fm_board), and the number of the last gate.
 * Locks: none; fm_early_stands() takes the client's.
 * Threads: one at a time holds (the mover); any opens, and any places gates.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fm_client;
struct fm_gate_words;

/* The program has been told to start early. */
bool fm_early_able(const struct fm_client *c);
/* The number of the last gate of the process. */
extern _Atomic uint32_t fm_early_number __attribute__((visibility("hidden")));

/* Gates from that number on wait, and those in front of it do not. */
void fm_early_hold(struct fm_client *c, uint32_t number);
/* All gates wait, those that were placed before among them. */
void fm_early_hold_all(struct fm_client *c);
/* None does. */
void fm_early_open(struct fm_client *c);
/* Does a gate with that number wait? */
bool fm_early_waits(const struct fm_client *c, uint32_t number);
/* Does each queue that has work stand at a gate? passed: how far all of them have come. */
bool fm_early_stands(struct fm_client *c, uint64_t *passed);

/* Within the module: a gate is placed now. */
void fm_early_place(struct fm_client *c, struct fm_gate_words *w);
