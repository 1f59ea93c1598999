#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: soak [--seed N] [--verbose] SECONDS

Everything that tests/fault knows to go wrong, mixed at random, for so long; then all must be right: every program's
results, nobody left over, the daemon no larger than a fresh one, nothing unexpected in its log. The seed decides what
happens in which order, and by its number on whom; how far one gets in the time depends on the machine. What was done
last is printed if something fails."""
import argparse
import collections
import contextlib
import os
import random
import re
import signal
import struct
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), HERE]
import harness
import test_forgery as forgery
from harness import SANITIZE, Fermata, LibClient, Program, Steering, Worker, check, cuda_env, eventually, program
from managed import Managed
from test_scarcity import Scarcity

PLACES = 5
# Programs whose memory moves, on a device that has less than they need; so many blocks of each.
MOVERS, BLOCKS = 3, 6
CAPACITY = "120M"
POLICIES = ("fifo", "fair slice=3", "edf", "round-robin slice=2", "mlfq", "bandwidth", "least-laxity", "srtf", "k-edf",
            "foreground", "heterogeneous-priority", "fixed-priority")
# What the daemon may say, without the "fermatad: " in front.
EXPECTED = (r"version ", r"audit: ", r"ending: ", r".* left with work under way(, which was stopped)?$",
            r".* refused: ", r"warning: continued after a stop", r"settings read again$", r"error: the old settings stay",
            r"(warning: cannot accept|accepting) on ", r"warning: out of memory", r".*more such lines left out$",
            r"pid \d+ does not read its reply")


def daemon_state(fermata):
    """Its descriptors, and its memory in KiB."""
    with open(f"/proc/{fermata.daemon.pid}/status", encoding="ascii") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    return len(os.listdir(f"/proc/{fermata.daemon.pid}/fd")), rss


class Mover(Managed):
    """A program whose memory moves. It is told what to do, and is heard when all may run: a command waits while the
    memory is out. It ends by itself where a block does not hold what was put there."""

    def begin(self):
        self.told, self.freed, self.seed = collections.Counter(), 0, 0

    def asks(self, *commands):
        for command in commands:
            self.told[command.split()[0]] += 1
            self.tell(command)

    def blocks(self):
        """At least so many it has, and at most."""
        lines = list(self.lines)
        kinds = ("alloc", "pool", "vmm")
        least = sum(lines.count(k) for k in kinds) - lines.count("no memory") - self.freed
        return least, sum(self.told[k] for k in kinds) - self.freed

    def settles(self):
        for name, n in self.told.items():
            eventually(f"{n} x {name} by {self.pid}", lambda: self.lines.count(name) >= n or self.p.poll() is not None,  # noqa: B023
                       seconds=120)
            check(self.lines.count(name) >= n, f"it ended, with status {self.p.returncode}: {list(self.lines)[-5:]}")


class Soak:
    def __init__(self, stack, rng, verbose):
        self.stack, self.rng, self.verbose = stack, rng, verbose
        self.done = collections.deque(maxlen=40)
        self.count = collections.Counter()
        self.fermata = Fermata(stack, config="[daemon]\npolicy = round-robin\n", start=False)
        self.scarce = None if SANITIZE else Scarcity(self.fermata)
        self.cuda = not SANITIZE and os.path.exists(os.path.join(harness.BUILD, "lib", "libfermata-cuda.so"))
        self.place, self.mover = [None] * PLACES, [None] * MOVERS
        self.device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
        self.said = stack.enter_context(open(os.path.join(self.fermata.dir, "said"), "ab"))
        self.start_daemon()
        # What it makes for its first client it keeps: a timer of the event loop.
        self.end(self.worker("lib", "normal"))
        eventually("the first program is gone", lambda: not self.fermata.ps()["groups"])
        self.fresh = daemon_state(self.fermata)
        self.witness = [self.worker("opencl", "normal"), self.worker("lib", "normal")]

    # The daemon.

    def start_daemon(self, which=harness.FERMATAD):
        f, env = self.fermata, self.fermata.env
        if self.scarce and which == harness.FERMATAD:
            f.env = {**env, **self.scarce.env}
        try:
            f.start(program=which)
        finally:
            f.env = env

    def calm(self):
        """Everybody may run, in turns: what is asked of programs from here on comes about."""
        self.fermata.cli("policy", "round-robin", "slice=2")
        steer = contextlib.ExitStack()
        with steer:
            order = Steering(steer, self.fermata)
            for p in self.everybody():
                order("resume", p.pid)
        for p in self.movers():
            self.fermata.cli("resume", str(p.pid), check_status=False)

    def everybody(self):
        return self.witness + [p for p in self.place if p]

    def movers(self):
        return [p for p in self.mover if p]

    # Programs.

    def worker(self, kind, priority, level=None):
        env = dict(self.fermata.env, **({"FERMATA_LEVEL": level} if level else {}))
        argv = {"opencl": [program("worker"), "64"], "cuda": [program("cuda_worker"), "1000"],
                "lib": [program("lib_client"), "-"]}[kind]
        cls = LibClient if kind == "lib" else Worker
        p = cls(self.fermata.run_argv(argv, "--priority", priority), env=cuda_env(env) if kind == "cuda" else env,
                stderr=self.said)
        p.kind = kind
        self.stack.callback(p.close)
        if kind == "lib":
            check(p.line("ready") == "ready 0", f"{p.lines}")
            p.do("feed")
        return p

    def end(self, p):
        if p.kind == "lib":
            p.quit()
        else:
            p.line("ready")
            p.finish()

    def vacate(self, i):
        if self.place[i]:
            self.calm()
            self.end(self.place[i])
            self.place[i] = None

    def everybody_goes_on(self):
        self.calm()
        for p in self.everybody():
            p.advances(4)
        for p in self.movers():
            p.settles()

    # What may happen. Whatever is random is drawn before it is known whether there is anybody to do it to.

    def do_start(self):
        i, kind = self.rng.randrange(PLACES), self.rng.choice(("opencl", "lib", "lib", "cuda"))
        priority, level = self.rng.choice(("low", "normal", "high")), self.rng.choice((None, "1", "2"))
        self.vacate(i)
        self.place[i] = self.worker(kind if kind != "cuda" or self.cuda else "lib", priority, level)

    def do_end(self):
        self.vacate(self.rng.randrange(PLACES))

    def do_kill(self):
        i, sig = self.rng.randrange(PLACES), self.rng.choice((signal.SIGKILL, signal.SIGTERM))
        if self.place[i]:
            self.place[i].kill(sig)
            self.place[i].wait()
            self.place[i] = None

    def order(self, cmd):
        p = self.place[self.rng.randrange(PLACES)]
        if p:
            self.fermata.cli(cmd, str(p.pid), check_status=False)

    def do_suspend(self):
        self.order("suspend")

    def do_resume(self):
        self.order("resume")

    def do_storm(self):
        n, p = self.rng.randrange(20, 200), self.place[self.rng.randrange(PLACES)]
        with contextlib.ExitStack() as stack:
            steer = Steering(stack, self.fermata)
            for k in range(n if p else 0):
                steer(("suspend", "resume")[k % 2], p.pid)

    def do_hint(self):
        hint = self.rng.choice(("priority=low", "priority=high", "weight=9", "share=40", "deadline=10ms", "period=20ms",
                                "slice=3ms", "foreground=1", "latency-nice=-7", "gang=0"))
        p = self.place[self.rng.randrange(PLACES)]
        if p:
            self.fermata.cli("hint", str(p.pid), hint, check_status=False)

    def do_policy(self):
        self.fermata.cli("policy", *self.rng.choice(POLICIES).split())

    def do_stop_program(self):
        p, pause = self.place[self.rng.randrange(PLACES)], self.rng.uniform(0.01, 0.3)
        if p:
            p.kill(signal.SIGSTOP)
            time.sleep(pause)
            p.kill(signal.SIGCONT)

    def do_fork(self):
        i, how = self.rng.randrange(PLACES), self.rng.choice(("fork-exit", "spawn", "exec"))
        p = self.place[i]
        if not p or p.kind == "cuda":
            return
        self.calm()
        if p.kind == "lib":
            p.do("fork")
            return
        p.line("ready")
        mark = p.mark()
        p.tell(how)
        if how == "exec":
            p.tell("another program")
            p.line("another program", mark)
            p.kill()
            p.wait()
            self.place[i] = None
        elif how == "fork-exit":
            p.line("forked", mark)
        else:
            p.line("child [0-9]", mark)
            p.tell("stop")  # which the child reads
            p.line("child ended 0", mark)

    def do_daemon_killed(self):
        pause = self.rng.choice((0, 0, 0.2))
        self.fermata.kill()
        time.sleep(pause)
        self.start_daemon()

    def do_daemon_ends(self):
        pause = self.rng.choice((0, 0, 0.2))
        self.fermata.stop()
        time.sleep(pause)
        self.start_daemon()

    def do_daemon_hangs(self):
        pause = self.rng.choice((0.01, 0.1, 0.5, 5.5))
        self.fermata.daemon.send_signal(signal.SIGSTOP)
        time.sleep(pause)
        self.fermata.daemon.send_signal(signal.SIGCONT)

    def do_upgrade(self):
        self.fermata.stop()
        self.start_daemon(program("fermatad_next"))
        time.sleep(0.2)
        self.fermata.stop()
        self.start_daemon()

    def do_settings(self):
        sound = self.rng.random() < 0.5
        with open(self.fermata.args[1], "w", encoding="ascii") as f:
            f.write("[daemon]\npolicy = fair\n" if sound else "[daemon]\nno such key\n")
        self.fermata.daemon.send_signal(signal.SIGHUP)
        self.fermata.cli("ps")
        with open(self.fermata.args[1], "w", encoding="ascii") as f:
            f.write("[daemon]\npolicy = round-robin\n")

    def do_forgery(self):
        """Somebody who is let in, and lies by messages and by his board."""
        words = [(self.rng.randrange(12), self.rng.randbytes(self.rng.choice((0, 4, 8, 12, 16, 68, 108, 300))))
                 for _ in range(20)]
        scribbles = [(256 + self.rng.randrange(3) * 320 + self.rng.randrange(40) * 8, self.rng.randbytes(8))
                     for _ in range(40)]
        try:
            s, fd = forgery.joined(self.fermata)
        except (AssertionError, OSError, struct.error):
            return
        with s:
            forgery.send(s, forgery.message(forgery.QUEUE, forgery.queue_body(device=b"shared:0")))
            for at, what in scribbles:
                os.pwrite(fd, what, at)
                forgery.send(s, forgery.message(forgery.BELL))
            for kind, body in words:
                forgery.send(s, forgery.message(kind, body))
        os.close(fd)

    def do_nonsense(self):
        request = self.rng.randbytes(200) + b"\n"
        with forgery.control(self.fermata) as s, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(request)
            s.recv(65536)

    def crowd(self, *argv):
        p = Program([program("crowd"), *map(str, argv)], env=self.fermata.env)
        self.stack.callback(p.close)
        return p

    def do_short_programs(self):
        n = self.rng.randrange(10, 100)
        self.calm()
        check(self.crowd("short", n, 1).line("short ") == f"short {n} wrong 0", "short programs")

    def do_many_groups(self):
        n, cut = self.rng.randrange(10, 150), self.rng.random() < 0.5
        self.calm()
        p = self.crowd("join", n)
        p.line("joined")
        if cut:
            p.kill()
            p.wait()
            return
        p.tell("go")
        check(p.line("done ") == "done wrong 0", f"{p.lines}")

    def do_scarcity(self):
        per_mille, pause = self.rng.choice((10, 50, 200)), self.rng.uniform(0.05, 0.4)
        if self.scarce:
            with self.scarce.at(per_mille):
                self.fermata.cli("ps", check_status=False)
                time.sleep(pause)

    # Memory.

    def new_mover(self, *options):
        env = cuda_env({**self.fermata.env, "FAKE_CUDA_CAPACITY": CAPACITY, "FAKE_CUDA_CONTEXT": "1M",
                        "FAKE_CUDA_DEVICE": self.device})
        p = Mover(self.fermata.run_argv([program("cuda_managed")], "--memory", *options), env=env, stderr=self.said)
        self.stack.callback(p.close)
        p.begin()
        p.line("ready")
        return p

    def end_mover(self, i):
        if self.mover[i]:
            self.calm()
            self.mover[i].settles()
            self.mover[i].ends()
            self.mover[i] = None

    def any_mover(self):
        return self.mover[self.rng.randrange(MOVERS)]

    def do_memory_start(self):
        i, priority, idle = self.rng.randrange(MOVERS), self.rng.choice(("low", "normal", "high")), self.rng.random() < 0.3
        self.end_mover(i)
        if self.cuda:
            self.calm()
            self.mover[i] = self.new_mover("--priority", priority, *(["--idle-out", "50ms"] if idle else []))

    def do_memory_kill(self):
        i = self.rng.randrange(MOVERS)
        if self.mover[i]:
            self.mover[i].kill()
            self.mover[i].wait()
            self.mover[i] = None

    def do_memory_work(self):
        """What is in the blocks is compared each time, and once more before it is written anew."""
        p, seed, what = self.any_mover(), self.rng.randrange(1000), self.rng.choice(("alloc", "alloc", "pool", "vmm", "free", "spin"))
        mib = 2 * self.rng.randrange(1, 13)
        if not p:
            return
        least, most = p.blocks()
        p.asks(f"check {p.seed}")
        if what == "free" and least > 0:
            p.freed += 1
            p.asks("free 0")
        elif what == "spin":
            p.asks(f"spin {mib}")
        elif what != "free" and most < BLOCKS:
            p.asks(f"{what} {mib}")
        p.seed = seed
        p.asks(f"fill {seed}", f"check {seed}")

    def do_memory_out(self):
        p = self.any_mover()
        if p:
            self.fermata.cli("suspend", "--out", str(p.pid), check_status=False)

    def do_memory_in(self):
        p = self.any_mover()
        if p:
            self.fermata.cli("resume", str(p.pid), check_status=False)

    def do_memory_hint(self):
        """Also less than it has."""
        hint = self.rng.choice(("memory-limit=10", "memory-limit=40", "memory-limit=1G", "memory-request=0", "memory-request=20",
                                "memory-pin=1", "memory-pin=0", "idle-out=20", "idle-out=0", "priority=high", "priority=low"))
        p = self.any_mover()
        if p:
            self.fermata.cli("hint", str(p.pid), hint, check_status=False)

    def do_memory_stop(self):
        p, pause = self.any_mover(), self.rng.uniform(0.01, 0.2)
        if p:
            p.kill(signal.SIGSTOP)
            time.sleep(pause)
            p.kill(signal.SIGCONT)

    def do_memory_daemon_killed(self):
        """While memory moves."""
        p, back = self.any_mover(), self.rng.random() < 0.5
        if p:
            self.fermata.cli("resume" if back else "suspend", *([] if back else ["--out"]), str(p.pid), check_status=False)
        self.do_daemon_killed()

    def do_look(self):
        self.everybody_goes_on()

    WEIGHTS = {do_start: 12, do_end: 3, do_kill: 5, do_suspend: 8, do_resume: 6, do_storm: 4, do_hint: 6, do_policy: 5,
               do_stop_program: 4, do_fork: 4, do_daemon_killed: 2, do_daemon_ends: 1, do_daemon_hangs: 2, do_upgrade: 1,
               do_settings: 2, do_forgery: 5, do_nonsense: 2, do_short_programs: 2, do_many_groups: 2, do_scarcity: 3,
               do_memory_start: 8, do_memory_kill: 2, do_memory_work: 30, do_memory_out: 8, do_memory_in: 8, do_memory_hint: 8,
               do_memory_stop: 3, do_memory_daemon_killed: 3, do_look: 4}

    def step(self):
        what = self.rng.choices(list(self.WEIGHTS), list(self.WEIGHTS.values()))[0]
        # Each event has a die of its own: what it draws does not shift what comes after it.
        outer, self.rng = self.rng, random.Random(self.rng.random())
        name = what.__name__[3:].replace("_", " ")
        self.count[name] += 1
        self.done.append(name)
        if self.verbose:
            print(f"{sum(self.count.values()):6} {name}", flush=True)
        what(self)
        self.rng = outer

    # The end.

    def finish(self):
        self.everybody_goes_on()
        for p in self.everybody():
            self.end(p)
        for i in range(MOVERS):
            self.end_mover(i)
        f = self.fermata
        eventually("nobody is left", lambda: not f.ps()["groups"])
        eventually("no descriptor is left over", lambda: daemon_state(f)[0] <= self.fresh[0])
        grown = daemon_state(f)[1] - self.fresh[1]
        check(SANITIZE or grown < 4096, f"the daemon has grown by {grown} KiB")
        f.stop()
        strange = [line for line in f.log() if not any(re.match("fermatad: " + e, line) for e in EXPECTED)]
        check(not strange, f"the log says: {strange[:9]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("seconds", type=float)
    args = parser.parse_args()
    print(f"soak: {args.seconds:g} s, seed {args.seed}", flush=True)
    deadline = time.monotonic() + args.seconds
    with contextlib.ExitStack() as stack:
        soak = Soak(stack, random.Random(args.seed), args.verbose)
        try:
            while time.monotonic() < deadline:
                soak.step()
            soak.done.append("the end")
            soak.finish()
        except BaseException:
            with open(soak.said.name, encoding="utf-8", errors="replace") as said:
                print("programs said:", *said.read().splitlines()[-20:], sep="\n    ")
            print(f"soak: FAILED, seed {args.seed}, after: {', '.join(soak.done)}", flush=True)
            raise
    print("soak: clean,", ", ".join(f"{n} x {name}" for name, n in sorted(soak.count.items())))


if __name__ == "__main__":
    main()
