#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""script/demo says when the machine is busy, and its numbers are what they are called. How large they are is not looked at."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "script", "lib"))
import demo  # noqa: E402


def what_is_busy(stack):
    path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-")), "loadavg")
    for text, n in (("9.99 1.00 0.50 1/300 17\n", 0), ("0.00 0.00 0.00 12/300 17\n", 11)):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        check(demo.runnable(path) == n, f"{text}: {demo.runnable(path)}")
        check(demo.others_at_work(0, 3, lambda: demo.runnable(path)) == n, text)
    check(demo.busy(0, 2) is None and demo.busy(1, 2) is None and demo.busy(4, 8) is None, "it is quiet")
    check("11.0 other tasks" in demo.busy(11, 2), demo.busy(11, 2))


def result(background, others=0):
    d = demo.Demo(BUILD, 2)
    d.size, d.period_us, d.cores, d.others = {"device": "d", "type": "cpu", "request_us": 20, "chain": 3, "kernel_us": 700}, 100, 2, others
    fg = {"requests": 9, "p50_us": 1, "p99_us": 2, "max_us": 3, "service_us": 1, "wrong": 0}
    alone, native, ours = ({"foreground": fg, "background 1": {"per_s": n, "wrong": 0}} for n in background)
    return d.result(alone, native, ours, {"devices": []})


def the_background_is_compared_with_itself(stack):
    r = result((1000, 950, 700))
    of = [row["background_of_alone"] for row in r["runs"].values()]
    check(of == [1, 0.95, 0.7], f"to alone: {of}")
    text = "\n".join(demo.table(r))
    check("time left" not in text and "BUSY" not in text and " 0.95x" in text and "asks for 20% of the device" in text, text)
    check("BUSY: 9.0 other tasks" in "\n".join(demo.table(result((1000, 950, 700), 9))), "a busy machine")
    check(result((0, 0, 0))["runs"]["native"]["background_of_alone"] is None, "nothing to compare with")


def it_says_so_before_it_measures(stack):
    for _ in range(3 * len(os.sched_getaffinity(0))):  # others who want the processors
        p = subprocess.Popen([sys.executable, "-c", "import os; os.nice(19)\nwhile True: pass"])
        stack.callback(p.wait)
        stack.callback(p.kill)
    argv = [sys.executable, os.path.join(SOURCE, "script", "lib", "demo.py"), "--build", BUILD, "--seconds", "2"]
    with subprocess.Popen(argv, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
        said = []
        for line in p.stderr:
            said.append(line)
            if "machine is busy: " in line or "choosing a device" in line:
                break
        p.terminate()
        p.stderr.read()
    check(any(re.match(r"demo: the machine is busy: \d+\.\d other tasks run or wait for \d+ processors: .* quiet\.$", line)
              for line in said), f"{said}")


if __name__ == "__main__":
    main(what_is_busy, the_background_is_compared_with_itself, it_says_so_before_it_measures)
