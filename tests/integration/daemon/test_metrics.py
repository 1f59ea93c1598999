#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Prometheus is told: names, types and labels as promtool and a real Prometheus read them, over TCP and over a
Unix socket. The dashboard and the rules name what there is."""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import PATIENCE, Fermata, Program, Skip, check, eventually, lib_client, main, need  # noqa: E402
from scraping import Exporter, free_port, samples, scrape, value  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")


def promtool(*argv, **more):
    need("promtool")
    r = subprocess.run(["promtool", *argv], text=True, capture_output=True, timeout=PATIENCE, **more)
    check(r.returncode == 0 and not r.stderr, f"promtool {' '.join(argv)}: {r.stdout}{r.stderr}")


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


def a_job_is_counted(task, where):
    """And there is a response time; a short job may end before the daemon looks. What is told then."""

    def counted():
        task.do("burst 5")
        text = scrape(where)
        return value(text, "fermata_task_jobs_total", task="lib") and text

    return eventually("a job is counted", counted)


def tasks_have_their_numbers(stack):
    f = Fermata(stack, config="[admission]\nepsilon_us = 1000\n")
    c = lib_client(f, stack, "-")
    check(c.ask("admit 5000 100").split()[1] == "0", "not admitted")
    x = Exporter(stack, f)
    x.at()

    text = a_job_is_counted(c, x.path)
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
    a_job_is_counted(task, port)  # of a task without jobs there are no response times
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


if __name__ == "__main__":
    main(the_document_has_every_metric, numbers_are_right, tasks_have_their_numbers, a_container_is_named,
         what_is_asked_for_is_there, a_real_prometheus_scrapes_it)
