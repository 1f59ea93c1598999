#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Descriptors, memory, /dev/shm run out, files may not grow, for programs and for the daemon; clocks jump. Programs run on, and what was
not to be had is had again afterwards."""
import contextlib
import os
import resource
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import (BUILD, SANITIZE, Fermata, LibClient, Skip, Worker, check, cuda_env, eventually, lib_client,
                     main, need_cuda_shim, program)

ROUNDS = 4


def fake(name):
    if SANITIZE:
        raise Skip("the sanitizer has an allocator of its own, and must come first")
    return os.path.join(BUILD, "tests", "fakes", f"libfake_{name}.so")


class Scarcity:
    """tests/fakes/libc/scarce.c"""

    def __init__(self, fermata, where=None):
        self.path = os.path.join(fermata.dir, "scarce")
        with open(self.path, "wb") as f:
            f.write(bytes(4096))
        self.env = {"LD_PRELOAD": fake("scarce"), "SCARCE": self.path}
        if where:
            self.env["SCARCE_IN"] = where

    @contextlib.contextmanager
    def at(self, per_mille):
        self.set(per_mille)
        try:
            yield
        finally:
            self.set(0)

    def set(self, per_mille):
        with open(self.path, "r+b") as f:
            f.write(struct.pack("=I", per_mille))

    def was(self):
        with open(self.path, "rb") as f:
            check(struct.unpack_from("=I", f.read(8), 4)[0], "nothing has failed: the test tests nothing")


def few_descriptors(n):
    """For a program that is to have n descriptors and no more."""

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        null = os.open("/dev/null", os.O_RDONLY)
        for fd in range(3, 64):
            os.dup2(null, fd)
        for fd in range(64 - n, 64):
            os.close(fd)

    return limit


def full_table_of_a_program(stack):
    """Whichever descriptor it is that cannot be had: it runs, right and to its end."""
    if SANITIZE:
        raise Skip("at its end the sanitizer needs descriptors itself")
    fermata = Fermata(stack)
    w = fermata.worker()
    fd_limit_seen = []
    for n in range(1, 9):
        c = LibClient([program("lib_client"), "-"], env=fermata.env, preexec_fn=few_descriptors(n),
                      close_fds=False)
        stack.callback(c.close)
        check(c.line("ready") == "ready 0", f"with {n} descriptors: {c.lines}")
        c.do("burst 20")
        fd_limit_seen.append(c.state()["daemon"])
        c.quit()
    check(fd_limit_seen[0] == 0 and fd_limit_seen[-1] == 1, f"governed: {fd_limit_seen}")
    w.advances()
    w.finish()


def full_table_of_the_daemon(stack):
    """Who cannot join runs on, and joins when there is room."""
    fermata = Fermata(stack, start=False)
    fermata.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)))
    clients = []
    for _ in range(24):
        c = LibClient([program("lib_client"), "-"], env=fermata.env)
        stack.callback(c.close)
        check(c.line("ready") == "ready 0", f"{c.lines}")
        clients.append(c)
    for c in clients:
        c.do("burst 20")
    fermata.says("cannot accept on .*client.sock: Too many open files")
    eventually("operators see who is there", lambda: len(fermata.ps()["groups"]) >= 6)
    for c in clients[:20]:
        c.quit()
    fermata.says("accepting on .* again")
    for c in clients[20:]:
        eventually("it joins", lambda c=c: fermata.group(c.pid))
        c.quit()

    def said():
        return [line.split()[-1] for line in fermata.log() if "accept" in line]

    eventually("the last word is that it accepts", lambda: said()[-1] == "again")
    check(said() == ["files", "again"] * (len(said()) // 2), f"a line for each change, and no more: {fermata.log()}")


def small_files(size):
    """As `ulimit -f` has it: what makes a file grow beyond that gets a signal, which ends it."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def small_files_of_a_program(stack):
    """A board counts as a file: a program that may not have one of that size runs unscheduled, and to its end."""
    fermata = Fermata(stack)
    sizes = [(0, 0), (4096, 0), (1 << 20, 1)]
    if SANITIZE == "thread":
        sizes.pop(0)  # the sanitizer makes a file itself
    for size, governed in sizes:
        c = LibClient([program("lib_client"), "-"], env=fermata.env, preexec_fn=small_files(size))
        stack.callback(c.close)
        check(c.line("ready") == "ready 0", f"where files have {size} bytes: {c.lines}")
        c.do("burst 20")
        check(c.state()["daemon"] == governed, f"where files have {size} bytes it is governed: {c.state()}")
        c.quit()
    need_cuda_shim()
    fermata.env = cuda_env(fermata.env)
    w = Worker(fermata.run_argv([program("cuda_worker"), "1000"]), env=fermata.env, preexec_fn=small_files(0))
    stack.callback(w.close)
    w.line("ready")
    w.advances()
    w.finish()


