#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that may move, on the fake driver: programs see the same with it, it goes to the host and comes back by
hand, and whatever goes wrong meanwhile, the program goes on with what it had."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, SANITIZE, Skip, ask, check, eventually, halt, long, main, program, seldom_sanitized
from managed import MIB, Managed, back, out, start, world


def away(fermata, p):
    """Where the memory of its group is."""
    return ask(fermata.dir, "away", target=str(p.pid))["memory"][0]


def filled(fermata, *options, blocks=(3, 0, 20), **more):
    p = start(fermata, *options, **more)
    p.do(*(f"alloc {n}" for n in blocks), "pitch 5000", "fill 1", "check 1", "ask 0")
    return p


def goes_out_and_comes_back(stack):
    fermata = world(stack)
    p = filled(fermata)
    before = away(fermata, p)
    check(before["resident"] == before["movable"] >= 28 * MIB and not before["host"], before)
    out(fermata, p)
    there = away(fermata, p)
    check(not there["resident"] and there["host"] >= 27 * MIB and there["suspended"], there)
    why = fermata.cli("why", str(p.pid)).stdout
    check("suspended by hand, with" in why and "on the host" in why, why)
    p.tell("check 1")  # it waits
    back(fermata, p)
    p.line("check")
    after = away(fermata, p)
    check(after["resident"] == after["movable"] and not after["host"] and not after["suspended"], after)
    p.do("check 1", "fill 2", "free 0", "alloc 7", "fill 3", "check 3", "ask 0")
    for _ in range(5):
        out(fermata, p)
        back(fermata, p)
        p.do("check 3")
    p.ends()


def group(fermata, p):
    rows = json.loads(fermata.cli("ps", "--memory", "--json").stdout)
    rows = rows["groups"] if isinstance(rows, dict) else rows
    return next(r for r in rows if str(p.pid) in r["name"])


def counters(fermata, p):
    return group(fermata, p)["memory"][0]


def pins(fermata, p):
    """What keeps memory on the device, by name."""
    return [(pin["kind"], pin["what"], pin["by"]) for pin in group(fermata, p).get("pins", [])]


def keeps_what_has_not_changed(stack):
    """The second time nothing is copied to the host, then what has changed; never what is all zeros."""
    fermata = world(stack)
    p = filled(fermata)
    moved, kept = [], []
    for then in (["check 1"], ["check 1", "fill 3", "check 3"], ["check 3"]):
        out(fermata, p)
        row = counters(fermata, p)
        moved.append(row["moved_out_bytes"])
        kept.append(row["kept_bytes"])
        back(fermata, p)
        p.do(*then)
    p.ends()
    check(moved[0] >= 27 * MIB and moved[1] == moved[0], f"out: {moved}")
    check(kept[1] >= kept[0] + moved[0], f"kept: {kept}")
    check(moved[2] > moved[1], f"what has changed is copied: {moved}")


def answers_while_it_is_out(stack):
    """What is asked about memory needs no memory; and what is behind the gate runs when it is back."""
    fermata = world(stack)
    p = filled(fermata)
    p.do("graphs 7")
    for names in ("nodes 77", "update 0"):  # a node of a graph names an address, and so does a graph
        out(fermata, p)
        p.do("ask 0")
        mark = p.mark()
        p.tell(names)
        back(fermata, p)
        p.line(names.split()[0], after=mark)
    p.ends()


def refuses_what_is_not_managed(stack):
    fermata = world(stack)
    p = start(fermata, memory=None)
    p.do("alloc 5")
    r = fermata.cli("suspend", "--out", str(p.pid), check_status=False)
    check(r.returncode == 1 and "is not managed" in r.stderr and "anew, with `fermata run --memory'" in r.stderr, r.stderr)
    check(not fermata.group(p.pid)["suspended"], "it was suspended nevertheless")
    r = fermata.cli("suspend", "--wait", str(p.pid), check_status=False)
    check(r.returncode == 2 and "--out" in r.stderr, r.stderr)
    p.do("fill 1", "check 1")
    p.ends()


