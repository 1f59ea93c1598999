#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device memory of PyTorch programs: limits, what programs and operators are told of it, and programs whose memory goes out
and comes back, whose results are those of a native run, bit for bit."""
import ctypes
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, Fermata, Program, Skip, Steering, check, eventually, main

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "memory_work.py")
MIB, GIB = 1 << 20, 1 << 30
OUTS = int(os.environ.get("OUTS", "300"))
PROGRAMS, KINDS = 8, 8


def work(*args):
    return [sys.executable, WORK, *map(str, args)]


def world(stack):
    """Tables of the driver's for which whoever runs this answers hold for its programs."""
    fermata, tables = Fermata(stack), os.environ.get("FERMATA_MEMORY_TABLES")
    if tables:
        fermata.env["FERMATA_MEMORY_TABLES"] = tables
    return fermata


def one_line(fermata, case, *options):
    """What a program says that says one thing."""
    p = fermata.program(work(case), *options)
    said = json.loads(p.line("{", seconds=200))
    check(p.wait(200) == 0, f"'{case}' ended with status {p.p.returncode}")
    return said


def native(*args):
    r = subprocess.run(work(*args), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if r.returncode:
        raise Skip(f"PyTorch does not work here: {r.stderr[-300:]}")
    return r.stdout.splitlines()


def named(fermata, pid):
    """What pins the program's memory, as `fermata ps --memory --json' names it."""
    groups = json.loads(fermata.cli("ps", "--memory", "--json").stdout)["groups"]
    mine = next(g for g in groups if str(pid) in g["name"])
    return [f"{pin['kind']}: {pin['what']}, asked by {pin['by'] or '?'}" for pin in mine.get("pins", [])]


def libraries_pin_nothing(stack):
    """Which library of PyTorch's asks for what keeps memory on the device. A profiler may, at the end."""
    fermata = world(stack)
    p, seen, did = fermata.program(work("libraries"), "--memory", cls=Program), {}, None
    mark = 0
    while did != "profiler":
        said = json.loads(p.line("{", after=mark, seconds=200))
        did, mark = said["did"], p.mark()
        new = [pin for pin in named(fermata, p.pid) if pin not in seen]
        seen.update(dict.fromkeys(new, did))
        print(f"         {did}: {'; '.join(new) or 'nothing'}{' (' + said['error'] + ')' if said['error'] else ''}")
        p.tell("next")
    check(p.wait(200) == 0, f"status {p.p.returncode}")
    pinned = [f"{did}: {pin}" for pin, did in seen.items() if did != "profiler"]
    check(not pinned, f"pinned by {pinned}")


def told_of_a_limit(stack):
    """The limit, and what is left of it, whatever neighbours do."""
    fermata = world(stack)
    said = one_line(fermata, "info", "--memory-limit", "6G")
    check(said["total"] == 6 * GIB, f"PyTorch sees {said['total'] / GIB:.2f} GiB of 6")
    check(3 * GIB < said["free"] < 6 * GIB, f"PyTorch sees {said['free'] / GIB:.2f} GiB left of 6")
    neighbour = fermata.program(work("hold", 2048))
    neighbour.line("{", seconds=200)
    beside = one_line(fermata, "info", "--memory-limit", "6G")
    check(beside["total"] == said["total"], "the total moves with a neighbour")
    check(abs(beside["free"] - said["free"]) <= 64 * MIB, f"free was {said['free']}, and {beside['free']} beside a neighbour")
    neighbour.p.stdin.close()
    check(neighbour.wait() == 0, "the neighbour failed")


def told_so_by_nvml(stack):
    with open(os.path.join(BUILD, "lib", "libfermata-cuda.so"), "rb") as f:
        if b"nvmlDeviceGetMemoryInfo" not in f.read():
            raise Skip("NVML's figures are left alone in this build")
    said = one_line(world(stack), "info", "--memory-limit", "6G")
    check(said["nvml"] and said["nvml"]["total"] == said["total"], f"NVML says {said['nvml']}")
    check(abs(said["nvml"]["free"] - said["free"]) <= 64 * MIB, f"NVML says {said['nvml']}, PyTorch {said['free']} free")


def refused_at_a_limit(stack):
    """Out of memory comes at the limit, and what is given back can be had again."""
    fermata = world(stack)
    said = one_line(fermata, "fill", "--memory-limit", "4G")
    print(f"         {said['reached'] / GIB:.2f} GiB of 4 before: {said['error']}")
    check(said["error"] and "out of memory" in said["error"], f"no error, but {said}")
    check(2.5 * GIB < said["reached"] <= 4 * GIB, f"refused at {said['reached'] / GIB:.2f} GiB")
    check(said["right"] and said["kept"] < said["reached"], f"{said}")


class Process(ctypes.Structure):  # nvmlProcessInfo_t
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint)]


