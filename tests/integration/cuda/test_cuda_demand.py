#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that goes out because another program needs the room, on the fake driver, whose device has too little for all
of them: no program fails, and each sees what it would see alone."""
import contextlib
import itertools
import mmap
import os
import re
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import SANITIZE, Skip, check, eventually, halt, long, main, program
from managed import MIB, memory, start


def world(stack, capacity="100M", **more):
    return managed.world(stack, capacity, **more)


def is_out(fermata, p):
    """Why its memory is out: "idle" or "demand"; False while it is on the device, or moves."""
    out = fermata.group(p.pid).get("out")
    return bool(out) and not out["moving"] and out["why"]


def no_refusal(*programs):
    for p in programs:
        check("no memory" not in p.lines, f"an allocation failed: {p.lines}")


def three_of_which_two_fit(stack):
    """Each is asked in turn. What it computes needs all of its memory."""
    fermata = world(stack)
    programs = [start(fermata) for _ in range(3)]
    for i, p in enumerate(programs):
        p.do("alloc 30", "alloc 8", f"fill {i}", f"check {i}")
    no_refusal(*programs)
    for turn in range(3):
        for i, p in enumerate(programs):
            p.do(f"check {i + 10 * (turn - 1) if turn else i}", f"fill {i + 10 * turn}", f"check {i + 10 * turn}", "ask 0")
    check(sum(memory(fermata, p)["moved_out_bytes"] for p in programs) >= 3 * 38 * MIB, "nothing went out")
    for p in programs:
        p.ends()
    no_refusal(*programs)


def all_at_once(stack):
    """They work at the same time, and take turns with their memory."""
    fermata = world(stack)
    programs = [start(fermata) for _ in range(3)]
    for i, p in enumerate(programs):
        p.do("alloc 40", f"fill {i}")
    for i, p in enumerate(programs):
        for _ in range(3):
            p.tell("spin 20")
            p.tell(f"fill {i + 7}")
            p.tell(f"check {i + 7}")
        p.tell("ask 0")
    for p in programs:
        p.line("ask", seconds=300)
        p.ends()
    no_refusal(*programs)


@long
def six_allocate_at_once(stack):
    """Three times of what the device has. Each waits for those before it, and none is refused."""
    fermata = world(stack)
    programs = [start(fermata) for _ in range(6)]
    for i, p in enumerate(programs):
        for command in ("alloc 25", "alloc 25", f"fill {i}", f"check {i}"):
            p.tell(command)
    for p in programs:
        p.line("check", seconds=300)
    no_refusal(*programs)
    for p in programs:
        p.ends()


def the_next_ones_memory_comes_in_beside(stack):
    """By turns: memory moves while another program computes, as the daemon counts it. What they compute is right."""
    fermata = world(stack, config="[daemon]\npolicy = round-robin\n[policy round-robin]\nslice = 50\n")
    programs = [start(fermata) for _ in range(3)]
    for i, p in enumerate(programs):
        p.do("alloc 40", f"fill {i}")

    def hidden():
        lines = fermata.cli("metrics").stdout.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("fermata_memory_hidden_seconds_total{"))

    for _ in range(8):
        marks = [p.mark() for p in programs]
        for p in programs:
            p.tell("spin 5000")
            p.tell("ask 0")
        for p, mark in zip(programs, marks):
            p.line("ask", after=mark, seconds=300)
        if hidden() > 0:
            break
    check(hidden() > 0, "memory never moved beside a program that ran")
    for i, p in enumerate(programs):
        p.do(f"check {i}")
    no_refusal(*programs)
    for p in programs:
        p.ends()


def says_how_long(stack):
    """Of one that is held: in words, in numbers, and in the table, while they take turns."""
    fermata = world(stack, config="[daemon]\npolicy = round-robin\n[policy round-robin]\nslice = 50\n")
    programs = [start(fermata) for _ in range(3)]
    for i, p in enumerate(programs):
        p.do("alloc 40", f"fill {i}")
    words = re.compile(r"is held for memory, now for .*: \S+ of its 42M of memory is missing.*, since it and .* together exceed "
                       r"the device by \S+M")
    said, asked = {}, itertools.cycle(programs)  # the plan may keep one of them on the device for good

    def all_is_said():
        for i, p in enumerate(programs):
            if p.mark() < marks[p]:  # not all is done that it was told
                continue
            for command in (f"check {i}", "spin 1000", f"check {i}"):  # what is not used is not waited for
                p.tell(command)
            marks[p] = p.mark() + 3
        for g in fermata.ps()["groups"]:
            out = g.get("out") or {}
            if out.get("waits_ms") and 0 < out["missing_bytes"] <= out["movable_bytes"] == 42 * MIB:
                said["over"] = said.get("over") or out["together"] > 1 and 2 * MIB < out["over_bytes"] < 64 * MIB
                said["time"] = said.get("time") or (out["in_ms"] or 0) > 0
            said["turn"] = said.get("turn") or any((m["next_turn_ms"] or 0) > 0 for m in g["memory"])
        said["words"] = said.get("words") or words.search(fermata.cli("why", str(next(asked).pid)).stdout)
        return len(said) == 4 and all(said.values())

    marks = {p: 0 for p in programs}
    try:
        eventually("all is said", all_is_said)
    except AssertionError as e:
        raise AssertionError(f"{e}; said: {said}; the last answers: {[p.lines[-2:] for p in programs]}; {fermata.ps()}") from e
    check(" TURN " in fermata.cli("ps", "--memory").stdout, "ps --memory has no turns")
    for i, p in enumerate(programs):
        p.do(f"check {i}")
        p.ends()
    no_refusal(*programs)


def an_idle_one_goes_out(stack):
    """It says so, and comes back when it is used."""
    fermata = world(stack)
    notebook = start(fermata, "--group", "notebook")
    notebook.do("alloc 60", "fill 1", "check 1")
    other = start(fermata, "--group", "other")
    other.do("alloc 60", "fill 2", "check 2")
    no_refusal(other)
    check(is_out(fermata, notebook) == "demand", memory(fermata, notebook))
    why = fermata.cli("why", str(notebook.pid)).stdout
    check("because other needed the room" in why and "memory-pin=1" in why, why)
    check("demand" in fermata.cli("ps", "--memory").stdout, "ps --memory does not say why it is out")
    notebook.do("check 1", "ask 0", "fill 3", "check 3")
    check(not is_out(fermata, notebook), memory(fermata, notebook))
    other.do("check 2")
    text = fermata.cli("metrics").stdout
    check('fermata_memory_held_seconds_total{group="notebook"' in text, text)
    notebook.ends()
    other.ends()


def one_that_is_not_managed_gets_room(stack):
    """Nothing of its memory moves, but that of an idle program goes out for it."""
    fermata = world(stack)
    notebook = start(fermata)
    notebook.do("alloc 60", "fill 1")
    other = start(fermata, memory=None)
    other.do("alloc 60", "fill 2", "check 2")
    no_refusal(other)
    other.ends()
    notebook.do("check 1")
    notebook.ends()


KINDS = "plain", "pitch", "pool", "from", "unified", "array", "mipmap", "vmm"


def every_kind_gets_room(stack):
    """Whatever makes memory waits until an idle program's has gone out, in programs that are managed and in others."""
    fermata = world(stack)
    notebook = start(fermata)
    notebook.do("alloc 60", "fill 1")
    for kind in KINDS[1::2] if SANITIZE else KINDS:
        for memory in ("--memory", None) if kind == "vmm" else ("--memory",):
            other = start(fermata, memory=memory, name="cuda_room")
            other.do(f"{kind} 60")
            no_refusal(other)
            check(is_out(fermata, notebook), f"{kind}: {notebook.lines}")
            other.ends()
            notebook.do("check 1")
    notebook.ends()