def manages_what_the_settings_name(stack):
    fermata = world(stack, config="[memory]\nmanage = note-*\n")
    p = filled(fermata, "--group", "note-1", memory=None)
    out(fermata, p)
    check(away(fermata, p)["host"] >= 27 * MIB, away(fermata, p))
    back(fermata, p)
    p.do("check 1")
    p.ends()
    for more in (["--group", "train"], ["--group", "note-2", "--no-memory"]):
        p = filled(fermata, *more, memory=None)
        r = fermata.cli("suspend", "--out", str(p.pid), check_status=False)
        check(r.returncode == 1 and "--memory" in r.stderr, f"{more}: {r.stderr}")
        p.ends()


def refuses_drivers(stack):
    """With a driver without what it takes programs have the driver's own memory, and say why."""
    fermata = world(stack, FAKE_CUDA_NO_VMM=1)
    p = filled(fermata)
    r = fermata.cli("suspend", "--out", str(p.pid), check_status=False)
    check(r.returncode == 1 and "driver" in r.stderr, r.stderr)
    check(not away(fermata, p)["movable"], "some of it is managed")
    p.do("check 1")
    p.ends()


def manages_ranks_and_several_devices(stack):
    for knob in ({"WORLD_SIZE": 2}, {"CUDA_VISIBLE_DEVICES": "0,1", "FAKE_CUDA_DEVICES": 2}):
        fermata = world(stack, **knob)
        p = filled(fermata)
        out(fermata, p)
        check(not away(fermata, p)["resident"], away(fermata, p))
        back(fermata, p)
        p.do("check 1")
        p.ends()


def a_device_that_cannot(stack):
    """What is allocated there is the driver's; that of the other device goes out as ever."""
    fermata = world(stack, FAKE_CUDA_DEVICES=2, FAKE_CUDA_FAIL="cuMemAddressReserve@2/1=801")
    p = filled(fermata)
    p.do("near 1", "other 1", "alloc 5", "fill 2")
    out(fermata, p)
    there = away(fermata, p)
    check(not there["resident"] and there["host"] >= 30 * MIB, there)
    back(fermata, p)
    p.do("check 2")
    p.ends()


def pinned_memory_stays(stack):
    """A word for which a stream waits pins what is around it, and so does one of a node; the rest goes out."""
    for words in ("words 0", "wordnode 0"):
        with contextlib.ExitStack() as inner:
            what_a_word_is_in_stays(inner, words)


def what_a_word_is_in_stays(stack, words):
    fermata = world(stack)
    p = filled(fermata)
    before = away(fermata, p)
    p.do(words, "fill 1")
    there = away(fermata, p)
    pinned = there["stays"] - before["stays"]
    check(pinned >= 3 * MIB and pinned + there["movable"] == before["movable"], there)
    check(pins(fermata, p) == [("stream-words", "a word for a stream", "the program")], pins(fermata, p))
    check("stream-words (a word" in fermata.cli("ps", "--memory").stdout, fermata.cli("ps", "--memory").stdout)
    out(fermata, p)
    there = away(fermata, p)
    check(there["stays"] - before["stays"] == pinned and there["host"] >= 20 * MIB and not there["resident"], there)
    back(fermata, p)
    p.do("check 1", "retain 2")
    check(("retained", "cuMemRetainAllocationHandle", "the program") in pins(fermata, p), pins(fermata, p))
    check(counters(fermata, p)["kinds"].get("retained", 0) >= 20 * MIB, counters(fermata, p))
    p.do("free 0")
    check("stream-words" not in fermata.cli("ps", "--memory").stdout, "what is freed is still named")
    p.ends()


NOBODY = b"nobody knows it."  # the fake driver's


def text_of(uuid):
    h = uuid.hex()
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))


