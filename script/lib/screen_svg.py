#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tmux capture-pane -e -p` prints, from stdin, as a picture (SVG) on stdout: screen_svg.py COLUMNS ROWS"""

import re
import sys
from xml.sax.saxutils import escape

CELL_W, CELL_H, MARGIN = 8.4, 17, 12
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
INK, PAPER = "#d8dee9", "#1d2128"
COLOURS = ["#3b4252", "#e0626b", "#8fbc6b", "#e5c07b", "#6ca0e0", "#c58fd0", "#63b8c6", "#d8dee9"]


class Style:
    def __init__(self):
        self.reset()

    def reset(self):
        self.ink = self.paper = None
        self.bold = self.dim = self.reverse = False

    def apply(self, codes):
        for code in (int(c or 0) for c in codes.split(";")):
            if code == 0:
                self.reset()
            elif code == 1:
                self.bold = True
            elif code == 2:
                self.dim = True
            elif code == 7:
                self.reverse = True
            elif code == 22:
                self.bold = self.dim = False
            elif code == 27:
                self.reverse = False
            elif 30 <= code <= 37:
                self.ink = COLOURS[code - 30]
            elif code == 39:
                self.ink = None
            elif 40 <= code <= 47:
                self.paper = COLOURS[code - 40]
            elif code == 49:
                self.paper = None

    def key(self):
        ink, paper = self.ink or INK, self.paper or PAPER
        if self.reverse:
            ink, paper = paper, ink
        return ink, paper, self.bold, self.dim


def runs(line, style):
    """Stretches of one style: column, text, style."""
    column, text, key = 0, "", style.key()
    for part in re.split(r"(\x1b\[[\d;]*m|[\x0e\x0f])", line):
        if part.startswith("\x1b["):
            if text:
                yield column, text, key
            column, text = column + len(text), ""
            style.apply(part[2:-1])
            key = style.key()
        elif part not in "\x0e\x0f":
            text += part
    if text:
        yield column, text, key


def draw(row, column, text, key):
    ink, paper, bold, dim = key
    x, y, w = MARGIN + column * CELL_W, MARGIN + row * CELL_H, len(text) * CELL_W
    if paper != PAPER:
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{CELL_H}" fill="{paper}"/>'
    if set(text) == {"█"}:  # fonts leave gaps between these
        yield f'<rect x="{x:.1f}" y="{y + 2:.1f}" width="{w:.1f}" height="{CELL_H - 4}" fill="{ink}"/>'
    elif text.strip():
        more = (' font-weight="bold"' if bold else "") + (' opacity="0.6"' if dim else "")
        yield (f'<text x="{x:.1f}" y="{y + CELL_H - 4.5:.1f}" textLength="{w:.1f}" fill="{ink}"{more} '
               f'xml:space="preserve">{escape(text)}</text>')


def main():
    columns, rows = int(sys.argv[1]), int(sys.argv[2])
    width, height = columns * CELL_W + 2 * MARGIN, rows * CELL_H + 2 * MARGIN
    style = Style()
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" font-size="14">',
           f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>']
    for row, line in enumerate(sys.stdin.read().split("\n")[:rows]):
        for column, text, key in runs(line, style):
            # Bars in pieces of their own, so that the text beside them stands in its columns.
            for piece in re.finditer("█+|[^█]+", text):
                out += draw(row, column + piece.start(), piece.group(), key)
    print("\n".join(out + ["</svg>"]))


main()
