#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Level 3 on OpenCL: a kernel is stopped in its middle and goes on, each work-group running once; what cannot be
rewritten stays at level 2 and says why; and whatever becomes of the daemon, it ends, and is right."""
import json
import os
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, Program, Steering, check, eventually, main, need_level_3, program, seldom_sanitized

GROUPS, STEPS = 20000, 12000
FEW = 2000


class Long(Program):
    """tests/integration/opencl/opencl_long.c"""

    def ask(self, line, answer):
        after = self.mark()
        self.tell(line)
        return self.line(answer, after).split()

    def launch(self):
        self.ask("launch", "launched")

    def count(self):
        return int(self.ask("count", "count ")[1])

    def counts_on(self):
        """Wait until further groups begin; how many have."""
        before = self.count()
        eventually("further groups begin", lambda: self.count() > before)
        return self.count()

    def stands(self):
        """Wait until no group begins any more; how many have."""

        def still():
            before = self.count()
            time.sleep(0.2)
            return self.count() == before

        eventually("no group begins", still)
        return self.count()

    def ends(self, launches, groups):
        done = self.ask("wait", "done ")
        check(int(done[1]) == launches and int(done[5]) == 0, f"wrong: {done}")
        check(int(done[3]) == launches * groups, f"not each group once: {done}")


def start(fermata, kind="plain", groups=GROUPS, *options):
    argv = [program("opencl_long"), kind, str(groups), str(STEPS)]
    if kind == "hidden":  # it writes a file where it is
        argv = ["env", "-C", fermata.dir, *argv]
    p = fermata.program(argv, *options, cls=Long)
    p.line("ready")
    eventually("the daemon knows it", lambda: fermata.group(p.pid))
    return p


def queue(fermata, p):
    return fermata.group(p.pid)["queues"][0]


def guarded(fermata, *options, groups=GROUPS):
    """A long kernel that runs, at level 3."""
    p = start(fermata, "plain", groups, *options)
    need_level_3(3 in queue(fermata, p)["levels"])
    p.launch()
    p.counts_on()
    check(queue(fermata, p)["level"] == 3, f"the level shown: {queue(fermata, p)}")
    return p


def stopped_in_its_middle(stack):
    """Many times: groups ran before, none run while it stands, the others run later. Bit for bit."""
    fermata = Fermata(stack)
    p = guarded(fermata)
    steer = Steering(stack, fermata)
    launches, stops = 1, 0
    while stops < 8:
        check(steer("suspend", p.pid), "it has ended too early")
        n = p.stands() - (launches - 1) * GROUPS
        if n == GROUPS:  # where the daemon or the test came late it had ended before: another one
            check(launches < 8, f"{launches} kernels ran to their ends, {stops} stops")
            steer("resume", p.pid)
            p.ends(launches, GROUPS)
            p.launch()
            launches += 1
        else:
            check(0 < n < GROUPS, f"{n} of {GROUPS} groups: not in its middle")
            check(queue(fermata, p)["done"] == launches - 1, "the command counts as done")
            stops += 1
            steer("resume", p.pid)
        eventually("it goes on", lambda: p.count() > (launches - 1) * GROUPS + (0 if n == GROUPS else n))  # noqa: B023
    p.ends(launches, GROUPS)


def several_launches(stack):
    """What is queued behind a kernel that stands waits; suspended at random, each launch runs whole and once."""
    fermata = Fermata(stack)
    p = guarded(fermata, groups=4 * FEW)
    for _ in range(3):
        p.launch()
    steer, rng = Steering(stack, fermata), random.Random(3)
    p.tell("wait")
    stops = 0
    while not any(line and line.startswith("done") for line in p.lines):
        stops += steer("suspend", p.pid)
        time.sleep(rng.uniform(0, 0.01))
        steer("resume", p.pid)
        time.sleep(rng.uniform(0, 0.02))
    done = p.line("done ").split()
    check(done[1:] == ["4", "groups", str(16 * FEW), "wrong", "0"], f"{done}")
    print(f"         {stops} suspensions")
    check(stops > 0, "never suspended")


def groups_that_wait(stack):
    """Work-groups that wait for others, where the guardian cannot see it: one that waits for one which was left out
    keeps the device while it is suspended, and goes on when it is resumed."""
    fermata = Fermata(stack)
    p = start(fermata, "hidden", 4 * FEW)
    p.launch()
    p.counts_on()
    steer, rng = Steering(stack, fermata), random.Random(4)
    check(queue(fermata, p)["level"] == 3, f"the level shown: {queue(fermata, p)}")
    p.tell("wait")
    while not any(line and line.startswith("done") for line in p.lines):
        steer("suspend", p.pid)
        time.sleep(rng.uniform(0, 0.02))
        steer("resume", p.pid)
        time.sleep(rng.uniform(0, 0.04))
    done = p.line("done ").split()
    check(done[1:] == ["1", "groups", str(4 * FEW), "wrong", "0"], f"{done}")


def gives_way(stack):
    """A program of higher priority gets the device in the middle of the kernel, and the kernel goes on after it."""
    fermata = Fermata(stack, "[daemon]\nlinger_us = 1000000\n")  # however seldom the urgent one gets a processor
    p = guarded(fermata)
    before = fermata.preemptions()
    p.p.send_signal(signal.SIGSTOP)  # so the kernel does not end before anybody comes
    urgent = fermata.worker("--priority", "high")
    urgent.advances()
    p.p.send_signal(signal.SIGCONT)
    check(p.stands() < GROUPS, "the kernel ran to its end")
    urgent.finish()
    eventually("that was a preemption", lambda: fermata.preemptions() > before)
    p.ends(1, GROUPS)


def daemon_dies(stack):
    """A kernel that stands goes on by itself."""
    fermata = Fermata(stack)
    p = guarded(fermata, groups=FEW * 4)
    Steering(stack, fermata)("suspend", p.pid)
    n = p.stands()
    check(n < FEW * 4, "it had ended")
    fermata.kill()
    p.ends(1, FEW * 4)


def program_dies(stack):
    """Killed while its kernel stands: others get the device."""
    fermata = Fermata(stack)
    p = guarded(fermata)
    Steering(stack, fermata)("suspend", p.pid)
    p.stands()
    p.kill()
    p.wait()
    other = fermata.worker()
    other.advances()
    other.finish()


def quits(stack):
    """The program ends by itself while its kernel stands: nothing holds it up."""
    fermata = Fermata(stack)
    for how in ("quit", "return"):
        p = guarded(fermata)
        Steering(stack, fermata)("suspend", p.pid)
        p.stands()
        p.tell(how)
        check(p.wait() == 0, f"{how}: it ended with status {p.p.returncode}")


def switched_off(stack):
    """--level 2: the kernel that runs ends, as without all this."""
    fermata = Fermata(stack)
    p = start(fermata, "plain", FEW, "--level", "2")
    p.launch()
    p.counts_on()
    check(queue(fermata, p)["level"] == 2, f"the level shown: {queue(fermata, p)}")
    Steering(stack, fermata)("suspend", p.pid)
    eventually("all groups begin", lambda: p.count() == FEW)
    Steering(stack, fermata)("resume", p.pid)
    p.ends(1, FEW)


def as_a_hint_says(stack):
    """As it runs: each launch by what is said when it is made."""
    fermata = Fermata(stack)
    p = guarded(fermata, groups=FEW)
    p.ends(1, FEW)
    steer = Steering(stack, fermata)
    for n, hints in (2, ["guard-from=10s"]), (3, ["guard-from=0", "level=2"]):
        fermata.cli("hint", str(p.pid), *hints)
        p.launch()
        p.counts_on()
        steer("suspend", p.pid)
        eventually("all groups begin", lambda n=n: p.count() == n * FEW)
        steer("resume", p.pid)
        p.ends(n, FEW)
    check(queue(fermata, p)["level"] == 2, f"the level shown: {queue(fermata, p)}")
    fermata.cli("hint", str(p.pid), "level=3")
    p.launch()
    p.counts_on()
    steer("suspend", p.pid)
    check(p.stands() < 4 * FEW, "the kernel ran to its end")
    steer("resume", p.pid)
    p.ends(4, FEW)


REASONS = {
    "printf": "printf",
    "waits": "groups may wait",
    "binary": "from binary",
    "linked": "linked program",
    "macro": "kernel by macro",
    "calls": "kernel called",
    "options": "build options",
    "profiled": "profiled event",
    "out-of-order": "out-of-order queue",
    "one-group": "one work-group",
}


def without_sources(stack):
    """Nothing is kept of programs: others may write in the folder."""
    fermata = Fermata(stack)
    cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    os.makedirs(os.path.join(cache, "fermata", "sources"))
    os.chmod(os.path.join(cache, "fermata", "sources"), 0o777)
    fermata.env["XDG_CACHE_HOME"] = cache
    return fermata


def not_rewritten(stack):
    """Level 2, counted by its reason; results are right, also when suspended."""
    fermata = without_sources(stack)
    fermata.env["FERMATA_GUARD_US"] = "0"
    for kind, reason in REASONS.items():
        groups = 64 if kind == "one-group" else 100
        p = start(fermata, kind, groups)
        steer = Steering(stack, fermata)
        for n in range(1, 5):
            p.launch()
            steer("suspend", p.pid)
            steer("resume", p.pid)
            p.ends(n, 1 if kind == "one-group" else groups)
        group = fermata.group(p.pid)
        calls = {c["call"]: c["undivided"] for c in group["calls"]}
        name = f"clEnqueueNDRangeKernel ({reason})"
        check(list(calls) == [name] and calls[name] > 0, f"{kind}: {calls}")
        check(group["queues"][0]["level"] == 2, f"{kind}: level {group['queues'][0]['level']}")
        shown = fermata.cli("ps", "--calls").stdout
        check(name in shown, f"{kind}: not shown:\n{shown}")
        for told in shown, fermata.cli("why", str(p.pid)).stdout:
            check(("PYOPENCL_NO_CACHE=1" in told) == (kind == "binary"), f"{kind}: what to do about it:\n{told}")
        p.tell("quit")
        p.wait()


def told_at_once(stack):
    """A program from a binary says so with its first launch, however short that is."""
    fermata = without_sources(stack)
    p = start(fermata, "binary", 2)
    p.launch()
    p.ends(1, 2)
    call = {"call": "clEnqueueNDRangeKernel (from binary)", "ungoverned": 0, "undivided": 1}
    eventually("it is counted", lambda: fermata.group(p.pid)["calls"] == [call])
    p.tell("quit")
    p.wait()


def doctor_says_so(stack):
    """What doctor has found by trying is what a queue of the device then has."""
    fermata = Fermata(stack)
    p = start(fermata)
    there = queue(fermata, p)
    report = json.loads(fermata.cli("doctor", "--json", check_status=False).stdout)
    levels = [d["levels"] for d in report["devices"] if there["device"].startswith(d["name"])]
    check(levels and levels[0] == there["levels"], f"doctor: {report['devices']}, a queue: {there}")
    p.tell("quit")
    p.wait()


if __name__ == "__main__":
    main(stopped_in_its_middle, several_launches, groups_that_wait, gives_way, daemon_dies, program_dies, quits, switched_off,
         as_a_hint_says, *seldom_sanitized(not_rewritten), told_at_once, doctor_says_so)