def a_newcomer_gets_room(stack):
    """What the driver needs for a context, which a program asks for before all else, and for one more."""
    fermata = world(stack, FAKE_CUDA_CONTEXT="20M")
    notebook = start(fermata)
    notebook.do("alloc 70", "fill 1")
    for memory in ("--memory", None):
        other = start(fermata, memory=memory, name="cuda_room")
        check(is_out(fermata, notebook) == "demand", other.lines)
        other.ends()
        notebook.do("check 1")
    other = start(fermata, memory=None, name="cuda_room")
    other.do("context 2")
    no_refusal(other)
    other.do("context 2")
    check("no memory" in other.lines, "there was memory")
    other.ends()
    notebook.do("check 1")
    notebook.ends()


def code_gets_room(stack):
    """What the driver loads at the first launch of a kernel, which otherwise fails."""
    fermata = world(stack)
    plain = dict(fermata.env)
    for memory in ("--memory", None):
        fermata.env = {**plain, "FAKE_CUDA_CODE": "4M"}
        other = start(fermata, memory=memory, name="cuda_room")
        fermata.env = plain
        notebook = start(fermata)
        notebook.do("alloc 60", "fill 1")
        while "no memory" not in notebook.lines:
            notebook.do("alloc 2")
        notebook.do("fill 1")
        other.do("launch 2")
        no_refusal(other)
        check(is_out(fermata, notebook) == "demand", notebook.lines)
        other.ends()
        notebook.do("check 1")
        notebook.ends()


