#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Level 3 inside a CUDA program: the conformance sets note with guarded launches what they note natively, while they
are suspended and resumed at random, share the device, and lose their daemon; and kernels are left in the middle. The
driver is the fake one; FERMATA_TEST_CUDA=real takes the machine's."""
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import Fermata, check, cuda_env, eventually, long, main, need_cuda_shim, program, seldom_sanitized, unsanitized

REAL = os.environ.get("FERMATA_TEST_CUDA") == "real"
LOOPS = {"FERMATA_GUARDIAN_LOOPS": "nobody:gr*d"}
SETS = ("cuda_guard", "cuda_guard_ends", "cuda_guard_graphs", "cuda_guard_copies", "cuda_guard_green", "cuda_code", "cuda_nodes", "cuda_order", "cuda_memory", "cuda_graph", "cuda_launch",
        "cuda_loops", "cuda_answers")
ENV = cuda_env(dict(os.environ))


NESTED = (("cuda_graph", "launches captured"), ("cuda_guard_graphs", "graphs in graphs"))


def run_native(name):
    return subprocess.run([program(name)], env=ENV, capture_output=True, text=True, timeout=120)


NATIVE = {name: run_native(name) for name in SETS}
if NATIVE[SETS[0]].returncode:
    print("no CUDA device")
    sys.exit(77)


def world(stack, **more):
    need_cuda_shim()
    fermata = Fermata(stack, **more)
    fermata.env = cuda_env({**fermata.env, "FERMATA_GUARDIAN": "1"})
    return fermata


def same(name, p, text, native=None):
    native = native or NATIVE[name]
    check(native.returncode == 0, f"{name} fails natively: {native.stderr}")
    check(p.wait() == 0, f"{name} ended with status {p.p.returncode} {text}")
    p.reader.join()
    got = [line for line in p.lines if line is not None]
    want = native.stdout.splitlines()
    differ = "\n".join(f"\t{g}\n\tnatively {w}" for g, w in zip(got, want) if g != w)
    check(got == want, f"{name} differs {text}:\n{differ}")


def queues(fermata, pid):
    group = fermata.group(pid)
    return group["queues"] if group else []


def inside(fermata, pid):
    """How often a queue that it has at present was stopped in the middle of a kernel."""
    return sum(q["interrupts"] for q in queues(fermata, pid))


def suspended_at_random(stack):
    fermata = world(stack)
    running = {name: fermata.program([program(name)]) for name in SETS}
    suspensions = fermata.suspend_at_random(random.Random(7), list(running.values()), 0.01, 0.005)
    for name, p in running.items():
        same(name, p, "when suspended at random")
    check(suspensions > 0, "nobody was suspended")


def others_on_the_device(stack):
    """Under a policy: equals take turns, and one of higher priority comes and goes."""
    fermata = world(stack)
    running = {name: fermata.program([program(name)]) for name in SETS[:2]}
    equal = fermata.cuda_worker()
    high = fermata.cuda_worker("--priority", "high")
    high.advances()
    high.finish()
    for name, p in running.items():
        same(name, p, "beside other programs")
    equal.finish()


PADDED = ("cuda_guard", "cuda_order")


@long
def beside_urgent_work(stack):
    """On a few multiprocessors, while a more urgent program of the same MPS server has the device; both are suspended at random, so
    that they move back and forth."""
    fermata = world(stack)
    fermata.env.update({"FAKE_CUDA_MPS": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "32"})
    urgent = fermata.cuda_worker("--priority", "high")
    running = {name: fermata.program([program(name)], "--priority", "low", "--pad", "16") for name in PADDED}
    padded = 0

    def look():
        nonlocal padded
        padded = max(padded, max((q.get("padded_ms", 0) for p in running.values() for q in queues(fermata, p.pid)), default=0))

    rng = random.Random(17)
    while any(p.p.poll() is None for p in running.values()):
        left = [p for p in running.values() if p.p.poll() is None]
        for p in urgent, rng.choice(left):
            fermata.cli("suspend", str(p.pid), check_status=False)
            look()
            fermata.cli("resume", str(p.pid), check_status=False)
    for name, p in running.items():
        same(name, p, "beside urgent work")
    urgent.finish()
    check(padded > 0 or REAL, "none ran beside it")


