#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Constants of time of what is loaded into programs stand in headers of their own (tune.h), each once, with its unit and
what it is for, and none that nothing uses."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import check, main

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
LOADED = ("xqueue", "api", "shim", "lib", "local")
TIME = re.compile(r"^#define\s+(\w+)\s+.*\bFM_(?:US|MS|S)\b", re.MULTILINE)
NAPS = re.compile(r"\.tv_nsec = \d+ \* FM_\w+")
DEFINE = re.compile(r"((?:/\*(?:[^*]|\*(?!/))*\*/\n)?)((?:#define [^\n]*\n)+)")
UNITS = ("time", "ns", "ms", "bytes", "times", "times the interval", "commands", "launches", "gates", "segments", "intervals", "parts",
         "windows", "trackers", "looks", "trials", "pieces", "threads", "turns", "instructions")


def files():
    """What is loaded into programs, with its text. The software device is a device; tools are no part of a shim."""
    for module in LOADED:
        for path in glob.glob(os.path.join(SOURCE, "src", module, "**", "*.[ch]"), recursive=True):
            if "/api/soft/" not in path and "/tool/" not in path:
                with open(path, encoding="utf-8") as f:
                    yield path, f.read()


def tuned():
    """The constants: name, header, comment in front of it and of those right below."""
    for path, text in files():
        if os.path.basename(path) == "tune.h":
            for comment, defines in DEFINE.findall(text):
                for name in re.findall(r"^#define (\w+)", defines, re.MULTILINE):
                    yield name, path, comment


def nowhere_else(_):
    found = [f"{path}: {name}" for path, text in files() if os.path.basename(path) != "tune.h"
             for name in TIME.findall(text) + NAPS.findall(text)]
    check(not found, "these belong into tune.h, with unit and effect:\n" + "\n".join(found))


def one_meaning_each(_):
    names = [name for name, _, _ in tuned()]
    check(len(names) > 50, f"only {len(names)} constants were found: are the headers read as they are written?")
    twice = {n for n in names if names.count(n) > 1}
    check(not twice, f"defined twice: {sorted(twice)}")


def unit_and_use(_):
    used = {word for p, t in files() if os.path.basename(p) != "tune.h" for word in re.findall(r"\bFM_\w+", t)}
    for name, path, comment in tuned():
        unit = re.search(r"\[([a-z ]+)\]", comment)
        check(unit and unit[1] in UNITS or comment.startswith("/* Likewise"), f"{path}: {name} has no unit, as [time]")
        check(name in used, f"{path}: nothing uses {name}")


if __name__ == "__main__":
    main(nowhere_else, one_meaning_each, unit_and_use)
