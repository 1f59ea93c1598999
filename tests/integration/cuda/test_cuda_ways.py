#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every way to allocate, on the fake driver. The table is the one of docs/memory.md ("Ways to allocate"): what it says
of each way must hold for a program that is managed, and for one that is not. It has a row for each call that
allocates in the shim's table (src/api/cuda/calls.def)."""
import collections
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import check, main
from managed import MIB, back, memory, out, start

SIZE = 20  # MiB, of each block

# How it is done: what the program is told; the owner of what is imported; options of fermata run.
Way = collections.namedtuple("Way", "commands owner options", defaults=((), ()))
WAYS = {
    "cuMemAlloc, from 2 MiB": Way(("alloc 20",)),
    "cuMemAlloc, less": Way(("alloc 0",)),
    "cuMemAllocPitch": Way(("pitch 20480",)),
    "cuMemAllocAsync": Way(("pool 20",)),
    "cuMemAllocFromPoolAsync, a pool of cuMemPoolCreate": Way(("ownpool 20",)),
    "cuMemAllocFromPoolAsync, a pool with handles": Way(("handpool 20",)),
    "cuMemAllocAsync, in a capture": Way(("captured 20",)),
    "cuGraphAddMemAllocNode": Way(("graphmem 20",)),
    "cuMemCreate and cuMemMap": Way(("vmm 20",)),
    "cuMemCreate, compressed": Way(("packed 20",)),
    "cuMemAllocManaged": Way(("unified 20",)),
    "cuArrayCreate, cuArray3DCreate": Way(("array 20",)),
    "cuMipmappedArrayCreate": Way(("mipmap 20",)),
    "variables of code": Way(("global 20",)),
    "cuIpcOpenMemHandle": Way(("take 20",), ("alloc 20", "give 0")),
    "cuMemImportFromShareableHandle": Way(("import 0",), ("vmm 20", "export 0")),
    "after cuIpcGetMemHandle": Way(("alloc 20", "give 0")),
    "after cuMemExportToShareableHandle": Way(("vmm 20", "export 0")),
    "after cuMemRetainAllocationHandle": Way(("alloc 20", "retain 0")),
    "with a word that a stream waits for": Way(("alloc 20", "words 0")),
    "registered with a network card": Way(("alloc 20", "card 0")),
    "with memory-pin": Way(("alloc 20",), (), ("--memory-pin",)),
}
SUMS = {"movable": "movable_bytes", "pinned": "pinned_bytes", "foreign": "foreign_bytes"}


def source(*path):
    with open(os.path.join(os.environ["SOURCE"], *path), encoding="utf-8") as f:
        return f.read()


def rows():
    """Of docs/memory.md: by way, what stands in its columns."""
    section = re.search(r"^### Ways to allocate\n(.*?)^###? ", source("docs", "memory.md"), re.M | re.S)[1]
    lines = [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
             for line in section.splitlines() if line.startswith("|")]
    return {cells[0]: dict(zip(lines[0][1:], cells[1:])) for cells in lines[2:]}


ROWS = rows()


def all_of_them(_):
    """The document, this test and the shim's table have the same ways."""
    check(set(ROWS) == set(WAYS), f"not the same: {set(ROWS) ^ set(WAYS)}")
    calls = re.findall(r"^CALL\((cu\w+), \w*, \w+, \d+, alloc\(\w", source("src", "api", "cuda", "calls.def"), re.M)
    check(len(calls) > 8, f"the table is not read: {calls}")
    named = {name for way in ROWS for name in re.findall(r"cu\w+", way)}
    check(set(calls) <= named, f"no row has {set(calls) - named}")


def world(stack):
    handle = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "handle")
    return managed.world(stack, CUDA_HANDLE=handle)


def kinds(fermata, p):
    groups = fermata.group(p.pid)["memory"]
    return groups[0]["kinds"] if groups else {}


