#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Vulkan's driver does with queues that wait for the host for long, natively and where Fermata stops them; programs whose
queues binary semaphores order; and CUDA programs beside Vulkan programs. On the first device that there is, lavapipe too.
Says what it found; fails if a result is wrong, a queue that should stand does not, or one does not go on. What holds up what (pairs, a
full ring) differs between drivers, and is only said. In the environment: SECONDS (20), for which queues stand."""
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, Skip, Worker, check, cuda_env, eventually, main, program

GPU = program("gpu_vulkan")
REAL = os.environ.get("FERMATA_TEST_VULKAN") == "real"
WORKER = [program("vulkan_worker"), "20000" if REAL else "300"]
SECONDS = int(os.environ.get("SECONDS", "20"))


def native(*argv):
    r = subprocess.run([GPU, *argv], text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS + 90)
    if r.returncode == 77 and not os.environ.get("VK_DRIVER_FILES"):
        raise Skip("there is no Vulkan device")
    check(r.returncode == 0, f"gpu_vulkan {' '.join(argv)}: status {r.returncode}: {r.stdout[-1000:]} {r.stderr[-1000:]}")
    print("         " + r.stdout.strip().replace("\n", "\n         "), flush=True)
    return r.stdout


def worker(fermata, *options, how=()):
    w = fermata.program([WORKER[0], *how, *WORKER[1:]], *options, cls=Worker)
    w.line("first")
    fermata.knows(w.pid)
    return w


def device(fermata, pid):
    return {q["device"] for g in fermata.ps()["groups"] for q in g["queues"] if q["pid"] == pid}


def closed(stack):
    """For long, with work behind: once by a semaphore of the program's, and at the same time suspended by Fermata, beside one that
    works. The driver must not take it for one that hangs."""
    fermata = Fermata(stack)
    programs = [worker(fermata), worker(fermata, how=["depth=200", "wait=queue"])]
    for w in programs:
        fermata.cli("suspend", str(w.pid))
        w.stands()
    at = [w.position() for w in programs]
    beside = worker(fermata)
    since = time.monotonic()
    native("closed", str(SECONDS))
    beside.advances()
    check([w.position() for w in programs] == at, "what was suspended went on")
    print(f"         suspended for {time.monotonic() - since:.0f} s", flush=True)
    for w in programs:
        fermata.cli("resume", str(w.pid))
    for w in (*programs, beside):
        w.advances()
        w.finish()


def pairs(stack):
    native("pairs")


def ring(stack):
    native("ring", "4000")
    fermata = Fermata(stack)
    w = worker(fermata, how=["depth=2000", "wait=queue"])
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.advances(2000)
    w.finish()


def binary(stack):
    fermata = Fermata(stack)
    for how in "binary", "chain":
        said = native(how, "400")
        p = fermata.program([GPU, how, "400"])
        n = fermata.suspend_at_random(random.Random(35), [p])
        check(p.wait() == 0, f"{how}: status {p.p.returncode}, suspended {n} times")
        p.reader.join()
        check(p.lines[0] == said.strip() and n, f"{how}: {p.lines} after {n} suspensions")
        print(f"         suspended {n} times", flush=True)


def killed(stack):
    """At a closed gate: others go on."""
    fermata = Fermata(stack)
    for _ in range(3):
        w, beside = worker(fermata), worker(fermata)
        fermata.cli("suspend", str(w.pid))
        w.stands()
        w.kill(signal.SIGKILL)
        w.wait()
        eventually("it is forgotten", lambda: not fermata.group(w.pid))
        beside.advances()
        beside.finish()


def stops(fermata, pid):
    return sum(d["preemptions"] for d in fermata.group(pid)["devices"])


def beside_cuda(stack):
    """One device for both; the urgent one has it, whichever it is. It always has work: the other one may be stopped just once, when
    it comes."""
    fermata = Fermata(stack)
    fermata.env = cuda_env(fermata.env)
    if os.environ.get("FERMATA_TEST_CUDA") != "real":
        raise Skip("CUDA's driver is not a real one")
    cuda = fermata.cuda_worker("--priority", "low")
    cuda.advances()
    before = stops(fermata, cuda.pid)
    vulkan = worker(fermata, "--priority", "high")
    same = device(fermata, cuda.pid) | device(fermata, vulkan.pid)
    check(len(same) == 1, f"they have different devices: {same}")
    vulkan.advances(100)
    eventually("CUDA was stopped for Vulkan", lambda: stops(fermata, cuda.pid) > before)
    vulkan.finish()
    cuda.advances()
    cuda.finish()
    vulkan = worker(fermata, "--priority", "low")
    vulkan.advances()
    before = stops(fermata, vulkan.pid)
    high = fermata.cuda_worker("--priority", "high")
    high.advances(100)
    eventually("Vulkan was stopped for CUDA", lambda: stops(fermata, vulkan.pid) > before)
    high.finish()
    vulkan.advances()
    vulkan.finish()


main(closed, pairs, ring, binary, killed, beside_cuda)
