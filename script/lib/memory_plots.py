# SPDX-License-Identifier: Apache-2.0
"""What script/memory-bench found for sets of programs, and what was foretold, as a picture: of each set at each pressure, in percent of
what its programs do where all of them fit."""
import re
import sys

MEASURED = re.compile(r"^([ABCDMK]\d{3}) +(\S+) +([\d.]+) \(([\d.]+) to ([\d.]+)\) %, predicted ([\d.]+): [\d.]+;")
PREDICTED = re.compile(r"^([ABCDMK]\d{3}) +(\S+) +predicted ([\d.]+) %")
ASKED = re.compile(r"asked for: (\d+)")
TITLE = {"A": "A: four programs of science", "B": "B: four networks", "C": "C: four networks and a decoder", "D": "D: decoders",
         "M": "M: decoders, each in one buffer", "K": "K: decoders that read 40 % of their buffers"}
PAPER = {**dict.fromkeys("ABC", {150: 68, 200: 58, 300: 47}), "D": {150: 74.1, 200: 58.2, 300: 43.0}}
COLOURS = {"jit": "#2c6fa8", "jit-copies": "#7fb2d9", "opt": "#3a8f5c", "lru": "#a7c957", "whole": "#c0392b", "whole-copies": "#e59a8f",
           "one-way": "#8e5ea2", "allocation": "#d68910", "overtime": "#566573", "early": "#16a085"}
BAR, PANEL, HIGH, LEFT, TOP, GAP = 15, 440, 150, 44, 40, 60


def read(text, name="the table"):
    """Of each row and variant: percent, least and most (None where nothing was measured), what was foretold, and asked for."""
    found = {}
    for line in text.splitlines():
        asked = ASKED.search(line)
        goal = int(asked[1]) if asked else None
        if m := MEASURED.match(line):
            found[m[1], m[2]] = (*map(float, m.groups()[2:5]), float(m[6]), goal)
        elif m := PREDICTED.match(line):
            found[m[1], m[2]] = (None, None, None, float(m[3]), goal)
    if not found:
        raise ValueError(f"{name} has no line of a set: see script/memory-bench --help")
    return found


def join(tables):
    """What was measured comes before what was only foretold, and later tables before earlier ones."""
    found = {}
    for table in tables:
        for key, row in table.items():
            if row[0] is not None or key not in found or found[key][0] is None:
                found[key] = row
    return found


def bar(x, y, colour, row):
    """y: of a percentage."""
    percent, least, most, predicted, _ = row
    height, opacity = percent if percent is not None else predicted, 0.85 if percent is not None else 0.2
    yield (f'<rect x="{x:.1f}" y="{y(height):.1f}" width="{BAR}" height="{y(0) - y(height):.1f}" fill="{colour}" '
           f'fill-opacity="{opacity}" stroke="{colour}"/>')
    middle = x + BAR / 2
    if percent is not None:
        yield f'<line x1="{middle:.1f}" y1="{y(least):.1f}" x2="{middle:.1f}" y2="{y(most):.1f}" stroke="#222"/>'
        yield f'<circle cx="{middle:.1f}" cy="{y(predicted):.1f}" r="3.5" fill="#fff" stroke="#222"/>'
    yield f'<text x="{middle:.1f}" y="{y(height) - 6:.1f}" text-anchor="middle" font-size="9">{height:.0f}</text>'


def across(x, width, y, colour, dash):
    yield f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + width:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-dasharray="{dash}" stroke-width="1.5"/>'


def panel(kind, found, x0, y0):
    pressures = sorted({int(row[1:]) for row, _ in found if row[0] == kind})

    def y(percent):
        return y0 + HIGH - percent / 100 * HIGH

    yield f'<text x="{x0}" y="{y0 - 14}" class="title">{TITLE[kind]}</text>'
    for tick in (0, 25, 50, 75, 100):
        yield f'<line x1="{x0}" y1="{y(tick):.1f}" x2="{x0 + PANEL - GAP}" y2="{y(tick):.1f}" stroke="#ddd"/>'
        yield f'<text x="{x0 - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" font-size="10">{tick}</text>'
    x = x0 + 8
    for pressure in pressures:
        rows = [(v, found[f"{kind}{pressure}", v]) for v in COLOURS if (f"{kind}{pressure}", v) in found]
        width = len(rows) * (BAR + 3)
        for i, (variant, row) in enumerate(rows):
            yield from bar(x + i * (BAR + 3), y, COLOURS[variant], row)
        goals = [row[4] for _, row in rows if row[4]]
        if goals:
            yield from across(x - 3, width + 3, y(goals[0]), "#222", "none")
        if pressure in PAPER.get(kind, {}):
            yield from across(x - 3, width + 3, y(PAPER[kind][pressure]), "#777", "4 3")
        yield f'<text x="{x + width / 2:.1f}" y="{y0 + HIGH + 16}" text-anchor="middle">{pressure} %</text>'
        x += width + 24


def legend(found, y, columns=5):
    variants = [v for v in COLOURS if any(of == v for _, of in found)]
    for i, v in enumerate(variants):
        x, at = LEFT + i % columns * 150, y + i // columns * 18
        yield f'<rect x="{x}" y="{at - 10}" width="12" height="12" fill="{COLOURS[v]}"/><text x="{x + 18}" y="{at}">{v}</text>'
    at = y + -(-len(variants) // columns) * 18
    for line in ("Percent of what the same programs do in the same turns where all of them fit; by how much memory they have, of the device's.",
                 "Full bars: measured, with the least and the most, and a circle where the simulator says; pale bars: only the simulator says.",
                 "Lines: what is asked for; dashed: what the paper MSched has on its own device."):
        yield f'<text x="{LEFT}" y="{at}" fill="#555" font-size="11">{line}</text>'
        at += 16


def draw(found):
    kinds = [k for k in TITLE if any(row[0] == k for row, _ in found)]
    lines = -(-len(kinds) // 2)
    legend_at = TOP + lines * (HIGH + GAP) + 14
    width, height = LEFT + 2 * PANEL, legend_at + 100
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           "<!-- made by script/memory-plots -->", "<style>.title{font-size:14px;font-weight:bold}</style>",
           '<rect width="100%" height="100%" fill="#fff"/>']
    for i, kind in enumerate(kinds):
        out += panel(kind, found, LEFT + i % 2 * PANEL, TOP + i // 2 * (HIGH + GAP))
    out += [*legend(found, legend_at), "</svg>"]
    return "\n".join(out) + "\n"


def main(argv):
    tables = []
    for path in argv:
        try:
            with open(path, encoding="utf-8") as f:
                tables.append(read(f.read(), path))
        except (OSError, ValueError) as e:
            sys.exit(f"memory-plots: {e}")
    sys.stdout.write(draw(join(tables)))


if __name__ == "__main__":
    main(sys.argv[1:])
