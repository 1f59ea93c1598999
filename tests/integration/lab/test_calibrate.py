#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata calibrate`: that it measures through the front door, on each kind of device, and that what it writes is what
analyze takes. How long anything took is not looked at."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, Fermata, check, cuda_env, main, need_cuda_shim, on_terminal  # noqa: E402

TASKS = {"unit": "ms", "tasks": [{"name": "a", "priority": 1, "cpu": 0, "period": 10 ** 7, "deadline": 10 ** 7,
                                  "cpu_time": 1, "segments": [{"total": 2, "misc": 1, "gpu": 1}]}]}


def fermata(*argv, env=None, status=0):
    env = {k: v for k, v in (env or os.environ).items() if not k.startswith("FERMATA_") or k == "FERMATA_SOCKET"}
    r = subprocess.run([FERMATA, *argv], env=env, text=True, capture_output=True, timeout=240)
    check(status is None or r.returncode == status, f"{argv}: {r.returncode} {r.stdout} {r.stderr}")
    return r


def measured(stack, *argv, env=None):
    """With --json and a file: the same in both, of samples that can be; the path of the file."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path = os.path.join(dir_, "platform.json")
    r = json.loads(fermata("calibrate", "--seconds", "1", "--json", "-o", path, *argv, env=env).stdout)
    with open(path, encoding="utf-8") as f:
        check(json.load(f) == r, "the file and what is printed differ")
    check(os.listdir(dir_) == ["platform.json"], os.listdir(dir_))
    samples = r["samples"]
    for name in ("begin", "go_on"):
        s = samples[name]
        check(s["count"] >= 20 and 0 <= s["min_ns"] <= s["p50_ns"] <= s["p99_ns"] <= s["max_ns"], f"{name}: {s}")
    check(samples["react"]["count"] > 0, f"the daemon decided nothing: {samples}")
    # Processes on PoCL run beside each other: on a busy machine the one in front is done before the other stands.
    check(samples["stop"] or r["device"]["kind"] == "opencl", f"the daemon stopped nobody: {samples}")
    check(not samples["stop"] or samples["stop"]["count"] > 0, f"{samples}")
    most = max(samples["begin"]["max_ns"], samples["go_on"]["max_ns"])
    check(2.3 * most <= r["epsilon_ns"] <= 2.4 * most + 1000 or r["epsilon_ns"] == 3600 * 10 ** 9, r)
    check(r["fermata_platform"] == 1 and r["measured"]["margin_percent"] == 20, r)
    check(r["device"]["name"] and r["machine"]["cpus"] >= 1 and r["measured"]["at"].endswith("Z"), r)
    return r, path


def analysed(path, dir_, method, status=0):
    tasks = os.path.join(dir_, "tasks.json")
    with open(tasks, "w", encoding="ascii") as f:
        json.dump(TASKS, f)
    return fermata("analyze", "--json", "--method", method, "--platform", path, tasks, status=status)


def software_device(stack):
    r, path = measured(stack, "--device", "sim")
    check(r["device"]["kind"] == "sim" and r["device"]["name"] == "sim:0" and r["measured"]["level"] == 3, r)
    check(r["slice_ns"] is None and r["theta_ns"] is None and r["samples"]["turn"] is None, "no driver shares it")
    bound = json.loads(analysed(path, os.path.dirname(path), "gcaps-busy").stdout)["tasks"][0]["wcrt"]
    check(abs(bound - (3 + 4 * r["epsilon_ns"] / 1e6)) < 1e-6, f"bound {bound} with {r['epsilon_ns']}")
    check("slice" in analysed(path, os.path.dirname(path), "rr-busy", status=2).stderr, "rr without a slice")


def opencl(stack):
    r, path = measured(stack, "--device", "opencl", "--command", "500us")
    check(r["device"]["kind"] == "opencl" and r["measured"]["level"] >= 2, r)
    if r["slice_ns"] is not None:
        check(r["slice_ns"] > 0 and r["theta_ns"] >= 0 and r["samples"]["turn"]["count"] > 0, r)
        analysed(path, os.path.dirname(path), "rr-suspend")


def cuda(stack):
    need_cuda_shim()
    r, _ = measured(stack, "--device", "cuda:0", env=cuda_env(os.environ))
    check(r["device"]["platform"] == "CUDA" and r["measured"]["level"] == 2, r)


def the_daemon_there(stack):
    f = Fermata(stack)
    r, _ = measured(stack, "--device", "sim", "--socket", f.dir)
    check(f.cli("stats", "--json").stdout and r["samples"]["stop"]["count"] > 0, "its daemon is that one")
    before = json.loads(f.cli("stats", "--json").stdout)["preemptions"]
    check(before > 0, "it was not asked")
    check(os.path.exists(os.path.join(f.dir, "control.sock")), "it removed somebody else's daemon")
    f.cli("policy", "fair")
    e = fermata("calibrate", "--device", "sim", "--socket", f.dir, status=1).stderr
    check("policy is fair" in e and "fixed-priority" in e, e)


def for_people(stack):
    text = fermata("calibrate", "--device", "sim", "--seconds", "1").stdout
    for word in ("software device", "SAMPLES", "begin", "resume", "epsilon", "not measured", "no proof"):
        check(word in text, text)


def what_makes_no_sense(stack):
    for argv, word in ((["--device", "disk"], "is none of"), (["--device", "sim:"], "is none of"),
                       (["--device", "sim:x"], "is none of"), (["--seconds", "0"], "out of range"),
                       (["--seconds", "601"], "out of range"), (["--command", "1us"], "from 10us"),
                       (["file"], "no argument"), (["--config", "x", "--socket", "y"], "either")):
        check(word in fermata("calibrate", *argv, status=2).stderr, f"{argv}")
    e = fermata("calibrate", "--device", "opencl:63", status=1).stderr
    check("no such device" in e or "no OpenCL loader" in e, e)
    e = fermata("calibrate", "--device", "sim", "--config", "/nonexistent", status=1).stderr
    check("did not start" in e and "hint: `fermatad --check-config /nonexistent' tells" in e, e)
    r = fermata("calibrate", "--device", "sim", "--seconds", "1", "-o", "/nonexistent/x", status=1)
    check("cannot write" in r.stderr, r.stderr)
    check("epsilon" not in r.stdout, "it is measured for nothing")
    check("fermata calibrate" in fermata("_calibrate", "0", status=2).stderr, "the programs are its own")


def nothing_is_left(stack):
    tmp = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    fermata("calibrate", "--device", "sim", "--seconds", "1", env={**os.environ, "TMPDIR": tmp})
    check(not os.listdir(tmp), f"it leaves {os.listdir(tmp)}")
    fermata("calibrate", "--device", "sim", "--config", "/nonexistent", env={**os.environ, "TMPDIR": tmp}, status=1)
    check(not os.listdir(tmp), f"it leaves {os.listdir(tmp)} where the daemon did not start")
    long = os.path.join(tmp, "x" * 90)
    os.mkdir(long)
    e = fermata("calibrate", "--device", "sim", env={**os.environ, "TMPDIR": long}, status=1).stderr
    check("no directory can be made" in e and not os.listdir(long), e)


def programs_that_do_not_start_are_told(stack):
    """Without the layer beside it `fermata run` starts nothing."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    for name in "bin/fermata", "bin/fermatad", "lib/libfermata.so.0":
        os.makedirs(os.path.join(dir_, os.path.dirname(name)), exist_ok=True)
        shutil.copy(os.path.join(BUILD, name), os.path.join(dir_, name))
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    r = subprocess.run([os.path.join(dir_, "bin", "fermata"), "calibrate", "--device", "sim", "--seconds", "1"], env=env, text=True,
                       capture_output=True, timeout=240)
    check(r.returncode == 1 and "cannot find libfermata-opencl.so" in r.stderr and "ended early" in r.stderr, f"{r}")


