#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks that decide on the device, with a resident warp (<fermata/gpu_sched.h>, engine "gates", `resident`), on the fake
driver: what a program sees of them, that they stop and go on as their group does, and what is in a trace."""
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, PATIENCE, Fermata, Worker, check, cuda_env, eventually, main, need_cuda_shim, program

CHANNELS = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "FAKE_CUDA_NARROW": "1"}  # NARROW: streams share so many channels
RESIDENT = program("cuda_gpu_resident")
STRICT, LAX = "[security]\nstrict = yes\n", "[security]\nstrict = no\n"  # a strict daemon refuses what this is about


def world(stack, config=LAX):
    need_cuda_shim()
    fermata = Fermata(stack, config)
    fermata.env = cuda_env({**fermata.env, **CHANNELS})
    return fermata


def case(fermata, name, *options):
    p = fermata.program([RESIDENT, name], *options)
    p.line("ok")
    check(p.wait() == 0, f"{name}: status {p.p.returncode}")


def worker(fermata, *options):
    w = fermata.program([RESIDENT, "worker"], *options, cls=Worker)
    w.line("ready")
    fermata.knows(w.pid)
    return w


def queue(fermata, w):
    """The set's: the program has one more, for its stores."""
    return next(q for q in fermata.group(w.pid)["queues"] if q["level"] == 3)


def people_see_its_tasks(stack):
    fermata = world(stack)
    w = worker(fermata)
    fermata.shows_set(w, "edf", tasks=3, resident=True)
    w.finish()


def what_a_program_sees(stack):
    fermata = world(stack)
    for name in "periods", "halves", "slower", "both", "words", "ends", "exits":
        case(fermata, name)


def calls_that_wait_for_the_device(stack):
    fermata = world(stack)
    case(fermata, "waits")
    case(fermata, "waits", "--guardian")
    case(fermata, "waits", "--memory")


def each_call_of_the_driver_fails_once(stack):
    case(world(stack), "fails")


def a_set_stops_with_its_group_and_goes_on(stack):
    fermata = world(stack)
    w = worker(fermata)
    for n in range(1, 3):
        w.advances()
        fermata.cli("suspend", str(w.pid))
        eventually("the set says that it stands", lambda: queue(fermata, w)["interrupts"] >= n)
        w.stands()
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


def the_daemon_dies_while_the_set_stands(stack):
    fermata = world(stack)
    w = worker(fermata)
    w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.kill()
    w.advances()
    w.finish()


def jobs_in_advance_get_a_turn(stack):
    fermata = world(stack)
    fermata.set_idles(fermata.program([RESIDENT, "idles"]), times=5)


def suspended_at_random(stack):
    fermata, rng = world(stack), random.Random(7)
    programs = [fermata.program([RESIDENT, "worker", "100"], cls=Worker) for _ in range(2)]
    for p in programs:
        p.line("ready")
        fermata.knows(p.pid)
    for p in programs:
        p.tell("go")
    times = fermata.suspend_at_random(rng, programs)
    for p in programs:
        done = p.line("done ").split()
        check(int(done[1]) > 0 and done[3] == "0" and p.wait() == 0, f"{done}, status {p.p.returncode}, stopped {times} times")


def traces_have_what_the_device_has_decided(stack):
    fermata = world(stack)
    path = os.path.join(fermata.dir, "trace")
    w = worker(fermata)
    recorder = subprocess.Popen([FERMATA, "trace", "record", "-o", path], env=fermata.env, stderr=subprocess.DEVNULL)
    stack.callback(recorder.kill)

    def events():
        lines = fermata.cli("trace", "dump", "--json", path).stdout.splitlines()
        return [e for e in map(json.loads, lines) if e.get("event", "").startswith("task_")]

    def completed(task):
        return [e for e in events() if e["event"] == "task_completed" and e["task"] == task]

    eventually("it records", lambda: os.path.exists(path) and os.path.getsize(path) > 56)
    eventually("each task has jobs there", lambda: all(len(completed(task)) > 3 for task in range(3)))
    recorder.terminate()
    check(recorder.wait(PATIENCE) == 0, "the recorder failed")
    w.finish()
    for task in range(3):
        of = [e for e in events() if e["task"] == task]
        kinds = [e["event"] for e in of]
        begun, over, released = (kinds.count("task_" + kind) for kind in ("began", "completed", "released"))
        check(released and begun >= over - 1, f"of {task}: {kinds}")
        check(of == sorted(of, key=lambda e: e["at"]) if "at" in of[0] else True, "not in order")
        check(all(e["response"] < PATIENCE * 10 ** 9 for e in of if e["event"] == "task_completed"), f"responses: {of}")


def what_a_device_is_to_measure_can_be_measured(stack):
    """The numbers themselves are the fake's."""
    fermata = world(stack)
    for mode, numbers in ("decisions 0 3", 3), ("decisions 1 3", 3), ("release 0", 2), ("release 1", 2), ("word", 2), \
            ("period 1000 50", 3), ("other 1", 3):
        p = fermata.program([program("cuda_gpu_rows"), *mode.split()])
        row = p.line("row " + mode.split()[0]).split()
        check(len(row) == 2 + numbers and all(float(number) >= 0 for number in row[2:]), f"{mode}: {row}")
        check(p.wait() == 0, f"{mode}: status {p.p.returncode}")
    for mode, numbers in ("overhead 1 5 100 20", 3), ("processor 1 1", 4), ("random 2 60 1", 5), ("jobs 0 10000 100 1", 3), \
            ("jobs 1 10000 100 1", 3), ("jobs 2 10000 100 1", 3):
        p = fermata.program([program("cuda_gpu_load"), *mode.split()])
        row = p.line("row " + mode.split()[0]).split()
        check(len(row) == 2 + numbers, f"{mode}: {row}")
        check(p.wait() == 0, f"{mode}: status {p.p.returncode}")
    for kind in "0", "1", "2":
        p = fermata.program([program("cuda_gpu_rows"), "hold", kind])
        p.line("ready")
        p.p.stdin.close()
        check(p.wait() == 0, f"hold {kind}: status {p.p.returncode}")


def in_strict_mode_it_does_not_start(stack):
    for _ in range(20):  # also where the daemon has not said yet that it is strict
        case(world(stack, STRICT), "refused")


def a_strict_daemon_that_comes_later_has_no_resident(stack):
    fermata = world(stack)
    w = worker(fermata)
    fermata.strict_and_lax(w)
    fermata.become(STRICT)
    fermata.knows(w.pid)
    fermata.stands_without_a_daemon(w)
    w.finish()


if __name__ == "__main__":
    main(
        what_a_program_sees,
        calls_that_wait_for_the_device,
        each_call_of_the_driver_fails_once,
        a_set_stops_with_its_group_and_goes_on,
        people_see_its_tasks,
        a_more_urgent_program_comes_first,
        the_daemon_dies_while_the_set_stands,
        jobs_in_advance_get_a_turn,
        suspended_at_random,
        traces_have_what_the_device_has_decided,
        what_a_device_is_to_measure_can_be_measured,
        in_strict_mode_it_does_not_start,
        a_strict_daemon_that_comes_later_has_no_resident,
    )