def begin(stack, fermata, way, how):
    if way.owner:
        owner = start(fermata)  # the driver's own handles are not the fake's matter
        owner.do(*way.owner)
        stack.callback(owner.ends)
    p = start(fermata, *way.options, memory=how)
    p.do(*way.commands)
    return p


def moves(fermata, p, row, size):
    """It goes out, or stays; what it holds is the same."""
    p.do("fill 1", "check 1")
    stays = row["goes out"] == "no"
    if row["kind"] == "pinned":
        check("memory-pin" in fermata.cli("suspend", "--out", str(p.pid), check_status=False).stderr, "it may go out")
        return
    if stays:
        fermata.cli("suspend", "--out", str(p.pid))
    else:
        out(fermata, p)
    there = memory(fermata, p)
    check((there["host_bytes"] >= size) != stays, f"host has {there}")
    check((there["resident_bytes"] >= there["foreign_bytes"] + there["pinned_bytes"]), f"{there}")
    back(fermata, p)
    p.do("check 1", "fill 2", "check 2")


def each(stack, how, column):
    fermata = world(stack)
    for name, way in WAYS.items():
        row, kind = ROWS[name], ROWS[name][column]
        if kind == "-":
            continue
        p = begin(stack, fermata, way, how)
        size = 1 if "less" in name else SIZE * MIB
        try:
            has = kinds(fermata, p)
            check(has.get(kind, 0) >= size, f"it is no {kind}")
            others = {k: n for k, n in has.items() if n and k not in (kind, "context")}
            check(sum(others.values()) < SIZE * MIB, f"it is something else, too: {others}")
            if column == "kind":
                check(memory(fermata, p)[SUMS[row["sum"]]] >= size, f"not in {row['sum']}")
                moves(fermata, p, row, size)
                mark = p.mark()
                if row["IPC"] != "-":
                    p.do("give 0")
                    check(("refused" in p.lines[mark:]) == (row["IPC"] == "no"), f"IPC: {p.lines[mark:]}")
            p.ends()
        except AssertionError as e:
            raise AssertionError(f"{name}: {e}; it has {kinds(fermata, p)}; {p.lines[-3:]}") from e


def of_managed_programs(stack):
    each(stack, "--memory", "kind")


def of_others(stack):
    each(stack, "--no-memory", "not managed")


def graphs_before_management(stack):
    """A program that runs stays as it is, and so do its graphs; one that begins then is managed."""
    fermata = managed.world(stack, config="[memory]\nmanage = off\n")
    p = start(fermata, memory=None)
    p.do("alloc 20", "graphs 7", "relaunch 0")
    with open(os.path.join(fermata.dir, "fermatad.conf"), "w", encoding="ascii") as conf:
        conf.write("[memory]\nmanage = all\n")
    fermata.cli("reload")
    p.do("alloc 20")
    check(not kinds(fermata, p).get("movable"), kinds(fermata, p))
    check(fermata.cli("suspend", "--out", str(p.pid), check_status=False).returncode == 1, "it is managed all at once")
    p.do("relaunch 0", "update 0", "relaunch 1")
    p.ends()
    p = start(fermata, memory=None)
    p.do("alloc 20")
    check(kinds(fermata, p).get("movable", 0) >= SIZE * MIB, kinds(fermata, p))
    p.ends()


def graphs_before_a_daemon(stack):
    """Memory is managed from the first block on, daemon or not: what a graph names stays where it is."""
    fermata = managed.world(stack, start=False)
    p = start(fermata)
    p.do("alloc 20", "graphs 7", "relaunch 0")
    fermata.start()
    fermata.knows(p.pid)
    for n in range(2):
        out(fermata, p)
        check(memory(fermata, p)["host_bytes"] >= SIZE * MIB, memory(fermata, p))
        back(fermata, p)
        p.do(f"relaunch {n}", "update 0")
    p.ends()


main(graphs_before_management, graphs_before_a_daemon, all_of_them, of_managed_programs, of_others)
