#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may do what: every cell of the tables in docs/rights.md, tried by processes of other users; the limits of
users and of members of a group; and the line in the log for each attempt."""

import contextlib
import grp
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, FERMATAD, LibClient, Skip, ask, check, eventually, main, program, seldom_sanitized  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
DAEMON, OWNER, OTHER, OPERATOR = 61000, 61001, 61002, 61003  # nobody has these
LIMITS = "[limits]\npriority_max = 10\n"


def access_group():
    """A group of this machine that none of the users above is in by themselves."""
    for g in grp.getgrall():
        if g.gr_gid and not 61000 <= g.gr_gid <= 61003:
            return g
    raise Skip("this machine has no groups")


def identity(uid, *groups):
    return {"user": uid, "group": uid, "extra_groups": list(groups)}


class Machine:
    """A daemon, with a log that can be read, and programs that every user can run."""

    def __init__(self, stack, config="", uid=DAEMON, *options):
        if os.geteuid():
            raise Skip("it takes root to be several users")
        self.stack = stack
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        os.chmod(self.dir, 0o755)
        self.run_dir, self.conf, self.log_file = (os.path.join(self.dir, n) for n in ("run", "conf", "log"))
        os.mkdir(self.run_dir, 0o755 if options else 0o700)
        os.chown(self.run_dir, uid, uid)
        for name in (FERMATA, FERMATAD, program("lib_client")):
            shutil.copy(name, self.dir)
        for name in os.listdir(os.path.join(BUILD, "lib")):
            if name.startswith("libfermata.so.") or name == "libfermata-opencl.so":
                shutil.copy(os.path.join(BUILD, "lib", name), self.dir)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
        self.env.update(FERMATA_SOCKET=self.run_dir, LD_LIBRARY_PATH=self.dir, FERMATA_LIBDIR=self.dir, HOME=self.dir)
        self.configure(config)
        log = stack.enter_context(open(self.log_file, "wb"))
        self.daemon = subprocess.Popen([os.path.join(self.dir, "fermatad"), "--dir", self.run_dir, "--config", self.conf,
                                        *options], stderr=log, env=self.env, **identity(uid))
        stack.callback(self.end)
        eventually("the daemon answers", lambda: self.daemon.poll() is not None or self.cli(identity(uid), "ps"))
        check(self.daemon.poll() is None, f"the daemon does not start: {self.log()}")

    def end(self):
        self.daemon.terminate()
        status = self.daemon.wait(60)
        check(status == 0, f"the daemon ended with status {status}: {self.log()}")

    def configure(self, text):
        with open(self.conf, "w", encoding="ascii") as f:
            f.write(f"[access]\ngroup = {access_group().gr_name}\n{text}")
        os.chmod(self.conf, 0o644)

    def log(self):
        with open(self.log_file, encoding="utf-8") as f:
            return f.read()

    def audit(self, *fields):
        return [line for line in self.log().splitlines()
                if line.startswith("fermatad: audit: ") and all(f in line for f in fields)]

    def run(self, who, *argv):
        return subprocess.run([os.path.join(self.dir, "fermata"), *argv], env=self.env, text=True, capture_output=True,
                              timeout=60, **who)

    def cli(self, who, *argv):
        """Did it work?"""
        return self.run(who, *argv).returncode == 0

    def seen(self, who):
        return json.loads(self.run(who, "ps", "--json").stdout)

    def group(self, uid, name):
        """As root sees it; None."""
        for g in ask(self.run_dir, "ps")["groups"]:
            if (g["uid"], g["name"]) == (uid, name):
                return g
        return None

    def client(self, who, name, hints="", joins=True):
        c = LibClient([os.path.join(self.dir, "lib_client"), name], env=dict(self.env, FERMATA_HINTS=hints), **who)
        self.stack.callback(c.close)
        c.line("ready 0")
        if joins:
            eventually("the daemon knows it", lambda: self.group_of(c.pid))
        return c

    def group_of(self, pid):
        """As root sees it; None."""
        for g in ask(self.run_dir, "ps")["groups"]:
            if pid in [q["pid"] for q in g["queues"]]:
                return g
        return None

    def joins(self, who):
        """Does a program of this user come into the owner's group by giving its name?"""
        with contextlib.closing(self.client(who, "job")) as c:
            g = self.group_of(c.pid)
            check(g["name"] == "job", f"its group is {g}")
            return g["uid"] == OWNER and g["clients"] == 2

    def as_user(self, uid, fn):
        """What fn() gives, a number, in a process of that user."""
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                os.write(write, str(int(fn())).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as f:
            text = f.read()
        os.waitpid(pid, 0)
        check(text, f"what user {uid} tried has failed")
        return int(text)

    def ask(self, request):
        with self.connect() as s, s.makefile() as replies:
            s.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(replies.readline())

    def connect(self, name="control.sock", kind=socket.SOCK_STREAM):
        s = socket.socket(socket.AF_UNIX, kind)
        s.settimeout(60)
        s.connect(os.path.join(self.run_dir, name))
        return s


def table(first_column):
    """{row: {column: yes?}} of the table in docs/rights.md whose first columns are these."""
    with open(os.path.join(SOURCE, "docs", "rights.md"), encoding="ascii") as f:
        lines = f.read().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(first_column))
    head, rows = [c.strip() for c in lines[at].strip("|").split("|")], {}
    for line in lines[at + 2:]:
        if not line.startswith("|"):
            break
        cells = [c.strip() for c in line.strip("|").split("|")]
        check(len(cells) == len(head) and set(cells[1:]) <= {"yes", "no"}, f"a cell is neither yes nor no: {line}")
        rows[cells[0]] = dict(zip(head[1:], (c == "yes" for c in cells[1:])))
    return rows


