#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""<fermata/bind.h>: queues of any API are in the groups that the program chooses, under the daemon's rule; and a program that uses
several APIs at once is one group unless it says otherwise."""
import errno
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from any_apis import Apis, queues_of, start, there, world
from harness import BUILD, Program, check, eventually, main, program, runtime

def settles(f, p, want):
    want = sorted(want)
    eventually(f"its queues are {want}, not {queues_of(f, p)}", lambda: queues_of(f, p) == want)


def hints(f, name):
    return next(g["hints"] for g in f.ps()["groups"] if g["name"] == name)


def one_group_for_all(stack):
    """OpenCL, Vulkan and CUDA at once, and whatever else there is: one group, stopped as one."""
    f = world(stack)
    apis = there()
    check({"opencl", "cuda"} <= set(apis), f"there are {apis}")
    p = start(f, *apis)
    settles(f, p, [(api, f"any_apis-{p.pid}") for api in apis])
    groups = f.ps()["groups"]
    check(len(groups) == 1 and groups[0]["clients"] == len(apis), f"groups: {groups}")
    # Whatever is in front of it, each command waits: also that of the last API.
    f.cli("suspend", str(p.pid))
    p.stands()
    f.cli("resume", str(p.pid))
    p.advances()
    p.finish()
    eventually("it is gone", lambda: not f.ps()["groups"])


def each_api(stack):
    f = world(stack)
    own = "any_apis-{}"
    for api in there():
        p = start(f, api)
        p.must(f"bind {api} urgent 7")
        settles(f, p, [(api, "urgent")])
        eventually("the group has the hint", lambda: hints(f, "urgent")["priority"] == 7)
        p.must(f"bind {api} urgent 9")
        eventually("and then the other", lambda: hints(f, "urgent")["priority"] == 9)
        f.cli("suspend", "urgent")
        p.stands()
        f.cli("resume", "urgent")
        p.advances()
        p.must(f"bind {api} other")
        settles(f, p, [(api, "other")])
        p.must(f"unbind {api}")
        settles(f, p, [(api, own.format(p.pid))])
        rc = p.say(f"unbind {api}")
        check(rc == -errno.ENOENT, f"unbound twice: {rc}")
        p.must(f"bind {api} .")
        p.advances()
        p.finish()


def a_thread(stack):
    """Queues that come while the thread is bound join the group, those of other threads do not, and they stay."""
    f = world(stack)
    for api in there():
        p = start(f, api)
        own = f"any_apis-{p.pid}"
        p.must("thread mine 3")
        p.must(f"more {api}")
        settles(f, p, [(api, own), (api, "mine")])
        check(hints(f, "mine")["priority"] == 3, f"hints: {hints(f, 'mine')}")
        p.must(f"elsewhere {api}")
        settles(f, p, [(api, own), (api, own), (api, "mine")])
        # What an operator says since is not undone by the next queue.
        f.cli("hint", "mine", "priority=5")
        p.must(f"more {api}")
        settles(f, p, [(api, own), (api, own), (api, "mine"), (api, "mine")])
        check(hints(f, "mine")["priority"] == 5, f"hints: {hints(f, 'mine')}")
        p.must("thread -")
        p.must(f"more {api}")
        settles(f, p, [(api, own)] * 3 + [(api, "mine")] * 2)
        f.cli("suspend", "mine")
        p.stands()
        f.cli("resume", "mine")
        p.advances()
        p.finish()


def a_thread_before_the_shim(stack):
    """OpenCL's and Vulkan's shims come with the first call of their API, after the thread was bound."""
    f = world(stack)
    apis = [api for api in there() if api in ("opencl", "vulkan")]
    p = start(f, "thread=early", *apis)
    settles(f, p, [(api, "early") for api in apis])
    p.finish()


def groups_across_apis(stack):
    """A group of one API's queue and another's is stopped alone, and the rest of the process goes on."""
    f = world(stack)
    p = start(f, "opencl", "cuda")
    q = start(f, "cuda")
    p.must("bind opencl team")
    q.must("bind cuda team")
    settles(f, p, [("cuda", f"any_apis-{p.pid}"), ("opencl", "team")])
    f.cli("suspend", "team")
    p.stands()
    q.stands()
    f.cli("resume", "team")
    p.advances()
    q.advances()
    f.cli("suspend", f"any_apis-{p.pid}")
    p.stands()
    q.advances()
    f.cli("resume", f"any_apis-{p.pid}")
    p.finish()
    q.finish()


def daemons_come_and_go(stack):
    f = world(stack)
    apis = there()
    p = start(f, *apis)
    for api in apis:
        p.must(f"bind {api} kept 4")
    f.kill()
    p.advances()
    p.must(f"bind {apis[0]} moved 6")
    p.must(f"unbind {apis[1]}")
    f.start()
    settles(f, p, [(apis[0], "moved"), (apis[1], f"any_apis-{p.pid}"), *[(api, "kept") for api in apis[2:]]])
    check(hints(f, "moved")["priority"] == 6, f"hints: {hints(f, 'moved')}")
    p.finish()


def mistakes(stack):
    f = world(stack)
    p = start(f, "opencl")
    for line, want in (("bind none urgent", errno.ENOSYS), ("bind vulkan urgent", errno.ENOSYS), ("bind opencl a/b", errno.EINVAL),
                       (f"bind opencl {'x' * 64}", errno.EINVAL), ("bind opencl urgent 100000", errno.ERANGE),
                       ("thread a/b", errno.EINVAL), ("thread mine -99999", errno.ERANGE)):
        rc = p.say(line)
        check(rc == -want, f"'{line}': {rc}")
    settles(f, p, [("opencl", f"any_apis-{p.pid}")])
    for n in range(15):
        p.must(f"bind opencl g{n}")
    check(p.say("bind opencl g15") == -errno.ENOSPC, "more names than there may be")
    settles(f, p, [("opencl", "g14")])
    # A thread's queue is in the process's own group then; its hints are not that group's.
    p.must("thread g16 9")
    p.must("more opencl")
    settles(f, p, [("opencl", "g14"), ("opencl", f"any_apis-{p.pid}")])
    check(hints(f, f"any_apis-{p.pid}")["priority"] == 0, "the hints went to another group")
    p.must("fork")
    p.finish()


def switched_off(stack):
    f = world(stack)
    f.env["FERMATA_DISABLE"] = "1"
    p = start(f, "opencl", "cuda", queues=0)
    check(p.say("bind none urgent") == -errno.ENOSYS, "there is no such API")
    for api in ("opencl", "cuda"):
        rc = p.say(f"bind {api} urgent")
        check(rc in (-errno.ENODEV, -errno.ENOSYS), f"{api}, switched off: {rc}")
    p.advances()
    p.finish()


def without_fermata(stack):
    """Linked with the library alone: no shim is there, and none is needed."""
    f = world(stack)
    p = Apis([program("any_apis"), "opencl"], env=f.env)
    stack.callback(p.close)
    p.line("ready")
    for line in ("bind opencl urgent", "bind cuda urgent", "unbind opencl", "thread mine", "thread -"):
        rc = p.say(line)
        check(rc == -errno.ENOSYS, f"'{line}': {rc}")
    p.must("more opencl")
    p.advances()
    p.finish()


# --- the module of Python ---

IN_PYTHON = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bind_python.py"), os.path.join(BUILD, "tests", "libany_queues.so")]


def python(f, case, *apis):
    return f.program([*IN_PYTHON, case, *apis], cls=Program)


def ends(p):
    p.line("done")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")


def own(f, p):
    """The process's own group, whose name is the program's: that of Python."""
    return next(g["name"] for g in f.ps()["groups"] if g["name"].endswith(f"-{p.pid}"))


def python_binds(stack):
    binds_in_python(world(stack), there())


def binds_in_python(f, apis):
    p = python(f, "binds", *apis)
    for step, group, hint in (("bound", "{}-urgent", 64), ("together", "team", 0), ("joined", "joined", 9), ("unbound", None, 0)):
        p.line(step)
        settles(f, p, [(api, group.format(api) if group else own(f, p)) for api in apis])
        if step == "bound":
            got = hints(f, f"{apis[-1]}-urgent")
            check((got["priority"], got["weight"], got["deadline_ms"]) == (hint, 7, 5), f"hints: {got}")
        elif group:
            check(hints(f, group)["priority"] == hint, f"{step}: {hints(f, group)}")
        p.tell("go on")
    ends(p)


def python_threads(stack):
    threads_in_python(world(stack), there())


def threads_in_python(f, apis):
    p = python(f, "threads", *apis)
    early = [(api, "early") for api in apis]
    p.line("early")
    settles(f, p, early)
    check(hints(f, "early")["priority"] == 3, f"hints: {hints(f, 'early')}")
    p.tell("go on")
    p.line("mine")
    mine = early + [(api, "mine") for api in apis]
    eventually("other threads' queues are there", lambda: len(queues_of(f, p)) == 3 * len(apis))
    settles(f, p, mine + [(api, own(f, p)) for api in apis])
    check(hints(f, "mine")["priority"] == 5, f"hints: {hints(f, 'mine')}")
    p.tell("go on")
    p.line("own")
    settles(f, p, mine + [(api, own(f, p)) for api in apis * 2])
    p.tell("go on")
    ends(p)


def python_without_preloads(stack):
    """OpenCL's and Vulkan's shims alone, which their loaders open for themselves."""
    f = world(stack)
    f.env = {k: v for k, v in f.env.items() if not k.startswith("FERMATA_") or k == "FERMATA_SOCKET"}
    # With the check of locks' order libraries have more for each thread than the C library keeps room for in those that come late.
    f.env.update(FERMATA_CUDA="0", LD_PRELOAD=runtime(), GLIBC_TUNABLES="glibc.rtld.optional_static_tls=8192")
    apis = [api for api in there() if api in ("opencl", "vulkan")]
    binds_in_python(f, apis)
    threads_in_python(f, apis)
    p = python(f, "late")
    p.line("bound")
    settles(f, p, [("opencl", "urgent"), ("opencl", "mine")])
    p.tell("go on")
    ends(p)


def python_mistakes(stack):
    f = world(stack)
    p = python(f, "mistakes", "opencl")
    p.line("bound")
    settles(f, p, [("opencl", "g14")])
    p.tell("go on")
    ends(p)


def python_without_fermata(stack):
    f = world(stack)
    env = {**f.env, "LD_PRELOAD": runtime()}
    r = subprocess.run([*IN_PYTHON, "without", "opencl", "cuda"], env=env, capture_output=True, text=True, timeout=120)
    check(r.returncode == 0 and r.stdout == "done\n", f"status {r.returncode}: {r.stdout}{r.stderr}")


main(one_group_for_all, each_api, a_thread, a_thread_before_the_shim, groups_across_apis, daemons_come_and_go, mistakes, switched_off,
     without_fermata, python_binds, python_threads, python_without_preloads, python_mistakes, python_without_fermata)
