#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fermata-exporter: who sees what; scrapers that are slow or hostile; places where nobody can listen; a daemon that
comes and goes."""

import contextlib
import grp
import http.client
import json
import os
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import PATIENCE, Fermata, Skip, check, eventually, lib_client, main, seldom_sanitized  # noqa: E402
from scraping import EXPORTER, Exporter, UnixConnection, ask, free_port, samples, scrape, value  # noqa: E402


def loopback_tells_nothing_of_users(stack):
    port = free_port()
    f = Fermata(stack, config=f"[metrics]\nlisten = [::1]:{port}\n")
    lib_client(f, stack, "secret")
    Exporter(stack, f).at()
    status, text, _ = ask(http.client.HTTPConnection("::1", port, timeout=PATIENCE))
    check(status == 200 and value(text, "fermata_clients") == 1, text)
    check("secret" not in text and 'pid="' not in text and "user=" not in text, text)
    check("loopback_groups" in text, "it does not say why")
    check(value(text, "fermata_device_groups", device="shared:0", state="idle") == 1, text)


class As:
    """A child that does something as another user and tells what came of it. It ends when its parent closes it."""

    def __init__(self, stack, what, uid, *groups):
        here, there = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                here.close()
                os.setgroups(groups)
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                there.sendall(json.dumps(what()).encode() + b"\n")
                there.recv(1)
            os._exit(0)
        there.close()
        here.settimeout(PATIENCE)
        self.sock = here
        stack.callback(self.close)

    def told(self):
        with self.sock.makefile() as f:
            line = f.readline()
        check(line, "the child failed")
        return json.loads(line)

    def close(self):
        self.sock.close()
        os.waitpid(self.pid, 0)


def scraped_as(f, uid, *groups):
    """The groups that somebody sees."""
    with contextlib.ExitStack() as stack:
        text = As(stack, lambda: scrape(os.path.join(f.dir, "metrics.sock")), uid, *groups).told()
    return {l["group"] for n, l, _ in samples(text) if n == "fermata_group_queues"}


def everybody_sees_his_own(stack):
    if os.geteuid():
        raise Skip("it takes root to be several users")
    access, readers = [g for g in grp.getgrall() if g.gr_gid and not 61000 <= g.gr_gid <= 61003][:2]
    f = Fermata(stack, config=f"[access]\ngroup = {access.gr_name}\n[metrics]\ngroup = {readers.gr_name}\n")
    os.chmod(f.dir, 0o755)
    lib_client(f, stack, "of-root")
    x = Exporter(stack, f)
    x.at()
    scrape(x.path)  # loads what the children, as other users, may be unable to read
    check(scraped_as(f, 0) == {"of-root"}, "root does not see its own")
    check(scraped_as(f, 61001) == set(), "a stranger sees somebody's")
    check(scraped_as(f, 61001, access.gr_gid) == {"of-root"}, "an operator does not see all")
    check(scraped_as(f, 61002, readers.gr_gid) == {"of-root"}, "a reader does not see all")
    check(f.cli("reload", check_status=False).returncode == 0, "no reload")
    with open(os.path.join(f.dir, "fermatad.conf"), "w", encoding="ascii") as c:
        c.write(f"[access]\ngroup = {access.gr_name}\n")
    f.cli("reload")
    eventually("readers lose their right", lambda: scraped_as(f, 61002, readers.gr_gid) == set())
    check(scraped_as(f, 61001, access.gr_gid) == {"of-root"}, "an operator does not see all")


def rows_are_limited(stack):
    f = Fermata(stack, config="[metrics]\nlimit = 2\n")
    for n in range(3):
        lib_client(f, stack, f"group-{n}")
    x = Exporter(stack, f)
    x.at()
    text = scrape(x.path)
    check({l["group"] for _, l, _ in samples(text) if "group" in l} == {"group-0", "group-1"}, text)
    check(value(text, "fermata_left_out", of="groups") == 1, text)
    check(value(text, "fermata_device_groups", device="shared:0", state="idle") == 3, text)


def whoever_is_slow_holds_up_nobody(stack):
    """More connections than there are places: half a request and then nothing, and answers that nobody reads."""
    port = free_port()
    f = Fermata(stack, config=f"[metrics]\nlisten = 127.0.0.1:{port}\n")
    c = lib_client(f, stack, "job")
    c.do("feed")
    x = Exporter(stack, f)
    x.at()
    for n in range(150):
        s = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" if n % 2 else b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        if n % 10 == 0:
            scrape(port)
    before = value(scrape(port), "fermata_governed_calls_total")
    c.advances()
    eventually("the numbers go on", lambda: value(scrape(port), "fermata_governed_calls_total") > before)
    with open(f"/proc/{x.pid}/status", encoding="ascii") as status:
        rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    check("address" in os.environ.get("SANITIZE", "") or rss < 40000, f"it has taken {rss} KiB")


def of_one_user_only_some_wait(stack):
    if os.geteuid():
        raise Skip("it takes root to be several users")
    f = Fermata(stack)
    os.chmod(f.dir, 0o755)
    x = Exporter(stack, f)
    x.at()

    def crowd():
        """Is the ninth connection ended, while eight others wait? These do for five seconds, so it may take a few tries."""
        for _ in range(10):
            begin = time.monotonic()
            with contextlib.ExitStack() as open_ones:
                many = [open_ones.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX))) for _ in range(9)]
                for s in many:
                    s.connect(x.path)
                    s.settimeout(PATIENCE)
                try:
                    many[8].sendall(b"GET / HTTP/1.0\r\n\r\n")
                    ended = many[8].recv(1) == b""
                except OSError:
                    ended = True
            if ended or time.monotonic() - begin < 4:
                return ended
        return None

    check(As(stack, crowd, 61001).told(), "more of them stay than may")
    check(value(scrape(x.path), "fermata_up") == 1, "others are not served")


def http_is_spoken(stack):
    f = Fermata(stack)
    x = Exporter(stack, f)
    x.at()
    for method, path, body, expected in (("GET", "/", None, 200), ("GET", "/nothing", None, 404), ("HEAD", "/metrics", None, 200),
                                         ("POST", "/metrics", "x" * 100000, 405), ("DELETE", "/metrics", None, 405),
                                         ("GET", "/metrics?name=x", None, 200), ("GET", "http://localhost/metrics", None, 200), ("GET", "http://x/y", None, 404), ("GET", "/metrics", "body", 200)):
        try:
            status, text, _ = ask(UnixConnection(x.path), method, path, body)
        except (BrokenPipeError, ConnectionResetError):  # it has not waited for the end of what it does not take
            check(method == "POST", f"{method} {path} is cut off")
            continue
        check(status == expected and (method != "HEAD" or not text), f"{method} {path}: {status}")
    for junk in (b"\0\xff\n\n", b"GET " + b"x" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 10000 + b"\r\n", b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
            s.settimeout(PATIENCE)
            s.connect(x.path)
            with contextlib.suppress(OSError):
                s.sendall(junk)
        check(value(scrape(x.path), "fermata_up") == 1, f"it is gone after {junk[:40]}")


def refused(f, *options, status=1):
    r = subprocess.run([EXPORTER, *options], env=f.env, text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode == status, f"{options}: status {r.returncode}: {r.stderr}")
    return r.stderr


def bad_places_are_refused(stack):
    f = Fermata(stack)
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        why = refused(f, "--listen", f"127.0.0.1:{port}")
        check(f"cannot listen on 127.0.0.1:{port}: Address already in use" in why and "another port" in why, why)
    for where, status, text in (("0.0.0.0:9417", 2, "neither a socket's path nor a loopback address"),
                                ("/" + "x" * 120, 2, "too long"), ("127.0.0.1:0", 2, "no port"),
                                ("/proc/metrics.sock", 1, "cannot listen on /proc/metrics.sock")):
        why = refused(f, "--listen", where, status=status)
        check(text in why, f"{where}: {why}")
    file = os.path.join(f.dir, "file")
    with open(file, "w", encoding="ascii") as out:
        out.write("precious")
    why = refused(f, "--listen", file)
    check("no socket" in why and os.path.getsize(file) == 8, why)
    x = Exporter(stack, f)
    x.at()
    why = refused(f)
    check("Address already in use" in why, why)
    check(value(scrape(x.path), "fermata_up") == 1, "the second has harmed the first")
    x.kill()
    x.wait()
    check(os.path.exists(x.path), "it was killed, and has cleaned up")
    x = Exporter(stack, f)
    x.at()
    check(value(scrape(x.path), "fermata_up") == 1, "it does not take the place of one that was killed")
    x.p.terminate()
    check(x.wait() == 0 and not os.path.exists(x.path), "it does not end in order")


def settings_move_it(stack):
    first, taken = free_port(), stack.enter_context(contextlib.closing(socket.socket()))
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    f = Fermata(stack, config="")
    x = Exporter(stack, f)
    x.at()

    def configure(where):
        with open(os.path.join(f.dir, "fermatad.conf"), "w", encoding="ascii") as out:
            out.write(f"[metrics]\nlisten = {where}\n")
        mark = x.mark()
        r = f.cli("reload", check_status=False)
        x.kill(1)  # SIGHUP: it need not wait for its next look
        return r, mark

    _, mark = configure(f"127.0.0.1:{first}")
    x.line(f"fermata-exporter: listening on 127.0.0.1:{first}", mark)
    check(value(scrape(first), "fermata_up") == 1 and not os.path.exists(x.path), "it has not moved")
    _, mark = configure(f"127.0.0.1:{taken.getsockname()[1]}")
    x.line("fermata-exporter: error: staying where it is: cannot listen on .*Address already in use", mark)
    check(value(scrape(first), "fermata_up") == 1, "it has not stayed")
    r, _ = configure("0.0.0.0:80")
    check(r.returncode == 1 and "listen" in r.stderr, f"{r.stderr}")
    check(value(scrape(first), "fermata_up") == 1, "it has not stayed")
    _, mark = configure("")
    x.line(f"fermata-exporter: listening on {x.path}", mark)
    check(value(scrape(x.path), "fermata_up") == 1, "it has not moved back")


def dribbler(stack, path):
    """Sends a byte of a request whenever it is asked whether its connection has been ended."""
    s = stack.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX)))
    s.connect(path)
    s.settimeout(0.1)
    s.sendall(b"GET /metrics HTTP/1.1\r\n")

    def ended():
        try:
            s.sendall(b"X")
            return s.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    return ended


def the_daemon_may_come_and_go(stack):
    """While somebody dribbles a request, for whom there are five seconds."""
    f = Fermata(stack, start=False)
    x = Exporter(stack, f)
    x.at()
    ended = dribbler(stack, x.path)
    check(not ended(), "a connection ends at once")
    names = {n for n, _, _ in samples(scrape(x.path))}
    check(names == {"fermata_up"} and value(scrape(x.path), "fermata_up") == 0, f"{names}")
    check(os.stat(x.path).st_mode & 0o777 == 0o600, "it is open to all before it is known whose it is")
    f.start()
    eventually("it is noticed", lambda: value(scrape(x.path), "fermata_up") == 1)
    x.kill(1)
    mode = 0o600 if os.geteuid() else 0o666

    def open_to_all():
        with contextlib.suppress(FileNotFoundError):  # it may just be made anew
            return os.stat(x.path).st_mode & 0o777 == mode

    eventually("the system's is open to all", open_to_all)
    f.kill()
    eventually("its end is noticed", lambda: value(scrape(x.path), "fermata_up") == 0)
    f.start()
    eventually("the next is noticed", lambda: value(scrape(x.path), "fermata_up") == 1)
    os.kill(f.daemon.pid, 19)  # it hangs: two seconds, and that is told
    eventually("its silence is noticed", lambda: value(scrape(x.path), "fermata_up") == 0)
    os.kill(f.daemon.pid, 18)
    eventually("it is back", lambda: value(scrape(x.path), "fermata_up") == 1)
    eventually("the dribbler's time is over", ended)


if __name__ == "__main__":
    main(loopback_tells_nothing_of_users, everybody_sees_his_own, rows_are_limited, whoever_is_slow_holds_up_nobody,
         of_one_user_only_some_wait, http_is_spoken, bad_places_are_refused, settings_move_it,
         *seldom_sanitized(the_daemon_may_come_and_go))