def tables_pin(stack):
    """A table of the driver's of which nothing is known pins all memory, also what comes later."""
    fermata = world(stack)
    p = filled(fermata)
    p.do("table 1", "table 2")
    check(not counters(fermata, p)["pinned_bytes"], counters(fermata, p))
    p.do("table 0", "alloc 2")
    row = counters(fermata, p)
    check(row["kinds"].get("unknown-call", 0) >= 30 * MIB and not row["movable_bytes"], row)
    check("no gate stops" in away(fermata, p)["trouble"], away(fermata, p))
    uuid = text_of(NOBODY)
    check(pins(fermata, p) == [("unknown-call", f"table {uuid}", "the program")], pins(fermata, p))
    shown = f"pinned: unknown-call (table {uuid}, asked by the program)"
    check(f"cuda_managed-{p.pid}: {shown}" in fermata.cli("ps", "--memory").stdout, fermata.cli("ps", "--memory").stdout)
    why = fermata.cli("why", str(p.pid)).stdout
    check(shown in why and f"FERMATA_MEMORY_TABLES={uuid} " in why, why)
    r = fermata.cli("suspend", "--out", "--wait", str(p.pid), check_status=False)
    check(r.returncode == 5 and "none of its memory is out" in r.stderr and f"resume {p.pid}" in r.stderr, f"{r}")
    back(fermata, p)
    check("no gate stops" in away(fermata, p)["trouble"], away(fermata, p))
    p.do("fill 1", "check 1")
    p.ends()
    p = start(fermata)
    p.do("table 0", "alloc 3")  # before there is any
    check(not counters(fermata, p)["movable_bytes"] and len(pins(fermata, p)) == 1, group(fermata, p))
    p.ends()


def tables_for_which_the_user_answers(stack):
    fermata = world(stack, FERMATA_MEMORY_TABLES=f"nonsense, {text_of(NOBODY)}")
    p = filled(fermata)
    p.do("table 0")
    check(not counters(fermata, p)["pinned_bytes"] and not pins(fermata, p), counters(fermata, p))
    p.ends()


def unknown_calls_pin(stack):
    """A function of a newer driver's is handed out: before the first allocation, and with memory out."""
    fermata = world(stack, FAKE_CUDA_NEW=1)
    p = start(fermata)
    p.do("newer 0", "alloc 7", "fill 1")
    check(all(pin == ("unknown-call", pin[1], "the program") and pin[1].startswith("cu") for pin in pins(fermata, p)), pins(fermata, p))
    check(pins(fermata, p), "nothing is named")
    row = counters(fermata, p)
    check(row["kinds"].get("unknown-call", 0) >= 7 * MIB and not row["movable_bytes"], row)
    p.ends()
    p = filled(fermata)
    out(fermata, p)
    p.do("newer 0")  # its memory comes in for that
    row = counters(fermata, p)
    check(row["kinds"].get("unknown-call", 0) >= 28 * MIB and not row["movable_bytes"], row)
    back(fermata, p)
    p.do("check 1")
    p.ends()


def an_engine_comes(stack):
    """A library that reaches memory by itself, opened while memory is out: it comes in, and stays. Who looks for a
    function of it waits for that."""
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    engine = os.path.join(directory, "libnvidia-encode.so.1")
    shutil.copy(os.path.join(os.environ["BUILD"], "tests", "libcuda_plugin.so"), engine)
    fermata = world(stack, ENGINE=engine)
    for look in (0, 1):
        p = filled(fermata)
        out(fermata, p)
        p.do(f"engine {look}")
        if not look:
            eventually("it is in", lambda: not away(fermata, p)["host"])
        there = away(fermata, p)
        check(not there["host"] and there["suspended"], there)
        eventually("it stays", lambda: counters(fermata, p)["kinds"].get("engine", 0) >= 28 * MIB)
        fermata.cli("resume", "--wait", str(p.pid))
        p.do("check 1", "alloc 5", "fill 2", "check 2")
        p.ends()


def copies_that_wait(stack):
    """A copy for which the driver waits within the call waits outside, where gates close over it: memory goes out."""
    fermata = world(stack)
    p = filled(fermata)
    for kind in range(4):
        mark = p.mark()
        p.tell(f"waits {kind}")
        p.line("launched", after=mark)
        out(fermata, p)
        check(not away(fermata, p)["resident"], away(fermata, p))
        back(fermata, p)
        p.line("waits", after=mark)
        p.do("check 1")
    p.ends()