def progress_is_one_line_on_a_terminal(stack):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    status, out, shown = on_terminal([FERMATA, "calibrate", "--device", "sim", "--seconds", "2"], env=env)
    check(status == 0 and out, f"{status}: {out} {shown}")
    check("\n" not in shown and shown.endswith("\r\033[K"), f"it is not one line that goes: {shown!r}")
    steps = shown.split("\r\033[K")
    check([s for s in steps if "finding the length of commands, 0 of 2 s" in s], f"{steps}")
    check(len({s for s in steps if s.startswith("calibrate: two programs under Fermata, ")}) > 1, f"it does not go on: {steps}")


def sets_measured(*argv):
    for seconds in "1", "10", "60":  # on a busy machine there are too few samples
        said = fermata("calibrate", "--gpu-sched", "--seconds", seconds, *argv, status=None if seconds != "60" else 0)
        if not said.returncode:
            break
        check("too few" in said.stderr and "--seconds" in said.stderr, said.stderr)
    return said


def sets_that_schedule_themselves(stack):
    """No device, no daemon; each number of tasks is a row, and what a file has otherwise stays in it."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path = os.path.join(dir_, "platform.json")
    said = sets_measured("--tasks", "7,2,7", "--json", "-o", path)
    r = json.loads(said.stdout)
    with open(path, encoding="utf-8") as f:
        check(json.load(f) == r, "the file and what is printed differ")
    check(r["fermata_platform"] == 1 and r["gpu_sched"]["version"] == 1 and "epsilon_ns" not in r, r)
    engines = r["gpu_sched"]["engines"]
    check([row["tasks"] for row in engines["cpu"]["rows"]] == [2, 7], engines)
    for row in engines["cpu"]["rows"]:
        for name in ("decision", "start", "preemption"):
            s = row["samples"][name]
            check(s["count"] >= 20 and 0 <= s["min_ns"] <= s["p50_ns"] <= s["p99_ns"] <= s["max_ns"], f"{name}: {s}")
        most = max(row["samples"][name]["max_ns"] for name in ("decision", "preemption"))
        check(1.19 * most <= row["decision_ns"] <= 1.2 * most + 20, row)
        check(1.19 * row["samples"]["start"]["max_ns"] <= row["start_ns"], row)
    for name in ("gates", "graphs"):
        check(name in engines[name]["skipped"], engines)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**r, "epsilon_ns": 5, "note": "mine"}, f)
    text = sets_measured("--tasks", "3", "--update", path).stdout
    for word in ("cpu, 3 tasks: preemption", "a decision is charged as", "gates: not measured", "no proof"):
        check(word in text, text)
    with open(path, encoding="utf-8") as f:
        new = json.load(f)
    rows = new["gpu_sched"]["engines"]["cpu"]["rows"]
    check(new["epsilon_ns"] == 5 and new["note"] == "mine" and [row["tasks"] for row in rows] == [2, 3, 7], new)
    check([rows[0], rows[2]] == engines["cpu"]["rows"], new)
    check(os.listdir(dir_) == ["platform.json"], os.listdir(dir_))


def sets_and_what_makes_no_sense(stack):
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    path = os.path.join(dir_, "x.json")
    for argv, word in ((["--tasks", "2"], "belongs to --gpu-sched"), (["--gpu-sched", "--tasks", "1"], "out of range"),
                       (["--gpu-sched", "--tasks", "1025"], "out of range"), (["--gpu-sched", "--tasks", "2,"], ""),
                       (["--gpu-sched", "--tasks", ",".join(["2"] * 33)], "at most 32"),
                       (["--gpu-sched", "--device", "sim"], "neither a device"), (["--gpu-sched", "--socket", "/x"], "neither a device"),
                       (["--gpu-sched", "-o", path, "--update", path], "either")):
        check(word in fermata("calibrate", *argv, status=2).stderr, f"{argv}")
    e = fermata("calibrate", "--gpu-sched", "--update", path, status=1).stderr
    check(path in e and "cannot be read" in e, e)
    for text, words in (("{}", ("fermata_platform", "--output")), ('{"fermata_platform": 1, "gpu_sched": {"version": 2}}', ("gpu_sched.version",))):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        e = fermata("calibrate", "--gpu-sched", "--update", path, status=2).stderr
        check(path in e and all(word in e for word in words[:1]), e)
        with open(path, encoding="ascii") as f:
            check(f.read() == text, "what was there is not there")
    rows = [{"tasks": 2 * k, "decision_ns": 1, "start_ns": 1} for k in range(1, 33)]  # as many as are read
    with open(path, "w", encoding="ascii") as f:
        json.dump({"fermata_platform": 1, "gpu_sched": {"version": 1, "engines": {"cpu": {"rows": rows}}}}, f)
    e = fermata("calibrate", "--gpu-sched", "--tasks", "2,3", "--update", path, status=2).stderr
    check("33 numbers of tasks of the engine cpu" in e and "--output" in e, e)


if __name__ == "__main__":
    main(sets_that_schedule_themselves, sets_and_what_makes_no_sense, programs_that_do_not_start_are_told, progress_is_one_line_on_a_terminal, software_device, opencl, cuda, the_daemon_there, for_people,
         what_makes_no_sense, nothing_is_left)
