#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users who ask the daemon for large replies, on many connections and without end: other users' requests are answered
meanwhile, no gate is opened, and the daemon's memory stays bounded. FERMATA_TEST_LONG=1: with the greatest numbers that the
default limits allow, and with bounds on the time (script/test --long)."""
import array
import contextlib
import fcntl
import json
import os
import selectors
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import LONG, PATIENCE, SANITIZE, Fermata, Skip, check, eventually, lib_client, main

CLIENTS, QUEUES = (32, 128) if LONG else (8, 128)
CONNECTIONS = 32
SECONDS = 20 if LONG else 2
ATTACKER, VICTIM = 61001, 61002  # nobody has these
MAGIC, VERSION, HELLO, GROUP, QUEUE = 0x4D524546, 4, 1, 4, 6
BOARD_MAGIC, BOARD_VERSION, BOARD_SIZE, BOARD_SLOTS = 0x444F4246, 8, 50944, 128


def message(kind, body):
    return struct.pack("=IHH", MAGIC, VERSION, kind) + body


def board():
    fd = os.memfd_create("board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, BOARD_SIZE)
    os.pwrite(fd, struct.pack("=IHHI", BOARD_MAGIC, BOARD_VERSION, BOARD_SLOTS, BOARD_SIZE), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


class Daemon(Fermata):
    """One that every user may talk to."""

    def __init__(self, stack, config=None):
        if os.geteuid():
            raise Skip("it takes root to be several users")
        super().__init__(stack, config, start=False)
        os.chmod(self.dir, 0o755)
        self.args += ["--system"]
        self.start()
        if LONG:  # as `realtime = yes' has it: what is measured is the daemon, not what else the machine does
            os.sched_setscheduler(self.daemon.pid, os.SCHED_RR, os.sched_param(1))

    def connect(self, name="control.sock", kind=socket.SOCK_STREAM):
        s = socket.socket(socket.AF_UNIX, kind)
        s.settimeout(PATIENCE)
        s.connect(os.path.join(self.dir, name))
        return s

    def client(self, queues, group):
        """One that has so many queues, and no program."""
        s = self.connect("client.sock", socket.SOCK_SEQPACKET)
        fd = board()
        s.sendmsg([message(HELLO, struct.pack("=II16s", BOARD_VERSION, BOARD_SIZE, b"forged"))],
                  [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        os.close(fd)
        s.recv(4096)
        s.send(message(GROUP, struct.pack("=I64s", 0, group.encode())))
        for slot in range(queues):
            s.send(message(QUEUE, struct.pack("=III96s", slot, 0, 6, b"forged:0")))
        return s

    def resident_kib(self):
        with open(f"/proc/{self.daemon.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def joined(self):
        with self.connect() as s:
            return ask(s, {"cmd": "metrics", "part": "daemon"})["daemon"]["joined"]


def ask(s, request):
    """The reply, however many pieces it comes in."""
    s.sendall(json.dumps(request).encode() + b"\n")
    data = b""
    while not data.endswith(b"\n"):
        more = s.recv(1 << 20)
        check(more, f"the daemon hangs up on {request}")
        data += more
    return json.loads(data)


class User:
    """A process of that user that runs fn(tell, go): tell(x) is what line() gives; go() waits for go()."""

    def __init__(self, stack, uid, fn):
        (from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                os.close(from_child)
                os.close(to_child)
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                fn(lambda x: os.write(to_parent, json.dumps(x).encode() + b"\n"), lambda: os.read(from_parent, 1))
                status = 0
            finally:
                os._exit(status)
        os.close(to_parent)
        os.close(from_parent)
        self.lines, self.to_child = os.fdopen(from_child), to_child
        stack.callback(self.end)

    def line(self):
        text = self.lines.readline()
        check(text, "what a user tried has failed")
        return json.loads(text)

    def go(self):
        os.write(self.to_child, b"x")

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        self.lines.close()
        os.close(self.to_child)


def hold_queues(d, n=CLIENTS):
    """An attacker's programs: as many queues as it takes."""

    def fn(tell, go):
        clients = [d.client(QUEUES, f"a{i}") for i in range(n)]
        tell(len(clients))
        go()

    return fn


LARGE = b'{"cmd":"ps"}\n', b'{"cmd":"why","target":"a0"}\n'


def flood(d, requests, seconds):
    """On many connections at once, the next request as soon as a reply is there: told are the numbers of replies and of bytes,
    and when the last one came."""

    def fn(tell, go):
        sel = selectors.DefaultSelector()
        left = {}
        for i in range(CONNECTIONS):
            s = d.connect()
            sel.register(s, selectors.EVENT_READ, LARGE[i % len(LARGE)])
            left[s] = requests
        go()
        begin, size, replies = time.monotonic(), 0, 0
        for key in list(sel.get_map().values()):
            key.fileobj.sendall(key.data * min(requests, 4))
        while left and time.monotonic() - begin < seconds:
            for key, _ in sel.select(1):
                data = key.fileobj.recv(1 << 18)
                size += len(data)
                ends = data.count(b"\n")
                replies += ends
                left[key.fileobj] -= ends
                if left[key.fileobj] > 0 and ends:
                    key.fileobj.sendall(key.data * ends)
                if left[key.fileobj] <= 0 or not data:
                    sel.unregister(key.fileobj)
                    del left[key.fileobj]
        tell([replies, size, time.monotonic()])

    return fn


