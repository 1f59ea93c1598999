# SPDX-License-Identifier: Apache-2.0
"""What the tests in Python share: a private daemon, real client programs, waiting with a deadline."""

import contextlib
import fcntl
import functools
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback

BUILD = os.environ.get("BUILD") or sys.exit("BUILD: set it to the build directory (ctest does)")
SANITIZE = os.environ.get("SANITIZE", "")
ALL_SANITIZED = os.environ.get("FERMATA_TEST_SANITIZED") == "all"
LONG = os.environ.get("FERMATA_TEST_LONG", "") not in ("", "0")
FERMATA = os.path.join(BUILD, "bin", "fermata")
FERMATA_LAB = os.path.join(BUILD, "bin", "fermata-lab")
FERMATAD = os.path.join(BUILD, "bin", "fermatad")
PATIENCE = 120  # seconds after which something that should happen counts as never happening


SOMEBODY = 65534  # a user other than root


class Skip(Exception):
    pass


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Skip(f"{p} is not installed")


def command(*argv):
    """The command line for a command of Fermata's: with the program that it is a command of."""
    lab = argv[:1] and argv[0] in ("sim", "compare", "study", "bench", "policy-test", "profile", "idempotence") or argv[:2] == ("trace", "export")
    return [FERMATA_LAB if lab else FERMATA, *argv]


def program(name):
    return os.path.join(BUILD, "tests", name)


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def need_level_3(there):
    """Of OpenCL: PoCL has it, other devices may not."""
    if not there and os.environ.get("FERMATA_TEST_GPU"):
        raise Skip("the device has no memory that a running kernel sees the host write")
    check(there, "no queue has level 3")


def eventually(what, fn, seconds=PATIENCE):
    """Poll until fn() is true and return what it gave. What is a text, or a function that has one when that did not happen."""
    deadline = time.monotonic() + seconds
    while True:
        value = fn()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.005)


def halt(process):
    """SIGSTOP, and none of its threads runs any more: on a machine at work they may for a while."""
    def stands():
        with contextlib.suppress(FileNotFoundError):  # a thread that ends
            for task in os.listdir(f"/proc/{process.pid}/task"):
                with open(f"/proc/{process.pid}/task/{task}/stat", encoding="utf-8", errors="replace") as f:
                    if ") T " not in f.read():
                        return False
            return True
        return False

    process.send_signal(signal.SIGSTOP)
    eventually("it is stopped", stands)


def foreign(argv):
    """A program that is not of this build. It cannot load a sanitized layer: the sanitizer would have to be
    in it from the start, and would find the program's own faults (clinfo reads past a string)."""
    if SANITIZE:
        raise Skip(f"{argv[0]} is not built with the sanitizer")
    return list(argv)


@functools.cache
def runtime():
    """The sanitizer's library, which must be the first in a program; "" where there is none."""
    if "address" not in SANITIZE:
        return ""
    needs = subprocess.run(["ldd", FERMATA], text=True, capture_output=True, check=True).stdout
    found = re.search(r"libasan\.so\S* => (\S+)", needs)
    return found.group(1) if found else ""


def skipped(cases, why):
    def instead_of(case):
        @functools.wraps(case)
        def skip(_):
            raise Skip(why)

        return skip

    return [instead_of(c) for c in cases]


def unsanitized(*cases):
    """Cases that would show a sanitizer nothing that others do not: they are skipped there, for each takes it long."""
    if not SANITIZE:
        return cases
    return skipped(cases, "it is about what is scheduled when; the memory that it touches others touch, too")


def seldom_sanitized(*cases):
    """Cases that take sanitized processes long, and run what others run in fewer ways: they are for script/test --long there."""
    if not SANITIZE or ALL_SANITIZED:
        return cases
    return skipped(cases, "takes long in a sanitized process: script/test --long")


def long(case):
    """A case for script/test --long (FERMATA_TEST_LONG=1), for a GPU, or by its name: it runs what others run in more ways, for
    longer, or at larger sizes. Those that are left out are named in one line at the end."""
    case.long = True
    return case


def preload(*libraries):
    """LD_PRELOAD for these, in programs of this build."""
    return ":".join(filter(None, [runtime(), *libraries]))


def shim_env(env):
    """The environment in which `fermata run` gives a program of this build the shim, also if it is a sanitized one."""
    env = dict(env)
    if runtime():
        env["FM_TEST_SHIM"] = "1"
        if env.get("LD_PRELOAD"):
            env["LD_PRELOAD"] = preload(env["LD_PRELOAD"])
    return env


