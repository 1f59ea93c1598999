# SPDX-License-Identifier: Apache-2.0
"""As much of PyTorch as bench/torch_client.py measures with, over a model: steps that take a program so long to launch,
and the device so long to do, one after the other. As a program it is that client, on the machine's clock:
torch_model.py ARGUMENT... (what each work takes is in WORKS)."""
import importlib.util
import os
import sys
import time
import types

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "torch_client.py")
WORKS = {"resnet50-b1": (0.0008, 0.0003), "resnet50-b64": (0.0008, 0.001), "gpt2-graph": (0.0001, 0.001), "train": (0.001, 0.002)}  # s


class VirtualTime:
    """What a program sees of time, if nothing but itself takes any."""

    def __init__(self):
        self.ns = 1_000_000_000

    def monotonic_ns(self):
        self.ns += 50  # so that who waits for a time comes to its end
        return self.ns

    def sleep(self, s):
        self.ns += round(1e9 * s)


class Device:
    def __init__(self, clock):
        self.clock, self.free = clock, 0
        self.behind = []  # how much it had to do when it was given more, ns

    def step(self, launch_s, device_s):
        self.clock.sleep(launch_s)
        now = self.clock.monotonic_ns()
        self.behind.append(max(0, self.free - now))
        self.free = max(now, self.free) + round(1e9 * device_s)

    def wait(self, until):
        self.clock.sleep(max(0, (until - self.clock.monotonic_ns()) / 1e9))


def modules(device):
    """torch, and what is imported of it."""

    class Event:
        def __init__(self, enable_timing=False):
            self.timed, self.at = enable_timing, None

        def record(self):
            self.at = max(device.free, device.clock.monotonic_ns())

        def synchronize(self):
            device.wait(self.at)

        def elapsed_time(self, end):
            if not (self.timed and end.timed and end.at <= device.clock.monotonic_ns()):
                raise RuntimeError("not timed, or not over")
            return (end.at - self.at) / 1e6

    torch, nn, functional = (types.ModuleType(name) for name in ("torch", "torch.nn", "torch.nn.functional"))
    torch.nn, nn.functional, nn.Module = nn, functional, object
    torch.cuda = types.SimpleNamespace(Event=Event, synchronize=lambda: device.wait(device.free))
    torch.zeros = lambda n: types.SimpleNamespace(cuda=lambda: None)
    return {"torch": torch, "torch.nn": nn, "torch.nn.functional": functional}


class Shim:
    """Through it a launch takes so many times as long, if it does."""

    def __init__(self, factor=1):
        self.words, self.factor, self.is_through = [None], factor, True

    def through(self, yes):
        self.is_through = yes

    def takes(self):
        return self.factor if self.is_through else 1


def client(device):
    """bench/torch_client.py over this device."""
    sys.modules.update(modules(device))
    spec = importlib.util.spec_from_file_location("torch_client", CLIENT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.time, module.Shim = device.clock, Shim
    module.WORK = {name: lambda times=times: lambda: device.step(*times) for name, times in WORKS.items()}
    return module


if __name__ == "__main__":
    client(Device(time)).main()
