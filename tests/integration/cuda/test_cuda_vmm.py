#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that programs map themselves (cuMemCreate, cuMemMap), and that of pools, on the fake driver: it goes out and
comes back as other memory does. That programs see the same is in test_cuda_managed.py, by the sets cuda_vmm and
cuda_async."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import SANITIZE, Skip, check, main
from managed import MIB, back, memory, out, start, world


def goes_out_and_comes_back(stack):
    fermata = world(stack)
    p = start(fermata)
    p.do("vmm 46", "alloc 5", "fill 1", "check 1")
    before = memory(fermata, p)
    check(before["kinds"]["movable"] >= 51 * MIB and not before["kinds"].get("vmm"), before)
    for i in range(3):
        out(fermata, p)
        there = memory(fermata, p)
        check(there["host_bytes"] >= 46 * MIB and there["resident_bytes"] == there["foreign_bytes"], there)
        p.tell(f"check {i + 1}")  # it waits
        back(fermata, p)
        p.line("check", after=p.mark() - 1)
        p.do(f"fill {i + 2}", f"check {i + 2}")
    p.do("vmm 20", "free 0", "fill 9", "check 9")  # the larger one goes, while its neighbours stay
    out(fermata, p)
    back(fermata, p)
    p.do("check 9", "free 1", "free 0")
    after = memory(fermata, p)
    check(after["committed_bytes"] < before["committed_bytes"] - 40 * MIB, after)
    p.ends()


def makes_room_for_another(stack):
    """Each of two has most of the device, and both go on."""
    fermata = world(stack, "64M")
    one, two = start(fermata), start(fermata)
    for i, p in enumerate((one, two)):
        p.do("vmm 40", f"fill {i}", f"check {i}")
    one.do("check 0", "fill 5", "check 5")
    two.do("check 1")
    for p in (one, two):
        check("no memory" not in p.lines, f"an allocation failed: {p.lines}")
        p.ends()


def keeps_to_a_limit(stack):
    fermata = world(stack)
    p = start(fermata, memory="--memory=84M")
    p.do("vmm 90")
    p.line("no memory")
    check(memory(fermata, p)["movable_bytes"] < 20 * MIB, memory(fermata, p))
    mark = p.mark()
    p.do("vmm 40", "fill 1", "check 1")
    check("no memory" not in p.lines[mark:], "what fits is refused")
    p.ends()


def stays_when_it_is_passed_on(stack):
    """Another process may write there at any time."""
    fermata = world(stack)
    p = start(fermata)
    p.do("vmm 40", "vmm 20", "fill 1", "pass 0")
    check(memory(fermata, p)["kinds"].get("shared") == 40 * MIB, memory(fermata, p))
    out(fermata, p)
    there = memory(fermata, p)
    check(there["host_bytes"] >= 20 * MIB, there)
    check(there["resident_bytes"] == there["foreign_bytes"] + 40 * MIB, there)
    back(fermata, p)
    p.do("check 1")
    p.ends()


def words_pin_it(stack):
    """A word for which a stream waits keeps its piece on the device."""
    fermata = world(stack)
    p = start(fermata)
    p.do("vmm 40", "words 0", "fill 1")
    check(memory(fermata, p)["kinds"].get("stream-words") == 20 * MIB, memory(fermata, p))
    out(fermata, p)
    back(fermata, p)
    p.do("check 1")
    p.ends()


def outlives_its_context(stack):
    fermata = world(stack)
    p = start(fermata)
    p.do("vmm 26", "fill 1", "check 1")
    out(fermata, p)
    back(fermata, p)
    p.do("renew 0", "check 1", "alloc 3", "fill 2")
    out(fermata, p)
    check(memory(fermata, p)["host_bytes"] >= 26 * MIB, memory(fermata, p))
    back(fermata, p)
    p.do("check 2")
    p.ends()


