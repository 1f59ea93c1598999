#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The policy `foreground', with contrib/fermata-active-window and window systems that are told what to say."""

import os
import signal
import socket
import stat
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, Fermata, LibClient, Program, check, eventually, lib_client, main, program  # noqa: E402

HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "contrib", "fermata-active-window")

# Windows are numbered by their process. `says` is a FIFO with what the window system tells of changes.
XPROP = """#!/bin/sh
case $1 in
-spy) exec cat "$DIR/says" ;;
-id) [ -e "$DIR/host" ] && host=$(cat "$DIR/host") || host=$(uname -n)
    printf '_NET_WM_PID(CARDINAL) = %d\\nWM_CLIENT_MACHINE(STRING) = "%s"\\n' "$2" "$host" ;;
esac
"""
SWAYMSG = """#!/bin/sh
case "$*" in
*subscribe*) exec cat "$DIR/says" ;;
*get_tree*) cat "$DIR/tree" ;;
esac
"""


class Desktop:
    def __init__(self, stack, f, *options):
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-desktop-"))
        for name, text in ("xprop", XPROP), ("swaymsg", SWAYMSG):
            path = os.path.join(self.dir, name)
            with open(path, "w", encoding="ascii") as script:
                script.write(text)
            os.chmod(path, stat.S_IRWXU)
        os.mkfifo(os.path.join(self.dir, "says"))
        path = ":".join([self.dir, os.path.join(BUILD, "bin"), os.environ["PATH"]])
        self.sway = "--sway" in options
        if self.sway:
            self.tree(0)
        self.helper = Program([sys.executable, HELPER, *options], env=dict(f.env, PATH=path, DIR=self.dir))
        stack.callback(self.helper.close)
        # For reading too: so it opens at once, whether somebody reads already or never will.
        fifo = os.open(os.path.join(self.dir, "says"), os.O_RDWR)
        self.says = stack.enter_context(open(fifo, "w", encoding="ascii"))

    def tree(self, pid):
        leaf = f'{{"focused":true,"pid":{pid},"nodes":[]}}' if pid else '{"focused":true,"nodes":[]}'
        other = '{"focused":false,"pid":1,"nodes":[]}'
        with open(os.path.join(self.dir, "new"), "w", encoding="ascii") as f:
            f.write(f'{{"focused":false,"nodes":[{{"nodes":[{other}],"floating_nodes":[{leaf}]}}]}}')
        os.rename(os.path.join(self.dir, "new"), os.path.join(self.dir, "tree"))

    def activate(self, pid):
        if self.sway:
            self.tree(pid)
            self.says.write('{"change":"focus","container":{}}\n')
        else:
            self.says.write(f"_NET_ACTIVE_WINDOW(WINDOW): window id # {pid:#x}\n")
        self.says.flush()

    def host(self, name):
        with open(os.path.join(self.dir, "host"), "w", encoding="ascii") as f:
            f.write(name)


def has_foreground(f, *clients):
    """These and no others have the hint."""
    def hints():
        return {q["pid"] for g in f.ps()["groups"] for q in g["queues"] if g["hints"]["foreground"]}

    pids = {c.pid for c in clients}
    eventually(f"{pids} are in the foreground", lambda: hints() == pids)


def runs_alone(one, other):
    with one.segment():
        still = other.stands_still()
        one.advances(50)
        other.stood(still)


def the_active_window_goes_first(stack, *options):
    f = Fermata(stack)
    f.cli("policy", "foreground")
    a, b = lib_client(f, stack), lib_client(f, stack)
    for c in a, b:
        c.do("feed")
        c.advances()  # nobody is in the foreground: both in turns
    d = Desktop(stack, f, *options)
    d.activate(a.pid)
    has_foreground(f, a)
    runs_alone(a, b)
    d.activate(b.pid)
    has_foreground(f, b)
    runs_alone(b, a)
    b.do("enough")
    a.advances()  # the time that the foreground leaves
    d.activate(0)
    has_foreground(f)
    d.activate(os.getpid())  # of which both are children
    has_foreground(f, a, b)
    d.activate(1)  # nobody's descendants are meant by process 1
    has_foreground(f)
    for c in a, b:
        c.quit()


def on_x11(stack):
    the_active_window_goes_first(stack)


def on_sway(stack):
    the_active_window_goes_first(stack, "--sway")


def a_program_that_comes_later_is_found(stack):
    f = Fermata(stack)
    d = Desktop(stack, f, "--x11", "--every", "0.05")
    d.activate(os.getpid())
    a = lib_client(f, stack)
    has_foreground(f, a)
    f.kill()  # the daemon is gone for a while
    b = LibClient([program("lib_client"), "-"], env=f.env)
    stack.callback(b.close)
    b.line("ready 0")
    f.start()
    eventually("b joined", lambda: b.state()["daemon"])
    has_foreground(f, a, b)
    d.activate(0)
    has_foreground(f)


def another_machines_window_is_nobodys(stack):
    f = Fermata(stack)
    a, b = lib_client(f, stack), lib_client(f, stack)
    d = Desktop(stack, f)
    d.activate(a.pid)
    has_foreground(f, a)
    d.host("far.example.org")
    d.activate(b.pid)
    has_foreground(f)
    d.host(socket.gethostname())
    d.activate(b.pid)
    has_foreground(f, b)


def it_takes_its_hints_back(stack):
    f = Fermata(stack)
    a = lib_client(f, stack)
    d = Desktop(stack, f)
    d.activate(a.pid)
    has_foreground(f, a)
    d.helper.kill(signal.SIGTERM)
    check(d.helper.wait() == 0, "it was ended, and says otherwise")
    has_foreground(f)
    d = Desktop(stack, f)
    d.activate(a.pid)
    has_foreground(f, a)
    d.says.close()  # the window system has gone
    check(d.helper.wait() == 1, "it lost the window system, and does not say so")
    has_foreground(f)


if __name__ == "__main__":
    main(on_x11, on_sway, a_program_that_comes_later_is_found, another_machines_window_is_nobodys,
         it_takes_its_hints_back)
