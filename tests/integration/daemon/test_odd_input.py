#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comes from outside and looks odd: names that a shell or a terminal would act upon, text that is none, lines without
end, outputs that are inputs. Each is refused or told with the reason, and nothing is lost or done for it."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, FERMATAD, Fermata, LibClient, check, command, eventually, lib_client, main, program
from offline import fermata
from test_admission import ask

COMPLETION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "contrib", "completion", "fermata")
COMPLETE = """source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_fermata
printf '%s\\n' "${COMPREPLY[@]}"
"""
NO_TEXT = os.fsdecode(b"\xff")
WORKLOAD = "[workload]\nduration = 50ms\n[device gpu]\n[group a]\ncommands = 1ms\n"


def folder(stack):
    return stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-"))


def written(stack, text, name="file"):
    path = os.path.join(folder(stack), name)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode())
    return path


def task(name="a", **more):
    return {"name": name, "priority": 1, "cpu": 0, "period": 20, "deadline": 20, "cpu_time": 1,
            "segments": [{"total": 5, "misc": 1, "gpu": 4}], **more}


def tasks(stack, *list_, **more):
    return written(stack, {"unit": "ms", "epsilon": 1, "theta": 0.2, "tasks": list_, **more})


def names_are_not_run(stack):
    """By bash, which offers them to who presses TAB: they are other users'."""
    f, where = Fermata(stack), folder(stack)
    name = "$(touch${IFS}ran)*"
    lib_client(f, stack, name)
    env = {**f.env, "PATH": os.path.join(BUILD, "bin") + ":" + f.env["PATH"]}
    for words in (["suspend", ""], ["suspend", "$"], ["run", "--group", ""]):
        r = subprocess.run(["bash", "-c", COMPLETE, "bash", COMPLETION, "fermata", *words], env=env, cwd=where, text=True, check=True,
                           capture_output=True, timeout=60)
        offered = [line for line in r.stdout.splitlines() if "touch" in line]
        check(len(offered) == 1, f"{words}: {r.stdout}")
        shell = subprocess.run(["bash", "-c", f"printf %s {offered[0]}"], cwd=where, text=True, check=True, capture_output=True, timeout=60)
        check(shell.stdout == name, f"what is offered means {shell.stdout}")
        check(not os.listdir(where), f"a name was run: {os.listdir(where)}")


def a_filter_that_is_no_text_is_no_filter(stack):
    f = Fermata(stack)
    for argv in (["trace", "record"], ["record"]):
        for name in NO_TEXT, "":
            r = f.cli(*argv, "-g", name, "-o", os.path.join(folder(stack), "out"), "-d", "0.1", check_status=False)
            check(r.returncode == 2 and "UTF-8" in r.stderr, f"{argv}: {r}")
    check("empty" in ask(f, {"cmd": "trace", "groups": []})[0]["error"]["text"], "it records all")


def what_was_recorded_is_lines(stack):
    """And no more of it is read than they may be long."""
    for text, why in ((b"0ms 1ms\n" + 300 * b" ", "the line is too long"), (b"0ms 1ms\n\0", "this is not text"),
                      (b"# a comment\r0ms 1ms\r", "carriage return")):
        trace = written(stack, text)
        path = written(stack, WORKLOAD + f"arrive = trace {trace}\n")
        check(why in fermata("sim", path, status=2).stderr, why)
    path = written(stack, WORKLOAD + "arrive = trace " + written(stack, b"# " + 1000 * b"x" + b"\r\n0ms 1ms # " + 300 * b"y" + b"\r\n5ms 1ms") + "\n")
    check(json.loads(fermata("sim", path, "--json").stdout)["groups"][0]["jobs"] == 2, "lines that end otherwise")


def nothing_steers_the_terminal(stack):
    path = tasks(stack, task(), **{"\x1b]0;title\x07\x1b[2J": 1})
    for argv in (["analyze", "--method", "gcaps-suspend", path], ["admit", "--try", path]):
        r = subprocess.run(command(*argv), capture_output=True, text=True, timeout=60, env={**os.environ, "FERMATA_SOCKET": "/nonexistent"})
        check("unknown key" in r.stderr and "\x1b" not in r.stderr, f"{argv}: {r.stderr!r}")


def what_is_no_text_is_told_as_far_as_it_is(stack):
    where = folder(stack) + "/" + NO_TEXT
    os.mkdir(where)
    r = subprocess.run([FERMATA, "doctor", "--json"], capture_output=True, timeout=60, check=False,
                       env={**os.environ, "FERMATA_SOCKET": where})
    check("daemon" in [c["check"] for c in json.loads(r.stdout)["checks"]], "doctor says nothing of the daemon")
    runs = [os.path.join(where, n) for n in "ab"]
    for run in runs:
        with open(run, "w", encoding="ascii") as out:
            out.write(fermata("sim", written(stack, WORKLOAD), "--json").stdout)
    check(json.loads(fermata("compare", "--json", *runs).stdout)["a"]["file"].endswith("/?/a"), "the name of a run")
    path = os.path.join(where, "bench.json")
    with open(path, "w", encoding="ascii") as out:
        json.dump({"time": 0.1, "models": {"m": {"kernels": [{"us": 100, "count": 2}]}},
                   "tasks": [{"id": "t", "load": {"type": "continuous"}, "client": {"name": "T", "model_name": "m"}}]}, out)
    said = fermata("bench", "--driver", "sim", "--native", "--threads", "--warm-up", "1", "--alone", "2", "--json", path).stdout
    check(json.loads(said)["workload"].endswith("/?/bench.json"), f"what was measured is not told: {said}")


