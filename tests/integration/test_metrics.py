#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Prometheus is told: names, types and labels as promtool and a real Prometheus read them, over TCP and over a
Unix socket; who sees what; scrapers that are slow or hostile; places where nobody can listen. The dashboard and the
rules name what there is."""

import contextlib
import grp
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import (BUILD, PATIENCE, Fermata, Program, Skip, check, eventually, lib_client, main, need,  # noqa: E402
                     program)

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
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


def promtool(*argv, **more):
    need("promtool")
    r = subprocess.run(["promtool", *argv], text=True, capture_output=True, timeout=PATIENCE, **more)
    check(r.returncode == 0 and not r.stderr, f"promtool {' '.join(argv)}: {r.stdout}{r.stderr}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listed(f):
    """Name, type of what `fermata metrics --list` has."""
    table = f.cli("metrics", "--list").stdout
    return table, dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", table, re.M))


def the_document_has_every_metric(stack):
    table, names = listed(Fermata(stack, start=False))
    check(len(names) > 30, f"{names}")
    with open(os.path.join(SOURCE, "docs", "metrics.md"), encoding="ascii") as f:
        check(table in f.read(), "docs/metrics.md is not what `fermata metrics --list` prints")


def numbers_are_right(stack):
    f = Fermata(stack)
    x = Exporter(stack, f)
    check(x.at() == x.path, "it listens elsewhere")
    a = lib_client(f, stack, "job")
    b = lib_client(f, stack, "-", device='we"ird\\dev {1}')
    for c in a, b:
        c.do("feed")
        c.advances()
    user = f.group(a.pid)["user"]
    whole = {"group": "job", "user": user, "pid": str(a.pid), "device": "shared:0"}

    def at_work():
        """Programs that have commands under way, but for a moment now and then."""
        text = scrape(x.path)
        return (value(text, "fermata_group_state", state="running", **whole) == 1
                and value(text, "fermata_device_groups", device="shared:0", state="running") == 1 and text)

    text = eventually("it runs", at_work)
    promtool("check", "metrics", input=text)
    table, names = listed(f)
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M):
        check(names[name] == kind, f"{name} is a {kind}")
        check((kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
        check(kind != "histogram" or name.endswith("_seconds"), f"{name} is in what unit?")
    check(value(text, "fermata_group_device_seconds_total", **whole) > 0, f"{whole} has no device time: {text}")
    check(value(text, "fermata_group_device_seconds_total", group=f"lib_client-{b.pid}",
                device='we"ird\\dev {1}') > 0, "the odd device is lost")
    check(value(text, "fermata_clients") == 2 and value(text, "fermata_up") == 1, text)

    def grows():
        later = value(scrape(x.path), "fermata_group_device_seconds_total", **whole)
        return later > value(text, "fermata_group_device_seconds_total", **whole)

    eventually("a counter grows", grows)
    calls = value(scrape(x.path), "fermata_process_governed_calls_total", pid=str(a.pid), program="lib_client")
    eventually("calls are counted", lambda: value(
        scrape(x.path), "fermata_process_governed_calls_total", pid=str(a.pid)) > calls)
    f.cli("suspend", "job")
    eventually("it is told", lambda: value(scrape(x.path), "fermata_group_suspended", group="job") == 1)
    eventually("so is its state", lambda: value(scrape(x.path), "fermata_group_state", state="suspended", **whole) == 1)
    printed = f.cli("metrics").stdout
    check({n for n, _, _ in samples(printed)} == {n for n, _, _ in samples(text)}, "the command prints other names")


def tasks_have_their_numbers(stack):
    f = Fermata(stack, config="[admission]\nepsilon_us = 1000\n")
    c = lib_client(f, stack, "-")
    check(c.ask("admit 5000 100").split()[1] == "0", "not admitted")
    x = Exporter(stack, f)
    x.at()

    def counted():  # a short job may end before the daemon looks
        c.do("burst 5")
        text = scrape(x.path)
        return value(text, "fermata_task_jobs_total", task="lib") and text

    text = eventually("a job is counted", counted)
    promtool("check", "metrics", input=text)
    check(value(text, "fermata_task_period_seconds", task="lib", pid=str(c.pid)) == 0.1, text)
    check(value(text, "fermata_task_deadline_misses_total", task="lib") is not None, text)
    check(value(text, "fermata_task_response_seconds_count", task="lib") >= 1, text)
    check(value(text, "fermata_tasks") == 1, text)


def a_container_is_named(stack):
    """By the cgroup that Docker would have made for it."""
    with open("/proc/mounts", encoding="ascii") as m:
        root = next((line.split()[1] for line in m if line.split()[2] == "cgroup2"), None)
    with open("/proc/self/cgroup", encoding="ascii") as m:
        own = next((line.strip()[3:] for line in m if line.startswith("0::")), None)
    if not root or own is None:
        raise Skip("there is no cgroup2 file system")
    name = f"{os.getpid():064x}"
    path = f"{root}{own}/docker-{name}.scope"
    try:
        os.mkdir(path)
    except OSError as e:
        raise Skip(f"no cgroup can be made: {e.strerror}")
    stack.callback(lambda: eventually("the cgroup goes", lambda: removed(path)))
    f = Fermata(stack)
    c = lib_client(f, stack, "job")
    with open(f"{path}/cgroup.procs", "w", encoding="ascii") as p:
        p.write(str(c.pid))
    check(value(f.cli("metrics").stdout, "fermata_group_device_seconds_total", group="job", pid=str(c.pid),
                container=name[:12]) is not None, f.cli("metrics").stdout)
    c.quit()


def removed(path):
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def expressions(node):
    """Of a dashboard: what its panels ask for."""
    if isinstance(node, dict):
        for k, v in node.items():
            if k == "expr":
                yield v
            else:
                yield from expressions(v)
    elif isinstance(node, list):
        for v in node:
            yield from expressions(v)


def dashboard():
    with open(os.path.join(SOURCE, "contrib", "grafana", "fermata.json"), encoding="ascii") as f:
        return json.load(f)


def prometheus_config(name):
    with open(os.path.join(SOURCE, "contrib", "prometheus", name), encoding="ascii") as f:
        return f.read()


def what_is_asked_for_is_there(stack):
    f = Fermata(stack, start=False)
    _, names = listed(f)
    for name, kind in list(names.items()):
        if kind == "histogram":
            names.update({name + suffix: "" for suffix in ("_bucket", "_sum", "_count")})
    board = dashboard()
    asked = list(expressions(board))
    variables = [v["definition"] for v in board["templating"]["list"] if v["type"] == "query"]
    check(len(asked) > 15 and len(variables) > 2, f"{asked}")
    ids = [p["id"] for p in board["panels"]]
    check(len(ids) == len(set(ids)), "panels share an id")
    for expr in asked + variables + [prometheus_config("fermata.rules.yml")]:
        found = re.findall(r"\bfermata_\w+", expr)
        check(found, f"'{expr}' asks for nothing of Fermata")
        check(set(found) <= set(names), f"there is no {set(found) - set(names)}")
    for name in re.findall(r"`(fermata_\w+)`", open(os.path.join(SOURCE, "docs", "metrics.md"), encoding="ascii").read()):
        check(name in names, f"docs/metrics.md names {name}")
    promtool("check", "rules", os.path.join(SOURCE, "contrib", "prometheus", "fermata.rules.yml"))


class Prometheus(Program):
    """With the example's configuration, but for the ports and how often it scrapes."""

    def __init__(self, stack, target):
        need("prometheus")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-prometheus-"))
        config = prometheus_config("prometheus.yml").replace("127.0.0.1:9417", f"127.0.0.1:{target}")
        check(str(target) in config and "scrape_interval: 5s" in config, "the example is another")
        for name, text in (("prometheus.yml", "global: {evaluation_interval: 1s}\n" + config.replace("scrape_interval: 5s", "scrape_interval: 1s")),
                           ("fermata.rules.yml", prometheus_config("fermata.rules.yml"))):
            with open(os.path.join(folder, name), "w", encoding="ascii") as f:
                f.write(text)
        promtool("check", "config", os.path.join(folder, "prometheus.yml"))
        self.port = free_port()
        super().__init__(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                          f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"], stderr=subprocess.STDOUT)
        stack.callback(self.close)
        eventually("Prometheus answers", self.answers)

    def get(self, path, **args):
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(args)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as r:
                return json.load(r)
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{args}: {e.read().decode()}") from e

    def answers(self):
        check(self.p.poll() is None, f"Prometheus ended: {self.lines[-5:]}")
        try:
            return self.get("/api/v1/query", query="1")["status"] == "success"
        except (OSError, AssertionError):
            return False

    def query(self, expr):
        return self.get("/api/v1/query", query=expr)["data"]["result"]


def sides(rule):
    """Of the expression of an alert: what it compares, each of which must be there for it to fire one day."""
    return [part for part in re.split(r"\s(?:==|>=|<=|>|<)\s", rule.replace("\n", " ")) if "fermata_" in part]


def a_real_prometheus_scrapes_it(stack):
    """And finds something for each panel of the dashboard, and for whatever the alerts look at."""
    port = free_port()
    f = Fermata(stack, config=f"[metrics]\nlisten = 127.0.0.1:{port}\nloopback_groups = yes\n[admission]\nepsilon_us = 1000\n")
    x = Exporter(stack, f)
    check(x.at() == f"127.0.0.1:{port}", "it listens elsewhere")
    task = lib_client(f, stack, "-", "--deadline", "50ms")
    check(task.ask("admit 5000 100").split()[1] == "0", "not admitted")
    task.do("burst 5")  # of a task without jobs there are no response times
    c = lib_client(f, stack, "job")
    c.do("feed")
    p = Prometheus(stack, port)
    eventually("it is scraped", lambda: p.query("fermata_up == 1 and on (job, instance) up == 1"))
    mine = f'fermata_group_device_seconds_total{{group="job",pid="{c.pid}",device="shared:0"}}'
    eventually("the counter grows", lambda: [r for r in p.query(f"increase({mine}[1m])") if float(r["value"][1]) > 0])
    for expr in expressions(dashboard()):
        for name, text in (("$__rate_interval", "1m"), ("$instance", ".*"), ("$device", ".*"), ("$group", ".*")):
            expr = expr.replace(name, text)
        eventually(f"there is something for '{expr}'", lambda expr=expr: p.query(expr))
    groups = eventually("the rules are looked at", lambda: [
        g for g in p.get("/api/v1/rules")["data"]["groups"] if all(r["health"] == "ok" for r in g["rules"])], 90)
    asked = [side for g in groups for r in g["rules"] for side in sides(r["query"])]
    check(len(asked) >= 10, f"alerts look at {asked}")
    for side in asked:
        eventually(f"there is something for '{side}'", lambda side=side: p.query(side))


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
                                         ("GET", "/metrics?name=x", None, 200), ("GET", "/metrics", "body", 200)):
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


