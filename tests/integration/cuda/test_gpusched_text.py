#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The decisions of a set of tasks as PTX (gpusched_text.c), run by a warp of 32 lanes, instruction by instruction in an order that is
drawn: on the same random news it leaves in memory, to the last word, what the text that processors run leaves there. And the
committed PTX is what its source gives, where there is a compiler."""
import functools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard"))
import ptx_machine as machine
from harness import LONG, SANITIZE, Skip, check, main, program

machine.LANES = 32
DEVICE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "src", "device")
# What is ours is the text: to run it more often tells a sanitizer nothing.
TRACES, STEPS = (4, 12) if LONG and not SANITIZE else (2, 6)
TOLD, READ = 0x70000000, 0x60000000  # memory of the host
TASKS = 32  # of struct fm_gates_told
TOLD_DONE, TOLD_DECIDED, TOLD_LEFT, TOLD_UNTIL, TOLD_EXPIRED, TOLD_NOTES = (
    8 * at for at in (0, 4 * TASKS + 3, 4 * TASKS + 4, 4 * TASKS + 6, 4 * TASKS + 7, 4 * TASKS + 9))
GATE, DONE, WORD = 32, 40, 48  # of struct fm_gs_task
TURN, READERS, N = 8, 40, 72  # of struct fm_gs
KICK, ENDED, PARK, GO_ON, RESIDE = 1, 2, 8, 16, 512
HEAR, BEGIN, SLOT = 1 << 16, 1 << 17, 1 << 18


def output(*argv):
    return subprocess.run([program("gpu_trace"), *argv], capture_output=True, text=True, check=True).stdout


@functools.cache
def kernel_of(text, name):
    """Read once: that takes a third of a second."""
    return machine.Kernel(output(text), name)


@functools.cache
def offsets():
    """Where what is in the words."""
    return {name: int(value, 16) for name, value in (word.split("=") for word in output("graphs").split())}


def words(fields):
    return {int(at, 16): int(value, 16) for at, value in (field.split("=") for field in fields)}


class Set:
    """One on the device, in memory that begins as the processor's does."""
    def __init__(self, kernel, line, rng):
        head = line.split()
        self.kernel, self.rng, self.memory = kernel, rng, machine.Memory(words(head[6:]))
        self.at, told, size, noted, self.tasks, self.task_size = (int(field, 16) for field in head[:6])
        self.expected = dict(self.memory)
        self.own = range(self.at + told, self.at + size)  # of the device, and not compared
        self.memory.store(self.at + told, TOLD, 8)
        self.memory.store(self.at + noted, 2, 4)

    def launch(self, now, jobs, chunks, task, what, to=0):
        place = machine.Block(self.kernel, (1, 1, 1), (32, 1, 1), (0, 0, 0), dict(zip(
            (name for name, _ in self.kernel.params), (self.at, to, jobs, chunks, task, what))), self.memory)
        for thread in place.threads:
            thread.special["%globaltimer"] = now
        return place

    def run(self, *args, **more):
        place = self.launch(*args, **more)
        while not place.ended():
            place.advance(self.rng)

    def compare(self, line):
        for at in sorted(set(self.memory) | set(self.expected)):
            if READ <= at < TOLD + 0x20000 or at in self.own:
                continue
            check(self.memory.get(at, 0) == self.expected.get(at, 0),
                  f"{line.split(' ', 5)[:5]}: {at - self.at:#x} of the set is {self.memory.get(at, 0):#x}, "
                  f"and on a processor {self.expected.get(at, 0):#x}")

    def step(self, line):
        fields = line.split()
        self.expected.update(words(fields[5:]))
        self.run(*(int(field) for field in fields[:5]))
        self.compare(line)

    def done(self, task):
        return self.memory.load(self.tasks + task * self.task_size + DONE, 8)

    def notes(self):
        """In order, as the host reads them."""
        for at in range(TOLD + TOLD_NOTES, TOLD + TOLD_NOTES + 40 * 1024, 40):
            number, _, what, b, c = (self.memory.load(at + 8 * i, 8) for i in range(5))
            if not number:
                return
            check(number == (at - TOLD - TOLD_NOTES) // 40 + 1, f"note {number}")
            yield what >> 32, what & 0xffffffff, b, c


def test_a_warp_does_what_a_processor_does(stack):
    kernel, decided, done = kernel_of("text", "fermata_set"), 0, 0
    for seed in range(TRACES):
        lines = output(str(seed), str(STEPS)).splitlines()
        on_device = Set(kernel, lines[0], random.Random(seed))
        for line in lines[1:]:
            on_device.step(line)
        for task in range(5):  # the host is told
            told = on_device.memory.load(TOLD + TOLD_DONE + 8 * task, 8)
            check(told == on_device.done(task), f"the host is told {told} of task {task}")
            done += told
        decided += on_device.memory.load(TOLD + TOLD_DECIDED, 8)
    check(decided > TRACES * STEPS // 2, f"{decided} decisions alone: nothing was shown")


def test_the_host_reads_between_two_decisions(stack):
    lines = output("1", str(STEPS)).splitlines()
    on_device = Set(kernel_of("text", "fermata_set"), lines[0], random.Random(1))
    for line in lines[1:]:
        on_device.step(line)
    on_device.run(10 ** 6, 0, 0, 0, 0, to=READ)
    on_device.compare(lines[-1])
    for at in range(0, on_device.task_size, 4):
        check(on_device.memory.get(READ + at, 0) == on_device.memory.get(on_device.tasks + at, 0), f"word {at} of a task")
    behind = READ + on_device.memory.load(on_device.at + N, 4) * on_device.task_size
    for at in range(0, on_device.own.start - on_device.at, 4):
        if at // 8 * 8 not in (TURN, READERS):
            check(on_device.memory.get(behind + at, 0) == on_device.memory.get(on_device.at + at, 0), f"word {at} of the set")


class Resident:
    """Beside news that come one at a time, as those of a stream do, and beside a word."""
    def __init__(self, rng):
        self.set = Set(kernel_of("text", "fermata_set"), output("3", "plain").splitlines()[0], rng)
        self.rng, self.word, self.news, self.queued = rng, 0x50000000, None, [0, 0]
        self.set.memory.store(TOLD + TOLD_UNTIL, 10 ** 9, 8)
        self.set.memory.store(self.set.tasks + WORD, self.word, 8)
        self.block = self.set.launch(1000, 0, 1, 0, RESIDE)

    def field(self, task, at):
        return self.set.memory.load(self.set.tasks + task * self.set.task_size + at, 8)

    def go_on(self, until):
        steps = 0
        while not until():
            self.block.advance(self.rng)
            if self.news and not self.news.ended() and self.rng.random() < 0.5:
                self.news.advance(self.rng)
            self.end_chunks()
            steps += 1
            check(steps < 10 ** 6, "the resident does nothing about it")

    def tell(self, jobs, chunks, task, what):
        self.news = self.set.launch(1000, jobs, chunks, task, what)
        self.queued[task] += chunks
        self.go_on(self.news.ended)

    def end_chunks(self):
        """A chunk that runs has ended. What says so may be on its way."""
        if self.news and not self.news.ended():
            return
        for task in range(2):
            gate, ended = self.field(task, GATE), self.field(task, 16)
            check(gate - ended in (0, 1), f"{gate} chunks of task {task}, {ended} have ended")
            if gate != ended:
                self.news = self.set.launch(1000, 0, 0, task, ENDED | KICK)


def test_a_resident_decides_until_it_is_parked(stack):
    r = Resident(random.Random(2))
    for task in range(2):
        r.tell(0, 6, task, KICK)
    r.tell(2, 0, 1, KICK)
    r.go_on(lambda: r.set.done(1) == 2)
    for n in range(1, 4):
        r.set.memory.store(r.word, n, 8)  # a store, and nobody is told
        r.go_on(lambda: r.set.done(0) == n)
    check(not r.block.ended() and r.set.memory.load(TOLD + TOLD_LEFT, 8) == 0, "it has gone")
    r.set.run(1000, 0, 0, 0, PARK)
    r.go_on(r.block.ended)
    check(r.set.memory.load(TOLD + TOLD_LEFT, 8) == 1, "the host does not know that it has gone")
    r.set.memory.store(r.word, 4, 8)
    r.set.run(1000, 0, 0, 0, KICK)  # nothing has the turn
    notes = list(r.set.notes())
    for task, jobs in ((0, 3), (1, 2)):
        check(sum(1 for event, of, *_ in notes if event == 3 and of == task) == jobs, f"{notes}")
    check(sum(b for event, of, b, _ in notes if event == 0 and of == 0) == 4, f"released: {notes}")


def test_a_resident_goes_when_the_host_has_gone(stack):
    r = Resident(random.Random(4))
    r.tell(0, 2, 0, KICK)
    r.set.memory.store(TOLD + TOLD_UNTIL, 900, 8)  # it was to be there again before
    r.go_on(r.block.ended)
    r.go_on(lambda: r.set.done(0) == 2)  # what stood in the stream has run
    check(r.set.memory.load(TOLD + TOLD_EXPIRED, 8) == 1, "the host does not know why it has gone")


def test_a_resident_goes_when_the_host_says_so(stack):
    r = Resident(random.Random(4))
    r.set.memory.store(r.word, 1, 8)
    r.tell(0, 1, 0, KICK)
    r.go_on(lambda: r.set.done(0) == 1)
    r.set.memory.store(TOLD + TOLD_UNTIL, 0, 8)  # and no launch
    r.go_on(r.block.ended)
    check(r.set.memory.load(TOLD + TOLD_EXPIRED, 8) == 0, "it has left the set")


class Graphs:
    """A set of two tasks that launches itself: 0 is one graph, and 1 is one with another that is its end. On two slots each slot
    has an end."""
    GRAPH, END, SLOT_END, AT, ASKED, SAID = [0x1000, 0x1001], [0, 0x2001], [0x3000, 0x3001], 0x30000000, 0x71000000, 0x72000000
    BLOCK = 0x75000000

    def __init__(self, rng, slots=1, resides=0):
        self.heard = kernel_of("graphs-heard-text", "fermata_graphs_heard")  # it may not launch: the driver would refuse it
        self.chain = kernel_of("graphs-text", "fermata_graph")
        self.chain.calls = {"cudaGraphLaunch": self.launched}
        self.rng, self.queue, self.begun, self.order = rng, [], 0, []
        self.field, self.now = offsets(), 1000
        small = Set(kernel_of("text", "fermata_set"), output("3", "plain").splitlines()[0], rng)
        self.memory, self.tasks, self.task_size = small.memory, small.tasks, small.task_size
        for at in range(0, self.field["gates"], 4):
            if small.at + at in self.memory:
                self.memory[self.AT + at] = self.memory[small.at + at]
        self.memory.store(self.AT + small.own.start - small.at, TOLD, 8)
        self.memory.store(self.AT + self.field["slots"], slots, 4)
        self.put("resides", resides)
        for slot in range(slots):
            self.memory.store(self.AT + self.field["rests"] + 8 * slot, 1, 8)
            self.memory.store(self.AT + self.field["end"] + 8 * slot, self.SLOT_END[slot], 8)
            self.memory.store(self.SAID + 8 * slot, 1, 8)
        self.put("asked", self.ASKED)
        self.put("said", self.SAID)
        for task in range(2):
            of, chunks = self.AT + self.field["of"] + self.field["of_size"] * task, 0x73000000 + 8 * task
            self.memory.store(of, chunks, 8)
            self.memory.store(of + 8, self.END[task], 8)
            self.memory.store(chunks, self.GRAPH[task], 8)
            self.memory.store(self.tasks + task * self.task_size + 8, 1 << 62, 8)  # `queued'

    def guard(self):
        """Task 1 is the more urgent one, and the kernels of task 0 are guarded."""
        of, stops = self.AT + self.field["of"], 0x74000000
        self.memory.store(self.AT + self.field["policy"], 0, 4)
        self.memory.store(self.tasks + self.task_size + self.field["priority"], 5, 4)
        self.memory.store(of + self.field["block"], self.BLOCK, 8)
        self.memory.store(of + self.field["stops"], stops, 8)
        self.memory.store(stops, 1, 8)

    def of_block(self, name):
        return self.memory.load(self.BLOCK + self.field[name], 8)

    def put(self, name, value):
        self.memory.store(self.AT + self.field[name], value, 8)

    def launched(self, graph, stream):
        check(stream == 1 << 56, f"no tail launch: {stream:#x}")
        self.queue.append(graph)
        return 0

    def block(self, task, what):
        kernel, values = (self.heard, (self.AT, 0, 0, what)) if what == HEAR else (self.chain, (self.AT, task, what))
        place = machine.Block(kernel, (1, 1, 1), (32, 1, 1), (0, 0, 0), dict(zip(
            (name for name, _ in kernel.params), values)), self.memory)
        for thread in place.threads:
            thread.special["%globaltimer"] = self.now
        return place

    def run(self, block, meanwhile=None, after=0):
        steps = 0
        while not block.ended():
            block.advance(self.rng)
            steps += 1
            if meanwhile and steps == after:
                meanwhile()
        return steps

    def ask(self, task, jobs):
        at = self.ASKED + 8 * task
        self.memory.store(at, self.memory.load(at, 8) + jobs, 8)

    def park(self, parks):
        self.memory.store(self.ASKED + 8 * TASKS, parks, 8)

    def rests(self, slot=0):
        return self.memory.load(self.SAID + 8 * slot, 8)

    def run_beside(self, blocks):
        while not all(block.ended() for block in blocks):
            self.rng.choice([block for block in blocks if not block.ended()]).advance(self.rng)

    def kernels(self):
        """What the device does with what was launched: the kernel of each graph that ends with it."""
        while self.queue:
            graph = self.queue.pop(0)
            if graph in self.GRAPH:
                self.order.append(self.GRAPH.index(graph))
            if graph == self.GRAPH[0]:
                yield self.block(0, ENDED)
            elif graph == self.END[1]:
                yield self.block(1, ENDED)

    def begin(self):
        """As the host does, behind what it has asked for."""
        if self.rests() != self.begun:
            self.begun = self.rests()
            return self.block(0, 1 << 17)
        return self.block(0, 1 << 16)

    def done(self, task):
        return self.memory.load(self.tasks + task * self.task_size + DONE, 8)


def test_a_chain_of_graphs_launches_itself(stack):
    g = Graphs(random.Random(5))
    g.ask(0, 2)
    g.ask(1, 1)
    g.park(1)
    g.run(g.begin())
    check(not g.queue and g.rests() == 2, "a parked set launches, or does not rest")
    g.park(0)
    g.run(g.begin())
    for block in g.kernels():
        if len(g.order) == 1:
            g.ask(1, 1)  # while a chunk runs: it is heard, and launches nothing
            before = list(g.queue)
            g.run(g.begin())
            check(g.queue == before, f"launched beside a chunk that runs: {g.queue}")
        g.run(block)
    check((g.done(0), g.done(1), g.rests()) == (2, 2, 3), f"done {g.done(0)}, {g.done(1)}; {g.rests()} rests")
    check(sorted(g.order) == [0, 0, 1, 1], f"{g.order}")


STOPPED, MISSED = 900, 100  # deadlines, ns behind a release at 1000; the stop is from 1500 to 2500


def check_missed(load, tasks, task_size, deadlines):
    """Jobs of both tasks were complete after the stop, and are late."""
    for task, deadline in enumerate(deadlines):
        at = tasks + task * task_size
        told = load(at + offsets()["missed"], 8), load(at + offsets()["missed_stopped"], 8)
        check(told == (1, deadline == STOPPED), f"a deadline of {deadline} ns: {told}")


def test_a_warp_knows_what_was_missed_in_a_stop(stack):
    for deadlines in (STOPPED, MISSED), (MISSED, STOPPED):
        s = Set(kernel_of("text", "fermata_set"), output("3", "plain").splitlines()[0], random.Random(12))
        for task, deadline in enumerate(deadlines):
            s.memory.store(s.tasks + task * s.task_size + offsets()["deadline"], deadline, 8)
        for task in range(2):
            s.run(1000, 1, 0, task, KICK)  # released, and not in its stream yet
        s.run(1500, 0, 0, 0, PARK | KICK)
        for task in range(2):
            s.run(1600, 0, 1, task, KICK)
        s.run(2500, 0, 0, 0, GO_ON | KICK)
        for now in (3000, 4000):
            for task in range(2):
                at = s.tasks + task * s.task_size
                if s.memory.load(at + GATE, 8) != s.memory.load(at + 16, 8):
                    s.run(now, 0, 0, task, ENDED | KICK)
                    break
        check_missed(s.memory.load, s.tasks, s.task_size, deadlines)
        notes = {task: c for event, task, _, c in s.notes() if event == 4}
        check(notes == {task: deadline == STOPPED for task, deadline in enumerate(deadlines)}, f"{notes}")


def test_a_chain_knows_what_was_missed_in_a_stop(stack):
    for park in (1, 3):  # the second is for a call that waits, and nobody has stopped the set
        g = Graphs(random.Random(13))
        for task, deadline in enumerate((STOPPED, MISSED)):
            g.memory.store(g.tasks + task * g.task_size + g.field["deadline"], deadline, 8)
            g.ask(task, 1)
        g.park(0)
        g.run(g.block(0, HEAR))
        for now, parks in ((1500, park), (2500, 0)):
            g.now = now
            g.park(parks)
            g.run(g.begin() if not parks else g.block(0, HEAR))
        for block in g.kernels():
            g.run(block)
        check((g.done(0), g.done(1)) == (1, 1), f"done {g.done(0)}, {g.done(1)}")
        check_missed(g.memory.load, g.tasks, g.task_size, (STOPPED, MISSED) if park == 1 else (MISSED, MISSED))


def test_a_chunk_is_told_to_stop_and_goes_on(stack):
    for left in (True, False):  # has it left blocks out, or was it complete just before?
        g = Graphs(random.Random(9))
        g.guard()
        g.ask(0, 1)
        g.run(g.begin())
        for block in g.kernels():
            if g.order == [0]:
                check(g.of_block("stop") == 0, "it is told to stop for nothing")
                g.ask(1, 1)
                g.run(g.begin())
                check(g.of_block("stop") == 1, "it is not told to stop")
                g.memory.store(g.BLOCK + g.field["first"], 3 * left, 8)
            g.run(block)
            if g.order == [0]:
                check((g.done(0), g.done(1)) == (not left, 0), f"done {g.done(0)}, {g.done(1)}")
                check((g.of_block("from"), g.of_block("first"), g.of_block("stop")) == (3 * left, 0, 0), "the control block")
        check(g.order == ([0, 1, 0] if left else [0, 1]) and g.of_block("from") == 0, f"{g.order}")
        check((g.done(0), g.done(1)) == (1, 1), f"done {g.done(0)}, {g.done(1)}")


def test_a_chunk_is_told_to_stop_by_a_park(stack):
    for park in (1, 2):  # the second is for good, and nobody would go on with it
        g = Graphs(random.Random(11))
        g.guard()
        g.ask(0, 1)
        g.run(g.begin())
        g.park(park)
        g.run(g.begin())
        check(g.of_block("stop") == (park == 1), f"park {park}: {g.of_block('stop')}")


def test_a_chain_stays_for_a_word(stack):
    g, word = Graphs(random.Random(9), resides=1), 0x50000000
    g.memory.store(g.tasks + WORD, word, 8)
    g.memory.store(TOLD + TOLD_UNTIL, 10 ** 9, 8)
    g.memory.store(g.ASKED + 8 * (TASKS + 3), 1, 8)
    chain = g.begin()
    for _ in range(4000):
        chain.advance(g.rng)
    check(not chain.ended() and g.rests() == 1, "it does not stay")
    g.memory.store(word, 1, 8)  # and nobody is told
    g.run(chain)
    check(g.queue == [g.GRAPH[0]] and g.rests() == 1, f"it launches {g.queue}")
    end = next(g.kernels())

    def go():
        g.memory.store(TOLD + TOLD_UNTIL, 0, 8)
    g.run(end, meanwhile=go, after=4000)
    check((g.done(0), g.rests(), g.queue) == (1, 2, []), f"done {g.done(0)}, {g.rests()} rests")


def test_each_slot_has_a_chain(stack):
    g = Graphs(random.Random(10), slots=2)
    g.ask(0, 2)
    g.ask(1, 1)
    g.run_beside([g.block(slot, BEGIN | SLOT) for slot in range(2)])
    for _ in range(2):
        check(sorted(g.queue[:2] + g.queue[2:]) == g.GRAPH + g.SLOT_END, f"launched {g.queue}")
        first = g.queue.index(g.SLOT_END[0])  # behind a chunk, and each is on one slot
        check(g.queue[first - 1] in g.GRAPH, f"launched {g.queue}")
        if g.done(0) == 0:
            g.ask(1, 1)
            g.run(g.block(0, HEAR))  # both slots have work: it is heard
        g.queue.clear()
        g.run_beside([g.block(slot, ENDED | SLOT) for slot in range(2)])
    check((g.done(0), g.done(1), g.queue) == (2, 2, []), f"done {g.done(0)}, {g.done(1)}, then {g.queue}")
    check((g.rests(0), g.rests(1)) == (2, 2), f"{g.rests(0)}, {g.rests(1)} rests")


def test_no_release_is_lost_as_a_chain_ends(stack):
    """Looks of the host at any moment are for the fake driver, where they cost less; here some, of which the last are where it rests."""
    steps = 0
    for part in (None, 0.6, 0.8, 0.9, 0.97) if LONG and not SANITIZE else (None, 0.9):
        after = int(steps * (part or 0))
        g = Graphs(random.Random(7))
        g.ask(0, 1)
        g.run(g.begin())
        ends = list(g.kernels())
        check(len(ends) == 1, "it was not launched")
        again = []

        def release():
            g.ask(1, 1)
            again.append(g.begin())
        steps = g.run(ends[0], meanwhile=release, after=after) or steps
        if not again:
            release()
        # Heard beside the chain, or by the graph that comes behind it.
        g.run(again[0])
        for block in g.kernels():
            g.run(block)
        if g.done(1) == 0:  # heard when the chain had ended: the host's look begins the next one
            check(g.rests() != g.begun, "nobody begins again")
            g.run(g.begin())
            for block in g.kernels():
                g.run(block)
        check((g.done(0), g.done(1)) == (1, 1), f"after {after}: done {g.done(0)}, {g.done(1)}")


def read_text(folder, name):
    with open(os.path.join(folder, name + "_text.c"), encoding="ascii") as f:
        return f.read()


def test_the_committed_texts_are_those_of_their_sources(stack):
    if not shutil.which("nvcc"):
        raise Skip("there is no nvcc")
    committed = {name: read_text(DEVICE, name) for name in ("gpusched", "gpugraphs", "gpugraphs_heard")}
    made_by = re.search(r"with CUDA (\S+)\. ", committed["gpugraphs"]).group(1)
    if made_by not in subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout:
        raise Skip("the committed texts were made by CUDA " + made_by)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([os.path.join(DEVICE, "make-gpusched"), work], check=True)
        for name, text in committed.items():
            check(read_text(work, name) == text, f"run make-gpusched: the source of {name}, or the core, has changed since")


main(test_a_warp_does_what_a_processor_does, test_the_host_reads_between_two_decisions,
     test_a_resident_decides_until_it_is_parked, test_a_resident_goes_when_the_host_has_gone,
     test_a_resident_goes_when_the_host_says_so, test_a_warp_knows_what_was_missed_in_a_stop,
     test_a_chain_knows_what_was_missed_in_a_stop, test_a_chain_of_graphs_launches_itself,
     test_a_chunk_is_told_to_stop_and_goes_on, test_a_chunk_is_told_to_stop_by_a_park, test_a_chain_stays_for_a_word,
     test_each_slot_has_a_chain, test_no_release_is_lost_as_a_chain_ends, test_the_committed_texts_are_those_of_their_sources)