def long_names_are_cut_between_characters(stack):
    path = tasks(stack, task("a" + 50 * "\u00e9", period=20, deadline=3))
    for argv in (["compare", "--json"], ["compare", "--csv"], ["explain"]):
        more = ["--method", "gcaps-suspend", "--task", "a" + 50 * "\u00e9"] if argv == ["explain"] else []
        r = subprocess.run([FERMATA, "analyze", *argv, *more, path], capture_output=True, timeout=60, check=False)
        r.stdout.decode()
        if "--json" in argv:
            said = json.loads(r.stdout)
            check('"why": null' not in json.dumps(said) and "takes" in json.dumps(said), f"{said}")


def words_of_json_are_words(stack):
    w = {"workload": {"duration": "50ms", "policy": ["fair", "slice=2ms"]}, "device": {"gpu": {}},
         "group": {"a": {"commands": "1ms", "arrive": ["every", "5ms"]}}}
    whole = written(stack, w)
    check(json.loads(fermata("sim", whole, "--json").stdout)["groups"][0]["jobs"] == 10, "a list of words")
    with open(whole, "rb") as f:
        text = f.read()
    for begin in b"\xef\xbb\xbf", b"\n \t\r\n", b"\xef\xbb\xbf\n":
        for name in "file", "file.json":
            fermata("sim", written(stack, begin + text, name))
    w["workload"]["duration"] = True
    check("duration" in fermata("sim", written(stack, w), status=2).stderr, "true is a time")


def what_a_task_says_is_of_its_kind(stack):
    for more in {"group": 5}, {"overrun": 7}:
        r = fermata("admit", "--try", tasks(stack, task(**more)), status=2)
        check("is not a string" in r.stderr and f"tasks[0].{next(iter(more))}" in r.stderr, r.stderr)


def what_is_read_is_not_written_over(stack):
    path = written(stack, WORKLOAD)
    for option in "--svg", "--trace", "--metrics":
        for name in path, os.path.join(os.path.dirname(path), ".", "file"):
            check("is the workload itself" in fermata("sim", path, option, name, status=2).stderr, f"{option} {name}")
    check("two purposes" in fermata("sim", path, "--svg", path + ".out", "--trace", path + ".out", status=2).stderr, "one file for two")
    with open(path, encoding="ascii") as f:
        check(f.read() == WORKLOAD and os.listdir(os.path.dirname(path)) == ["file"], "it is something else now")
    trace = os.path.join(folder(stack), "run.fmt")
    fermata("sim", path, "--trace", trace)
    with open(trace, "rb") as f:
        before = f.read()
    for argv in ("trace", "export", trace), ("record", "-q", "--from", trace):
        check("is the recording itself" in fermata(*argv, "--force", "-o", trace, status=2).stderr, f"{argv}")
        with open(trace, "rb") as f:
            check(f.read() == before, f"{argv}: the recording is something else now")
    pipe = os.path.join(folder(stack), "pipe")
    os.mkfifo(pipe)
    run = written(stack, fermata("sim", path, "--json").stdout)
    writer = subprocess.Popen(["cp", run, pipe])
    stack.callback(writer.kill)
    check("not a regular file" in fermata("compare", pipe, run, status=2).stderr, "a pipe is a run")


def an_answer_that_nobody_gets_is_a_failure(stack):
    path = tasks(stack, task())
    for argv in (["analyze", "-m", "gcaps-suspend", path], ["sim", written(stack, WORKLOAD)], ["--version"]):
        r = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command(*argv)], capture_output=True, text=True, timeout=60, check=False)
        check(r.returncode == 1 and "cannot write the answer" in r.stderr, f"{argv}: {r}")
    r = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", FERMATA, "run", "--", "true"], timeout=60, check=False)
    check(r.returncode == 0, "a program that says nothing")


def a_runtime_directory_of_others_is_none(stack):
    """Whoever can put a socket there would be taken for the user's own daemon: by the command, the library, the daemon."""
    run = os.path.join(folder(stack), "run")
    os.mkdir(run, 0o700)
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")} | {"XDG_RUNTIME_DIR": run}
    there = os.path.join(run, "fermata")
    daemon = subprocess.Popen([FERMATAD, "--dir", there, "--config", "/dev/null"], env=env, stderr=subprocess.DEVNULL)
    stack.callback(daemon.wait)
    stack.callback(daemon.terminate)
    eventually("the daemon answers", lambda: os.path.exists(os.path.join(there, "control.sock")))

    def finds():
        c = LibClient([program("lib_client"), "job"], env=env)
        stack.callback(c.close)
        c.line("ready 0")
        said = subprocess.run([FERMATA, "ps"], env=env, capture_output=True, text=True, timeout=60, check=False)
        return said.returncode == 0, c

    command, client = finds()
    check(command, "the command does not find it")
    eventually("the library finds it", lambda: client.state()["daemon"])
    os.chmod(run, 0o755)
    if not os.path.exists("/run/fermata"):
        command, client = finds()
        check(not command, "the command talks to whoever is there")
        check(not client.state()["daemon"], "the library talks to whoever is there")
    if os.geteuid():
        r = subprocess.run([FERMATAD, "--config", "/dev/null"], env=env, capture_output=True, text=True, timeout=60, check=False)
        check(r.returncode == 1 and "with mode 0700" in r.stderr and "hint: chmod 700" in r.stderr, f"{r}")


if __name__ == "__main__":
    main(names_are_not_run, a_filter_that_is_no_text_is_no_filter, what_was_recorded_is_lines, nothing_steers_the_terminal,
         what_is_no_text_is_told_as_far_as_it_is, long_names_are_cut_between_characters, words_of_json_are_words,
         what_a_task_says_is_of_its_kind, what_is_read_is_not_written_over, a_runtime_directory_of_others_is_none, an_answer_that_nobody_gets_is_a_failure)