def cuda_env(env):
    """The environment in which CUDA programs find the fake driver (tests/fakes/cuda), or the real one where
    FERMATA_TEST_CUDA=real."""
    env = shim_env(env)
    if os.environ.get("FERMATA_TEST_CUDA") != "real":
        env["LD_LIBRARY_PATH"] = ":".join(
            filter(None, [os.path.join(BUILD, "tests", "fakes"), env.get("LD_LIBRARY_PATH")]))
    if env.get("XDG_CACHE_HOME") == os.environ.get("XDG_CACHE_HOME"):
        env["XDG_CACHE_HOME"] = os.path.join(BUILD, "tests", "cache")  # rewritten images are of this build
        os.makedirs(env["XDG_CACHE_HOME"], exist_ok=True)
    return env


def on_terminal(argv, columns=60, **more):
    """Run a program whose standard error is a terminal. Its status, its output, and what the terminal got."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown = []

    def read():
        with contextlib.suppress(OSError):  # EIO: nobody has it open any more
            while data := os.read(ours, 65536):
                shown.append(data)

    reader = threading.Thread(target=read)
    try:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True, **more)
        os.close(theirs)
        reader.start()
        out = p.communicate(timeout=2 * PATIENCE)[0]
        reader.join()
    finally:
        os.close(ours)
    return p.returncode, out, b"".join(shown).decode()


def need_cuda_shim():
    if not os.path.exists(os.path.join(BUILD, "lib", "libfermata-cuda.so")):
        raise Skip("the CUDA shim is not built")
    if SANITIZE and not runtime():
        raise Skip("only the address sanitizer's library can come before what is preloaded")


class Program:
    """A running program whose lines of output are collected with the time they came."""

    def __init__(self, argv, env=None, **more):
        self.argv, self.lines, self.changed = argv, [], threading.Condition()
        self.p = subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **more)
        self.pid = self.p.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.p.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)
            self.changed.notify_all()

    def tell(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def line(self, match, after=0, seconds=PATIENCE):
        """The first line from index `after` on that the regular expression matches at its start."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                for line in self.lines[after:]:
                    if line is None:
                        raise AssertionError(f"{self.argv} ended without '{match}': {self.lines[-6:]}")
                    if re.match(match, line):
                        return line
                if not self.changed.wait(max(0, deadline - time.monotonic())):
                    raise AssertionError(f"{self.argv}: no '{match}' in {seconds} s: {self.lines[-6:]}")

    def mark(self):
        with self.changed:
            return len(self.lines)

    def wait(self, seconds=PATIENCE):
        return self.p.wait(seconds)

    def kill(self, sig=signal.SIGKILL):
        self.p.send_signal(sig)  # not os.kill: once it has been waited for, its number may be another process's

    def close(self):
        self.kill(signal.SIGCONT)
        self.kill()
        self.p.wait()
        self.reader.join()
        self.p.stdin.close()
        self.p.stdout.close()


class Worker(Program):
    """tests/fault/worker.c, cuda_worker.c: a batch job that reports "at KERNELS TIME" as it goes."""

    def position(self):
        with self.changed:
            at = [line for line in self.lines if line and line.startswith("at ")]
        return int(at[-1].split()[1]) if at else 0

    def advances(self, by=8):
        """Wait until it has done `by` more kernels than now."""
        goal = self.position() + by
        eventually(f"{self.argv} gets to kernel {goal}", lambda: self.position() >= goal)

    def stands(self):
        """Wait until it makes no progress any more: as often as it would report, nothing comes."""

        def still():
            before = self.position()
            try:
                self.line("never", self.mark(), seconds=0.3)
            except AssertionError:
                pass
            return self.position() == before

        eventually(f"{self.argv} stands", still)

    def finish(self):
        """Let it end; its results must be right."""
        self.tell("stop")
        done = self.line("done ").split()
        check(done[3] == "0", f"{done[3]} wrong words after {done[1]} kernels")
        check(self.wait() == 0, f"{self.argv} ended with status {self.p.returncode}")


