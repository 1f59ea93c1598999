#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The decisions of a set of tasks as PTX (gpusched_text.c), run by a warp of 32 lanes, instruction by instruction in an order that is
drawn: on the same random news it leaves in memory, to the last word, what the text that processors run leaves there. And the
committed PTX is what its source gives, where there is a compiler."""
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
from harness import SANITIZE, Skip, check, main, program

machine.LANES = 32
DEVICE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "src", "device")
# What is ours is the text: to run it more often tells a sanitizer nothing.
TRACES, STEPS = (2, 6) if SANITIZE else (4, 12)
TOLD, READ = 0x70000000, 0x60000000  # memory of the host
TASKS = 32  # of struct fm_gates_told


def output(*argv):
    return subprocess.run([program("gpu_trace"), *argv], capture_output=True, text=True, check=True).stdout


def words(fields):
    return {int(at, 16): int(value, 16) for at, value in (field.split("=") for field in fields)}


class Set:
    """One on the device, in memory that begins as the processor's does."""
    def __init__(self, kernel, line, rng):
        head = line.split()
        self.kernel, self.rng, self.memory = kernel, rng, machine.Memory(words(head[4:]))
        self.at, told, self.tasks, self.task_size = (int(field, 16) for field in head[:4])
        self.expected = dict(self.memory)
        self.told = self.at + told

    def run(self, now, jobs, chunks, task, what, to=0):
        """`told` stands where the processor has what is not compared."""
        self.memory.store(self.told, TOLD, 8)
        place = machine.Block(self.kernel, (1, 1, 1), (32, 1, 1), (0, 0, 0), dict(zip(
            (name for name, _ in self.kernel.params), (self.at, to, jobs, chunks, task, what))), self.memory)
        for thread in place.threads:
            thread.special["%globaltimer"] = now
        while not place.ended():
            place.advance(self.rng)
        self.memory.store(self.told, 0, 8)

    def compare(self, line):
        for at in sorted(set(self.memory) | set(self.expected)):
            if READ <= at < TOLD + 0x1000:
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
        return self.memory.load(self.tasks + task * self.task_size + 40, 8)  # as words.h has it


def test_a_warp_does_what_a_processor_does(stack):
    kernel, decided, done = machine.Kernel(output("text"), "fermata_set"), 0, 0
    for seed in range(TRACES):
        lines = output(str(seed), str(STEPS)).splitlines()
        on_device = Set(kernel, lines[0], random.Random(seed))
        for line in lines[1:]:
            on_device.step(line)
        for task in range(5):  # the host is told
            told = on_device.memory.load(TOLD + 8 * task, 8)
            check(told == on_device.done(task), f"the host is told {told} of task {task}")
            done += told
        decided += on_device.memory.load(TOLD + 2 * 8 * TASKS + 16, 8)
    check(decided > TRACES * STEPS // 2, f"{decided} decisions alone: nothing was shown")


def test_the_host_reads_between_two_decisions(stack):
    lines = output("1", str(STEPS)).splitlines()
    on_device = Set(machine.Kernel(output("text"), "fermata_set"), lines[0], random.Random(1))
    for line in lines[1:]:
        on_device.step(line)
    on_device.run(10 ** 6, 0, 0, 0, 0, to=READ)
    on_device.compare(lines[-1])
    for at in range(0, on_device.task_size, 4):
        check(on_device.memory.get(READ + at, 0) == on_device.memory.get(on_device.tasks + at, 0), f"word {at} of a task")


def test_the_committed_text_is_that_of_its_source(stack):
    if not shutil.which("nvcc"):
        raise Skip("there is no nvcc")
    with open(os.path.join(DEVICE, "gpusched_text.c"), encoding="ascii") as f:
        committed = f.read()
    made_by = re.search(r"with CUDA (\S+)\. ", committed).group(1)
    if made_by not in subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout:
        raise Skip("the committed text was made by CUDA " + made_by)
    with tempfile.TemporaryDirectory() as work:
        made = os.path.join(work, "text.c")
        subprocess.run([os.path.join(DEVICE, "make-gpusched"), made], check=True)
        with open(made, encoding="ascii") as f:
            check(f.read() == committed, "run make-gpusched: the source, or the core, has changed since")


main(test_a_warp_does_what_a_processor_does, test_the_host_reads_between_two_decisions,
     test_the_committed_text_is_that_of_its_source)
