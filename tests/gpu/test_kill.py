#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a device: how soon kernels of one wave that may be killed leave it, with barriers and without, and whether they then leave what
they leave alone. The times are of stops of that program alone, from a trace; those of the program beside it are another matter. It
fails if a result differs, or nothing was killed. How good the numbers are is for people to say.

  test_kill.py [SECONDS [KERNEL [BESIDE]]]

KERNEL: alone (each thread looks) or sums (its barriers tell). BESIDE: the other program, without which nothing is stopped in the
middle of a kernel, rests all the time; or works as soon as this one is told to stop, and then the device may take turns between the
contexts of both while this one stops."""
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import FERMATA, PATIENCE, Fermata, Steering, check, command, cuda_env, eventually, program

PTX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "kill", "kill.ptx")
IDLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "again", "again.ptx")
BLOCKS, THREADS = 528, 64
FEW = 3  # rounds of what is recorded: what is touched does not depend on them
KERNELS, BESIDE = ("alone", "sums"), ("rests", "works")
ROWS = [(ms, how) for ms in (1, 10, 100) for how in ("--guardian", "--guardian-kill")]
HELD = 0.02  # s; a launch that cannot be left is held longer than it takes
SEGMENTS = ("wake", "tell", "leave")


def work(kernel, n, seconds):
    return [program("cuda_kill_work"), PTX, kernel, str(BLOCKS), str(THREADS), str(n), str(seconds)]


def native_ns(kernel, n):
    r = subprocess.run(work(kernel, n, 0), env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=120, check=True)
    return int(r.stdout)


def rounds(kernel, ms):
    """So many that a launch takes that long alone."""
    base, more = native_ns(kernel, 1000), native_ns(kernel, 101000)
    return max(1, int(ms * 1e6 * 100000 / max(more - base, 1)))


def listed(folder, kernel, n):
    """What the recorder says of a launch with few rounds, of one with so many."""
    trace, path = os.path.join(folder, "trace"), os.path.join(folder, "x.idem")
    env = cuda_env(dict(os.environ))
    for argv in ([*command("idempotence", "record", "--force", "--collector", "cuda", "-o", trace), "--", *work(kernel, FEW, 0)],
                 command("idempotence", "check", "--force", "-o", path, trace)):
        subprocess.run(argv, env=env, check=True, timeout=300, capture_output=True)
    with open(path, encoding="ascii") as f:
        text, changed = re.subn(rf" pp{FEW:x},; ", f" pp{n:x},; ", f.read())
    check(changed == 1, f"{kernel} may not be killed: {text}")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


def stop_again_and_again(fermata, p, ms, killed, rng):
    """Until it ends. Between two stops a whole launch fits: one that is cut short more than a few times is not killed any more."""
    counts = {}
    with contextlib.ExitStack() as stack:
        steer = Steering(stack, fermata)
        while p.p.poll() is None:
            steer("suspend", p.pid)
            time.sleep(HELD + (0 if killed else 1.5 * ms / 1000))
            steer("resume", p.pid)
            time.sleep(0.01 + (1.3 + rng.random()) * ms / 1000)
            counts.update({c["call"]: c["undivided"] for c in (fermata.group(p.pid) or {}).get("calls", ()) if "kill" in c["call"]})
    return counts


def stops(records, pid, group):
    """Of each stop in the middle of a launch its parts, us: until the client tells the device, the call that does, and until the
    queue stands; and whether it stands inside of a launch."""
    found, now = [], {}
    for r in sorted((r for r in records if "time_ns" in r), key=lambda r: (r["time_ns"], r.get("event") == "stalled")):
        event, at, ours = r.get("event"), r["time_ns"], r.get("group") == group
        if event == "gate_closed" and ours:
            now = {"closed": at}
        elif event == "gate_opened" and ours:
            now = {}
        elif event == "told_to_stop" and r["pid"] == pid and now:
            now.update(told=at, took=r["took"])
        elif event == "interrupted" and r["pid"] == pid and now:
            now["inside"] = at
        elif event == "stalled" and ours and "told" in now:
            stands = now.get("inside", at)
            found.append({"all": r["took"] / 1e3, "wake": (now["told"] - now["closed"]) / 1e3, "tell": now["took"] / 1e3,
                          "leave": (stands - now["told"] - now["took"]) / 1e3, "inside": "inside" in now})
            now = {}
    return found


def part(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))] if values else float("nan")


def row(kernel, beside, ms, how, n, path, seconds):
    killed = how.endswith("kill")
    with contextlib.ExitStack() as stack:
        fermata = Fermata(stack)
        fermata.env = cuda_env(fermata.env)
        # Of the same priority: a group that waits for no other one is not stopped in the middle of a kernel, nor is one that is alone.
        if beside == "works":
            fermata.cuda_worker()
        else:
            other = fermata.program([program("cuda_again"), IDLE])
            for line in "alloc 1024", "alloc 1024", "run again_plain 0 1 1", "sync":
                other.tell(line)
            fermata.knows(other.pid)
        trace = os.path.join(fermata.dir, "trace")
        recorder = subprocess.Popen([FERMATA, "trace", "record", "-o", trace], env=fermata.env, stderr=subprocess.DEVNULL)
        stack.callback(recorder.kill)
        eventually("it records", lambda: os.path.exists(trace) and os.path.getsize(trace) > 56)
        p = fermata.program(work(kernel, n, seconds), *([how, path] if killed else [how]))
        p.line("ready")
        fermata.knows(p.pid)
        group = fermata.group(p.pid)["name"]
        counts = stop_again_and_again(fermata, p, ms, killed, random.Random(ms))
        check(p.wait() == 0, f"{kernel} of {ms} ms, {how}: other results, or status {p.p.returncode}")
        recorder.terminate()
        check(recorder.wait(PATIENCE) == 0, "the recorder failed")
        found = stops([json.loads(line) for line in fermata.cli("trace", "dump", "--json", trace).stdout.splitlines()], p.pid, group)
        inside = sum(s["inside"] for s in found)
        parts = "".join(f"{part([s[k] for s in found], .5):9.1f}{part([s[k] for s in found], .99):9.1f}" for k in ("all", *SEGMENTS))
        print(f"{kernel:6}{beside:>7}{ms:5} {how:16}{len(found):6}{inside:7}{parts}  {counts or ''}", flush=True)
        check(not killed or inside, f"nothing was killed: {counts}")


def main():
    seconds = int(sys.argv[1]) if sys.argv[1:] else 5
    title = "".join(f"{name:>9}{'P99':>9}" for name in ("P50 us", *SEGMENTS))
    print(f"{'kernel':6}{'beside':>7}{'ms':>5} {'how':16}{'stops':>6}{'inside':>7}{title}")
    with tempfile.TemporaryDirectory() as folder:
        for kernel in sys.argv[2:3] or KERNELS:
            for ms, how in ROWS:
                n = rounds(kernel, ms)
                path = listed(folder, kernel, n)
                for beside in sys.argv[3:4] or BESIDE:
                    row(kernel, beside, ms, how, n, path, seconds)


if __name__ == "__main__":
    main()
