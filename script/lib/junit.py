#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""junit.py FILE...: sums up CTest's JUnit files: "N passed, N failed, N skipped". Before it, what failed and how that ended."""

import os
import sys
import xml.etree.ElementTree as ET


TAIL = 60  # lines


def report(build, case):
    lines = (case.findtext("system-out") or "").rstrip().splitlines()
    print(f"---- {case.get('name')} ({build})", *lines[-TAIL:], sep="\n")


def main(files):
    passed = failed = skipped = 0
    for file in files:
        for case in ET.parse(file).getroot().iter("testcase"):
            skip = case.find("skipped")
            if case.get("status") == "run":
                passed += 1
            elif skip is not None and skip.get("message", "").startswith("SKIP_RETURN_CODE"):
                skipped += 1
            else:
                failed += 1
                report(os.path.basename(file).removesuffix(".xml"), case)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
