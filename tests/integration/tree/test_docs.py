#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents name files that exist: links, paths in backquotes, and the functions that docs/a-launch.md names.

usage: SOURCE=. tests/integration/tree/test_docs.py"""
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, check, main

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source tree (ctest does)")
FOLDERS = "docs|src|script|tests|include|man|examples|contrib|bench|cmake"
# A path from the top of the tree, also with * and {a,b}.
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./{{}},*-]*[\w*}}/])`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"`([\w./-]+\.[ch]): (\w+)\(\)`")
# Shorter ones, as in `cuda/core/reach.c`: the end of a path.
PART = re.compile(r"`([\w-]+/[\w./-]+\.(?:c|h|cu|def|ptx))`")
COMING = {"docs/adding-an-api.md"}  # not written yet
EXAMPLES = {"src/policy/lifo.c"}  # files that a reader is to write


def documents():
    found = [os.path.join(SOURCE, name) for name in ("README.md", "CONTRIBUTING.md")]
    return found + sorted(glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"), recursive=True))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def prose(path):
    """The text without its examples."""
    return re.sub(r"^```.*?^```", "", read(path), flags=re.S | re.M)


def expand(path):
    """a/{b,c}.d is a/b.d and a/c.d."""
    m = re.search(r"\{([^{}]*)\}", path)
    if not m:
        return [path]
    return [p for part in m.group(1).split(",") for p in expand(path[:m.start()] + part + path[m.end():])]


def is_there(path):
    return bool(glob.glob(os.path.join(SOURCE, path))) or path in COMING | EXAMPLES


def ends_of_paths():
    """Of each file of the tree that has code in it: the path, the path without its first folder, and so on."""
    ends = set()
    for top in FOLDERS.split("|"):
        for folder, _, names in os.walk(os.path.join(SOURCE, top)):
            for name in names:
                parts = os.path.relpath(os.path.join(folder, name), SOURCE).split(os.sep)
                ends |= {"/".join(parts[i:]) for i in range(len(parts))}
    return ends


def paths_exist(_):
    wrong = []
    for document in documents():
        for path in (p for m in PATH.finditer(prose(document)) for p in expand(m.group(1))):
            if "NAME" not in path and not is_there(path):
                wrong.append(f"{os.path.relpath(document, SOURCE)}: {path}")
    check(not wrong, "no such file:\n  " + "\n  ".join(wrong))


def parts_of_paths_exist(_):
    ends, wrong, parts = ends_of_paths(), [], 0
    for document in documents():
        for path in PART.findall(prose(document)):
            parts += 1
            if "NAME" not in path and path not in ends | EXAMPLES:
                wrong.append(f"{os.path.relpath(document, SOURCE)}: {path}")
    check(parts > 0 and not wrong, "no such file:\n  " + "\n  ".join(wrong))


def links_lead_somewhere(_):
    wrong, links = [], 0
    for document in documents():
        for target in LINK.findall(prose(document)):
            if re.match(r"\w+:", target):
                continue
            links += 1
            if not os.path.exists(os.path.join(os.path.dirname(document), target)):
                wrong.append(f"{os.path.relpath(document, SOURCE)}: {target}")
    check(links > 0, "no document has a link")
    check(not wrong, "links to nothing:\n  " + "\n  ".join(wrong))


def defines(text, function):
    """Kernel style: a definition begins at the left, and no semicolon ends its head."""
    for m in re.finditer(rf"^[A-Za-z_][^\n;{{}}#]*\b{function}\(", text, re.M):
        if re.match(r"[^;{]*\{", text[m.end():]):
            return True
    return False


def anchors_hold(_):
    text = re.sub(r"\s+", " ", read(os.path.join(SOURCE, "docs", "a-launch.md")))
    anchors = ANCHOR.findall(text)
    check(len(anchors) >= 30, f"docs/a-launch.md names {len(anchors)} functions only")
    wrong = []
    for path, function in anchors:
        where = os.path.join(SOURCE, path)
        if not os.path.isfile(where) or not defines(read(where), function):
            wrong.append(f"{path}: {function}()")
    check(not wrong, "not defined there:\n  " + "\n  ".join(wrong))


def wrong_numbers(index, files):
    """Of decisions: numbers that two of them have, and rows of the index that differ from what is in the files (by name)."""
    rows = re.findall(r"^\| (\d+) \| \[(.*)\]\(decisions/([\w-]+\.md)#([\w-]+)\)", index, re.M)
    there = [(n, re.sub("`", "", title), name) for name, text in files.items() for n, title in re.findall(r"^## (\d+)\. (.*)$", text, re.M)]
    numbers = [n for n, _, _ in there]
    listed = {(n, re.sub("`", "", title), name) for n, title, name, _ in rows}
    return ([f"{n} is used twice" for n in sorted(set(numbers)) if numbers.count(n) > 1] +
            [f"{d} is in one place only" for d in sorted(listed ^ set(there))] +
            [f"row {n} leads to {anchor}" for n, _, _, anchor in rows if not anchor.startswith(f"{n}-")])


def decisions_have_numbers(_):
    folder = os.path.join(SOURCE, "docs", "design")
    files = {os.path.basename(p): read(p) for p in glob.glob(os.path.join(folder, "decisions", "*.md"))}
    index = read(os.path.join(folder, "decisions.md"))
    check(len(re.findall(r"^## \d+\.", "".join(files.values()), re.M)) > 60, "decisions are gone")
    wrong = wrong_numbers(index, files) + [f"{name} is not named" for name in files if f"[`{name}`](decisions/{name})" not in index]
    check(not wrong, "decisions:\n  " + "\n  ".join(wrong))


def usage(*argv):
    return subprocess.run([FERMATA, *argv, "--help"], text=True, capture_output=True, check=True).stdout


def missing_in(page):
    """Commands, options, variables, policies, functions and hints that a page names and that there are not."""
    code = " ".join(re.findall(r"`([^`\n]+)`", page))
    headers = "\n".join(read(f) for f in glob.glob(os.path.join(SOURCE, "include", "fermata", "*.h")))
    manual = read(os.path.join(SOURCE, "man", "fermata-run.1"))
    commands, missing = usage(), []
    for command, options in re.findall(r"`fermata ([a-z]+)([^`\n]*)`", page):
        if not re.search(rf"^  {command} ", commands, re.M):
            missing.append(f"fermata {command}")
            continue
        missing += [f"fermata {command} {o}" for o in re.findall(r"--[a-z-]+[a-z]", options) if o not in usage(command)]
    missing += [f"{f}()" for f in re.findall(r"\b(fm_\w+)\(\)", code) if not re.search(rf"\b{f}\(", headers)]
    missing += [h for h in re.findall(r"\bFM_HINT_\w+", code) if not re.search(rf"\b{h}\b", headers)]
    missing += [v for v in re.findall(r"\bFERMATA_[A-Z_]+", code) if v not in manual]
    return missing


def what_xsched_has(_):
    """docs/from-xsched.md sends nobody to what is not there."""
    page = read(os.path.join(SOURCE, "docs", "from-xsched.md"))
    check(len(re.findall(r"`fermata [a-z]+", page)) > 20 and "fm_xqueue_submit()" in page, "the page has lost its tables")
    check(not missing_in(page), f"there is no: {missing_in(page)}")
    known = read(os.path.join(SOURCE, "docs", "policies.md"))
    rows = re.search(r"^## Policies$(.*?)^## ", page, re.S | re.M).group(1)
    for row in re.findall(r"^\| `.*", rows, re.M):
        for policy in re.findall(r"`([a-z-]+)`", row.split("|")[2]):
            check(f"| `{policy}` |" in known, f"there is no policy {policy}")
    wrong = "`fermata run --no-such-option` `fermata fly` `fm_no_such()` `FM_HINT_NONE` `FERMATA_NO_SUCH`"
    check(len(missing_in(wrong)) == 5, f"seen of what is wrong: {missing_in(wrong)}")


def what_is_wrong_is_seen(_):
    check(not is_there("docs/no-such-page.md") and is_there("docs/*.md"), "existence")
    check(expand("a/{b,c}.d") == ["a/b.d", "a/c.d"], "alternatives")
    check(defines("static int f(int a,\n\tint b)\n{\n", "f"), "a definition")
    check(not defines("int f(int a);\n", "f") and not defines("\treturn f(a) {\n", "f"), "no definition")
    row = "| 1 | [A b](decisions/f.md#1-a-b) | `f.md` |\n"
    check(not wrong_numbers(row, {"f.md": "## 1. A b\n"}), "a decision")
    for index, text in ((row, ""), ("", "## 1. A b\n"), (row, "## 1. A b\n## 1. A b\n"), (row, "## 1. A c\n"), (row.replace("#1", "#2"), "## 1. A b\n")):
        check(wrong_numbers(index, {"f.md": text}), f"of decisions: {index}{text}")
    check(PATH.findall("`docs/a.md` `docs/NAME` `make docs/x y`") == ["docs/a.md", "docs/NAME"], "paths")


if __name__ == "__main__":
    main(paths_exist, parts_of_paths_exist, links_lead_somewhere, anchors_hold, decisions_have_numbers, what_xsched_has, what_is_wrong_is_seen)
