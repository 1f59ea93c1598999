#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two programs: what was `fermata sim` is `fermata-lab sim`. Old names give the same answers, and each program finds the other in
whatever directory they lie."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, FERMATA_LAB, Fermata, check, main, on_terminal  # noqa: E402

SOURCE = os.environ["SOURCE"]
WORKLOAD = os.path.join(SOURCE, "examples", "sim", "inference.ini")
BENCH = os.path.join(SOURCE, "examples", "bench", "a.json")
COMMANDS = "sim", "compare", "study", "bench", "policy-test"


def run(*argv, **more):
    return subprocess.run(argv, text=True, capture_output=True, timeout=120, check=False, **more)


def same(*argv, status=0, **more):
    """Both spellings give this status, the same output and the same words on the standard error; what they gave."""
    old, new = (run(program, *argv, **more) for program in (FERMATA, FERMATA_LAB))
    check((old.returncode, new.returncode) == (status, status), f"{argv}: {old} {new}")
    check((old.stdout, old.stderr) == (new.stdout, new.stderr), f"{argv}: {old} {new}")
    return old


def files(stack):
    """A simulation's trace and summaries of two: (directory, trace, fair, fifo)."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    trace, *runs = (os.path.join(dir_, name) for name in ("trace", "fair", "fifo"))
    for path in runs:
        more = ("--trace", trace) if path == runs[0] else ()
        r = run(FERMATA_LAB, "sim", WORKLOAD, "--duration", "5s", "--json", "--policy", os.path.basename(path), *more)
        check(r.returncode == 0, r)
        with open(path, "w", encoding="ascii") as f:
            f.write(r.stdout)
    return dir_, trace, *runs


def old_names_give_the_same_answers(stack):
    dir_, trace, fair, fifo = files(stack)
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True, "timeout": 120, "check": True}
    for argv in ("sim", WORKLOAD, "--duration", "2s", "--json"), ("sim", WORKLOAD, "--duration", "2s", "--csv"):  # it tells its speed
        old, new = (subprocess.run([p, *argv], **quiet).stdout for p in (FERMATA, FERMATA_LAB))
        check(old and old == new, f"{argv}")
    both = json.loads(same("compare", fair, fifo, "--json").stdout)
    check(both["groups"], both)
    text = same("trace", "export", trace, "-o", "-").stdout
    check(json.loads(text)["otherData"]["producer"].startswith("fermata "), "who made it")
    check("gcaps-8a" in same("study").stdout, "studies")
    check("conserves" in same("policy-test", "--list").stdout, "promises")
    check("kept" in same("policy-test", "fifo").stdout, "a policy's promises")


def statuses_are_handed_over(stack):
    _, _, fair, fifo = files(stack)
    same("compare", fair, fifo, "--fail-if-worse", status=3)
    same("compare", fair, fair + "x", status=1)
    for argv in ("sim",), ("sim", "--nonsense", WORKLOAD), ("compare", fair), ("study", "none"), ("policy-test", "fiar"), ("bench", "/dev/null"), ("trace", "export"):
        check("hint:" in (e := same(*argv, status=2).stderr) or "Try" in e, f"{argv}: {e}")


def options_before_the_command_are_handed_over(stack):
    for argv in ("--socket", "/nonexistent/a", "bench"), ("--socket=/nonexistent/a", "bench"), ("--socket", "/nonexistent/b", "--socket", "/nonexistent/a", "bench"):
        check("/nonexistent/a" in same(*argv, "--driver", "sim", BENCH, status=4).stderr, f"{argv}")
    env = dict(os.environ, FERMATA_SOCKET="/nonexistent/c")
    check("/nonexistent/c" in same("bench", "--driver", "sim", BENCH, status=4, env=env).stderr, "the environment")
    r = run(FERMATA, "--socket", "/nonexistent/a", "trace", "--socket", "/nonexistent/b", "export")
    check(r.returncode == 2 and "which file?" in r.stderr, r)
    odd = ["a b", "", "--", "-x", "'\"$"]
    old, new = (run(p, "sim", "--", *odd) for p in (FERMATA, FERMATA_LAB))
    check(old.returncode == new.returncode == 2 and old.stderr == new.stderr, f"odd words: {old} {new}")


def help_is_found_by_either_name(_):
    for c in COMMANDS:
        text = same("help", c).stdout
        check(text.startswith(f"Usage: fermata-lab {c} "), text)
        check(same(c, "--help").stdout == text, f"{c} --help")
    check("export FILE" in run(FERMATA_LAB, "trace", "--help").stdout, "trace")
    check("fermata-lab trace export" in run(FERMATA, "trace", "--help").stdout, "where the export is")
    text = run(FERMATA, "--help").stdout
    line = [x for x in text.splitlines() if "fermata-lab" in x]
    check(len(line) == 1 and all(c in line[0] for c in (*COMMANDS, "trace export")), text)
    check(not any(x.startswith(f"  {c} ") for c in COMMANDS for x in text.splitlines()), text)


def mistakes_are_mended(_):
    for program, word, hint in ((FERMATA, "simm", "did you mean 'fermata-lab sim'?"), (FERMATA, "policy-tes", "did you mean 'fermata-lab policy-test'?"),
                                (FERMATA_LAB, "simm", "did you mean 'sim'?"), (FERMATA_LAB, "ps", "fermata-lab --help lists"),
                                (FERMATA, "zzz", "fermata --help lists")):
        for argv in ([program, word], [program, "help", word]):
            r = run(*argv)
            check(r.returncode == 2 and hint in r.stderr and r.stderr.startswith(os.path.basename(program) + ": "), f"{argv}: {r}")
    r = run(FERMATA_LAB, "trace", "record")
    check(r.returncode == 2 and "it is a command of `fermata trace'" in r.stderr, r)


def the_new_name_is_told_on_a_terminal_alone(_):
    for argv, words in ((["study"], "study"), (["trace", "export", "/nonexistent/a", "-o", "/nonexistent/b"], "trace export")):
        status, out, shown = on_terminal([FERMATA, *argv])
        notice = f"fermata: `fermata {words}' is `fermata-lab {words}' now"
        check(shown.replace("\r\n", "\n").splitlines()[0] == notice and shown.count(notice) == 1, shown)
        check(on_terminal([FERMATA_LAB, *argv]) == (status, out, shown[shown.index("\n") + 1:]), "the rest is the same")
        check(out == run(FERMATA, *argv).stdout and "now" not in run(FERMATA, *argv).stderr, "elsewhere nothing is told")


def copy(dir_, *programs):
    os.makedirs(dir_)
    for p in programs:
        shutil.copy(os.path.join(BUILD, "bin", p), dir_)
    return [os.path.join(dir_, p) for p in programs]


def the_other_program_lies_in_the_same_directory(stack):
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    known = run(FERMATA_LAB, "study").stdout
    # In any directory, by a link to it, by links in a row, under another name, by a relative path, and by $PATH.
    fermata, _ = copy(os.path.join(dir_, "a b", "bin"), "fermata", "fermata-lab")
    os.makedirs(os.path.join(dir_, "links"))
    link, further, elsewhere = (os.path.join(dir_, "links", n) for n in ("fermata", "further", "directory"))
    os.symlink("../a b/bin/fermata", link)
    os.symlink("fermata", further)
    os.symlink(os.path.dirname(fermata), elsewhere)
    for program in fermata, link, further, os.path.join(elsewhere, "fermata"):
        check(run(program, "study").stdout == known, program)
    check(run("./fermata", "study", cwd=os.path.dirname(link)).stdout == known, "a relative path")
    env = dict(os.environ, PATH=os.path.dirname(link))
    check(run(shutil.which("sh"), "-c", "fermata study", env=env).stdout == known, "$PATH")
    check(run("bash", "-c", 'exec -a another "$0" study', link).stdout == known, "another name")


def a_missing_program_is_told(stack):
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    fermata, = copy(os.path.join(dir_, "bin"), "fermata")
    for argv in ["sim", WORKLOAD], ["help", "sim"], ["trace", "export"], ["--socket", "/x", "bench"]:
        r = run(fermata, *argv)
        check(r.returncode == 127 and f"fermata-lab is not in {os.path.dirname(fermata)}, where it belongs" in r.stderr and "hint: install" in r.stderr, r)
    check(run(fermata, "--version").returncode == 0, "the rest works")
    with open(os.path.join(dir_, "bin", "fermata-lab"), "w", encoding="ascii") as f:
        f.write("no program")
    r = run(fermata, "sim", WORKLOAD)
    check(r.returncode == 126 and "cannot execute" in r.stderr and "fermata-lab" in r.stderr, r)

    lab, = copy(os.path.join(dir_, "lab"), "fermata-lab")
    f = Fermata(stack)
    r = run(lab, "bench", "--driver", "sim", "--time", "1s", BENCH, env=f.env)
    check(r.returncode == 1 and f"fermata is not in {os.path.dirname(lab)}" in r.stderr, r)
    check(run(lab, "policy-test", "fifo").returncode == 0, "what needs no other program works")


def a_benchmark_finds_the_other_program(stack):
    """By a link, as it is installed; each client is a program of `fermata run`."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    f = Fermata(stack)
    link = os.path.join(dir_, "bench")
    os.symlink(FERMATA_LAB, link)
    r = run(link, "bench", "--driver", "sim", "--time", "1s", "--alone", "1", "--warm-up", "1", "--json", BENCH, env=f.env)
    check(r.returncode == 0, r)
    answer = json.loads(r.stdout)
    check(answer["runs"][0]["mode"] == "fermata" and all(t["finished"] for t in answer["runs"][0]["tasks"]), r.stdout)


if __name__ == "__main__":
    main(old_names_give_the_same_answers, statuses_are_handed_over, options_before_the_command_are_handed_over,
         help_is_found_by_either_name, mistakes_are_mended, the_new_name_is_told_on_a_terminal_alone,
         the_other_program_lies_in_the_same_directory, a_missing_program_is_told, a_benchmark_finds_the_other_program)