def compare(rows, who, tried):
    check(set(rows) == set(who), f"docs/rights.md has the rows {set(rows)}")
    n = 0
    for row, cells in rows.items():
        columns = tried(who[row])
        check(set(columns) == set(cells), f"docs/rights.md has the columns {set(cells)}")
        for column, attempt in columns.items():
            check(bool(attempt()) == cells[column], f"docs/rights.md says of {row}, {column}: {cells[column]}")
            n += 1
    print(f"         {n} cells")


def control_attempts(m, who):
    def hint(value):
        value = value if m.group(OWNER, "job")["hints"]["priority"] != value else value - 1
        return (m.cli(who, "hint", "job", f"priority={value}")
                and m.group(OWNER, "job")["hints"]["priority"] == value)

    def suspend():
        if not m.cli(who, "suspend", "job"):
            check(not m.group(OWNER, "job")["suspended"] and not m.cli(who, "resume", "job"), "refused, but done")
            return False
        check(m.group(OWNER, "job")["suspended"] and m.cli(who, "resume", "job"), "it is not suspended")
        return not m.group(OWNER, "job")["suspended"]

    def joins():
        return m.joins(who)

    def policy():
        before = m.seen(who)["policy"]["name"]
        wanted = "fair" if before != "fair" else "edf"
        return m.cli(who, "policy", wanted) and m.seen(who)["policy"]["name"] == wanted

    def sees():
        listed = [g for g in m.seen(who)["groups"] if g["name"] == "job" and g["uid"] == OWNER]
        check(m.cli(who, "why", "job") == bool(listed), "why and ps do not agree")
        top = json.loads(m.run(who, "top", "--once", "--json", "-d", "0.1").stdout)["groups"]
        check(any((g["name"], g["uid"]) == ("job", OWNER) for g in top) == bool(listed), "top and ps do not agree")
        return listed and listed[0]["queues"] and "priority" in listed[0]["hints"]

    def sees_all():
        return (json.loads(m.run(who, "stats", "--json").stdout)["groups"] > 0 and m.seen(who)["devices"]
                and json.loads(m.run(who, "policy", "--json").stdout)["available"])

    def records():
        folder = os.path.join(m.dir, f"traces-{who['user']}-{len(os.listdir(m.dir))}")
        os.mkdir(folder)
        os.chown(folder, who["user"], who["group"])
        path = os.path.join(folder, "trace")
        recorder = subprocess.Popen([os.path.join(m.dir, "fermata"), "trace", "record", "-q", "-o", path],
                                    env=m.env, stderr=subprocess.DEVNULL, **who)

        def dump():
            return [json.loads(line) for line in m.run(who, "trace", "dump", "--json", path).stdout.splitlines()]

        def seen(records):
            return [r for r in records if r.get("group") == "job" or r["pid"] == m.owner.pid]

        try:
            eventually("it records", lambda: os.path.exists(path) and os.path.getsize(path) > 56 or recorder.poll() is not None)
            policy = "fifo" if m.seen(who)["policy"]["name"] != "fifo" else "fixed-priority"
            for argv in ["suspend", "job"], ["resume", "job"], ["policy", policy]:
                check(m.cli(identity(0), *argv), f"root may not {argv}")
            # All are told of the policy; what was before that, and may be told, is there then.
            eventually("it is told of the policy", lambda: [r for r in dump() if r["event"] == "policy"])
            may = bool(seen(dump()))
            if may:
                eventually("there are segments", lambda: any(r["event"] == "segment_done" for r in seen(dump())))
        finally:
            recorder.terminate()
            check(recorder.wait(60) == 0, "the recording has failed")
        check(may or not seen(dump()), "it is told of late")
        check(may or "job" not in str(dump()), f"its name is told: {dump()}")
        return may

    return {
        "sees it: `ps` with hints, queues, calls": sees,
        "sees policy, devices, `stats`": sees_all,
        "joins it by its name": joins,
        "sets its hints within the limits": lambda: hint(10),
        "sets them beyond": lambda: hint(12),
        "suspends and resumes it": suspend,
        "changes the policy": policy,
        "has the settings read again": lambda: m.cli(who, "reload"),
        "records it": records,
    }


