#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""script/lib/sanitize: what a tool finds in rewritten kernels and not in those as they are, and what it does not say at all. The
tool here says what it is told to."""

import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
FORMS = ("native", "elf", "ptx", "loops")
TOOL = """#!/bin/bash
while [[ $1 != --form ]]; do shift; done
cat "$SAYS/$2"
[[ ! -e $SAYS/$2.hangs ]] || { sleep 100 & wait; }
exit "$(cat "$SAYS/$2.status" 2>/dev/null || echo 0)"
"""
DONE = "========= COMPUTE-SANITIZER\nok     wide            elf: never stopped; equal, 0.1 s\n\n1 done, 0 failed, 0 s; 0 stops\n"
NONE = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
WIDE = """========= Error: Race reported between Write access at k_wide+0x{:x}
=========     and Read access at k_wide+0x{:x} [{} hazards]
=========
"""
SHARED = WIDE.replace("k_wide", "k_shared")
BEYOND = """========= Invalid __global__ write of size 4 bytes
=========     at k_inc+0x{:x}
=========     by thread ({},0,0) in block (7,0,0)
=========     Access at 0x7f{:06x} is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame:  [0x{:x}] in gpu_guardian
=========
"""


def sanitize(stack, says, hangs=(), status=None, seconds=20):
    """What it says and how it ends, where the tool says `says` of each form, or of any."""
    d = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-sanitize-"))
    os.makedirs(os.path.join(d, "tests", "guardian"))
    open(os.path.join(d, "tests", "guardian", "kernels.cubin"), "w", encoding="ascii").close()
    for form in FORMS:
        with open(os.path.join(d, form), "w", encoding="ascii") as f:
            f.write(says.get(form, DONE + NONE))
    for form in hangs:
        open(os.path.join(d, form + ".hangs"), "w", encoding="ascii").close()
    for form, rc in (status or {}).items():
        with open(os.path.join(d, form + ".status"), "w", encoding="ascii") as f:
            f.write(str(rc))
    with open(os.path.join(d, "compute-sanitizer"), "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o755)) as f:
        f.write(TOOL)
    r = subprocess.run([sys.executable, os.path.join(SOURCE, "script", "lib", "sanitize"), "--seconds", str(seconds), d, "racecheck"],
                       env={**os.environ, "SAYS": d, "PATH": d + ":" + os.environ["PATH"]}, capture_output=True, text=True, timeout=60)
    check(not r.stderr, r.stderr)
    return r.stdout, r.returncode


def nothing_new(stack):
    out, rc = sanitize(stack, {})
    check(rc == 0 and out.startswith("ok     racecheck: native 1 cases, 0 found; elf 1 cases, 0 found;"), out)
    # The same at other places, as often as may be.
    out, rc = sanitize(stack, {"native": DONE + WIDE.format(0x70, 0x80, 3) + NONE, "ptx": DONE + WIDE.format(0x170, 0x90, 512) + NONE})
    check(rc == 0 and "ptx 1 cases, 1 found" in out, out)
    out, rc = sanitize(stack, {"native": DONE + BEYOND.format(0x70, 3, 4, 5) + NONE, "elf": DONE + BEYOND.format(0x80, 31, 8, 99) + NONE})
    check(rc == 0, out)


def something_new(stack):
    for new in (SHARED.format(0x70, 0x80, 3), WIDE.replace("Write", "Read").format(0x70, 0x80, 3), BEYOND.format(1, 2, 3, 4),
                BEYOND.replace("k_inc", "k_chain").format(1, 2, 3, 4), "========= Error: something that nobody knows\n"):
        known = DONE + WIDE.format(0x70, 0x80, 3) + NONE
        out, rc = sanitize(stack, {"native": known, "elf": known, "loops": DONE + new + NONE})
        check(rc == 1 and "failed racecheck, loops: not in the kernels as they are:\n" + new.splitlines()[0] in out and
              "failed racecheck, elf" not in out, out)


def says_nothing(stack):
    """Nothing that was found is not the same as nothing that was looked for."""
    for form in FORMS:
        for says, why in ((DONE, "does not say what it has found"), (NONE, "does not say that all is done"),
                          (DONE.replace("0 failed", "1 failed") + NONE, "does not say that all is done")):
            out, rc = sanitize(stack, {form: says})
            check(rc == 1 and f"failed racecheck, {form}: " in out and why in out, out)
        out, rc = sanitize(stack, {}, status={form: 3})
        check(rc == 1 and f"failed racecheck, {form}: exit status 3" in out, out)


def comes_to_no_end(stack):
    begin = time.monotonic()
    out, rc = sanitize(stack, {}, hangs=("ptx",), seconds=5)
    check(rc == 1 and "failed racecheck, ptx: did not come to its end" in out and "failed racecheck, elf" not in out, out)
    check(time.monotonic() - begin < 50, "it waited for what does not end")


def where_it_cannot(stack):
    out, rc = sanitize(stack, {}, status={"native": 77})
    check(rc == 77 and "not on this device" in out, out)
    out, rc = sanitize(stack, {"elf": "========= Error: Device not supported. Please refer to the documentation\n"}, status={"elf": 1})
    check(rc == 77, out)


if __name__ == "__main__":
    main(nothing_new, something_new, says_nothing, comes_to_no_end, where_it_cannot)
