#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Level 3 of CUDA: the time slice of a program in the background, on a kernel driver that is a fake (fakes/rm)."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, Fermata, check, cuda_env, eventually, main, need_cuda_shim

RM = os.path.join(BUILD, "tests", "fakes", "libfake_rm.so")
OWN = 2000  # us: the fake driver's


class Slices:
    """A daemon, and programs each with a log of what the kernel's driver was asked."""

    def __init__(self, stack, **env):
        need_cuda_shim()
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        self.fermata = Fermata(stack)
        self.fermata.env = cuda_env({**self.fermata.env, "LD_PRELOAD": RM, **env})
        self.n = 0

    def worker(self, *options, behind=False, devices=1):
        self.n += 1
        log = os.path.join(self.dir, str(self.n))
        self.fermata.env["FAKE_RM_LOG"] = log
        start = self.fermata.cuda_worker_behind if behind else self.fermata.cuda_worker
        worker = start(*options, devices=devices)
        worker.asked = lambda: open(log, encoding="ascii").read().splitlines() if os.path.exists(log) else []
        return worker


def last(worker, line, groups=1):
    """What was asked last for each of its channel groups, but for what they had."""

    def said():
        return [a for a in worker.asked() if not a.startswith("get")][-groups:]

    eventually(f"the last of {worker.asked()} is {line}", lambda: said() == [line] * groups)


def background(stack):
    """The only one in the background has a small slice while others share the device; not two of them."""
    s = Slices(stack)
    low = s.worker("--priority", "low")
    low.advances()
    check(not low.asked(), f"alone it was given one: {low.asked()}")
    other = s.worker()
    last(low, "set 1")
    second = s.worker("--priority", "low", behind=True)
    last(low, f"set {OWN}")
    second.kill()
    last(low, "set 1")
    other.finish()
    last(low, f"set {OWN}")
    check(not other.asked(), f"who is not in the background was asked for: {other.asked()}")
    low.advances()
    low.finish()


def two_of_a_group(stack):
    """Likewise two processes of one group."""
    s = Slices(stack)
    low = s.worker("--priority", "low", "--group", "batch")
    other = s.worker()
    last(low, "set 1")
    second = s.worker("--group", "batch", behind=True)
    last(low, f"set {OWN}")
    check(not second.asked(), f"{second.asked()}")
    second.kill()
    last(low, "set 1")
    other.finish()
    last(low, f"set {OWN}")
    low.finish()


def on_two_devices(stack):
    """Its slice is that of its channels on both: the only one in the background on one has none beside another on the
    other. It gives back to each what that one had."""
    s = Slices(stack, FAKE_CUDA_DEVICES="2")
    low = s.worker("--priority", "low", devices=2)
    low.advances()
    other = s.worker()
    last(low, "set 1", 2)
    s.fermata.env["CUDA_VISIBLE_DEVICES"] = "1"
    second = s.worker("--priority", "low")
    last(low, f"set {OWN}", 2)
    check(not second.asked(), f"{second.asked()}")
    second.finish()
    last(low, "set 1", 2)
    other.finish()
    last(low, f"set {OWN}", 2)
    check([a for a in low.asked() if a.startswith("get")] == [f"get {OWN}"] * 2, f"{low.asked()}")
    low.advances()
    low.finish()


def by_wish(stack):
    """Who wants no more than level 2 is left alone."""
    s = Slices(stack)
    low = s.worker("--priority", "low", "--level", "2")
    other = s.worker()
    other.advances()
    other.finish()
    low.advances()
    low.finish()
    check(not low.asked(), f"{low.asked()}")


def refused(stack):
    """It is asked for once, and the program goes on."""
    s = Slices(stack, FAKE_RM_REFUSE="1")
    low = s.worker("--priority", "low")
    other = s.worker()
    last(low, "refused 1")
    other.finish()
    another = s.worker()
    another.advances()
    another.finish()
    low.advances()
    low.finish()
    check(low.asked().count("refused 1") == 1, f"{low.asked()}")


def daemon_gone(stack):
    """With nobody to say so it makes room no longer."""
    s = Slices(stack)
    low, other = s.worker("--priority", "low"), s.worker()
    last(low, "set 1")
    s.fermata.kill()
    last(low, f"set {OWN}")
    other.finish()
    low.finish()


if __name__ == "__main__":
    main(background, two_of_a_group, on_two_devices, by_wish, refused, daemon_gone)
