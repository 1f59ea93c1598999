#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device memory, by the daemon's front door: what groups have is shown, and limits of groups and of users hold over all
their processes, whatever becomes of the daemon, and whatever a ledger says."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, check, eventually, main, program

GIB = 1 << 30


class Client(Program):
    def ask(self, line):
        mark = self.mark()
        self.tell(line)
        return self.line(".", after=mark)

    def claim(self, size, kind="plain"):
        answer = self.ask(f"claim {kind} {size}")
        check(answer in ("claimed", "refused"), answer)
        return answer == "claimed"

    def give(self, size, kind="plain"):
        check(self.ask(f"return {kind} {size}") == "returned", "nothing was returned")

    def info(self):
        """Limit and what is left of it, or None."""
        limited, total, left = (int(v) for v in self.ask("info").split()[1:])
        return (total, left) if limited else None

    def has_daemon(self):
        return self.ask("daemon") == "daemon 1"


def client(f, *options, key="gpu:0", **user):
    p = f.program([program("memory_client"), key], *options, cls=Client, **user)
    check(p.line(".") == "ready", "the client could not set itself up")
    if f.daemon:
        eventually("it has the daemon", p.has_daemon)
    return p


def memory(f, name, device="gpu:0"):
    for g in f.ps()["groups"]:
        for m in g.get("memory", []):
            if g["name"] == name and m["device"] == device:
                return m
    return None


