#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each row of the table of CUDA's calls that allocates, maps, passes on, pins or ends memory, in a program whose memory
is managed, on the fake driver: what can move goes out and comes back with its content, what cannot says why, and no
row leaves anything behind. cuda_rows.c has the cases, and refuses a table that has a row more."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import check, main
from managed import MIB, back, memory, out, start, world

NAMED = 8  # reasons that are named of each process
SPARE = 64 * MIB  # of what is freed, for what is allocated next
PINNED = "shared", "retained", "stream-words"


def with_rows(stack):
    handle = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "handle")
    fermata = world(stack, CUDA_HANDLE=handle)
    giver = start(fermata)
    giver.do("alloc 2", "give 0")
    return fermata, giver


def rows_of(p):
    p.do("rows 0")
    return [(int(i), symbol, kind) for _, i, symbol, kind in (line.split() for line in p.lines if line.startswith("row "))]


def kinds(fermata, p):
    return {k: v for k, v in memory(fermata, p)["kinds"].items() if v and k != "small"}


def what_moves(stack):
    """All at once goes out, and comes back."""
    fermata, giver = with_rows(stack)
    p = start(fermata, name="cuda_rows")
    rows = [i for i, _, kind in rows_of(p) if kind in ("movable", "-")]
    check(len(rows) > 25, rows)
    before = kinds(fermata, p)
    p.do(*(f"make {i}" for i in rows))
    there = memory(fermata, p)
    check(not there["pinned_bytes"] and there["movable_bytes"] >= (len(rows) - 2) * 2 * MIB, there)
    p.do(*(f"check {i}" for i in rows))
    out(fermata, p)
    gone = memory(fermata, p)
    check(gone["resident_bytes"] == gone["foreign_bytes"], gone)
    p.tell(f"check {rows[0]}")  # it waits
    back(fermata, p)
    p.line("check", after=p.mark() - 1)
    p.do(*(f"check {i}" for i in rows), *(f"end {i}" for i in rows))
    left = kinds(fermata, p)
    check(left.pop("movable") <= before.pop("movable") + SPARE and left == before, f"{left}, not {before}")
    left = kinds(fermata, p)
    p.do(*(f"make {i}" for i in rows), *(f"end {i}" for i in rows))
    check(kinds(fermata, p) == left, f"{kinds(fermata, p)}, not {left}")
    p.ends()
    giver.ends()


def what_stays(stack):
    """One by one: it counts as what it is, its reason is told, and the rest goes out beside it."""
    fermata, giver = with_rows(stack)
    p, named = start(fermata, name="cuda_rows"), set()
    for i, symbol, kind in [r for r in rows_of(p) if r[2] not in ("movable", "-")]:
        if len(named) == NAMED - 1:  # it may be one of several
            p.ends()
            p, named = start(fermata, name="cuda_rows"), set()
        before = kinds(fermata, p)
        p.do(f"make {i}", f"check {i}")
        now = kinds(fermata, p)
        check(now.get(kind, 0) >= before.get(kind, 0) + 2 * MIB, f"{symbol}: {kind} of {before} is {now}")
        if kind in PINNED:
            pins = [(pin["kind"], pin["what"]) for pin in fermata.group(p.pid).get("pins", [])]
            words = "a word for a stream" if kind == "stream-words" else None
            check(any(k == kind and (words or symbol.removesuffix("_v2")).startswith(w.removesuffix("_v2")) or
                      k == kind and symbol in ("cuMemImportFromShareableHandle", "cuMulticastUnbind")
                      for k, w in pins), f"{symbol}: {pins}")
            named.update(pins)
        p.do(f"end {i}")
        after = kinds(fermata, p)
        check(after == before, f"{symbol}: {before} became {after}")
    p.ends()
    giver.ends()


def stays_beside_what_moves(stack):
    """A few of each kind, while the rest of the program goes out and comes back."""
    fermata, giver = with_rows(stack)
    p, some = start(fermata, name="cuda_rows"), {}
    rows = rows_of(p)
    for i, symbol, kind in rows:
        some.setdefault(kind, i)
    chosen = sorted(some.values()) + [i for i, symbol, _ in rows if symbol in ("cuMulticastBindMem", "cuIpcGetMemHandle")]
    p.do(*(f"make {i}" for i in chosen))
    before = memory(fermata, p)
    out(fermata, p)
    gone = memory(fermata, p)
    check(gone["host_bytes"] >= 2 * MIB and gone["resident_bytes"] == before["foreign_bytes"] + before["pinned_bytes"], gone)
    back(fermata, p)
    p.do(*(f"check {i}" for i in chosen), *(f"end {i}" for i in chosen))
    p.ends()
    giver.ends()


main(what_moves, what_stays, stays_beside_what_moves)