def strict(stack):
    """With gates that programs cannot write."""
    fermata = world(stack, config="[security]\nstrict = yes\n")
    running = {name: fermata.program([program(name)]) for name in SETS[1:2]}
    fermata.suspend_at_random(random.Random(9), list(running.values()), 0.01, 0.005)
    for name, p in running.items():
        same(name, p, "in strict mode")


def daemon_goes_and_comes(stack):
    fermata = world(stack)
    running = {name: fermata.program([program(name)]) for name in SETS[1:2]}
    with_others = fermata.cuda_worker()
    for _ in range(3):
        for p in running.values():
            if p.p.poll() is None:
                fermata.cli("suspend", str(p.pid), check_status=False)
        fermata.kill()
        fermata.start()
    for name, p in running.items():
        same(name, p, "when the daemon goes and comes")
    with_others.finish()


MIXED = "cuda_guard_mixed"


@long
def whole_ones_among_others(stack):
    """Launches that do as the one in front of them, or decide for themselves, in several orders."""
    fermata, running, native = world(stack), {}, {}
    fermata.cuda_worker()
    for seed in "1", "2", "3":
        order = {"CUDA_GUARD_SEED": seed, "CUDA_GUARD_BLOCKS": "60"}
        native[seed] = subprocess.run([program(MIXED)], env={**ENV, **order}, capture_output=True, text=True, timeout=120)
        fermata.env.update(order)
        running[seed] = fermata.program([program(MIXED), "3"])
    fermata.suspend_at_random(random.Random(13), list(running.values()), 0.006, 0.006)
    for seed, p in running.items():
        same(MIXED, p, f"in order {seed}", native[seed])


def whole_ones_in_the_middle(stack):
    """Of those around them."""
    fermata = world(stack)
    p, _ = endless(fermata, what=(MIXED,))
    inside_kernels(fermata, p)


STEPS = "cuda_guard", "steps", "chains"
GRAPHS = "cuda_guard_graphs", "one kernel"
COPIES = "cuda_guard_copies", "copies"
GREEN = "cuda_guard_green", "in a partition"
ENDLESS_BLOCKS = "2000" if REAL else "500"  # several times what runs at once


def endless(fermata, *options, what=STEPS):
    """A program with kernels of many blocks, each round of which has to be as the first, and another beside it."""
    fermata.env["CUDA_GUARD_BLOCKS"] = ENDLESS_BLOCKS
    p = fermata.program([program(what[0]), "600", *what[1:]], *options)
    worker = fermata.cuda_worker()
    eventually("it has a queue", lambda: queues(fermata, p.pid))
    return p, worker


def again(fermata, p):
    fermata.cli("suspend", str(p.pid))
    fermata.cli("resume", str(p.pid))
    check(p.p.poll() is None, "a round differed from the first")


def left_in_the_middle(stack, what=STEPS, times=5):
    fermata = world(stack)
    p, _ = endless(fermata, what=what)
    check(all(q["level"] == 3 and q["levels"] == [1, 2, 3] for q in queues(fermata, p.pid)), "it is not at level 3")

    def stopped():
        again(fermata, p)
        return inside(fermata, p.pid) >= times

    eventually("it is stopped in the middle of kernels", stopped)