def ask(folder, cmd, seconds=PATIENCE, **more):
    """What `fermata CMD --json` prints, without a process: those of what is looked for again and again would take the processor from
    what it waits for, the more so where a sanitizer looks through each process at its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(seconds)
        sock.connect(os.path.join(folder, "control.sock"))
        sock.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
        with sock.makefile("r", encoding="utf-8") as replies:
            reply = json.loads(replies.readline() or "{}")
    check(reply.get("ok"), f"{cmd}: {reply}")
    return reply


class Steering:
    """The control socket itself: as `fermata suspend`, without a process for each."""

    def __init__(self, stack, fermata):
        self.sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self.sock.settimeout(PATIENCE)
        self.sock.connect(os.path.join(fermata.dir, "control.sock"))
        self.replies = stack.enter_context(self.sock.makefile("r"))

    def __call__(self, cmd, target):
        """True: done. False: there is no such target (any more)."""
        self.sock.sendall(json.dumps({"cmd": cmd, "target": str(target)}).encode() + b"\n")
        reply = json.loads(self.replies.readline())
        check(reply["ok"] or reply["error"]["code"] == "ENOENT", f"{cmd}: {reply}")
        return reply["ok"]


class LibClient(Program):
    """tests/integration/library/lib_client.c, told what to do line by line."""

    def ask(self, line):
        after = self.mark()
        self.tell(line)
        return self.line(line.split()[0] + " ", after)

    def do(self, line):
        answer = self.ask(line)
        check(answer.split()[1] == "0", f"'{line}' was answered '{answer}'")

    def state(self):
        return {k: int(v) for k, v in (w.split("=") for w in self.ask("state").split()[1:])}

    def finished(self):
        return self.state()["finished"]

    def advances(self, by=20):
        goal = self.finished() + by
        eventually(f"{self.pid} finishes {by} more commands", lambda: self.finished() >= goal)

    def stands_still(self):
        """At rest by its own account; and nothing comes out while others work."""
        eventually("it is not scheduled", lambda: not self.state()["scheduled"])
        eventually("it has come to rest", lambda: self.state()["stalled"])
        return self.finished()

    def stood(self, before):
        """Nothing ran since stands_still() gave `before`. A gate that was being opened when it was closed lets a segment
        out yet, and the end of a command may be told of late."""
        ran = self.finished() - before
        check(ran <= 4, f"{ran} commands of {self.pid} ran, which should have waited")

    @contextlib.contextmanager
    def segment(self, priority=-(2**31)):
        """Ready throughout, however late its thread comes with the next command; FM_SEGMENT_KEEP."""
        self.do(f"segment {priority}")
        yield
        self.do("end")

    def quit(self):
        self.do("quit")
        check(self.wait() == 0, f"a client ended with status {self.p.returncode}")


class Fermata:
    """A private daemon in a directory of its own, and the command line that talks to it. In strict mode where
    FERMATA_TEST_STRICT is set: nearly all tests hold there, too."""

    def __init__(self, stack, config=None, start=True):
        self.stack = stack
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
        self.env["FERMATA_SOCKET"] = self.dir
        self.args = []
        self.daemon = None
        if os.environ.get("FERMATA_TEST_STRICT") and "[security]" not in (config or ""):
            config = (config or "") + "[security]\nstrict = yes\n"
        if config is not None:
            path = os.path.join(self.dir, "fermatad.conf")
            with open(path, "w", encoding="ascii") as f:
                f.write(config)
            self.args = ["--config", path]
        stack.push(self.show_log)
        stack.callback(self.stop)
        if start:
            self.start()

    def somebody(self):
        """What a program is started with to be a user whom limits bind: nothing, unless we are root."""
        if os.geteuid():
            return {}
        os.chmod(self.dir, 0o755)
        user = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": []}
        with contextlib.suppress(OSError):
            if not subprocess.run([FERMATA, "version"], env=self.env, capture_output=True, check=False, **user).returncode:
                return user
        raise Skip("the build is not for others to read")

    def become(self, config):
        """The daemon dies, and one of this file, which was given at first, too, comes after it."""
        self.kill()
        with open(self.args[1], "w", encoding="ascii") as f:
            f.write(config)
        self.start()

    def start(self, program=FERMATAD, answers=True, **popen):
        # Its log is kept, and shown where a case fails; O_APPEND, since daemons follow each other.
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.daemon = subprocess.Popen([program, "--dir", self.dir, *self.args], env=self.env, stderr=log, **popen)
        if answers:
            eventually("the daemon answers", self.answers)

    def log(self):
        """What daemons in this directory have said, line by line."""
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
                return f.read().splitlines()
        return []

    def says(self, match, times=1):
        """Wait until the log has a line that the regular expression matches somewhere."""
        eventually(f"the log says '{match}'", lambda: sum(bool(re.search(match, line)) for line in self.log()) >= times)

    def show_log(self, kind, *_):
        if kind and kind is not Skip and self.log():
            print("the daemon said:", *self.log()[-60:], sep="\n    ", flush=True)

    def answers(self):
        check(self.daemon.poll() is None, f"the daemon ended with status {self.daemon.returncode}")
        try:
            return ask(self.dir, "ps", seconds=10)
        except (OSError, ValueError, AssertionError):
            return False

    def knows(self, pid):
        """Wait until the daemon has read that a process has queues, and so what it said before. What a program has
        sent, and the answer to its first launch, say nothing of when the daemon reads it."""
        eventually(f"the daemon knows {pid}", lambda: self.group(pid))

    def cuda_worker(self, *options, us=1000, devices=1):
        """tests/fault/cuda_worker.c, known to the daemon and making progress."""
        w = self.cuda_worker_behind(*options, us=us, devices=devices)
        w.line("ready")
        return w

    def cuda_worker_behind(self, *options, us=1000, devices=1):
        """The same, which is known to the daemon, and may have to wait for its first turn."""
        w = self.program([program("cuda_worker"), str(us), str(devices)], *options, cls=Worker)
        self.knows(w.pid)
        return w

    def stop(self):
        """An orderly end; a sanitizer's finding shows in the status."""
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
                raise AssertionError("the daemon does not end on SIGTERM")
            check(self.daemon.returncode == 0, f"the daemon ended with status {self.daemon.returncode}")
        self.daemon = None

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = None

    def shows_set(self, w, policy, tasks, resident=False):
        """The set and its tasks, by `ps', `top' and `why', while it runs and while it stands."""
        w.advances()
        told = lambda: next(q.get("set", {}) for q in self.group(w.pid)["queues"] if q["level"] == 3)
        eventually("its jobs are told", lambda: any(t["done"] for t in told()["tasks"]))
        now = told()
        check((now["policy"], now["resident"], now["more_tasks"]) == (policy, resident, 0), f"the set is told as {now}")
        check([t["number"] for t in now["tasks"]] == list(range(tasks)), f"its tasks are told as {now['tasks']}")
        for t in now["tasks"]:
            check(t["released"] - t["done"] == t["pending"] and t["response_max_ms"] >= 0, f"a task is told as {t}")
        rows = [line.split() for line in self.cli("ps", "--queues").stdout.splitlines()]
        for t in now["tasks"]:
            check(any(t["name"] in row and row[-1] == ("resident" if resident else "-") for row in rows), f"ps shows {rows}")
        why = self.cli("why", str(w.pid)).stdout
        check(f"is a {'resident ' if resident else ''}set of tasks, which decides itself, by {policy}" in why, f"why says {why}")
        self.cli("suspend", str(w.pid))
        eventually("it is told as stopped", lambda: told()["stopped"])
        w.stands()
        check(f"by {policy}: it is stopped" in self.cli("why", str(w.pid)).stdout, "why does not say that it is stopped")
        self.cli("resume", str(w.pid))
        eventually("it is told to go on", lambda: not told()["stopped"])
        w.advances()

    def stands_without_a_daemon(self, w):
        """In strict mode: what is suspended stands after the daemon's death, and goes on when the next one resumes it."""
        w.advances()
        self.cli("suspend", str(w.pid))
        w.stands()
        stood = w.position()
        self.kill()
        w.stands()
        check(w.position() == stood, f"{stood}: it went on without a daemon")
        self.start()
        self.knows(w.pid)
        self.cli("resume", str(w.pid))
        w.advances()

    def strict_and_lax(self, w):
        """A set that was resident when a strict daemon came is so no more, goes on, and stops; under a lax one it is so again."""
        w.advances()
        for strict, resident in ("yes", False), ("no", True):
            self.become(f"[security]\nstrict = {strict}\n")
            self.knows(w.pid)
            told = lambda: next(q["set"] for q in self.group(w.pid)["queues"] if "set" in q)
            eventually("the resident goes, or is there again", lambda: told()["resident"] == resident)
            w.advances()
            self.cli("suspend", str(w.pid))
            w.stands()
            self.cli("resume", str(w.pid))
            w.advances()

    def set_idles(self, p, times):
        """A program of sets (cuda_gpu_set.h, idle()) beside one that always has work: its group has none, and no turn, each time."""
        beside, after = self.cuda_worker(), 0
        for _ in range(times):
            p.line("idle", after)
            self.knows(p.pid)
            after = p.mark()
            beside.advances()
            eventually("its gate closes", lambda: all(q["gate"] == "closed" for q in self.group(p.pid)["queues"]))
            p.tell("go")
        p.line("ok", after)
        check(p.wait() == 0, f"{p.argv}: status {p.p.returncode}")
        beside.finish()

    def suspend_at_random(self, rng, programs, hold=0.002, pause=0.002):
        """Until the programs end; how often that was."""
        n, until = 0, time.monotonic() + PATIENCE
        with contextlib.ExitStack() as stack:
            steer = Steering(stack, self)
            while any(p.p.poll() is None for p in programs):
                left = [p.pid for p in programs if p.p.poll() is None]
                check(time.monotonic() < until, f"{left} have not ended in {PATIENCE} s, suspended {n} times in all")
                p = rng.choice(programs)
                n += steer("suspend", p.pid)
                time.sleep(rng.uniform(0, hold))
                steer("resume", p.pid)
                time.sleep(rng.uniform(0, pause))
        return n

    def cli(self, *argv, check_status=True):
        r = subprocess.run(command(*argv), env=self.env, text=True, capture_output=True, timeout=PATIENCE)
        if check_status:
            check(r.returncode == 0, f"fermata {' '.join(argv)}: status {r.returncode}: {r.stderr}")
        return r

    def ps(self):
        return ask(self.dir, "ps")

    def stats(self):
        return ask(self.dir, "stats")

    def group(self, pid):
        """The group of a process with queues, or None."""
        for g in self.ps()["groups"]:
            if any(q["pid"] == pid for q in g["queues"]):
                return g
        return None

    def preemptions(self):
        return sum(d["preempt_us"]["count"] for d in self.ps()["devices"])

    def preempts(self, urgent, low):
        """`urgent` takes the device from `low` while that has work. It may have had none when `urgent` came, so that comes again and
        again."""

        def happened():
            if sum(d["preemptions"] for d in self.group(low.pid)["devices"]):
                return True
            self.cli("suspend", str(urgent.pid))
            low.advances()
            self.cli("resume", str(urgent.pid))
            urgent.advances()
            return False

        eventually(f"{low.argv} is preempted", happened)

    def run_argv(self, argv, *options):
        return [FERMATA, "run", *options, "--", *argv]

    def program(self, argv, *options, cls=Program, **more):
        """A program under `fermata run`, which execs: the pid is the program's."""
        p = cls(self.run_argv(argv, *options), env=self.env, **more)
        self.stack.callback(p.close)
        return p

    def worker(self, *options, iters=64, scheduled=True):
        """A worker that makes progress, and is known to the daemon if there is one; or that none schedules."""
        w = self.program([program("worker"), str(iters)], *options, cls=Worker)
        w.line("ready")
        if self.daemon and scheduled:
            self.knows(w.pid)
        return w