def code_takes_what_there_is(stack):
    """Others have less than is asked for at first, and enough."""
    fermata = world(stack)
    plain = dict(fermata.env)
    kept, notebook = start(fermata, "--memory-pin"), start(fermata)
    fermata.env = {**plain, "FAKE_CUDA_CODE": "5M"}
    other = start(fermata, memory=None, name="cuda_room")
    kept.do("alloc 54")
    notebook.do("alloc 30")
    no_refusal(kept, notebook)
    notebook.do("fill 1")
    other.do("launch 1")
    no_refusal(other)
    check(is_out(fermata, notebook) == "demand", notebook.lines)
    for p in (other, kept, notebook):
        p.ends()


def loads_get_room(stack):
    """Modules, libraries, green contexts and streams: a driver may need room when they are loaded, and made."""
    fermata = world(stack)
    plain = dict(fermata.env)
    notebook = start(fermata)
    notebook.do("alloc 80", "fill 1")
    for command, memory in (("load 2", "--memory"), ("library 2", None), ("green 2", "--memory"), ("green 2", None),
                            ("stream 2", "--memory"), ("stream 2", None)):
        fermata.env = {**plain, "FAKE_CUDA_MODULE": "7M", "FAKE_CUDA_GREEN": "8M", "FAKE_CUDA_STREAM": "4M"}
        other = start(fermata, memory=memory, name="cuda_room")
        other.do(command)
        no_refusal(other)
        check(is_out(fermata, notebook) == "demand", f"{command}: {notebook.lines}")
        other.ends()
        notebook.do("check 1")
    notebook.ends()


def a_device_that_counts_as_smaller(stack):
    """Programs share what [memory] device_limit leaves of it as they would share a device that has no more."""
    fermata = world(stack, capacity="1G", config="[memory]\ndevice_limit = 100M\n")
    notebook = start(fermata)
    notebook.do("alloc 60", "fill 1")
    for kind, memory in (("plain", "--memory"), ("vmm", "--memory"), ("pool", None), ("pitch", None)):
        other = start(fermata, memory=memory, name="cuda_room")
        other.do(f"{kind} 60")
        no_refusal(other)
        check(is_out(fermata, notebook), f"{kind}: the device had more")
        other.do("plain 100")
        check("no memory" in other.lines, f"{kind}: it had more than the device")
        mark = other.mark()
        other.do("told 0")
        left, total = map(int, other.line(r"told \d", after=mark).split()[1:])
        check(total == 100 and 20 <= left <= 40, f"{kind}: it is told of {left} of {total} MiB")
        other.ends()
        notebook.do("check 1")
    pinned = start(fermata, "--memory-pin")
    pinned.do("alloc 60")
    no_refusal(pinned)
    notebook.tell("check 1")
    other = start(fermata, memory=None, name="cuda_room")
    other.do("plain 60")
    check("no memory" in other.lines, "there was memory")
    pinned.ends()
    notebook.line("check", after=notebook.mark() - 1)
    other.ends()
    notebook.ends()


def resumed_where_it_counts_as_smaller(stack):
    """[memory] device_limit: what is resumed by hand comes in as there is room, and whoever waits is told."""
    fermata = world(stack, config="[memory]\ndevice_limit = 64M\n")
    p = start(fermata)
    p.do("alloc 40", "fill 1")
    managed.out(fermata, p)
    other = start(fermata, "--memory-pin")
    other.do("alloc 40", "fill 2")
    no_refusal(other)
    r = fermata.cli("resume", "--timeout", "0.5", str(p.pid), check_status=False)
    check(r.returncode == 1 and "has no room" in r.stderr and "suspend --out" in r.stderr, r)
    on_device = sum(memory(fermata, q)["resident_bytes"] for q in (p, other))
    check(on_device <= 64 * MIB, f"{on_device} bytes on a device of 64 MiB")
    why = fermata.cli("why", str(p.pid)).stdout
    check("waits for its memory" in why and "has no room" in why and "hint: put another" in why, why)
    other.do("check 2")
    other.ends()
    managed.back(fermata, p)
    p.do("check 1")
    p.ends()


def goes_out_when_idle(stack):
    fermata = world(stack)
    p = start(fermata, "--idle-out", "200ms")
    p.do("alloc 30", "fill 1")
    eventually("it is out", lambda: is_out(fermata, p) == "idle")
    p.do("check 1")
    eventually("it is out again", lambda: is_out(fermata, p) == "idle")
    fermata.cli("hint", str(p.pid), "idle-out=0")
    p.do("fill 2", "check 2")
    check(not is_out(fermata, p), "it went out without a hint")
    p.ends()