def steer(d, n, pause=0.0):
    """Asks for something of its own, n times after each go(): told are the times it took, and when the last was done."""

    def fn(tell, go):
        client = d.client(1, "mine")  # stays while it is referred to
        tell(client.fileno())
        while go():
            times = []
            for i in range(n):
                begin = time.monotonic()
                with d.connect() as s:
                    reply = ask(s, {"cmd": "resume" if i % 2 else "suspend", "target": "mine"})
                check(reply["ok"], f"{reply}")
                times.append(time.monotonic() - begin)
                time.sleep(pause)
            tell([times, time.monotonic()])

    return fn


def quantile(times, q):
    return sorted(times)[min(len(times) - 1, int(q * len(times)))]


def others_are_answered(stack):
    """Whoever asks for little is answered before all of an attacker's large replies are written."""
    d = Daemon(stack)
    stopped = lib_client(d, stack)
    stopped.do("feed")
    d.cli("suspend", str(stopped.pid))
    before = stopped.stands_still()
    joined = d.joined()
    User(stack, ATTACKER, hold_queues(d)).line()
    rounds = 400 if LONG else 30
    victim = User(stack, VICTIM, steer(d, rounds, 0.6 * SECONDS / rounds if LONG else 0))
    if LONG:
        os.sched_setscheduler(victim.pid, os.SCHED_RR, os.sched_param(1))
    victim.line()
    victim.go()
    base, _ = victim.line()
    attacker = User(stack, ATTACKER, flood(d, 10**9 if LONG else 4, SECONDS if LONG else PATIENCE))
    attacker.go()
    time.sleep(0.2)
    victim.go()
    times, done = victim.line()
    replies, size, over = attacker.line()
    print(f"         victim P50 {quantile(base, .5) * 1e3:.1f} ms alone, {quantile(times, .5) * 1e3:.1f} beside; P99 "
          f"{quantile(base, .99) * 1e3:.1f}, {quantile(times, .99) * 1e3:.1f}; {replies} replies of {size / max(1, replies):.0f} bytes, "
          f"{over - done:.1f} s later")
    if LONG:
        bound = max(0.05, 2 * quantile(base, .99))
        check(quantile(times, .99) <= bound, f"P99 {quantile(times, .99)} s, {quantile(base, .99)} s alone")
    else:
        check(replies == 4 * CONNECTIONS, f"{replies} replies")
        check(done < over, "all large replies came before the last small one")
    eventually("it is stopped, and has not left", lambda: stopped.state()["daemon"] == 1)
    stopped.stood(before)
    check(d.joined() - joined == CLIENTS + 1, f"somebody left and came again: {d.joined()} {joined}")
    d.cli("resume", str(stopped.pid))
    stopped.advances()
    stopped.quit()


def replies_that_nobody_reads(stack):
    """They cost no more memory than a bounded piece of each."""
    d = Daemon(stack)
    User(stack, ATTACKER, hold_queues(d, 32)).line()

    def ask_and_sleep(tell, go):
        connections = [d.connect() for _ in range(CONNECTIONS)]
        for s in connections:
            s.sendall(b'{"cmd":"ps"}\n' * 100)
        tell(len(connections))
        go()

    def served():
        """All that can be written is: the daemon has nothing to do for them any more."""
        before = d.stats()["cpu_ms"]
        time.sleep(0.3)
        return d.stats()["cpu_ms"] - before < 50

    d.ps()
    before = d.resident_kib()
    User(stack, ATTACKER, ask_and_sleep).line()
    eventually("it waits for them to read", served, 9)
    grown = d.resident_kib() - before
    print(f"         {grown} KiB more")
    check(SANITIZE or grown < 8192, f"the daemon has grown by {grown} KiB")


def a_recording_of_many(stack):
    """It is told of all queues, of each once, though it takes several steps, and though clients leave meanwhile."""
    d = Daemon(stack)

    def record(tell, go):
        clients = [d.client(QUEUES, f"a{i}") for i in range(8)]
        eventually("all have joined", lambda: ask(d.connect(), {"cmd": "stats"})["queues"] == 8 * QUEUES)
        s = d.connect()
        s.sendall(b'{"cmd":"trace"}\n')
        clients.pop(3).close()
        lines, seen, rings = s.makefile(), [], 0
        while len(set(seen)) < 7 * QUEUES:
            name = json.loads(lines.readline())
            seen += [name["id"]] if name.get("name") == "queue" and name["group"] != 4 else []
            rings += name.get("name") == "ring"
        tell([len(seen), len(set(seen)), rings])
        reply = ask(d.connect(), {"cmd": "stats"})
        tell(reply["queues"])

    user = User(stack, ATTACKER, record)
    told, different, rings = user.line()
    check(told == different == 7 * QUEUES and rings in (8, 9), f"{told} queues, {different} different, {rings} rings")
    check(user.line() >= 7 * QUEUES, "the daemon goes on")


if __name__ == "__main__":
    main(others_are_answered, replies_that_nobody_reads, a_recording_of_many)
