#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real-time tasks under the real daemon: who is admitted, what happens to who uses more, who leaves with whom."""

import errno
import json
import os
import re
import signal
import socket
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, PATIENCE, Fermata, LibClient, Program, Skip, check, eventually, lib_client, main, program

CONFIG = "[admission]\nepsilon_us = 200\n"
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "rta")


def task(name, period, gpu, **more):
    return {"name": name, "priority": 0, "cpu": zlib.crc32(name.encode()) % 1000, "period": period, "deadline": period, "cpu_time": 0,
            "segments": [{"total": gpu, "misc": 0, "gpu": gpu}], **more}


def write(f, name, *tasks, **head):
    path = os.path.join(f.dir, name)
    with open(path, "w", encoding="ascii") as file:
        json.dump({"unit": "ms", "tasks": tasks, **head}, file)
    return path


def tasks(f):
    return {t["name"]: t for t in json.loads(f.cli("ps", "--tasks", "--json").stdout)["tasks"]}


def admitted(f, stack, path, *options):
    """`fermata admit`, which holds the tasks while it runs."""
    p = Program([FERMATA, "admit", *options, path], env=f.env)
    stack.callback(p.close)
    p.line("TASK")
    p.line("[a-z]")
    return p


def ask(f, *requests):
    """Requests as they are, on one connection; the replies."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(PATIENCE)
        s.connect(os.path.join(f.dir, "control.sock"))
        with s.makefile("r") as replies:
            got = []
            for r in requests:
                s.sendall((r if isinstance(r, str) else json.dumps(r)).encode() + b"\n")
                got.append(json.loads(replies.readline()))
            return got


def crowded(f, n):
    """n tasks of this process, and the reply to the last request."""
    for i in range(0, n, 50):
        (reply,) = ask(f, {"cmd": "admit", "for": os.getpid(), "tasks": [
            request(f"t{k}", 10**9 + k, 100000, group=f"g{k}", priority=k % 200) for k in range(i, i + 50)]})
        check(reply.get("admitted"), reply)


def request(name, period_ns=20000000, gpu_ns=5000000, **more):
    return {"name": name, "period_ns": period_ns, "segments": [{"gpu_ns": gpu_ns}], **more}


def refused_until_the_process_ends(stack):
    f = Fermata(stack, CONFIG)
    holder = admitted(f, stack, write(f, "first", task("first", 20, 12)))
    second = write(f, "second", task("second", 30, 15))
    r = f.cli("admit", "--try", second, check_status=False)
    check(r.returncode == 3 and "task second takes" in r.stderr and "beyond its deadline" in r.stderr, r.stderr)
    r = f.cli("run", "--period", "30", "--gpu-time", "15ms", "--", "true", check_status=False)
    check(r.returncode == 125, f"run: {r.returncode} {r.stderr}")
    r = f.cli("run", "--period", "30", "--gpu-time", "15ms", "--admit", "report", "--", "sh", "-c", "exit 7",
              check_status=False)
    check(r.returncode == 7 and "not admitted" in r.stderr, f"run: {r.returncode} {r.stderr}")
    check(list(tasks(f)) == ["first"], "who is refused leaves nothing")
    holder.kill()
    eventually("its tasks have left", lambda: not tasks(f))
    r = json.loads(f.cli("admit", "--try", "--json", second).stdout)
    check(r["admitted"] and r["tasks"][0]["slack_ms"] > 0, r)
    check(not tasks(f), "a try admits nobody")


def all_or_none(stack):
    f = Fermata(stack, CONFIG)
    r = f.cli("admit", write(f, "set", task("good", 20, 2), task("bad", 30, 29)), check_status=False)
    check(r.returncode == 3 and "task bad" in r.stderr, r.stderr)
    check(not tasks(f), "none")


def an_end_that_was_asked_for(stack):
    f = Fermata(stack, CONFIG)
    p = admitted(f, stack, write(f, "set", task("a", 20, 2), task("b", 30, 3)))
    p.kill(signal.SIGTERM)
    check(p.wait() == 0, "admitted, and ended in order")
    eventually("they left", lambda: not tasks(f))
    p = admitted(f, stack, write(f, "set", task("a", 20, 2)))
    f.stop()
    check(p.wait() == 4, "its daemon has ended")


def for_another_process(stack):
    f = Fermata(stack, CONFIG)
    client = lib_client(f, stack)
    f.cli("admit", "--for", str(client.pid), write(f, "set", task("camera", 100, 50)))
    t = tasks(f)["camera"]
    check(t["pid"] == client.pid and t["state"] == "admitted", t)

    def job():  # a short one may end before the daemon looks
        client.do("burst 10")
        return tasks(f)["camera"]["jobs"] >= 1

    eventually("its jobs are counted", job)
    client.kill()
    eventually("it left with its process", lambda: not tasks(f))
    r = f.cli("admit", "--for", str(client.p.wait() and client.pid), write(f, "set", task("late", 100, 5)),
              check_status=False)
    check(r.returncode == 1 and "no process" in r.stderr or "cannot be watched" in r.stderr, r.stderr)


def groups_may_come_and_go(stack):
    f = Fermata(stack, CONFIG)
    admitted(f, stack, write(f, "set", task("cam", 100, 50, group="shared-cam")))
    check(tasks(f)["cam"]["state"] == "absent", "not there yet")
    for _ in range(2):
        client = lib_client(f, stack, "shared-cam")
        eventually("it is bound", lambda: tasks(f)["cam"]["state"] == "admitted")
        client.do("burst 5")
        client.quit()
        eventually("its group is gone", lambda: tasks(f)["cam"]["state"] == "absent")


def run_is_a_task_of_its_own_group(stack):
    f = Fermata(stack, CONFIG)
    p = f.program(["sh", "-c", f"{program('lib_client')} -; true"], "--period", "100", "--gpu-time", "40ms",
                  "--priority", "high", cls=Program)
    p.line("ready")
    eventually("the task is there", lambda: [t["state"] for t in tasks(f).values()] == ["admitted"])
    (t,) = tasks(f).values()
    check(t["pid"] == p.pid and t["group"] == f"sh-{p.pid}" and t["priority"] == 64, t)

    def job():
        after = p.mark()
        p.tell("burst 5")
        p.line("burst 0", after)
        return tasks(f)[t["name"]]["jobs"] >= 1

    eventually("its child's jobs are counted", job)
    p.tell("quit")
    check(p.wait() == 0, "it ends")
    eventually("and leaves", lambda: not tasks(f))


def through_the_library(stack):
    f = Fermata(stack, CONFIG)
    client, rival = lib_client(f, stack), lib_client(f, stack, "rivals")
    answer = client.ask("admit 12000 20")
    check(re.match(r"admit 0 bound=1[2-9]\d{6} slack=[1-9]\d* ", answer + " "), answer)
    t = tasks(f)["lib"]
    check(t["pid"] == client.pid and t["state"] == "admitted" and t["budget_ms"] == 12, t)
    answer = rival.ask("admit 15000 30")
    check(re.match(rf"admit -{errno.EBUSY} bound=0 slack=0 task lib takes .* beyond its deadline of 30 ms", answer), answer)
    check(client.ask("admit 1 20").split()[1] == f"-{errno.EEXIST}", "one task a group")
    check(client.ask("admit 1 0").split()[1] == f"-{errno.EINVAL}", "no period")
    check(rival.ask("leave").split()[1] == f"-{errno.ENOENT}", "that of another process")

    def job():  # a short one may end before the daemon looks
        client.do("burst 3")
        return tasks(f)["lib"]["jobs"] >= 1

    eventually("its job is counted", job)
    client.do("leave")
    check(not tasks(f), "it left")
    check(rival.ask("admit 15000 30").startswith("admit 0 "), "now there is room")
    check(tasks(f)["lib"]["group"] == "rivals", tasks(f))
    rival.do("leave")
    f.cli("policy", "fair")
    check(client.ask("admit 1 20").split()[1] == f"-{errno.EOPNOTSUPP}", "not under that policy")
    f.stop()
    check(client.ask("admit 1 20").split()[1] == f"-{errno.ENODEV}", "no daemon")


def over_budget(stack, overrun):
    """A task that computes without end, beside another that does."""
    f = Fermata(stack, CONFIG)
    greedy, other = lib_client(f, stack, "greedy"), lib_client(f, stack, "other", "--priority", "255")
    admitted(f, stack, write(f, "set", task("greedy", 200, 20, overrun=overrun)))
    greedy.do("feed")
    other.do("feed")
    eventually("it overran", lambda: tasks(f)["greedy"]["overruns"] >= 3)
    f.says("task greedy .* is over its budget: .* ms used, 20.000 ms declared")
    return f, greedy, other


def leaving_gives_no_budget(stack):
    """A group that goes and comes again within a period has what is left of its budget."""
    f = Fermata(stack, CONFIG)
    admitted(f, stack, write(f, "set", task("again", 600000, 400, group="again", overrun="demote")))

    def comes(ms):
        client = lib_client(f, stack, "again")
        eventually("it is bound", lambda: tasks(f)["again"]["state"] != "absent")
        before = tasks(f)["again"]
        client.do(f"burst {ms * 5}")
        client.quit()
        eventually("it is gone", lambda: tasks(f)["again"]["state"] == "absent")
        return before

    check(comes(20)["used_ms"] == 0, "it begins with a whole budget")
    used = comes(20)["used_ms"]
    check(used > 10, f"of 20 ms it used {used}")  # and more, where others use the processors
    check(comes(440)["used_ms"] >= used, "it has a new budget")
    before = comes(1)
    check(before["state"] == "demoted" and before["overruns"] >= 1, f"it came back as {before}")


def overrun_is_demoted(stack):
    f, greedy, other = over_budget(stack, "demote")
    eventually("seen demoted", lambda: tasks(f)["greedy"]["state"] == "demoted")
    other.advances()
    other.do("enough")
    eventually("seen demoted once more", lambda: tasks(f)["greedy"]["state"] == "demoted")
    greedy.advances(500)  # 100 ms: nobody else wants the device, so the rest of the period is its, too
    greedy.do("enough")
    greedy.quit()
    other.quit()


def overrun_is_stopped(stack):
    f, greedy, other = over_budget(stack, "stop")
    eventually("seen stopped", lambda: tasks(f)["greedy"]["state"] == "stopped")
    other.do("enough")
    at = eventually("stopped although it is alone",
                    lambda: (lambda t: t["overruns"] if t["state"] == "stopped" else 0)(tasks(f)["greedy"]))
    check(at >= 3, "its overruns are counted")
    greedy.advances()
    greedy.do("enough")
    greedy.quit()
    other.quit()


def overrun_is_reported(stack):
    f, greedy, other = over_budget(stack, "report")
    for _ in range(20):
        check(tasks(f)["greedy"]["state"] == "admitted", "it keeps its place")
    greedy.do("enough")
    other.advances()
    greedy.quit()
    other.do("enough")
    other.quit()


def a_late_job_has_a_cause(stack):
    f = Fermata(stack, CONFIG)
    client = lib_client(f, stack, "late")
    admitted(f, stack, write(f, "set", task("late", 100, 50)))
    f.cli("suspend", "late")
    client.tell("burst 3")
    f.says("task late .*: a job has taken .* ms, its bound is .* ms: its group was suspended by hand")
    f.cli("resume", "late")
    client.line("burst 0")
    t = eventually("it ended", lambda: (lambda t: t if t["jobs"] else None)(tasks(f)["late"]))
    check(t["violations"] == 1 and t["response_ms"]["max"] > t["bound_ms"], t)
    check(t["why"] == "its group was suspended by hand", t)
    table = f.cli("ps", "--tasks").stdout
    check("VIOLATIONS" in table and "late" in table, table)


def policies_that_keep_no_bound(stack):
    f = Fermata(stack, CONFIG)
    admitted(f, stack, write(f, "set", task("a", 20, 2)))
    for policy in (["fair"], ["fixed-priority", "aging=5ms"]):
        r = f.cli("policy", *policy, check_status=False)
        check(r.returncode == 1 and "1 tasks are admitted" in r.stderr, r.stderr)
    f.cli("policy", "fixed-priority", "slice=2ms")
    with open(os.path.join(f.dir, "fermatad.conf"), "w", encoding="ascii") as conf:
        conf.write("[daemon]\npolicy = fair\n" + CONFIG)
    f.daemon.send_signal(signal.SIGHUP)
    f.says("the old settings stay.*tasks are admitted")
    check(f.ps()["policy"]["name"] == "fixed-priority", "it stays")
    (reply,) = ask(f, {"cmd": "unadmit", "task": "a"})
    check(reply["ok"] and not tasks(f), reply)
    f.cli("policy", "fair")
    r = f.cli("admit", "--try", write(f, "set", task("a", 20, 2)), check_status=False)
    check(r.returncode == 1 and "no bound holds" in r.stderr, r.stderr)


def gpu_priorities(stack):
    """Table 2 of the GCAPS paper: schedulable with GPU priorities alone."""
    f = Fermata(stack, "")
    path = os.path.join(DATA, "gcaps_table2.json")
    r = f.cli("admit", "--try", path, check_status=False)
    check(r.returncode == 3 and "not admitted" in r.stderr, r.stdout + r.stderr)
    r = json.loads(f.cli("admit", "--try", "--gpu-priority", "--json", path).stdout)
    check(r["gpu_priorities"] and len(r["tasks"]) == 4 and all(t["slack_ms"] >= 0 for t in r["tasks"]), r)


def epsilon_has_to_be_known(stack):
    f = Fermata(stack, "")
    r = f.cli("admit", "--try", write(f, "set", task("a", 20, 2)), check_status=False)
    check(r.returncode == 1 and "epsilon" in r.stderr, r.stderr)
    f.cli("admit", "--try", write(f, "set", task("a", 20, 2), epsilon=0.5))
    f.cli("run", "--period", "20", "--gpu-time", "2", "--epsilon", "500us", "--", "true")


def epsilon_of_a_platform_file(stack):
    f = Fermata(stack, "")
    path, conf = os.path.join(f.dir, "platform.json"), os.path.join(f.dir, "fermatad.conf")
    wish = write(f, "set", task("a", 20, 2))

    def settings(platform, more=""):
        with open(path, "w", encoding="ascii") as file:
            json.dump(platform, file)
        with open(conf, "w", encoding="ascii") as file:
            file.write(f"[admission]\nplatform = {path}\n{more}")
        return f.cli("reload", check_status=False)

    def epsilon():
        return json.loads(f.cli("admit", "--try", "--json", wish).stdout)["epsilon_ms"]

    f.cli("admit", "--try", wish, check_status=False)
    settings({"fermata_platform": 1, "epsilon_ns": 750000})
    check(epsilon() == 0.75, "that of the file")
    r = settings({"fermata_platform": 1, "slice_ns": 1})
    check(r.returncode == 1 and f"{conf}:2: {path}: epsilon_ns: was not measured" in r.stderr, r.stderr)
    r = settings({"fermata_platform": 1, "epsilon_ns": -1})
    check(r.returncode == 1 and "is negative" in r.stderr, r.stderr)
    check(epsilon() == 0.75, "the old settings stay")
    settings({"fermata_platform": 1, "epsilon_ns": 0})
    check(epsilon() == 0.1, "the linger, at least")
    settings({"fermata_platform": 1, "epsilon_ns": 750000}, "epsilon_us = 300\n")
    check(epsilon() == 0.3, "what is said by hand")


def analyze_finds_the_same(stack):
    """Of the same files, whichever epsilon is larger."""
    answers = set()
    f = Fermata(stack, "", start=False)
    platform = os.path.join(f.dir, "platform.json")
    with open(platform, "w", encoding="ascii") as file:
        json.dump({"fermata_platform": 1, "epsilon_ns": 750000}, file)
    with open(os.path.join(f.dir, "fermatad.conf"), "w", encoding="ascii") as file:
        file.write(f"[admission]\nplatform = {platform}\n")
    f.start()
    for head, last, takes in (({}, 30, 0.75), ({"epsilon": 0.5}, 30, 0.75), ({"epsilon": 2}, 30, 2), ({"epsilon": 2}, 11, 2),
                              ({"epsilon": 0.75}, 11, 0.75)):
        path = write(f, "set", task("a", 20, 4, priority=2), task("b", last, 5, priority=1), **head)
        admits = f.cli("admit", "--try", "--json", path, check_status=False)
        analyses = f.cli("analyze", "-m", "gcaps-suspend", "--json", "--platform", platform, path, check_status=False)
        told, known = json.loads(admits.stdout), json.loads(analyses.stdout)
        check(told["epsilon_ms"] == takes and told["machine_epsilon_ms"] == 0.75, f"{head}: {told}")
        check(admits.returncode == analyses.returncode, f"{head}: {admits}, {analyses}")
        check(admits.returncode == 3 or {t["name"]: t["bound_ms"] for t in told["tasks"]}
              == {t["name"]: t["wcrt"] for t in known["tasks"]}, f"{head}: {told}, {known}")
        for who in (admits, analyses):
            warned = f"{path}: epsilon: {head.get('epsilon'):g} ms there, and 0.75 ms " in who.stderr if head else False
            check(warned == (head.get("epsilon") in (0.5, 2)), f"{head}: {who.stderr}")
        answers.add(admits.returncode)
    check(answers == {0, 3}, f"one is admitted, one is not: {answers}")


def what_makes_no_sense(stack):
    f = Fermata(stack, CONFIG)
    for text in ("{", "[]", '{"tasks":[]}', '{"unit":"ms","tasks":[{"name":"a"}]}'):
        path = os.path.join(f.dir, "bad")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        r = f.cli("admit", path, check_status=False)
        check(r.returncode == 2 and r.stderr, f"{text}: {r.returncode}")
    check(f.cli("admit", write(f, "set", task("a b", 20, 2)), check_status=False).returncode == 2, "a name")
    many = ({"name": str(i), "period_ns": 100000} for i in range(1025))
    bad = [
        {"cmd": "admit"}, {"cmd": "admit", "tasks": 3}, {"cmd": "admit", "tasks": []},
        {"cmd": "admit", "tasks": [{"name": "a"}]}, {"cmd": "admit", "tasks": list(many)},
        {"cmd": "admit", "tasks": [request("a", period=3)]}, {"cmd": "admit", "tasks": [request("a", cpu=-1)]},
        {"cmd": "admit", "tasks": [request("a", period_ns=2**63)]},
        {"cmd": "admit", "tasks": [request("a", period_ns=-5)]},
        {"cmd": "admit", "tasks": [request("a", gpu_ns=-5)]},
        {"cmd": "admit", "tasks": [request("a", deadline_ns=0)]},
        {"cmd": "admit", "tasks": [request("a", cpu_ns=2**62)]},
        {"cmd": "admit", "tasks": [request("a", priority=70000)]},
        {"cmd": "admit", "tasks": [request("a", segments=[{"gpu_ns": 1}] * 65)]},
        {"cmd": "admit", "tasks": [request("a", overrun="kill")]},
        {"cmd": "admit", "tasks": [request("a"), request("b")]},
        {"cmd": "admit", "tasks": [request("x\\y")]},
        {"cmd": "admit", "tasks": [request("a", group="x" * 64)]},
        {"cmd": "admit", "tasks": [request("a")], "for": 0}, {"cmd": "admit", "tasks": [request("a")], "for": 2**31 - 1},
        {"cmd": "admit", "tasks": [request("a")], "try": 1}, {"cmd": "admit", "tasks": [request("a")], "epsilon_ns": -1},
        {"cmd": "unadmit"}, {"cmd": "unadmit", "task": "t99"},
    ]
    for r, reply in zip(bad, ask(f, *bad)):
        check(not reply["ok"] and reply["error"]["text"] and reply["error"]["hint"], f"{r}: {reply}")
    check(not tasks(f), "none of them is there")
    one = {"cmd": "admit", "tasks": [request("a", group="g")]}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:  # the process stays: so does the task
        first, again = ask(f, one, one)
        check(first["admitted"] and again["error"]["code"] == "EEXIST", again)
        check(tasks(f)["a"]["pid"] == os.getpid(), "it is this process's")


def rights(stack):
    """One's own processes; those of others if one may steer them."""
    if os.geteuid():
        raise Skip("it takes root to be several users")
    f = Fermata(stack, CONFIG)  # by default others may not have the highest priority
    os.chmod(f.dir, 0o755)
    os.chmod(os.path.join(f.dir, "control.sock"), 0o666)
    admitted(f, stack, write(f, "roots", task("roots", 100, 5)))
    mine = Program(["sleep", str(PATIENCE)], user=65534)
    stack.callback(mine.close)

    def stranger(*requests):
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                os.write(theirs, json.dumps(ask(f, *requests)).encode())
            finally:
                os._exit(0)
        os.close(theirs)
        os.waitpid(child, 0)
        with os.fdopen(ours) as answers:
            return json.loads(answers.read())

    admit = {"cmd": "admit", "tasks": [request("nobodys", group="g")], "for": mine.pid}
    (limited,) = stranger(admit)
    check(limited["error"]["code"] == "EPERM" and "priorit" in limited["error"]["text"], limited)
    with open(os.path.join(f.dir, "fermatad.conf"), "w", encoding="ascii") as conf:
        conf.write(CONFIG + "tasks = 2\n[limits]\npriority_max = 255\n")
    f.daemon.send_signal(signal.SIGHUP)
    f.says("settings read again")
    ours, theirs, nobody, listed, end = stranger(
        admit, {**admit, "for": os.getpid()}, {**admit, "for": 2**30}, {"cmd": "tasks"}, {"cmd": "unadmit", "task": "roots"})
    check(ours.get("admitted"), ours)
    check(theirs["error"] == {k: v.replace(str(2**30), str(os.getpid())) for k, v in nobody["error"].items()}, [theirs, nobody])
    check([t["name"] for t in listed["tasks"]] == ["nobodys"], listed)
    check(end["error"]["code"] == "ENOENT", end)
    check(len(tasks(f)) == 2, "root sees both")
    over, hidden = stranger({**admit, "tasks": [request(n, group=n) for n in ("x", "y")]},
                            {**admit, "tasks": [request("x", 6000000, 5000000, group="x", priority=9,
                                                        deadline_ns=6000000)]})
    check(over["error"]["code"] == "EDQUOT", over)
    check(hidden["ok"] and not hidden["admitted"], hidden)
    check("roots" not in json.dumps(hidden), "names of others are not told")
    (reply,) = ask(f, {"cmd": "unadmit", "task": "nobodys"})
    check(reply["ok"], reply)