def program_attempts(m):
    def asked(request):
        """On client.sock: is there an answer other than a refusal?"""
        def ask():
            s = m.connect("client.sock", socket.SOCK_SEQPACKET)
            s.send(json.dumps(request).encode())
            answer = s.recv(4096)
            check(not answer or answer[6] == 3, f"{request} is answered {answer}")
            return not answer or answer[6] != 3
        return lambda: m.as_user(OWNER, ask)

    def hint(value):
        with contextlib.closing(m.client(identity(OWNER), "-", f"weight=7 priority={value} slice=1000000")) as c:
            name = f"lib_client-{c.pid}"  # hints come in this order: priority, weight, slice
            eventually("its last hint comes", lambda: m.group(OWNER, name)["hints"]["slice_ms"] == 1)
            return m.group(OWNER, name)["hints"]["priority"] == value

    def joins():
        return m.joins(identity(OWNER))

    return {
        "sees it: `ps` with hints, queues, calls": asked({"cmd": "ps"}),
        "sees policy, devices, `stats`": asked({"cmd": "stats"}),
        "joins it by its name": joins,
        "sets its hints within the limits": lambda: hint(10),
        "sets them beyond": lambda: hint(12),
        "suspends and resumes it": asked({"cmd": "suspend", "target": "job"}),
        "changes the policy": asked({"cmd": "policy", "name": "fair"}),
        "has the settings read again": asked({"cmd": "reload"}),
        "records it": asked({"cmd": "trace"}),
    }


def the_daemon_of_the_system(stack):
    m = Machine(stack, LIMITS, DAEMON, "--system")
    m.owner = m.client(identity(OWNER), "job")
    m.owner.do("feed")
    who = {
        "root": identity(0),
        "the daemon's user": identity(DAEMON),
        "a member of the access group": identity(OPERATOR, access_group().gr_gid),
        "another process of its user": identity(OWNER),
        "another user": identity(OTHER),
        "the program itself": None,
    }
    compare(table("| who | sees it"), who, lambda w: control_attempts(m, w) if w else program_attempts(m))


def whom_one_waits_for(stack):
    """Time is accounted for to the last bit; whose it was is told to those who may see him."""
    m = Machine(stack, "", DAEMON, "--system")
    rival = m.client(identity(OTHER), "rival")
    check(m.cli(identity(0), "hint", "rival", "priority=10"), "root sets a hint")
    rival.do(f"segment {-(2**31)}")  # ready throughout
    rival.do("feed")
    m.client(identity(OWNER), "job").do("feed")

    def waits(who):
        reply = json.loads(m.run(who, "why", "job", "--json").stdout)
        account = reply["groups"][0]["devices"][0]["account"]
        return account["waiting"] and account["waited_ms"] > 100 and (account, reply)

    account, reply = eventually("it waits", lambda: waits(identity(OWNER)))
    check("rival" not in json.dumps(reply) and str(OTHER) not in json.dumps(reply), f"told to the owner: {reply}")
    check([w["group"] for w in account["waited_for"]] == [None], f"told to the owner: {account}")
    check(account["waiting"]["group"] is None and account["waiting"]["hidden"], f"told to the owner: {account}")
    text = m.run(identity(OWNER), "why", "job").stdout
    check("a group that you may not see has the device" in text, f"in words: {text}")
    account, _ = eventually("it waits", lambda: waits(identity(0)))
    first = account["waited_for"][0]
    check((first["group"], first["user"], account["waiting"]["group"]) == ("rival", OTHER, "rival"), f"told to root: {account}")
    check(not m.cli(identity(OWNER), "why", "rival"), "another's is told")


