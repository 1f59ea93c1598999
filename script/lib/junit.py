#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""junit.py FILE...: sums up CTest's JUnit files: "N passed, N failed, N skipped". Before it, what failed and how that ended, and
what was skipped, in whole or in part, and why."""

import os
import re
import sys
import xml.etree.ElementTree as ET

TAIL = 60  # lines


def output(case):
    return (case.findtext("system-out") or "").rstrip().splitlines()


def report(build, case):
    print(f"---- {case.get('name')} ({build})", *output(case)[-TAIL:], sep="\n")


def reasons(case):
    """What it says of parts that it left out: "skipped  CASE: WHY" by tests in Python, "skipped: WHAT (WHY)" by those in shell."""
    found = [re.match(r"skipped(?:  (\S+)|()): *(.*)", line) for line in output(case)]
    return [": ".join(filter(None, m.groups())) for m in found if m]


def left(case):
    """The names of its cases that are for --long."""
    return {word for line in output(case) if line.startswith("left to --long: ") for word in line.split(":")[2].split()}


def main(files):
    passed = failed = skipped = 0
    longer = {}  # by test, cases that are left to --long
    skips = {}  # by reason, where
    for file in files:
        build = os.path.basename(file).removesuffix(".xml")
        for case in ET.parse(file).getroot().iter("testcase"):
            skip = case.find("skipped")
            longer.setdefault(case.get("name"), set()).update(left(case))
            whole = skip is not None and skip.get("message", "").startswith("SKIP_RETURN_CODE")
            passed += case.get("status") == "run"
            skipped += whole
            for why in reasons(case) or (output(case)[-1:] or ["it does not say why"]) * whole:
                skips.setdefault(f"{case.get('name')}: {why}" if whole else f"{case.get('name')}, in part: {why}", []).append(build)
            if case.get("status") != "run" and not whole:
                failed += 1
                report(build, case)
    for what, builds in skips.items():
        print(f"skipped: {what} ({', '.join(builds)})")
    if cases := sum(map(len, longer.values())):
        print(f"left to script/test --long: {cases} cases:", "; ".join(f"{n}: {' '.join(sorted(c))}" for n, c in sorted(longer.items()) if c))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
