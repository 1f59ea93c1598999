#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: what is there stays unless --force is given, a symbolic link leads nowhere, what is not whole is not
there, and pipes and devices are written to as they are. For each command and option that writes one."""
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, Fermata, check, command, eventually, main, preload  # noqa: E402

OLD = "what was there before\n"
WORKLOAD = "[workload]\nduration = 50ms\n[device gpu]\n[group a]\ncommands = 1ms\n"


class Place:
    """A folder for outputs, and one command for each way to write one: argv for a path."""

    def __init__(self, stack):
        self.f = Fermata(stack)
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-"))
        inputs = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-"))
        workload, trace = os.path.join(inputs, "in.ini"), os.path.join(inputs, "in.fmt")
        with open(workload, "w", encoding="ascii") as out:
            out.write(WORKLOAD)
        self.call("sim", workload, "--trace", trace)
        self.commands = {
            "sim --svg": lambda path: ("sim", workload, "--svg", path),
            "sim --trace": lambda path: ("sim", workload, "--trace", path),
            "sim --metrics": lambda path: ("sim", workload, "--metrics", path),
            "record --from": lambda path: ("record", "-q", "--from", trace, "-o", path),
            "trace export": lambda path: ("trace", "export", trace, "-o", path),
            "trace record": lambda path: ("trace", "record", "-q", "-d", "0.05", "-o", path),
            "calibrate": lambda path: ("calibrate", "--device", "sim", "--seconds", "1", "-o", path),
        }

    def call(self, *argv, **more):
        return subprocess.run(command(*argv), env=self.f.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False,
                              cwd=more.get("cwd"))

    def write(self, name, *more, how=None):
        """By each command, into that path: its name, and how it ended."""
        for what, argv in self.commands.items():
            if how:
                how(os.path.join(self.dir, name))
            yield what, self.call(*argv(os.path.join(self.dir, name)), *more)

    def put(self, path):
        with open(path, "w", encoding="ascii") as out:
            out.write(OLD)

    def read(self, name):
        with open(os.path.join(self.dir, name), "rb") as f:
            return f.read()

    def names(self):
        return sorted(os.listdir(self.dir))


def link(target):
    def make(path):
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)
    return make


def what_is_there_stays(stack):
    p = Place(stack)
    for what, r in p.write("out", how=p.put):
        check(r.returncode == 1 and b"is there already" in r.stderr and b"hint: --force" in r.stderr, f"{what}: {r}")
        check(p.read("out") == OLD.encode() and p.names() == ["out"], f"{what}: {p.names()}")
    for what, r in p.write("out", "--force", how=p.put):
        check(r.returncode == 0, f"{what}: {r}")
        check(OLD.encode() not in p.read("out") and len(p.read("out")) > 40 and p.names() == ["out"], f"{what}: {p.names()}")
        check(os.stat(os.path.join(p.dir, "out")).st_mode & 0o777 == 0o666 & ~umask(), f"{what}: mode")


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def a_link_leads_nowhere(stack):
    p = Place(stack)
    p.put(os.path.join(p.dir, "theirs"))
    for target in "theirs", "none":
        for what, r in p.write("out", how=link(target)):
            check(r.returncode == 1 and b"is a symbolic link" in r.stderr and b"hint: --force" in r.stderr, f"{what}: {r}")
            check(os.readlink(os.path.join(p.dir, "out")) == target and p.names() == ["out", "theirs"], f"{what}: {p.names()}")
            check(p.read("theirs") == OLD.encode(), f"{what}: what the link leads to is something else")
    for what, r in p.write("out", "--force", how=link("theirs")):
        check(r.returncode == 0, f"{what}: {r}")
        check(not os.path.islink(os.path.join(p.dir, "out")) and p.names() == ["out", "theirs"], f"{what}: {p.names()}")
        check(p.read("theirs") == OLD.encode(), f"{what}: what the link led to is something else")


def it_is_looked_at_before_the_work(stack):
    """A calibration of ten minutes does not fail at its end."""
    p = Place(stack)
    begin = time.monotonic()
    for path, status in (os.path.join(p.dir, "no", "where"), 1), (p.dir, 2):
        r = p.call("calibrate", "--device", "sim", "--seconds", "600", "-o", path)
        check(r.returncode == status and not r.stdout, f"{r}")
    check(time.monotonic() - begin < 300, "it measures first")
    for what, r in p.write("no/where"):
        check(r.returncode == 1 and b"No such file or directory" in r.stderr, f"{what}: {r}")
    for what, r in p.write("."):
        check(r.returncode == 2 and b"is not a regular file" in r.stderr, f"{what}: {r}")
    for what, r in p.write("new", "--nonsense"):
        check(r.returncode == 2 and not p.names(), f"{what}: {r}")


def what_is_not_whole_is_not_there(stack):
    p = Place(stack)
    r = p.call("trace", "export", "/dev/null", "-o", os.path.join(p.dir, "out"))
    check(r.returncode == 2 and not p.names(), f"{r}: {p.names()}")
    r = p.call("calibrate", "--device", "sim", "--config", "/nonexistent", "-o", os.path.join(p.dir, "out"))
    check(r.returncode == 1 and not p.names(), f"{r}: {p.names()}")
    r = p.call("record", "-q", "-d", "0.05", "-o", os.path.join(p.dir, "out"))
    check(r.returncode == 1 and b"no program used a device" in r.stderr and not p.names(), f"{r}: {p.names()}")
    p.f.kill()
    for argv in ("trace", "record"), ("record",):
        r = p.call(*argv, "-o", os.path.join(p.dir, "out"))
        check(r.returncode == 4 and not p.names(), f"{r}: {p.names()}")


def no_room_that_is_told_at_the_end(stack):
    """As on NFS, or by a quota: what is there stays, and nothing is left beside it."""
    p = Place(stack)
    p.f.env["LD_PRELOAD"] = preload(os.path.join(BUILD, "tests", "fakes", "libfake_room.so"))
    del p.commands["trace record"]  # which stays, as far as it is there
    for what, r in p.write("out"):
        check(r.returncode == 1 and b"No space left on device" in r.stderr and not p.names(), f"{what}: {r} {p.names()}")
    for what, r in p.write("out", "--force", how=p.put):
        check(r.returncode == 1 and b"No space left on device" in r.stderr, f"{what}: {r}")
        check(p.read("out") == OLD.encode() and p.names() == ["out"], f"{what}: {p.names()}")


def a_recording_is_there_at_once(stack):
    """Should whoever records be killed, it is what there is; in place of another it comes at the end."""
    p = Place(stack)
    out = os.path.join(p.dir, "out")
    for argv, replaced in ((), False), (("--force",), True):
        r = subprocess.Popen([FERMATA, "trace", "record", *argv, "-o", out], env=p.f.env, stderr=subprocess.PIPE, text=True)
        stack.callback(r.kill)
        check("recording into" in r.stderr.readline(), "it does not record")
        if replaced:
            check(p.read("out") == before, "what is to be replaced at the end is not there any more")
        eventually("it is there", lambda: b"FMTRACE" in p.read("out"))
        r.terminate()
        check(r.wait(60) == 0 and p.names() == ["out"], f"{p.names()}")
        before = p.read("out")
        check(p.call("trace", "dump", out).returncode == 0, "it cannot be read")


def pipes_and_devices(stack):
    p = Place(stack)
    for what, argv in p.commands.items():
        r = p.call(*argv("/dev/null"))
        check(r.returncode == 0, f"{what} to /dev/null: {r}")
        r = p.call(*argv("/dev/full"))
        check(r.returncode == 1 and b"No space left on device" in r.stderr, f"{what} to /dev/full: {r}")
        for name in "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
            r = p.call(*argv(name))
            check(r.returncode == 0 and len(r.stdout) > 40, f"{what} to {name}: {r}")
            if what == "calibrate":
                break
        fifo = os.path.join(p.dir, "fifo")
        os.mkfifo(fifo)
        got = []
        reader = threading.Thread(target=lambda: got.append(open(fifo, "rb").read()))
        reader.start()
        r = p.call(*argv(fifo))
        reader.join(60)
        check(r.returncode == 0 and got and len(got[0]) > 40, f"{what} to a pipe: {r}")
        os.unlink(fifo)
    for what in "trace export", "record --from", "sim --metrics":
        r = p.call(*p.commands[what]("-"), cwd=p.dir)
        check(r.returncode == 0 and len(r.stdout) > 40 and not p.names(), f"{what} to -: {r}")
    # A descriptor of ours is not emptied by it.
    with open(os.path.join(p.dir, "log"), "wb") as log:
        log.write(b"a line\n")
        log.flush()
        subprocess.run(command(*p.commands["trace export"]("/dev/stdout")), env=p.f.env, stdout=log, timeout=60, check=True)
    check(p.read("log").startswith(b"a line\n{"), "what stood in front is lost")


def studies(stack):
    """Two files, and those of several studies: none is begun if one of them cannot be written."""
    p = Place(stack)
    there = os.path.join(p.dir, "gedf-8.csv")
    p.put(there)
    argv = ("study", "gedf-4", "gedf-8", "--sets", "2", "--out", p.dir)
    r = p.call(*argv)
    check(r.returncode == 1 and b"gedf-8.csv is there already" in r.stderr and b"hint: --force" in r.stderr, f"{r}")
    check(p.read("gedf-8.csv") == OLD.encode() and p.names() == ["gedf-8.csv"], f"{p.names()}")
    os.unlink(there)
    link("theirs")(os.path.join(p.dir, "gedf-4.svg"))
    r = p.call(*argv)
    check(r.returncode == 1 and b"gedf-4.svg is a symbolic link" in r.stderr and p.names() == ["gedf-4.svg"], f"{r} {p.names()}")
    link("theirs")(os.path.join(p.dir, "gedf-4.part.new"))
    r = p.call(*argv, "--force")
    check(r.returncode == 0 and "theirs" not in p.names(), f"{r} {p.names()}")
    check({"gedf-4.csv", "gedf-4.svg", "gedf-8.csv", "gedf-8.svg"} <= set(p.names()), f"{p.names()}")


if __name__ == "__main__":
    main(what_is_there_stays, a_link_leads_nowhere, it_is_looked_at_before_the_work, what_is_not_whole_is_not_there, no_room_that_is_told_at_the_end,
         a_recording_is_there_at_once, pipes_and_devices, studies)
