# SPDX-License-Identifier: Apache-2.0
"""What script/server-bench found, as a picture: of each mode the real-time model's latency and the throughput of all."""

import math
from xml.sax.saxutils import escape

LEFT, LATENCY, GAP, THROUGHPUT, RIGHT = 130, 420, 60, 260, 30
ROW, TOP, HEAD, AXIS = 26, 46, 34, 40
P50, P99, BAR, BEST_EFFORT, REAL_TIME = "#2c6fa8", "#c0392b", "#999", "#3a8f5c", "#c0392b"


def ticks(most):
    """Ratios for a logarithmic axis: 1, 2, 5, 10 and so on."""
    out, k = [], 0
    while not out or out[-1] < most:
        out.append((1, 2, 5)[k % 3] * 10 ** (k // 3))
        k += 1
    return out


def latency(v, y, x):
    """A line from half of the requests to all but a hundredth."""
    a, b = x(v["p50_ratio"]), x(v["p99_ratio"])
    yield f'<line x1="{a:.1f}" y1="{y}" x2="{b:.1f}" y2="{y}" stroke="{BAR}" stroke-width="3"/>'
    for at, colour in ((a, P50), (b, P99)):
        yield f'<circle cx="{at:.1f}" cy="{y}" r="5" fill="{colour}"/>'
    yield f'<text x="{max(a, b) + 9:.1f}" y="{y + 4}">{v["p99_ratio"]:.2f}</text>'


def throughput(v, alone, y, x0, scale):
    at = x0
    for part, colour in (((v["per_s"]["rt"] * alone["rt"] / 1e6), REAL_TIME),
                         (sum(n * alone[m] / 1e6 for m, n in v["per_s"].items() if m != "rt"), BEST_EFFORT)):
        yield f'<rect x="{at:.1f}" y="{y - 8}" width="{part * scale:.1f}" height="16" fill="{colour}" fill-opacity="0.75"/>'
        at += part * scale
    ratio = f' ({v["throughput_ratio"]:.2f}x)' if v["throughput_ratio"] else ""
    yield f'<text x="{at + 6:.1f}" y="{y + 4}">{v["of_alone"]:.2f}{ratio}</text>'


def panel(r, shape, top):
    rows = [(name, shapes.get(shape)) for name, shapes in r["modes"].items()]
    known = [v for _, v in rows if v and v["p99_ratio"]]
    marks = ticks(max([max(v["p50_ratio"], v["p99_ratio"]) for v in known], default=1))
    most = max([1.2, *(v["of_alone"] for v in known)])
    right, scale = LEFT + LATENCY + GAP, (THROUGHPUT - 90) / most
    bottom = top + HEAD + len(rows) * ROW

    def x(ratio):
        return LEFT + 10 + (LATENCY - 60) * max(0, math.log(max(ratio, 0.5) / 0.8)) / math.log(marks[-1] / 0.8)

    yield (f'<text x="{LEFT}" y="{top}" class="title">{shape.upper()}: one real-time model beside {r["shapes"][shape]} '
           "best-effort</text>")
    for tick in marks:
        yield f'<line x1="{x(tick):.1f}" y1="{top + 14}" x2="{x(tick):.1f}" y2="{bottom}" stroke="#ddd"/>'
        yield f'<text x="{x(tick):.1f}" y="{bottom + 14}" text-anchor="middle">{tick}</text>'
    yield f'<line x1="{right + scale:.1f}" y1="{top + 14}" x2="{right + scale:.1f}" y2="{bottom}" stroke="#bbb"/>'
    yield f'<text x="{right + scale:.1f}" y="{bottom + 14}" text-anchor="middle">1</text>'
    for i, (name, v) in enumerate(rows):
        y = top + HEAD + i * ROW
        yield f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
        if v and v["p99_ratio"]:
            yield from latency(v, y, x)
            yield from throughput(v, r["alone_us"], y, right, scale)
        else:
            yield f'<text x="{LEFT + 10}" y="{y + 4}" fill="#777">not measured</text>'


def draw(r):
    rows = len(r["modes"])
    height = TOP + len(r["shapes"]) * (HEAD + rows * ROW + AXIS) + 40
    width = LEFT + LATENCY + GAP + THROUGHPUT + RIGHT
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             "<!-- made by script/server-bench -->", "<style>.title{font-size:14px;font-weight:bold}</style>",
             '<rect width="100%" height="100%" fill="#fff"/>']
    for i, shape in enumerate(r["shapes"]):
        lines += panel(r, shape, TOP + i * (HEAD + rows * ROW + AXIS))
    foot = height - 30
    lines += [f'<text x="{LEFT}" y="{foot}" fill="#555">latency of the real-time model, ratio to alone: '
              f'<tspan fill="{P50}">half</tspan>, <tspan fill="{P99}">99 %</tspan> of the requests</text>',
              f'<text x="{LEFT + LATENCY + GAP}" y="{foot}" fill="#555">throughput, of each alone: '
              f'<tspan fill="{REAL_TIME}">real-time</tspan>, <tspan fill="{BEST_EFFORT}">the others</tspan></text>',
              f'<text x="{LEFT}" y="{foot + 17}" fill="#555">{escape(r["device"])}; in brackets: to sequential</text>', "</svg>"]
    return "\n".join(lines) + "\n"
