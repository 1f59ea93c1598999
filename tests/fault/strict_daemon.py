# SPDX-License-Identifier: Apache-2.0
"""A daemon in strict mode, and what systemd keeps for it."""
import array
import fcntl
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import FERMATAD, Fermata, eventually

STRICT = "[security]\nstrict = yes\n"
BOARD_VERSION, BOARD_SIZE, SLOTS_AT, SLOT_SIZE, SLOTS = 8, 50944, 256, 320, 128


class Store:
    """systemd, as far as it keeps descriptors for a service."""

    def __init__(self, stack, path):
        self.fds, self.ready = {}, threading.Lock()
        self.path = path
        self.sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self.sock.bind(path)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        stack.callback(self._end)

    def _read(self):
        while True:
            text, rights, _, _ = self.sock.recvmsg(4096, 1024)
            if not text:
                return
            fds = array.array("i")
            for _, _, data in rights:
                fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
            said = dict(line.split("=", 1) for line in text.decode().splitlines() if "=" in line)
            with self.ready:
                if "FDSTORE" in said:
                    self.fds[said["FDNAME"]] = fds[0]
                elif "FDSTOREREMOVE" in said:
                    os.close(self.fds.pop(said["FDNAME"]))

    def _end(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b"", self.path)
        self.thread.join()
        for fd in self.fds.values():
            os.close(fd)

    def count(self):
        with self.ready:
            return len(self.fds)


class Managed(Fermata):
    """A daemon that is started as systemd starts it, with what was kept."""

    def __init__(self, stack, config=STRICT, **more):
        super().__init__(stack, config=config, start=False, **more)
        self.store = Store(stack, os.path.join(self.dir, "notify"))
        self.start()

    def start(self):
        names, fds = zip(*self.store.fds.items()) if self.store.fds else ((), ())
        env = {**self.env, "NOTIFY_SOCKET": os.path.join(self.dir, "notify"), "LISTEN_FDS": str(len(fds)),
               "LISTEN_FDNAMES": ":".join(names)}

        def place():
            for n, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 500) for fd in fds]):
                os.dup2(fd, 3 + n)

        self.daemon = subprocess.Popen(
            ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "-", FERMATAD, "--dir", self.dir, *self.args], env=env,
            preexec_fn=place, pass_fds=range(3, 3 + len(fds)))
        eventually("the daemon answers", self.answers)

    def lax(self):
        with open(self.args[1], "w", encoding="ascii") as f:
            f.write("[daemon]\n")


def kept(fermata, n):
    eventually(f"systemd keeps {n} pages", lambda: fermata.store.count() == n)
