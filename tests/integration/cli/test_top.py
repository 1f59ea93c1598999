#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata top` in a real terminal: tmux shows what it draws and presses its keys. And without one, for scripts."""

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA, PATIENCE, Fermata, LibClient, check, eventually, halt, lib_client, main, need, program

EVIL = "evil\u001b[31m\u009b2J\u202e\u0007\n"
HEAD = "GROUP .*STATE"


class Terminal:
    """A shell in a terminal of its own, in which `fermata top` is run."""

    def __init__(self, stack, f, columns=80, rows=24, **env):
        need("tmux")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        self.socket = os.path.join(folder, "tmux")
        self.folder = folder
        self.env = {**f.env, "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh", "PS1": "$ ", "HISTFILE": "", **env}
        for name in ("TMUX", "TMUX_PANE", "NO_COLOR"):
            if name not in env:
                self.env.pop(name, None)
        stack.callback(self.tmux, "kill-server", check_status=False)
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "exec bash --norc --noprofile -i")
        eventually("the shell is there", lambda: "$" in self.text())

    def tmux(self, *argv, check_status=True):
        r = subprocess.run(["tmux", "-u", "-S", self.socket, "-f", "/dev/null", *argv], env=self.env, text=True,
                           capture_output=True, timeout=PATIENCE)
        check(r.returncode == 0 or not check_status, f"tmux {argv}: {r.stderr}")
        return r.stdout

    def text(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.keys("Enter")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def sees(self, *expressions):
        """Wait until the screen has, somewhere, what each of these matches."""
        seen = []

        def look():
            seen[:] = [self.text()]
            return all(re.search(e, seen[0], re.M) for e in expressions)

        try:
            eventually(f"the screen has {expressions}", look)
        except AssertionError as e:
            raise AssertionError(f"{e}:\n{seen[0]}") from e
        return seen[0]

    def of(self, what):
        return self.tmux("display-message", "-p", "#{" + what + "}").strip()

    def on(self, *options, before="", alternate="1"):
        self.type(f"{before}{shlex.join([FERMATA, 'top', *options])}; echo ended $?")
        self.sees(HEAD)
        check(self.of("alternate_on") == alternate, "it has a screen of its own, if the terminal has one")

    def settings(self):
        """Those of the terminal, as the shell that waits at its prompt finds them."""
        path = os.path.join(self.folder, "stty")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.type(f"stty -g >{path}.part && mv {path}.part {path}")
        eventually("stty has answered", lambda: os.path.exists(path))
        with open(path, encoding="ascii") as file:
            return file.read()

    def ended(self, status, settings):
        """The terminal is as it was."""
        self.sees(f"^ended {status}$")
        check(self.of("alternate_on") == "0", "the screen is that of before")
        check(self.of("cursor_flag") == "1", "the cursor is shown")
        check(self.settings() == settings, "the terminal's settings are those of before")


def two_groups(stack, f, *names):
    clients = [lib_client(f, stack, name) for name in names or ("alpha", "beta")]
    for c in clients:
        c.do("feed")
    return clients


def by_name(f, name):
    return next((g for g in f.ps()["groups"] if g["name"] == name), None)


def round_robin(stack):
    f = Fermata(stack)
    f.cli("policy", "round-robin", "slice=2")
    return f


def steering(stack):
    """Both groups are there; keys suspend, resume, change priority and policy, and the screen shows it."""
    f = round_robin(stack)
    two_groups(stack, f)
    t = Terminal(stack, f)
    t.on("-o", "group")
    t.sees(r"^fermata round-robin slice=2ms", r"^shared:0 +\[.*%", r" alpha .* (ready|running) .* [1-9][\d.]* ",
           r" beta .* (ready|running) ", r"preempt/s +stop P99 ")
    t.keys("s")
    eventually("alpha is suspended", lambda: by_name(f, "alpha")["suspended"])
    t.sees(" alpha .* suspended ", "^alpha is suspended$")
    check(not by_name(f, "beta")["suspended"], "and nobody else")
    t.keys("s")
    eventually("alpha goes on", lambda: not by_name(f, "alpha")["suspended"])
    t.sees("^alpha is resumed$")
    t.keys("Down", "+", "+", "+", "-")
    eventually("each step counts", lambda: by_name(f, "beta")["hints"]["priority"] == 2)
    t.sees(" beta .* 2 (ready|running)")
    t.keys("p", "-", "7", "Enter")
    eventually("it was typed", lambda: by_name(f, "beta")["hints"]["priority"] == -7)
    t.keys("P")
    t.sees("^ POLICY", r"^ \* round-robin ", "^   fifo ")
    t.keys("Home", "Enter")
    eventually("the policy is another",
               lambda: json.loads(f.cli("policy", "--json").stdout)["policy"]["name"] == "fifo")
    t.sees("^fermata fifo")
    t.keys("Enter")
    t.sees(r"^beta of .*priority -7", "priority=-7", r"on shared:0: ", r"^  q\d+ +lib_client, ")
    t.keys("q", "?")
    t.sees("^ HELP")
    t.keys("q", "q")
    t.sees("^ended 0$")


def tasks_of_a_set(stack):
    f = Fermata(stack)
    s = LibClient([program("set_client"), "team"], env=f.env)
    stack.callback(s.close)
    check(s.line("ready") == "ready 0", "the client could not set itself up")
    f.knows(s.pid)
    t = Terminal(stack, f, 110)
    t.on()
    t.sees(" team ")
    t.keys("Enter")
    t.sees(r"decides itself, by edf, resident: \d+ decisions", r"camera.*: [1-9]\d* of \d+ jobs done, \d+ wait", r"learner: 0 of 0 jobs done")
    t.keys("q", "q")
    t.sees("^ended 0$")


def sizes(stack):
    """Whatever the size: devices, groups and their states can be read, and no line is too long."""
    f = round_robin(stack)
    two_groups(stack, f)
    t = Terminal(stack, f, 132, 40)
    t.on("-o", "group")
    for columns, rows in (80, 24), (60, 15), (40, 10), (300, 60), (80, 24):
        t.resize(columns, rows)
        last = "q quit .*~$" if columns < 70 else "q quit .*more$"
        text = t.sees(HEAD, r"shared:0 +\[", " alpha .*(ready|running)", " beta .*(ready|running)", last)
        lines = text.split("\n")
        check(len(lines) <= rows + 1 and max(map(len, lines)) <= columns, f"{columns}x{rows}:\n{text}")
        if columns == 300:
            check("WAIT%" in text and "TIME" in text, "there is room for all columns")
    t.keys("q")
    t.sees("^ended 0$")


def daemons_come_and_go(stack):
    f = round_robin(stack)
    two_groups(stack, f)
    t = Terminal(stack, f)
    t.on("-o", "group")
    for stop in f.stop, f.kill:
        t.sees(" alpha ")
        stop()
        t.sees("NO DAEMON", " alpha ", "trying again$")
        t.keys("s")
        f.start()
        f.cli("policy", "round-robin")
        eventually("they have joined again", lambda: by_name(f, "alpha") and by_name(f, "beta"))
        t.sees(" 4 groups, ", " alpha .*(ready|running)")
        check(not by_name(f, "alpha")["suspended"], "a key that was pressed for the daemon before is not its")
    halt(f.daemon)
    t.sees("^the daemon does not answer")
    t.keys("?")
    t.sees("^ HELP")
    f.daemon.send_signal(signal.SIGCONT)
    t.keys("q")
    # Whom it has stopped may have given it up meanwhile, and comes back with other queues.
    eventually("all have queues", lambda: all(by_name(f, n) and by_name(f, n)["queues"] for n in ("alpha", "beta")))
    t.sees(" 4 groups, ", " alpha .*(ready|running)")
    t.keys("s")
    t.sees(" alpha .* suspended ")
    t.keys("q")
    t.sees("^ended 0$")


def signals(stack):
    """However it ends, the terminal is given back."""
    f = Fermata(stack)
    t = Terminal(stack, f)
    settings = t.settings()
    for how, status in (("q", 0), ("C-c", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        t.on()
        if isinstance(how, str):
            t.keys(how)
        else:
            shell = int(t.of("pane_pid"))
            with open(f"/proc/{shell}/task/{shell}/children", encoding="ascii") as children:
                os.kill(int(children.read().split()[0]), how)
        # A shell that is told of an interrupt gives up the rest of its line.
        if how == "C-c":
            t.sees("^\\$ *$")  # the shell reads again: what is typed before is thrown away as top restores the terminal
            check(t.of("alternate_on") == "0", "the screen is that of before")
            check(t.settings() == settings, "the terminal's settings are those of before")
        else:
            t.ended(status, settings)
        t.type("clear")
        eventually("nothing of it is left", lambda: "ended" not in t.text())
    t.on()
    t.keys("C-z")
    t.sees("Stopped")
    check(t.of("alternate_on") == "0", "who is stopped gives the terminal back")
    check(t.settings() == settings, "and its settings")
    t.type("fg")
    t.sees(HEAD)
    t.keys("q")
    t.sees("^\\$ *$")
    check(t.settings() == settings, "the terminal's settings are those of before")


def colours(stack):
    f = round_robin(stack)
    two_groups(stack, f)
    for env, coloured, glyph in (
            ("", True, "█"), ("NO_COLOR=1 ", False, "█"), ("LC_ALL=C ", True, "#"), ("TERM=vt100 LC_ALL=C ", False, "#")):
        t = Terminal(stack, f)
        t.on(before=env, alternate=str(int("vt100" not in env)))
        t.sees(r"shared:0 +\[[^ ]")
        text = t.text("-e")
        check(bool(re.search(r"\x1b\[([\d;]*;)?3[1-6]m", text)) == coloured, f"{env}:\n{text!r}")
        check((glyph == "█") == ("█" in text), f"{env}:\n{text}")
        t.keys("q")
        t.sees("^ended 0$")
        t.tmux("kill-server")


def terminals_that_will_not_do(stack):
    f = Fermata(stack)
    t = Terminal(stack, f)
    for term in "dumb", "no-such-terminal":
        t.type(f"TERM={term} {FERMATA} top; echo ended $?")
        t.sees(f"^fermata: the terminal '{term}'", "^  hint: .*fermata top --once", "^ended 1$")
        t.type("clear")
        eventually("it is clear", lambda: "ended" not in t.text())
    r = f.cli("top", check_status=False)
    check(r.returncode == 1 and "--once" in r.stderr, r.stderr)


class Hostile(threading.Thread):
    """A daemon whose groups have names that would steer the terminal."""

    def __init__(self, stack, folder):
        super().__init__(daemon=True)
        self.server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self.server.bind(os.path.join(folder, "control.sock"))
        self.server.listen(8)
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.server.accept()[0],), daemon=True).start()

    def serve(self, peer):
        policy = {"name": EVIL, "params": {EVIL: EVIL}}
        ent = [EVIL, EVIL, 5, 5, 5, 5, 5, 5]
        page = {"ok": True, "policy": policy, "devices": [{"key": EVIL}], "next": None,
                "items": [[EVIL, 1, False, 1, 1, EVIL, 1, 2, [ent], 5], ["x" * 3000, 2, True, 0, 0, None, 0, 0, [], 5]]}
        full = {"ok": True, "groups": [{"name": EVIL, "hints": {EVIL: 1}, "devices": [{"device": EVIL, "reason": EVIL}],
                                        "queues": [{"id": EVIL, "program": EVIL}]}]}
        error = {"ok": False, "error": {"text": EVIL, "hint": EVIL}}
        available = {"ok": True, "policy": policy, "available": [{"name": EVIL, "summary": EVIL}]}
        with contextlib.suppress(OSError), peer, peer.makefile() as lines:
            for line in lines:
                request = json.loads(line)
                reply = {"version": {"ok": True}, "tasks": {"ok": True, "tasks": []}, "policy": available,
                         "metrics": page, "ps": full}.get(request["cmd"], error)
                peer.sendall(json.dumps(reply).encode() + b"\n")


def names_do_not_steer_the_terminal(stack):
    f = Fermata(stack, start=False)
    Hostile(stack, f.dir)
    t = Terminal(stack, f)
    t.on("-o", "group")
    t.tmux("pipe-pane", f"cat >{t.folder}/raw")
    eventually("somebody listens", lambda: os.path.exists(f"{t.folder}/raw"))
    t.sees(r"evil\?\[31m\?2J\?\?\? ", r" x{10,}~ ")
    t.keys("Enter")
    t.sees(r"^evil.* of \w+ \(uid 1\)", r"on evil\?")
    t.keys("q", "s")
    t.sees(r"^evil\?\[31m\?2J\?\?\?: evil")
    t.keys("P")
    t.sees(r"^ POLICY", r"^ \* evil")
    t.keys("q", "q")
    t.sees("^ended 0$")
    with open(f"{t.folder}/raw", "rb") as file:
        raw = file.read()
    check(b"evil" in raw, "what it wrote was seen")
    check(b"\x07" not in raw and b"\xc2\x9b" not in raw and b"\x1b[31m\x9b" not in raw and b"\xe2\x80\xae" not in raw,
          "no control came through")
    r = f.cli("top", "--once", "-d", "0.1")
    check("\x1b" not in r.stdout and "\u009b" not in r.stdout and "\u202e" not in r.stdout, repr(r.stdout))


def written_to_a_terminal(f, *options):
    """All that it writes until it ends."""
    pid, fd = pty.fork()
    if not pid:
        os.execvpe(FERMATA, [FERMATA, "top", *options],
                   {**f.env, "TERM": "xterm", "LINES": "24", "COLUMNS": "80", "LC_ALL": "C.UTF-8"})
    data = b""
    with contextlib.suppress(OSError):
        while more := os.read(fd, 65536):
            data += more
    os.close(fd)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, f"it ended: {data!r}")
    return data