def copies_that_do_not_see_their_gate_close(stack):
    """The gate closes while the thread does not run that waits outside with such a copy: it does not go in for that."""
    fermata = world(stack)
    p = filled(fermata)
    mark = p.mark()
    p.tell("waits 1")
    p.line("launched", after=mark)
    halt(p.p)
    fermata.cli("suspend", "--out", str(p.pid))
    time.sleep(2.5)  # longer than a copy waits for what does not move (FM_CU_BEFORE_MOST)
    p.p.send_signal(signal.SIGCONT)
    out(fermata, p)
    check(not away(fermata, p)["resident"], away(fermata, p))
    back(fermata, p)
    p.line("waits", after=mark)
    p.do("check 1")
    p.ends()


def wished_memory_stays(stack):
    """memory-pin at the start pins for good; a wish that comes later holds while it is there."""
    fermata = world(stack)
    p = filled(fermata, "--memory-pin")
    row = counters(fermata, p)
    check(row["kinds"].get("pinned", 0) >= 28 * MIB and not row["movable_bytes"], row)
    check(pins(fermata, p) == [("pinned", "memory-pin", "")], pins(fermata, p))
    for pin in (1, 0):
        fermata.cli("hint", str(p.pid), f"memory-pin={pin}")
        r = fermata.cli("suspend", "--out", str(p.pid), check_status=False)
        check(r.returncode == 1 and "stays on the device, as memory-pin says" in r.stderr, r.stderr)
        check("without --memory-pin" in r.stderr, r.stderr)
    check(not fermata.group(p.pid)["suspended"], "it was suspended nevertheless")
    p.do("check 1", "free 0", "alloc 7", "fill 2", "check 2")
    check(not counters(fermata, p)["movable_bytes"], "what comes later is not pinned")
    p.ends()
    p = filled(fermata)
    fermata.cli("hint", str(p.pid), "memory-pin=1")
    r = fermata.cli("suspend", "--out", str(p.pid), check_status=False)
    check(r.returncode == 1 and "memory-pin=0" in r.stderr, r.stderr)
    fermata.cli("hint", str(p.pid), "memory-pin=0")
    out(fermata, p)
    back(fermata, p)
    p.do("check 1")
    p.ends()


def refused_pin_is_none(stack):
    """Who may not keep memory on the device is told so, and runs without that wish."""
    fermata = world(stack, config="[limits]\nmemory-pin_max = 0\n")
    p = filled(fermata, "--memory-pin", **fermata.somebody())
    check(not counters(fermata, p)["pinned_bytes"], counters(fermata, p))
    p.ends()


def exits_with_memory_out(stack):
    """What it has begun is finished with its memory in place."""
    fermata = world(stack)
    p = filled(fermata)
    out(fermata, p)
    p.ends()


def is_killed_with_memory_out(stack):
    fermata = world(stack)
    p = filled(fermata)
    out(fermata, p)
    p.kill()
    eventually("it is gone", lambda: not fermata.group(p.pid))


def is_killed_while_it_moves(stack):
    fermata = world(stack, FAKE_CUDA_COPY="0.05:0.05:0.08")
    for ms in (0, 20, 80, 200):
        for back_again in (False, True):
            p = filled(fermata)
            if back_again:
                out(fermata, p)
            fermata.cli(*(("resume",) if back_again else ("suspend", "--out")), str(p.pid))
            time.sleep(ms / 1000)
            p.kill()
            eventually("it is gone", lambda: not fermata.group(p.pid))