def pools_go_out(stack):
    """Memory in the order of streams is memory like other; what is freed is kept on its way out alone."""
    fermata = world(stack)
    p = start(fermata)
    p.do("pool 40", "alloc 3", "pool 6", "fill 1", "check 1", "ask 0")
    before = memory(fermata, p)
    check(before["kinds"]["movable"] >= 49 * MIB and not before["kinds"].get("pool"), before)
    for i in range(2):
        out(fermata, p)
        there = memory(fermata, p)
        check(there["host_bytes"] >= 46 * MIB and there["resident_bytes"] == there["foreign_bytes"], there)
        back(fermata, p)
        p.do(f"check {i + 1}", f"fill {i + 2}", f"check {i + 2}")
    p.do("free 0", "free 0", "alloc 1")
    check(memory(fermata, p)["resident_bytes"] < before["resident_bytes"] - 30 * MIB, memory(fermata, p))
    p.ends()


def trimmed_while_out(stack):
    """A pool that is to give back what nobody uses waits until its memory is in."""
    fermata = world(stack)
    p = start(fermata)
    p.do("pool 40", "pool 6", "again 3", "fill 1")
    for i in range(2):
        out(fermata, p)
        p.tell("trim 0")
        p.tell(f"check {i + 1}")
        back(fermata, p)
        p.line("check", after=p.mark() - 2)
        p.do(f"fill {i + 2}")
    p.ends()


def a_pool_ends_while_out(stack):
    """What somebody has of it stays, and comes back; the rest of the program goes on."""
    fermata = world(stack)
    p = start(fermata)
    p.do("ownpool 20", "alloc 4", "fill 1")
    out(fermata, p)
    check(memory(fermata, p)["host_bytes"] >= 24 * MIB, memory(fermata, p))
    mark = p.mark()
    for command in ("trimown 0", "endpool 0", "check 1", "pool 8", "fill 2"):
        p.tell(command)
    back(fermata, p)
    p.line("fill", after=mark)
    out(fermata, p)
    back(fermata, p)
    p.do("check 2", "free 0", "trim 0", "fill 3")
    out(fermata, p)
    back(fermata, p)
    p.do("check 3")
    p.ends()


def freed_blocks_serve_again(stack):
    """Behind a gate that is closed, a loop takes one block. Memory that is out is not asked for."""
    fermata = world(stack)
    p = start(fermata)
    p.do("again 5")
    fermata.cli("suspend", str(p.pid))
    p.tell("again 50")
    p.line("begun", after=p.mark() - 1)
    check(memory(fermata, p)["movable_bytes"] < 40 * MIB, memory(fermata, p))
    fermata.cli("resume", str(p.pid))
    p.line("again$")
    p.ends()


def calls_that_fail_once(stack):
    """Whichever call of the driver fails that moves memory, the program has what it had."""
    if SANITIZE and os.environ.get("FERMATA_TEST_LONG") != "1":
        raise Skip("takes long in a sanitized process: script/test --long")
    for name, at in (("cuMemCreate", 6), ("cuMemMap", 8), ("cuMemSetAccess", 7), ("cuMemUnmap", 2), ("cuMemRelease", 2)):
        with contextlib.ExitStack() as inner:
            fermata = world(inner, FAKE_CUDA_FAIL=f"{name}@{at}/0=1")
            p = start(fermata)
            p.do("alloc 3", "vmm 26", "fill 1")
            for _ in range(2):
                fermata.cli("suspend", "--out", "--timeout", "3", str(p.pid), check_status=False)
                fermata.cli("resume", "--wait", str(p.pid))
                p.do("check 1")
            p.ends()


main(
    goes_out_and_comes_back,
    makes_room_for_another,
    keeps_to_a_limit,
    stays_when_it_is_passed_on,
    words_pin_it,
    outlives_its_context,
    pools_go_out,
    trimmed_while_out,
    a_pool_ends_while_out,
    freed_blocks_serve_again,
    calls_that_fail_once,
)
