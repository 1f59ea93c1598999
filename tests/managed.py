# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory may move, on the fake driver: tests/integration/cuda/cuda_managed.c, told what to do line by line."""
import os
import tempfile

from harness import Fermata, Program, check, cuda_env, need_cuda_shim, program

MIB = 1 << 20


class Managed(Program):
    def do(self, *commands):
        """Each is answered before the next is sent."""
        for command in commands:
            mark = self.mark()
            self.tell(command)
            self.line(command.split()[0], after=mark)

    def refuses(self, command):
        mark = self.mark()
        self.do(command)
        check("refused" in self.lines[mark:], f"{command} was not refused")

    def ends(self):
        self.p.stdin.close()
        check(self.wait() == 0, f"it ended with status {self.p.returncode}")


def world(stack, capacity=None, config=None, start=True, **env):
    """A daemon. With a capacity, its programs share a device that has so much."""
    need_cuda_shim()
    fermata = Fermata(stack, config=config, start=start)
    if capacity:
        device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
        env = {"FAKE_CUDA_CAPACITY": capacity, "FAKE_CUDA_CONTEXT": "1M", "FAKE_CUDA_DEVICE": device, **env}
    fermata.env = cuda_env({**fermata.env, **{k: str(v) for k, v in env.items()}})
    return fermata


def start(fermata, *options, memory="--memory", name="cuda_managed", **user):
    """One that is ready, and known to the daemon if there is one."""
    p = fermata.program([program(name)], *filter(None, [memory]), *options, cls=Managed, **user)
    p.line("ready")
    if fermata.daemon:
        fermata.knows(p.pid)
    return p


def memory(fermata, p):
    """Of its group, on its first device."""
    return fermata.group(p.pid)["memory"][0]


def out(fermata, p, *more, **how):
    return fermata.cli("suspend", "--out", "--wait", str(p.pid), *more, **how)


def back(fermata, p):
    return fermata.cli("resume", "--wait", str(p.pid))