def is_killed_in_each_step(stack):
    """In that call of the driver: what it had on the device is another's, soon."""
    fermata = world(stack)
    going, coming = (1, "suspend", "--out"), (4, "resume")
    for call, (nth, *command) in (("cuMemHostRegister_v2", (2, *going[1:])), ("cuMemUnmap", going), ("cuMemRelease", going),
                                  ("cuMemCreate", coming), ("cuMemMap", coming), ("cuMemSetAccess", coming)):
        with contextlib.ExitStack() as inner:
            shared = {"FAKE_CUDA_CAPACITY": "64M", "FAKE_CUDA_DEVICE": os.path.join(
                inner.enter_context(tempfile.TemporaryDirectory()), "device")}
            fermata.env = {**fermata.env, **shared, "FAKE_CUDA_FAIL": f"{call}@{nth}/0=-9"}
            p = start(fermata)
            inner.callback(p.close)
            p.do("alloc 20", "alloc 21", "fill 1")  # three chunks, with the one of small blocks
            if command[0] == "resume":
                out(fermata, p)
            fermata.cli(*command, str(p.pid))
            check(p.wait() == -9, f"it was not killed in {call}, but ended with {p.p.returncode}")
            eventually("it is gone", lambda: not fermata.group(p.pid))
            fermata.env["FAKE_CUDA_FAIL"] = ""
            other = start(fermata)

            def fits():
                mark = other.mark()
                other.do("alloc 40")
                return "no memory" not in other.lines[mark:]

            eventually(f"its memory is free, after a kill in {call}", fits)
            other.ends()


def comes_in_when_the_daemon_dies(stack):
    fermata = world(stack)
    p = filled(fermata)
    out(fermata, p)
    fermata.kill()
    if not os.environ.get("FERMATA_TEST_STRICT"):  # there it stays stopped until another daemon runs
        p.do("check 1")
    fermata.start()
    fermata.knows(p.pid)
    p.do("check 1")
    check(not away(fermata, p)["host"], away(fermata, p))
    out(fermata, p)
    back(fermata, p)
    p.do("check 1")
    p.ends()


def comes_in_when_the_daemon_hangs(stack):
    """Also if the program has no work, but a thread that waits for its memory."""
    fermata = world(stack)
    p = filled(fermata)
    out(fermata, p)
    p.tell("alloc 1")
    halt(fermata.daemon)
    try:
        p.line("alloc", after=p.mark() - 1)
        p.do("fill 2", "check 2")
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)
    p.ends()


def full_host(stack):
    """Where the host has no room, the rest stays on the device, and the command says so."""
    fermata = world(stack, FERMATA_MEMORY_HOST="16M")
    p = filled(fermata)
    r = fermata.cli("suspend", "--out", "--wait", str(p.pid), check_status=False)
    check(r.returncode == 1 and "host has no memory" in r.stderr, r.stderr)
    back(fermata, p)
    p.do("check 1")
    p.ends()


def does_not_rest(stack):
    """A kernel that does not end: its memory stays, and the command says so when its time is over."""
    fermata = world(stack)
    p = filled(fermata)
    p.tell("hang 6000")
    p.line("hangs")
    r = fermata.cli("suspend", "--out", "--timeout", "3", str(p.pid), check_status=False)
    check(r.returncode == 1 and "does not end" in r.stderr, r.stderr)
    fermata.cli("resume", "--wait", str(p.pid))
    p.line("hang$")
    p.do("check 1")
    p.ends()


def refused_once(stack):
    """What the driver has refused is told until nobody wishes it any more, and then tried again."""
    fermata = world(stack, FAKE_CUDA_FAIL="cuMemUnmap@1/0=1")
    p = filled(fermata)
    r = fermata.cli("suspend", "--out", "--wait", str(p.pid), check_status=False)
    check(r.returncode == 1 and "the driver refuses" in r.stderr, r.stderr)
    back(fermata, p)
    eventually("it is forgotten", lambda: not away(fermata, p)["trouble"])
    out(fermata, p)
    check(away(fermata, p)["host"] >= 27 * MIB, away(fermata, p))
    back(fermata, p)
    p.do("check 1")
    p.ends()


def interrupted(argv, env):
    """Its status, and what was on the terminal, when ^C is given as soon as it shows how far it is."""
    ours, theirs = os.openpty()
    p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: it has ended
        while data := os.read(ours, 65536):
            if not shown:
                p.send_signal(signal.SIGINT)
            shown += data
    os.close(ours)
    return p.wait(), shown.decode()