def what_is_pinned_stays(stack):
    """By its hint, or within what was requested. Then an allocation fails as it does natively, and at once."""
    for options in (["--memory-pin"], ["--memory-request", "70M"]):
        fermata = world(stack)
        p = start(fermata, *options)
        p.do("alloc 60", "fill 1")
        other = start(fermata)
        other.do("alloc 60")
        check("no memory" in other.lines, "there was memory")
        check(not memory(fermata, p)["moved_out_bytes"], memory(fermata, p))
        other.do("alloc 20", "fill 2", "check 2")
        p.do("check 1")
        other.ends()
        p.ends()


def more_than_the_device_has(stack):
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 60", "fill 1")
    other = start(fermata)
    other.do("alloc 200")
    check("no memory" in other.lines, "there was memory")
    check(not memory(fermata, p)["moved_out_bytes"], "the other went out in vain")
    other.ends()
    p.ends()


def one_that_is_stopped(stack):
    """It does not go out; the allocation is refused, and both go on."""
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 60", "fill 1")
    halt(p.p)
    other = start(fermata)
    other.do("alloc 60")
    check("no memory" in other.lines, "there was memory")
    os.kill(p.pid, signal.SIGCONT)
    p.do("check 1")
    other.do("alloc 20", "fill 2", "check 2")
    other.ends()
    p.ends()


def the_daemon_dies(stack):
    """Those whose memory is out bring it in when there is room."""
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 60", "fill 1")
    other = start(fermata)
    other.do("alloc 60", "fill 2")
    no_refusal(other)
    fermata.kill()
    if os.environ.get("FERMATA_TEST_STRICT"):  # there they stay stopped until another daemon runs
        fermata.start()
    other.do("check 2")
    other.ends()
    p.do("check 1")
    p.ends()


def a_context_dies_with_its_memory_out(stack):
    """The program is told what the driver says, at once; nobody makes room for it, and what was out counts no more."""
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 60", "fill 1")
    other = start(fermata)
    other.do("alloc 60", "fill 2")
    check(is_out(fermata, p), "it is not out")
    p.tell("lose 719")
    p.line("says 719")
    eventually("it is not waited for", lambda: not memory(fermata, p)["host_bytes"] and not fermata.group(p.pid).get("out"))
    check(memory(fermata, p)["committed_bytes"] < 60 * MIB, memory(fermata, p))
    other.do("check 2")
    check(not memory(fermata, other)["moved_out_bytes"], "the other made room for it")
    p.tell("on")
    p.line("reset")
    third = start(fermata)
    third.do("alloc 60", "fill 3", "check 3")
    other.do("check 2")
    no_refusal(other, third)
    p.ends()
    other.ends()
    third.ends()


def another_daemon_takes_over(stack):
    """It finds memory that is out, and goes on by turns."""
    fermata = world(stack)
    p = start(fermata)
    p.do("alloc 60", "fill 1")
    other = start(fermata)
    other.do("alloc 60", "fill 2")
    fermata.kill()
    fermata.start()
    fermata.knows(p.pid)
    fermata.knows(other.pid)
    for _ in range(2):
        p.do("check 1")
        other.do("check 2")
    p.ends()
    other.ends()
    no_refusal(p, other)


def moved_in(stack, policy):
    """What comes in while three of which two fit are used in turn, as that policy of memory has it."""
    fermata = world(stack, config=f"[memory]\npolicy = {policy}\n")
    programs = [start(fermata) for _ in range(3)]
    for i, p in enumerate(programs):
        p.do("alloc 20", "alloc 18", f"fill {i}")
    before = sum(memory(fermata, p)["moved_in_bytes"] for p in programs)
    for _ in range(3):
        for i, p in enumerate(programs):
            p.do(f"check {i}", f"fill {i}")
    moved = sum(memory(fermata, p)["moved_in_bytes"] for p in programs) - before
    for i, p in enumerate(programs):
        p.do(f"check {i}")
        p.ends()
    no_refusal(*programs)
    return moved


def less_moves_than_by_whole_swaps(stack):
    """For the same turns, with the same results."""
    planned, whole = (moved_in(stack.enter_context(contextlib.ExitStack()), policy) for policy in ("jit", "whole"))
    print(f"         as planned {planned >> 20} MiB come in, by whole swaps {whole >> 20}")
    check(0 < planned < 0.95 * whole, f"as planned {planned} bytes, by whole swaps {whole}")


