#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that goes out because another program needs the room, on the fake driver, whose device has too little for all
of them: no program fails, and each sees what it would see alone."""
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import SANITIZE, Fermata, Program, check, cuda_env, eventually, main, need_cuda_shim, program

MIB = 1 << 20


class Managed(Program):
    def do(self, *commands):
        for command in commands:
            mark = self.mark()
            self.tell(command)
            self.line(command.split()[0], after=mark)

    def ends(self):
        self.p.stdin.close()
        check(self.wait() == 0, f"it ended with status {self.p.returncode}")


def world(stack, capacity="100M", config=None, **env):
    need_cuda_shim()
    fermata = Fermata(stack, config=config)
    device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
    fermata.env = cuda_env({**fermata.env, "FAKE_CUDA_CAPACITY": capacity, "FAKE_CUDA_CONTEXT": "1M",
                            "FAKE_CUDA_DEVICE": device, **env})
    return fermata


def start(fermata, *options, memory="--memory", name="cuda_managed"):
    p = fermata.program([program(name)], *filter(None, [memory]), *options, cls=Managed)
    p.line("ready")
    fermata.knows(p.pid)
    return p


def memory(fermata, p):
    return fermata.group(p.pid)["memory"][0]


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
    check("of memory is on the host, because other needed the room" in why and "memory-pin=1" in why, why)
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
    os.kill(p.pid, signal.SIGSTOP)
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


main(
    three_of_which_two_fit,
    all_at_once,
    the_next_ones_memory_comes_in_beside,
    an_idle_one_goes_out,
    one_that_is_not_managed_gets_room,
    every_kind_gets_room,
    a_newcomer_gets_room,
    a_device_that_counts_as_smaller,
    goes_out_when_idle,
    what_is_pinned_stays,
    more_than_the_device_has,
    one_that_is_stopped,
    the_daemon_dies,
    a_context_dies_with_its_memory_out,
    another_daemon_takes_over,
)
