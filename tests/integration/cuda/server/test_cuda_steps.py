#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a suspended CUDA program's device stands, seen from outside of it: in a stream, in the middle of a graph, and
while the program itself does nothing at all. The driver is the fake one; FERMATA_TEST_CUDA=real takes the machine's."""
import mmap
import os
import signal
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import Fermata, Program, Skip, check, cuda_env, eventually, halt, main, need_cuda_shim, program

REAL = os.environ.get("FERMATA_TEST_CUDA") == "real"
MOST = 100000  # steps that a case may take
STILL = 0.3  # s without a step: the device stands
AT, word = {}, 0
for i in range(MOST):
    AT[word], word = i, (3 * word + 1) % 2**32


class Steps(Program):
    """cuda_steps.c; how many steps its device has made."""

    def __init__(self, argv, **more):
        if not os.path.isdir("/dev/shm"):
            raise Skip("for a driver that pins no disk's pages, and there is no /dev/shm")
        at = argv.index("FILE")
        self.file = tempfile.NamedTemporaryFile(prefix="fermata-steps-", dir="/dev/shm")
        self.file.write(bytes(16384))
        self.file.flush()
        self.seen = mmap.mmap(self.file.fileno(), 16384)
        super().__init__([*argv[:at], self.file.name, *argv[at + 1:]], **more)
        self.line("ready")

    def steps(self, device=0):
        """The program's device, or its other one."""
        return AT[struct.unpack_from("=I", self.seen, 64 * device)[0]]

    def gets_to(self, step, device=0):
        eventually(f"step {step}", lambda: self.steps(device) >= step)

    def stands(self, device=0):
        """Where it does so."""
        def still():
            before = self.steps(device)
            time.sleep(STILL)
            return self.steps(device) == before

        eventually("the device stands", still)
        return self.steps(device)

    def do(self, command):
        at = self.mark()
        self.tell(command)
        return at

    def done(self, command, at):
        self.line(command.split()[0], after=at)


def world(stack, *options, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = {**cuda_env(fermata.env), **env}
    p = fermata.program([program("cuda_steps"), "FILE"], *options, cls=Steps)
    fermata.knows(p.pid)
    return fermata, p


def learn(p):
    """How long its kernels take."""
    for _ in range(4):
        p.done("stream", p.do("stream 20 200"))


def suspended_in(fermata, p, command, n):
    """Of n kernels, how many have run when the device stands; all of them, if it does not."""
    before = p.steps()
    at = p.do(command)
    p.gets_to(before + 1)
    fermata.cli("suspend", str(p.pid))
    stood = p.stands() - before
    time.sleep(STILL)
    if p.steps() != before + stood:
        stood = n
    fermata.cli("resume", str(p.pid))
    p.done(command, at)
    check(p.steps() == before + n, f"{p.steps() - before} steps, not {n}")
    return stood


def in_a_stream(stack):
    fermata, p = world(stack)
    learn(p)
    eventually("it is stopped between two kernels", lambda: suspended_in(fermata, p, "stream 100 1000", 100) < 100)


def in_a_graph(stack):
    """One that was captured; without gates, node by node, it runs to its end."""
    fermata, p = world(stack)
    learn(p)
    eventually("it is stopped in the graph", lambda: suspended_in(fermata, p, "captured 200 500", 200) < 200)
    before = p.steps()
    at = p.do("composed 50 500")
    p.gets_to(before + 1)
    fermata.cli("suspend", str(p.pid))
    p.gets_to(before + 50)
    fermata.cli("resume", str(p.pid))
    p.done("composed", at)


def without_its_help(stack):
    """The program is stopped (SIGSTOP) while its device is suspended and resumed."""
    if not REAL:
        raise Skip("the fake device is threads of the program's")
    fermata, p = world(stack)
    learn(p)

    def once():
        before, at = p.steps(), p.do("stream 800 1000")
        p.line("launched", after=at)
        halt(p.p)
        try:
            fermata.cli("suspend", str(p.pid))
            stood = p.stands() - before
            fermata.cli("resume", str(p.pid))
            p.gets_to(before + min(stood + 4, 800))
        finally:
            p.kill(signal.SIGCONT)
        p.done("stream", at)
        check(p.steps() == before + 800, f"{p.steps() - before} steps")
        return 0 < stood < 800

    eventually("it is stopped between two kernels", once)


def on_all_its_devices(stack):
    """A process with work on two devices stands on both while one of them is another's, which who works on the second alone
    does not; likewise two processes of one group, a device each."""
    if REAL:
        raise Skip("for two devices; test_nccl.py does it with several GPUs")
    need_cuda_shim()
    for group in (), ("--group", "gang"):
        fermata = Fermata(stack)
        fermata.env = {**cuda_env(fermata.env), "FAKE_CUDA_DEVICES": "2"}
        steps = lambda device, *options: fermata.program([program("cuda_steps"), "FILE", str(device)], "--priority", "low",
                                                         *options, cls=Steps)
        gang = [steps(0, *group), steps(1, *group)] if group else [steps(0)]
        alone, command = steps(1), "stream 400 1000" if group else "both 400 1000"
        at = lambda: [gang[0].steps(0), gang[-1].steps(0 if group else 1)]  # on the first device, and on the second

        def once():
            """Do they stand in the middle while the other works on the second device?"""
            before, marks = at(), [p.do(command) for p in gang]
            urgent = fermata.cuda_worker("--priority", "high")
            stood = []

            def still():
                stood[:] = at()
                alone.done("stream", alone.do("stream 200 1000"))
                return stood == at()

            eventually("they stand on both devices", still)
            urgent.advances()
            urgent.finish()
            for p, mark in zip(gang, marks):
                p.done(command, mark)
            check(at() == [steps + 400 for steps in before], f"steps: {before}, {at()}")
            return all(now < steps + 400 for now, steps in zip(stood, before))

        eventually("they stand in the middle", once)
        fermata.stop()


def gates_as_far_apart_as_asked(stack):
    """FERMATA_INTERVAL_US, of device time."""
    def gates(interval):
        fermata, p = world(stack, FERMATA_INTERVAL_US=str(interval))
        learn(p)
        p.done("stream", p.do("stream 400 1000"))
        return sum(q["gates"] for q in fermata.group(p.pid)["queues"])

    near, far = gates(50), gates(20000)
    check(near > 4 * far, f"{near} gates, 50 us apart, and {far}, 20 ms apart")


def fault(stack):
    """A kernel that writes where nothing is: the program is told what it is natively; it is its own fault, and its
    neighbour's results are right, though it takes turns with it."""
    native = Steps([program("cuda_steps"), "FILE"], env=cuda_env(os.environ))
    stack.callback(native.close)
    command = "fault 28 1000"
    native.done(command, native.do(command))
    need_cuda_shim()
    for options in (), ("--level", "1"), ("--guardian",):
        fermata = Fermata(stack)
        fermata.env = cuda_env(fermata.env)
        other = fermata.cuda_worker()
        p = fermata.program([program("cuda_steps"), "FILE"], *options, cls=Steps)
        p.done(command, p.do(command))
        other.advances()
        check(p.lines == native.lines, f"{options}: {p.lines}\nnatively {native.lines}")
        check(any("cuStreamSynchronize(j->s): 7" in line for line in p.lines), f"there was no fault: {p.lines}")
        p.p.stdin.close()
        p.wait()
        other.advances()
        other.finish()
        fermata.stop()


if __name__ == "__main__":
    main(in_a_stream, in_a_graph, without_its_help, on_all_its_devices, gates_as_far_apart_as_asked, fault)
