#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of two APIs on one device, alone, natively and under Fermata. The device is one by a token (tests/fakes/token): lavapipe's and
PoCL's commands are served one at a time, in the order in which they become ready. What is measured is so a device without queues of its
own, with the processor's speed. Prints tables; --markdown for documents.

  filter       25 frames a second by Vulkan, a frame of many short commands, beside two OpenCL programs that always compute
  conference   25 frames a second by Vulkan, a frame of one command, beside OpenCL's speech to text: a kernel of 0.8 s each 3 s"""

import argparse
import contextlib
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from demo import Failed, answer, daemon, others_at_work, start, together  # noqa: E402,F401

PERIOD_US = 40000
FILTER = (1000, 8)  # us of a command, and so many of them in a frame
BATCH_US = 1500
SPEECH_US, SPEECH_PERIOD_US = 800000, 3000000
CONFERENCES = (26000, 30000)  # us of a frame: with speech 92 % of the device, and 102 %


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


class Bench:
    def __init__(self, build, seconds, rounds, dir_):
        self.build, self.seconds, self.rounds, self.dir = build, seconds, rounds, dir_
        fakes, ours = os.path.join(build, "tests", "fakes"), os.path.realpath(os.path.join(build, "lib", "fermata", "vulkan"))
        icd = [f for f in glob.glob("/usr/share/vulkan/icd.d/*.json") if "lvp" in f]
        if not icd:
            raise Failed("lavapipe is not installed (Debian: mesa-vulkan-drivers)")
        manifest = {"file_format_version": "1.2.0", "layer": {
            "name": "VK_LAYER_FERMATA_token", "type": "GLOBAL", "library_path": os.path.join(fakes, "libtoken_vulkan.so"),
            "api_version": "1.3.239", "implementation_version": "1", "description": "one device for all"}}
        with open(os.path.join(dir_, "VkLayer_token.json"), "w", encoding="ascii") as f:
            json.dump(manifest, f)
        self.token = {
            "FERMATA_TOKEN": os.path.join(dir_, "token"), "LP_NUM_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1",
            "VK_ICD_FILENAMES": icd[0], "VK_ADD_LAYER_PATH": f"{ours}:{dir_}"}
        below = os.path.join(fakes, "libtoken_opencl.so")
        self.native = {**self.token, "VK_INSTANCE_LAYERS": "VK_LAYER_FERMATA_token", "OPENCL_LAYERS": below}
        self.layered = {**self.token, "VK_INSTANCE_LAYERS": "VK_LAYER_FERMATA_schedule:VK_LAYER_FERMATA_token",
                        "OPENCL_LAYERS": f"{below}:{os.path.join(build, 'lib', 'libfermata-opencl.so')}"}

    def frames(self, us, commands):
        return [os.path.join(self.build, "tests", "gpu_vulkan"), "job", str(us), str(commands), str(PERIOD_US)]

    def opencl(self, *argv):
        return [os.path.join(self.build, "bench", "demo_client"), *map(str, argv)]

    def steps(self, us):
        """Of bench/batch.h's kernel, for so long a one: natively, and under Fermata. PoCL makes other code of a kernel that was rewritten so
        that it can be stopped, which may be several times as fast; so each setting has the number that takes so long there, alone."""
        argv = self.opencl("calibrate", 1000, us)
        native = subprocess.check_output(argv, text=True, env={**os.environ, **self.native})
        with contextlib.ExitStack() as stack:
            dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-one-"))
            env = {**daemon(stack, self.build, dir_), **self.layered}
            ours = subprocess.check_output([os.path.join(self.build, "bin", "fermata"), "run", "--", *argv], text=True, env=env)
        return [json.loads(out)["iters"] for out in (native, ours)]

    def natively(self, clients, seconds=None):
        env = {**os.environ, **self.native}
        return together({name: (argv, env) for name, (argv, _) in clients.items()}, seconds or self.seconds)[0]

    def under_fermata(self, clients, policy="fixed-priority", seconds=None):
        with contextlib.ExitStack() as stack:
            dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-one-"))
            env = {**daemon(stack, self.build, dir_, f"policy = {policy}\n"), **self.layered}  # what it does not read of the hints it says
            run = [os.path.join(self.build, "bin", "fermata"), "run"]
            return together({name: ([*run, *options, "--", *argv], env) for name, (argv, options) in clients.items()},
                            seconds or self.seconds, before_begin=lambda: self.check_levels(run[0], env))[0]

    @staticmethod
    def check_levels(fermata, env):
        """What is measured are kernels that can be stopped. At level 2 those that `steps` has made longer take several times as long, too."""
        groups = json.loads(subprocess.check_output([fermata, "ps", "--json"], text=True, env=env))["groups"]
        levels = {f"{g['name']}: level {q['level']}" for g in groups for q in g["queues"] if "demo_client" in g["name"] and q["level"] != 3}
        if levels:
            raise Failed(f"kernels that cannot be stopped ({', '.join(sorted(levels))}): see `fermata ps --calls`")


def ms(us):
    return f"{us / 1e3:.1f}"


def show(title, head, rows, markdown):
    yield ""
    yield title
    yield ""
    if markdown:
        yield "| " + " | ".join(head) + " |"
        yield "|" + "---|" * len(head)
        yield from ("| " + " | ".join(row) + " |" for row in rows)
        return
    width = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(cell.ljust(w) if not i else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, width))).rstrip()