def steered_while_it_cannot_come_in(stack):
    """Another has the room. Whoever waits for it may end the command; and who suspends the group again is told what it does."""
    fermata = world(stack, FAKE_CUDA_CAPACITY="64M", FAKE_CUDA_DEVICE=os.path.join(
        stack.enter_context(tempfile.TemporaryDirectory()), "device"))
    p = start(fermata, "--memory-request", "50M")
    p.do("alloc 40", "fill 1")
    out(fermata, p)
    other = start(fermata, "--memory-pin")
    other.do("alloc 40", "fill 2")
    status, shown = interrupted([FERMATA, "resume", "--wait", str(p.pid)], fermata.env)
    check(status == -signal.SIGINT and "on the host" in shown and shown.endswith("\r\n"), f"{status} {shown!r}")
    why = fermata.cli("why", str(p.pid)).stdout
    check(re.search(r"waits for its memory: 4[0-2]M of 42M", why) and "it goes on when its memory is in" in why, why)
    fermata.cli("suspend", str(p.pid))
    why = fermata.cli("why", str(p.pid)).stdout
    check(re.search(r"is suspended by hand; its memory comes in, and 4[0-2]M of 42M are still on the host", why), why)
    other.ends()
    eventually("it is in", lambda: not away(fermata, p)["host"])
    eventually("it is told", lambda: "is suspended by hand\n" in fermata.cli("why", str(p.pid)).stdout)
    fermata.cli("resume", str(p.pid))
    p.do("check 1")
    p.ends()


def two_that_do_not_fit(stack):
    """The second gets the memory of the first, which is out, and the first gets it back when the second is gone."""
    fermata = world(stack, FAKE_CUDA_CAPACITY="64M", FAKE_CUDA_DEVICE=os.path.join(
        stack.enter_context(tempfile.TemporaryDirectory()), "device"))
    first = start(fermata, "--memory-request", "50M")  # or it would go out by itself, as the second would
    first.do("alloc 40", "fill 1")
    second = start(fermata, "--memory-pin")
    second.do("alloc 40")
    second.line("no memory")
    out(fermata, first)
    mark = second.mark()
    second.do("alloc 40", "fill 2", "check 2")
    check("no memory" not in second.lines[mark:], "it got none")
    fermata.cli("resume", str(first.pid))
    first.tell("check 1")
    eventually("it says that the device is full", lambda: "device has no room" in away(fermata, first)["trouble"])
    why = fermata.cli("why", str(first.pid)).stdout
    check("waits for its memory" in why and "no room" in why, why)
    second.ends()
    first.line("check")
    first.do("check 1")
    first.ends()


def contexts_that_end(stack):
    fermata = world(stack)
    p = filled(fermata)
    out(fermata, p)
    back(fermata, p)
    p.do("end 0", "alloc 5", "fill 4", "check 4")
    out(fermata, p)
    back(fermata, p)
    p.do("check 4")
    p.ends()


def a_context_that_just_ends(stack):
    """Nothing of it is moved while the driver ends it."""
    fermata = world(stack)
    p = start(fermata)
    p.tell("leave 20")
    p.line("leaves")
    r = fermata.cli("suspend", "--out", "--timeout", "3", str(p.pid), check_status=False)
    check(r.returncode == 1, f"{r.stdout} {r.stderr} {away(fermata, p)}")
    check(not away(fermata, p)["host"], "memory of a context that ends has moved")
    fermata.cli("resume", str(p.pid))
    p.tell("on")
    p.line("leave$")
    p.do("alloc 5", "fill 1")
    out(fermata, p)
    back(fermata, p)
    p.do("check 1")
    p.ends()


def a_context_that_dies_meanwhile(stack):
    """Put out by hand or on its way back, what is out is lost with it, and the program is told what the driver says."""
    fermata = world(stack, FAKE_CUDA_COPY="0.05:0.05:0.08")
    for back_again in (False, True):
        p = filled(fermata)
        out(fermata, p)
        if back_again:
            fermata.cli("resume", str(p.pid))
        p.tell("lose 700")
        p.line("says 700")
        fermata.cli("resume", "--wait", str(p.pid))
        check(not away(fermata, p)["host"], away(fermata, p))
        p.tell("on")
        p.line("reset")
        p.ends()