def by_nvml():
    """Bytes of each process, as NVML counts them."""
    try:
        lib = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as e:
        raise Skip(str(e)) from e
    device, n, list_ = ctypes.c_void_p(), ctypes.c_uint(64), (Process * 64)()
    check(not lib.nvmlInit_v2() and not lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)), "NVML does not work")
    rc = lib.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(n), list_)
    check(not rc, f"NVML lists no processes: {rc}")
    return {p.pid: p.used for p in list_[: n.value] if p.used < 1 << 60}


def committed(fermata, pid):
    """Bytes of a program's own group by Fermata's account, on all its devices."""
    return sum(m["committed_bytes"] for m in fermata.group(pid)["memory"])


def counted_as_nvml_counts(stack):
    """Contexts included, but not the code that a program loads: what is counted is never more, and nearly all of it."""
    fermata = world(stack)
    programs = []
    for mib in (1024, 3072):  # one after the other: a context is measured as the fall of the device's free memory
        programs.append(fermata.program(work("hold", mib), "--memory-limit", "16G"))
        programs[-1].line("{", seconds=200)
    nvml = by_nvml()
    if not all(p.pid in nvml for p in programs):
        raise Skip("NVML does not know processes by the numbers that they have here")
    for p in programs:
        ours = committed(fermata, p.pid)
        print(f"         {ours / MIB:.0f} MiB, NVML {nvml[p.pid] / MIB:.0f}")
        check(0.85 * nvml[p.pid] <= ours <= 1.01 * nvml[p.pid], f"{ours} bytes counted, NVML says {nvml[p.pid]}")
        p.p.stdin.close()
        check(p.wait() == 0, "a program failed")


def digests(lines):
    return [line.split()[2] for line in lines if line.startswith("round ")]


class Out(Steering):
    def out(self, pid):
        """False: it has ended."""
        self.sock.sendall(json.dumps({"cmd": "suspend", "target": str(pid), "out": True}).encode() + b"\n")
        reply = json.loads(self.replies.readline())
        check(reply["ok"] or reply["error"]["code"] == "ENOENT", f"suspend --out: {reply}")
        return reply["ok"]


    def is_out(self, pid):
        self.sock.sendall(json.dumps({"cmd": "away", "target": str(pid)}).encode() + b"\n")
        reply = json.loads(self.replies.readline())
        check(reply["ok"], f"away: {reply}")
        return all(not m["resident"] for m in reply["memory"])


def same_results(p, expected):
    p.tell("stop")
    check(p.wait(200) == 0, f"a program ended with status {p.p.returncode}")
    p.reader.join()
    got = digests(line for line in p.lines if line)
    wrong = [(i, d) for i, d in enumerate(got) if d != expected[i % KINDS]]
    check(not wrong, f"other results than natively in {len(wrong)} of {len(got)} rounds: {wrong[:4]}")
    return len(got)


def out_and_in_at_random(stack):
    """Programs whose memory may be moved, put out and brought back while they work."""
    expected = digests(native("rounds", KINDS))
    check(len(expected) == KINDS, "a native run says too little")
    fermata = world(stack)
    if "--out" not in fermata.cli("suspend", "--help").stdout:
        raise Skip("nothing goes out by hand in this build")
    programs = [fermata.program(work("rounds"), "--memory", cls=Program) for _ in range(PROGRAMS)]
    for p in programs:
        p.line("round 0 ", seconds=300)
        kinds = [m["kinds"] for m in fermata.group(p.pid)["memory"]]
        check(sum(k.get("movable", 0) for k in kinds) > 100 * MIB, f"nothing of it may move: {kinds}")
    rng, steer, n = random.Random(3), Out(stack, fermata), 0
    end = time.monotonic() + 150
    while n < OUTS and time.monotonic() < end:
        some = rng.sample(programs, rng.randint(1, 3))
        for p in some:
            n += steer.out(p.pid)
        if rng.random() < 0.5:
            for p in some:
                eventually(f"{p.pid} is out", lambda pid=p.pid: steer.is_out(pid))
        else:
            time.sleep(rng.uniform(0, 0.05))
        for p in some:
            steer("resume", p.pid)
    print(f"         {n} times out")
    rounds = sum(same_results(p, expected) for p in programs)
    print(f"         {rounds} rounds, all as natively")
    check(n >= min(OUTS, 50) and rounds > 2 * PROGRAMS, "too little happened to tell")


