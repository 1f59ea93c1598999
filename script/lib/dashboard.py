#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: dashboard.py BUILD OUTPUT   Draws the first row of contrib/grafana/fermata.json as an SVG: its own queries, in its own
layout, answered by a Prometheus that scrapes programs which share a device in software. The drawing is ours, not Grafana's, and
leaves out series that are 0 throughout."""
import contextlib
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from demo import Failed, daemon, start

SECONDS, RATE = 40, "8s"  # as Grafana chooses $__rate_interval: four scrapes
COLUMN, LINE, TITLE, GAP = 40, 32, 24, 8  # pixels of the dashboard's grid
COLOURS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#e02f44", "#b877d9", "#37872d", "#8ab8ff"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def url(port, path, **args):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(args)}", timeout=10) as r:
        return json.load(r)


def wait_for(what, test, seconds=20):
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if test():
                return
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def scrape(stack, dir_, port):
    """A Prometheus beside the exporter; its port."""
    config = os.path.join(dir_, "prometheus.yml")
    with open(config, "w", encoding="ascii") as f:
        f.write(f"scrape_configs: [{{job_name: fermata, scrape_interval: 2s, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n")
    own = free_port()
    start(stack, ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={dir_}/data",
                  f"--web.listen-address=127.0.0.1:{own}", "--log.level=error"])
    wait_for("Prometheus scrapes", lambda: url(own, "/api/v1/query", query="fermata_up == 1")["data"]["result"])
    return own


class Program:
    def __init__(self, stack, build, env, name, *lines):
        self.p = start(stack, [os.path.join(build, "tests", "lib_client"), "-"], dict(env, FERMATA_GROUP=name),
                       stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.say(*lines)

    def say(self, *lines):
        self.p.stdin.write("".join(line + "\n" for line in lines))
        self.p.stdin.flush()


def scenario(stack, build, env):
    """Three share the device by weight; one of them pauses, one is suspended for a while."""
    def cli(*argv):
        subprocess.run([os.path.join(build, "bin", "fermata"), *argv], env=env, check=True, stdout=subprocess.DEVNULL)

    cli("policy", "fair", "slice=2ms")
    serve = Program(stack, build, env, "serve", "feed")
    for name in "train", "render":
        Program(stack, build, env, name, "feed")
    for name, weight in ("serve", 6), ("train", 3), ("render", 1):
        hint = [os.path.join(build, "bin", "fermata"), "hint", name, f"weight={weight}"]
        wait_for(f"{name} works", lambda hint=hint: not subprocess.run(hint, env=env, check=False, capture_output=True).returncode)
    time.sleep(SECONDS * 0.4)
    serve.say("enough")
    time.sleep(SECONDS * 0.25)
    serve.say("feed")
    cli("suspend", "render")
    time.sleep(SECONDS * 0.2)
    cli("resume", "render")
    time.sleep(SECONDS * 0.15)


def series(port, target, begin, end):
    expr = target["expr"].replace("$__rate_interval", RATE)
    expr = re.sub(r"\$(instance|device|group)", ".*", expr)
    found = url(port, "/api/v1/query_range", query=expr, start=begin, end=end, step=0.5)["data"]["result"]
    for one in found:
        name = re.sub(r"\{\{(\w+)\}\}", lambda m, of=one["metric"]: of.get(m[1], ""), target["legendFormat"])
        yield name, [(t, float(v)) for t, v in one["values"] if math.isfinite(float(v))]


def label(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    if unit == "s":
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g}"


def top_of(value):
    """A round number above."""
    step = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(m * step for m in (1, 2, 2.5, 5, 10) if m * step >= value * 0.999)


class Panel:
    def __init__(self, panel, lines, begin, end):
        g, d = panel["gridPos"], panel["fieldConfig"]["defaults"]
        self.x, self.y, self.w, self.h = g["x"] * COLUMN, g["y"] * LINE, g["w"] * COLUMN - GAP, g["h"] * LINE - GAP
        self.title, self.unit = panel["title"], d.get("unit")
        self.stacked = d["custom"].get("stacking", {}).get("mode") == "normal"
        self.lines, self.begin, self.end = [n for n in lines if any(v for _, v in n[1])], begin, end
        rows = math.ceil(len(self.lines) / 2)
        self.box = (52, TITLE + 8, self.w - 12, self.h - 22 - 14 * rows)
        if self.stacked:
            self.stack()
        self.top = top_of(max([v for _, points in self.lines for _, v in points] or [1]))

    def stack(self):
        """Each line on top of the one before, at the same moments."""
        below = {}
        for _, points in self.lines:
            for i, (t, v) in enumerate(points):
                below[t] = below.get(t, 0) + v
                points[i] = (t, below[t])

    def at(self, t, v):
        left, up, right, down = self.box
        return (f"{left + (right - left) * (t - self.begin) / (self.end - self.begin):.1f},"
                f"{down - (down - up) * min(v / self.top, 1):.1f}")

    def draw(self):
        left, up, right, down = self.box
        yield f'<g transform="translate({self.x + GAP} {self.y + GAP})"><rect width="{self.w}" height="{self.h}" class="panel"/>'
        yield f'<text x="10" y="18" class="title">{escape(self.title)}</text>'
        for i in range(5):
            y = down - (down - up) * i / 4
            yield f'<path d="M{left} {y:.1f}H{right}" class="grid"/>'
            yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label(self.top * i / 4, self.unit)}</text>'
        for i in range(0, SECONDS + 1, 10):
            x = left + (right - left) * i / SECONDS
            yield f'<text x="{x:.0f}" y="{down + 14}" text-anchor="middle">{i} s</text>'
        for i, (name, points) in reversed(list(enumerate(self.lines))):
            colour, path = COLOURS[i % len(COLOURS)], " L".join(self.at(t, v) for t, v in points)
            if self.stacked:
                first, last = self.at(points[0][0], 0), self.at(points[-1][0], 0)
                yield f'<path d="M{first} L{path} L{last}Z" fill="{colour}" opacity="0.75"/>'
            yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        for i, (name, _) in enumerate(self.lines):
            x, y = 12 + i % 2 * (self.w - 20) // 2, down + 30 + i // 2 * 14
            yield f'<rect x="{x}" y="{y - 5}" width="12" height="3" fill="{COLOURS[i % len(COLOURS)]}"/>'
            yield f'<text x="{x + 16}" y="{y}">{escape(name)}</text>'
        yield "</g>"


def picture(panels):
    width, height = 24 * COLUMN + GAP, max(p.y + p.h for p in panels) + 2 * GAP
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="11" fill="#c7c8cc">')
    yield ('<style>.panel{fill:#181b1f;stroke:#2c3235}.title{fill:#e6e6e8;font-size:13px;font-weight:bold}'
           '.grid{stroke:#2c3235}</style><rect width="100%" height="100%" fill="#111217"/>')
    for p in panels:
        yield from p.draw()
    yield "</svg>\n"


def main():
    build, output = sys.argv[1:3]
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "grafana", "fermata.json"), encoding="ascii") as f:
        board = json.load(f)["panels"]
    end_of_row = [p["gridPos"]["y"] for p in board if p["type"] == "row"][1]
    wanted = [p for p in board if p["type"] == "timeseries" and p["gridPos"]["y"] < end_of_row]
    with contextlib.ExitStack() as stack:
        dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-dashboard-"))
        port = free_port()
        env = daemon(stack, build, dir_, f"[metrics]\nlisten = 127.0.0.1:{port}\nloopback_groups = yes\n")
        start(stack, [os.path.join(build, "bin", "fermata-exporter")], env, stderr=subprocess.DEVNULL)
        prometheus = scrape(stack, dir_, port)
        begin = time.time()
        scenario(stack, build, env)
        end = begin + SECONDS
        panels = [Panel(p, [s for t in p["targets"] for s in series(prometheus, t, begin, end)], begin, end) for p in wanted]
    if not all(p.lines for p in panels):
        raise Failed("nothing for: " + ", ".join(p.title for p in panels if not p.lines))
    first = min(p.y for p in panels)
    for p in panels:
        p.y -= first
    with open(output, "w", encoding="ascii") as f:
        f.write("\n".join(picture(panels)))


if __name__ == "__main__":
    try:
        main()
    except Failed as e:
        sys.exit(f"dashboard: {e}")