def refused(f, *options):
    r = subprocess.run([EXPORTER, *options], env=f.env, text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode not in (0, -6, -11), f"{options}: status {r.returncode}: {r.stderr}")
    return r.stderr


def bad_places_are_refused(stack):
    f = Fermata(stack)
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        why = refused(f, "--listen", f"127.0.0.1:{port}")
        check(f"cannot listen on 127.0.0.1:{port}: Address already in use" in why and "another port" in why, why)
    for where, text in (("0.0.0.0:9417", "neither a socket's path nor a loopback address"), ("/" + "x" * 120, "too long"),
                        ("127.0.0.1:0", "no port"), ("/proc/metrics.sock", "cannot listen on /proc/metrics.sock")):
        why = refused(f, "--listen", where)
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
    eventually("the system's is open to all", lambda: os.path.exists(x.path) and os.stat(x.path).st_mode & 0o777 == mode)
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
    main(the_document_has_every_metric, numbers_are_right, tasks_have_their_numbers, a_container_is_named,
         what_is_asked_for_is_there, a_real_prometheus_scrapes_it, loopback_tells_nothing_of_users, everybody_sees_his_own,
         rows_are_limited, whoever_is_slow_holds_up_nobody, of_one_user_only_some_wait, http_is_spoken,
         bad_places_are_refused, settings_move_it, the_daemon_may_come_and_go)
