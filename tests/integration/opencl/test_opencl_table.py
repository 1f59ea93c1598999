#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each call of the OpenCL layer's table, by a program through the loader over a driver that notes down what it is given:
the driver gets the program's arguments, once, the program what the driver returns, and the call is counted as
docs/opencl-coverage.md says. Calls that the layer leaves alone are the driver's own functions."""
import collections
import json
import os
import re
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, PATIENCE, Fermata, check, eventually, main, program

RECORDER = os.path.join(BUILD, "tests", "fakes", "libopencl_recorder.so")
LAYER = os.path.join(BUILD, "lib", "libfermata-opencl.so")
RESULTS = 3  # that each call is made for
ROWS = 16  # of names, on the board of a process

# Parameters in which the driver is given others than the program has, by design. Each must be so.
CHANGED = {
    "clGetProgramInfo": {4},  # the layer needs the size, too, and hands it on
    "clCreateKernelsInProgram": {3},  # likewise the number of kernels
}

# What else the driver is asked by the same thread meanwhile.
BARRIER = {"clRetainEvent", "clReleaseEvent"}
SCHEDULED = {  # trackers and gates, between governed commands
    "clEnqueueMarkerWithWaitList", "clSetEventCallback", "clReleaseEvent", "clFlush",
    "clCreateUserEvent", "clEnqueueBarrierWithWaitList", "clSetUserEventStatus"}
QUEUE = {"clGetCommandQueueInfo", "clGetDeviceInfo", "clGetPlatformInfo", "clGetDeviceIDs", "clCreateUserEvent", "clSetUserEventStatus",
         "clReleaseEvent"}
BESIDES = {
    "clCreateCommandQueue": QUEUE,
    "clCreateCommandQueueWithProperties": QUEUE,
    "clCreateProgramWithBinary": {"clGetDeviceInfo"},
    "clCreateKernel": {"clGetKernelInfo"},
    "clCreateKernelsInProgram": {"clGetKernelInfo"},
    "clCloneKernel": {"clGetKernelInfo"},
    "clWaitForEvents": {"clGetEventInfo"},
}

# What the loader itself answers, or looks into more than the first parameter of.
LOADERS_OWN = {"clGetPlatformIDs", "clCreateContext", "clCreateContextFromType", "clUnloadCompiler", "clGetGLContextInfoKHR"}