def the_daemon_of_one_user(stack):
    m = Machine(stack, LIMITS, DAEMON)
    m.client(identity(DAEMON), "job").do("feed")

    def steers(who):
        return m.cli(who, "hint", "job", "priority=12") and m.cli(who, "suspend", "job") and m.cli(who, "resume", "job")

    for name in "client.sock", "control.sock":
        check(stat.S_IMODE(os.stat(os.path.join(m.run_dir, name)).st_mode) == 0o600, f"{name} lets others in")
    os.chmod(m.run_dir, 0o755)  # the sockets keep others out by themselves
    compare(table("| who | connects"), {"root": identity(0), "its user": identity(DAEMON), "another user": identity(OTHER)},
            lambda w: {"connects": lambda: m.cli(w, "ps"), "sees and steers all": lambda: steers(w)})


def root_is_no_member_of_the_machine(stack):
    """A daemon of root is one of the system without being told."""
    m = Machine(stack, LIMITS, 0, "--idle-exit", "0")
    m.client(identity(OWNER), "job")
    check(m.seen(identity(OTHER))["groups"] == [], "others see it")

    def one():
        """The one group, asked for by the id of a queue."""
        with m.connect() as s, s.makefile() as replies:
            s.sendall(json.dumps({"cmd": "ps", "target": "q1"}).encode() + b"\n")
            return len(json.loads(replies.readline())["groups"])

    check(m.as_user(OWNER, one) == 1, "its user does not see its queue")
    check(m.as_user(OTHER, one) == 0, "others who know the id of a queue see it")
    check(m.cli(identity(OWNER), "suspend", "job") and m.cli(identity(0), "resume", "job"), "its user and root steer it")


def limits_of_users_and_groups(stack):
    group = access_group()
    m = Machine(stack, f"""[limits user {OWNER}]
groups = 1
hints = none
[limits group {group.gr_gid}]
priority_max = low
weight_max = 50
[limits user {OTHER}]
hints = all
""", DAEMON, "--system")
    c = m.client(identity(OWNER), "-", "priority=3")
    name = f"lib_client-{c.pid}"
    eventually("the log says so", lambda: "refused: you may not set the hint priority" in m.log())
    check(m.group(OWNER, name)["hints"]["priority"] == 0, "a forbidden hint was taken from a program")
    r = m.run(identity(OWNER), "hint", name, "slice=5ms")
    check(r.returncode == 1 and "you may not set the hint slice" in r.stderr and "hint: " in r.stderr, f"{r}")
    r = m.run(identity(OWNER), "run", "--slice=5ms", "--gang=1", "true")
    for hint in "slice", "gang":
        check(f"fermata: you may not set the hint {hint}\n  hint: " in r.stderr, f"{r}")
    check(r.returncode == 0 and r.stderr.count("running 'true' without that hint") == 2, f"{r}")
    r = m.run(identity(OTHER), "run", "--slice=5ms", "true")
    check(r.returncode == 0 and "limits" not in r.stderr and "without that hint" not in r.stderr, f"{r}")
    second = m.client(identity(OWNER), "-", joins=False)
    eventually("it is refused", lambda: "user 61001 has reached the limit of groups" in m.log())
    check(not m.group(OWNER, f"lib_client-{second.pid}"), "a second group")
    eventually("it runs on its own", lambda: second.state()["daemon"] == 0)
    m.client(identity(OTHER, group.gr_gid), "c")
    hints = m.group(OTHER, "c")["hints"]
    check((hints["priority"], hints["weight"]) == (-64, 50), f"a member of the group starts with {hints}")


