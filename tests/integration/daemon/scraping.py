# SPDX-License-Identifier: Apache-2.0
"""fermata-exporter for a private daemon, and what it answers."""
import contextlib
import http.client
import os
import re
import socket
import subprocess

from harness import BUILD, PATIENCE, Program, check

EXPORTER = os.path.join(BUILD, "bin", "fermata-exporter")
SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([A-Za-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')


class Exporter(Program):
    """fermata-exporter for a private daemon. Its log is what it prints."""

    def __init__(self, stack, f, *options):
        super().__init__([EXPORTER, *options], env=f.env, stderr=subprocess.STDOUT)
        self.path = os.path.join(f.dir, "metrics.sock")
        stack.callback(self.close)

    def at(self):
        """Where it listens now."""
        return self.line("fermata-exporter: listening on ").split(" on ")[1]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


def ask(connection, method="GET", path="/metrics", body=None):
    with contextlib.closing(connection):
        connection.request(method, path, body)
        r = connection.getresponse()
        return r.status, r.read().decode(), r.headers


def scrape(where):
    """The text, from a socket's path or a port."""
    c = UnixConnection(where) if isinstance(where, str) else http.client.HTTPConnection("127.0.0.1", where, timeout=PATIENCE)
    status, text, headers = ask(c)
    check(status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", f"{status}: {headers}")
    return text


def samples(text):
    """(name, labels, value) of each sample."""
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        m = SAMPLE.match(line)
        check(m, f"no sample: '{line}'")
        labels = {k: v.replace('\\"', '"').replace("\\\\", "\\") for k, v in LABEL.findall(m[2] or "")}
        found.append((m[1], labels, float(m[3])))
    return found


def value(text, name, **labels):
    """Of the one sample with that name and these labels among others; None if there is none."""
    found = [v for n, l, v in samples(text) if n == name and all(l.get(k) == w for k, w in labels.items())]
    check(len(found) < 2, f"{len(found)} samples of {name} with {labels}")
    return found[0] if found else None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