@contextlib.contextmanager
def hung(fermata):
    """Its daemon does nothing meanwhile. It goes on whatever happens: else it could not be ended either."""
    halt(fermata.daemon)
    try:
        yield
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)


def lib_client(f, stack, group="-", *options, device=None):
    argv = [program("lib_client"), group] + ([device] if device else [])
    p = f.program(argv, *options, cls=LibClient) if options else LibClient(argv, env=f.env)
    if not options:
        stack.callback(p.close)
    check(p.line("ready") == "ready 0", "the client could not set itself up")
    f.knows(p.pid)
    eventually("it has the daemon", lambda: p.state()["daemon"])
    return p


def chosen(cases, argv):
    """The cases to run, and the names of those that are left to script/test --long."""
    but, named = argv[:1] == ["--but"], set(argv) - {"--but"}
    if named - {c.__name__ for c in cases}:
        sys.exit(f"{sys.argv[0]} has no case {' '.join(named - {c.__name__ for c in cases})}")
    if named and not but:
        return [c for c in cases if c.__name__ in named], []
    cases = [c for c in cases if c.__name__ not in named]
    every = LONG or SANITIZE and ALL_SANITIZED or os.environ.get("FERMATA_TEST_GPU")
    left = [c for c in cases if hasattr(c, "long") and not every]
    return [c for c in cases if c not in left], [c.__name__ for c in left]


def processor_seconds():
    """Of this process, and of those that it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main(*cases):
    """Run the cases (or those named as arguments; or, behind --but, the others), each with an ExitStack; 0, 1, or 77 when all
    were skipped, or left out as too long()."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background inherits that it is ignored
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    cases, left = chosen(cases, sys.argv[1:])
    failed, passed = 0, 0
    for case in cases:
        begin, before = time.monotonic(), processor_seconds()
        try:
            with contextlib.ExitStack() as stack:
                case(stack)
            passed += 1
            print(f"ok       {case.__name__} ({time.monotonic() - begin:.1f} s, {processor_seconds() - before:.1f} s of processors)", flush=True)
        except Skip as e:
            print(f"skipped  {case.__name__}: {e}", flush=True)
        except Exception:  # whatever it is, the case failed; the others still run
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"FAILED   {case.__name__}", flush=True)
    if left:
        print(f"left to --long: {len(left)}: {' '.join(left)}", flush=True)
    sys.exit(1 if failed else 0 if passed else 77)
