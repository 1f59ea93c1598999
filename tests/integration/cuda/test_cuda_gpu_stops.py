#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks that launch themselves on the device (<fermata/gpu_sched.h>, engine "graphs") and are stopped inside kernels, with
the guardian, on the fake driver: each block runs once, in its order, however often that is."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Worker, check, cuda_env, main, need_cuda_shim, program

SET = program("cuda_gpu_stops")


def world(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    place = os.path.join(fermata.dir, "libcudadevrt.a")
    with open(place, "wb") as f:
        f.write(b"!<arch>\n")  # the fake's linker is content with any library
    fermata.env = cuda_env({**fermata.env, "CUDA_DEVICE_MAX_CONNECTIONS": "32", "FAKE_CUDA_NARROW": "1",
                            "FERMATA_CUDA_DEVRT": place})
    return fermata


def case(fermata, name, *options):
    p = fermata.program([SET, name], *options)
    p.line("ok")
    check(p.wait() == 0, f"{name}: status {p.p.returncode}")


def a_chunk_is_stopped_inside(stack):
    fermata = world(stack)
    for name in "urgent", "suspended", "freed":
        case(fermata, name, "--guardian")


def a_chunk_is_not_stopped_inside(stack):
    fermata = world(stack)
    for name in "fill", "whole", "turn", "later", "resident", "slots":
        case(fermata, name, "--guardian")


def each_call_of_the_driver_fails_once(stack):
    case(world(stack), "fails", "--guardian")


def stopped_at_random(stack):
    fermata, rng = world(stack), random.Random(3)
    programs = [fermata.program([SET, "random", "400", str(seed)], "--guardian", cls=Worker) for seed in (1, 2)]
    for p in programs:
        p.line("ready")
        fermata.knows(p.pid)
    for p in programs:
        p.tell("go")
    fermata.suspend_at_random(rng, programs)
    for p in programs:
        p.line("done ")
        check(p.wait() == 0, f"status {p.p.returncode}")


def what_a_device_is_to_measure_can_be_measured(stack):
    """The numbers themselves are the fake's."""
    p = world(stack).program([program("cuda_gpu_rows"), "graphs", "inside", "100", "40"], "--guardian")
    row = p.line("row inside").split()
    check(len(row) == 6 and p.wait() == 0, f"{row}; status {p.p.returncode}")  # and each block ran once


if __name__ == "__main__":
    main(
        a_chunk_is_stopped_inside,
        a_chunk_is_not_stopped_inside,
        each_call_of_the_driver_fails_once,
        stopped_at_random,
        what_a_device_is_to_measure_can_be_measured,
    )