def far_ahead(stack):
    """How many launches may be under way is shared by the streams that have some. Where none comes to its end who may not go on
    waits a second at a time: in each round."""
    fermata = world(stack)
    p = fermata.program([program("cuda_guard_ends"), "3", "far ahead"])
    held = []

    def ended():
        held.extend(q["held_ms"] for q in queues(fermata, p.pid))
        return p.p.poll() is not None

    eventually("it ends", ended)
    check(p.p.returncode == 0 and held, f"status {p.p.returncode}, {len(held)} looks")
    check(max(held) < 900, f"held for {max(held)} ms")


def as_far_as_it_may(stack):
    """Who would be further ahead waits, and puts no gate behind each of its launches."""
    fermata = world(stack)
    p = fermata.program(["env", "CUDA_GUARD_AHEAD=517", program("cuda_guard_ends"), "0", "far ahead"])
    gates = []

    def ended():
        gates.extend((q["submitted"], q["gates"]) for q in queues(fermata, p.pid) if q["submitted"] > 513)
        return p.p.poll() is not None

    eventually("it ends", ended)
    check(p.p.returncode == 0 and gates and gates[-1][0] > 514, f"status {p.p.returncode}, seen {gates[-3:]}")
    check(gates[-1][1] <= gates[0][1] + 1, f"gates: {gates[0]} to {gates[-1]}")


def in_loops(stack):
    """A kernel all of whose blocks run at once is left in their middle, and goes on there; where nobody has asked for that,
    it never is. The fake driver tells that from a stop which comes before all of them have begun."""
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    for env in (LOOPS, {}):
        fermata = world(stack)
        left = os.path.join(where, "loops" if env else "nobody asked")
        fermata.env.update({**env, "FAKE_CUDA_LEFT": left})
        p, _ = endless(fermata, what=("cuda_loops", "one wave"))
        if env:
            inside_kernels(fermata, p)
            check(REAL or os.path.getsize(left) > 0, "no block was left in its middle")
        else:
            for _ in range(5):
                again(fermata, p)
            check(not os.path.exists(left), "stopped in the middle of a block")
            check(not REAL or inside(fermata, p.pid) == 0, "stopped in the middle of a kernel whose blocks begin at once")


def loops_at_random(stack):
    fermata = world(stack)
    fermata.env.update(LOOPS)
    running = {name: fermata.program([program(name)]) for name in ("cuda_loops", "cuda_guard_ends")}
    fermata.suspend_at_random(random.Random(3), list(running.values()), 0.01, 0.005)
    for name, p in running.items():
        same(name, p, "when left in loops")


def loops_that_cannot(stack):
    """Those that were asked for are counted, by the reason; of others, and of machine code that nobody names, nothing is said."""
    fermata = world(stack)
    fermata.env["FERMATA_GUARDIAN_LOOPS"] = "step:grind"
    p = fermata.program([program("cuda_guard"), "600", "steps"])

    def counted():
        return {c["call"]: c["undivided"] for c in (fermata.group(p.pid) or {}).get("calls", ()) if "loops" in c["call"]}

    eventually("kernels are counted", counted)
    check(counted().keys() == {"loops (machine code)"}, f"so many: {counted()}")


def in_graphs(stack):
    left_in_the_middle(stack, GRAPHS, 1)


def to_their_end(stack, what, blocks):
    """Programs that were stopped inside kernels, and note at their end what they note natively."""
    fermata = world(stack)
    fermata.env["CUDA_GUARD_BLOCKS"] = blocks
    argv = [program(what[0]), "0", *what[1:]]
    want = subprocess.run(argv, env={**ENV, "CUDA_GUARD_BLOCKS": blocks}, capture_output=True, text=True, timeout=120)
    check(want.returncode == 0 and want.stdout, f"natively it ends with status {want.returncode}")
    fermata.cuda_worker()
    stopped = []

    def one_more():
        p, most = fermata.program(argv), 0
        while p.p.poll() is None:
            fermata.cli("suspend", str(p.pid), check_status=False)
            most = max(most, inside(fermata, p.pid))
            fermata.cli("resume", str(p.pid), check_status=False)
        same(what[0], p, "when stopped inside kernels", want)
        stopped.append(most)
        return sum(stopped) >= 5

    eventually("they are stopped in the middle of kernels", one_more)