def whose_limit_counts(stack):
    one, two = [g.gr_gid for g in grp.getgrall() if g.gr_gid][1:3]  # the first is that of operators
    m = Machine(stack, f"""[limits user {OTHER}]
priority_min = -5
[limits group {one}]
priority_max = 10
weight_max = 10
[limits group {two}]
priority_max = 20
weight_max = 20
share_max = 20
[limits user {OWNER}]
weight_max = 30
[limits]
priority_max = 100
share_max = 50
""", DAEMON, "--system")

    def most(who, hint, value):
        """Is this the most that is allowed?"""
        below, above = (m.run(who, "run", f"--{hint}={v}", "true") for v in (value, value + 1))
        check("limits" not in below.stderr and f"{hint} {value + 1}" in above.stderr, f"{hint} {value}: {below} {above}")

    def least(who, hint, value):
        at, below = (m.run(who, "run", f"--{hint}={v}", "true") for v in (value, value - 1))
        check(not at.stderr and f"{hint} {value - 1}" in below.stderr, f"{hint} {value}: {at} {below}")

    for groups, priority, share in ((one, two), 10, 20), ((two, one), 10, 20), ((two,), 20, 20), ((), 100, 50):
        most(identity(OWNER, *groups), "priority", priority)
        most(identity(OWNER, *groups), "weight", 30)
        most(identity(OWNER, *groups), "share", share)
    least(identity(OTHER, one), "priority", -5)
    most(identity(OTHER, one), "priority", 100)  # a range comes from one section
    most(identity(OTHER, one), "weight", 10)
    check(not m.run(identity(0, one), "run", "--priority=255", "true").stderr, "root is limited")


def limits_are_read_again(stack):
    m = Machine(stack, "[limits]\nhints = none\n", DAEMON, "--system")
    m.client(identity(OWNER), "job")
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()

    def ask(lines, value):
        lines.write(json.dumps({"cmd": "hint", "target": "job", "hints": {"priority": value}}) + "\n")
        lines.flush()
        return json.loads(lines.readline())["ok"]

    def attempts():
        lines = m.connect().makefile("rw")
        before = ask(lines, 5)
        os.write(ready_w, b"x")
        os.read(go_r, 1)
        return 10 * before + ask(lines, 5)

    def change():
        os.read(ready_r, 1)
        m.configure("[limits]\npriority_max = 7\n")
        check(m.cli(identity(0), "reload"), "the settings are not read")
        os.write(go_w, b"x")

    helper = threading.Thread(target=change)
    helper.start()
    result = m.as_user(OWNER, attempts)
    helper.join()
    check(result == 1, f"before, after: {result:02}")
    r = m.run(identity(OWNER), "hint", "job", "priority=8")
    check("priority 8 is outside your limits" in r.stderr and "-255 to 7" in r.stderr, f"{r}")


def ordinary_users_stay_below_realtime(stack):
    group = access_group()
    member = identity(OTHER, group.gr_gid)
    beyond = {"priority": ("101", "100"), "share": ("51", "50"), "deadline": ("999us", "1ms"), "period": ("0.5ms", "1ms")}

    def may(m, who, hint, value):
        r = m.run(who, "run", f"--{hint}={value}", "true")
        check(r.returncode == 0, f"{r}")
        return r

    def is_taken(r):  # it may be said that the policy does not read it
        return all("does not read the hint" in line for line in r.stderr.splitlines())

    m = Machine(stack, "", DAEMON, "--system")
    for hint, (value, most) in beyond.items():
        r = may(m, identity(OWNER), hint, value)
        check(f"fermata: {hint} " in r.stderr and "is outside your limits\n  hint: stay within " in r.stderr, f"{r}")
        check(f"fermatad.conf changed, which do not bind members of the group {group.gr_name}" in r.stderr, f"{r}")
        check(is_taken(may(m, identity(OWNER), hint, most)), f"{hint}={most} is refused")
        for who in member, identity(DAEMON), identity(0):
            check(is_taken(may(m, who, hint, value)), f"{hint}={value} is refused to {who}")
    check(is_taken(may(m, identity(OWNER), "deadline", "0")), "none is refused")
    # What a program asks for itself: the log has it, and it goes on without.
    c = m.client(identity(OWNER), "-", "priority=101 weight=7")
    eventually("the rest is taken", lambda: m.group_of(c.pid)["hints"]["weight"] == 7)
    check(m.group_of(c.pid)["hints"]["priority"] == 0, "what is beyond is taken")
    check("refused: priority 101 is outside your limits" in m.log(), "the log does not say so")
    r = m.run(identity(OWNER), "hint", str(c.pid), "priority=realtime")
    check(r.returncode == 1 and "priority 128 is outside" in r.stderr and "-255 to 100" in r.stderr, f"{r}")
    check(m.cli(identity(0), "hint", str(c.pid), "priority=realtime"), "root is refused")
    # Lines that say otherwise; one for some leaves the rest as it is.
    m.configure(f"[limits]\npriority_max = 200\n[limits user {OWNER}]\npriority_min = -5\nshare_max = 60\ndeadline_max = 100us\n")
    check(m.cli(identity(0), "reload"), "the settings are not read")
    for who in identity(OWNER), member:
        check(is_taken(may(m, who, "priority", "200")) and not is_taken(may(m, who, "priority", "201")), f"{who}: priority")
    for hint, value, good in (("share", "60", True), ("share", "61", False), ("deadline", "100us", True), ("deadline", "101us", False),
                              ("period", "1ms", True), ("period", "999us", False)):
        check(is_taken(may(m, identity(OWNER), hint, value)) == good, f"{hint}={value}")
    check(not is_taken(may(m, identity(OTHER), "share", "51")) and is_taken(may(m, member, "share", "100")), "who is not meant")