def documented():
    """docs/opencl-coverage.md, in the order of the loader's table: of each call, how it goes, and what is noted."""
    with open(os.path.join(os.environ["SOURCE"], "docs", "opencl-coverage.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| (cl\w+) \| (\w+) \| (.*?) *\|$", f.read(), re.M)
    return {name: (how, note) for name, how, note in rows}


DOCUMENTED = documented()
NAMES = list(DOCUMENTED)


def governed(name):
    return DOCUMENTED[name][0] == "governed"


class World:
    def __init__(self, stack, level="3", start=True, **env):
        self.governs = "FERMATA_DISABLE" not in env
        self.level_3 = self.governs and level == "3"
        self.fermata = Fermata(stack, start=start)
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        with open(os.path.join(place, "recorder.icd"), "w", encoding="utf-8") as f:
            f.write(RECORDER + "\n")
        self.fermata.env.update(env, OCL_ICD_VENDORS=place, XDG_CACHE_HOME=place)
        for other in "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES", "OPENCL_LAYERS":
            self.fermata.env.pop(other, None)
        self.p = self.fermata.program([program("opencl_table"), RECORDER], "--level", level)
        self.p.line("ready")
        entries = [line.split()[1:] for line in self.p.lines if line.startswith("entry ")]
        self.kind = {name: kind for name, kind, *_ in entries}
        self.about = {name: about for name, _, about, *_ in entries}
        self.blocking = {name for name, *_, last in entries if last == "blocking"}
        self.control = None
        if start:
            self.control = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self.control.settimeout(PATIENCE)
            self.control.connect(os.path.join(self.fermata.dir, "control.sock"))
            self.replies = stack.enter_context(self.control.makefile("r"))

    def ask(self, *words):
        at = self.p.mark()
        self.p.tell(" ".join(map(str, words)))
        return self.p.line("", after=at)

    def do(self, *words):
        answer = self.ask(*words)
        check(answer == "ok", f"{' '.join(map(str, words))}: {answer}")

    def variants(self, name):
        """Objects, form, and whether it blocks."""
        where = {"cl_command_queue": ("own", "out", "other"), "cl_program": ("own", "other"),
                 "cl_kernel": ("own", "other")}.get(self.about[name], ("other",))
        return [(w, form, blocking) for w in where for form in ("full", "bare", "odd") for blocking in
                ((0, 1) if name in self.blocking else (0,))]

    def call(self, name, where, form, blocking):
        mask = sum(1 << at for at in CHANGED.get(name, ()))
        answer = self.ask("call", name, where, form, blocking, mask)
        text = f"{name}, {where} objects, {form}, blocking {blocking}"
        check(answer.startswith("ok"), f"{text}: {self.named(answer)}")
        words = answer.split()[1:]
        differs = {int(at) for what, at in zip(words[::2], words[1::2]) if what == "differs"}
        besides = {NAMES[int(at)] for what, at in zip(words[::2], words[1::2]) if what == "besides"}
        follows = self.level_3 if self.kind[name] == "code" else self.governs
        right = CHANGED.get(name, set()) if follows else set()
        check(differs == right, f"{text}: others in the parameters {differs}, not {right}")
        allowed = BESIDES.get(name, set()) if follows or name == "clWaitForEvents" else set()
        if self.governs and where == "out" and self.kind[name] == "order":
            allowed = allowed | BARRIER
        if self.control and governed(name):
            allowed = allowed | SCHEDULED
        check(besides <= allowed, f"{text}: {besides - allowed} called besides")

    @staticmethod
    def named(answer):
        return re.sub(r"besides (\d+)", lambda m: f"besides {NAMES[int(m[1])]}", answer)

    def group(self):
        self.control.sendall(b'{"cmd": "ps"}\n')
        for g in json.loads(self.replies.readline())["groups"]:
            if any(q["pid"] == self.p.pid for q in g["queues"]):
                return g
        return None

    def queue(self, queue):
        return next((q for q in (self.group() or {"queues": ()})["queues"] if q["id"] == queue), None)

    def counters(self):
        """What is counted, by queue and by name."""
        group = self.group() or {"queues": (), "calls": (), "ungoverned": 0, "undivided": 0}
        counted = {q["id"]: q["submitted"] for q in group["queues"]}
        counted.update({c["call"]: c["ungoverned"] for c in group["calls"]})
        return collections.Counter(counted, ungoverned=group["ungoverned"], undivided=group["undivided"])

    def adds(self, what, expected, before):
        """The daemon may come to know of a queue after its first command."""
        def added():
            got[:] = [{k: n for k, n in (self.counters() - before).items() if n}]
            return got[0] == expected

        got = []
        try:
            eventually("that is counted", added)
        except AssertionError as e:
            raise AssertionError(f"{what}: {got[0]} is not {expected}") from e

    def make(self, where):
        """A queue that the layer sees made: its id, if there is a daemon."""
        before = {q["id"] for q in (self.group() or {"queues": ()})["queues"]} if self.control else set()
        self.do("make", where)
        if not self.control:
            return None
        return eventually("it has a queue", lambda: {
            q["id"] for q in (self.group() or {"queues": ()})["queues"]} - before).pop()


def each_call(w, counted=True):
    """With the queues that it makes; what goes past an XQueue has names, and there are few places for these."""
    queues = {where: w.make(where) for where in ("own", "out")}
    before = w.counters() if counted else None
    for name in w.kind:
        for variant in w.variants(name):
            where = variant[0]
            if counted and governed(name) and where not in queues:
                continue
            w.call(name, *variant)
            if counted:
                w.adds(f"{name} {variant}", {queues[where]: RESULTS} if governed(name) else {}, before)
                before = w.counters()
    for where in queues:
        w.do("release", where)
    # Barriers and trackers: what the layer holds it lets go of.
    eventually("no event is held", lambda: w.ask("events") == "events 0 0")


def all_of_them(stack):
    """The table, the program and the document know the same calls."""
    w = World(stack, start=False)
    followed = {name for name, (how, _) in DOCUMENTED.items() if how != "passed"}
    check(set(w.kind) == followed, f"not the same: {set(w.kind) ^ followed}")
    for name, kind in w.kind.items():
        check(governed(name) == (kind in ("kernel", "work", "order")), f"{name} is of the kind {kind}")
    for name in {*CHANGED, *BESIDES}:
        check(name in w.kind, f"there is no such call: {name}")
    tells = {name for name, (_, note) in DOCUMENTED.items() if "blocking" in note}
    check(w.blocking == tells, f"not the same: {w.blocking ^ tells}")


def scheduled(stack):
    each_call(World(stack))


def scheduled_at_level_1(stack):
    each_call(World(stack, level="1"))


def unscheduled(stack):
    each_call(World(stack, start=False), counted=False)
    each_call(World(stack, start=False, FERMATA_DISABLE="1"), counted=False)


def past_an_xqueue(stack):
    """What goes to a queue that has none is counted by its name."""
    names = [name for name in NAMES if governed(name)]
    for row in range(0, len(names), ROWS):
        w = World(stack)
        w.make("own")
        w.fermata.knows(w.p.pid)
        before = w.counters()
        for name in names[row:row + ROWS]:
            for variant in w.variants(name):
                if variant[0] == "other":
                    w.call(name, *variant)
                    w.adds(f"{name} {variant}", {name: RESULTS, "ungoverned": RESULTS}, before)
                    before = w.counters()


def left_alone(stack):
    """Through the loader: the driver has the call, and nothing is counted."""
    w = World(stack)
    w.make("own")
    w.fermata.knows(w.p.pid)
    before = w.counters()
    for at, name in enumerate(NAMES):
        if DOCUMENTED[name] == ("passed", "") and name not in LOADERS_OWN:
            answer = w.ask("pass", name, at)
            check(answer == "ok", f"{name}: {answer}")
    w.adds("they", {}, before)


def entries(*words, **env):
    """What the layer makes of a table."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    r = subprocess.run([program("opencl_layer_init"), LAYER, "entries", *map(str, words)], env={**clean, **env},
                       capture_output=True, text=True, timeout=PATIENCE, check=True)
    return dict(zip(NAMES, r.stdout.split(), strict=True))


def own(name, level_3=True):
    """Is it the layer's own function?"""
    return DOCUMENTED[name][0] != "passed" and (level_3 or not re.search("Program|Kernel$|SetKernel|CloneK", name) or governed(name))


def tables(stack):
    """The layer puts its functions where the document says, and where the driver has one; everything else it leaves."""
    n = len(NAMES)
    for env in {}, {"FERMATA_LEVEL": "2"}, {"FERMATA_DISABLE": "1"}:
        for omit in range(4):
            for length in n, n + 20, n - 60:
                got = entries(length, omit, **env)
                for at, name in enumerate(NAMES):
                    right = "own" if own(name, not env) else "passed"
                    right = "absent" if at >= length or (omit < 3 and at % 3 == omit) else right
                    check(got[name] == right, f"{name} is {got[name]}, not {right}: {length}, {omit}, {env}")


def second_table(stack):
    """Calls that the first loader does not have go past the layer, but for look-ups, which each loader has for itself."""
    got = entries(len(NAMES), 0, len(NAMES), 3)
    for at, name in enumerate(NAMES):
        right = "own" if own(name) and (at % 3 or "ExtensionFunction" in name) else "passed"
        check(got[name] == right, f"{name} is {got[name]}, not {right}")


def waits(stack):
    """Where the driver never says that a command is finished: a wait that has worked does, of an in-order queue. Of another
    it says no more than that its own command is."""
    w = World(stack)
    queues = {where: w.make(where) for where in ("own", "out")}
    w.do("late", 1)

    def counts(where):
        q = w.queue(queues[where])
        return q and (q["submitted"], q["done"])

    def has(where, submitted, done, what):
        eventually(f"{what}: {where} has {submitted} commands, {done} of them done", lambda: counts(where) == (submitted, done))

    n, done = dict.fromkeys(queues, 0), dict.fromkeys(queues, 0)
    for name in sorted(w.blocking) + ["clFinish"]:
        for where in queues:
            for works, blocking in ("works", 0), ("fails", 1), ("works", 1):
                what = f"{name} {works}, blocking {blocking}"
                if name == "clFinish" and not blocking:
                    w.do("once", "clEnqueueMarker", where, "works", 0)
                    n[where] += 1
                else:
                    w.do("once", name, where, works, blocking)
                    n[where] += name != "clFinish"
                if works == "works" and blocking and (where == "own" or name == "clFinish"):
                    done[where] = n[where]
                has(where, n[where], done[where], what)
    w.do("late", 0)
    w.do("once", "clEnqueueMarker", "out", "works", 0)


def lives(stack):
    """A queue is scheduled for as long as the program holds it, and says how often that is; queues on the device are not."""
    w = World(stack)
    queue = w.make("own")

    def holds(n):
        check(w.ask("refs", "own") == f"refs {n}", f"{w.ask('refs', 'own')}, not {n}")
        check(w.queue(queue), "the queue is gone")

    holds(1)
    w.do("retain", "own")
    holds(2)
    w.do("release", "own")
    holds(1)
    w.do("release", "own")
    eventually("it is gone", lambda: not w.queue(queue))
    check(w.ask("refs", "own") == "refs 77", "the driver's count of a queue that the layer does not know")
    w.do("make", "device")
    w.make("own")
    check(len(w.group()["queues"]) == 1, "a queue on the device is scheduled")


def look_ups(stack):
    """An enqueue function that the program finds for itself is counted by its name."""
    w = World(stack)
    w.make("own")
    w.fermata.knows(w.p.pid)
    for way in "plain", "platform":
        for name, found, counted in (("clHasEnqueueItREC", True, True), ("clHasCommandBufferREC", True, True),
                                     ("clHasOtherREC", True, False), ("clEnqueueNothingREC", False, False)):
            before = w.counters()
            answer = w.ask("look", name, way)
            check(answer == ("ok" if found else "not found"), f"{name}: {answer}")
            w.adds(f"{name}, {way}", {name: 1, "ungoverned": 1} if counted else {}, before)


if __name__ == "__main__":
    main(all_of_them, scheduled, scheduled_at_level_1, unscheduled, past_an_xqueue, left_alone, tables, second_table, waits, lives,
         look_ups)