def only_changes_are_sent(stack):
    """No flicker: where nothing happens, eighteen looks send next to nothing, and clear nothing."""
    f = Fermata(stack)
    lib_client(f, stack, "still")
    said = []

    def quiet():
        """A daemon that comes late is told of, and that is more: then once more."""
        short, long = (written_to_a_terminal(f, "-d", "0.1", "-n", n) for n in ("3", "18"))
        check(b"still" in short, repr(short))
        clears = [data.count(b"\x1b[2J") for data in (short, long)]
        said.append(f"{len(short)} bytes for three looks, {len(long)} for eighteen; cleared {clears} times")
        return clears[0] == clears[1] and len(long) < len(short) + 500

    check(any(quiet() for _ in range(8)), f"{said}")


def scripts(stack):
    f = round_robin(stack)
    two_groups(stack, f)
    f.cli("hint", "beta", "priority=3")

    def ran():
        """A look in which both have had the device, and waited for it."""
        r = json.loads(f.cli("top", "--once", "--json", "-d", "0.2").stdout)
        groups = {g["name"]: g for g in r["groups"]}
        return all(groups[n]["share"] > 0 and (groups[n]["wait_p99_us"] or 0) > 0 for n in ("alpha", "beta")) and (r, groups)

    r, groups = eventually("both run", ran)
    check(r["policy"]["name"] == "round-robin" and r["interval_s"] > 0.1, r)
    alpha, beta = groups["alpha"], groups["beta"]
    check(beta["priority"] == 3 and beta["queues"] == 1 and beta["level_max"] == 3, beta)
    check(0 < alpha["share"] <= 1 and alpha["devices"][0]["device"] == "shared:0", alpha)
    check(alpha["wait_p99_us"] >= alpha["wait_p50_us"] > 0 and alpha["deadline_misses"] is None, alpha)
    check(r["devices"][0]["share"] <= 1 and r["devices"][0]["groups"] >= 2, r["devices"])
    many = [json.loads(line) for line in f.cli("top", "-b", "-n", "3", "-d", "0.1", "--json").stdout.splitlines()]
    check(len(many) == 3 and all(len(m["groups"]) >= 2 for m in many), many)
    text = f.cli("top", "--once", "-d", "0.1", "-o", "group").stdout
    check(re.search(r"^DEVICE .*\nshared:0 ", text) and re.search(r"^GROUP .*\nalpha .*\nbeta ", text, re.M), text)
    check("alpha" not in f.cli("top", "--once", "-d", "0.1", "-u", "nobody-at-all").stdout, "groups of one user")
    check(f.cli("top", "-b", "-n", "2", "-d", "0.1").stdout.count("GROUP ") == 2, "one table after another")
    for wrong in (["--json"], ["-d", "0"], ["-d", "nan"], ["-n", "0"], ["-o", "colour"], ["more"], ["-u", "x" * 99]):
        r = f.cli("top", *wrong, check_status=False)
        check(r.returncode == 2 and "hint" in r.stderr, f"{wrong}: {r.returncode} {r.stderr}")
    f.stop()
    for options in ["--once"], ["-b", "--json"], []:
        r = f.cli("top", *options, check_status=False)
        check(r.returncode == 4 and "hint" in r.stderr, f"{options}: {r.returncode} {r.stderr}")