CROWD = int(os.environ.get("CROWD", 200 if os.environ.get("FERMATA_TEST_LONG") else 24))  # groups of one user


def part_of_other(m, least, most):
    """Of the device time that is charged from now on, in percent: what the one has, when all together have had enough. On a busy
    machine one may be late to come to rest by a second, which the other user is given later: so it may take longer."""
    def charged():
        by_uid = {OWNER: 0, OTHER: 0}
        for g in ask(m.run_dir, "ps")["groups"]:
            by_uid[g["uid"]] += sum(d["charged_ms"] for d in g["devices"])
        return by_uid

    before, now = charged(), {}

    def part():
        return 100 * now[OTHER] / sum(now.values())

    def enough():
        now.update({uid: ms - before[uid] for uid, ms in charged().items()})
        return sum(now.values()) > 3000 and (least <= part() <= most or sum(now.values()) > 20000)

    eventually("the device is used", enough)
    return part()


def many_groups_gain_a_user_nothing(stack):
    """In declared segments, so that how soon a program gets a processor does not matter."""
    for policy in ("fair slice=2ms", "bandwidth"):
        with contextlib.ExitStack() as inner:
            config = f"[limits]\ngroups = 1024\n[daemon]\npolicy = {policy}\n"
            m = Machine(inner, config, DAEMON, "--system")
            crowd = [m.client(identity(OWNER), f"job-{i}") for i in range(CROWD)]
            one = m.client(identity(OTHER), "single")
            for c in crowd + [one]:
                c.do("feed")
                inner.enter_context(c.segment())
            share = part_of_other(m, 0, 11.9)
            check(share < 12, f"{policy}, by group: {share:.1f} % for one of {CROWD + 1}")
            m.configure(config + "fair_by = user\n")
            check(m.cli(identity(0), "reload"), "the settings are not read")
            check("among users first" in m.run(identity(0), "policy").stdout, "`fermata policy' does not say so")
            share = part_of_other(m, 45, 55)
            check(45 <= share <= 55, f"{policy}, by user: {share:.1f} % for one of two users")
            print(f"         {policy}: {share:.1f} % beside {CROWD} groups")
            def explains():
                text = m.run(identity(0), "why", "single").stdout
                return "user 61002 has had its part" in text and "users have equal parts" in text and "fermata hint" not in text

            eventually("`fermata why' says so", explains)
            check(m.run(identity(OWNER), "why", "single").returncode, "another user is told")
            m.configure(config)
            check(m.cli(identity(0), "reload"), "the settings are not read")
            share = part_of_other(m, 0, 11.9)
            check(share < 12, f"{policy}, by group again: {share:.1f} % for one of {CROWD + 1}")