BECOMES_ROOT = """import os, socket, sys
os.seteuid(65534)
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1] + "/control.sock")
s.sendall(sys.argv[2].encode() + b"\\n")
print("asked " + s.makefile().readline(), end="", flush=True)
os.seteuid(0)
os.execv(sys.argv[3], sys.argv[3:])
"""


def a_process_that_becomes_another_users(stack):
    """By a setuid program, or since its number is another process's by now: its groups are not for the tasks of the first."""
    if os.geteuid():
        raise Skip("it takes root to be several users")
    f = Fermata(stack, CONFIG + "[limits]\npriority_max = 255\n")
    os.chmod(f.dir, 0o755)
    os.chmod(os.path.join(f.dir, "control.sock"), 0o666)
    admit = {"cmd": "admit", "overrun": "stop", "tasks": [request("trap", 10**9, 100000)]}
    p = LibClient([sys.executable, "-c", BECOMES_ROOT, f.dir, json.dumps(admit), program("lib_client"), "-"], env=f.env)
    stack.callback(p.close)
    check(json.loads(p.line("asked")[len("asked "):]).get("admitted"), p.lines)
    check(p.line("ready") == "ready 0", p.lines)
    f.knows(p.pid)
    p.do("burst 5")
    check(tasks(f)["trap"]["state"] == "absent", tasks(f))


