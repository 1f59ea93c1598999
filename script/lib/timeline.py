#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/timeline.svg: a program that answers requests beside two that compute (bench/demo_client.c), recorded twice
with `fermata trace`: in the driver's own order (policy fifo, which stops nobody) and by priority. What is drawn comes from
the exported timelines alone."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import demo  # noqa: E402

PROGRAMS = ("serve", "train-1", "train-2")
SECONDS = 3.0
WINDOW_NS = 250_000_000
LEFT, WIDTH, ROW, BAR = 92, 860, 30, 18
COLOURS = {"serve": "#c0392b", "train-1": "#2c6fa8", "train-2": "#3a8f5c"}


def record(d, policy, to):
    """One run of all three under a policy; the timeline of it."""
    with contextlib.ExitStack() as stack:
        dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-timeline-"))
        env = demo.daemon(stack, d.build, dir_, f"policy = {policy}\n")
        trace = os.path.join(dir_, "trace")
        recorder = demo.start(stack, [d.fermata, "trace", "record", "-q", "-o", trace], env)
        serve = d.client + ["serve", str(d.size["height"]), str(d.period_us)]
        batch = d.client + ["batch", str(d.size["iters"])]
        clients = {}
        for name in PROGRAMS:
            priority = "high" if name == "serve" else "low"
            argv = [d.fermata, "run", "--group", name, "--priority", priority, "--"]
            clients[name] = (argv + (serve if name == "serve" else batch), env)
        answers, _ = demo.together(clients, SECONDS)
        recorder.send_signal(signal.SIGINT)
        if recorder.wait(30):
            raise demo.Failed("the recording has failed")
        subprocess.run([d.fermata + "-lab", "trace", "export", "--force", trace, "-o", to], check=True, env=env)
    return answers["serve"]["p50_us"] / 1e3


class Timeline:
    def __init__(self, path):
        with open(path, encoding="ascii") as f:
            events = json.load(f)["traceEvents"]
        tracks = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        self.queues, self.groups, ends = {}, {}, {}
        for e in events:
            name = tracks[e["tid"]]
            if e["ph"] == "X" and name.startswith("group "):
                self.groups.setdefault(name[6:], []).append((e["ts"], e["ts"] + e["dur"], e["name"]))
            elif e["ph"] == "X" and name.endswith(": segments"):
                self.queues.setdefault(e["args"]["group"], []).append((e["ts"], e["ts"] + e["dur"]))
            elif e["ph"] in "sf":
                ends.setdefault(e["id"], {})[e["ph"]] = (e["ts"], name[6:])
        # A group that nobody stops is not asked about its pauses: there the segments tell.
        self.stops = any(what.startswith("waits") for slices in self.groups.values() for _, _, what in slices)
        self.arrows = [(a["s"], a["f"]) for a in ends.values()]

    def work(self, name):
        """When the device worked for it, as far as the scheduler tells; bars that touch are one."""
        if self.stops:
            return merged((a, b) for a, b, what in self.groups.get(name, []) if what.startswith(("runs", "stopping")))
        return merged(self.queues.get(name, []))

    def window(self):
        """Some of it, from just before a request on, in the middle: where the program worked after a pause."""
        work = self.work("serve")
        if len(work) < 4:
            raise demo.Failed("the program in front has hardly worked")
        starts = [b[0] for a, b in zip(work, work[1:]) if b[0] - a[1] > 10_000]
        middle = (work[0][0] + work[-1][1]) / 2
        return min(starts or [middle], key=lambda t: abs(t - middle)) - 0.06 * WINDOW_NS / 1000


def bars(slices, start, colour, style, y):
    end = start + WINDOW_NS / 1000
    for a, b in slices:
        a, b = max(a, start), min(b, end)
        if b > a:
            x, w = ((a - start) / (end - start) * WIDTH, (b - a) / (end - start) * WIDTH)
            yield (f'<rect x="{LEFT + x:.1f}" y="{y}" width="{max(w, 0.4):.1f}" height="{BAR}" '
                   f'fill="{colour}" {style}/>')


def merged(slices, gap=40):
    out = []
    for a, b in sorted(slices):
        if out and a - out[-1][1] < gap:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def panel(t, title, top):
    start = t.window()
    end = start + WINDOW_NS / 1000
    yield f'<text x="{LEFT}" y="{top - 10}" class="title">{title}</text>'
    for i, name in enumerate(PROGRAMS):
        y = top + i * ROW
        yield f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{name}</text>'
        yield f'<line x1="{LEFT}" y1="{y + BAR + 5}" x2="{LEFT + WIDTH}" y2="{y + BAR + 5}" stroke="#ddd"/>'
        waits = [(a, b) for a, b, what in t.groups.get(name, []) if what.startswith("waits")]
        yield from bars(waits, start, COLOURS[name], 'fill-opacity="0.15"', y)
        yield from bars(t.work(name), start, COLOURS[name], "", y)
    for (at, who), (stop, victim) in t.arrows:
        if who == "serve" and victim in PROGRAMS and start <= at and stop <= end:
            x1, x2 = (LEFT + (v - start) / (end - start) * WIDTH for v in (at, stop))
            y2 = top + PROGRAMS.index(victim) * ROW
            yield f'<line x1="{x1:.1f}" y1="{top + BAR}" x2="{x2:.1f}" y2="{y2}" class="arrow"/>'


def axis(y):
    for ms in range(0, WINDOW_NS // 1_000_000 + 1, 50):
        x = LEFT + ms * 1e6 / WINDOW_NS * WIDTH
        yield f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + 4}" stroke="#666"/>'
        yield f'<text x="{x:.1f}" y="{y + 17}" text-anchor="middle">{ms} ms</text>'


def draw(before, after, p50, to):
    height = 2 * len(PROGRAMS) * ROW + 150
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 24}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        "<!-- made by script/timeline from two recordings -->",
        "<style>.title{font-size:14px;font-weight:bold} .arrow{stroke:#222;marker-end:url(#head)}</style>",
        '<defs><marker id="head" markerWidth="7" markerHeight="6" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" fill="#222"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        *panel(before, f"before: in the driver's own order (half of the requests take at most {p50[0]:.0f} ms)", 40),
        *panel(after, f"after: under Fermata, serve first ({p50[1]:.0f} ms)", 40 + len(PROGRAMS) * ROW + 40),
        *axis(40 + 2 * len(PROGRAMS) * ROW + 44),
        f'<text x="{LEFT}" y="{height - 8}" fill="#555">full: the device works for the program. pale: it is '
        "stopped, and waits. arrow: from serve's request to where the other had come to rest.</text>",
        "</svg>",
    ]
    with open(to, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--output", required=True)
    args = p.parse_args()
    d = demo.Demo(args.build, SECONDS)
    d.calibrate()
    with tempfile.TemporaryDirectory(prefix="fermata-timeline-") as tmp:
        paths = [os.path.join(tmp, name) for name in ("before.json", "after.json")]
        p50 = [record(d, policy, path) for policy, path in zip(("fifo", "fixed-priority"), paths)]
        draw(Timeline(paths[0]), Timeline(paths[1]), p50, args.output)


if __name__ == "__main__":
    try:
        main()
    except demo.Failed as e:
        sys.exit(f"timeline: {e}")