def each_attempt_is_a_line(stack):
    m = Machine(stack, "", DAEMON, "--system")
    m.client(identity(OWNER), "job")
    owner, other, root = identity(OWNER), identity(OTHER), identity(0)
    for who, argv, fields in (
            (owner, ["hint", "job", "priority=5", "weight=7"],
             ["uid=61001 pid=", "cmd=hint target=\"job\"", "priority=5", "weight=7", "groups=\"job\" result=ok"]),
            (other, ["suspend", "job"], ["uid=61002 pid=", "cmd=suspend target=\"job\" result=EPERM why=\"'job' belongs"]),
            (owner, ["suspend", "job"], ["uid=61001", "cmd=suspend target=\"job\" groups=\"job\" result=ok"]),
            (root, ["resume", "job"], ["uid=0", "cmd=resume target=\"job\" groups=\"job\" result=ok"]),
            (other, ["policy", "fair"], ["uid=61002", "cmd=policy set=\"fair\" result=EPERM"]),
            (root, ["policy", "fair", "slice=2ms"], ["uid=0", "cmd=policy set=\"fair slice=2ms\" result=ok"]),
            (root, ["policy", "fair", "slice=0"], ["uid=0", "cmd=policy set=\"fair slice=0\" result=ERANGE"]),
            (other, ["reload"], ["uid=61002", "cmd=reload result=EPERM"]),
            (root, ["suspend", "x\" result=ok"], ["uid=0", "target=\"x? result=ok\" result=ENOENT"])):
        m.run(who, *argv)
        check(len(m.audit(*fields)) == 1, f"{argv} by {who['user']}: {m.audit()}")
    m.daemon.send_signal(signal.SIGHUP)
    eventually("a signal is a line as well", lambda: m.audit("uid=0", f"pid={os.getpid()}", "via=SIGHUP result=ok"))
    before = m.audit()
    for argv in ["ps"], ["stats"], ["policy"], ["version"]:
        m.run(other, *argv)
    check(m.audit() == before, "a question is no attempt")


def others_are_as_if_they_were_not_there(stack):
    """No answer to a stranger tells a group, process or task of somebody else from one that there is not."""
    m = Machine(stack, "[limits]\npriority_max = 255\n[admission]\nepsilon_us = 100\n", DAEMON, "--system")
    c = m.client(identity(OWNER), "job")
    queue = m.group(OWNER, "job")["queues"][0]["id"]
    mine = m.client(identity(OTHER), str(c.pid))  # a group that is named like a process of another user
    task = {"name": "theirs", "period_ns": 10000000, "segments": [{"gpu_ns": 1000}]}
    theirs = m.as_user(OWNER, lambda: m.ask({"cmd": "admit", "tasks": [task], "for": c.pid})["admitted"])
    check(theirs, "no task is admitted")

    def told(request, key, name):
        reply = json.dumps({k: v for k, v in m.ask({**request, key: name}).items() if k != "at_ms"})
        return reply.replace(str(name), "NAME")

    def compare_all():
        for cmd in "suspend", "resume", "why", "hint":
            request = {"cmd": cmd, "hints": {"weight": 3}}
            for there, not_there in ("job", "nojob"), (queue, "q999999"), (f"lib_client-{c.pid}", "lib_client-1"):
                check(told(request, "target", there) == told(request, "target", not_there), f"{cmd} {there}")
            reply = m.ask({**request, "target": str(c.pid)})
            check(reply["ok"] and reply.get("groups", [])[:1] != ["job"], f"its own group: {reply}")
        check(told({"cmd": "ps"}, "target", "job") == told({"cmd": "ps"}, "target", "nojob"), "ps")
        check(told({"cmd": "unadmit"}, "task", "theirs") == told({"cmd": "unadmit"}, "task", "nobodys"), "unadmit by name")
        check(told({"cmd": "unadmit"}, "task", "t1") == told({"cmd": "unadmit"}, "task", "t9"), "unadmit by id")
        admit = {"cmd": "admit", "tasks": [task]}
        check(told(admit, "for", c.pid) == told(admit, "for", 2**30), "admit")
        return True

    check(m.as_user(OTHER, compare_all), "not all was tried")
    check(m.audit("uid=61002", "cmd=suspend target=\"job\"", "result=EPERM why=\"'job' belongs to another user\""), f"the log tells: {m.audit()}")
    check(m.audit("uid=61002", "cmd=suspend target=\"nojob\"", "result=ENOENT"), f"the log tells: {m.audit()}")
    mine.quit()


