#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each call of the CUDA shim's table, by a program over a driver that notes down what it is given: the driver gets
the program's arguments, once, the program what the driver returns, and the call is counted as docs/cuda-coverage.md
says, and as finished once the program has waited."""
import collections
import json
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import PATIENCE, Fermata, check, eventually, main, need_cuda_shim, program, shim_env

DRIVER = os.path.join(os.environ["BUILD"], "tests", "fakes", "recorder")
RESULTS = 3  # that each call is made for
ROWS = 16  # of names, on the board of a process
WAYS = "link", "dlsym", "proc"

# What the driver is not given as the program has it, by design. Each must be so.
CHANGED = {
    # a copy of the list, for the shim to add parameters; each entry is a launch
    "cuLaunchCooperativeKernelMultiDevice": r"ok differs 0 copied (\d+)",
}


def documented():
    """docs/cuda-coverage.md: of each symbol, what is under which heading."""
    rows, heading = {}, None
    with open(os.path.join(os.environ["SOURCE"], "docs", "cuda-coverage.md"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                heading = line[3:].strip()
            row = re.match(r"\| (cu\w+) \| (\w*) \| [\d.]+ \| (.*) \|$", line)
            for symbol in {row[1], row[1] + row[2]} if row else ():
                rows[symbol] = heading, row[3].strip()
    return rows


DOCUMENTED = documented()


def governed(symbol):
    return DOCUMENTED[symbol][0] == "Governed"


def only_orders(symbol):
    return governed(symbol) and DOCUMENTED[symbol][1].startswith("only orders")


class World:
    def __init__(self, stack, *args, start=True, **env):
        need_cuda_shim()
        self.fermata = Fermata(stack, start=start)
        self.fermata.env = {**shim_env(self.fermata.env), "LD_LIBRARY_PATH": DRIVER, **env}
        self.p = self.fermata.program([program("cuda_table"), *args])
        self.p.line("ready")
        entries = [line.split()[1:] for line in self.p.lines if line.startswith("entry ")]
        self.name = {symbol: name for symbol, name, *_ in entries}
        self.streams = {symbol: (*own, "default") for symbol, _, *own in entries}
        self.wide = {line.split()[1] for line in self.p.lines if line.startswith("wide ")}
        if start:
            self.control = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self.control.settimeout(PATIENCE)
            self.control.connect(os.path.join(self.fermata.dir, "control.sock"))
            self.replies = stack.enter_context(self.control.makefile("r"))

    def ask(self, *words):
        at = self.p.mark()
        self.p.tell(" ".join(words))
        return self.p.line("", after=at)

    def call(self, symbol, via, stream):
        """How many commands it is, where it is any."""
        answer = self.ask("call", symbol, via, stream)
        right = re.fullmatch(CHANGED.get(symbol, "ok"), answer)
        check(right, f"{symbol} by {via}, {stream} stream: {answer}")
        return RESULTS * int(right[1] if right.groups() else 1)

    def group(self):
        self.control.sendall(b'{"cmd": "ps"}\n')
        for g in json.loads(self.replies.readline())["groups"]:
            if any(q["pid"] == self.p.pid for q in g["queues"]):
                return g
        return None

    def counters(self):
        """What is counted, by queue and by name."""
        group = self.group() or {"queues": (), "calls": (), "ungoverned": 0, "undivided": 0}
        counted = {q["id"]: q["submitted"] for q in group["queues"]}
        counted.update({c["call"]: c["ungoverned"] for c in group["calls"]})
        return collections.Counter(counted, ungoverned=group["ungoverned"], undivided=group["undivided"])

    def adds(self, what, expected, before):
        """The daemon may come to know of a queue after its first launch."""
        def added():
            got[:] = [{k: n for k, n in (self.counters() - before).items() if n}]
            return got[0] == expected

        got = []
        try:
            eventually("that is counted", added)
        except AssertionError as e:
            raise AssertionError(f"{what}: {got[0]} is not {expected}") from e

    def finishes(self, what, queue, wait, stream):
        """Once the program has waited for the stream, no command of it counts as under way: each that began has ended."""
        self.call(wait, "link", stream)
        eventually(f"all that began on {queue} has ended ({what})", lambda: all(
            q["done"] == q["submitted"] for q in self.group()["queues"] if q["id"] == queue))

    def queues(self):
        """The program's stream, the context's default stream, and the thread's: their queues, made here."""
        queues = []
        for call in ("cuMemsetD8Async", "own"), ("cuMemsetD8_v2", "default"), ("cuMemsetD8_v2_ptds", "default"):
            self.call(call[0], "link", call[1])
            queues += eventually("it has a queue", lambda: {
                q["id"] for q in (self.group() or {"queues": ()})["queues"]} - set(queues))
        return queues


def each_call(w, counted=True):
    own, legacy, thread = w.queues() if counted else (None, None, None)
    before = w.counters() if counted else None
    for via in WAYS:
        for symbol in w.name:
            for stream in w.streams[symbol]:
                n = w.call(symbol, via, stream)
                per_thread = symbol.endswith(("_ptds", "_ptsz"))
                queue = own if stream == "own" else thread if per_thread else legacy
                command = governed(symbol) and not only_orders(symbol)
                what = f"{symbol} by {via}, {stream} stream"
                if counted:
                    w.adds(what, {queue: n} if command else {}, before)
                    before = w.counters()
                if counted and command:
                    w.finishes(what, queue, "cuStreamSynchronize_ptsz" if per_thread else "cuStreamSynchronize", stream)


def all_of_them(stack):
    """The table, the program and the document know the same calls."""
    w = World(stack, start=False)
    known = set(w.name) | w.wide
    check(known == set(DOCUMENTED), f"not the same: {known ^ set(DOCUMENTED)}")
    check(len(w.wide) <= 2, f"too many calls are not made: {w.wide}")
    check(set(CHANGED) < set(w.name), f"there is no such call: {set(CHANGED) - set(w.name)}")


def scheduled(stack):
    each_call(World(stack))


def where_images_are_rewritten(stack):
    """What loads code goes through the shim there."""
    each_call(World(stack, "code", FERMATA_GUARDIAN="1"))


def unscheduled(stack):
    each_call(World(stack, start=False), counted=False)
    each_call(World(stack, start=False, FERMATA_DISABLE="1"), counted=False)


def past_an_xqueue(stack):
    """What goes to a stream that can have none is counted by its name; what only orders is not."""
    w = World(stack, start=False)
    symbols = [s for s in w.name if governed(s)]
    names = sorted({w.name[s] for s in symbols})
    for row in range(0, len(names), ROWS):
        now = names[row:row + ROWS]
        w = World(stack)
        w.call("cuMemsetD8Async", "link", "other")
        w.fermata.knows(w.p.pid)
        check(w.ask("deny") == "ok", "no stream has a context")
        before = w.counters()
        for symbol, stream in ((s, stream) for s in symbols if w.name[s] in now for stream in w.streams[s]):
            n = w.call(symbol, "link", stream)
            expected = {} if only_orders(symbol) else {w.name[symbol]: n, "ungoverned": n}
            w.adds(f"{symbol}, {stream} stream", expected, before)
            before = w.counters()


def what_orders(stack):
    """It is no command; but the shim knows of it when it is asked whether the stream is idle."""
    w = World(stack)
    for symbol in w.name:
        if only_orders(symbol) and "own" in w.streams[symbol]:
            answer = w.ask("order", symbol)
            check(answer == "ok", f"{symbol}: {answer}")


if __name__ == "__main__":
    main(all_of_them, scheduled, where_images_are_rewritten, unscheduled, past_an_xqueue, what_orders)
