#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a device: `fermata-lab profile --rooms' with kernels of which it is known how long they take: blocks of 100 us, so many
that they make one wave on the whole device and several on a part of it. Each block runs once; kernels whose blocks wait for
each other are put only where they have room. And what the versions of the example server's convolution take, and whether all of
them say the same. Prints the tables.

  test_rooms.py [CASE...]"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, Skip, check, command, cuda_env, main

SERVER = os.path.join(BUILD, "bin", "inference_server")
SOURCE = os.environ.get("SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
THREADS, HOLD_NS, LAUNCHES, ROOMS = 128, 100_000, 20, (8, 16, 64)
# hold: a block takes so long; its first thread counts. meet: it also waits until all blocks have counted.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry hold(.param .u64 counter, .param .u64 ns, .param .u32 enough)
{
    .reg .pred %p;
    .reg .u32 %r<4>;
    .reg .u64 %rd<6>;
    ld.param.u64 %rd1, [counter];
    ld.param.u64 %rd2, [ns];
    mov.u64 %rd3, %globaltimer;
    add.u64 %rd4, %rd3, %rd2;
WAIT:
    mov.u64 %rd3, %globaltimer;
    setp.lt.u64 %p, %rd3, %rd4;
    @%p bra WAIT;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p, %r1, 0;
    @%p bra END;
    red.global.add.u32 [%rd1], 1;
END:
    ret;
}
.visible .entry meet(.param .u64 counter, .param .u64 ns, .param .u32 enough)
{
    .reg .pred %p;
    .reg .u32 %r<4>;
    .reg .u64 %rd<6>;
    ld.param.u64 %rd1, [counter];
    ld.param.u32 %r2, [enough];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p, %r1, 0;
    @%p bra END;
    red.global.add.u32 [%rd1], 1;
LOOK:
    ld.volatile.global.u32 %r3, [%rd1];
    setp.lt.u32 %p, %r3, %r2;
    @%p bra LOOK;
END:
    ret;
}
\0"""


class Device:
    def __init__(self):
        try:
            self.cu = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise Skip(f"no driver: {e}") from e
        self.dev, ctx, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.must("cuInit", 0)
        self.must("cuDeviceGet", ctypes.byref(self.dev), 0)
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), self.dev)
        self.must("cuCtxSetCurrent", ctx)
        self.must("cuModuleLoadData", ctypes.byref(self.module), PTX)
        n = ctypes.c_int()
        self.must("cuDeviceGetAttribute", ctypes.byref(n), 16, self.dev)
        self.sms = n.value

    def must(self, name, *arguments):
        rc = getattr(self.cu, name)(*arguments)
        if rc:
            raise SystemExit(f"{name}: {rc}")

    def function(self, name):
        f = ctypes.c_void_p()
        self.must("cuModuleGetFunction", ctypes.byref(f), self.module, name.encode())
        return f

    def per_sm(self, f):
        n = ctypes.c_int()
        self.must("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(n), f, THREADS, ctypes.c_size_t(0))
        return n.value

    def run(self, name, grid, launches, how="cuLaunchKernel"):
        """What was counted."""
        f, at, counted = self.function(name), ctypes.c_uint64(), ctypes.c_uint32()
        self.must("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(4))
        self.must("cuMemsetD32_v2", at, 0, ctypes.c_size_t(1))
        for i in range(launches):
            ns, enough = ctypes.c_uint64(HOLD_NS), ctypes.c_uint32(grid * (i + 1))
            arguments = (ctypes.c_void_p * 3)(*[ctypes.addressof(a) for a in (at, ns, enough)])
            more = (None,) if how == "cuLaunchKernel" else ()
            self.must(how, f, grid, 1, 1, THREADS, 1, 1, 0, None, arguments, *more)
        self.must("cuMemcpyDtoH_v2", ctypes.byref(counted), at, ctypes.c_size_t(4))
        return counted.value


def grids(device):
    """Of one wave on the whole device, and of what 16 multiprocessors hold at once."""
    each = device.per_sm(device.function("hold"))
    return each * device.sms, each * 16


def work():
    d = Device()
    wave, part = grids(d)
    for name, grid, how in (("hold", wave, "cuLaunchKernel"), ("hold", part, "cuLaunchKernel"), ("meet", part, "cuLaunchKernel"),
                            ("hold", part - 1, "cuLaunchCooperativeKernel")):
        counted = d.run(name, grid, LAUNCHES, how)
        if counted != grid * LAUNCHES:
            raise SystemExit(f"{name}: {counted} blocks have run, of {grid * LAUNCHES}")
    print("all blocks ran once")


def profile(stack, *options):
    out = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "times")
    r = subprocess.run([*command("profile", "--json", *options, "-o", out), "--", sys.executable, os.path.abspath(__file__), "--work"],
                       env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=200, check=False)
    check(r.returncode == 0 and "all blocks ran once" in r.stdout, f"status {r.returncode}: {r.stdout[-500:]} {r.stderr[-1500:]}")
    for line in r.stderr.splitlines():
        print(f"         {line}")
    table = subprocess.run(command("profile", "show", out), capture_output=True, text=True, check=True).stdout
    print("\n".join("         " + line for line in table.splitlines()))
    with open(out, encoding="ascii") as f:
        return json.load(f)["kernels"]


def times(stack):
    kernels = profile(stack, "--rooms=" + ",".join(map(str, ROOMS)))
    device = Device()
    wave, part = grids(device)
    of = {(k["name"], k["grid"][0]): {r["multiprocessors"]: r["ns"] for r in k["on"]} | {"is": k} for k in kernels}
    full, small, meet, together = (of[key] for key in (("hold", wave), ("hold", part), ("meet", part), ("hold", part - 1)))
    check(full["is"]["waves"] == 1 and set(ROOMS) | {device.sms} <= set(full), f"{full}")
    for on, ns in full.items():
        if on == "is":
            continue
        waves = -(-device.sms // on)
        print(f"         {wave} blocks on {on}: {ns / 1e3:.1f} us, {waves} waves of {HOLD_NS / 1e3:.0f}")
        check(0.95 * waves * HOLD_NS <= ns <= 1.3 * waves * HOLD_NS + 20_000, f"on {on} it takes {ns} ns, in {waves} waves")
    check(0.95 * HOLD_NS <= full["is"]["block_ns"] <= 1.3 * HOLD_NS + 20_000, f"{full['is']}")
    check(small[8] > 1.5 * small[16], f"{small}")
    # Where not all blocks are there at once those that wait for each other would wait for ever.
    for k in meet, together:
        check(8 not in k and {16, 64, device.sms} <= set(k), f"{k}")


def versions(stack):
    """By the server's own measurement: how many layers each is worth anything in."""
    if not os.path.exists(SERVER):
        raise Skip("the example server was not built")
    sys.path.insert(0, os.path.join(SOURCE, "tests", "integration", "cuda", "server"))
    os.environ.setdefault("SOURCE", SOURCE)
    import test_server as s
    for more in (("--mode", "guardian", "--pad", "16"), ("--mode", "guardian", "--pad", "auto")):
        server = s.Server(stack, *more, "--versions", models=("-r", "rt=resnet50", "-b", "be=resnet50,batch=16"), shim=True)
        c = s.Client(stack, server)
        alone = [c.infer("be", p) for p in range(4)]
        asker = s.Client(stack, server)
        asker.say(*[f"infer rt {i % 4}" for i in range(200)])
        found = [c.infer("be", p) for p in range(4)]
        answers = [asker.hear() for _ in range(200)]
        check(found == alone and all(a.startswith("ok rt ") for a in answers), f"{found} {alone} {answers[:3]}")
        stats = c.stats()
        print(f"         {' '.join(more)}: a block takes {stats['block_us']} us at most beside urgent work")
        for m in stats["models"]:
            print(f"         {m['name']}: " + ", ".join(f"{k} {v['layers']} layers, {v['launched']} launches" for k, v in m["versions"].items()))
        server.end()


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        main(times, versions)