def in_green_contexts(stack):
    """What is left out of a kernel there runs on the multiprocessors of the green context."""
    to_their_end(stack, GREEN, "500")


def in_graphs_with_copies(stack):
    """Whatever stands between the kernels of a graph waits for what was left of them."""
    to_their_end(stack, COPIES, "200")


def not_by_wish(stack, env, *options, what=STEPS):
    """Kernels that are left alone, or all or nothing, are never stopped in their middle."""
    fermata = world(stack)
    fermata.env.update(env)
    p, _ = endless(fermata, *options, what=what)
    for _ in range(10):
        again(fermata, p)
        check(inside(fermata, p.pid) == 0, f"stopped in the middle of a kernel with {env} {options}")


def left_alone(stack):
    not_by_wish(stack, {"FERMATA_GUARDIAN_LEAVE": "nobody:*e[px]:chain:toil"})


def all_or_nothing(stack):
    not_by_wish(stack, {"FERMATA_GUARDIAN_GRID": "*"})


def not_in_graphs(stack):
    not_by_wish(stack, {"FERMATA_GUARDIAN_GRAPHS": "0"}, what=GRAPHS)


def gates_in_graphs(stack):
    """Gates stand farther apart in a graph as long as it is one that can be guarded, and where they stood, each time."""
    env = {"FERMATA_GUARDIAN_GRAPHS": "0"}
    near, apart = (799 // (53 * times) for times in (1, 8))  # 53 kernels of which nothing is known make up a segment
    for more, options, far in (({}, (), True), (env, (), False), ({"FERMATA_GUARDIAN_LEAVE": "step"}, (), False), ({}, ("--level", "2"), False)):
        fermata = world(stack)
        fermata.env.update(more)
        fermata.cuda_worker().advances()
        p = fermata.program([program("cuda_inner")], *options)
        p.line("ready")
        eventually("it is known", lambda: queues(fermata, p.pid))

        def gates(what, besides=0):
            after = p.mark()
            p.tell(f"{what} 800")
            return int(p.line("nodes ", after=after).split()[1]) - 800 - besides

        for _ in range(2):
            check(gates("kernels") == (apart if far else near), f"gates of a chain with {more} {options}")
            check(gates("fill", 1) == (apart if far else near), f"gates behind a fill with {more} {options}")
            check(gates("fork", 2) == near, f"gates behind a fork with {more} {options}")
            check(gates("beside", 2) == near, f"gates beside another graph with {more} {options}")


def graphs_that_cannot(stack):
    """Those are counted, by the reason."""
    fermata = world(stack)
    p = fermata.program([program(GRAPHS[0]), "600", "other nodes", "graphs in graphs"])

    def counted():
        return {c["call"]: c["undivided"] for c in (fermata.group(p.pid) or {}).get("calls", ())}

    want = {"graph (other nodes)", "graph (branches)"}
    eventually("graphs are counted", lambda: want <= counted().keys())
    check(all(counted()[name] > 0 for name in want), f"so many: {counted()}")


def launches_captured(stack):
    """On a driver that makes a node of them."""
    native = {name: subprocess.run([program(name), "0", case], env={**ENV, "FAKE_CUDA_NESTED": "1"}, capture_output=True, text=True,
                                   timeout=120) for name, case in NESTED}
    fermata = world(stack)
    fermata.env["FAKE_CUDA_NESTED"] = "1"
    running = {name: fermata.program([program(name), "0", case]) for name, case in NESTED}
    fermata.suspend_at_random(random.Random(5), list(running.values()), 0.01, 0.005)
    for name, p in running.items():
        check("captured 0, ended 0" in native[name].stdout, native[name].stdout)
        same(name, p, "with launches captured", native[name])


def at_level_2(stack):
    not_by_wish(stack, {}, "--level", "2")


def at_gates_alone(fermata, p):
    """What had begun when that was said ends; from then on no stop is inside a kernel."""

    def none():
        before = inside(fermata, p.pid)
        for _ in range(15):
            again(fermata, p)
        return inside(fermata, p.pid) == before

    eventually("it is stopped at gates alone", none)


def inside_kernels(fermata, p):
    seen, last = 0, inside(fermata, p.pid)

    def more():  # a stream that is destroyed takes its count along
        nonlocal seen, last
        again(fermata, p)
        now = inside(fermata, p.pid)
        seen, last = seen + (now - last if now >= last else now), now
        return seen >= 3

    eventually("it is stopped in the middle of kernels", more)


def level(fermata, p):
    return {q["level"] for q in queues(fermata, p.pid)}


def as_a_hint_says(stack):
    """While it runs, and back."""
    fermata = world(stack)
    p, worker = endless(fermata)
    inside_kernels(fermata, p)
    fermata.cli("hint", str(p.pid), "level=2")
    check(level(fermata, p) == {2} and level(fermata, worker) != {2}, "another level is told")
    at_gates_alone(fermata, p)
    fermata.cli("hint", str(p.pid), "level=3")
    check(level(fermata, p) == {3}, "another level is told")
    inside_kernels(fermata, p)
    fermata.cli("hint", str(p.pid), "guard-from=10s")
    at_gates_alone(fermata, p)
    fermata.cli("hint", str(p.pid), "guard-from=0")
    inside_kernels(fermata, p)


def as_the_settings_say(stack):
    """For a device; read again, while programs run."""
    fermata = world(stack, config="[device]\nlevel = 2\n")
    p, _ = endless(fermata)
    check(level(fermata, p) == {2}, "another level is told")
    at_gates_alone(fermata, p)
    with open(os.path.join(fermata.dir, "fermatad.conf"), "a", encoding="ascii") as f:
        f.write(f"[device {queues(fermata, p.pid)[0]['device'][:8]}*]\nlevel = 3\n")
    fermata.cli("reload")
    inside_kernels(fermata, p)


def ways_at_random(stack):
    fermata = world(stack)
    running = {name: fermata.program([program(name)]) for name in SETS[:2]}
    rng = random.Random(11)
    while any(p.p.poll() is None for p in running.values()):
        p = rng.choice(list(running.values()))
        steps = [("hint", str(p.pid), rng.choice(("level=2", "level=3", "guard-from=50us", "guard-from=0"))),
                 ("suspend", str(p.pid)), ("resume", str(p.pid))]
        for step in steps[:1] + rng.sample(steps[1:], 2) + steps[2:]:
            fermata.cli(*step, check_status=False)
    for name, p in running.items():
        same(name, p, "when it is stopped in one way and the other")


def asked_for(stack):
    """fermata run --guardian says so to what it runs, and to nobody else."""
    fermata = world(stack)
    del fermata.env["FERMATA_GUARDIAN"]
    names = "FERMATA_GUARDIAN", "CUDA_DEVICE_MAX_CONNECTIONS", "FERMATA_GUARDIAN_LOOPS"

    def told(*options):
        run = subprocess.run(fermata.run_argv(["env"], *options), env=fermata.env, check=True, capture_output=True,
                             text=True)
        lines = dict(line.split("=", 1) for line in run.stdout.splitlines() if "=" in line)
        return tuple(lines.get(name) for name in names)

    check(told() == (None, None, None), "without the option")
    check(told("--guardian") == ("1", "32", None), "with it")
    check(told("--guardian-loops", "a*:b") == ("1", "32", "a*:b"), "with loops")
    fermata.env["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    check(told("--guardian") == ("1", "1", None), "what is set stays")


AWAITS = [(where, call) for where in ("host-function", "word", "event", "legacy", "blocking", "beside", "four", "graph", "graph-begins",
                                                "graph-between", "graph-ends")
          for call in ("launches", "launches-and-waits", "loads", "uses-others", "orders-others")]


def gate(fermata, pid):
    return {d["gate"] for d in (fermata.group(pid) or {}).get("devices", ())}


def waits_for_a_thread(stack, pairs=AWAITS, **env):
    """What is to stop waits for a thread, which is about to make a call that is not made while something is stopped in the
    middle of a kernel; and whose turn it is waits for both."""
    fermata = world(stack)
    fermata.env.update(env)
    other = fermata.cuda_worker()
    for pair in pairs:
        argv = [program("cuda_awaits"), *pair]
        want = subprocess.run(argv, env={**ENV, **env}, input="go\n", capture_output=True, text=True, timeout=120)
        p = fermata.program(argv)
        p.line("waits")
        eventually("it is to stop", lambda: gate(fermata, p.pid) == {"closed"})
        p.tell("go")
        same("cuda_awaits", p, f"with {pair}", want)
        other.advances()
    other.finish()


@long
def waits_in_few_channels(stack):
    """On a device whose streams share channels, and where what is put into one comes behind first launches in others."""
    waits_for_a_thread(stack, FAKE_CUDA_NARROW="1", FAKE_CUDA_FIRST="order")


def first_launch_beside_a_long_kernel(stack):
    """For which the driver waits, with a lock: it begins when nothing is stopped, however long that takes."""
    env = {"FAKE_CUDA_NARROW": "1", "FAKE_CUDA_FIRST": "wait"}
    argv = [program("cuda_awaits"), "long-kernel", "launches"]
    want = subprocess.run(argv, env={**ENV, **env}, input="go\n", capture_output=True, text=True, timeout=120)
    fermata = world(stack)
    fermata.env.update(env)
    fermata.cli("suspend", str(fermata.cuda_worker().pid))
    p = fermata.program(argv)
    p.line("waits")
    fermata.cli("suspend", str(p.pid))
    eventually("it is to stop", lambda: gate(fermata, p.pid) == {"closed"})
    fermata.cli("resume", str(p.pid))
    p.tell("go")
    same("cuda_awaits", p, "beside a long kernel", want)


def driver_without(stack):
    """A driver that lacks what it takes: as ever."""
    for knob in ("FAKE_CUDA_NO_MEMOPS", "FAKE_CUDA_FAIL_REGISTER", "FAKE_CUDA_OLD"):
        fermata = world(stack)
        fermata.env[knob] = "1"
        native = subprocess.run([program("cuda_order"), "0", "in order"], env={**ENV, knob: "1"}, capture_output=True,
                                text=True, timeout=120)
        p = fermata.program([program("cuda_order"), "0", "in order"])
        check(p.wait() == native.returncode, f"it ended otherwise with {knob}")
        p.reader.join()
        check([line for line in p.lines if line is not None] == native.stdout.splitlines(), f"it differs with {knob}")


if __name__ == "__main__":
    fake_only = () if REAL else (driver_without, launches_captured,
                                 *unsanitized(waits_for_a_thread, waits_in_few_channels, first_launch_beside_a_long_kernel))
    main(suspended_at_random, *unsanitized(whole_ones_among_others, whole_ones_in_the_middle, others_on_the_device), beside_urgent_work, strict,
         daemon_goes_and_comes, left_in_the_middle, far_ahead, *unsanitized(as_far_as_it_may, in_loops), loops_at_random, loops_that_cannot,
         in_graphs, *unsanitized(in_graphs_with_copies), *seldom_sanitized(in_green_contexts), *unsanitized(not_in_graphs), gates_in_graphs, graphs_that_cannot,
         *unsanitized(left_alone, all_or_nothing, at_level_2, as_a_hint_says, as_the_settings_say, ways_at_random), asked_for, *fake_only)