def many_tasks(stack):
    """A decision about a thousand is a thread's: the answer is the same, tasks may leave and connections close meanwhile."""
    f = Fermata(stack, "[admission]\nepsilon_us = 10\ntasks = 0\n")
    crowded(f, 1000)
    check(len(tasks(f)) == 1000 and all(t["slack_ns"] >= 0 for t in tasks(f).values()), "bounds beyond deadlines")
    late = request("late", 10**9, 2 * 10**8, group="late", priority=0, deadline_ns=3 * 10**8)
    (refused,) = ask(f, {"cmd": "admit", "for": os.getpid(), "tasks": [{**late, "segments": [{"gpu_ns": 299000000}]}]})
    check(refused["ok"] and not refused["admitted"] and refused["misses"], refused)

    def all_at_once(n):
        connections = [stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) for _ in range(n)]
        for i, s in enumerate(connections):
            s.settimeout(PATIENCE)
            s.connect(os.path.join(f.dir, "control.sock"))
            one = request(f"more{i}", 2 * 10**9, 1000, group=f"more{i}")
            s.sendall(json.dumps({"cmd": "admit", "for": os.getpid(), "try": True, "tasks": [one]}).encode() + b'\n{"cmd":"version"}\n')
        return connections

    for s in all_at_once(6)[:3]:
        s.close()

    def answered():
        n = 0
        for s in all_at_once(4):
            with s.makefile("r") as replies:
                reply, version = json.loads(replies.readline()), json.loads(replies.readline())
                check(reply.get("admitted") or reply["error"]["code"] == "EAGAIN", reply)
                check(version["version"], "the next request is not answered")
                n += reply["ok"]
        return n

    eventually("one of them is answered", answered)
    waiting = all_at_once(1)[0]
    ask(f, *({"cmd": "unadmit", "task": f"t{i}"} for i in range(20)))
    with waiting.makefile("r") as replies:
        reply = json.loads(replies.readline())
        check(reply.get("admitted") or reply["error"]["code"] == "EAGAIN", reply)
    check(len(tasks(f)) == 980, f"{len(tasks(f))} tasks")
    all_at_once(1)
    f.stop()  # in the middle of a decision, maybe


if __name__ == "__main__":
    main(many_tasks, refused_until_the_process_ends, all_or_none, an_end_that_was_asked_for, for_another_process,
         groups_may_come_and_go, run_is_a_task_of_its_own_group, through_the_library, leaving_gives_no_budget,
         overrun_is_demoted, overrun_is_stopped,
         overrun_is_reported, a_late_job_has_a_cause, policies_that_keep_no_bound, gpu_priorities,
         epsilon_has_to_be_known, epsilon_of_a_platform_file, analyze_finds_the_same, what_makes_no_sense, rights,
         a_process_that_becomes_another_users)