def a_context_that_dies_in_each_step(stack):
    """In that call of the driver, on the way out or in: nothing waits for what was moving."""
    fermata = world(stack)
    going, coming = ("suspend", "--out", "--wait"), ("resume", "--wait")
    for call, nth, command in (("cuMemHostRegister_v2", 2, going), ("cuMemUnmap", 1, going), ("cuMemRelease", 1, going),
                               ("cuMemcpyDtoHAsync_v2", 2, going), ("cuMemCreate", 4, coming), ("cuMemMap", 4, coming),
                               ("cuMemSetAccess", 4, coming), ("cuMemMap", 5, coming), ("cuMemSetAccess", 5, coming)):
        fermata.env = {**fermata.env, "FAKE_CUDA_FAIL": f"{call}@{nth}/0=700!"}
        p = start(fermata)
        p.do("alloc 20", "alloc 21")  # three chunks, with the one of small blocks
        if command == coming:
            out(fermata, p)
        fermata.cli(*command, str(p.pid), check_status=False)
        p.tell("lose 0")
        try:
            p.line("says 700")
        except AssertionError as e:
            raise AssertionError(f"in {call}: {e}") from e
        fermata.cli("resume", "--wait", str(p.pid))
        check(not away(fermata, p)["host"], away(fermata, p))
        p.tell("on")
        p.line("reset")
        p.ends()


def another_device_meanwhile(stack):
    """Its first memory there waits for what is behind a gate, and the mover waits for nobody."""
    fermata = world(stack, FAKE_CUDA_DEVICES=2, FAKE_CUDA_LOCK=1)
    p = filled(fermata)
    p.do("near 1")
    fermata.cli("suspend", str(p.pid))
    p.tell("other 1")
    p.line("launched")
    out(fermata, p)
    back(fermata, p)
    p.line("other$")
    p.do("check 1")
    p.ends()


def first_memory_beside_work(stack):
    """What runs may wait for the very thread that allocates."""
    fermata = world(stack, FAKE_CUDA_DEVICES=2, FAKE_CUDA_LOCK=1)
    p = start(fermata)
    p.do("near 1")
    began = time.monotonic()
    p.tell("other 20000")
    p.line("allocated")
    check(time.monotonic() - began < 20, "it waited for a kernel")
    p.kill()


@long
def gives_host_memory_back_beside_launches(stack):
    """The driver waits for the device in that, and what is launched might wait for the program."""
    fermata = world(stack, FAKE_CUDA_LOCK=1, FERMATA_MEMORY_KEEP=0)
    p = filled(fermata)
    out(fermata, p)
    back(fermata, p)
    p.do("spin 1")
    p.tell("beside 30000")
    p.line("launched")
    began = time.monotonic()
    p.line("copied")
    check(time.monotonic() - began < 20, "it waited for a kernel")
    p.kill()


def frees_while_another_frees(stack):
    """A block that is free when a stream has come so far stays until it has."""
    fermata = world(stack)
    p = start(fermata)
    p.do("race 400")
    p.ends()


def without_a_daemon(stack):
    if SANITIZE:
        raise Skip("the sanitizer must come before what is preloaded")
    fermata = world(stack, start=False)
    p = Managed([program("cuda_managed")], env={**fermata.env, "FERMATA_MEMORY": "1",
                "LD_PRELOAD": os.path.join(os.environ["BUILD"], "lib", "libfermata-cuda.so")})
    stack.callback(p.close)
    p.line("ready")
    p.do("alloc 5", "alloc 130", "fill 1", "check 1", "ask 0", "free -1", "words 0")
    p.ends()


def spins_meanwhile(stack):
    """Memory moves again and again below a program that works all the time."""
    fermata = world(stack)
    p = filled(fermata)
    for i in range(10):
        p.tell("spin 200")
        p.tell(f"fill {i}")
        p.tell(f"check {i}")
        out(fermata, p)
        back(fermata, p)
    p.line("check", after=p.mark() - 1 if p.mark() else 0)
    p.ends()


SETS = ("cuda_order", "cuda_memory", "cuda_graph", "cuda_launch", "cuda_devices", "cuda_answers", "cuda_vmm",
        "cuda_async")