def small_files_of_the_daemon(stack):
    """As with one that `fermata run` starts from such a shell: what it cannot do it refuses, and serves on."""
    fermata = Fermata(stack, start=False)
    fermata.start(preexec_fn=small_files(1 << 16))
    c = lib_client(fermata, stack)
    c.do("feed")
    r = fermata.cli("trace", "record", "-o", os.path.join(fermata.dir, "trace"), "-d", "1", check_status=False)
    check(r.returncode == 1 and "File too large" in r.stderr, f"status {r.returncode}: {r.stderr}")
    c.advances()
    fermata.cli("suspend", str(c.pid))
    c.stands_still()
    fermata.cli("resume", str(c.pid))
    c.advances()
    c.quit()
    check(fermata.daemon.poll() is None, "the daemon has ended")


def full_shm(stack):
    """/dev/shm is full, and nobody needs it."""
    inside = 'mount -t tmpfs -o size=4k none /dev/shm && { dd if=/dev/zero of=/dev/shm/full bs=4k count=1 2>&-; ' \
             '! echo more >/dev/shm/more; } 2>&- && exec "$@"'
    r = subprocess.run(["unshare", "-m", "sh", "-c", inside, "sh", sys.executable, __file__, "in_full_shm"],
                       capture_output=True, text=True, timeout=200, check=False)
    if not r.stdout:
        raise Skip(f"mount is not allowed here: {r.stderr}")
    check(r.returncode == 0, r.stdout)


def in_full_shm(stack):
    fermata = Fermata(stack)
    w, other = fermata.worker(), fermata.worker()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    other.advances()
    fermata.cli("resume", str(w.pid))
    w.finish()
    other.finish()


def daemon_without_memory(stack):
    """Calls fail, up to one in four, while clients come, work and go; afterwards it serves everybody, and all that was asked
    for in vain has left nothing behind."""
    fermata = Fermata(stack, start=False)
    scarce = Scarcity(fermata)
    ours, fermata.env = fermata.env, {**fermata.env, **scarce.env}
    fermata.start()
    fermata.env = ours
    w = fermata.worker()
    for per_mille in (10, 50, 250) * ROUNDS:
        with scarce.at(per_mille):
            clients = [LibClient([program("lib_client"), "-"], env=fermata.env) for _ in range(4)]
            for c in clients:
                stack.callback(c.close)
            for c in clients:
                check(c.line("ready") == "ready 0", f"{c.lines}")
                c.do("burst 20")
            for argv in (("ps",), ("suspend", str(clients[0].pid)), ("policy", "fair"), ("resume", str(clients[0].pid)),
                         ("hint", str(clients[1].pid), "weight=3"), ("policy", "round-robin")):
                fermata.cli(*argv, check_status=False)
            for c in clients:
                c.quit()
            w.advances(4)
    scarce.was()
    check(fermata.daemon.poll() is None, "the daemon has ended")
    eventually("the worker is known", lambda: fermata.group(w.pid))
    eventually("nobody else is left", lambda: len(fermata.ps()["groups"]) == 1)
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.finish()


