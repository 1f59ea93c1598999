#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real daemon over its real sockets: what clients, liars, operators and a service manager see."""
import array
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

DAEMON = os.path.join(os.environ["BUILD"], "bin", "fermatad")
SANITIZED = bool(os.environ.get("SANITIZE"))
MAGIC, VERSION = 0x4D524546, 4
(HELLO, WELCOME, REFUSED, GROUP, HINT, QUEUE, QUEUE_GONE, SEGMENT, BELL, WAKE) = range(1, 11)
BOARD_VERSION, BOARD_SIZE, SLOTS_AT, SLOT_SIZE = 8, 50944, 256, 320
UNGOVERNED_AT, CALLS_AT, CALL_SIZE = 200, 41216, 64
GATE, BELLS, BEGUN, DONE, RELEASED = 0, 4, 64, 128, 144
OPEN, CLOSED = 0, 1
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def board_fd(size=BOARD_SIZE, seals=SEALS):
    fd = os.memfd_create("board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, struct.pack("=IHHI", 0x444F4246, BOARD_VERSION, 128, BOARD_SIZE), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


PATIENCE = 60  # seconds after which something that should happen counts as never happening


def eventually(test, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        test.assertLess(time.monotonic(), end, "did not happen within %d s" % seconds)
        time.sleep(0.005)


class Client:
    def __init__(self, directory, greet=True):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(directory + "/client.sock")
        if greet:
            fd = board_fd()
            self.board = mmap.mmap(fd, BOARD_SIZE)
            self.hello(fd)
            os.close(fd)
            assert self.receive()[0] == WELCOME

    def say(self, kind, body=b"", fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([struct.pack("=IHH", MAGIC, VERSION, kind) + body], rights)

    def hello(self, *fds):
        self.say(HELLO, struct.pack("=II16s", BOARD_VERSION, BOARD_SIZE, b"test"), fds)

    def queue(self, slot, device=b"sim:test", group=0):
        self.say(QUEUE, struct.pack("=III96s", slot, group, 6, device))

    def group(self, index, name):
        self.say(GROUP, struct.pack("=I64s", index, name))

    def priority(self, value):
        self.say(HINT, struct.pack("=IIq", 0, 0, value))

    def receive(self):
        """(type, code, text), or None at the end of the session."""
        try:
            packet = self.sock.recv(4096)
        except ConnectionResetError:
            return None
        if not packet:
            return None
        kind = struct.unpack_from("=IHH", packet)[2]
        if kind == REFUSED:
            code, text = struct.unpack_from("=i128s", packet, 8)
            return kind, code, text.rstrip(b"\0").decode()
        return kind, 0, ""

    def word(self, slot, offset, value=None):
        at, form = SLOTS_AT + slot * SLOT_SIZE + offset, "=Q" if offset >= BEGUN else "=I"
        if value is not None:
            struct.pack_into(form, self.board, at, value)
        return struct.unpack_from(form, self.board, at)[0]

    def call(self, row, name, ungoverned, undivided=0):
        struct.pack_into("=QQ%ds" % len(name), self.board, CALLS_AT + row * CALL_SIZE, ungoverned, undivided, name)

    def begin(self, slot):
        self.word(slot, RELEASED, self.word(slot, RELEASED) + 1)
        self.word(slot, BEGUN, self.word(slot, BEGUN) + 1)
        self.say(BELL)


class Control:
    def __init__(self, directory):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(directory + "/control.sock")
        self.lines = self.sock.makefile("rb")

    def ask(self, cmd, **members):
        self.sock.sendall(json.dumps(dict(members, cmd=cmd)).encode() + b"\n")
        return json.loads(self.lines.readline())


def clients_and_priorities(directory):
    return [(g["clients"], g["hints"]["priority"]) for g in Control(directory).ask("ps")["groups"]]


class Fermatad(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.dir = self.tmp.name + "/run"
        self.conf = self.tmp.name + "/conf"
        self.daemons = []

    def tearDown(self):
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.terminate()
            self.assertEqual(daemon.wait(PATIENCE), getattr(daemon, "expected", 0))
            daemon.stderr.close()
        self.tmp.cleanup()

    def write_conf(self, text):
        with open(self.conf, "w") as f:
            f.write(text)

    def start(self, *options, wait=True, **popen):
        if not os.path.exists(self.conf):
            self.write_conf("")
        command = [DAEMON, "--dir", self.dir, "--config", self.conf, *options]
        # Its log goes to a file of its own, which is read back when a test asks for it.
        daemon = subprocess.Popen(command, stderr=open(self.tmp.name + "/log", "wb+"), **popen)
        daemon.stderr = open(self.tmp.name + "/log", "rb")
        self.daemons.append(daemon)
        if wait:
            eventually(self, lambda: self.up() or daemon.poll() is not None)
            self.assertIsNone(daemon.poll(), self.log())
        return daemon

    def up(self):
        try:
            Control(self.dir).ask("version")
            return True
        except OSError:
            return False

    def log(self):
        with open(self.tmp.name + "/log") as f:
            return f.read()

    def clients(self):
        return Control(self.dir).ask("stats")["clients"]

    def test_the_urgent_preempt(self):
        self.start()
        low, high = Client(self.dir), Client(self.dir)
        low.group(0, b"low")
        low.priority(-64)
        high.priority(64)
        low.queue(0)
        high.queue(7)
        low.begin(0)
        eventually(self, lambda: high.word(7, BELLS) & 1)
        self.assertEqual(low.word(0, GATE), OPEN)
        high.begin(7)
        eventually(self, lambda: low.word(0, GATE) == CLOSED)
        self.assertEqual(high.word(7, GATE), OPEN)
        high.word(7, DONE, high.word(7, BEGUN))
        high.say(BELL)
        eventually(self, lambda: low.word(0, GATE) == OPEN)

    def test_an_operator_sees_and_steers(self):
        self.start()
        c, control = Client(self.dir), Control(self.dir)
        c.group(0, b"job")
        c.queue(3)
        eventually(self, lambda: control.ask("ps")["groups"][0]["queues"])
        group = control.ask("ps")["groups"][0]
        self.assertEqual((group["name"], group["uid"], group["clients"]), ("job", os.geteuid(), 1))
        self.assertEqual(group["queues"][0]["pid"], os.getpid())
        for target in ("job", str(os.getpid()), group["queues"][0]["id"]):
            self.assertEqual(control.ask("suspend", target=target)["groups"], ["job"])
            self.assertEqual(c.word(3, GATE), CLOSED)
            self.assertTrue(control.ask("resume", target=target)["ok"])
            self.assertEqual(c.word(3, GATE), OPEN)
        hints = {"deadline": "20ms", "priority": "high", "weight": 7, "period": 1.5}
        self.assertTrue(control.ask("hint", target="job", hints=hints)["ok"])
        self.assertEqual(sorted(c.receive()[0] for _ in range(4)), [HINT] * 4)
        seen = control.ask("ps")["groups"][0]["hints"]
        self.assertEqual((seen["deadline_ms"], seen["priority"], seen["weight"], seen["period_ms"]),
                         (20, 64, 7, 1.5))
        self.assertEqual(control.ask("hint", target="job", hints={"weight": 9, "colour": 1})["error"]["code"],
                         "ENOENT")
        self.assertEqual(control.ask("ps")["groups"][0]["hints"]["weight"], 7)
        self.assertEqual(control.ask("policy", name="fair", params=["slice=3ms"])["policy"]["params"]["slice"],
                         "3ms")
        self.assertEqual(control.ask("policy", name="fair", params=["slice=soon"])["ok"], False)
        self.assertEqual(control.ask("policy")["policy"]["params"]["slice"], "3ms")

    def test_a_process_is_one_group(self):
        self.start()
        control = Control(self.dir)
        seen = lambda: clients_and_priorities(self.dir)
        a, b = Client(self.dir), Client(self.dir)
        a.priority(3)
        eventually(self, lambda: seen() == [(2, 3)])
        self.assertEqual(b.receive()[0], HINT)
        for c in (a, b):
            c.queue(0)
        eventually(self, lambda: control.ask("stats")["queues"] == 2)
        self.assertTrue(control.ask("suspend", target=str(os.getpid()))["ok"])
        self.assertEqual((a.word(0, GATE), b.word(0, GATE)), (CLOSED, CLOSED))
        a.sock.close()
        eventually(self, lambda: seen() == [(1, 3)])
        self.assertEqual(control.ask("ps")["groups"][0]["suspended"], True)
        c = Client(self.dir)
        eventually(self, lambda: seen() == [(2, 3)])
        c.group(0, b"aside")
        eventually(self, lambda: seen() == [(1, 3), (1, 0)])
        pid = os.fork()
        if not pid:
            status = 1
            try:
                mine, too = Client(self.dir), Client(self.dir)
                eventually(self, lambda: seen() == [(1, 3), (1, 0), (2, 0)])
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        eventually(self, lambda: seen() == [(1, 3), (1, 0)])

    @unittest.skipIf(os.geteuid(), "needs root, to become somebody else")
    def test_who_becomes_another_user_has_another_group(self):
        os.chmod(self.tmp.name, 0o755)
        self.start()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                first = Client(self.dir)
                control = Control(self.dir)
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                second, third = Client(self.dir), Client(self.dir)
                name = "%s-%d" % (control.ask("ps")["groups"][0]["name"].rpartition("-")[0], os.getpid())
                found = [(g["name"], g["uid"], g["clients"]) for g in control.ask("ps")["groups"]]
                status = 0 if found == [(name, 0, 1), (name, 65534, 2)] else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_a_program_that_is_replaced_leaves_nothing(self):
        """Its pid stays, and its clients are gone: the next program's group is a new one, also where the daemon has
        much to read of the session before, and has the next one's HELLO already."""
        daemon = self.start()
        control = Control(self.dir)
        code = ("import os, sys; sys.path.insert(0, %r); import test_fermatad as t; n = int(sys.argv[1]); "
                "c = t.Client(%r, greet=False); c.hello(t.board_fd()); print(n, flush=True); "
                "assert c.receive()[0] == t.WELCOME; c.priority(n); sys.stdin.readline(); [c.priority(n) for _ in range(5)]; "
                "n > 1 and os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:3], str(n - 1)])"
                % (os.path.dirname(os.path.abspath(__file__)), self.dir))
        with subprocess.Popen([sys.executable, "-c", code, "6"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              bufsize=1) as p:
            ids = set()
            for left in range(6, 0, -1):
                self.assertEqual(p.stdout.readline(), "%d\n" % left)
                daemon.send_signal(signal.SIGCONT)
                groups = eventually(self, lambda: [g for g in control.ask("ps")["groups"]
                                                   if g["hints"]["priority"] == left])
                self.assertEqual([g["clients"] for g in groups], [1])
                ids.add(groups[0]["id"])
                if left > 1:
                    daemon.send_signal(signal.SIGSTOP)
                p.stdin.write("\n")
            self.assertEqual(len(ids), 6)

    def test_calls_are_named(self):
        self.start()
        control = Control(self.dir)
        clients = [Client(self.dir) for _ in range(2)]
        for c in clients:
            c.group(0, b"job")
            c.call(0, b"cuLaunchKernel", 3)
            c.call(1, b"never", 0)
            c.call(2, b"cuGraphLaunch", 0, 7)
            struct.pack_into("=QQ", c.board, UNGOVERNED_AT, 5, 8)
        clients[1].call(7, b"_" + b"x" * 46, 2**64 - 1)
        eventually(self, lambda: [g["clients"] for g in control.ask("ps")["groups"]] == [2])
        group = control.ask("ps")["groups"][0]
        self.assertEqual((group["ungoverned"], group["undivided"]), (10, 16))
        self.assertEqual({c.pop("call"): c for c in group["calls"]},
                         {"cuLaunchKernel": {"ungoverned": 6, "undivided": 0},
                          "cuGraphLaunch": {"ungoverned": 0, "undivided": 14},
                          "_" + "x" * 46: {"ungoverned": 2**63 - 1, "undivided": 0}})

    def test_sums_of_calls_go_on_beside_liars(self):
        """Of the present, and of those that are gone."""
        self.start()
        honest = Client(self.dir)
        honest.group(0, b"honest")
        honest.queue(0)
        control = Control(self.dir)

        def governed():
            return control.ask("stats")["governed"]

        for most in (2**64 - 1, 2**63, 2**63 - 1):
            liar = Client(self.dir)
            liar.queue(0)
            for word in range(UNGOVERNED_AT - 8, UNGOVERNED_AT + 56, 8):
                struct.pack_into("=Q", liar.board, word, most)
            eventually(self, lambda: control.ask("ps")["groups"][1:])
            for _ in range(2):
                before = governed()
                self.assertGreaterEqual(before, 0)
                honest.word(0, BEGUN, honest.word(0, BEGUN) + 5)
                self.assertEqual((governed() - before) % 2**63, 5)
                liar.sock.close()
                eventually(self, lambda: not control.ask("ps")["groups"][1:])

    def test_names_of_calls_are_checked(self):
        self.start()
        control = Control(self.dir)
        shown = lambda: [c["call"] for c in control.ask("ps")["groups"][0]["calls"]]
        liar = Client(self.dir)
        evil = [b"", b"x" * 48, b"a;b", b"\x1b[31m", b"\xc3\xbc", b"a\x7f", b"a\n", b"/", b'"', b"%s"]
        for row, name in enumerate(evil):
            liar.call(row, name, 1)
        liar.call(len(evil), b"good", 1)
        liar.group(0, b"job")
        eventually(self, lambda: control.ask("ps")["groups"][0]["name"] == "job")
        self.assertEqual(shown(), ["good"])
        crowd = [Client(self.dir) for _ in range(5)]
        for i, c in enumerate(crowd):
            for row in range(16):
                c.call(row, b"call_%d_%d" % (i, row), 1)
            c.group(0, b"job")
        eventually(self, lambda: [g["clients"] for g in control.ask("ps")["groups"]] == [6])
        self.assertEqual(len(shown()), 64)

    def test_liars_are_shown_the_door(self):
        self.start()
        lies = [
            lambda c: c.sock.send(b"x"),
            lambda c: c.sock.send(b"\0" * 100000),
            lambda c: c.say(BELL),
            lambda c: c.hello(),
            lambda c: c.hello(board_fd(seals=0)),
            lambda c: c.hello(board_fd(size=BOARD_SIZE - 1)),
            lambda c: c.hello(board_fd(), board_fd()),
            lambda c: c.hello(os.open("/dev/null", os.O_RDWR)),
            lambda c: c.say(HELLO, struct.pack("=II16s", 9, BOARD_SIZE, b"test"), (board_fd(),)),
        ]
        for lie in lies:
            c = Client(self.dir, greet=False)
            lie(c)
            kind, code, text = c.receive()
            self.assertEqual(kind, REFUSED)
            self.assertLess(code, 0)
            self.assertTrue(text)
            self.assertIsNone(c.receive())
        c = Client(self.dir)
        c.queue(4)
        c.queue(4)
        self.assertIn("slot 4", c.receive()[2])
        self.assertIsNone(c.receive())
        eventually(self, lambda: self.clients() == 0)

    def test_a_board_is_in_one_session(self):
        """A client that has given the daemon up comes again before the end of its former session is seen."""
        self.start()
        first, other, former = Client(self.dir), Client(self.dir), None
        first.group(0, b"first")
        first.queue(0)
        fd = board_fd()
        board = mmap.mmap(fd, BOARD_SIZE)
        for _ in range(3):
            c = Client(self.dir, greet=False)
            c.hello(fd)
            self.assertEqual(c.receive()[0], WELCOME)
            c.group(0, b"job")
            c.queue(5)
            eventually(self, lambda: Control(self.dir).ask("stats")["clients"] == 3)
            if former:
                self.assertIsNone(former.receive())
            former = c
        os.close(fd)
        eventually(self, lambda: Control(self.dir).ask("stats")["queues"] == 2)
        self.assertTrue(Control(self.dir).ask("suspend", target="job")["ok"])
        self.assertEqual(struct.unpack_from("=I", board, SLOTS_AT + 5 * SLOT_SIZE)[0], CLOSED)
        self.assertEqual([g["clients"] for g in Control(self.dir).ask("ps")["groups"]], [1, 1, 1])
        other.queue(0)
        eventually(self, lambda: Control(self.dir).ask("stats")["queues"] == 3)

    def test_who_says_nothing_is_dropped(self):
        self.start()
        c = Client(self.dir, greet=False)
        self.assertIn("HELLO", c.receive()[2])
        self.assertIsNone(c.receive())

    def test_refusals_do_not_end_a_session(self):
        self.start()
        c = Client(self.dir)
        c.say(SEGMENT, struct.pack("=IIi", 0, 0, 0))
        self.assertEqual(c.receive()[:2], (REFUSED, -1))
        c.queue(1)
        eventually(self, lambda: Control(self.dir).ask("stats")["queues"] == 1)

    def test_a_task_goes_with_its_process(self):
        """Not with those who stay in the group that it leaves."""
        self.write_conf("[admission]\nepsilon_us = 200\n")
        self.start()
        mine, control = Client(self.dir), Control(self.dir)
        mine.group(0, b"team")
        other = os.fork()  # another process, for a task is its process's
        if not other:
            c = Client(self.dir)
            c.group(0, b"team")
            time.sleep(60)
            os._exit(0)
        self.addCleanup(os.waitpid, other, 0)
        self.addCleanup(os.kill, other, signal.SIGKILL)
        eventually(self, lambda: [g["clients"] for g in control.ask("ps")["groups"] if g["name"] == "team"] == [2])
        task = {"name": "t", "period_ns": 10**8, "segments": [{"gpu_ns": 10**6}]}
        self.assertTrue(control.ask("admit", tasks=[task])["admitted"])
        self.assertEqual(control.ask("tasks")["tasks"][0]["group"], "team")
        mine.group(0, b"elsewhere")
        eventually(self, lambda: "elsewhere" in [g["name"] for g in control.ask("ps")["groups"]])
        self.assertEqual(control.ask("tasks")["tasks"][0]["group"], "elsewhere")
        priority = {g["name"]: g["effective_priority"] for g in control.ask("ps")["groups"]}
        self.assertGreater(priority["elsewhere"], 255)
        self.assertEqual(priority["team"], 0)

    def test_a_dead_client_leaves_although_its_socket_lives(self):
        self.start()
        ready_r, ready_w = os.pipe()
        pid = os.fork()
        if not pid:
            c = Client(self.dir)
            c.queue(0)
            if not os.fork():  # holds the socket
                os.write(ready_w, b"%d\n" % os.getpid())
            time.sleep(60)
            os._exit(0)
        os.close(ready_w)  # a child that fails leaves nobody to wait for
        holder = int(os.read(ready_r, 16))
        eventually(self, lambda: self.clients() == 1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        eventually(self, lambda: self.clients() == 0)
        os.kill(holder, signal.SIGKILL)
        self.assertEqual(Control(self.dir).ask("ps")["groups"], [])

    def test_an_orderly_end_opens_gates(self):
        daemon = self.start()
        c = Client(self.dir)
        c.group(0, b"job")
        c.queue(3)
        eventually(self, lambda: Control(self.dir).ask("suspend", target="job")["ok"])
        eventually(self, lambda: c.word(3, GATE) == CLOSED)
        daemon.terminate()
        self.assertEqual(daemon.wait(PATIENCE), 0)
        self.assertEqual(c.word(3, GATE), OPEN)
        self.assertIsNone(c.receive())
        self.assertEqual(os.listdir(self.dir), [])

    def test_the_lock_that_goes_locks(self):
        """Daemons that begin while others end: in the end there is one, and the file is its own."""
        winner, batch, rounds = None, [], 0
        self.write_conf("")
        try:
            while rounds < 15:
                batch = [subprocess.Popen([DAEMON, "--dir", self.dir, "--config", self.conf], stderr=subprocess.DEVNULL)
                         for _ in range(3)]
                eventually(self, lambda: sum(p.poll() is None for p in batch) <= 1)
                if winner:
                    self.assertEqual(winner.wait(PATIENCE), 0)
                winner = next((p for p in batch if p.poll() is None), None)
                if not winner:  # the one that ended had the lock yet
                    continue
                eventually(self, lambda: self.up() or winner.poll() is not None)
                if winner.poll() is not None:  # as above, and it was about to end when it was looked at
                    self.assertEqual(winner.poll(), 1)
                    winner = None
                    continue
                rounds += 1
                self.assertEqual(Control(self.dir).ask("version")["pid"], winner.pid)
                with open(self.dir + "/fermatad.pid", encoding="ascii") as f:
                    self.assertEqual(f.read(), f"{winner.pid}\n")
                winner.terminate()  # and the next ones begin while it ends
            self.assertEqual(winner.wait(PATIENCE), 0)
            self.assertEqual(os.listdir(self.dir), [])
        finally:
            for p in batch + [winner] * bool(winner):
                p.kill()
                p.wait()

    def test_a_daemon_of_ones_own_is_not_the_machines(self):
        self.start()
        self.assertEqual(Control(self.dir).ask("version")["instance"], "user")
        self.daemons[0].terminate()
        self.assertEqual(self.daemons[0].wait(PATIENCE), 0)
        self.start("--system")
        self.assertEqual(Control(self.dir).ask("version")["instance"], "system")

    def test_one_daemon_a_directory(self):
        first = self.start()
        second = subprocess.run([DAEMON, "--dir", self.dir], capture_output=True, text=True)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another fermatad (pid %d) runs in %s" % (first.pid, self.dir), second.stderr)
        first.expected = -signal.SIGKILL
        first.kill()
        first.wait()
        self.assertTrue(os.path.exists(self.dir + "/client.sock"))
        self.start()
        Client(self.dir)

    def test_a_directory_of_others_is_refused(self):
        os.mkdir(self.dir)
        os.chmod(self.dir, 0o777)
        daemon = self.start(wait=False)
        daemon.expected = 1
        self.assertEqual(daemon.wait(PATIENCE), 1)
        self.assertIn("can be changed by others", self.log())

    def test_settings_are_read_again(self):
        self.write_conf("[daemon]\npolicy = fair\n")
        daemon = self.start()
        policy = lambda: Control(self.dir).ask("policy")["policy"]["name"]
        self.assertEqual(policy(), "fair")
        self.write_conf("[daemon]\npolicy = edf\nbogus = 1\n")
        daemon.send_signal(signal.SIGHUP)
        eventually(self, lambda: "conf:3: unknown key 'bogus'" in self.log())
        self.assertEqual(policy(), "fair")
        self.write_conf("[daemon]\npolicy = edf\n")
        daemon.send_signal(signal.SIGHUP)
        eventually(self, lambda: policy() == "edf")
        check = subprocess.run([DAEMON, "--check-config", "--config", self.conf])
        self.assertEqual(check.returncode, 0)

    def test_it_leaves_when_idle(self):
        daemon = self.start("--idle-exit", "1", wait=False)

        def joined():
            """It may have left already, on a machine on which we are late."""
            nonlocal daemon
            if daemon.poll() is not None:
                daemon = self.start("--idle-exit", "1", wait=False)
            try:
                return Client(self.dir)
            except (OSError, AssertionError, TypeError):  # the last where its session ends before it is welcome
                return None

        c = eventually(self, joined)
        time.sleep(1.5)
        self.assertIsNone(daemon.poll())
        c.sock.close()
        self.assertEqual(daemon.wait(PATIENCE), 0)

    def test_requests_are_bounded(self):
        self.start()
        control = Control(self.dir)
        control.sock.sendall(b'{"cmd":"version"}\n' * 500)
        for _ in range(500):
            self.assertTrue(json.loads(control.lines.readline())["ok"])
        control.sock.sendall(b"x" * 65536)
        self.assertEqual(json.loads(control.lines.readline())["error"]["code"], "E2BIG")
        self.assertEqual(control.lines.readline(), b"")
        many = Control(self.dir).ask("hint", target="x", hints=[0] * 9000)
        self.assertEqual((many["error"]["code"], "more than 8192 values" in many["error"]["text"]), ("EINVAL", True))
        slow = Control(self.dir)
        slow.sock.setblocking(False)
        sent = 0
        try:
            while sent < 64 << 20:
                sent += slow.sock.send(b'{"cmd":"policy"}\n' * 1000)
        except BlockingIOError:
            pass
        self.assertLess(sent, 8 << 20)
        self.assertTrue(Control(self.dir).ask("version")["ok"])

    @unittest.skipIf(os.geteuid(), "needs root, to become somebody else")
    def test_strangers_neither_see_nor_steer(self):
        os.chmod(self.tmp.name, 0o755)
        self.start()
        c = Client(self.dir)
        c.group(0, b"job")
        eventually(self, lambda: Control(self.dir).ask("ps")["groups"][0]["name"] == "job")
        pid = os.fork()
        if not pid:
            status = 1
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                control = Control(self.dir)
                codes = [control.ask("suspend", target="job")["error"]["code"],
                         control.ask("hint", target="job", hints={"weight": 3})["error"]["code"],
                         control.ask("policy", name="fair")["error"]["code"]]
                status = 0 if codes == ["ENOENT", "ENOENT", "EPERM"] and control.ask("ps")["groups"] == [] else 2
                mine = Client(self.dir)
                mine.group(0, b"job")
                eventually(self, lambda: [g["name"] for g in control.ask("ps")["groups"]] == ["job"])
                status = status or (0 if control.ask("suspend", target="job")["groups"] == ["job"] else 3)
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertFalse(Control(self.dir).ask("ps")["groups"][0]["suspended"])

    def test_no_descriptors_left(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        daemon = self.start(preexec_fn=limit)
        crowd = [Client(self.dir, greet=False) for _ in range(60)]
        cpu = lambda: sum(map(int, open("/proc/%d/stat" % daemon.pid).read().split()[13:15]))
        eventually(self, lambda: "cannot accept" in self.log())
        begin, before = time.monotonic(), cpu()
        time.sleep(1)
        used, took = cpu() - before, time.monotonic() - begin
        self.assertLess(used, (50 if SANITIZED else 20) * took)  # of 100 ticks a second
        for c in crowd:
            c.sock.close()
        eventually(self, self.up)
        Client(self.dir)

    def test_sockets_from_a_service_manager(self):
        os.mkdir(self.dir)
        pair = [(socket.SOCK_STREAM, "control"), (socket.SOCK_SEQPACKET, "client")]
        socks = []
        for kind, name in pair:
            s = socket.socket(socket.AF_UNIX, kind)
            s.bind("%s/%s.sock" % (self.dir, name))
            s.listen()
            socks.append(s)
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(self.tmp.name + "/notify")
        notify.settimeout(PATIENCE)
        env = dict(os.environ, LISTEN_FDS="2", LISTEN_FDNAMES="control:client",
                   NOTIFY_SOCKET=self.tmp.name + "/notify")
        self.write_conf("")
        # The shell sees to the numbers 3 and 4, and to LISTEN_PID, which must be the daemon's own.
        script = 'exec 3<&%d 4<&%d; LISTEN_PID=$$ exec "$@"' % tuple(s.fileno() for s in socks)
        daemon = subprocess.Popen(
            ["bash", "-c", script, "sh", DAEMON, "--dir", self.dir, "--config", self.conf],
            env=env, pass_fds=[s.fileno() for s in socks], stderr=subprocess.PIPE)
        self.daemons.append(daemon)
        while b"READY=1" not in notify.recv(4096):
            pass
        Client(self.dir)
        self.assertTrue(Control(self.dir).ask("version")["ok"])
        daemon.terminate()
        self.assertEqual(daemon.wait(PATIENCE), 0)
        self.assertEqual(sorted(os.listdir(self.dir)), ["client.sock", "control.sock"])
        while b"STOPPING=1" not in notify.recv(4096):
            pass
        for s in socks + [notify]:
            s.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