def misses(stack):
    """A job that ends after its deadline is counted as missed."""
    f = Fermata(stack, "[admission]\nepsilon_us = 200\n")
    client = lib_client(f, stack, "late")
    client.ask("admit 1000 50")
    f.cli("suspend", "late")
    client.tell("burst 3")

    def group():
        r = json.loads(f.cli("top", "--once", "--json", "-d", "0.1").stdout)
        return next(g for g in r["groups"] if g["name"] == "late")

    eventually("it has waited for longer than its deadline", lambda: group()["state"] == "suspended" and
               "a job has taken" in "".join(f.log()))
    for _ in range(3):  # each takes more than two deadlines
        check(group()["deadline_misses"] == 0, "it has not ended")
    f.cli("resume", "late")
    client.line("burst 0")
    eventually("it was missed", lambda: group()["deadline_misses"] == 1)
    client.ask("burst 1")
    check(json.loads(f.cli("ps", "--tasks", "--json").stdout)["tasks"][0]["misses"] >= 1, "ps tells as well")


def asked(stack):
    """ps for one target alone; rows of groups in pages."""
    f = Fermata(stack)
    two_groups(stack, f)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(os.path.join(f.dir, "control.sock"))
        with s.makefile("r") as replies:
            def ask(cmd="ps", **more):
                s.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
                return json.loads(replies.readline())

            queue = by_name(f, "beta")["queues"][0]["id"]
            eventually("alpha is on the device", lambda: by_name(f, "alpha")["devices"])
            check([g["name"] for g in ask(target=queue)["groups"]] == ["beta"], "by its queue")
            check([g["name"] for g in ask(target="alpha")["groups"]] == ["alpha"], "by its name")
            check(ask(target="nobody")["groups"] == [], "nobody")
            page = ask("metrics", part="rows")
            row = next(r for r in page["items"] if r[0] == "beta")
            check(len(row) == 11 and row[10] is None and row[1:3] == [os.getuid(), False] and row[5] == queue and row[6:8] == [3, 3]
                  and row[8][0][0] == "shared:0" and page["at_ms"] * 1e6 <= row[9] + 1000, row)
            check(page["policy"]["name"] and page["devices"][0]["key"] == "shared:0" and page["next"] is None, page)
            check(ask()["at_ms"] > 0, "when it was")


def more_groups_than_a_page_has(stack):
    f = Fermata(stack)
    clients = [lib_client(f, stack) for _ in range(4)]
    for c in clients:
        c.do("more 15")
    eventually("all are known", lambda: f.stats()["queues"] == 64)
    page = json.loads(f.cli("top", "--once", "--json", "-d", "0.1").stdout)
    names = sorted(g["name"] for g in page["groups"])
    check(names == sorted([f"lib_client-{c.pid}" for c in clients] + [f"{c.pid}.{i}" for c in clients for i in range(15)]),
          f"{len(names)} groups: {names}")
    check(page["devices"][0]["groups"] == 64, page["devices"])
    check({g["user"] for g in page["groups"]} == {g["user"] for g in f.ps()["groups"]}, page["groups"][0])


if __name__ == "__main__":
    main(steering, tasks_of_a_set, sizes, daemons_come_and_go, signals, colours, terminals_that_will_not_do,
         names_do_not_steer_the_terminal, only_changes_are_sent, scripts, misses, asked, more_groups_than_a_page_has)