def killed_in_the_middle_of_a_load(stack):
    """A daemon, while a part of a program's memory is in. Another one goes on from there."""
    fermata = world(stack, FAKE_CUDA_COPY="0.15:0.3:0.3")
    programs = [start(fermata) for _ in range(2)]
    for i, p in enumerate(programs):
        p.do(*["alloc 12"] * 5, f"fill {i}")
    for turn in range(4):
        i, p = turn % 2, programs[turn % 2]
        mark = p.mark()
        p.tell(f"check {i}")

        def is_between():
            m = memory(fermata, p)  # noqa: B023
            return m["host_bytes"] > 10 * MIB and m["resident_bytes"] > 20 * MIB or p.mark() > mark  # noqa: B023

        eventually("a part of it is in", is_between)
        fermata.kill()
        fermata.start()
        p.line("check", after=mark)
        eventually("the daemon knows both again", lambda: all(fermata.group(q.pid) for q in programs))
        p.do(f"fill {i}")
    for i, p in enumerate(programs):
        p.do(f"check {i}")
        p.ends()
    no_refusal(*programs)


LIES = (
    {"resident": 1 << 50}, {"resident": (1 << 64) - 1, "host": (1 << 64) - 1}, {"kind[FM_MEM_MOVABLE]": 1 << 40},
    {"claimed": 1 << 50, "kind[FM_MEM_MOVABLE]": 1 << 50}, {"host": 20 << 20, "mapped": 20 << 20, "went_out": 0, "came_in": 0},
    {"resident": 0, "host": 1 << 30, "hot": 1 << 50}, {"reached": 0, "claimed": 0})


def a_ledger_lies(stack):
    """What is said of a program's memory is written over, again and again. The others see the same, and take turns."""
    if os.geteuid():
        raise Skip("only root may write another process's memory")
    fermata = world(stack)
    liar, *others = [start(fermata) for _ in range(3)]
    liar.do("alloc 10", "fill 9", "check 9")
    for i, p in enumerate(others):
        p.do("alloc 50", f"fill {i}")
    layout, words = (subprocess.run([program("memory_client"), option], check=True, capture_output=True, text=True).stdout
                     for option in ("--layout", "--words"))
    at = {name: int(layout.split()[3]) + int(place) for name, place in (line.split() for line in words.splitlines())}
    maps = f"/proc/{liar.pid}/map_files"
    path = next(f"{maps}/{n}" for n in os.listdir(maps) if "fermata-ledger" in os.readlink(f"{maps}/{n}"))
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), int(layout.split()[1])) as ledger:
        for lie in LIES[1:] if SANITIZE else LIES:
            true = {name: ledger[at[name]:at[name] + 8] for name in lie}
            for name, value in lie.items():
                ledger[at[name]:at[name] + 8] = struct.pack("=Q", value)
            for i, p in enumerate(others):
                p.do(f"check {i}")
            m = memory(fermata, liar)
            check(0 <= m["resident_bytes"] <= m["committed_bytes"] <= 1 << 50 and m["host_bytes"] <= m["movable_bytes"], m)
            for name, value in true.items():
                ledger[at[name]:at[name] + 8] = value
    check(f"{fermata.group(liar.pid)['name']} on GPU" in fermata.cli("ps", "--memory").stdout, "the liar is not told of")
    check(m["untrue"] and not any("untrue" in memory(fermata, p) for p in others), m)
    no_refusal(liar, *others)
    for i, p in enumerate(others):
        p.do(f"check {i}")
        p.ends()
    liar.do("check 9")
    liar.ends()


main(
    three_of_which_two_fit,
    all_at_once,
    six_allocate_at_once,
    the_next_ones_memory_comes_in_beside,
    says_how_long,
    an_idle_one_goes_out,
    one_that_is_not_managed_gets_room,
    every_kind_gets_room,
    a_newcomer_gets_room,
    code_gets_room,
    code_takes_what_there_is,
    loads_get_room,
    a_device_that_counts_as_smaller,
    resumed_where_it_counts_as_smaller,
    goes_out_when_idle,
    what_is_pinned_stays,
    more_than_the_device_has,
    one_that_is_stopped,
    the_daemon_dies,
    a_context_dies_with_its_memory_out,
    another_daemon_takes_over,
    *([less_moves_than_by_whole_swaps] if os.environ.get("FERMATA_TEST_LONG") else []),  # on a busy machine turns pass without work
    killed_in_the_middle_of_a_load,
    a_ledger_lies,
)