def out_is_off_the_device(stack):
    """What went out is the device's to give to others."""
    fermata = world(stack)
    if "--out" not in fermata.cli("suspend", "--help").stdout:
        raise Skip("nothing goes out by hand in this build")
    p = fermata.program(work("rounds"), "--memory")
    p.line("round 1 ", seconds=300)
    before = json.loads(native("info")[0])["nvml"]["used"]
    there = sum(m["movable_bytes"] for m in fermata.group(p.pid)["memory"])
    check(there > 100 * MIB, f"{there} bytes may move")
    steer = Out(stack, fermata)
    steer.out(p.pid)
    eventually("it is out", lambda: steer.is_out(p.pid))
    eventually(f"{there} bytes are free again", lambda: before - json.loads(native("info")[0])["nvml"]["used"] >= 0.9 * there, 60)
    fermata.cli("resume", str(p.pid))
    same_results(p, digests(native("rounds", KINDS)))


def larger_than_the_device(stack):
    """What a smaller device has no room for runs from the host, to the same results; without a limit above it the program
    is told that there is no memory."""
    expected = digests(native("rounds", KINDS))
    fermata = Fermata(stack, config="[memory]\ndevice_limit = 1200M\n")  # the rounds take 1.3 GiB, and a context
    p = fermata.program(work("rounds"), "--memory")
    check(p.wait(300) != 0, "with --memory alone it had room")
    p = fermata.program(work("rounds"), "--memory=8G")
    p.line("round 1 ", seconds=300)
    mapped = sum(m["mapped_bytes"] for m in fermata.group(p.pid)["memory"])
    resident = sum(m["resident_bytes"] for m in fermata.group(p.pid)["memory"])
    check(mapped > 100 * MIB and resident <= 1200 * MIB, f"{mapped >> 20} MiB run from the host, {resident >> 20} not")
    check("runs from the host" in fermata.cli("why", str(p.pid)).stdout, "why does not say so")
    steer = Out(stack, fermata)
    for _ in range(3):  # what is on the device goes out and comes in
        steer.out(p.pid)
        eventually("it is out", lambda: steer.is_out(p.pid))
        steer("resume", p.pid)
        p.line("round", after=p.mark(), seconds=300)
    rounds = same_results(p, expected)
    print(f"         {mapped >> 20} MiB from the host, {rounds} rounds, all as natively")


def goes_on_without_room(stack):
    """The device has no room when memory is to come in: the program runs from the host, and its memory comes in later."""
    expected = digests(native("rounds", KINDS))
    fermata = Fermata(stack)
    fermata.env = {**fermata.env, "FERMATA_MEMORY_WAIT": "1s"}
    p = fermata.program(work("rounds"), "--memory", cls=Program)
    p.line("round 1 ", seconds=300)
    steer = Out(stack, fermata)
    steer.out(p.pid)
    eventually("it is out", lambda: steer.is_out(p.pid))
    left = json.loads(native("info")[0])["free"]
    other = fermata.program(work("fills", (left >> 20) - 900), "--memory", "--memory-pin", cls=Program)
    other.line("{", seconds=200)
    steer("resume", p.pid)
    eventually("it runs from the host", lambda: sum(m["mapped_bytes"] for m in fermata.group(p.pid)["memory"]) > 100 * MIB, 60)
    p.line("round", after=p.mark(), seconds=300)
    other.kill()
    eventually("it is on the device", lambda: not sum(m["mapped_bytes"] for m in fermata.group(p.pid)["memory"]), 60)
    print(f"         {same_results(p, expected)} rounds, all as natively")


if __name__ == "__main__":
    try:
        native("info")
    except Skip as e:
        print(f"skipped: {e}")
        sys.exit(77)
    main(libraries_pin_nothing, told_of_a_limit, told_so_by_nvml, refused_at_a_limit, counted_as_nvml_counts,
         out_and_in_at_random, out_is_off_the_device, larger_than_the_device, goes_on_without_room)
