#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of several APIs on one device: the software devices of PoCL, lavapipe and CUDA's fake driver serve one command at a time in all
(tests/fakes/token) and say that they are the same device, so the daemon has one order for all programs. No case looks at how long something
took."""

import glob
import json
import os
import signal
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, SANITIZE, Fermata, Skip, Worker, check, cuda_env, eventually, halt, main, program  # noqa: E402

FAKES = os.path.join(BUILD, "tests", "fakes")
OURS = os.path.realpath(os.path.join(BUILD, "lib", "fermata"))
LAYER, TOKEN = "VK_LAYER_FERMATA_schedule", "VK_LAYER_FERMATA_token"
WORKERS = {
    "opencl": [program("worker"), "64"],
    "vulkan": [program("vulkan_worker"), "devices=3", "300"],  # three queues, so that it always has work
    "cuda": [program("cuda_worker"), "300"],
}


class Device:
    """The one device. The layers by which it is one stand below ours; so ours is named here, as `fermata run` leaves it then."""

    def __init__(self, stack, *apis, **more):
        for api in apis:
            if not os.path.exists(WORKERS[api][0]) or not os.path.exists(os.path.join(BUILD, "lib", f"libfermata-{api}.so")):
                raise Skip(f"{api} is not built")
        icd = [f for f in glob.glob("/usr/share/vulkan/icd.d/*.json") if "lvp" in f]
        if "vulkan" in apis and not icd:
            raise Skip("lavapipe is not installed (Debian: mesa-vulkan-drivers)")
        if SANITIZE:
            raise Skip("it is about what is scheduled when; the memory that it touches others touch, too")
        self.f, self.stack = Fermata(stack, **more), stack
        self.file = os.path.join(self.f.dir, "token")
        manifest = {"file_format_version": "1.2.0", "layer": {
            "name": TOKEN, "type": "GLOBAL", "library_path": os.path.join(FAKES, "libtoken_vulkan.so"), "api_version": "1.3.239",
            "implementation_version": "1", "description": "one device for all"}}
        with open(os.path.join(self.f.dir, "VkLayer_token.json"), "w", encoding="ascii") as f:
            json.dump(manifest, f)
        self.f.env = cuda_env({
            **self.f.env, "FERMATA_TOKEN": self.file, "LP_NUM_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1",
            "VK_ICD_FILENAMES": icd[0] if icd else "", "VK_ADD_LAYER_PATH": f"{OURS}/vulkan:{self.f.dir}",
            "VK_INSTANCE_LAYERS": f"{LAYER}:{TOKEN}",
            "OPENCL_LAYERS": f"{FAKES}/libtoken_opencl.so:{BUILD}/lib/libfermata-opencl.so"})

    def natively(self, api):
        env = {**self.f.env, "VK_INSTANCE_LAYERS": TOKEN, "OPENCL_LAYERS": f"{FAKES}/libtoken_opencl.so"}
        w = Worker(WORKERS[api], env=env)
        self.stack.callback(w.close)
        w.line("at ")
        return w

    def start(self, api, *options):
        """Known to the daemon; it may have to wait for its first turn."""
        w = self.f.program(WORKERS[api], *options, cls=Worker)
        self.f.knows(w.pid)
        return w

    def token(self):
        with open(self.file, "rb") as f:
            return dict(zip(("holder", "died", "clashes", "served"), struct.unpack("4xIIIQ", f.read(24))))


def finish(device, programs):
    for p in programs:
        p.finish()
    check(not device.token()["clashes"] and device.token()["served"], f"{device.token()}")


def natively_in_turn(stack):
    """Without Fermata the device serves whatever comes: all advance."""
    device = Device(stack, "opencl", "vulkan", "cuda", start=False)
    programs = [device.natively(api) for api in ("opencl", "opencl", "vulkan", "cuda")]
    for p in programs:
        p.advances()
    finish(device, programs)


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def comes_back_from_the_dead(stack):
    device = Device(stack, "opencl", "vulkan", start=False)
    for api, other in (("opencl", "vulkan"), ("vulkan", "opencl")):
        beside, dies = device.natively(other), device.natively(api)
        before = device.token()["died"]

        def holds():
            """Stopped with the token, or it goes on."""
            halt(dies.p)
            eventually("it is stopped", lambda: state(dies.pid) == "T")
            if device.token()["holder"] == dies.pid:
                return True
            dies.kill(signal.SIGCONT)
            return False

        eventually(f"a program of {api} has the token", holds)
        dies.kill()
        beside.advances()
        check(device.token()["died"] == before + 1, f"nobody died with it: {device.token()}")
        finish(device, [beside])


def one_order(stack, urgent, others):
    """Fixed priorities: the others stand while the urgent program advances; the order changes when the priorities do; and whatever stops
    goes on when its turn comes."""
    device = Device(stack, urgent, *others)
    low = [device.start(api, "--priority", "low") for api in others]
    for w in low:
        w.advances()
    high = device.start(urgent, "--priority", "high")
    keys = {q["device"] for g in device.f.ps()["groups"] for q in g["queues"]}
    check(len(keys) == 1, f"one device has several names: {keys}")
    for w in low:
        w.stands()
    high.advances()
    device.f.cli("hint", str(low[0].pid), "priority=100")
    low[0].advances()
    for w in (high, low[1]):
        w.stands()
    device.f.cli("suspend", str(low[0].pid))
    high.advances()
    device.f.cli("resume", str(low[0].pid))
    low[0].advances()
    low[0].finish()
    high.advances()
    high.finish()
    low[1].advances()
    finish(device, low[1:])


def vulkan_before_opencl(stack):
    one_order(stack, "vulkan", ("opencl", "opencl"))


def opencl_before_vulkan(stack):
    one_order(stack, "opencl", ("vulkan", "vulkan"))


def cuda_before_both(stack):
    one_order(stack, "cuda", ("vulkan", "opencl"))


def parts_of_one(stack):
    """Programs that see one part of a GPU each, which Intel's drivers count in the UUID, are on one device."""
    device, programs = Device(stack, "opencl"), []
    for part in "0", "1", "2":
        device.f.env["FERMATA_TOKEN_PART"] = part
        programs.append(device.start("opencl"))
    keys = {q["device"] for g in device.f.ps()["groups"] for q in g["queues"]}
    check(len(keys) == 1 and next(iter(keys)).endswith("00"), f"one device has several names: {keys}")
    finish(device, programs)


def one_processor():
    """A thread that wakes up does not take it from the one that runs."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def busy_processor(stack):
    """The driver's callbacks wait for the processor which the trial of them keeps busy. They do not count as late: kernels can be stopped."""
    device = Device(stack, "opencl")
    for _ in range(2):
        w = device.f.program(WORKERS["opencl"], cls=Worker, preexec_fn=one_processor)
        device.f.knows(w.pid)
        w.advances()
        levels = [q["level"] for g in device.f.ps()["groups"] for q in g["queues"] if q["pid"] == w.pid]
        check(levels == [3], f"levels {levels}: {device.f.cli('ps', '--calls').stdout}")
        finish(device, [w])


main(natively_in_turn, comes_back_from_the_dead, vulkan_before_opencl, opencl_before_vulkan, cuda_before_both, parts_of_one,
     busy_processor)
