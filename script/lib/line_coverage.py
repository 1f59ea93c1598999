#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: line_coverage BUILD ROOM=PERCENT...   Line coverage of src/, by room, from what the programs of a build with gcov left
behind; 1 if one of the named rooms has less."""
import collections
import json
import os
import subprocess
import sys


def notes(build):
    for at, _, files in os.walk(build):
        yield from (os.path.join(at, f) for f in files if f.endswith(".gcno"))


def lines_of(build, source):
    """{file: {line: was it ever run}}: a line counts once, however many programs it is in."""
    seen = collections.defaultdict(dict)
    for note in notes(build):
        r = subprocess.run(["gcov", "--json-format", "--stdout", note], capture_output=True, text=True, check=False,
                           cwd=build)
        for report in filter(None, r.stdout.splitlines()):
            for f in json.loads(report)["files"]:
                path = os.path.relpath(os.path.join(build, f["file"]), source)
                if not path.startswith("src" + os.sep):
                    continue
                for line in f["lines"]:
                    n = line["line_number"]
                    seen[path][n] = seen[path].get(n, False) or line["count"] > 0
    return seen


def main():
    build, source = os.path.abspath(sys.argv[1]), os.getcwd()
    wanted = {room: float(percent) for room, percent in (a.split("=") for a in sys.argv[2:])}
    seen = lines_of(build, source)
    if not seen:
        sys.exit(f"coverage: no traces of runs in {build}")
    rooms = collections.defaultdict(lambda: [0, 0])
    for path, lines in seen.items():
        room = os.path.dirname(os.path.relpath(path, "src"))
        rooms[room][0] += sum(lines.values())
        rooms[room][1] += len(lines)
    with open(os.path.join(build, "uncovered.txt"), "w", encoding="ascii") as f:
        for path in sorted(seen):
            f.writelines(f"{path}:{n}\n" for n in sorted(seen[path]) if not seen[path][n])
    low = []
    print("| room | lines | run | % |\n|---|---:|---:|---:|")
    for room, (run, lines) in sorted(rooms.items()):
        percent = 100 * run / lines
        print(f"| `{room}` | {lines} | {run} | {percent:.1f} |")
        if percent < wanted.get(room, 0):
            low.append(f"{room} has {percent:.1f} %, less than {wanted[room]:g} %")
    run, lines = (sum(r[i] for r in rooms.values()) for i in (0, 1))
    print(f"| all | {lines} | {run} | {100 * run / lines:.1f} |")
    print(*low, sep="\n", end="\n" if low else "", file=sys.stderr)
    sys.exit(bool(low) or bool(set(wanted) - set(rooms)))


if __name__ == "__main__":
    main()
