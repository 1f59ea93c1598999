#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks that launch themselves on the device (<fermata/gpu_sched.h>, engine "graphs"), on the fake driver: what a
program sees of them, and that a set stops at a chunk's end and goes on as its group does."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Worker, check, cuda_env, eventually, main, need_cuda_shim, program

CHANNELS = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "FAKE_CUDA_NARROW": "1"}  # NARROW: streams share so many channels
SET = program("cuda_gpu_graphs")


LAX = "[security]\nstrict = no\n"  # a strict daemon refuses sets that are resident


def world(stack, runtime=b"!<arch>\n", config=None):
    """The fake's linker is content with any library; here, as where there is no toolkit, it is one of ours."""
    need_cuda_shim()
    fermata = Fermata(stack, config)
    place = os.path.join(fermata.dir, "libcudadevrt.a")
    if runtime:
        with open(place, "wb") as f:
            f.write(runtime)
    fermata.env = cuda_env({**fermata.env, **CHANNELS, "FERMATA_CUDA_DEVRT": place})
    return fermata


def case(fermata, name, *options):
    p = fermata.program([SET, name], *options)
    p.line("ok")
    check(p.wait() == 0, f"{name}: status {p.p.returncode}")


def worker(fermata, *options, kind="worker"):
    w = fermata.program([SET, kind], *options, cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def queue(fermata, w):
    """That of the set: the program has one of its own, too, for its memory."""
    return next(q for q in fermata.group(w.pid)["queues"] if 3 in q["levels"])


def what_a_program_sees(stack):
    fermata = world(stack)
    for name in "refusals", "order", "own", "enqueues", "waits", "contexts", "forks", "exits", "exits-and-frees", "free", "again", "parks":
        case(fermata, name)
    case(fermata, "waits", "--guardian")
    case(fermata, "own", "--memory")


def sets_that_are_resident(stack):
    fermata = world(stack, config=LAX)
    for name in "resident", "resident-ends":
        case(fermata, name)
    case(fermata, "resident", "--guardian")


def sets_of_several_slots(stack):
    fermata = world(stack)
    for name in "slots", "slots-own", "slots-at-once":
        case(fermata, name)


def what_a_device_is_to_measure_can_be_measured(stack):
    fermata = world(stack, config=LAX)
    p = fermata.program([SET, "measure", "3"])
    check(len(p.line("row 3").split()) == 7 and p.wait() == 0, f"status {p.p.returncode}")
    for mode, numbers in ("decisions 0 3", 3), ("decisions 1 3", 3), ("release 0", 2), ("release 1", 2), ("word", 2), \
            ("period 1000 50", 3), ("inside 20 3", 4):
        p = fermata.program([program("cuda_gpu_rows"), "graphs", *mode.split()])
        row = p.line("row " + mode.split()[0]).split()
        check(len(row) == 2 + numbers and all(float(number) >= 0 for number in row[2:]), f"{mode}: {row}")
        check(p.wait() == 0, f"{mode}: status {p.p.returncode}")
    check(row[4] == "0", f"without the guardian it was stopped {row[4]} times")


def each_call_of_the_driver_fails_once(stack):
    case(world(stack), "fails")
    case(world(stack, config=LAX), "resident-fails")


def without_a_device_runtime_it_does_not_start(stack):
    case(world(stack, runtime=None), "no-runtime")
    case(world(stack, runtime=b"not a library"), "refused-runtime")
    fermata = world(stack, runtime=None)
    os.mkfifo(os.path.join(fermata.dir, "libcudadevrt.a"))  # nobody waits for what comes of it
    case(fermata, "no-runtime")


def stops_and_goes_on(fermata, kind):
    w = worker(fermata, kind=kind)
    for n in range(1, 3):
        w.advances()
        fermata.cli("suspend", str(w.pid))
        eventually("the set says that it stands", lambda: queue(fermata, w)["interrupts"] == n)
        w.stands()
        check(queue(fermata, w)["gate"] == "closed" and queue(fermata, w)["level"] == 3, f"it stands: {queue(fermata, w)}")
        fermata.cli("resume", str(w.pid))
    w.advances()
    w.finish()


def a_set_stops_with_its_group_and_goes_on(stack):
    fermata = world(stack)
    for kind in "worker", "slots-worker":
        stops_and_goes_on(fermata, kind)
    stops_and_goes_on(world(stack, config=LAX), "resident-worker")


def people_see_its_tasks(stack):
    for kind, tasks, resident in ("worker", 5, False), ("resident-worker", 6, True):
        fermata = world(stack, config=LAX if resident else None)
        w = worker(fermata, kind=kind)
        fermata.shows_set(w, "fair", tasks=tasks, resident=resident)
        w.finish()


def a_more_urgent_program_comes_first(stack):
    fermata = world(stack)
    w = worker(fermata, "--priority", "1")
    w.advances()
    urgent = fermata.cuda_worker("--priority", "5", us=5000)
    eventually("the set stops", lambda: queue(fermata, w)["interrupts"])
    urgent.finish()
    w.advances()
    w.finish()


def suspended_at_random(stack):
    fermata, rng = world(stack, config=LAX), random.Random(11)
    programs = [fermata.program([SET, kind, "120"], cls=Worker) for kind in ("worker", "resident-worker")]
    for p in programs:
        p.line("ready")
        fermata.knows(p.pid)
    for p in programs:
        p.tell("go")
    times = fermata.suspend_at_random(rng, programs)
    for p in programs:
        done = p.line("done ").split()
        check(int(done[1]) > 0 and done[3] == "0" and p.wait() == 0, f"{done}, status {p.p.returncode}, stopped {times} times")


def the_daemon_dies_while_the_set_stands(stack):
    fermata = world(stack, config=LAX)  # after a strict one it stands
    w = worker(fermata)
    w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.kill()
    w.advances()
    w.finish()


def a_strict_daemon_that_comes_later_has_no_resident(stack):
    fermata = world(stack, config=LAX)
    w = worker(fermata, kind="resident-worker")
    fermata.strict_and_lax(w)
    w.finish()


if __name__ == "__main__":
    main(
        what_a_program_sees,
        sets_that_are_resident,
        sets_of_several_slots,
        what_a_device_is_to_measure_can_be_measured,
        each_call_of_the_driver_fails_once,
        without_a_device_runtime_it_does_not_start,
        a_set_stops_with_its_group_and_goes_on,
        people_see_its_tasks,
        a_more_urgent_program_comes_first,
        suspended_at_random,
        the_daemon_dies_while_the_set_stands,
        a_strict_daemon_that_comes_later_has_no_resident,
    )