# A gate is put around what waits, and the driver says so (test_rest.py).
LEFT_OUT = {"cuda_answers": ("asked before",)}


def listed(fermata, name):
    run = subprocess.run([program(name), "--list"], env=fermata.env, check=True, capture_output=True, text=True)
    return [case for case in run.stdout.splitlines() if case not in LEFT_OUT.get(name, ())]


def sets(fermata, seconds):
    """The conformance sets, and what each notes natively."""
    for name in SETS:
        argv = [program(name), seconds, *listed(fermata, name)]
        run = subprocess.run([program(name), "0", *argv[2:]], env=fermata.env, capture_output=True, text=True)
        check(run.returncode == 0, f"{name} fails natively: {run.stderr}")
        yield name, argv, run.stdout.splitlines()


def same(name, p, want):
    check(p.wait() == 0, f"{name} ended with status {p.p.returncode}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    check(got == want, f"{name} differs: {[(g, w) for g, w in zip(got, want) if g != w][:5]}")


def sets_see_the_same(stack):
    fermata = world(stack, FAKE_CUDA_DEVICES=2)
    for name, argv, want in sets(fermata, "0.5"):
        same(name, fermata.program(argv, "--memory"), want)


@long
def sets_put_out_at_random(stack):
    """All of their memory goes out at any moment, again and again, until they end."""
    fermata = world(stack, FAKE_CUDA_DEVICES=2)
    rng, moves = random.Random(31), 0
    for name, argv, want in sets(fermata, "1"):
        p = fermata.program(argv, "--memory")
        until = time.monotonic() + 100
        while p.p.poll() is None and time.monotonic() < until:
            r = fermata.cli("suspend", "--out", "--timeout", "5", str(p.pid), check_status=False)
            moves += r.returncode == 0
            time.sleep(rng.uniform(0, 0.02))
            fermata.cli("resume", str(p.pid), check_status=False)
            time.sleep(rng.uniform(0, 0.05))
        same(name, p, want)
    print(f"         {moves} times out")
    check(moves > 5, "nothing was ever out")


def calls_that_fail_once(stack):
    """Whichever call of the driver fails that moves memory, the program has what it had."""
    for name in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemHostRegister_v2"):
        for at in (1, 3):
            with contextlib.ExitStack() as inner:
                fermata = world(inner, FAKE_CUDA_FAIL=f"{name}@{at}/0=1")
                p = start(fermata)
                p.do("alloc 20", "alloc 3", "fill 1")
                for _ in range(2):
                    fermata.cli("suspend", "--out", "--timeout", "3", str(p.pid), check_status=False)
                    fermata.cli("resume", "--wait", str(p.pid))
                    p.do("check 1")
                p.ends()


main(
    goes_out_and_comes_back,
    keeps_what_has_not_changed,
    answers_while_it_is_out,
    refuses_what_is_not_managed,
    manages_what_the_settings_name,
    refuses_drivers,
    manages_ranks_and_several_devices,
    a_device_that_cannot,
    pinned_memory_stays,
    tables_pin,
    tables_for_which_the_user_answers,
    unknown_calls_pin,
    an_engine_comes,
    copies_that_wait,
    copies_that_do_not_see_their_gate_close,
    wished_memory_stays,
    refused_pin_is_none,
    exits_with_memory_out,
    is_killed_with_memory_out,
    is_killed_while_it_moves,
    is_killed_in_each_step,
    comes_in_when_the_daemon_dies,
    *seldom_sanitized(comes_in_when_the_daemon_hangs),
    full_host,
    *seldom_sanitized(does_not_rest),
    refused_once,
    steered_while_it_cannot_come_in,
    two_that_do_not_fit,
    contexts_that_end,
    a_context_that_just_ends,
    a_context_that_dies_meanwhile,
    a_context_that_dies_in_each_step,
    another_device_meanwhile,
    first_memory_beside_work,
    *seldom_sanitized(gives_host_memory_back_beside_launches),
    frees_while_another_frees,
    without_a_daemon,
    spins_meanwhile,
    sets_see_the_same,
    *seldom_sanitized(sets_put_out_at_random),
    calls_that_fail_once,
)