def what_a_group_has_is_shown(stack):
    f = Fermata(stack)
    p = client(f, "--group", "g", "--memory-limit", "16G", "--memory-request", "1.5G")
    for kind, size in ("plain", 5 * GIB), ("pool", GIB), ("graph", GIB // 2), ("shared", 2 * GIB):
        check(p.claim(size, kind), f"{kind} was refused")
    p.ask(f"add context {GIB // 2}")
    check(not p.claim(8 * GIB), "more than the limit")
    p.give(GIB)
    m = memory(f, "g")
    expected = {
        "capacity_bytes": 80 * GIB, "managed": False, "committed_bytes": 8 * GIB, "movable_bytes": 0,
        "pinned_bytes": 2 * GIB, "foreign_bytes": 6 * GIB, "resident_bytes": 8 * GIB, "host_bytes": 0, "hot_bytes": 0,
        "peak_bytes": 9 * GIB, "limit_bytes": 16 * GIB, "request_bytes": GIB * 3 // 2, "refused": 1,
        "kinds": {"plain": 4 * GIB, "pool": GIB, "graph": GIB // 2, "shared": 2 * GIB, "context": GIB // 2},
    }
    for key, value in expected.items():
        check(m[key] == value, f"{key}: {m[key]} is not {value}")
    lines = f.cli("ps", "--memory").stdout.splitlines()
    check(lines[0].split() == "GROUP DEVICE COMMITTED MOVABLE PINNED FOREIGN RESIDENT HOST MAPPED HOT LIMIT REQUEST PEAK REFUSED MISSED TURN OUT".split(),
          lines[0])
    check(lines[1].split() == "g gpu:0 8G - 2G 6G 8G - - - 16G 1.5G 9G 1 0 - -".split(), lines[1])
    check(p.info() == (16 * GIB, 8 * GIB), f"{p.info()}")
    why = f.cli("why", "g").stdout
    check("gpu:0: refused allocations: 1; the group has 8G, and its limit is 16G" in why, why)
    check("`fermata hint g memory-limit=SIZE' sets another limit" in why, why)
    top = json.loads(f.cli("top", "--once", "--json", "--sort", "memory", "-d", "0.1").stdout)["groups"][0]
    expected = {"memory_committed_bytes": 8 * GIB, "memory_resident_bytes": 8 * GIB, "memory_host_bytes": 0}
    check({k: top[k] for k in expected} == expected, top)
    check(top["memory"] == [{"device": "gpu:0", "memory_limit_bytes": 16 * GIB, **expected}], top)
    line = next(r for r in f.cli("top", "--once", "-d", "0.1").stdout.splitlines() if r.startswith("g "))
    check(line.split()[-4:] == ["8G", "8G", "-", "16G"], line)
    stats = f.cli("stats").stdout
    check(re.search(r"^memory +8G  device memory that programs have$", stats, re.M), stats)
    check(f.stats()["memory"]["refused"] == 1, f.stats()["memory"])
    p.close()
    eventually("the group is gone", lambda: memory(f, "g") is None)
    check("memory" not in f.stats() and "device memory" not in f.cli("stats").stdout, "of no group")


def metrics_have_it(stack):
    f = Fermata(stack)
    p = client(f, "--group", "g", "--memory-limit", "16G")
    check(p.claim(5 * GIB) and p.claim(GIB, "shared") and not p.claim(11 * GIB), "within the limit")
    found = {m[1]: m[2] for m in re.finditer(r'^fermata_memory_(\w+){group="g"[^}]*} (\d+)$', f.cli("metrics").stdout, re.M)}
    expected = {"committed_bytes": 6 * GIB, "resident_bytes": 6 * GIB, "host_bytes": 0, "host_taken_bytes": 0,
                "host_strayed_bytes": 0, "hot_bytes": 0, "pinned_bytes": GIB,
                "foreign_bytes": 5 * GIB, "limit_bytes": 16 * GIB, "refused_total": 1, "missed_total": 0, "moved_bytes_total": 0,
                "held_seconds_total": 0}
    check(found == {k: str(v) for k, v in expected.items()}, f"{found}")


def processes_of_a_group_share_its_limit(stack):
    f = Fermata(stack)
    options = "--group", "all", "--memory-limit", "10G"
    a, b, c = (client(f, *options) for _ in range(3))
    check(a.claim(4 * GIB) and b.claim(4 * GIB) and not c.claim(4 * GIB), "they have more than the group may")
    check(c.claim(2 * GIB), "what is left is theirs")
    check(a.info() == b.info() == c.info() == (10 * GIB, 0), f"{a.info()} {b.info()} {c.info()}")
    a.give(GIB)  # after it was told what is left, which asks the daemon and takes nothing
    check(b.claim(GIB), "what one gives back another may have")
    b.give(GIB)
    check(a.claim(GIB), "and back")
    b.close()
    eventually("its memory is gone", lambda: memory(f, "all")["committed_bytes"] == 6 * GIB)
    check(c.claim(4 * GIB), "what the dead had is free")
    check(memory(f, "all")["refused"] == 1, f"{memory(f, 'all')}")


def an_operator_changes_a_limit(stack):
    f = Fermata(stack)
    a, b = client(f, "--group", "g"), client(f, "--group", "g")
    check(a.info() is None and a.claim(40 * GIB) and b.claim(10 * GIB), "there is no limit yet")
    f.cli("hint", "g", "memory-limit=20G")
    check(not a.claim(1) and not b.claim(1), "a limit below what is there refuses what comes next")
    check(memory(f, "g")["committed_bytes"] == 50 * GIB, "it takes nothing away")
    a.give(39 * GIB)
    check(b.claim(9 * GIB) and not a.claim(1), "until enough is free")
    f.cli("hint", "g", "memory-limit=0")
    check(a.claim(40 * GIB), "no limit")


def a_user_has_a_limit_over_all_groups(stack):
    f = Fermata(stack, "[limits]\nmemory = 10G\n")
    user = f.somebody()
    a, b = client(f, "--group", "a", **user), client(f, "--group", "b", **user)
    other = client(f, "--group", "b", key="gpu:1", **user)
    check(a.claim(6 * GIB) and not b.claim(5 * GIB) and b.claim(4 * GIB), "of both groups together")
    check(other.claim(10 * GIB) and not other.claim(1), "another device is another matter")
    check(a.info() == (10 * GIB, 0), f"{a.info()}")
    if user:
        root = client(f, "--group", "root")
        check(root.claim(40 * GIB) and root.info() is None, "root is not limited")


def a_limit_holds_without_a_daemon(stack):
    f = Fermata(stack, start=False)
    f.env["FERMATA_HINTS"] = f"memory-limit={4 * GIB}"
    p = Client([program("memory_client")], env=f.env)
    stack.callback(p.close)
    p.line("ready")
    check(p.claim(4 * GIB) and not p.claim(1), "its own limit")
    check(p.info() == (4 * GIB, 0), f"{p.info()}")


def a_daemon_is_replaced(stack):
    f = Fermata(stack)
    a, b = (client(f, "--group", "g", "--memory-limit", "10G") for _ in range(2))
    check(a.claim(6 * GIB) and b.claim(3 * GIB), "within the limit")
    for orderly in False, True, False:
        f.stop() if orderly else f.kill()
        eventually("a hears of it", lambda: not a.has_daemon())
        eventually("b hears of it", lambda: not b.has_daemon())
        check(not b.claim(8 * GIB), "more than its own limit, which holds meanwhile")
        f.start()
        eventually("a has the next", a.has_daemon)
        eventually("b has the next", b.has_daemon)
        eventually("which knows all", lambda: (memory(f, "g") or {}).get("committed_bytes") == 9 * GIB)
        check(not b.claim(2 * GIB) and b.claim(GIB) and not a.claim(1), "the group's limit holds again")
        b.give(GIB)


def a_child_counts_for_itself(stack):
    f = Fermata(stack)
    p = client(f, "--group", "g", "--memory-limit", "10G")
    check(p.claim(2 * GIB), "within the limit")
    check(p.ask("fork") == "child 0", p.lines[-1])
    check(p.claim(8 * GIB) and not p.claim(1), "what the child had is gone, and none of it was the parent's")


def a_ledger_lies(stack):
    """The others of the group are refused, as they would be if it were true; another group notices nothing, and the daemon
    goes on."""
    f = Fermata(stack)
    liar, honest = (client(f, "--group", "g", "--memory-limit", "10G") for _ in range(2))
    other = client(f, "--group", "other", "--memory-limit", "10G")
    check(liar.ask("lie") == "lied", "it does not lie")
    check(not honest.claim(8 * GIB), "the liar has everything")
    check(other.claim(10 * GIB), "another group has its own limit")
    m = memory(f, "g")
    check(all((m[k] or 0) >= 0 for k in m if k.endswith("_bytes")) and m["resident_bytes"] <= m["committed_bytes"], f"{m}")
    f.cli("ps", "--memory")
    liar.close()
    eventually("the liar is gone", lambda: memory(f, "g")["committed_bytes"] == 0)
    check(honest.claim(10 * GIB), "and with it its lies")


def requests_fit_together(stack):
    f = Fermata(stack)
    client(f, "--group", "a", "--memory-request", "50G")
    client(f, "--group", "b")
    r = f.cli("hint", "b", "memory-request=31G", check_status=False)
    check(r.returncode == 1 and "memory-request 31G is more than the 30G that are free" in r.stderr, r.stderr)
    check("the device has 80G, of which other groups request or keep 50G" in r.stderr, r.stderr)
    f.cli("hint", "b", "memory-request=30G")
    r = f.cli("hint", "b", "weight=7", "memory-request=31G", check_status=False)
    hints = next(g["hints"] for g in f.ps()["groups"] if g["name"] == "b")
    check(r.returncode == 1 and hints["weight"] != 7, f"all hints are set or none: {hints}")
    r = f.cli("hint", "a", "memory-limit=1P", check_status=False)
    check(r.returncode and "memory-limit 1P is more than there is" in r.stderr, r.stderr)


def a_program_is_told_what_is_refused(stack):
    """It runs without that hint, so somebody has to know."""
    f = Fermata(stack)
    client(f, "--group", "a", "--memory-request", "50G")

    def run(*options):
        return f.cli("run", *options, "--", "true").stderr

    said = run("--memory-request", "31G")
    check("memory-request 31G is more than the 30G that are free" in said and "running 'true' without that hint" in said, said)
    said = run("--memory=1P")
    check("memory-limit 1P is more than there is" in said and "without that hint" in said, said)
    check(not run("--memory-request", "30G") and not run("--memory=90G"), "what fits is refused")
    check(not run("--group", "a", "--memory-request", "60G"), "a group's own request is not another's")


def a_device_counts_as_smaller(stack):
    f = Fermata(stack, "[memory]\ndevice_limit = 16G\n")
    p = client(f, "--group", "g", "--memory")
    check(p.claim(16 * GIB, "movable") and not p.claim(1, "movable"), "a managed group has the device")
    check(memory(f, "g")["managed"] and memory(f, "g")["limit_bytes"] == 16 * GIB, f"{memory(f, 'g')}")
    big = client(f, "--group", "big", "--memory=17G")
    check(big.claim(17 * GIB, "movable") and not big.claim(1, "movable"), "or what it asks for")


if __name__ == "__main__":
    main(
        what_a_group_has_is_shown,
        metrics_have_it,
        processes_of_a_group_share_its_limit,
        an_operator_changes_a_limit,
        a_user_has_a_limit_over_all_groups,
        a_limit_holds_without_a_daemon,
        a_daemon_is_replaced,
        a_child_counts_for_itself,
        a_ledger_lies,
        requests_fit_together,
        a_program_is_told_what_is_refused,
        a_device_counts_as_smaller,
    )