def places_of_recordings(stack):
    """Two of each user, eight in all, and one for root."""
    m = Machine(stack, "", DAEMON, "--system")
    connections = []

    def record(uid):
        """0, or the error; the connection stays."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

        def attempt():
            s.connect(os.path.join(m.run_dir, "control.sock"))
            s.sendall(b'{"cmd":"trace"}\n')
            reply = json.loads(s.makefile().readline())
            return 0 if reply["ok"] else {"EDQUOT": 1, "EBUSY": 2}[reply["error"]["code"]]

        connections.append(stack.enter_context(s))
        return m.as_user(uid, attempt)

    for uid in 62001, 62002, 62003:
        check([record(uid) for _ in range(3)] == [0, 0, 1], "more than two of one user")
    check([record(0), record(0), record(62004)] == [0, 0, 0], "root takes its own place first")
    check([record(62005), record(0)] == [2, 2], "more than eight and one")
    connections[0].close()
    eventually("the place is free", lambda: record(62001) == 0)
    for s in connections:
        s.close()
    eventually("all are free", lambda: record(62001) == 0)
    for uid in 62001, 62002, 62003, 62004:
        record(uid)
        record(uid)
    check(record(62005) == 2, "more than eight")
    check(record(0) == 0, "root's place is taken")


def nobody_floods_the_log(stack):
    m = Machine(stack, "", DAEMON, "--system")
    m.client(identity(OWNER), "job")
    attempts = 1500

    def flood():
        with m.connect() as s:
            lines = s.makefile("rw")
            for i in range(attempts):
                lines.write(json.dumps({"cmd": "suspend" if i % 3 else "resume", "target": "job"}) + "\n")
                lines.flush()
                if "ENOENT" not in lines.readline():
                    return i
            return attempts

    def counted():
        left_out = sum(int(re.search(r"left_out=(\d+) ok=0 ", line)[1]) for line in m.audit("uid=61002", "left_out="))
        return len(m.audit("uid=61002", "result=EPERM")) + left_out

    begin = time.monotonic()
    check(m.as_user(OTHER, flood) == attempts, "not all were answered")
    check(m.cli(identity(0), "suspend", "job") and m.audit("uid=0", "cmd=suspend"), "root's line is not there")
    check(m.cli(identity(OWNER), "resume", "job") and m.audit("uid=61001", "cmd=resume"), "its user's line is not there")
    eventually("all are counted", lambda: counted() == attempts)
    seconds = time.monotonic() - begin
    written = len(m.audit("uid=61002"))
    check(written <= 11 * (seconds + 2), f"{written} lines in {seconds:.1f} s")


def programs_do_not_flood_it(stack):
    m = Machine(stack, "", DAEMON, "--system")

    def nonsense(times):
        for _ in range(times):
            with m.connect("client.sock", socket.SOCK_SEQPACKET) as s:
                s.send(b"nonsense")
                s.recv(4096)
        return True

    def refused(uid):
        return [line for line in m.log().splitlines() if f"user {uid}) refused: " in line]

    begin = time.monotonic()
    m.as_user(OTHER, lambda: nonsense(500))
    m.as_user(OWNER, lambda: nonsense(1))
    check(len(refused(OWNER)) == 1, "its line is crowded out by those of another user")
    eventually("all are counted", lambda: 500 == len(refused(OTHER)) + sum(
        int(re.search(r"refused=(\d+)", line)[1]) for line in m.audit("uid=61002", "left_out=")))
    seconds = time.monotonic() - begin
    check(len(refused(OTHER)) <= 10 * (seconds + 2), f"{len(refused(OTHER))} lines in {seconds:.1f} s")


def many_users_do_not_either(stack):
    m = Machine(stack, "", DAEMON, "--system")
    users = 300

    def attempt():
        with m.connect() as s:
            s.sendall(b'{"cmd":"reload"}\n')
            return b"EPERM" in s.recv(4096)

    begin = time.monotonic()
    for i in range(users):
        check(m.as_user(62000 + i, attempt), "it was not refused")
        if i % 60 == 59:  # in the middle of it
            check(m.cli(identity(0), "reload"), "root is refused")

    def counted():
        others = [re.search(r"left_out=(\d+) ok=0 refused=\1$", line) for line in m.audit("uid=others")]
        return sum(int(o[1]) for o in others) + len(m.audit("result=EPERM"))

    eventually("all are counted", lambda: counted() == users)
    written, seconds = len(m.audit("result=EPERM")), time.monotonic() - begin
    check(written <= 32 * (seconds + 2), f"{written} lines in {seconds:.1f} s")
    check(len(m.audit("uid=0", "cmd=reload result=ok")) == users // 60, f"root's lines are crowded out: {m.audit('uid=0')}")


main(the_daemon_of_the_system, whom_one_waits_for, the_daemon_of_one_user, root_is_no_member_of_the_machine, limits_of_users_and_groups,
     whose_limit_counts, limits_are_read_again, *seldom_sanitized(ordinary_users_stay_below_realtime, many_groups_gain_a_user_nothing),
     each_attempt_is_a_line, others_are_as_if_they_were_not_there, places_of_recordings, nobody_floods_the_log,
     programs_do_not_flood_it, many_users_do_not_either)
