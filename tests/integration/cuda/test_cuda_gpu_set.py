#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks that decide on the device (<fermata/gpu_sched.h>, engine "gates"), on the fake driver: what a program sees
of them, and that a set stops and goes on as its group does."""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, LONG, PATIENCE, Fermata, Worker, check, cuda_env, eventually, main, need_cuda_shim, program

CHANNELS = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "FAKE_CUDA_NARROW": "1"}  # NARROW: streams share so many channels
SET = program("cuda_gpu_set")


def world(stack, config=None, start=True):
    need_cuda_shim()
    fermata = Fermata(stack, config, start=start)
    fermata.env = cuda_env({**fermata.env, **CHANNELS})
    return fermata


def case(fermata, name, *options):
    p = fermata.program([SET, name], *options)
    p.line("ok")
    check(p.wait() == 0, f"{name}: status {p.p.returncode}")


def worker(fermata, *options):
    w = fermata.program([SET, "worker"], *options, cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def queue(fermata, w):
    return fermata.group(w.pid)["queues"][0]


def what_a_program_sees(stack):
    fermata = world(stack)
    for name in "refusals", "order", "drops", "enqueues", "contexts", "contexts-and-sets", "forks", "exits", "exits-and-frees", "free":
        case(fermata, name)


def calls_that_wait_for_the_device(stack):
    fermata = world(stack)
    case(fermata, "waits")
    case(fermata, "waits", "--guardian")
    case(fermata, "waits", "--memory")


def each_call_of_the_driver_fails_once(stack):
    case(world(stack), "fails")


def without_what_is_preloaded_there_is_no_such_engine(stack):
    fermata = world(stack, start=False)
    p = subprocess.run([SET, "order"], env=fermata.env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    check(p.returncode and "no set: -38" in p.stderr, f"status {p.returncode}: {p.stderr}")


def a_set_stops_with_its_group_and_goes_on(stack):
    fermata = world(stack)
    w = worker(fermata)
    for n in range(1, 3):
        w.advances()
        fermata.cli("suspend", str(w.pid))
        eventually("the set says that it stands", lambda: queue(fermata, w)["interrupts"] == n)
        w.stands()
        check(queue(fermata, w)["gate"] == "closed" and queue(fermata, w)["level"] == 3, f"it stands: {queue(fermata, w)}")
        fermata.cli("resume", str(w.pid))
    w.advances()
    w.finish()


def people_see_its_tasks(stack):
    fermata = world(stack)
    w = worker(fermata)
    fermata.shows_set(w, "fair", tasks=5)
    w.finish()


def a_kernel_of_a_chunk_faults(stack):
    """The set of that program is over; that of another one goes on."""
    fermata = world(stack)
    w = worker(fermata)
    for _ in range(3):
        case(fermata, "traps")
        w.advances()
    w.finish()


def a_kernel_is_launched_for_the_first_time(stack):
    """The driver would wait for the device then; an old one has no call that loads a kernel, and loads it when it is asked about it."""
    fermata = world(stack)
    fermata.env["FAKE_CUDA_FIRST"] = "wait"
    case(fermata, "first")
    case(fermata, "library")
    case(fermata, "first", "--guardian")
    case(fermata, "library", "--guardian")
    fermata.env["LD_LIBRARY_PATH"] = os.path.join(BUILD, "tests", "fakes", "of_12_3")
    case(fermata, "first")
    case(fermata, "library")


def at_level_2(stack):
    """A set stops at the end of a chunk, by its words and not by its level: one that may be stopped less deeply stops as well."""
    fermata = world(stack)
    w = worker(fermata, "--level", "2")
    for level in "3", "2":
        w.advances()
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.cli("resume", str(w.pid))
        fermata.cli("hint", str(w.pid), f"level={level}")
    w.advances()
    w.finish()


def suspended_for_long(stack):
    """In the middle of a job, with a worker beside: it stands for as long as that takes, and goes on."""
    fermata = world(stack)
    w = worker(fermata)
    w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    stood = w.position()
    other = fermata.cuda_worker(us=1000)
    other.advances(by=60 if LONG else 3)
    other.finish()
    check(w.position() == stood, f"{stood}: it ran while it was suspended")
    fermata.cli("resume", str(w.pid))
    w.advances()
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


def it_ends_without_a_turn_where_nothing_is_left(stack):
    fermata = world(stack)
    fermata.set_idles(fermata.program([SET, "idles"]), times=4)


def suspended_at_random(stack):
    fermata, rng = world(stack), random.Random(7)
    programs = [fermata.program([SET, "worker", "120"], cls=Worker) for _ in range(2)]
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
    fermata = world(stack, "[security]\nstrict = no\n")  # after a strict one it stands
    w = worker(fermata)
    w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.kill()
    w.advances()
    fermata.start()
    fermata.knows(w.pid)
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.advances()
    w.finish()


def in_strict_mode_it_stands_until_there_is_a_daemon(stack):
    fermata = world(stack, "[security]\nstrict = yes\n")
    w = worker(fermata)
    fermata.stands_without_a_daemon(w)
    w.finish()


if __name__ == "__main__":
    main(
        what_a_program_sees,
        calls_that_wait_for_the_device,
        each_call_of_the_driver_fails_once,
        without_what_is_preloaded_there_is_no_such_engine,
        a_set_stops_with_its_group_and_goes_on,
        people_see_its_tasks,
        a_kernel_of_a_chunk_faults,
        a_kernel_is_launched_for_the_first_time,
        at_level_2,
        suspended_for_long,
        a_more_urgent_program_comes_first,
        it_ends_without_a_turn_where_nothing_is_left,
        suspended_at_random,
        the_daemon_dies_while_the_set_stands,
        in_strict_mode_it_stands_until_there_is_a_daemon,
    )