def works_without(stack, fermata, argv, where, other):
    """A program whose shim cannot have this or that, in the middle of its work, and from the start."""
    scarce = Scarcity(fermata, where)
    env = {**fermata.env, **scarce.env}
    for per_mille in (30, 300, 1000):
        w = Worker(fermata.run_argv(argv), env=env)
        stack.callback(w.close)
        w.line("ready")
        with scarce.at(per_mille):
            for _ in range(3):
                w.advances()
                fermata.cli("suspend", str(w.pid), check_status=False)
                other.advances()
                fermata.cli("resume", str(w.pid), check_status=False)
        w.finish()
    for per_mille in (200, 400, 1000):
        with scarce.at(per_mille):
            w = Worker(fermata.run_argv(argv), env=env)
            stack.callback(w.close)
            w.line("ready")
            w.advances()
        w.finish()
    scarce.was()


def shim_without_memory(stack):
    """What a shim cannot have it does without: programs get no error, and their results are right."""
    fermata = Fermata(stack)
    other = fermata.worker()
    works_without(stack, fermata, [program("worker"), "64"], "libfermata-opencl", other)
    other.finish()


def cuda_shim_without_memory(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env(fermata.env)
    other = fermata.cuda_worker()
    works_without(stack, fermata, [program("cuda_worker"), "1000"], "libfermata-cuda", other)
    other.finish()


def jumping_clocks(stack):
    """The time of day is nothing to go by, and nobody does."""
    fermata = Fermata(stack, start=False)
    fermata.env["LD_PRELOAD"] = fake("clock")
    fermata.start()
    fermata.cli("policy", "round-robin", "slice=5")
    clients = [lib_client(fermata, stack) for _ in range(2)]
    workers = [fermata.worker() for _ in range(2)]
    for c in clients:
        c.do("feed")
    before = fermata.preemptions()
    for w in workers:
        w.advances()
    eventually("they take turns", lambda: fermata.preemptions() > before + 4)
    for c in clients:
        c.advances()
        c.quit()
    for w in workers:
        w.finish()


def other_clocks(stack):
    """Programs in a container whose monotonic clock is set otherwise: what they claim of times is not believed, what
    they do is scheduled."""
    if subprocess.run(["unshare", "--time", "--fork", "--monotonic", "1000", "true"], capture_output=True,
                      check=False).returncode:
        raise Skip("time namespaces are not allowed here")
    fermata = Fermata(stack)
    fermata.cli("policy", "fair", "slice=5")
    begin = time.monotonic()
    clients = []
    for offset in (0, 10**6, -int(min(time.monotonic() - 1, 3000))):
        argv = [program("lib_client"), "-"]
        c = LibClient(["unshare", "--time", "--monotonic", str(offset), *argv] if offset else argv, env=fermata.env)
        stack.callback(c.close)
        check(c.line("ready") == "ready 0", f"{c.lines}")
        fermata.knows(c.pid)
        clients.append(c)
    for c in clients:
        c.do("feed")
    for c in clients:
        c.advances(100)
    for g in fermata.ps()["groups"]:
        for used in (g["devices"][0][key] for key in ("device_ms", "charged_ms")):
            check(0 <= used <= 1000 * (time.monotonic() - begin), f"{g['name']} is told to have used {used} ms")
    fermata.cli("suspend", str(clients[1].pid))
    clients[1].stands_still()
    clients[2].advances()
    fermata.cli("resume", str(clients[1].pid))
    for c in clients:
        c.advances()
        c.quit()


if __name__ == "__main__":
    if sys.argv[1:] == ["in_full_shm"]:
        main(in_full_shm)
    main(full_table_of_a_program, full_table_of_the_daemon, small_files_of_a_program,
         small_files_of_the_daemon, full_shm, daemon_without_memory, shim_without_memory,
         cuda_shim_without_memory, jumping_clocks, other_clocks)