def of_rounds(values, alone=None):
    """The median of the rounds, and their range; or its ratio to that alone in the same round."""
    if alone:
        ratios = [v / a for v, a in zip(values, alone)]
        return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"{ms(statistics.median(values))}"


def filter_beside_two(b):
    us, commands = FILTER
    steps = b.steps(BATCH_US)
    frames = {"frames": (b.frames(us, commands), ["--priority", "high"])}
    others, ours = ({f"other {i}": (b.opencl("batch", n), ["--priority", "low"]) for i in (1, 2)} for n in steps)
    got = {"alone": [], "native": [], "Fermata": []}
    others_alone = []
    for _ in range(b.rounds):
        got["alone"].append(b.natively(frames))
        others_alone.append(b.natively(others))
        got["native"].append(b.natively({**frames, **others}))
        got["Fermata"].append(b.under_fermata({**frames, **ours}))

    def per_s(answers):
        return sum(a["per_s"] for name, a in answers.items() if name != "frames")

    alone = [a["frames"]["p99_us"] for a in got["alone"]]
    rows = []
    for name, answers in got.items():
        f = [a["frames"] for a in answers]
        p99 = [x["p99_us"] for x in f]
        rows.append([name, of_rounds([x["p50_us"] for x in f]), of_rounds(p99), of_rounds([x["max_us"] for x in f]),
                     of_rounds(p99, alone), str(sum(x["missed"] for x in f)),
                     "-" if name == "alone" else of_rounds([per_s(a) for a in answers], [per_s(a) for a in others_alone]),
                     "-" if name != "Fermata" else of_rounds([per_s(a) for a in answers], [per_s(a) for a in got["native"]])])
    title = (f"filter: 25 frames a second, each {commands} commands of {us} us; two programs with kernels of {BATCH_US} us, 64 queued each")
    return title, ["", "P50 ms", "P99 ms", "max ms", "P99 to alone", "missed", "others to alone", "others to native"], rows


def conference(b, frame_us):
    steps = [n * SPEECH_US // 2000 for n in b.steps(2000)]
    frames = {"frames": (b.frames(frame_us, 1), ["--priority", "high"])}
    hints = ["--priority", "low", "--deadline", "3s", "--period", "3s", "--runtime", f"{SPEECH_US // 1000}ms"]
    speech, ours = ({"speech": (b.opencl("chunks", n, 1, SPEECH_PERIOD_US), hints)} for n in steps)
    got = {"alone": [], "native": [], "fixed-priority": [], "least-laxity": []}
    alone_s = [a["speech"]["p50_us"] / 1e6 for a in (b.natively(speech, 6.5), b.under_fermata(ours, seconds=6.5))]
    for _ in range(b.rounds):
        got["alone"].append(b.natively(frames))
        got["native"].append(b.natively({**frames, **speech}))
        for policy in ("fixed-priority", "least-laxity"):
            got[policy].append(b.under_fermata({**frames, **ours}, policy))
    alone = [a["frames"]["p99_us"] for a in got["alone"]]
    between = [a["frames"]["between_p99_us"] for a in got["alone"]]
    rows = []
    for name, answers in got.items():
        f = [a["frames"] for a in answers]
        s = [a["speech"] for a in answers if "speech" in a]
        if any(x["wrong"] for x in s):
            raise Failed(f"{name}: wrong results")
        rows.append([name, of_rounds([x["p50_us"] for x in f]), of_rounds([x["p99_us"] for x in f]),
                     of_rounds([x["p99_us"] for x in f], alone), of_rounds([x["between_p99_us"] for x in f]),
                     of_rounds([x["between_p99_us"] for x in f], between), str(sum(x["requests"] for x in f)),
                     str(sum(x["missed"] for x in f)),
                     f"{max(x['max_us'] for x in s) / 1e6:.2f}" if s else "-",
                     f"{sum(x['late'] for x in s)} of {sum(x['chunks'] for x in s)}" if s else "-"])
    title = (f"conference: 25 frames a second, each a command of {frame_us / 1e3:g} ms; speech, a kernel of 0.8 s each 3 s"
             f" (alone {alone_s[0]:.2f} s, under Fermata {alone_s[1]:.2f} s)")
    return title, ["", "P50 ms", "P99 ms", "P99 to alone", "between, P99 ms", "to alone", "frames", "missed", "speech, worst s",
                   "late"], rows


def main():
    parser = argparse.ArgumentParser(prog="script/one-device", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=18.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("what", nargs="*", default=["filter", "conference"])
    args = parser.parse_args()
    if not 7 <= args.seconds <= 3600 or args.rounds < 1:
        parser.error("--seconds: from 7 to 3600; --rounds: 1 at least")
    # Where it may: other work of the machine is in the way of the device, which is the processor.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        with tempfile.TemporaryDirectory(prefix="fermata-one-") as dir_:
            b = Bench(args.build, args.seconds, args.rounds, dir_)
            busy, tables = others_at_work(), []
            if "filter" in args.what:
                tables.append(filter_beside_two(b))
            if "conference" in args.what:
                tables += [conference(b, us) for us in CONFERENCES]
            print(f"rounds    {args.rounds} of {args.seconds:g} s; the median, and for ratios the range; {'SCHED_RR' if os.sched_getscheduler(0) else 'no priority'}; others at work"
                  f" before it {busy:.1f}, load in the last minute {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
            for table in tables:
                print("\n".join(show(*table, args.markdown)))
    except (Failed, subprocess.CalledProcessError) as e:
        sys.exit(f"one-device: {e}")


if __name__ == "__main__":
    main()
